"""Gradient perturbation: noisy steps down the summed loss."""

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from skdp import events, noise
from skdp.erm.losses import Loss
from skdp.erm.perturbation import Bounds, Noise
from skdp.erm.rows import BLOCK, Rows, rounding
from skdp.events import Event
from skdp.noise import RandomBits

__all__ = ["GradientPlan"]

# Recipes: chosen on the data sets named in docs/linear_models.rst; they change accuracy
# only, never the guarantee.
_MOMENTUM = 0.9
_CALM = 0.1  # step size times squared noise
_STABLE = 3.0  # below 2 (1 + momentum), with room for an error in the count

_PROBABILITY_STEPS = 2**53  # sampling probabilities are multiples of its inverse


def _taken(
    rows: Rows, targets: np.ndarray, chosen: np.ndarray | None
) -> tuple[Rows, np.ndarray]:
    """Return the chosen rows by themselves.

    The others must not take part even by their place: where they change, a sum without
    them stays the same to the last bit.
    """
    if chosen is None:
        return rows, targets
    index = np.flatnonzero(chosen)
    return rows.take(index), targets[index]


@dataclass(frozen=True)
class GradientPlan:
    """Gradient descent on clipped gradients with noise at every step.

    Parameters
    ----------
    loss : Loss
        Any loss.
    clip : float
        Bound of the norm of one row's gradient; longer ones are scaled back.
    noise : Noise
        Noise of one step, rate of one row.
    steps : int
        Number of steps.
    batches : {"full", "poisson", "disjoint"}
        Which rows a step uses: all, a Poisson sample, or one of ``steps`` random
        parts, so that one pass uses every row once.
    sampling_rate : float
        Probability that a row takes part in a Poisson sample.
    step_size : float or None
        Step on the mean gradient; None for one that suits every data set.
    neighboring : str
        Neighbour relation.
    """

    loss: Loss
    clip: float
    noise: Noise
    steps: int
    batches: str
    sampling_rate: float
    step_size: float | None
    neighboring: str

    @property
    def event(self) -> Event:
        """What all the steps cost together."""
        if self.batches == "poisson":
            return events.SampledGaussian(
                1 / self.noise.rate, self.sampling_rate, self.steps, self.neighboring
            )
        step = self.noise.event(self.neighboring)
        if self.batches == "disjoint" or self.steps == 1:
            return step  # every row is used once: the largest step counts
        return events.Composed((step,), (self.steps,))

    def release(
        self,
        rows: Rows,
        targets: np.ndarray,
        ridge: np.ndarray,
        bounds: Bounds,
        count: float,
        bits: RandomBits,
        sampling_bits: RandomBits,
        progress: Callable[[int, np.ndarray], bool] = lambda step, w: False,
    ) -> np.ndarray:
        """Return the mean of the later iterates.

        Parameters
        ----------
        rows, targets : Rows, ndarray
            The data.
        ridge : ndarray
            Regularisation of each column.
        bounds : Bounds
            Public bounds of the rows.
        count : float
            A public or released number of rows.
        bits, sampling_bits : RandomBits
            Of the noise, and of the samples.
        progress : callable
            Called with the number of a step and the mean of the iterates so far, all
            of it released; stops where it returns True.
        """
        outputs = self.loss.outputs if targets.ndim == 1 else targets.shape[1]
        shape = (rows.shape[1],) if outputs == 1 else (rows.shape[1], outputs)
        share = {"full": 1.0, "poisson": self.sampling_rate}.get(
            self.batches, 1 / self.steps
        )
        expected = max(count * share, 1.0)
        std = self.noise.std(self.clip, math.prod(shape))
        fluctuation = math.prod(shape) * (std / expected) ** 2
        w, speed, mean, used = np.zeros(shape), np.zeros(shape), np.zeros(shape), 0
        parts = self._parts(rows.shape[0], sampling_bits)
        # The ridge enters each column's step, so that a large one cannot overshoot.
        pull = (ridge if len(shape) == 1 else ridge[:, None]) / max(count, 1.0)
        for step in range(self.steps):
            chosen = self._chosen(step, parts, rows.shape[0], sampling_bits)
            total = self._clipped_sum(*_taken(rows, targets, chosen), w)
            sensitivity = self.clip + 2 * self._error(rows, bounds, w)
            total = self.noise.add(total, sensitivity, bits) / expected
            size, momentum = self._step(step, bounds.norm, fluctuation)
            gradient = (total + pull * w) / (1 + size * pull)
            speed = momentum * speed + gradient
            w = w - size * speed
            if 2 * step >= self.steps - 1:
                mean, used = mean + (w - mean) / (used + 1), used + 1
            if progress(step, mean if used else w):
                break
        return mean if used else w

    def _error(self, rows: Rows, bounds: Bounds, w: np.ndarray) -> float:
        """Return a bound of the rounding errors in the sum of clipped gradients.

        BLAS may compute the score of a row differently where other rows change; w is
        released, so that a bound in terms of it is public.
        """
        size = float(np.linalg.norm(w))
        score = rounding(bounds.width + 4) * rows.magnitude * size
        terms = min(bounds.n_rows, BLOCK) + bounds.n_rows / 256 + 4
        slope = min(self.loss.slope, 2.0**40)
        # Sparse rows add and subtract their centre, whose weight is not clipped.
        largest = self.clip + slope * max(rows.magnitude - bounds.norm, 0.0)
        return bounds.n_rows * (
            bounds.norm * self.loss.bend * score
            + 2.0**-48 * max(self.clip, slope * bounds.norm)
            + rounding(terms) * largest
        )

    def _step(self, step: int, norm: float, fluctuation: float) -> tuple[float, float]:
        """Return the step size and the momentum.

        ``fluctuation`` is the expected squared noise on a mean gradient. Steps that
        follow it too closely would carry the scores away, to where the loss is flat.
        """
        size = self.step_size
        if size is None:
            calm = _CALM / max(fluctuation, 1e-12)
            size = min(_STABLE / self.loss.smoothness(norm), calm)
        if self.batches == "disjoint" or self.noise.kind == "laplace":
            return size / (2 * math.sqrt(1 + step)), 0.0
        return size, _MOMENTUM

    def _parts(self, n_rows: int, bits: RandomBits) -> np.ndarray | None:
        # Each row's part is drawn independently of the others: a row more or less
        # moves no other row to another part.
        if self.batches != "disjoint":
            return None
        return noise.uniform_integers(self.steps, n_rows, bits)

    def _chosen(
        self, step: int, parts: np.ndarray | None, n_rows: int, bits: RandomBits
    ) -> np.ndarray | None:
        if self.batches == "full":
            return None
        if parts is not None:
            return parts == step
        draws = noise.uniform_integers(_PROBABILITY_STEPS, n_rows, bits)
        return draws < int(self.sampling_rate * _PROBABILITY_STEPS)

    def _clipped_sum(
        self, rows: Rows, targets: np.ndarray, w: np.ndarray
    ) -> np.ndarray:
        total = np.zeros(w.shape)
        for part in rows.parts():
            found = self.loss.evaluate(rows.scores(part, w), targets[part])
            weights = found.first
            length = np.abs(weights)
            if weights.ndim > 1:
                length = np.sqrt(np.einsum("ij,ij->i", weights, weights))
            length = length * rows.norms(part)
            factor = self.clip / np.maximum(length, self.clip)
            weights = weights * (factor if weights.ndim == 1 else factor[:, None])
            total += rows.gather(part, weights)
        return total
