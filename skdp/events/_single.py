"""Events of single releases."""

import math
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np

from skdp import divergences
from skdp.events._base import (
    Event,
    cached_pld,
    cached_rdp,
    check_orders,
    group_delta,
    pld_slack,
)
from skdp.validation import (
    Neighboring,
    check_delta,
    check_epsilon,
    check_integer,
    check_real,
    set_fields,
)


def _parameters_pld(eps: float, delta: float, interval: float) -> Any:
    from dp_accounting.pld import common
    from dp_accounting.pld import privacy_loss_distribution as pld

    return pld.from_privacy_parameters(
        common.DifferentialPrivacyParameters(eps, delta),
        value_discretization_interval=interval,
    )


@dataclass(frozen=True)
class Pure(Event):
    """Any pure-DP release.

    Guarantee: (eps, 0)-DP. The curves are those of randomised response, which is the
    worst of all such releases (Kairouz, Oh and Viswanath 2015).

    Parameters
    ----------
    eps : float
        Privacy parameter > 0.
    neighboring : {"replace", "add_remove"}
        Neighbour relation.

    Examples
    --------
    >>> from skdp import events
    >>> round(events.Pure(1.0).profile(0.5), 4)
    0.2876
    """

    eps: float
    neighboring: Neighboring = "replace"

    def __post_init__(self) -> None:
        super().__post_init__()
        set_fields(self, eps=check_epsilon(self.eps, "eps"))

    def _profile(self, epsilon: float) -> float:
        return divergences.pure_profile(epsilon, self.eps)

    def _rdp(self, orders: np.ndarray) -> np.ndarray:
        return divergences.pure_rdp(orders, self.eps)

    def basic(self) -> tuple[float, float]:
        return self.eps, 0.0

    def _pld(self, interval: float) -> Any:
        return _parameters_pld(self.eps, 0.0, interval)

    def _loss_scales(self) -> tuple[float, float]:
        return self.eps, self.eps

    def _group(self, size: int) -> Event:
        return Pure(size * self.eps, self.neighboring)


@dataclass(frozen=True)
class Approximate(Event):
    """Any (eps, delta)-DP release.

    Parameters
    ----------
    eps : float
        Privacy parameter > 0.
    delta : float
        Probability in [0, 1) with which the bound may fail.
    neighboring : {"replace", "add_remove"}
        Neighbour relation.

    Examples
    --------
    >>> from skdp import events
    >>> events.Approximate(1.0, 1e-6).epsilon(1e-6)
    1.0
    """

    eps: float
    delta: float
    neighboring: Neighboring = "replace"

    def __post_init__(self) -> None:
        super().__post_init__()
        set_fields(
            self, eps=check_epsilon(self.eps, "eps"), delta=check_delta(self.delta)
        )

    def _profile(self, epsilon: float) -> float:
        pure = divergences.pure_profile(epsilon, self.eps)
        return self.delta + (1 - self.delta) * pure

    def _epsilon(self, delta: float) -> float:
        # The bisection would come close to eps, not hit it.
        return self.eps if delta == self.delta else super()._epsilon(delta)

    def rdp_and_delta(self, orders: Any) -> tuple[np.ndarray, float]:
        return divergences.pure_rdp(check_orders(orders), self.eps), self.delta

    def basic(self) -> tuple[float, float]:
        return self.eps, self.delta

    def _pld(self, interval: float) -> Any:
        return _parameters_pld(self.eps, self.delta, interval)

    def _loss_scales(self) -> tuple[float, float]:
        return self.eps, self.eps

    def _group(self, size: int) -> Event:
        delta = group_delta(self.eps, self.delta, size)
        if delta >= 1:
            return None
        return Approximate(size * self.eps, delta, self.neighboring)


@dataclass(frozen=True)
class ZeroConcentrated(Event):
    """Any rho-zCDP release (Bun and Steinke 2016).

    Parameters
    ----------
    rho : float
        The Renyi divergence of order a is at most rho * a, for every a > 1.
    neighboring : {"replace", "add_remove"}
        Neighbour relation.

    Examples
    --------
    >>> from skdp import events
    >>> round(events.ZeroConcentrated(0.5).epsilon(1e-6), 3)
    5.222
    """

    rho: float
    neighboring: Neighboring = "replace"

    def __post_init__(self) -> None:
        super().__post_init__()
        set_fields(self, rho=check_real(self.rho, "rho", low=0))

    def _profile(self, epsilon: float) -> float:
        return divergences.zcdp_profile(epsilon, self.rho)

    def _rdp(self, orders: np.ndarray) -> np.ndarray:
        return self.rho * orders

    def _group(self, size: int) -> Event:
        return ZeroConcentrated(size**2 * self.rho, self.neighboring)


