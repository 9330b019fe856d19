"""Private standardisation."""

import math
from typing import Any

import numpy as np
from scipy import sparse
from sklearn.base import BaseEstimator, OneToOneFeatureMixin
from sklearn.utils.validation import check_is_fitted

from skdp import events
from skdp.inputs import feature_bounds, validated
from skdp.preprocessing._base import (
    Plan,
    PrivateTransformer,
    Table,
    as_rows,
    clip_values,
    fits,
)
from skdp.preprocessing._norms import box_norm, clip_rows
from skdp.preprocessing._sparse_sums import sparse_sums
from skdp.stats._range import find_bounds, plan_range
from skdp.stats._release import Release, plan_release
from skdp.stats._sums import (
    bernstein,
    bernstein_sensitivities,
    read_bernstein,
    table_sums,
    total_sensitivities,
)
from skdp.validation import check_bool, check_option, check_real

__all__ = ["DPStandardScaler"]


def read_known_count(noisy: np.ndarray, n_rows: int) -> tuple[np.ndarray, ...]:
    """Return what ``read_bernstein`` does, where the number of rows is public.

    The sums add up to the number of rows; the nearest numbers that do have less noise.
    """
    return read_bernstein(noisy + (n_rows - noisy.sum(axis=0)) / len(noisy))


