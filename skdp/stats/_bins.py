"""Public bins and categories, and the cells that rows fall into."""

import contextlib
import math
from dataclasses import dataclass
from numbers import Integral
from typing import Any

import numpy as np

from skdp.categories import check_categories, encoded, is_missing
from skdp.inputs import feature_bounds

__all__ = [
    "Axis",
    "Cells",
    "cell_counts",
    "cell_numbers",
    "make_axes",
    "mixed_cells",
]

_MOST_CELLS = 10_000_000
_AUTO_BINS, _AUTO_CELLS = 10, 10**5
_BLOCK = 2**16  # rows looked at together
_NONE, _MISSING = -1, -2  # the numbers of no cell, and of a missing value


@dataclass(frozen=True)
class Axis:
    """The cells of one feature: bins between edges, or categories.

    Parameters
    ----------
    edges : ndarray or None
        Increasing edges of bins.
    categories : tuple or None
        Texts or numbers.
    other : bool
        Whether other values than the categories have a cell of their own, the last.
    even : bool
        Whether bins are of equal width, to rounding errors far below it.
    """

    edges: np.ndarray | None
    categories: tuple | None = None
    other: bool = False
    even: bool = False

    @property
    def size(self) -> int:
        """Number of cells."""
        if self.categories is None:
            return len(self.edges) - 1
        return len(self.categories) + self.other

    def widths(self) -> np.ndarray:
        """Return the sizes of the cells; those of categories are one."""
        return np.ones(self.size) if self.edges is None else np.diff(self.edges)


@dataclass(frozen=True)
class Cells:
    """The columns of a table: numbers, or numbers of categories (< 0 for none)."""

    columns: tuple[np.ndarray, ...]

    @property
    def n_rows(self) -> int:
        """Number of rows."""
        return len(self.columns[0])

    def arrays(self) -> tuple[np.ndarray, ...]:
        """Return what tells one data set from another."""
        return self.columns


# --- Axes, from the user's parameters


def _is_count(value: Any) -> bool:
    return isinstance(value, Integral) and not isinstance(value, (bool, np.bool_))


def _bins_error(bins: Any, n_features: int) -> ValueError:
    return ValueError(
        "The 'bins' parameter must be 'auto', an int >= 1, or a sequence with an int "
        "or an increasing sequence of two or more finite edges for each of "
        f"{n_features} feature(s). Got {bins!r}."
    )


def _by_feature(bins: Any, n_features: int) -> list:
    """Return a number or edges for each feature."""
    if _is_count(bins):
        return [bins] * n_features
    if isinstance(bins, str):
        raise _bins_error(bins, n_features)
    try:
        parts = list(bins)
    except TypeError:
        raise _bins_error(bins, n_features) from None
    if n_features == 1 and len(parts) > 1:  # edges, as for numpy.histogram
        parts = [parts]
    if len(parts) != n_features:
        raise _bins_error(bins, n_features)
    return parts


def _edges(part: Any, low: float, high: float) -> np.ndarray | None:
    """Return edges from a number or from edges; None where they make no sense."""
    if _is_count(part):
        if not 1 <= part <= _MOST_CELLS:
            return None
        edges = np.linspace(low, high, int(part) + 1)
    else:
        try:
            edges = np.array(part, dtype=np.float64)
        except (TypeError, ValueError):
            return None
    if edges.ndim != 1 or len(edges) < 2 or not np.isfinite(edges).all():
        return None
    return edges if (np.diff(edges) > 0).all() else None


def _category_lists(categories: Any, n_features: int) -> list[tuple | None]:
    """Return the categories of each feature, checked; None for one with bins."""
    if categories is None:
        return [None] * n_features
    lists = check_categories(categories, n_features, none=True)
    return [None if one is None else tuple(one.tolist()) for one in lists]


def make_axes(
    bins: Any, bounds: Any, categories: Any, other: bool, n_features: int
) -> tuple[Axis, ...]:
    """Return the cells of every feature from the parameters of a histogram."""
    lists = _category_lists(categories, n_features)
    sizes = [len(one) + other for one in lists if one is not None]
    known, open_features = math.prod(sizes), n_features - len(sizes)
    if isinstance(bins, str) and bins == "auto":
        bins = _AUTO_BINS
        while bins > 1 and known * bins**open_features > _AUTO_CELLS:
            bins -= 1
    parts = _by_feature(bins, n_features)
    low, high = feature_bounds(bounds, n_features)
    axes = []
    for one, part, *ends in zip(lists, parts, low, high, strict=True):
        if one is not None:
            axes.append(Axis(None, one, other))
            continue
        edges = _edges(part, *ends)
        if edges is None:
            raise _bins_error(bins, n_features)
        width = (edges[-1] - edges[0]) / (len(edges) - 1)
        wide = 1e-290 < width > 1e3 * np.spacing(np.max(np.abs(edges)))
        axes.append(Axis(edges, even=bool(_is_count(part) and wide)))
    total = math.prod(axis.size for axis in axes)
    if total > _MOST_CELLS:
        raise ValueError(
            f"The histogram would have {total:,} cells, more than {_MOST_CELLS:,}: the "
            "numbers of bins of all features are multiplied. Use fewer 'bins', or a "
            "histogram for each feature."
        )
    return tuple(axes)


