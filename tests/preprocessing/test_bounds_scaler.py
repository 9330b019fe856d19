"""A public map, the same as MinMaxScaler's on data that reaches the bounds."""

import numpy as np
import pytest
from sklearn.preprocessing import MinMaxScaler

from skdp.preprocessing import BoundsScaler

X = np.array([[0.0, -5.0], [10.0, 5.0], [3.0, 2.0]])
BOUNDS = ([0, -5], [10, 5])


@pytest.mark.parametrize("span", [(0, 1), (-1, 1), (2.5, 7.25)])
def test_equals_min_max_scaler(span):
    ours = BoundsScaler(BOUNDS, span).fit(X)
    theirs = MinMaxScaler(span).fit(X)
    np.testing.assert_allclose(ours.transform(X), theirs.transform(X))
    np.testing.assert_allclose(ours.inverse_transform(ours.transform(X)), X, atol=1e-12)
    for name in ("scale_", "min_", "data_min_", "data_max_"):
        np.testing.assert_allclose(getattr(ours, name), getattr(theirs, name))


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_rows_stay_in_the_range(dtype):
    rng = np.random.default_rng(0)
    rows = (100 * rng.normal(size=(500, 2))).astype(dtype)
    scaler = BoundsScaler(BOUNDS, (-0.1, 0.3)).fit(rows)
    Z = scaler.transform(rows).astype(np.float64)
    assert Z.min() >= -0.1 and Z.max() <= 0.3
    assert np.linalg.norm(Z, axis=1).max() <= scaler.output_norm_
    assert scaler.output_norm_ == pytest.approx(0.3 * np.sqrt(2))


def test_without_clipping_there_is_no_bound():
    scaler = BoundsScaler(BOUNDS, clip=False).fit(X)
    assert scaler.output_norm_ == np.inf
    np.testing.assert_allclose(scaler.transform([[20.0, 0.0]]), [[2.0, 0.5]])


def test_nan_stays():
    assert np.isnan(BoundsScaler(BOUNDS).fit_transform([[np.nan, 0.0]])[0, 0])


def test_fit_does_not_depend_on_the_data():
    first, second = (BoundsScaler(BOUNDS).fit(Z) for Z in (X, -X))
    assert first.__dict__.keys() == second.__dict__.keys()
    np.testing.assert_array_equal(first.scale_, second.scale_)


@pytest.mark.parametrize(
    "options",
    [
        {"bounds": (1, 0)},
        {"bounds": ([0, 0, 0], [1, 1, 1])},
        {"feature_range": (1, 1)},
        {"clip": 1},
    ],
)
def test_bad_parameters(options):
    with pytest.raises((TypeError, ValueError), match=next(iter(options))):
        BoundsScaler(**options).fit(X)


def test_other_width():
    with pytest.raises(ValueError, match="features"):
        BoundsScaler(BOUNDS).fit(X).inverse_transform(X[:, :1])


def test_values_far_outside_do_not_overflow():
    huge = np.array([[1e308], [-1e308]])
    Z = BoundsScaler((0, 1e-10)).fit_transform(huge)
    np.testing.assert_array_equal(Z, [[1.0], [0.0]])
    narrow = np.array([[3e38]], dtype=np.float32)
    wide = BoundsScaler((-1e90, 1e90)).fit_transform(narrow)
    np.testing.assert_allclose(wide, [[0.5]])
