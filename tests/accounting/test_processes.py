"""One budget in many processes: nothing is overdrawn, and nothing released is lost."""

import gc
import multiprocessing
import os
import queue
import random
import select
import signal
import sqlite3
import subprocess
import sys
import threading
import time
import weakref
from contextlib import closing, contextmanager
from decimal import Decimal

import numpy as np
import pytest
from joblib.externals.loky import get_reusable_executor
from sklearn.model_selection import GridSearchCV, cross_val_score

from skdp import BudgetAccountant
from skdp.exceptions import (
    BudgetExceededError,
    DetachedAccountantError,
    LedgerError,
)
from tests.accounting import workers
from tests.accounting.estimator import DPColumnMean

pytestmark = [
    # Python 3.12 and later warn of a fork beside threads, which is the point here.
    pytest.mark.filterwarnings("ignore:.*multi-threaded.*fork:DeprecationWarning"),
    pytest.mark.skipif(not hasattr(os, "fork"), reason="needs processes as in POSIX"),
]
FORK = multiprocessing.get_context("fork")
METHODS = ["fork", "spawn"]
PATIENCE = 60  # seconds; only a failure waits so long


@contextmanager
def started(context, target, arguments):
    """Run a process for each tuple of arguments, and let none of them stay."""
    processes = [context.Process(target=target, args=args) for args in arguments]
    for process in processes:
        process.start()
    try:
        yield processes
        for process in processes:
            process.join(PATIENCE)
    finally:
        for process in processes:
            if process.is_alive():
                process.kill()
            process.join()


def answers_of(channel, count):
    """Return the answers of ``count`` workers; a worker that hangs is a failure."""
    found = []
    deadline = time.monotonic() + PATIENCE
    while len(found) < count:
        try:
            found.append(channel.get(timeout=max(0.0, deadline - time.monotonic())))
        except queue.Empty:
            pytest.fail(f"{count - len(found)} workers did not answer; got {found}")
    return found


def counts_of(channel, count):
    """Return the number of spends of each worker; an error is a failure."""
    found = answers_of(channel, count)
    assert all(isinstance(answer, int) for answer in found), found
    return found


def opened(place):
    return BudgetAccountant.open(place["ledger"], place["name"])


def check_ledger(place, released=()):
    """The accounts are the sum of the spends, and what was released is among them."""
    accountant = opened(place)
    while True:  # a server may still be busy with the last wish of a killed process
        spends, total = accountant.spends, accountant.total()
        if len(accountant.spends) == len(spends):
            break
    exact = sum((Decimal(repr(spend.event.eps)) for spend in spends), Decimal(0))
    assert total.epsilon == float(exact)
    lost = {str(index) for index in released} - {spend.label for spend in spends}
    assert not lost, f"{len(lost)} of {len(released)} that were released"
    return len(spends)


# --- All at once


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("fresh", [True, False], ids=["fresh", "connected"])
def test_four_processes_spend_exactly_what_fits(place, method, fresh):
    context = multiprocessing.get_context(method)
    accountant = BudgetAccountant(1.0, 0.0, **place)
    taken = 0
    if not fresh:
        accountant.spend(epsilon=0.005)
        taken = 1
    channel, start = context.Queue(), context.Barrier(4)
    arguments = (accountant, 0.005, channel, start)
    with started(context, workers.spend_until_refused, [arguments] * 4):
        counts = counts_of(channel, 4)
    assert sum(counts) == 200 - taken, counts
    assert check_ledger(place) == 200
    assert accountant.total().epsilon == 1.0
    assert not accountant.check(epsilon=1e-6)


def test_many_processes_make_the_ledger_at_once(tmp_path):
    for number in range(12):
        url = f"sqlite:///{tmp_path}/{number}.db"
        channel, start = FORK.Queue(), FORK.Barrier(4)
        arguments = (BudgetAccountant(0.04, 0.0, ledger=url), 0.01, channel, start)
        with started(FORK, workers.spend_until_refused, [arguments] * 4):
            counts = counts_of(channel, 4)
        assert sum(counts) == 4


