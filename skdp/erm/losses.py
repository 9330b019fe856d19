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
    "undo_margin",
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


@dataclass(frozen=True)
class Logistic(Loss):
    """log(1 + exp(margin - y f)) for y in {-1, 1}.

    Parameters
    ----------
    margin : float, default=0.0
        A positive margin keeps the pull of rows that are just right, which helps
        against noise; ``undo_margin`` turns scores into probabilities all the same.

    Examples
    --------
    >>> import numpy as np
    >>> from skdp.erm import Logistic
    >>> value, first, second = Logistic().evaluate(np.zeros(1), np.ones(1))
    >>> round(value, 4), first, second
    (0.6931, array([-0.5]), array([0.25]))
    """

    margin: float = 0.0
    slope: ClassVar[float] = 1.0
    bend: ClassVar[float] = 0.25
    theorem: ClassVar[str] = "logistic"

    def __post_init__(self) -> None:
        set_fields(self, margin=_check_margin(self.margin))

    @property
    def origin(self) -> float:
        """Value at score 0."""
        return float(np.logaddexp(0.0, self.margin))

    def evaluate(self, scores: np.ndarray, targets: np.ndarray) -> Evaluation:
        """Return the summed value, and both derivatives of every row."""
        lead = scores * targets - self.margin
        small = np.exp(-np.abs(lead))  # never overflows
        value = float(np.sum(np.log1p(small) - np.minimum(lead, 0)))
        odds = 1 / (1 + small)
        wrong = np.where(lead >= 0, small * odds, odds)
        return Evaluation(value, -targets * wrong, small * odds * odds)


@dataclass(frozen=True)
class Softmax(Loss):
    """Cross entropy of K classes, targets 0 ... K - 1.

    Parameters
    ----------
    n_classes : int
        Number of classes, at least 2.
    margin : float, default=0.0
        Handicap of the true class's score.
    """

    n_classes: int
    margin: float = 0.0
    slope: ClassVar[float] = math.sqrt(2)
    bend: ClassVar[float] = 0.5
    theorem: ClassVar[str] = "softmax"

    def __post_init__(self) -> None:
        set_fields(
            self,
            n_classes=check_integer(self.n_classes, "n_classes", low=2),
            margin=_check_margin(self.margin),
        )

    @property
    def outputs(self) -> int:
        """One score for each class."""
        return self.n_classes

    @property
    def origin(self) -> float:
        """Value at score 0."""
        return float(np.logaddexp(0.0, self.margin + math.log(self.n_classes - 1)))

    def evaluate(self, scores: np.ndarray, targets: np.ndarray) -> Evaluation:
        """Return the summed value, the derivatives, and the probabilities."""
        rows = np.arange(scores.shape[0])
        shifted = scores - scores.max(axis=1, keepdims=True)
        shifted[rows, targets] -= self.margin
        chosen = shifted[rows, targets]
        probabilities = np.exp(shifted, out=shifted)
        # At least one term is e^-margin or more: the sum does not vanish.
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


def _check_margin(value: float) -> float:
    return check_real(value, "margin", low=0, high=100, closed="left")


def undo_margin(scores: np.ndarray, margin: float) -> np.ndarray:
    """Return log probabilities, up to a constant for each row.

    With a margin a the expected loss of a row whose true probabilities are eta is
    smallest where eta_j is proportional to x_j (e^a S - (e^a - 1) x_j), x_j =
    exp(score_j) and S their sum. The order of the scores is kept.

    Parameters
    ----------
    scores : ndarray of shape (n_rows, n_classes)
        Scores of all classes.
    margin : float
        Margin of the loss.
    """
    shares = scores - np.logaddexp.reduce(scores, axis=1)[:, None]
    if margin == 0:
        return shares
    # e^a - (e^a - 1) x = 1 + (e^a - 1)(1 - x)
    rest = -np.expm1(np.minimum(shares, 0.0))
    return shares + np.log1p(math.expm1(margin) * rest)


class Squared(Loss):
    """(f - y)^2 / 2. Its derivative has no bound: clip gradients.

    No estimator uses it; it is for solvers and gradient steps of your own.
    """

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
