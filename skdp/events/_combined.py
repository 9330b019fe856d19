"""Events made of other events."""

import math
from collections.abc import Iterable
from dataclasses import dataclass
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
from skdp.events._single import Gaussian
from skdp.exceptions import UnsupportedEventError
from skdp.validation import Neighboring, check_integer, set_fields


def _check_events(events: Iterable[Event], owner: Event) -> tuple[Event, ...]:
    try:
        events = tuple(events)
    except TypeError:
        events = ()
    if not events or not all(isinstance(event, Event) for event in events):
        raise TypeError(f"{type(owner).__name__} needs a non-empty sequence of events.")
    if len({event.neighboring for event in events}) > 1:
        raise UnsupportedEventError(
            f"{type(owner).__name__} cannot mix neighbour relations 'replace' and "
            "'add_remove': state every event under one of them."
        )
    return events


@dataclass(frozen=True)
class Composed(Event):
    """Several releases about the same rows, with parameters fixed in advance.

    The bound is the smallest of the known ones: closed forms, Renyi curves, basic
    composition and, where every part has one, the privacy loss distribution.

    Parameters
    ----------
    events : sequence of Event
        The parts, all of one neighbour relation.
    counts : sequence of int, default=None
        How often each part happens; once where None.

    Examples
    --------
    >>> from skdp import events
    >>> round(events.Composed([events.Pure(0.1)], [100]).epsilon(1e-6), 3)
    4.775
    """

    events: tuple[Event, ...]
    counts: tuple[int, ...] | None = None

    def __post_init__(self) -> None:
        events = _check_events(self.events, self)
        counts = (1,) * len(events) if self.counts is None else self.counts
        try:
            counts = tuple(counts)
        except TypeError:
            raise TypeError(
                "The 'counts' parameter must be a sequence of one int for each event."
            ) from None
        counts = tuple(check_integer(count, "counts", low=1) for count in counts)
        if len(counts) != len(events):
            raise ValueError("The 'counts' parameter must have one int for each event.")
        set_fields(self, events=events, counts=counts)

    @property
    def neighboring(self) -> Neighboring:
        """Neighbour relation of all parts."""
        return self.events[0].neighboring

    def _gaussian_shift(self) -> float | None:
        """Return the shift of the one Gaussian that equals k Gaussians."""
        if not all(isinstance(event, Gaussian) for event in self.events):
            return None
        parts = zip(self.events, self.counts, strict=True)
        return math.sqrt(sum(count * event.shift**2 for event, count in parts))

    def _profile(self, epsilon: float) -> float:
        shift = self._gaussian_shift()
        if shift is not None:
            slack = sum(self.counts) * divergences.DISCRETE_SLACK
            return divergences.gaussian_profile(epsilon, shift) + slack
        bounds = [1.0]
        pure, delta = self.basic()
        if math.isfinite(pure):
            bounds.append(delta + divergences.pure_profile(epsilon, pure))
        for bound in (self._rdp_profile, self._pld_profile, self._split_profile):
            try:
                bounds.append(bound(epsilon))
            except (UnsupportedEventError, OverflowError):
                continue
        if len(bounds) == 1:
            raise self._refusal("a privacy profile of these parts")
        return min(bounds)

    def _split_profile(self, epsilon: float) -> float:
        """Return the profile of the other parts beyond what the pure parts take.

        That is basic composition of the two, with the best point of the others.
        """
        pure, rest = 0.0, []
        for event, count in zip(self.events, self.counts, strict=True):
            price, delta = event.basic()
            if delta == 0 and math.isfinite(price):
                pure += count * price
            else:
                rest.append((event, count))
        if not rest or pure == 0:
            raise self._refusal("pure parts beside others")
        left = epsilon - pure * (1 + 1e-15)
        if left <= 0:
            return 1.0
        events, counts = zip(*rest, strict=True)
        whole = events[0] if sum(counts) == 1 else Composed(events, counts)
        return whole.profile(left)

    def _rdp_profile(self, epsilon: float) -> float:
        orders = divergences.DEFAULT_ORDERS
        curve, delta = cached_rdp(self)
        return delta + divergences.delta_from_rdp(orders, curve, epsilon)

    def _pld_profile(self, epsilon: float) -> float:
        slack = pld_slack(self._steps)
        return float(cached_pld(self).get_delta_for_epsilon(epsilon)) + slack

    @property
    def _steps(self) -> int:
        parts = zip(self.events, self.counts, strict=True)
        return sum(count * event._steps for event, count in parts)

    def rdp_and_delta(self, orders: Any) -> tuple[np.ndarray, float]:
        orders = check_orders(orders)
        total, failure = np.zeros(orders.shape), 0.0
        for event, count in zip(self.events, self.counts, strict=True):
            curve, delta = event.rdp_and_delta(orders)
            total, failure = total + count * curve, failure + count * delta
        return total, failure

    def basic(self) -> tuple[float, float]:
        parts = [event.basic() for event in self.events]
        weights = list(zip(parts, self.counts, strict=True))
        return (
            math.fsum(count * part[0] for part, count in weights),
            math.fsum(count * part[1] for part, count in weights),
        )

    def _pld(self, interval: float) -> Any:
        parts = [
            event._pld(interval).self_compose(count)
            if count > 1
            else event._pld(interval)
            for event, count in zip(self.events, self.counts, strict=True)
        ]
        total = parts[0]
        for part in parts[1:]:
            total = total.compose(part)
        return total

    def _loss_scales(self) -> tuple[float, float]:
        scales = [event._loss_scales() for event in self.events]
        largest = sum(
            count * scale[1] for scale, count in zip(scales, self.counts, strict=True)
        )
        # A part that is tiny beside the others is rounded up at next to no cost.
        typical = [scale[0] for scale in scales]
        return max(min(typical), max(typical) / 100), largest

    def _group(self, size: int) -> Event | None:
        parts = [event._group(size) for event in self.events]
        return None if None in parts else Composed(parts, self.counts)


