"""Sums, their sensitivities by random search, and what is read from them."""

import math

import numpy as np
import pytest

from skdp.stats import _sums as s

RNG = np.random.default_rng(0)


def exact(X, low, high):
    t = (np.clip(X, low, high) - low) / (high - low)
    return t


@pytest.mark.parametrize("low, high", [(0.0, 1.0), (-3.0, 5.0), (1e6, 1e6 + 1)])
@pytest.mark.parametrize("degree", [1, 2])
@pytest.mark.parametrize("n_features", [1, 3])
def test_sums_in_blocks_are_the_sums(low, high, degree, n_features, monkeypatch):
    monkeypatch.setattr(s, "_BLOCK", 1024)
    X = RNG.normal((low + high) / 2, high - low, (3000, n_features))
    lows, highs = np.full(n_features, low), np.full(n_features, high)
    found = s.table_sums(X, lows, highs, degree, False)
    t = exact(X, low, high)
    np.testing.assert_allclose(found.first, t.sum(axis=0), rtol=1e-8)
    assert (found.count == 3000).all()
    if degree == 2:
        np.testing.assert_allclose(found.second, (t**2).sum(axis=0), rtol=1e-8)
    else:
        assert found.second is None


@pytest.mark.parametrize("kind", [np.int8, np.int64, np.uint8, bool, np.float32])
def test_any_kind_of_number(kind):
    X = RNG.integers(0, 2, (500, 2)).astype(kind)
    found = s.table_sums(X, np.zeros(2), np.ones(2), 2, False)
    np.testing.assert_array_equal(found.first, X.astype(float).sum(axis=0))
    np.testing.assert_array_equal(found.second, found.first)


@pytest.mark.parametrize("order", ["C", "F"])
@pytest.mark.parametrize("bounds", [(0.0, 1.0), (1e6, 1e6 + 1)])
def test_missing_values_are_left_out(order, bounds):
    low, high = bounds
    X = np.asarray(RNG.uniform(low, high, (400, 3)), order=order)
    gone = RNG.random(X.shape) < 0.3
    X[gone] = np.nan
    found = s.table_sums(X, np.full(3, low), np.full(3, high), 1, True)
    np.testing.assert_array_equal(found.count, (~gone).sum(axis=0))
    t = np.where(gone, 0, (X - low) / (high - low))
    np.testing.assert_allclose(found.first, np.nansum(t, axis=0), rtol=1e-8)


def test_the_table_is_not_changed():
    X = RNG.normal(size=(100, 2))
    before = X.copy()
    s.table_sums(X, np.full(2, -0.1), np.full(2, 0.1), 2, False)
    np.testing.assert_array_equal(X, before)


@pytest.mark.parametrize("degree", [1, 2])
def test_a_row_adds_a_probability_vector(degree):
    for x in (-5.0, 0.0, 0.2, 0.5, 1.0, 7.0):
        sums = s.table_sums(np.array([[x]]), np.zeros(1), np.ones(1), degree, False)
        found = s.bernstein(sums)[:, 0]
        assert len(found) == degree + 1
        assert found.min() >= 0 and found.sum() == pytest.approx(1, abs=1e-15)


@pytest.mark.parametrize("degree", [1, 2])
@pytest.mark.parametrize("relation", ["replace", "add_remove"])
@pytest.mark.parametrize("missing", [False, True])
def test_sensitivities_are_bounds_that_are_reached(degree, relation, missing):
    """By search over rows, corners included; a factor of 1.1 would be seen."""
    d = 2
    l1, l2 = s.bernstein_sensitivities(d, 10, relation)
    values = [-1.0, 0.0, 0.3, 0.5, 1.0, 4.0] + ([np.nan] if missing else [])
    rows = [np.array([[a, b]]) for a in values for b in values]
    vectors = [
        s.bernstein(s.table_sums(r, np.zeros(d), np.ones(d), degree, missing)).ravel()
        for r in rows
    ]
    if relation == "replace":
        changes = [a - b for a in vectors for b in vectors]
    else:
        changes = vectors
    for order, limit in ((1, l1), (2, l2)):
        largest = max(np.linalg.norm(change, order) for change in changes)
        assert 0.999 * limit < largest <= limit


def test_rounding_errors_are_below_their_bound(monkeypatch):
    """Against exact sums; the bound is for two tables."""
    monkeypatch.setattr(s, "_BLOCK", 2**16)
    for low, high in ((0.0, 1.0), (-7.0, 1.0), (7.0, 8.0), (1e9, 1e9 + 3)):
        X = RNG.uniform(low, high, (200_000, 1))
        lows, highs = np.array([low]), np.array([high])
        for degree in (1, 2):
            sums = s.table_sums(X, lows, highs, degree, False)
            if degree == 1 and abs(low) < 10:  # t is not rounded before the sum
                first = (math.fsum(X[:, 0]) - 200_000 * low) / (high - low)
            else:
                first = math.fsum((X[:, 0] - low) / (high - low))
            error = 2 * abs(sums.first[0] - first)
            assert 2 * error <= s.sum_error(1, 200_000)


@pytest.mark.parametrize("degree", [1, 2])
def test_moments_are_read_back(degree):
    X = RNG.beta(2, 5, (5000, 2))
    sums = s.table_sums(X, np.zeros(2), np.ones(2), degree, False)
    found = s.read_bernstein(s.bernstein(sums))
    np.testing.assert_allclose(found[0], 5000)
    np.testing.assert_allclose(found[1], X.mean(axis=0))
    if degree == 2:
        np.testing.assert_allclose(found[3], X.var(axis=0))


@pytest.mark.parametrize("degree", [1, 2])
def test_the_gain_is_the_slope(degree):
    """Finite differences in every sum."""
    X = RNG.beta(2, 5, (50, 1))
    start = s.bernstein(s.table_sums(X, np.zeros(1), np.ones(1), degree, False))
    place, gain = (1, 2) if degree == 1 else (3, 4)
    slopes = []
    for i in range(degree + 1):
        step = np.zeros_like(start)
        step[i] = 1e-5
        ends = [s.read_bernstein(start + sign * step)[place][0] for sign in (1, -1)]
        slopes.append((ends[0] - ends[1]) / 2e-5)
    found = s.read_bernstein(start)[gain][0]
    assert found == pytest.approx(np.linalg.norm(slopes), rel=1e-6)


def test_noise_alone_makes_sense():
    for noisy in (-5.0 * np.ones((3, 2)), np.zeros((3, 2)), 1e9 * np.eye(3)[:, :2]):
        count, mean, _, variance, _ = s.read_bernstein(noisy)
        assert (count >= 1).all() and ((mean >= 0) & (mean <= 1)).all()
        assert ((variance >= 0) & (variance <= 0.25)).all()
