"""Losses: their derivatives by finite differences, their constants by random search."""

import math

import numpy as np
import pytest

from skdp.erm import Huber, Logistic, SmoothedHinge, Softmax, Squared

SCALAR = {
    "logistic": Logistic(),
    "logistic with a margin": Logistic(1.5),
    "hinge": SmoothedHinge(0.5),
    "narrow hinge": SmoothedHinge(0.01),
    "wide hinge": SmoothedHinge(1.0),
    "huber": Huber(0.7),
    "wide huber": Huber(3.0),
    "squared": Squared(),
}
BOUNDED = [name for name in SCALAR if name != "squared"]
CLASSES = (2, 3, 7)
MARGINS = pytest.mark.parametrize("margin", [0.0, 1.5])


def draw_targets(loss, size, rng):
    if isinstance(loss, Huber | Squared):
        return rng.uniform(-1, 1, size)
    return rng.choice([-1.0, 1.0], size)


def values(loss, scores, targets):
    """Return the value of each row on its own."""
    pairs = zip(scores, targets, strict=True)
    return np.array([loss.evaluate(s[None], y[None]).value for s, y in pairs])


# --- Formulas


def formula(loss, f, y):
    if isinstance(loss, Logistic):
        return math.log1p(math.exp(loss.margin - y * f))
    if isinstance(loss, Squared):
        return (f - y) ** 2 / 2
    if isinstance(loss, Huber):
        error, edge = abs(f - y), loss.transition
        return error**2 / 2 if error <= edge else edge * (error - edge / 2)
    gap, width = 1 - y * f, loss.width
    if abs(gap) > width:
        return max(gap, 0.0)
    return (gap + width) ** 2 / (4 * width)


@pytest.mark.parametrize("name", SCALAR)
def test_value_is_the_formula(name):
    loss, rng = SCALAR[name], np.random.default_rng(0)
    scores, targets = rng.normal(0, 2, 300), draw_targets(SCALAR[name], 300, rng)
    pairs = zip(scores, targets, strict=True)
    expected = np.array([formula(loss, f, y) for f, y in pairs])
    found = values(loss, scores, targets)
    np.testing.assert_allclose(found, expected, rtol=1e-12, atol=1e-14)
    total = loss.evaluate(scores, targets).value
    assert total == pytest.approx(expected.sum(), rel=1e-12)


@pytest.mark.parametrize("width", [1.0, 0.1, 1e-3])
def test_the_smoothed_hinge_lies_within_a_quarter_width_above_the_hinge(width):
    scores = 1 + np.linspace(-3, 3, 5001)
    above = values(SmoothedHinge(width), scores, np.ones(5001))
    above -= np.maximum(1 - scores, 0)
    assert above.min() >= -1e-15
    assert above.max() == pytest.approx(width / 4, rel=1e-3)


@MARGINS
@pytest.mark.parametrize("classes", CLASSES)
def test_softmax_value_is_the_cross_entropy(classes, margin):
    rng = np.random.default_rng(1)
    scores, targets = rng.normal(0, 2, (50, classes)), rng.integers(classes, size=50)
    shifted = scores.copy()
    shifted[np.arange(50), targets] -= margin
    probabilities = np.exp(shifted) / np.exp(shifted).sum(axis=1, keepdims=True)
    expected = -np.log(probabilities[np.arange(50), targets]).sum()
    found = Softmax(classes, margin).evaluate(scores, targets)
    assert found.value == pytest.approx(expected, rel=1e-12)


def test_softmax_of_two_classes_is_logistic():
    rng = np.random.default_rng(2)
    scores, targets = rng.normal(0, 3, (40, 2)), rng.integers(2, size=40)
    soft = Softmax(2).evaluate(scores, targets)
    hard = Logistic().evaluate(scores[:, 1] - scores[:, 0], 2.0 * targets - 1)
    assert soft.value == pytest.approx(hard.value, rel=1e-12)
    np.testing.assert_allclose(soft.first[:, 1], hard.first, atol=1e-14)


# --- Derivatives


def away_from_kinks(loss, scores, targets):
    """Return rows whose second derivative does not jump within a step."""
    if isinstance(loss, Huber):
        return np.abs(np.abs(scores - targets) - loss.transition) > 1e-3
    if isinstance(loss, SmoothedHinge):
        return np.abs(np.abs(1 - scores * targets) - loss.width) > 1e-3
    return np.ones(scores.shape, bool)


