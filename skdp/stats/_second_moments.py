"""Second moments, sums and number of rows of norm at most one, released together.

A row u adds ``(u u^T, c u, e)``: the upper triangle of its outer product, itself and
one, with public weights c and e. In the L2 norm what is above the diagonal counts
sqrt(2) times, so that the triangle has the Frobenius norm of the matrix; in the L1 norm
it counts once (docs, theory of covariances).
"""

import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from skdp import events
from skdp.erm.rows import BLOCK, rounding, slices
from skdp.noise import RandomBits
from skdp.stats._release import Release, plan_release

__all__ = [
    "MomentPlan",
    "Moments",
    "ball_rows",
    "box_rows",
    "clip_norms",
    "l1_sensitivity",
    "l2_sensitivity",
    "moment_sums",
    "pack",
    "plan_moments",
    "positive_part",
    "release_moments",
    "sum_error",
]

_SAFE = 1 + 1e-9  # above the rounding errors of one row's own numbers
_HUGE = 1e150  # squares of it are still floats


# --- Rows of norm at most one, block by block


def clip_norms(rows: np.ndarray, norm: float = 1.0) -> np.ndarray:
    """Scale rows that are longer than ``norm`` back to it, in place."""
    lengths = np.sqrt(np.einsum("ij,ij->i", rows, rows)) * _SAFE
    rows *= (norm / np.maximum(lengths, norm))[:, None]
    return rows


def box_rows(
    X: np.ndarray, low: np.ndarray, high: np.ndarray, norm: float, missing: bool
) -> Iterator[np.ndarray]:
    """Yield rows clipped to bounds, in half widths from their middle, over ``norm``.

    Rows of more than norm one are scaled back; rows with NaN are left out where
    ``missing``.
    """
    middle, half = low / 2 + high / 2, (high - low) / 2
    clip = norm < math.sqrt(X.shape[1])
    for part in slices(*X.shape):
        block = X[part]
        if missing:
            block = block[~np.isnan(block).any(axis=1)]
        rows = np.clip(block, low, high).astype(np.float64, copy=False)
        rows -= middle
        rows /= half
        np.clip(rows, -1, 1, out=rows)  # the middle is rounded
        rows /= norm
        yield clip_norms(rows) if clip else rows


def ball_rows(X: np.ndarray, center: np.ndarray, norm: float) -> Iterator[np.ndarray]:
    """Yield ``(x - center)/norm``, rows longer than one scaled back to it."""
    for part in slices(*X.shape):
        rows = X[part].astype(np.float64)
        with np.errstate(over="ignore"):
            rows -= center
            rows /= norm
        # What would overflow when squared; a row that far keeps its signs only.
        np.clip(rows, -_HUGE, _HUGE, out=rows)
        yield clip_norms(rows)


# --- What one row adds


def pack(
    gram: np.ndarray, sums: np.ndarray, count: float, kind: str, c: float, e: float
) -> np.ndarray:
    """Return the released vector; parts of weight zero are left out."""
    upper = np.triu_indices(len(gram))
    factor = math.sqrt(2) if kind == "gaussian" else 1.0
    parts = [gram[upper] * np.where(upper[0] == upper[1], 1.0, factor)]
    if c:
        parts.append(c * sums)
    if e:
        parts.append([e * count])
    return np.concatenate(parts)


def l2_sensitivity(
    c: float, e: float, neighboring: str, missing: bool = False
) -> float:
    """Return the L2 sensitivity of the sums of ``(u u^T, c u, e)``, c**2 <= 2.

    With ``missing``, "replace" may also take a row away, or add one.
    """
    one = math.sqrt(1 + c**2 + e**2)
    if neighboring == "add_remove":
        return one
    two = (2 + c**2) / math.sqrt(2)
    return max(one, two) if missing else two


def l1_sensitivity(
    d: int, c: float, e: float, neighboring: str, missing: bool, largest: float = 1.0
) -> float:
    """Return the L1 sensitivity; ``largest`` bounds the coordinates of u."""
    one = (d + 1) / 2 + c * math.sqrt(d) + e
    if neighboring == "add_remove":
        return one
    # By the norms: the maximum over phi of 2 cos(phi) (sqrt(2) a sin(phi) + b).
    a, b = math.sqrt(d * (d + 3)) / 2, c * math.sqrt(d)
    sine = (math.hypot(b, 4 * a) - b) / (4 * math.sqrt(2) * a)
    two = 2 * math.sqrt(1 - sine**2) * (math.sqrt(2) * a * sine + b)
    # By the coordinates: x^2 - y^2 + c (x - y) on [-largest, largest].
    single = (largest + c / 2) ** 2 if c <= 2 * largest else 2 * c * largest
    two = min(two, d * single + d * (d - 1) * largest**2)
    return max(one, two) if missing else two


