"""The look at the moments, and the map to rows of bounded norm."""

import math
from fractions import Fraction

import numpy as np
import pytest
from scipy import sparse

from skdp.erm.rows import SparseRows
from skdp.erm.standardize import (
    RowMap,
    column_variances,
    look_size,
    look_sums,
    moments_map,
    plain_map,
    read_moments,
)

ORDERS = pytest.mark.parametrize("order", [1, 2])
KINDS = pytest.mark.parametrize("kind", ["dense", "sparse"])
NORMALIZE = pytest.mark.parametrize("normalize", [False, True])
INTERCEPTS = pytest.mark.parametrize("intercept", [None, 0.5])
TINY = [1e-154, 2.7e-162, 1.5e-162, 1e-300, 5e-324]


def as_kind(X, kind):
    return sparse.csr_matrix(X) if kind == "sparse" else X


def wild_rows(seed=0, width=6):
    """Return rows of all sizes: huge, tiny, zero, 0/1 and ordinary."""
    rng = np.random.default_rng(seed)
    sizes = [1e300, 1e155, 1e100, 1e77, 1e40, 1e3, 1.0, 1e-3, 1e-100, *TINY]
    rows = [size * rng.normal(size=(20, width)) for size in sizes]
    rows.append(rng.integers(2, size=(40, width)).astype(float))
    mixed = rng.normal(size=(100, width)) * 10.0 ** rng.integers(
        -300, 300, (100, width)
    )
    sparse_rows = mixed * (rng.uniform(size=mixed.shape) < 0.4)
    return np.concatenate([*rows, mixed, sparse_rows, np.zeros((2, width))])


def ordinary_rows(n=2000, seed=1):
    """Return rows with numeric and 0/1 columns, and their unit."""
    rng = np.random.default_rng(seed)
    numeric = rng.normal([1.0, -2.0], [0.5, 3.0], (n, 2))
    return np.column_stack([numeric, rng.uniform(size=(n, 2)) < [0.5, 0.1]]), 4.0


# --- The look


@ORDERS
@KINDS
@pytest.mark.parametrize("unit", [1.0, 0.01, 300.0])
def test_a_row_contributes_a_norm_of_at_most_one(kind, order, unit):
    with np.errstate(over="ignore"):  # warnings: the test below
        norms = [
            np.linalg.norm(look_sums(as_kind(row[None], kind), unit, order), order)
            for row in wild_rows()
        ]
    assert max(norms) <= 1 + 1e-12  # room for the norm's own rounding
    assert min(norms) >= 0.2 - 1e-12  # a row is always counted
    X, unit = ordinary_rows(200)
    for row in X:
        norm = np.linalg.norm(look_sums(as_kind(row[None], kind), unit, order), order)
        assert 0.999 < norm <= 1 + 1e-12


@pytest.mark.parametrize(
    ("kind", "size"), [("dense", 1e300), ("sparse", 1e300), ("sparse", 1.1e67)]
)
def test_a_huge_row_does_not_warn(kind, size):
    look_sums(as_kind(np.full((1, 2), size), kind), 1e-10)


@ORDERS
@KINDS
def test_adding_a_row_moves_the_sums_by_at_most_one(kind, order):
    X, unit = ordinary_rows()
    before = look_sums(as_kind(X, kind), unit, order)
    extra = np.concatenate([ordinary_rows(20, seed=2)[0], wild_rows(3, 4)[::9]])
    moves = []
    for row in extra:
        more = look_sums(as_kind(np.vstack([X, row]), kind), unit, order)
        moves.append(np.linalg.norm(more - before, order))
    assert 0.99 < max(moves) <= 1 + 1e-9


@ORDERS
def test_a_look_is_the_same_for_dense_and_sparse_rows(order):
    X, unit = ordinary_rows()
    assert look_sums(X, unit, order).shape == (look_size(4),)
    X = np.concatenate([X, wild_rows(4, 4)])
    found = look_sums(sparse.csr_matrix(X), unit, order)
    np.testing.assert_allclose(found, look_sums(X, unit, order), rtol=1e-10, atol=1e-12)
    found = look_sums(sparse.csr_array(X), unit, order)
    np.testing.assert_allclose(found, look_sums(X, unit, order), rtol=1e-10, atol=1e-12)


@ORDERS
def test_repeated_entries_of_a_sparse_row_stay_within_the_norm(order):
    data, indices = np.array([5.0, -5.0, 3.0]), np.array([0, 0, 1])
    X = sparse.csr_matrix((data, indices, np.array([0, 3])), shape=(1, 2))
    assert np.linalg.norm(look_sums(X, 1.0, order), order) <= 1 + 1e-12


