"""Budgets in an SQLite file: its URL, its safety, and what happens when it breaks."""

import gc
import os
import pickle
import shutil
import sqlite3
import subprocess
import sys
import time
import warnings
from contextlib import closing

import pytest

from skdp import BudgetAccountant
from skdp.exceptions import BudgetExceededError, LedgerError


def url_of(path, **options):
    query = "&".join(f"{name}={value}" for name, value in options.items())
    return f"sqlite:///{path}" + (f"?{query}" if query else "")


def connection_of(accountant):
    return accountant._ledger.connection()


@pytest.fixture
def path(tmp_path):
    """A file with one spend of 0.25 out of 1."""
    path = tmp_path / "ledger.db"
    accountant = BudgetAccountant(1.0, 0.0, ledger=url_of(path))
    accountant.spend(epsilon=0.25, label="kept")
    del accountant
    return path


def used(path, **options):
    return BudgetAccountant.open(url_of(path, **options))


# --- The URL


def test_a_relative_path_is_made_absolute(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    accountant = BudgetAccountant(1.0, 0.0, ledger="sqlite:///ledger.db")
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path / "elsewhere")
    accountant.spend(epsilon=0.5)
    assert accountant.ledger == url_of(tmp_path / "ledger.db")
    assert used(tmp_path / "ledger.db").total().epsilon == 0.5
    assert list((tmp_path / "elsewhere").iterdir()) == []


@pytest.mark.parametrize(
    ("written", "name"),
    [
        ("a b.db", "a b.db"),
        ("a%20b.db", "a b.db"),
        ("a%3Fb.db", "a?b.db"),
        ("a%2541.db", "a%41.db"),
        ("100%25.db", "100%.db"),
        ("a%23b.db", "a#b.db"),
        ("größe.db", "größe.db"),
    ],
)
def test_the_url_leads_to_the_same_file_after_a_pickle(tmp_path, written, name):
    accountant = BudgetAccountant(1.0, 0.0, ledger=url_of(tmp_path / written))
    accountant.spend(epsilon=0.5)
    assert (tmp_path / name).exists()
    content, url = pickle.dumps(accountant), accountant.ledger
    del accountant
    gc.collect()
    assert pickle.loads(content).total().epsilon == 0.5
    assert BudgetAccountant.open(url).total().epsilon == 0.5
    assert {file.suffix for file in tmp_path.iterdir()} <= {".db", ".db-wal", ".db-shm"}
    assert len(list(tmp_path.glob("*.db"))) == 1


@pytest.mark.parametrize("timeout", ["0.2", "5", "12345.678", "1e3"])
def test_the_timeout_is_kept(tmp_path, timeout):
    accountant = BudgetAccountant(
        1.0, ledger=url_of(tmp_path / "ledger.db", timeout=timeout)
    )
    again = BudgetAccountant(1.0, ledger=accountant.ledger)
    (waits,) = connection_of(again).execute("PRAGMA busy_timeout").fetchone()
    assert waits == int(float(timeout) * 1000)


@pytest.mark.parametrize(
    "url",
    [
        "sqlite:",
        "sqlite:///",
        "sqlite://file.db",
        "sqlite:file.db",
        "sqlite:///file.db?mode=ro",
        "sqlite:///file.db?timeout=soon",
        "sqlite:///file.db?timeout=",
        "sqlite:///file.db?timeout=nan",
        "sqlite:///file.db?timeout=inf",
        "sqlite:///file.db?timeout=-1",
        "mysql://host/db",
        "file.db",
        "",
    ],
)
def test_wrong_urls_are_refused_at_once(tmp_path, monkeypatch, url):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(ValueError, match=r"'ledger' parameter|timeout"):
        BudgetAccountant(1.0, ledger=url)
    assert list(tmp_path.iterdir()) == []


# --- Opening what is not a ledger


def refused(path, words):
    """Both ways of opening refuse the file, and leave it as it was."""
    before = path.read_bytes()
    for attempt in (
        lambda: used(path),
        lambda: BudgetAccountant(1.0, 0.0, ledger=url_of(path)).spend(epsilon=0.1),
    ):
        with pytest.raises(LedgerError, match=words) as caught:
            attempt()
        assert str(path) in str(caught.value)
    assert path.read_bytes() == before


