"""Covariance matrices: sensitivities, audits, results, and what is refused."""

import copy
import math
import pickle
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone
from sklearn.utils.estimator_checks import parametrize_with_checks

from skdp import BudgetAccountant
from skdp.random_bits import RandomBits
from skdp.stats import DPCovariance, cov
from skdp.stats._second_moments import (
    ball_rows,
    box_rows,
    clip_norms,
    l1_sensitivity,
    l2_sensitivity,
    moment_sums,
    pack,
    plan_moments,
    positive_part,
    sum_error,
)
from tests.auditing import lower_bound

RELATIONS = ("replace", "add_remove")
KINDS = ("gaussian", "laplace")
EXACT = {"epsilon": 1e6, "delta": 1e-6}


@parametrize_with_checks(
    [
        DPCovariance(neighboring=relation, missing=missing)
        for relation in RELATIONS
        for missing in ("error", "drop")
    ]
    + [DPCovariance(delta=0.0), DPCovariance(row_norm=0.5, ddof=1)]
)
def test_scikit_learn_checks(estimator, check):
    check(estimator)


# --- Sensitivities


def packed(rows, kind, plan):
    gram, sums, count = moment_sums([np.atleast_2d(rows)], np.shape(rows)[-1])
    return pack(gram, sums, count, kind, plan.c, plan.e)


def unit_rows(rng, d):
    """Rows of norm at most one, often exactly one."""
    rows = rng.normal(size=(2, d)) * rng.choice([0.3, 1.0, 10.0], size=(2, 1))
    return clip_norms(rows)


@pytest.mark.parametrize("sums", [True, False])
@pytest.mark.parametrize("missing", [False, True])
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("relation", RELATIONS)
def test_sensitivity_by_search(relation, kind, missing, sums):
    rng, order = np.random.default_rng(0), 2 if kind == "gaussian" else 1
    for d in (1, 2, 5):
        options = {"sums": sums, "missing": missing}
        plan = plan_moments(d, 100, 1.0, 1e-6, kind, relation, **options)
        found = 0.0
        for _ in range(1500):
            first, second = (packed(row, kind, plan) for row in unit_rows(rng, d))
            if relation == "add_remove" or (missing and rng.integers(2)):
                second = 0 * second
            found = max(found, np.linalg.norm(first - second, order))
        assert found <= plan.release.sensitivity
        if order == 2 and d == 2 and sums:  # and no more than is needed
            assert found > 0.97 * plan.release.sensitivity


@pytest.mark.parametrize("d", [1, 2, 3, 6])
def test_sensitivity_in_a_box(d):
    rng = np.random.default_rng(d)
    largest = 1 / math.sqrt(d)
    plan = plan_moments(d, 10, 1.0, 0.0, "laplace", "replace", largest=largest)
    found = 0.0
    for _ in range(3000):
        rows = rng.choice([-1.0, -0.5, 0.0, 1.0], size=(2, d)) * largest
        first, second = (packed(row, "laplace", plan) for row in rows)
        found = max(found, np.abs(first - second).sum())
    assert found <= plan.release.sensitivity
    assert found > (0.99 if d == 1 else 0.5) * plan.release.sensitivity


def test_constants():
    assert math.isclose(l2_sensitivity(1.0, 0.0, "replace"), 3 / math.sqrt(2))
    assert math.isclose(l2_sensitivity(0.0, 0.0, "replace"), math.sqrt(2))
    assert l2_sensitivity(0.0, 0.0, "add_remove") == 1
    assert l2_sensitivity(0.0, 9.0, "replace") < l2_sensitivity(
        0.0, 9.0, "replace", True
    )
    assert l1_sensitivity(1, 0.0, 0.0, "replace", False) == 1
    assert l1_sensitivity(1, 1.0, 0.0, "replace", False) == 2.25
    assert l1_sensitivity(4, 0.0, 0.0, "add_remove", False) == 2.5


