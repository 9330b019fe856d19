"""Output and objective perturbation: the noise, the sensitivity, and exact audits.

With one column the law of the perturbed minimiser is known: ``b = -gradient(w)`` has
the noise's density, and the change of variables multiplies it with the curvature.
"""

import math

import numpy as np
import pytest
from scipy import stats
from scipy.special import expit

from skdp import events
from skdp.erm import Huber, Logistic, SmoothedHinge, Softmax
from skdp.erm.perturbation import Bounds, Noise, OutputPlan
from skdp.erm.plans import (
    Budget,
    curvature_limits,
    plan_objective,
    plan_output,
    unit_curvature,
)
from skdp.erm.rows import DenseRows
from skdp.erm.solvers import Problem, minimize
from skdp.random_bits import RandomBits

RELATIONS = ("replace", "add_remove")
LOSSES = {
    "logistic": Logistic(),
    "hinge": SmoothedHinge(0.5),
    "huber": Huber(0.4),
    "softmax": Softmax(3),
}
BOTH = pytest.mark.parametrize("neighboring", RELATIONS)


# --- Noise


def assert_law(sample, kind, std):
    """Compare the size of noise with its law; false alarms: 2e-8."""
    tails = (1e-8, 1 - 1e-8)
    if kind == "gaussian":
        size, low_high = np.sum((sample / std) ** 2), stats.chi2.ppf(tails, sample.size)
    else:
        scale = std / math.sqrt(2)
        size, low_high = (
            np.sum(np.abs(sample)) / scale,
            stats.gamma.ppf(tails, sample.size),
        )
    assert low_high[0] < size < low_high[1]


@pytest.mark.parametrize("kind", ["gaussian", "laplace"])
@pytest.mark.parametrize("shape", [(4000,), (1000, 4)])
def test_noise_has_the_stated_deviation(kind, shape):
    noise, values = Noise(kind, 0.3), np.full(shape, 2.5)
    found = noise.add(values, 1.7, RandomBits(1))
    assert found.shape == shape
    std = noise.std(1.7, 4000)
    expected = 1.7 / 0.3 * (1 if kind == "gaussian" else math.sqrt(2 * 4000))
    assert std == pytest.approx(expected, rel=1e-12)
    assert_law((found - values).ravel(), kind, std)


@BOTH
@pytest.mark.parametrize("kind", ["gaussian", "laplace"])
def test_the_event_of_noise(kind, neighboring):
    event = Noise(kind, 0.25).event(neighboring)
    expected = events.Gaussian if kind == "gaussian" else events.Laplace
    multiplier = 2.0 if neighboring == "replace" else 4.0
    assert event == expected(multiplier, neighboring)
    if kind == "laplace":
        epsilon = 0.5 if neighboring == "replace" else 0.25
        assert event.epsilon(0.0) == pytest.approx(epsilon, rel=1e-12)


# --- How far one row moves the minimiser


def draw_targets(loss, n, rng):
    if loss.outputs > 1:
        return rng.integers(loss.outputs, size=n)
    return (
        rng.uniform(-1, 1, n) if isinstance(loss, Huber) else rng.choice([-1.0, 1.0], n)
    )


def solve(loss, Z, y, ridge):
    width = Z.shape[1]
    shape = (width,) if loss.outputs == 1 else (width, loss.outputs)
    problem = Problem(
        loss, DenseRows(Z, 1.0), y, np.full(width, ridge), np.zeros(shape)
    )
    return minimize(problem, 1e-9)


def stated_sensitivity(loss, ridge, n, width):
    plan = plan_output(loss, Budget(1.0, 1e-6, "add_remove"), ridge).method
    sensitivity, target = plan.sensitivity(Bounds(1.0, width, n), 1.0)
    assert 0 < target < 1e-6
    return sensitivity


@pytest.mark.parametrize("name", LOSSES)
def test_random_neighbours_move_the_minimiser_by_less_than_stated(name):
    loss, rng = LOSSES[name], np.random.default_rng(2)
    for ridge in (0.1, 5.0):
        stated = stated_sensitivity(loss, ridge, 61, 3)
        for _ in range(15):
            Z = rng.normal(size=(61, 3))
            Z /= np.linalg.norm(Z, axis=1, keepdims=True)
            y = draw_targets(loss, 61, rng)
            base = solve(loss, Z[:60], y[:60], ridge)
            added = np.linalg.norm(solve(loss, Z, y, ridge) - base)
            replaced = np.linalg.norm(solve(loss, Z[1:], y[1:], ridge) - base)
            removed = np.linalg.norm(solve(loss, Z[1:60], y[1:60], ridge) - base)
            assert max(added, removed) <= stated
            assert replaced <= 2 * stated


def worst_neighbours(name):
    """Return many short rows that pull w away from the last row, and that row."""
    n = 20_000
    Z = np.full((n + 1, 1), 0.01)
    Z[-1] = 1.0
    if name == "softmax":
        y = np.ones(n + 1, int)
        y[-1] = 0
    else:
        y = np.full(n + 1, -1.0)
        y[-1] = 1.0
    return Z, y


