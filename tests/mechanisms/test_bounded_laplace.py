"""Bounded Laplace noise: the loss over all pairs of values, on small and real grids.

Random tests fail by chance with a probability below 1e-7 each (see conftest).
"""

import math
from fractions import Fraction

import mpmath
import numpy as np
import pytest
from scipy import stats

from skdp import events
from skdp.calibration import bounded_laplace_scale
from skdp.mechanisms import BoundedLaplace
from skdp.mechanisms._bounded_laplace import _truncated_laplace
from skdp.noise import RandomBits

DRAWS = 200_000


def table(scale, width):
    """P(output k | value q) for all q, k in 0..width: a row for each value."""
    k = np.arange(width + 1)
    weights = np.exp(-np.abs(k[:, None] - k) / scale)
    return weights / weights.sum(axis=1, keepdims=True)


def worst_loss(plan, sensitivity, size=1):
    """The largest loss on a mechanism's own grid, to 60 digits.

    log Z is concave, so that equal moves away from the edge are the worst; rounding
    adds a step to each coordinate.
    """
    steps = math.ceil(Fraction(sensitivity) / Fraction(2) ** plan.exponent) + size
    width = plan.high - plan.low
    with mpmath.workdps(60):
        t, move = mpmath.mpf(plan.scale), mpmath.mpf(min(steps, size * width)) / size

        def mass(q):
            left = -mpmath.expm1(-(q + 1) / t)
            return left - mpmath.exp(-1 / t) * mpmath.expm1(-(width - q) / t)

        return size * (move / t + mpmath.log(mass(move) / mass(0)))


# --- Exact, on grids small enough to enumerate


@pytest.mark.parametrize("width", [8, 40, 300])
@pytest.mark.parametrize("share", [0.1, 0.5, 1.0])
@pytest.mark.parametrize("epsilon", [0.05, 0.5, 1.0, 4.0])
def test_pure_claim_over_all_pairs(epsilon, share, width, hockey_stick):
    move = max(1, int(share * width))
    scale = bounded_laplace_scale(epsilon, 0.0, move, width)
    rows = table(scale, width)
    largest = 0.0
    for distance in range(1, move + 1):
        loss = np.abs(np.log(rows[distance:]) - np.log(rows[: width + 1 - distance]))
        largest = max(largest, loss.max())
    assert largest <= epsilon * (1 + 1e-13)
    assert largest >= epsilon * (1 - 1e-5 - 1 / scale)
    # A smaller scale would break the claim: it is the smallest.
    rows = table(scale * 0.97, width)
    assert np.log(rows[0, 0] / rows[move, 0]) > epsilon


@pytest.mark.parametrize("delta", [1e-6, 0.01, 0.3, 0.9])
@pytest.mark.parametrize("epsilon", [0.1, 1.0, 3.0])
@pytest.mark.parametrize("move", [3, 15, 30])
def test_approximate_claim_over_all_pairs(epsilon, delta, move, hockey_stick):
    width = 30
    rows = table(bounded_laplace_scale(epsilon, delta, move, width), width)
    for first in range(width + 1):
        for second in range(max(0, first - move), min(width, first + move) + 1):
            assert hockey_stick(rows[first], rows[second], epsilon) <= delta


@pytest.mark.parametrize("epsilon", [0.1, 1.0, 4.0])
@pytest.mark.parametrize("move", [2, 7, 12])
def test_claim_over_all_pairs_of_vectors(epsilon, move):
    width, size = 12, 3
    rows = np.log(table(bounded_laplace_scale(epsilon, 0.0, move, width, size), width))
    # The largest loss of one coordinate for each distance; then all ways to share.
    one = [0.0] + [
        np.abs(rows[d:] - rows[: width + 1 - d]).max() for d in range(1, width + 1)
    ]
    largest = max(
        one[a] + one[b] + one[c]
        for a in range(move + 1)
        for b in range(move + 1 - a)
        for c in range(move + 1 - a - b)
    )
    assert largest <= epsilon * (1 + 1e-13)
    if move == 12:
        assert largest >= 0.9 * epsilon


# --- Exact, on the mechanism's own grid


