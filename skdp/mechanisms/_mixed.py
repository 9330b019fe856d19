"""The additive mechanism with less noise."""

from dataclasses import dataclass, field
from typing import Any

from skdp import events
from skdp.mechanisms._additive import Gaussian, Laplace
from skdp.validation import Neighboring, check_real, set_fields


@dataclass(frozen=True)
class MixedNoise:
    """Laplace or Gaussian noise, whichever has the smaller variance.

    The choice depends on public parameters only. For one number Laplace noise wins at
    every usual delta; for a vector whose L1 sensitivity is much above its L2
    sensitivity, Gaussian noise does.

    Parameters
    ----------
    epsilon : float
        Privacy parameter > 0.
    delta : float
        Privacy parameter in (0, 1).
    l1_sensitivity : float, default=1.0
        L1 sensitivity of the released value under ``neighboring``.
    l2_sensitivity : float, default=None
        L2 sensitivity, at most the L1 sensitivity; equal to it where None.
    neighboring : {"replace", "add_remove"}, default="replace"
        Neighbour relation of the sensitivities.

    Attributes
    ----------
    mechanism : Laplace or Gaussian
        The mechanism that was chosen.

    Guarantee
    ---------
    That of the chosen mechanism: epsilon-DP or (epsilon, delta)-DP. A
    rule found in lecture notes instead takes N(0, 2 (sensitivity/epsilon)^2) once the
    sensitivity is below sqrt(pi) delta epsilon/2: that is false (docs, theory of
    mechanisms), since its privacy does not depend on the sensitivity at all.

    Examples
    --------
    >>> from skdp.mechanisms import MixedNoise
    >>> MixedNoise(1.0, 1e-6).mechanism
    Laplace(epsilon=1.0, sensitivity=1.0, neighboring='replace')
    >>> MixedNoise(1.0, 1e-6, l1_sensitivity=10.0, l2_sensitivity=1.0).event
    Gaussian(noise_multiplier=4.2246..., neighboring='replace')
    """

    epsilon: float
    delta: float
    l1_sensitivity: float = 1.0
    l2_sensitivity: float | None = None
    neighboring: Neighboring = field(default="replace", kw_only=True)
    mechanism: Laplace | Gaussian = field(init=False, repr=False)

    def __post_init__(self) -> None:
        l1 = check_real(self.l1_sensitivity, "l1_sensitivity", low=0)
        l2 = l1 if self.l2_sensitivity is None else self.l2_sensitivity
        l2 = check_real(l2, "l2_sensitivity", low=0, high=l1, closed="right")
        laplace = Laplace(self.epsilon, l1, neighboring=self.neighboring)
        gaussian = Gaussian(self.epsilon, self.delta, l2, neighboring=self.neighboring)
        chosen = laplace if laplace.std <= gaussian.std else gaussian
        set_fields(
            self,
            epsilon=laplace.epsilon,
            delta=gaussian.delta,
            l1_sensitivity=l1,
            l2_sensitivity=l2,
            mechanism=chosen,
        )

    @property
    def event(self) -> events.Event:
        """What a release costs."""
        return self.mechanism.event

    @property
    def std(self) -> float:
        """Standard deviation of the noise on one coordinate."""
        return self.mechanism.std

    @property
    def variance(self) -> float:
        """Variance of the noise on one coordinate."""
        return self.mechanism.variance

    def interval(self, confidence: float = 0.95) -> tuple[float, float]:
        """Return bounds that hold the noise on a coordinate with this probability."""
        return self.mechanism.interval(confidence)

    def release(self, value: Any, random_state: Any = None) -> Any:
        """Return ``value`` plus noise; see :meth:`Laplace.release`."""
        return self.mechanism.release(value, random_state)
