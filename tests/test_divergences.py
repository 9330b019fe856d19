"""Curves against independent sums and integrals; they may err upwards only."""

import math

import mpmath as mp
import numpy as np
import pytest
from scipy.optimize import minimize_scalar

from skdp import divergences

ROUNDING = 1e-14  # relative: what float64 may lose in a dozen operations


def assert_just_above(value, truth, within):
    """Show truth <= value <= truth (1 + within), up to float rounding."""
    assert value >= float(truth) * (1 - ROUNDING) - 1e-25
    assert value <= float(truth) * (1 + within) + 1e-25


def two_point_hockey_stick(p, q, epsilon):
    return sum(max(a - mp.exp(epsilon) * b, mp.mpf(0)) for a, b in zip(p, q, strict=1))


def gaussian_reference(epsilon, shift):
    """Balle and Wang's formula with digits to spare."""
    with mp.workdps(60):
        epsilon, shift = mp.mpf(epsilon), mp.mpf(shift)
        upper, lower = shift / 2 - epsilon / shift, -shift / 2 - epsilon / shift
        return +(mp.ncdf(upper) - mp.exp(epsilon) * mp.ncdf(lower))


def randomised_response(pure):
    keep = 1 / (1 + mp.exp(-mp.mpf(pure)))
    return (keep, 1 - keep), (1 - keep, keep)


def bounded_range_pair(width, log_u):
    """Return the pair whose loss is log_u or log_u - width."""
    width, u = mp.mpf(width), mp.exp(mp.mpf(log_u))
    p = (mp.exp(width) - u) / mp.expm1(width)
    return (p, 1 - p), (p / u, (1 - p) * mp.exp(width) / u)


# --- Profiles


@pytest.mark.parametrize("pure", [1e-9, 1e-3, 0.3, 1.0, 5.0, 40.0])
@pytest.mark.parametrize("fraction", [0, 0.1, 0.5, 0.99, 1, 1.5])
def test_pure_profile_is_that_of_randomised_response(pure, fraction):
    with mp.workdps(50):
        truth = two_point_hockey_stick(*randomised_response(pure), fraction * pure)
    value = divergences.pure_profile(fraction * pure, pure)
    assert_just_above(value, truth, 1e-12)


@pytest.mark.parametrize("width", [1e-6, 0.1, 1.0, 5.0])
@pytest.mark.parametrize("fraction", [0, 0.1, 0.5, 0.9])
def test_bounded_range_profile_is_the_worst_two_point_pair(width, fraction):
    epsilon = fraction * width

    with mp.workdps(40):

        def delta(log_u):
            pair = bounded_range_pair(width, log_u)
            return float(two_point_hockey_stick(*pair, epsilon))

        grid = [delta(log_u) for log_u in np.linspace(0, width, 201)]
        best = minimize_scalar(
            lambda t: -delta(t), bounds=(0, width), options={"xatol": 1e-9 * width}
        )
    value = divergences.bounded_range_profile(epsilon, width)
    assert max(grid) <= value * (1 + ROUNDING)
    assert value == pytest.approx(-best.fun, rel=1e-6)


@pytest.mark.parametrize("shift", [1e-3, 0.5, 2.0, 10.0])
@pytest.mark.parametrize("fraction", [0, 0.2, 0.9, 1.0])
def test_laplace_profile_is_the_integral(shift, fraction):
    epsilon = fraction * shift

    def excess(x):
        p, q = mp.exp(-abs(x)) / 2, mp.exp(-abs(x - shift)) / 2
        return max(p - mp.exp(epsilon) * q, mp.mpf(0))

    with mp.workdps(30):
        # The loss is shift - 2x between the centres.
        crossing = (mp.mpf(shift) - epsilon) / 2
        truth = mp.quad(excess, [-mp.inf, 0, crossing, shift, mp.inf])
    value = divergences.laplace_profile(epsilon, shift)
    assert_just_above(value, truth, 1e-12)


@pytest.mark.parametrize("shift", [0.05, 0.5, 2.0, 10.0])
@pytest.mark.parametrize("scaled", [0, 0.3, 1.0, 4.0])
def test_gaussian_profile_is_the_integral(shift, scaled):
    epsilon = scaled * shift + shift**2 / 2

    def excess(x):
        return mp.npdf(x - shift) - mp.exp(epsilon) * mp.npdf(x)

    with mp.workdps(40):
        crossing = mp.mpf(epsilon) / shift + mp.mpf(shift) / 2
        pieces = [crossing, crossing + 2, crossing + 6, crossing + 20]
        truth = mp.quad(excess, pieces)
    value = divergences.gaussian_profile(epsilon, shift)
    assert value == pytest.approx(float(truth), rel=1e-10)


@pytest.mark.parametrize("shift", [1e-100, 1e-15, 1e-9, 1e-4, 0.03, 0.4, 3, 40, 1e3])
@pytest.mark.parametrize("scaled", [0, 1e-3, 0.5, 1.0, 3.0, 8.0])
def test_gaussian_profile_is_accurate_for_every_shift(shift, scaled):
    epsilon = scaled * shift
    with mp.workdps(300):
        e, m = mp.mpf(epsilon), mp.mpf(shift)
        truth = mp.ncdf(m / 2 - e / m) - mp.exp(e) * mp.ncdf(-m / 2 - e / m)
    value = divergences.gaussian_profile(epsilon, shift)
    assert value == pytest.approx(float(truth), rel=6e-12, abs=0)


