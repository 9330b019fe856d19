"""Gradient perturbation: clipped sums, batches, convergence and events."""

import math

import numpy as np
import pytest
from scipy import sparse, stats

from skdp import events
from skdp.erm import Huber, Logistic, SmoothedHinge, Softmax, Squared
from skdp.erm.descent import GradientPlan, _taken
from skdp.erm.perturbation import Bounds, Noise
from skdp.erm.rows import BLOCK, DenseRows
from skdp.erm.solvers import Problem, minimize
from skdp.erm.standardize import RowMap
from skdp.random_bits import RandomBits

LOSSES = {
    "logistic": Logistic(),
    "hinge": SmoothedHinge(0.5),
    "huber": Huber(0.7),
    "squared": Squared(),
    "softmax": Softmax(3),
}
BOTH = pytest.mark.parametrize("neighboring", ["replace", "add_remove"])
QUIET = Noise("gaussian", 1e7)  # a rate so large that there is no noise to speak of


def draw(loss, n, width, seed):
    rng = np.random.default_rng(seed)
    Z = rng.normal(size=(n, width))
    Z /= np.maximum(1, np.linalg.norm(Z, axis=1, keepdims=True))
    if loss.outputs > 1:
        return Z, rng.integers(loss.outputs, size=n)
    if isinstance(loss, Huber | Squared):
        return Z, np.clip(Z[:, 0] + 0.3 * rng.normal(size=n), -1, 1)
    return Z, np.where(Z[:, 0] + 0.5 * rng.normal(size=n) > 0, 1.0, -1.0)


def plan(loss, clip=1.0, noise=QUIET, steps=5, batches="full", **changes):
    options = {"sampling_rate": 0.3, "step_size": None, "neighboring": "add_remove"}
    return GradientPlan(loss, clip, noise, steps, batches, **{**options, **changes})


def shape_of(loss, width):
    return (width,) if loss.outputs == 1 else (width, loss.outputs)


# --- Clipped sums


def row_gradients(loss, Z, y, w):
    """Return the gradient of every row on its own, one by one."""
    found = []
    for z, target in zip(Z, y, strict=True):
        first = loss.evaluate((z @ w)[None], np.array([target])).first[0]
        found.append(np.multiply.outer(z, first).ravel())
    return np.array(found)


@pytest.mark.parametrize("clip", [0.05, 0.3, 5.0])
@pytest.mark.parametrize("name", LOSSES)
def test_the_sum_is_that_of_clipped_gradients(name, clip):
    loss = LOSSES[name]
    Z, y = draw(loss, 200, 4, seed=1)
    w = np.random.default_rng(2).normal(size=shape_of(loss, 4))
    each = row_gradients(loss, Z, y, w)
    lengths = np.linalg.norm(each, axis=1, keepdims=True)
    clipped = each * (clip / np.maximum(lengths, clip))
    expected = np.sum(clipped, axis=0)
    found = plan(loss, clip)._clipped_sum(DenseRows(Z, 1.0), y, w)
    np.testing.assert_allclose(found.ravel(), expected, atol=1e-12)
    chosen = np.arange(200) % 3 == 0
    part = np.sum(clipped[chosen], axis=0)
    found = plan(loss, clip)._clipped_sum(*_taken(DenseRows(Z, 1.0), y, chosen), w)
    np.testing.assert_allclose(found.ravel(), part, atol=1e-12)


@pytest.mark.parametrize("kind", ["dense", "sparse"])
@pytest.mark.parametrize("name", LOSSES)
def test_one_row_moves_the_sum_by_at_most_the_clip(name, kind):
    loss, clip, rng = LOSSES[name], 0.2, np.random.default_rng(3)
    rows_map = RowMap(rng.normal(size=3), np.array([1.0, 2.0, 0.5]), 2.0, 0.9, 0.4)
    X, y = rng.normal(size=(100, 3)), draw(loss, 100, 3, seed=4)[1]
    if name == "squared":
        y = 1e6 * y  # no bound of the targets is needed
    moves = []
    for _ in range(20):
        w = 3 * rng.normal(size=shape_of(loss, 4))
        sums = []
        for n in (99, 100):
            data = sparse.csr_matrix(X[:n]) if kind == "sparse" else X[:n]
            rows = rows_map.rows(data)
            sums.append(plan(loss, clip)._clipped_sum(rows, y[:n], w))
        moves.append(np.linalg.norm(sums[1] - sums[0]))
        X = np.roll(X, 1, axis=0)
        y = np.roll(y, 1)
    assert 0.9 * clip <= max(moves) <= clip * (1 + 1e-12) + 1e-12


