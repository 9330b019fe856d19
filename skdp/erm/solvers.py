"""Minimise a strongly convex sum of losses. Nothing here knows of privacy.

``minimize`` returns a point where the gradient, as computed, has a norm of at most
``target``; ``gradient_error`` bounds how far the computed gradient can be from
the true one. Newton's method with a Cholesky factor serves few columns, L-BFGS many;
what L-BFGS leaves over is finished by Newton steps with conjugate gradients.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np
from scipy import linalg, optimize

from skdp.erm.losses import Loss
from skdp.erm.rows import BLOCK, Rows, rounding

__all__ = ["NotConvergedError", "Problem", "gradient_error", "minimize"]

_FEW = 400  # columns for which a Hessian matrix is worth its time
_MAX_STEPS = 100
_ROUGH = 1e-4  # of the first gradient: where Newton steps take over from L-BFGS


class NotConvergedError(RuntimeError):
    """The solver did not reach the target; rounding bounds say that it must."""


class Gradient(NamedTuple):
    """Value, gradient and second derivatives of the rows."""

    value: float
    vector: np.ndarray
    second: list[np.ndarray]


@dataclass(frozen=True)
class Problem:
    """sum of loss(<w, z_i>, y_i) + sum of ridge_j w_j^2 / 2 + <linear, w>.

    Parameters
    ----------
    loss : Loss
        Loss of a row.
    rows : Rows
        The rows z.
    targets : ndarray
        One target for each row.
    ridge : ndarray of shape (width,)
        Positive regularisation of each column.
    linear : ndarray of shape (width,) or (width, outputs)
        A linear term.
    """

    loss: Loss
    rows: Rows
    targets: np.ndarray
    ridge: np.ndarray
    linear: np.ndarray

    @property
    def _ridge(self) -> np.ndarray:
        return self.ridge if self.linear.ndim == 1 else self.ridge[:, None]

    def gradient(self, w: np.ndarray) -> Gradient:
        """Return value and gradient at w, in one pass over the rows."""
        pull = self._ridge * w
        value = float(np.sum(pull * w) / 2 + np.sum(self.linear * w))
        vector, second = pull + self.linear, []
        for part in self.rows.parts():
            scores = self.rows.scores(part, w)
            found = self.loss.evaluate(scores, self.targets[part])
            value += found.value
            vector += self.rows.gather(part, found.first)
            second.append(found.second)
        return Gradient(value, vector, second)

    def hessian(self, second: list[np.ndarray]) -> np.ndarray:
        """Return the Hessian matrix; for losses of one score."""
        total = np.diag(self.ridge)
        for part, weights in zip(self.rows.parts(), second, strict=True):
            total += self.rows.gram(part, weights)
        return total

    def hessian_times(self, second: list[np.ndarray], v: np.ndarray) -> np.ndarray:
        """Return the Hessian times v."""
        total = self._ridge * v
        for part, weights in zip(self.rows.parts(), second, strict=True):
            change = self.loss.apply_second(weights, self.rows.scores(part, v))
            total += self.rows.gather(part, change)
        return total


def gradient_error(
    loss: Loss, n_rows: float, width: int, norm: float, magnitude: float, size: float
) -> float:
    """Return a bound on |computed gradient - gradient|, for any rows.

    Parameters
    ----------
    loss : Loss
        Loss of a row.
    n_rows : float
        Largest number of rows.
    width : int
        Number of columns.
    norm, magnitude : float
        Norm bound of the rows, and ``Rows.magnitude``.
    size : float
        Bound of the norm of w.

    Notes
    -----
    A score is a sum of ``width`` products. An error in it moves the derivative by at
    most ``bend`` times as much; the loss functions themselves are good to a few units
    in the last place, for which 2**-48 is ample. The derivatives weigh a sum over the
    rows: at most ``BLOCK`` in a block, and then one term for each block.
    """
    score = rounding(width + 4) * magnitude * size
    derivative = loss.bend * score + 2.0**-48 * loss.slope
    terms = min(n_rows, BLOCK) + n_rows / 256 + 4
    summing = rounding(terms) * loss.slope
    return n_rows * (norm * derivative + magnitude * summing)


# --- Newton's method


def _newton(
    problem: Problem,
    w: np.ndarray,
    target: float,
    direction: Callable[[Gradient, float], np.ndarray],
) -> tuple[np.ndarray, bool]:
    """Take damped Newton steps until the gradient norm is at most ``target``.

    Return the last point, and whether it is good enough.
    """
    here = problem.gradient(w)
    norm = np.linalg.norm(here.vector)
    for _ in range(_MAX_STEPS):
        if norm <= target:
            return w, True
        step = direction(here, norm)
        descent = float(np.sum(step * here.vector))
        size = 1.0
        while True:
            trial = w - size * step
            there = problem.gradient(trial)
            trial_norm = np.linalg.norm(there.vector)
            if there.value <= here.value - 1e-4 * size * descent:
                break
            # Near the end values are too coarse to compare: the gradient decides.
            coarse = size * descent <= 1e-10 * (1 + abs(here.value))
            if (coarse and trial_norm < norm) or size < 1e-12:
                break
            size /= 2
        w, here, norm = trial, there, trial_norm
    return w, bool(norm <= target)


def _accelerated(
    problem: Problem, w: np.ndarray, target: float
) -> tuple[np.ndarray, bool]:
    """Descend by Nesterov's method: slow, but its convergence is proved.

    The number of steps follows from the condition number, for any data.
    """
    rows = problem.rows
    smooth = rows.shape[0] * problem.loss.smoothness(rows.magnitude)
    scale = smooth + problem._ridge
    root = float(np.sqrt(np.min(problem._ridge / scale)))
    momentum, before = (1 - root) / (1 + root), w
    for _ in range(int(100 / root) + 1000):
        ahead = w + momentum * (w - before)
        vector = problem.gradient(ahead).vector
        if np.linalg.norm(vector) <= target:
            return ahead, True
        before, w = w, ahead - vector / scale
        if np.sum(vector * (w - before)) > 0:  # going up: start afresh
            before = w
    return w, False


def _continuation(problem: Problem, target: float, directions: Callable) -> np.ndarray:
    """Follow the minimum from a large ridge down to the problem's own.

    Where losses have kinks in their slope, Newton steps from afar may go to and fro
    between them.
    """
    w = np.zeros_like(problem.linear)
    for doublings in range(24, -1, -1):
        easier = replace(problem, ridge=problem.ridge * 2.0**doublings)
        w, reached = _newton(easier, w, target, directions(easier, target))
    if not reached:
        w, reached = _accelerated(problem, w, target)
    if not reached:
        raise NotConvergedError(
            "The solver did not reach the accuracy that the guarantee assumes: no "
            "model was released, but an accountant has been charged. Please report it, "
            "with the parameters of the estimator."
        )
    return w


def _cholesky_direction(
    problem: Problem, target: float
) -> Callable[[Gradient, float], np.ndarray]:
    def direction(here: Gradient, norm: float) -> np.ndarray:
        matrix = problem.hessian(here.second)
        try:
            factor = linalg.cho_factor(matrix, lower=True)
        except linalg.LinAlgError:  # rounding: a little more ridge, for this step
            matrix += np.eye(len(matrix)) * (1e-12 * np.trace(matrix))
            factor = linalg.cho_factor(matrix, lower=True)
        return linalg.cho_solve(factor, here.vector)

    return direction


def _conjugate_direction(
    problem: Problem, target: float
) -> Callable[[Gradient, float], np.ndarray]:
    first = []

    def direction(here: Gradient, norm: float) -> np.ndarray:
        """Return an approximate Newton step by conjugate gradients."""
        scale = 1 / (problem._ridge + 0 * here.vector)
        x = np.zeros_like(here.vector)
        residual = here.vector.copy()
        first.append(norm)
        aim = max(target / 2, min(0.1, norm / first[0]) * norm)
        z = scale * residual
        p, rz = z.copy(), float(np.sum(residual * z))
        for _ in range(10 * x.size + 50):
            if np.linalg.norm(residual) <= aim:
                break
            q = problem.hessian_times(here.second, p)
            alpha = rz / float(np.sum(p * q))
            x += alpha * p
            residual -= alpha * q
            z = scale * residual
            rz, before = float(np.sum(residual * z)), rz
            p = z + (rz / before) * p
        return x

    return direction


# --- Many columns


def _lbfgs(problem: Problem, w: np.ndarray, target: float) -> np.ndarray:
    """Come near the minimum by L-BFGS, in coordinates where the ridge is one."""
    shape, root = w.shape, np.sqrt(problem._ridge + 0 * w).ravel()
    lowest = float(root.min())
    start = float(np.linalg.norm(problem.gradient(w).vector))

    def fun(u: np.ndarray) -> tuple[float, np.ndarray]:
        found = problem.gradient((u / root).reshape(shape))
        return found.value, found.vector.ravel() / root

    found = optimize.minimize(
        fun,
        w.ravel() * root,
        jac=True,
        method="L-BFGS-B",
        options={
            "maxcor": 20,
            "maxiter": 2000,
            "maxfun": 4000,
            "ftol": 0.0,
            "gtol": max(target, _ROUGH * start) / (lowest * np.sqrt(w.size)),
        },
    )
    return (found.x / root).reshape(shape)


def minimize(problem: Problem, target: float) -> np.ndarray:
    """Return the minimiser, to a computed gradient norm of at most ``target``.

    Parameters
    ----------
    problem : Problem
        What to minimise. Strongly convex, since ridge > 0.
    target : float
        Bound of the gradient norm.

    Raises
    ------
    NotConvergedError
        The target was not reached, which the rounding bounds rule out.
    """
    w = np.zeros_like(problem.linear)
    few = problem.linear.ndim == 1 and w.size <= _FEW
    directions = _cholesky_direction if few else _conjugate_direction
    if not few:
        w = _lbfgs(problem, w, target)
    w, reached = _newton(problem, w, target, directions(problem, target))
    return w if reached else _continuation(problem, target, directions)
