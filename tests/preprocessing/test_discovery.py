"""Thresholded counts: the proof, checked in exact probabilities."""

import itertools
import math

import numpy as np
import pytest

from skdp.preprocessing._discovery import plan_discovery, tail

RELATIONS = ("replace", "add_remove")


def published(plan, count):
    """Probability that a value with this count is published; 0 if it does not occur."""
    least = plan.threshold - count
    if count == 0:
        return 0.0
    return tail(plan.scale, least) if least >= 1 else 1 - tail(plan.scale, 1 - least)


def test_tail():
    scale = 1.7
    k = np.arange(-400, 401)
    weights = np.exp(-np.abs(k) / scale)
    weights /= weights.sum()
    for least in (1, 2, 5):
        assert tail(scale, least) == pytest.approx(weights[k >= least].sum())


@pytest.mark.parametrize("neighboring", RELATIONS)
@pytest.mark.parametrize("epsilon", [0.01, 0.3, 1.0, 5.0, 100.0])
@pytest.mark.parametrize("delta", [1e-12, 1e-6, 1e-2, 0.5])
def test_threshold_is_the_smallest(epsilon, delta, neighboring):
    plan = plan_discovery(epsilon, delta, neighboring)
    limit = delta / (2 if neighboring == "replace" else 1)
    assert published(plan, 1) <= limit
    if plan.threshold > 2:
        assert tail(plan.scale, plan.threshold - 2) > limit * (1 - 1e-6)


def divergence(first, second, epsilon):
    """The largest P(S) - exp(epsilon) Q(S), of independent publications."""
    total = 0.0
    for outcome in itertools.product((True, False), repeat=len(first)):
        p, q = (
            math.prod(
                x if seen else 1 - x for x, seen in zip(side, outcome, strict=True)
            )
            for side in (first, second)
        )
        total += max(0.0, p - math.exp(epsilon) * q)
    return total


@pytest.mark.parametrize("epsilon", [0.5, 1.0, 3.0])
@pytest.mark.parametrize("delta", [1e-4, 0.05])
def test_a_row_more_or_less(epsilon, delta):
    plan = plan_discovery(epsilon, delta, "add_remove")
    for count in range(40):
        sides = [[published(plan, count)], [published(plan, count + 1)]]
        for first, second in (sides, sides[::-1]):
            assert divergence(first, second, epsilon) <= delta * (1 + 1e-9)


@pytest.mark.parametrize("epsilon", [0.5, 1.0, 3.0])
@pytest.mark.parametrize("delta", [1e-4, 0.05])
def test_a_row_replaced(epsilon, delta):
    plan = plan_discovery(epsilon, delta, "replace")
    for a, b in itertools.product(range(1, 40), range(39)):
        first = [published(plan, a), published(plan, b)]
        second = [published(plan, a - 1), published(plan, b + 1)]
        assert divergence(first, second, epsilon) <= delta * (1 + 1e-9)


def test_a_lower_threshold_would_fail():
    plan = plan_discovery(1.0, 1e-3, "add_remove")
    low = plan.threshold - 2
    assert divergence([tail(plan.scale, low - 1)], [0.0], 1.0) > 1e-3