def test_several_problems_are_clipped_together():
    Z, _ = draw(Logistic(), 50, 3, seed=5)
    y = np.random.default_rng(5).choice([-1.0, 1.0], (50, 4))
    w = np.random.default_rng(6).normal(size=(3, 4))
    first = plan(Logistic(), 0.1)._clipped_sum(DenseRows(Z, 1.0), y, w)
    rest = plan(Logistic(), 0.1)._clipped_sum(DenseRows(Z[1:], 1.0), y[1:], w)
    assert np.linalg.norm(first - rest) == pytest.approx(0.1, rel=1e-9)


# --- Batches


def test_disjoint_parts_use_every_row_once():
    steps, n = 7, 3000
    method = plan(Logistic(), steps=steps, batches="disjoint")
    bits = RandomBits(7)
    parts = method._parts(n, bits)
    used = sum(
        method._chosen(step, parts, n, bits).astype(int) for step in range(steps)
    )
    np.testing.assert_array_equal(used, 1)
    # Multinomial: Bonferroni over the parts, false alarms 7e-8.
    sizes = np.bincount(parts, minlength=steps)
    low, high = stats.binom.ppf([5e-9, 1 - 5e-9], n, 1 / steps)
    assert np.all((low <= sizes) & (sizes <= high))


def test_a_row_more_moves_no_other_row_to_another_part():
    method = plan(Logistic(), steps=5, batches="disjoint")
    short, long = (method._parts(n, RandomBits(8)) for n in (400, 401))
    np.testing.assert_array_equal(short, long[:400])


@pytest.mark.parametrize("rate", [0.01, 0.3, 1.0])
def test_poisson_samples_have_the_stated_rate(rate):
    method = plan(Logistic(), batches="poisson", sampling_rate=rate)
    bits, n = RandomBits(9), 20_000
    chosen = [method._chosen(step, None, n, bits) for step in range(5)]
    total = sum(int(found.sum()) for found in chosen)
    low, high = stats.binom.ppf([1e-8, 1 - 1e-8], 5 * n, rate)  # false alarms 2e-8
    assert low <= total <= high
    # Steps are independent: rows in the first and the second, false alarms 2e-8.
    both = int(np.sum(chosen[0] & chosen[1]))
    low, high = stats.binom.ppf([1e-8, 1 - 1e-8], n, rate**2)
    assert low <= both <= high


# --- Convergence


def objective(loss, Z, y, ridge, w):
    value = loss.evaluate(Z @ w, y).value
    return value + float(np.sum(ridge * (w**2).T)) / 2


@pytest.mark.parametrize("name", LOSSES)
def test_without_noise_the_ridge_minimum_is_found(name):
    loss, n, width = LOSSES[name], 400, 4
    Z, y = draw(loss, n, width, seed=10)
    ridge = np.array([1.0, 2.0, 5.0, 300.0])
    clip = 50.0 if name == "squared" else loss.lipschitz(1.0)
    method = plan(loss, clip, steps=300)
    rows, bounds = DenseRows(Z, 1.0), Bounds(1.0, width, n)
    w = method.release(rows, y, ridge, bounds, n, RandomBits(11), RandomBits(12))
    zero = np.zeros(shape_of(loss, width))
    best = objective(
        loss, Z, y, ridge, minimize(Problem(loss, rows, y, ridge, zero), 1e-9)
    )
    start = objective(loss, Z, y, ridge, zero)
    reached = objective(loss, Z, y, ridge, w)
    assert best - 1e-9 <= reached <= 1.01 * best
    assert reached - best <= 0.01 * (start - best)  # nor is the start within 1 %


@pytest.mark.parametrize("batches", ["poisson", "disjoint"])
def test_without_noise_batches_come_near_the_minimum(batches):
    loss, n = Logistic(), 20_000
    Z, y = draw(loss, n, 3, seed=13)
    method = plan(loss, steps=100, batches=batches)
    rows, ridge = DenseRows(Z, 1.0), np.ones(3)
    bounds = Bounds(1.0, 3, n)
    w = method.release(rows, y, ridge, bounds, n, RandomBits(14), RandomBits(15))
    zero = np.zeros(3)
    best = objective(
        loss, Z, y, ridge, minimize(Problem(loss, rows, y, ridge, zero), 1e-9)
    )
    start, reached = (objective(loss, Z, y, ridge, v) for v in (zero, w))
    # A step's sum is divided by the rows that a batch should have: by n it would
    # hardly move, with a hundred parts.
    assert reached - best <= 0.1 * (start - best)


