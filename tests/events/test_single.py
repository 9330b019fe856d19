"""Profiles and Renyi curves of single events against independent numerics."""

import itertools
import math

import mpmath as mp
import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from scipy.special import logsumexp

from skdp import events
from skdp.divergences import DEFAULT_ORDERS, DISCRETE_SLACK, epsilon_from_rdp
from skdp.exceptions import UnsupportedEventError

RELATIONS = ("replace", "add_remove")

# One event of each kind whose profile is quick.
EVENTS = {
    "pure": events.Pure(0.7),
    "approximate": events.Approximate(0.7, 1e-5),
    "approximate without delta": events.Approximate(0.7, 0.0),
    "zero concentrated": events.ZeroConcentrated(0.2),
    "bounded range": events.BoundedRange(0.7),
    "laplace": events.Laplace(1.5),
    "gaussian": events.Gaussian(2.0),
    "sampled gaussian": events.SampledGaussian(2.0, 0.3, 3),
}
HAS_PURE = ("pure", "approximate without delta", "bounded range", "laplace")


def by_kind(names=None):
    chosen = {name: EVENTS[name] for name in names or EVENTS}
    return pytest.mark.parametrize("event", chosen.values(), ids=chosen)


def points_hockey_stick(p, q, epsilon):
    return max(
        math.fsum(
            max(a - math.exp(epsilon) * b, 0.0) for a, b in zip(*pair, strict=True)
        )
        for pair in ((p, q), (q, p))
    )


def grid_hockey_stick(p, q, epsilon):
    """Return the larger of both directions, from probabilities on a grid."""
    ratio = math.exp(epsilon)
    return max(np.maximum(p - ratio * q, 0).sum(), np.maximum(q - ratio * p, 0).sum())


def normal_grid(sigma, reach):
    """Return points up to 12 sigma beyond the reach, and their distance."""
    width = sigma / 1000
    cells = np.arange(-reach - 12 * sigma, reach + 12 * sigma, width)
    return cells, width


def log_normal(x, mean, sigma):
    return -0.5 * ((x - mean) / sigma) ** 2 - math.log(sigma * math.sqrt(2 * math.pi))


def normal(x, mean, sigma):
    return np.exp(log_normal(x, mean, sigma))


# --- Profiles


@pytest.mark.parametrize("eps", [0.05, 1.0, 6.0])
@pytest.mark.parametrize("fraction", [0, 0.3, 0.9, 1.0, 1.1])
def test_pure_is_randomised_response(eps, fraction):
    keep = 1 / (1 + math.exp(-eps))
    truth = points_hockey_stick((keep, 1 - keep), (1 - keep, keep), fraction * eps)
    assert events.Pure(eps).profile(fraction * eps) == pytest.approx(truth, abs=1e-13)


@pytest.mark.parametrize("eps", [0.05, 1.0, 6.0])
@pytest.mark.parametrize("delta", [0.0, 1e-3, 0.4])
def test_approximate_is_the_worst_release_of_four_outcomes(eps, delta):
    keep = (1 - delta) / (1 + math.exp(-eps))
    flip = (1 - delta) - keep
    p, q = (delta, keep, flip, 0.0), (0.0, flip, keep, delta)
    event = events.Approximate(eps, delta)
    for epsilon in (0.0, eps / 3, eps, 2 * eps):
        truth = points_hockey_stick(p, q, epsilon)
        assert event.profile(epsilon) == pytest.approx(truth, rel=1e-12, abs=1e-13)


@pytest.mark.parametrize("eps", [0.05, 1.0, 6.0])
def test_bounded_range_is_the_worst_of_its_two_point_family(eps):
    event = events.BoundedRange(eps)
    losses = np.linspace(1e-6, 1 - 1e-6, 4001) * eps
    p = (math.exp(eps) - np.exp(losses)) / math.expm1(eps)
    q = p * np.exp(-losses)
    for epsilon in (0.0, 0.2 * eps, 0.8 * eps):
        upper = np.maximum(p - math.exp(epsilon) * q, 0)
        lower = np.maximum((1 - q) - math.exp(epsilon) * (1 - p), 0)
        truth = max(upper.max(), lower.max())
        assert event.profile(epsilon) >= truth * (1 - 1e-12)
        assert event.profile(epsilon) == pytest.approx(truth, rel=1e-6)
    assert event.profile(eps) == 0


