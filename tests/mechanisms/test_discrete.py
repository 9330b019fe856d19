"""Discrete Laplace and Gaussian noise: hockey sticks by summation over the integers.

Random tests fail by chance with a probability below 1e-7 each (see conftest).
"""

import math
from fractions import Fraction

import numpy as np
import pytest

from skdp import events
from skdp.mechanisms import DiscreteGaussian, DiscreteLaplace, sensitivity

DRAWS = 200_000


# --- Discrete Laplace: exact


@pytest.mark.parametrize("neighboring", ["replace", "add_remove"])
@pytest.mark.parametrize("shift", [1, 2, 5])
@pytest.mark.parametrize("epsilon", [0.05, 0.5, 1.0, 3.0, 30.0])
def test_laplace_hockey_stick_by_summation(
    epsilon, shift, neighboring, laplace_pmf, shifted, hockey_stick
):
    mechanism = DiscreteLaplace(epsilon, shift, neighboring=neighboring)
    scale = shift / epsilon
    pmf = laplace_pmf(scale, math.ceil(80 * scale) + shift)
    pair = shifted(pmf, shift)
    inside = slice(shift, pair[0].size - shift)
    for first, second in (pair, pair[::-1]):
        first, second = first[inside], second[inside]
        assert hockey_stick(first, second, epsilon) <= 1e-14
        for target in np.linspace(0, 0.99 * epsilon, 5):
            true = hockey_stick(first, second, target)
            claim = mechanism.event.profile(target)
            assert 0 < true <= claim + 1e-14
            if shift == 1:  # the loss is that of randomised response
                assert true == pytest.approx(claim, abs=1e-14)
    assert mechanism.event == events.Pure(epsilon, neighboring)


@pytest.mark.parametrize("epsilon", [1e-12, 0.1, 1 / 3, 7.0, 1e6])
@pytest.mark.parametrize("shift", [1, 3, 10**3])
def test_laplace_scale_is_exact(epsilon, shift):
    mechanism = DiscreteLaplace(epsilon, shift)
    assert Fraction(shift) / mechanism._scale == Fraction(epsilon)


def test_laplace_vector_by_summation(laplace_pmf, shifted, hockey_stick):
    # A histogram under "replace": one count falls, another rises.
    epsilon = 1.0
    l1 = int(sensitivity.histogram("replace", norm=1))
    pmf = laplace_pmf(l1 / epsilon, 100)
    up, moved_up = (one[1:-1] for one in shifted(pmf, 1))
    first = np.multiply.outer(up, moved_up)
    second = np.multiply.outer(moved_up, up)
    assert hockey_stick(first, second, epsilon) <= 1e-14
    assert hockey_stick(first, second, 0.99 * epsilon) > 0


@pytest.mark.parametrize("epsilon", [1e-6, 0.1, 1.0, 20.0, 700.0, 2000.0, 1e6])
def test_laplace_variance_is_that_of_the_pmf(epsilon):
    mechanism = DiscreteLaplace(epsilon)
    p = math.exp(-epsilon)
    exact = 2 * p / (-math.expm1(-epsilon)) ** 2
    assert mechanism.variance == pytest.approx(exact, rel=1e-12, abs=1e-300)
    assert mechanism.std == pytest.approx(math.sqrt(exact), rel=1e-12, abs=1e-150)


@pytest.mark.parametrize("confidence", [0.01, 0.5, 0.9, 0.95, 0.999, 1 - 1e-12])
@pytest.mark.parametrize("epsilon", [0.01, 0.3, 1.0, 5.0, 1e6])
def test_laplace_interval_is_the_smallest_that_covers(epsilon, confidence, laplace_pmf):
    low, high = DiscreteLaplace(epsilon).interval(confidence)
    pmf = laplace_pmf(1 / epsilon, high)
    assert low == -high and isinstance(high, int)
    assert math.fsum(pmf) >= confidence - 1e-14
    if high:
        assert math.fsum(pmf[1:-1]) < confidence


# --- Discrete Gaussian: exact


@pytest.mark.parametrize("delta", [1e-12, 1e-6, 1e-3, 0.1])
@pytest.mark.parametrize("epsilon", [0.05, 0.5, 1.0, 3.0, 10.0, 50.0])
@pytest.mark.parametrize("shift", [1, 3])
def test_gaussian_hockey_stick_by_summation(
    epsilon, delta, shift, gaussian_pmf, shifted, hockey_stick
):
    mechanism = DiscreteGaussian(epsilon, delta, shift)
    pmf = gaussian_pmf(mechanism.sigma, math.ceil(14 * mechanism.sigma) + 2 * shift)
    pair = shifted(pmf, shift)
    for first, second in (pair, pair[::-1]):
        true = hockey_stick(first[shift:-shift], second[shift:-shift], epsilon)
        assert true <= delta
        assert true <= mechanism.event.profile(epsilon) <= delta
    assert mechanism.event.epsilon(delta) <= epsilon * (1 + 1e-9)


