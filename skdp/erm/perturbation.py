"""Output and objective perturbation, and the noise that all methods add.

A plan is made from public quantities alone: a loss, bounds and a budget. It knows its
event before any row is seen, and releases coefficients once that event is paid for.
Every rate here is for one row added or removed: the gradient bound of a row divided by
the standard deviation of the noise. Under "replace" two such steps make one change.
"""

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from skdp import events, noise
from skdp.erm.losses import Loss
from skdp.erm.rows import Rows
from skdp.erm.solvers import Problem, gradient_error, minimize
from skdp.events import Event
from skdp.mechanisms._grid import plan as plan_grid
from skdp.noise import RandomBits

__all__ = ["SLIVER", "Bounds", "Noise", "ObjectivePlan", "OutputPlan"]

SLIVER = 1e-3  # share of the budget that pays for the solver's last digits
_ROOM = 1.01  # rows may have so much more magnitude than the norm that was planned for


@dataclass(frozen=True)
class Noise:
    """Gaussian or Laplace noise on a vector, for a given rate.

    Parameters
    ----------
    kind : {"gaussian", "laplace"}
        Gaussian noise is for L2 sensitivities. For Laplace noise the L1 sensitivity of
        a vector of size p is taken as sqrt(p) times the L2 sensitivity.
    rate : float
        Sensitivity divided by the standard deviation, or epsilon.
    """

    kind: str
    rate: float

    def _grid(self, sensitivity: float, size: int) -> Any:
        if self.kind == "gaussian":
            return plan_grid(self.rate, sensitivity, math.ceil(math.sqrt(size)))
        return plan_grid(self.rate, sensitivity * math.sqrt(size), size)

    def std(self, sensitivity: float, size: int) -> float:
        """Return the standard deviation of the noise on one coordinate."""
        if self.kind == "gaussian":
            return sensitivity / self.rate
        return math.sqrt(2 * size) * sensitivity / self.rate

    def add(self, values: np.ndarray, sensitivity: float, bits: RandomBits) -> Any:
        """Return values plus noise, on a grid."""
        grid = self._grid(sensitivity, values.size)
        draw = (
            noise.discrete_gaussian
            if self.kind == "gaussian"
            else noise.discrete_laplace
        )
        return grid.add(values, draw(grid.scale, values.shape, bits))

    def event(self, neighboring: str) -> Event:
        """Return the event of one release, for a rate of one row."""
        steps = 2 if neighboring == "replace" else 1
        if self.kind == "gaussian":
            return events.Gaussian(1 / (steps * self.rate), neighboring)
        return events.Laplace(1 / (steps * self.rate), neighboring)


@dataclass(frozen=True)
class Bounds:
    """What is public about the rows of a problem.

    Parameters
    ----------
    norm : float
        Bound of a row's norm, constant column included.
    width : int
        Number of columns, constant column included.
    n_rows : float
        A public bound of the number of rows.
    """

    norm: float
    width: int
    n_rows: float


def _size_bound(loss: Loss, n_rows: float, ridge: float, linear: float) -> float:
    """Return a bound of |w| at the minimum, and near it.

    From J(w) <= J(0): ridge |w|^2 / 2 <= n origin + linear |w|.
    """
    pull = linear / ridge
    return 1 + pull + math.sqrt(pull**2 + 2 * n_rows * loss.origin / ridge)


class _Certified:
    """Mixin of the plans whose solver is certified: its rounding errors, and limits."""

    ridge: float

    def _error(self, bounds: Bounds, magnitude: float) -> float:
        """Return a bound of the gradient's rounding errors, linear in magnitude."""
        raise NotImplementedError

    def error(self, bounds: Bounds, magnitude: float) -> float:
        """Return the solver's target, or refuse what cannot be certified.

        Within 2 error / ridge < 1 of the minimum, |w| stays below the bound with which
        the error was computed: the circle closes.
        """
        error = self._error(bounds, magnitude)
        if not 2 * error < self.ridge:
            raise ValueError(
                f"float64 cannot certify a minimum for up to {bounds.n_rows:,.0f} rows "
                f"of {bounds.width} columns with a regularisation of {self.ridge:.3g}: "
                f"more than {2 * error:.3g} is needed. Use method='gradient', or more "
                "regularisation (a smaller 'C'). Under neighboring='add_remove' the "
                "bound of the rows follows from 'n_samples_hint'."
            )
        return error

    def check(self, bounds: Bounds) -> None:
        """Refuse what cannot be certified, before anything is spent."""
        self.error(bounds, _ROOM * bounds.norm)

    def largest_magnitude(self, bounds: Bounds) -> float:
        """Return a magnitude of rows that is certified wherever ``check`` passed.

        The error is linear in it, and must stay below half of the ridge.
        """
        least = _ROOM * bounds.norm
        error = self._error(bounds, least)
        more = self._error(bounds, 2 * least) - error
        return least * (1 + max(0.49 * self.ridge - error, 0.0) / more)


