"""Composition rules that stay valid when later releases depend on earlier answers.

A *filter* lets releases pass while its account stays below its limit. The rules here
are filters each: basic composition, Renyi DP at a fixed order (Feldman and Zrnic 2021),
Gaussian DP (Smith and Thakurta 2022) and advanced composition (Whitehouse, Ramdas,
Rogers and Wu 2023). Several of them together: a release passes while at least one rule
allows it, and the deltas of the rules add up (docs, theory of composition). The rules
and their shares of delta are fixed at the first release, from public numbers.
"""

import json
import math
from dataclasses import asdict, dataclass, replace
from decimal import Decimal
from functools import lru_cache

import numpy as np

from skdp.accounting._accounts import EXACT, Accounts, decimal
from skdp.calibration import gaussian_shift
from skdp.divergences import epsilon_from_profile, gaussian_profile
from skdp.events import Approximate, Composed, Event, Gaussian, Group, Parallel
from skdp.exceptions import UnsupportedEventError

__all__ = ["Reading", "Rules", "choose_rules"]

_ROUNDING = Decimal("1.000000000001")  # a sum this close to the limit is equal to it
_RESERVE = 0.3  # share of delta kept for releases that come with one of their own
_RESERVE_GAUSSIAN = 0.1  # the same after Gaussian noise: more of it is to be expected
_LARGE = 0.6  # a first release with a larger share of the budget: basic only
_LARGE_GAUSSIAN = 0.95  # the same for Gaussian noise, whose rule has most of delta
_COMBINED = (Composed, Parallel, Group)
# No Gaussian rule for a smaller delta: each release may differ from a continuous
# Gaussian by DISCRETE_SLACK, and so a thousand million of them do not matter.
_SMALLEST_GAUSSIAN = 1e-14
_ORDERS = 1 + np.geomspace(1e-2, 1e5, 400)


@dataclass(frozen=True)
class Reading:
    """What was spent so far, and the rule that says so.

    A reading, not a guarantee, when one may stop because of the answers: what holds
    then is the ceiling of the budget.
    """

    epsilon: float
    delta: float
    rule: str


# --- Prices of one release


@lru_cache(maxsize=1024)
def proportional(event: Event, epsilon: float, delta: float) -> tuple[float, float]:
    """Return the point of the profile with equal shares of epsilon and delta."""
    if delta == 0:
        return event.epsilon(0), 0.0
    slope = delta / epsilon
    point = epsilon_from_profile(lambda e: event.profile(e) - slope * e, 0.0)
    return point, slope * point


@lru_cache(maxsize=1024)
def basic_price(event: Event, epsilon: float, delta: float) -> tuple[float, float]:
    """Return the (epsilon, delta) that basic composition charges for the event.

    A simple event has its own. For one that has none, or is made of several parts, it
    is the point of its profile that takes the smallest share of the ceiling.
    """
    own = event.basic()
    if math.isfinite(own[0]) and not isinstance(event, _COMBINED):
        return own
    point = proportional(event, epsilon, delta)
    own_share = max(own[0] / epsilon, own[1] / delta if delta else math.inf * own[1])
    return own if own_share <= point[0] / epsilon else point


@lru_cache(maxsize=1024)
def tight_price(
    event: Event, epsilon: float, delta: float, orders: tuple[float, ...]
) -> Accounts:
    """Return what the event adds to the accounts of all rules."""
    own = event.basic()
    squares = _squared_shift(event)
    try:
        curve, failure = event.rdp_and_delta(np.array(orders))
    except UnsupportedEventError:
        if not math.isfinite(own[0]):  # nothing but its profile is known
            own = proportional(event, epsilon, delta)
        return tight_price(Approximate(*own, event.neighboring), epsilon, delta, orders)
    rdp = tuple(math.inf if math.isnan(v) else float(v) for v in curve)
    return Accounts(
        decimal(own[0]), failure=decimal(max(failure, own[1])), rdp=rdp, squares=squares
    )


def _squared_shift(event: Event) -> float:
    if type(event) is Gaussian:  # not a kind of event that adds something to it
        return event.shift * event.shift
    if isinstance(event, Composed):
        parts = zip(event.events, event.counts, strict=True)
        return sum(count * _squared_shift(part) for part, count in parts)
    return math.inf


# --- Rules


def _rdp_room(epsilon: float, delta: float, orders: np.ndarray) -> np.ndarray:
    """Return the largest Renyi divergence at each order that is (epsilon, delta)-DP."""
    return (
        epsilon
        - np.log1p(-1 / orders)
        + (math.log(delta) + np.log(orders)) / (orders - 1)
    )


def _limit(ceiling: float) -> Decimal:
    # Exact, whatever the caller's decimal context is.
    return EXACT.multiply(decimal(ceiling), _ROUNDING)


