"""What the tests run in other processes; spawned children import it by name."""

import os
import random
import signal
import threading
import time

from skdp import BudgetAccountant
from skdp.exceptions import BudgetExceededError

INDEX_BYTES = 4


def spend_times(accountant, epsilon, times, label="child"):
    """Spend a few times."""
    for _ in range(times):
        accountant.spend(epsilon=epsilon, label=label)


def report_spends(accountant, epsilon, times, answers):
    """Spend a few times and report None, or the error."""
    try:
        spend_times(accountant, epsilon, times)
        answers.put(None)
    except BaseException as error:
        answers.put(repr(error))


def spend_until_refused(accountant, epsilon, answers, start=None):
    """Spend as often as the budget allows and report how often that was."""
    if start is not None:
        start.wait(60)
    count = 0
    try:
        while True:
            accountant.spend(epsilon=epsilon, label=str(os.getpid()))
            count += 1
    except BudgetExceededError:
        answers.put(count)
    except BaseException as error:
        answers.put(repr(error))


def spend_in_threads(accountant, epsilon, answers, start, n_threads):
    """Spend in several threads until the budget refuses all of them."""
    arguments = (accountant, epsilon, answers)
    threads = [
        threading.Thread(target=spend_until_refused, args=arguments)
        for _ in range(n_threads)
    ]
    start.wait(60)
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


def spend_when_told(accountant, epsilon, pipe):
    """Spend as many times as each message says, until one says 0."""
    while times := pipe.recv():
        try:
            spend_times(accountant, epsilon, times)
            pipe.send(None)
        except BaseException as error:
            pipe.send(repr(error))


def release_forever(terms, first, descriptor):
    """Spend, then release (write the spend's index), until the process is killed."""
    accountant = BudgetAccountant(**terms)
    index = first
    while True:
        accountant.spend(epsilon=0.001, label=str(index))
        os.write(descriptor, index.to_bytes(INDEX_BYTES, "big"))
        index += 1


def _typical_time(accountant):
    """Return the median time of a spend, in seconds."""
    times = []
    for _ in range(21):
        begin = time.perf_counter()
        accountant.spend(epsilon=0.001)
        times.append(time.perf_counter() - begin)
    return sorted(times)[10]


def release_despite_interrupts(terms, attempts, answers):
    """Interrupt spends at random moments; report what was released, and errors.

    Every fifth spend is left in peace, to see whether the one before did harm.
    """
    accountant = BudgetAccountant(**terms)
    longest = 1.5 * _typical_time(accountant)
    # An alarm raises in the same places as Ctrl-C, and exactly once.
    signal.signal(signal.SIGALRM, signal.default_int_handler)
    released, interrupted, errors = [], 0, []
    for index in range(attempts):
        moment = 0 if index % 5 == 0 else random.uniform(1e-6, longest)
        try:
            try:
                signal.setitimer(signal.ITIMER_REAL, moment)
                accountant.spend(epsilon=0.001, label=str(index))
                released.append(index)
            except Exception as error:
                errors.append(repr(error))
            finally:
                signal.setitimer(signal.ITIMER_REAL, 0)
        except KeyboardInterrupt:
            interrupted += 1
    answers.put((released, interrupted, errors))
