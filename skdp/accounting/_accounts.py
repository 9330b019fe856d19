"""Running sums of what was spent: one account for each composition rule."""

import json
import math
from dataclasses import dataclass
from decimal import Context, Decimal, Inexact

__all__ = ["EXACT", "Accounts", "decimal"]

# Sums of decimal numbers are exact: a float64 has at most 17 digits, between 1e-324
# and 1e309.
EXACT = Context(prec=1000, traps=[Inexact])
_ZERO = Decimal(0)


def decimal(value: float) -> Decimal:
    """Return the decimal number that a user who wrote the float had in mind."""
    return Decimal(repr(float(value)))


def _up(value: float) -> float:
    """Round up: a sum of floats must not fall below the true sum."""
    return math.nextafter(value, math.inf) if value > 0 else value


def _sum(a: float, b: float) -> float:
    return a + b if a == 0 or b == 0 else _up(a + b)


@dataclass(frozen=True)
class Accounts:
    """Sums over releases, as each composition rule counts them.

    An infinite account is one that could not price a release; its rule is dead.

    Parameters
    ----------
    epsilon, delta : Decimal
        Basic composition.
    failure : Decimal
        Probabilities with which releases may fail altogether, the same for all the
        tighter rules.
    rdp : tuple of float
        Renyi divergence at each of the fixed orders.
    squares : float
        Squared shifts of Gaussian releases.
    """

    epsilon: Decimal = _ZERO
    delta: Decimal = _ZERO
    failure: Decimal = _ZERO
    rdp: tuple[float, ...] = ()
    squares: float = 0.0

    def __add__(self, other: "Accounts") -> "Accounts":
        return Accounts(
            EXACT.add(self.epsilon, other.epsilon),
            EXACT.add(self.delta, other.delta),
            EXACT.add(self.failure, other.failure),
            tuple(_sum(a, b) for a, b in zip(self.rdp, other.rdp, strict=True)),
            _sum(self.squares, other.squares),
        )

    def times(self, count: int) -> "Accounts":
        """Return the accounts of ``count`` equal releases."""
        return Accounts(
            EXACT.multiply(self.epsilon, count),
            EXACT.multiply(self.delta, count),
            EXACT.multiply(self.failure, count),
            tuple(_up(count * a) for a in self.rdp),
            _up(count * self.squares),
        )

    def maximum(self, other: "Accounts") -> "Accounts":
        """Return the larger of each account."""
        return Accounts(
            max(self.epsilon, other.epsilon),
            max(self.delta, other.delta),
            max(self.failure, other.failure),
            tuple(map(max, self.rdp, other.rdp)),
            max(self.squares, other.squares),
        )

    def growth(self, before: "Accounts") -> "Accounts":
        """Return what must be added to ``before`` to reach these accounts."""
        return Accounts(
            _difference(self.epsilon, before.epsilon),
            _difference(self.delta, before.delta),
            _difference(self.failure, before.failure),
            tuple(
                _up(a - b) if a > b else 0.0
                for a, b in zip(self.rdp, before.rdp, strict=True)
            ),
            _up(self.squares - before.squares)
            if self.squares > before.squares
            else 0.0,
        )

    def to_json(self) -> str:
        """Return the accounts as JSON."""
        values = (str(self.epsilon), str(self.delta), str(self.failure))
        return json.dumps([*values, list(self.rdp), self.squares])

    @classmethod
    def from_json(cls, text: str) -> "Accounts":
        """Return the accounts that ``to_json`` wrote."""
        epsilon, delta, failure, rdp, squares = json.loads(text)
        return cls(
            Decimal(epsilon), Decimal(delta), Decimal(failure), tuple(rdp), squares
        )


def _difference(after: Decimal, before: Decimal) -> Decimal:
    return EXACT.subtract(after, before) if after > before else _ZERO
