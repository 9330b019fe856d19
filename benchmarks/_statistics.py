"""Errors of statistics, scalers and PCA on public data, beside the exact and a peer.

The peer is diffprivlib, where it is installed and can be imported. Its noise is for one
row replaced; ours is shown for both relations. Errors are roots of mean squares over
many runs, against the exact value of the same rows: the noise, without sampling.

Of some lines the numbers mean something else:

- "covariance": the Frobenius norm of the error, as a part of the exact norm;
- "PCA": the share of the variance that three components capture, the exact one first;
- "bins": the largest deviation of a bin's share of the rows from 1/10, the exact
  deciles first. Ties are broken in advance, by up to 1 % of the range. The peer's
  deciles are those of its ``quantile``;
- "scaler": errors of ``mean_`` and ``scale_`` in standard deviations;
- "imputed mean": 20 % of the values are missing. The peer is ``nanmean``, which takes
  their number as public; ours is private;
- "histogram": the peer's noise is for a row added or removed, and compared with that.

Covariance and PCA have delta = 1e-6, "pure" ones 0, as the peer always has. The last
column is above 1 where the peer is worse; of PCA it compares what is lost to the exact.
The peer has a few seconds a line, since its PCA may take minutes: fewer runs, or nan.
"""

import contextlib
import signal
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from _data import bike, california, read
from sklearn.decomposition import PCA

from skdp import stats
from skdp.decomposition import DPPCA
from skdp.preprocessing import DPKBinsDiscretizer, DPSimpleImputer, DPStandardScaler

QUARTILES = [0.25, 0.5, 0.75]
DECILES = np.arange(1, 10) / 10
COMPONENTS = 3
BINS = 20


def _peer() -> tuple[Any, Any]:
    """Return the peer's functions and models; None without it."""
    try:
        from diffprivlib import models, tools
    except ImportError:  # not installed, or too old for this scikit-learn
        return None, None
    return tools, models


TOOLS, MODELS = _peer()
_PEER_SECONDS = 4.0
_PEER_FAILURES = (RuntimeError, AttributeError, TypeError, ValueError)


# --- What is printed of the exact value and of many runs


def _middle(truth: Any) -> float:
    return float(np.mean(truth))


def _error(truth: Any, runs: list[Any]) -> float:
    return float(np.sqrt(np.mean((np.array(runs) - truth) ** 2)))


def _relative(truth: Any, runs: list[Any]) -> float:
    return _error(truth, runs) / float(np.sqrt(np.mean(np.square(truth))))


def _average(truth: Any, runs: list[Any]) -> float:
    return float(np.mean(runs))


@dataclass(frozen=True)
class Case:
    """One statistic; ``ours`` and ``theirs`` take the data, epsilon and bounds.

    Parameters
    ----------
    exact, ours, theirs : callable
        The non-private value, the private one, and the peer's or None.
    score : callable
        What is printed of many runs.
    share : float
        Part of the repetitions that are made, where a run is slow.
    from_exact : bool
        Whether the runs are compared by their distance from the exact value.
    relation : str
        Neighbours of the peer, for the comparison.
    """

    exact: Callable
    ours: Callable
    theirs: Callable | None
    score: Callable = _error
    share: float = 1.0
    from_exact: bool = False
    relation: str = "replace"


# --- One column


def columns() -> Iterator[tuple[str, np.ndarray, tuple[float, float]]]:
    """Yield name, values and public bounds."""
    adult, pums = read("adult"), read("pums_fulton")
    yield "adult age", adult["age"].to_numpy(float), (0, 100)
    yield "adult hours", adult["hours-per-week"].to_numpy(float), (0, 100)
    yield "pums income", pums["income"].to_numpy(float), (0, 500_000)
    yield "pums age, 1000 rows", pums["age"].to_numpy(float)[:1000], (0, 100)


def _exact_quantile(x: np.ndarray, q: Any) -> np.ndarray:
    return np.quantile(x, q, method="inverted_cdf")


def _private(name: str, *more: Any) -> Callable:
    function = getattr(stats, name)
    return lambda x, **price: function(x, *more, **price)


def _tool(name: str, *more: Any) -> Callable | None:
    if TOOLS is None:
        return None
    function = getattr(TOOLS, name)
    return lambda x, **price: function(x, *more, **price)


