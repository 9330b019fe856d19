"""What is left of a budget, and the words of a refusal."""

import math
from typing import NamedTuple

from skdp import events
from skdp.accounting._accounts import EXACT, Accounts, decimal
from skdp.accounting._rules import Rules, basic_price
from skdp.accounting.ledger import Budget
from skdp.exceptions import BudgetExceededError


class Remaining(NamedTuple):
    """The largest (epsilon, delta) that would still be accepted."""

    epsilon: float
    delta: float


def plain_event(epsilon: float, delta: float, neighboring: str) -> events.Event:
    """Return the event of which only epsilon and delta are known."""
    if delta == 0:
        return events.Pure(epsilon, neighboring)
    return events.Approximate(epsilon, delta, neighboring)


def remaining(rules: Rules, accounts: Accounts, k: int, neighboring: str) -> Remaining:
    """Return the largest equal (epsilon, delta) of k more releases."""
    delta = (
        float(max(0, EXACT.subtract(decimal(rules.failure_delta), accounts.failure)))
        / k
    )

    def fits(epsilon: float) -> bool:
        price = rules.price(plain_event(epsilon, delta, neighboring))
        return rules.allows(accounts + price.times(k))

    basic = float(max(0, EXACT.subtract(decimal(rules.epsilon), accounts.epsilon))) / k
    if basic > 0 and not fits(basic):
        basic = 0.0
    low = basic
    high = rules.epsilon
    for _ in range(50):
        middle = (low + high) / 2
        if middle > low * (1 + 1e-9) and fits(middle):
            low = middle
        else:
            high = middle
    if low > basic:  # k single sums are rounded up more often than their product
        low = max(basic, low * (1 - 1e-9))
    # Sums count as equal to the ceiling within a rounding error: that is not room.
    return Remaining(low if low > 1e-9 * rules.epsilon else 0.0, delta)


def refusal(
    budget: Budget, event: events.Event, left: Remaining
) -> BudgetExceededError:
    """Return the error that says what was asked, what is left and what would fit."""
    asked = Remaining(*basic_price(event, budget.epsilon, budget.delta))
    text = (
        f"The budget {budget.name!r} (epsilon={budget.epsilon:g}, "
        f"delta={budget.delta:g}) cannot pay for {event}, which takes "
        f"epsilon={asked.epsilon:.6g}, delta={asked.delta:.3g}. "
        f"Left is epsilon={left.epsilon:.6g}, delta={left.delta:.3g}."
    )
    if asked.delta > left.delta or math.isinf(asked.epsilon):
        needed = f"delta={asked.delta:g}" if asked.delta else "a delta > 0"
        text += (
            f" The release needs {needed} and the budget has delta={left.delta:g} left "
            f"of {budget.delta:g}: make the budget with a larger delta, or the release "
            "with a smaller one (delta=0 where the method allows it)."
        )
    elif left.epsilon > 0:
        text += f" A release with epsilon={left.epsilon:.6g} would fit."
    return BudgetExceededError(text, asked=asked, remaining=left)