@lru_cache(maxsize=256)
def _gaussian_room(epsilon: float, delta: float) -> float:
    """Return the largest sum of squared shifts that is (epsilon, delta)-DP."""
    return gaussian_shift(epsilon, delta) ** 2


def _zcdp_epsilon(rho: float, delta: float) -> float:
    return rho + 2 * math.sqrt(rho * math.log(1 / delta))


@dataclass(frozen=True)
class Rules:
    """The rules of one budget, with their shares of delta.

    Parameters
    ----------
    epsilon, delta : float
        The ceiling.
    failure_delta : float
        Delta for releases that come with one of their own, common to all rules.
    orders, order_deltas : tuple of float
        Renyi orders, and the delta of each.
    gaussian_delta : float
        Delta of Gaussian DP; 0 for no such rule.
    advanced_delta : float
        Delta of advanced composition; 0 for no such rule.
    """

    epsilon: float
    delta: float
    failure_delta: float
    orders: tuple[float, ...] = ()
    order_deltas: tuple[float, ...] = ()
    gaussian_delta: float = 0.0
    advanced_delta: float = 0.0

    @property
    def only_basic(self) -> bool:
        """Whether basic composition has all of delta."""
        return not (self.orders or self.gaussian_delta or self.advanced_delta)

    @property
    def nothing(self) -> Accounts:
        """The accounts before the first release."""
        return Accounts(rdp=(0.0,) * len(self.orders))

    def price(self, event: Event) -> Accounts:
        """Return what a release adds to every account."""
        if self.only_basic:
            epsilon, delta = basic_price(event, self.epsilon, self.delta)
            return Accounts(decimal(epsilon), failure=decimal(delta))
        if self.advanced_delta:
            epsilon, delta = basic_price(event, self.epsilon, self.failure_delta)
            return Accounts(
                decimal(epsilon), failure=decimal(delta), squares=epsilon * epsilon
            )
        price = tight_price(event, self.epsilon, self.failure_delta, self.orders)
        if isinstance(event, Composed) and math.isinf(price.squares):
            # As a whole, by its privacy loss distribution: one point of the profile.
            point = proportional(event, self.epsilon, self.failure_delta)
            if math.isfinite(point[0]) and point[0] <= self.epsilon:
                whole = self.price(Approximate(*point, event.neighboring))
                return min(price, whole, key=self._share)
        return price

    def _share(self, price: Accounts) -> float:
        """Return the share of its limit that a price takes, by the best rule."""
        shares = [float(price.epsilon) / self.epsilon]
        for order, delta, spent in zip(
            self.orders, self.order_deltas, price.rdp, strict=True
        ):
            room = float(_rdp_room(self.epsilon, delta, np.float64(order)))
            shares.append(spent / room if room > 0 else math.inf)
        return max(min(shares), float(price.failure) / self.failure_delta)

    def readings(self, accounts: Accounts) -> list[Reading]:
        """Return the epsilon that each rule reads from its account."""
        failure = float(accounts.failure)
        found = [Reading(float(accounts.epsilon), failure, "basic")]
        for order, delta, spent in zip(
            self.orders, self.order_deltas, accounts.rdp, strict=True
        ):
            used = self.epsilon - float(
                _rdp_room(self.epsilon, delta, np.float64(order))
            )
            name = f"Renyi of order {order:.4g}"
            found.append(Reading(max(0.0, spent + used), failure + delta, name))
        if self.gaussian_delta and math.isfinite(accounts.squares):
            epsilon = _gaussian_epsilon(accounts.squares, self.gaussian_delta)
            found.append(Reading(epsilon, failure + self.gaussian_delta, "Gaussian"))
        if self.advanced_delta:
            epsilon = _zcdp_epsilon(accounts.squares / 2, self.advanced_delta)
            found.append(Reading(epsilon, failure + self.advanced_delta, "advanced"))
        return found

    def reading(self, accounts: Accounts) -> Reading:
        """Return the smallest epsilon that a rule reads.

        The tighter rules are rounded up by 0.1 %, up to the ceiling: where they read
        about the same as basic composition, which costs no delta, it is named.
        """
        basic, *others = self.readings(accounts)
        rounded = [
            r
            if r.rule == "advanced"
            else replace(
                r, epsilon=max(r.epsilon, min(1.001 * r.epsilon, self.epsilon))
            )
            for r in others
        ]
        return min([basic, *rounded], key=lambda reading: reading.epsilon)

    def allows(self, accounts: Accounts) -> bool:
        """Return whether at least one rule allows the accounts."""
        if accounts.failure > _limit(self.failure_delta):
            return False
        if accounts.epsilon <= _limit(self.epsilon):
            return True
        rooms = zip(self.orders, self.order_deltas, accounts.rdp, strict=True)
        if any(
            spent <= _rdp_room(self.epsilon, delta, np.float64(order))
            for order, delta, spent in rooms
        ):
            return True
        if self.gaussian_delta:
            return accounts.squares <= _gaussian_room(self.epsilon, self.gaussian_delta)
        if self.advanced_delta:
            spent = _zcdp_epsilon(accounts.squares / 2, self.advanced_delta)
            return spent <= self.epsilon
        return False

    def to_json(self) -> str:
        """Return the rules as JSON."""
        return json.dumps(asdict(self))

    @classmethod
    def from_json(cls, text: str) -> "Rules":
        """Return the rules that ``to_json`` wrote."""
        values = json.loads(text)
        return cls(
            **{k: tuple(v) if isinstance(v, list) else v for k, v in values.items()}
        )