@pytest.mark.parametrize("eps", [0.4, 2.0])
def test_bounded_range_covers_the_exponential_mechanism(eps):
    event = events.BoundedRange(eps)
    rng = np.random.default_rng(0)
    for _ in range(20):  # holds for every pair of scores; the seed is fixed
        scores = rng.uniform(0, 3, size=5)
        change = rng.uniform(-0.5, 0.5, size=5)  # sensitivity 1/2, range at most 1
        p = np.exp(eps * scores)
        q = np.exp(eps * (scores + change))
        p, q = p / p.sum(), q / q.sum()
        for epsilon in (0.0, eps / 2, 0.9 * eps):
            assert event.profile(epsilon) >= grid_hockey_stick(p, q, epsilon)


@pytest.mark.parametrize("multiplier", [0.2, 1.0, 20.0])
@pytest.mark.parametrize("fraction", [0, 0.5, 0.95, 1.0])
def test_laplace_is_the_integral(multiplier, fraction):
    epsilon = fraction / multiplier
    scale = multiplier

    def excess(x):
        p, q = mp.exp(-abs(x) / scale), mp.exp(-abs(x - 1) / scale)
        return max(p - mp.exp(epsilon) * q, mp.mpf(0)) / (2 * scale)

    crossing = (1 - fraction) / 2
    truth = float(mp.quad(excess, [-mp.inf, 0, crossing, 1, mp.inf]))
    value = events.Laplace(multiplier).profile(epsilon)
    assert value == pytest.approx(truth, rel=1e-9, abs=1e-14)


@pytest.mark.parametrize(("first", "second"), [(0.5, 0.5), (0.1, 0.9), (1.2, 0.8)])
def test_laplace_vectors_are_dominated_by_one_coordinate(first, second):
    """Two shifts in two coordinates against their sum in one, by 2-D integration."""
    width = 0.02
    x = np.arange(-16, 18, width) + width / 2

    def plane(a, b):
        cell = np.exp(-np.abs(x - a))[:, None] * np.exp(-np.abs(x - b))
        return cell * (width / 2) ** 2

    p, q = plane(0, 0), plane(first, second)
    event = events.Laplace(1 / (first + second))
    for epsilon in (0.0, 0.25, 0.5, 0.9):
        truth = grid_hockey_stick(p, q, epsilon)
        assert 0 < truth <= event.profile(epsilon) + 1e-4  # the grid's error
    one = plane(first + second, 0)
    assert event.profile(0.5) == pytest.approx(grid_hockey_stick(p, one, 0.5), abs=1e-4)


@pytest.mark.parametrize("multiplier", [0.3, 1.0, 4.0])
@pytest.mark.parametrize("epsilon", [0, 0.1, 1.0, 3.0])
def test_gaussian_is_the_integral(multiplier, epsilon):
    with mp.workdps(40):
        crossing = mp.mpf(epsilon) * mp.mpf(multiplier) ** 2 + mp.mpf(1) / 2
        pieces = [crossing + i * multiplier for i in (0, 1, 3, 8, 25)]
        truth = mp.quad(
            lambda x: (
                mp.npdf(x, 1, multiplier) - mp.exp(epsilon) * mp.npdf(x, 0, multiplier)
            ),
            pieces,
        )
    value = events.Gaussian(multiplier).profile(epsilon)
    assert value == pytest.approx(float(truth), rel=1e-10, abs=2 * DISCRETE_SLACK)


def test_gaussian_pays_for_its_grid():
    assert events.Gaussian(0.5).profile(1000.0) == DISCRETE_SLACK
    assert events.Gaussian(1e9).profile(1.0) == DISCRETE_SLACK


def test_one_gaussian_reference_value():
    assert events.Gaussian(2.0).epsilon(1e-6) == pytest.approx(2.254, abs=5e-4)


