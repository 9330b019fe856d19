"""A ledger in a PostgreSQL database: many processes of several machines."""

import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any
from urllib.parse import unquote

from skdp.accounting._sql import SCHEMA_VERSION, SqlLedger
from skdp.accounting.ledger import Budget
from skdp.exceptions import BudgetError, LedgerError

_CONNECT_TIMEOUT = 10  # seconds
_LOCK_TIMEOUT = 30  # seconds to wait for other processes' transactions
_SETUP_LOCK = 0x736B6470  # advisory lock while the tables are made


# As libpq reads it: credentials end at the first "@" before any "/".
_URL = re.compile(
    r"(?P<scheme>postgres(?:ql)?://)(?:(?P<user>[^@/:]*)(?P<secret>:[^@/]*)?@)?"
    r"(?P<rest>[^@?#]*)(?:\?(?P<query>[^#]*))?",
    re.DOTALL,
)


def without_password(url: str) -> str:
    """Return the URL with its passwords left out."""
    found = _URL.fullmatch(url)
    broken = found is None or re.search(r"\s|%(?![0-9A-Fa-f]{2})|%00", url)
    if broken:  # the message does not show the URL: a part of it may be a password
        raise ValueError(
            "The 'ledger' parameter must look like 'postgresql://user@host/database'. "
            "Characters such as @ : / ? # % and spaces in a password must be "
            "percent-encoded ('@' is '%40')."
        )
    user = "" if found["user"] is None else f"{found['user']}@"
    items = [
        item
        for item in (found["query"] or "").split("&")
        if item and not unquote(item.partition("=")[0]).endswith("password")
    ]
    query = f"?{'&'.join(items)}" if items else ""
    return f"{found['scheme']}{user}{found['rest']}{query}"


def _psycopg() -> Any:
    try:
        import psycopg
    except ImportError:
        raise LedgerError(
            "A ledger in PostgreSQL needs psycopg: pip install 'skdp[postgres]'."
        ) from None
    return psycopg


class PostgresqlLedger(SqlLedger):
    """A budget in a PostgreSQL database.

    A password in the URL is used by this object in this process only: it is in no repr
    and no pickle. For worker processes set PGPASSWORD or use a password file.
    """

    key_type = "BIGINT GENERATED ALWAYS AS IDENTITY PRIMARY KEY"
    lock_row = " FOR UPDATE"

    def __init__(
        self, url: str, budget: Budget | None, name: str, create: bool
    ) -> None:
        super().__init__(budget, name, create)
        self._secret_url = url
        self.url = without_password(url)

    def __str__(self) -> str:
        return f"The ledger {self.url}"

    def connect(self) -> Any:
        """Return a new connection to the database, with its tables."""
        psycopg = _psycopg()
        given = psycopg.conninfo.conninfo_to_dict(self._secret_url)
        connection = psycopg.connect(
            self._secret_url,
            autocommit=True,
            connect_timeout=given.get("connect_timeout", _CONNECT_TIMEOUT),
        )
        try:
            connection.execute(f"SET lock_timeout = '{_LOCK_TIMEOUT}s'")
            connection.execute("SET synchronous_commit = on")
            connection.execute("SET default_transaction_isolation = 'read committed'")
            self._prepare(connection)
        except BaseException:
            connection.close()
            raise
        return connection

    def _prepare(self, connection: Any) -> None:
        exists = "SELECT to_regclass('skdp_schema') IS NOT NULL"
        if not connection.execute(exists).fetchone()[0]:
            if not self._create:
                raise LedgerError(f"{self} has no budgets of skdp.")
            with connection.transaction():
                connection.execute(f"SELECT pg_advisory_xact_lock({_SETUP_LOCK})")
                # Another process may have made them; to_regclass need not see it
                # within this transaction, these statements do.
                for statement in self.tables():
                    connection.execute(statement)
                connection.execute(
                    "CREATE TABLE IF NOT EXISTS skdp_schema (version INTEGER NOT NULL)"
                )
                connection.execute(
                    f"INSERT INTO skdp_schema SELECT {SCHEMA_VERSION} "
                    "WHERE NOT EXISTS (SELECT FROM skdp_schema)"
                )
        row = connection.execute("SELECT version FROM skdp_schema").fetchone()
        self.check_version(0 if row is None else row[0])

    def run(self, connection: Any, statement: str, *values: Any) -> Any:
        """Execute a statement."""
        return connection.execute(statement.replace("?", "%s"), values)

    @contextmanager
    def begin(self, connection: Any) -> Iterator[None]:
        """Begin a transaction."""
        with connection.transaction():
            yield

    def is_idle(self, connection: Any) -> bool:
        """Return whether the server is there and no transaction is open."""
        status = connection.info.transaction_status
        return not connection.closed and status == status.IDLE

    @contextmanager
    def errors(self) -> Iterator[None]:
        """Turn errors of PostgreSQL into LedgerError."""
        psycopg = _psycopg()
        try:
            yield
        except BudgetError:
            raise
        except psycopg.errors.LockNotAvailable as error:
            raise LedgerError(
                f"{self} could not be used: other processes held the budget "
                f"{self.name!r} for {_LOCK_TIMEOUT:g} seconds. Nothing was spent."
            ) from error
        except psycopg.Error as error:
            self.forget_connection()
            # psycopg's messages name host, port and user, and never the password.
            text = " ".join(str(error).split())
            raise LedgerError(
                f"{self} could not be used: {text}. Nothing was released; a spend that "
                "was under way may or may not be recorded."
            ) from error
        except BaseException:  # an interrupt: the connection may be in the middle
            self.forget_connection()
            raise