def test_opening_a_missing_file_makes_none(tmp_path):
    with pytest.raises(LedgerError, match="does not exist"):
        used(tmp_path / "ledger.db")
    with pytest.raises(LedgerError, match="unable to open"):
        BudgetAccountant(1.0, ledger=url_of(tmp_path / "no" / "ledger.db")).total()
    assert list(tmp_path.iterdir()) == []


def test_a_name_too_long_or_a_folder_is_a_clear_error(tmp_path):
    for place in (tmp_path / ("x" * 300), tmp_path):
        with pytest.raises(LedgerError):
            used(place)
        with pytest.raises(LedgerError):
            BudgetAccountant(1.0, ledger=url_of(place)).total()


def test_opening_an_empty_file_says_that_it_is_empty(tmp_path):
    (tmp_path / "ledger.db").touch()
    with pytest.raises(LedgerError, match="empty"):
        used(tmp_path / "ledger.db")


def test_a_newer_schema_is_refused(path):
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("PRAGMA user_version = 2")
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    refused(path, "schema version 2.*version 1.*newer skdp")


def test_the_file_of_another_application_is_refused(tmp_path):
    path = tmp_path / "photos.db"
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("CREATE TABLE photos (name TEXT)")
    refused(path, "not one of skdp")


def test_the_marked_file_of_another_application_is_refused(tmp_path):
    path = tmp_path / "photos.db"
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("PRAGMA application_id = 252006674")
        connection.execute("PRAGMA user_version = 1")
    refused(path, "not one of skdp")


@pytest.mark.parametrize("size", [1, 100, 4096, 100_000])
def test_random_bytes_are_refused(tmp_path, size):
    path = tmp_path / "noise.db"
    path.write_bytes(os.urandom(size))
    refused(path, "damaged|not one of skdp|not a database")


