"""Rows are short for certain, and otherwise left alone."""

from fractions import Fraction

import numpy as np
import pytest
from scipy import sparse
from sklearn.pipeline import make_pipeline

from skdp.preprocessing import RowNormClipper


def longest(X):
    """The largest squared norm of a row, in exact arithmetic."""
    return max(sum(Fraction(float(v)) ** 2 for v in row) for row in X)


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("norm", [1.0, 0.1, 3.7, 1e-20, 1e20])
def test_norms_are_exact_bounds(dtype, norm):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(300, 7)).astype(dtype)
    X[:100] /= np.linalg.norm(X[:100], axis=1, keepdims=True)  # at the limit
    X *= dtype(norm)
    Z = RowNormClipper(norm).fit_transform(X)
    assert Z.dtype == dtype
    assert longest(Z) <= Fraction(norm) ** 2
    assert np.linalg.norm(Z / norm, axis=1).max() > 1 - 1e-6


def test_direction_is_kept_and_short_rows_do_not_change():
    X = np.array([[3.0, 4.0], [0.3, 0.4], [0.0, 0.0]])
    Z = RowNormClipper().fit_transform(X)
    np.testing.assert_allclose(Z[0], [0.6, 0.8], rtol=1e-14)
    np.testing.assert_array_equal(Z[1:], X[1:])
    again = RowNormClipper().fit_transform(Z)
    np.testing.assert_array_equal(again, Z)


def test_no_overflow():
    X = np.array([[1e308, 1e308, -1e308], [1e-310, 0, 0], [1e200, 1.0, 0]])
    Z = RowNormClipper(2.0).fit_transform(X)
    np.testing.assert_allclose(Z[0], 2 / np.sqrt(3) * np.array([1, 1, -1]))
    np.testing.assert_array_equal(Z[1], X[1])
    np.testing.assert_allclose(Z[2], [2, 0, 0], atol=1e-100)
    assert longest(Z) <= 4


@pytest.mark.parametrize("kind", [sparse.csr_array, sparse.csr_matrix])
def test_sparse_stays_sparse(kind):
    X = sparse.random_array((50, 8), density=0.3, random_state=0)
    X = kind(X.tocsr() * 3)
    before = X.copy()
    Z = RowNormClipper().fit_transform(X)
    assert isinstance(Z, kind) and Z.nnz == X.nnz
    dense = RowNormClipper().fit_transform(X.toarray())
    np.testing.assert_allclose(Z.toarray(), dense, rtol=1e-14)
    np.testing.assert_array_equal(X.toarray(), before.toarray())


def test_entries_that_are_stored_twice():
    X = sparse.csr_matrix(([0.8, 0.8], [0, 0], [0, 2]), shape=(1, 2))
    assert RowNormClipper().fit_transform(X).toarray()[0, 0] <= 1.0
    assert X.nnz == 2


def test_input_is_not_changed_or_shared():
    X = np.array([[0.1, 0.2]])
    Z = RowNormClipper().fit_transform(X)
    Z[:] = 7
    np.testing.assert_array_equal(X, [[0.1, 0.2]])


@pytest.mark.parametrize("norm", [0, -1.0, np.nan, np.inf, 1e-40, True, "1", None])
def test_bad_norm(norm):
    with pytest.raises((TypeError, ValueError), match="'norm'"):
        RowNormClipper(norm).fit([[1.0]])


def test_attribute_and_pipeline():
    model = make_pipeline(RowNormClipper(2.0)).fit([[1.0]])
    assert model[-1].output_norm_ == 2.0
    assert list(model.get_feature_names_out(["a"])) == ["a"]
