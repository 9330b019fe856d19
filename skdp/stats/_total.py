"""Private sums."""

from typing import Any

import numpy as np
from sklearn.base import BaseEstimator

from skdp import events
from skdp.inputs import feature_bounds
from skdp.stats._base import BoundedStatistic, Plan, Table
from skdp.stats._release import Release, half_width, plan_release
from skdp.stats._sums import as_table, table_sums, total_sensitivities
from skdp.validation import check_option

__all__ = ["DPSum", "total"]

_METHODS = ("auto", "laplace", "gaussian")


class DPSum(BoundedStatistic, BaseEstimator):
    """Sum of every feature, with differential privacy.

    Parameters
    ----------
    epsilon : float, default=1.0
        Privacy parameter > 0, for all features together.
    delta : float, default=0.0
        Privacy parameter in [0, 1). 0 is pure differential privacy.
    bounds : pair, default=(-1, 1)
        Public bounds of the values, numbers or one for each feature; values outside
        are clipped, without a warning, since one would tell about the data. Set them:
        the default fits few data.
    method : {"auto", "laplace", "gaussian"}, default="auto"
        Noise. "auto" takes the one with less of it.
    missing : {"error", "drop"}, default="error"
        What to do with NaN. "drop" counts it as 0.
    n_samples_hint : int, default=None
        For ``neighboring="add_remove"``, a public guess of the number of rows. More
        than twice as many (and more than 65536) are refused; None allows 2**24.
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
    sum_ : ndarray of shape (n_features,)
        Noisy sums.
    standard_error_ : ndarray of shape (n_features,)
        Standard deviation of the noise.
    bounds_ : ndarray of shape (2, n_features)
        The bounds used.
    n_features_in_ : int
        Number of features.
    feature_names_in_ : ndarray
        Names of the features, where X has them.
    privacy_ : PrivacyGuarantee
        What the fit guarantees; prints as a sentence.

    Guarantee
    ---------
    (epsilon, delta)-DP under ``neighboring``. The sensitivity of a feature's sum is the
    width of its bounds under "replace", and the larger of their sizes under
    "add_remove"; with missing values the larger of the two. Rounding errors are part of
    it. Assumes that the bounds are chosen without the private data.

    References
    ----------
    Dwork, McSherry, Nissim and Smith (2006). Calibrating noise to sensitivity in
    private data analysis.

    Examples
    --------
    >>> import numpy as np
    >>> from skdp.stats import DPSum
    >>> hours = np.random.default_rng(0).integers(0, 60, size=(1000, 1))
    >>> model = DPSum(epsilon=1.0, bounds=(0, 60)).fit(hours)
    >>> bool(abs(model.sum_[0] - hours.sum()) < 2000)
    True
    """

    _value = "sum_"

    def __init__(
        self,
        epsilon: float = 1.0,
        delta: float = 0.0,
        *,
        bounds: Any = (-1, 1),
        method: str = "auto",
        missing: str = "error",
        n_samples_hint: int | None = None,
        neighboring: str = "replace",
        accountant: Any = None,
        random_state: Any = None,
    ) -> None:
        self.epsilon = epsilon
        self.delta = delta
        self.bounds = bounds
        self.method = method
        self.missing = missing
        self.n_samples_hint = n_samples_hint
        self.neighboring = neighboring
        self.accountant = accountant
        self.random_state = random_state

    def _check_parameters(self) -> None:
        super()._check_parameters()
        check_option(self.method, "method", _METHODS)

    def _changes(self, low: np.ndarray, high: np.ndarray) -> np.ndarray:
        """Return what one change can do to the sum of each feature."""
        size, width = np.maximum(np.abs(low), np.abs(high)), high - low
        if self.neighboring == "add_remove":
            return size
        return np.maximum(width, size) if self.missing == "drop" else width

    def _plan_release(
        self, n_samples: int, n_features: int, epsilon: float
    ) -> tuple[Release, events.Event]:
        low, high = feature_bounds(self.bounds, n_features)
        # Sums in terms of their changes. A sum is low * count + width * first.
        size = np.maximum(np.abs(low), np.abs(high)) + (high - low)
        magnitude = float(np.max(size / self._changes(low, high)))
        n_rows = self._public_rows(n_samples)
        norms = total_sensitivities(n_features, n_rows, magnitude)
        price = (epsilon, self.delta, self.method, self.neighboring)
        release = plan_release(*norms, *price, size=n_features)
        return release, release.event

    def _release(self, plan: Plan, data: Table, bits: Any, sampling: Any) -> None:
        low, high = self._find_bounds(plan, data, bits)
        sums = table_sums(data.X, low, high, 1, self.missing == "drop")
        exact = low * sums.count + (high - low) * sums.first
        change = self._changes(low, high)
        self.sum_ = change * plan.release.add(exact / change, bits)
        self.standard_error_ = change * plan.release.std
        self._kind = plan.release.kind

    def _interval(self, level: float) -> tuple[np.ndarray, np.ndarray]:
        # About the rows themselves: there is no sampling.
        reach = self.standard_error_ * half_width(self._kind, 1.0, 0.0, level)
        return self.sum_ - reach, self.sum_ + reach


def total(
    x: Any,
    epsilon: float = 1.0,
    delta: float = 0.0,
    *,
    bounds: Any,
    method: str = "auto",
    missing: str = "error",
    n_samples_hint: int | None = None,
    neighboring: str = "replace",
    accountant: Any = None,
    random_state: Any = None,
) -> float:
    """Return the sum of a 1-D array, with differential privacy.

    Parameters
    ----------
    x : array-like of shape (n_samples,)
        Numbers. The other parameters are those of :class:`DPSum`.

    Returns
    -------
    float

    Examples
    --------
    >>> from skdp import stats
    >>> 9000 < stats.total([10] * 1000, epsilon=1.0, bounds=(0, 20)) < 11000
    True
    """
    model = DPSum(
        epsilon,
        delta,
        bounds=bounds,
        method=method,
        missing=missing,
        n_samples_hint=n_samples_hint,
        neighboring=neighboring,
        accountant=accountant,
        random_state=random_state,
    )
    return float(model.fit(as_table(x)).sum_[0])
