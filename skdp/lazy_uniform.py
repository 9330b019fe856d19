"""A uniform real number known to as many bits as a decision needs.

Comparing it with ``exp(-gamma)`` or with a rational number gives an exact Bernoulli
variable: no rounding, whatever the probability.
"""

from collections.abc import Callable
from decimal import Context, Decimal
from fractions import Fraction
from typing import Protocol

import numpy as np

__all__ = ["LazyUniform", "is_below_exp", "is_below_odds", "is_below_ratio"]


class Words(Protocol):
    """A source of uniform 64-bit words."""

    def words(self, count: int) -> np.ndarray:
        """Return ``count`` words as uint64."""


class LazyUniform:
    """A uniform real number in [0, 1), known to as many bits as were needed."""

    def __init__(self, word: int, bits: Words) -> None:
        self._numerator, self.length, self._bits = word, 64, bits

    def refine(self) -> None:
        """Draw 64 more bits."""
        self._numerator = (self._numerator << 64) | int(self._bits.words(1)[0])
        self.length += 64

    def interval(self) -> tuple[Fraction, Fraction]:
        """Return the dyadic interval that the known bits leave."""
        unit = Fraction(1, 1 << self.length)
        return self._numerator * unit, (self._numerator + 1) * unit

    @property
    def digits(self) -> int:
        """Decimal digits to compute a probability to, for a comparison."""
        return self.length // 3 + 20


def _exp_interval(gamma: Fraction, digits: int) -> tuple[Fraction, Fraction]:
    """Return rational bounds of exp(-gamma), about ``digits`` digits apart."""
    # exp() turns the absolute error of its argument into a relative error.
    context = Context(prec=digits + len(str(int(gamma))) + 5)
    argument = context.divide(Decimal(-gamma.numerator), Decimal(gamma.denominator))
    value = Fraction(argument.exp(Context(prec=digits + 5)))
    margin = value / 10**digits
    return value - margin, value + margin


def _is_below(uniform: LazyUniform, bound: Callable[[int], tuple]) -> bool:
    """Decide whether a uniform number lies below p, exactly.

    ``bound(digits)`` returns rational bounds of p, about that many digits apart.
    """
    while True:
        low, high = uniform.interval()
        p_low, p_high = bound(uniform.digits)
        if high <= p_low:
            return True
        if low >= p_high:
            return False
        uniform.refine()


def is_below_exp(uniform: LazyUniform, gamma: Fraction) -> bool:
    """Decide whether the uniform number lies below exp(-gamma), exactly."""
    if gamma <= 0:
        return True
    # exp(-gamma) < 2^-length decides without writing down a tiny number.
    while gamma > uniform.length:
        if uniform.interval()[0] > 0:
            return False
        uniform.refine()
    return _is_below(uniform, lambda n: _exp_interval(gamma, n))


def is_below_odds(uniform: LazyUniform, weight: int, gamma: Fraction) -> bool:
    """Decide whether the uniform number lies below w/(w + exp(gamma)), exactly."""
    while gamma > uniform.length + weight.bit_length():
        if uniform.interval()[0] > 0:
            return False
        uniform.refine()

    def bound(digits: int) -> tuple[Fraction, Fraction]:
        low, high = _exp_interval(gamma, digits)
        return weight * low / (1 + weight * low), weight * high / (1 + weight * high)

    return _is_below(uniform, bound)


def is_below_ratio(uniform: LazyUniform, ratio: Fraction) -> bool:
    """Decide whether the uniform number lies below a rational number, exactly."""
    return _is_below(uniform, lambda n: (ratio, ratio))