@pytest.mark.parametrize("rho", [0.01, 0.5, 4.0])
def test_zero_concentrated_covers_the_gaussian(rho):
    event, gaussian = (
        events.ZeroConcentrated(rho),
        events.Gaussian(1 / (2 * rho) ** 0.5),
    )
    for epsilon in (0.0, rho / 2, rho, 2 * rho + 1, 10.0):
        assert event.profile(epsilon) >= gaussian.profile(epsilon) - 2 * DISCRETE_SLACK
    for delta in (1e-3, 1e-9):
        exact = gaussian.epsilon(delta)
        assert exact <= event.epsilon(delta) <= 1.3 * exact + 0.05


# --- The sampled Gaussian


def sampled_hockey_stick(q, sigma, epsilon):
    """Return the larger direction of (1 - q) N(0) + q N(1) against N(0), exactly."""
    with mp.workdps(30):
        q, sigma, epsilon = mp.mpf(q), mp.mpf(sigma), mp.mpf(epsilon)
        ratio = mp.exp(epsilon)

        def crossing(likelihood):  # where the mixture is that many times N(0)
            return sigma**2 * mp.log((likelihood - 1 + q) / q) + mp.mpf(1) / 2

        def below(x, mean):
            return mp.ncdf((x - mean) / sigma)

        x = crossing(ratio)
        remove = q * below(-x, -1) + (1 - q - ratio) * below(-x, 0)
        if 1 / ratio <= 1 - q:
            return float(remove)
        x = crossing(1 / ratio)
        add = (1 - ratio * (1 - q)) * below(x, 0) - ratio * q * below(x, 1)
        return float(max(remove, add))


@pytest.mark.parametrize(
    ("sigma", "q"), [(0.5, 0.1), (1.0, 0.05), (1.0, 0.5), (2.0, 1.0), (5.0, 0.2)]
)
def test_sampled_gaussian_step_is_the_integral(sigma, q):
    event = events.SampledGaussian(sigma, q)
    for epsilon in (0.0, 0.0123, 0.1, 0.5, 1.0, 2.0):
        truth = sampled_hockey_stick(q, sigma, epsilon)
        assert event.profile(epsilon) >= truth * (1 - 1e-12)
        assert event.profile(epsilon) <= truth * (1 + 1e-6) + 1e-14


def composed_delta(losses, weights, steps, epsilon, rounding):
    """Compose equal steps with losses rounded to a grid, down or up."""
    width = 2e-4
    bins = rounding(losses / width).astype(int)
    pmf = np.bincount(bins - bins.min(), weights / weights.sum())
    size = steps * (pmf.size - 1) + 1
    total = np.fft.irfft(np.fft.rfft(pmf, size) ** steps, size)
    grid = (np.arange(size) + steps * bins.min()) * width
    return float(-np.expm1(np.minimum(epsilon - grid, 0)) @ total)


@pytest.mark.parametrize(("sigma", "q", "steps"), [(1.0, 0.2, 2), (2.0, 0.5, 4)])
def test_sampled_gaussian_steps_compose(sigma, q, steps):
    x = np.arange(-12 * sigma, 12 * sigma + 1, sigma / 200)
    base = normal(x, 0, sigma)
    ratio = 1 - q + q * np.exp((2 * x - 1) / (2 * sigma**2))
    remove, add = (np.log(ratio), base * ratio), (-np.log(ratio), base)
    event = events.SampledGaussian(sigma, q, steps)
    for epsilon in (0.1, 0.5, 1.0):
        least, most = (
            max(composed_delta(*pair, steps, epsilon, way) for pair in (remove, add))
            for way in (np.floor, np.ceil)
        )
        assert least - 1e-6 <= event.profile(epsilon) <= most + 1e-6  # the grid's error


