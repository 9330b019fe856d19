"""Several quantiles jointly, and what all of the releases have in common.

Exact laws are those of ``tests.stats.laws``. The few random tests say how improbable
their failure would be.
"""

import itertools
import math
import time
from fractions import Fraction

import mpmath
import numpy as np
import pytest
from scipy import stats

from skdp import events
from skdp.noise import RandomBits
from skdp.stats import _quantile_joint as joint
from skdp.stats._quantile_core import (
    Grid,
    release_quantile,
    release_recursive,
)
from skdp.stats._quantile_joint import joint_event, release_joint
from tests.stats.laws import (
    RELATIONS,
    assert_same_law,
    enumerated,
    joint_law,
    losses,
    tables,
)


@pytest.fixture
def law(monkeypatch):
    """Return a function from a release to {outcome: probability}."""
    return enumerated(monkeypatch)


# --- Several quantiles jointly


@pytest.mark.parametrize("neighboring", RELATIONS)
@pytest.mark.parametrize(
    "qs", [[0.5], [0.0], [1.0], [0.25, 0.5, 0.75], [0.0, 0.3, 1.0], [0.1, 0.85]]
)
@pytest.mark.parametrize("rows", [[], [2], [0, 5], [1, 1, 1, 4], [0, 2, 2, 3, 3, 5, 5]])
@pytest.mark.parametrize("epsilon", [0.1, 3.0, 90.0])
def test_joint_law(law, rows, qs, neighboring, epsilon):
    targets, rate = joint._joint_plan(qs, len(rows), epsilon, neighboring)

    def release(values, bits):
        cells = values.astype(np.int64)
        return joint._fine_points(cells, 6, targets, rate, bits)

    assert_same_law(law(release, rows), joint_law(rows, qs, 6, epsilon, neighboring))


def test_joint_law_beyond_the_cap(law, monkeypatch):
    monkeypatch.setattr(joint, "_JOINT_CAP", 3.0)
    monkeypatch.setattr(joint, "_FLOOR", math.exp(-3.0))
    rows, qs = sorted([0, 1, 1, 3, 4, 4, 4, 5, 5] * 4), [0.2, 0.4, 0.9]
    targets, rate = joint._joint_plan(qs, len(rows), 6.0, "replace")
    ours = law(
        lambda values, bits: joint._fine_points(
            values.astype(np.int64), 6, targets, rate, bits
        ),
        rows,
    )
    assert_same_law(ours, joint_law(rows, qs, 6, 6.0, "replace"))


@pytest.mark.parametrize("size", [1, 63, 64, 65, 5000])
def test_prefix_sums(size):
    x = np.random.default_rng(0).random(size)
    np.testing.assert_allclose(joint._prefix_sums(x), np.cumsum(x), rtol=1e-13)


@pytest.mark.parametrize("length", [0, 1, 2, 5, 64, 99, 100, 1000])
@pytest.mark.parametrize("rate", [1e-3, 0.4, 50.0])
def test_decayed_sums(length, rate):
    x = np.random.default_rng(0).random(100)
    expected = [
        sum(math.exp(-rate * t) * x[i + t] for t in range(min(length, 100 - i)))
        for i in range(100)
    ]
    np.testing.assert_allclose(
        joint._decayed_sums(x, rate, length), expected, rtol=1e-13
    )


@pytest.mark.parametrize("whole", [0, 1, 7, 150, 298, 299, 500])
@pytest.mark.parametrize("rate", [1e-2, 0.4, 8.0])
def test_step(whole, rate):
    x, target = np.random.default_rng(0).random(300), (whole, 0.3)
    expected = [
        math.fsum(x[k] * joint._proximity(i - k, target, rate) for k in range(i))
        for i in range(300)
    ]
    np.testing.assert_allclose(joint._step(x, target, rate), expected, rtol=1e-12)


@pytest.mark.parametrize("epsilon", [1e-3, 0.7, 20.0])
def test_joint_weights_are_as_accurate_as_claimed(epsilon):
    rows, points = np.sort(np.random.default_rng(0).integers(0, 999, 50)), 1000
    qs = [0.1, 0.4, 0.45]
    targets, rate = joint._joint_plan(qs, 50, epsilon, "replace")
    counts = np.append(rows, points) - np.concatenate(([0], rows))
    _, masses = joint._forward(counts.astype(float), targets, rate)
    edges = [Fraction(0), *map(Fraction, qs), Fraction(1)]
    parts = [50 * (b - a) for a, b in itertools.pairwise(edges)]
    with mpmath.workdps(40):

        def near(t, j):
            far = mpmath.mpmathify(Fraction(rate) * abs(t - parts[j]))
            return mpmath.exp(-far) + mpmath.exp(-joint._JOINT_CAP)

        heads, ideal = [], []
        for j in range(3):
            if j == 0:
                head = [joint._START * near(i, 0) for i in range(51)]
            else:
                head = [
                    mpmath.fsum(ideal[-1][k] * near(i - k, j) for k in range(i))
                    for i in range(51)
                ]
            heads = [[h * near(0, j) for h in old] for old in heads] + [head]
            ideal.append(
                [
                    mpmath.fsum(
                        math.comb(int(counts[i]) + r - 1, r) * heads[j + 1 - r][i]
                        for r in range(1, j + 2)
                        if counts[i]
                    )
                    for i in range(51)
                ]
            )
            for ours, theirs in zip(masses[j].tolist(), ideal[j], strict=True):
                assert abs(ours - theirs) <= 1200 * (j + 1) * 2.0**-53 * theirs


