"""The median's smooth sensitivity against its definition and against brute force."""

import itertools
import math
import tracemalloc

import numpy as np
import pytest
from scipy import stats

from skdp.mechanisms import median_rank, smooth_sensitivity_median

BETAS = [0.01, 0.1, 0.5, 1.0, 3.0]
GRID = (0.0, 1.0, 2.5, 4.0)  # with the bounds: there the extremes are attained
BOUNDS = (0.0, 4.0)


def brute_force(x, beta, bounds):
    """max_k exp(-k beta) max_{t=0..k+1} (x_(m+t) - x_(m+t-k-1)), as it is written."""
    values = np.sort(np.clip(x, *bounds))
    n, m = values.size, (values.size + 1) // 2

    def at(rank):
        if rank < 1:
            return bounds[0]
        return bounds[1] if rank > n else values[rank - 1]

    return max(
        math.exp(-k * beta) * max(at(m + t) - at(m + t - k - 1) for t in range(k + 2))
        for k in range(n + 1)
    )


def brute_force_fast(x, beta, bounds):
    """The same maximum over all pairs of ends, with one line for each lower end."""
    values = np.sort(np.clip(x, *bounds))
    m = median_rank(values.size) - 1
    down = values[m] - np.append(values[m::-1], bounds[0])
    up = np.append(values[m:], bounds[1]) - values[m]
    b = np.arange(up.size)
    return max(
        float(np.max(np.exp(-beta * np.maximum(a + b - 1, 0)) * (distance + up)))
        for a, distance in enumerate(down)
    )


def lower_median(rows):
    return np.sort(rows, axis=-1)[..., median_rank(np.shape(rows)[-1]) - 1]


def all_data(n):
    return np.array(list(itertools.product(GRID, repeat=n)))


def neighbours(rows):
    """All data sets over the grid that differ from ``rows`` in one place."""
    for i, value in itertools.product(range(len(rows)), GRID):
        yield (*rows[:i], value, *rows[i + 1 :])


def local_sensitivity(rows):
    medians = lower_median(np.array(list(neighbours(rows))))
    return float(np.abs(medians - lower_median(np.array(rows))).max())


# --- The definition


@pytest.mark.parametrize("n", [1, 2, 3, 4, 5])
def test_equals_the_definition_over_a_whole_domain(n):
    # max over all data y of exp(-beta distance(x, y)) times y's local sensitivity.
    data = all_data(n)
    local = np.array([local_sensitivity(tuple(rows)) for rows in data])
    sorted_data = np.unique(np.sort(data, axis=1), axis=0)
    for beta in (0.2, 1.0):
        for x in sorted_data:
            distance = np.count_nonzero(data != x, axis=1)
            exact = float(np.max(np.exp(-beta * distance) * local))
            found = smooth_sensitivity_median(x, beta, BOUNDS)
            assert found == pytest.approx(exact, rel=1e-12)
            assert found >= local_sensitivity(tuple(x))


@pytest.mark.parametrize("beta", BETAS)
@pytest.mark.parametrize("n", [1, 2, 3, 4, 5])
def test_is_smooth_over_a_whole_domain(n, beta):
    smooth = {}
    for rows in itertools.combinations_with_replacement(GRID, n):
        smooth[rows] = smooth_sensitivity_median(rows, beta, BOUNDS)
    for rows, value in smooth.items():
        for other in neighbours(rows):
            limit = math.exp(beta) * smooth[tuple(sorted(other))]
            assert value <= limit * (1 + 1e-12)


def test_equals_brute_force_on_random_data():
    rng = np.random.default_rng(0)
    for _ in range(4000):
        n = int(rng.choice([1, 2, 3, rng.integers(4, 30)]))
        kind = rng.integers(4)
        x = (
            rng.uniform(0, 1, n),
            rng.integers(0, 4, n) / 3.0,  # duplicates, also at the bounds
            np.round(rng.normal(0.5, 0.1, n), 2),
            0.5 + rng.standard_cauchy(n) * 1e-3,  # beyond the bounds
        )[kind]
        beta = float(10 ** rng.uniform(-3, 1))
        exact = brute_force(x, beta, (0.0, 1.0))
        found = smooth_sensitivity_median(x, beta, (0.0, 1.0))
        assert found == pytest.approx(exact, rel=1e-12)
        assert brute_force_fast(x, beta, (0.0, 1.0)) == pytest.approx(exact, rel=1e-12)


@pytest.mark.parametrize("beta", [1e-6, 1e-4, 1e-2, 1.0])
@pytest.mark.parametrize("n", [1000, 1001, 3000])
def test_equals_brute_force_on_more_rows(n, beta):
    rng = np.random.default_rng(n)
    for x in (
        rng.uniform(-5, 5, n),
        rng.normal(size=n),
        rng.standard_cauchy(n),
        np.sort(rng.lognormal(size=n)),
        np.sign(rng.normal(size=n)) * rng.exponential(size=n) ** 8,  # hollow
        np.zeros(n),
        np.full(n, 5.0),
    ):
        exact = brute_force_fast(x, beta, (-5.0, 5.0))
        found = smooth_sensitivity_median(x, beta, (-5.0, 5.0))
        assert found == pytest.approx(exact, rel=1e-12)


