"""Least squares from noisy sums: the sums, what one row adds to them, and the solve.

Three kinds of sums over the rows are released: moments, a Gram matrix together with its
cross moments, and cross moments of residuals. Each row's part in them has a bounded
norm (docs, theory of ridge regression); whatever follows the noise is post-processing.
"""

import math
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from scipy import sparse

from skdp.erm.perturbation import Noise
from skdp.erm.rows import BLOCK, SparseRows, rounding, slices
from skdp.noise import RandomBits

__all__ = [
    "Moments",
    "RowMap",
    "add_noise",
    "clip_rows",
    "clipped_residuals",
    "gram_sums",
    "joint_sensitivity",
    "line_search",
    "moment_sums",
    "pack",
    "posterior_mean",
    "read_moments",
    "residual_sums",
    "shrink",
    "sum_error",
    "tame",
    "unpack",
]

_HUGE = 1e20  # in units of at most 1e50: the fourth power is still a float
_OVERFLOW = 1e250  # a squared norm, or a sum of fourth powers, that is too large
_TARGET = 0.2  # the targets' share of a row's squared norm in the moments
_SAFE = 1 + 1e-9  # above the rounding errors of norms
_CENTER_SPREAD = 0.03  # expected squared distance of the targets' mean from the middle
_TAUS = np.concatenate([[0.0], np.logspace(-6, 0, 61)])


# --- Noise, and sums of floats


def add_noise(
    noise: Noise, values: np.ndarray, sensitivity: float, bits: RandomBits
) -> tuple[np.ndarray, float]:
    """Return noisy values, and the standard deviation of their noise.

    Parameters
    ----------
    noise : Noise
        Its rate is for one row.
    values : ndarray
        What is released.
    sensitivity : float
        In the norm of the noise, L2 or L1, and for one row: under "replace" half of
        what a change can do.
    bits : RandomBits
        Source of the noise.
    """
    if noise.kind == "laplace":  # it takes an L2 sensitivity, and makes it L1
        sensitivity /= math.sqrt(values.size)
    noisy = noise.add(values, sensitivity, bits)
    return noisy, noise.std(sensitivity, values.size)


def sum_error(n_rows: float, width: int) -> float:
    """Return by how much two float sums of rows of norm one can be off together."""
    return 2 * rounding(BLOCK + n_rows / 256 + width + 16) * n_rows


def tame(X: Any, unit: float) -> Any:
    """Return sparse X with values of at most 1e20 units, a copy where some are larger.

    Dense rows are tamed block by block, where their sums overflow.
    """
    limit = _HUGE * unit
    if not sparse.issparse(X) or np.max(np.abs(X.data), initial=0) <= limit:
        return X
    X = X.astype(np.float64)
    np.clip(X.data, -limit, limit, out=X.data)
    return X


def _tamed(X: np.ndarray, sizes: np.ndarray, unit: float) -> np.ndarray:
    """Return dense rows, those with too large a size clipped to 1e20 units.

    A row is clipped for its own size only: it must not change another one.
    """
    large = ~(sizes <= _OVERFLOW)
    if large.any():
        X = X.copy()
        X[large] = np.clip(X[large], -_HUGE * unit, _HUGE * unit)
    return X


def clip_rows(rows: np.ndarray) -> np.ndarray:
    """Scale rows that are longer than one back to that length, in place."""
    if rows.shape[1] == 1:
        return np.clip(rows, -1, 1, out=rows)
    norms = np.sqrt(np.einsum("ij,ij->i", rows, rows)) * _SAFE
    rows /= np.maximum(norms, 1)[:, None]
    return rows


# --- Moments


class Moments(NamedTuple):
    """What the first release found, in units; noise included."""

    mean: np.ndarray
    variance: np.ndarray
    error: float
    count: float
    y_mean: np.ndarray
    y_variance: np.ndarray
    y_error: float
    usable: bool


def _shares(order: int, targets: int, counted: bool) -> tuple[float, float]:
    """Return the factors of the features' and of the targets' part of a row."""
    if order == 1:  # |y| + |y^2 - 1/2| <= 3/2
        return 1 - _TARGET, _TARGET / (1.5 * targets + counted)
    # y^2 + (y^2 - 1/2)^2 <= 5/4
    return math.sqrt(1 - _TARGET), math.sqrt(_TARGET / (1.25 * targets + counted))


