"""Laplace, Gaussian and Gamma-norm noise keep their claims, and are as large as said.

The worst case of each mechanism is computed on its own grid: an integer shift of
ceil(sensitivity/step) plus what rounding adds, against an integer scale. Random tests
fail by chance with a probability below 1e-7 each (see conftest).
"""

import math
from fractions import Fraction

import numpy as np
import pytest
from scipy import integrate, stats

from skdp import divergences, events
from skdp.calibration import gaussian_sigma
from skdp.mechanisms import GammaNorm, Gaussian, Laplace
from skdp.mechanisms._grid import plan

DRAWS = 200_000
EPSILONS = [1e-3, 0.1, 0.5, 1.0, math.log(3), 4.0, 50.0]
DELTAS = [1e-15, 1e-9, 1e-6, 1e-2, 0.1]


def worst_shift(grid, sensitivity, rounding):
    """The largest distance of rounded neighbours, in steps."""
    return math.ceil(Fraction(sensitivity) / Fraction(2) ** grid.exponent) + rounding


# --- Laplace: exact


@pytest.mark.parametrize("neighboring", ["replace", "add_remove"])
@pytest.mark.parametrize("size", [1, 2, 1000, 10**6])
@pytest.mark.parametrize("sensitivity", [1.0, 1 / 3, 1e-5, 2.0**40])
@pytest.mark.parametrize("epsilon", EPSILONS)
def test_laplace_loss_is_epsilon_at_most(epsilon, sensitivity, size, neighboring):
    mechanism = Laplace(epsilon, sensitivity, neighboring=neighboring)
    grid = mechanism._grid(size)
    # The loss of discrete Laplace noise is shift/scale at most, and reaches it.
    loss = Fraction(worst_shift(grid, sensitivity, size), grid.scale)
    assert loss <= Fraction(epsilon)
    if epsilon >= 0.1:
        assert float(loss) >= epsilon * (1 - 2.0**-20)
    assert loss <= Fraction(mechanism.event.epsilon(0))
    assert mechanism.event.epsilon(0) == pytest.approx(epsilon, rel=1e-15)
    assert mechanism.event.neighboring == neighboring


@pytest.mark.parametrize("epsilon", [0.2, 1.0, 3.0])
@pytest.mark.parametrize("sensitivity", [1.0, 0.7, 5.5])
def test_laplace_on_a_coarse_grid_by_summation(
    epsilon, sensitivity, laplace_pmf, shifted, hockey_stick
):
    grid = plan(epsilon, sensitivity, 1, fine=4, finest=8)
    values = np.arange(-64, 65) * grid.step / 8  # with ties of the rounding
    rounded = np.rint(values / grid.step)
    moved = np.rint((values + sensitivity) / grid.step)
    shifts = np.unique(moved - rounded).astype(int)
    assert shifts.max() <= worst_shift(grid, sensitivity, 1)
    pmf = laplace_pmf(grid.scale, 60 * grid.scale)
    for shift in shifts:
        pair = shifted(pmf, shift)
        for first, second in (pair, pair[::-1]):
            inside = slice(shift, first.size - shift)  # the support is cut off
            first, second = first[inside], second[inside]
            assert hockey_stick(first, second, epsilon) <= 1e-15
            assert hockey_stick(first, second, epsilon / 2) > 0