@pytest.mark.parametrize(("epsilon", "delta"), [(0.5, 1e-6), (1.0, 1e-3), (3.0, 0.05)])
def test_gaussian_epsilon_is_above_half_the_claim(
    epsilon, delta, gaussian_pmf, shifted, hockey_stick
):
    # The claim follows from zCDP and is not tight in delta; in epsilon it nearly is.
    sigma = DiscreteGaussian(epsilon, delta, 4).sigma
    pair = shifted(gaussian_pmf(sigma, math.ceil(14 * sigma)), 4)
    assert hockey_stick(*pair, 0.75 * epsilon) > delta


@pytest.mark.parametrize(("epsilon", "delta"), [(0.5, 1e-4), (2.0, 1e-2)])
def test_gaussian_vector_by_summation(
    epsilon, delta, gaussian_pmf, shifted, hockey_stick
):
    # A histogram under "replace": one count falls, another rises.
    mechanism = DiscreteGaussian(epsilon, delta, sensitivity.histogram(norm=2))
    pmf = gaussian_pmf(mechanism.sigma, math.ceil(9 * mechanism.sigma))
    still, moved = shifted(pmf, 1)
    first, second = np.multiply.outer(still, moved), np.multiply.outer(moved, still)
    assert hockey_stick(first, second, epsilon) <= delta


@pytest.mark.parametrize("sensitivity_", [1, 2, 5])
@pytest.mark.parametrize("epsilon", [0.5, 3.0, 30.0])
def test_gaussian_is_zcdp(epsilon, sensitivity_, gaussian_pmf, shifted):
    mechanism = DiscreteGaussian(epsilon, 1e-6, sensitivity_)
    sigma = mechanism.sigma
    pmf = gaussian_pmf(sigma, math.ceil(30 * sigma) + 2 * sensitivity_)
    pmf = np.where(pmf > 0, pmf, 5e-324)
    first, second = shifted(pmf, sensitivity_)
    inside = slice(sensitivity_, -sensitivity_)
    first, second = np.log(first[inside]), np.log(second[inside])
    for order in (1.1, 2.0, 5.0):
        moment = math.fsum(np.exp(order * first + (1 - order) * second))
        renyi = math.log(moment) / (order - 1)
        assert renyi <= mechanism.event.rho * order + 1e-9


def test_gaussian_rho_pays_for_the_float_arithmetic():
    # rho-zCDP exactly: sensitivity^2 <= 2 rho sigma^2 in rational numbers.
    rng = np.random.default_rng(0)
    for epsilon, size in zip(
        10 ** rng.uniform(-3, 2, 300), 10 ** rng.uniform(-2, 3, 300), strict=True
    ):
        mechanism = DiscreteGaussian(epsilon, 1e-6, size)
        rho, sigma = Fraction(mechanism.event.rho), Fraction(mechanism.sigma)
        assert Fraction(size) ** 2 <= 2 * rho * sigma**2


@pytest.mark.parametrize("delta", [1e-299, 1e-305, 5e-324])
def test_gaussian_with_a_tiny_delta_works_or_is_refused(delta):
    try:
        mechanism = DiscreteGaussian(1.0, delta)
    except ValueError as error:
        assert "'delta'" in str(error)
    else:
        assert mechanism.sigma > 30


@pytest.mark.parametrize("size", [1e-300, 1e-160, 1e-12])
def test_gaussian_with_a_tiny_sensitivity_adds_nothing_or_is_refused(size):
    try:
        mechanism = DiscreteGaussian(1.0, 1e-6, size)
    except ValueError as error:
        assert "'sensitivity'" in str(error)
    else:
        assert np.array_equal(mechanism.release(np.arange(100)), np.arange(100))
        assert mechanism.variance == 0 and mechanism.interval(0.95) == (0, 0)