def sum_error(n_rows: float, width: int) -> float:
    """Return by how much two float sums of rows of norm one can be off together."""
    return 2 * rounding(BLOCK + n_rows / 256 + width + 16) * n_rows


# --- The release


@dataclass(frozen=True)
class MomentPlan:
    """Noise of the moments, and the weights of their parts.

    Parameters
    ----------
    release : Release
        The noise.
    c, e : float
        Weights of the sums and of the number of rows; 0 where not released.
    """

    release: Release
    c: float
    e: float

    @property
    def event(self) -> events.Event:
        """What the release costs."""
        return self.release.event


class Moments(NamedTuple):
    """Noisy moments, and the standard deviations of their noise."""

    gram: np.ndarray
    sums: np.ndarray
    count: float
    gram_std: np.ndarray
    sums_std: float
    count_std: float


def plan_moments(
    n_features: int,
    n_rows: float,
    epsilon: float,
    delta: float,
    method: str,
    neighboring: str,
    *,
    sums: bool = True,
    missing: bool = False,
    largest: float = 1.0,
) -> MomentPlan:
    """Return noise and weights, from public numbers.

    Parameters
    ----------
    n_features : int
        Number of features.
    n_rows : float
        A public bound of the number of rows.
    epsilon, delta : float
        The price.
    method : {"auto", "laplace", "gaussian"}
        Noise.
    neighboring : str
        Neighbour relation.
    sums : bool
        Whether the sums of the rows are released, too.
    missing : bool
        Whether rows may be left out.
    largest : float
        A bound of the coordinates of the rows.
    """
    d, added = n_features, neighboring == "add_remove"
    counted = added or missing
    # The sums' error enters covariances times the mean: the weights balance the two.
    weights2 = (math.sqrt(0.5) * sums, (0.5 if added else 1.25) * counted)
    c = max(1.0, (d + 1) / 4) / math.sqrt(d)
    weights1 = (c * sums, c / 2 * counted)
    one2 = l2_sensitivity(*weights2, "add_remove")
    one1 = l1_sensitivity(d, *weights1, "add_remove", missing)
    two2 = l2_sensitivity(*weights2, neighboring, missing)
    two1 = l1_sensitivity(d, *weights1, neighboring, missing, largest)
    error = sum_error(n_rows, d)
    norms = two1 * _SAFE + error * one1, two2 * _SAFE + error * one2
    size = d * (d + 1) // 2 + d + 1
    release = plan_release(*norms, epsilon, delta, method, neighboring, size)
    return MomentPlan(release, *(weights2 if release.kind == "gaussian" else weights1))


def moment_sums(
    blocks: Iterable[np.ndarray], n_features: int
) -> tuple[np.ndarray, np.ndarray, int]:
    """Return second moments, sums and number of the rows of some blocks."""
    gram, sums = np.zeros((n_features, n_features)), np.zeros(n_features)
    count = 0
    for rows in blocks:
        gram += rows.T @ rows
        sums += np.ones(len(rows)) @ rows
        count += len(rows)
    return gram, sums, count


def release_moments(
    plan: MomentPlan,
    blocks: Iterable[np.ndarray],
    n_features: int,
    n_rows: int,
    bits: RandomBits,
) -> Moments:
    """Return noisy moments of rows of norm one; ``n_rows`` is used where public."""
    d, release = n_features, plan.release
    exact = pack(*moment_sums(blocks, d), release.kind, plan.c, plan.e)
    noisy = release.add(exact, bits)
    upper = np.triu_indices(d)
    factor = math.sqrt(2) if release.kind == "gaussian" else 1.0
    factor = np.where(upper[0] == upper[1], 1.0, factor)
    gram, stds = np.empty((d, d)), np.empty((d, d))
    size = len(upper[0])
    gram[upper] = gram.T[upper] = noisy[:size] / factor
    stds[upper] = stds.T[upper] = release.std / factor
    sums, sums_std = np.zeros(d), 0.0
    if plan.c:
        sums, sums_std = noisy[size : size + d] / plan.c, release.std / plan.c
    count, count_std = float(n_rows), 0.0
    if plan.e:
        count, count_std = max(1.0, noisy[-1] / plan.e), release.std / plan.e
    return Moments(gram, sums, count, stds, sums_std, count_std)


def positive_part(matrix: np.ndarray) -> np.ndarray:
    """Return the nearest positive semidefinite matrix, exactly symmetric."""
    values, vectors = np.linalg.eigh((matrix + matrix.T) / 2)
    if values[0] >= 0:
        return (matrix + matrix.T) / 2
    found = (vectors * np.maximum(values, 0)) @ vectors.T
    return (found + found.T) / 2
