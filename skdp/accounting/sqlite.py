"""A ledger in an SQLite file: many processes of one machine."""

import sqlite3
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, unquote

from skdp.accounting._sql import SCHEMA_VERSION, SqlLedger
from skdp.accounting.ledger import Budget
from skdp.exceptions import LedgerError

_APPLICATION_ID = 0x736B6470  # marks the file as skdp's
_TIMEOUT = 30.0  # seconds to wait for other processes' transactions


def parse_url(url: str) -> tuple[Path, float]:
    """Return the absolute path and the time-out of ``sqlite:///path?timeout=30``."""
    prefix = "sqlite:///"
    path, _, query = url.partition("?")
    options = parse_qs(query)
    if not path.startswith(prefix) or path == prefix or set(options) - {"timeout"}:
        raise ValueError(
            "The 'ledger' parameter must look like 'sqlite:///file.db' (relative), "
            "'sqlite:////folder/file.db' (absolute) or end in '?timeout=30'. "
            f"Got {url!r}."
        )
    try:
        timeout = float(options.get("timeout", [_TIMEOUT])[0])
    except ValueError:
        raise ValueError(f"The timeout of {url!r} must be seconds.") from None
    return Path(unquote(path[len(prefix) :])).absolute(), timeout


class SqliteLedger(SqlLedger):
    """A budget in an SQLite file.

    The file is in WAL mode with synchronous=FULL: a spend survives a crash of the
    process and of the machine. Not for network file systems.
    """

    def __init__(self, url: str, budget: Budget | None, name: str) -> None:
        super().__init__(budget, name)
        self._path, self._timeout = parse_url(url)
        suffix = "" if self._timeout == _TIMEOUT else f"?timeout={self._timeout:g}"
        self.url = f"sqlite:///{self._path}{suffix}"

    def __str__(self) -> str:
        return f"The ledger {self.url}"

    def connect(self) -> sqlite3.Connection:
        """Return a new connection to the file, with its tables."""
        if self._wanted is None and not self._path.exists():
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
        if version == 0 and self._wanted is not None:
            self._enter_wal(connection)
            with self.begin(connection):
                if self._version(connection) == 0:
                    for statement in self.tables():
                        connection.execute(statement)
                    connection.execute(f"PRAGMA application_id = {_APPLICATION_ID}")
                    connection.execute(f"PRAGMA user_version = {SCHEMA_VERSION}")
            version = self._version(connection)
        self.check_version(version)
        connection.execute("PRAGMA synchronous = FULL")
        connection.execute("PRAGMA foreign_keys = ON")

    def _version(self, connection: sqlite3.Connection) -> int:
        """Return the schema version; 0 for an empty file."""
        (version,) = connection.execute("PRAGMA user_version").fetchone()
        (owner,) = connection.execute("PRAGMA application_id").fetchone()
        (tables,) = connection.execute("SELECT count(*) FROM sqlite_master").fetchone()
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

    @contextmanager
    def begin(self, connection: sqlite3.Connection) -> Iterator[None]:
        """Begin a transaction with the write lock."""
        connection.execute("BEGIN IMMEDIATE")
        try:
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