@pytest.mark.parametrize("name", LOSSES)
def test_the_worst_neighbour_moves_the_minimiser_nearly_as_stated(name):
    loss, ridge = LOSSES[name], 10.0
    Z, y = worst_neighbours(name)
    moved = solve(loss, Z, y, ridge) - solve(loss, Z[:-1], y[:-1], ridge)
    stated = stated_sensitivity(loss, ridge, len(y), 1)
    # 20 000 rows pull with 0.01: their curvature is 2 at most, beside the ridge's 10.
    assert 0.8 * loss.lipschitz(1.0) / ridge <= np.linalg.norm(moved) <= stated
    assert stated == pytest.approx(loss.lipschitz(1.0) / ridge, rel=1e-4)


def test_several_problems_share_one_noise():
    bounds = Bounds(1.0, 4, 100)
    noise = Noise("gaussian", 0.2)
    one = OutputPlan(Logistic(), 2.0, noise, "replace").sensitivity(bounds, 1.0)[0]
    four = OutputPlan(Logistic(), 2.0, noise, "replace", 4).sensitivity(bounds, 1.0)[0]
    assert four == pytest.approx(2 * one, rel=1e-12)


# --- Releases


@pytest.mark.parametrize("delta", [0.0, 1e-6])
@pytest.mark.parametrize("problems", [1, 2])
def test_an_output_release_is_the_minimiser_and_noise(problems, delta):
    rng, width = np.random.default_rng(3), 300
    Z = rng.normal(size=(40, width))
    Z /= np.linalg.norm(Z, axis=1, keepdims=True)
    targets = [draw_targets(Logistic(), 40, rng) for _ in range(problems)]
    plan = plan_output(
        Logistic(), Budget(1.0, delta, "replace"), 2.0, problems=problems
    ).method
    rows, bounds = DenseRows(Z, 1.0), Bounds(1.0, width, 40)
    found = plan.release(rows, targets, np.full(width, 2.0), bounds, RandomBits(4))
    exact = np.stack([solve(Logistic(), Z, y, 2.0) for y in targets], axis=1)
    left = (found.reshape(exact.shape) - exact).ravel()
    kind = "gaussian" if delta else "laplace"
    assert_law(left, kind, plan.std(bounds, 1.0))
    sensitivity = math.sqrt(problems) / 2.0
    rate = plan.noise.rate
    size = width * problems
    expected = sensitivity / rate * (1 if delta else math.sqrt(2 * size))
    assert plan.std(bounds, 1.0) == pytest.approx(expected, rel=1e-6)


@pytest.mark.parametrize("name", ["logistic", "softmax"])
@pytest.mark.parametrize("delta", [0.0, 1e-6])
def test_an_objective_release_has_the_planned_linear_term(name, delta):
    """Rows of zeros leave ``ridge w + b = 0``: the noise itself is seen."""
    loss, width, ridge = LOSSES[name], 300, 20.0
    if name == "softmax" and not delta:
        return  # refused: see test_plans.py
    plan = plan_objective(loss, 1.0, Budget(1.0, delta, "add_remove"), ridge).method
    shape = (width,) if loss.outputs == 1 else (width, loss.outputs)
    rows, bounds = DenseRows(np.zeros((5, width)), 1.0), Bounds(1.0, width, 5)
    targets = [np.ones(5, int) if name == "softmax" else np.ones(5)]
    found = plan.release(rows, targets, np.full(width, ridge), bounds, RandomBits(5))
    assert found.shape == shape
    rate = plan.noise.rate
    size = math.prod(shape)
    std = loss.lipschitz(1.0) / rate * (1 if delta else math.sqrt(2 * size))
    assert_law(ridge * found.ravel(), "gaussian" if delta else "laplace", std)


def test_the_sliver_is_far_below_the_rest_of_the_noise():
    rng, n, width, ridge = np.random.default_rng(6), 2000, 5, 2.0
    Z = rng.normal(size=(n, width))
    Z /= np.linalg.norm(Z, axis=1, keepdims=True)
    y = draw_targets(Logistic(), n, rng)
    plan = plan_objective(Logistic(), 1.0, Budget(1.0, 1e-6, "replace"), ridge).method
    bounds, ridges = Bounds(1.0, width, n), np.full(width, ridge)
    found = plan.release(DenseRows(Z, 1.0), [y], ridges, bounds, RandomBits(7))
    bits = RandomBits(7)  # the same linear term once more
    term = plan.noise.add(np.zeros(width), 1.0, bits)
    exact = minimize(Problem(Logistic(), DenseRows(Z, 1.0), y, ridges, term), 1e-10)
    assert 0 < np.max(np.abs(found - exact)) < 1e-5 * np.std(term) / ridge


# --- Audits with one column


