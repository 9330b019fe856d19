"""The categorical sampler is exact: its weights are dyadic numbers, and so is its law.

The decisions are checked at their borders, with scripted words; nothing there is
random. The chi-square tests fail below 1e-9 at fixed seeds: four p-values, together a
false-alarm rate below 1e-8 for any seeds.
"""

from fractions import Fraction

import numpy as np
import pytest
from scipy import stats

from skdp import noise
from skdp.noise import RandomBits, categorical

ALARM = 1e-9
N = 20_000


class Scripted(RandomBits):
    """Words from a list, then zeros."""

    def __init__(self, words=()):
        super().__init__(0)
        self.left = list(words)

    def words(self, count):
        taken, self.left = self.left[:count], self.left[count:]
        return np.array(taken + [0] * (count - len(taken)), dtype=np.uint64)


def p_value(weights, seed):
    bits = RandomBits(seed)
    seen = np.bincount(
        [categorical(weights, bits) for _ in range(N)], minlength=len(weights)
    )
    expected = N * np.array(weights) / np.sum(weights)
    rare = expected < 10
    assert expected[rare].sum() < 1e-4 and seen[rare].sum() <= 1  # P(2) < 1e-8
    common = expected[~rare] * (seen[~rare].sum() / expected[~rare].sum())
    return stats.chisquare(seen[~rare], common).pvalue


@pytest.mark.parametrize(
    "weights",
    [
        [1.0, 1.0, 1.0],
        [1.0, 2.0, 3.0, 0.7, 0.1, 5e-3],
        [2.0**-60, 1.0, 0.0, 0.3, 2.0**-59, 1.75, 1e-9],
        [1e300, 3e300, 2.5e300, 1e-300],
    ],
)
def test_frequencies(weights):
    assert p_value(weights, 3) > ALARM


def test_a_wrong_weight_would_be_seen(monkeypatch):
    # Acceptance of every proposal: all weights of a class would count the same.
    monkeypatch.setattr(
        np, "ldexp", lambda x, e, ldexp=np.ldexp: ldexp(np.full_like(x, 0.5), e)
    )
    assert p_value([1.0, 1.9], 3) < ALARM


def test_class_totals_are_exact():
    generator = np.random.default_rng(0)
    mantissa = generator.integers(2**52, 2**53, size=5000)
    mantissa[:100] = 2**53 - 1
    group = generator.integers(0, 7, size=5000)
    expected = [
        sum(int(m) for m, g in zip(mantissa, group, strict=True) if g == i)
        for i in range(7)
    ]
    assert noise._class_totals(mantissa, group) == expected


def test_class_totals_are_exact_over_chunks(monkeypatch):
    monkeypatch.setattr(noise, "_EXACT_TERMS", 7)
    mantissa = np.full(40, 2**53 - 1)
    group = np.arange(40) % 3
    expected = [count * (2**53 - 1) for count in (14, 13, 13)]
    assert noise._class_totals(mantissa, group) == expected


def test_the_class_is_chosen_by_exact_totals(monkeypatch):
    weights = np.array([2.0**-60, 1.0, 0.1, 0.0, 1 + 2.0**-52, 3.7, 2.0**-59])
    exponents = np.frexp(weights)[1]
    positive = weights > 0
    lowest = min(exponents[positive])
    unit = Fraction(2) ** (int(lowest) - 53)
    border = 0
    for exponent in sorted(set(exponents[positive].tolist())):
        members = [i for i in np.flatnonzero(positive) if exponents[i] == exponent]
        total = sum(Fraction(weights[i]) for i in members) / unit
        for rest in (border, border + total - 1):
            bounds = []

            def below(bound, bits, rest=rest, bounds=bounds):
                bounds.append(bound)
                return int(rest)

            monkeypatch.setattr(noise, "_uniform_below", below)
            assert categorical(weights, Scripted()) in members
            assert bounds == [sum(Fraction(w) for w in weights) / unit]
        border += total


def test_acceptance_within_a_class_is_exact(monkeypatch):
    monkeypatch.setattr(noise, "_uniform_below", lambda bound, bits: 0)
    weights = [1.0 + 3 * 2.0**-52, 1.5]
    mantissa = 2**52 + 3
    # Words: proposal (index modulo 2), then acceptance; the second proposal is 1.
    assert categorical(weights, Scripted([0, (mantissa << 11) - 1])) == 0
    assert categorical(weights, Scripted([0, mantissa << 11, 1, 0])) == 1
    assert categorical(weights, Scripted([1, (3 << 62) - 1])) == 1
    assert categorical(weights, Scripted([1, 3 << 62, 0, 0])) == 0


@pytest.mark.parametrize("bound", [1, 5, 2**64 - 1, 2**64, 2**64 + 1, 3**200])
def test_large_uniform_integers(bound):
    bits = RandomBits(1)
    drawn = [noise._uniform_below(bound, bits) for _ in range(200)]
    assert 0 <= min(drawn) and max(drawn) < bound
    if bound > 1:  # P(one half never) = 2**-199
        assert min(drawn) < bound / 2 <= max(drawn)
    # The last value is drawn, the one after it is refused.
    words = -(-bound.bit_length() // 64)
    spare = 64 * words - bound.bit_length()

    def as_words(value):
        raw = (value << spare).to_bytes(8 * words, "little")
        return np.frombuffer(raw, dtype="<u8").tolist()

    assert noise._uniform_below(bound, Scripted(as_words(bound - 1))) == bound - 1
    if bound.bit_length() == (bound + 1).bit_length():
        assert noise._uniform_below(bound, Scripted(as_words(bound))) == 0


def test_zeros_are_never_drawn_and_one_weight_always():
    weights = np.zeros(1000)
    weights[[17, 400]] = 1e-300, 1e-308
    assert {categorical(weights, seed) for seed in range(30)} <= {17, 400}
    assert categorical([5e-324], 0) == 0
    assert categorical([0, 0, 3], 0) == 2


def test_reproducible_and_secure():
    weights = np.random.default_rng(0).random(1000)
    assert categorical(weights, 5) == categorical(weights, 5)
    assert len({categorical(weights, seed) for seed in range(20)}) > 5
    assert 0 <= categorical(weights) < 1000


def test_the_weights_are_not_changed():
    weights = np.random.default_rng(0).random(50)
    weights.flags.writeable = False
    categorical(weights, 0)


@pytest.mark.parametrize(
    "weights",
    [[], [0.0, 0.0], [1.0, -1.0], [1.0, np.nan], [np.inf, 1.0], [[1.0, 2.0]], 1.0],
)
def test_bad_weights(weights):
    with pytest.raises(ValueError, match="'weights'"):
        categorical(weights)


@pytest.mark.parametrize("weights", ["ab", [1j], [None], [2**70]])
def test_weights_of_the_wrong_kind(weights):
    with pytest.raises(TypeError, match="'weights'"):
        categorical(weights)
