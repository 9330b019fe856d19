"""The event of objective perturbation, and the law that bounds its privacy loss.

The loss of the minimiser is at most a function of one Gaussian number, whatever the
data. The function has flat, quadratic and linear pieces (docs, theory of linear
models); this file integrates over them.
"""

import math
from dataclasses import dataclass
from functools import lru_cache
from typing import NamedTuple

import numpy as np
from scipy.optimize import brentq, minimize_scalar
from scipy.special import log_ndtr, logsumexp, ndtr

from skdp.divergences import DISCRETE_SLACK, gaussian_profiles
from skdp.events._base import Event
from skdp.validation import (
    Neighboring,
    check_integer,
    check_option,
    check_real,
    set_fields,
)

_LOSSES = ("logistic", "softmax", "one_sided", "two_sided")
_ROUNDING = 1 + 1e-9  # all results are rounded up by it
_SLACK = 2**10 * DISCRETE_SLACK  # the noise is on a grid
_SMALLEST, _LARGEST = 1e-100, 1e8  # shifts; above there is no privacy to speak of
_FLATTEST, _HIGHEST = 1e100, 1e30  # curvature and order; none above is of use
_AT_LEAST = (1.0, 1.5, 2.0, 3.0, 5.0, 10.0, 30.0)  # orders of triangle inequalities
_NODES, _WEIGHTS = np.polynomial.legendre.leggauss(12)
_ROOT2PI = math.sqrt(2 * math.pi)


