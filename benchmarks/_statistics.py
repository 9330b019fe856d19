"""Errors of the statistics on public columns, beside the exact value and a peer.

The peer is diffprivlib, where it is installed and can be imported. Its noise is for one
row replaced; ours is shown for both relations. Errors are roots of mean squares over
many runs, against the exact value of the same rows: the noise, without sampling.
"""

import contextlib
import warnings
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
from _data import read

from skdp import stats

try:
    import diffprivlib.tools as peer
except ImportError:  # not installed, or too old for this scikit-learn
    peer = None

QUARTILES = [0.25, 0.5, 0.75]


def columns() -> Iterator[tuple[str, np.ndarray, tuple[float, float]]]:
    """Yield name, values and public bounds."""
    adult, pums = read("adult"), read("pums_fulton")
    yield "adult age", adult["age"].to_numpy(float), (0, 100)
    yield "adult hours", adult["hours-per-week"].to_numpy(float), (0, 100)
    yield "pums income", pums["income"].to_numpy(float), (0, 500_000)
    yield "pums age, 1000 rows", pums["age"].to_numpy(float)[:1000], (0, 100)


def _sorted_quantile(x: np.ndarray, q: Any) -> np.ndarray:
    return np.quantile(x, q, method="inverted_cdf")


def _private(name: str) -> Callable[..., Any]:
    function = getattr(stats, name)
    return lambda x, epsilon, bounds, **more: function(
        x, epsilon=epsilon, bounds=bounds, **more
    )


def _peer(name: str, *more: Any) -> Callable[..., Any] | None:
    if peer is None:
        return None
    function = getattr(peer, name)
    return lambda x, epsilon, bounds: function(x, *more, epsilon=epsilon, bounds=bounds)


def statistics() -> dict[str, tuple[Callable, Callable, Callable | None]]:
    """Return the exact, the private and the peer's function of each statistic."""
    return {
        "mean": (np.mean, _private("mean"), _peer("mean")),
        "variance": (np.var, _private("var"), _peer("var")),
        "std": (np.std, _private("std"), _peer("std")),
        "sum": (np.sum, _private("total"), _peer("sum")),
        "median": (
            lambda x: _sorted_quantile(x, 0.5),
            _private("median"),
            _peer("median"),
        ),
        "quartiles": (
            lambda x: _sorted_quantile(x, QUARTILES),
            lambda x, **more: stats.quantile(x, QUARTILES, **more),
            _peer("quantile", QUARTILES),
        ),
    }


def _error(exact: Any, runs: list[Any]) -> float:
    return float(np.sqrt(np.mean((np.array(runs) - exact) ** 2)))


def compare(repeats: int) -> None:
    """Print one line for every column, statistic and epsilon."""
    head = f"{'column':20} {'statistic':10} {'eps':>4} {'exact':>12}"
    print(f"{head} {'replace':>10} {'add_remove':>10} {'peer':>10} {'peer/ours':>9}")
    for column, x, bounds in columns():
        x = np.clip(x, *bounds)
        for name, (exact, ours, theirs) in statistics().items():
            for epsilon in (0.1, 1.0):
                _line(column, x, bounds, name, exact, ours, theirs, epsilon, repeats)


def _line(
    column: str,
    x: np.ndarray,
    bounds: tuple[float, float],
    name: str,
    exact: Callable,
    ours: Callable,
    theirs: Callable | None,
    epsilon: float,
    repeats: int,
) -> None:
    truth = exact(x)
    price = {"epsilon": epsilon, "bounds": bounds}
    errors = [
        _error(truth, [ours(x, neighboring=r, **price) for _ in range(repeats)])
        for r in ("replace", "add_remove")
    ]
    other = float("nan")  # no peer, or one that fails on many equal values
    with warnings.catch_warnings(), contextlib.suppress(RuntimeError):
        warnings.simplefilter("ignore")
        if theirs is not None:
            other = _error(truth, [theirs(x, **price) for _ in range(repeats)])
    middle = float(np.mean(truth))
    print(
        f"{column:20} {name:10} {epsilon:>4g} {middle:12.4g} {errors[0]:10.3g}"
        f" {errors[1]:10.3g} {other:10.3g} {other / errors[0]:9.2f}",
        flush=True,
    )