def test_noise_of_a_step_is_the_planned_one():
    """Without rows' gradients a step is noise alone; false alarms 2e-8."""
    width, count, clip, rate = 2000, 50.0, 0.5, 0.1
    method = plan(Logistic(), clip, Noise("gaussian", rate), 1, step_size=1.0)
    rows, bounds = DenseRows(np.zeros((50, width)), 1.0), Bounds(1.0, width, 50)
    w = method.release(
        rows,
        np.ones(50),
        np.zeros(width),
        bounds,
        count,
        RandomBits(16),
        RandomBits(17),
    )
    std = clip / rate / count
    low, high = stats.chi2.ppf([1e-8, 1 - 1e-8], width)
    assert low < np.sum((w / std) ** 2) < high


# --- Progress


def test_progress_sees_released_iterates_and_can_stop():
    Z, y = draw(Logistic(), 300, 3, seed=18)
    rows, bounds = DenseRows(Z, 1.0), Bounds(1.0, 3, 300)

    def run(steps, stop_at):
        seen = []

        def progress(step, w):
            seen.append((step, np.array(w)))
            return step == stop_at

        method = plan(Logistic(), noise=Noise("gaussian", 0.5), steps=steps)
        streams = RandomBits(19), RandomBits(20)
        w = method.release(rows, y, np.ones(3), bounds, 300, *streams, progress)
        return seen, w

    seen, w = run(8, None)
    assert [step for step, _ in seen] == list(range(8))
    np.testing.assert_array_equal(seen[-1][1], w)
    stopped, early = run(8, 2)
    assert [step for step, _ in stopped] == [0, 1, 2]
    np.testing.assert_array_equal(stopped[-1][1], early)
    for (_, one), (_, other) in zip(stopped, seen, strict=False):
        np.testing.assert_array_equal(one, other)
    # All noisy: the same data with other noise gives other iterates from the start.
    other = plan(Logistic(), noise=Noise("gaussian", 0.5), steps=8)
    firsts = []
    streams = RandomBits(21), RandomBits(20)
    other.release(
        rows, y, np.ones(3), bounds, 300, *streams, lambda step, w: firsts.append(w)
    )
    assert np.all(firsts[0] != seen[0][1])
    # The later half is averaged. A longer run makes the same steps and shows them.
    longer, _ = run(16, 7)
    mean = np.mean([w for _, w in longer[4:]], axis=0)
    np.testing.assert_allclose(w, mean, rtol=1e-12)


# --- Events


@BOTH
def test_the_events_of_the_batches(neighboring):
    rows = 2 if neighboring == "replace" else 1
    noise = Noise("gaussian", 0.05)
    options = {"noise": noise, "steps": 40, "neighboring": neighboring}
    full = plan(Logistic(), batches="full", **options).event
    single = events.Gaussian(20 / rows, neighboring)
    assert full == events.Composed((single,), (40,))
    # Forty Gaussian releases are one with sqrt(40) times the shift.
    together = events.Gaussian(20 / rows / math.sqrt(40), neighboring)
    assert full.epsilon(1e-6) == pytest.approx(together.epsilon(1e-6), rel=1e-9)
    assert plan(Logistic(), batches="disjoint", **options).event == single
    poisson = plan(Logistic(), batches="poisson", **options).event
    assert poisson == events.SampledGaussian(20.0, 0.3, 40, neighboring)


@BOTH
def test_pure_events(neighboring):
    rows = 2 if neighboring == "replace" else 1
    options = {"noise": Noise("laplace", 0.05), "neighboring": neighboring}
    full = plan(Logistic(), steps=10, **options).event
    assert full.epsilon(0.0) == pytest.approx(0.5 * rows, rel=1e-12)
    disjoint = plan(Logistic(), steps=10, batches="disjoint", **options).event
    assert disjoint == events.Laplace(20 / rows, neighboring)
    once = plan(Logistic(), steps=1, **options).event
    assert once == events.Laplace(20 / rows, neighboring)


def test_rows_of_several_blocks_are_all_used():
    n = BLOCK + 100
    Z, y = np.ones((n, 1)), np.ones(n)
    found = plan(Logistic(), 0.25)._clipped_sum(DenseRows(Z, 1.0), y, np.zeros(1))
    assert found[0] == pytest.approx(-0.25 * n, rel=1e-12)