def gradient_and_curvature(loss, data, w):
    """Return sum of count x l'(x w) and its derivative, for rows (x, y, count)."""
    first, second = np.zeros_like(w), np.zeros_like(w)
    for x, y, count in data:
        f = x * w
        if isinstance(loss, Logistic):
            s = expit(-y * f)
            slope, bend = -y * s, s * (1 - s)
        elif isinstance(loss, Huber):
            slope = np.clip(f - y, -loss.transition, loss.transition)
            bend = np.abs(f - y) < loss.transition
        else:
            into = np.clip((1 - y * f + loss.width) / (2 * loss.width), 0, 1)
            slope, bend = -y * into, ((into > 0) & (into < 1)) / (2 * loss.width)
        first += count * x * slope
        second += count * x**2 * bend
    return first, second


def log_densities(loss, pair, ridge, noise, points=40_001):
    """Return a grid and the log densities of both minimisers on it."""
    std = noise.std(loss.lipschitz(1.0), 1)
    reach = (12 if noise.kind == "gaussian" else 40) * std
    pull = max(sum(abs(x) * count for x, _, count in data) for data in pair)
    w = np.linspace(-1, 1, points) * (reach + pull * loss.slope) / ridge
    found = []
    for data in pair:
        first, second = gradient_and_curvature(loss, data, w)
        b = first + ridge * w
        if noise.kind == "gaussian":
            law = stats.norm.logpdf(b, scale=std)
        else:
            law = stats.laplace.logpdf(b, scale=std / math.sqrt(2))
        found.append(law + np.log(second + ridge))
    return w, *found


def divergence(w, p, q, epsilon):
    """Return the hockey-stick divergence, in the worse direction."""
    step = w[1] - w[0]
    for log_density in (p, q):  # the change of variables is right, and the range wide
        assert np.sum(np.exp(log_density)) * step == pytest.approx(1, abs=1e-3)
    gaps = (np.exp(p) - np.exp(epsilon + q), np.exp(q) - np.exp(epsilon + p))
    return max(float(np.sum(np.maximum(gap, 0))) * step for gap in gaps)


def worst_pairs(neighboring, std):
    """Yield neighbouring data: short rows move the law, one row is the difference."""
    rows = [(1.0, 1.0, 1), (1.0, -1.0, 1), (0.6, 1.0, 1), (-0.8, 1.0, 1)]
    for force in (0.0, -3 * std, 3 * std, -20.0 * std):
        # Rows of norm 1e-3: a force of half of it each, and no curvature to speak of.
        short = [(1e-3, math.copysign(1.0, force), abs(force) * 2e3)] if force else []
        for i, row in enumerate(rows):
            if neighboring == "add_remove":
                yield short, [*short, row]
                continue
            for other in rows[:i]:
                yield [*short, other], [*short, row]


@BOTH
@pytest.mark.parametrize("name", ["logistic", "hinge", "huber"])
@pytest.mark.parametrize("epsilon", [0.5, 2.0])
def test_the_audited_delta_is_at_most_the_planned_one(name, epsilon, neighboring):
    loss, delta = LOSSES[name], 1e-4
    budget = Budget(epsilon, delta, neighboring)
    least = unit_curvature(loss, 1.0) / curvature_limits(loss, budget)[0]
    found = []
    for ridge in (least, 10 * least):
        noise = plan_objective(loss, 1.0, budget, ridge).method.noise
        for pair in worst_pairs(neighboring, noise.std(loss.lipschitz(1.0), 1)):
            densities = log_densities(loss, pair, ridge, noise)
            found.append(divergence(*densities, epsilon))
    assert max(found) <= delta * (1 + 1e-3)  # room for the quadrature
    # The theorem of "two_sided" is loose by two. Two logistic rows of one column cannot
    # both be wrong at the same w and move the gradient by half the bound only: no
    # lower limit there, but with half the noise the upper one fails there, too.
    if (name, neighboring) != ("logistic", "replace"):
        assert max(found) >= (0.35 if name == "huber" else 0.7) * delta


@BOTH
@pytest.mark.parametrize("which", [0, 1])
@pytest.mark.parametrize("look", [0.0, 0.1])
def test_the_audited_log_ratio_is_at_most_the_planned_epsilon(which, look, neighboring):
    budget = Budget(1.0, 0.0, neighboring, look)
    ridge = 1 / curvature_limits(Logistic(), budget)[which]
    noise = plan_objective(Logistic(), 1.0, budget, ridge).method.noise
    assert noise.kind == "laplace"
    spent, largest = 1 - look - 1e-3, 0.0
    for pair in worst_pairs(neighboring, noise.std(1.0, 1)):
        _, p, q = log_densities(Logistic(), pair, ridge, noise)
        largest = max(largest, float(np.max(np.abs(p - q))))
    assert largest <= spent + 1e-9
    # Under "replace" two opposite rows of one column move the gradient by one bound.
    assert largest >= (0.98 if neighboring == "add_remove" else 0.5) * spent