@pytest.mark.parametrize("epsilon", [1e-3, 1.0, 1e6])
def test_no_joint_weight_underflows_or_overflows(epsilon):
    rows = np.sort(np.append(np.full(3000, 5), np.arange(100) * 2**24))
    qs = np.arange(1, 10) / 10
    targets, rate = joint._joint_plan(qs, rows.size, epsilon, "replace")
    counts = np.append(rows, joint._FINE_POINTS) - np.concatenate(([0], rows))
    heads, masses = joint._forward(counts.astype(float), targets, rate)
    for j, (head, mass) in enumerate(zip(heads, masses, strict=True)):
        reachable = head[j > 0 :]  # ranks that the first quantile leaves room for
        assert np.isfinite(head).all() and np.isfinite(mass).all()
        some = reachable[np.flatnonzero(np.cumsum(counts)[: reachable.size])]
        assert (some > 2.0**-985).all() and (mass[counts > 0][1:] > 2.0**-985).all()
        assert max(head.max(), mass.max()) < 2.0**992


def test_most_joint_tuples_are_within_range():
    points, m = joint._FINE_POINTS, joint.MOST_QUANTILES
    most = math.log2(math.comb(points + m - 1, m)) + math.log2(joint._START)
    least = math.log2(joint._START) - (m + 1) * joint._JOINT_CAP / math.log(2)
    assert most < 992 and least > -985


@pytest.mark.parametrize("qs", [[0.5], [0.25, 0.75]])
@pytest.mark.parametrize("fine", [1, 2])
@pytest.mark.parametrize("neighboring", RELATIONS)
def test_joint_is_private_and_not_by_a_factor(law, monkeypatch, qs, fine, neighboring):
    # Two fine points a cell: the random move of every row is part of the law.
    cells = 4 if fine == 1 else 3
    monkeypatch.setattr(joint, "_FINE_POINTS", fine * cells)
    grid, epsilon = Grid(0, cells - 1, cells), 8.0
    sizes = (3,) if neighboring == "replace" else range(4)
    found = list(
        losses(law, release_joint, tables(cells, sizes), qs, grid, epsilon, neighboring)
    )
    # The random move blurs the laws of so few rows.
    assert epsilon / (2 if fine == 1 else 3) < max(map(max, found)) <= epsilon


def test_joint_sensitivity_is_attained():
    # One more row in the narrowest part, between quantiles that were right.
    for qs in ([0.5], [0.1, 0.3], [0.25, 0.5, 0.75]):
        edges = [Fraction(0), *map(Fraction, qs), Fraction(1)]
        parts = [b - a for a, b in itertools.pairwise(edges)]
        _, rate = joint._joint_plan(qs, 5, 1.0, "add_remove")
        change = sum(part for part in parts) - min(parts) + 1 - min(parts)
        assert 2 * rate * float(change) == pytest.approx(1.0, rel=1e-8)


@pytest.mark.parametrize(("count", "size"), [(1, 3), (2, 2), (3, 3)])
def test_multisets_are_uniform(count, size):
    bits, n = RandomBits(0), 4000
    drawn = [tuple(joint._multiset(count, size, bits)) for _ in range(n)]
    tuples = list(itertools.combinations_with_replacement(range(count), size))
    assert set(drawn) == set(tuples)
    if len(tuples) > 1:
        seen = [drawn.count(one) for one in tuples]
        assert stats.chisquare(seen).pvalue > 1e-9  # fails once in 1e9 seeds


def test_joint_draws_from_its_law():
    rows, qs, n = [1, 1, 4, 5], [0.3, 0.6], 3000
    theirs = joint_law(rows, qs, 6, 2.0, "replace")
    targets, rate = joint._joint_plan(qs, 4, 2.0, "replace")
    bits = RandomBits(0)
    drawn = [
        tuple(joint._fine_points(np.array(rows), 6, targets, rate, bits))
        for _ in range(n)
    ]
    assert set(drawn) <= set(theirs)
    seen = [drawn.count(one) for one in theirs]
    expected = [n * probability for probability in theirs.values()]
    assert stats.chisquare(seen, expected).pvalue > 1e-9  # fails once in 1e9 seeds


def mean_error(release, values, qs, repeats):
    truth, ordered = np.array(qs) * values.size, np.sort(values)
    bits = RandomBits(0)
    ranks = [np.searchsorted(ordered, release(bits)) for _ in range(repeats)]
    return np.abs(np.array(ranks) - truth).mean()


