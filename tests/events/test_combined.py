"""Composition, parallel parts and groups against exact compositions."""

import itertools
import math
import subprocess
import sys

import mpmath as mp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from skdp import events
from skdp.calibration import gaussian_shift
from skdp.divergences import DISCRETE_SLACK, epsilon_from_rdp, gaussian_profile
from skdp.events import (
    Approximate,
    BoundedRange,
    Composed,
    Gaussian,
    Group,
    Laplace,
    Parallel,
    Pure,
    SampledGaussian,
    ZeroConcentrated,
)
from skdp.exceptions import UnsupportedEventError

ORDERS = np.array([1.5, 2.0, 8.0, 32.0])


def optimal_delta(count, pure, epsilon):
    """Compose randomised responses exactly (Kairouz, Oh and Viswanath 2015)."""
    with mp.workdps(50):
        pure, ratio = mp.mpf(pure), mp.exp(mp.mpf(epsilon))
        keep = 1 / (1 + mp.exp(-pure))
        total = mp.mpf(0)
        for flips in range(count + 1):
            p = keep**count * mp.exp(-flips * pure)
            gain = p - ratio * keep**count * mp.exp(-(count - flips) * pure)
            if gain <= 0:
                break
            total += mp.binomial(count, flips) * gain
        return total


def product_delta(pairs, epsilon):
    """Compose pairs of discrete distributions by enumerating all outcomes."""
    p, q = np.ones(1), np.ones(1)
    for one, other in pairs:
        p, q = np.outer(p, one).ravel(), np.outer(q, other).ravel()
    ratio = math.exp(epsilon)
    return max(np.maximum(p - ratio * q, 0).sum(), np.maximum(q - ratio * p, 0).sum())


def response(eps, delta=0.0):
    """Return the worst (eps, delta) release: four outcomes."""
    keep = (1 - delta) / (1 + math.exp(-eps))
    p = np.array([delta, keep, (1 - delta) - keep, 0.0])
    return p, p[::-1]


# --- Reference values, delta = 1e-6

REFERENCE = [
    # count, eps, zCDP, Renyi, optimal
    (1000, 0.01, (1.472, 5e-4), (1.468, 1e-3), (1.365, 5e-4)),
    (100, 0.1, (5.22, 5e-3), (5.073, 5e-4), (4.775, 5e-4)),
]


@pytest.mark.parametrize(("count", "eps", "zcdp", "renyi", "optimal"), REFERENCE)
def test_reference_values_of_pure_composition(count, eps, zcdp, renyi, optimal):
    event = Composed([Pure(eps)], [count])
    assert event.basic() == (pytest.approx(10.0, rel=1e-14), 0.0)
    concentrated = ZeroConcentrated(count * eps**2 / 2)
    assert concentrated.epsilon(1e-6) == pytest.approx(zcdp[0], abs=zcdp[1])
    orders = np.linspace(1.1, 60, 6001)
    value = epsilon_from_rdp(orders, event.rdp(orders), 1e-6)
    assert value == pytest.approx(renyi[0], abs=renyi[1])
    assert event.epsilon(1e-6) == pytest.approx(optimal[0], abs=optimal[1])


def test_reference_value_of_laplace_composition():
    event = Composed([Laplace(50.0)], [1000])
    assert event.epsilon(1e-6) == pytest.approx(2.905, abs=5e-4)


# --- Composition of pure events is optimal


@pytest.mark.parametrize(
    ("count", "eps"),
    [(1, 0.5), (2, 5.0), (10, 0.3), (30, 0.0371), (100, 0.1), (50, 1.0)],
)
def test_pure_composition_is_optimal_within_one_percent(count, eps):
    event = Composed([Pure(eps)], [count])
    for fraction in (0.0, 0.03, 0.1, 0.3, 0.6):
        epsilon = fraction * count * eps
        truth = float(optimal_delta(count, eps, epsilon))
        assert event.profile(epsilon) >= truth * (1 - 1e-12)
        assert event.profile(epsilon) <= truth * 1.01 + 1e-14
    for delta in (1e-2, 1e-6, 1e-10):
        epsilon = event.epsilon(delta)
        assert optimal_delta(count, eps, epsilon) <= delta
        assert optimal_delta(count, eps, 0.99 * epsilon) > delta


