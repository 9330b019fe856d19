"""A ledger in an SQLite file: many processes of one machine."""

import math
import os
import sqlite3
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, quote, unquote
from weakref import WeakSet

from skdp.accounting._sql import SCHEMA_VERSION, SqlLedger, _Handle
from skdp.accounting.ledger import Budget
from skdp.exceptions import LedgerError

_APPLICATION_ID = 0x736B6470  # marks the file as skdp's
_TIMEOUT = 30.0  # seconds to wait for other processes' transactions
_LONGEST = 86400.0
_SMALLEST = 512  # bytes of an SQLite file that is not empty

# --- Forks
# SQLite notes in the process's memory which locks it holds on a file. A fork copies the
# notes, but not the locks: a connection that the child opens then relies on locks that
# nobody holds, and others delete the file's journal under it. So no connection is open
# while a process forks.
_LEDGERS: WeakSet = WeakSet()
_FORKING: list["SqliteLedger"] = []
_FORK_LOCK = threading.RLock()


def _before_fork() -> None:
    _FORK_LOCK.acquire()
    _FORKING[:] = sorted(_LEDGERS, key=id)
    for ledger in _FORKING:
        ledger.lock.acquire()
        ledger.forget_connection()


def _after_fork() -> None:
    for ledger in _FORKING:
        ledger.lock.release()
    _FORKING.clear()
    _FORK_LOCK.release()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(
        before=_before_fork,
        after_in_parent=_after_fork,
        after_in_child=_after_fork,
    )


def parse_url(url: str) -> tuple[Path, float]:
    """Return the absolute path and the time-out of ``sqlite:///path?timeout=30``."""
    prefix = "sqlite:///"
    path, _, query = url.partition("?")
    options = parse_qs(query, keep_blank_values=True)
    if not path.startswith(prefix) or path == prefix or set(options) - {"timeout"}:
        raise ValueError(
            "The 'ledger' parameter must look like 'sqlite:///file.db' (relative), "
            "'sqlite:////folder/file.db' (absolute) or end in '?timeout=30'. "
            f"Got {url!r}."
        )
    try:
        (text,) = options.get("timeout", [_TIMEOUT])
        timeout = float(text)
    except ValueError:
        timeout = math.nan
    if not 0 <= timeout <= _LONGEST:
        raise ValueError(f"The timeout of {url!r} must be seconds, 0 to {_LONGEST:g}.")
    return Path(unquote(path[len(prefix) :])).absolute(), timeout