def test_a_gaussian_without_shift_is_perfectly_private():
    assert divergences.gaussian_profile(0.0, 0.0) == 0
    assert divergences.gaussian_profile(1.0, 0.0) == 0


@pytest.mark.parametrize("rho", [1e-30, 1e-18, 1e-6, 0.05, 0.5, 5.0])
@pytest.mark.parametrize("scaled", [0, 0.5, 1.0, 2.0, 8.0])
def test_zcdp_profile_is_the_best_order(rho, scaled):
    epsilon = max(0.0, rho + (scaled - 0.5) * math.sqrt(2 * rho))
    gap = np.exp(np.linspace(-40, 80, 240_001))  # the order less one
    exponent = gap * ((1 + gap) * rho - epsilon)
    log_delta = exponent - np.log1p(gap) - gap * np.log1p(1 / gap)
    value = divergences.zcdp_profile(epsilon, rho)
    assert value == pytest.approx(math.exp(log_delta.min()), rel=1e-5, abs=0)
    assert value >= divergences.gaussian_profile(epsilon, math.sqrt(2 * rho))


def test_a_positive_delta_never_underflows_to_zero():
    orders = divergences.DEFAULT_ORDERS
    assert divergences.zcdp_profile(1e3, 0.5) > 0
    assert divergences.delta_from_rdp(orders, 0.5 * orders, 1e3) > 0


# --- Renyi curves

ORDERS = [1.001, 1.1, 1.5, 2.0, 3.0, 10.0, 64.0, 1000.0]
TINY = [1e-12, 1e-9, 1e-6, 1e-4, 1e-3]


def renyi_of_points(order, p, q):
    order = mp.mpf(order)
    moment = sum(a**order * b ** (1 - order) for a, b in zip(p, q, strict=True))
    return mp.log(moment) / (order - 1)


def worst_bounded_range_renyi(order, width):
    """Maximise over the two-point family; the maximum is flat, the grid fine."""
    with mp.workdps(60):

        def curve(log_u):
            return renyi_of_points(order, *bounded_range_pair(width, log_u))

        points = np.linspace(0, width, 33)[1:-1]
        centre = max(points, key=curve)
        step = width / 32
        low, high = mp.mpf(centre) - step, mp.mpf(centre) + step
        for _ in range(40):  # ternary search
            third = (high - low) / 3
            if curve(low + third) < curve(high - third):
                low += third
            else:
                high -= third
        return curve((low + high) / 2)


def laplace_renyi(order, shift):
    """Integrate p^a q^(1-a) over the three pieces of the line."""
    with mp.workdps(60):
        order, shift = mp.mpf(order), mp.mpf(shift)

        def integrand(x):
            return mp.exp(-order * abs(x) - (1 - order) * abs(x - shift)) / 2

        outside = mp.exp((order - 1) * shift) / 2 + mp.exp(-order * shift) / 2
        pieces = mp.linspace(0, shift, 5)
        return mp.log(outside + mp.quad(integrand, pieces)) / (order - 1)


def pure_renyi(order, pure):
    with mp.workdps(80):
        return renyi_of_points(order, *randomised_response(pure))


CURVES = {
    "pure": (divergences.pure_rdp, pure_renyi, 2),
    "laplace": (divergences.laplace_rdp, laplace_renyi, 2),
    "bounded_range": (divergences.bounded_range_rdp, worst_bounded_range_renyi, 8),
}


@pytest.mark.parametrize("kind", CURVES)
@pytest.mark.parametrize("parameter", [0.1, 1.0, 5.0])
def test_renyi_curves_are_tight(kind, parameter):
    curve, reference, _ = CURVES[kind]
    for order in ORDERS[1:]:
        truth = reference(order, parameter)
        assert_just_above(curve(np.array([order]), parameter)[0], truth, 1e-6)


@pytest.mark.parametrize("kind", CURVES)
@pytest.mark.parametrize("parameter", TINY)
def test_renyi_curves_of_tiny_losses_err_upwards_only(kind, parameter):
    curve, reference, divisor = CURVES[kind]
    for order in ORDERS:
        value = curve(np.array([order]), parameter)[0]
        assert value >= reference(order, parameter) * (1 - 1e-12)
        assert value <= order * parameter**2 / divisor * (1 + ROUNDING)


@pytest.mark.parametrize("kind", CURVES)
def test_renyi_curves_grow_with_the_order_up_to_pure_dp(kind):
    curve = CURVES[kind][0](divergences.DEFAULT_ORDERS, 0.7)
    assert (np.diff(curve) >= -1e-12).all()
    assert curve.max() <= 0.7
    assert curve[-1] == pytest.approx(0.7, rel=1e-4)


