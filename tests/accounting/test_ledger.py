"""The ledger in memory: threads take turns, and an interrupted spend is never free."""

import linecache
import sys
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

from skdp import BudgetAccountant
from skdp.events import Pure
from skdp.exceptions import BudgetExceededError


def spend_until_refused(accountant, event):
    while accountant.check(event):
        accountant.spend(event)
    return len(accountant.spends)


# --- Threads


@pytest.fixture
def hasty_threads():
    """Let threads take turns a thousand times as often as usual."""
    usual = sys.getswitchinterval()
    sys.setswitchinterval(5e-6)
    yield
    sys.setswitchinterval(usual)


@pytest.mark.usefixtures("hasty_threads")
@pytest.mark.parametrize("delta", [0.0, 1e-6])
@pytest.mark.parametrize("composition", ["adaptive", "basic"])
def test_sixteen_threads_get_exactly_what_fits(composition, delta):
    terms = {"epsilon": 1.0, "delta": delta, "composition": composition}
    event = Pure(0.004)
    fits = spend_until_refused(BudgetAccountant(**terms), event)
    assert fits == 250 or (composition == "adaptive" and 250 < fits < 3200)
    accountant, start = BudgetAccountant(**terms), threading.Barrier(16)

    def spend_many(_):
        accepted = 0
        start.wait()
        for _ in range(200):
            try:
                accountant.spend(event)
            except BudgetExceededError:
                continue
            accepted += 1
        return accepted

    with ThreadPoolExecutor(16) as pool:
        accepted = sum(pool.map(spend_many, range(16)))
    assert accepted == len(accountant.spends) == fits
    assert accountant.total().epsilon <= 1.0


# --- Interruptions


class Interruption:
    """Raise KeyboardInterrupt at the n-th line that the accounting executes.

    Not at the end of a ``with`` block: Python takes signals after a call, and none
    comes between the last one in the block and ``__exit__``.
    """

    def __init__(self, line):
        self.left = line

    def __call__(self, frame, what, argument):
        if "accounting" not in frame.f_code.co_filename:
            return None
        source = linecache.getline(frame.f_code.co_filename, frame.f_lineno)
        if what == "line" and not source.lstrip().startswith("with "):
            self.left -= 1
            if self.left == 0:
                raise KeyboardInterrupt
        return self


def test_an_interrupted_spend_is_never_free():
    accountant, event = BudgetAccountant(10.0, 1e-6), Pure(0.001)
    accountant.spend(event)
    tracing = sys.gettrace()
    for line in range(1, 1000):
        before = accountant.total().epsilon, len(accountant.spends)
        sys.settrace(Interruption(line))
        try:
            accountant.spend(event)
        except KeyboardInterrupt:
            interrupted = True
        else:
            interrupted = False
        finally:
            sys.settrace(tracing)
        after = accountant.total().epsilon, len(accountant.spends)
        assert after[1] <= round(after[0] / 0.001)  # what is listed is paid
        assert before[1] <= after[1] <= before[1] + 1
        if not interrupted:
            break
    assert 50 < line < 999
    assert after[1] == before[1] + 1


def test_an_error_inside_a_transaction_changes_nothing():
    accountant = BudgetAccountant(1.0, 1e-6)
    accountant.spend(epsilon=0.1)
    before = accountant._ledger.read(""), accountant.spends
    for error in (KeyboardInterrupt, SystemExit, MemoryError, ValueError):
        with pytest.raises(error), accountant._ledger.transaction() as change:
            change.store("", "something else")
            change.fix_rules("other rules")
            raise error
        assert (accountant._ledger.read(""), accountant.spends) == before
    accountant.spend(epsilon=0.1)
