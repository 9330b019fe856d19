"""Missing values filled: the limit, text, and empty features."""

import numpy as np
import pandas as pd
import pytest
from sklearn.impute import SimpleImputer

from skdp import BudgetAccountant
from skdp.preprocessing import DPSimpleImputer

RELATIONS = ("replace", "add_remove")


@pytest.fixture(scope="module")
def X():
    rng = np.random.default_rng(0)
    X = rng.integers(0, 100, size=(2001, 2)).astype(float)
    X[rng.uniform(size=X.shape) < 0.2] = np.nan
    return X


@pytest.mark.parametrize("neighboring", RELATIONS)
@pytest.mark.parametrize("strategy", ["mean", "median", "most_frequent", "constant"])
def test_limit(X, strategy, neighboring):
    values = [list(range(100))] * 2
    options = {"bounds": (0, 100), "categories": values, "neighboring": neighboring}
    epsilon = 1e9 if strategy == "mean" else 200.0
    ours = DPSimpleImputer(strategy, epsilon, **options).fit(X)
    theirs = SimpleImputer(strategy=strategy).fit(X)
    close = {"atol": 1.0 if strategy == "median" else 1e-3}  # one rank more or less
    if strategy == "most_frequent":  # ties, and near ones
        counts = [np.sum(X == s, axis=0)[j] for j, s in enumerate(ours.statistics_)]
        most = [np.sum(X == s, axis=0)[j] for j, s in enumerate(theirs.statistics_)]
        np.testing.assert_array_equal(counts, most)
        return
    expected = theirs.statistics_.astype(float)
    np.testing.assert_allclose(ours.statistics_, expected, **close)
    np.testing.assert_allclose(ours.transform(X), theirs.transform(X), **close)


def test_text():
    frame = pd.DataFrame(
        {"c": ["a", None, "b", "a"] * 200, "n": [1, 2, np.nan, 2] * 200}
    )
    options = {"categories": [["a", "b"], [1, 2]]}
    imputer = DPSimpleImputer("most_frequent", **options).fit(frame)
    assert imputer.statistics_.tolist() == ["a", 2]
    assert imputer.transform(frame)[:3].tolist() == [["a", 1.0], ["a", 2.0], ["b", 2]]
    filled = imputer.set_output(transform="pandas").transform(frame)
    assert list(filled.columns) == ["c", "n"] and not filled.isna().any().any()


def test_constant_costs_nothing(X):
    budget = BudgetAccountant(1.0)
    imputer = DPSimpleImputer("constant", fill_value=-1, accountant=budget).fit(X)
    assert np.all(imputer.transform(X)[np.isnan(X)] == -1)
    assert budget.spends == [] and imputer.privacy_cost(5, 2) is None
    text = DPSimpleImputer("constant", fill_value="?")
    assert text.fit_transform([["a"], [None]]).tolist() == [["a"], ["?"]]


@pytest.mark.parametrize("strategy", ["mean", "median"])
def test_empty_features_are_kept(strategy):
    X = np.full((30, 2), np.nan)
    imputer = DPSimpleImputer(strategy, bounds=(0, 1)).fit(X)
    assert imputer.transform(X).shape == (30, 2)
    assert np.all((imputer.statistics_ >= 0) & (imputer.statistics_ <= 1))


@pytest.mark.parametrize(
    "options",
    [
        {"strategy": "mode"},
        {"strategy": "most_frequent"},
        {"strategy": "most_frequent", "categories": [[1, 2]]},
        {"strategy": "most_frequent", "categories": [[1, 1], [2]]},
        {"strategy": "constant", "fill_value": [1]},
        {"bounds": (0, 0)},
        {"strategy": "median", "epsilon": 1e-7},
    ],
)
def test_bad_parameters(X, options):
    budget = BudgetAccountant(1.0)
    with pytest.raises((TypeError, ValueError)):
        DPSimpleImputer(accountant=budget, **options).fit(X)
    assert budget.spends == []