class SqliteLedger(SqlLedger):
    """A budget in an SQLite file.

    The file is in WAL mode with synchronous=FULL: a spend survives a crash of the
    process and of the machine. Not for network file systems.
    """

    def __init__(
        self, url: str, budget: Budget | None, name: str, create: bool
    ) -> None:
        super().__init__(budget, name, create)
        self._path, self._timeout = parse_url(url)
        suffix = "" if self._timeout == _TIMEOUT else f"?timeout={self._timeout!r}"
        self.url = f"sqlite:///{quote(str(self._path))}{suffix}"
        self.lock = threading.RLock()
        self._handle: _Handle | None = None
        self._file: tuple[int, int] | None = None
        _LEDGERS.add(self)

    def __str__(self) -> str:
        return f"The ledger {self.url}"

    def connection(self) -> sqlite3.Connection:
        """Return the connection, which all threads share, one at a time."""
        if self._handle is not None and (
            self._identity() != self._file  # the file is another one, or gone
            or not self.is_idle(self._handle.connection)  # after an interrupt
        ):
            self.forget_connection()
        if self._handle is None:
            if self._file is not None and self._identity() is None:
                raise LedgerError(f"{self} does not exist any more.")
            self._handle = self._new_handle()
            self._file = self._identity()
        return self._handle.connection

    def forget_connection(self) -> None:
        """Make the next use connect again."""
        handle, self._handle = self._handle, None
        if handle is not None:
            handle.close()

    def _identity(self) -> tuple[int, int] | None:
        """Return the device and number of the file, None where there is none."""
        try:
            status = os.stat(self._path)
        except FileNotFoundError:
            return None
        except OSError as error:
            raise LedgerError(f"{self} cannot be reached: {error.strerror}.") from error
        if status.st_nlink > 1:  # each name would have a journal of its own
            raise LedgerError(
                f"{self} has a second name (hard link), which SQLite bars."
            )
        return status.st_dev, status.st_ino

    def connect(self) -> sqlite3.Connection:
        """Return a new connection to the file, with its tables."""
        if not self._create and self._identity() is None:
            raise LedgerError(f"{self} does not exist.")
        connection = sqlite3.connect(
            self._path,
            timeout=self._timeout,
            isolation_level=None,
            check_same_thread=False,  # it may be closed by another thread
        )
        try:
            self._prepare(connection)
        except BaseException:
            connection.close()
            raise
        return connection

    def _prepare(self, connection: sqlite3.Connection) -> None:
        version = self._version(connection)
        if 0 < os.path.getsize(self._path) < _SMALLEST:  # SQLite takes it for empty
            raise LedgerError(f"{self} is damaged, restore it from a copy.")
        if version == 0 and self._create:
            self._enter_wal(connection)
            with self.begin(connection):
                if self._version(connection) == 0:
                    for statement in self.tables():
                        connection.execute(statement)
                    connection.execute(f"PRAGMA application_id = {_APPLICATION_ID}")
                    connection.execute(f"PRAGMA user_version = {SCHEMA_VERSION}")
            version = self._version(connection)
        if version == 0:
            raise LedgerError(f"{self} is an empty file.")
        self.check_version(version)
        connection.execute("PRAGMA synchronous = FULL")
        connection.execute("PRAGMA foreign_keys = ON")

    def _version(self, connection: sqlite3.Connection) -> int:
        """Return the schema version; 0 for an empty file."""
        # In this order: another process may make the ledger between two of these, and
        # whoever sees a part of it must see the owner.
        (tables,) = connection.execute("SELECT count(*) FROM sqlite_master").fetchone()
        (version,) = connection.execute("PRAGMA user_version").fetchone()
        (owner,) = connection.execute("PRAGMA application_id").fetchone()
        if owner != _APPLICATION_ID and (owner or version or tables):
            raise LedgerError(f"{self} is an SQLite file, but not one of skdp.")
        return version

    def _enter_wal(self, connection: sqlite3.Connection) -> None:
        # Changing the mode does not wait for other connections by itself.
        deadline = time.monotonic() + self._timeout
        while True:
            try:
                connection.execute("PRAGMA journal_mode = WAL")
                return
            except sqlite3.OperationalError as error:
                if "locked" not in str(error) or time.monotonic() > deadline:
                    raise
                time.sleep(0.01)

    def run(self, connection: sqlite3.Connection, statement: str, *values: Any) -> Any:
        """Execute a statement."""
        return connection.execute(statement, values)

    def is_idle(self, connection: sqlite3.Connection) -> bool:
        """Return whether no transaction is open."""
        return not connection.in_transaction

    @contextmanager
    def begin(self, connection: sqlite3.Connection) -> Iterator[None]:
        """Begin a transaction with the write lock."""
        try:
            # Inside: an interrupt while it waits is raised when it has the lock.
            connection.execute("BEGIN IMMEDIATE")
            yield
            connection.execute("COMMIT")
        except BaseException:
            if connection.in_transaction:
                connection.execute("ROLLBACK")
            raise

    @contextmanager
    def errors(self) -> Iterator[None]:
        """Turn errors of SQLite into LedgerError."""
        try:
            with self.lock:
                yield
        except sqlite3.Error as error:
            text = str(error)
            if "locked" in text or "busy" in text:
                text += f"; other processes held it for {self._timeout:g} seconds"
            elif "not a database" in text or "malformed" in text:
                text += "; the file is damaged, restore it from a copy"
            raise LedgerError(
                f"{self} could not be used: {text}. Nothing was spent."
            ) from error
