"""Private principal component analysis."""

from typing import Any

import numpy as np
from sklearn.base import (
    BaseEstimator,
    ClassNamePrefixFeaturesOutMixin,
    TransformerMixin,
)
from sklearn.utils.validation import check_is_fitted

from skdp import events
from skdp.base import PrivateEstimator, check_hint
from skdp.inputs import as_rows, validated
from skdp.stats._base import Plan, Table
from skdp.stats._second_moments import ball_rows, plan_moments, release_moments
from skdp.validation import check_bool, check_integer, check_option, check_real

__all__ = ["DPPCA"]

_METHODS = ("auto", "laplace", "gaussian")


def _components(covariance: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return eigenvalues >= 0, the largest first, and eigenvectors as rows.

    The entry of largest size of each is positive.
    """
    values, vectors = np.linalg.eigh((covariance + covariance.T) / 2)
    values, vectors = np.maximum(values[::-1], 0.0), vectors.T[::-1].copy()
    rows = np.arange(len(vectors))
    signs = np.sign(vectors[rows, np.argmax(np.abs(vectors), axis=1)])
    return values, vectors * signs[:, None]


class DPPCA(
    ClassNamePrefixFeaturesOutMixin, TransformerMixin, PrivateEstimator, BaseEstimator
):
    """Principal component analysis, with differential privacy.

    What is private are the fitted components. ``transform`` maps the rows that it is
    given: of private rows the result is as private as the rows themselves.

    Parameters
    ----------
    n_components : int, default=None
        Number of components. None keeps as many as there are features.
    epsilon : float, default=1.0
        Privacy parameter > 0.
    delta : float, default=1e-6
        Privacy parameter in [0, 1). 0 is pure differential privacy, with much more
        noise where there are many features.
    data_norm : float, default=1.0
        Public bound of the L2 norm of a row (minus ``center``, where it is an array).
        Longer rows are scaled back, without a warning, since one would tell about the
        data. Set it: the default fits few data.
    center : "private", None or array of shape (n_features,), default="private"
        What is subtracted from the rows: "private", their mean, released together with
        the second moments; None, nothing; an array, these public numbers.
    whiten : bool, default=False
        Whether ``transform`` divides every component by its standard deviation (not
        less than that of the noise).
    method : {"auto", "laplace", "gaussian"}, default="auto"
        Noise. "auto" takes the one with less of it.
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
    components_ : ndarray of shape (n_components, n_features)
        Noisy directions of most variance, orthonormal. The entry of largest size of
        each is positive.
    explained_variance_ : ndarray of shape (n_components,)
        Noisy variances along them, not negative.
    explained_variance_ratio_ : ndarray of shape (n_components,)
        Their shares of the variance of all features.
    standard_error_ : float
        Largest standard deviation of the noise of a second moment along a fixed
        direction, as a variance.
    mean_ : ndarray of shape (n_features,)
        What is subtracted from the rows.
    n_components_ : int
        Number of components.
    n_features_in_ : int
        Number of features.
    feature_names_in_ : ndarray
        Names of the features, where X has them.
    privacy_ : PrivacyGuarantee
        What the fit guarantees; prints as a sentence.

    Guarantee
    ---------
    (epsilon, delta)-DP under ``neighboring``. Second moments of the clipped rows, with
    ``center="private"`` their sums and under "add_remove" their number, are one release
    with noise for their joint sensitivity (docs, theory of covariances); the rest is
    computed from it. Rounding errors of the sums are part of the sensitivity. Assumes
    that ``data_norm`` and ``center`` are chosen without the private data.

    References
    ----------
    Dwork, Talwar, Thakurta and Zhang (2014). Analyze Gauss: optimal bounds for
    privacy-preserving principal component analysis.

    Examples
    --------
    >>> import numpy as np
    >>> from skdp.decomposition import DPPCA
    >>> rng = np.random.default_rng(0)
    >>> X = np.outer(rng.uniform(-1, 1, size=5000), [0.8, 0.6])
    >>> pca = DPPCA(n_components=1, epsilon=1.0).fit(X)
    >>> np.round(np.abs(pca.components_[0]), 1)
    array([0.8, 0.6])
    >>> pca.transform(X).shape
    (5000, 1)
    """

    def __init__(
        self,
        n_components: int | None = None,
        epsilon: float = 1.0,
        delta: float = 1e-6,
        *,
        data_norm: float = 1.0,
        center: Any = "private",
        whiten: bool = False,
        method: str = "auto",
        n_samples_hint: int | None = None,
        neighboring: str = "replace",
        accountant: Any = None,
        random_state: Any = None,
    ) -> None:
        self.n_components = n_components
        self.epsilon = epsilon
        self.delta = delta
        self.data_norm = data_norm
        self.center = center
        self.whiten = whiten
        self.method = method
        self.n_samples_hint = n_samples_hint
        self.neighboring = neighboring
        self.accountant = accountant
        self.random_state = random_state

    def fit(self, X: Any, y: Any = None) -> "DPPCA":
        """Find the components, and pay for them.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Rows. Those longer than ``data_norm`` are scaled back.
        y : ignored
            For the API's sake.

        Returns
        -------
        self
        """
        return self._fit(X)

    # --- Public quantities

    def _check_parameters(self) -> None:
        check_real(self.data_norm, "data_norm", low=1e-100, high=1e100, closed="both")
        check_bool(self.whiten, "whiten")
        check_option(self.method, "method", _METHODS)
        check_hint(self.n_samples_hint)
        if self.n_components is not None:
            check_integer(self.n_components, "n_components", low=1)

    def _private_center(self) -> bool:
        return isinstance(self.center, str)

    def _center(self, n_features: int) -> np.ndarray:
        """Return what is subtracted before clipping: public numbers."""
        if self.center is None or self._private_center():
            if self.center is not None:
                check_option(self.center, "center", ("private",), none=True)
            return np.zeros(n_features)
        try:
            center = np.asarray(self.center, dtype=np.float64)
        except (TypeError, ValueError):
            center = np.full(1, np.nan)
        if center.shape != (n_features,) or not np.isfinite(center).all():
            raise ValueError(
                "The 'center' parameter must be 'private', None or an array of "
                f"{n_features} finite number(s). Got {self.center!r}."
            )
        return center

    def _plan(self, n_samples: int, n_features: int) -> Plan:
        """Return the plan; under "add_remove" it does not depend on n_samples."""
        self._check_budget()
        self._check_parameters()
        self._center(n_features)
        if self.n_components is not None:
            check_integer(self.n_components, "n_components", low=1, high=n_features)
        n_rows = self._public_rows(n_samples)
        price = (self.epsilon, self.delta, self.method, self.neighboring)
        release = plan_moments(n_features, n_rows, *price, sums=self._private_center())
        return Plan(release, release.event)

    def _plan_for(self, data: Table) -> Plan:
        self._check_rows(len(data.X))
        return self._plan(*data.X.shape)

    def privacy_cost(self, n_samples: int, n_features: int = 1) -> events.Event:
        """Return the event that a fit would spend, without spending it.

        Parameters
        ----------
        n_samples : int
            Number of rows.
        n_features : int, default=1
            Number of features.

        Returns
        -------
        Event
            What the fit would release. ``event.epsilon(delta)`` is its price.
        """
        check_integer(n_samples, "n_samples", low=1)
        check_integer(n_features, "n_features", low=1)
        return self._plan(n_samples, n_features).event

    # --- The fit

    def _validate(self, X: Any, y: Any = None) -> Table:
        self._check_parameters()
        return Table(validated(self, X, accept_sparse=False))

    def _release(self, plan: Plan, data: Table, bits: Any, sampling: Any) -> None:
        (n_rows, d), norm = data.X.shape, float(self.data_norm)
        start = self._center(d)
        blocks = ball_rows(data.X, start, norm)
        found = release_moments(plan.release, blocks, d, n_rows, bits)
        mean = found.sums / found.count
        mean /= max(1.0, float(np.linalg.norm(mean)))
        scale = norm**2 * found.count / max(found.count - 1, 1.0)
        covariance = scale * (found.gram / found.count - np.outer(mean, mean))
        values, vectors = _components(covariance)
        total, kept = float(values.sum()), self.n_components or d
        self.mean_ = start + norm * mean
        self.n_components_ = int(kept)
        self.components_ = vectors[:kept]
        self.explained_variance_ = values[:kept]
        self.explained_variance_ratio_ = values[:kept] / (total or 1.0)
        noise = plan.release.release
        worst = 1.0 if noise.kind == "gaussian" else np.sqrt(2)
        self.standard_error_ = float(scale * worst * noise.std / found.count)

    def _assumptions(self) -> tuple[str, ...]:
        found = ["every person is one row", "data_norm was chosen without the data"]
        if self.neighboring == "add_remove":
            found.append(f"there are at most {self._public_rows(0):,.0f} rows")
        return tuple(found)

    # --- After the fit

    @property
    def _n_features_out(self) -> int:
        return self.n_components_

    def _scales(self) -> np.ndarray:
        """Return what whitening divides by."""
        if not self.whiten:
            return np.ones(self.n_components_)
        return np.sqrt(np.maximum(self.explained_variance_, self.standard_error_))

    def transform(self, X: Any) -> np.ndarray:
        """Return the rows in terms of the components.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Rows. They are not clipped.

        Returns
        -------
        ndarray of shape (n_samples, n_components)
        """
        check_is_fitted(self)
        X = validated(self, X, accept_sparse=False, reset=False)
        matrix = (self.components_ / self._scales()[:, None]).T
        found = X @ matrix.astype(X.dtype)
        found -= (self.mean_ @ matrix).astype(X.dtype)
        return found

    def inverse_transform(self, X: Any) -> np.ndarray:
        """Return rows in terms of the features.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_components)
            Rows in terms of the components.

        Returns
        -------
        ndarray of shape (n_samples, n_features)
        """
        check_is_fitted(self)
        X = as_rows(X, self.n_components_)
        matrix = (self.components_ * self._scales()[:, None]).astype(X.dtype)
        return X @ matrix + self.mean_.astype(X.dtype)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.transformer_tags.preserves_dtype = ["float64", "float32"]
        return tags