@dataclass(frozen=True)
class Parallel(Event):
    """Releases on disjoint parts of the rows: a row takes part in one of them.

    Guarantee: the worst of the parts. The partition must be public and independent of
    the data; under "replace" a row may change, but not move to another part.

    Parameters
    ----------
    events : sequence of Event
        One event for each part of the rows, all of one neighbour relation.

    Examples
    --------
    >>> from skdp import events
    >>> events.Parallel([events.Pure(0.5), events.Pure(2.0)]).epsilon(0)
    2.0
    """

    events: tuple[Event, ...]

    def __post_init__(self) -> None:
        set_fields(self, events=_check_events(self.events, self))

    @property
    def neighboring(self) -> Neighboring:
        """Neighbour relation of all parts."""
        return self.events[0].neighboring

    def _profile(self, epsilon: float) -> float:
        return max(event.profile(epsilon) for event in set(self.events))

    def _epsilon(self, delta: float) -> float:
        return max(event.epsilon(delta) for event in set(self.events))

    def rdp_and_delta(self, orders: Any) -> tuple[np.ndarray, float]:
        parts = [event.rdp_and_delta(orders) for event in set(self.events)]
        return np.max([part[0] for part in parts], axis=0), max(p[1] for p in parts)

    def basic(self) -> tuple[float, float]:
        parts = [event.basic() for event in self.events]
        return max(part[0] for part in parts), max(part[1] for part in parts)


@dataclass(frozen=True)
class Group(Event):
    """One release, seen by a group of rows that change together.

    Parameters
    ----------
    event : Event
        The release.
    size : int
        Number of rows in the group.

    Examples
    --------
    >>> from skdp import events
    >>> events.Group(events.Pure(0.5), 4).epsilon(0)
    2.0
    """

    event: Event
    size: int

    def __post_init__(self) -> None:
        _check_events((self.event,), self)
        set_fields(self, size=check_integer(self.size, "size", low=1))

    @property
    def neighboring(self) -> Neighboring:
        """Neighbour relation of one row's change."""
        return self.event.neighboring

    @property
    def _steps(self) -> int:
        closed = self._closed_form
        return 1 if closed is None else closed._steps

    @property
    def _closed_form(self) -> Event | None:
        return self.event if self.size == 1 else self.event._group(self.size)

    def _profile(self, epsilon: float) -> float:
        if self._closed_form is not None:
            return self._closed_form.profile(epsilon)
        single = epsilon / self.size
        return group_delta(single, self.event.profile(single), self.size)

    def _epsilon(self, delta: float) -> float:
        closed = self._closed_form
        return super()._epsilon(delta) if closed is None else closed.epsilon(delta)

    def rdp_and_delta(self, orders: Any) -> tuple[np.ndarray, float]:
        if self._closed_form is None:
            raise self._refusal(f"a Renyi curve of {type(self.event).__name__}")
        return self._closed_form.rdp_and_delta(orders)

    def basic(self) -> tuple[float, float]:
        if self._closed_form is not None:
            return self._closed_form.basic()
        epsilon, delta = self.event.basic()
        if math.isinf(epsilon):
            return math.inf, 0.0
        delta = group_delta(epsilon, delta, self.size)
        return (self.size * epsilon, delta) if delta < 1 else (math.inf, 0.0)

    def _pld(self, interval: float) -> Any:
        if self._closed_form is None:
            return super()._pld(interval)
        return self._closed_form._pld(interval)

    def _loss_scales(self) -> tuple[float, float]:
        closed = self._closed_form
        return super()._loss_scales() if closed is None else closed._loss_scales()
