"""What quantiles and medians share: public grids, shares of the budget, intervals."""

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.special import ndtri

from skdp import events
from skdp.inputs import feature_bounds
from skdp.noise import RandomBits
from skdp.stats._base import BoundedStatistic, Plan, Table
from skdp.stats._quantile_core import (
    Grid,
    equal_share,
    rank_error,
    release_quantile,
    single_event,
)
from skdp.validation import check_confidence, check_real

__all__ = ["Quantiles", "Shares", "public_grid"]

_CELLS = 2**20  # of the public grid, where no resolution is given
_MOST_CELLS = 2**40
_POINT_SHARE = 0.5  # of epsilon for the quantiles, where an interval is wanted


@dataclass(frozen=True)
class Shares:
    """Prices of the releases of one feature.

    Parameters
    ----------
    point : float
        Epsilon of the quantiles themselves.
    edge : float
        Epsilon of one end of an interval; 0 for no interval.
    edges : tuple of pairs
        The lower and upper quantile that make the interval of each; None for a bound.
    """

    point: float
    edge: float = 0.0
    edges: tuple[tuple[float | None, float | None], ...] = ()


def public_grid(low: float, high: float, resolution: float | None) -> Grid:
    """Return the public grid between two bounds."""
    if resolution is None:
        return Grid(low, high, _CELLS + 1)
    cells = math.floor((high - low) / resolution * (1 + 1e-12)) + 1
    if not 2 <= cells <= _MOST_CELLS:
        raise ValueError(
            "The 'resolution' parameter must give between 2 and 2**40 points between "
            f"the bounds. Got {resolution!r}."
        )
    return Grid(low, low + (cells - 1) * resolution, cells)