# --- Rows to cells


def _numbers(column: np.ndarray) -> np.ndarray:
    """Return a column as numbers, each read by itself; errors do not quote them."""
    if column.dtype.kind in "biuf":
        return column
    found, gone = None, is_missing(column)
    with contextlib.suppress(OverflowError, TypeError, ValueError):
        pairs = zip(column.tolist(), gone.tolist(), strict=True)
        found = np.array([np.nan if empty else float(value) for value, empty in pairs])
    if found is None:  # here, so that the exception has no context with a value in it
        raise ValueError(
            "A feature with bins holds values that are not numbers: list its "
            "'categories'."
        )
    if np.isinf(found).any():
        raise ValueError("Input X contains infinity.")
    return found


def mixed_cells(X: np.ndarray, axes: tuple[Axis, ...], drop: bool) -> Cells:
    """Return the columns of a table of text and numbers; no copy of those with bins.

    ``drop`` tells whether missing values are allowed: they are in no cell.
    """
    columns, gone = [], False
    for column, axis in zip(X.T, axes, strict=True):
        if axis.categories is None:
            column = _numbers(column)
            gone |= column.dtype.kind == "f" and bool(np.isnan(column).any())
        else:
            other = len(axis.categories) if axis.other else _NONE
            column = encoded(column, axis.categories, other, _MISSING)
            gone |= bool((column == _MISSING).any())
        columns.append(column)
    if gone and not drop:
        raise ValueError("Input X contains NaN.")
    return Cells(tuple(columns))


def _even_places(values: np.ndarray, edges: np.ndarray) -> np.ndarray:
    """Return the bins of values, by a division; the edges decide where it is close."""
    low, high, size = edges[0], edges[-1], len(edges) - 1
    place = np.clip(values, low, high).astype(np.float64, copy=False)
    place -= low
    place *= size / (high - low)
    near = np.abs(place - np.rint(place)) < 1e-2
    found = place.astype(np.intp)
    np.minimum(found, size - 1, out=found)
    if near.any():
        where = np.flatnonzero(near)
        inner = np.searchsorted(edges[1:-1], values[where], side="right")
        found[where] = inner
    return found


def _places(values: np.ndarray, axis: Axis) -> np.ndarray:
    """Return the cells of some values of one feature, -1 for none."""
    if axis.categories is not None:
        return values
    gone = np.isnan(values) if values.dtype.kind == "f" else np.zeros(1, dtype=bool)
    some = gone.any()
    if some:
        values = np.where(gone, axis.edges[0], values)
    # Values outside go to the outer bins: only inner edges are compared.
    if axis.even:
        found = _even_places(values, axis.edges)
    else:
        found = np.searchsorted(axis.edges[1:-1], values, side="right")
    if some:
        found[gone] = _NONE
    return found


def _block_numbers(data: Cells, axes: tuple[Axis, ...], part: slice) -> np.ndarray:
    """Return the cells of some rows, in the order of a flat array; -1 for none."""
    total = _places(data.columns[0][part], axes[0])
    gone = total < 0
    for column, axis in zip(data.columns[1:], axes[1:], strict=True):
        place = _places(column[part], axis)
        gone |= place < 0
        total = total * axis.size + place
    if gone.any():
        total = np.where(gone, _NONE, total)
    return total


def cell_numbers(data: Cells, axes: tuple[Axis, ...]) -> np.ndarray:
    """Return the cell of every row; -1 for none."""
    return _block_numbers(data, axes, slice(None))


def cell_counts(data: Cells, axes: tuple[Axis, ...]) -> np.ndarray:
    """Return the number of rows in every cell; nothing is rounded."""
    shape = tuple(axis.size for axis in axes)
    size = math.prod(shape)
    counts, step = np.zeros(size, dtype=np.int64), max(_BLOCK, size)
    for start in range(0, data.n_rows, step):
        numbers = _block_numbers(data, axes, slice(start, start + step))
        found = np.bincount(numbers[numbers >= 0], minlength=size)
        counts += found
    return counts.reshape(shape)
