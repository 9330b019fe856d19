"""Budgets in a PostgreSQL database: its URL, its password, and when it is gone."""

import gc
import os
import pickle
import subprocess
import sys
import threading
import time
import warnings

import joblib
import pytest

from skdp import BudgetAccountant
from skdp.accounting import postgresql as ledgers
from skdp.exceptions import BudgetExceededError, LedgerError

SECRET = "geheim9"


@pytest.fixture
def no_password_elsewhere(monkeypatch, tmp_path):
    """No password comes from the environment or the user's password file."""
    monkeypatch.delenv("PGPASSWORD", raising=False)
    monkeypatch.setenv("PGPASSFILE", str(tmp_path / "none"))


@pytest.fixture
def secured(postgresql, postgresql_place, no_password_elsewhere):
    """A new budget behind a password."""
    postgresql.execute(f"ALTER ROLE secured PASSWORD '{SECRET}'")
    url = postgresql.url("secured", SECRET)
    BudgetAccountant(1.0, **postgresql_place).total()  # the steward makes the tables
    for table in ("skdp_budget", "skdp_account", "skdp_spend", "skdp_schema"):
        postgresql.execute(f"GRANT ALL ON {table} TO secured")
    return {**postgresql_place, "ledger": url}


# --- Durability


def test_a_commit_waits_for_the_disk(postgresql, postgresql_place):
    accountant = BudgetAccountant(1.0, **postgresql_place)
    accountant.total()
    connection = accountant._ledger.connection()
    for setting in ("fsync", "synchronous_commit"):
        assert connection.execute(f"SHOW {setting}").fetchone() == ("on",)


def test_a_commit_waits_for_the_disk_against_the_default(
    postgresql, postgresql_place, fresh_database
):
    postgresql.execute(f"ALTER DATABASE {fresh_database} SET synchronous_commit = off")
    accountant = BudgetAccountant(1.0, ledger=postgresql.url(database=fresh_database))
    accountant.total()
    connection = accountant._ledger.connection()
    assert connection.execute("SHOW synchronous_commit").fetchone() == ("on",)


def test_a_spend_is_committed_when_it_returns(postgresql, postgresql_place):
    accountant = BudgetAccountant(1.0, 0.0, **postgresql_place)
    for count in range(1, 4):
        accountant.spend(epsilon=0.01)
        name = postgresql_place["name"]
        found = postgresql.execute(
            f"SELECT count(*) FROM skdp_spend WHERE budget = '{name}'"
        )
        assert found == [(count,)]


# --- Opening


def test_opening_a_database_without_budgets_makes_no_tables(postgresql, fresh_database):
    url = postgresql.url(database=fresh_database)
    with pytest.raises(LedgerError, match="no budgets of skdp"):
        BudgetAccountant.open(url)
    tables = "SELECT count(*) FROM pg_tables WHERE tablename LIKE 'skdp%'"
    assert postgresql.execute(tables, fresh_database) == [(0,)]
    BudgetAccountant(1.0, ledger=url).total()
    assert postgresql.execute(tables, fresh_database) == [(4,)]


@pytest.mark.parametrize("change", ["UPDATE skdp_schema SET version = 2"])
def test_a_newer_schema_is_refused(postgresql, fresh_database, change):
    url = postgresql.url(database=fresh_database)
    BudgetAccountant(1.0, ledger=url).spend(epsilon=0.1)
    postgresql.execute(change, fresh_database)
    for attempt in (
        lambda: BudgetAccountant.open(url),
        lambda: BudgetAccountant(1.0, ledger=url, name="new").spend(epsilon=0.1),
    ):
        with pytest.raises(LedgerError, match=r"schema version 2.*version 1.*newer"):
            attempt()


@pytest.mark.parametrize(
    "damage",
    [
        "DELETE FROM skdp_schema",
        "DROP TABLE skdp_account",
        "DROP TABLE skdp_spend",
        "ALTER TABLE skdp_budget DROP COLUMN rules",
    ],
)
def test_a_damaged_database_is_a_clear_error(postgresql, fresh_database, damage):
    url = postgresql.url(database=fresh_database)
    BudgetAccountant(1.0, ledger=url).spend(epsilon=0.1)
    postgresql.execute(damage, fresh_database)
    with pytest.raises(LedgerError):
        BudgetAccountant.open(url).spend(epsilon=0.1)


