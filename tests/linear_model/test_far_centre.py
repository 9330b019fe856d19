"""Features far from 0: sparse rows give the same model, and no error after payment."""

from dataclasses import replace

import numpy as np
import pytest
from scipy import sparse
from sklearn.datasets import make_classification

from skdp import BudgetAccountant
from skdp.erm.perturbation import Bounds
from skdp.linear_model import DPLinearSVC, DPLogisticRegression

RELATIONS = [
    {"neighboring": "replace"},
    {"neighboring": "add_remove"},
    {"neighboring": "add_remove", "n_samples_hint": 50_000},
]


@pytest.fixture(scope="module")
def data():
    return make_classification(20_000, 10, class_sep=2.0, flip_y=0, random_state=0)


def fit_and_score(data, shift, container, **options):
    """Fit on shifted features, with one payment; return the accuracy."""
    X, y = container(data[0] + shift), data[1]
    budget = BudgetAccountant(10.0, 1e-3, neighboring=options["neighboring"])
    model = DPLogisticRegression(
        classes=[0, 1], scale="private", data_norm=shift, accountant=budget, **options
    )
    model.fit(X, y)
    assert len(budget.spends) == 1 and np.isfinite(model.coef_).all()
    return model.score(X, y)


@pytest.mark.parametrize("method", ["objective", "output", "gradient"])
@pytest.mark.parametrize("relation", RELATIONS, ids=str)
@pytest.mark.parametrize("row_norm", ["clip", "normalize"])
@pytest.mark.parametrize("shift", [3.0, 30.0])
def test_sparse_rows_are_as_accurate_as_dense_ones(
    data, shift, row_norm, relation, method
):
    # Twelve fits of each combination: means of .975 to .978, deviations up to .003.
    for container in (np.asarray, sparse.csr_array):
        options = {"row_norm": row_norm, "method": method, **relation}
        assert fit_and_score(data, shift, container, **options) > 0.94


@pytest.mark.parametrize("method", ["objective", "output", "gradient"])
@pytest.mark.parametrize("relation", RELATIONS, ids=str)
@pytest.mark.parametrize("row_norm", ["clip", "normalize"])
@pytest.mark.parametrize("shift", [1e6, 1e12])
def test_the_farthest_centre_is_no_error_after_payment(
    data, shift, row_norm, relation, method
):
    options = {"row_norm": row_norm, "method": method, **relation}
    fit_and_score(data, shift, sparse.csr_array, **options)


def test_a_centre_that_cannot_be_certified_is_no_error_after_payment(data):
    """Tiny variances and a huge bound of the rows: magnitudes ten times too large."""
    X = sparse.csr_array(5 + 0.005 * data[0])
    budget = BudgetAccountant(20.0, 1e-3, neighboring="add_remove")
    model = DPLogisticRegression(
        10.0,
        classes=[0, 1],
        row_norm="normalize",
        neighboring="add_remove",
        n_samples_hint=30_000_000,
        accountant=budget,
    ).fit(X, data[1])
    assert len(budget.spends) == 1 and np.isfinite(model.coef_).all()


@pytest.mark.parametrize("margin", [None, 0.0, 99.0])
@pytest.mark.parametrize("method", ["objective", "output"])
@pytest.mark.parametrize("hint", [100, 3_000_000])
def test_what_is_planned_is_certified_for_every_margin(data, method, hint, margin):
    """The limit of the release is at least what the check before payment assumed."""
    X, y = data[0][:100], data[1][:100]
    options = {"neighboring": "add_remove", "method": method, "n_samples_hint": hint}
    model = DPLogisticRegression(
        classes=[0, 1], scale="private", margin=margin, **options
    )
    plan = model._plan_for(model._validate(X, y))
    bounds = Bounds(plan.norm, plan.width, plan.n_rows)
    for chosen in (0.0, 1.5) if margin is None else (margin,):
        loss = replace(plan.loss, margin=chosen)
        certified = replace(plan.planned.method, loss=loss)
        limit = certified.largest_magnitude(bounds)
        assert limit >= 1.01 * plan.norm
        assert 2 * certified.error(bounds, limit) < plan.ridge


@pytest.mark.parametrize("kind", [DPLogisticRegression, DPLinearSVC])
def test_what_cannot_be_certified_costs_nothing(data, kind):
    budget = BudgetAccountant(10.0, 1e-3)
    options = {"method": "output", "C": 1e9, "accountant": budget}
    with pytest.raises(ValueError, match=r"cannot certify .* 20,000 rows of 11"):
        kind(classes=[0, 1], **options).fit(*data)
    assert budget.spends == []
