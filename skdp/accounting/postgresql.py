"""A ledger in a PostgreSQL database: many processes of several machines."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any
from urllib.parse import urlsplit, urlunsplit

from skdp.accounting._sql import SCHEMA_VERSION, SqlLedger
from skdp.accounting.ledger import Budget
from skdp.exceptions import LedgerError

_CONNECT_TIMEOUT = 10  # seconds
_LOCK_TIMEOUT = 30  # seconds to wait for other processes' transactions
_SETUP_LOCK = 0x736B6470  # advisory lock while the tables are made


def without_password(url: str) -> str:
    """Return the URL with its password left out."""
    parts = urlsplit(url)
    user, separator, _ = parts.netloc.rpartition("@")
    host = parts.netloc[len(user) + len(separator) :]
    netloc = f"{user.partition(':')[0]}{separator}{host}"
    query = "&".join(
        item for item in parts.query.split("&") if not item.startswith("password=")
    )
    return urlunsplit((parts.scheme, netloc, parts.path, query, ""))


class PostgresqlLedger(SqlLedger):
    """A budget in a PostgreSQL database.

    A password in the URL is used by this object in this process only: it is in no repr
    and no pickle. For worker processes set PGPASSWORD or use a password file.
    """

    key_type = "BIGINT GENERATED ALWAYS AS IDENTITY PRIMARY KEY"
    lock_row = " FOR UPDATE"

    def __init__(self, url: str, budget: Budget | None, name: str) -> None:
        super().__init__(budget, name)
        self._secret_url = url
        self.url = without_password(url)

    def __str__(self) -> str:
        return f"The ledger {self.url}"

    def connect(self) -> Any:
        """Return a new connection to the database, with its tables."""
        try:
            import psycopg
        except ImportError:
            raise ImportError(
                "A ledger in PostgreSQL needs psycopg: pip install 'skdp[postgres]'."
            ) from None
        connection = psycopg.connect(
            self._secret_url,
            autocommit=True,
            connect_timeout=_CONNECT_TIMEOUT,
            options=f"-c lock_timeout={_LOCK_TIMEOUT}s -c synchronous_commit=on",
        )
        try:
            self._prepare(connection)
        except BaseException:
            connection.close()
            raise
        return connection

    def _prepare(self, connection: Any) -> None:
        exists = "SELECT to_regclass('skdp_schema') IS NOT NULL"
        if not connection.execute(exists).fetchone()[0]:
            if self._wanted is None:
                raise LedgerError(f"{self} has no budgets of skdp.")
            with connection.transaction():
                connection.execute(f"SELECT pg_advisory_xact_lock({_SETUP_LOCK})")
                if not connection.execute(exists).fetchone()[0]:
                    for statement in self.tables():
                        connection.execute(statement)
                    connection.execute(
                        "CREATE TABLE skdp_schema AS "
                        f"SELECT {SCHEMA_VERSION} AS version"
                    )
        row = connection.execute("SELECT version FROM skdp_schema").fetchone()
        self.check_version(row[0])

    def run(self, connection: Any, statement: str, *values: Any) -> Any:
        """Execute a statement."""
        return connection.execute(statement.replace("?", "%s"), values)

    @contextmanager
    def begin(self, connection: Any) -> Iterator[None]:
        """Begin a transaction."""
        with connection.transaction():
            yield

    def connection(self) -> Any:
        """Return this thread's connection; a new one when the server dropped it."""
        connection = super().connection()
        if connection.closed:
            self.forget_connection()
            connection = super().connection()
        return connection

    @contextmanager
    def errors(self) -> Iterator[None]:
        """Turn errors of PostgreSQL into LedgerError."""
        import psycopg

        try:
            yield
        except psycopg.Error as error:
            self.forget_connection()
            # psycopg's messages name host, port and user, and never the password.
            text = " ".join(str(error).split())
            raise LedgerError(
                f"{self} could not be used: {text}. Nothing was released; a spend that "
                "was under way may or may not be recorded."
            ) from error
