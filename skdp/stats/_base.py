"""What the statistics share: bounded tables, plans, released constants."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from sklearn.utils.validation import check_is_fitted

from skdp import events
from skdp.base import PrivateEstimator, check_hint
from skdp.inputs import feature_bounds, validated
from skdp.stats._range import RangePlan, find_bounds, plan_range
from skdp.validation import check_confidence, check_integer, check_option

__all__ = ["BoundedStatistic", "Plan", "Table"]


@dataclass(frozen=True)
class Table:
    """A validated table of numbers."""

    X: np.ndarray

    def arrays(self) -> tuple[np.ndarray]:
        """Return what tells one data set from another."""
        return (self.X,)


@dataclass(frozen=True)
class Plan:
    """Everything about a fit that is fixed before the data is touched.

    Parameters
    ----------
    release : object
        The noise of the statistic itself.
    event : Event
        What the whole fit costs.
    search : RangePlan or None
        How bounds are found, where none are given.
    """

    release: Any
    event: events.Event
    search: RangePlan | None = None
    subtasks: int = 0


class BoundedStatistic(PrivateEstimator):
    """Mixin: a statistic of every feature of a table, within public bounds."""

    #: The fitted attribute that ``predict`` repeats.
    _value: str
    bounds: Any
    missing: str = "error"
    n_samples_hint: Any = None

    def fit(self, X: Any, y: Any = None) -> "BoundedStatistic":
        """Compute the statistic, and pay for it.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Numbers. Values outside the bounds are clipped.
        y : ignored
            For the API's sake.

        Returns
        -------
        self
        """
        return self._fit(X)

    # --- Public quantities

    def _check_parameters(self) -> None:
        check_option(self.missing, "missing", ("error", "drop"))
        check_hint(self.n_samples_hint)

    def _counted(self) -> bool:
        """Whether the number of valid values is private."""
        return self.neighboring == "add_remove" or self.missing == "drop"

    def _plan_release(
        self, n_samples: int, n_features: int, epsilon: float
    ) -> tuple[Any, events.Event]:
        """Return the noise of the statistic for this epsilon, and its event."""
        raise NotImplementedError

    def _search(self, n_samples: int, n_features: int) -> RangePlan | None:
        """Return how bounds are found; None where they are given."""
        if self.bounds is not None or not hasattr(self, "outer_bounds"):
            feature_bounds(self.bounds, n_features)
            return None
        return plan_range(
            self.outer_bounds,
            n_samples,
            n_features,
            self.epsilon,
            self.neighboring,
            self.missing == "drop",
            self.n_samples_hint,
        )

    def _plan(self, n_samples: int, n_features: int) -> Plan:
        """Return the plan; under "add_remove" it does not depend on n_samples."""
        self._check_budget()
        self._check_parameters()
        search = self._search(n_samples, n_features)
        epsilon = self.epsilon - (0 if search is None else search.epsilon)
        release, event = self._plan_release(n_samples, n_features, epsilon)
        if search is not None:
            event = events.Composed((*search.events, event))
        return Plan(release, event, search)

    def _plan_for(self, data: Table) -> Plan:
        """Return the plan for validated data."""
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
        finite = "allow-nan" if self.missing == "drop" else True
        options = {"dtype": "numeric", "accept_sparse": False}
        return Table(validated(self, X, ensure_all_finite=finite, **options))

    def _find_bounds(
        self, plan: Plan, data: Table, bits: Any
    ) -> tuple[np.ndarray, np.ndarray]:
        """Return the bounds, given or found, and publish them."""
        if plan.search is None:
            low, high = feature_bounds(self.bounds, data.X.shape[1])
        else:
            low, high = find_bounds(plan.search, data.X, bits)
        self.bounds_ = np.stack([low, high])
        return low, high

    def _assumptions(self) -> tuple[str, ...]:
        outer = "outer " if self.bounds is None else ""
        chosen = f"the {outer}bounds were chosen without the data"
        found = ["every person is one row", chosen]
        if self.neighboring == "add_remove":
            found.append(f"there are at most {self._public_rows(0):,.0f} rows")
        return tuple(found)

    # --- After the fit

    def predict(self, X: Any) -> np.ndarray:
        """Return the released value for every row, as a baseline would.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Rows; only their number counts.

        Returns
        -------
        ndarray of shape (n_samples, n_features)
        """
        check_is_fitted(self, self._value)
        options = {"dtype": "numeric", "accept_sparse": False, "reset": False}
        finite = "allow-nan" if self.missing == "drop" else True
        X = validated(self, X, ensure_all_finite=finite, **options)
        return np.tile(getattr(self, self._value), (len(X), 1))

    def interval(self, confidence: float = 0.95) -> tuple[np.ndarray, np.ndarray]:
        """Return a confidence interval of each feature's value.

        It counts the noise and, where the value estimates something beyond the rows
        themselves, the sampling of the rows. It costs nothing: it is computed from
        released values. What was clipped is not counted.

        Parameters
        ----------
        confidence : float, default=0.95
            For each feature by itself.

        Returns
        -------
        low, high : ndarray of shape (n_features,)
        """
        check_is_fitted(self, self._value)
        return self._interval(check_confidence(confidence))

    def _interval(self, level: float) -> tuple[np.ndarray, np.ndarray]:
        raise NotImplementedError

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = self.missing == "drop"
        return tags
