"""One quantile, and several in turn: exact laws (``tests.stats.laws``) and accuracy.

The few random tests say how improbable their failure would be.
"""

import itertools
import math
from collections import defaultdict
from fractions import Fraction

import mpmath
import numpy as np
import pytest
from scipy import stats

from skdp import events
from skdp.noise import RandomBits
from skdp.stats import _quantile_core as core
from skdp.stats._quantile_core import (
    Grid,
    rank_error,
    recursive_event,
    release_quantile,
    release_recursive,
    single_event,
)
from tests.stats.laws import (
    RELATIONS,
    assert_same_law,
    enumerated,
    losses,
    single_law,
    tables,
)


@pytest.fixture
def law(monkeypatch):
    """Return a function from a release to {outcome: probability}."""
    return enumerated(monkeypatch)


# --- The grid


def test_multiples_of_the_step_are_points():
    ages = Grid(0, 120, 121)
    assert [ages.point(k) for k in (0, 1, 57, 120)] == [0, 1, 57, 120]
    cents = Grid(-5, 5, 1001)
    values = np.round(np.arange(-500, 501) / 100, 2)
    np.testing.assert_array_equal(cents.point(cents.cell(values)), values)


@pytest.mark.parametrize(
    "bounds", [(0, 1), (-0.1, 0.7), (1e9, 1e9 + 1), (-1e300, 1e290), (1e-310, 3e-310)]
)
@pytest.mark.parametrize("cells", [2, 3, 1000, 2**24])
def test_grid_is_monotone_and_inside(bounds, cells):
    grid = Grid(*bounds, cells)
    some = np.unique(np.linspace(0, cells - 1, 5000).astype(np.int64))
    points = grid.point(some)
    assert (np.diff(points) >= 0).all()
    assert points[0] == grid.low and points[-1] == grid.high
    values = np.sort(np.append(points, np.linspace(*bounds, 5000)))
    values = np.concatenate(([-np.inf, -1e308], values, [1e308, np.inf]))
    found = grid.cell(values)
    assert found[0] == 0 and found[-1] == cells - 1 and (np.diff(found) >= 0).all()
    if bounds in ((0, 1), (-0.1, 0.7)):
        np.testing.assert_array_equal(grid.cell(points), some)


@pytest.mark.parametrize(
    ("arguments", "name"),
    [
        ((1, 0, 5), "bounds"),
        ((0, 1, 1), "cells"),
        ((0, 1, 2**49), "cells"),
        ((0, 1e300, 2**48), "bounds"),
    ],
)
def test_bad_grids(arguments, name):
    with pytest.raises(ValueError, match=f"'{name}"):
        Grid(*arguments)


# --- One quantile

TINY = Grid(0, 6, 7)


@pytest.mark.parametrize("neighboring", RELATIONS)
@pytest.mark.parametrize("q", [0.0, 0.1, 0.5, 0.77, 1.0])
@pytest.mark.parametrize(
    "values", [[], [3], [0], [6, 6], [1, 1, 1, 4], [2.4, 5, 5, -9, 99, 3, 3]]
)
def test_single_law(law, values, q, neighboring):
    for epsilon in (0.3, 5.0):
        ours = law(release_quantile, values, q, TINY, epsilon, neighboring)
        theirs = single_law(np.array(values), q, TINY, epsilon, neighboring)
        assert_same_law(ours, theirs)


@pytest.mark.parametrize("cap", [2.0, 30.0])
@pytest.mark.parametrize("q", [0.0, 0.3, 1.0])
def test_single_law_beyond_the_window(law, monkeypatch, q, cap):
    monkeypatch.setattr(core, "_CAP", cap)
    grid = Grid(0, 40, 41)
    generator = np.random.default_rng(0)
    for top in (10, 40):  # with many ties, and with few
        values = generator.integers(0, top, size=60)
        start, stop = core._reach(60, int(60 * q), 3.5)
        assert 0 < stop - start < 60
        ours = law(release_quantile, values, q, grid, 7.0, "replace")
        assert_same_law(ours, single_law(values, q, grid, 7.0, "replace"))


