"""Where a budget lives: in memory, in an SQLite file or in a PostgreSQL database.

A ledger knows nothing of privacy. It keeps texts (the rules of the budget, the accounts
of each path, the spends) and changes them in transactions: all of a change is kept, or
none of it, and no two changes overlap. For the databases a change is durable when the
transaction ends.
"""

import os
import threading
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field
from typing import Protocol

from skdp.exceptions import DetachedAccountantError

__all__ = ["Budget", "Ledger", "MemoryLedger", "Spend", "Transaction", "open_ledger"]


_forks = 0  # of this process since its ancestors imported skdp


def _count_fork() -> None:
    global _forks
    _forks += 1


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_count_fork)


def _this_process() -> tuple[int, int]:
    """Return what no copy of this process has: containers may reuse its number."""
    return os.getpid(), _forks


@dataclass(frozen=True)
class Budget:
    """What a budget is: fixed when it is made."""

    name: str
    epsilon: float
    delta: float
    neighboring: str
    composition: str


@dataclass(frozen=True)
class Spend:
    """One line of the ledger; ``event`` is the event's JSON."""

    time: str
    event: str
    label: str | None
    seeded: bool
    path: str = ""


@dataclass(frozen=True)
class Snapshot:
    """The rules and some accounts at one moment: no spend is half in it."""

    rules: str | None
    found: dict[str, str]

    def accounts(self, path: str) -> str | None:
        """Return the accounts of a path that was asked for, None before its spends."""
        return self.found.get(path)


class Transaction(Protocol):
    """What can be done while nobody else changes the budget."""

    rules: str | None

    def fix_rules(self, text: str) -> None:
        """Store the rules, once."""

    def accounts(self, path: str) -> str | None:
        """Return the accounts of a path, None before its first spend."""

    def store(self, path: str, text: str) -> None:
        """Replace the accounts of a path."""

    def record(self, spend: Spend) -> None:
        """Append a line."""


class Ledger(Protocol):
    """A place for one budget."""

    url: str | None

    def budget(self) -> Budget:
        """Return the budget as it is stored."""

    def transaction(self) -> AbstractContextManager[Transaction]:
        """Begin a change."""

    def read(self, *paths: str) -> Snapshot:
        """Return the rules and the accounts of paths, all as of one moment."""

    def spends(self) -> list[Spend]:
        """Return all lines, oldest first."""


@dataclass
class _State:
    rules: str | None = None
    accounts: dict[str, str] = field(default_factory=dict)
    spends: list[Spend] = field(default_factory=list)


class _MemoryTransaction:
    """Changes to a state, kept apart until they are all there."""

    def __init__(self, state: _State) -> None:
        self._state = state
        self.rules = state.rules
        self._accounts: dict[str, str] = {}
        self._spends: list[Spend] = []

    def fix_rules(self, text: str) -> None:
        self.rules = text

    def accounts(self, path: str) -> str | None:
        return self._accounts.get(path, self._state.accounts.get(path))

    def store(self, path: str, text: str) -> None:
        self._accounts[path] = text

    def record(self, spend: Spend) -> None:
        self._spends.append(spend)

    def apply(self) -> None:
        self._state.rules = self.rules
        self._state.accounts.update(self._accounts)
        self._state.spends.extend(self._spends)


class MemoryLedger:
    """A ledger of this process; threads share it, other processes do not."""

    url = None

    def __init__(self, budget: Budget) -> None:
        self._budget = budget
        self._state = _State()
        self._lock = threading.Lock()
        self._process = _this_process()

    def _check_process(self) -> None:
        if (
            self._process != _this_process()
        ):  # a fork: this is a copy, with its own sums
            raise DetachedAccountantError.of(self._budget.name)

    def budget(self) -> Budget:
        """Return the budget."""
        return self._budget

    @contextmanager
    def transaction(self) -> Iterator[_MemoryTransaction]:
        """Begin a change, which ends with the block, or not at all on an error."""
        self._check_process()
        with self._lock:
            change = _MemoryTransaction(self._state)
            yield change
            change.apply()

    def read(self, *paths: str) -> Snapshot:
        """Return the rules and the accounts of paths, all as of one moment."""
        self._check_process()
        with self._lock:
            stored = self._state.accounts
            found = {path: stored[path] for path in paths if path in stored}
            return Snapshot(self._state.rules, found)

    def spends(self) -> list[Spend]:
        """Return all lines, oldest first."""
        self._check_process()
        with self._lock:
            return list(self._state.spends)


def open_ledger(
    url: str, budget: Budget | None, name: str, create: bool = True
) -> Ledger:
    """Return the ledger behind a URL.

    Parameters
    ----------
    url : str
        ``sqlite:///file.db`` or ``postgresql://...``.
    budget : Budget or None
        The budget to make if it is not there; None to open an existing one.
    name : str
        Name of the budget.
    create : bool, default=True
        Whether to make the budget if it is not there.
    """
    create = create and budget is not None
    scheme = url.partition(":")[0]
    if scheme == "sqlite":
        from skdp.accounting.sqlite import SqliteLedger

        return SqliteLedger(url, budget, name, create)
    if scheme in ("postgresql", "postgres"):
        from skdp.accounting.postgresql import PostgresqlLedger

        return PostgresqlLedger(url, budget, name, create)
    raise ValueError(
        "The 'ledger' parameter must be None, 'sqlite:///file.db' or "
        f"'postgresql://...'. Got a URL of the scheme {scheme!r}."
    )