class Quantiles(BoundedStatistic):
    """What quantiles and medians share: shares of the budget, intervals."""

    resolution: Any
    confidence: Any

    def _levels(self) -> np.ndarray:
        """Return the probabilities, in their order."""
        raise NotImplementedError

    def _check_parameters(self) -> None:
        super()._check_parameters()
        if self.resolution is not None:
            check_real(self.resolution, "resolution", low=0)
        if self.confidence is not None:
            check_confidence(self.confidence)
            if self._counted() and self.n_samples_hint is None:
                raise ValueError(
                    "The 'confidence' parameter needs 'n_samples_hint', a public guess "
                    "of the number of values, where their number is private."
                )

    def _point_event(self, epsilon: float, delta: float, grid: Grid) -> events.Event:
        """Return the event of one feature's quantiles; refuses what cannot be done."""
        raise NotImplementedError

    def _edges(self, edge: float, n_samples: int, grid: Grid) -> tuple:
        """Return the quantiles that hold each quantile of the population."""
        n = 0.5 * self.n_samples_hint if self._counted() else n_samples
        # A quarter of what may fail for either end's noise, and as much for sampling.
        failure = (1 - self.confidence) / 4
        z = -float(ndtri(failure))
        found = []
        for q in self._levels():
            spread = z * math.sqrt(q * (1 - q) / n) + 1 / n
            ends = []
            for sign in (-1, 1):
                noise = rank_error(edge, q, grid, self.neighboring, 1 - failure) / n
                end = q + sign * (spread + noise)
                ends.append(end if 0 < end < 1 else None)
            found.append(tuple(ends))
        return tuple(found)

    def _grids(self, n_features: int) -> list[Grid]:
        low, high = feature_bounds(self.bounds, n_features)
        return [
            public_grid(float(a), float(b), self.resolution)
            for a, b in zip(low, high, strict=True)
        ]

    def _plan_release(
        self, n_samples: int, n_features: int, epsilon: float
    ) -> tuple[Shares, events.Event]:
        try:
            return self._shared_plan(n_samples, n_features, epsilon)
        except ValueError as error:
            if "'epsilon'" not in str(error):
                raise
            raise ValueError(
                f"The 'epsilon' parameter is too small: {self.epsilon!r} is shared by "
                f"{n_features} feature(s) and {self._levels().size} quantile(s). Of a "
                f"share: {error}"
            ) from None

    def _shared_plan(
        self, n_samples: int, n_features: int, epsilon: float
    ) -> tuple[Shares, events.Event]:
        grids = self._grids(n_features)
        each, count = equal_share(epsilon, n_features), self._levels().size
        shares = Shares(each)
        if self.confidence is not None:
            edge = equal_share(each - _POINT_SHARE * each, 2 * count)
            edges = self._edges(edge, n_samples, max(grids, key=lambda g: g.cells))
            shares = Shares(_POINT_SHARE * each, edge, edges)
        delta = equal_share(self.delta, n_features) if self.delta else 0.0
        share = (shares.point, delta)
        found = [self._point_event(*share, grid) for grid in grids]
        wanted = sum(end is not None for pair in shares.edges for end in pair)
        if wanted:
            found += [single_event(shares.edge, self.neighboring)] * wanted * n_features
        return shares, found[0] if len(found) == 1 else events.Composed(tuple(found))

    def _release(self, plan: Plan, data: Table, bits: Any, sampling: Any) -> None:
        low, high = feature_bounds(self.bounds, data.X.shape[1])
        self.bounds_ = np.stack([low, high])
        grids, shares, points, ends = self._grids(low.size), plan.release, [], []
        for j, grid in enumerate(grids):
            values = np.asarray(data.X[:, j], dtype=np.float64)
            if self.missing == "drop":
                values = values[~np.isnan(values)]
            points.append(
                self._release_points(values, grid, shares.point, low.size, bits)
            )
            ends.append(self._release_edges(values, grid, shares, bits))
        self._publish(np.transpose(points))
        self._ends = np.transpose(ends, (1, 2, 0)) if shares.edges else None

    def _release_points(
        self,
        values: np.ndarray,
        grid: Grid,
        epsilon: float,
        n_features: int,
        bits: RandomBits,
    ) -> np.ndarray:
        """Return the released quantiles of one feature."""
        raise NotImplementedError

    def _release_edges(
        self, values: np.ndarray, grid: Grid, shares: Shares, bits: RandomBits
    ) -> list[list[float]]:
        found = []
        for pair in shares.edges:
            ends = []
            for q, bound in zip(pair, (grid.low, grid.high), strict=True):
                if q is not None:
                    price = (shares.edge, self.neighboring)
                    bound = release_quantile(values, q, grid, *price, bits)
                ends.append(bound)
            found.append(sorted(ends))
        return found

    def _publish(self, points: np.ndarray) -> None:
        raise NotImplementedError

    def interval(self, confidence: float | None = None) -> tuple[np.ndarray, ...]:
        """Return a confidence interval of each quantile of the population.

        It was released with the fit, from half of its budget, and needs the parameter
        ``confidence``: the noise of a quantile depends on the data, so that nothing
        about it can be told afterwards.

        Parameters
        ----------
        confidence : float, default=None
            The ``confidence`` of the fit, which is the only one known.

        Returns
        -------
        low, high : ndarray
            Of the shape of the quantiles.
        """
        if self.confidence is None:
            raise ValueError(
                "An interval of quantiles must be planned: fit with confidence=0.95, "
                "for instance. Half of the budget goes to it."
            )
        if confidence is not None and confidence != self.confidence:
            raise ValueError(
                f"The 'confidence' parameter must be {self.confidence!r}, that of the "
                f"fit, or None. Got {confidence!r}."
            )
        return super().interval(self.confidence)

    def _interval(self, level: float) -> tuple[np.ndarray, np.ndarray]:
        low, high = self._ends[:, 0], self._ends[:, 1]
        shape = getattr(self, self._value).shape
        return low.reshape(shape), high.reshape(shape)

    def _assumptions(self) -> tuple[str, ...]:
        return "every person is one row", "the bounds were chosen without the data"

    def _public_rows(self, n_samples: int) -> float:
        return math.inf  # ranks are exact, however many rows there are