def test_threads_of_processes_spend_exactly_what_fits(place):
    accountant = BudgetAccountant(1.0, 0.0, **place)
    channel, start = FORK.Queue(), FORK.Barrier(3)
    arguments = (accountant, 0.005, channel, start, 4)
    with started(FORK, workers.spend_in_threads, [arguments] * 3):
        counts = counts_of(channel, 12)
    assert sum(counts) == check_ledger(place) == 200, counts


def test_children_of_parallel_in_processes(place):
    parent = BudgetAccountant(1.0, 0.0, **place)
    channel, start = FORK.Queue(), FORK.Barrier(3)
    parts = parent.parallel(3)
    arguments = [(part, 0.02, channel, start) for part in parts]
    with started(FORK, workers.spend_until_refused, arguments):
        counts = counts_of(channel, 3)
    assert counts == [50, 50, 50]  # each part has the whole budget
    assert parent.total().epsilon == 1.0
    assert len(parent.spends) == 150


@pytest.mark.parametrize("method", METHODS)
def test_a_budget_in_memory_is_detached(method):
    context = multiprocessing.get_context(method)
    accountant = BudgetAccountant(1.0)
    channel = context.Queue()
    arguments = (accountant, 0.1, 1, channel)
    with started(context, workers.report_spends, [arguments]):
        (answer,) = answers_of(channel, 1)
    assert "DetachedAccountantError" in answer
    assert "sqlite:///" in answer  # it tells what to do
    assert accountant.spends == []
    accountant.spend(epsilon=1.0)


# --- scikit-learn


@pytest.fixture(scope="module", autouse=True)
def no_idle_workers():
    """End joblib's workers after the module; they would wait for minutes."""
    yield
    get_reusable_executor().shutdown(wait=True)


DATA = np.linspace(0.0, 1.0, 60).reshape(-1, 1)


def search(accountant, **options):
    return GridSearchCV(
        DPColumnMean(accountant=accountant),
        {"epsilon": [0.01, 0.02]},
        cv=3,
        n_jobs=2,
        **options,
    )


def test_every_fit_of_a_grid_search_is_recorded(place):
    accountant = BudgetAccountant(1.0, 0.0, **place)
    found = search(accountant, error_score="raise").fit(DATA, DATA[:, 0])
    assert found.best_estimator_.accountant is accountant
    epsilons = sorted(spend.event.basic()[0] for spend in opened(place).spends)
    refit = found.best_params_["epsilon"]
    assert epsilons == sorted([0.01] * 3 + [0.02] * 3 + [refit])
    cross_val_score(found.best_estimator_, DATA, DATA[:, 0], cv=4, n_jobs=2)
    assert len(accountant.spends) == 11


def test_a_grid_search_stops_at_the_ceiling(place):
    accountant = BudgetAccountant(0.05, 0.0, **place)
    with pytest.raises(BudgetExceededError):
        search(accountant, error_score="raise").fit(DATA, DATA[:, 0])
    assert accountant.total().epsilon <= 0.05


def test_a_grid_search_with_a_budget_in_memory_is_refused():
    accountant = BudgetAccountant(1.0, 0.0)
    with pytest.raises(DetachedAccountantError, match="n_jobs=1"):
        search(accountant, error_score="raise").fit(DATA, DATA[:, 0])
    assert accountant.spends == []


# --- Forks


def told(pipe, times):
    pipe.send(times)
    assert pipe.poll(PATIENCE), "the child hangs"
    return pipe.recv()


@contextmanager
def obedient_child(holder):
    """A forked process that spends 0.01 as often as it is told.

    The accountant is in a list, so that whoever empties it drops the accountant.
    """
    pipe, end = FORK.Pipe()
    process = FORK.Process(target=workers.spend_when_told, args=(holder[0], 0.01, end))
    process.start()
    try:
        yield pipe
        pipe.send(0)
        process.join(PATIENCE)
    finally:
        process.kill()
        process.join()