@pytest.mark.parametrize("q", [0.0, 0.3, 0.5, 1.0])
@pytest.mark.parametrize("neighboring", RELATIONS)
def test_single_is_private_and_not_by_a_factor(law, q, neighboring):
    grid, epsilon = Grid(0, 4, 5), 1.0
    sizes = (4,) if neighboring == "replace" else range(5)
    found = list(
        losses(law, release_quantile, tables(5, sizes), q, grid, epsilon, neighboring)
    )
    assert epsilon / 2 < max(map(max, found)) <= epsilon
    assert 0.99 * epsilon < max(max(loss) - min(loss) for loss in found) <= epsilon


def test_the_rate_pays_for_rounding():
    # The weights are within 1000 units of rounding of the ideal ones, as claimed.
    count = np.full(2001, 2**47 + 1)
    below = np.arange(2001) - 1000 + 10**9
    target, rate = (10**9, 0.1), 0.0937
    ours = core._weights(count, below, below, target, rate)
    with mpmath.workdps(40):
        for i in range(0, 2001, 50):
            distance = abs(mpmath.mpf(int(below[i])) - 10**9 - mpmath.mpf(0.1))
            ideal = (2**47 + 1) * mpmath.exp(-min(distance * mpmath.mpf(rate), 100))
            assert abs(mpmath.mpf(ours[i]) / ideal - 1) < 300 * 2.0**-53


def test_the_slack_is_taken_off():
    assert core._single_rate(Fraction(1, 2), 1e-6, "replace") == (1e-6 - 1e-11) / 2


def test_numpy_exp_is_as_good_as_assumed():
    x = np.concatenate((np.linspace(-100, 0, 3001), -np.logspace(-9, 2, 500)))
    with mpmath.workdps(30):
        for value, result in zip(x.tolist(), np.exp(x).tolist(), strict=True):
            assert abs(result / mpmath.exp(value) - 1) < 16 * 2.0**-53


def test_single_draws_from_its_law():
    values, n = np.array([1, 1, 4, 5, 5]), 4000
    theirs = single_law(values, 0.5, TINY, 1.0, "replace")
    bits = RandomBits(0)
    drawn = [
        release_quantile(values, 0.5, TINY, 1.0, "replace", bits) for _ in range(n)
    ]
    seen = [drawn.count(point) for (point,) in theirs]
    expected = [n * probability for probability in theirs.values()]
    assert stats.chisquare(seen, expected).pvalue > 1e-9  # fails once in 1e9 seeds


def test_ties_are_released():
    values = np.append(np.full(600, 50.0), np.linspace(0, 100, 400))
    grid = Grid(0, 100, 10_001)
    bits = RandomBits(0)
    for q in (0.3, 0.5, 0.7):  # P(elsewhere) < 10001 exp(-100/2) < 1e-17
        assert release_quantile(values, q, grid, 1.0, "replace", bits) == 50


@pytest.mark.parametrize("neighboring", RELATIONS)
@pytest.mark.parametrize("q", [0.0, 0.25, 0.5, 1.0])
def test_rank_error(q, neighboring):
    values = np.random.default_rng(0).normal(size=10_000)
    grid = Grid(-10, 10, 2**20)
    bound = rank_error(1.0, q, grid, neighboring, confidence=1 - 1e-9)
    assert bound < 100
    for seed in range(5):  # each fails with probability below 1e-9
        point = grid.cell(release_quantile(values, q, grid, 1.0, neighboring, seed))
        cells = grid.cell(values)
        below, upto = (cells < point).sum(), (cells <= point).sum()
        assert max(below - q * 10_000, q * 10_000 - upto, 0) <= bound


def test_rank_error_formula():
    grid = Grid(0, 1, 1000)
    assert rank_error(0.5, 0.3, grid, "replace", 0.9) == pytest.approx(
        2 / 0.5 * math.log(10_000)
    )
    for neighboring in RELATIONS:  # the smallest and the largest value cost half
        assert rank_error(0.5, 0.0, grid, neighboring, 0.9) == pytest.approx(
            1 / 0.5 * math.log(10_000)
        )
    assert rank_error(0.5, 0.3, grid, "add_remove", 0.9) == pytest.approx(
        2 * 0.7 / 0.5 * math.log(10_000)
    )


