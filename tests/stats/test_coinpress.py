"""CoinPress: accuracy on Gaussian rows, privacy on any rows."""

import math
from dataclasses import replace

import numpy as np
import pytest

from skdp import BudgetAccountant
from skdp.calibration import gaussian_shift
from skdp.random_bits import RandomBits
from skdp.stats import DPCovariance
from skdp.stats._coinpress import (
    coinpress,
    coinpress_mean,
    plan_coinpress,
)
from skdp.stats._release import Release
from tests.auditing import lower_bound

TARGETS = ("mean", "covariance")


def steps_of(plan):
    return (*plan.scale, *plan.center, plan.final)


def gaussian_rows(n_rows, d=5, condition=100.0, radius=100.0, seed=0):
    """Rows of N(mean, covariance), with the inverse root of the covariance."""
    rng = np.random.default_rng(seed)
    turn = np.linalg.qr(rng.normal(size=(d, d)))[0]
    values = np.geomspace(1, condition, d)
    mean = rng.normal(size=d)
    mean *= radius / np.linalg.norm(mean)
    root = (turn * np.sqrt(values)) @ turn.T
    X = mean + rng.normal(size=(n_rows, d)) @ root
    return X, mean, (turn * values) @ turn.T, (turn / np.sqrt(values)) @ turn.T


# --- The plan


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("spread", [(1, 10), (1, 1.5)])
def test_shares_are_one_gaussian_release(target, spread):
    plan = plan_coinpress(20_000, 3, 1.0, 1e-6, radius=10, spread=spread, target=target)
    total = sum(step.rate**2 for step in steps_of(plan))
    assert math.isclose(math.sqrt(total), gaussian_shift(1.0, 1e-6), rel_tol=1e-12)
    assert 0.999 < plan.event.epsilon(1e-6) <= 1 + 1e-9
    assert len(plan.event.events) == len(steps_of(plan))
    assert bool(plan.scale) == (spread == (1, 10))