def drop(holder):
    """Drop the accountant, and with it the connection of this process."""
    alive = weakref.ref(holder[0])
    holder.clear()
    gc.collect()
    assert alive() is None


def test_a_fork_after_the_parent_has_connected(place):
    accountant = BudgetAccountant(1.0, 0.0, **place)
    accountant.spend(epsilon=0.01)
    with obedient_child([accountant]) as child:
        for _ in range(5):
            assert told(child, 2) is None
            accountant.spend(epsilon=0.01)
            assert len(accountant.spends) % 3 == 1
    accountant.spend(epsilon=0.01)  # the child's end did not end our session
    assert check_ledger(place) == 17


def test_a_child_outlives_the_connection_of_its_parent(place):
    holder = [BudgetAccountant(1.0, 0.0, **place)]
    holder[0].spend(epsilon=0.01)
    with obedient_child(holder) as child:
        assert told(child, 1) is None
        drop(holder)
        assert told(child, 10) is None
        assert check_ledger(place) == 12  # others see what the child spends
        assert told(child, 10) is None
    assert check_ledger(place) == 22


def test_a_grandchild_outlives_its_parent(place):
    holder = [BudgetAccountant(1.0, 0.0, **place)]
    holder[0].spend(epsilon=0.01)
    pipe, end = FORK.Pipe()
    child = os.fork()
    if child == 0:  # as a daemon starts: the parent of the one that works ends at once
        try:
            holder[0].spend(epsilon=0.01)
            if os.fork() == 0:
                workers.spend_when_told(holder[0], 0.01, end)
        finally:
            os._exit(0)
    try:
        assert told(pipe, 1) is None
        os.waitpid(child, 0)
        drop(holder)
        assert check_ledger(place) == 3
        assert told(pipe, 10) is None
        assert check_ledger(place) == 13
    finally:
        pipe.send(0)


def test_forks_while_threads_spend(place):
    accountant = BudgetAccountant(1000.0, 0.0, **place)
    accountant.total()
    counts, errors, stop = [], [], threading.Event()

    def work():
        count = 0
        try:
            while not stop.is_set():
                accountant.spend(epsilon=0.01)
                count += 1
        except BaseException as error:
            errors.append(repr(error))
        counts.append(count)

    threads = [threading.Thread(target=work) for _ in range(3)]
    for thread in threads:
        thread.start()
    channel = FORK.SimpleQueue()  # has no thread of its own
    try:
        arguments = (accountant, 0.01, 3, channel)
        with started(FORK, workers.report_spends, [arguments] * 6) as children:
            for child in children:
                child.join(PATIENCE)
    finally:
        stop.set()
        for thread in threads:
            thread.join()
    assert [child.exitcode for child in children] == [0] * 6
    assert [channel.get() for _ in children] == [None] * 6
    assert errors == []
    assert check_ledger(place) == sum(counts) + 18


# --- kill -9


def indices(descriptor):
    """Return what was written into a pipe until its writer was killed."""
    content = b""
    while part := os.read(descriptor, 65536):
        content += part
    size = workers.INDEX_BYTES
    whole = len(content) // size * size  # a write of 4 bytes is whole or not at all
    assert whole == len(content)
    return [int.from_bytes(content[i : i + size], "big") for i in range(0, whole, size)]


def kill_at_random(terms, first, *, after_a_release):
    """Kill a process that releases, and return what it had released.

    Half of the processes are killed while they connect or make the budget.
    """
    read, write = os.pipe()
    process = FORK.Process(target=workers.release_forever, args=(terms, first, write))
    process.start()
    os.close(write)
    try:
        if after_a_release:
            assert select.select([read], [], [], PATIENCE)[0], "nothing was released"
        time.sleep(random.uniform(0, 0.04))
        os.kill(process.pid, signal.SIGKILL)
        process.join()
        return indices(read)
    finally:
        os.close(read)