@pytest.mark.parametrize(("count", "eps"), [(1000, 0.1), (3000, 0.1)])
def test_long_compositions_lose_no_mass_to_rounding(count, eps):
    # The exact composition has its losses at multiples of 2 eps. A fast Fourier
    # transform to the power of the count loses about count * 4e-17 of the mass.
    event = Composed([Pure(eps)], [count])
    centre, spread = count * eps * math.tanh(eps / 2), math.sqrt(count) * eps
    for deviations in (0.0, 2.0, 4.0, 6.0):
        epsilon = centre + deviations * spread
        truth = optimal_delta(count, eps, epsilon)
        assert event.profile(epsilon) >= truth
        assert event.profile(epsilon) <= truth * 1.01 + 1e-11


def test_long_compositions_of_gaussians_lose_no_mass_to_rounding():
    exact = Gaussian(30 / math.sqrt(1000))
    sampled = SampledGaussian(30.0, 1.0, 1000)
    nested = Composed([Composed([Gaussian(30.0)], [1000])])
    for delta in (1e-9, 1e-12):
        epsilon = exact.epsilon(delta)
        for event in (sampled, nested):
            assert event.epsilon(delta) >= epsilon * (1 - 1e-12)
            assert event.epsilon(delta) <= epsilon * 1.05


@pytest.mark.parametrize("count", [2, 7, 1000])
def test_pure_composition_ends_at_the_sum(count):
    event = Composed([Pure(0.3)], [count])
    assert event.epsilon(0.0) == pytest.approx(0.3 * count, rel=1e-12)
    assert event.profile(0.3 * count * (1 + 1e-12)) == 0


@pytest.mark.parametrize(
    "parts",
    [
        [Pure(0.2), Pure(0.7)],
        [Pure(0.1), Pure(0.3), Pure(1.1)],
        [Approximate(0.5, 1e-3), Approximate(0.5, 1e-3)],
        [Pure(0.4), Approximate(0.3, 0.01), Approximate(1.0, 1e-6)],
    ],
)
def test_mixed_composition_covers_the_exact_one(parts):
    event = Composed(parts)
    pairs = [response(part.eps, getattr(part, "delta", 0.0)) for part in parts]
    for epsilon in (0.0, 0.15, 0.5, 1.0, 1.5):
        truth = product_delta(pairs, epsilon)
        assert event.profile(epsilon) >= truth * (1 - 1e-12) - 1e-15
        assert event.profile(epsilon) <= truth * 1.01 + 1e-4


@pytest.mark.parametrize("delta", [1e-8, 1e-4])
def test_approximate_composition_is_optimal(delta):
    count, eps = 20, 0.2
    event = Composed([Approximate(eps, delta)], [count])
    fail = -math.expm1(count * math.log1p(-delta))
    for epsilon in (0.0, 0.5, 1.5, 3.0):
        truth = fail + (1 - fail) * float(optimal_delta(count, eps, epsilon))
        assert truth * (1 - 1e-12) <= event.profile(epsilon) <= truth * 1.01
    assert event.epsilon(fail / 2) == math.inf
    assert event.basic() == pytest.approx((count * eps, count * delta))


def test_gaussian_with_pure_covers_the_exact_composition():
    event = Composed([Gaussian(2.0), Pure(0.4)], [2, 1])
    shift, keep = math.sqrt(2) / 2, 1 / (1 + math.exp(-0.4))
    for epsilon in (0.0, 0.5, 1.0, 2.0, 4.0):
        # The loss of the answer moves epsilon by 0.4, up or down.
        truth = keep * exact_gaussian(epsilon - 0.4, shift)
        truth += (1 - keep) * exact_gaussian(epsilon + 0.4, shift)
        assert truth * (1 - 1e-12) <= event.profile(epsilon) <= truth * 1.001 + 1e-14


def exact_gaussian(epsilon, shift):
    with mp.workdps(30):
        epsilon, shift = mp.mpf(epsilon), mp.mpf(shift)
        upper = mp.ncdf(shift / 2 - epsilon / shift)
        return float(upper - mp.exp(epsilon) * mp.ncdf(-shift / 2 - epsilon / shift))


