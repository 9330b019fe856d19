"""What the private transformers share: fits that may cost nothing, rows, prices."""

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy import sparse
from sklearn.base import OneToOneFeatureMixin, TransformerMixin
from sklearn.utils.validation import check_array

from skdp import divergences, events
from skdp.base import PrivacyGuarantee, PrivateEstimator, check_hint
from skdp.inputs import without_values
from skdp.validation import check_integer

__all__ = [
    "Cells",
    "Plan",
    "PrivateTransformer",
    "PublicGuarantee",
    "PublicTransformer",
    "Table",
    "as_rows",
    "clip_values",
    "fits",
    "input_names",
    "inside",
    "price_each",
]


@dataclass(frozen=True)
class Table:
    """A validated table."""

    X: Any

    def arrays(self) -> tuple[Any]:
        """Return what tells one data set from another."""
        return (self.X,)


@dataclass(frozen=True)
class Cells:
    """A validated table of text and numbers."""

    X: np.ndarray

    def arrays(self) -> tuple[Any]:
        """Return what tells one data set from another."""
        return (self.X if self.X.dtype != object else repr(self.X.tolist()),)


@dataclass(frozen=True)
class Plan:
    """Everything about a fit that is fixed before the data is touched.

    Parameters
    ----------
    release : object
        The noise: what it is differs between transformers.
    event : Event
        What the whole fit costs.
    shape : tuple of int
        Rows and features; under "add_remove" the number of rows is not used.
    search : RangePlan or None
        How bounds are found, where none are given.
    """

    release: Any
    event: events.Event
    shape: tuple[int, int]
    search: Any = None
    subtasks: int = 0


class PublicGuarantee(PrivacyGuarantee):
    """The guarantee of a fit that read nothing private; ``event`` is None."""

    def __str__(self) -> str:
        """Return the guarantee in words."""
        return (
            "Nothing was read from the data but its number of features: no privacy was "
            "spent."
        )


class PublicTransformer(TransformerMixin):
    """Mixin of transformers that never read anything private."""

    def privacy_cost(self, n_samples: int, n_features: int = 1) -> None:
        """Return None: a fit spends nothing.

        Parameters
        ----------
        n_samples : int
            Number of rows.
        n_features : int, default=1
            Number of features.

        Returns
        -------
        None
        """
        check_integer(n_samples, "n_samples", low=1)
        check_integer(n_features, "n_features", low=1)

    def _publish_guarantee(self) -> None:
        self.privacy_ = PublicGuarantee(0.0, 0.0, "replace", None)


class PrivateTransformer(TransformerMixin, PrivateEstimator):
    """Mixin of transformers that learn with differential privacy, or from nothing.

    A subclass defines ``_validate``, ``_plan`` and ``_release`` as all private
    estimators do, ``_check_parameters``, and ``_fit_public(X)`` with ``_is_public()``
    where some parameters make the fit independent of the data.
    """

    n_samples_hint: Any = None

    def fit(self, X: Any, y: Any = None) -> "PrivateTransformer":
        """Learn the transformation, and pay for it.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Rows, of which each is one person.
        y : ignored
            For the API's sake.

        Returns
        -------
        self
        """
        if not self._is_public():
            return self._fit(X)
        self._check_budget()
        self._check_parameters()
        self._fit_public(X)
        self.privacy_ = PublicGuarantee(0.0, 0.0, self.neighboring, None)
        return self

    def _is_public(self) -> bool:
        """Whether the fit reads nothing from the data but its number of features."""
        return False

    def _fit_public(self, X: Any) -> None:
        raise NotImplementedError

    # --- Public quantities

    def _check_parameters(self) -> None:
        check_hint(self.n_samples_hint)

    def _plan(self, n_samples: int, n_features: int) -> Plan:
        raise NotImplementedError

    def _plan_for(self, data: Table) -> Plan:
        """Return the plan for validated data."""
        self._check_rows(data.X.shape[0])
        return self._plan(*data.X.shape)

    def privacy_cost(self, n_samples: int, n_features: int = 1) -> events.Event | None:
        """Return the event that a fit would spend, without spending it.

        Parameters
        ----------
        n_samples : int
            Number of rows.
        n_features : int, default=1
            Number of features.

        Returns
        -------
        Event or None
            What the fit would release; ``event.epsilon(delta)`` is its price. None for
            parameters with which nothing private is read.
        """
        check_integer(n_samples, "n_samples", low=1)
        check_integer(n_features, "n_features", low=1)
        self._check_budget()
        self._check_parameters()
        if self._is_public():
            return None
        return self._plan(n_samples, n_features).event

    def _is_exact(self) -> bool:
        """Whether only counts and ranks are used: no number of rows is too large."""
        return False

    def _public_rows(self, n_samples: int) -> float:
        return math.inf if self._is_exact() else super()._public_rows(n_samples)

    def _chosen(self) -> str:
        """Return what must be chosen without the data, in the plural; "" for none."""
        return "outer bounds" if self.bounds is None else "bounds"

    def _assumptions(self) -> tuple[str, ...]:
        found = ["every person is one row"]
        if chosen := self._chosen():
            found.append(f"the {chosen} were chosen without the data")
        if self.neighboring == "add_remove" and not self._is_exact():
            found.append(f"there are at most {self._public_rows(0):,.0f} rows")
        return tuple(found)


