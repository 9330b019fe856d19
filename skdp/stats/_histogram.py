"""Private histograms over public bins."""

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.utils.validation import check_is_fitted

from skdp import events
from skdp.base import PrivateEstimator
from skdp.categories import as_objects, validate_cells
from skdp.inputs import validated
from skdp.stats._base import Plan
from skdp.stats._bins import (
    Axis,
    Cells,
    cell_counts,
    cell_numbers,
    make_axes,
    mixed_cells,
)
from skdp.stats._count_noise import CountNoise, count_noise, plan_counts
from skdp.stats._sums import as_table
from skdp.validation import check_bool, check_confidence, check_integer, check_option

__all__ = ["DPHistogram", "histogram"]

_METHODS = ("auto", "laplace", "gaussian")


@dataclass(frozen=True)
class _HistogramPlan:
    """The noise of a histogram, and its bins."""

    mechanism: CountNoise
    axes: tuple[Axis, ...]


def _mechanism(
    epsilon: float, delta: float, method: str, neighboring: str, size: int = 1
) -> CountNoise:
    """Return the noise: a row is in one cell, so that two rows change two by one."""
    cells = 2 if neighboring == "replace" else 1
    price = (epsilon, delta, method, neighboring)
    return count_noise(plan_counts(cells, math.sqrt(cells), *price, size=size))


def _with_total(noisy: np.ndarray, total: int) -> np.ndarray:
    """Return the nearest counts >= 0 with this total, rounded to integers."""
    flat = noisy.ravel()
    ordered = np.sort(flat)[::-1]
    level = (np.cumsum(ordered) - total) / np.arange(1, flat.size + 1)
    last = np.flatnonzero(ordered > level)[-1]
    exact = np.maximum(flat - level[last], 0.0)
    counts = np.floor(exact).astype(np.int64)
    short = total - int(counts.sum())
    # What rounding left over goes to the largest remainders.
    if short > 0:
        counts[np.argsort(counts - exact, kind="stable")[:short]] += 1
    elif short < 0:
        counts[np.argsort(-counts, kind="stable")[:-short]] -= 1
    return counts.reshape(noisy.shape)