def _nodes(cuts: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return Gauss-Legendre nodes and weights between sorted cuts (last axis)."""
    half = np.diff(cuts) / 2
    x = (cuts[..., :-1] + half)[..., None] + half[..., None] * _NODES
    weights = half[..., None] * _WEIGHTS
    shape = (*cuts.shape[:-1], -1)
    return x.reshape(shape), weights.reshape(shape)


@dataclass(frozen=True)
class _Piece:
    """Loss base + slope x + bend x^2, x = v - low, of a centred normal v > low."""

    low: float
    high: float
    std: float
    base: float
    slope: float = 1.0
    bend: float = 0.0
    weight: float = 1.0

    def loss(self, x: np.ndarray) -> np.ndarray:
        return self.base + x * (self.slope + self.bend * x)

    def nodes(
        self, reach: int, levels: np.ndarray | None = None
    ) -> tuple[np.ndarray, np.ndarray]:
        """Return losses and their weights, with cuts where the loss has levels.

        What is more than ``reach`` standard deviations from the mean is left out.
        """
        low = max(self.low, -reach * self.std)
        high = min(self.high, reach * self.std)
        if low >= high:
            return np.empty(0), np.empty(0)
        cuts = [np.arange(-reach, reach + 1) * self.std]
        if levels is not None:
            rise = np.maximum(levels - self.base, 0.0)
            root = self.slope + np.sqrt(self.slope**2 + 4 * self.bend * rise)
            with np.errstate(invalid="ignore", divide="ignore"):
                cuts.append(self.low + np.where(rise > 0, 2 * rise / root, 0.0))
        cuts = np.sort(np.clip(np.concatenate(cuts), low, high))
        cuts = cuts[np.append(True, np.diff(cuts) > 0)]
        v, weights = _nodes(cuts)
        density = np.exp(-((v / self.std) ** 2) / 2) / (self.std * _ROOT2PI)
        return self.loss(v - self.low), self.weight * weights * density

    def log_moments(self, gaps: np.ndarray) -> np.ndarray:
        """Return log E exp(gap * loss) on the piece."""
        if self.bend > 0:
            return self._log_quadratic_moments(gaps)
        tilt = gaps * self.slope * self.std
        exponent = gaps * (self.base - self.slope * self.low) + tilt * tilt / 2
        return math.log(self.weight) + exponent + log_ndtr(tilt - self.low / self.std)

    def _log_quadratic_moments(self, gaps: np.ndarray) -> np.ndarray:
        width, gaps = self.high - self.low, gaps[:, None]
        # The integrand is a bell or decays from the ends: cuts for both.
        precision = 1 / self.std**2 - 2 * gaps * self.bend
        safe = np.maximum(precision, 1e-300)
        with np.errstate(over="ignore"):
            peak = (gaps * self.slope - self.low / self.std**2) / safe
        bell = peak + np.arange(-10, 11) / np.sqrt(safe)
        ends = width * np.ldexp(1.0, -np.arange(64))
        ends = np.concatenate([[0.0], ends, width - ends])
        ends = np.broadcast_to(ends, (gaps.size, ends.size))
        cuts = np.concatenate([ends, np.clip(bell, 0.0, width)], axis=1)
        x, weights = _nodes(np.sort(cuts, axis=1))
        exponent = gaps * self.loss(x) - ((x + self.low) / self.std) ** 2 / 2
        scale = self.weight / (self.std * _ROOT2PI)
        return logsumexp(exponent, axis=1, b=weights) + math.log(scale)


class _Law(NamedTuple):
    """The law of a bound on the privacy loss: an atom, and pieces above it."""

    value: float
    mass: float
    pieces: tuple[_Piece, ...]

    def delta(self, epsilon: float, shift: float, scale: float = 0.0) -> float:
        """Return the delta with a Gaussian's, to far below exp(-scale) of the slack."""
        reach = min(math.ceil(math.sqrt(140 + 2 * scale)), 38)
        grid = np.arange(-reach, reach + 1) * shift
        offsets = np.concatenate([[0.0], grid - shift**2 / 2, grid + shift**2 / 2])
        beyond = 2 * float(ndtr(-reach))
        atom = gaussian_profiles(np.array([epsilon - self.value]), shift)
        total = self.mass * float(atom[0])
        for piece in self.pieces:
            levels = epsilon + offsets
            if piece.std > 0.5:  # there 1 - exp(epsilon - loss) bends more than v
                levels = np.append(levels, epsilon + np.arange(0.5, 40.5, 0.5))
            losses, weights = piece.nodes(reach, levels)
            total += float(weights @ gaussian_profiles(epsilon - losses, shift))
            total += piece.weight * beyond
        return total

    def renyi(self, gaps: np.ndarray) -> np.ndarray:
        """Return log E exp(gap * loss) / gap, where a gap is an order less one."""
        flat = gaps.ravel()
        # Small moments are near 1, the others large: each has its own formula.
        std = max(piece.std for piece in self.pieces)
        small = flat * (2 * std) <= 1
        large = ~small & (flat < _HIGHEST)
        moments = np.full(flat.shape, math.inf)
        moments[small] = self._small_log_moments(flat[small])
        moments[large] = self._large_log_moments(flat[large])
        return (moments / flat).reshape(gaps.shape)

    def _small_log_moments(self, gaps: np.ndarray) -> np.ndarray:
        parts = [piece.nodes(14) for piece in self.pieces]
        losses = np.concatenate([[self.value], *(part[0] for part in parts)])
        weights = np.concatenate([[self.mass], *(part[1] for part in parts)])
        exponent = gaps[:, None] * losses
        top = exponent.max(axis=1, keepdims=True)
        huge = top[:, 0] + np.log(np.exp(exponent - top) @ weights)
        tiny = np.log1p(np.expm1(np.minimum(exponent, 30.0)) @ weights)
        return np.where(top[:, 0] > 30, huge, tiny)

    def _large_log_moments(self, gaps: np.ndarray) -> np.ndarray:
        if gaps.size == 0:
            return gaps
        with np.errstate(divide="ignore"):
            atom = gaps * self.value + np.log(self.mass)
        parts = [piece.log_moments(gaps) for piece in self.pieces]
        return np.logaddexp.reduce([atom, *parts], axis=0)


# --- The laws, for one row's shift m and curvature q


@lru_cache(maxsize=256)
def _one_row_law(loss: str, classes: int, m: float, q: float) -> _Law:
    """Return the law when a row is removed; with q = 0, when one is added."""
    if loss == "softmax":
        return _softmax_law(classes, m, q)
    if loss == "one_sided":
        return _positive_part(math.log1p(q), m)
    if loss == "two_sided":
        base = math.log1p(q) + m**2 / 2
        return _Law(base, 0.0, (_Piece(0.0, math.inf, m, base, weight=2.0),))
    bend = _bend(m, q)
    if bend is None:
        return _positive_part(0.0, m)
    q, kappa = bend
    middle = _Piece(-q, q - m**2, m, 0.0, 0.0, 1 / (4 * kappa))
    line = _Piece(q - m**2, math.inf, m, kappa)
    return _Law(0.0, float(ndtr(-q / m)), (middle, line))


def _bend(m: float, q: float) -> tuple[float, float] | None:
    """Return q and kappa = q - m^2/2 where kappa > 0, a tiny one rounded up."""
    kappa = q - m**2 / 2
    if kappa <= 0:
        return None
    least = 1e-13 * m**2
    return (q, kappa) if kappa > least else (m**2 / 2 + least, least)


def _positive_part(base: float, m: float) -> _Law:
    """Return the law of base + max(0, v + m^2/2)."""
    line = _Piece(-(m**2) / 2, math.inf, m, base)
    return _Law(base, float(ndtr(-m / 2)), (line,))


def _softmax_law(classes: int, m: float, q: float) -> _Law:
    """Return a law above that of the loss, by a union over classes and their pairs."""
    kappa = max(0.0, q - m**2 / 2)
    others = classes - 1
    parts = [(others, m**2, math.sqrt(2) * m)]
    if q > 0 and others > 1:
        pairs = others * (others - 1) / 2
        parts.append((pairs, kappa + m**2, math.sqrt(1.5) * m))

    def tail(loss: float) -> float:
        return sum(w * float(ndtr((mean - loss) / std)) for w, mean, std in parts)

    start = 2 * kappa
    if tail(start) > 1:
        step = m
        while tail(start + step) > 1:
            step *= 2
        start = brentq(lambda t: tail(t) - 1, start, start + step, xtol=1e-300)
        while tail(start) > 1:  # a larger start is valid, too
            start = max(start * (1 + 1e-15), math.nextafter(start, math.inf))
    pieces = (
        _Piece(start - mean, math.inf, s, start, weight=w) for w, mean, s in parts
    )
    return _Law(start, max(0.0, 1 - tail(start)), tuple(pieces))


@lru_cache(maxsize=256)
def _replaced_law(loss: str, m: float, q: float) -> _Law:
    """Return the law of the loss when a row is replaced, worst at opposite rows.

    It serves the Renyi curve only: only for moments are opposite rows proved worst.
    """
    bend = _bend(m, q) if loss == "logistic" else None
    if loss == "two_sided":
        base = math.log1p(q) + 2 * m**2
        return _Law(base, 0.0, (_Piece(0.0, math.inf, m, base, 2.0, weight=2.0),))
    if bend is None:
        base = math.log1p(q) if loss == "one_sided" else 0.0
        line = _Piece(-(m**2), math.inf, m, base, 2.0)
        return _Law(base, float(ndtr(-m)), (line,))
    q, kappa = bend

    def single(v: float) -> float:
        s = min(max((v + q) / (2 * kappa), 0.0), 1.0)
        return s * (v + q) - s**2 * kappa

    def lead(v: float) -> float:  # of the second branch over the first; it grows
        return v + m**2 / 2 + single(v + m**2) - single(v)

    low, high = -q - m**2, min(-(m**2) / 2, q - m**2)
    crossing = brentq(lead, low, high, xtol=1e-300) if lead(high) > 0 else high
    pieces = []
    if crossing > -q:
        pieces.append(_Piece(-q, crossing, m, 0.0, 0.0, 1 / (4 * kappa)))
    kink = q - 2 * m**2
    base = single(crossing)
    if crossing < kink:
        slope = 1 + (crossing + m**2 + q) / (2 * kappa)
        pieces.append(_Piece(crossing, kink, m, base, slope, 1 / (4 * kappa)))
        crossing, base = kink, 2 * kink + 2 * m**2
    pieces.append(_Piece(crossing, math.inf, m, base, 2.0))
    return _Law(0.0, float(ndtr(min(-q, pieces[0].low) / m)), tuple(pieces))


# --- The event


@dataclass(frozen=True)
class ObjectivePerturbation(Event):
    """The minimiser of an objective with a random linear term.

    Released is the exact minimiser of
    ``sum_i loss_i(w) + w' Lambda w / 2 + <b, w>``, where b has independent normal
    coordinates and Lambda is at least lam times the identity; and, optionally, sums
    over the same rows with Gaussian noise, before or after it. The regulariser must
    not depend on the rows, nor on their number.

    All parameters are those of one row added or removed, under both relations. Under
    "replace" the bound goes through the data with both rows.

    Parameters
    ----------
    shift : float
        Bound on the gradient norm of one row's loss, divided by the standard
        deviation of b; > 0. For "softmax": the norm bound R of a row, divided by it
        (the gradient norm is at most sqrt(2) R).
    curvature : float
        For "logistic" and "softmax" R^2/lam, for the others R^2 sup l''/lam; >= 0.
    loss : {"logistic", "softmax", "one_sided", "two_sided"}
        "one_sided" is any other loss l(<x, w>) whose derivative has one sign, as a
        smoothed hinge; "two_sided" is any other at all, as Huber's.
    classes : int
        Number of classes, for "softmax"; otherwise 2.
    gaussian_shift : float
        Sensitivity divided by the standard deviation, of all the Gaussian releases
        together: the root of the sum of squares.
    neighboring : {"replace", "add_remove"}
        Neighbour relation.

    Examples
    --------
    >>> from skdp import events
    >>> event = events.ObjectivePerturbation(0.2, 0.5, neighboring="add_remove")
    >>> round(event.epsilon(1e-6), 3)
    0.834
    """

    shift: float
    curvature: float
    loss: str = "logistic"
    classes: int = 2
    gaussian_shift: float = 0.0
    neighboring: Neighboring = "replace"

    def __post_init__(self) -> None:
        super().__post_init__()
        check_option(self.loss, "loss", _LOSSES)
        most = math.inf if self.loss == "softmax" else 2
        zero = {"low": 0, "closed": "left"}
        set_fields(
            self,
            shift=check_real(self.shift, "shift", low=0),
            curvature=check_real(self.curvature, "curvature", **zero),
            classes=check_integer(self.classes, "classes", low=2, high=most),
            gaussian_shift=check_real(self.gaussian_shift, "gaussian_shift", **zero),
        )

    @property
    def _hopeless(self) -> bool:
        largest = max(self.shift, self.gaussian_shift, self.classes)
        return largest > _LARGEST or self.curvature > _FLATTEST

    def _law(self, curvature: float) -> _Law:
        shift = max(self.shift, _SMALLEST)
        return _one_row_law(self.loss, self.classes, shift, curvature)

    def _profile(self, epsilon: float) -> float:
        if self._hopeless:
            return 1.0
        # Rounding errors of the loss are as if epsilon were a little smaller.
        epsilon -= 8 * math.ulp(epsilon + self.curvature)
        if self.neighboring == "add_remove":
            delta = self._law(self.curvature).delta(epsilon, self.gaussian_shift)
        else:
            delta = self._replace_delta(epsilon)
        return delta * _ROUNDING + _SLACK

    def _replace_delta(self, epsilon: float) -> float:
        """Return the best of delta(e1) + exp(e1) delta(epsilon - e1), over e1."""
        adding, removing = self._law(0.0), self._law(self.curvature)
        g = self.gaussian_shift

        def total(first: float) -> float:
            rest = removing.delta(epsilon - first, g, scale=first)
            return adding.delta(first, g) + math.exp(first) * rest

        square = (2 if self.loss == "softmax" else 1) * self.shift**2 + g**2
        # Any split is valid; at larger ones exp(e1) times a rounding error matters.
        most = min(max(epsilon, 0.0), 600.0)
        guess = min(max((epsilon - square) / 2, 0.0), most)
        grid = {0.0, guess / 4, guess / 2, 0.75 * guess, guess}
        grid = sorted(grid | {guess + (most - guess) * share for share in (0.25, 0.5)})
        totals = [total(first) for first in grid]
        at = int(np.argmin(totals))
        low, high = grid[max(at - 1, 0)], grid[min(at + 1, len(grid) - 1)]
        best, width = totals[at], min(square / max(epsilon, 1e-300), epsilon)
        if low < high and 0 < best < 1:
            found = minimize_scalar(
                lambda first: math.log(max(total(first), 1e-300)),
                bounds=(low, high),
                method="bounded",
                options={"xatol": max(1e-3 * width, 1e-9 * high), "maxiter": 30},
            )
            best = min(best, math.exp(found.fun))
        return best

    def _rdp(self, orders: np.ndarray) -> np.ndarray:
        if self._hopeless:
            return np.full(orders.shape, math.inf)
        half = self.gaussian_shift**2 / 2
        if self.neighboring == "add_remove":
            curve = self._law(self.curvature).renyi(orders - 1)
            return (orders * half + curve) * _ROUNDING
        if self.loss == "softmax":
            curve = np.min([self._triangle(orders, at) for at in _AT_LEAST], axis=0)
        else:
            m = max(self.shift, _SMALLEST)
            curve = _replaced_law(self.loss, m, self.curvature).renyi(orders - 1)
        return (4 * orders * half + curve) * _ROUNDING

    def _triangle(self, orders: np.ndarray, least: float) -> np.ndarray:
        """Return the weak triangle inequality of Renyi divergences (Mironov 2017)."""
        # A larger order is valid, too, and near order 1 it is better.
        at = np.maximum(orders, least)
        first = self._law(0.0).renyi(2 * at - 1)
        rest = self._law(self.curvature).renyi(2 * at - 2)
        return (at - 0.5) / (at - 1) * first + rest