def _above(x: np.ndarray, bounds: tuple[float, float]) -> np.ndarray:
    """The values above a third of the public range, to be counted."""
    return x > bounds[0] + (bounds[1] - bounds[0]) / 3


def _count(x: np.ndarray, bounds: Any, **price: Any) -> int:
    return stats.count(_above(x, bounds), **price)


def _their_count(x: np.ndarray, bounds: Any, **price: Any) -> int:
    return TOOLS.count_nonzero(_above(x, bounds), **price)


def _histogram(x: np.ndarray, **price: Any) -> np.ndarray:
    return stats.histogram(x, BINS, **price)[0]


def _their_histogram(x: np.ndarray, bounds: Any, **price: Any) -> np.ndarray:
    return TOOLS.histogram(x, bins=BINS, range=bounds, **price)[0]


def _untied(x: np.ndarray, bounds: tuple[float, float]) -> np.ndarray:
    more = np.random.default_rng(0).random(x.size) * (bounds[1] - bounds[0]) / 100
    return np.clip(x + more, *bounds)


def _unevenness(x: np.ndarray, inner: np.ndarray) -> float:
    """How far the share of a bin is from 1/10, bins without rows among them."""
    shares = np.bincount(np.searchsorted(inner, x, side="right"), minlength=10)
    return float(np.abs(shares / x.size - 0.1).max())


def _exact_bins(x: np.ndarray, bounds: Any) -> float:
    x = _untied(x, bounds)
    return _unevenness(x, _exact_quantile(x, DECILES))


def _bins(x: np.ndarray, bounds: Any, **price: Any) -> float:
    x = _untied(x, bounds)
    model = DPKBinsDiscretizer(10, encode="ordinal", bounds=bounds, **price)
    model.fit(x[:, None])
    return _unevenness(x, model.bin_edges_[0][1:-1])


def _their_bins(x: np.ndarray, bounds: Any, **price: Any) -> float:
    x = _untied(x, bounds)
    found = TOOLS.quantile(x, DECILES, bounds=bounds, **price)
    return _unevenness(x, np.sort(found))


def _with_holes(x: np.ndarray) -> np.ndarray:
    holes = np.random.default_rng(0).random(x.size) < 0.2
    return np.where(holes, np.nan, x)


def _imputed(x: np.ndarray, **price: Any) -> float:
    model = DPSimpleImputer("mean", **price).fit(_with_holes(x)[:, None])
    return model.statistics_[0]


def _their_imputed(x: np.ndarray, **price: Any) -> float:
    return TOOLS.nanmean(_with_holes(x), **price)


def column_cases(bounds: tuple[float, float]) -> dict[str, Case]:
    """Return the statistics of one column."""
    return {
        "mean": Case(np.mean, _private("mean"), _tool("mean")),
        "variance": Case(np.var, _private("var"), _tool("var")),
        "std": Case(np.std, _private("std"), _tool("std")),
        "sum": Case(np.sum, _private("total"), _tool("sum")),
        "count": Case(
            lambda x: np.count_nonzero(_above(x, bounds)), _count, _their_count
        ),
        "histogram": Case(
            lambda x: np.histogram(x, BINS, bounds)[0],
            _histogram,
            _their_histogram,
            relation="add_remove",
        ),
        "median": Case(
            lambda x: _exact_quantile(x, 0.5),
            _private("median"),
            _tool("median"),
            share=0.25,
        ),
        "quartiles": Case(
            lambda x: _exact_quantile(x, QUARTILES),
            _private("quantile", QUARTILES),
            _tool("quantile", QUARTILES),
            share=0.25,
        ),
        "bins": Case(
            lambda x: _exact_bins(x, bounds),
            _bins,
            _their_bins,
            score=_average,
            share=0.1,
        ),
        "imputed mean": Case(
            lambda x: np.nanmean(_with_holes(x)), _imputed, _their_imputed, share=0.5
        ),
    }


# --- Several columns


def tables() -> Iterator[tuple[str, np.ndarray]]:
    """Yield name and rows, every column within [-1/2, 1/2]."""
    yield "california", california()[0] - 0.5
    yield "bike", bike()[0] - 0.5


def _norm(X: np.ndarray) -> float:
    return float(np.sqrt(X.shape[1]) / 2)


def _captured(X: np.ndarray, components: np.ndarray) -> float:
    """The part of the variance that lies in the span of orthonormal rows."""
    covariance = np.cov(X.T)
    return float(np.trace(components @ covariance @ components.T) / covariance.trace())