def test_many_make_the_tables_at_once(postgresql, fresh_database):
    url = postgresql.url(database=fresh_database)
    errors = []
    start = threading.Barrier(8)

    def make(name):
        try:
            accountant = BudgetAccountant(1.0, 0.0, ledger=url, name=name)
            start.wait(30)
            accountant.spend(epsilon=0.125)
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=make, args=(n,)) for n in ["a", "b"] * 4]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert errors == []
    for name in ("a", "b"):
        assert BudgetAccountant.open(url, name).total().epsilon == 0.5


@pytest.mark.parametrize(
    "address",
    [
        "postgresql://nobody@/none?host=/nowhere",
        "postgresql://127.0.0.1:1/none",
        "postgresql://steward@host.invalid/none",
    ],
)
def test_a_wrong_address_is_a_clear_error(address):
    pytest.importorskip("psycopg")
    accountant = BudgetAccountant(1.0, ledger=address)  # does not connect yet
    with pytest.raises(LedgerError, match="could not be used"):
        accountant.spend(epsilon=0.1)
    assert "could not be used" in str(accountant)
    assert "could not be used" in accountant._repr_html_()


def test_a_missing_database_is_a_clear_error(postgresql):
    accountant = BudgetAccountant(1.0, ledger=postgresql.url(database="missing"))
    with pytest.raises(LedgerError, match='"missing" does not exist'):
        accountant.spend(epsilon=0.1)


def test_without_psycopg_the_error_says_what_to_install():
    code = (
        "import sys; sys.modules['psycopg'] = None\n"
        "from skdp import BudgetAccountant\n"
        "BudgetAccountant(1.0, ledger='postgresql://host/db').total()"
    )
    answer = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=60
    )
    assert "pip install 'skdp[postgres]'" in answer.stderr


# --- The password


def hiding_places(accountant):
    """Everything that a user may print, store or send."""
    yield repr(accountant)
    yield str(accountant)
    yield accountant._repr_html_()
    yield accountant.ledger
    yield repr(accountant.spends)
    yield repr(vars(accountant))
    yield repr(pickle.dumps(accountant))
    yield repr([pickle.dumps(child) for child in accountant.parallel(2)])
    try:
        accountant.spend(epsilon=100.0)
    except BudgetExceededError as error:
        yield f"{error!r} {error}"


def test_a_password_shows_nowhere(secured):
    accountant = BudgetAccountant(1.0, **secured)
    accountant.spend(epsilon=0.1, label="secured")
    texts = list(hiding_places(accountant))
    assert len(texts) == 9
    for text in texts:
        assert SECRET not in text
        assert "secured" in text or "budget" in text


def test_a_password_does_not_change_the_hash(secured, postgresql):
    first = BudgetAccountant(1.0, **secured)
    without = BudgetAccountant(
        1.0, ledger=postgresql.url("secured"), name=secured["name"]
    )
    assert joblib.hash(first) == joblib.hash(without)


def test_a_password_in_the_query_works_and_shows_nowhere(secured, postgresql):
    url = f"{postgresql.url('secured')}&password={SECRET}"
    accountant = BudgetAccountant(1.0, ledger=url, name=secured["name"])
    accountant.spend(epsilon=0.1)
    assert all(SECRET not in text for text in hiding_places(accountant))


def test_a_wrong_password_is_a_clear_error_that_does_not_show_it(secured, postgresql):
    url = postgresql.url("secured", "falsch8")
    accountant = BudgetAccountant(1.0, ledger=url, name=secured["name"])
    with pytest.raises(LedgerError, match="password authentication failed") as caught:
        accountant.spend(epsilon=0.1)
    assert "falsch8" not in str(caught.value)
    assert "falsch8" not in repr(caught.value.__cause__)
    assert "falsch8" not in str(accountant)


