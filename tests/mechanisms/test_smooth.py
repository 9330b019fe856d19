"""Smooth sensitivity: hockey sticks of noise whose scale depends on the data.

Neighbours may differ by a shift up to the smaller smooth sensitivity and by a factor
e^beta of the scale. The hockey sticks are exact sums over the intervals on which one
density exceeds the other. Random tests fail by chance with a probability below 1e-7
each (see conftest).
"""

import itertools
import math

import numpy as np
import pytest
from scipy import integrate, special

from skdp import events
from skdp.mechanisms import (
    SmoothSensitivity,
    median_rank,
    smooth_sensitivity_median,
)

EPSILONS = [0.01, 0.1, 0.5, 1.0, 3.0, 10.0]
DELTAS = [1e-12, 1e-6, 1e-2, 0.3]
SLACK = 2.0**-27  # by which beta is kept below the theorem's, to pay for rounding


# --- Hockey sticks of Laplace and Gaussian noise of different scales


def laplace_mass(low, high):
    """P(low < Z < high) for standard Laplace Z, also far in the tail."""
    if low >= 0:
        return 0.5 * (math.exp(-low) - math.exp(-high))
    if high <= 0:
        return laplace_mass(-high, -low)
    return laplace_mass(0.0, -low) + laplace_mass(0.0, high)


def gaussian_mass(low, high):
    if low > 0:
        return special.ndtr(-low) - special.ndtr(-high)
    return special.ndtr(high) - special.ndtr(low)


def laplace_loss(y, first, second, shift):
    return abs(y - shift) / second - abs(y) / first + math.log(second / first)


def gaussian_loss(y, first, second, shift):
    square = ((y - shift) / second) ** 2 - (y / first) ** 2
    return square / 2 + math.log(second / first)


def laplace_roots(first, second, shift, target):
    """Where the loss, linear on each of three pieces, may equal ``target``."""
    for low, high, anchor, slope in (
        (-math.inf, 0.0, 0.0, 1 / first - 1 / second),
        (0.0, shift, 0.0, -1 / first - 1 / second),
        (shift, math.inf, shift, 1 / second - 1 / first),
    ):
        if slope:
            gap = target - laplace_loss(anchor, first, second, shift)
            if low < anchor + gap / slope < high:
                yield anchor + gap / slope


def gaussian_roots(first, second, shift, target):
    """Where the loss, a parabola, equals ``target``."""
    a = (second**-2 - first**-2) / 2
    b = -shift / second**2
    c = (shift / second) ** 2 / 2 + math.log(second / first) - target
    if a == 0:
        return [-c / b] if b else []
    if b * b <= 4 * a * c:
        return []
    q = -(b + math.copysign(math.sqrt(b * b - 4 * a * c), b)) / 2
    return [q / a, c / q]


TOOLS = {
    "laplace": (laplace_mass, laplace_loss, laplace_roots),
    "gaussian": (gaussian_mass, gaussian_loss, gaussian_roots),
}


def inside(low, high, scale):
    """A point of an interval that may have no ends."""
    if math.isinf(low):
        return 0.0 if math.isinf(high) else high - scale
    return low + scale if math.isinf(high) else (low + high) / 2


def delta_of(noise, first, second, shift, epsilon):
    """Hockey stick of noise of scale ``first`` at 0 against ``second`` at shift."""
    mass, loss, roots = TOOLS[noise]
    ends = sorted([-math.inf, *roots(first, second, shift, epsilon), math.inf])
    total = 0.0
    for low, high in itertools.pairwise(ends):
        if loss(inside(low, high, first), first, second, shift) > epsilon:
            here = mass(low / first, high / first)
            there = mass((low - shift) / second, (high - shift) / second)
            total += here - math.exp(epsilon) * there
    return total


def cauchy_loss(y, first, second, shift, exponent):
    ours = np.log1p(np.abs(y / first) ** exponent)
    theirs = np.log1p(np.abs((y - shift) / second) ** exponent)
    return theirs - ours + math.log(second / first)