@pytest.mark.parametrize("n_rows", [300, 40_000])
def test_rounding_errors_of_sums(n_rows):
    """The order of rows changes float sums by less than the plan allows for."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(n_rows, 3)) * 10.0 ** rng.integers(-3, 4, size=(n_rows, 1))
    sums = [
        moment_sums(ball_rows(Z, np.zeros(3), 1.0), 3)
        for Z in (X, X[rng.permutation(n_rows)])
    ]
    gaps = [np.linalg.norm(a - b) for a, b in zip(*sums, strict=True)]
    assert max(gaps) <= sum_error(n_rows, 3)


def test_rows_have_norm_one_at_most():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(1000, 4)) * 10.0 ** rng.integers(-300, 300, size=(1000, 1))
    low, high = np.full(4, -1.0), np.array([1.0, 2.0, 3.0, 4e100])
    for norm in (0.1, 1.0, 2.0):
        for rows in box_rows(X, low, high, norm, False):
            assert np.isfinite(rows).all()
            assert np.linalg.norm(rows, axis=1).max() <= 1 + 1e-12
    for center in (np.zeros(4), np.full(4, 1e300)):
        for norm in (1e-100, 1.0, 1e100):
            for rows in ball_rows(X, center, norm):
                assert np.isfinite(rows).all()
                assert np.linalg.norm(rows, axis=1).max() <= 1 + 1e-12


# --- Audits

DELTA = 0.1  # a large delta has its worst event in the bulk, where there are counts


def worst_rows(kind, plan):
    """Two rows that are as far apart as the theorem allows."""
    if kind == "laplace":  # one feature
        return np.array([[1.0]]), np.array([[-plan.c / 2]])
    cosine = -(plan.c**2) / 2
    return np.array([[1.0, 0.0]]), np.array([[cosine, math.sqrt(1 - cosine**2)]])


def moment_audit(relation, kind, count, noise=1.0, **options):
    """Log likelihood ratios of the noisy moments of two worst-case neighbours."""
    d = 1 if kind == "laplace" else 2
    delta = 0.0 if kind == "laplace" else DELTA
    plan = plan_moments(d, 10, 1.0, delta, kind, relation, **options)
    release, bits = plan.release, RandomBits()
    used = replace(release, rate=release.rate / noise)
    rest = np.full((4, d), 0.5)
    one, other = worst_rows(kind, plan)
    data = [np.vstack([rest, one])]
    data.append(rest if relation == "add_remove" else np.vstack([rest, other]))
    a, b = (packed(X, kind, plan) for X in data)

    def ratio(noisy):
        if kind == "gaussian":
            return noisy @ (a - b) / release.scale**2
        return (np.abs(noisy - b) - np.abs(noisy - a)).sum(axis=1) / release.scale

    # Many releases at once: the grid pays for the rounding of all of them.
    values = [ratio(used.add(np.tile(z, (count, 1)), bits)) for z in (a, b)]
    return lower_bound(*values, delta)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("relation", RELATIONS)
def test_audit(relation, kind):
    assert 0.5 < moment_audit(relation, kind, 20_000) <= 1.0
    assert moment_audit(relation, kind, 10_000, noise=0.5) > 1.0


@pytest.mark.parametrize("relation", RELATIONS)
def test_audit_without_sums(relation):
    assert 0.5 < moment_audit(relation, "gaussian", 20_000, sums=False) <= 1.0


@pytest.mark.slow
def test_audit_of_whole_fits():
    """By the location alone: a part of what is released, so the bound is loose."""
    X = np.zeros((50, 1))
    X[-1] = 1.0
    model, values = DPCovariance(1.0, DELTA, method="gaussian"), []
    for data in (X, np.vstack([X[:-1], [[-1.0]]])):
        fits = [model.fit(data).location_[0] for _ in range(20_000)]
        values.append(np.array(fits))
    assert 0.2 < lower_bound(*values, DELTA) <= 1.0


# --- Results


def correlated(n_rows, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.uniform(-1, 1, size=(n_rows, 3))
    X[:, 1] = (X[:, 0] + X[:, 1]) / 2
    return X * [1, 10, 0.1] + [0, 50, -3]


BOUNDS = ([-1, 40, -3.1], [1, 60, -2.9])


@pytest.mark.parametrize("relation", RELATIONS)
@pytest.mark.parametrize("missing", ["error", "drop"])
@pytest.mark.parametrize("ddof", [0, 1])
def test_large_epsilon_is_numpy(relation, missing, ddof):
    X = correlated(500)
    options = {"neighboring": relation, "missing": missing, "ddof": ddof}
    model = DPCovariance(**EXACT, bounds=BOUNDS, **options)
    used = X
    if missing == "drop":
        X[7, 1] = np.nan
        used = np.delete(X, 7, axis=0)
    model.fit(X)
    np.testing.assert_allclose(model.location_, used.mean(axis=0), rtol=1e-3, atol=1e-3)
    scale = np.sqrt(np.outer(used.var(axis=0), used.var(axis=0)))
    error = (model.covariance_ - np.cov(used.T, ddof=ddof)) / scale
    assert np.abs(error).max() < 1e-3
    assert np.abs(model.correlation() - np.corrcoef(used.T)).max() < 1e-2


@pytest.mark.parametrize("delta", [0.0, 1e-6])
@pytest.mark.parametrize("relation", RELATIONS)
def test_results_make_sense(relation, delta):
    X = correlated(40)
    for seed in range(20):
        model = DPCovariance(
            0.5, delta, bounds=BOUNDS, neighboring=relation, random_state=seed
        ).fit(X)
        found = model.covariance_
        np.testing.assert_array_equal(found, found.T)
        assert np.linalg.eigvalsh(found)[0] >= -1e-9 * np.trace(found)
        assert (model.location_ >= BOUNDS[0]).all()
        assert (model.location_ <= BOUNDS[1]).all()
        matrix = model.correlation()
        assert np.abs(matrix).max() <= 1 and (np.diag(matrix) == 1).all()
        low, high = model.interval(0.9)
        assert (low <= high).all() and (np.diag(low) >= 0).all()
        np.testing.assert_array_equal(low, low.T)
        assert (model.standard_error_ > 0).all()


@pytest.mark.parametrize("delta", [0.0, 1e-6])
@pytest.mark.parametrize("relation", RELATIONS)
def test_standard_errors_and_intervals(relation, delta):
    """The stated noise is the noise; intervals cover what rows come from."""
    X = correlated(4000)
    truth = np.array([[1, 5, 0], [5, 50, 0], [0, 0, 0.01]]) / 3
    exact, errors, stated, inside = np.cov(X.T, ddof=0), [], [], []
    for seed in range(300):
        model = DPCovariance(
            1.0, delta, bounds=BOUNDS, neighboring=relation, random_state=seed
        ).fit(X)
        errors.append(model.covariance_ - exact)
        stated.append(model.standard_error_)
        low, high = model.interval(0.9)
        inside.append((low <= truth) & (truth <= high))
    ratio = np.std(errors, axis=0) / np.mean(stated, axis=0)
    assert (0.75 < ratio).all() and (ratio < 1.25).all()
    assert np.mean(inside) > 0.9


def test_shorter_rows_have_less_noise():
    X = np.random.default_rng(0).uniform(-0.1, 0.1, size=(1000, 20))
    wide, narrow = (
        DPCovariance(row_norm=norm, random_state=0).fit(X) for norm in (None, 0.6)
    )
    ratio = wide.standard_error_[0, 1] / narrow.standard_error_[0, 1]
    assert 30 < ratio < 90  # (sqrt(20)/0.6)^2 = 56
    error = np.abs(narrow.covariance_ - np.cov(X.T, ddof=0)).max()
    assert error < 6 * narrow.standard_error_.max()


def test_bounds_can_be_found():
    X = np.random.default_rng(0).normal(5, 2, size=(20_000, 2))
    model = DPCovariance(2.0, bounds=None, outer_bounds=(-1000, 1000), random_state=0)
    model.fit(X)
    np.testing.assert_allclose(model.covariance_, 4 * np.eye(2), atol=0.5)
    assert (np.diff(model.bounds_, axis=0) < 40).all()
    assert model.privacy_.event.epsilon(1e-6) <= 2.0 + 1e-9
    assert model.privacy_cost(20_000, 2) == model.privacy_.event


def test_positive_part():
    matrix = np.array([[1.0, 2.0], [2.0, 1.0]])
    np.testing.assert_allclose(positive_part(matrix), [[1.5, 1.5], [1.5, 1.5]])
    fine = np.array([[2.0, 1.0], [1.0, 2.0]])
    np.testing.assert_array_equal(positive_part(fine), fine)


# --- The ways of an estimator


@pytest.mark.parametrize("relation", RELATIONS)
@pytest.mark.parametrize("delta", [0.0, 1e-6])
def test_budget_and_cost(relation, delta):
    budget = BudgetAccountant(10.0, neighboring=relation)
    X = np.zeros((20, 2))
    options = {"accountant": budget, "neighboring": relation}
    model = DPCovariance(1.0, delta, **options).fit(X)
    assert len(budget.spends) == 1
    assert model.privacy_cost(20, 2) == model.privacy_.event
    assert 0.999 < model.privacy_.event.epsilon(delta) <= 1 + 1e-9


def test_the_plan_sees_no_private_number():
    model = DPCovariance(neighboring="add_remove")
    assert model._plan(5, 2).release == model._plan(500, 2).release


def test_clone_pickle_and_names():
    X = pd.DataFrame(correlated(100), columns=["a", "b", "c"])
    model = DPCovariance(1.0, bounds=BOUNDS, random_state=3).fit(X)
    assert list(model.feature_names_in_) == ["a", "b", "c"]
    for other in (pickle.loads(pickle.dumps(model)), copy.deepcopy(model)):
        np.testing.assert_array_equal(other.predict(X), model.predict(X))
    found = clone(model).fit(X).covariance_
    np.testing.assert_array_equal(found, model.covariance_)
    assert model.predict(X).shape == (100, 3)


def test_function():
    X = correlated(100)
    found = cov(X, **EXACT, bounds=BOUNDS, ddof=1)
    np.testing.assert_allclose(found, np.cov(X.T), atol=1e-3)


ONE = np.zeros((5, 1))
BAD = {
    "nan": ({}, [[np.nan]], "NaN"),
    "inf": ({}, [[np.inf]], "infinity"),
    "inf, drop": ({"missing": "drop"}, [[np.inf]], "infinity"),
    "bounds reversed": ({"bounds": (1, -1)}, ONE, "bounds"),
    "bounds equal": ({"bounds": (1, 1)}, ONE, "bounds"),
    "bounds nan": ({"bounds": (np.nan, 1)}, ONE, "bounds"),
    "bounds huge": ({"bounds": (-1e300, 1)}, ONE, "bounds"),
    "bounds short": ({"bounds": ([0, 0], [1, 1])}, ONE, "bounds"),
    "no bounds": ({"bounds": None}, ONE, "outer_bounds"),
    "row_norm": ({"row_norm": 0}, ONE, "row_norm"),
    "row_norm inf": ({"row_norm": math.inf}, ONE, "row_norm"),
    "ddof": ({"ddof": 2}, ONE, "ddof"),
    "method": ({"method": "gauss"}, ONE, "method"),
    "gaussian, pure": ({"method": "gaussian", "delta": 0}, ONE, "delta > 0"),
    "missing": ({"missing": "ignore"}, ONE, "missing"),
    "hint": ({"n_samples_hint": 0}, ONE, "n_samples_hint"),
    "no rows": ({}, np.zeros((0, 1)), "minimum of 1"),
}


@pytest.mark.parametrize("name", BAD)
def test_bad_input_costs_nothing(name):
    options, X, words = BAD[name]
    budget = BudgetAccountant(10.0)
    with pytest.raises(ValueError, match=words):
        DPCovariance(**options, accountant=budget).fit(X)
    assert list(budget.spends) == []


def test_too_many_rows_for_the_hint():
    budget = BudgetAccountant(10.0, neighboring="add_remove")
    options = {"neighboring": "add_remove", "n_samples_hint": 10}
    with pytest.raises(ValueError, match="n_samples_hint"):
        DPCovariance(**options, accountant=budget).fit(np.zeros((65_537, 1)))
    assert list(budget.spends) == []


@pytest.mark.parametrize("relation", RELATIONS)
def test_odd_data_gives_finite_results(relation):
    for X in (
        [[0.3, 0.2]],
        np.full((50, 2), 7.0),
        np.full((50, 2), 1e300),
        np.full((50, 2), -1e300),
    ):
        for ddof in (0, 1):
            model = DPCovariance(neighboring=relation, ddof=ddof).fit(X)
            assert np.isfinite(model.covariance_).all()
            assert np.isfinite(model.interval(0.9)).all()


@pytest.mark.parametrize(
    "bounds", [(1.7e18, 1.7e18 + 1e9 + 256), (1e6, 1e6 + 0.1), (-5e8, -5e8 + 1)]
)
def test_rows_far_from_zero_have_their_norm(bounds):
    """The middle of the bounds is rounded; rows are not longer for it."""
    low, high = (np.array([value]) for value in bounds)
    X = np.concatenate([low, high, np.linspace(*bounds, 50)])[:, None]
    for rows in box_rows(X, low, high, 1.0, False):
        assert np.abs(rows).max() <= 1.0