def _pca(X: np.ndarray, bounds: Any, **price: Any) -> float:
    model = DPPCA(COMPONENTS, data_norm=_norm(X), **price).fit(X)
    return _captured(X, model.components_)


def _their_pca(X: np.ndarray, **price: Any) -> float:
    model = MODELS.PCA(COMPONENTS, data_norm=_norm(X), **price).fit(X.copy())
    basis = np.linalg.qr(model.components_.T)[0]
    return _captured(X, basis[:, :COMPONENTS].T)


def _pure(function: Callable) -> Callable:
    return lambda X, **price: function(X, delta=0.0, **price)


def _scaler(kind: Any, attribute: str) -> Callable:
    return lambda X, **price: getattr(kind(**price).fit(X), attribute) / X.std(axis=0)


def table_cases() -> dict[str, Case]:
    """Return the statistics of several columns."""
    their_scaler = None if MODELS is None else MODELS.StandardScaler
    covariance = (lambda X: np.cov(X.T, ddof=0), _private("cov"))
    pca = lambda X: _captured(X, PCA(COMPONENTS).fit(X).components_)  # noqa: E731
    return {
        "covariance": Case(*covariance, None, _relative, 0.25),
        "cov. pure": Case(covariance[0], _pure(covariance[1]), None, _relative, 0.25),
        "PCA": Case(pca, _pca, _their_pca, _average, 0.1, True),
        "PCA pure": Case(pca, _pure(_pca), _their_pca, _average, 0.1, True),
        "scaler mean": Case(
            lambda X: X.mean(axis=0) / X.std(axis=0),
            _scaler(DPStandardScaler, "mean_"),
            _scaler(their_scaler, "mean_"),
            share=0.25,
        ),
        "scaler scale": Case(
            lambda X: np.ones(X.shape[1]),
            _scaler(DPStandardScaler, "scale_"),
            _scaler(their_scaler, "scale_"),
            share=0.25,
        ),
    }


# --- The table


def compare(repeats: int) -> None:
    """Print one line for every data set, statistic and epsilon."""
    head = f"{'data':20} {'statistic':12} {'eps':>4} {'exact':>10}"
    print(f"{head} {'replace':>10} {'add_remove':>10} {'peer':>10} {'peer/ours':>9}")
    for name, x, bounds in columns():
        x = np.clip(x, *bounds)
        for statistic, case in column_cases(bounds).items():
            _lines(name, statistic, case, x, bounds, repeats)
    for name, X in tables():
        for statistic, case in table_cases().items():
            _lines(name, statistic, case, X, (-0.5, 0.5), repeats)


@contextlib.contextmanager
def _seconds(limit: float) -> Iterator[None]:
    """Raise TimeoutError in what takes longer."""

    def stop(*_: Any) -> None:
        raise TimeoutError

    before = signal.signal(signal.SIGALRM, stop)
    signal.setitimer(signal.ITIMER_REAL, limit)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


def _peer_score(case: Case, truth: Any, data: Any, price: dict, runs: int) -> float:
    if TOOLS is None or case.theirs is None:
        return float("nan")
    found: list[Any] = []
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            with contextlib.suppress(TimeoutError), _seconds(_PEER_SECONDS):
                for _ in range(runs):
                    found.append(case.theirs(data, **price))
        except _PEER_FAILURES:  # for one, of quantiles of many equal values
            found = []
    return case.score(truth, found) if found else float("nan")


def _lines(
    name: str,
    statistic: str,
    case: Case,
    data: np.ndarray,
    bounds: tuple[float, float],
    repeats: int,
) -> None:
    truth, runs = case.exact(data), max(1, round(case.share * repeats))
    middle = _middle(truth)
    for epsilon in (0.1, 1.0):
        price = {"epsilon": epsilon, "bounds": bounds}
        ours = {
            r: case.score(
                truth, [case.ours(data, neighboring=r, **price) for _ in range(runs)]
            )
            for r in ("replace", "add_remove")
        }
        peer = _peer_score(case, truth, data, price, runs)
        base = middle if case.from_exact else 0.0
        times = (peer - base) / (ours[case.relation] - base)
        shown = " ".join(f"{value:10.3g}" for value in (*ours.values(), peer))
        print(
            f"{name:20} {statistic:12} {epsilon:>4g} {middle:10.4g} {shown}"
            f" {times:9.3g}",
            flush=True,
        )
