"""What the ledgers in databases share: the tables and the statements."""

import os
import threading
import weakref
from abc import ABC, abstractmethod
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import Any

from skdp.accounting.ledger import Budget, Snapshot, Spend
from skdp.exceptions import LedgerError

SCHEMA_VERSION = 1

_BUDGET_COLUMNS = "name, epsilon, delta, neighboring, composition"

# Connections that a fork left behind. Closing one would end the parent's session.
_ABANDONED: list[Any] = []


class _Handle:
    """A connection that is closed with its thread, by the process that opened it."""

    def __init__(self, connection: Any) -> None:
        self.connection, self.process = connection, os.getpid()

        # Not __del__: in a cycle the connection might be finalised before this.
        self.close = weakref.finalize(self, _close, connection, self.process)


def _close(connection: Any, process: int) -> None:
    """Close the connection, or leave it alone if it is the parent's."""
    if os.getpid() != process:
        _ABANDONED.append(connection)
    else:
        connection.close()


def _budget_of(row: Any) -> Budget:
    return Budget(row[0], float(row[1]), float(row[2]), row[3], row[4])


class SqlTransaction:
    """Statements inside one transaction that holds the budget's lock."""

    def __init__(self, ledger: "SqlLedger", connection: Any, rules: str | None) -> None:
        self._ledger, self._connection, self.rules = ledger, connection, rules

    def _run(self, statement: str, *values: Any) -> Any:
        return self._ledger.run(self._connection, statement, *values)

    def fix_rules(self, text: str) -> None:
        """Store the rules, once."""
        self.rules = text
        name = self._ledger.name
        self._run("UPDATE skdp_budget SET rules = ? WHERE name = ?", text, name)

    def accounts(self, path: str) -> str | None:
        """Return the accounts of a path."""
        return self._ledger.accounts(self._connection, path)

    def store(self, path: str, text: str) -> None:
        """Replace the accounts of a path."""
        self._run(
            "INSERT INTO skdp_account (budget, path, accounts) VALUES (?, ?, ?) "
            "ON CONFLICT (budget, path) DO UPDATE SET accounts = excluded.accounts",
            self._ledger.name,
            path,
            text,
        )

    def record(self, spend: Spend) -> None:
        """Append a line."""
        self._run(
            "INSERT INTO skdp_spend (budget, path, time, event, label, seeded) "
            "VALUES (?, ?, ?, ?, ?, ?)",
            self._ledger.name,
            spend.path,
            spend.time,
            spend.event,
            spend.label,
            int(spend.seeded),
        )