@pytest.mark.parametrize("bounds", [(0.0, 4.0), (-1e6, 1e6), (1e6, 1e6 + 3)])
@pytest.mark.parametrize("share", [1e-5, 0.3, 1.0])
@pytest.mark.parametrize("epsilon", [1e-12, 1e-8, 1e-4, 0.1, 1.0, 20.0])
def test_loss_on_its_own_grid(epsilon, share, bounds):
    sensitivity = share * (bounds[1] - bounds[0])
    mechanism = BoundedLaplace(epsilon, sensitivity, bounds)
    loss = worst_loss(mechanism._plan(1), sensitivity)
    assert loss <= epsilon
    assert loss >= epsilon * (1 - 1e-6)
    assert mechanism.event == events.Pure(epsilon)


@pytest.mark.parametrize("size", [2, 100, 10**4])
@pytest.mark.parametrize("epsilon", [1e-3, 0.1, 1.0, 20.0])
def test_loss_of_vectors_on_their_own_grid(epsilon, size):
    mechanism = BoundedLaplace(epsilon, 0.5, (0.0, 1.0))
    loss = worst_loss(mechanism._plan(size), 0.5, size)
    assert epsilon * (1 - 1e-6) <= loss <= epsilon


@pytest.mark.parametrize("epsilon", [0.01, 0.5, 2.0])
def test_loss_where_the_bounds_are_wide(epsilon):
    # The scale has few steps here, so that rounding it matters most.
    for sensitivity in np.geomspace(1e-9, 5e-9, 40):
        mechanism = BoundedLaplace(epsilon, sensitivity, (0.0, 1.0))
        loss = worst_loss(mechanism._plan(1), sensitivity)
        assert epsilon * (1 - 1e-5) <= loss <= epsilon


@pytest.mark.parametrize("delta", [1e-6, 0.1])
def test_approximate_claim_on_its_own_grid(delta):
    mechanism = BoundedLaplace(1.0, 1.0, (0.0, 4.0), delta)
    # A loss within epsilon - log(1 - delta) everywhere is (epsilon, delta)-DP.
    assert worst_loss(mechanism._plan(1), 1.0) <= 1.0 - math.log1p(-delta)
    assert mechanism.event == events.Approximate(1.0, delta)
    assert mechanism.scale < BoundedLaplace(1.0, 1.0, (0.0, 4.0)).scale


def test_scale_is_the_fixed_point_of_the_paper():
    # b = Delta/(epsilon - log dC(b) - log(1 - delta)), in real arithmetic.
    for epsilon, delta, width in ((1.0, 0.0, 4.0), (0.1, 1e-3, 2.0), (5.0, 0.0, 1.0)):
        b = BoundedLaplace(epsilon, 1.0, (0.0, width), delta).scale

        def cut(q, b=b, width=width):
            return 1 - (math.exp(-q / b) + math.exp(-(width - q) / b)) / 2

        fixed = 1 / (epsilon - math.log(cut(1.0) / cut(0.0)) - math.log1p(-delta))
        assert b == pytest.approx(fixed, rel=1e-9)


def test_scale_grows_with_the_number_of_coordinates():
    mechanism = BoundedLaplace(1.0, 1.0, (0.0, 4.0))
    scales = [
        math.ldexp(plan.scale, plan.exponent)
        for plan in (mechanism._plan(size) for size in (1, 2, 10, 1000))
    ]
    assert scales == sorted(scales)
    assert scales[-1] <= 2 * mechanism.sensitivity / mechanism.epsilon * (1 + 1e-6)


# --- Releases


def cdf(mechanism, value):
    """The distribution function of a release, in real arithmetic."""
    low, high = mechanism.bounds
    law = stats.laplace(value, mechanism.scale)
    mass = law.cdf(high) - law.cdf(low)
    return lambda y: (law.cdf(y) - law.cdf(low)) / mass