@dataclass(frozen=True)
class OutputPlan(_Certified):
    """Noise on the minimiser (Chaudhuri, Monteleoni and Sarwate 2011).

    One row moves the minimiser by at most ``lipschitz / ridge``, and so does the solver
    by what its certificate leaves open; the noise covers both.

    Parameters
    ----------
    loss : Loss
        A loss with a bounded derivative.
    ridge : float
        Smallest regularisation.
    noise : Noise
        Its rate is for one row.
    neighboring : str
        Neighbour relation.
    """

    loss: Loss
    ridge: float
    noise: Noise
    neighboring: str
    problems: int = 1

    @property
    def event(self) -> Event:
        """What the release costs."""
        return self.noise.event(self.neighboring)

    def sensitivity(self, bounds: Bounds, magnitude: float) -> tuple[float, float]:
        """Return how far one row moves the result, and the solver's target."""
        error = self.error(bounds, magnitude)
        # Twice 2 error for two data sets; half of it already suffices for one row of
        # two, under "replace".
        slope = self.loss.lipschitz(bounds.norm) + 4 * error
        return math.sqrt(self.problems) * slope / self.ridge, error

    def _error(self, bounds: Bounds, magnitude: float) -> float:
        size = _size_bound(self.loss, bounds.n_rows, self.ridge, 0.0)
        return gradient_error(
            self.loss, bounds.n_rows, bounds.width, bounds.norm, magnitude, size
        )

    def std(self, bounds: Bounds, magnitude: float) -> float:
        """Return the standard deviation of the noise on a coefficient."""
        size = bounds.width * self.loss.outputs * self.problems
        return self.noise.std(self.sensitivity(bounds, magnitude)[0], size)

    def release(
        self,
        rows: Rows,
        targets: list[np.ndarray],
        ridge: np.ndarray,
        bounds: Bounds,
        bits: RandomBits,
    ) -> np.ndarray:
        """Return noisy coefficients, one column for each of the targets."""
        sensitivity, target = self.sensitivity(bounds, rows.magnitude)
        shape = _shape(rows, self.loss)
        found = [
            minimize(Problem(self.loss, rows, y, ridge, np.zeros(shape)), target)
            for y in targets
        ]
        return self.noise.add(_stack(found), sensitivity, bits)


def _shape(rows: Rows, loss: Loss) -> tuple[int, ...]:
    width = rows.shape[1]
    return (width,) if loss.outputs == 1 else (width, loss.outputs)


def _stack(columns: list[np.ndarray]) -> np.ndarray:
    return columns[0] if len(columns) == 1 else np.stack(columns, axis=1)


@dataclass(frozen=True)
class ObjectivePlan(_Certified):
    """A random linear term in the objective, and a sliver of noise on the minimiser.

    The minimiser itself is private by Theorem A (docs, theory of linear models). What
    is released is a float near it: the sliver covers rounding and the solver.

    Parameters
    ----------
    loss : Loss
        A loss with a theorem.
    ridge : float
        Smallest regularisation.
    noise : Noise
        The linear term, rate of one row.
    sliver : Noise
        Noise on the result, rate of one row.
    event : Event
        What all of it costs.
    """

    loss: Loss
    ridge: float
    noise: Noise
    sliver: Noise
    event: Event
    problems: int = 1

    def _error(self, bounds: Bounds, magnitude: float) -> float:
        size = bounds.width * self.loss.outputs
        std = self.noise.std(self.loss.lipschitz(bounds.norm), size)
        # Exceeded with a probability below 1e-26 (Gaussian), e^-100 (Laplace): far
        # below the slack of the event, and of no use to anyone.
        gaussian = self.noise.kind == "gaussian"
        linear = std * (math.sqrt(size) + 11 if gaussian else size + 200)
        length = _size_bound(self.loss, bounds.n_rows, self.ridge, linear)
        error = gradient_error(
            self.loss, bounds.n_rows, bounds.width, bounds.norm, magnitude, length
        )
        # The last part is the grid of the linear term, and its products.
        return error + 2.0**-40 * linear

    def release(
        self,
        rows: Rows,
        targets: list[np.ndarray],
        ridge: np.ndarray,
        bounds: Bounds,
        bits: RandomBits,
    ) -> np.ndarray:
        """Return noisy coefficients, one column for each of the targets."""
        shape = _shape(rows, self.loss)
        slope = self.loss.lipschitz(bounds.norm)
        error = self.error(bounds, rows.magnitude)
        found = []
        for y in targets:
            term = self.noise.add(np.zeros(shape), slope, bits)
            found.append(minimize(Problem(self.loss, rows, y, ridge, term), error))
        # Two data sets, each off by at most 2 error: the target and the rounding.
        moved = math.sqrt(self.problems) * 4 * error / self.ridge
        return self.sliver.add(_stack(found), moved, bits)