class SqlLedger(ABC):
    """A budget in a database. Connects when it is first used, in each process anew."""

    url: str
    key_type = "INTEGER PRIMARY KEY AUTOINCREMENT"

    def __init__(self, budget: Budget | None, name: str, create: bool) -> None:
        self.name = name
        self._create = create
        self._wanted = budget
        self._stored: Budget | None = None
        self._local = threading.local()

    # --- What a database defines

    @abstractmethod
    def connect(self) -> Any:
        """Return a new connection to a database with the tables."""

    @abstractmethod
    def run(self, connection: Any, statement: str, *values: Any) -> Any:
        """Execute a statement with ``?`` for its values; return a cursor."""

    @abstractmethod
    def is_idle(self, connection: Any) -> bool:
        """Return whether the connection can begin a transaction."""

    @abstractmethod
    def errors(self) -> AbstractContextManager[None]:
        """Turn the database's errors into LedgerError."""

    @abstractmethod
    def begin(self, connection: Any) -> AbstractContextManager[None]:
        """Begin a transaction that may write, and commit it or roll it back."""

    #: Appended to the statement that reads the budget's row for a change.
    lock_row = ""

    # --- Tables

    def tables(self) -> list[str]:
        """Return the statements that make the tables."""
        return [
            "CREATE TABLE IF NOT EXISTS skdp_budget (name TEXT PRIMARY KEY, "
            "epsilon TEXT NOT NULL, delta TEXT NOT NULL, neighboring TEXT NOT NULL, "
            "composition TEXT NOT NULL, rules TEXT)",
            "CREATE TABLE IF NOT EXISTS skdp_account (budget TEXT NOT NULL REFERENCES "
            "skdp_budget (name), path TEXT NOT NULL, accounts TEXT NOT NULL, "
            "PRIMARY KEY (budget, path))",
            f"CREATE TABLE IF NOT EXISTS skdp_spend (id {self.key_type}, budget TEXT "
            "NOT NULL REFERENCES skdp_budget (name), path TEXT NOT NULL, time TEXT NOT "
            "NULL, event TEXT NOT NULL, label TEXT, seeded INTEGER NOT NULL)",
        ]

    def check_version(self, version: int) -> None:
        """Refuse a database that a later version of skdp wrote."""
        if version != SCHEMA_VERSION:
            raise LedgerError(
                f"{self} has schema version {version}; this skdp knows version "
                f"{SCHEMA_VERSION}. Use a newer skdp."
            )

    # --- Connections

    def connection(self) -> Any:
        """Return this thread's connection, made at first use and after a fork."""
        handle = getattr(self._local, "handle", None)
        if handle is not None and handle.process == os.getpid():
            if self.is_idle(handle.connection):
                return handle.connection
            self.forget_connection()  # an interrupt left a transaction open
        handle = self._local.handle = self._new_handle()
        return handle.connection

    def _new_handle(self) -> _Handle:
        handle = _Handle(self.connect())
        try:
            self._check_budget(handle.connection)
        except BaseException:
            handle.close()
            raise
        return handle

    def forget_connection(self) -> None:
        """Close this thread's connection, so that the next use connects again."""
        handle = getattr(self._local, "handle", None)
        self._local.handle = None
        if handle is not None:
            handle.close()

    def _check_budget(self, connection: Any) -> None:
        """Make the budget if it is wanted, and compare it with the stored one."""
        if self._create and self._select_budget(connection) is None:
            wanted = self._wanted
            with self.begin(connection):
                self.run(
                    connection,
                    f"INSERT INTO skdp_budget ({_BUDGET_COLUMNS}) "
                    "VALUES (?, ?, ?, ?, ?) ON CONFLICT (name) DO NOTHING",
                    wanted.name,
                    repr(wanted.epsilon),
                    repr(wanted.delta),
                    wanted.neighboring,
                    wanted.composition,
                )
        stored = self._select_budget(connection)
        if stored is None:
            raise LedgerError(f"{self} has no budget named {self.name!r}.")
        if self._wanted is not None and stored != self._wanted:
            raise LedgerError(
                f"{self} has a budget named {self.name!r} with other terms: {stored}. "
                f"Asked for: {self._wanted}. Use BudgetAccountant.open to take it as "
                "it is, or another name."
            )
        self._stored = self._wanted = stored  # for good, also after connecting again

    def _select_budget(self, connection: Any) -> Budget | None:
        row = self.run(
            connection,
            f"SELECT {_BUDGET_COLUMNS} FROM skdp_budget WHERE name = ?",
            self.name,
        ).fetchone()
        return None if row is None else _budget_of(row)

    # --- The ledger

    def budget(self) -> Budget:
        """Return the budget as it is stored."""
        if self._stored is None:
            with self.errors():
                self.connection()
        return self._stored

    @contextmanager
    def transaction(self) -> Iterator[SqlTransaction]:
        """Begin a change, which is durable when the block ends."""
        with self.errors():
            connection = self.connection()
            with self.begin(connection):
                row = self.run(
                    connection,
                    f"SELECT {_BUDGET_COLUMNS}, rules FROM skdp_budget "
                    f"WHERE name = ?{self.lock_row}",
                    self.name,
                ).fetchone()
                if row is None:
                    raise LedgerError(f"{self} has no budget named {self.name!r}.")
                if _budget_of(row) != self._stored:
                    raise LedgerError(
                        f"{self} has other terms for the budget {self.name!r} than "
                        "when it was opened: somebody changed them. Open it anew."
                    )
                yield SqlTransaction(self, connection, row[5])

    def accounts(self, connection: Any, path: str) -> str | None:
        """Return the accounts of a path."""
        row = self.run(
            connection,
            "SELECT accounts FROM skdp_account WHERE budget = ? AND path = ?",
            self.name,
            path,
        ).fetchone()
        return None if row is None else row[0]

    def read(self, *paths: str) -> Snapshot:
        """Return the rules and the accounts of paths, all as of one moment."""
        marks = ", ".join("?" for _ in paths)
        with self.errors():
            # One statement, so that no other process spends between its parts.
            rows = self.run(
                self.connection(),
                "SELECT b.rules, a.path, a.accounts FROM skdp_budget b LEFT JOIN "
                f"skdp_account a ON a.budget = b.name AND a.path IN ({marks}) "
                "WHERE b.name = ?",
                *paths,
                self.name,
            ).fetchall()
        found = {row[1]: row[2] for row in rows if row[1] is not None}
        return Snapshot(rows[0][0] if rows else None, found)

    def spends(self) -> list[Spend]:
        """Return all lines, oldest first."""
        with self.errors():
            rows = self.run(
                self.connection(),
                "SELECT time, event, label, seeded, path FROM skdp_spend "
                "WHERE budget = ? ORDER BY id",
                self.name,
            ).fetchall()
        return [Spend(row[0], row[1], row[2], bool(row[3]), row[4]) for row in rows]

    def names(self) -> list[str]:
        """Return the names of all budgets in the database."""
        with self.errors():
            handle = _Handle(self.connect())
            try:
                rows = self.run(
                    handle.connection, "SELECT name FROM skdp_budget ORDER BY name"
                ).fetchall()
            finally:
                handle.close()
        return [row[0] for row in rows]
