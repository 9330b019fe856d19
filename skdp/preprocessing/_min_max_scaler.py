"""Private scaling to a range."""

from functools import partial
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator, OneToOneFeatureMixin
from sklearn.utils.validation import check_is_fitted

from skdp.inputs import feature_bounds, validated
from skdp.preprocessing._base import (
    Plan,
    PrivateTransformer,
    Table,
    as_rows,
    clip_values,
    inside,
    price_each,
)
from skdp.preprocessing._norms import box_norm
from skdp.stats._quantile_core import (
    Grid,
    rank_error,
    release_quantile,
    single_event,
)
from skdp.validation import check_bool, check_bounds, check_option, check_real

__all__ = ["DPMinMaxScaler"]

_CELLS = 2**20  # of the public grid on which the quantiles lie
_OPTIONS = {"accept_sparse": False, "ensure_all_finite": "allow-nan"}


class DPMinMaxScaler(OneToOneFeatureMixin, PrivateTransformer, BaseEstimator):
    """Map a private low and a private high quantile to ``feature_range``.

    The smallest and the largest value cannot be released with accuracy: each is one
    person's. Quantiles close to them can.

    Parameters
    ----------
    epsilon : float, default=1.0
        Privacy parameter > 0, for all features together.
    delta : float, default=0.0
        Privacy parameter in [0, 1). 0 is pure differential privacy; a positive delta
        helps where there are many features.
    bounds : pair, default=(-1, 1)
        Public bounds of the values, numbers or one for each feature; values outside
        are clipped. Wide bounds cost little here.
    quantiles : "auto" or pair of float, default="auto"
        Two numbers strictly between 0 and 1: what is mapped to the ends of
        ``feature_range``. "auto" is the outermost pair, from (0.01, 0.99) to (0.25,
        0.75), that the noise leaves meaningful for the number of rows; (0.05, 0.95)
        where that is private and there is no hint.
    feature_range : pair of float, default=(0, 1)
        Where values between the quantiles come to lie.
    clip : bool, default=True
        Whether values beyond the quantiles are clipped to ``feature_range``.
    n_samples_hint : int, default=None
        For ``neighboring="add_remove"``, a public guess of the number of rows, by which
        ``quantiles="auto"`` chooses.
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
    data_min_, data_max_ : ndarray of shape (n_features,)
        The released quantiles.
    quantiles_ : tuple of float
        Which ones they are.
    data_range_ : ndarray of shape (n_features,)
        Their distance; at least one part in 2**20 of the width of the bounds.
    scale_, min_ : ndarray of shape (n_features,)
        The map is ``X * scale_ + min_``.
    output_norm_ : float
        Bound of the norm of every row that ``transform`` returns (without NaN).
    n_features_in_ : int
        Number of features.
    feature_names_in_ : ndarray
        Names of the features, where X has them.
    privacy_ : PrivacyGuarantee
        What the fit guarantees; prints as a sentence.

    Guarantee
    ---------
    (epsilon, delta)-DP under ``neighboring``: two quantiles of each feature, by the
    exponential mechanism over a public grid (docs, theory of preprocessing). NaN is
    left out, which the mechanism covers: it uses no public number of values.
    ``transform`` is free, and keeps NaN. Assumes that the bounds are chosen without
    the private data.

    References
    ----------
    Smith (2011). Privacy-preserving statistical estimation with optimal convergence
    rates.

    Examples
    --------
    >>> import numpy as np
    >>> from skdp.preprocessing import DPMinMaxScaler
    >>> incomes = np.random.default_rng(0).lognormal(10, 0.5, size=(50_000, 1))
    >>> scaler = DPMinMaxScaler(1.0, bounds=(0, 1e6)).fit(incomes)
    >>> bool(50_000 < scaler.data_max_[0] < 100_000)
    True
    >>> scaler.output_norm_ <= 1.001
    True
    """

    def __init__(
        self,
        epsilon: float = 1.0,
        delta: float = 0.0,
        *,
        bounds: Any = (-1, 1),
        quantiles: Any = "auto",
        feature_range: Any = (0, 1),
        clip: bool = True,
        n_samples_hint: int | None = None,
        neighboring: str = "replace",
        accountant: Any = None,
        random_state: Any = None,
    ) -> None:
        self.epsilon = epsilon
        self.delta = delta
        self.bounds = bounds
        self.quantiles = quantiles
        self.feature_range = feature_range
        self.clip = clip
        self.n_samples_hint = n_samples_hint
        self.neighboring = neighboring
        self.accountant = accountant
        self.random_state = random_state

    # --- Public quantities

    def _check_parameters(self) -> None:
        super()._check_parameters()
        check_bool(self.clip, "clip")
        check_bounds(self.feature_range, "feature_range")
        if isinstance(self.quantiles, str):
            check_option(self.quantiles, "quantiles", ("auto",))
            return
        for q in check_bounds(self.quantiles, "quantiles"):
            check_real(q, "quantiles", low=0, high=1)

    def _is_exact(self) -> bool:
        return True

    def _plan(self, n_samples: int, n_features: int) -> Plan:
        self._check_budget()
        self._check_parameters()
        feature_bounds(self.bounds, n_features)
        price = partial(single_event, neighboring=self.neighboring)
        each, event = price_each(2 * n_features, self.epsilon, self.delta, price)
        shape = (n_samples, n_features)
        return Plan((each, self._quantiles(n_samples, each)), event, shape)

    def _quantiles(self, n_samples: int, each: float) -> tuple[float, float]:
        """Return which quantiles are released, from public numbers."""
        if not isinstance(self.quantiles, str):
            low, high = self.quantiles
            return float(low), float(high)
        n_rows = n_samples if self.neighboring == "replace" else self.n_samples_hint
        if n_rows is None:
            return 0.05, 0.95
        # That many rows must lie outside, or the gap beyond them all is as good.
        grid = Grid(0.0, 1.0, _CELLS)
        outside = rank_error(each, 0.5, grid, self.neighboring, 0.5)
        share = min(max(outside / n_rows, 0.01), 0.25)
        return share, 1 - share

    # --- The fit

    def _validate(self, X: Any, y: Any = None) -> Table:
        self._check_parameters()
        return Table(validated(self, X, **_OPTIONS))

    def _release(self, plan: Plan, data: Table, bits: Any, sampling: Any) -> None:
        low, high = feature_bounds(self.bounds, data.X.shape[1])
        each, self.quantiles_ = plan.release
        ends = np.empty((2, low.size))
        for j in range(low.size):
            grid = Grid(float(low[j]), float(high[j]), _CELLS)
            column = data.X[:, j].astype(np.float64)
            column = column[~np.isnan(column)]
            price = each, self.neighboring, bits
            ends[:, j] = sorted(
                release_quantile(column, q, grid, *price) for q in self.quantiles_
            )
        self._publish(low, high, ends)

    def _publish(self, low: np.ndarray, high: np.ndarray, ends: np.ndarray) -> None:
        """Set what follows from released and public numbers."""
        self._bounds = np.stack([low, high])
        self.data_min_, self.data_max_ = ends
        self.data_range_ = np.maximum(ends[1] - ends[0], (high - low) / _CELLS)
        first, last = (float(value) for value in self.feature_range)
        self.scale_ = (last - first) / self.data_range_
        self.min_ = first - self.data_min_ * self.scale_
        if self.clip:
            self.output_norm_ = box_norm(first, last, low.size)
        else:
            corners = self._bounds * self.scale_ + self.min_
            size = np.abs(self._bounds * self.scale_).max(axis=0) + np.abs(self.min_)
            rounding = box_norm(size, size, low.size) * 1e-6  # also of float32
            self.output_norm_ = box_norm(*corners, low.size) + rounding

    # --- Rows

    def transform(self, X: Any) -> np.ndarray:
        """Return the rows with the quantiles mapped to ``feature_range``.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Rows. Values outside the bounds are clipped to them.

        Returns
        -------
        ndarray of shape (n_samples, n_features)
        """
        check_is_fitted(self)
        X = validated(self, X, reset=False, copy=True, **_OPTIONS)
        clip_values(X, *self._bounds)
        X *= self.scale_
        X += self.min_
        if self.clip:
            np.clip(X, *inside(*self.feature_range, X.dtype), out=X)
        return X

    def inverse_transform(self, X: Any) -> np.ndarray:
        """Return rows in the units of the data again; clipped values stay clipped.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Transformed rows.

        Returns
        -------
        ndarray of shape (n_samples, n_features)
        """
        check_is_fitted(self)
        X = as_rows(self, X, **_OPTIONS)
        X -= self.min_
        X /= self.scale_
        return X

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = True
        tags.transformer_tags.preserves_dtype = ["float64", "float32"]
        return tags
