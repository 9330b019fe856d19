"""Randomised response: every person's answer is private before it is collected."""

import math
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from skdp import events, noise
from skdp.noise import as_bits
from skdp.validation import (
    check_epsilon,
    check_integer,
    check_integer_values,
    set_fields,
)


class CountEstimate(NamedTuple):
    """Debiased counts of the categories, and their standard errors."""

    counts: np.ndarray
    standard_errors: np.ndarray


@dataclass(frozen=True)
class RandomizedResponse:
    """Binary and k-ary randomised response.

    Every answer is kept with probability e^epsilon/(k - 1 + e^epsilon) and replaced by
    one of the k - 1 others otherwise. Binary with epsilon = ln 3 is the coin protocol:
    heads, tell the truth; tails, answer by a second coin.

    Parameters
    ----------
    epsilon : float
        Privacy parameter > 0 of every answer.
    n_categories : int, default=2
        Number k of categories, coded 0, ..., k - 1.

    Attributes
    ----------
    keep_probability : float
        Probability that an answer is the truth.

    Guarantee
    ---------
    Local epsilon-DP, exactly: each reported answer is epsilon-DP in the
    true one, whoever collects it. In the central model the event is that of one row
    under "replace"; the number of answers is public.

    References
    ----------
    Warner (1965). Randomized response: a survey technique for eliminating evasive
    answer bias.
    Kairouz, Bonawitz and Ramage (2016). Discrete distribution estimation under local
    privacy.

    Examples
    --------
    >>> import math
    >>> from skdp.mechanisms import RandomizedResponse
    >>> mechanism = RandomizedResponse(math.log(3))
    >>> round(mechanism.keep_probability, 12)
    0.75
    >>> reports = mechanism.release([0, 1, 1, 0, 1])
    >>> mechanism.estimate(reports).counts.shape
    (2,)
    """

    epsilon: float
    n_categories: int = 2

    def __post_init__(self) -> None:
        set_fields(
            self,
            epsilon=check_epsilon(self.epsilon),
            n_categories=check_integer(
                self.n_categories, "n_categories", low=2, high=2**32
            ),
        )

    @property
    def keep_probability(self) -> float:
        """Probability that an answer is the truth."""
        return 1 / (1 + (self.n_categories - 1) * math.exp(-self.epsilon))

    @property
    def event(self) -> events.Pure:
        """What a release costs each person."""
        return events.Pure(self.epsilon, "replace")

    def _check(self, value: Any, name: str) -> np.ndarray:
        values = check_integer_values(value, name)
        if (values < 0).any() or (values >= self.n_categories).any():
            raise ValueError(
                f"The {name!r} parameter must be integers in "
                f"[0, {self.n_categories - 1}] (n_categories={self.n_categories})."
            )
        return values

    def release(self, value: Any, random_state: Any = None) -> Any:
        """Return randomised answers.

        Parameters
        ----------
        value : int or array of int
            True categories, one for each person.
        random_state : None, int, Generator or RandomState
            None for secure randomness; anything else is reproducible, and not private
            against those who know it.
        """
        values = self._check(value, "value")
        others = self.n_categories - 1
        bits = as_bits(random_state)
        lie = noise.bernoulli_odds(others, self.epsilon, values.shape or (1,), bits)
        step = 1 + noise.uniform_integers(others, values.shape or (1,), bits)
        answers = (values + lie * step) % self.n_categories
        return int(answers[0]) if values.ndim == 0 else answers

    def estimate(self, reports: Any) -> CountEstimate:
        """Return unbiased counts of the true categories from the reported ones.

        Parameters
        ----------
        reports : array of int
            Randomised answers. This is post-processing and costs nothing.

        Returns
        -------
        CountEstimate
            ``counts`` (may be negative, sums to the number of reports) and
            ``standard_errors`` of the randomisation.
        """
        answers = self._check(reports, "reports").ravel()
        n = answers.size
        observed = np.bincount(answers, minlength=self.n_categories)
        keep = self.keep_probability
        lie = keep * math.exp(-self.epsilon)  # of each other category
        gap = -keep * math.expm1(-self.epsilon)
        counts = (observed - n * lie) / gap
        truth = np.clip(counts, 0, n)
        lies = (self.n_categories - 1) * lie
        variance = truth * keep * lies + (n - truth) * lie * (1 - lie)
        return CountEstimate(counts, np.sqrt(variance) / gap)