def kill_many(terms, kills):
    place = {"ledger": terms["ledger"], "name": terms["name"]}
    released = []
    for number in range(kills):
        released += kill_at_random(
            terms, 100_000 * number, after_a_release=number % 2 == 0
        )
        if number % 20 == 0:
            check_ledger(place, released)
    assert len(released) >= kills // 2  # one at least of each that was waited for
    assert check_ledger(place, released) >= len(released)
    opened(place).spend(epsilon=0.001, label="still works")


def terms_of(place, epsilon=1e6):
    return {"epsilon": epsilon, "delta": 0.0, **place}


KILLS = {
    "sqlite": [15, pytest.param(200, marks=pytest.mark.slow)],
    "postgresql": [5, pytest.param(50, marks=pytest.mark.slow)],
}


@pytest.mark.parametrize("kills", KILLS["sqlite"])
def test_kills_lose_nothing_in_sqlite(sqlite_place, kills):
    kill_many(terms_of(sqlite_place), kills)
    path = sqlite_place["ledger"].removeprefix("sqlite:///")
    with closing(sqlite3.connect(path)) as connection:
        assert connection.execute("PRAGMA integrity_check").fetchone() == ("ok",)
        assert connection.execute("PRAGMA foreign_key_check").fetchall() == []


@pytest.mark.parametrize("kills", KILLS["postgresql"])
def test_kills_lose_nothing_in_postgresql(postgresql_place, kills):
    kill_many(terms_of(postgresql_place), kills)


@pytest.mark.parametrize("kills", [5, pytest.param(50, marks=pytest.mark.slow)])
def test_kills_while_a_file_is_made_leave_none_or_a_good_one(tmp_path, kills):
    for number in range(kills):
        place = {"ledger": f"sqlite:///{tmp_path}/{number}.db", "name": "budget"}
        released = kill_at_random(terms_of(place), 0, after_a_release=False)
        BudgetAccountant(**terms_of(place)).spend(epsilon=0.001, label="next")
        check_ledger(place, released)


@pytest.mark.parametrize("kills", [4, pytest.param(30, marks=pytest.mark.slow)])
def test_a_kill_beside_processes_that_go_on(place, kills):
    terms = terms_of(place)
    read, write = os.pipe()
    witness = FORK.Process(target=workers.release_forever, args=(terms, 0, write))
    witness.start()
    os.close(write)
    released = []
    try:
        for number in range(1, kills + 1):
            released += kill_at_random(
                terms, 100_000 * number, after_a_release=number % 2 == 0
            )
            assert witness.is_alive()
    finally:
        witness.kill()
        witness.join()
    released += indices(read)
    os.close(read)
    check_ledger(place, released)


# --- Ctrl-C


def check_usable(accountant, place):
    """The accountant spends, and it holds no lock that keeps others from it."""
    before = len(opened(place).spends)
    patient = place["ledger"]
    if patient.startswith("sqlite"):
        patient += "?timeout=1"
    BudgetAccountant.open(patient, place["name"]).spend(epsilon=0.001, label="other")
    accountant.spend(epsilon=0.001, label="own")
    assert len(opened(place).spends) == before + 2


@pytest.mark.parametrize("keep_traceback", [False, True])
def test_an_interrupt_while_sqlite_waits_for_a_lock(sqlite_place, keep_traceback):
    accountant = BudgetAccountant(**terms_of(sqlite_place))
    accountant.spend(epsilon=0.001, label="before")
    path = sqlite_place["ledger"].removeprefix("sqlite:///")
    blocker = sqlite3.connect(path, isolation_level=None, check_same_thread=False)
    blocker.execute("BEGIN IMMEDIATE")

    def interrupt():
        time.sleep(0.2)
        os.kill(os.getpid(), signal.SIGINT)
        time.sleep(0.2)
        blocker.execute("ROLLBACK")

    thread = threading.Thread(target=interrupt)
    thread.start()
    interrupted = None
    try:
        accountant.spend(epsilon=0.001, label="interrupted")
    except KeyboardInterrupt as error:
        # A notebook keeps the traceback, and with it everything on the stack.
        interrupted = error if keep_traceback else True
    finally:
        thread.join()
        blocker.close()
    assert interrupted
    check_usable(accountant, sqlite_place)
    check_ledger(sqlite_place)


