"""One budget, noise of its own for every fit, and nothing un-noised on the way."""

import pickle

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone

from skdp import BudgetAccountant
from skdp.exceptions import BudgetExceededError
from skdp.stats import (
    DPCount,
    DPMean,
    DPMedian,
    DPQuantile,
    DPStandardDeviation,
    DPSum,
    DPVariance,
)

KINDS = (DPMean, DPSum, DPVariance, DPStandardDeviation, DPCount, DPMedian, DPQuantile)
X = np.random.default_rng(0).random((300, 2))
X[::3] = 0.0


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("relation", ["replace", "add_remove"])
def test_every_fit_is_charged(kind, relation):
    accountant = BudgetAccountant(1.0, 0.0, neighboring=relation)
    model = kind(epsilon=0.5, neighboring=relation, accountant=accountant)
    found = clone(model).fit(X)
    assert accountant.total().epsilon == pytest.approx(0.5)
    assert found.privacy_.event == model.privacy_cost(*X.shape)
    assert found.privacy_.event == accountant.spends[0].event
    assert found.privacy_.event.epsilon(0) <= 0.5 * (1 + 1e-12)
    clone(model).fit(X)
    with pytest.raises(BudgetExceededError):
        model.fit(X)
    assert not hasattr(model, model._value)
    text = str(found.privacy_)
    assert "epsilon = 0.5" in text and "every person is one row" in text


@pytest.mark.parametrize("kind", KINDS)
def test_under_add_remove_the_plan_does_not_know_n(kind):
    model = kind(neighboring="add_remove")
    assert model._plan(10, 2).release == model._plan(10_000, 2).release
    assert model.privacy_cost(10, 2) == model.privacy_cost(10_000, 2)


@pytest.mark.parametrize("kind", KINDS)
def test_fits_share_no_noise(kind):
    """Eight columns: equal noise by chance has a probability far below 1e-6."""

    def value(model, data):
        return getattr(clone(model).fit(data), model._value)

    wide = np.column_stack([X] * 4)
    model = kind(epsilon=0.8)
    assert not np.array_equal(value(model, wide), value(model, wide))
    seeded = kind(epsilon=0.8, random_state=0)
    np.testing.assert_array_equal(value(seeded, wide), value(seeded, wide))
    other = wide.copy()
    other[1, 0] += 1e-9
    assert not np.array_equal(value(seeded, wide), value(seeded, other))
    # Equal columns get noise of their own.
    assert np.unique(value(seeded, np.repeat(X[:, :1], 8, axis=1))).size > 1


@pytest.mark.parametrize("kind", KINDS)
def test_pandas_and_pickle(kind):
    frame = pd.DataFrame(X, columns=["age", "hours"])
    model = kind(accountant=BudgetAccountant(5.0)).fit(frame)
    assert list(model.feature_names_in_) == ["age", "hours"]
    again = pickle.loads(pickle.dumps(model))
    np.testing.assert_array_equal(again.predict(frame), model.predict(frame))
    assert again.privacy_ == model.privacy_


@pytest.mark.parametrize("kind", [k for k in KINDS if k is not DPCount])
def test_nothing_exact_stays_on_the_model(kind):
    """The exact sums and quantiles are nowhere in the fitted object."""
    values = X[:, :1]
    model = kind(epsilon=0.5, bounds=(0, 1)).fit(values)
    exact = [
        values.sum(),
        values.mean(),
        values.var(),
        values.std(),
        np.sum(values > 0),
    ]
    exact += list(np.quantile(values, [0.5])) + [np.sum(values**2)]
    numbers = []
    for item in vars(model).values():
        if isinstance(item, (np.ndarray, tuple, float, int)):
            numbers += list(np.ravel(np.asarray(item, dtype=object)))
    numbers = [n for n in numbers if isinstance(n, (float, int, np.number))]
    close = [n for n in numbers for e in exact if abs(n - e) < 1e-12 * abs(e)]
    assert not close


def test_the_parallel_example_of_a_course():
    """Mean and variance on one part, the median on another: max(e1 + e2, e3)."""
    accountant = BudgetAccountant(1.0, 0.0)
    here, there = accountant.parallel(2)
    DPMean(0.3, bounds=(0, 1), accountant=here).fit(X[:150])
    DPVariance(0.2, bounds=(0, 1), accountant=here).fit(X[:150])
    assert accountant.total().epsilon == pytest.approx(0.5)
    DPMedian(0.4, bounds=(0, 1), accountant=there).fit(X[150:])
    assert accountant.total().epsilon == pytest.approx(max(0.3 + 0.2, 0.4))
    DPMedian(0.3, bounds=(0, 1), accountant=there).fit(X[150:])
    assert accountant.total().epsilon == pytest.approx(max(0.3 + 0.2, 0.7))