def test_gaussian_with_laplace_covers_the_exact_composition():
    event = Composed([Gaussian(1.5), Laplace(2.0)])
    x = np.linspace(0, 1, 2001)
    x = (x[1:] + x[:-1]) / 2  # between the centres; the loss is constant outside
    weights = np.exp(-x / 2) / 4 / x.size
    losses = (1 - 2 * x) / 2
    for epsilon in (0.0, 0.5, 1.5, 3.0):
        inner = sum(
            weight * exact_gaussian(epsilon - loss, 1 / 1.5)
            for weight, loss in zip(weights, losses, strict=True)
        )
        left = 0.5 * exact_gaussian(epsilon - 0.5, 1 / 1.5)
        right = 0.5 * math.exp(-0.5) * exact_gaussian(epsilon + 0.5, 1 / 1.5)
        truth = left + inner + right
        assert truth * (1 - 1e-6) <= event.profile(epsilon) <= truth * 1.001 + 1e-14


def test_bounded_range_composition_covers_every_fixed_pair():
    eps, count = 0.8, 5
    event = Composed([BoundedRange(eps)], [count])
    for loss in np.linspace(0.05, 0.95, 19) * eps:
        p = (math.exp(eps) - math.exp(loss)) / math.expm1(eps)
        pair = np.array([p, 1 - p]), np.array([p, 1 - p]) * np.exp([-loss, eps - loss])
        for epsilon in (0.0, 0.5, 2.0, 3.5):
            truth = product_delta([pair] * count, epsilon)
            assert event.profile(epsilon) >= truth * (1 - 1e-12)
    assert event.epsilon(0.0) == pytest.approx(count * eps, rel=1e-12)
    assert event.epsilon(1e-6) < Composed([Pure(eps)], [count]).epsilon(1e-6)


def test_many_tiny_bounded_ranges_still_cost():
    # eps^2/8-zCDP each is nearly tight: rho = 1/8 in all.
    event = Composed([BoundedRange(1e-6)], [10**12])
    gaussian = Gaussian(2.0).epsilon(1e-6)
    assert (
        gaussian <= event.epsilon(1e-6) <= ZeroConcentrated(0.125).epsilon(1e-6) * 1.01
    )


@pytest.mark.parametrize("rho", [0.02, 0.5])
def test_concentrated_composition_covers_gaussians(rho):
    event = Composed([ZeroConcentrated(rho), Gaussian(1.0)], [3, 2])
    shift = math.sqrt(2 * 3 * rho + 2)
    for epsilon in (0.0, 1.0, 5.0, 12.0):
        assert event.profile(epsilon) >= gaussian_profile(epsilon, shift)
    total = ZeroConcentrated(3 * rho + 1.0)
    assert event.epsilon(1e-6) == pytest.approx(total.epsilon(1e-6), rel=1e-2)


# --- Gaussians merge


@settings(deadline=None, max_examples=50)
@given(
    st.lists(st.tuples(st.floats(0.3, 50), st.integers(1, 9)), min_size=1, max_size=5)
)
def test_gaussians_merge(parts):
    multipliers, counts = zip(*parts, strict=True)
    event = Composed([Gaussian(m) for m in multipliers], counts)
    shift = math.sqrt(sum(c / m**2 for m, c in parts))
    slack = sum(counts) * DISCRETE_SLACK
    for epsilon in (0.0, 0.5, 4.0):
        truth = gaussian_profile(epsilon, shift) + slack
        assert event.profile(epsilon) == pytest.approx(truth, rel=1e-9)
    np.testing.assert_allclose(event.rdp(ORDERS), ORDERS * shift**2 / 2, rtol=1e-12)


def test_gaussians_in_a_nested_composition_merge_closely():
    inner = Composed([Gaussian(2.0)], [3])
    event = Composed([inner, Gaussian(2.0)])
    exact = Gaussian(1.0).epsilon(1e-6)
    assert exact * (1 - 1e-12) <= event.epsilon(1e-6) <= exact * (1 + 1e-4)


# --- Counts, order and nesting

MIXES = {
    "laws": ([Pure(0.2), Laplace(4.0), Gaussian(3.0)], [2, 1, 3]),
    "failures": ([Approximate(0.3, 1e-7), Gaussian(2.0)], [3, 1]),
    "renyi only": ([BoundedRange(0.3), ZeroConcentrated(0.05), Pure(0.1)], [4, 1, 2]),
    "nested": ([Composed([Pure(0.1), Laplace(5.0)], [2, 1]), Gaussian(4.0)], [2, 2]),
}


