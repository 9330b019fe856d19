"""What every event answers, and its JSON."""

import json
import math
from dataclasses import fields
from functools import lru_cache
from typing import Any, ClassVar

import numpy as np

from skdp import divergences
from skdp.exceptions import UnsupportedEventError
from skdp.validation import Neighboring, check_delta, check_neighboring, check_real

__all__ = ["Event", "from_json"]

_MAX_BUCKETS = 4e6  # of a discretised privacy loss: about a second of work


def check_orders(orders: Any) -> np.ndarray:
    array = np.asarray(orders, dtype=float)
    if array.size == 0 or not (array > 1).all() or not np.isfinite(array).all():
        raise ValueError("The 'orders' parameter must be finite numbers > 1.")
    return array


class Event:
    """Base of all events. Not for direct use."""

    neighboring: Neighboring
    _kinds: ClassVar[dict[str, type["Event"]]] = {}

    def __init_subclass__(cls) -> None:
        Event._kinds[cls.__name__] = cls

    def __post_init__(self) -> None:
        check_neighboring(self.neighboring)

    # --- What an event answers

    def profile(self, epsilon: float) -> float:
        """Return the smallest known delta such that (epsilon, delta)-DP holds."""
        epsilon = check_real(epsilon, "epsilon", low=0, closed="left")
        return min(1.0, max(0.0, self._profile(epsilon)))

    def epsilon(self, delta: float) -> float:
        """Return the smallest known epsilon at ``delta``; inf where there is none."""
        delta = check_delta(delta)
        if delta == 0:  # a profile that underflows to 0 is no pure privacy
            pure, failure = self.basic()
            return pure if failure == 0 else math.inf
        return self._epsilon(delta)

    def rdp(self, orders: Any) -> np.ndarray:
        """Return the Renyi divergence bound at each order (numbers > 1)."""
        curve, delta = self.rdp_and_delta(orders)
        if delta > 0:
            raise UnsupportedEventError(
                f"{self!r} has no Renyi curve: it fails with probability delta. Use "
                "rdp_and_delta, which keeps delta apart."
            )
        return curve

    def rdp_and_delta(self, orders: Any) -> tuple[np.ndarray, float]:
        """Return a Renyi curve and the probability delta with which it does not hold.

        An (epsilon, delta) event is delta on one account, and randomised response
        with parameter epsilon on the other.
        """
        return self._rdp(check_orders(orders)), 0.0

    def basic(self) -> tuple[float, float]:
        """Return one (epsilon, delta) for basic composition; inf where none is best."""
        return math.inf, 0.0

    def pld(self, interval: float | None = None) -> Any:
        """Return dp_accounting's privacy loss distribution of this event.

        ``interval`` is the discretisation of the loss; distributions compose only
        when theirs are equal. The estimate is pessimistic.
        """
        if interval is None:
            interval = self._interval()
        return self._pld(check_real(interval, "interval", low=0))

    # --- What a kind of event defines

    #: Number of releases that a privacy loss distribution convolves.
    _steps = 1

    def _profile(self, epsilon: float) -> float:
        raise self._refusal("a privacy profile")

    def _epsilon(self, delta: float) -> float:
        return divergences.epsilon_from_profile(self.profile, delta)

    def _rdp(self, orders: np.ndarray) -> np.ndarray:
        raise self._refusal("a Renyi curve")

    def _pld(self, interval: float) -> Any:
        raise self._refusal("a privacy loss distribution")

    def _loss_scales(self) -> tuple[float, float]:
        """Return the loss's typical and largest sizes, to discretise it."""
        raise self._refusal("a privacy loss distribution")

    def _group(self, size: int) -> "Event | None":
        """Return the event of ``size`` rows, where there is a closed form."""
        return None

    def _refusal(self, what: str) -> UnsupportedEventError:
        return UnsupportedEventError(f"{type(self).__name__} does not support {what}.")

    def _interval(self) -> float:
        typical, largest = self._loss_scales()
        # Powers of two divide exactly: the loss of a pure event is on the grid.
        # (The smallest floats have no such fraction.)
        interval = max(typical / 1024, 1e-300)
        while interval > 1e-4:
            interval /= 2
        while interval < largest / _MAX_BUCKETS:
            interval *= 2
        if interval > 1:
            raise self._refusal("a privacy loss distribution of losses so large")
        return interval

    def __str__(self) -> str:
        """Return the event in short: its kind and numbers."""
        shown = []
        for f in fields(self):
            value = getattr(self, f.name)
            if f.name == "events":
                counts = getattr(self, "counts", None) or (1,) * len(value)
                shown.append(f"{sum(counts)} releases")
            elif f.name not in ("neighboring", "counts"):
                number = isinstance(value, (int, float))
                shown.append(f"{f.name}={value:.6g}" if number else f"{value}")
        return f"{type(self).__name__}({', '.join(shown)})"

    # --- JSON

    def to_dict(self) -> dict[str, Any]:
        """Return the event as plain JSON types."""
        values = {f.name: _plain(getattr(self, f.name)) for f in fields(self)}
        return {"kind": type(self).__name__, **values}

    def to_json(self) -> str:
        """Return the event as JSON; ``from_json`` gives an equal event back."""
        return json.dumps(self.to_dict())


def _plain(value: Any) -> Any:
    if isinstance(value, Event):
        return value.to_dict()
    return [_plain(item) for item in value] if isinstance(value, tuple) else value


def _from_plain(value: Any) -> Any:
    if isinstance(value, list):
        return tuple(_from_plain(item) for item in value)
    if not isinstance(value, dict):
        return value
    name = value.get("kind")
    kind = Event._kinds.get(name) if isinstance(name, str) else None
    if kind is None:
        raise ValueError(f"Not an event known to this version: {name!r}.")
    wanted = {f.name for f in fields(kind) if f.init}
    given = {key: _from_plain(item) for key, item in value.items() if key != "kind"}
    if set(given) != wanted:
        raise ValueError(
            f"A {kind.__name__} event has the fields {sorted(wanted)}. "
            f"Got {sorted(given)}."
        )
    return kind(**given)


def from_json(text: str) -> Event:
    """Return the event that ``Event.to_json`` wrote.

    Examples
    --------
    >>> from skdp import events
    >>> events.from_json(events.Pure(0.5).to_json())
    Pure(eps=0.5, neighboring='replace')
    """
    event = _from_plain(json.loads(text))
    if not isinstance(event, Event):
        raise ValueError("The text is JSON, but not an event.")
    return event


def group_delta(eps: float, delta: float, size: int) -> float:
    """Return delta (e^{k eps} - 1) / (e^eps - 1), the delta of a group of k."""
    if delta == 0:
        return 0.0
    if eps == 0:
        return size * delta
    log_factor = (size - 1) * eps + math.log(math.expm1(-size * eps) / math.expm1(-eps))
    return math.exp(min(0.0, math.log(delta) + log_factor))


def pld_slack(steps: int) -> float:
    """Return what a Fourier transform may lose of the mass in so many convolutions.

    Measured losses stay below 4e-17 a step.
    """
    return 2e-16 * (steps + 10)


@lru_cache(maxsize=32)
def cached_pld(event: Event) -> Any:
    return event.pld()


@lru_cache(maxsize=256)
def cached_rdp(event: Event) -> tuple[np.ndarray, float]:
    return event.rdp_and_delta(divergences.DEFAULT_ORDERS)