@pytest.mark.parametrize(("sigma", "q"), [(2.0, 0.3), (5.0, 0.5)])
def test_sampled_gaussian_under_replace_covers_opposite_rows(sigma, q):
    event = events.SampledGaussian(sigma, q, 1, "replace")
    x, width = normal_grid(sigma, 1.0)
    rest = (1 - q) * normal(x, 0, sigma)
    up = (rest + q * normal(x, 1, sigma)) * width
    down = (rest + q * normal(x, -1, sigma)) * width
    for epsilon in (0.0, 0.1, 0.5):
        truth = grid_hockey_stick(up, down, epsilon)
        assert event.profile(epsilon) >= truth - 1e-9
        # The triangle inequality is at most as costly as this.
        assert event.profile(epsilon) <= 4 * truth + 1e-6


def test_sampled_gaussian_under_replace_inverts_its_profile():
    event = events.SampledGaussian(5.0, 0.5, 1, "replace")
    epsilon = event.epsilon(1e-5)
    assert event.profile(epsilon) <= 1e-5 < event.profile(epsilon * (1 - 1e-6))
    one_row = events.SampledGaussian(5.0, 0.5, 1, "add_remove")
    assert epsilon > one_row.epsilon(1e-5)


def test_sampled_gaussian_under_replace_is_never_pure():
    assert events.SampledGaussian(5.0, 0.5, 1, "replace").epsilon(0.0) == math.inf


def test_sampled_gaussian_reference_values():
    event = events.SampledGaussian(1.0, 0.01, 10_000)
    assert event.epsilon(1e-6) == pytest.approx(6.907, abs=1e-3)
    renyi = epsilon_from_rdp(DEFAULT_ORDERS, event.rdp(DEFAULT_ORDERS), 1e-6)
    assert renyi == pytest.approx(7.414, abs=1e-3)


# --- Renyi curves

ORDERS = np.array([1.1, 1.5, 2.0, 4.0, 16.0])


def grid_renyi(order, log_p, log_q):
    """Return the larger direction's divergence, from probabilities on a grid."""
    return max(
        logsumexp(order * a + (1 - order) * b) / (order - 1)
        for a, b in ((log_p, log_q), (log_q, log_p))
    )


@pytest.mark.parametrize("eps", [0.1, 1.0, 4.0])
def test_pure_renyi_curve_is_that_of_randomised_response(eps):
    keep = 1 / (1 + math.exp(-eps))
    answers = np.log([keep, 1 - keep])
    curve = events.Pure(eps).rdp(ORDERS)
    truth = [grid_renyi(order, answers, answers[::-1]) for order in ORDERS]
    np.testing.assert_allclose(curve, truth, rtol=1e-6)
    assert (curve >= np.array(truth) * (1 - 1e-12)).all()


@pytest.mark.parametrize("multiplier", [0.25, 1.0, 10.0])
def test_laplace_renyi_curve_is_the_integral(multiplier):
    shift = 1 / mp.mpf(multiplier)
    pieces = [-mp.inf, 0, shift / 2, shift, mp.inf]

    def renyi(order):
        def integrand(x):
            return mp.exp(-order * abs(x) - (1 - order) * abs(x - shift)) / 2

        return float(mp.log(mp.quad(integrand, pieces)) / (order - 1))

    truth = [renyi(mp.mpf(order)) for order in ORDERS]
    np.testing.assert_allclose(events.Laplace(multiplier).rdp(ORDERS), truth, rtol=1e-6)


@pytest.mark.parametrize("multiplier", [0.7, 1.0, 10.0])
def test_gaussian_renyi_curve_is_the_integral(multiplier):
    x, width = normal_grid(multiplier, 20.0)
    log_p = log_normal(x, 0, multiplier) + math.log(width)
    log_q = log_normal(x, 1, multiplier) + math.log(width)
    curve = events.Gaussian(multiplier).rdp(ORDERS)
    truth = [grid_renyi(order, log_p, log_q) for order in ORDERS]
    np.testing.assert_allclose(curve, truth, rtol=1e-6)


@pytest.mark.parametrize("eps", [0.1, 1.0, 4.0])
def test_bounded_range_renyi_curve_is_the_worst_of_its_family(eps):
    losses = np.linspace(0, 1, 20_001)[1:-1] * eps
    p = (math.exp(eps) - np.exp(losses)) / math.expm1(eps)
    for order, value in zip(ORDERS, events.BoundedRange(eps).rdp(ORDERS), strict=True):
        gap = order - 1
        moment = p * np.exp(gap * losses) + (1 - p) * np.exp(gap * (losses - eps))
        truth = math.log(moment.max()) / gap
        assert value >= truth * (1 - 1e-10)
        assert value == pytest.approx(truth, rel=1e-6)


