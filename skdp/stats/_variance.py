"""Private variances and standard deviations."""

import math
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator

from skdp import events
from skdp.stats._base import BoundedStatistic, Plan, Table
from skdp.stats._release import Release, half_width, plan_release
from skdp.stats._sums import (
    as_table,
    bernstein,
    bernstein_sensitivities,
    read_bernstein,
    sum_error,
    table_sums,
)
from skdp.validation import check_integer, check_option

__all__ = ["DPStandardDeviation", "DPVariance", "std", "var"]

_METHODS = ("auto", "laplace", "gaussian")


class _Spread(BoundedStatistic):
    """What variance and standard deviation share: the release of the variance."""

    ddof: int
    method: str

    def _check_parameters(self) -> None:
        super()._check_parameters()
        check_option(self.method, "method", _METHODS)
        check_integer(self.ddof, "ddof", low=0, high=1)

    def _plan_release(
        self, n_samples: int, n_features: int, epsilon: float
    ) -> tuple[Release, events.Event]:
        n_rows = self._public_rows(n_samples)
        if self._counted():
            norms = bernstein_sensitivities(n_features, n_rows, self.neighboring)
        else:  # of the variances of t, n known
            change = max((n_rows - 1) / n_rows**2, 1e-300)
            size = change + 4 * sum_error(n_features, n_rows) / n_rows
            norms = n_features * size, math.sqrt(n_features) * size
        price = (epsilon, self.delta, self.method, self.neighboring)
        release = plan_release(*norms, *price, size=3 * n_features)
        return release, release.event

    def _release_variance(
        self, plan: Plan, data: Table, bits: Any
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Return noisy variances, the noise's and the sampling's standard error."""
        low, high = self._find_bounds(plan, data, bits)
        sums = table_sums(data.X, low, high, 2, self.missing == "drop")
        if self._counted():
            noisy = plan.release.add(bernstein(sums), bits)
            count, _, _, variance, gain = read_bernstein(noisy)
        else:
            count = np.full(low.size, float(len(data.X)))
            exact = sums.second / count - (sums.first / count) ** 2
            variance = np.clip(plan.release.add(exact, bits), 0, 0.25)
            gain = np.ones(low.size)
        noise = gain * plan.release.std
        # (t - mean)^2 is in [0, 1] with this mean: its variance is v (1 - v) at most.
        safe = np.minimum(variance + 2 * noise, 0.25)
        sampling = np.sqrt(safe * (1 - safe) / count)
        scale = (high - low) ** 2 * count / np.maximum(count - self.ddof, 1)
        self._kind = plan.release.kind
        return scale * variance, scale * noise, scale * sampling

    def _variance_interval(
        self,
        variance: np.ndarray,
        noise: np.ndarray,
        sampling: np.ndarray,
        level: float,
    ) -> tuple[np.ndarray, np.ndarray]:
        reach = [
            half_width(self._kind, *stds, level)
            for stds in zip(noise, sampling, strict=True)
        ]
        most = (self.bounds_[1] - self.bounds_[0]) ** 2 / (2 if self.ddof else 4)
        return np.maximum(variance - reach, 0), np.minimum(variance + reach, most)


class DPVariance(_Spread, BaseEstimator):
    """Variance of every feature, with differential privacy.

    Parameters
    ----------
    epsilon : float, default=1.0
        Privacy parameter > 0, for all features together.
    delta : float, default=0.0
        Privacy parameter in [0, 1). 0 is pure differential privacy.
    bounds : pair, default=(-1, 1)
        Public bounds of the values, numbers or one for each feature; values outside
        are clipped, without a warning, since one would tell about the data. Set them:
        the default fits few data. None finds them within ``outer_bounds``.
    outer_bounds : pair, default=None
        For ``bounds=None``, wide public bounds: 30 % of epsilon go to two quartiles of
        each feature, and values are clipped 4.5 interquartile ranges around them.
    ddof : {0, 1}, default=0
        Degrees of freedom: the sum of squares is divided by n - ddof.
    method : {"auto", "laplace", "gaussian"}, default="auto"
        Noise. "auto" takes the one with less of it.
    missing : {"error", "drop"}, default="error"
        What to do with NaN. "drop" leaves it out, feature by feature, and treats the
        number of valid values as private.
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
    var_ : ndarray of shape (n_features,)
        Noisy variances, not negative.
    standard_error_ : ndarray of shape (n_features,)
        Standard deviation of the noise.
    bounds_ : ndarray of shape (2, n_features)
        The bounds used, given or found.
    n_features_in_ : int
        Number of features.
    feature_names_in_ : ndarray
        Names of the features, where X has them.
    privacy_ : PrivacyGuarantee
        What the fit guarantees; prints as a sentence.

    Guarantee
    ---------
    (epsilon, delta)-DP under ``neighboring``. Where the number of values is public, the
    variance gets noise for the sensitivity ``width^2 (n - 1)/n^2``; where it is
    private, the three Bernstein sums do, from which number, mean and variance follow
    (docs, theory of statistics). Rounding errors are part of the sensitivity. Assumes
    that the bounds, and the outer bounds, are chosen without the private data.

    References
    ----------
    Dwork, McSherry, Nissim and Smith (2006). Calibrating noise to sensitivity in
    private data analysis.

    Examples
    --------
    >>> import numpy as np
    >>> from skdp.stats import DPVariance
    >>> X = np.random.default_rng(0).uniform(0, 10, size=(5000, 1))
    >>> model = DPVariance(epsilon=1.0, bounds=(0, 10)).fit(X)
    >>> bool(abs(model.var_[0] - X.var()) < 1)
    True
    """

    _value = "var_"

    def __init__(
        self,
        epsilon: float = 1.0,
        delta: float = 0.0,
        *,
        bounds: Any = (-1, 1),
        outer_bounds: Any = None,
        ddof: int = 0,
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
        self.outer_bounds = outer_bounds
        self.ddof = ddof
        self.method = method
        self.missing = missing
        self.n_samples_hint = n_samples_hint
        self.neighboring = neighboring
        self.accountant = accountant
        self.random_state = random_state

    def _release(self, plan: Plan, data: Table, bits: Any, sampling: Any) -> None:
        found = self._release_variance(plan, data, bits)
        self.var_, self.standard_error_, self._sampling = found

    def _interval(self, level: float) -> tuple[np.ndarray, np.ndarray]:
        stds = self.standard_error_, self._sampling
        return self._variance_interval(self.var_, *stds, level)


class DPStandardDeviation(_Spread, BaseEstimator):
    """Standard deviation of every feature, with differential privacy.

    It is the root of the noisy variance, and never nan: a negative noisy variance
    counts as 0.

    Parameters
    ----------
    epsilon : float, default=1.0
        Privacy parameter > 0, for all features together.
    delta : float, default=0.0
        Privacy parameter in [0, 1). 0 is pure differential privacy.
    bounds : pair, default=(-1, 1)
        Public bounds of the values, numbers or one for each feature; values outside
        are clipped, without a warning, since one would tell about the data. Set them:
        the default fits few data. None finds them within ``outer_bounds``.
    outer_bounds : pair, default=None
        For ``bounds=None``, wide public bounds: 30 % of epsilon go to two quartiles of
        each feature, and values are clipped 4.5 interquartile ranges around them.
    ddof : {0, 1}, default=0
        Degrees of freedom: the sum of squares is divided by n - ddof.
    method : {"auto", "laplace", "gaussian"}, default="auto"
        Noise. "auto" takes the one with less of it.
    missing : {"error", "drop"}, default="error"
        What to do with NaN. "drop" leaves it out, feature by feature, and treats the
        number of valid values as private.
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
    std_ : ndarray of shape (n_features,)
        Noisy standard deviations, not negative.
    standard_error_ : ndarray of shape (n_features,)
        Approximate standard deviation of the noise, by the slope of the root.
    bounds_ : ndarray of shape (2, n_features)
        The bounds used, given or found.
    n_features_in_ : int
        Number of features.
    feature_names_in_ : ndarray
        Names of the features, where X has them.
    privacy_ : PrivacyGuarantee
        What the fit guarantees; prints as a sentence.

    Guarantee
    ---------
    That of :class:`DPVariance`, of which it is a function.

    Examples
    --------
    >>> import numpy as np
    >>> from skdp.stats import DPStandardDeviation
    >>> X = np.random.default_rng(0).uniform(0, 10, size=(5000, 1))
    >>> model = DPStandardDeviation(epsilon=1.0, bounds=(0, 10)).fit(X)
    >>> bool(abs(model.std_[0] - X.std()) < 0.2)
    True
    """

    _value = "std_"

    def __init__(
        self,
        epsilon: float = 1.0,
        delta: float = 0.0,
        *,
        bounds: Any = (-1, 1),
        outer_bounds: Any = None,
        ddof: int = 0,
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
        self.outer_bounds = outer_bounds
        self.ddof = ddof
        self.method = method
        self.missing = missing
        self.n_samples_hint = n_samples_hint
        self.neighboring = neighboring
        self.accountant = accountant
        self.random_state = random_state

    def _release(self, plan: Plan, data: Table, bits: Any, sampling: Any) -> None:
        self._variance = self._release_variance(plan, data, bits)
        variance, noise, _ = self._variance
        self.std_ = np.sqrt(variance)
        # The root's slope, or where it is steep what the noise alone would give.
        self.standard_error_ = noise / np.maximum(2 * self.std_, np.sqrt(noise))

    def _interval(self, level: float) -> tuple[np.ndarray, np.ndarray]:
        low, high = self._variance_interval(*self._variance, level)
        return np.sqrt(low), np.sqrt(high)


def var(
    x: Any,
    epsilon: float = 1.0,
    delta: float = 0.0,
    *,
    bounds: Any,
    outer_bounds: Any = None,
    ddof: int = 0,
    method: str = "auto",
    missing: str = "error",
    n_samples_hint: int | None = None,
    neighboring: str = "replace",
    accountant: Any = None,
    random_state: Any = None,
) -> float:
    """Return the variance of a 1-D array, with differential privacy.

    Parameters
    ----------
    x : array-like of shape (n_samples,)
        Numbers. The other parameters are those of :class:`DPVariance`.

    Returns
    -------
    float

    Examples
    --------
    >>> from skdp import stats
    >>> stats.var([0, 10] * 1000, epsilon=1.0, bounds=(0, 10)) > 20
    True
    """
    model = DPVariance(
        epsilon,
        delta,
        bounds=bounds,
        outer_bounds=outer_bounds,
        ddof=ddof,
        method=method,
        missing=missing,
        n_samples_hint=n_samples_hint,
        neighboring=neighboring,
        accountant=accountant,
        random_state=random_state,
    )
    return float(model.fit(as_table(x)).var_[0])


def std(
    x: Any,
    epsilon: float = 1.0,
    delta: float = 0.0,
    *,
    bounds: Any,
    outer_bounds: Any = None,
    ddof: int = 0,
    method: str = "auto",
    missing: str = "error",
    n_samples_hint: int | None = None,
    neighboring: str = "replace",
    accountant: Any = None,
    random_state: Any = None,
) -> float:
    """Return the standard deviation of a 1-D array, with differential privacy.

    Parameters
    ----------
    x : array-like of shape (n_samples,)
        Numbers. The other parameters are those of :class:`DPStandardDeviation`.

    Returns
    -------
    float

    Examples
    --------
    >>> from skdp import stats
    >>> stats.std([0, 10] * 1000, epsilon=1.0, bounds=(0, 10)) > 4.5
    True
    """
    model = DPStandardDeviation(
        epsilon,
        delta,
        bounds=bounds,
        outer_bounds=outer_bounds,
        ddof=ddof,
        method=method,
        missing=missing,
        n_samples_hint=n_samples_hint,
        neighboring=neighboring,
        accountant=accountant,
        random_state=random_state,
    )
    return float(model.fit(as_table(x)).std_[0])