# The parts of the password that follow are "geheim9"; whoever wrote these URLs forgot
# to encode a character, or chose an unusual way.
UNUSUAL = [
    "postgresql://u:geheim9@127.0.0.1:1/db",
    "postgres://u:geheim9@127.0.0.1:1/db",
    "postgresql://u:geheim9@127.0.0.1:port/db",
    "postgresql://u:geheim9@127.0.0.1:99999/db",
    "postgresql://u:x#geheim9@127.0.0.1:1/db",
    "postgresql://u:geheim9#x@127.0.0.1:1/db",
    "postgresql://u:x?geheim9@127.0.0.1:1/db",
    "postgresql://u:geheim9?x@127.0.0.1:1/db",
    "postgresql://u:x@geheim9@127.0.0.1:1/db",
    "postgresql://u:geheim9@x@127.0.0.1:1/db",
    "postgresql://u:x/geheim9@127.0.0.1:1/db",
    "postgresql://u:geheim9/x@127.0.0.1:1/db",
    "postgresql://u:x:geheim9@127.0.0.1:1/db",
    "postgresql://u:geheim9%zz@127.0.0.1:1/db",
    "postgresql://u:geheim9%00@127.0.0.1:1/db",
    "postgresql://u:x geheim9@127.0.0.1:1/db",
    "postgresql://u:[geheim9@127.0.0.1:1/db",
    "postgresql://u:\N{ACCOUNT OF}geheim9@127.0.0.1:1/db",
    "postgresql://u@127.0.0.1:1/db?sslpassword=geheim9",
    "postgresql://u@127.0.0.1:1/db?%70assword=geheim9",
    "postgresql://u@127.0.0.1:1/db?password=geheim9&connect_timeout=1",
    "postgresql://u@127.0.0.1:1/db?password=geheim9%zz",
    "postgresql:host=127.0.0.1 password=geheim9",
    "postgresql:password=geheim9",
]


@pytest.mark.parametrize("url", UNUSUAL)
def test_no_part_of_a_password_shows_however_it_is_written(url):
    pytest.importorskip("psycopg")
    shown = []
    try:
        accountant = BudgetAccountant(1.0, ledger=url)
        shown += [repr(accountant), accountant.ledger, str(accountant)]
        shown += [accountant._repr_html_(), repr(pickle.dumps(accountant))]
        accountant.spend(epsilon=0.1)
    except (LedgerError, ValueError) as error:
        while error is not None:  # a traceback prints the causes, too
            shown.append(f"{error!r} {error}")
            error = error.__cause__ or error.__context__
    else:
        pytest.fail("there is no such server")
    for text in shown:
        assert "geheim9" not in text


IN_A_WORKER = """
import pickle, sys
accountant = pickle.loads(bytes.fromhex(sys.argv[1]))
accountant.spend(epsilon=0.1, label="worker")
"""


