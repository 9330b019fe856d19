"""Bounds found privately: good, paid for, and refused where rows are too few."""

import math

import numpy as np
import pytest

from skdp import BudgetAccountant
from skdp.stats import DPMean, DPStandardDeviation, DPVariance

RELATIONS = ("replace", "add_remove")
WIDE = (-1e6, 1e6)


def normal(n, seed=0):
    rng = np.random.default_rng(seed)
    return np.column_stack([rng.normal(100, 3, n), rng.normal(-5000, 200, n)])


@pytest.mark.parametrize("relation", RELATIONS)
@pytest.mark.parametrize("missing", ["error", "drop"])
def test_bounds_are_found(relation, missing):
    X = normal(20_000)
    if missing == "drop":
        X[::10, 0] = np.nan
    model = DPMean(
        2.0, bounds=None, outer_bounds=WIDE, neighboring=relation, missing=missing
    ).fit(X)
    # Quartiles are off by few ranks: the width is near 9 * 1.35 standard deviations.
    width = model.bounds_[1] - model.bounds_[0]
    np.testing.assert_allclose(width, [36.4, 2428], rtol=0.2)
    assert (np.abs(model.mean_ - [100, -5000]) < [0.3, 20]).all()
    # Far less noise than the wide bounds would make.
    assert (model.standard_error_ < [0.01, 1.0]).all()


def test_variances():
    X = normal(20_000)
    options = {"bounds": None, "outer_bounds": WIDE}
    found = DPStandardDeviation(2.0, **options).fit(X).std_
    np.testing.assert_allclose(found, [3, 200], rtol=0.1)
    found = DPVariance(2.0, **options).fit(X).var_
    np.testing.assert_allclose(found, [9, 40_000], rtol=0.2)


@pytest.mark.parametrize("relation", RELATIONS)
def test_the_price_is_the_whole_epsilon(relation):
    X = normal(20_000)
    accountant = BudgetAccountant(1.5, 0.0, neighboring=relation)
    model = DPMean(
        1.5,
        bounds=None,
        outer_bounds=WIDE,
        neighboring=relation,
        accountant=accountant,
    ).fit(X)
    assert accountant.total().epsilon == pytest.approx(1.5, rel=1e-12)
    event = model.privacy_.event
    assert event == model.privacy_cost(20_000, 2)
    # Two quartiles of each feature, counts where n is private, and the mean.
    assert len(event.events) == (5 if relation == "replace" else 7)
    shares = [part.epsilon(0) for part in event.events]
    assert shares[:4] == pytest.approx([0.3 * 1.5 / 4] * 4)
    assert sum(shares) == pytest.approx(1.5, rel=1e-12)


def test_too_few_rows_are_refused_before_payment():
    accountant = BudgetAccountant(1.0, 0.0)
    model = DPMean(1.0, bounds=None, outer_bounds=WIDE, accountant=accountant)
    needed = math.ceil(8 * math.log(2**24) / 0.3)
    with pytest.raises(ValueError, match=f"about {needed:,} rows") as caught:
        model.fit(normal(needed - 1)[:, :1])
    assert "epsilon" in str(caught.value) and accountant.spends == []
    model.fit(normal(needed + 1)[:, :1])
    with pytest.raises(ValueError, match="cannot be found"):
        model.privacy_cost(100)


def test_a_noisy_number_is_refused_after_payment():
    """n is private: the answer itself costs something."""
    accountant = BudgetAccountant(1.0, 0.0, neighboring="add_remove")
    options = {"bounds": None, "outer_bounds": WIDE, "neighboring": "add_remove"}
    model = DPMean(1.0, accountant=accountant, **options)
    with pytest.raises(ValueError, match="cannot be found privately"):
        model.fit(normal(10)[:, :1])
    assert len(accountant.spends) == 1 and not hasattr(model, "mean_")
    # A public hint is looked at first.
    free = BudgetAccountant(1.0, 0.0, neighboring="add_remove")
    with pytest.raises(ValueError, match="cannot be found privately"):
        DPMean(1.0, accountant=free, n_samples_hint=10, **options).fit(normal(10))
    assert free.spends == []
    hinted = DPMean(1.0, n_samples_hint=5000, **options)
    assert len(hinted.privacy_cost(1).events) == 3


def test_equal_values_have_a_width():
    X = np.full((5000, 1), 17.25)
    model = DPMean(1.0, bounds=None, outer_bounds=(-1000, 1000)).fit(X)
    assert model.bounds_[0, 0] < model.bounds_[1, 0]
    assert model.mean_[0] == pytest.approx(17.25, abs=0.01)


def test_values_at_an_outer_bound():
    X = np.zeros((5000, 1))
    model = DPMean(1.0, bounds=None, outer_bounds=(0, 1000)).fit(X)
    assert 0 <= model.bounds_[0, 0] < model.bounds_[1, 0]
    assert model.mean_[0] == pytest.approx(0, abs=0.01)