def test_joint_beats_splitting():
    # Means of 100 releases at a fixed seed, 2.1 and 4.4 ranks where this was written.
    values = np.random.default_rng(0).normal(size=2000)
    qs, grid = [0.25, 0.5, 0.75], Grid(-5, 5, 2**20)
    joint = mean_error(
        lambda bits: release_joint(values, qs, grid, 1.0, "add_remove", bits),
        values,
        qs,
        100,
    )
    split = mean_error(
        lambda bits: [
            release_quantile(values, q, grid, 1 / 3, "add_remove", bits) for q in qs
        ],
        values,
        qs,
        100,
    )
    assert joint < 0.8 * split


def test_the_slack_is_taken_off():
    assert joint._joint_plan(0.5, 9, 1e-3, "replace")[1] == (1e-3 - 1e-9) / 4


def test_joint_event():
    assert joint_event(0.5, "add_remove") == events.Pure(0.5, "add_remove")


# --- All of them

TINY = Grid(0, 6, 7)


@pytest.mark.parametrize("release", [release_joint, release_recursive])
@pytest.mark.parametrize("n", [0, 1, 2, 1000])
def test_many_are_monotone_and_inside(release, n):
    grid, qs = Grid(-0.3, 0.9, 1000), np.arange(1, 10) / 10
    values = np.random.default_rng(n).normal(size=n)
    for seed in range(5):
        for epsilon in (0.01, 1e5):
            points = release(values, qs, grid, epsilon, "replace", seed)
            assert points.shape == (9,) and (np.diff(points) >= 0).all()
            assert points[0] >= grid.low and points[-1] <= grid.high
            np.testing.assert_array_equal(grid.point(grid.cell(points)), points)


@pytest.mark.parametrize("release", [release_joint, release_recursive])
def test_many_are_accurate(release):
    # Each rank is off by 60 with probability below 1e-8.
    values = np.random.default_rng(0).permutation(10_000) / 10_000
    qs, grid = np.array([0.1, 0.5, 0.9]), Grid(0, 1, 10_001)
    for seed in range(3):
        points = release(values, qs, grid, 4.0, "replace", seed)
        assert np.abs(points - qs).max() < 0.006


def test_joint_ties():
    values = np.append(np.full(6000, 50.0), np.linspace(0, 100, 4000))
    grid = Grid(0, 100, 1001)
    points = release_joint(values, [0.3, 0.5, 0.7], grid, 1.0, "replace", 0)
    assert points.tolist() == [50, 50, 50]  # fails with probability below 1e-80


@pytest.mark.parametrize("release", [release_joint, release_recursive])
@pytest.mark.parametrize("qs", [[], [0.5, 0.5], [0.7, 0.3], [-0.1], [1.1], [np.nan]])
def test_bad_quantiles(release, qs):
    with pytest.raises(ValueError, match="'qs'"):
        release(np.arange(3.0), qs, TINY, 1.0, "replace", 0)


def test_limits():
    values = np.arange(3.0)
    for release, epsilon in (
        (release_quantile, 9e-7),
        (release_joint, 9e-4),
        (release_recursive, 1.9e-6),
        (release_quantile, -1.0),
        (release_recursive, math.inf),
    ):
        with pytest.raises(ValueError, match="'epsilon'"):
            release(values, 0.5, TINY, epsilon, "replace", 0)
    for q in (-0.1, 1.1, math.nan):
        with pytest.raises(ValueError, match="'q'"):
            release_quantile(values, q, TINY, 1.0, "replace", 0)
    with pytest.raises(ValueError, match="'qs'"):
        release_joint(values, np.arange(10) / 10, TINY, 1.0, "replace", 0)
    with pytest.raises(ValueError, match="'cells'"):
        release_joint(values, [0.5], Grid(0, 1, 2**24 + 1), 1.0, "replace", 0)
    for release in (release_quantile, release_joint, release_recursive):
        with pytest.raises(ValueError, match="'neighboring'"):
            release(values, 0.5, TINY, 1.0, "swap", 0)


def test_the_values_are_not_changed_and_a_seed_repeats():
    values = np.random.default_rng(0).normal(size=100_000)
    values.flags.writeable = False
    grid = Grid(-5, 5, 2**24)
    for release in (release_quantile, release_joint, release_recursive):
        for q in (0.0, 0.5, 1.0):
            one, two = (release(values, q, grid, 1.0, "replace", 7) for _ in range(2))
            assert one == two
    assert abs(release_quantile(values, 0.5, grid, 1.0, "replace", None)) < 0.1


def test_a_million_rows_are_fast():
    values = np.random.default_rng(0).normal(size=1_000_000)
    grid = Grid(-5, 5, 10_001)
    start = time.perf_counter()
    for epsilon in (1e-6, 1.0):
        release_quantile(values, 0.5, grid, epsilon, "replace", 0)
    release_recursive(values, np.arange(1, 20) / 20, grid, 1.0, "replace", 0)
    release_joint(values, [0.25, 0.5, 0.75], grid, 1.0, "replace", 0)
    assert time.perf_counter() - start < 10  # half a second where this was written