def cauchy_epsilon(first, second, shift, exponent):
    """The largest absolute log ratio of two Cauchy-like densities, on a fine grid."""
    tail = np.geomspace(1e-4, 1e6, 4001)
    z = np.concatenate([-tail[::-1], [0.0], tail])
    y = np.concatenate([z * first, shift + z * second])
    loss = cauchy_loss(y, first, second, shift, exponent)
    far = abs((exponent - 1) * math.log(second / first))  # the limit at infinity
    return max(float(np.abs(loss).max()), far)


def worst_cases(beta):
    """Dilations e^lambda of a smooth sensitivity of 1, and shifts that go with them."""
    for stretch in np.linspace(-beta, beta, 13):
        second = math.exp(stretch)
        for share in (0.0, 0.3, 0.7, 1.0):
            yield second, share * min(1.0, second)


# --- The constants


@pytest.mark.parametrize("noise", ["laplace", "gaussian"])
def test_hockey_stick_agrees_with_quadrature(noise):
    density = {
        "laplace": lambda y, s: math.exp(-abs(y) / s) / (2 * s),
        "gaussian": lambda y, s: math.exp(-((y / s) ** 2) / 2) / (2.5066282746 * s),
    }[noise]
    for first, second, shift, epsilon in (
        (2.0, 2.2, 1.0, 0.3),
        (2.2, 2.0, 1.0, 0.3),
        (2.0, 2.0, 1.0, 0.1),
        (1.0, 3.0, 0.0, 0.5),
        (3.0, 1.0, 0.5, 1.0),
    ):

        def excess(y, s=first, t=second, d=shift, e=epsilon):
            return max(0.0, density(y, s) - math.exp(e) * density(y - d, t))

        points = [0.0, shift, *TOOLS[noise][2](first, second, shift, epsilon)]
        exact = integrate.quad(excess, -90, 90, points=sorted(points), limit=2000)[0]
        found = delta_of(noise, first, second, shift, epsilon)
        assert found == pytest.approx(exact, abs=1e-7)


@pytest.mark.parametrize("delta", DELTAS)
@pytest.mark.parametrize("epsilon", EPSILONS)
@pytest.mark.parametrize("noise", ["laplace", "gaussian"])
def test_claim_in_the_worst_case(noise, epsilon, delta):
    mechanism = SmoothSensitivity(epsilon, (0.0, 1.0), noise, delta)
    scale = mechanism.multiplier
    for second, shift in worst_cases(mechanism.beta + SLACK):
        found = delta_of(noise, scale, scale * second, shift, epsilon)
        assert -1e-15 <= found <= delta
    assert mechanism.event == events.Approximate(epsilon, delta)


@pytest.mark.parametrize("exponent", [2, 3, 4, 5, 6, 16])
@pytest.mark.parametrize("epsilon", EPSILONS)
def test_pure_claim_in_the_worst_case(epsilon, exponent):
    mechanism = SmoothSensitivity(epsilon, (0.0, 1.0), exponent=exponent)
    scale, largest = mechanism.multiplier, 0.0
    for second, shift in worst_cases(mechanism.beta + SLACK):
        found = cauchy_epsilon(scale, scale * second, shift, exponent)
        assert found <= epsilon * (1 + 1e-9)
        largest = max(largest, found)
    assert largest > epsilon / 2
    assert mechanism.event == events.Pure(epsilon)


@pytest.mark.parametrize("exponent", [2, 3, 4, 5, 6])
def test_cauchy_constants_are_the_slopes_of_the_density(exponent):
    z = np.linspace(0, 20, 200_001)
    log_density = -np.log1p(z**exponent)
    slope = np.abs(np.gradient(log_density, z)).max()
    mechanism = SmoothSensitivity(1.0, (0.0, 1.0), exponent=exponent)
    assert slope / mechanism.multiplier == pytest.approx(0.5, rel=1e-4)
    stretch = 0.5 / (mechanism.beta + SLACK)
    far = exponent * z[-1] ** exponent / (1 + z[-1] ** exponent) - 1
    assert stretch == pytest.approx(exponent - 1, rel=1e-9)
    assert far <= stretch


