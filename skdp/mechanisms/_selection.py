"""Private choice of one of several candidates."""

import math
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any

import numpy as np

from skdp import events, noise
from skdp.noise import as_bits
from skdp.validation import (
    Neighboring,
    check_epsilon,
    check_float_values,
    check_neighboring,
    check_real,
    set_fields,
)

_BITS = 42  # the exponents' unit is at least 2**42 steps of the score grid
_FARTHEST = 2**61  # gaps are cut off here, which does not raise their sensitivity


@dataclass(frozen=True)
class _Selection:
    """Parameters and rounding that the mechanisms of this module share."""

    epsilon: float
    sensitivity: float = 1.0
    monotonic: bool = field(default=False, kw_only=True)
    neighboring: Neighboring = field(default="replace", kw_only=True)

    def __post_init__(self) -> None:
        set_fields(
            self,
            epsilon=check_epsilon(self.epsilon),
            sensitivity=check_real(self.sensitivity, "sensitivity", low=0),
            neighboring=check_neighboring(self.neighboring),
        )
        if not isinstance(self.monotonic, bool):
            raise TypeError(
                f"The 'monotonic' parameter must be a bool. Got {self.monotonic!r}."
            )
        if self.monotonic and self.neighboring == "replace":
            raise ValueError(
                "The 'monotonic' parameter can be True under 'add_remove' only: under "
                "'replace' one row leaves and one arrives, so scores go both ways."
            )
        self._exponent_and_divisor()

    def _exponent_and_divisor(self) -> tuple[int, int]:
        """Return the score grid's exponent and the scale of the exponents on it."""
        factor = 1 if self.monotonic else 2
        log_unit = math.log2(self.sensitivity) - math.log2(self.epsilon)
        exponent = math.floor(min(log_unit - _BITS, math.log2(self.sensitivity) - 20))
        if self.epsilon < 1e-10:  # gaps up to the cut-off would not matter
            raise ValueError(
                f"The 'epsilon' parameter must be at least 1e-10. Got {self.epsilon!r}."
            )
        if exponent < -1074 or log_unit > 1000:
            raise ValueError(
                "The 'sensitivity' parameter divided by 'epsilon' is outside what "
                f"float64 can represent. Got sensitivity={self.sensitivity!r}."
            )
        steps = math.ceil(Fraction(self.sensitivity) / Fraction(2) ** exponent) + 1
        return exponent, math.ceil(factor * steps / Fraction(self.epsilon))

    def _gaps(self, scores: Any) -> tuple[np.ndarray, int]:
        """Return how far each score is below the best, and the common divisor.

        Scores are rounded to a public grid, which raises the sensitivity by one step.
        """
        values = check_float_values(scores, "scores")
        if values.ndim != 1:
            raise ValueError(
                f"The 'scores' parameter must be one-dimensional. Got {values.ndim}-d."
            )
        exponent, divisor = self._exponent_and_divisor()
        step = Fraction(2) ** exponent
        with np.errstate(over="ignore"):
            steps = np.rint(np.ldexp(values, -exponent))
        if (np.abs(steps) < _FARTHEST).all():
            whole = steps.astype(np.int64)
            gaps = np.minimum(whole.max() - whole, _FARTHEST)
        else:
            whole = [round(Fraction(float(value)) / step) for value in values]
            best = max(whole)
            gaps = np.array(
                [min(best - one, _FARTHEST) for one in whole], dtype=np.int64
            )
        return gaps, divisor


@dataclass(frozen=True)
class Exponential(_Selection):
    """Exponential mechanism: P(q) is proportional to exp(epsilon f(q)/(2 sensitivity)).

    Parameters
    ----------
    epsilon : float
        Privacy parameter > 0.
    sensitivity : float, default=1.0
        Largest change of any candidate's score under ``neighboring``.
    monotonic : bool, default=False
        Whether adding a row changes all scores in the same direction. Saves a factor
        of two, under "add_remove" only.
    neighboring : {"replace", "add_remove"}, default="replace"
        Neighbour relation of the sensitivity.

    Guarantee
    ---------
    epsilon-DP, exactly, for scores that are exact functions of the data;
    the privacy loss has range epsilon, which composes as cheaply as epsilon^2/8-zCDP.
    For a single release :class:`ReportNoisyMax` is never worse.

    References
    ----------
    McSherry and Talwar (2007). Mechanism design via differential privacy.

    Examples
    --------
    >>> from skdp.mechanisms import Exponential
    >>> Exponential(epsilon=1.0).release([0.0, 1000.0, 0.0])
    1
    """

    @property
    def event(self) -> events.BoundedRange:
        """What a release costs."""
        return events.BoundedRange(self.epsilon, self.neighboring)

    def release(self, scores: Any, random_state: Any = None) -> int:
        """Return the index of the chosen candidate.

        Parameters
        ----------
        scores : array of float of shape (n_candidates,)
            Larger is better.
        random_state : None, int, Generator or RandomState
            None for secure randomness; anything else is reproducible, and not private
            against those who know it.
        """
        gaps, divisor = self._gaps(scores)
        bits = as_bits(random_state)
        while True:  # a uniform proposal, accepted with probability exp(-gap)
            proposed = noise.uniform_integers(gaps.size, min(gaps.size, 2**16), bits)
            accepted = noise.bernoulli_exp(gaps[proposed], divisor, bits)
            if accepted.any():
                return int(proposed[np.argmax(accepted)])


@dataclass(frozen=True)
class ReportNoisyMax(_Selection):
    """The candidate with the largest noisy score (exponential noise).

    The same as permute-and-flip: visit the candidates in random order and take one
    with probability exp(-epsilon gap/(2 sensitivity)), where gap is how far it is
    below the best. Its expected score is never below the exponential mechanism's.

    Parameters
    ----------
    epsilon : float
        Privacy parameter > 0.
    sensitivity : float, default=1.0
        Largest change of any candidate's score under ``neighboring``.
    monotonic : bool, default=False
        Whether adding a row changes all scores in the same direction. Saves a factor
        of two, under "add_remove" only.
    neighboring : {"replace", "add_remove"}, default="replace"
        Neighbour relation of the sensitivity.

    Guarantee
    ---------
    epsilon-DP, exactly, for scores that are exact functions of the data.
    The guarantee covers the index only: the noisy score may not be released with it.

    References
    ----------
    McKenna and Sheldon (2020). Permute-and-flip: a new mechanism for differentially
    private selection.
    Ding, Kifer, Steinke, Wang, Xiao and Zhang (2021). The permute-and-flip mechanism
    is identical to report-noisy-max with exponential noise.

    Examples
    --------
    >>> from skdp.mechanisms import ReportNoisyMax
    >>> ReportNoisyMax(epsilon=1.0).release([0.0, 1000.0, 0.0])
    1
    """

    @property
    def event(self) -> events.Pure:
        """What a release costs."""
        return events.Pure(self.epsilon, self.neighboring)

    def release(self, scores: Any, random_state: Any = None) -> int:
        """Return the index of the chosen candidate.

        Parameters
        ----------
        scores : array of float of shape (n_candidates,)
            Larger is better.
        random_state : None, int, Generator or RandomState
            None for secure randomness; anything else is reproducible, and not private
            against those who know it.
        """
        gaps, divisor = self._gaps(scores)
        bits = as_bits(random_state)
        # The first success in a random order is a uniform choice among the successes.
        heads = np.flatnonzero(noise.bernoulli_exp(gaps, divisor, bits))
        return int(heads[noise.uniform_integers(heads.size, None, bits)])
