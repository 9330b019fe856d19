"""Standardisation: the limit, the norm of rows, sparse and missing values."""

import math

import numpy as np
import pytest
from scipy import sparse
from sklearn.preprocessing import StandardScaler

from skdp import BudgetAccountant
from skdp.preprocessing import DPStandardScaler
from skdp.preprocessing._sparse_sums import sparse_sums
from skdp.preprocessing._standard_scaler import read_known_count
from skdp.random_bits import RandomBits
from skdp.stats._sums import table_sums

RELATIONS = ("replace", "add_remove")
BOUNDS = ([-50.0, 0.0, -1.0], [150.0, 10.0, 1.0])


@pytest.fixture(scope="module")
def X():
    rng = np.random.default_rng(0)
    return np.clip(rng.normal([40, 5, 0], [12, 2, 0.3], size=(2000, 3)), *BOUNDS)


@pytest.mark.parametrize("neighboring", RELATIONS)
@pytest.mark.parametrize("missing", ["error", "drop"])
@pytest.mark.parametrize(
    ("with_mean", "with_std"), [(True, True), (True, False), (False, True)]
)
def test_limit(X, neighboring, missing, with_mean, with_std):
    options = {"with_mean": with_mean, "with_std": with_std}
    ours = DPStandardScaler(
        1e9, bounds=BOUNDS, neighboring=neighboring, missing=missing, **options
    )
    theirs = StandardScaler(**options)
    # Errors of sums of 2000 floats, not noise, which is 1e-9 or so.
    close = {"rtol": 1e-5, "atol": 1e-5}
    np.testing.assert_allclose(ours.fit_transform(X), theirs.fit_transform(X), **close)
    np.testing.assert_allclose(ours.mean_, theirs.mean_, **close)
    if with_std:
        np.testing.assert_allclose(ours.var_, theirs.var_, rtol=1e-4)
        np.testing.assert_allclose(ours.scale_, theirs.scale_, rtol=1e-4)
    else:
        assert ours.var_ is None and ours.scale_ is None
    np.testing.assert_allclose(ours.inverse_transform(ours.transform(X)), X, atol=1e-9)


def test_missing_values(X):
    holes = X.copy()
    holes[::7, 1] = np.nan
    ours = DPStandardScaler(1e9, bounds=BOUNDS, missing="drop").fit(holes)
    np.testing.assert_allclose(ours.mean_, np.nanmean(holes, axis=0), atol=1e-5)
    np.testing.assert_allclose(ours.var_, np.nanvar(holes, axis=0), rtol=1e-4)
    ours.set_params(output_norm=1.0).fit(holes)
    Z = ours.transform(holes)
    np.testing.assert_array_equal(np.isnan(Z), np.isnan(holes))
    assert np.nansum(Z**2, axis=1).max() <= 1.0
    with pytest.raises(ValueError, match="NaN"):
        DPStandardScaler(bounds=BOUNDS).fit(holes)


def test_nothing_to_learn_costs_nothing(X):
    budget = BudgetAccountant(1.0)
    options = {"with_mean": False, "with_std": False, "bounds": BOUNDS}
    scaler = DPStandardScaler(accountant=budget, **options).fit(X)
    assert budget.spends == [] and scaler.privacy_.event is None
    assert scaler.mean_ is None and scaler.privacy_cost(10, 3) is None
    np.testing.assert_array_equal(scaler.transform(X), X)


def test_noise_is_not_blown_up():
    # A constant feature: the released variance is noise, or 0.
    X = np.full((1000, 1), 3.0)
    for _ in range(20):
        scaler = DPStandardScaler(1.0, bounds=(0, 10)).fit(X)
        assert np.abs(scaler.transform(X)).max() < 3.0
        assert scaler.scale_[0] > 0.1


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("norm", [None, "auto", 0.5])
def test_output_norm(X, norm, dtype):
    scaler = DPStandardScaler(1.0, bounds=BOUNDS, output_norm=norm).fit(X)
    wild = (1000 * np.random.default_rng(1).normal(size=(500, 3))).astype(dtype)
    Z = scaler.transform(wild)
    assert Z.dtype == dtype
    norms = np.linalg.norm(Z.astype(np.float64), axis=1)
    assert norms.max() <= scaler.output_norm_
    if norm is None:  # the farthest corner is reached
        assert norms.max() > 0.999 * scaler.output_norm_
    else:
        assert scaler.output_norm_ == (math.sqrt(3) if norm == "auto" else norm)