def sampled_log_moment(order, sigma, q, sign=1):
    """Return log E r^order (sign=1) or log E r^(1 - order) (sign=-1) under N(0, 1).

    r = 1 - q + q exp((2 z sigma - 1) / (2 sigma^2)). The trapezoidal rule with 40
    digits: its error falls as exp(-2 pi^2 sigma / step), far below them.
    """
    with mp.workdps(40):
        order, sigma, q = mp.mpf(order), mp.mpf(sigma), mp.mpf(q)
        power = order if sign == 1 else 1 - order
        step = min(mp.mpf(1) / 8, sigma / 5)
        last = 14 + (order / sigma if sign == 1 else 0)

        def term(z):
            ratio = 1 - q + q * mp.exp((2 * z * sigma - 1) / (2 * sigma**2))
            return mp.npdf(z) * ratio**power

        total = mp.fsum(
            term(k * step) for k in range(int(-14 / step), int(last / step))
        )
        return mp.log(total * step)


def test_the_reference_moment_agrees_with_adaptive_quadrature():
    with mp.workdps(30):

        def integrand(z):
            ratio = mp.mpf("0.9") + mp.mpf("0.1") * mp.exp(z - mp.mpf("0.5"))
            return mp.npdf(z) * ratio ** mp.mpf("2.5")

        truth = mp.log(mp.quad(integrand, mp.linspace(-14, 18, 17)))
        value = sampled_log_moment("2.5", 1, "0.1")
    assert abs(value - truth) < 1e-20


@pytest.mark.parametrize("sigma", [0.3, 1.0, 5.0])
@pytest.mark.parametrize("q", [1e-6, 1e-3, 0.1, 0.9])
def test_sampled_gaussian_renyi_is_the_integral(sigma, q):
    for order in [1.001, 1.5, 2, 2.5, 16.25]:
        log_moment = sampled_log_moment(order, sigma, q)
        curve = divergences.sampled_gaussian_rdp(np.array([order]), sigma, q)[0]
        truth = log_moment / (mp.mpf(order) - 1)
        assert curve >= truth * (1 - 1e-9)
        assert curve <= truth * (1 + 1e-6) + 1e-12
        # The direction that skdp integrates is the worse one.
        assert sampled_log_moment(order, sigma, q, sign=-1) <= log_moment


@pytest.mark.parametrize(("order", "sigma"), [(300.7, 2.0), (2.5, 0.04)])
def test_sampled_gaussian_renyi_chord_is_an_upper_bound(order, sigma):
    truth = sampled_log_moment(order, sigma, 0.01) / (order - 1)
    value = divergences.sampled_gaussian_rdp(np.array([order]), sigma, 0.01)[0]
    assert_just_above(value, truth, 0.07)


def test_sampled_gaussian_renyi_without_amplification():
    orders = np.array([1.5, 3, 1e5])
    plain = orders / (2 * 2.0**2)
    np.testing.assert_allclose(
        divergences.sampled_gaussian_rdp(orders, 2.0, 1.0), plain, rtol=1e-12
    )
    assert divergences.sampled_gaussian_rdp(orders, 2.0, 0.1)[2] == plain[2]
    assert (divergences.sampled_gaussian_rdp(orders, 2.0, 0.0) == 0).all()


# --- Conversions


@pytest.mark.parametrize("rho", [0.01, 0.5, 8.0])
def test_renyi_conversions_invert_each_other_and_are_sound(rho):
    orders = divergences.DEFAULT_ORDERS
    curve = rho * orders
    for delta in [1e-3, 1e-6, 1e-12]:
        epsilon = divergences.epsilon_from_rdp(orders, curve, delta)
        back = divergences.delta_from_rdp(orders, curve, epsilon)
        assert back == pytest.approx(delta, rel=1e-9)
        exact = divergences.gaussian_profile(epsilon, math.sqrt(2 * rho))
        assert exact <= delta
    assert divergences.epsilon_from_rdp(orders, curve, 0.0) == math.inf


def test_renyi_conversion_of_no_loss_is_zero():
    orders = divergences.DEFAULT_ORDERS
    assert divergences.epsilon_from_rdp(orders, 0 * orders, 0.1) == 0
    assert divergences.delta_from_rdp(orders, 0 * orders, 0.0) < 1e-6


def test_default_orders_are_sorted_renyi_orders():
    orders = divergences.DEFAULT_ORDERS
    assert orders[0] > 1
    assert (np.diff(orders) > 0).all()


@pytest.mark.parametrize("scale", [1e-9, 1e-3, 1.0, 37.0, 1e9])
@pytest.mark.parametrize("delta", [1e-12, 1e-6, 0.3])
def test_epsilon_from_profile_inverts(scale, delta):
    def profile(epsilon):
        return math.exp(-epsilon / scale)

    epsilon = divergences.epsilon_from_profile(profile, delta)
    assert profile(epsilon) <= delta
    assert epsilon == pytest.approx(-scale * math.log(delta), rel=1e-12)


def test_epsilon_from_profile_at_the_ends():
    assert divergences.epsilon_from_profile(lambda epsilon: 1e-9, 1e-6) == 0
    assert divergences.epsilon_from_profile(lambda epsilon: 1e-3, 1e-6) == math.inf
