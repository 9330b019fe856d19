"""Ridge regression after the noise: coefficients from noisy sums.

Everything here is post-processing of released values, in which anything may be done.
"""

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from skdp.linear_model._least_squares import RidgeMoments
from skdp.linear_model._unit_rows import UnitMap

__all__ = [
    "PRIOR",
    "System",
    "centered_solution",
    "expected_diagonal",
    "first_solution",
    "left_variance",
    "line_search",
    "moments_map",
    "plain_solution",
    "posterior_mean",
    "shrink",
    "system_of",
    "without_features",
]

# Recipes: chosen on the data sets named in docs/linear_models.rst; they change accuracy
# only, never the guarantee.
PRIOR = 100.0  # largest prior variance of a coefficient, in variances of the target
_TAUS = np.concatenate([[0.0], np.logspace(-6, 0, 61)])  # shares of it
_CONSTANT = 0.25  # the constant column, where rows have a typical norm of one
_FLOOR = 1e-4  # smallest variance, in squared units
_SCALE_DOUBT, _NORM_DOUBT = 2.0, 0.7  # what noise adds to variances: scale, norm
_LEAST_TRACE = 0.05  # of a Gram matrix, for each row
_LEAST_CORNER, _MOST_CORNER = 0.2, 0.9  # of the constant: of its share, of the trace
_PLAIN_NOISE = 0.01  # variance of unscaled targets given the row: rather too small
_PLAIN_PRIOR = 25.0  # largest prior variance of a coefficient of unscaled rows


# --- The map that the moments suggest


def without_features(moments: RidgeMoments) -> RidgeMoments:
    return moments._replace(mean=moments.mean[:0], variance=moments.variance[:0])


def moments_map(moments: RidgeMoments, unit: float, fit_intercept: bool) -> UnitMap:
    """Return the map to centred and scaled rows with a typical norm of one."""
    variance, error = moments.variance + _FLOOR, moments.error
    scale = 1 / np.sqrt(variance + _SCALE_DOUBT * error)
    typical = variance + _NORM_DOUBT * error
    scale /= math.sqrt(float(np.sum(scale**2 * typical)))
    constant = _CONSTANT if fit_intercept else None
    return UnitMap(moments.mean * unit, scale / unit, constant, weighted=True)


def expected_diagonal(
    moments: RidgeMoments, rows_map: UnitMap, unit: float, gram: np.ndarray, n_rows: Any
) -> np.ndarray:
    """Return the diagonal of the Gram matrix that the moments suggest."""
    total = max(float(np.trace(gram)), _LEAST_TRACE * moments.count)
    if n_rows is not None:
        total = min(total, n_rows) if rows_map.constant is None else n_rows
    share = (rows_map.scale * unit) ** 2 * moments.variance + 1e-9
    share /= share.sum()
    if rows_map.constant is None:
        return share * total
    if not share.size:
        return np.array([total])
    low, high = _LEAST_CORNER * _CONSTANT**2 * total, _MOST_CORNER * total
    last = min(max(float(gram[-1, -1]), low), high)
    return np.append(share * (total - last), last)


# --- Noisy normal equations


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


@dataclass(frozen=True)
class System:
    """Noisy normal equations, repaired."""

    gram: np.ndarray
    gram_std: float
    cross_std: float
    values: np.ndarray
    vectors: np.ndarray
    gram_error: float
    alpha: float | None

    def solve(
        self,
        cross: np.ndarray,
        std: float,
        noise: float,
        largest: float,
        start: Any = 0,
    ) -> np.ndarray:
        """Return coefficients for cross moments, or their change from ``start``."""
        if self.alpha is not None:
            pull = self.vectors.T @ (cross - self.alpha * start)
            tiny = 1e-12 * max(float(self.values[-1]), 1.0)
            return self.vectors @ (pull / np.maximum(self.values + self.alpha, tiny))
        w = posterior_mean(
            self.values, self.vectors, cross, self.gram_error, std, noise, largest
        )
        return line_search(w, self.gram, cross, self.gram_std)


def system_of(
    gram: np.ndarray,
    stds: tuple[float, float],
    target: np.ndarray | None,
    alpha: float | None,
) -> System:
    shrunk, kept = (gram, 1.0) if target is None else shrink(gram, stds[0], target)
    values, vectors = np.linalg.eigh(shrunk)
    error = kept * (len(gram) + 1) / 4 * stds[0] ** 2
    return System(gram, *stds, np.maximum(values, 0), vectors, error, alpha)


# --- Solutions


def plain_solution(system: System, cross: np.ndarray) -> np.ndarray:
    """Return coefficients for every target, shrunk against the added noise mostly."""
    share, std = 1 / cross.shape[1], system.cross_std
    w = [
        system.solve(b, std, _PLAIN_NOISE * share, _PLAIN_PRIOR * share)
        for b in cross.T
    ]
    return np.transpose(w)


def centered_solution(
    gram: np.ndarray, cross: np.ndarray, stds: tuple[float, float]
) -> np.ndarray:
    """Return coefficients of centred columns, and an intercept that is not shrunk."""
    mean, corner = gram[:-1, -1] / gram[-1, -1], gram[-1, -1]
    inner = gram[:-1, :-1] - corner * np.outer(mean, mean)
    system = system_of(inner, stds, None, None)
    w = plain_solution(system, cross[:-1] - np.outer(mean, cross[-1]))
    return np.vstack([w, cross[-1] / corner - mean @ w])


def first_solution(
    system: System, cross: np.ndarray, variance: np.ndarray
) -> np.ndarray:
    """Return coefficients for every target."""
    std = system.cross_std
    w = [
        system.solve(b, std, v, PRIOR * v)
        for b, v in zip(cross.T, variance, strict=True)
    ]
    return np.transpose(w)


def left_variance(
    system: System,
    cross: np.ndarray,
    w: np.ndarray,
    variance: np.ndarray,
    count: float,
) -> np.ndarray:
    """Return estimates, rather too large than too small, of what w leaves."""
    inner = system.vectors.T @ w
    explained = 2 * np.sum(w * cross, axis=0) - system.values @ inner**2
    noise = 2 * system.cross_std * np.linalg.norm(w, axis=0) / count
    return np.minimum(np.maximum(variance - explained / count, 0) + noise, variance)