@pytest.mark.parametrize("name", SCALAR)
def test_derivatives_by_finite_differences(name):
    loss, rng, step = SCALAR[name], np.random.default_rng(3), 1e-5
    # Half of them near the corner of the hinge, where the curvature is.
    scores = np.concatenate([rng.normal(0, 2, 300), rng.uniform(0.9, 1.1, 300)])
    targets = draw_targets(loss, 600, rng)
    keep = away_from_kinks(loss, scores, targets)
    scores, targets = scores[keep], targets[keep]
    assert scores.size > 300
    high = values(loss, scores + step, targets)
    low = values(loss, scores - step, targets)
    found = loss.evaluate(scores, targets)
    # Third derivatives are at most 1: step^2/6; and rounding, 1e-15 * value/step.
    np.testing.assert_allclose(found.first, (high - low) / (2 * step), atol=1e-9)
    up = loss.evaluate(scores + step, targets).first
    down = loss.evaluate(scores - step, targets).first
    np.testing.assert_allclose(found.second, (up - down) / (2 * step), atol=1e-8)
    change = rng.normal(size=scores.size)
    applied = loss.apply_second(found.second, change)
    np.testing.assert_allclose(applied, found.second * change, rtol=1e-15)


@MARGINS
@pytest.mark.parametrize("classes", CLASSES)
def test_softmax_derivatives_by_finite_differences(classes, margin):
    loss, rng, step = Softmax(classes, margin), np.random.default_rng(4), 1e-5
    scores, targets = rng.normal(0, 2, (30, classes)), rng.integers(classes, size=30)
    found = loss.evaluate(scores, targets)
    numeric = np.empty_like(scores)
    for j in range(classes):
        move = step * np.eye(classes)[j]
        high = values(loss, scores + move, targets)
        numeric[:, j] = (high - values(loss, scores - move, targets)) / (2 * step)
    np.testing.assert_allclose(found.first, numeric, atol=1e-9)
    change = rng.normal(size=scores.shape)
    up = loss.evaluate(scores + step * change, targets).first
    down = loss.evaluate(scores - step * change, targets).first
    applied = loss.apply_second(found.second, change)
    np.testing.assert_allclose(applied, (up - down) / (2 * step), atol=1e-8)


@pytest.mark.parametrize("name", SCALAR)
def test_losses_are_convex(name):
    loss, rng = SCALAR[name], np.random.default_rng(5)
    targets = draw_targets(loss, 500, rng)
    a, b = rng.normal(0, 3, (2, 500))
    share = rng.uniform(size=500)
    inside = values(loss, share * a + (1 - share) * b, targets)
    chord = share * values(loss, a, targets) + (1 - share) * values(loss, b, targets)
    assert np.all(inside <= chord + 1e-13)
    assert np.all(loss.evaluate(a, targets).second >= 0)


def test_softmax_is_convex():
    rng, loss = np.random.default_rng(6), Softmax(4)
    scores, targets = rng.normal(0, 3, (200, 4)), rng.integers(4, size=200)
    change = rng.normal(size=scores.shape)
    applied = loss.apply_second(loss.evaluate(scores, targets).second, change)
    assert np.all(np.sum(applied * change, axis=1) >= -1e-15)


# --- Constants


@pytest.mark.parametrize("name", SCALAR)
def test_constants_bound_and_are_reached(name):
    loss, rng = SCALAR[name], np.random.default_rng(7)
    scores = np.concatenate([rng.normal(0, 3, 20_000), rng.uniform(0.9, 1.1, 2000)])
    targets = draw_targets(loss, scores.size, rng)
    found = loss.evaluate(scores, targets)
    assert np.max(found.second) <= loss.bend
    assert np.max(found.second) >= 0.95 * loss.bend
    if name == "squared":
        assert loss.slope == loss.origin == math.inf
        return
    assert np.max(np.abs(found.first)) <= loss.slope
    assert np.max(np.abs(found.first)) >= 0.95 * loss.slope
    edges = np.array([-1.0, -0.5, 0.5, 1.0]) if "huber" in name else targets[:4]
    at_zero = values(loss, np.zeros(4), edges)
    assert np.max(at_zero) <= loss.origin * (1 + 1e-15)
    assert np.max(at_zero) >= 0.95 * loss.origin


@MARGINS
@pytest.mark.parametrize("classes", CLASSES)
def test_softmax_constants_bound_and_are_reached(classes, margin):
    rng, loss = np.random.default_rng(8), Softmax(classes, margin)
    scores = rng.normal(0, 4, (4000, classes))
    # Two classes that share all the probability have the largest curvature.
    scores[2000:, :2] = 30.0 + rng.normal(0, 0.1, (2000, 2))
    targets = rng.integers(classes, size=4000)
    scores[np.arange(4000), targets] += margin
    found = loss.evaluate(scores, targets)
    lengths = np.linalg.norm(found.first, axis=1)
    assert 0.95 * math.sqrt(2) < lengths.max() <= loss.slope * (1 + 1e-15)
    bends = [
        np.linalg.eigvalsh(np.diag(p) - np.outer(p, p))[-1] for p in found.second[::10]
    ]
    assert 0.95 * loss.bend < max(bends) <= loss.bend * (1 + 1e-14)
    at_zero = loss.evaluate(np.zeros((1, classes)), np.zeros(1, int)).value
    assert at_zero == pytest.approx(loss.origin, rel=1e-14)
    assert loss.outputs == classes