REFUSED = {
    "pure": ({"delta": 0}, "delta > 0.*bounds"),
    "add_remove": ({"neighboring": "add_remove"}, "neighboring='replace'"),
    "one row": ({"n_rows": 1}, "n_samples"),
    "few rows": ({"n_rows": 200}, "too few rows"),
    "radius": ({"radius": -1}, "radius"),
    "radius far": ({"radius": 1e49, "spread": (1e-5, 1)}, "radius"),
    "spread": ({"spread": (2, 1)}, "spread"),
    "spread zero": ({"spread": (0, 1)}, "spread"),
    "spread wide": ({"spread": (1e-20, 1)}, "spread"),
    "target": ({"target": "median"}, "target"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_refusals(name):
    changed, words = REFUSED[name]
    options = {
        "n_rows": 20_000,
        "n_features": 3,
        "epsilon": 1.0,
        "delta": 1e-6,
        "radius": 10,
        "spread": (1, 10),
        **changed,
    }
    with pytest.raises(ValueError, match=words):
        plan_coinpress(**options)


def test_a_spread_is_a_pair():
    with pytest.raises(TypeError, match="spread"):
        plan_coinpress(100, 1, 1.0, 1e-6, radius=1, spread=3.0)


# --- Accuracy


def run(n_rows, target, seed):
    """Errors of ours and of the non-private estimates, in units of the covariance."""
    X, mean, covariance, inverse = gaussian_rows(n_rows, seed=seed)
    plan = plan_coinpress(
        n_rows, 5, 1.0, 1e-6, radius=100, spread=(1, 10), target=target
    )
    found = coinpress(plan, X, RandomBits(seed))
    errors = [
        np.linalg.norm(inverse @ (value - mean))
        for value in (found.mean, X.mean(axis=0))
    ]
    if target == "covariance":
        errors += [
            np.linalg.norm(inverse @ (value - covariance) @ inverse)
            for value in (found.covariance, np.cov(X.T))
        ]
    return errors


def test_errors_are_near_the_non_private_ones():
    """A mean within 100, condition number 100, epsilon 1."""
    ours, theirs = np.mean([run(10_000, "mean", seed) for seed in range(20)], axis=0)
    assert ours < 1.5 * theirs
    found = np.mean([run(10_000, "covariance", seed) for seed in range(20)], axis=0)
    assert found[0] < 2 * found[1] and found[2] < 3 * found[3]
    found = np.mean([run(100_000, "covariance", seed) for seed in range(5)], axis=0)
    assert found[0] < 1.3 * found[1] and found[2] < 1.4 * found[3]


def test_stated_noise_is_the_noise():
    """The spread over runs: not below what the last step adds, and not far above."""
    X = gaussian_rows(20_000, 3, condition=2.0, radius=5.0)[0]
    plan = plan_coinpress(
        20_000, 3, 1.0, 1e-6, radius=10, spread=(1, 1.9), target="covariance"
    )
    found = [coinpress(plan, X, RandomBits(seed)) for seed in range(200)]
    for value, stated in (("mean", "mean_std"), ("covariance", "covariance_std")):
        ratio = np.std([getattr(one, value) for one in found], axis=0)
        ratio /= np.mean([getattr(one, stated) for one in found], axis=0)
        assert (0.7 < ratio).all() and (ratio < 1.3).all()


def test_mean_alone():
    X, mean, covariance, _ = gaussian_rows(10_000)
    plan = plan_coinpress(10_000, 5, 1.0, 1e-6, radius=100, spread=(1, 10))
    found, std, variance = coinpress_mean(plan, X, RandomBits(0))
    assert (np.abs(found - mean) < 6 * (std + np.sqrt(variance / 10_000))).all()
    ratio = variance / np.diag(covariance)
    assert (0.5 < ratio).all() and (ratio < 3).all()


# --- Privacy


class Recorder:
    """Stands for a release: keeps what it is given, and repeats noisy values."""

    def __init__(self, release, replay=None, noise=1.0):
        self.release, self.replay, self.exact = release, replay, None
        self.used = replace(release, rate=release.rate / noise)

    def __getattr__(self, name):
        return getattr(self.release, name)

    def add(self, values, bits):
        self.exact = np.array(values, dtype=float)
        if self.replay is None:
            self.noisy = self.used.add(values, bits)
        else:
            self.noisy = self.replay
        return self.noisy


def recorded(plan, noisy=None, noise=1.0):
    """The plan with recorders; each center step is one object of its own."""
    replays = [None] * len(steps_of(plan)) if noisy is None else noisy
    parts = [
        Recorder(step, replay, noise)
        for step, replay in zip(steps_of(plan), replays, strict=True)
    ]
    cut = len(plan.scale)
    return replace(
        plan, scale=tuple(parts[:cut]), center=tuple(parts[cut:-1]), final=parts[-1]
    )


def both(plan, X, other, bits, noise=1.0):
    """What every step sees of X and, after the same outputs, of the other rows."""
    first = recorded(plan, noise=noise)
    coinpress(first, X, bits)
    noisy = [step.noisy for step in steps_of(first)]
    second = recorded(plan, noisy)
    coinpress(second, other, bits)
    pairs = zip(steps_of(first), steps_of(second), strict=True)
    return [(a.exact, b.exact, a.noisy) for a, b in pairs]


def neighbours(n_rows=800, cosine=-0.5):
    """Far rows, at 120 degrees nearly the worst for every step together."""
    X = np.random.default_rng(0).normal(size=(n_rows, 2))
    one, other = X.copy(), X.copy()
    one[0] = 1e4 * np.array([1.0, 0.0])
    other[0] = 1e4 * np.array([cosine, math.sqrt(1 - cosine**2)])
    return one, other


@pytest.mark.parametrize("target", TARGETS)
def test_sensitivity_of_every_step(target):
    """On any rows, after any outputs, by the very functions that run."""
    rng, bits = np.random.default_rng(1), RandomBits(0)
    plan = plan_coinpress(800, 2, 2.0, 0.01, radius=10, spread=(1, 5), target=target)
    assert plan.scale
    largest = np.zeros(len(steps_of(plan)))
    for trial in range(150):
        size = 10.0 ** rng.integers(-3, 300)
        X = rng.normal(size=(800, 2)) * rng.choice([1.0, size], size=(800, 1))
        other = X.copy()
        other[trial] = rng.normal(size=2) * rng.choice([0.0, 1.0, 1e3, size])
        if trial == 0:
            X, other = neighbours()
        found = both(plan, X, other, bits)
        gaps = [np.linalg.norm(a - b) for a, b, _ in found]
        limits = [step.sensitivity for step in steps_of(plan)]
        assert all(gap <= limit for gap, limit in zip(gaps, limits, strict=True))
        largest = np.maximum(largest, np.array(gaps) / limits)
    assert (largest > 0.8).all()  # the constants are not far too large


# For the mean rows opposite to each other are the worst, where the scale is known.
AUDITS = {
    "mean": (100, -1.0, {"spread": (1, 1.9)}),
    "covariance": (800, -0.5, {"spread": (1, 5)}),
}


def coinpress_audit(target, count, noise=1.0):
    """Log likelihood ratios of whole runs, each step given the ones before."""
    delta, bits = 0.1, RandomBits()
    n_rows, cosine, options = AUDITS[target]
    plan = plan_coinpress(n_rows, 2, 1.0, delta, radius=10, target=target, **options)
    X, other = neighbours(n_rows, cosine)

    def ratio(first, second, sign):
        total = 0.0
        parts = zip(both(plan, first, second, bits, noise), steps_of(plan), strict=True)
        for (a, b, noisy), step in parts:
            near, far = np.sum((noisy - a) ** 2), np.sum((noisy - b) ** 2)
            total += sign * (far - near) / (2 * step.scale**2)
        return total

    values = [
        np.array([ratio(*data, sign) for _ in range(count)])
        for data, sign in (((X, other), 1), ((other, X), -1))
    ]
    return lower_bound(*values, delta)


def test_half_the_noise_is_caught():
    assert coinpress_audit("mean", 2500, noise=0.5) > 1.0


@pytest.mark.slow
@pytest.mark.parametrize("target", TARGETS)
def test_audit(target):
    """About 0.5, with a standard error of 0.04 or less: 6 of them from the limit."""
    assert 0.25 < coinpress_audit(target, 6000) <= 1.0


@pytest.mark.slow
def test_less_noise_is_caught_of_covariances():
    assert coinpress_audit("covariance", 2000, noise=0.35) > 1.0


@pytest.mark.parametrize("target", TARGETS)
def test_odd_rows_give_finite_results(target):
    plan = plan_coinpress(800, 2, 1.0, 0.1, radius=10, spread=(1, 5), target=target)
    for X in (
        np.zeros((800, 2)),
        np.full((800, 2), 1e300),
        np.full((800, 2), -7),
        np.full((800, 2), 1e38, dtype=np.float32),
        np.outer(np.arange(800), [1e300, -1e300]) / 800,
    ):
        found = coinpress(plan, X, RandomBits(0))
        assert np.isfinite(found.mean).all() and np.isfinite(found.mean_std).all()
        if target == "covariance":
            assert np.isfinite(found.covariance).all()
            assert np.linalg.eigvalsh(found.covariance)[0] >= -1e-9
    with pytest.raises(ValueError, match="shape"):
        coinpress(plan, np.zeros((3, 2)), RandomBits(0))


# --- In the estimator


def test_estimator():
    X, mean, covariance, inverse = gaussian_rows(20_000)
    budget = BudgetAccountant(10.0)
    model = DPCovariance(
        method="coinpress", radius=100, spread=(1, 10), accountant=budget
    ).fit(X)
    assert len(budget.spends) == 1
    assert model.privacy_cost(20_000, 5) == model.privacy_.event
    assert np.linalg.norm(inverse @ (model.covariance_ - covariance) @ inverse) < 0.5
    assert np.abs(inverse @ (model.location_ - mean)).max() < 0.2
    low, high = model.interval(0.999)
    assert np.mean((low <= covariance) & (covariance <= high)) > 0.8
    assert "radius" in str(model.privacy_) and not hasattr(model, "bounds_")


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"delta": 0.0}, "delta > 0"),
        ({"neighboring": "add_remove"}, "replace"),
        ({"missing": "drop"}, "missing"),
        ({"spread": (2, 1)}, "spread"),
        ({"radius": math.nan}, "radius"),
        ({"spread": (1e-6, 10)}, "too few rows"),
    ],
)
def test_bad_input_costs_nothing(options, words):
    relation = options.get("neighboring", "replace")
    budget = BudgetAccountant(10.0, neighboring=relation)
    model = DPCovariance(method="coinpress", accountant=budget, **options)
    with pytest.raises(ValueError, match=words):
        model.fit(np.zeros((100, 2)))
    assert list(budget.spends) == []


def test_releases_are_the_only_way_out():
    """Without noise the run is a function of what the releases return."""
    plan = plan_coinpress(800, 2, 1.0, 0.1, radius=10, spread=(1, 5))
    X, other = neighbours()
    first = recorded(plan)
    found = coinpress(first, X, RandomBits(0))
    again = recorded(plan, [step.noisy for step in steps_of(first)])
    same = coinpress(again, other, RandomBits(1))
    for a, b in zip(found, same, strict=True):
        assert (a is None and b is None) or np.array_equal(a, b)
    assert all(isinstance(step, Release) for step in steps_of(plan))
