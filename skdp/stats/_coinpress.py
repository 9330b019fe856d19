"""CoinPress: mean and covariance where location and scale are hardly known.

Rows are never clipped to bounds of the values but to balls, which every step makes
smaller around what the step before released. The first steps look at differences of
pairs of rows, which have mean zero, and find a matrix A that turns the rows into ones
of about unit covariance; the next find a centre; the last one releases the result from
all rows. Every step is a Gaussian release with a share fixed in advance, and its clip
bound is made of public and released numbers only. So the guarantee holds for any rows;
that they are roughly Gaussian is needed for accuracy alone.

References
----------
Biswas, Dong, Kamath and Ullman (2020). CoinPress: practical private mean and covariance
estimation.
"""

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from scipy.special import chdtri

from skdp import events
from skdp.calibration import gaussian_shift
from skdp.erm.rows import slices
from skdp.noise import RandomBits
from skdp.stats._release import Release
from skdp.stats._second_moments import (
    clip_norms,
    l2_sensitivity,
    moment_sums,
    pack,
    positive_part,
    sum_error,
)
from skdp.validation import check_option, check_real

__all__ = [
    "CoinPressPlan",
    "CoinPressResult",
    "coinpress",
    "coinpress_mean",
    "plan_coinpress",
]

_SAFE = 1 + 1e-9
_TARGETS = ("mean", "covariance")
# Shares of the squared shift: scale, centre, result.
_SHARES = {"mean": (0.35, 0.1, 0.55), "covariance": (0.25, 0.05, 0.7)}
_CENTER_STEPS = 2
_MOST_STEPS = 8  # of the scale
_ROUGH = 0.05  # of Gaussian rows that a step of the scale clips
_FAR = 1e6  # rows are cut off at so many times the public size
_WEIGHT = 0.5  # of the sums beside the second moments, in the last step


@dataclass(frozen=True)
class CoinPressPlan:
    """All releases of a run, planned from public numbers.

    Parameters
    ----------
    scale, center : tuple of Release
        Steps that find the matrix A, and the centre.
    final : Release
        The last step.
    n_rows, n_features : int
        Shape of the table; the number of rows is public.
    radius : float
        Bound of the norm of the mean.
    spread : tuple of float
        Bounds of the standard deviation in every direction.
    target : {"mean", "covariance"}
        What the last step releases.
    """

    scale: tuple[Release, ...]
    center: tuple[Release, ...]
    final: Release
    n_rows: int
    n_features: int
    radius: float
    spread: tuple[float, float]
    target: str

    @property
    def event(self) -> events.Event:
        """What all steps cost: one Gaussian release with all of the shift."""
        steps = (*self.scale, *self.center, self.final)
        return events.Composed([step.event for step in steps])


class CoinPressResult(NamedTuple):
    """Released values, with their noise; all in the user's units."""

    mean: np.ndarray
    covariance: np.ndarray | None
    mean_std: np.ndarray
    covariance_std: np.ndarray | None
    rough: np.ndarray  # a covariance that is good to a small factor


# --- Planning


def _reach(n_features: int, clipped: float) -> float:
    """Return the radius of a ball that leaves out this share of standard normals."""
    return math.sqrt(float(chdtri(n_features, clipped)))


def _spectral(std: float, n_features: int) -> float:
    """Return a likely bound of the norm of symmetric noise with this diagonal std."""
    return std * (math.sqrt(2 * n_features) + 1)


def _sensitivity(one: float, two: float, n_rows: int, n_features: int) -> float:
    """Return a sensitivity with the rounding errors of sums over the rows."""
    return two * _SAFE + sum_error(n_rows, n_features) * one


def _scale_steps(
    n_pairs: int, n_features: int, shift: float, ratio: float
) -> tuple[int, float]:
    """Return how many steps to take for the scale, and by how much they narrow it.

    As few as bring it down by ``ratio``; else those that bring it down most.
    """
    square, found = _reach(n_features, _ROUGH) ** 2, []
    for steps in range(1, _MOST_STEPS + 1):
        std = math.sqrt(2) * square * math.sqrt(steps) / (shift * n_pairs)
        found.append((1.5 * _spectral(std, n_features)) ** steps)
        if found[-1] <= 2 * ratio:
            break
    best = min(found)
    return found.index(best) + 1, best