@pytest.mark.parametrize(("parts", "counts"), MIXES.values(), ids=MIXES)
def test_counts_are_repeated_events(parts, counts):
    counted = Composed(parts, counts)
    repeated = Composed(
        [part for part, count in zip(parts, counts, strict=True) for _ in range(count)]
    )
    assert counted.basic() == pytest.approx(repeated.basic())
    for epsilon in (0.0, 0.7, 2.0):
        expected = repeated.profile(epsilon)
        assert counted.profile(epsilon) == pytest.approx(expected, rel=1e-6, abs=1e-13)
    ours, theirs = counted.rdp_and_delta(ORDERS), repeated.rdp_and_delta(ORDERS)
    np.testing.assert_allclose(ours[0], theirs[0], rtol=1e-12)
    assert ours[1] == pytest.approx(theirs[1], rel=1e-12)


@pytest.mark.parametrize(("parts", "counts"), MIXES.values(), ids=MIXES)
def test_the_order_of_events_does_not_matter(parts, counts):
    reference = Composed(parts, counts)
    expected = [reference.profile(epsilon) for epsilon in (0.0, 0.7, 2.0)]
    for order in itertools.permutations(range(len(parts))):
        event = Composed([parts[i] for i in order], [counts[i] for i in order])
        values = [event.profile(epsilon) for epsilon in (0.0, 0.7, 2.0)]
        np.testing.assert_allclose(values, expected, rtol=1e-6, atol=1e-13)


@pytest.mark.parametrize("tiny", [1e-300, 1e-9])
def test_events_of_very_different_size_compose(tiny):
    event, alone = Composed([Pure(tiny), Pure(1.0)]), Pure(1.0)
    for epsilon in (0.0, 0.5, 0.9):
        expected = alone.profile(epsilon)
        assert expected * (1 - 1e-12) <= event.profile(epsilon) <= expected * 1.001


def test_a_tiny_part_does_not_spoil_the_others():
    parts = [Gaussian(1.0), Laplace(2.0)]
    alone = Composed(parts).epsilon(1e-6)
    together = Composed([*parts, Pure(1e-9)]).epsilon(1e-6)
    assert alone * (1 - 1e-9) <= together <= alone * 1.001


def test_the_smallest_float_composes():
    # In a process of its own: a search for the interval must not run for ever.
    code = (
        "from skdp.events import Composed, Pure\n"
        "print(Composed([Pure(5e-324), Pure(1.0)]).profile(0.5))"
    )
    command = [sys.executable, "-c", code]
    run = subprocess.run(command, capture_output=True, timeout=60, check=True)
    assert float(run.stdout) == pytest.approx(Pure(1.0).profile(0.5), rel=1e-3)


@pytest.mark.parametrize("parts", [[Pure(1e10)], [Gaussian(1e-9), Pure(1.0)]])
def test_hopeless_parts_compose_to_a_hopeless_release(parts):
    event = Composed(parts, [2] * len(parts))
    assert event.profile(1.0) == 1.0
    assert event.epsilon(1e-6) > 1e9


@pytest.mark.parametrize("part", [Pure(0.7), Laplace(1.5), Approximate(0.4, 1e-5)])
def test_one_event_composes_to_itself(part):
    event = Composed([part])
    for epsilon in (0.0, 0.3, 1.0):
        expected = part.profile(epsilon)
        assert event.profile(epsilon) >= expected * (1 - 1e-12)
        assert event.profile(epsilon) <= expected * (1 + 1e-3) + 1e-14


@pytest.mark.parametrize(("parts", "counts"), MIXES.values(), ids=MIXES)
def test_composed_epsilons_invert_profiles_and_fall(parts, counts):
    event = Composed(parts, counts)
    last = math.inf
    for delta in (1e-6, 1e-3, 0.1):
        epsilon = event.epsilon(delta)
        assert event.profile(epsilon) <= delta < event.profile(epsilon * (1 - 1e-6))
        assert epsilon < last
        last = epsilon
    profile = [event.profile(epsilon) for epsilon in np.linspace(0, 4, 21)]
    assert (np.diff(profile) <= 0).all()