@dataclass(frozen=True)
class BoundedRange(Event):
    """A release whose privacy loss ranges over an interval of width eps.

    The exponential mechanism is one: eps-DP, and in composition as cheap as
    eps^2/8-zCDP (Dong, Durfee and Rogers 2020; Cesar and Rogers 2021).

    Parameters
    ----------
    eps : float
        Width of the range of the privacy loss, > 0.
    neighboring : {"replace", "add_remove"}
        Neighbour relation.

    Examples
    --------
    >>> from skdp import events
    >>> float(events.BoundedRange(0.1).rdp([2.0])[0]) < 2 * 0.1**2 / 8
    True
    """

    eps: float
    neighboring: Neighboring = "replace"

    def __post_init__(self) -> None:
        super().__post_init__()
        set_fields(self, eps=check_epsilon(self.eps, "eps"))

    def _profile(self, epsilon: float) -> float:
        return divergences.bounded_range_profile(epsilon, self.eps)

    def _rdp(self, orders: np.ndarray) -> np.ndarray:
        return divergences.bounded_range_rdp(orders, self.eps)

    def basic(self) -> tuple[float, float]:
        return self.eps, 0.0

    def _group(self, size: int) -> Event:
        return BoundedRange(size * self.eps, self.neighboring)


@dataclass(frozen=True)
class Laplace(Event):
    """Laplace noise on a value or a vector.

    Parameters
    ----------
    noise_multiplier : float
        Scale of the noise divided by the L1 sensitivity: 1/epsilon.
    neighboring : {"replace", "add_remove"}
        Neighbour relation of the sensitivity.

    Examples
    --------
    >>> from skdp import events
    >>> round(events.Composed([events.Laplace(50.0)], [1000]).epsilon(1e-6), 3)
    2.905
    """

    noise_multiplier: float
    neighboring: Neighboring = "replace"

    def __post_init__(self) -> None:
        super().__post_init__()
        value = check_real(self.noise_multiplier, "noise_multiplier", low=0)
        set_fields(self, noise_multiplier=value)

    @property
    def _shift(self) -> float:
        return 1 / self.noise_multiplier

    def _profile(self, epsilon: float) -> float:
        return divergences.laplace_profile(epsilon, self._shift)

    def _epsilon(self, delta: float) -> float:
        # Rounded up: near the end the profile is as steep as delta is small.
        exact = self._shift + 2 * math.log1p(-delta)
        return max(0.0, exact + 4 * math.ulp(self._shift))

    def _rdp(self, orders: np.ndarray) -> np.ndarray:
        return divergences.laplace_rdp(orders, self._shift)

    def basic(self) -> tuple[float, float]:
        return self._shift, 0.0

    def _pld(self, interval: float) -> Any:
        from dp_accounting.pld import privacy_loss_distribution as pld

        return pld.from_laplace_mechanism(
            self.noise_multiplier, value_discretization_interval=interval
        )

    def _loss_scales(self) -> tuple[float, float]:
        return self._shift, self._shift

    def _group(self, size: int) -> Event:
        return Laplace(self.noise_multiplier / size, self.neighboring)


@dataclass(frozen=True)
class Gaussian(Event):
    """Gaussian noise on a value or a vector.

    Parameters
    ----------
    noise_multiplier : float
        Standard deviation of the noise divided by the L2 sensitivity.
    neighboring : {"replace", "add_remove"}
        Neighbour relation of the sensitivity.

    Examples
    --------
    >>> from skdp import events
    >>> round(events.Gaussian(2.0).epsilon(1e-6), 3)
    2.254
    """

    noise_multiplier: float
    neighboring: Neighboring = "replace"

    def __post_init__(self) -> None:
        super().__post_init__()
        value = check_real(self.noise_multiplier, "noise_multiplier", low=0)
        set_fields(self, noise_multiplier=value)

    @property
    def shift(self) -> float:
        """Sensitivity divided by the standard deviation."""
        return 1 / self.noise_multiplier

    def _profile(self, epsilon: float) -> float:
        exact = divergences.gaussian_profile(epsilon, self.shift)
        return exact + divergences.DISCRETE_SLACK

    def _rdp(self, orders: np.ndarray) -> np.ndarray:
        with np.errstate(over="ignore"):
            return orders * (self.shift * self.shift / 2)

    def _pld(self, interval: float) -> Any:
        from dp_accounting.pld import privacy_loss_distribution as pld

        return pld.from_gaussian_mechanism(
            self.noise_multiplier, value_discretization_interval=interval
        )

    def _loss_scales(self) -> tuple[float, float]:
        return self.shift, self.shift**2 / 2 + 10 * self.shift

    def _group(self, size: int) -> Event:
        return Gaussian(self.noise_multiplier / size, self.neighboring)