@pytest.mark.parametrize("noise", ["laplace", "gaussian"])
def test_without_smoothness_the_claim_would_fail(noise):
    # Twice the shift, or a scale that changes by a factor e^2: both break it.
    epsilon, delta = 1.0, 1e-6
    scale = SmoothSensitivity(epsilon, (0.0, 1.0), noise, delta).multiplier
    assert delta_of(noise, scale, math.e**2 * scale, 1.0, epsilon) > 100 * delta
    if noise == "laplace":
        assert delta_of(noise, scale, scale, 2.1, epsilon) > 100 * delta


# --- The mechanism's own integers


MECHANISMS = [
    SmoothSensitivity(1.0, (0.0, 4.0)),
    SmoothSensitivity(0.1, (-1e6, 1e6), exponent=2),
    SmoothSensitivity(5.0, (0.0, 1e-200), exponent=6),
    SmoothSensitivity(1.0, (0.0, 4.0), "laplace", 1e-6),
    SmoothSensitivity(0.01, (1e3, 1e3 + 1), "laplace", 1e-9),
    SmoothSensitivity(1.0, (0.0, 4.0), "gaussian", 1e-6),
    SmoothSensitivity(10.0, (-3.0, 1e5), "gaussian", 1e-2),
]


@pytest.fixture
def drawn_scale(monkeypatch):
    """A function that returns the integer scale which a release draws."""
    seen = []

    def note(self, scale, random_state):
        seen.append(scale)
        return 0

    monkeypatch.setattr(SmoothSensitivity, "_draw", note)

    def scale(mechanism, smooth):
        mechanism.release(mechanism.bounds[0], smooth)
        return seen[-1]

    return scale


@pytest.mark.parametrize("mechanism", MECHANISMS, ids=repr)
def test_integer_scales_are_as_smooth_as_needed(mechanism, drawn_scale):
    low, high = mechanism.bounds
    width = high - low
    step = mechanism._grid().step
    for share in (0.0, 1e-9, 2.0**-20, 1e-6, 1e-3, 0.3, 1.0, 5.0):
        smooth = share * width
        first = drawn_scale(mechanism, smooth)
        second = drawn_scale(mechanism, smooth * math.exp(mechanism.beta))
        stretch = math.log(second / first)
        assert 0 <= stretch <= mechanism.beta + SLACK
        assert first >= 2**29
        # Values that differ by the smooth sensitivity, and the rounding of them.
        bounded = min(max(smooth, 2.0**-20 * width), width)
        assert first >= mechanism.multiplier * (bounded / step + 1) * (1 - 1e-15)
        assert first * step <= mechanism.multiplier * bounded * (1 + 2.0**-20)


def median_pairs(n, mechanism):
    """(value, smooth sensitivity) of all neighbouring data sets over four points."""
    low, high = mechanism.bounds
    grid = [low, low + (high - low) / 4, low + (high - low) / 1.6, high]
    facts = {
        rows: (
            rows[median_rank(n) - 1],
            smooth_sensitivity_median(rows, mechanism.beta, mechanism.bounds),
        )
        for rows in itertools.combinations_with_replacement(grid, n)
    }
    for rows, fact in facts.items():
        for i, value in itertools.product(range(n), grid):
            other = tuple(sorted((*rows[:i], value, *rows[i + 1 :])))
            if other != rows:
                yield fact, facts[other]


@pytest.mark.parametrize("n", [1, 2, 3, 4, 5])
@pytest.mark.parametrize("mechanism", MECHANISMS, ids=repr)
def test_claim_for_the_median_over_a_whole_domain(mechanism, n, drawn_scale):
    step = mechanism._grid().step
    largest = 0.0
    for (value, smooth), (other, other_smooth) in median_pairs(n, mechanism):
        first, second = (drawn_scale(mechanism, s) for s in (smooth, other_smooth))
        shift = abs(round(value / step) - round(other / step))
        if mechanism.noise == "cauchy":
            found = cauchy_epsilon(first, second, shift, mechanism.exponent)
            assert found <= mechanism.epsilon
            largest = max(largest, found)
        else:
            found = delta_of(mechanism.noise, first, second, shift, mechanism.epsilon)
            assert found <= mechanism.delta
    if mechanism.noise == "cauchy":
        assert largest > mechanism.epsilon / 4


