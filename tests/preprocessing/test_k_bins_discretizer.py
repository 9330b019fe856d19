"""Bins: edges, encodings and what they cost."""

import numpy as np
import pytest
from scipy import sparse
from sklearn.preprocessing import KBinsDiscretizer

from skdp import BudgetAccountant
from skdp.preprocessing import DPKBinsDiscretizer

RELATIONS = ("replace", "add_remove")


@pytest.fixture(scope="module")
def X():
    return np.random.default_rng(0).normal([40, 5], [12, 2], size=(2000, 2))


@pytest.mark.parametrize("neighboring", RELATIONS)
@pytest.mark.parametrize("n_bins", [2, 5, 12])
def test_limit(X, neighboring, n_bins):
    options = {"encode": "ordinal", "bounds": (-100, 200)}
    ours = DPKBinsDiscretizer(n_bins, 200.0, neighboring=neighboring, **options).fit(X)
    qs = np.arange(1, n_bins) / n_bins
    for j in range(2):
        expected = np.quantile(X[:, j], qs, method="nearest")
        np.testing.assert_allclose(ours.bin_edges_[j][1:-1], expected, atol=0.5)
    counts = np.bincount(ours.transform(X)[:, 0].astype(int))
    np.testing.assert_allclose(counts, 2000 / n_bins, atol=30)


def test_uniform_equals_scikit_learn_and_costs_nothing(X):
    budget = BudgetAccountant(1.0)
    low, high = X.min(axis=0), X.max(axis=0)
    for encode in ("onehot", "onehot-dense", "ordinal"):
        options = {"strategy": "uniform", "encode": encode}
        ours = DPKBinsDiscretizer(4, bounds=(low, high), accountant=budget, **options)
        theirs = KBinsDiscretizer(4, **options).fit(X)
        Z, expected = ours.fit_transform(X), theirs.transform(X)
        assert sparse.issparse(Z) == sparse.issparse(expected)
        if sparse.issparse(Z):
            Z, expected = Z.toarray(), expected.toarray()
        np.testing.assert_array_equal(Z, expected)
        names = theirs.get_feature_names_out()
        np.testing.assert_array_equal(ours.get_feature_names_out(), names)
        np.testing.assert_allclose(
            ours.inverse_transform(Z), theirs.inverse_transform(Z)
        )
        assert ours.privacy_.event is None and ours.privacy_cost(9, 2) is None
        assert "no privacy was spent" in str(ours.privacy_)
    assert budget.spends == []


def test_values_outside_the_bounds():
    bins = DPKBinsDiscretizer(3, bounds=(0, 3), strategy="uniform", encode="ordinal")
    codes = bins.fit([[0.0]]).transform([[-9.0], [0.0], [1.0], [2.5], [3.0], [9.0]])
    np.testing.assert_array_equal(codes.ravel(), [0, 0, 1, 2, 2, 2])
    np.testing.assert_allclose(bins.inverse_transform([[0], [2]]), [[0.5], [2.5]])
    with pytest.raises(ValueError, match="no bin"):
        bins.inverse_transform([[7]])


def test_equal_edges_are_merged():
    bins = DPKBinsDiscretizer(5, 100.0, bounds=(0, 1)).fit(np.zeros((500, 1)))
    edges = bins.bin_edges_[0]
    assert np.all(np.diff(edges) > 0) and bins.n_bins_[0] == edges.size - 1
    assert bins.transform([[0.5]]).sum() == 1


@pytest.mark.parametrize("encode", ["onehot-dense", "ordinal"])
def test_output_norm(X, encode):
    bins = DPKBinsDiscretizer(bounds=(0, 100), encode=encode).fit(X)
    norms = np.linalg.norm(bins.transform(X), axis=1)
    assert norms.max() <= bins.output_norm_


def test_events():
    few = DPKBinsDiscretizer(5).privacy_cost(100, 2)
    many = DPKBinsDiscretizer(20).privacy_cost(100, 2)
    assert few.epsilon(0) == pytest.approx(1.0)
    assert many.epsilon(0) == pytest.approx(1.0)
    assert few != many


@pytest.mark.parametrize(
    "options",
    [
        {"n_bins": 1},
        {"n_bins": 2.0},
        {"encode": "dense"},
        {"strategy": "kmeans"},
        {"bounds": (0, 0)},
        {"epsilon": 1e-9},
        {"epsilon": 2e-6, "n_bins": 20},
    ],
)
def test_bad_parameters(X, options):
    budget = BudgetAccountant(1.0)
    with pytest.raises((TypeError, ValueError)):
        DPKBinsDiscretizer(accountant=budget, **options).fit(X)
    assert budget.spends == []
