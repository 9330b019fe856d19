"""Rows, dense and sparse, against the explicit matrix."""

import tracemalloc
from fractions import Fraction

import numpy as np
import pytest
from scipy import sparse

from skdp.erm.rows import BLOCK, DenseRows, SparseRows, row_norms, slices

N = BLOCK + 700  # more than one block, sparse or dense


def make(kind, intercept, centred=True, n=N, width=5, seed=0):
    """Return rows of either kind, and the matrix that they stand for."""
    rng = np.random.default_rng(seed)
    X = sparse.random_array((n, width), density=0.4, rng=rng, format="csr")
    X = sparse.csr_matrix(X)
    factor = rng.uniform(0.1, 2, n)
    scale = rng.uniform(0.5, 3, width) if centred else np.ones(width)
    center = rng.normal(size=width) if centred else np.zeros(width)
    Z = factor[:, None] * (X.toarray() * scale - center)
    if intercept is not None:
        Z = np.column_stack([Z, np.full(n, intercept)])
    norm = float(np.linalg.norm(Z, axis=1).max())
    if kind == "dense":
        return DenseRows(Z, norm), Z
    return SparseRows(X, factor, scale, center, intercept, norm, 2.0), Z


KINDS = pytest.mark.parametrize("kind", ["dense", "sparse"])
INTERCEPTS = pytest.mark.parametrize("intercept", [None, 0.3])
CENTRED = pytest.mark.parametrize("centred", [True, False])


@CENTRED
@INTERCEPTS
@KINDS
@pytest.mark.parametrize("outputs", [None, 1, 3])
def test_scores_and_gather_are_products(kind, intercept, centred, outputs):
    rows, Z = make(kind, intercept, centred)
    assert rows.shape == Z.shape
    rng = np.random.default_rng(1)
    tail = () if outputs is None else (outputs,)
    w = rng.normal(size=(Z.shape[1], *tail))
    weights = rng.normal(size=(N, *tail))
    parts = list(rows.parts())
    assert len(parts) > 1
    total = np.zeros(w.shape)
    for part in parts:
        found = rows.scores(part, w)
        np.testing.assert_allclose(found, Z[part] @ w, atol=1e-12)
        found = rows.gather(part, weights[part])
        np.testing.assert_allclose(found, Z[part].T @ weights[part], atol=1e-9)
        assert found.shape == w.shape
        total += found
    np.testing.assert_allclose(total, Z.T @ weights, atol=1e-9)


@CENTRED
@INTERCEPTS
@KINDS
def test_gram_is_the_weighted_second_moment(kind, intercept, centred):
    rows, Z = make(kind, intercept, centred)
    weights = np.random.default_rng(2).uniform(size=N)
    weights[::3] = 0
    for part in rows.parts():
        expected = (Z[part] * weights[part][:, None]).T @ Z[part]
        found = rows.gram(part, weights[part])
        np.testing.assert_allclose(found, expected, rtol=1e-9, atol=1e-9)


@CENTRED
@INTERCEPTS
@KINDS
def test_norms_are_bounds_and_for_dense_rows_exact(kind, intercept, centred):
    rows, Z = make(kind, intercept, centred)
    for part in rows.parts():
        expected = np.linalg.norm(Z[part], axis=1)
        assert np.all(rows.norms(part) >= expected * (1 - 1e-14))
        if kind == "dense":
            np.testing.assert_allclose(rows.norms(part), expected, rtol=1e-14)


@INTERCEPTS
@KINDS
def test_magnitude_bounds_the_terms_of_a_score(kind, intercept):
    """The sum of the absolute values that a score adds up, in the order it does."""
    rows, Z = make(kind, intercept, n=3000)
    rng = np.random.default_rng(3)
    worst = 0.0
    for _ in range(20):
        w = rng.normal(size=Z.shape[1])
        if kind == "dense":
            terms = np.abs(Z) @ np.abs(w)
        else:
            inner = np.abs(w[: rows.X.shape[1]])
            terms = abs(rows.X) @ (rows.scale * inner) + np.abs(rows.center) @ inner
            terms = rows.factor * terms
            if intercept is not None:
                terms = terms + abs(intercept * w[-1])
        worst = max(worst, np.max(terms) / (rows.magnitude * np.linalg.norm(w)))
    assert 0.2 < worst <= 1