class DPHistogram(PrivateEstimator, BaseEstimator):
    """Joint histogram of all features over public bins, with differential privacy.

    Parameters
    ----------
    epsilon : float, default=1.0
        Privacy parameter > 0.
    delta : float, default=0.0
        Privacy parameter in [0, 1). 0 is pure differential privacy.
    bins : "auto", int, or sequence of int or edges by feature, default="auto"
        Public bins: a number of them of equal width within ``bounds``, or their edges
        (for one feature also without the outer sequence). A bin includes its left edge,
        and the last one also its right edge. "auto" is 10 for each feature, or fewer
        where there would be more than 10**5 together.
    bounds : pair, default=(-1, 1)
        Public bounds of the values, numbers or one for each feature, where ``bins`` are
        numbers. Values outside count in the outer bins. Set them: the default fits few
        data.
    categories : list, default=None
        For each feature the public list of its categories, texts or numbers, or None
        for a feature with bins.
    other : bool, default=False
        Whether values that are not in their list of categories count in a last cell of
        their feature. Otherwise rows with such values are left out.
    method : {"auto", "laplace", "gaussian"}, default="auto"
        Noise. "auto" takes the one with less of it.
    missing : {"error", "drop"}, default="error"
        What to do with NaN. "drop" leaves out rows that have any.
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
    counts_ : ndarray of int, with one axis for each feature
        Counts, not negative. Where all rows are counted and their number is public,
        they add up to it: the nearest such counts. Elsewhere negative ones become 0.
    noisy_counts_ : ndarray of int
        The counts as released, before that.
    probabilities_ : ndarray of float
        Shares of the counts; they add up to one. All are equal where all counts are 0.
    density_ : ndarray of float
        Probabilities divided by the sizes of the cells; a category has size one.
    bin_edges_ : list of ndarray
        Edges of the bins of every feature; None for categories.
    categories_ : list of list
        Categories of every feature, without the cell of the others; None for bins.
    standard_error_ : float
        Standard deviation of the noise of a count.
    n_features_in_ : int
        Number of features.
    feature_names_in_ : ndarray
        Names of the features, where X has them.
    privacy_ : PrivacyGuarantee
        What the fit guarantees; prints as a sentence.

    Guarantee
    ---------
    (epsilon, delta)-DP under ``neighboring``: a row is in one cell or none, so that the
    counts have L1 sensitivity 2 and L2 sensitivity sqrt(2) under "replace", and 1 under
    "add_remove" (docs, theory of covariances). Counts are exact: there are no rounding
    errors. Assumes that bins, bounds and categories are chosen without the data.

    References
    ----------
    Dwork, McSherry, Nissim and Smith (2006). Calibrating noise to sensitivity in
    private data analysis.

    Examples
    --------
    >>> import numpy as np
    >>> from skdp.stats import DPHistogram
    >>> ages = np.random.default_rng(0).integers(18, 90, size=(1000, 1))
    >>> model = DPHistogram(epsilon=1.0, bins=5, bounds=(0, 100)).fit(ages)
    >>> int(model.counts_.sum()), model.bin_edges_[0]
    (1000, array([  0.,  20.,  40.,  60.,  80., 100.]))
    >>> low, high = model.interval(0.95)
    """

    def __init__(
        self,
        epsilon: float = 1.0,
        delta: float = 0.0,
        *,
        bins: Any = "auto",
        bounds: Any = (-1, 1),
        categories: Any = None,
        other: bool = False,
        method: str = "auto",
        missing: str = "error",
        neighboring: str = "replace",
        accountant: Any = None,
        random_state: Any = None,
    ) -> None:
        self.epsilon = epsilon
        self.delta = delta
        self.bins = bins
        self.bounds = bounds
        self.categories = categories
        self.other = other
        self.method = method
        self.missing = missing
        self.neighboring = neighboring
        self.accountant = accountant
        self.random_state = random_state

    def fit(self, X: Any, y: Any = None) -> "DPHistogram":
        """Count the rows of every cell, and pay for it.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Numbers, or also texts where there are categories.
        y : ignored
            For the API's sake.

        Returns
        -------
        self
        """
        return self._fit(X)

    # --- Public quantities

    def _check_parameters(self) -> None:
        check_option(self.method, "method", _METHODS)
        check_option(self.missing, "missing", ("error", "drop"))
        check_bool(self.other, "other")

    def _axes(self, n_features: int) -> tuple[Axis, ...]:
        parameters = self.bins, self.bounds, self.categories, self.other
        return make_axes(*parameters, n_features)

    def _plan(self, n_samples: int, n_features: int) -> Plan:
        """Return the plan; it does not depend on n_samples."""
        self._check_budget()
        self._check_parameters()
        axes = self._axes(n_features)
        price = self.epsilon, self.delta, self.method, self.neighboring
        mechanism = _mechanism(*price, math.prod(axis.size for axis in axes))
        return Plan(_HistogramPlan(mechanism, axes), mechanism.event)

    def _plan_for(self, data: Cells) -> Plan:
        return self._plan(data.n_rows, len(data.columns))

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

    def _read(self, X: Any, **options: Any) -> Cells:
        """Return the columns of validated rows: numbers, or numbers of categories."""
        drop = self.missing == "drop"
        if self.categories is not None:
            X = validate_cells(self, X, **options)
            return mixed_cells(X, self._axes(X.shape[1]), drop)
        options = {"dtype": "numeric", "accept_sparse": False, **options}
        finite = "allow-nan" if drop else True
        return Cells(tuple(validated(self, X, ensure_all_finite=finite, **options).T))

    def _validate(self, X: Any, y: Any = None) -> Cells:
        self._check_parameters()
        return self._read(X)

    def _whole(self) -> bool:
        """Whether every row is counted, and their number is public."""
        listed = self.categories is None or self.other
        return self.neighboring == "replace" and self.missing == "error" and listed

    def _release(self, plan: Plan, data: Cells, bits: Any, sampling: Any) -> None:
        mechanism, axes = plan.release.mechanism, plan.release.axes
        noisy = mechanism.release(cell_counts(data, axes), bits)
        self.noisy_counts_ = noisy
        if self._whole():
            self.counts_ = _with_total(noisy, data.n_rows)
        else:
            self.counts_ = np.maximum(noisy, 0)
        total = int(self.counts_.sum())
        shares = self.counts_ / total if total else np.ones(noisy.shape) / noisy.size
        self.probabilities_ = shares
        self.density_ = shares.copy()
        for number, axis in enumerate(axes):
            shape = [-1 if i == number else 1 for i in range(len(axes))]
            self.density_ /= axis.widths().reshape(shape)
        self.bin_edges_ = [axis.edges for axis in axes]
        self.categories_ = [
            None if axis.categories is None else list(axis.categories) for axis in axes
        ]
        self.standard_error_ = mechanism.std
        self._noise = mechanism

    def _assumptions(self) -> tuple[str, ...]:
        return ("every person is one row", "the bins were chosen without the data")

    # --- After the fit

    def predict(self, X: Any) -> np.ndarray:
        """Return the released probability of every row's cell.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Rows.

        Returns
        -------
        ndarray of shape (n_samples,)
            0 for rows that are in no cell.
        """
        check_is_fitted(self, "counts_")
        data = self._read(X, reset=False)
        numbers = cell_numbers(data, self._axes(len(data.columns)))
        found = self.probabilities_.ravel()[np.maximum(numbers, 0)]
        return np.where(numbers >= 0, found, 0.0)

    def interval(self, confidence: float = 0.95) -> tuple[np.ndarray, np.ndarray]:
        """Return a confidence interval of each count, for the noise.

        It costs nothing: it is computed from released values.

        Parameters
        ----------
        confidence : float, default=0.95
            For each count by itself.

        Returns
        -------
        low, high : ndarray of int, of the shape of ``counts_``
        """
        check_is_fitted(self, "counts_")
        width = self._noise.interval(check_confidence(confidence))[1]
        low, high = self.noisy_counts_ - width, self.noisy_counts_ + width
        return np.maximum(low, 0), np.maximum(high, 0)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = self.missing == "drop"
        tags.input_tags.string = tags.input_tags.categorical = (
            self.categories is not None
        )
        return tags


