"""Private counts."""

import math
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator

from skdp import events
from skdp.stats._base import BoundedStatistic, Plan, Table
from skdp.stats._count_noise import count_noise, plan_counts
from skdp.stats._release import Release
from skdp.stats._sums import as_table
from skdp.validation import check_option

__all__ = ["DPCount", "count"]

_METHODS = ("auto", "laplace", "gaussian")
_BLOCK = 2**18  # values looked at together


def _counts(X: np.ndarray, what: str) -> np.ndarray:
    """Return the number of values of each feature that count; NaN never does."""
    found = np.zeros(X.shape[1], dtype=np.int64)
    step = max(1, _BLOCK // X.shape[1])
    for start in range(0, len(X), step):
        block = X[start : start + step]
        valid = block == block  # not NaN
        if what == "nonzero":
            valid &= block != 0
        found += np.count_nonzero(valid, axis=0)
    return found


class DPCount(BoundedStatistic, BaseEstimator):
    """Number of values of every feature that are true, with differential privacy.

    Parameters
    ----------
    epsilon : float, default=1.0
        Privacy parameter > 0, for all features together.
    delta : float, default=0.0
        Privacy parameter in [0, 1). 0 is pure differential privacy.
    what : {"nonzero", "rows"}, default="nonzero"
        Count the values that are not 0 (or False), or all values that are not missing.
        Under "replace", and without missing values, the number of rows is public.
    method : {"auto", "laplace", "gaussian"}, default="auto"
        Noise. "auto" takes the one with less of it.
    missing : {"error", "drop"}, default="error"
        What to do with NaN. "drop" does not count it.
    neighboring : {"replace", "add_remove"}, default="replace"
        What one person can change: "replace", the values of one row, and the number of
        rows is public; "add_remove", one row more or less, and the number is private.
    accountant : BudgetAccountant, default=None
        Budget that pays for every fit.
    random_state : None, int, Generator or RandomState, default=None
        None for secure noise. Anything else is reproducible, and not private against
        those who know it.

    Attributes
    ----------
    count_ : ndarray of int of shape (n_features,)
        Noisy counts, not negative and, where the number of rows is public, not above
        it.
    standard_error_ : ndarray of shape (n_features,)
        Standard deviation of the noise.
    n_features_in_ : int
        Number of features.
    feature_names_in_ : ndarray
        Names of the features, where X has them.
    privacy_ : PrivacyGuarantee
        What the fit guarantees; prints as a sentence.

    Guarantee
    ---------
    (epsilon, delta)-DP under ``neighboring``: one row changes each count by at most one
    under either relation. The noise is discrete Laplace, or Gaussian and rounded.

    Examples
    --------
    >>> import numpy as np
    >>> from skdp.stats import DPCount
    >>> smokes = np.random.default_rng(0).random((1000, 1)) < 0.3
    >>> model = DPCount(epsilon=1.0).fit(smokes)
    >>> bool(abs(model.count_[0] - smokes.sum()) < 20)
    True
    """

    _value = "count_"

    def __init__(
        self,
        epsilon: float = 1.0,
        delta: float = 0.0,
        *,
        what: str = "nonzero",
        method: str = "auto",
        missing: str = "error",
        neighboring: str = "replace",
        accountant: Any = None,
        random_state: Any = None,
    ) -> None:
        self.epsilon = epsilon
        self.delta = delta
        self.what = what
        self.method = method
        self.missing = missing
        self.neighboring = neighboring
        self.accountant = accountant
        self.random_state = random_state

    def _check_parameters(self) -> None:
        super()._check_parameters()
        check_option(self.method, "method", _METHODS)
        check_option(self.what, "what", ("nonzero", "rows"))

    def _public_rows(self, n_samples: int) -> float:
        return math.inf  # counts are exact, however many rows there are

    def _search(self, n_samples: int, n_features: int) -> None:
        return None  # there are no bounds

    def _plan_release(
        self, n_samples: int, n_features: int, epsilon: float
    ) -> tuple[Release, events.Event]:
        norms = n_features, math.sqrt(n_features)
        price = (epsilon, self.delta, self.method, self.neighboring)
        release = plan_counts(*norms, *price, size=n_features)
        return release, count_noise(release).event

    def _release(self, plan: Plan, data: Table, bits: Any, sampling: Any) -> None:
        self._noise = count_noise(plan.release)
        noisy = self._noise.release(_counts(data.X, self.what), bits)
        most = None if self.neighboring == "add_remove" else len(data.X)
        self.count_ = np.clip(noisy, 0, most)
        self.standard_error_ = np.full(noisy.size, self._noise.std)

    def _interval(self, level: float) -> tuple[np.ndarray, np.ndarray]:
        # About the rows themselves: there is no sampling.
        reach = self._noise.interval(level)[1]
        return np.maximum(self.count_ - reach, 0), self.count_ + reach

    def _assumptions(self) -> tuple[str, ...]:
        return ("every person is one row",)


def count(
    x: Any,
    epsilon: float = 1.0,
    delta: float = 0.0,
    *,
    what: str = "nonzero",
    method: str = "auto",
    missing: str = "error",
    neighboring: str = "replace",
    accountant: Any = None,
    random_state: Any = None,
) -> int:
    """Return the number of true values of a 1-D array, with differential privacy.

    Parameters are those of :class:`DPCount`.

    Examples
    --------
    >>> from skdp import stats
    >>> 450 < stats.count([True, False] * 500, epsilon=1.0) < 550
    True
    """
    model = DPCount(
        epsilon,
        delta,
        what=what,
        method=method,
        missing=missing,
        neighboring=neighboring,
        accountant=accountant,
        random_state=random_state,
    )
    return int(model.fit(as_table(x)).count_[0])