@pytest.mark.parametrize("size", [0.05, 0.5, 1.0, 4.7, 4.8, 20.0, 3000.0])
def test_gaussian_variance_and_interval_are_exact(size, gaussian_pmf):
    mechanism = DiscreteGaussian(1.0, 1e-6, size)
    sigma = mechanism.sigma
    width = math.ceil(14 * sigma) + 3
    k = np.arange(-width, width + 1)
    pmf = gaussian_pmf(sigma, width)
    exact = math.fsum(k * k * pmf)
    assert mechanism.variance == pytest.approx(exact, rel=1e-9, abs=1e-300)
    assert mechanism.std == pytest.approx(math.sqrt(exact), rel=1e-9, abs=1e-150)
    assert mechanism.variance <= sigma**2 * (1 + 1e-12)
    for confidence in (0.01, 0.5, 0.95, 1 - 1e-9):
        low, high = mechanism.interval(confidence)
        assert low == -high and isinstance(high, int)
        assert math.fsum(pmf[np.abs(k) <= high]) >= confidence - 1e-13
        if high:  # above sigma = 10^4 it may be two integers wider than needed
            spare = 2 if sigma > 1e4 else 0
            assert math.fsum(pmf[np.abs(k) < high - spare]) < confidence


# --- Releases


@pytest.mark.parametrize("epsilon", [0.02, 0.7, 3.0])
def test_laplace_releases_follow_the_pmf(epsilon, laplace_pmf, fits, clopper_pearson):
    mechanism = DiscreteLaplace(epsilon)
    value = np.arange(DRAWS)
    noise = mechanism.release(value) - value
    width = math.ceil(3 / epsilon) + 2
    counts = np.bincount(np.clip(noise, -width, width) + width, minlength=2 * width + 1)
    pmf = laplace_pmf(1 / epsilon, width)
    pmf[[0, -1]] += (1 - pmf.sum()) / 2
    assert fits(counts, pmf)
    low, high = mechanism.interval(0.9)
    covered = np.count_nonzero((noise >= low) & (noise <= high))
    assert clopper_pearson(covered, DRAWS)[1] >= 0.9


@pytest.mark.parametrize("size", [0.1, 1.0, 10.0])
def test_gaussian_releases_follow_the_pmf(size, gaussian_pmf, fits, clopper_pearson):
    mechanism = DiscreteGaussian(1.0, 1e-6, size)
    noise = mechanism.release(np.zeros((2, DRAWS // 2), dtype=np.int32)).ravel()
    width = math.ceil(14 * mechanism.sigma) + 1
    counts = np.bincount(noise + width, minlength=2 * width + 1)
    assert fits(counts, gaussian_pmf(mechanism.sigma, width))
    low, high = mechanism.interval(0.9)
    covered = np.count_nonzero((noise >= low) & (noise <= high))
    assert clopper_pearson(covered, DRAWS)[1] >= 0.9


def test_integers_stay_integers_up_to_the_largest():
    for mechanism in (DiscreteLaplace(1.0), DiscreteGaussian(1.0, 1e-6)):
        for value in (2**62, -(2**62), np.int64(2**62), np.uint64(7), True):
            out = mechanism.release(value)
            assert type(out) is int
            assert abs(out - int(value)) < 1000
        values = np.array([2**62, -(2**62), 0], dtype=np.int64)
        out = mechanism.release(values)
        assert out.dtype == np.int64
        assert np.abs(out - values).max() < 1000


def test_the_largest_noise_is_refused_by_name():
    for make in (
        lambda: DiscreteLaplace(1e-16),
        lambda: DiscreteLaplace(1.0, 2**60),
        lambda: DiscreteGaussian(1e-16, 1e-20),
        lambda: DiscreteGaussian(1.0, 1e-6, 1e300),
    ):
        with pytest.raises(ValueError, match="'sensitivity'"):
            make()


# --- Audits of real releases


@pytest.mark.parametrize("epsilon", [0.3, 1.0, 2.5])
@pytest.mark.parametrize("shift", [1, 4])
def test_audit_laplace(epsilon, shift, audit):
    mechanism = DiscreteLaplace(epsilon, shift)
    first = mechanism.release(np.full(DRAWS, 100))
    second = mechanism.release(np.full(DRAWS, 100 + shift))
    assert epsilon / 2 < audit(first, second) <= epsilon


@pytest.mark.parametrize(("epsilon", "delta"), [(0.5, 0.01), (2.0, 0.05)])
def test_audit_gaussian(epsilon, delta, audit):
    mechanism = DiscreteGaussian(epsilon, delta)
    first = mechanism.release(np.full(DRAWS, 100))
    second = mechanism.release(np.full(DRAWS, 101))
    assert audit(first, second, delta) <= epsilon


def test_audit_catches_a_sensitivity_that_is_half_the_true_one(audit):
    mechanism = DiscreteLaplace(1.0, 1)
    first = mechanism.release(np.full(DRAWS, 100))
    second = mechanism.release(np.full(DRAWS, 102))
    assert audit(first, second) > 1.0