def histogram(
    x: Any,
    bins: Any = 10,
    *,
    bounds: Any = None,
    categories: Any = None,
    other: bool = False,
    epsilon: float = 1.0,
    delta: float = 0.0,
    method: str = "auto",
    missing: str = "error",
    neighboring: str = "replace",
    accountant: Any = None,
    random_state: Any = None,
) -> tuple[np.ndarray, Any]:
    """Return counts and edges of a 1-D array, with differential privacy.

    As ``numpy.histogram``, but ``bins`` is a number, with public ``bounds``, or public
    edges; values outside count in the outer bins. With ``categories``, one public list,
    these are counted and returned in place of edges. The other parameters are those
    of :class:`DPHistogram`.

    Examples
    --------
    >>> from skdp import stats
    >>> counts, edges = stats.histogram([1, 2, 3] * 500, bins=3, bounds=(0.5, 3.5))
    >>> int(counts.sum()), edges.tolist()
    (1500, [0.5, 1.5, 2.5, 3.5])
    >>> counts, names = stats.histogram(["a", "b"] * 500, categories=["b", "a"])
    >>> bool(abs(counts - 500).max() < 30), names
    (True, ['b', 'a'])
    """
    if categories is not None:
        bins, bounds = "auto", None
    elif bounds is None and np.ndim(bins) == 0:
        raise ValueError(
            "The 'bounds' parameter must be a pair of public numbers, unless 'bins' "
            "are edges: the range of the data is private. Got None."
        )
    model = DPHistogram(
        epsilon,
        delta,
        bins=bins if np.ndim(bins) == 0 else [bins],
        bounds=(-1, 1) if bounds is None else bounds,
        categories=None if categories is None else [categories],
        other=other,
        method=method,
        missing=missing,
        neighboring=neighboring,
        accountant=accountant,
        random_state=random_state,
    )
    if categories is None:
        return model.fit(as_table(x)).counts_, model.bin_edges_[0]
    return model.fit(as_table(as_objects(x))).counts_, model.categories_[0]
