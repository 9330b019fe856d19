"""Sensitivities against every pair of neighbours in a small domain."""

import itertools
import math

import numpy as np
import pytest

from skdp.mechanisms import sensitivity

DOMAIN = (-1.0, 0.5, 3.0)
BOUNDS = (-1.0, 3.0)
N = 3


def neighbours(neighboring):
    """Pairs of neighbouring data sets over the domain."""
    for rows in itertools.product(DOMAIN, repeat=N):
        if neighboring == "add_remove":
            yield rows, rows[1:]
        else:
            for value in DOMAIN:
                yield rows, (value, *rows[1:])


def largest(statistic, neighboring, norm=1):
    return max(
        np.linalg.norm(np.atleast_1d(statistic(a) - statistic(b)), ord=norm)
        for a, b in neighbours(neighboring)
    )


def histogram(rows):
    return np.array([rows.count(value) for value in DOMAIN], dtype=float)


@pytest.mark.parametrize("neighboring", ["replace", "add_remove"])
def test_count(neighboring):
    found = largest(lambda rows: sum(row > 0 for row in rows), neighboring)
    assert sensitivity.count(neighboring) == found == 1


@pytest.mark.parametrize(
    ("neighboring", "norm", "value"),
    [
        ("replace", 1, 2.0),
        ("replace", 2, math.sqrt(2)),
        ("add_remove", 1, 1.0),
        ("add_remove", 2, 1.0),
    ],
)
def test_histogram(neighboring, norm, value):
    assert sensitivity.histogram(neighboring, norm) == value
    assert largest(histogram, neighboring, norm) == pytest.approx(value)


@pytest.mark.parametrize("neighboring", ["replace", "add_remove"])
def test_total(neighboring):
    assert sensitivity.total(BOUNDS, neighboring) == largest(sum, neighboring)


def test_total_of_one_sign():
    assert sensitivity.total((2.0, 5.0)) == 3.0
    assert sensitivity.total((2.0, 5.0), "add_remove") == 5.0
    assert sensitivity.total((-7.0, -5.0), "add_remove") == 7.0


def test_mean():
    found = largest(lambda rows: sum(rows) / len(rows), "replace")
    assert sensitivity.mean(BOUNDS, N) == pytest.approx(found)


def test_mean_is_refused_where_n_is_private():
    with pytest.raises(ValueError, match="'neighboring' parameter of a mean"):
        sensitivity.mean(BOUNDS, N, "add_remove")


@pytest.mark.parametrize(
    ("call", "name"),
    [
        (lambda: sensitivity.count("both"), "neighboring"),
        (lambda: sensitivity.histogram("swap"), "neighboring"),
        (lambda: sensitivity.histogram("replace", 3), "norm"),
        (lambda: sensitivity.histogram("replace", 1.5), "norm"),
        (lambda: sensitivity.total((1.0, 0.0)), "bounds"),
        (lambda: sensitivity.total((0.0, math.inf)), "bounds"),
        (lambda: sensitivity.total(3.0), "bounds"),
        (lambda: sensitivity.mean(BOUNDS, 0), "n_samples"),
        (lambda: sensitivity.mean(BOUNDS, True), "n_samples"),
        (lambda: sensitivity.mean(BOUNDS, 2.5), "n_samples"),
    ],
)
def test_bad_input_is_named(call, name):
    with pytest.raises((ValueError, TypeError), match=f"'{name}"):
        call()
