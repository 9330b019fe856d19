"""The grid: exact sums, rounding that is paid for, and refusals."""

import math
from fractions import Fraction

import numpy as np
import pytest

from skdp.mechanisms._grid import Grid, plan
from skdp.noise import MAX_SCALE

LARGEST = float(np.finfo(np.float64).max)


def exact_sum(grid, value, noise):
    """The value rounded to the grid, plus noise, in rational numbers."""
    step = Fraction(2) ** grid.exponent
    total = (round(Fraction(value) / step) + noise) * step
    try:
        return float(total)
    except OverflowError:
        return LARGEST if total > 0 else -LARGEST


# --- Sums


@pytest.mark.parametrize("exponent", [-1074, -1000, -60, -42, 0, 30, 900])
def test_add_is_exact_for_any_size_of_value(exponent):
    rng = np.random.default_rng(exponent + 2000)
    grid = Grid(exponent, 2**42)
    size = 400
    magnitude = np.clip(rng.integers(exponent - 5, exponent + 90, size), -1074, 1023)
    values = np.ldexp(rng.uniform(-1, 1, size), magnitude)
    noise = rng.integers(-(2**57), 2**57, size)
    out = grid.add(values, noise)
    exact = [
        exact_sum(grid, *pair) for pair in zip(values, noise.tolist(), strict=True)
    ]
    assert out.tolist() == exact


def test_add_rounds_ties_to_even_on_both_paths():
    grid = Grid(0, 1)
    halves = np.array([-2.5, -1.5, -0.5, 0.5, 1.5, 2.5])
    assert grid.add(halves, np.zeros(6, dtype=np.int64)).tolist() == [
        -2,
        -2,
        0,
        0,
        2,
        2,
    ]
    assert [grid._add_large(half, 0) for half in halves] == [-2, -2, 0, 0, 2, 2]


@pytest.mark.parametrize("value", [1e308, LARGEST, -LARGEST, 5e-324])
def test_add_never_overflows(value):
    for exponent in (-1074, 0, 960):
        out = Grid(exponent, 1).add(np.array([value]), np.array([2**62 - 1]))
        assert np.isfinite(out).all()


def test_add_keeps_the_shape_and_the_input():
    grid = Grid(-3, 8)
    values = np.arange(6.0).reshape(2, 3)
    before = values.copy()
    assert grid.add(values, np.ones((2, 3), dtype=np.int64)).shape == (2, 3)
    assert np.array_equal(values, before)
    assert type(grid.add(np.array(1.0), 3)) is float
    assert grid.step == 0.125


# --- Plans


@pytest.mark.parametrize("rounding", [1, 3, 10**4])
@pytest.mark.parametrize("sensitivity", [1e-280, 0.3, 1.0, 1e280])
@pytest.mark.parametrize("rate", [1e-6, 0.05, 1.0, 17.0, 1e5])
def test_plan_pays_for_rounding(rate, sensitivity, rounding):
    grid = plan(rate, sensitivity, rounding)
    step = Fraction(2) ** grid.exponent
    worst = math.ceil(Fraction(sensitivity) / step) + rounding
    assert Fraction(worst) <= Fraction(rate) * grid.scale
    assert 2**42 <= grid.scale <= MAX_SCALE
    # What it costs: less than a thousandth, and next to nothing for a usual rate.
    excess = float(grid.scale * step * Fraction(rate) / Fraction(sensitivity)) - 1
    assert 0 <= excess <= (2.0**-25 if rate >= 0.05 else 1e-3)


def test_rounding_moves_neighbours_by_what_plan_pays_for():
    rng = np.random.default_rng(0)
    for sensitivity in (1.0, 0.7, 3.3):
        grid = plan(1.0, sensitivity, 1, fine=3, finest=4)
        values = rng.uniform(-50, 50, 20_000)
        values[:5000] = (rng.integers(-400, 400, 5000) + 0.5) * grid.step  # ties
        moved = values + sensitivity * rng.choice([-1, 1], values.size)
        distance = np.abs(np.rint(moved / grid.step) - np.rint(values / grid.step))
        assert distance.max() <= math.ceil(sensitivity / grid.step) + 1


def test_rounding_of_a_vector_moves_neighbours_by_what_plan_pays_for():
    rng = np.random.default_rng(1)
    d, sensitivity, step = 16, 1.0, 2.0**-3
    values = (rng.integers(-100, 100, (5000, d)) + 0.5) * step
    move = rng.normal(size=(5000, d))
    move[:2000] = np.abs(move[:2000]) < 1  # equal moves of some coordinates
    for norm, rounding in ((1, d), (2, math.isqrt(d - 1) + 1)):
        length = np.linalg.norm(move, ord=norm, axis=1, keepdims=True)
        moved = values + sensitivity * move / np.maximum(length, 1e-9)
        steps = np.rint(moved / step) - np.rint(values / step)
        largest = np.linalg.norm(steps, ord=norm, axis=1).max()
        assert largest <= sensitivity / step + rounding


@pytest.mark.parametrize(
    ("rate", "sensitivity", "rounding", "name"),
    [
        (1.0, 5e-324, 1, "sensitivity"),
        (1e-300, 1e200, 1, "sensitivity"),
        (1e10, 1e-310, 1, "sensitivity"),
        (1e-16, 1.0, 1, "epsilon"),
        (1e-300, 1.0, 1, "epsilon"),
        (1e-9, 1.0, 10**8, "epsilon"),
    ],
)
def test_plan_refuses_what_does_not_fit(rate, sensitivity, rounding, name):
    with pytest.raises(ValueError, match=f"'{name}' parameter"):
        plan(rate, sensitivity, rounding)