def test_an_interrupt_while_postgresql_waits_for_a_lock(postgresql, postgresql_place):
    import psycopg

    accountant = BudgetAccountant(**terms_of(postgresql_place))
    accountant.spend(epsilon=0.001, label="before")
    timer = threading.Timer(0.3, os.kill, (os.getpid(), signal.SIGINT))
    with psycopg.connect(postgresql.url()) as blocker:
        blocker.execute(
            "SELECT * FROM skdp_budget WHERE name = %s FOR UPDATE",
            [postgresql_place["name"]],
        )
        timer.start()
        with pytest.raises(KeyboardInterrupt):
            accountant.spend(epsilon=0.001, label="interrupted")
        blocker.rollback()
    timer.join()
    check_usable(accountant, postgresql_place)
    labels = [spend.label for spend in accountant.spends]
    assert labels == ["before", "other", "own"]


@pytest.mark.parametrize("kind", ["sqlite", "postgresql"])
def test_interrupts_at_random_moments(request, fast_folder, kind):
    if kind == "sqlite":
        url = f"sqlite:///{fast_folder}/ledger.db?timeout=2"
        place, attempts = {"ledger": url, "name": "budget"}, 3000
    else:
        place, attempts = request.getfixturevalue("postgresql_place"), 150
    channel = FORK.SimpleQueue()
    arguments = (terms_of(place), attempts, channel)
    with started(FORK, workers.release_despite_interrupts, [arguments]) as (child,):
        child.join(PATIENCE)
    assert child.exitcode == 0
    released, interrupted, errors = channel.get()
    # First what matters: nothing that was released is missing.
    check_ledger(place, released)
    assert errors == []
    assert interrupted > 0
    assert len(released) >= attempts // 5


def test_an_interrupt_as_a_user_sends_it(sqlite_place):
    code = (
        "import sys\n"
        "from skdp import BudgetAccountant\n"
        "accountant = BudgetAccountant(1e6, 0.0, ledger=sys.argv[1], name='budget')\n"
        "try:\n"
        "    while True:\n"
        "        accountant.spend(epsilon=0.001)\n"
        "        print('released', flush=True)\n"
        "except KeyboardInterrupt:\n"
        "    accountant.spend(epsilon=0.001)\n"
        "    print('released', flush=True)\n"
    )
    with subprocess.Popen(
        [sys.executable, "-c", code, sqlite_place["ledger"]],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stdout.readline() == "released\n"
        time.sleep(0.1)
        process.send_signal(signal.SIGINT)
        rest, errors = process.communicate(timeout=PATIENCE)
    assert process.returncode == 0, errors
    assert check_ledger(sqlite_place) >= 1 + rest.count("released")


def test_a_lock_that_another_process_holds_is_named(sqlite_place):
    BudgetAccountant(1.0, 0.0, **sqlite_place).total()
    path = sqlite_place["ledger"].removeprefix("sqlite:///")
    code = (
        "import sqlite3, sys\n"
        "connection = sqlite3.connect(sys.argv[1], isolation_level=None)\n"
        "connection.execute('BEGIN IMMEDIATE')\n"
        "print('held', flush=True)\n"
        "sys.stdin.read()\n"
    )
    with subprocess.Popen(
        [sys.executable, "-c", code, path],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stdout.readline() == "held\n"
        url = f"{sqlite_place['ledger']}?timeout=0.2"
        accountant = BudgetAccountant.open(url, sqlite_place["name"])
        with pytest.raises(LedgerError, match=r"other processes held it for 0\.2 sec"):
            accountant.spend(epsilon=0.1)
        process.kill()  # the lock ends with its process
        process.communicate()
    accountant.spend(epsilon=0.1)
