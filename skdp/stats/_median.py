"""Private medians."""

from typing import Any

import numpy as np
from sklearn.base import BaseEstimator

from skdp import events
from skdp.mechanisms import SmoothSensitivity, smooth_sensitivity_median
from skdp.noise import RandomBits
from skdp.stats._quantile_base import Quantiles
from skdp.stats._quantile_core import (
    Grid,
    equal_share,
    release_quantile,
    single_event,
)
from skdp.stats._sums import as_table
from skdp.validation import check_option

__all__ = ["DPMedian", "median"]

_METHODS = ("exponential", "smooth-laplace", "smooth-cauchy", "smooth-gaussian")


class DPMedian(Quantiles, BaseEstimator):
    """Median of every feature, with differential privacy.

    Parameters
    ----------
    epsilon : float, default=1.0
        Privacy parameter > 0, for all features together.
    delta : float, default=0.0
        Privacy parameter in [0, 1); positive for "smooth-laplace" and
        "smooth-gaussian", and not used by the others.
    bounds : pair, default=(-1, 1)
        Public bounds of the values, numbers or one for each feature; values outside
        are clipped, without a warning, since one would tell about the data. Set them:
        the default fits few data.
    method : str, default="exponential"
        "exponential", or noise scaled to the smooth sensitivity of the median:
        "smooth-laplace", "smooth-cauchy" or "smooth-gaussian". The smooth ones are for
        ``neighboring="replace"`` without missing values.
    resolution : float, default=None
        Distance of the points of the public grid. None for 2**20 equal steps between
        the bounds. Take 1 for whole numbers. For "exponential".
    confidence : float, default=None
        Also release what :meth:`interval` needs for this confidence, with half of the
        budget.
    missing : {"error", "drop"}, default="error"
        What to do with NaN. "drop" leaves it out, feature by feature, and treats the
        number of valid values as private.
    n_samples_hint : int, default=None
        For ``confidence``, where the number of values is private: a public guess of
        it, at most twice too large.
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
    median_ : ndarray of shape (n_features,)
        Noisy medians, within the bounds. The smooth methods take the value of rank
        ceil(n/2), not the mean of the two in the middle.
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
    epsilon-DP under ``neighboring`` for "exponential" and "smooth-cauchy", (epsilon,
    delta)-DP for the other two (docs, theory of quantiles and of mechanisms). How large
    the noise is depends on the data, so there is no ``standard_error_``. Assumes that
    the bounds and the resolution are chosen without the private data.

    References
    ----------
    Smith (2011). Privacy-preserving statistical estimation with optimal convergence
    rates.
    Nissim, Raskhodnikova and Smith (2007). Smooth sensitivity and sampling in private
    data analysis.

    Examples
    --------
    >>> import numpy as np
    >>> from skdp.stats import DPMedian
    >>> ages = np.random.default_rng(0).integers(18, 90, size=(1000, 1))
    >>> model = DPMedian(epsilon=1.0, bounds=(0, 100), resolution=1).fit(ages)
    >>> bool(abs(model.median_[0] - np.median(ages)) <= 3)
    True
    """

    _value = "median_"

    def __init__(
        self,
        epsilon: float = 1.0,
        delta: float = 0.0,
        *,
        bounds: Any = (-1, 1),
        method: str = "exponential",
        resolution: float | None = None,
        confidence: float | None = None,
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
        self.resolution = resolution
        self.confidence = confidence
        self.missing = missing
        self.n_samples_hint = n_samples_hint
        self.neighboring = neighboring
        self.accountant = accountant
        self.random_state = random_state

    def _levels(self) -> np.ndarray:
        return np.array([0.5])

    def _check_parameters(self) -> None:
        check_option(self.method, "method", _METHODS)
        if self.method != "exponential":
            if self._counted():
                raise ValueError(
                    f"method={self.method!r} needs neighboring='replace' and "
                    "missing='error': its theorem is about a public number of values. "
                    "Use method='exponential'."
                )
            if self.method != "smooth-cauchy" and self.delta == 0:
                raise ValueError(
                    f"method={self.method!r} needs delta > 0. Got delta=0. Use "
                    "method='exponential' or 'smooth-cauchy' for pure privacy."
                )
        super()._check_parameters()

    def _smooth(
        self, bounds: tuple[float, float], epsilon: float, delta: float
    ) -> SmoothSensitivity:
        kind = self.method.removeprefix("smooth-")
        return SmoothSensitivity(
            epsilon, bounds, kind, 0.0 if kind == "cauchy" else delta
        )

    def _point_event(self, epsilon: float, delta: float, grid: Grid) -> events.Event:
        if self.method == "exponential":
            return single_event(epsilon, self.neighboring)
        return self._smooth((grid.low, grid.high), epsilon, delta).event

    def _release_points(
        self,
        values: np.ndarray,
        grid: Grid,
        epsilon: float,
        n_features: int,
        bits: RandomBits,
    ) -> np.ndarray:
        if self.method == "exponential":
            price = (epsilon, self.neighboring, bits)
            return np.array([release_quantile(values, 0.5, grid, *price)])
        bounds = (grid.low, grid.high)
        delta = equal_share(self.delta, n_features) if self.delta else 0.0
        mechanism = self._smooth(bounds, epsilon, delta)
        values = np.clip(values, *bounds)
        rank = (values.size + 1) // 2 - 1
        middle = float(np.partition(values, rank)[rank])
        smooth = smooth_sensitivity_median(values, mechanism.beta, bounds)
        return np.array([mechanism.release(middle, smooth, bits)])

    def _publish(self, points: np.ndarray) -> None:
        self.median_ = points[0]


def median(
    x: Any,
    epsilon: float = 1.0,
    delta: float = 0.0,
    *,
    bounds: Any,
    method: str = "exponential",
    resolution: float | None = None,
    missing: str = "error",
    neighboring: str = "replace",
    accountant: Any = None,
    random_state: Any = None,
) -> float:
    """Return the median of a 1-D array, with differential privacy.

    Parameters
    ----------
    x : array-like of shape (n_samples,)
        Numbers. The other parameters are those of :class:`DPMedian`, without
        ``confidence``: a float has no interval.

    Returns
    -------
    float

    Examples
    --------
    >>> from skdp import stats
    >>> 400 < stats.median(range(1000), epsilon=1.0, bounds=(0, 1000)) < 600
    True
    """
    model = DPMedian(
        epsilon,
        delta,
        bounds=bounds,
        method=method,
        resolution=resolution,
        missing=missing,
        neighboring=neighboring,
        accountant=accountant,
        random_state=random_state,
    )
    return float(model.fit(as_table(x)).median_[0])