# --- Names and rows of the output


def input_names(estimator: Any, input_features: Any) -> np.ndarray:
    """Return the names of the input: those given, of the data, or x0, x1, ..."""
    return OneToOneFeatureMixin.get_feature_names_out(estimator, input_features)


def as_rows(estimator: Any, X: Any, width: int | None = None, **options: Any) -> Any:
    """Return a fresh array of transformed rows, for ``inverse_transform``."""
    options = {"dtype": [np.float64, np.float32], "copy": True, **options}
    try:
        X = check_array(X, **options)
    except ValueError as error:
        raise ValueError(without_values(str(error))) from None
    width = estimator.n_features_in_ if width is None else width
    if X.shape[1] != width:
        raise ValueError(
            f"X has {X.shape[1]} features, but {type(estimator).__name__} gives rows "
            f"of {width} features."
        )
    return X


def inside(low: Any, high: Any, dtype: Any) -> tuple[Any, Any]:
    """Return bounds of this dtype that lie within the given ones."""
    low, high = (np.asarray(v, dtype=np.float64) for v in (low, high))
    with np.errstate(over="ignore"):
        first, last = low.astype(dtype), high.astype(dtype)
    first = np.where(first < low, np.nextafter(first, np.inf, dtype=dtype), first)
    last = np.where(last > high, np.nextafter(last, -np.inf, dtype=dtype), last)
    return first.astype(dtype), last.astype(dtype)


def fits(low: Any, high: Any, dtype: Any) -> bool:
    """Whether this dtype has numbers between the bounds, and room beyond them."""
    largest = np.finfo(dtype).max / 4
    if max(np.max(np.abs(low)), np.max(np.abs(high))) > largest:
        return False
    first, last = inside(low, high, dtype)
    return bool(np.all(first <= last))


def clip_values(X: Any, low: np.ndarray, high: np.ndarray) -> None:
    """Clip the values of every feature in place; zeros of sparse rows stay."""
    if sparse.issparse(X):
        column = X.indices
        first, last = inside(low, high, X.dtype)
        np.clip(X.data, first[column], last[column], out=X.data)
    else:
        np.clip(X, *inside(low, high, X.dtype), out=X)


# --- The price of one of several releases


def price_each(
    count: int, epsilon: float, delta: float, price: Callable[[float], events.Event]
) -> tuple[float, events.Event]:
    """Return the epsilon of each of ``count`` equal releases, and their event.

    ``price`` maps the epsilon of one release to its event. The epsilons add up to
    ``epsilon`` (basic composition); for delta > 0 they may be larger, as far as the
    Renyi curve of the composition allows.
    """
    best = epsilon / count
    if delta > 0 and count > 1:
        orders = divergences.DEFAULT_ORDERS

        def total(each: float) -> float:
            curve = count * price(each).rdp(orders)
            return divergences.epsilon_from_rdp(orders, curve, delta)

        low, high = best, epsilon
        for _ in range(40):
            middle = (low + high) / 2
            low, high = (middle, high) if total(middle) <= epsilon else (low, middle)
        best = low
    event = price(best)
    return best, event if count == 1 else events.Composed((event,), (count,))