@ORDERS
def test_a_look_without_noise_finds_the_weighted_moments(order):
    """A row weighs the inverse of its contribution's norm; all else is exact."""
    X, unit = ordinary_rows()
    u = X / unit
    parts = np.column_stack([u, u * (1 / unit - u), (X != 0) & (X != 1)])
    parts = np.column_stack([parts, np.ones(len(X))])
    weights = 1 / np.linalg.norm(parts, order, axis=1)
    weights /= weights.sum()
    found = read_moments(look_sums(X, unit, order), 1e-12, unit)
    mean = weights @ X
    np.testing.assert_allclose(found.mean, mean, rtol=1e-8)
    variance = weights @ X**2 - mean**2
    np.testing.assert_allclose(found.variance, variance, rtol=1e-6)
    np.testing.assert_array_equal(found.binary, [False, False, True, True])
    assert found.count == pytest.approx(len(X), rel=1e-9)
    assert len(X) <= found.count_bound <= len(X) + 1 + 1e-6


def test_moments_of_pure_noise_are_finite_and_harmless():
    rng = np.random.default_rng(5)
    for scale in (1.0, 1e3):
        sums = scale * rng.normal(size=look_size(5))
        found = read_moments(sums, scale, 2.0)
        for normalize in (False, True):
            rows_map = moments_map(found, 2.0, True, 1.0, normalize)
            assert np.all(np.isfinite(rows_map.center))
            assert np.all(np.isfinite(rows_map.scale))
            assert math.isfinite(rows_map.radius) and rows_map.radius > 0
            assert rows_map.bound <= 1 + 1e-9 + 1e-15
        assert found.count > 0 and found.error > 0 and np.all(found.variance >= 0)


def test_the_count_bound_holds_far_into_the_tail():
    """Noise of 12 standard deviations on the count: probability 2e-33."""
    X, unit = ordinary_rows()
    sums = look_sums(X, unit)
    for std in (0.1, 50.0):
        low = sums.copy()
        low[-1] -= 12 * std
        assert read_moments(low, std, unit).count_bound >= len(X)


def test_means_that_may_be_noise_are_shrunk_to_zero():
    X, unit = ordinary_rows()
    sums, std = look_sums(X, unit), 10.0
    sums[0] = 1.9 * std  # below two standard errors
    sums[1] = 40 * std
    found = read_moments(sums, std, unit)
    assert found.mean[0] == 0
    raw = unit * sums[1] / sums[-2]
    assert found.mean[1] == pytest.approx(raw * (1 - (2 / 40) ** 2), rel=1e-12)


def test_the_variances_of_the_mapped_columns():
    X, unit = ordinary_rows(20_000)
    moments = read_moments(look_sums(X, unit), 1e-9, unit)
    rows_map = moments_map(moments, unit, True, 1.0, False, reach=100.0)
    Z = rows_map.rows(X).Z
    # Moments weigh rows by their norms: on these data that moves them by a fifth.
    np.testing.assert_allclose(
        column_variances(moments, rows_map, unit)[:4], Z[:, :4].var(axis=0), rtol=0.3
    )
    assert column_variances(moments, rows_map, unit)[4] == rows_map.intercept**2
    mean_square = np.sum(Z[:, :4] ** 2, axis=1).mean()
    assert mean_square == pytest.approx(rows_map.norm**2 / 100**2, rel=0.3)


# --- The map


def exact_largest(rows):
    """Return the largest norm of the rows as a solver sees them, exactly."""
    worst = Fraction(0)
    if isinstance(rows, SparseRows):
        X = rows.X.toarray()
        for x, factor in zip(X, rows.factor, strict=True):
            terms = zip(x, rows.scale, rows.center, strict=True)
            square = sum(
                (Fraction(a) * Fraction(s) - Fraction(c)) ** 2 for a, s, c in terms
            )
            square *= Fraction(factor) ** 2
            worst = max(worst, square + Fraction(rows.intercept or 0) ** 2)
    else:
        for z in rows.Z:
            worst = max(worst, sum(Fraction(v) ** 2 for v in z))
    return worst


def some_maps(width, intercept, normalize):
    rng = np.random.default_rng(6)
    yield plain_map(width, 1.0, intercept, normalize)
    yield plain_map(width, 37.0, intercept, normalize)
    for size in (1e-3, 1.0, 1e4):
        center = size * rng.normal(size=width)
        scale = 10.0 ** rng.uniform(-4, 4, width)
        yield RowMap(center, scale, 2.0, 0.9, intercept, normalize)