@pytest.mark.parametrize("norm", [0.1, 1.0, 7.0])
@pytest.mark.parametrize("name", BOUNDED)
def test_lipschitz_and_smoothness_of_rows(name, norm):
    """Gradient and curvature in w, for rows of this norm and random w."""
    loss, rng = SCALAR[name], np.random.default_rng(9)
    z = rng.normal(size=(20_000, 3))
    z *= norm / np.linalg.norm(z, axis=1, keepdims=True)
    w = rng.normal(size=(20_000, 3)) * (4 / norm)
    scores = np.einsum("ij,ij->i", z, w)
    found = loss.evaluate(scores, draw_targets(loss, scores.size, rng))
    steepest = np.max(np.linalg.norm(found.first[:, None] * z, axis=1))
    assert 0.95 * loss.lipschitz(norm) < steepest <= loss.lipschitz(norm) * (1 + 1e-14)
    bent = np.max(found.second * np.einsum("ij,ij->i", z, z))
    assert 0.95 * loss.smoothness(norm) < bent <= loss.smoothness(norm) * (1 + 1e-14)


def test_softmax_lipschitz_and_smoothness_of_rows():
    loss, norm = Softmax(3), 2.5
    z = np.array([norm, 0.0])
    first = loss.evaluate(np.array([[0.0, 40.0, -9.0]]), np.array([0])).first[0]
    steep = np.linalg.norm(np.outer(z, first))
    assert steep == pytest.approx(loss.lipschitz(norm), rel=1e-12)
    p = loss.evaluate(np.array([[0.0, 0.0, -60.0]]), np.array([0])).second[0]
    hessian = np.kron(np.outer(z, z), np.diag(p) - np.outer(p, p))
    bent = np.linalg.eigvalsh(hessian)[-1]
    assert bent == pytest.approx(loss.smoothness(norm), rel=1e-12)


# --- Large scores, bad parameters


@pytest.mark.parametrize("size", [1e3, 1e8, 1e150, 1e300])
@pytest.mark.parametrize("name", BOUNDED)
def test_large_scores_neither_overflow_nor_warn(name, size):
    loss = SCALAR[name]
    for target in (-1.0, 1.0):
        for score in (-size, size):
            found = loss.evaluate(np.array([score]), np.array([target]))
            away = score * target < 0 or "huber" in name
            assert found.value == pytest.approx(loss.slope * size if away else 0, 5e-3)
            steep = loss.slope * (np.sign(score) if away else 0)
            np.testing.assert_allclose(found.first, steep, rtol=1e-15, atol=1e-300)
            assert found.second == 0


@pytest.mark.parametrize("size", [1e3, 1e150, 1e300])
def test_large_softmax_scores_neither_overflow_nor_warn(size):
    scores = np.array([[size, -size, 0.0], [size, size, -size]])
    found = Softmax(3).evaluate(scores, np.array([1, 0]))
    assert found.value == pytest.approx(2 * size + math.log(2), rel=1e-12)
    np.testing.assert_allclose(found.first, [[1, -1, 0], [-0.5, 0.5, 0]], atol=1e-15)
    applied = Softmax(3).apply_second(found.second, np.ones((2, 3)))
    np.testing.assert_allclose(applied, 0, atol=1e-16)


@pytest.mark.parametrize("bad", [0, -1.0, 1.5, math.nan, math.inf])
def test_a_bad_width_is_named(bad):
    with pytest.raises(ValueError, match=r"'width' parameter .* \(0, 1\]"):
        SmoothedHinge(bad)


@pytest.mark.parametrize("bad", [0, -1.0, math.nan, math.inf])
def test_a_bad_transition_is_named(bad):
    with pytest.raises(ValueError, match="'transition' parameter"):
        Huber(bad)


@pytest.mark.parametrize(("bad", "error"), [(1, ValueError), (2.5, TypeError)])
def test_a_bad_number_of_classes_is_named(bad, error):
    with pytest.raises(error, match="'n_classes' parameter"):
        Softmax(bad)


def test_wrong_types_are_named():
    with pytest.raises(TypeError, match="'width' parameter"):
        SmoothedHinge("wide")
    with pytest.raises(TypeError, match="'transition' parameter"):
        Huber(True)