@pytest.mark.parametrize("missing", [False, True])
@pytest.mark.parametrize("low", [-1.0, 0.0, -0.25])
def test_sparse_sums_are_those_of_the_dense_table(missing, low):
    X = sparse.random_array((1000, 6), density=0.2, random_state=0, format="csr")
    X.data = 3 * X.data - 1.5
    if missing:
        X.data[::9] = np.nan
    bounds = np.full(6, low), np.ones(6)
    ours = sparse_sums(X, *bounds, 2, missing)
    theirs = table_sums(X.toarray(), *bounds, 2, missing)
    for name in ("count", "first", "second"):
        np.testing.assert_allclose(getattr(ours, name), getattr(theirs, name), 1e-12)


def test_sparse_rows():
    X = sparse.random_array((500, 6), density=0.2, random_state=0, format="csr")
    options = {"with_mean": False, "output_norm": 1.0}
    scaler = DPStandardScaler(1e9, bounds=(-1, 1), **options).fit(X)
    dense = DPStandardScaler(1e9, bounds=(-1, 1), **options).fit(X.toarray())
    np.testing.assert_allclose(scaler.scale_, dense.scale_, rtol=1e-4)
    Z = scaler.transform(X)
    assert sparse.issparse(Z) and Z.nnz == X.nnz
    np.testing.assert_allclose(Z.toarray(), scaler.transform(X.toarray()))
    assert sparse.issparse(scaler.inverse_transform(Z))
    centred = DPStandardScaler().fit(X.toarray())
    with pytest.raises(ValueError, match="un-centred"):
        centred.inverse_transform(Z)
    with pytest.raises(ValueError, match="with_mean=False"):
        DPStandardScaler().fit(X)
    with pytest.raises(ValueError, match="must contain 0"):
        DPStandardScaler(with_mean=False, bounds=(1, 2)).fit(X)


def test_found_bounds(X):
    scaler = DPStandardScaler(5.0, bounds=None, outer_bounds=(-1e4, 1e4)).fit(X)
    assert np.all(scaler.bounds_[0] < X.mean(axis=0))
    assert np.all(scaler.bounds_[1] > X.mean(axis=0))
    assert scaler.privacy_.event.epsilon(0) == pytest.approx(5.0)


def test_a_known_number_of_rows_takes_noise_out():
    # 4000 noisy copies of the sums of 100 rows, a quarter of which are 1.
    exact = np.array([[75.0], [0.0], [25.0]])
    noisy = np.random.default_rng(0).laplace(0, 2, size=(3, 4000)) + exact
    count, mean, *_ = read_known_count(noisy, 100)
    np.testing.assert_allclose(count, 100)
    # Standard deviation 2 sqrt(2) sqrt(1/2)/100, within 10 %: nine standard errors.
    assert np.std(mean) == pytest.approx(0.02, rel=0.1)


def test_gaussian_noise_for_delta():
    scaler = DPStandardScaler(1.0, 1e-6)
    many = scaler.privacy_cost(2000, 40)
    assert type(many).__name__ == "Gaussian"
    assert many.epsilon(1e-6) <= 1 + 1e-9


def test_plan_does_not_depend_on_private_numbers():
    scaler = DPStandardScaler(neighboring="add_remove")
    assert scaler.privacy_cost(10, 3) == scaler.privacy_cost(10_000, 3)
    releases = [scaler._plan(n, 3).release for n in (10, 10_000)]
    assert releases[0] == releases[1]


def test_release_draws_noise(X):
    scaler = DPStandardScaler(bounds=BOUNDS)
    first, second = scaler.fit(X).mean_, scaler.fit(X).mean_
    assert np.all(first != second)
    assert RandomBits(0).seeded


@pytest.mark.parametrize(
    "options",
    [
        {"output_norm": 0},
        {"output_norm": "max"},
        {"with_mean": None},
        {"method": "exact"},
        {"missing": "keep"},
        {"bounds": (1, 0)},
        {"bounds": None},
        {"n_samples_hint": 0},
        {"method": "gaussian"},
    ],
)
def test_bad_parameters(X, options):
    budget = BudgetAccountant(1.0)
    with pytest.raises((TypeError, ValueError)):
        DPStandardScaler(accountant=budget, **options).fit(X)
    assert budget.spends == []


@pytest.mark.parametrize("bounds", [(1e6 + 0.01, 1e6 + 0.0101), (-1e60, 1e60)])
def test_bounds_that_float32_cannot_hold(bounds):
    X = np.full((50, 2), 1e6, dtype=np.float32)
    scaler = DPStandardScaler(bounds=bounds, output_norm="auto").fit(X)
    found = scaler.transform(X)
    assert np.isfinite(found).all()
    assert np.linalg.norm(found, axis=1).max() <= scaler.output_norm_ * (1 + 1e-12)
