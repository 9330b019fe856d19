"""Losses of linear models: functions of a row's score and its target.

The score of a row z is ``<w, z>``, or one such number for each class. A loss gives its
value and its first two derivatives in the score, and bounds on them. For rows of norm
at most R, ``lipschitz(R)`` bounds the gradient in w of one row's loss, and
``smoothness(R)`` its second derivative.
"""

import math
from dataclasses import dataclass
from typing import ClassVar, NamedTuple

import numpy as np

from skdp.validation import check_integer, check_real, set_fields

__all__ = [
    "Evaluation",
    "Huber",
    "Logistic",
    "Loss",
    "SmoothedHinge",
    "Softmax",
    "Squared",
]


class Evaluation(NamedTuple):
    """A loss at some scores.

    ``second`` is the second derivative of each row. For softmax it holds the
    probabilities, from which ``Loss.apply_second`` makes the second derivative.
    """

    value: float
    first: np.ndarray
    second: np.ndarray


class Loss:
    """Base of all losses. Not for direct use.

    Attributes
    ----------
    slope : float
        Largest norm of the derivative in the score; inf where there is none.
    bend : float
        Largest second derivative in the score.
    origin : float
        Largest value at score 0, over all targets.
    theorem : str or None
        Which bound of :class:`skdp.events.ObjectivePerturbation` holds for it.
    outputs : int
        Number of scores of a row.
    """

    slope: float
    bend: float
    origin: float
    theorem: ClassVar[str | None]
    outputs: int = 1

    def lipschitz(self, norm: float) -> float:
        """Return the largest gradient norm of a row of this norm."""
        return self.slope * norm

    def smoothness(self, norm: float) -> float:
        """Return the largest curvature of a row of this norm."""
        return self.bend * norm**2

    def evaluate(self, scores: np.ndarray, targets: np.ndarray) -> Evaluation:
        """Return the summed value, and both derivatives of every row."""
        raise NotImplementedError

    def apply_second(self, second: np.ndarray, change: np.ndarray) -> np.ndarray:
        """Return the second derivatives times a change of the scores."""
        return second * change


class Logistic(Loss):
    """log(1 + exp(-y f)) for y in {-1, 1}.

    Examples
    --------
    >>> import numpy as np
    >>> from skdp.erm import Logistic
    >>> value, first, second = Logistic().evaluate(np.zeros(1), np.ones(1))
    >>> round(value, 4), first, second
    (0.6931, array([-0.5]), array([0.25]))
    """

    slope, bend, origin, theorem = 1.0, 0.25, math.log(2), "logistic"

    def evaluate(self, scores: np.ndarray, targets: np.ndarray) -> Evaluation:
        """Return the summed value, and both derivatives of every row."""
        margin = scores * targets
        small = np.exp(-np.abs(margin))  # never overflows
        value = float(np.sum(np.log1p(small) - np.minimum(margin, 0)))
        odds = 1 / (1 + small)
        wrong = np.where(margin >= 0, small * odds, odds)
        return Evaluation(value, -targets * wrong, small * odds * odds)


@dataclass(frozen=True)
class Softmax(Loss):
    """Cross entropy of K classes, targets 0 ... K - 1.

    Parameters
    ----------
    n_classes : int
        Number of classes, at least 2.
    """

    n_classes: int
    slope: ClassVar[float] = math.sqrt(2)
    bend: ClassVar[float] = 0.5
    theorem: ClassVar[str] = "softmax"

    def __post_init__(self) -> None:
        set_fields(self, n_classes=check_integer(self.n_classes, "n_classes", low=2))

    @property
    def outputs(self) -> int:
        """One score for each class."""
        return self.n_classes

    @property
    def origin(self) -> float:
        """Value at score 0."""
        return math.log(self.n_classes)

    def evaluate(self, scores: np.ndarray, targets: np.ndarray) -> Evaluation:
        """Return the summed value, the derivatives, and the probabilities."""
        rows = np.arange(scores.shape[0])
        shifted = scores - scores.max(axis=1, keepdims=True)
        chosen = shifted[rows, targets]
        probabilities = np.exp(shifted, out=shifted)
        total = probabilities.sum(axis=1, keepdims=True)
        value = float(np.sum(np.log(total)) - np.sum(chosen))
        probabilities /= total
        first = probabilities.copy()
        first[rows, targets] -= 1
        return Evaluation(value, first, probabilities)

    def apply_second(self, second: np.ndarray, change: np.ndarray) -> np.ndarray:
        """Return (diag p - p p') times a change of the scores."""
        weighted = second * change
        return weighted - second * weighted.sum(axis=1, keepdims=True)


class Squared(Loss):
    """(f - y)^2 / 2. Its derivative has no bound: clip gradients."""

    slope, bend, origin, theorem = math.inf, 1.0, math.inf, None

    def evaluate(self, scores: np.ndarray, targets: np.ndarray) -> Evaluation:
        """Return the summed value, and both derivatives of every row."""
        error = scores - targets
        return Evaluation(float(error @ error) / 2, error, np.ones_like(error))


@dataclass(frozen=True)
class Huber(Loss):
    """Squared for errors up to ``transition``, linear beyond; targets in [-1, 1].

    Parameters
    ----------
    transition : float
        Where the loss becomes linear, > 0; also the bound of its derivative.
    """

    transition: float
    bend: ClassVar[float] = 1.0
    theorem: ClassVar[str] = "two_sided"

    def __post_init__(self) -> None:
        set_fields(self, transition=check_real(self.transition, "transition", low=0))

    @property
    def slope(self) -> float:
        """Largest derivative."""
        return self.transition

    @property
    def origin(self) -> float:
        """Value at score 0 for a target of 1."""
        edge = min(self.transition, 1.0)
        return edge * (1 - edge / 2)

    def evaluate(self, scores: np.ndarray, targets: np.ndarray) -> Evaluation:
        """Return the summed value, and both derivatives of every row."""
        error = scores - targets
        first = np.clip(error, -self.transition, self.transition)
        second = (np.abs(error) < self.transition).astype(float)
        return Evaluation(float(first @ (error - first / 2)), first, second)


@dataclass(frozen=True)
class SmoothedHinge(Loss):
    """Hinge loss max(0, 1 - y f) with its corner rounded; y in {-1, 1}.

    Parameters
    ----------
    width : float
        Half width of the rounded part around y f = 1, in (0, 1].
    """

    width: float
    slope: ClassVar[float] = 1.0
    origin: ClassVar[float] = 1.0
    theorem: ClassVar[str] = "one_sided"

    def __post_init__(self) -> None:
        width = check_real(self.width, "width", low=0, high=1, closed="right")
        set_fields(self, width=width)

    @property
    def bend(self) -> float:
        """Largest second derivative."""
        return 1 / (2 * self.width)

    def evaluate(self, scores: np.ndarray, targets: np.ndarray) -> Evaluation:
        """Return the summed value, and both derivatives of every row."""
        gap = 1 - scores * targets
        into = np.clip((gap + self.width) / (2 * self.width), 0.0, 1.0)
        value = self.width * into**2 + np.maximum(gap - self.width, 0)
        second = ((into > 0) & (into < 1)) * self.bend
        return Evaluation(float(np.sum(value)), -targets * into, second)