@pytest.mark.parametrize(
    "event",
    [
        Composed([Gaussian(1.0)], [2]),
        Composed([Gaussian(1.0), Laplace(1.0)]),
        Composed([ZeroConcentrated(0.5), Pure(0.1)]),
        Composed([Approximate(1.0, 1e-6), Pure(0.1)]),
    ],
)
def test_composition_with_a_failure_has_no_pure_epsilon(event):
    assert event.epsilon(0.0) == math.inf
    assert event.profile(100.0) > 0


def test_sampled_steps_are_counted_steps():
    steps = SampledGaussian(2.0, 0.3, 6)
    counted = Composed([SampledGaussian(2.0, 0.3, 2)], [3])
    for epsilon in (0.0, 0.5, 1.0):
        expected = steps.profile(epsilon)
        assert counted.profile(epsilon) == pytest.approx(expected, rel=1e-3)
    np.testing.assert_allclose(counted.rdp(ORDERS), steps.rdp(ORDERS), rtol=1e-12)


# --- What composition refuses


@pytest.mark.parametrize("kind", [Composed, Parallel])
def test_neighbour_relations_do_not_mix(kind):
    with pytest.raises(UnsupportedEventError, match="neighbour"):
        kind([Pure(1.0, "replace"), Pure(1.0, "add_remove")])
    with pytest.raises(UnsupportedEventError, match="neighbour"):
        kind([Composed([Gaussian(1.0, "add_remove")]), Parallel([Pure(1.0)])])


@pytest.mark.parametrize("neighboring", ["replace", "add_remove"])
def test_combined_events_name_the_relation_of_their_parts(neighboring):
    part = Pure(1.0, neighboring)
    for event in (Composed([part]), Parallel([part]), Group(part, 2)):
        assert event.neighboring == neighboring


@pytest.mark.parametrize("kind", [Composed, Parallel])
@pytest.mark.parametrize("bad", [[], [1.0], [Pure(1.0), None], "ab", [Pure]])
def test_parts_are_events(kind, bad):
    with pytest.raises(TypeError, match=f"{kind.__name__}.*events"):
        kind(bad)


@pytest.mark.parametrize("kind", [Composed, Parallel])
@pytest.mark.parametrize("bad", [None, 3, Pure(1.0)])
def test_parts_are_a_sequence(kind, bad):
    with pytest.raises(TypeError, match=f"{kind.__name__}.*events"):
        kind(bad)


@pytest.mark.parametrize("bad", [[0], [-1], [1.0], ["1"], [True], [1, 1], [], 2])
def test_counts_are_positive_ints_one_for_each_event(bad):
    with pytest.raises((ValueError, TypeError), match="'counts'"):
        Composed([Pure(1.0)], bad)


def test_failures_stay_out_of_composed_renyi_curves():
    event = Composed([Approximate(0.2, 1e-6), Pure(0.1)], [3, 1])
    with pytest.raises(UnsupportedEventError, match="rdp_and_delta"):
        event.rdp(ORDERS)
    curve, delta = event.rdp_and_delta(ORDERS)
    expected = 3 * Pure(0.2).rdp(ORDERS) + Pure(0.1).rdp(ORDERS)
    np.testing.assert_allclose(curve, expected, rtol=1e-12)
    assert delta == pytest.approx(3e-6)


@pytest.mark.parametrize(
    "part",
    [
        ZeroConcentrated(0.1),
        BoundedRange(0.1),
        SampledGaussian(1.0, 0.5, 1, "replace"),
        Parallel([Pure(0.1)]),
        Group(SampledGaussian(1.0, 0.5, 1, "replace"), 2),
    ],
    ids=lambda part: type(part).__name__,
)
def test_composed_distributions_refuse_parts_without_one(part):
    with pytest.raises(UnsupportedEventError):
        Composed([Pure(0.1), part]).pld()


def test_composition_refuses_what_no_rule_covers():
    unknown = Group(SampledGaussian(2.0, 0.5), 2)  # no Renyi curve, no distribution
    with pytest.raises(UnsupportedEventError, match="Composed"):
        Composed([unknown, Gaussian(3.0, "add_remove")]).profile(1.0)


def test_pure_parts_are_taken_off_first():
    """Basic composition of the pure parts with the profile of the others."""
    unknown = Group(SampledGaussian(2.0, 0.5), 2)
    whole = Composed([unknown, Pure(0.1, "add_remove")])
    assert whole.profile(1.0) == pytest.approx(unknown.profile(0.9), rel=1e-6)
    assert whole.profile(0.05) == 1.0
    # Where Renyi curves and distributions are worse: a large delta.
    noise = Gaussian(1 / gaussian_shift(7e-4, 1e-3))
    mixed = Composed([BoundedRange(1e-4), noise], [3, 1])
    assert mixed.epsilon(1e-3) <= 1e-3 * (1 + 1e-9)