def _gaussian_epsilon(squares: float, delta: float) -> float:
    shift = math.sqrt(squares)
    return epsilon_from_profile(lambda e: gaussian_profile(e, shift), delta)


# --- The choice at the first release


def choose_rules(epsilon: float, delta: float, composition: str, event: Event) -> Rules:
    """Return the rules of a budget, given its first release.

    No answer has been seen yet, so that the choice may depend on the first event. One
    release that is as large as the ceiling, and k equal shares of it, must fit: a first
    release that takes as large a share of delta as of epsilon gets basic composition.
    """
    basic = Rules(epsilon, delta, delta)
    if composition == "basic" or delta == 0:
        return basic
    if _wants_basic(event, epsilon, delta):
        return basic
    if composition == "advanced":
        advanced = Rules(epsilon, delta, delta / 2, advanced_delta=delta / 2)
        return advanced if _copies(advanced, event) else basic
    own_delta = event.basic()[1]
    if own_delta == 0:
        gaussian = math.isfinite(_squared_shift(event))
        reserve = _RESERVE_GAUSSIAN if gaussian else _RESERVE
        return _tight_rules(epsilon, delta, reserve, event)
    shares = [tenths / 10 for tenths in range(1, 10)]
    options = [_tight_rules(epsilon, delta, share, event) for share in shares]
    options.append(basic)
    return max(options, key=lambda rules: _copies(rules, event))


def _wants_basic(event: Event, epsilon: float, delta: float) -> bool:
    own_epsilon, own_delta = event.basic()
    combined = isinstance(event, _COMBINED)
    if math.isfinite(own_epsilon) and not combined:
        return own_delta > 0 and own_delta / delta >= own_epsilon / epsilon * (1 - 1e-9)
    gaussian = math.isfinite(_squared_shift(event))
    share = proportional(event, epsilon, delta)[0] / epsilon
    return share > (_LARGE_GAUSSIAN if gaussian else _LARGE)


def _tight_rules(epsilon: float, delta: float, reserve: float, event: Event) -> Rules:
    """Share the delta that is not in reserve over the rules that suit the event."""
    rest = (1 - reserve) * delta
    gaussian = 0.9 * rest if math.isfinite(_squared_shift(event)) else 0.0
    if gaussian < _SMALLEST_GAUSSIAN:
        gaussian = 0.0
    small = _best_order(epsilon, rest - gaussian, _ORDERS)
    orders = (small,)
    if not gaussian:
        try:
            curve = event.rdp_and_delta(_ORDERS)[0]
        except UnsupportedEventError:
            curve = _ORDERS
        first = _best_order(epsilon, rest, curve)
        if abs(math.log((first - 1) / (small - 1))) > 0.2:
            orders = (first, small)
    weights = (1.0,) if len(orders) == 1 else (0.7, 0.3)
    deltas = tuple(weight * (rest - gaussian) for weight in weights)
    rooms = [
        float(_rdp_room(epsilon, share, np.float64(order)))
        for order, share in zip(orders, deltas, strict=True)
    ]
    if not gaussian and max(rooms) <= 0:
        return Rules(epsilon, delta, delta)  # no order has room: basic takes it all
    return Rules(epsilon, delta, reserve * delta, orders, deltas, gaussian)


def _best_order(epsilon: float, delta: float, curve: np.ndarray) -> float:
    """Return the order that leaves room for the most releases with this Renyi curve."""
    room = _rdp_room(epsilon, delta, _ORDERS)
    return float(_ORDERS[np.argmax(room / curve)])


def _copies(rules: Rules, event: Event) -> int:
    """Return how many copies of the event fit."""
    price, low, high = rules.price(event), 0, 1
    while high < 2**40 and rules.allows(rules.nothing + price.times(high)):
        low, high = high, 2 * high
    while high - low > 1:
        middle = (low + high) // 2
        if rules.allows(rules.nothing + price.times(middle)):
            low = middle
        else:
            high = middle
    return low