def test_laplace_vector_on_a_coarse_grid_by_summation(
    laplace_pmf, shifted, hockey_stick
):
    epsilon, sensitivity = 1.0, 1.0
    grid = plan(epsilon, sensitivity, 2, fine=3, finest=5)
    total = worst_shift(grid, sensitivity, 2)
    pmf = laplace_pmf(grid.scale, 12 * grid.scale)
    for share in (0, 1, total // 3, total // 2):
        one, other = shifted(pmf, share), shifted(pmf, total - share)
        inside = np.s_[
            share : one[0].size - share, total - share : other[0].size - total + share
        ]
        first = np.multiply.outer(one[0], other[0])[inside]
        second = np.multiply.outer(one[1], other[1])[inside]
        assert hockey_stick(first, second, epsilon) <= 1e-15
        assert hockey_stick(second, first, epsilon) <= 1e-15
        assert hockey_stick(first, second, 0.5 * epsilon) > 0


@pytest.mark.parametrize("epsilon", [0.3, 1.0, 4.0])
def test_laplace_event_profile_by_quadrature(epsilon):
    event = Laplace(epsilon).event
    density = stats.laplace(scale=1 / epsilon).pdf
    for target in np.linspace(0, epsilon, 7):

        def excess(y, target=target):
            return max(0.0, density(y) - math.exp(target) * density(y - 1))

        crossing = 0.5 - target / (2 * epsilon)
        parts = [(-40 / epsilon, min(0, crossing)), (min(0, crossing), crossing)]
        exact = sum(integrate.quad(excess, *part)[0] for part in parts)
        assert event.profile(target) == pytest.approx(exact, abs=1e-9)


# --- Gaussian: exact


@pytest.mark.parametrize("size", [1, 10, 10**4])
@pytest.mark.parametrize("delta", DELTAS)
@pytest.mark.parametrize("epsilon", EPSILONS)
def test_gaussian_delta_is_within_the_claim_and_tight(
    epsilon, delta, size, gaussian_delta
):
    mechanism = Gaussian(epsilon, delta, 0.7)
    grid = mechanism._grid(size)
    rounding = math.ceil(math.sqrt(size))
    assert grid.scale >= 2**42  # what the slack is proved for
    shift = worst_shift(grid, 0.7, rounding) / grid.scale
    true = gaussian_delta(epsilon, shift) + divergences.DISCRETE_SLACK
    assert 0.99 * delta < true <= delta
    assert true <= mechanism.event.profile(epsilon) <= delta
    assert mechanism.event.epsilon(delta) <= epsilon * (1 + 1e-12)


@pytest.mark.parametrize("delta", [1e-6, 1e-2])
@pytest.mark.parametrize("epsilon", [0.1, 1.0, 5.0])
def test_gaussian_delta_by_quadrature(epsilon, delta):
    mechanism = Gaussian(epsilon, delta, 3.0)
    density = stats.norm(scale=mechanism.sigma).pdf
    crossing = 1.5 - mechanism.sigma**2 * epsilon / 3.0

    def excess(y):
        return density(y) - math.exp(epsilon) * density(y - 3.0)

    ends = (crossing - 12 * mechanism.sigma, crossing)
    exact = integrate.quad(excess, *ends, epsabs=0, epsrel=1e-10, limit=200)[0]
    assert exact == pytest.approx(delta, rel=1e-7)


@pytest.mark.parametrize("delta", [1e-6, 1e-2, 0.1])
@pytest.mark.parametrize("epsilon", [0.2, 1.0, 4.0])
@pytest.mark.parametrize("fine", [5, 10])
def test_gaussian_on_a_coarse_grid_by_summation(
    epsilon, delta, fine, gaussian_pmf, shifted, hockey_stick
):
    shift = 1 / gaussian_sigma(epsilon, delta)
    grid = plan(shift, 1.3, 1, fine=fine, finest=fine + 2)
    pmf = gaussian_pmf(grid.scale, 14 * grid.scale)
    worst = worst_shift(grid, 1.3, 1)
    pair = shifted(pmf, worst)
    for first, second in (pair, pair[::-1]):
        inside = slice(worst, first.size - worst)
        true = hockey_stick(first[inside], second[inside], epsilon)
        assert true <= delta
        if fine == 10:  # a coarser grid pays more for rounding
            assert true > delta / 2


@pytest.mark.parametrize("epsilon", [0.5, 2.0])
def test_gaussian_vector_on_a_coarse_grid_by_summation(
    epsilon, gaussian_pmf, shifted, hockey_stick
):
    delta = 1e-3
    grid = plan(1 / gaussian_sigma(epsilon, delta), 1.0, 2, fine=5, finest=6)
    pmf = gaussian_pmf(grid.scale, 8 * grid.scale)
    norm = math.ceil(1 / grid.step) + 2
    for angle in (0, np.pi / 8, np.pi / 4):
        sides = [int(norm * np.cos(angle)), int(norm * np.sin(angle))]
        (one, moved), (two, moved_two) = (shifted(pmf, side) for side in sides)
        first, second = np.multiply.outer(one, two), np.multiply.outer(moved, moved_two)
        # So coarse a grid pays a lot for rounding.
        assert delta / 4 < hockey_stick(first, second, epsilon) <= delta


def test_gaussian_discretisation_error_falls_with_the_square_of_sigma(
    gaussian_pmf, shifted, hockey_stick, gaussian_delta
):
    # At 2**42 steps to sigma, 2**6 / sigma^2 is the slack of 2**-78.
    for ratio in (0.25, 1.0, 4.0):
        for epsilon in (0.0, 0.3, 1.0, 5.0):
            for sigma in (16, 64, 256, 1024):
                pmf = gaussian_pmf(sigma, 12 * sigma + int(ratio * sigma))
                pair = shifted(pmf, int(ratio * sigma))
                exact = gaussian_delta(epsilon, ratio)
                error = abs(hockey_stick(*pair, epsilon) - exact)
                assert error <= 2**6 / sigma**2 + 1e-13
                assert 2**6 / 2.0**84 <= divergences.DISCRETE_SLACK


@pytest.mark.parametrize("epsilon", [1.0, 1.5, 100.0])
def test_classic_gaussian_is_refused_from_epsilon_one_on(epsilon):
    with pytest.raises(ValueError, match="'epsilon' parameter of the classic"):
        Gaussian(epsilon, 1e-6, calibration="classic")


@pytest.mark.parametrize("epsilon", [1e-6, 0.01, 0.3, 0.9, 0.999])
@pytest.mark.parametrize("delta", [1e-20, 1e-9, 1e-3, 0.1, 0.5, 0.99])
def test_classic_gaussian_is_larger_below_epsilon_one(epsilon, delta, gaussian_delta):
    exact = Gaussian(epsilon, delta)
    classic = Gaussian(epsilon, delta, calibration="classic")
    assert classic.sigma > exact.sigma
    assert gaussian_delta(epsilon, 1 / classic.sigma) < delta
    assert classic.event.profile(epsilon) < delta


def test_classic_formula_would_break_its_claim_at_a_large_epsilon(gaussian_delta):
    epsilon, delta = 20.0, 1e-6
    sigma = math.sqrt(2 * math.log(1.25 / delta)) / epsilon
    assert gaussian_delta(epsilon, 1 / sigma) > 100 * delta


# --- Gamma norm: exact in real arithmetic


@pytest.mark.parametrize("n_features", [1, 2, 3, 10, 1000])
@pytest.mark.parametrize("epsilon", [0.01, 1.0, 30.0])
def test_gamma_norm_loss_is_epsilon_at_most(epsilon, n_features):
    mechanism = GammaNorm(epsilon, n_features, 1.7)
    grid = mechanism._grid(n_features)
    shift = Fraction(1.7) / Fraction(2) ** grid.exponent
    rounding = math.ceil(math.sqrt(n_features))
    loss = (shift + rounding) / grid.scale  # by the triangle inequality
    assert loss <= Fraction(epsilon)
    assert float(loss) >= epsilon * (1 - 2.0**-16)
    assert mechanism.event == events.Pure(epsilon)


def test_gamma_norm_profile_by_quadrature():
    # In two dimensions, with the neighbour moved by (1, 0): the excess over
    # e^target times the other density vanishes at epsilon and not at half of it.
    epsilon = 1.5
    edge = np.linspace(-12, 12, 1601)
    x, y = np.meshgrid(edge, edge)
    area = (edge[1] - edge[0]) ** 2
    first = epsilon**2 / (2 * np.pi) * np.exp(-epsilon * np.hypot(x, y))
    second = epsilon**2 / (2 * np.pi) * np.exp(-epsilon * np.hypot(x - 1, y))
    assert abs(first.sum() * area - 1) < 1e-3

    def delta(target):
        return np.maximum(first - math.exp(target) * second, 0).sum() * area

    assert delta(epsilon) <= 1e-15
    assert delta(epsilon / 2) > 0.05
    assert delta(epsilon / 2) <= events.Pure(epsilon).profile(epsilon / 2)


# --- The noise is as large as said


ADDITIVE = [
    Laplace(0.5, 3.0),
    Laplace(20.0, 1e-7),
    Gaussian(1.0, 1e-6, 2.0),
    Gaussian(0.5, 1e-3, calibration="classic"),
]


def exact_law(mechanism):
    if isinstance(mechanism, Laplace):
        return stats.laplace(scale=mechanism.scale)
    return stats.norm(scale=mechanism.sigma)


@pytest.mark.parametrize("mechanism", ADDITIVE, ids=repr)
def test_std_variance_and_interval_are_exact(mechanism):
    law = exact_law(mechanism)
    assert mechanism.std == pytest.approx(law.std(), rel=1e-12, abs=0)
    assert mechanism.variance == pytest.approx(law.var(), rel=1e-12, abs=0)
    for confidence in (1e-6, 0.5, 0.95, 1 - 1e-9):
        low, high = mechanism.interval(confidence)
        assert low == -high
        exact = law.isf((1 - confidence) / 2)
        assert high == pytest.approx(exact, rel=1e-9, abs=0)


@pytest.mark.parametrize("mechanism", ADDITIVE, ids=repr)
def test_releases_follow_the_law(mechanism, fits_cdf, clopper_pearson):
    value = np.linspace(-5, 5, DRAWS) * mechanism.std
    noise = mechanism.release(value) - value
    law = exact_law(mechanism)
    assert fits_cdf(noise, law.cdf)
    # Six standard errors of the second moment: a false alarm below 1e-8.
    fourth = (6 if isinstance(mechanism, Laplace) else 3) * mechanism.variance**2
    error = 6 * math.sqrt((fourth - mechanism.variance**2) / DRAWS)
    assert abs(np.mean(noise**2) - mechanism.variance) < error
    low, high = mechanism.interval(0.9)
    covered = np.count_nonzero((noise >= low) & (noise <= high))
    bounds = clopper_pearson(covered, DRAWS)
    assert bounds[0] <= 0.9 <= bounds[1]


@pytest.mark.parametrize("mechanism", [Laplace(1.0), Gaussian(1.0, 1e-6)], ids=repr)
def test_the_drawn_scale_is_the_stated_one_to_rounding(mechanism):
    # "larger by a relative 2**-33 or so", for one value and for a million.
    stated = getattr(mechanism, "scale", None) or mechanism.sigma
    for size, excess in ((1, 2.0**-32), (10**6, 2.0**-29)):
        grid = mechanism._grid(size)
        drawn = grid.scale * grid.step
        assert stated <= drawn <= stated * (1 + excess)


@pytest.mark.parametrize("epsilon", [1e-15, 1e-12, 1e-9, 1e-6])
@pytest.mark.parametrize("size", [1, 10**6])
def test_rounding_never_adds_much_noise_unsaid(epsilon, size):
    try:
        mechanism = Laplace(epsilon)
        draws = mechanism.release(np.zeros(size))
    except ValueError as error:
        assert "'epsilon'" in str(error)  # refused, which is as good
        return
    grid = mechanism._grid(size)
    assert grid.scale * grid.step <= 1.01 * mechanism.scale
    if size > 1:  # the standard error of the mean is below 0.002: a false alarm < 1e-8
        assert np.mean(np.abs(draws)) == pytest.approx(mechanism.scale, rel=0.022)


@pytest.mark.parametrize("sensitivity", [1e-250, 1e-170, 1e170, 1e250])
def test_std_neither_overflows_nor_vanishes(sensitivity):
    for one, same in (
        (Laplace(1.0, sensitivity), Laplace(1.0)),
        (Gaussian(1.0, 1e-6, sensitivity), Gaussian(1.0, 1e-6)),
        (GammaNorm(1.0, 3, sensitivity), GammaNorm(1.0, 3)),
    ):
        assert one.std == pytest.approx(same.std * sensitivity, rel=1e-12, abs=0)


@pytest.mark.parametrize("n_features", [1, 2, 3, 7])
def test_gamma_norm_releases_follow_the_law(n_features, fits_cdf, clopper_pearson):
    mechanism = GammaNorm(0.5, n_features, 2.0)
    calls = 4000
    value = np.arange(n_features) * 1.5
    noise = np.array([mechanism.release(value) for _ in range(calls)]) - value
    norms = np.linalg.norm(noise, axis=1)
    assert fits_cdf(norms, stats.gamma(n_features, scale=4.0).cdf, bins=32)
    if n_features == 3:  # every coordinate of a point on the sphere is uniform
        for column in (noise / norms[:, None]).T:
            assert fits_cdf(column, lambda u: (u + 1) / 2, bins=32)
    assert fits_cdf(np.sign(noise[:, 0]), lambda s: (s + 1) / 2, bins=2)
    low, high = mechanism.interval(0.8)
    covered = np.count_nonzero(norms <= high)
    bounds = clopper_pearson(covered, calls)
    assert low == -high
    assert bounds[0] <= 0.8 <= bounds[1]
    # Each coordinate has the stated variance: seven standard errors, below 1e-8 also
    # for so skewed a distribution. E r^4 = d(d+1)(d+2)(d+3), E u^4 = 3/(d(d+2)).
    fourth = 3 * (n_features + 1) * (n_features + 3) * 4.0**4
    error = 7 * math.sqrt((fourth - mechanism.variance**2) / calls)
    assert abs(np.mean(noise[:, 0] ** 2) - mechanism.variance) < error
    assert mechanism.std == pytest.approx(2.0 / 0.5 * math.sqrt(n_features + 1))


def test_gamma_norm_has_less_error_than_laplace():
    d = 50
    ratio = Laplace(1.0, math.sqrt(d)).std / GammaNorm(1.0, d).std
    assert ratio == pytest.approx(math.sqrt(2 * d / (d + 1)))


# --- Audits of real releases


def releases(mechanism, value, count=DRAWS):
    """Coordinates of one array release are independent draws of the noise."""
    return mechanism.release(np.full(count, value))


@pytest.mark.parametrize("epsilon", [0.5, 1.0, 2.0])
def test_audit_laplace(epsilon, audit):
    mechanism = Laplace(epsilon, 3.0)
    found = audit(releases(mechanism, 10.0), releases(mechanism, 13.0))
    assert epsilon / 2 < found <= epsilon


@pytest.mark.parametrize(("epsilon", "delta"), [(0.5, 0.02), (1.0, 0.02), (3.0, 0.05)])
def test_audit_gaussian(epsilon, delta, audit):
    mechanism = Gaussian(epsilon, delta, 3.0)
    found = audit(releases(mechanism, 10.0), releases(mechanism, 13.0), delta)
    assert epsilon / 2 < found <= epsilon


def test_audit_gamma_norm(audit):
    # The first coordinate, after a move along it.
    mechanism = GammaNorm(2.0, 2)
    first, second = (
        [mechanism.release([value, 0.0])[0] for _ in range(6000)]
        for value in (0.0, 1.0)
    )
    assert 0.5 < audit(first, second) <= 2.0


@pytest.mark.slow
@pytest.mark.parametrize("n_features", [1, 2, 5])
def test_audit_gamma_norm_closely(n_features, audit):
    mechanism = GammaNorm(1.0, n_features)
    unit = np.eye(n_features)[0]
    first, second = (
        [mechanism.release(value * unit)[0] for _ in range(25_000)]
        for value in (0.0, 1.0)
    )
    found = audit(first, second)
    assert found <= 1.0
    if n_features == 1:  # which is Laplace noise
        assert found > 0.5


@pytest.mark.parametrize(
    "mechanism", [Laplace(1.0, 1.0), Gaussian(1.0, 0.02, 1.0)], ids=repr
)
def test_audit_catches_a_sensitivity_that_is_half_the_true_one(mechanism, audit):
    delta = getattr(mechanism, "delta", 0.0)
    found = audit(releases(mechanism, 0.0), releases(mechanism, 2.0), delta)
    assert found > 1.0


@pytest.mark.slow
@pytest.mark.parametrize("epsilon", [0.1, 1.0, 4.0])
def test_audit_laplace_closely(epsilon, audit):
    mechanism = Laplace(epsilon)
    outputs = (releases(mechanism, value, 4_000_000) for value in (0.0, 1.0))
    assert 0.75 * epsilon < audit(*outputs) <= epsilon


@pytest.mark.slow
@pytest.mark.parametrize("delta", [1e-3, 0.05])
def test_audit_gaussian_closely(delta, audit):
    mechanism = Gaussian(1.0, delta)
    outputs = (releases(mechanism, value, 4_000_000) for value in (0.0, 1.0))
    assert 0.75 < audit(*outputs, delta) <= 1.0


# --- Shapes


@pytest.mark.parametrize(
    "mechanism", [Laplace(1.0), Gaussian(1.0, 1e-6), GammaNorm(1.0, 6)], ids=repr
)
def test_shapes_and_seeds(mechanism):
    for shape in ((6,), (2, 3), (1, 6, 1)):
        value = np.arange(6.0).reshape(shape)
        out = mechanism.release(value, random_state=7)
        assert out.shape == shape and out.dtype == np.float64
        assert np.array_equal(out, mechanism.release(value, random_state=7))
        assert not np.array_equal(out, mechanism.release(value, random_state=8))
        assert not np.array_equal(out, mechanism.release(value))


def test_a_number_gives_a_number():
    for mechanism in (Laplace(1.0), Gaussian(1.0, 1e-6), GammaNorm(1.0, 1)):
        for value in (3, 3.0, np.float32(3), np.array(3.0), True):
            assert type(mechanism.release(value)) is float


def test_gamma_norm_refuses_another_length():
    with pytest.raises(ValueError, match="'value' parameter must have n_features=3"):
        GammaNorm(1.0, 3).release([1.0, 2.0])