@pytest.mark.parametrize("epsilon", [0.3, 1.0, 5.0])
def test_claim_on_a_coarse_grid_by_summation(
    epsilon, laplace_pmf, gaussian_pmf, hockey_stick
):
    # Integer noise of about 100 steps, with the normalisers of the integers.
    k = np.arange(-60_000, 60_001)
    pmfs = {
        "laplace": lambda scale: laplace_pmf(scale, 60_000),
        "gaussian": lambda scale: gaussian_pmf(scale, 60_000),
        "cauchy": lambda scale: 1 / (1 + np.abs(k / scale) ** 4.0),
    }
    for noise, pmf in pmfs.items():
        delta = 0.0 if noise == "cauchy" else 1e-3
        mechanism = SmoothSensitivity(epsilon, (0.0, 1.0), noise, delta)
        smooth = math.ceil(100 / mechanism.multiplier) + 20
        for stretch in (-mechanism.beta, 0.0, mechanism.beta):
            other = smooth * math.exp(stretch)
            shift = math.floor(min(smooth, other))
            first, second = (pmf(mechanism.multiplier * s) for s in (smooth, other))
            first, second = first / first.sum(), second / second.sum()
            first, second = first[shift:], second[: second.size - shift]
            for pair in ((first, second), (second, first)):
                assert hockey_stick(*pair, epsilon) <= delta + 1e-12


def test_normaliser_of_integer_cauchy_noise():
    # Its distance from the integral falls fast; at 2**29 steps it is nothing.
    for exponent in (2, 3, 4, 5):
        mass = 2 * math.pi / exponent / math.sin(math.pi / exponent)
        for scale in (16, 64, 256):
            far = 4000 * scale
            inner = math.fsum(1 / (1 + (np.arange(1, far) / scale) ** exponent))
            tail = (far / scale - 0.5 / scale) ** (1 - exponent) / (exponent - 1)
            total = 1 + 2 * inner + 2 * scale * tail
            assert total / scale == pytest.approx(mass, abs=1 / scale**2 + 1e-9)


# --- Releases


def bin_probabilities(noise, exponent, edges):
    if noise == "laplace":
        cdf = np.array([laplace_mass(-math.inf, edge) for edge in edges])
    elif noise == "gaussian":
        cdf = special.ndtr(edges)
    else:
        mass = math.pi / exponent / math.sin(math.pi / exponent)
        half = [
            integrate.quad(lambda z: 1 / (1 + z**exponent), 0, abs(edge))[0]
            for edge in edges
        ]
        cdf = 0.5 + np.sign(edges) * np.array(half) / (2 * mass)
    return np.diff(np.concatenate([[0.0], cdf, [1.0]]))


@pytest.mark.parametrize(
    ("noise", "delta", "exponent"),
    [
        ("cauchy", 0.0, 2),
        ("cauchy", 0.0, 3),
        ("cauchy", 0.0, 4),
        ("laplace", 1e-6, 4),
        ("gaussian", 1e-6, 4),
    ],
)
def test_releases_follow_the_law(noise, delta, exponent, fits):
    mechanism = SmoothSensitivity(1.0, (-1e6, 1e6), noise, delta, exponent=exponent)
    out = np.array([mechanism.release(3.0, 10.0) for _ in range(4000)])
    standard = (out - 3.0) / (10.0 * mechanism.multiplier)
    edges = np.array([-4, -2, -1.5, -1, -0.6, -0.3, -0.1, 0, 0.1, 0.3, 0.6, 1, 2, 4])
    counts = np.bincount(np.searchsorted(edges, standard), minlength=edges.size + 1)
    assert fits(counts, bin_probabilities(noise, exponent, edges))


