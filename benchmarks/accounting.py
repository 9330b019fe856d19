"""Speed and tightness of a budget.

Run ``python benchmarks/accounting.py [--postgresql URL] [--long]``. Speed is in spends
per second of one process, each durable before the next. The growth is the time of a
spend among the last thousand over that of one among the first (the 100th is there): the
best median of a hundred, so that a busy moment of the machine or its disk does not
count. Tightness is the smallest ceiling that pays for all releases, one after the
other, over the epsilon of optimal composition (privacy loss distributions), which holds
for planned releases only.
"""

import argparse
import os
import statistics
import tempfile
import time
import uuid
from pathlib import Path

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

from skdp import BudgetAccountant
from skdp.events import Composed, Event, Gaussian, Laplace, Pure
from skdp.exceptions import BudgetExceededError

DELTA = 1e-6
COUNTS = (10, 100, 1000)
WINDOW = 1000
SIZES = (0.01, 0.1, 0.5)


# --- Speed


def spend_times(accountant: BudgetAccountant, event: Event, count: int) -> list[float]:
    """Return the seconds of each of ``count`` spends."""
    times = []
    for _ in range(count):
        start = time.perf_counter()
        accountant.spend(event)
        times.append(time.perf_counter() - start)
    return times


def typical(times: list[float]) -> float:
    """Return the smallest median of a hundred spends in a row."""
    parts = [times[i : i + 100] for i in range(0, len(times), 100)]
    return min(map(statistics.median, parts))


def print_speed(title: str, accountant: BudgetAccountant, count: int) -> None:
    event = Pure(accountant.epsilon / (2 * count))
    times = spend_times(accountant, event, count)
    first, last = typical(times[:WINDOW]), typical(times[-WINDOW:])
    start = time.perf_counter()
    accountant.total()
    reading = time.perf_counter() - start
    print(
        f"{title:34}{count:>9}{count / sum(times):>11.0f}{1e6 * first:>10.0f}"
        f"{1e6 * last:>10.0f}{last / first:>9.2f}{1e6 * reading:>11.0f}"
    )


def speed(postgresql: str | None, long: bool) -> None:
    print("Speed; times in microseconds")
    columns = ("spends", "per second", "first", "last", "growth", "total()")
    widths = (9, 11, 10, 10, 9, 11)
    print(" " * 34 + "".join(f"{c:>{w}}" for c, w in zip(columns, widths, strict=True)))
    for delta in (0.0, DELTA):
        title = f"memory, delta={delta:g}"
        print_speed(title, BudgetAccountant(1.0, delta), 100_000)
    count = 100_000 if long else 5000
    with tempfile.TemporaryDirectory() as folder:
        url = f"sqlite:///{Path(folder) / 'budget.db'}"
        print_speed("sqlite", BudgetAccountant(1.0, DELTA, ledger=url), count)
    if postgresql is not None:
        accountant = BudgetAccountant(
            1.0, DELTA, ledger=postgresql, name=f"benchmark {uuid.uuid4().hex}"
        )
        print_speed("PostgreSQL", accountant, count)


# --- Tightness


def series(kind: str, size: float, count: int) -> list[Event]:
    """Return releases of about the given size each."""
    pure, laplace, gaussian = Pure(size), Laplace(1 / size), Gaussian(1 / size)
    match kind:
        case "pure":
            return [pure] * count
        case "Laplace":
            return [laplace] * count
        case "Gaussian":
            return [gaussian] * count
        case "mixed, Laplace first":
            return [laplace, gaussian] * (count // 2)
        case "mixed, Gaussian first":
            return [gaussian, laplace] * (count // 2)
    raise ValueError(kind)


KINDS = ("pure", "Laplace", "Gaussian", "mixed, Laplace first", "mixed, Gaussian first")


def pays_for(ceiling: float, releases: list[Event]) -> bool:
    accountant = BudgetAccountant(ceiling, DELTA)
    try:
        for event in releases:
            accountant.spend(event)
    except BudgetExceededError:
        return False
    return True


def tightness_of(releases: list[Event]) -> float:
    """Return the smallest ceiling over the optimal epsilon."""
    parts = list(dict.fromkeys(releases))
    counts = [releases.count(part) for part in parts]
    optimal = Composed(parts, counts).epsilon(DELTA)
    low, high = 0.99 * optimal, 1.05 * optimal
    while not pays_for(high, releases):
        low, high = high, 1.1 * high
    while high - low > 1e-3 * optimal:
        middle = (low + high) / 2
        low, high = (low, middle) if pays_for(middle, releases) else (middle, high)
    return high / optimal


def tightness() -> None:
    print(f"\nTightness: smallest ceiling / optimal epsilon, delta={DELTA:g}")
    heads = [f"{count} x {size:g}" for count in COUNTS for size in SIZES]
    print(" " * 24 + "".join(f"{head:>12}" for head in heads))
    for kind in KINDS:
        ratios = [
            tightness_of(series(kind, size, count))
            for count in COUNTS
            for size in SIZES
        ]
        print(f"{kind:24}" + "".join(f"{ratio:12.3f}" for ratio in ratios))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--postgresql", metavar="URL", help="also time this database")
    parser.add_argument(
        "--long", action="store_true", help="100,000 spends in databases too"
    )
    options = parser.parse_args()
    speed(options.postgresql, options.long)
    tightness()


if __name__ == "__main__":
    main()