class DPStandardScaler(OneToOneFeatureMixin, PrivateTransformer, BaseEstimator):
    """Standardise features by private means and variances.

    ``transform`` clips values to the bounds, subtracts ``mean_`` and divides by
    ``scale_``; with ``output_norm`` it also scales long rows back, so that a model
    after it knows the norm of its rows.

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
    with_mean : bool, default=True
        Whether the means are subtracted. Must be False for sparse rows.
    with_std : bool, default=True
        Whether to divide by the standard deviations.
    output_norm : float, "auto" or None, default=None
        Largest norm of a transformed row; longer ones are scaled back. "auto" is the
        root of the number of features, the typical norm of standardised rows.
    method : {"auto", "laplace", "gaussian"}, default="auto"
        Noise. "auto" takes the one with less of it.
    missing : {"error", "drop"}, default="error"
        What to do with NaN. "drop" leaves it out in ``fit``, feature by feature, treats
        the number of valid values as private, and keeps it in ``transform``.
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
    mean_ : ndarray of shape (n_features,) or None
        Noisy means. None where neither means nor deviations are used.
    var_ : ndarray of shape (n_features,) or None
        Noisy variances, not negative. None for ``with_std=False``.
    scale_ : ndarray of shape (n_features,) or None
        Their roots, but not below the root of the standard error of the noisy
        variance (1 where both are 0): noise is not blown up to the size of a signal.
    output_norm_ : float
        Bound of the norm of every row that ``transform`` returns (without NaN): the
        ``output_norm``, or without one the farthest corner of the scaled bounds.
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
    (epsilon, delta)-DP under ``neighboring``. The three Bernstein sums of every feature
    get noise, together, for their L1 or L2 sensitivity (docs, theory of
    preprocessing); means and variances are functions of them. Rounding errors of the
    sums are part of the sensitivity. With neither means nor deviations nothing is read
    and nothing is spent. ``transform`` is free: it changes each row by itself. Assumes
    that the bounds, and the outer bounds, are chosen without the private data.

    References
    ----------
    Dwork, McSherry, Nissim and Smith (2006). Calibrating noise to sensitivity in
    private data analysis.

    Examples
    --------
    >>> import numpy as np
    >>> from skdp.preprocessing import DPStandardScaler
    >>> X = np.random.default_rng(0).normal([40, 5], [12, 2], size=(5000, 2))
    >>> scaler = DPStandardScaler(1.0, bounds=([0, 0], [100, 10]), output_norm="auto")
    >>> Z = scaler.fit_transform(X)
    >>> bool(np.all(abs(scaler.mean_ - [40, 5]) < 1))
    True
    >>> bool(np.linalg.norm(Z, axis=1).max() <= scaler.output_norm_)
    True
    """

    def __init__(
        self,
        epsilon: float = 1.0,
        delta: float = 0.0,
        *,
        bounds: Any = (-1, 1),
        outer_bounds: Any = None,
        with_mean: bool = True,
        with_std: bool = True,
        output_norm: Any = None,
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
        self.with_mean = with_mean
        self.with_std = with_std
        self.output_norm = output_norm
        self.method = method
        self.missing = missing
        self.n_samples_hint = n_samples_hint
        self.neighboring = neighboring
        self.accountant = accountant
        self.random_state = random_state

    # --- Public quantities

    def _check_parameters(self) -> None:
        super()._check_parameters()
        check_bool(self.with_mean, "with_mean")
        check_bool(self.with_std, "with_std")
        check_option(self.method, "method", ("auto", "laplace", "gaussian"))
        check_option(self.missing, "missing", ("error", "drop"))
        if self.output_norm is not None and not isinstance(self.output_norm, str):
            norm, limits = self.output_norm, {"low": 1e-30, "high": 1e30}
            check_real(norm, "output_norm", **limits, closed="both")
        else:
            check_option(self.output_norm, "output_norm", ("auto",), none=True)

    def _is_public(self) -> bool:
        # Bounds that are found are read from the data, too.
        return not (self.with_mean or self.with_std or self.bounds is None)

    def _counted(self) -> bool:
        """Whether the number of valid values is private."""
        return self.neighboring == "add_remove" or self.missing == "drop"

    def _degree(self) -> int:
        return 2 if self.with_std else 1

    def _plan(self, n_samples: int, n_features: int) -> Plan:
        """Return the plan; under "add_remove" it does not depend on n_samples."""
        self._check_budget()
        self._check_parameters()
        search, epsilon = None, self.epsilon
        if self.bounds is None:
            search = plan_range(
                self.outer_bounds,
                n_samples,
                n_features,
                epsilon,
                self.neighboring,
                self.missing == "drop",
                self.n_samples_hint,
            )
            epsilon -= search.epsilon
        else:
            feature_bounds(self.bounds, n_features)
        release = self._plan_sums(n_samples, n_features, epsilon)
        event = release.event
        if search is not None:
            event = events.Composed((*search.events, event))
        return Plan(release, event, (n_samples, n_features), search)

    def _plan_sums(self, n_samples: int, n_features: int, epsilon: float) -> Release:
        n_rows = self._public_rows(n_samples)
        if self._degree() == 1 and not self._counted():
            norms = total_sensitivities(n_features, n_rows)
        else:
            norms = bernstein_sensitivities(n_features, n_rows, self.neighboring)
        price = (epsilon, self.delta, self.method, self.neighboring)
        return plan_release(*norms, *price, size=3 * n_features)

    # --- The fit

    def _rows(self, X: Any, reset: bool) -> Any:
        """Return validated rows, dense or CSR."""
        finite = "allow-nan" if self.missing == "drop" else True
        X = validated(self, X, ensure_all_finite=finite, reset=reset)
        if sparse.issparse(X) and self.with_mean:
            raise ValueError(
                "Sparse rows cannot be centred: they would become dense. Use "
                "with_mean=False."
            )
        return X

    def _check_sparse_bounds(self, X: Any) -> None:
        """Refuse bounds to which the zeros of sparse rows would be clipped."""
        if not sparse.issparse(X):
            return
        if self.bounds is None:
            raise ValueError("Sparse rows need 'bounds'. Got bounds=None.")
        low, high = feature_bounds(self.bounds, X.shape[1])
        if np.any(low > 0) or np.any(high < 0):
            raise ValueError(
                "The 'bounds' parameter must contain 0 for sparse rows: their zeros "
                "are not stored, and cannot be clipped."
            )

    def _validate(self, X: Any, y: Any = None) -> Table:
        self._check_parameters()
        X = self._rows(X, reset=True)
        self._check_sparse_bounds(X)
        return Table(X)

    def _fit_public(self, X: Any) -> None:
        X = self._validate(X).X
        self.mean_ = self.var_ = self.scale_ = None
        self._publish(*feature_bounds(self.bounds, X.shape[1]))

    def _release(self, plan: Plan, data: Table, bits: Any, sampling: Any) -> None:
        X, release = data.X, plan.release
        if plan.search is None:
            low, high = feature_bounds(self.bounds, X.shape[1])
        else:
            low, high = find_bounds(plan.search, X, bits)
        add_up = sparse_sums if sparse.issparse(X) else table_sums
        sums = add_up(X, low, high, self._degree(), self.missing == "drop")
        if self._degree() == 1 and not self._counted():
            share = np.clip(release.add(sums.first, bits) / X.shape[0], 0, 1)
            found = (share,)
        else:
            noisy = release.add(bernstein(sums), bits)
            if self._counted():
                _, *found = read_bernstein(noisy)
            else:
                _, *found = read_known_count(noisy, X.shape[0])
        self.mean_ = low + (high - low) * found[0]
        self.var_ = self.scale_ = None
        if self.with_std:
            _, _, variance, gain = found
            self.var_ = (high - low) ** 2 * variance
            scale = (high - low) * np.sqrt(np.maximum(variance, gain * release.std))
            self.scale_ = np.where(scale > 0, scale, 1.0)
        self._publish(low, high)

    def _publish(self, low: np.ndarray, high: np.ndarray) -> None:
        """Set what follows from released and public numbers."""
        self.bounds_ = np.stack([low, high])
        corners = self._scaled(self.bounds_.copy())
        if self.output_norm is None:
            self.output_norm_ = box_norm(*corners, low.size) * (1 + 1e-6)
        elif self.output_norm == "auto":
            self.output_norm_ = math.sqrt(low.size)
        else:
            self.output_norm_ = float(self.output_norm)

    # --- Rows

    def _scaled(self, X: np.ndarray) -> np.ndarray:
        if self.with_mean:
            X -= self.mean_
        if self.with_std:
            X /= self.scale_
        return X

    def transform(self, X: Any) -> Any:
        """Return the rows, clipped to the bounds and standardised.

        Parameters
        ----------
        X : array-like or sparse of shape (n_samples, n_features)
            Rows. CSR stays CSR.

        Returns
        -------
        ndarray or CSR of shape (n_samples, n_features)
        """
        check_is_fitted(self)
        X = self._rows(X, reset=False).copy()
        if not fits(*self.bounds_, X.dtype):  # float32 is too coarse, or too short
            X = X.astype(np.float64)
        if sparse.issparse(X):
            self._check_sparse_bounds(X)
            clip_values(X, *self.bounds_)
            if self.with_std:
                X.data /= self.scale_[X.indices].astype(X.dtype)
        else:
            clip_values(X, *self.bounds_)
            X = self._scaled(X)
        if self.output_norm is None:
            return X
        return _clip_complete(X, self.output_norm_)

    def inverse_transform(self, X: Any) -> Any:
        """Return rows in the units of the data again; clipped rows stay clipped.

        Parameters
        ----------
        X : array-like or sparse of shape (n_samples, n_features)
            Transformed rows.

        Returns
        -------
        ndarray or CSR of shape (n_samples, n_features)
        """
        check_is_fitted(self)
        finite = "allow-nan" if self.missing == "drop" else True
        X = as_rows(self, X, accept_sparse="csr", ensure_all_finite=finite)
        if sparse.issparse(X):
            if self.with_mean:
                raise ValueError(
                    "Sparse rows cannot be un-centred: they would become dense. Use "
                    "with_mean=False."
                )
            if self.with_std:
                X.data *= self.scale_[X.indices]
            return X
        if self.with_std:
            X *= self.scale_
        if self.with_mean:
            X += self.mean_
        return X

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = not self.with_mean
        tags.input_tags.allow_nan = self.missing == "drop"
        tags.transformer_tags.preserves_dtype = ["float64", "float32"]
        return tags


def _clip_complete(X: Any, norm: float) -> Any:
    """Return X with long rows scaled back; NaN counts as 0 and stays."""
    values = X.data if sparse.issparse(X) else X
    gone = np.isnan(values)
    if not gone.any():
        return clip_rows(X, norm)
    values[gone] = 0.0
    X = clip_rows(X, norm)
    (X.data if sparse.issparse(X) else X)[gone] = np.nan
    return X