@INTERCEPTS
@NORMALIZE
@KINDS
def test_mapped_rows_never_exceed_the_bound(kind, normalize, intercept):
    X = wild_rows(7)
    if kind == "dense" and normalize:  # the test below
        sizes = np.abs(X).max(axis=1)
        X = X[(sizes > 1e-140) | (sizes == 0)]
    for rows_map in some_maps(6, intercept, normalize):
        with np.errstate(over="ignore"):  # warnings: the test below
            rows = rows_map.rows(as_kind(X, kind))
        assert exact_largest(rows) <= Fraction(rows_map.bound) ** 2
        reached = math.sqrt(float(exact_largest(rows)))
        assert reached >= 0.99 * math.hypot(rows_map.norm, intercept or 0)


@pytest.mark.parametrize(
    "row", [[2.7e-162] + [0.0] * 100, [2.3e-162] + [1.5e-162] * 100]
)
def test_normalised_tiny_rows_never_exceed_the_bound(row):
    rows_map = plain_map(101, 1.0, None, True)
    rows = rows_map.rows(np.array([row]))
    assert exact_largest(rows) <= Fraction(rows_map.bound) ** 2


@KINDS
def test_a_zero_row_does_not_warn(kind):
    plain_map(2, 37.0, None, True).rows(as_kind(np.zeros((1, 2)), kind))


@KINDS
@NORMALIZE
@pytest.mark.parametrize("dtype", [np.float32, np.int32])
def test_other_types_are_mapped_in_float64(kind, normalize, dtype):
    rng = np.random.default_rng(8)
    X = (100 * rng.normal(size=(200, 6))).astype(dtype)
    if dtype == np.float32:
        X[0], X[1] = 3e38, 1e-38
    for rows_map in some_maps(6, 0.5, normalize):
        rows = rows_map.rows(as_kind(X, kind))
        assert exact_largest(rows) <= Fraction(rows_map.bound) ** 2


@KINDS
@pytest.mark.parametrize("shift", [1.0, 1e4, 1e8])
def test_cancellation_does_not_break_the_bound(kind, shift):
    """Rows near the centre: their norms are differences of large numbers."""
    rng = np.random.default_rng(9)
    center, scale = shift * (1 + rng.uniform(size=5)), rng.uniform(0.5, 2, 5)
    X = center + 1.5 * rng.normal(size=(300, 5)) / scale
    rows_map = RowMap(center, scale, 3.0, 1.0, None)
    rows = rows_map.rows(as_kind(X, kind))
    assert exact_largest(rows) <= Fraction(rows_map.bound) ** 2


@INTERCEPTS
@NORMALIZE
def test_sparse_rows_are_mapped_as_dense_ones(normalize, intercept):
    rng = np.random.default_rng(10)
    X = rng.normal(size=(300, 5)) * (rng.uniform(size=(300, 5)) < 0.5)
    X[0] *= 1e5
    rows_map = RowMap(0.3 * X[1], np.arange(1.0, 6), 2.0, 0.9, intercept, normalize)
    w = rng.normal(size=(5 + (intercept is not None), 2))
    for v in (w, w[:, 0]):
        dense, found = rows_map.scores(X, v), rows_map.scores(sparse.csr_matrix(X), v)
        np.testing.assert_allclose(found, dense, rtol=1e-7, atol=1e-7)


@NORMALIZE
def test_the_map_is_the_formula(normalize):
    rng = np.random.default_rng(11)
    X, center, scale = (
        rng.normal(size=(50, 3)),
        rng.normal(size=3),
        np.array([1, 2, 0.5]),
    )
    inner = (X - center) * scale
    norms = np.linalg.norm(inner, axis=1, keepdims=True)
    factor = 1 / norms if normalize else 1 / np.maximum(norms, 2.5)
    rows = RowMap(center, scale, 2.5, 0.8, 0.6, normalize).rows(X)
    np.testing.assert_allclose(rows.Z[:, :3], 0.8 * inner * factor, rtol=1e-12)
    np.testing.assert_array_equal(rows.Z[:, 3], 0.6)
    assert np.any(norms > 2.5) and np.any(norms < 2.5)


@NORMALIZE
@pytest.mark.parametrize("length", [0.1, 1.0, 1e9, 1e60])
def test_a_centre_is_moved_only_as_far_as_the_magnitude_asks(normalize, length):
    center, scale = length * np.array([1.0, -2.0, 3.0]), np.array([2.0, 1.0, 0.5])
    before = RowMap(center, scale, 2.0, 0.9, 0.3, normalize)
    rows = sparse.csr_array(np.ones((2, 3)))
    own = before.rows(rows).magnitude
    assert before.with_magnitude(own * (1 + 1e-6)) is before
    for limit in (before.bound * 1.01, 0.5 * (before.bound + own)):
        after = before.with_magnitude(limit)
        found = after.rows(rows).magnitude
        assert found <= limit and found >= limit * (1 - 1e-6)
        np.testing.assert_allclose(
            after.center / np.linalg.norm(after.center),
            center / np.linalg.norm(center),
        )


