"""Decisions near a threshold are settled exactly, and float64 decides the others.

Nothing here is random: words come from fixed seeds or from a script.
"""

import math
from fractions import Fraction

import mpmath
import numpy as np
import pytest

from skdp import noise
from skdp.noise import (
    RandomBits,
    bernoulli_exp,
    bernoulli_odds,
    discrete_cauchy,
    discrete_gaussian,
    discrete_laplace,
    gamma_norm,
)

PATHS = {
    **{
        f"laplace {scale:g}": lambda seed, s=scale: discrete_laplace(s, 400, seed)
        for scale in (0.05, 0.3, 3.7, 50, 2.0**42, 2.0**53)
    },
    **{
        f"gaussian {scale:g}": lambda seed, s=scale: discrete_gaussian(s, 400, seed)
        for scale in (0.05, 0.3, 3.7, 50, 2.0**42, 2.0**53)
    },
    **{
        f"cauchy {scale} {g}": lambda seed, s=scale, g=g: discrete_cauchy(
            s, g, 400, seed
        )
        for scale in (1, 20, 2**42, 2**53)
        for g in (2, 4, 16)
    },
    "bernoulli_exp": lambda seed: bernoulli_exp(np.linspace(0, 50, 400), 1, seed),
    "bernoulli_exp int": lambda seed: bernoulli_exp(np.arange(400), 97, seed),
    "bernoulli_odds": lambda seed: bernoulli_odds(9, 2.5, 400, seed),
    "gamma_norm": lambda seed: gamma_norm(2.0**30, 3, 100, seed),
}


@pytest.mark.parametrize("path", PATHS)
def test_exact_path_agrees_with_float64(path, monkeypatch):
    # Each decision by rational arithmetic; the words are the same, so is the noise. The
    # exact path reads a further word with probability below 2**-60.
    fast = [PATHS[path](seed) for seed in (0, 1)]
    settled = 0

    class Counting(noise.LazyUniform):
        def __init__(self, *args):
            nonlocal settled
            settled += 1
            super().__init__(*args)

    monkeypatch.setattr(noise, "LazyUniform", Counting)
    monkeypatch.setattr(noise, "_WINDOW", 2.0)
    for seed in (0, 1):
        np.testing.assert_array_equal(PATHS[path](seed), fast[seed])
    assert settled >= 2 * np.size(fast[0])


@pytest.mark.parametrize("sigma", [0.05, 0.3, 1, 3.7, 50, 2.0**42])
def test_gaussian_acceptance_is_exact(sigma, monkeypatch):
    # Proposal exp(-|y|/t) times acceptance exp(-gamma) must be the target
    # exp(-y^2/(2 sigma^2)) times one constant, as rational numbers.
    proposed, constants, errors = [], [], []

    class Proposal(noise._LaplaceSampler):
        def laplace(self, count, bits):
            values = super().laplace(count, bits)
            proposed.append((values.tolist(), self.scale))
            return values

    def accept(gamma, exact, bits):
        if proposed:  # otherwise it is a decision of the proposal itself
            values, scale = proposed.pop()
            for i, y in enumerate(values):
                target = Fraction(y) ** 2 / (2 * Fraction(sigma) ** 2)
                constants.append(exact(i) + abs(y) / scale - target)
                errors.append(math.exp(-gamma[i]) - math.exp(-exact(i)))
        return accept_exp(gamma, exact, bits)

    accept_exp = noise._accept_exp
    monkeypatch.setattr(noise, "_LaplaceSampler", Proposal)
    monkeypatch.setattr(noise, "_accept_exp", accept)
    discrete_gaussian(sigma, 100, 0)
    assert len(constants) >= 100 and len(set(constants)) == 1
    assert max(map(abs, errors)) < noise._WINDOW / 2**6


@pytest.mark.parametrize("scale", [2**30 + 1, 2**42])
@pytest.mark.parametrize("exponent", [2, 3, 4, 16])
def test_cauchy_acceptance_is_exact(scale, exponent, monkeypatch):
    # With k in [2^j scale, 2^(j+1) scale) the proposal is 2^(-exponent j) on all of
    # the ring; the acceptance must be the target divided by it.
    ratios = []

    def below(uniform, ratio):
        answer = is_below_ratio(uniform, ratio)
        ratios.extend([ratio] if answer else [])
        return answer

    is_below_ratio = noise.is_below_ratio
    monkeypatch.setattr(noise, "is_below_ratio", below)
    monkeypatch.setattr(noise, "_WINDOW", 2.0)
    values = np.abs(discrete_cauchy(scale, exponent, 300, 0)).tolist()
    for value, ratio in zip(values, ratios, strict=False):
        ring = max((value // scale).bit_length() - 1, 0)
        target = 1 / (1 + Fraction(value, scale) ** exponent)
        assert ratio == target * 2 ** (exponent * ring) <= 1


class ScriptedBits(RandomBits):
    """Words read from a list."""

    def __init__(self, words):
        super().__init__(0)
        self.left = list(words)

    def words(self, count):
        taken, self.left = self.left[:count], self.left[count:]
        assert len(taken) == count
        return np.array(taken, dtype=np.uint64)


@pytest.mark.parametrize("gamma", [0.7, 1.0, 1e-7, 20.5])
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_words_next_to_the_threshold(gamma, dtype):
    # Far below the resolution of float64, and on both sides of its window.
    gamma = dtype(gamma)
    with mpmath.workprec(300):
        threshold = int(
            mpmath.floor(mpmath.ldexp(mpmath.exp(-mpmath.mpf(float(gamma))), 64))
        )
    offsets = [sign * 2**j for sign in (-1, 1) for j in range(45)]
    words = [min(max(threshold + offset, 0), 2**64 - 1) for offset in offsets]
    accepted = bernoulli_exp(np.full(len(words), gamma), 1, ScriptedBits(words))
    expected = [word < threshold for word in words]
    np.testing.assert_array_equal(accepted, expected)


@pytest.mark.parametrize("k", [0, 1, 5, 64, 1000, 2838])
def test_geometric_next_to_a_threshold(k):
    with mpmath.workprec(300):
        power = mpmath.exp(-mpmath.mpf(k) / noise._PIECES)
        threshold = int(mpmath.floor(mpmath.ldexp(power, 64)))
    words = [threshold - 2**j for j in range(40) if 2**j <= threshold // 100]
    below = noise._geometric(len(words), ScriptedBits(words))
    np.testing.assert_array_equal(below, k)  # U is just below exp(-k/64)
    words = [threshold + 2**j for j in range(40) if 2**j <= threshold // 100]
    if k > 0:
        above = noise._geometric(len(words), ScriptedBits(words))
        np.testing.assert_array_equal(above, k - 1)


def test_geometric_of_a_zero_word_reads_on():
    # U = 2**-65 or so: exp(-k/64) > U for k <= 64 * 65 * ln 2 = 2883.5.
    assert noise._geometric(1, ScriptedBits([0, 2**63 + 1]))[0] == 2883
