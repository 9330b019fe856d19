"""Private covariance matrices."""

import math
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.utils.validation import check_is_fitted

from skdp import events
from skdp.stats._base import BoundedStatistic, Plan, Table
from skdp.stats._coinpress import coinpress, plan_coinpress
from skdp.stats._range import RangePlan
from skdp.stats._release import half_width
from skdp.stats._second_moments import (
    Moments,
    box_rows,
    plan_moments,
    positive_part,
    release_moments,
)
from skdp.validation import check_integer, check_option, check_real

__all__ = ["DPCovariance", "cov"]

_METHODS = ("auto", "laplace", "gaussian", "coinpress")


def _moment_noise(found: Moments, center: np.ndarray, inner: np.ndarray) -> np.ndarray:
    """Return the standard deviations of the noise of ``gram/count - center center^T``.

    By the slopes in the second moments, the sums and the count.
    """
    squares = center**2
    lever = squares[:, None] + squares[None, :]
    lever[np.diag_indices_from(lever)] *= 2
    variance = found.gram_std**2 + lever * found.sums_std**2
    variance += (np.outer(center, center) - inner) ** 2 * found.count_std**2
    return np.sqrt(variance) / found.count


def _box_sampling(
    center: np.ndarray, variance: np.ndarray, inner: np.ndarray, count: float
) -> np.ndarray:
    """Return the largest sampling errors of covariances of values in [-1, 1].

    ``|t - center| <= r``, so that the mean of a product of squares is at most
    ``r_j^2 variance_i``.
    """
    square = (1 + np.abs(center)) ** 2
    most = np.minimum(np.outer(variance, square), np.outer(square, variance))
    return np.sqrt(np.maximum(most - inner**2, 0) / count)


def _within(matrix: np.ndarray) -> np.ndarray:
    """Return a covariance matrix of values in [-1, 1]: no variance is above one."""
    shrink = 1 / np.sqrt(np.maximum(np.diag(matrix), 1.0))
    return matrix * np.outer(shrink, shrink)