@KINDS
def test_short_rows_are_stretched_tenfold_at_most(kind):
    X = np.array([[1.0, 0.0], [0.05, 0.0], [1e-3, 0.0], [0.0, 0.0]])
    found = RowMap(np.zeros(2), np.ones(2), 2.0, 0.8, None, True)
    scores = found.scores(as_kind(X, kind), np.array([1.0, 0.0]))
    np.testing.assert_allclose(scores, [0.8, 0.2, 0.004, 0.0], rtol=1e-12)
    plain = plain_map(2, 2.0, None, True)
    scores = plain.scores(as_kind(X, kind), np.array([1.0, 0.0]))
    np.testing.assert_allclose(scores, [2.0, 2.0, 2.0, 0.0], rtol=1e-12)


@INTERCEPTS
@KINDS
@pytest.mark.parametrize("outputs", [None, 3])
def test_coefficients_in_the_users_units_give_the_same_scores(kind, intercept, outputs):
    rng = np.random.default_rng(12)
    X = rng.normal(size=(200, 4))
    rows_map = RowMap(rng.normal(size=4), rng.uniform(0.5, 2, 4), 4.0, 0.9, intercept)
    shape = (4 + (intercept is not None), *(() if outputs is None else (outputs,)))
    w = rng.normal(size=shape)
    coefficients, constant = rows_map.to_user(w)
    expected = X @ coefficients + constant
    inside = np.linalg.norm((X - rows_map.center) * rows_map.scale, axis=1) < 4.0
    assert 20 < inside.sum() < 200
    found = rows_map.scores(as_kind(X, kind), w)
    np.testing.assert_allclose(found[inside], expected[inside], atol=1e-12)
    assert np.all(
        np.any(np.abs(found - expected).reshape(200, -1)[~inside] > 1e-9, axis=1)
    )


@pytest.mark.parametrize("fit_intercept", [True, False])
@pytest.mark.parametrize("scaling", [0.1, 1.0, 10.0])
def test_a_map_of_moments_shares_a_norm_of_one(fit_intercept, scaling):
    X, unit = ordinary_rows()
    moments = read_moments(look_sums(X, unit), 0.5, unit)
    rows_map = moments_map(moments, unit, fit_intercept, scaling, False)
    assert 1 <= rows_map.bound <= 1 + 1e-9 + 1e-15
    if fit_intercept:
        ratio = rows_map.intercept / rows_map.norm
        assert ratio == pytest.approx(scaling / 3, rel=1e-12)
    else:
        assert rows_map.intercept is None
    # 0/1 columns are stretched a little, numeric ones to a deviation near one.
    stretched = moments.variance[2:] + (1e-4 + moments.error) * unit**2
    mild = (stretched / unit**2) ** -0.25
    np.testing.assert_allclose(rows_map.scale[2:], mild, rtol=1e-12)
    spread = (X[:, :2] * rows_map.scale[:2]).std(axis=0)
    np.testing.assert_allclose(spread, 1, rtol=0.25)


def explicit(rows):
    """Return the mapped rows as an array."""
    parts = [rows.scores(part, np.eye(rows.shape[1])) for part in rows.parts()]
    return np.vstack(parts)


@KINDS
@NORMALIZE
@pytest.mark.parametrize("strange", [1e-300, 1e-80, 1e80, 1e160, 1e200, 1e300])
def test_a_row_does_not_change_how_others_are_mapped(kind, normalize, strange):
    """One row with an overflow must not send its whole block down another path."""
    rng = np.random.default_rng(11)
    X = rng.normal(size=(40, 3)) * 10.0 ** rng.uniform(-150, 150, size=(40, 1))
    X[5] = [1e100, 1e80, 0.0]
    other = np.vstack([X[:20], [[strange, 0.0, -strange]], X[20:]])
    keep = np.arange(41) != 20
    center, scale = rng.normal(size=3), rng.uniform(0.5, 2, size=3)
    for rows_map in (
        plain_map(3, 1.0, 0.5, normalize),
        RowMap(center, scale, 2.0, 0.9, 0.3, normalize),
    ):
        alone = explicit(rows_map.rows(as_kind(X, kind)))
        joined = explicit(rows_map.rows(as_kind(other, kind)))[keep]
        np.testing.assert_array_equal(alone, joined)