def test_zero_concentrated_renyi_curve_is_a_line():
    curve = events.ZeroConcentrated(0.3).rdp(ORDERS)
    np.testing.assert_allclose(curve, 0.3 * ORDERS, rtol=1e-15)


@pytest.mark.parametrize(("sigma", "q"), [(1.0, 0.1), (3.0, 0.5)])
@pytest.mark.parametrize("neighboring", RELATIONS)
def test_sampled_gaussian_renyi_curve_covers_the_integral(sigma, q, neighboring):
    event = events.SampledGaussian(sigma, q, 5, neighboring)
    x, width = normal_grid(sigma, 20.0)

    def log_mixture(mean):
        absent = math.log(1 - q) + log_normal(x, 0, sigma)
        return np.logaddexp(absent, math.log(q) + log_normal(x, mean, sigma))

    log_p = log_mixture(1) + math.log(width)
    log_q = log_mixture(-1 if neighboring == "replace" else 0) + math.log(width)
    for order, value in zip(ORDERS, event.rdp(ORDERS), strict=True):
        truth = 5 * grid_renyi(order, log_p, log_q)
        assert value >= truth * (1 - 1e-9)
        if neighboring == "add_remove":
            assert value == pytest.approx(truth, rel=1e-6)


def test_sampled_gaussian_renyi_curve_is_linear_in_the_steps():
    one, many = (events.SampledGaussian(1.5, 0.05, steps) for steps in (1, 40))
    np.testing.assert_allclose(many.rdp(ORDERS), 40 * one.rdp(ORDERS), rtol=1e-12)


# --- Profiles and epsilons invert each other

DELTAS = (1e-9, 1e-6, 1e-3, 0.1)


@by_kind()
@pytest.mark.parametrize("delta", DELTAS)
def test_epsilon_inverts_the_profile(event, delta):
    epsilon = event.epsilon(delta)
    if math.isinf(epsilon):
        assert event.profile(1e3) > delta
        return
    assert event.profile(epsilon) <= delta * (1 + 1e-12)
    if epsilon > 0:
        assert event.profile(epsilon * (1 - 1e-6)) > delta


positive = st.floats(1e-3, 30)
closed_form = st.one_of(
    positive.map(events.Pure),
    st.builds(events.Approximate, positive, st.floats(0, 0.1)),
    st.floats(1e-4, 30).map(events.ZeroConcentrated),
    positive.map(events.BoundedRange),
    st.floats(0.03, 100).map(events.Laplace),
    st.floats(0.05, 100).map(events.Gaussian),
)


@settings(deadline=None, max_examples=200)
@given(event=closed_form, log_delta=st.floats(-14, -0.01))
def test_epsilon_is_rounded_up(event, log_delta):
    delta = 10**log_delta
    epsilon = event.epsilon(delta)
    if math.isfinite(epsilon):
        assert event.profile(epsilon) <= delta
        if epsilon > 1e-6:
            assert event.profile(epsilon * (1 - 1e-6)) > delta


@settings(deadline=None, max_examples=200)
@given(event=closed_form, low=st.floats(0, 40), gap=st.floats(1e-6, 10))
def test_profiles_fall(event, low, gap):
    here, there = event.profile(low), event.profile(low + gap)
    assert 0 <= there <= here * (1 + 1e-9) <= 1 + 1e-9


@settings(deadline=None, max_examples=200)
@given(event=closed_form, log_delta=st.floats(-14, -0.1), factor=st.floats(1.01, 1e6))
def test_epsilons_fall_with_delta(event, log_delta, factor):
    delta = 10**log_delta
    assert event.epsilon(min(0.99, delta * factor)) <= event.epsilon(delta)