@pytest.mark.parametrize("source", ["PGPASSWORD", "PGPASSFILE", "none"])
def test_a_worker_takes_the_password_from_its_environment(secured, tmp_path, source):
    secured["name"] += source
    accountant = BudgetAccountant(1.0, 0.0, **secured)
    accountant.total()
    environment = dict(os.environ)
    if source == "PGPASSWORD":
        environment["PGPASSWORD"] = SECRET
    elif source == "PGPASSFILE":
        environment["PGPASSFILE"] = str(tmp_path / "pgpass")
        (tmp_path / "pgpass").write_text(f"*:*:*:secured:{SECRET}\n")
        (tmp_path / "pgpass").chmod(0o600)
    content = pickle.dumps(accountant)
    answer = subprocess.run(
        [sys.executable, "-c", IN_A_WORKER, content.hex()],
        env=environment,
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert SECRET not in answer.stdout + answer.stderr
    if source == "none":
        assert "LedgerError" in answer.stderr and "no password" in answer.stderr
        assert accountant.spends == []
    else:
        assert answer.returncode == 0, answer.stderr
        assert [spend.label for spend in accountant.spends] == ["worker"]


def test_a_pickle_in_the_same_process_keeps_the_password(secured):
    accountant = BudgetAccountant(1.0, **secured)
    child = accountant.parallel(2)[0]
    for original in (accountant, child):
        pickle.loads(pickle.dumps(original)).spend(epsilon=0.1)
    assert len(accountant.spends) == 2


# --- What the URL asks for


def test_the_options_of_the_url_are_kept(postgresql, fresh_database):
    postgresql.execute("CREATE SCHEMA privacy", fresh_database)
    url = postgresql.url(database=fresh_database)
    url += "&options=-csearch_path%3Dprivacy"
    BudgetAccountant(1.0, ledger=url).spend(epsilon=0.1)
    found = postgresql.execute(
        "SELECT DISTINCT schemaname FROM pg_tables WHERE tablename LIKE 'skdp%'",
        fresh_database,
    )
    assert found == [("privacy",)]


@pytest.mark.parametrize("level", ["repeatable read", "serializable"])
def test_a_strict_isolation_level_of_the_database_does_no_harm(
    postgresql, fresh_database, level
):
    postgresql.execute(
        f"ALTER DATABASE {fresh_database} SET default_transaction_isolation = '{level}'"
    )
    url = postgresql.url(database=fresh_database)
    accountant = BudgetAccountant(1.0, 0.0, ledger=url)
    accountant.total()
    counts, errors = [], []

    def work():
        count = 0
        try:
            while True:
                accountant.spend(epsilon=0.02)
                count += 1
        except BudgetExceededError:
            counts.append(count)
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(accountant.spends) <= 50
    assert errors == []
    assert sum(counts) == len(accountant.spends) == 50


# --- Locks


def test_a_lock_is_waited_for_as_long_as_stated(
    postgresql, postgresql_place, monkeypatch
):
    import psycopg

    monkeypatch.setattr(ledgers, "_LOCK_TIMEOUT", 1)
    accountant = BudgetAccountant(1.0, 0.0, **postgresql_place)
    accountant.spend(epsilon=0.25)
    with psycopg.connect(postgresql.url()) as blocker:
        blocker.execute(
            "SELECT * FROM skdp_budget WHERE name = %s FOR UPDATE",
            [postgresql_place["name"]],
        )
        begin = time.monotonic()
        with pytest.raises(LedgerError, match="1 second"):
            accountant.spend(epsilon=0.25)
        assert 0.9 < time.monotonic() - begin < 20
        assert accountant.total().epsilon == 0.25  # reading needs no lock
        other = BudgetAccountant(
            1.0, ledger=postgresql.url(), name=postgresql_place["name"] + "2"
        )
        other.spend(epsilon=0.1)  # another budget is not held up
        blocker.rollback()
    accountant.spend(epsilon=0.25)
    assert accountant.total().epsilon == 0.5


# --- The server goes


def test_a_session_that_the_server_ends(postgresql, postgresql_place):
    accountant = BudgetAccountant(1.0, 0.0, **postgresql_place)
    accountant.spend(epsilon=0.25, label="before")
    connection = accountant._ledger.connection()
    (session,) = connection.execute("SELECT pg_backend_pid()").fetchone()
    del connection
    postgresql.execute(f"SELECT pg_terminate_backend({session})")
    released = ["before"]
    try:
        accountant.spend(epsilon=0.25, label="between")
        released.append("between")
    except LedgerError as error:
        assert "Nothing was released" in str(error)
    accountant.spend(epsilon=0.25, label="after")  # connects again
    released.append("after")
    assert set(released) <= {spend.label for spend in accountant.spends}
    assert accountant.total().epsilon == 0.25 * len(accountant.spends)


def test_a_server_that_stops_and_comes_back(mortal_postgresql):
    url = mortal_postgresql.url()
    accountant = BudgetAccountant(100.0, 0.0, ledger=url)
    released = []
    for mode in ("fast", "immediate"):  # the second is a crash
        for index in range(50):
            accountant.spend(epsilon=0.25, label=f"{mode} {index}")
            released.append(f"{mode} {index}")
        mortal_postgresql.stop(mode)
        for _ in range(3):
            with pytest.raises(LedgerError, match=r"not be used.*Nothing was rel"):
                accountant.spend(epsilon=0.25, label="never")
        assert "could not be used" in str(accountant)
        with pytest.raises(LedgerError):
            BudgetAccountant.open(url)
        content = pickle.dumps(accountant)  # a model that holds it can still be saved
        assert pickle.loads(content) is accountant
        mortal_postgresql.start()
        assert [spend.label for spend in accountant.spends] == released
    assert accountant.total().epsilon == 0.25 * 100


@pytest.mark.parametrize("in_cycle", [False, True])
def test_connections_are_closed_with_their_accountant(postgresql_place, in_cycle):
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        accountant = BudgetAccountant(1.0, **postgresql_place)
        accountant.spend(epsilon=0.25)
        if in_cycle:
            connection = accountant._ledger.connection()
            connection.itself = accountant._ledger.itself = (connection, accountant)
            del connection
        del accountant
        gc.collect()
    assert [str(warning.message) for warning in caught] == []


def test_a_refused_budget_leaves_no_connection(postgresql_place):
    BudgetAccountant(1.0, **postgresql_place).total()
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        with pytest.raises(LedgerError, match="other terms"):
            BudgetAccountant(2.0, **postgresql_place).total()
        gc.collect()
    assert [str(warning.message) for warning in caught] == []
