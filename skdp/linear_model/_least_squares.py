"""The sums of ridge regression, what one row adds to them, and their release.

Three kinds of sums over the rows are released: moments, a Gram matrix together with its
cross moments, and cross moments of residuals. Each row's part in them has a bounded
norm (docs, theory of ridge regression); whatever follows the noise is post-processing.
"""

import math
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from scipy import sparse

from skdp import events
from skdp.erm.perturbation import Noise
from skdp.erm.rows import BLOCK, rounding, slices
from skdp.linear_model._unit_rows import SAFE, clip_rows, tamed_rows
from skdp.noise import RandomBits

__all__ = [
    "RidgeMoments",
    "RidgePlan",
    "add_noise",
    "clipped_residuals",
    "gram_sums",
    "joint_sensitivity",
    "moment_sums",
    "pack",
    "read_ridge_moments",
    "release_products",
    "release_residuals",
    "residual_sums",
    "sum_error",
    "unpack",
]

_TARGET = 0.2  # the targets' share of a row's squared norm in the moments
# Recipes: chosen on the data sets named in docs/linear_models.rst; they change accuracy
# only, never the guarantee.
_CENTER_SPREAD = 0.03  # squared distance of the targets' mean from the middle
_LEAST_WEIGHT, _USABLE = 3.0, 4.0  # deviations of the rows' weight: its least, enough


@dataclass(frozen=True)
class RidgePlan:
    """Everything about a fit that is fixed before the data is touched.

    Parameters
    ----------
    noises : tuple of Noise
        One for each release, in their order; the rates are for one row.
    event : Event
        What all of it costs.
    n_rows : float
        A public bound of the number of rows.
    n_features : int
        Number of features.
    neighboring : str
        Neighbour relation.
    """

    noises: tuple[Noise, ...]
    event: events.Event
    n_rows: float
    n_features: int
    neighboring: str
    subtasks: int = 0

    @property
    def order(self) -> int:
        """The norm of the sensitivities: 2 for Gaussian noise, 1 for Laplace."""
        return 2 if self.noises[0].kind == "gaussian" else 1


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


# --- Moments


class RidgeMoments(NamedTuple):
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
    squares, size = _powers(X, unit, order, out)
    weights = 1 / ((size if order == 1 else np.sqrt(size)) * SAFE)
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
        Rows; values of sparse ones are at most 1e20 units large.
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
        if not sparse.issparse(X):
            block = tamed_rows(block, unit)
            if out.size == 0:
                out = np.empty(block.size)
        inner += _part_moments(block, unit, order, out)
        ones = np.ones(size)
        outer += np.append(ones @ y[part], ones @ (y[part] ** 2 - 0.5))
    count = [y_share * used] if counted else []
    return np.concatenate([share * inner, y_share / SAFE * outer, count]), used


def read_ridge_moments(
    sums: np.ndarray,
    std: float,
    n_features: int,
    order: int,
    n_rows: float | None,
    centered: bool,
) -> RidgeMoments:
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
    weight = max(float(found[-1]), _LEAST_WEIGHT * x_std)
    if not counted:
        weight = min(weight, count)
    mean = found[:d] / weight if centered else np.zeros(d)
    variance = np.maximum(found[d : 2 * d] / weight - mean**2, 0)
    y_error = y_std / count
    # The mean of a normal prior around the middle of the bounds.
    shrunk = y_found[:k] / count * _CENTER_SPREAD / (_CENTER_SPREAD + y_error**2)
    y_mean = np.clip(shrunk, -1, 1) if centered else np.zeros(k)
    y_variance = np.clip(y_found[k : 2 * k] / count + 0.5 - y_mean**2, 0, 1)
    usable = bool(found[-1] >= _USABLE * x_std)
    error = x_std / weight
    return RidgeMoments(
        mean, variance, error, count, y_mean, y_variance, y_error, usable
    )


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


def release_products(
    plan: RidgePlan, noise: Noise, rows: Any, y: np.ndarray, bits: Any
) -> tuple[np.ndarray, np.ndarray, tuple[float, float], np.ndarray]:
    """Return noisy Gram matrix and cross moments, their noise, and the targets used."""
    width, order = rows.shape[1], plan.order
    full, ratio = joint_sensitivity(width, y.shape[1], order, plan.neighboring)
    single = joint_sensitivity(width, y.shape[1], order, "add_remove")[0]
    error = sum_error(plan.n_rows, width) * rows.gram_magnitude * single
    sensitivity = full / (2 if plan.neighboring == "replace" else 1) + error
    gram, cross, used = gram_sums(rows, y)
    noisy, std = add_noise(noise, pack(gram, cross, ratio, order), sensitivity, bits)
    gram, cross = unpack(noisy, width, ratio, order)
    return gram, cross, (std if order == 2 else math.sqrt(2) * std, std / ratio), used


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


def release_residuals(
    plan: RidgePlan,
    rows: Any,
    used: np.ndarray,
    w: np.ndarray,
    clip: np.ndarray,
    bits: Any,
) -> tuple[np.ndarray, float]:
    """Return noisy cross moments of clipped residuals, and their noise."""
    bound = 1.0 if plan.order == 2 else math.sqrt(w.size)
    # Scores may be rounded otherwise at another place of a block.
    size = (1 + float(np.linalg.norm(w))) / float(np.min(clip))
    scores = 2 * rounding(len(w) + 16) * plan.n_rows * size
    error = (sum_error(plan.n_rows, len(w)) + scores) * rows.magnitude
    sums = residual_sums(rows, used, w, clip)
    return add_noise(plan.noises[2], sums, bound * (1 + error), bits)