@by_kind(["sampled gaussian"])
def test_sampled_profiles_and_epsilons_fall(event):
    profile = [event.profile(epsilon) for epsilon in np.linspace(0, 3, 31)]
    assert (np.diff(profile) <= 0).all()
    # Also where the slack of the transform ends and the Renyi curve takes over.
    deltas = [1e-30, 1e-16, 1e-15, 2e-15, 3e-15, 1e-14, 1e-10, 1e-6, 0.1]
    epsilons = np.array([event.epsilon(delta) for delta in deltas])
    assert np.isfinite(epsilons).all()
    assert (np.diff(epsilons) <= 0).all()


@by_kind(HAS_PURE)
def test_pure_events_have_an_epsilon_at_delta_zero(event):
    eps, delta = event.basic()
    assert delta == 0
    assert event.epsilon(0) == pytest.approx(eps, rel=1e-12)
    assert event.profile(eps) == 0


@by_kind(set(EVENTS) - set(HAS_PURE))
def test_other_events_have_none(event):
    assert event.epsilon(0) == math.inf
    assert event.profile(50.0) > 0


@pytest.mark.parametrize(
    "event", [events.ZeroConcentrated(1e-4), events.Gaussian(99.0)]
)
def test_an_underflow_is_no_pure_privacy(event):
    assert event.profile(1e4) > 0
    assert event.epsilon(0.0) == math.inf


def test_approximate_meets_its_own_parameters_exactly():
    event = events.Approximate(0.3, 1e-6)
    assert event.epsilon(1e-6) == 0.3
    assert event.basic() == (0.3, 1e-6)
    assert event.epsilon(9e-7) == math.inf


# --- Privacy loss distributions


@by_kind(["pure", "approximate", "laplace", "gaussian", "sampled gaussian"])
def test_privacy_loss_distributions_agree_with_the_profile(event):
    pld = event.pld()
    for epsilon in (0.0, 0.2, 0.6):
        value, truth = float(pld.get_delta_for_epsilon(epsilon)), event.profile(epsilon)
        assert truth * (1 - 1e-9) <= value <= truth * (1 + 1e-3)


def test_privacy_loss_distributions_compose_at_one_interval():
    first, second = events.Laplace(2.0).pld(1e-3), events.Gaussian(2.0).pld(1e-3)
    assert first.compose(second).get_delta_for_epsilon(1.0) > 0
    with pytest.raises(ValueError, match="'interval'"):
        events.Gaussian(2.0).pld(0.0)


# --- Refusals


@by_kind(["zero concentrated", "bounded range"])
def test_kinds_without_a_privacy_loss_distribution_refuse(event):
    with pytest.raises(UnsupportedEventError, match=type(event).__name__):
        event.pld()
    with pytest.raises(UnsupportedEventError):
        event.pld(1e-3)


def test_sampling_under_replace_has_no_privacy_loss_distribution():
    with pytest.raises(UnsupportedEventError, match="replace"):
        events.SampledGaussian(2.0, 0.5, 1, "replace").pld()


def test_approximate_keeps_its_failure_out_of_the_renyi_curve():
    event = events.Approximate(0.5, 1e-6)
    with pytest.raises(UnsupportedEventError, match="rdp_and_delta"):
        event.rdp([2.0])
    curve, delta = event.rdp_and_delta([2.0, 3.0])
    np.testing.assert_array_equal(curve, events.Pure(0.5).rdp([2.0, 3.0]))
    assert delta == 1e-6
    np.testing.assert_array_equal(events.Approximate(0.5, 0.0).rdp([2.0]), curve[:1])


@by_kind()
def test_questions_are_validated(event):
    for bad in (-1e-9, math.nan, math.inf):
        with pytest.raises(ValueError, match="'epsilon'"):
            event.profile(bad)
    for bad in (-1e-9, 1.0, math.nan):
        with pytest.raises(ValueError, match="'delta'"):
            event.epsilon(bad)
    for bad in ([], [1.0], [0.5, 2.0], [math.inf], [math.nan]):
        with pytest.raises(ValueError, match="'orders'"):
            event.rdp_and_delta(bad)