@pytest.mark.parametrize("mechanism", MECHANISMS, ids=repr)
def test_releases_stay_within_the_bounds(mechanism):
    low, high = mechanism.bounds
    for value in (low, high):
        for smooth in (0, (high - low) / 7, 2 * (high - low)):
            out = mechanism.release(value, smooth)
            assert type(out) is float and low <= out <= high
    assert mechanism.release(low, 0.1, 3) == mechanism.release(low, 0.1, 3)


def test_a_larger_smooth_sensitivity_than_the_bounds_is_cut(drawn_scale):
    mechanism = MECHANISMS[0]
    assert drawn_scale(mechanism, 4.0) == drawn_scale(mechanism, 1e300)
    assert drawn_scale(mechanism, 0.0) == drawn_scale(mechanism, 1e-300)


# --- Parameters


def test_nothing_about_the_scale_is_public():
    mechanism = MECHANISMS[0]
    assert not any(hasattr(mechanism, name) for name in ("std", "variance", "interval"))
    assert "replace" == mechanism.neighboring
    assert SmoothSensitivity(1.0, (0, 1), neighboring="add_remove").event == (
        events.Pure(1.0, "add_remove")
    )


@pytest.mark.parametrize(
    ("arguments", "name"),
    [
        ({"epsilon": 10.1}, "epsilon"),
        ({"epsilon": 1e-9}, "epsilon"),
        ({"noise": "uniform"}, "noise"),
        ({"noise": None}, "noise"),
        ({"delta": 1e-6}, "delta"),
        ({"noise": "laplace"}, "delta"),
        ({"noise": "gaussian"}, "delta"),
        ({"exponent": 1}, "exponent"),
        ({"exponent": 17}, "exponent"),
        ({"exponent": 2.5}, "exponent"),
        ({"bounds": (1e9, 1e9 + 1e-5)}, "bounds"),
        ({"bounds": (0.0, 5e-324)}, "bounds"),
    ],
)
def test_parameters_are_refused_by_name(arguments, name):
    with pytest.raises((ValueError, TypeError), match=f"'{name}' parameter"):
        SmoothSensitivity(**{"epsilon": 1.0, "bounds": (0.0, 1.0), **arguments})


# --- Audits of real releases


def outputs(mechanism, rows, smooth=None, count=6000):
    x = np.sort(np.array(rows, dtype=float))
    value = x[median_rank(x.size) - 1]
    if smooth is None:
        smooth = smooth_sensitivity_median(x, mechanism.beta, mechanism.bounds)
    return [mechanism.release(value, smooth) for _ in range(count)]


PAIR = (0.0, 0.0, 0.0, 1.0, 1.0), (0.0, 0.0, 1.0, 1.0, 1.0)


@pytest.mark.parametrize("noise", ["cauchy", "laplace", "gaussian"])
def test_audit(noise, audit):
    delta = 0.0 if noise == "cauchy" else 0.01
    mechanism = SmoothSensitivity(2.0, (0.0, 1.0), noise, delta)
    found = audit(*(outputs(mechanism, rows) for rows in PAIR), delta)
    assert found <= 2.0


def test_audit_catches_noise_in_proportion_to_the_local_sensitivity(audit):
    # The median is 0 on both; the local sensitivity is 0 on one and 1 on the other.
    mechanism = SmoothSensitivity(2.0, (-1.0, 1.0))
    quiet = outputs(mechanism, (0.0, 0.0, 0.0, 0.0, 1.0), smooth=0.0)
    loud = outputs(mechanism, (0.0, 0.0, 0.0, 1.0, 1.0), smooth=1.0)
    assert audit(quiet, loud) > 4.0


def test_audit_catches_a_smooth_sensitivity_that_is_too_small(audit):
    mechanism = SmoothSensitivity(2.0, (-9.0, 9.0))
    first, second = (
        [mechanism.release(value, 0.2) for _ in range(10_000)] for value in (-1.0, 1.0)
    )
    assert audit(first, second) > 2.0
