"""A PostgreSQL server of its own for the tests, and a ledger of each kind.

The server listens on a socket in a folder that only its owner (and root) may enter, so
that it needs neither a port nor a password. The role "secured" must give one.
"""

import os
import pwd
import re
import secrets
import shutil
import subprocess
import tempfile
from pathlib import Path

import pytest

_TIMEOUT = 120  # seconds for any command of PostgreSQL
_CLEAN = 'cat >/dev/null; "$1" -D "$2/data" -m immediate stop; rm -rf "$2"'
_PATTERNS = ("usr/lib/postgresql/*/bin", "usr/pgsql-*/bin", "usr/local/pgsql/bin")


# --- Where PostgreSQL is, and who may run it


def _folders():
    """Yield the folders that may hold PostgreSQL's programs, newest version first."""
    if (found := shutil.which("pg_ctl")) is not None:
        yield Path(found).resolve().parent
    if (found := shutil.which("pg_config")) is not None:
        answer = subprocess.run([found, "--bindir"], capture_output=True, text=True)
        yield Path(answer.stdout.strip())
    for pattern in _PATTERNS:
        yield from sorted(Path("/").glob(pattern), key=_version, reverse=True)


def _version(folder):
    return [int(number) for number in re.findall(r"\d+", str(folder))]


def _programs():
    """Return the folder of initdb, pg_ctl and postgres, None where there is none."""
    names = ("initdb", "pg_ctl", "postgres")
    for folder in _folders():
        if all(os.access(folder / name, os.X_OK) for name in names):
            return folder
    return None


def _owner():
    """Return who runs the server: PostgreSQL refuses to be run by root."""
    if os.geteuid() != 0:
        return None
    for name in ("postgres", "nobody"):
        try:
            return pwd.getpwnam(name)
        except KeyError:
            continue
    pytest.skip("PostgreSQL does not run as root, and there is no other user")


class Cluster:
    """A PostgreSQL server with its data in a temporary folder."""

    def __init__(self, programs):
        self._programs, self._owner = programs, _owner()
        # Not pytest's folder: a socket's path has at most 107 characters.
        self.folder = Path(tempfile.mkdtemp(prefix="skdp-pg-"))
        self.password = secrets.token_hex(8)
        self._identity = {}
        if self._owner is not None:
            user, group = self._owner.pw_uid, self._owner.pw_gid
            os.chown(self.folder, user, group)
            self._identity = {"user": user, "group": group, "extra_groups": []}
        # Cleans up when its input ends: when it is closed, or the tests are killed.
        self._janitor = subprocess.Popen(
            ["sh", "-c", _CLEAN, "sh", programs / "pg_ctl", self.folder],
            cwd="/",
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
            **self._identity,
        )

    def _call(self, program, *arguments):
        result = subprocess.run(
            [self._programs / program, "-D", self.folder / "data", *arguments],
            cwd=self.folder,
            env={**os.environ, "LC_ALL": "C", "HOME": str(self.folder)},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=_TIMEOUT,
            **self._identity,
        )
        if result.returncode != 0:
            log = self.folder / "log"
            text = log.read_text() if log.exists() else ""
            raise RuntimeError(f"{program}: {result.stdout}{result.stderr}{text}")

    def create(self):
        """Make the cluster and start it; fsync stays on, as in production."""
        self._call("initdb", "-U", "steward", "-A", "trust", "-E", "UTF8", "--no-sync")
        data = self.folder / "data"
        rules = data / "pg_hba.conf"
        secured = "local all secured scram-sha-256\n"
        rules.write_text(secured + rules.read_text())
        with open(data / "postgresql.conf", "a", encoding="utf-8") as file:
            file.write("listen_addresses = ''\n")
            file.write(f"unix_socket_directories = '{self.folder}'\n")
            file.write("unix_socket_permissions = 0700\n")
            file.write("max_connections = 60\nshared_buffers = 16MB\n")
        self.start()
        self.execute(f"CREATE ROLE secured LOGIN PASSWORD '{self.password}'")
        self.execute("GRANT ALL ON SCHEMA public TO PUBLIC")

    def start(self):
        """Start the server and wait until it answers."""
        self._call("pg_ctl", "-w", "-l", str(self.folder / "log"), "start")

    def stop(self, mode="fast"):
        """Stop the server; "immediate" is a crash."""
        self._call("pg_ctl", "-w", "-m", mode, "stop")

    def remove(self):
        """Stop the server if it runs, and delete everything."""
        self._janitor.stdin.close()
        self._janitor.wait(_TIMEOUT)
        shutil.rmtree(self.folder, ignore_errors=True)

    def url(self, user="steward", password=None, database="postgres"):
        """Return the URL of a database, as a user would write it."""
        secret = "" if password is None else f":{password}"
        return f"postgresql://{user}{secret}@/{database}?host={self.folder}"

    def execute(self, statement, database="postgres"):
        """Run a statement as the superuser and return its rows, if it has any."""
        import psycopg

        url = self.url(database=database)
        with psycopg.connect(url, autocommit=True) as connection:
            cursor = connection.execute(statement)
            return cursor.fetchall() if cursor.description else None


def _make_cluster():
    pytest.importorskip("psycopg", reason="psycopg is not installed")
    programs = _programs()
    if programs is None:
        pytest.skip("PostgreSQL is not installed (initdb, pg_ctl, postgres)")
    return Cluster(programs)


@pytest.fixture(scope="session")
def postgresql():
    """A server for the whole session: the tests use budgets of different names."""
    cluster = _make_cluster()
    try:
        cluster.create()
        yield cluster
    finally:
        cluster.remove()


@pytest.fixture(scope="session")
def postgresql_url(postgresql):
    """The URL of a database; no password is needed."""
    return postgresql.url()


@pytest.fixture
def mortal_postgresql():
    """A server of one test, which may stop and start it."""
    cluster = _make_cluster()
    try:
        cluster.create()
        yield cluster
    finally:
        cluster.remove()


@pytest.fixture
def fresh_database(postgresql):
    """The name of an empty database."""
    name = f"db_{secrets.token_hex(6)}"
    postgresql.execute(f"CREATE DATABASE {name}")
    return name


# --- A ledger of each kind


@pytest.fixture
def fast_folder(tmp_path):
    """A folder in memory where there is one: syncing a disk takes milliseconds."""
    if not os.access("/dev/shm", os.W_OK):
        yield tmp_path
        return
    with tempfile.TemporaryDirectory(dir="/dev/shm", prefix="skdp-") as folder:
        yield Path(folder)


@pytest.fixture
def sqlite_place(tmp_path):
    """A new budget in a file: ``BudgetAccountant(..., **sqlite_place)``."""
    return {"ledger": f"sqlite:///{tmp_path}/ledger.db", "name": "budget"}


@pytest.fixture
def postgresql_place(postgresql_url):
    """A new budget in the server of the session."""
    return {"ledger": postgresql_url, "name": f"budget-{secrets.token_hex(6)}"}


@pytest.fixture(params=["sqlite", "postgresql"])
def place(request):
    """A new budget in a database of either kind."""
    return request.getfixturevalue(f"{request.param}_place")