def test_order_and_shape_do_not_matter():
    rng = np.random.default_rng(1)
    x = rng.normal(size=60)
    expected = smooth_sensitivity_median(x, 0.3, (-2.0, 2.0))
    assert smooth_sensitivity_median(np.sort(x)[::-1], 0.3, (-2, 2)) == expected
    assert smooth_sensitivity_median(x.reshape(6, 10), 0.3, (-2, 2)) == expected
    before = x.copy()
    smooth_sensitivity_median(x, 0.3, (-2.0, 2.0))
    assert np.array_equal(x, before)


def test_lies_between_local_and_global_sensitivity():
    rng = np.random.default_rng(2)
    for n in (1, 2, 5, 50):
        x = np.sort(rng.uniform(0, 10, n))
        m = median_rank(n) - 1
        below = x[m] - (x[m - 1] if m else 0.0)
        above = (x[m + 1] if m + 1 < n else 10.0) - x[m]
        found = [smooth_sensitivity_median(x, beta, (0, 10)) for beta in BETAS]
        assert min(found) >= max(below, above) * (1 - 1e-12)
        assert max(found) <= 10.0
        assert found == sorted(found, reverse=True)


@pytest.mark.parametrize("beta", [1e-310, 1e-300, 1e-12, 50.0, 700.0, 800.0, 1e308])
def test_extreme_smoothness(beta):
    # Nothing but k = 0 counts for a large beta, every k for a small one.
    x, bounds = [0.0, 1.0, 1.2, 1.3, 5.0], (0.0, 5.0)
    found = smooth_sensitivity_median(x, beta, bounds)
    assert found == pytest.approx(0.2 if beta > 1 else 5.0, rel=1e-9)


@pytest.mark.parametrize("width", [1e-320, 1e-305, 1e-290, 1e290, 1.7e308])
def test_extreme_bounds(width):
    x = np.array([0.1, 0.2, 0.5, 0.9]) * width
    found = smooth_sensitivity_median(x, 0.5, (0.0, width))
    exact = brute_force(x, 0.5, (0.0, width))
    assert found >= exact * (1 - 1e-12)
    if width > 1e-300:
        assert found == pytest.approx(exact, rel=1e-9, abs=0)


# --- What it is not


def test_it_does_not_bound_the_mean_of_the_middle_two():
    # 0, 0, 0, 8: replacing a 0 by 8 moves np.median by 4, the lower median by 0.
    x, moved = [0.0, 0.0, 0.0, 8.0], [0.0, 0.0, 8.0, 8.0]
    assert abs(np.median(moved) - np.median(x)) == 4
    assert abs(lower_median(np.array(moved)) - lower_median(np.array(x))) == 0
    assert smooth_sensitivity_median(x, 1.0, (0.0, 8.0)) < 4
    assert median_rank(4) == 2 and median_rank(5) == 3 and median_rank(1) == 1


def test_local_sensitivity_alone_is_not_private():
    # Neighbours: the lower median is 0 on both; one has local sensitivity 0 (here
    # 1e-9, to have a density), the other 1. Laplace noise of scale 2 local/epsilon:
    # the output "within 1e-6 of 0" is certain on one and hardly possible on the other.
    epsilon = 1.0
    first, second = (0.0, 0.0, 0.0, 0.0, 1.0), (0.0, 0.0, 0.0, 1.0, 1.0)
    assert sum(a != b for a, b in zip(first, second, strict=True)) == 1
    assert lower_median(np.array(first)) == lower_median(np.array(second)) == 0
    scales = []
    for rows in (first, second):
        x = np.array(rows)
        local = max(x[3] - x[2], x[2] - x[1], 1e-9)
        scales.append(2 * local / epsilon)
    inside = [1 - 2 * stats.laplace(scale=scale).sf(1e-6) for scale in scales]
    assert inside[0] > 1 - 1e-12
    assert math.log(inside[0] / inside[1]) > 14  # far above the epsilon of 1
    # The smooth sensitivities of the two differ by a factor e^beta at most.
    smooth = [smooth_sensitivity_median(rows, 0.5, (0, 1)) for rows in (first, second)]
    assert max(smooth) / min(smooth) <= math.exp(0.5) * (1 + 1e-12)


# --- A million rows


@pytest.mark.parametrize("beta", [1e-7, 1e-3, 0.1])
def test_a_million_rows_take_linear_memory(beta):
    rng = np.random.default_rng(3)
    x = rng.standard_cauchy(10**6)
    tracemalloc.start()
    try:
        found = smooth_sensitivity_median(x, beta, (-1e3, 1e3))
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert 0 < found <= 2e3
    assert peak < 40 * x.nbytes