def _powers(X: Any, unit: float, order: int, out: np.ndarray) -> tuple[Any, np.ndarray]:
    """Return x^2, and the norm of (u, u^2, 1), u = x / unit, of every row.

    For order 2 the norm is squared.
    """
    ones = np.ones(X.shape[1])
    if sparse.issparse(X):
        squares = X.multiply(X)
        other = squares.multiply(squares) @ ones if order == 2 else abs(X) @ ones
    else:
        squares = np.multiply(X, X, out=out[: X.size].reshape(X.shape))
        if order == 2:
            other = np.einsum("ij,ij->i", squares, squares)
        else:
            other = np.abs(X) @ ones
    power = 4 if order == 2 else 1
    return squares, 1 + (squares @ ones) / unit**2 + other / unit**power


def _part_moments(X: Any, unit: float, order: int, out: np.ndarray) -> np.ndarray:
    """Return the sums of (u, u^2, 1), u = x / unit, of rows scaled to norm one."""
    with np.errstate(over="ignore"):
        squares, size = _powers(X, unit, order, out)
    if not np.max(size) <= _OVERFLOW:
        X = _tamed(X, size, unit)
        squares, size = _powers(X, unit, order, out)
    weights = 1 / ((size if order == 1 else np.sqrt(size)) * _SAFE)
    first, second = X.T @ weights / unit, squares.T @ weights / unit**2
    return np.concatenate([first, second, [weights.sum()]])