@by_kind()
def test_curves_have_the_shape_of_the_orders(event):
    assert event.rdp_and_delta(np.full((2, 3), 2.0))[0].shape == (2, 3)
    assert event.rdp_and_delta(2.0)[0].shape == ()


# --- Construction

FIELDS = {
    events.Pure: {"eps": 1.0},
    events.Approximate: {"eps": 1.0, "delta": 1e-6},
    events.ZeroConcentrated: {"rho": 0.1},
    events.BoundedRange: {"eps": 1.0},
    events.Laplace: {"noise_multiplier": 1.0},
    events.Gaussian: {"noise_multiplier": 1.0},
    events.SampledGaussian: {
        "noise_multiplier": 1.0,
        "sampling_probability": 0.1,
        "steps": 2,
    },
}
EACH_FIELD = [(kind, name) for kind, fields in FIELDS.items() for name in fields]


@pytest.mark.parametrize(("kind", "name"), EACH_FIELD)
@pytest.mark.parametrize("bad", [math.nan, math.inf, -math.inf, -1.0, "1", None, True])
def test_fields_are_validated(kind, name, bad):
    with pytest.raises((ValueError, TypeError), match=f"'{name}'"):
        kind(**(FIELDS[kind] | {name: bad}))


@pytest.mark.parametrize(("kind", "name"), EACH_FIELD)
def test_zero_is_no_privacy_parameter(kind, name):
    if (kind, name) == (events.Approximate, "delta"):
        assert kind(1.0, 0.0).delta == 0
        return
    with pytest.raises((ValueError, TypeError), match=f"'{name}'"):
        kind(**(FIELDS[kind] | {name: 0}))


@pytest.mark.parametrize("kind", FIELDS)
def test_neighbours_are_named(kind):
    for neighboring in RELATIONS:
        assert kind(**FIELDS[kind], neighboring=neighboring).neighboring == neighboring
    with pytest.raises(ValueError, match="'neighboring'"):
        kind(**FIELDS[kind], neighboring="swap")


@pytest.mark.parametrize("kind", FIELDS)
def test_events_are_values(kind):
    event, same = kind(**FIELDS[kind]), kind(**FIELDS[kind])
    assert event == same
    assert hash(event) == hash(same)
    name = next(iter(FIELDS[kind]))
    assert event != kind(**(FIELDS[kind] | {name: 2 * FIELDS[kind][name]}))
    with pytest.raises(AttributeError):
        setattr(event, name, 3.0)


def test_events_of_different_kinds_differ():
    for one, other in itertools.permutations(EVENTS.values(), 2):
        assert one != other
    assert events.Pure(1.0) != events.BoundedRange(1.0)
    assert events.Pure(1.0) != events.Pure(1.0, "add_remove")


def test_fields_become_plain_numbers():
    event = events.SampledGaussian(np.float32(2), np.float64(0.5), np.int64(3))
    assert [type(value) for value in (event.noise_multiplier, event.steps)] == [
        float,
        int,
    ]
    assert event == events.SampledGaussian(2.0, 0.5, 3)


@settings(deadline=None, max_examples=200)
@given(
    kind=st.sampled_from([kind for kind in FIELDS if len(FIELDS[kind]) == 1]),
    exponent=st.integers(-300, 300),
    epsilon=st.sampled_from([0.0, 1e-9, 1.0, 1e9]),
)
@example(kind=events.Gaussian, exponent=-155, epsilon=0.0)
@example(kind=events.Gaussian, exponent=146, epsilon=1e9)
@example(kind=events.Gaussian, exponent=300, epsilon=1e9)
@example(kind=events.BoundedRange, exponent=15, epsilon=0.0)
@example(kind=events.Pure, exponent=154, epsilon=0.0)
@example(kind=events.ZeroConcentrated, exponent=-300, epsilon=1e9)
@example(kind=events.ZeroConcentrated, exponent=300, epsilon=1e9)
def test_extreme_parameters_get_an_answer(kind, exponent, epsilon):
    event = kind(10.0**exponent)
    assert 0 <= event.profile(epsilon) <= 1
    assert event.epsilon(1e-6) >= 0
    assert (event.rdp([1.5, 2.0, 100.0]) >= 0).all()