@dataclass(frozen=True)
class SampledGaussian(Event):
    """Steps of Gaussian noise on sums over Poisson samples of the rows.

    At every step each row takes part with the sampling probability, independently.
    Under "replace" the bound goes through the data without the row (a triangle
    inequality), since no tight analysis is proved for it.

    Parameters
    ----------
    noise_multiplier : float
        Standard deviation of the noise divided by the L2 norm bound of one row's term,
        under either relation.
    sampling_probability : float
        Probability in (0, 1] that a row takes part in a step.
    steps : int
        Number of steps.
    neighboring : {"replace", "add_remove"}
        Neighbour relation.

    Examples
    --------
    >>> from skdp import events
    >>> event = events.SampledGaussian(1.0, 0.01, 10_000, "add_remove")
    >>> round(event.epsilon(1e-6), 2)
    6.91
    """

    noise_multiplier: float
    sampling_probability: float
    steps: int = 1
    neighboring: Neighboring = "add_remove"

    def __post_init__(self) -> None:
        super().__post_init__()
        set_fields(
            self,
            noise_multiplier=check_real(
                self.noise_multiplier, "noise_multiplier", low=0
            ),
            sampling_probability=check_real(
                self.sampling_probability,
                "sampling_probability",
                low=0,
                high=1,
                closed="right",
            ),
            steps=check_integer(self.steps, "steps", low=1),
        )

    def _profile(self, epsilon: float) -> float:
        if self.neighboring == "add_remove":
            exact = float(cached_pld(self).get_delta_for_epsilon(epsilon))
            curve, _ = cached_rdp(self)
            renyi = divergences.delta_from_rdp(
                divergences.DEFAULT_ORDERS, curve, epsilon
            )
            return min(max(exact, 0.0) + pld_slack(self.steps), renyi)
        # To the data without the row at `first`, from there at `epsilon - first`.
        grid, delta = _one_row_table(self)
        first = grid[grid <= epsilon]
        rest = np.searchsorted(grid, epsilon - first, side="right") - 1
        with np.errstate(over="ignore"):
            return float(np.min(delta[: first.size] + np.exp(first) * delta[rest]))

    def _epsilon(self, delta: float) -> float:
        left = delta - pld_slack(self.steps)
        if self.neighboring == "add_remove" and left > 0:
            epsilon = float(cached_pld(self).get_epsilon_for_delta(left))
            if epsilon < math.inf:
                curve, _ = cached_rdp(self)
                orders = divergences.DEFAULT_ORDERS
                return min(epsilon, divergences.epsilon_from_rdp(orders, curve, delta))
        return super()._epsilon(delta)

    @property
    def _steps(self) -> int:
        return self.steps

    def _rdp(self, orders: np.ndarray) -> np.ndarray:
        def curve(at: np.ndarray) -> np.ndarray:
            return self.steps * divergences.sampled_gaussian_rdp(
                at, self.noise_multiplier, self.sampling_probability
            )

        if self.neighboring == "add_remove":
            return curve(orders)
        # The weak triangle inequality of Renyi divergences (Mironov 2017).
        share = (orders - 0.5) / (orders - 1)
        return share * curve(2 * orders) + curve(2 * orders - 1)

    def _pld(self, interval: float) -> Any:
        from dp_accounting.pld import privacy_loss_distribution as pld

        if self.neighboring != "add_remove":
            raise self._refusal("a privacy loss distribution under 'replace'")
        return pld.from_gaussian_mechanism(
            self.noise_multiplier,
            value_discretization_interval=interval,
            sampling_prob=self.sampling_probability,
        ).self_compose(self.steps)

    def _loss_scales(self) -> tuple[float, float]:
        shift, q = 1 / self.noise_multiplier, self.sampling_probability
        amplified = q * math.sqrt(math.expm1(min(shift**2, 50.0)))
        total = math.sqrt(self.steps) * min(shift, amplified)
        largest = (total + shift) ** 2 / 2 + 10 * (total + shift)
        return max(q * min(shift, 1.0), 1e-3), largest


@lru_cache(maxsize=32)
def _one_row_table(event: SampledGaussian) -> tuple[np.ndarray, np.ndarray]:
    """Return epsilons and the deltas there of adding or removing one row."""
    one_row = SampledGaussian(
        event.noise_multiplier, event.sampling_probability, event.steps, "add_remove"
    )
    pld, slack = cached_pld(one_row), pld_slack(event.steps)
    largest = float(pld.get_epsilon_for_delta(max(slack, 1e-15)))
    grid = np.linspace(0, largest if 0 < largest < math.inf else 1.0, 513)
    return grid, np.array([pld.get_delta_for_epsilon(e) for e in grid]) + slack