def test_rank_error_holds_at_its_confidence(law):
    values, grid = [0] * 20 + [6] * 20, Grid(0, 100, 101)
    ours = law(release_quantile, values, 0.5, grid, 0.6, "replace")
    bound = rank_error(0.6, 0.5, grid, "replace", 0.7)
    beyond = sum(p for (x,), p in ours.items() if x > 6 and bound < 20)
    assert 0 < beyond <= 0.3


# --- Several quantiles in turn


@pytest.mark.parametrize("neighboring", RELATIONS)
@pytest.mark.parametrize("rows", [[], [2], [1, 1, 1, 3], [0, 2, 2, 3, 3, 4]])
def test_recursive_law(law, rows, neighboring):
    # The first quantile is a single release; the others are single releases from the
    # rows and the points on their side.
    grid, qs, epsilon = Grid(0, 4, 5), [0.2, 0.5, 0.9], 2.0
    share = epsilon / (4 if neighboring == "replace" else 2)
    rows = np.array(rows)
    expected = defaultdict(float)
    for (z,), p in single_law(rows, 0.5, grid, share, "add_remove").items():
        left = side_law(rows[rows <= z], Fraction(0.2) * 2, 0, int(z), share)
        q = (Fraction(0.9) - Fraction(1, 2)) * 2
        right = side_law(rows[rows > z], q, int(z), 4, share)
        for (x, px), (y, py) in itertools.product(left.items(), right.items()):
            expected[(x, z, y)] += p * px * py
    ours = law(release_recursive, rows, qs, grid, epsilon, neighboring)
    assert_same_law(ours, dict(expected))


def side_law(rows, q, low, high, share):
    whole = single_law(rows, q, Grid(0, 4, 5), share, "add_remove")
    weights = {x: p for (x,), p in whole.items() if low <= x <= high}
    total = math.fsum(weights.values())
    return {x: p / total for x, p in weights.items()}


@pytest.mark.parametrize(("qs", "share"), [([0.5], 0.5), ([0.25, 0.5, 0.75], 0.3)])
@pytest.mark.parametrize("neighboring", RELATIONS)
def test_recursive_is_private_and_not_by_a_factor(law, qs, share, neighboring):
    grid, epsilon = Grid(0, 3, 4), 1.0
    sizes = (4,) if neighboring == "replace" else range(5)
    found = list(
        losses(law, release_recursive, tables(4, sizes), qs, grid, epsilon, neighboring)
    )
    assert share * epsilon < max(map(max, found)) <= epsilon


def test_a_level_under_replace_needs_its_whole_range(law):
    # Two events of half the range would be too few: one row may leave and enter the
    # same part, and then the range of one loss is epsilon.
    found = losses(
        law, release_recursive, tables(5, (4,)), [0.5], Grid(0, 4, 5), 1.0, "replace"
    )
    assert 0.9 < max(max(loss) - min(loss) for loss in found) <= 1.0


@pytest.mark.parametrize(
    ("m", "levels"), [(1, 1), (2, 2), (3, 2), (4, 3), (7, 3), (8, 4), (100, 7)]
)
@pytest.mark.parametrize("neighboring", RELATIONS)
def test_recursive_event(m, levels, neighboring):
    event = recursive_event(m, 0.7, neighboring)
    assert event.counts == (levels,) and event.neighboring == neighboring
    assert 0.7 - 1e-15 <= event.basic()[0] <= 0.7
    assert math.ceil(math.log2(m + 1)) == levels


def test_recursive_is_as_deep_as_its_event(monkeypatch):
    depths = []

    def choose(window, start, ends, target, rate, bits):
        depths.append(rate)
        return ends[0]

    monkeypatch.setattr(core, "_choose", choose)
    qs = np.arange(1, 12) / 12
    release_recursive(np.arange(50.0), qs, Grid(0, 49, 50), 1.0, "add_remove", 0)
    assert len(depths) == 11
    # Each is paid for with a quarter of epsilon: depth 4, at its own sensitivity.
    assert max(depths) <= 0.25 and min(depths) > 0.125


def test_single_event():
    assert single_event(0.5, "replace") == events.BoundedRange(0.5, "replace")
