"""Comparisons with a uniform number of unlimited precision are exact.

A scripted source of words puts the uniform number as close to the probability as a
test likes. Nothing here is random.
"""

import time
from fractions import Fraction

import mpmath
import numpy as np
import pytest

from skdp.lazy_uniform import (
    LazyUniform,
    _exp_interval,
    _is_below,
    is_below_exp,
    is_below_odds,
    is_below_ratio,
)

TOP = 2**64 - 1


class Script:
    """A source that reads out a list of words, and fails when it is used up."""

    def __init__(self, words):
        self.left = list(words)

    def words(self, count):
        taken, self.left = self.left[:count], self.left[count:]
        assert len(taken) == count, "more words were drawn than the decision needs"
        return np.array(taken, dtype=np.uint64)


def scripted(words):
    first, *others = words
    source = Script(others)
    return LazyUniform(first, source), source


def leading_words(probability, count):
    """The first 64 * count bits of a number in [0, 1), as words."""
    with mpmath.workprec(64 * count + 200):
        bits = int(mpmath.floor(mpmath.ldexp(probability(), 64 * count)))
    return [bits >> 64 * (count - 1 - i) & TOP for i in range(count)]


def zero_words(probability):
    """The number of whole words of zeros that a small probability starts with."""
    return int(-mpmath.log(probability(), 2)) // 64


def exp_of(gamma):
    return lambda: mpmath.exp(-mpmath.mpf(gamma.numerator) / gamma.denominator)


def odds_of(weight, gamma):
    return lambda: weight / (weight + 1 / exp_of(gamma)())


def ratio_of(ratio):
    return lambda: mpmath.mpf(ratio.numerator) / ratio.denominator


EXPONENTS = [
    Fraction(1),
    Fraction(1, 3),
    Fraction(1, 10**12),
    Fraction(0.7),
    Fraction(10**15 + 1, 10**15),
    Fraction(44),
    Fraction(100),
    Fraction(3001, 7),
]
RATIOS = [Fraction(1, 3), Fraction(2**70 - 1, 3**50), Fraction(1, 3**90)]


def case(below, probability_of, *arguments):
    name = " ".join(f"{float(argument):.4g}" for argument in arguments)
    return pytest.param(
        below, arguments, probability_of(*arguments), id=f"{below.__name__} {name}"
    )


CASES = (
    [case(is_below_exp, exp_of, gamma) for gamma in EXPONENTS]
    + [
        case(is_below_odds, odds_of, weight, gamma)
        for weight in (1, 9, 10**30)
        for gamma in EXPONENTS
    ]
    + [case(is_below_ratio, ratio_of, ratio) for ratio in RATIOS]
)


@pytest.mark.parametrize("extra", [0, 1, 2, 5])
@pytest.mark.parametrize(("below", "arguments", "probability"), CASES)
def test_is_decided_where_the_bits_first_differ(below, arguments, probability, extra):
    # Leading words that agree with the probability's leave the decision open; one
    # unit in the last word settles it, on either side.
    start = zero_words(probability)
    words = leading_words(probability, start + 1 + extra)
    for change, expected in ((-1, True), (1, False)):
        last = words[-1] + change
        if 0 <= last <= TOP:
            uniform, source = scripted([*words[:-1], last])
            assert below(uniform, *arguments) is expected
            assert source.left == []


@pytest.mark.parametrize(("below", "arguments", "probability"), CASES)
def test_refines_while_the_bits_agree(below, arguments, probability):
    start = zero_words(probability)
    words = leading_words(probability, start + 4)
    uniform, _ = scripted([*words, 0])  # the next word of the probability is not 0
    assert below(uniform, *arguments) is True
    assert uniform.length == 64 * (start + 5)


def test_refining_narrows_the_interval():
    uniform, _ = scripted([2**63, 1, TOP])
    low, high = uniform.interval()
    assert (low, high) == (Fraction(1, 2), Fraction(1, 2) + Fraction(1, 2**64))
    for length in (128, 192):
        before = uniform.interval()
        uniform.refine()
        low, high = uniform.interval()
        assert uniform.length == length
        assert before[0] <= low < high <= before[1]
        assert high - low == Fraction(1, 2**length)


@pytest.mark.parametrize(("tenths", "expected"), [(3, True), (7, False)])
def test_waits_until_the_bounds_of_the_probability_are_clear(tenths, expected):
    widths = iter([Fraction(1, 4), Fraction(2, 9), Fraction(1, 100)])

    def half(digits):
        width = next(widths)
        return Fraction(1, 2) - width, Fraction(1, 2) + width

    uniform, source = scripted([2**64 * tenths // 10, 5, 5])
    assert _is_below(uniform, half) is expected
    assert source.left == [] and next(widths, None) is None


@pytest.mark.parametrize("word", [0, 1, 2**63, TOP])
def test_certain_events_need_no_more_words(word):
    assert is_below_exp(scripted([word])[0], Fraction(0)) is True
    assert is_below_ratio(scripted([word])[0], Fraction(1)) is True
    assert is_below_ratio(scripted([word])[0], Fraction(0)) is False


@pytest.mark.parametrize(("word", "expected"), [(2**63 - 1, True), (2**63, False)])
def test_a_dyadic_threshold_is_settled_by_the_first_word(word, expected):
    assert is_below_ratio(scripted([word])[0], Fraction(1, 2)) is expected


def test_even_odds_are_decided_by_the_first_bits():
    # weight = 1, gamma = 0 is one half, but the bounds of exp(0) are not told so:
    # words next to it are settled all the same.
    for change, expected in ((-2, True), (2, False)):
        uniform, _ = scripted([2**63 + change])
        assert is_below_odds(uniform, 1, Fraction(0)) is expected


def below_odds_of_seven(uniform, gamma):
    return is_below_odds(uniform, 7, gamma)


@pytest.mark.parametrize("gamma", [1e3, 1e9, 1e300, 1.7976931348623157e308])
@pytest.mark.parametrize("below", [is_below_exp, below_odds_of_seven])
def test_a_huge_exponent_is_refused_at_once(below, gamma):
    start = time.perf_counter()
    assert below(scripted([1])[0], Fraction(gamma)) is False
    uniform, source = scripted([0, 0, 0, 1])  # a chance of 2**-192
    assert below(uniform, Fraction(gamma)) is False
    assert source.left == []
    assert time.perf_counter() - start < 1.0


@pytest.mark.parametrize("gamma", [5e-324, 1e-300, 1e-30])
def test_a_tiny_exponent_is_decided(gamma):
    assert is_below_exp(scripted([TOP - 1])[0], Fraction(gamma)) is True
    # All ones is above 1 - gamma as soon as there are enough of them.
    uniform, _ = scripted([TOP] * 20)
    assert is_below_exp(uniform, Fraction(gamma)) is False
    assert Fraction(1, 2**uniform.length) < Fraction(gamma)
    assert Fraction(gamma) <= Fraction(2, 2 ** (uniform.length - 64))


@pytest.mark.parametrize("digits", [5, 40, 300])
@pytest.mark.parametrize("gamma", [Fraction(1, 10**40), *EXPONENTS])
def test_bounds_of_the_exponential_hold(gamma, digits):
    low, high = _exp_interval(gamma, digits)
    with mpmath.workdps(2 * digits + 60):
        value = exp_of(gamma)()
        assert ratio_of(low)() < value < ratio_of(high)()
        assert (ratio_of(high)() - ratio_of(low)()) / value < 3 * mpmath.mpf(10) ** (
            -digits
        )