@pytest.mark.parametrize("value", [-1.0, 0.3, 3.0])
@pytest.mark.parametrize("epsilon", [0.2, 1.0, 10.0])  # both ways to draw
def test_draws_follow_the_law(value, epsilon, fits_cdf):
    mechanism = BoundedLaplace(epsilon, 1.0, (-1.0, 3.0))
    plan = mechanism._plan(1)
    step = np.full(DRAWS, round(math.ldexp(value, -plan.exponent)))
    drawn = _truncated_laplace(step, plan, RandomBits())
    values = np.ldexp(drawn.astype(float), plan.exponent)
    assert values.min() >= -1.0 and values.max() <= 3.0
    assert fits_cdf(values, cdf(mechanism, value))


@pytest.mark.parametrize("epsilon", [0.2, 3.0])
def test_releases_follow_the_law(epsilon, fits_cdf):
    mechanism = BoundedLaplace(epsilon, 1.0, (-1.0, 3.0))
    values = np.array([mechanism.release(2.5) for _ in range(4000)])
    assert fits_cdf(values, cdf(mechanism, 2.5), bins=32)


@pytest.mark.parametrize(
    "bounds", [(0.0, 1.0), (0.1, 0.7), (-1e300, 1e299), (0, 1e-290)]
)
def test_releases_stay_within_the_bounds(bounds):
    low, high = bounds
    mechanism = BoundedLaplace(0.5, (high - low) / 3, bounds)
    value = np.linspace(low, high, 3000).clip(low, high).reshape(3, 1000)
    out = mechanism.release(value)
    assert out.shape == value.shape
    assert out.min() >= low and out.max() <= high
    assert type(mechanism.release(low)) is float


@pytest.mark.parametrize("confidence", [0.1, 0.5, 0.95, 1 - 1e-9])
@pytest.mark.parametrize("epsilon", [0.1, 1.0, 20.0])
def test_interval_covers_wherever_the_value_lies(epsilon, confidence):
    mechanism = BoundedLaplace(epsilon, 1.0, (0.0, 4.0))
    low, high = mechanism.interval(confidence)
    assert low == -high and 0 < high <= 4.0
    for value in np.linspace(0, 4, 41):
        law = cdf(mechanism, value)
        inside = law(min(4.0, value + high)) - law(max(0.0, value - high))
        assert inside >= confidence - 1e-12
    assert cdf(mechanism, 0.0)(high) == pytest.approx(confidence, abs=1e-12)


# --- Audits


def draws(mechanism, value):
    plan = mechanism._plan(1)
    steps = np.full(DRAWS, round(math.ldexp(value, -plan.exponent)))
    return _truncated_laplace(steps, plan, RandomBits())


@pytest.mark.parametrize("epsilon", [1.0, 2.0, 4.0])
def test_audit(epsilon, audit):
    mechanism = BoundedLaplace(epsilon, 1.0, (0.0, 4.0))
    found = audit(draws(mechanism, 0.0), draws(mechanism, 1.0))
    assert epsilon / 2 < found <= epsilon


def test_audit_of_release_calls(audit):
    mechanism = BoundedLaplace(5.0, 1.0, (0.0, 4.0))
    first, second = (
        [mechanism.release(value) for _ in range(8000)] for value in (0.0, 1.0)
    )
    assert 2.5 < audit(first, second) <= 5.0


def test_audit_with_delta(audit):
    mechanism = BoundedLaplace(1.0, 1.0, (0.0, 4.0), 0.05)
    assert audit(draws(mechanism, 0.0), draws(mechanism, 1.0), 0.05) <= 1.0


def test_audit_catches_a_sensitivity_that_is_half_the_true_one(audit):
    mechanism = BoundedLaplace(1.0, 1.0, (0.0, 4.0))
    assert audit(draws(mechanism, 0.0), draws(mechanism, 2.0)) > 1.0


def test_audit_catches_unadjusted_noise(audit):
    # Cut-off noise of the scale sensitivity/epsilon of the plain Laplace mechanism.
    plan = BoundedLaplace(2.0, 1.0, (0.0, 4.0))._plan(1)
    wrong = BoundedLaplace(1.0, 1.0, (0.0, 4.0))._plan(1)
    wrong = type(wrong)(plan.exponent, plan.low, plan.high, 2**-plan.exponent)
    first, second = (
        _truncated_laplace(np.full(DRAWS, value << -plan.exponent), wrong, RandomBits())
        for value in (0, 1)
    )
    assert audit(first, second) > 1.0
