"""Quantiles in place of extremes."""

import numpy as np
import pytest
from sklearn.preprocessing import MinMaxScaler

from skdp import BudgetAccountant
from skdp.preprocessing import DPMinMaxScaler

RELATIONS = ("replace", "add_remove")


@pytest.fixture(scope="module")
def X():
    return np.random.default_rng(0).normal([40, 5], [12, 2], size=(4000, 2))


@pytest.mark.parametrize("neighboring", RELATIONS)
def test_limit(X, neighboring):
    options = {"bounds": (-100, 200), "quantiles": (0.1, 0.9)}
    ours = DPMinMaxScaler(100.0, neighboring=neighboring, **options).fit(X)
    quantiles = np.quantile(X, (0.1, 0.9), axis=0, method="nearest")
    # The grid's step is 0.0003; a rank more or less is 0.02 or so.
    np.testing.assert_allclose([ours.data_min_, ours.data_max_], quantiles, atol=0.5)
    inside = np.clip(X, ours.data_min_, ours.data_max_)
    inside[0], inside[1] = ours.data_min_, ours.data_max_
    theirs = MinMaxScaler().fit(inside)
    np.testing.assert_allclose(ours.transform(inside), theirs.transform(inside))
    back = ours.inverse_transform(ours.transform(inside))
    np.testing.assert_allclose(back, inside)


@pytest.mark.parametrize("clip", [True, False])
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_output_norm(X, clip, dtype):
    options = {"bounds": (-100, 200), "feature_range": (-1, 1), "clip": clip}
    scaler = DPMinMaxScaler(1.0, **options).fit(X)
    wild = (1000 * np.random.default_rng(1).normal(size=(500, 2))).astype(dtype)
    norms = np.linalg.norm(scaler.transform(wild).astype(np.float64), axis=1)
    assert norms.max() <= scaler.output_norm_
    assert norms.max() > 0.99 * scaler.output_norm_


def test_quantiles_follow_public_numbers(X):
    def chosen(n, **options):
        scaler = DPMinMaxScaler(**options)
        return scaler._plan(n, 2).release[1][0]

    assert chosen(100) == 0.25
    assert 0.01 < chosen(5000) < 0.05
    assert chosen(10**6) == 0.01
    private = {"neighboring": "add_remove"}
    assert chosen(100, **private) == chosen(10**6, **private) == 0.05
    assert chosen(100, n_samples_hint=10**6, **private) == 0.01
    assert DPMinMaxScaler(bounds=(0, 100)).fit(X).quantiles_[0] < 0.1


def test_missing_values(X):
    holes = X.copy()
    holes[::3, 0] = np.nan
    scaler = DPMinMaxScaler(50.0, bounds=(-100, 200), quantiles=(0.1, 0.9)).fit(holes)
    expected = np.nanquantile(holes, 0.1, axis=0)
    np.testing.assert_allclose(scaler.data_min_, expected, atol=0.5)
    np.testing.assert_array_equal(np.isnan(scaler.transform(holes)), np.isnan(holes))
    empty = DPMinMaxScaler(bounds=(0, 1)).fit(np.full((5, 1), np.nan))
    assert 0 <= empty.data_min_[0] <= empty.data_max_[0] <= 1


def test_constant_feature():
    scaler = DPMinMaxScaler(100.0, bounds=(0, 1)).fit(np.full((500, 1), 0.5))
    assert scaler.data_range_[0] > 0 and np.isfinite(scaler.scale_).all()


def test_delta_buys_accuracy():
    def each(delta):
        return DPMinMaxScaler(1.0, delta)._plan(100, 40).release[0]

    assert each(1e-6) > 2 * each(0.0)
    event = DPMinMaxScaler(1.0, 1e-6).privacy_cost(100, 40)
    assert event.epsilon(1e-6) <= 1 + 1e-9


@pytest.mark.parametrize(
    "options",
    [
        {"quantiles": (0, 1)},
        {"quantiles": (0.9, 0.1)},
        {"quantiles": "all"},
        {"feature_range": (1, 0)},
        {"clip": "yes"},
        {"bounds": (0, 0)},
        {"epsilon": 1e-7},
    ],
)
def test_bad_parameters(X, options):
    budget = BudgetAccountant(1.0)
    with pytest.raises((TypeError, ValueError)):
        DPMinMaxScaler(accountant=budget, **options).fit(X)
    assert budget.spends == []