# --- Parallel


def test_parallel_is_the_worst_part():
    parts = [Pure(0.5), Laplace(1.0), Gaussian(2.0), Approximate(0.2, 1e-4)]
    event = Parallel(parts)
    for epsilon in (0.0, 0.1, 0.4, 0.8, 3.0):
        assert event.profile(epsilon) == max(part.profile(epsilon) for part in parts)
    for delta in (1e-3, 0.1):
        assert event.epsilon(delta) == max(part.epsilon(delta) for part in parts)
    curve, delta = event.rdp_and_delta(ORDERS)
    curves = [part.rdp_and_delta(ORDERS)[0] for part in parts]
    np.testing.assert_array_equal(curve, np.max(curves, axis=0))
    assert delta == 1e-4
    assert event.basic() == (math.inf, 1e-4)


def test_parallel_of_equal_parts_is_one_part():
    event, part = Parallel([Laplace(2.0)] * 50), Laplace(2.0)
    assert event.profile(0.2) == part.profile(0.2)
    assert event.epsilon(0.01) == part.epsilon(0.01)
    np.testing.assert_array_equal(event.rdp(ORDERS), part.rdp(ORDERS))
    assert event.basic() == part.basic()


def test_parallel_parts_compose_by_their_renyi_curves():
    event = Composed([Parallel([Gaussian(2.0), Gaussian(5.0)]), Pure(0.1)])
    exact = Composed([Gaussian(2.0), Pure(0.1)])
    assert exact.epsilon(1e-6) <= event.epsilon(1e-6) <= 1.2 * exact.epsilon(1e-6)


def test_parallel_refuses_what_its_parts_refuse():
    with pytest.raises(UnsupportedEventError):
        Parallel([Approximate(0.1, 1e-6)]).rdp(ORDERS)
    with pytest.raises(UnsupportedEventError):
        Parallel([Pure(0.1)]).pld()


# --- Groups


@pytest.mark.parametrize("size", [1, 2, 7])
def test_groups_with_a_closed_form(size):
    expected = [
        (Pure(0.3), Pure(0.3 * size)),
        (BoundedRange(0.3), BoundedRange(0.3 * size)),
        (Laplace(3.0), Laplace(3.0 / size)),
        (Gaussian(3.0), Gaussian(3.0 / size)),
        (ZeroConcentrated(0.1), ZeroConcentrated(0.1 * size**2)),
    ]
    for part, whole in expected:
        event = Group(part, size)
        for epsilon in (0.0, 0.2, 1.0):
            assert event.profile(epsilon) == pytest.approx(whole.profile(epsilon))
        assert event.epsilon(1e-6) == pytest.approx(whole.epsilon(1e-6))
        np.testing.assert_allclose(event.rdp(ORDERS), whole.rdp(ORDERS), rtol=1e-9)
        assert event.basic() == pytest.approx(whole.basic())


@pytest.mark.parametrize("size", [2, 3])
def test_gaussian_groups_are_exact(size):
    event = Group(Composed([Gaussian(4.0), Gaussian(3.0)], [2, 1]), size)
    shift = size * math.sqrt(2 / 16 + 1 / 9)
    for epsilon in (0.0, 1.0, 3.0):
        truth = gaussian_profile(epsilon, shift)
        assert event.profile(epsilon) == pytest.approx(truth, rel=1e-9)


@pytest.mark.parametrize(("eps", "delta", "size"), [(0.5, 1e-6, 2), (1.0, 1e-3, 4)])
def test_groups_of_approximate_releases(eps, delta, size):
    event = Group(Approximate(eps, delta), size)
    total = delta * math.expm1(size * eps) / math.expm1(eps)
    assert event.profile(size * eps) == pytest.approx(total, rel=1e-12)
    assert event.epsilon(total * (1 + 1e-9)) <= size * eps * (1 + 1e-9)
    assert event.basic() == pytest.approx((size * eps, total))