class DPCovariance(BoundedStatistic, BaseEstimator):
    """Covariance matrix and mean, with differential privacy.

    Parameters
    ----------
    epsilon : float, default=1.0
        Privacy parameter > 0, for all of it together.
    delta : float, default=1e-6
        Privacy parameter in [0, 1). 0 is pure differential privacy, with much more
        noise where there are many features.
    bounds : pair, default=(-1, 1)
        Public bounds of the values, numbers or one for each feature; values outside
        are clipped, without a warning, since one would tell about the data. Set them:
        the default fits few data. None finds them within ``outer_bounds``.
    outer_bounds : pair, default=None
        For ``bounds=None``, wide public bounds: 30 % of epsilon go to two quartiles of
        each feature, and values are clipped 4.5 interquartile ranges around them.
    row_norm : float, default=None
        Public bound of the norm of a row, in half widths of the bounds from their
        middle; longer rows are scaled back. None is the root of the number of
        features, which no row exceeds. The noise goes with its square: for many
        features a smaller one is better.
    ddof : {0, 1}, default=0
        Degrees of freedom: the sums of products are divided by n - ddof.
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
        What to do with NaN. "drop" leaves out rows that have any, and treats the number
        of the others as private.
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
    covariance_ : ndarray of shape (n_features, n_features)
        Noisy covariance matrix, symmetric; negative eigenvalues count as 0, and no
        variance is larger than the bounds allow.
    location_ : ndarray of shape (n_features,)
        Noisy mean, within the bounds.
    standard_error_ : ndarray of shape (n_features, n_features)
        Standard deviation of the noise of ``covariance_``.
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
    (epsilon, delta)-DP under ``neighboring``. Second moments, sums and (where it is
    private) the number of rows are one release, with noise for their joint sensitivity;
    "coinpress" is several releases with shares fixed in advance (docs, theory of
    covariances). Rounding errors of the sums are part of the sensitivity. Assumes that
    bounds, ``row_norm``, ``radius`` and ``spread`` are chosen without the private data.
    That data is Gaussian is never assumed for privacy.

    References
    ----------
    Dwork, Talwar, Thakurta and Zhang (2014). Analyze Gauss: optimal bounds for
    privacy-preserving principal component analysis.

    Biswas, Dong, Kamath and Ullman (2020). CoinPress: practical private mean and
    covariance estimation.

    Examples
    --------
    >>> import numpy as np
    >>> from skdp.stats import DPCovariance
    >>> X = np.random.default_rng(0).uniform(-1, 1, size=(5000, 2))
    >>> X[:, 1] = (X[:, 0] + X[:, 1]) / 2
    >>> model = DPCovariance(epsilon=1.0, bounds=(-1, 1)).fit(X)
    >>> bool(np.abs(model.covariance_ - np.cov(X.T)).max() < 0.05)
    True
    >>> bool(0.5 < model.correlation()[0, 1] < 0.9)
    True
    """

    _value = "location_"

    def __init__(
        self,
        epsilon: float = 1.0,
        delta: float = 1e-6,
        *,
        bounds: Any = (-1, 1),
        outer_bounds: Any = None,
        row_norm: float | None = None,
        ddof: int = 0,
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
        self.row_norm = row_norm
        self.ddof = ddof
        self.method = method
        self.radius = radius
        self.spread = spread
        self.missing = missing
        self.n_samples_hint = n_samples_hint
        self.neighboring = neighboring
        self.accountant = accountant
        self.random_state = random_state

    # --- Public quantities

    def _check_parameters(self) -> None:
        super()._check_parameters()
        check_option(self.method, "method", _METHODS)
        check_integer(self.ddof, "ddof", low=0, high=1)
        check_real(self.row_norm, "row_norm", low=1e-50, high=1e50, none=True)
        if self.method == "coinpress" and self.missing == "drop":
            raise ValueError(
                "method='coinpress' pairs the rows by their place: it takes "
                "missing='error'. Got missing='drop'."
            )

    def _norm(self, n_features: int) -> float:
        """Return the bound of a row's norm, in half widths."""
        largest = math.sqrt(n_features)
        return largest if self.row_norm is None else min(largest, float(self.row_norm))

    def _search(self, n_samples: int, n_features: int) -> RangePlan | None:
        if self.method == "coinpress":
            return None
        return super()._search(n_samples, n_features)

    def _plan_release(
        self, n_samples: int, n_features: int, epsilon: float
    ) -> tuple[Any, events.Event]:
        if self.method == "coinpress":
            plan = plan_coinpress(
                n_samples,
                n_features,
                epsilon,
                self.delta,
                radius=self.radius,
                spread=self.spread,
                target="covariance",
                neighboring=self.neighboring,
            )
            return plan, plan.event
        plan = plan_moments(
            n_features,
            self._public_rows(n_samples),
            epsilon,
            self.delta,
            self.method,
            self.neighboring,
            missing=self.missing == "drop",
            largest=min(1.0, 1 / self._norm(n_features)),
        )
        return plan, plan.event

    # --- The fit

    def _release(self, plan: Plan, data: Table, bits: Any, sampling: Any) -> None:
        if self.method == "coinpress":
            self._release_coinpress(plan, data.X, bits)
        else:
            self._release_moments(plan, data, bits)

    def _release_moments(self, plan: Plan, data: Table, bits: Any) -> None:
        low, high = self._find_bounds(plan, data, bits)
        (n_rows, d), half = data.X.shape, (high - low) / 2
        norm, missing = self._norm(d), self.missing == "drop"
        blocks = box_rows(data.X, low, high, norm, missing)
        found = release_moments(plan.release, blocks, d, n_rows, bits)
        count = found.count
        # From here on in half widths; ``norm`` was the unit of the rows.
        center = np.clip(norm * found.sums / count, -1, 1)
        unit = center / norm
        inner = positive_part(found.gram / count - np.outer(unit, unit))
        noise = norm**2 * _moment_noise(found, unit, inner)
        inner = _within(norm**2 * inner)
        spread = np.minimum(np.diag(inner) + 2 * np.diag(noise), 1.0)
        sampled = _box_sampling(center, spread, inner, count)
        scale = np.outer(half, half) * (count / max(count - self.ddof, 1.0))
        self.location_ = np.clip(low / 2 + high / 2 + half * center, low, high)
        self.covariance_ = scale * inner
        self.standard_error_, self._sampling = scale * noise, scale * sampled
        self._kind, self._most = plan.release.release.kind, scale

    def _release_coinpress(self, plan: Plan, X: np.ndarray, bits: Any) -> None:
        found = coinpress(plan.release, X, bits)
        scale = len(X) / max(len(X) - self.ddof, 1)
        self.location_, self.covariance_ = found.mean, scale * found.covariance
        self.standard_error_ = scale * found.covariance_std
        diagonal = np.diag(self.covariance_)
        square = np.outer(diagonal, diagonal) + self.covariance_**2
        self._sampling = np.sqrt(square / len(X))  # of Gaussian rows
        self._kind, self._most = "gaussian", np.full(square.shape, np.inf)

    def _assumptions(self) -> tuple[str, ...]:
        found = super()._assumptions()
        if self.method != "coinpress":
            return found
        return (found[0], "radius and spread were chosen without the data")

    # --- After the fit

    def correlation(self) -> np.ndarray:
        """Return the correlation matrix, from released values: it costs nothing.

        A feature whose noisy variance is 0 has correlation 0 with the others.

        Returns
        -------
        ndarray of shape (n_features, n_features)
        """
        check_is_fitted(self, self._value)
        deviation = np.sqrt(np.diag(self.covariance_))
        safe = np.where(deviation > 0, deviation, 1.0)
        found = np.clip(self.covariance_ / safe[:, None] / safe[None, :], -1, 1)
        np.fill_diagonal(found, 1.0)
        return found

    def interval(self, confidence: float = 0.95) -> tuple[np.ndarray, np.ndarray]:
        """Return a confidence interval of each covariance.

        It counts the noise and the sampling of the rows: within bounds by the largest
        variance that products can have, for "coinpress" by that of Gaussian rows. It
        costs nothing: it is computed from released values. What was clipped is not
        counted.

        Parameters
        ----------
        confidence : float, default=0.95
            For each covariance by itself.

        Returns
        -------
        low, high : ndarray of shape (n_features, n_features)
        """
        return super().interval(confidence)

    def _interval(self, level: float) -> tuple[np.ndarray, np.ndarray]:
        upper = np.triu_indices(len(self.covariance_))
        reach = np.empty_like(self.covariance_)
        reach[upper] = reach.T[upper] = [
            half_width(self._kind, *stds, level)
            for stds in zip(
                self.standard_error_[upper], self._sampling[upper], strict=True
            )
        ]
        least = -self._most
        np.fill_diagonal(least, 0.0)
        low = np.maximum(self.covariance_ - reach, least)
        return low, np.minimum(self.covariance_ + reach, self._most)


def cov(
    X: Any,
    epsilon: float = 1.0,
    delta: float = 1e-6,
    *,
    bounds: Any,
    outer_bounds: Any = None,
    row_norm: float | None = None,
    ddof: int = 0,
    method: str = "auto",
    radius: float = 100.0,
    spread: Any = (0.1, 10),
    missing: str = "error",
    n_samples_hint: int | None = None,
    neighboring: str = "replace",
    accountant: Any = None,
    random_state: Any = None,
) -> np.ndarray:
    """Return the covariance matrix of a table, with differential privacy.

    Parameters
    ----------
    X : array-like of shape (n_samples, n_features)
        Rows are samples, other than in ``numpy.cov``. The other parameters are those
        of :class:`DPCovariance`.

    Returns
    -------
    ndarray of shape (n_features, n_features)

    Examples
    --------
    >>> from skdp import stats
    >>> stats.cov([[0.0, 1.0], [1.0, 0.0]] * 500, bounds=(0, 1)).shape
    (2, 2)
    """
    model = DPCovariance(
        epsilon,
        delta,
        bounds=bounds,
        outer_bounds=outer_bounds,
        row_norm=row_norm,
        ddof=ddof,
        method=method,
        radius=radius,
        spread=spread,
        missing=missing,
        n_samples_hint=n_samples_hint,
        neighboring=neighboring,
        accountant=accountant,
        random_state=random_state,
    )
    return model.fit(X).covariance_