@pytest.mark.parametrize("keep", [0.3, 0.6, 0.9])
def test_a_truncated_file_is_refused(path, keep):
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    size = path.stat().st_size
    os.truncate(path, int(keep * size) // 4096 * 4096)
    refused(path, "damaged|malformed|not a database")


def test_an_overwritten_page_is_refused(path):
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        (page,) = connection.execute(
            "SELECT rootpage FROM sqlite_master WHERE name = 'skdp_account'"
        ).fetchone()
    with open(path, "r+b") as file:
        file.seek((page - 1) * 4096)
        file.write(b"\xa5" * 4096)
    with pytest.raises(LedgerError, match="damaged"):
        BudgetAccountant(1.0, 0.0, ledger=url_of(path)).spend(epsilon=0.1)


def test_missing_tables_are_a_clear_error(path):
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("DROP TABLE skdp_spend")
    accountant = used(path)
    with pytest.raises(LedgerError, match="skdp_spend"):
        accountant.spend(epsilon=0.1)
    assert accountant.total().epsilon == 0.25  # nothing was spent


# --- Durability


def test_every_connection_is_wal_and_synchronous(path):
    made = BudgetAccountant(1.0, 0.0, ledger=url_of(path.with_name("new.db")))
    for accountant in (made, used(path), BudgetAccountant(1, 0, ledger=url_of(path))):
        connection = connection_of(accountant)
        assert connection.execute("PRAGMA journal_mode").fetchone() == ("wal",)
        assert connection.execute("PRAGMA synchronous").fetchone() == (2,)  # FULL
        assert connection.execute("PRAGMA foreign_keys").fetchone() == (1,)


def test_a_spend_is_committed_when_it_returns(path):
    accountant = used(path)
    for count in range(1, 4):
        accountant.spend(epsilon=0.01)
        with closing(sqlite3.connect(path)) as other:
            (found,) = other.execute("SELECT count(*) FROM skdp_spend").fetchone()
        assert found == 1 + count
        assert not connection_of(accountant).in_transaction


def test_a_copy_of_file_and_journal_holds_all_spends(path, tmp_path):
    accountant = used(path)
    accountant.spend(epsilon=0.25)
    (tmp_path / "copy").mkdir()
    for file in path.parent.glob("ledger.db*"):  # as after a power failure
        shutil.copy(file, tmp_path / "copy")
    assert used(tmp_path / "copy" / "ledger.db").total().epsilon == 0.5


def test_a_file_that_was_removed_takes_no_more_spends(path):
    accountant = used(path)
    accountant.spend(epsilon=0.25)
    for file in path.parent.glob("ledger.db*"):
        file.unlink()
    with pytest.raises(LedgerError):
        accountant.spend(epsilon=0.25)
    assert not path.exists()


def test_a_file_that_was_replaced_is_the_one_that_counts(path, tmp_path):
    copy = tmp_path / "copy.db"
    with closing(sqlite3.connect(path)) as source, closing(sqlite3.connect(copy)) as to:
        source.backup(to)
    accountant = used(path)
    accountant.spend(epsilon=0.25)
    for file in path.parent.glob("ledger.db*"):
        file.unlink()
    copy.rename(path)  # the steward restores yesterday's copy
    accountant.spend(epsilon=0.5, label="after")
    del accountant
    assert [spend.label for spend in used(path).spends] == ["kept", "after"]


def test_a_pickle_does_not_make_a_budget_anew(path):
    accountant = used(path)
    content = pickle.dumps(accountant)
    del accountant
    gc.collect()
    for file in path.parent.glob("ledger.db*"):
        file.unlink()
    # As on another machine, where the file is not.
    with pytest.raises(LedgerError):
        pickle.loads(content).spend(epsilon=0.1)


@pytest.mark.parametrize("in_cycle", [False, True])
def test_connections_are_closed_with_their_accountant(path, in_cycle):
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        accountant = used(path)
        accountant.spend(epsilon=0.25)
        if in_cycle:
            accountant._ledger.itself = connection_of(accountant), accountant
        del accountant
        gc.collect()
    assert [str(warning.message) for warning in caught] == []
    # The last connection that closes puts the journal into the file.
    assert [file.name for file in path.parent.glob("ledger.db*")] == ["ledger.db"]


# --- Locks


@pytest.fixture
def blocker(path):
    """Another connection that holds the write lock."""
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        connection.execute("BEGIN IMMEDIATE")
        yield connection


def test_a_lock_is_waited_for_as_long_as_stated(path, blocker):
    accountant = used(path, timeout=0.2)
    begin = time.monotonic()
    with pytest.raises(LedgerError, match=r"held it for 0\.2 seconds.*Nothing was"):
        accountant.spend(epsilon=0.1)
    assert 0.15 < time.monotonic() - begin < 10
    assert accountant.total().epsilon == 0.25  # reading needs no lock
    assert not connection_of(accountant).in_transaction
    blocker.execute("ROLLBACK")
    accountant.spend(epsilon=0.1)
    assert accountant.total().epsilon == 0.35


def test_making_a_budget_waits_for_the_lock_too(path, blocker):
    accountant = BudgetAccountant(1.0, ledger=url_of(path, timeout=0.2), name="new")
    with pytest.raises(LedgerError, match=r"held it for 0\.2 seconds"):
        accountant.total()
    blocker.execute("ROLLBACK")
    assert accountant.total().epsilon == 0


# --- A place that cannot be written


@pytest.fixture
def immutable(path):
    """The file, with the attribute that not even root may overrule."""
    command = shutil.which("chattr")
    if command is None or os.geteuid() != 0:
        pytest.skip("needs root and chattr")
    if subprocess.run([command, "+i", path], capture_output=True).returncode != 0:
        pytest.skip("the file system has no immutable files")
    try:
        yield path
    finally:
        subprocess.run([command, "-i", path], check=True)


def test_an_immutable_file_is_a_clear_error(immutable):
    released = []
    for accountant in (
        used(immutable),
        BudgetAccountant(1.0, 0.0, ledger=url_of(immutable)),
    ):
        with pytest.raises(LedgerError, match=r"readonly.*Nothing was spent"):
            released.append(accountant.spend(epsilon=0.1))
        assert accountant.total().epsilon == 0.25
    assert released == []


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write everywhere")
def test_a_read_only_folder_is_a_clear_error(path):
    os.chmod(path, 0o400)
    os.chmod(path.parent, 0o500)
    try:
        with pytest.raises(LedgerError, match="Nothing was spent"):
            used(path).spend(epsilon=0.1)
    finally:
        os.chmod(path.parent, 0o700)


AS_NOBODY = """
import os, sys
from skdp import BudgetAccountant
from skdp.exceptions import LedgerError
url = sys.argv[1]
BudgetAccountant(1.0, 0.0, ledger=url, name="x").spend(epsilon=0.1)  # imports all
os.setgroups([]); os.setgid(65534); os.setuid(65534)
for use in (
    lambda: BudgetAccountant.open(url).spend(epsilon=0.1),
    lambda: BudgetAccountant(1.0, 0.0, ledger=url).spend(epsilon=0.1),
    lambda: BudgetAccountant(1.0, 0.0, ledger=url + "2").spend(epsilon=0.1),
):
    try:
        use()
        print("released")
    except LedgerError as error:
        print("LedgerError:", error)
"""


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can become somebody else")
@pytest.mark.parametrize("mode", [0o755, 0o700])
def test_the_file_of_somebody_else_is_a_clear_error(fast_folder, mode):
    folder = fast_folder / "mine"
    folder.mkdir()
    fast_folder.chmod(0o755)
    path = folder / "ledger.db"
    BudgetAccountant(1.0, 0.0, ledger=url_of(path)).spend(epsilon=0.25)
    path.chmod(0o644)
    folder.chmod(mode)
    answer = subprocess.run(
        [sys.executable, "-c", AS_NOBODY, url_of(path)],
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert answer.stderr == ""
    lines = answer.stdout.splitlines()
    assert [line.partition(":")[0] for line in lines] == ["LedgerError"] * 3, lines
    assert len(used(path).spends) == 1


# --- A full disk


@pytest.fixture
def small_disk(tmp_path):
    """A disk of half a megabyte."""
    folder = tmp_path / "disk"
    folder.mkdir()
    command = ["mount", "-t", "tmpfs", "-o", "size=512k", "none", folder]
    try:
        mounted = subprocess.run(command, capture_output=True).returncode == 0
    except FileNotFoundError:
        mounted = False
    if not mounted:
        pytest.skip("cannot mount a small tmpfs (needs root and CAP_SYS_ADMIN)")
    try:
        yield folder
    finally:
        gc.collect()
        subprocess.run(["umount", "-l", folder], check=True)


def fill(folder):
    """Leave no byte on the disk, and return the file that took them."""
    ballast = folder / "ballast"
    with open(ballast, "wb", buffering=0) as file:
        for size in (4096, 1):
            try:
                while True:
                    file.write(b"x" * size)
            except OSError:
                continue
    return ballast


def test_a_full_disk_refuses_and_goes_on_when_there_is_room(small_disk):
    path = small_disk / "ledger.db"
    accountant = BudgetAccountant(1000.0, 0.0, ledger=url_of(path))
    accountant.spend(epsilon=0.25, label="first")
    ballast = fill(small_disk)
    released = 0
    with pytest.raises(LedgerError, match=r"full.*Nothing was spent"):
        for _ in range(1000):
            accountant.spend(epsilon=0.25, label="x" * 2000)
            released += 1
    for _ in range(3):
        with pytest.raises(LedgerError, match="full"):
            accountant.spend(epsilon=0.25, label="x" * 2000)
    for reader in (accountant, used(path)):  # still readable
        assert len(reader.spends) == 1 + released
        assert reader.total().epsilon == 0.25 * (1 + released)
    ballast.unlink()
    accountant.spend(epsilon=0.25, label="x" * 2000)
    assert len(accountant.spends) == 2 + released
    with closing(sqlite3.connect(path)) as connection:
        assert connection.execute("PRAGMA integrity_check").fetchone() == ("ok",)


def test_a_disk_that_fills_up_by_spending(small_disk):
    path = small_disk / "ledger.db"
    accountant = BudgetAccountant(1000.0, 0.0, ledger=url_of(path))
    released = 0
    with pytest.raises(LedgerError, match="full"):
        for _ in range(1000):
            accountant.spend(epsilon=0.25, label="x" * 5000)
            released += 1
    assert released > 0
    assert len(accountant.spends) == released
    assert accountant.total().epsilon == 0.25 * released
    content = (small_disk / "ledger.db-wal").stat().st_size
    assert content > 0
    del accountant
    gc.collect()
    assert len(used(path).spends) == released


def test_no_budget_is_made_on_a_full_disk(small_disk):
    ballast = fill(small_disk)
    accountant = BudgetAccountant(1.0, 0.0, ledger=url_of(small_disk / "ledger.db"))
    with pytest.raises(LedgerError):
        accountant.spend(epsilon=0.25)
    ballast.unlink()
    accountant.spend(epsilon=0.25)
    assert used(small_disk / "ledger.db").total().epsilon == 0.25


# --- Many spends


def spend_many(folder, count):
    """Spend count x 1/count out of 1; return the time of each hundredth part."""
    accountant = BudgetAccountant(1.0, 0.0, ledger=url_of(folder / "ledger.db"))
    times = []
    for _ in range(100):
        begin = time.perf_counter()
        for _ in range(count // 100):
            accountant.spend(epsilon=1 / count)
        times.append(time.perf_counter() - begin)
    assert accountant.total().epsilon == 1.0
    for epsilon in (1 / count, 1e-9):
        with pytest.raises(BudgetExceededError):
            accountant.spend(epsilon=epsilon)
    with closing(sqlite3.connect(folder / "ledger.db")) as connection:
        found = connection.execute("SELECT count(*) FROM skdp_spend").fetchone()
    assert found == (count,)
    return times


def test_a_thousand_thousandths(fast_folder):
    spend_many(fast_folder, 1000)


@pytest.mark.slow
def test_a_hundred_thousand_parts(fast_folder):
    times = spend_many(fast_folder, 100_000)
    # The fastest of many parts: other processes make single ones slow.
    assert min(times[-20:]) < 2 * min(times[:20])


def statements_of(accountant):
    """Return the statements of one spend."""
    seen = []
    connection = connection_of(accountant)
    connection.set_trace_callback(seen.append)
    try:
        accountant.spend(epsilon=0.01)
    finally:
        connection.set_trace_callback(None)
    return seen


def test_a_spend_does_the_same_work_after_many_spends(fast_folder):
    path = fast_folder / "ledger.db"
    accountant = BudgetAccountant(1000.0, 1e-5, ledger=url_of(path))
    child = accountant.parallel(2)[0].parallel(2)[1]
    for _ in range(2):  # the first ones fix the rules and make the accounts
        accountant.spend(epsilon=0.01)
        child.spend(epsilon=0.01)

    def counts():
        return [len(statements_of(spender)) for spender in (accountant, child)]

    before = counts()
    for _ in range(500):
        accountant.spend(epsilon=0.01)
        child.spend(epsilon=0.01)
    assert counts() == before
    assert before[0] <= 6


def test_no_statement_of_a_spend_reads_the_past(fast_folder):
    path = fast_folder / "ledger.db"
    accountant = BudgetAccountant(1000.0, 1e-5, ledger=url_of(path))
    child = accountant.parallel(3)[1]
    accountant.spend(epsilon=0.01)
    child.spend(epsilon=0.01)
    statements = statements_of(accountant) + statements_of(child)
    assert any("INSERT INTO skdp_spend" in statement for statement in statements)
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("PRAGMA foreign_keys = ON")
        for statement in statements:
            if statement.startswith(("BEGIN", "COMMIT", "--")):
                continue
            plan = connection.execute(f"EXPLAIN QUERY PLAN {statement}").fetchall()
            for step in plan:
                assert "SCAN" not in step[3], (statement, step)
                assert "skdp_spend" not in step[3], (statement, step)