def test_groups_of_hopeless_releases_stay_events():
    event = Group(Approximate(5.0, 0.5), 100)
    assert event.profile(1.0) == 1.0
    assert event.epsilon(0.5) == math.inf


@pytest.mark.parametrize(("sigma", "q"), [(2.0, 0.2), (5.0, 0.5)])
def test_the_general_group_bound_covers_sampled_pairs(sigma, q):
    event = Group(SampledGaussian(sigma, q), 2)
    x = np.arange(-12 * sigma, 2 + 12 * sigma, sigma / 1000)

    def normal(mean):
        return np.exp(-0.5 * ((x - mean) / sigma) ** 2)

    base = normal(0) / normal(0).sum()
    weights = ((1 - q) ** 2, 2 * q * (1 - q), q**2)
    mixture = sum(w * normal(mean) for mean, w in enumerate(weights)) / normal(0).sum()
    for epsilon in (0.0, 0.2, 1.0):
        ratio = math.exp(epsilon)
        truth = max(
            np.maximum(mixture - ratio * base, 0).sum(),
            np.maximum(base - ratio * mixture, 0).sum(),
        )
        assert event.profile(epsilon) >= truth * (1 - 1e-9)


@pytest.mark.parametrize("size", [2, 5])
def test_the_general_group_bound_covers_gaussians(size):
    part = Parallel([Gaussian(10.0)])  # hides the closed form
    event, exact = Group(part, size), Group(Gaussian(10.0), size)
    for epsilon in (0.0, 0.5, 2.0):
        assert event.profile(epsilon) >= exact.profile(epsilon)
    assert event.epsilon(1e-6) >= exact.epsilon(1e-6)
    assert event.profile(event.epsilon(1e-6)) <= 1e-6


def test_the_general_group_bound_keeps_pure_privacy():
    event = Group(Parallel([Pure(0.5), Laplace(4.0)]), 3)
    assert event.profile(1.5) == 0
    assert event.epsilon(0.0) == pytest.approx(1.5, rel=1e-12)


def test_a_group_of_one_is_the_release():
    event, part = Group(SampledGaussian(2.0, 0.3), 1), SampledGaussian(2.0, 0.3)
    assert event.profile(0.5) == part.profile(0.5)
    np.testing.assert_array_equal(event.rdp(ORDERS), part.rdp(ORDERS))


def test_groups_of_groups_multiply():
    event, whole = Group(Group(Laplace(6.0), 2), 3), Laplace(1.0)
    for epsilon in (0.0, 0.3, 1.0):
        assert event.profile(epsilon) >= whole.profile(epsilon) * (1 - 1e-12)
    assert event.epsilon(0.0) == pytest.approx(1.0, rel=1e-12)


def test_groups_without_a_closed_form_refuse_curves():
    event = Group(SampledGaussian(2.0, 0.3), 2)
    with pytest.raises(UnsupportedEventError, match="SampledGaussian"):
        event.rdp(ORDERS)
    with pytest.raises(UnsupportedEventError):
        event.pld()
    assert event.basic() == (math.inf, 0.0)


@pytest.mark.parametrize("size", [0, -1, 1.0, "2", None, True])
def test_group_sizes_are_positive_ints(size):
    with pytest.raises((ValueError, TypeError), match="'size'"):
        Group(Pure(1.0), size)


@pytest.mark.parametrize("bad", [None, 1.0, [Pure(1.0)], Pure])
def test_a_group_sees_one_event(bad):
    with pytest.raises(TypeError, match=r"Group.*event"):
        Group(bad, 2)


# --- Combined events are values too


def test_combined_events_are_values():
    assert Composed([Pure(1.0)]) == Composed((Pure(1),), (1,))
    assert hash(Composed([Pure(1.0)])) == hash(Composed((Pure(1),), np.array([1])))
    assert Composed([Pure(1.0)], [2]) != Composed([Pure(1.0)], [3])
    assert Composed([Pure(1.0)]) != Parallel([Pure(1.0)])
    assert Parallel([Pure(1.0)]) == Parallel(iter([Pure(1.0)]))
    assert Group(Pure(1.0), 2) == Group(Pure(1), np.int64(2))
    with pytest.raises(AttributeError):
        Composed([Pure(1.0)]).counts = (2,)


def test_all_kinds_are_exported():
    kinds = {kind.__name__ for kind in (Composed, Parallel, Group)}
    assert kinds <= set(events.__all__)
