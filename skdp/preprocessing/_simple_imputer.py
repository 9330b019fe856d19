"""Missing values filled privately."""

from functools import partial
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator, OneToOneFeatureMixin
from sklearn.utils.validation import check_is_fitted

from skdp import events
from skdp.categories import check_categories, encoded, is_missing, validate_cells
from skdp.inputs import feature_bounds, validated
from skdp.mechanisms import ReportNoisyMax
from skdp.preprocessing._base import (
    Cells,
    Plan,
    PrivateTransformer,
    Table,
    price_each,
)
from skdp.stats._quantile_core import Grid, release_quantile, single_event
from skdp.stats._release import plan_release
from skdp.stats._sums import (
    bernstein,
    bernstein_sensitivities,
    read_bernstein,
    table_sums,
)
from skdp.validation import check_option, check_real

__all__ = ["DPSimpleImputer"]

_CELLS = 2**20  # of the public grid on which medians lie
_STRATEGIES = ("mean", "median", "most_frequent", "constant")


class DPSimpleImputer(OneToOneFeatureMixin, PrivateTransformer, BaseEstimator):
    """Fill missing values with a private mean, median or mode of their feature.

    Parameters
    ----------
    strategy : {"mean", "median", "most_frequent", "constant"}, default="mean"
        What missing values become. "constant" costs nothing.
    epsilon : float, default=1.0
        Privacy parameter > 0, for all features together.
    delta : float, default=0.0
        Privacy parameter in [0, 1). 0 is pure differential privacy.
    bounds : pair, default=(-1, 1)
        For "mean" and "median", public bounds of the values, numbers or one for each
        feature; values outside are clipped for the statistic only.
    categories : list of lists, default=None
        For "most_frequent", the public values of every feature that are counted.
    fill_value : number or str, default=None
        For "constant"; None is 0.
    n_samples_hint : int, default=None
        For "mean" under ``neighboring="add_remove"``, a public guess of the number of
        rows. More than twice as many (and more than 65536) are refused; None allows
        2**24.
    neighboring : {"replace", "add_remove"}, default="replace"
        What one person can change: "replace", the values of one row, and the number of
        rows is public; "add_remove", one row more or less, and the number is private.
    accountant : BudgetAccountant, default=None
        Budget that pays for every fit but those of "constant".
    random_state : None, int, Generator or RandomState, default=None
        None for secure noise. Anything else is reproducible, and not private against
        those who know it.

    Attributes
    ----------
    statistics_ : ndarray of shape (n_features,)
        What missing values become.
    n_features_in_ : int
        Number of features.
    feature_names_in_ : ndarray
        Names of the features, where X has them.
    privacy_ : PrivacyGuarantee
        What the fit guarantees; prints as a sentence.

    Guarantee
    ---------
    (epsilon, delta)-DP under ``neighboring``. "mean" adds noise to the two Bernstein
    sums of every feature, from which the mean follows without the number of valid
    values, which is private; "median" is the exponential mechanism over a public grid;
    "most_frequent" is report-noisy-max over the public categories. ``transform`` is
    free: it changes each row by itself. Assumes that bounds and categories are chosen
    without the private data.

    Notes
    -----
    Missing are NaN and, in columns of text, None. There is no ``add_indicator``: the
    set of features with missing values is private. For the same reason no feature is
    left out, also if all of its values are missing.

    References
    ----------
    McKenna and Sheldon (2020). Permute-and-flip: a new mechanism for differentially
    private selection.

    Examples
    --------
    >>> import numpy as np
    >>> from skdp.preprocessing import DPSimpleImputer
    >>> ages = np.random.default_rng(0).integers(18, 90, size=(2000, 1)).astype(float)
    >>> ages[::10] = np.nan
    >>> imputer = DPSimpleImputer("mean", epsilon=1.0, bounds=(0, 120)).fit(ages)
    >>> bool(50 < imputer.transform(ages)[0, 0] < 57)
    True
    """

    def __init__(
        self,
        strategy: str = "mean",
        epsilon: float = 1.0,
        delta: float = 0.0,
        *,
        bounds: Any = (-1, 1),
        categories: Any = None,
        fill_value: Any = None,
        n_samples_hint: int | None = None,
        neighboring: str = "replace",
        accountant: Any = None,
        random_state: Any = None,
    ) -> None:
        self.strategy = strategy
        self.epsilon = epsilon
        self.delta = delta
        self.bounds = bounds
        self.categories = categories
        self.fill_value = fill_value
        self.n_samples_hint = n_samples_hint
        self.neighboring = neighboring
        self.accountant = accountant
        self.random_state = random_state

    # --- Public quantities

    def _check_parameters(self) -> None:
        super()._check_parameters()
        check_option(self.strategy, "strategy", _STRATEGIES)
        if self.strategy == "most_frequent":
            if self.categories is None:
                raise ValueError(
                    "strategy='most_frequent' needs 'categories', the public values of "
                    "every feature. Got categories=None."
                )
            check_categories(self.categories)
        if self.fill_value is not None and not isinstance(self.fill_value, str):
            check_real(self.fill_value, "fill_value")

    def _is_public(self) -> bool:
        return self.strategy == "constant"

    def _is_exact(self) -> bool:
        return self.strategy != "mean"

    def _chosen(self) -> str:
        return "bounds" if self._numbers() else "categories"

    def _numbers(self) -> bool:
        return self.strategy in ("mean", "median")

    def _plan(self, n_samples: int, n_features: int) -> Plan:
        self._check_budget()
        self._check_parameters()
        plans = {
            "mean": self._plan_mean,
            "median": self._plan_median,
            "most_frequent": self._plan_mode,
        }
        found = plans[self.strategy](n_samples, n_features)
        return Plan(*found, (n_samples, n_features))

    def _plan_mean(self, n_samples: int, n_features: int) -> tuple[Any, events.Event]:
        feature_bounds(self.bounds, n_features)
        n_rows = self._public_rows(n_samples)
        norms = bernstein_sensitivities(n_features, n_rows, self.neighboring)
        price = (self.epsilon, self.delta, "auto", self.neighboring)
        release = plan_release(*norms, *price, size=2 * n_features)
        return release, release.event

    def _plan_median(self, n_samples: int, n_features: int) -> tuple[Any, events.Event]:
        feature_bounds(self.bounds, n_features)
        price = partial(single_event, neighboring=self.neighboring)
        return price_each(n_features, self.epsilon, self.delta, price)

    def _choice(self, epsilon: float) -> ReportNoisyMax:
        one_way = self.neighboring == "add_remove"
        return ReportNoisyMax(
            epsilon, 1.0, monotonic=one_way, neighboring=self.neighboring
        )

    def _plan_mode(self, n_samples: int, n_features: int) -> tuple[Any, events.Event]:
        check_categories(self.categories, n_features)
        price = (n_features, self.epsilon, self.delta)
        each, event = price_each(*price, lambda one: self._choice(one).event)
        return self._choice(each), event

    # --- The fit

    def _rows(self, X: Any, reset: bool) -> np.ndarray:
        if self._numbers():
            options = {"accept_sparse": False, "ensure_all_finite": "allow-nan"}
            return validated(self, X, reset=reset, **options)
        X = validate_cells(self, X, reset=reset)
        is_missing(X)  # refuses odd values
        return X

    def _validate(self, X: Any, y: Any = None) -> Any:
        self._check_parameters()
        X = self._rows(X, reset=True)
        return Table(X) if self._numbers() else Cells(X)

    def _fit_public(self, X: Any) -> None:
        X = self._validate(X).X
        value = 0 if self.fill_value is None else self.fill_value
        dtype = object if isinstance(value, str) else np.float64
        self.statistics_ = np.full(X.shape[1], value, dtype=dtype)

    def _release(self, plan: Plan, data: Any, bits: Any, sampling: Any) -> None:
        releases = {
            "mean": self._release_mean,
            "median": self._release_median,
            "most_frequent": self._release_mode,
        }
        self.statistics_ = releases[self.strategy](plan.release, data.X, bits)

    def _release_mean(self, release: Any, X: np.ndarray, bits: Any) -> np.ndarray:
        low, high = feature_bounds(self.bounds, X.shape[1])
        noisy = release.add(bernstein(table_sums(X, low, high, 1, True)), bits)
        return low + (high - low) * read_bernstein(noisy)[1]

    def _release_median(self, each: float, X: np.ndarray, bits: Any) -> np.ndarray:
        low, high = feature_bounds(self.bounds, X.shape[1])
        found = np.empty(low.size)
        for j in range(low.size):
            grid = Grid(float(low[j]), float(high[j]), _CELLS)
            column = X[:, j].astype(np.float64)
            column = column[~np.isnan(column)]
            price = each, self.neighboring, bits
            found[j] = release_quantile(column, 0.5, grid, *price)
        return found

    def _release_mode(self, choice: Any, X: np.ndarray, bits: Any) -> np.ndarray:
        categories = check_categories(self.categories, X.shape[1])
        found = []
        for column, values in zip(X.T, categories, strict=True):
            codes = encoded(column, values)
            counts = np.bincount(codes[codes >= 0], minlength=len(values))
            chosen = choice.release(counts.astype(np.float64), bits)
            found.append(values.tolist()[chosen])
        text = any(isinstance(value, str) for value in found)
        kind = object if text else np.float64
        return np.array(found, dtype=kind)

    # --- Rows

    def transform(self, X: Any) -> np.ndarray:
        """Return the rows with missing values filled.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Rows.

        Returns
        -------
        ndarray of shape (n_samples, n_features)
        """
        check_is_fitted(self)
        X = self._rows(X, reset=False)
        gone = is_missing(X)
        if X.dtype.kind not in "OUf":
            return X.astype(np.float64)
        text = self.statistics_.dtype == object and gone.any()
        found = X.astype(object) if text else X.copy()
        found[gone] = np.broadcast_to(self.statistics_, X.shape)[gone]
        if found.dtype == object and not any(
            isinstance(value, str) for value in found.ravel()
        ):
            return found.astype(np.float64)
        return found

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = True
        tags.input_tags.string = not self._numbers()
        numbers = ["float64", "float32"] if self._numbers() else []
        tags.transformer_tags.preserves_dtype = numbers
        return tags