def moment_sums(
    X: Any, y: np.ndarray, unit: float, order: int, counted: bool, thin: int = 1
) -> tuple[np.ndarray, int]:
    """Return the sums of the first release, and the number of rows in them.

    A row adds a vector of norm at most one, wherever it stands.

    Parameters
    ----------
    X : ndarray or CSR matrix
        Rows, at most 1e20 units large.
    y : ndarray of shape (n_rows, n_targets)
        Targets in [-1, 1].
    unit : float
        Unit of the rows.
    order : {1, 2}
        The norm.
    counted : bool
        Whether a count comes last.
    thin : int, default=1
        Only the first of so many parts of every block of rows is used.
    """
    n_rows, width = X.shape
    share, y_share = _shares(order, y.shape[1], counted)
    inner, outer = np.zeros(2 * width + 1), np.zeros(2 * y.shape[1])
    out, used = np.empty(0), 0
    for part in slices(n_rows, 8 if sparse.issparse(X) else width):
        size = -(-(part.stop - part.start) // thin)
        part, used = slice(part.start, part.start + size), used + size
        block = X[part].astype(np.float64, copy=False)
        if out.size == 0 and not sparse.issparse(X):
            out = np.empty(block.size)
        inner += _part_moments(block, unit, order, out)
        ones = np.ones(size)
        outer += np.append(ones @ y[part], ones @ (y[part] ** 2 - 0.5))
    count = [y_share * used] if counted else []
    return np.concatenate([share * inner, y_share / _SAFE * outer, count]), used


def read_moments(
    sums: np.ndarray,
    std: float,
    n_features: int,
    order: int,
    n_rows: float | None,
    centered: bool,
) -> Moments:
    """Return the moments that noisy sums tell.

    Parameters
    ----------
    sums : ndarray
        Noisy sums.
    std : float
        Standard deviation of the noise on each of them.
    n_features, order : int
        As in ``moment_sums``.
    n_rows : float or None
        The number of rows, where it is public.
    centered : bool
        Whether means are wanted; else they count as 0.
    """
    counted = n_rows is None
    d, k = n_features, (sums.size - 2 * n_features - 1 - counted) // 2
    share, y_share = _shares(order, k, counted)
    x_std, y_std = std / share, std / y_share
    found, y_found = sums[: 2 * d + 1] / share, sums[2 * d + 1 :] / y_share
    count = max(float(y_found[-1]), y_std) if counted else n_rows
    weight = max(float(found[-1]), 3 * x_std)
    if not counted:
        weight = min(weight, count)
    mean = found[:d] / weight if centered else np.zeros(d)
    variance = np.maximum(found[d : 2 * d] / weight - mean**2, 0)
    y_error = y_std / count
    # The mean of a normal prior around the middle of the bounds.
    shrunk = y_found[:k] / count * _CENTER_SPREAD / (_CENTER_SPREAD + y_error**2)
    y_mean = np.clip(shrunk, -1, 1) if centered else np.zeros(k)
    y_variance = np.clip(y_found[k : 2 * k] / count + 0.5 - y_mean**2, 0, 1)
    usable = bool(found[-1] >= 4 * x_std)
    error = x_std / weight
    return Moments(mean, variance, error, count, y_mean, y_variance, y_error, usable)


# --- Rows of norm one


@dataclass(frozen=True)
class RowMap:
    """From the user's rows to rows of norm at most one; all of it public or released.

    A row becomes ``v = (x - center) * scale`` and a constant. ``weighted`` rows are
    divided by their norm, but by no less than ``floor``, constant and target included:
    weighted least squares. Others are clipped, constant left out, to norm ``limit``.
    """

    center: np.ndarray
    scale: np.ndarray
    constant: float | None
    weighted: bool
    floor: float = 0.25
    limit: float = 1.0

    @property
    def shift(self) -> np.ndarray:
        """The centre, scaled."""
        return self.center * self.scale

    @property
    def magnitude(self) -> float:
        """Bound of the terms that products add up, where a row has norm one."""
        return 1 + 2 * float(np.linalg.norm(self.shift)) / self.floor

    def factors(self, squares: np.ndarray) -> np.ndarray:
        """Return what each row is multiplied with, from its squared norm."""
        if self.weighted:
            norms = np.sqrt(squares + (self.constant or 0.0) ** 2)
            return 1 / (np.maximum(norms, self.floor) * _SAFE)
        return self.limit / np.maximum(np.sqrt(squares) * _SAFE, self.limit)

    def rows(self, X: Any, unit: float) -> "MappedRows":
        """Return the mapped rows; ``unit`` says which values are huge."""
        return MappedRows(self, X, unit)

    def to_user(self, w: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return coefficients and intercept for the user's rows."""
        d = self.scale.size
        constant = 0.0 if self.constant is None else self.constant * w[d]
        return w[:d] * self.scale[:, None], constant - self.shift @ w[:d]


class MappedRows:
    """Rows under a map, never stored: ``weight * (factor * v, constant)``.

    Parameters
    ----------
    mapped : RowMap
        The map.
    X : ndarray or CSR matrix
        The user's rows.
    unit : float
        Their unit.

    Attributes
    ----------
    magnitude : float
        Bound of the terms that ``gather`` and ``scores`` add up, for a norm of one.
    gram_magnitude : float
        The same for ``products``.
    scales : ndarray of shape (width,) or None
        What the columns of ``products`` are still to be multiplied with.
    """

    def __init__(self, mapped: RowMap, X: Any, unit: float) -> None:
        self.map, self.X, self.magnitude = mapped, X, mapped.magnitude
        self.shape = X.shape[0], X.shape[1] + (mapped.constant is not None)
        self.sparse = sparse.issparse(X)
        self.gram_magnitude = self.magnitude**2 if self.sparse else 1.0
        self.scales = None
        if not self.sparse:
            constant = [] if mapped.constant is None else [mapped.constant]
            self.scales = np.append(mapped.scale, constant)
        self.factors = np.ones(X.shape[0])
        self._unit = unit
        self._tamed: dict[int, np.ndarray] = {}
        self._buffers, self._centers = np.empty((2, 0)), np.empty(0)

    def parts(self) -> Any:
        """Yield slices of rows."""
        return slices(self.shape[0], 8 if self.sparse else self.shape[1])

    def weights(self, part: slice) -> np.ndarray | float:
        """Return what targets are multiplied with; known after ``products``."""
        return self.factors[part, None] if self.map.weighted else 1.0

    def products(
        self, part: slice, y: np.ndarray, gram: np.ndarray, cross: np.ndarray
    ) -> np.ndarray:
        """Add to Gram matrix and cross moments, not scaled; return the targets used."""
        return (self._sparse if self.sparse else self._dense)(part, y, gram, cross)

    def _dense(
        self, part: slice, y: np.ndarray, gram: np.ndarray, cross: np.ndarray
    ) -> np.ndarray:
        mapped = self.map
        X = self.X[part].astype(np.float64, copy=False)
        if self._buffers.shape[1] < X.size:
            self._buffers = np.empty((2, X.size))
        with np.errstate(over="ignore"):
            Z, squares = self._squares(X)
        if not np.max(squares) <= _OVERFLOW:
            X = self._tamed[part.start] = _tamed(X, squares, self._unit)
            Z, squares = self._squares(X)
        factors = self.factors[part] = mapped.factors(squares)
        X = Z
        if mapped.weighted or factors.min(initial=1) < 1:
            X = np.multiply(X, factors[:, None], out=self._buffer(0, X.shape))
        used = clip_rows(self.weights(part) * y)
        width = X.shape[1]
        gram[:width, :width] += X.T @ X
        cross[:width] += X.T @ used
        if mapped.constant is not None:
            ones = factors if mapped.weighted else np.ones(len(factors))
            edge = X.T @ ones
            gram[width, :width] += edge
            gram[:width, width] += edge
            gram[width, width] += ones @ ones
            cross[width] += ones @ used
        return used

    def _buffer(self, number: int, shape: tuple[int, int]) -> np.ndarray:
        return self._buffers[number, : shape[0] * shape[1]].reshape(shape)

    def _squares(self, X: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return the centred rows, not scaled, and their squared norms, scaled."""
        if self.map.weighted:
            X = self._centered(X)
        squares = np.multiply(X, X, out=self._buffer(1, X.shape))
        return X, squares @ self.map.scale**2

    def _centered(self, X: np.ndarray) -> np.ndarray:
        """Return X - center; as one long vector where possible, which is faster."""
        out = self._buffer(0, X.shape)
        if not X.flags.c_contiguous:
            return np.subtract(X, self.map.center, out=out)
        if self._centers.size < X.size:
            self._centers = np.tile(self.map.center, len(X))
        np.subtract(X.ravel(), self._centers[: X.size], out=out.ravel())
        return out

    def _sparse(
        self, part: slice, y: np.ndarray, gram: np.ndarray, cross: np.ndarray
    ) -> np.ndarray:
        mapped, X = self.map, self.X[part].astype(np.float64)
        shift, scale = mapped.shift, mapped.scale
        squares = X.multiply(X) @ scale**2 + float(shift @ shift)
        # An upper bound of |x * scale - shift|^2, tight to rounding errors.
        slack = 4 * (X.shape[1] + 4) * 2.0**-53 * squares
        squares -= 2 * (X @ (scale * shift))
        factors = mapped.factors(np.maximum(squares, 0) + slack)
        self.factors[part] = factors
        used = clip_rows(self.weights(part) * y)
        inner, outer = np.ones(len(factors)), factors
        if mapped.weighted:
            inner, outer = outer**2, inner
        rows = SparseRows(X, outer, scale, shift, mapped.constant, 1.0, 1.0)
        gram += rows.gram(slice(0, len(factors)), inner)
        cross += self.gather(part, used)
        return used

    def _block(self, part: slice) -> Any:
        """Return some of the user's rows, huge ones tamed; after ``products``."""
        return self._tamed.get(part.start, self.X[part])

    def gather(self, part: slice, values: np.ndarray) -> np.ndarray:
        """Return the sum of rows times values."""
        used = self.factors[part, None] * values
        total = np.asarray(self._block(part).T @ used) * self.map.scale[:, None]
        total -= np.outer(self.map.shift, used.sum(axis=0))
        if self.map.constant is None:
            return total
        edge = (used if self.map.weighted else values).sum(axis=0)
        return np.vstack([total, self.map.constant * edge])

    def scores(self, part: slice, w: np.ndarray) -> np.ndarray:
        """Return rows times w."""
        width, constant = self.X.shape[1], self.map.constant
        scores = np.asarray(self._block(part) @ (w[:width] * self.map.scale[:, None]))
        scores -= self.map.shift @ w[:width]
        if not self.map.weighted:
            scores *= self.factors[part, None]
        if constant is not None:
            scores += constant * w[width]
        return scores * self.weights(part)


# --- The Gram matrix and the cross moments


def gram_sums(rows: Any, y: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return the Gram matrix, the cross moments, and the targets of norm <= 1 used."""
    width, used = rows.shape[1], np.empty_like(y)
    gram, cross = np.zeros((width, width)), np.zeros((width, y.shape[1]))
    for part in rows.parts():
        used[part] = rows.products(part, y[part], gram, cross)
    if rows.scales is not None:
        gram *= rows.scales[:, None]
        gram *= rows.scales
        cross *= rows.scales[:, None]
    return gram, cross, used


def pack(gram: np.ndarray, cross: np.ndarray, ratio: float, order: int) -> np.ndarray:
    """Return both as one vector; for order 2 with the norm of the whole matrix."""
    upper = np.triu_indices(len(gram))
    factor = np.where(upper[0] == upper[1], 1.0, math.sqrt(2) if order == 2 else 1.0)
    return np.append(gram[upper] * factor, ratio * cross)


def unpack(
    vector: np.ndarray, width: int, ratio: float, order: int
) -> tuple[np.ndarray, np.ndarray]:
    """Undo ``pack``."""
    upper = np.triu_indices(width)
    factor = np.where(upper[0] == upper[1], 1.0, math.sqrt(2) if order == 2 else 1.0)
    gram = np.zeros((width, width))
    gram[upper] = vector[: factor.size] / factor
    gram = gram + np.triu(gram, 1).T
    return gram, vector[factor.size :].reshape(width, -1) / ratio


def joint_sensitivity(
    width: int, targets: int, order: int, neighboring: str
) -> tuple[float, float]:
    """Return the sensitivity of Gram matrix and cross moments, and the latter's ratio.

    For rows and targets of norm at most one (docs, theory of ridge regression). L2:
    the ratio is 1. L1: it makes both parts equal; only the upper triangle counts.
    """
    if order == 2:
        return (3 / math.sqrt(2) if neighboring == "replace" else math.sqrt(2)), 1.0
    cross = math.sqrt(width * targets)
    ratio = (width + 1) / (2 * cross)
    if neighboring == "add_remove":
        return width + 1.0, ratio
    # The maximum over phi of 2 cos(phi) (sqrt(2) a sin(phi) + b).
    a, b = math.sqrt(width * (width + 3)) / 2, ratio * cross
    sine = (math.hypot(b, 4 * a) - b) / (4 * math.sqrt(2) * a)
    return 2 * math.sqrt(1 - sine**2) * (math.sqrt(2) * a * sine + b), ratio


# --- Residuals


def clipped_residuals(
    used: np.ndarray, scores: np.ndarray, width: np.ndarray
) -> np.ndarray:
    """Return residuals in terms of a width for each target, of norm at most one."""
    return clip_rows((used - scores) / width)


def residual_sums(
    rows: Any, used: np.ndarray, w: np.ndarray, width: np.ndarray
) -> np.ndarray:
    """Return the cross moments of clipped residuals; a row's norm is at most one."""
    total = np.zeros(w.shape)
    for part in rows.parts():
        scores = rows.scores(part, w)
        total += rows.gather(part, clipped_residuals(used[part], scores, width))
    return total


# --- After the noise


def shrink(
    gram: np.ndarray, std: float, target: np.ndarray
) -> tuple[np.ndarray, float]:
    """Shrink a noisy Gram matrix towards a diagonal, as far as the noise suggests.

    ``std`` is the noise of the diagonal; the rest has 1/sqrt(2) of it. Returns the
    matrix and the share of its off-diagonal part that was kept.
    """
    diagonal = np.diag(gram)
    rest = gram - np.diag(diagonal)
    pairs = max(rest.size - len(rest), 1)
    power = max(float(np.sum(rest**2)) / pairs, 1e-300)
    kept = max(0.0, 1 - std**2 / 2 / power)
    away = diagonal - target
    believed = max(0.0, 1 - std**2 / max(float(np.mean(away**2)), 1e-300))
    return kept * rest + np.diag(target + believed * away), kept


def posterior_mean(
    values: np.ndarray,
    vectors: np.ndarray,
    cross: np.ndarray,
    gram_error: float,
    cross_std: float,
    noise: float,
    largest: float,
) -> np.ndarray:
    """Return the mean of w given noisy cross moments A w + error.

    The prior is N(0, tau I), with tau on a grid up to ``largest``, weighted by its
    marginal likelihood: the size of the coefficients comes from the released values.

    Parameters
    ----------
    values, vectors : ndarray
        Eigenvalues >= 0 and eigenvectors of the Gram matrix A.
    cross : ndarray of shape (width,)
        Noisy cross moments.
    gram_error : float
        Variance of the noise of A in a product with a unit vector.
    cross_std : float
        Noise of the cross moments.
    noise : float
        Variance of the target given the row.
    largest : float
        Largest tau.
    """
    inner = vectors.T @ cross
    tau = (largest * _TAUS)[:, None]
    variance = tau * (values**2 + gram_error) + cross_std**2 + noise * values
    fit = np.sum(np.log(variance) + inner**2 / variance, axis=1)
    weight = np.exp((np.min(fit) - fit) / 2)
    weight /= weight.sum()
    return vectors @ (weight @ (tau * values * inner / variance))


def line_search(
    w: np.ndarray, gram: np.ndarray, cross: np.ndarray, std: float
) -> np.ndarray:
    """Shorten w to the minimum of the noisy quadratic on its line, where nearer."""
    bend = float(w @ gram @ w + std * (w @ w))
    if bend <= 0:
        return w
    return w * min(1.0, max(float(w @ cross), 0.0) / bend)