@pytest.mark.parametrize("width", [0, 1, 8, 300, 10**6])
@pytest.mark.parametrize("n_rows", [0, 1, 255, 256, 257, BLOCK, 3 * BLOCK + 1])
def test_slices_cover_all_rows_once(n_rows, width):
    parts = list(slices(n_rows, width))
    starts = [0, *(part.stop for part in parts)]
    assert [part.start for part in parts] == starts[:-1]
    assert starts[-1] == n_rows
    lengths = [part.stop - part.start for part in parts]
    assert all(0 < length <= BLOCK for length in lengths)
    assert all(length >= 256 for length in lengths[:-1])  # the error bound needs it


# --- Norms


def exact_square(row):
    return float(sum(Fraction(float(v)) ** 2 for v in row))


def as_kind(X, kind):
    return sparse.csr_matrix(X) if kind == "sparse" else X


@KINDS
@pytest.mark.parametrize("size", [1e300, 1e160, 1.0, 1e-160, 1e-162, 1e-300])
def test_row_norms_neither_overflow_nor_underflow(kind, size):
    X = size * np.array([[3.0, 4.0, 0.0], [0.0, 0.0, 0.0], [1.0, -1.0, 1.0]])
    expected = size * np.array([5.0, 0.0, np.sqrt(3)])
    np.testing.assert_allclose(row_norms(as_kind(X, kind)), expected, rtol=1e-14)


@KINDS
def test_row_norms_of_denormals(kind):
    X = np.array([[5e-324, 0.0], [3e-320, 4e-320], [0.0, 1.0]])
    # Numbers there have few digits, and so has their norm.
    found = row_norms(as_kind(X, kind))
    np.testing.assert_allclose(found, [5e-324, 5e-320, 1.0], rtol=1e-3)


@KINDS
@pytest.mark.parametrize("dtype", [np.float32, np.int64, np.float64])
def test_row_norms_are_float64(kind, dtype):
    rng = np.random.default_rng(4)
    X = rng.integers(-9, 9, (40, 6)).astype(dtype)
    found = row_norms(as_kind(X, kind))
    assert found.dtype == np.float64
    squares = [exact_square(row) for row in X]
    np.testing.assert_allclose(found, np.sqrt(squares), rtol=1e-15)


def test_row_norms_of_float32_do_not_overflow():
    X = np.full((2, 4), 3e38, dtype=np.float32)
    for kind in ("dense", "sparse"):
        expected = 2 * np.float64(np.float32(3e38))
        np.testing.assert_allclose(row_norms(as_kind(X, kind)), expected, rtol=1e-15)


def test_row_norms_of_repeated_entries():
    """A CSR matrix may hold an entry in parts: 1 + 1 is 2."""
    data, indices = np.array([1.0, 1.0, 3.0]), np.array([0, 0, 1])
    X = sparse.csr_matrix((data, indices, np.array([0, 3])), shape=(1, 2))
    np.testing.assert_allclose(row_norms(X), np.sqrt(13), rtol=1e-15)


@KINDS
def test_no_rows_and_no_entries(kind):
    assert row_norms(as_kind(np.empty((0, 3)), kind)).shape == (0,)
    np.testing.assert_array_equal(row_norms(as_kind(np.zeros((4, 3)), kind)), 0)


def test_sparse_rows_are_never_dense():
    """As a dense array the matrix takes 800 megabytes; 5 are enough."""
    n, width = 20_000, 5000
    rng = np.random.default_rng(5)
    data, columns = rng.normal(size=10 * n), rng.integers(width, size=10 * n)
    indptr = np.arange(0, 10 * n + 1, 10)
    X = sparse.csr_matrix((data, columns, indptr), shape=(n, width))
    w, weights = rng.normal(size=width + 1), rng.normal(size=n)
    tracemalloc.start()
    try:
        scale, center = np.full(width, 2.0), rng.normal(size=width)
        rows = SparseRows(X, np.ones(n), scale, center, 0.5, 100.0, 1.0)
        for part in rows.parts():
            rows.scores(part, w)
            rows.gather(part, weights[part])
        row_norms(X)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < 20e6
