"""Sizes, invalid arguments and memory of the samplers."""

import math
import tracemalloc

import numpy as np
import pytest

from skdp.noise import (
    bernoulli_exp,
    bernoulli_odds,
    discrete_cauchy,
    discrete_gaussian,
    discrete_laplace,
    gamma_norm,
    uniform_integers,
)

SAMPLERS = {
    "laplace": lambda size: discrete_laplace(5.0, size, 0),
    "gaussian": lambda size: discrete_gaussian(5.0, size, 0),
    "cauchy": lambda size: discrete_cauchy(5, 4, size, 0),
    "uniform": lambda size: uniform_integers(5, size, 0),
    "odds": lambda size: bernoulli_odds(5, 1.0, size, 0),
}


@pytest.mark.parametrize("name", SAMPLERS)
def test_sizes(name):
    sampler = SAMPLERS[name]
    assert type(sampler(None)) is int
    for size, shape in (
        (3, (3,)),
        (np.int64(3), (3,)),
        ((2, 3), (2, 3)),
        ([2, 3], (2, 3)),
        ((), ()),
        (0, (0,)),
        ((2, 0), (2, 0)),
        (2**15 + 1, (2**15 + 1,)),
    ):
        drawn = sampler(size)
        assert drawn.shape == shape and drawn.dtype == np.int64


@pytest.mark.parametrize("name", SAMPLERS)
@pytest.mark.parametrize("size", [-1, (2, -1), (-1, -2), 2.5, "3", (2, 1.5)])
def test_invalid_size(name, size):
    with pytest.raises((TypeError, ValueError)):
        SAMPLERS[name](size)


def test_sizes_of_gamma_norm():
    assert gamma_norm(5.0, 3, None, 0).shape == (3,)
    assert gamma_norm(5.0, 3, 0, 0).shape == (0, 3)
    assert gamma_norm(5.0, 3, 4, 0).shape == (4, 3)
    assert gamma_norm(5.0, 1, 4, 0).dtype == np.int64


def test_shapes_of_bernoulli_exp():
    assert type(bernoulli_exp(1.0)) is bool
    assert type(bernoulli_exp(3, 2)) is bool
    assert bernoulli_exp(np.ones((2, 3))).shape == (2, 3)
    assert bernoulli_exp([]).shape == (0,)


WITH_SCALE = [
    (discrete_laplace, "scale"),
    (discrete_gaussian, "sigma"),
    (lambda scale: gamma_norm(scale, 2), "scale"),
    (discrete_cauchy, "scale"),
]


@pytest.mark.parametrize(
    "scale", [0, -1, -0.5, math.nan, math.inf, -math.inf, 2.0**53 + 2, 2**54, 1e300]
)
@pytest.mark.parametrize(("sampler", "name"), WITH_SCALE[:3])
def test_invalid_scale(sampler, name, scale):
    with pytest.raises(ValueError, match=f"'{name}'"):
        sampler(scale)


@pytest.mark.parametrize("scale", [0, -1, 2**53 + 1])
def test_invalid_cauchy_scale(scale):
    with pytest.raises(ValueError, match="'scale'"):
        discrete_cauchy(scale)


@pytest.mark.parametrize("scale", ["3", "x", None, True, 1j, [1.0, 2.0]])
@pytest.mark.parametrize(("sampler", "name"), WITH_SCALE)
def test_scale_that_is_no_number(sampler, name, scale):
    with pytest.raises((TypeError, ValueError), match=f"'{name}'"):
        sampler(scale)


@pytest.mark.parametrize("exponent", [1, 17, 0, -4, 2.5, "4", None])
def test_invalid_exponent(exponent):
    with pytest.raises((TypeError, ValueError), match="'exponent'"):
        discrete_cauchy(5, exponent)


@pytest.mark.parametrize("bound", [0, -1, 2**63 + 1, 2.0, "2", None, True])
def test_invalid_bound(bound):
    with pytest.raises((TypeError, ValueError), match="'bound'"):
        uniform_integers(bound)


@pytest.mark.parametrize("gamma", [-1, -1e-300, math.nan, math.inf, [1, -1], "a", 1j])
def test_invalid_gamma(gamma):
    with pytest.raises((TypeError, ValueError), match="'gamma'"):
        bernoulli_exp(gamma)
    with pytest.raises((TypeError, ValueError), match="'gamma'"):
        bernoulli_odds(1, gamma)


@pytest.mark.parametrize("divisor", [0, -1, 1.5, "2", None])
def test_invalid_divisor(divisor):
    with pytest.raises((TypeError, ValueError), match="'divisor'"):
        bernoulli_exp(1.0, divisor)


@pytest.mark.parametrize("weight", [0, -1, 1.5, "2", None])
def test_invalid_weight(weight):
    with pytest.raises((TypeError, ValueError), match="'weight'"):
        bernoulli_odds(weight, 1.0)


@pytest.mark.parametrize("n_features", [0, -1, 1.5, "2", None])
def test_invalid_n_features(n_features):
    with pytest.raises((TypeError, ValueError), match="'n_features'"):
        gamma_norm(5.0, n_features)


@pytest.mark.parametrize(
    "draw",
    [
        lambda n: discrete_laplace(2**42, n),
        lambda n: discrete_gaussian(2**42, n),
        lambda n: discrete_cauchy(2**42, 4, n),
        lambda n: gamma_norm(2.0**30, 1, n),
    ],
    ids=["laplace", "gaussian", "cauchy", "gamma_norm"],
)
def test_memory_is_within_ten_arrays(draw):
    tracemalloc.start()
    try:
        drawn = draw(10**6)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < 10 * drawn.nbytes
