"""Private means."""

from typing import Any

import numpy as np
from sklearn.base import BaseEstimator

from skdp import events
from skdp.stats._base import BoundedStatistic, Plan, Table
from skdp.stats._coinpress import coinpress_mean, plan_coinpress
from skdp.stats._range import RangePlan
from skdp.stats._release import half_width, plan_release
from skdp.stats._sums import (
    as_table,
    bernstein,
    bernstein_sensitivities,
    read_bernstein,
    table_sums,
    total_sensitivities,
)
from skdp.validation import check_option

__all__ = ["DPMean", "mean"]

_METHODS = ("auto", "laplace", "gaussian", "coinpress")


class DPMean(BoundedStatistic, BaseEstimator):
    """Mean of every feature, with differential privacy.

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
    method : {"auto", "laplace", "gaussian", "coinpress"}, default="auto"
        Noise. "auto" takes the one with less of it. "coinpress" needs no ``bounds``: it
        clips to balls that shrink from step to step, starting from ``radius`` and
        ``spread``, and suits roughly Gaussian data of hardly known scale. It takes
        delta > 0, "replace" and no missing values.
    radius : float, default=100.0
        For "coinpress", a public bound of the norm of the mean.
    spread : pair, default=(0.1, 10)
        For "coinpress", public bounds of the standard deviation in every direction.
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
    mean_ : ndarray of shape (n_features,)
        Noisy means, within the bounds.
    standard_error_ : ndarray of shape (n_features,)
        Standard deviation of the noise.
    bounds_ : ndarray of shape (2, n_features)
        The bounds used, given or found; not for "coinpress".
    n_features_in_ : int
        Number of features.
    feature_names_in_ : ndarray
        Names of the features, where X has them.
    privacy_ : PrivacyGuarantee
        What the fit guarantees; prints as a sentence.

    Guarantee
    ---------
    (epsilon, delta)-DP under ``neighboring``. Where the number of values is public, the
    sum of each feature gets noise; where it is private, the two Bernstein sums do, from
    which mean and number follow (docs, theory of statistics). Rounding errors of the
    sums are part of their sensitivity. "coinpress" is several Gaussian releases with
    shares fixed in advance. Assumes that bounds, outer bounds, ``radius`` and
    ``spread`` are chosen without the private data.

    References
    ----------
    Dwork, McSherry, Nissim and Smith (2006). Calibrating noise to sensitivity in
    private data analysis.
    Biswas, Dong, Kamath and Ullman (2020). CoinPress: practical private mean and
    covariance estimation.

    Examples
    --------
    >>> import numpy as np
    >>> from skdp.stats import DPMean
    >>> ages = np.random.default_rng(0).integers(18, 90, size=(1000, 1))
    >>> model = DPMean(epsilon=1.0, bounds=(0, 100)).fit(ages)
    >>> bool(abs(model.mean_[0] - ages.mean()) < 3)
    True
    >>> low, high = model.interval(0.95)
    >>> print(model.privacy_)  # doctest: +ELLIPSIS
    Differentially private with epsilon = 1, when one row is replaced...
    """

    _value = "mean_"

    def __init__(
        self,
        epsilon: float = 1.0,
        delta: float = 0.0,
        *,
        bounds: Any = (-1, 1),
        outer_bounds: Any = None,
        method: str = "auto",
        radius: float = 100.0,
        spread: Any = (0.1, 10),
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
        self.method = method
        self.radius = radius
        self.spread = spread
        self.missing = missing
        self.n_samples_hint = n_samples_hint
        self.neighboring = neighboring
        self.accountant = accountant
        self.random_state = random_state

    def _check_parameters(self) -> None:
        super()._check_parameters()
        check_option(self.method, "method", _METHODS)
        if self.method == "coinpress" and self.missing == "drop":
            raise ValueError(
                "method='coinpress' pairs the rows by their place: it takes "
                "missing='error'. Got missing='drop'."
            )

    def _search(self, n_samples: int, n_features: int) -> RangePlan | None:
        if self.method == "coinpress":
            return None
        return super()._search(n_samples, n_features)

    def _plan_release(
        self, n_samples: int, n_features: int, epsilon: float
    ) -> tuple[Any, events.Event]:
        if self.method == "coinpress":
            release = plan_coinpress(
                n_samples,
                n_features,
                epsilon,
                self.delta,
                radius=self.radius,
                spread=self.spread,
                neighboring=self.neighboring,
            )
            return release, release.event
        n_rows = self._public_rows(n_samples)
        if self._counted():
            norms = bernstein_sensitivities(n_features, n_rows, self.neighboring)
        else:  # of the sums of t
            norms = total_sensitivities(n_features, n_rows)
        price = (epsilon, self.delta, self.method, self.neighboring)
        release = plan_release(*norms, *price, size=2 * n_features)
        return release, release.event

    def _release(self, plan: Plan, data: Table, bits: Any, sampling: Any) -> None:
        if self.method == "coinpress":
            found = coinpress_mean(plan.release, data.X, bits)
            self.mean_, self.standard_error_, rough = found
            self._sampling, self._kind = np.sqrt(rough / len(data.X)), "gaussian"
        else:
            self._release_bounded(plan, data, bits)

    def _release_bounded(self, plan: Plan, data: Table, bits: Any) -> None:
        low, high = self._find_bounds(plan, data, bits)
        sums = table_sums(data.X, low, high, 1, self.missing == "drop")
        if self._counted():
            noisy = plan.release.add(bernstein(sums), bits)
            count, share, gain = read_bernstein(noisy)
        else:
            count = np.full(low.size, float(len(data.X)))
            share = np.clip(plan.release.add(sums.first, bits) / count, 0, 1)
            gain = 1 / count
        self.mean_ = low + (high - low) * share
        self.standard_error_ = (high - low) * gain * plan.release.std
        # The variance of values in [0, 1] with this mean is share (1 - share) at most.
        reach = np.minimum(np.abs(share - 0.5), 2 * gain * plan.release.std)
        share = share - np.copysign(reach, share - 0.5)
        self._sampling = (high - low) * np.sqrt(share * (1 - share) / count)
        self._kind = plan.release.kind

    def _interval(self, level: float) -> tuple[np.ndarray, np.ndarray]:
        reach = [
            half_width(self._kind, noise, other, level)
            for noise, other in zip(self.standard_error_, self._sampling, strict=True)
        ]
        low, high = self.mean_ - reach, self.mean_ + reach
        if self.method == "coinpress":
            return low, high
        return np.maximum(low, self.bounds_[0]), np.minimum(high, self.bounds_[1])

    def _assumptions(self) -> tuple[str, ...]:
        found = super()._assumptions()
        if self.method != "coinpress":
            return found
        return (found[0], "radius and spread were chosen without the data")


def mean(
    x: Any,
    epsilon: float = 1.0,
    delta: float = 0.0,
    *,
    bounds: Any,
    outer_bounds: Any = None,
    method: str = "auto",
    radius: float = 100.0,
    spread: Any = (0.1, 10),
    missing: str = "error",
    n_samples_hint: int | None = None,
    neighboring: str = "replace",
    accountant: Any = None,
    random_state: Any = None,
) -> float:
    """Return the mean of a 1-D array, with differential privacy.

    Parameters
    ----------
    x : array-like of shape (n_samples,)
        Numbers. The other parameters are those of :class:`DPMean`.

    Returns
    -------
    float

    Examples
    --------
    >>> from skdp import stats
    >>> ages = [23, 45, 67, 34, 51] * 200
    >>> 40 < stats.mean(ages, epsilon=1.0, bounds=(0, 100)) < 48
    True
    """
    model = DPMean(
        epsilon,
        delta,
        bounds=bounds,
        outer_bounds=outer_bounds,
        method=method,
        radius=radius,
        spread=spread,
        missing=missing,
        n_samples_hint=n_samples_hint,
        neighboring=neighboring,
        accountant=accountant,
        random_state=random_state,
    )
    return float(model.fit(as_table(x)).mean_[0])