def plan_coinpress(
    n_rows: int,
    n_features: int,
    epsilon: float,
    delta: float,
    *,
    radius: float,
    spread: Any,
    target: str = "mean",
    neighboring: str = "replace",
) -> CoinPressPlan:
    """Return the plan of a run, from public numbers only.

    Parameters
    ----------
    n_rows, n_features : int
        Shape of the table. The number of rows is public.
    epsilon, delta : float
        The price of the whole run; delta > 0.
    radius : float
        Public bound of the norm of the mean.
    spread : pair of float
        Public bounds of the standard deviation, in every direction.
    target : {"mean", "covariance"}, default="mean"
        What to release at the end. "covariance" includes the mean.
    neighboring : {"replace"}
        Rows are paired by their place, which a row more or less would change for all.

    Returns
    -------
    CoinPressPlan
        Its ``event`` is what a run costs.
    """
    check_option(target, "target", _TARGETS)
    radius = check_real(radius, "radius", low=0, high=1e50, closed="left")
    low, high = _check_spread(spread)
    check_real(radius / low, "radius over spread[0]", high=1e50)
    if neighboring != "replace":
        raise ValueError(
            "method='coinpress' pairs the rows by their place and needs a public "
            f"number of them: it takes neighboring='replace'. Got {neighboring!r}."
        )
    if delta == 0:
        raise ValueError(
            "method='coinpress' uses Gaussian noise and needs delta > 0. Got delta=0. "
            "Use a delta far below one over the number of rows, such as 1e-6, or "
            "public 'bounds' with method='laplace'."
        )
    if n_rows < 2:
        raise ValueError(
            f"method='coinpress' pairs the rows: it takes two. Got n_samples={n_rows}."
        )
    shares, total = _SHARES[target], gaussian_shift(epsilon, delta)
    shift, ratio = total * math.sqrt(shares[0]), (low / high) ** 2
    steps = 0
    if ratio < 0.25:
        steps, narrowed = _scale_steps(n_rows // 2, n_features, shift, ratio)
        if narrowed > 0.25:
            raise ValueError(
                f"There are too few rows for so wide a 'spread': {n_rows:,} for "
                f"{n_features} feature(s). It takes about "
                f"{4 * n_rows * narrowed:,.0f} at this 'epsilon', or a pair whose "
                f"ends differ by a factor of two at most. Got spread={spread!r}."
            )
    if not steps:  # what the scale does not need goes to the result
        shares = (0.0, shares[1], 1 - shares[1])
    kind = ("gaussian",)
    rough = _sensitivity(1, math.sqrt(2), n_rows, n_features)
    scale = tuple(
        Release(*kind, total * math.sqrt(shares[0] / steps), rough, neighboring)
        for _ in range(steps)
    )
    around = _sensitivity(1, 2, n_rows, n_features)
    rate = total * math.sqrt(shares[1] / _CENTER_STEPS)
    center = (Release(*kind, rate, around, neighboring),) * _CENTER_STEPS
    if target == "mean":
        norm = around
    else:
        c = math.sqrt(_WEIGHT)
        one, two = (l2_sensitivity(c, 0, r) for r in ("add_remove", neighboring))
        norm = _sensitivity(one, two, n_rows, n_features)
    final = Release(*kind, total * math.sqrt(shares[2]), norm, neighboring)
    for step in (*scale, *center, final):  # raises now, before anything is paid
        step.grid(n_features * (n_features + 3) // 2)
    shape = n_rows, n_features
    return CoinPressPlan(scale, center, final, *shape, radius, (low, high), target)


def _check_spread(spread: Any) -> tuple[float, float]:
    try:
        low, high = spread
    except (TypeError, ValueError):
        raise TypeError(
            "The 'spread' parameter must be a pair (low, high) of standard deviations. "
            f"Got {spread!r}."
        ) from None
    low = check_real(low, "spread[0]", low=1e-90)
    high = check_real(high, "spread[1]", low=1e-90, high=1e90)
    if not (low <= high and low > 1e-12 * high):
        raise ValueError(
            "The 'spread' parameter must be a pair (low, high) with low <= high and "
            f"low above 1e-12 of it. Got {spread!r}."
        )
    return low, high


# --- Steps


def _cut(plan: CoinPressPlan, X: np.ndarray) -> np.ndarray:
    """Return rows without values so large that products of them overflow."""
    limit = _FAR * (plan.radius + plan.spread[1])
    return np.clip(X.astype(np.float64, copy=False), -limit, limit)


def _pairs(plan: CoinPressPlan, X: np.ndarray) -> Iterator[np.ndarray]:
    """Yield differences of rows 2i and 2i + 1 over sqrt(2), in blocks."""
    for part in slices(len(X) // 2, X.shape[1]):
        rows = _cut(plan, X[2 * part.start : 2 * part.stop])
        yield (rows[::2] - rows[1::2]) / math.sqrt(2)


def _around(
    plan: CoinPressPlan, X: np.ndarray, center: np.ndarray
) -> Iterator[np.ndarray]:
    """Yield rows minus the centre, in blocks."""
    for part in slices(*X.shape):
        yield _cut(plan, X[part]) - center


def _unit(
    blocks: Iterator[np.ndarray], inverse: np.ndarray, norm: float
) -> Iterator[np.ndarray]:
    """Yield rows times ``inverse``, over ``norm``, clipped to norm one."""
    for rows in blocks:
        yield clip_norms(rows @ (inverse / norm))


def _find_scale(
    plan: CoinPressPlan, X: np.ndarray, bits: RandomBits
) -> tuple[np.ndarray, np.ndarray]:
    """Return a root A of a likely bound of the covariance, and its inverse."""
    d, (low, high) = plan.n_features, plan.spread
    reach, n_pairs = _reach(d, _ROUGH), plan.n_rows // 2
    values, vectors = np.full(d, high**2), np.eye(d)
    for release in plan.scale:
        root = (vectors * np.sqrt(values)) @ vectors.T
        inverse = (vectors / np.sqrt(values)) @ vectors.T
        rows = _unit(_pairs(plan, X), inverse, reach)
        gram, std = _noisy_gram(release, rows, d, bits)
        found = gram * (reach**2 / n_pairs)
        margin = _spectral(std * reach**2 / n_pairs, d)
        found = positive_part(found) + margin * np.eye(d)
        found = root @ found @ root
        values, vectors = np.linalg.eigh((found + found.T) / 2)
        values = np.clip(values, low**2, high**2)
    root = (vectors * np.sqrt(values)) @ vectors.T
    return root, (vectors / np.sqrt(values)) @ vectors.T


def _noisy_gram(
    release: Release, rows: Iterator[np.ndarray], d: int, bits: RandomBits
) -> tuple[np.ndarray, float]:
    """Return noisy second moments of rows of norm one, and the diagonal's noise."""
    gram, sums, count = moment_sums(rows, d)
    noisy = release.add(pack(gram, sums, count, "gaussian", 0, 0), bits)
    return _unpack(noisy, d), release.std


def _unpack(noisy: np.ndarray, d: int) -> np.ndarray:
    upper, gram = np.triu_indices(d), np.empty((d, d))
    factor = np.where(upper[0] == upper[1], 1.0, math.sqrt(2))
    gram[upper] = gram.T[upper] = noisy[: len(upper[0])] / factor
    return gram


def _find_center(
    plan: CoinPressPlan,
    X: np.ndarray,
    root: np.ndarray,
    inverse: np.ndarray,
    bits: RandomBits,
) -> tuple[np.ndarray, float]:
    """Return a centre, and a likely bound of its distance from the mean, in A."""
    d, n = plan.n_features, plan.n_rows
    center, reach = np.zeros(d), _reach(d, _ROUGH)
    distance = plan.radius * float(np.linalg.norm(inverse, 2))
    for release in plan.center:
        norm = distance + reach
        rows = _unit(_around(plan, X, center), inverse, norm)
        step = release.add(moment_sums(rows, d)[1], bits) * (norm / n)
        step *= min(1.0, distance / max(float(np.linalg.norm(step)), 1e-300))
        center = center + root @ step
        error = release.std * norm / n * (math.sqrt(d) + 3) + reach / math.sqrt(n)
        distance = min(distance, error)
    return center, distance


# --- The run


def coinpress(plan: CoinPressPlan, X: np.ndarray, bits: RandomBits) -> CoinPressResult:
    """Run all steps on a table of finite numbers with the planned shape.

    Parameters
    ----------
    plan : CoinPressPlan
        Of :func:`plan_coinpress`.
    X : ndarray of shape (n_rows, n_features)
        The rows.
    bits : RandomBits
        Source of the noise.
    """
    d, n = plan.n_features, plan.n_rows
    if X.shape != (n, d):
        raise ValueError(f"The plan is for a table of shape {(n, d)}. Got {X.shape}.")
    root, inverse = _find_scale(plan, X, bits)
    center, distance = _find_center(plan, X, root, inverse, bits)
    norm = _reach(d, 0.1 / math.sqrt(n)) + distance
    gram, sums, _ = moment_sums(_unit(_around(plan, X, center), inverse, norm), d)
    square, sizes = root @ root, np.sqrt(np.sum(root**2, axis=1))
    if plan.target == "mean":
        step = plan.final.add(sums, bits) * (norm / n)
        std = plan.final.std * norm / n
        return CoinPressResult(center + root @ step, None, std * sizes, None, square)
    c = math.sqrt(_WEIGHT)
    noisy = plan.final.add(pack(gram, sums, n, "gaussian", c, 0), bits)
    step = noisy[-d:] / c * (norm / n)
    inner = positive_part(_unpack(noisy, d) * (norm**2 / n) - np.outer(step, step))
    found = root @ inner @ root
    std, moved = plan.final.std * norm / n, root @ step
    # The variance of u^T E v, E the noise, is (|u|^2 |v|^2 + (u v)^2)/2 times its own.
    variance = (std * norm) ** 2 / 2 * (np.outer(sizes, sizes) ** 2 + square**2)
    lever = np.outer(moved**2, sizes**2)
    variance += (std / c) ** 2 * (lever + lever.T + 2 * np.outer(moved, moved) * square)
    return CoinPressResult(
        center + moved,
        (found + found.T) / 2,
        std / c * sizes,
        np.sqrt(np.maximum(variance, 0)),
        square,
    )


def coinpress_mean(
    plan: CoinPressPlan, X: np.ndarray, bits: RandomBits
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return mean, standard deviation of its noise and rough variances, by feature.

    Parameters
    ----------
    plan : CoinPressPlan
        Of :func:`plan_coinpress` with ``target="mean"``.
    X : ndarray of shape (n_rows, n_features)
        The rows.
    bits : RandomBits
        Source of the noise.
    """
    found = coinpress(plan, X, bits)
    return found.mean, found.mean_std, np.diag(found.rough).copy()
