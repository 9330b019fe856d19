"""Recipes: they adapt in the right direction, and stay within their limits."""

import numpy as np
import pytest

from skdp.erm import Logistic
from skdp.erm.plans import Budget
from skdp.linear_model import DPLogisticRegression, _recipes

LEVELS = np.logspace(-8, 3, 200)


@pytest.mark.parametrize(
    ("recipe", "sign", "low", "high"),
    [
        (_recipes.clipping_reach, -1, 0.7, 1.25),
        (_recipes.scaling_power, -1, 0.25, 0.4),
        (_recipes.chosen_margin, 1, 0.0, _recipes.LARGEST_MARGIN),
    ],
)
def test_recipes_are_monotone_in_the_noise(recipe, sign, low, high):
    values = np.array([recipe(level) for level in LEVELS])
    assert np.all(sign * np.diff(values) >= 0)
    np.testing.assert_allclose([values.min(), values.max()], [low, high])


def test_columns_with_less_signal_get_more_regularisation():
    variances = np.array([0.5, 0.01, 1e-6, 0.0, 0.2])
    found = _recipes.column_ridge(2.0, 0.25, 30.0, 1000.0, variances, True)
    assert np.all(found >= 2.0) and np.all(found <= 2e6)
    assert np.all(np.diff(found[:4]) >= 0) and found[0] < found[1] < found[2]
    without = _recipes.column_ridge(2.0, 0.25, 30.0, 1000.0, variances, False)
    np.testing.assert_array_equal(found[:4], without[:4])
    assert found[4] < without[4]


@pytest.mark.parametrize("delta", [0.0, 1e-6])
def test_more_budget_needs_less_regularisation(delta):
    small, large = (Budget(epsilon, delta, "replace") for epsilon in (0.1, 1.0))
    loss = Logistic()
    for count in (None, 500.0):
        tight = _recipes.output_ridge(loss, 1.0, small, 5, 1, count)
        assert _recipes.output_ridge(loss, 1.0, large, 5, 1, count) < tight
    tight = _recipes.plain_ridge(loss, 1.0, small, 5)
    assert _recipes.plain_ridge(loss, 1.0, large, 5) < tight


@pytest.mark.parametrize("method", ["objective", "output", "gradient"])
@pytest.mark.parametrize("scale", [None, "private"])
def test_a_hint_is_ignored_under_replace(method, scale):
    plans = [
        DPLogisticRegression(method=method, scale=scale, n_samples_hint=hint)._plan(
            500, 3
        )
        for hint in (None, 1_000_000)
    ]
    assert plans[0] == plans[1]
