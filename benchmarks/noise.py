"""Time and memory of exact noise, beside numpy's samplers, which are not safe.

Run ``python benchmarks/noise.py [--repeats N]``. Every repeat times all the rows in
turn, so that a busy moment of the machine hits all of them; the best repeat counts.
Times are for a million draws; the columns with an x are ratios to numpy's time; memory
is the peak while drawing, in arrays of the size of the result, which is one of them.
"""

import argparse
import os
import time
import tracemalloc
from collections.abc import Callable

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import numpy as np

from skdp import noise
from skdp.mechanisms import BoundedLaplace, GammaNorm, Gaussian, Laplace

N = 10**6
SCALE = 2**42  # grid steps per noise scale, as in the mechanisms
REFERENCES = ("numpy laplace", "numpy standard_normal")


def tasks() -> dict[str, Callable[[], np.ndarray]]:
    """Every row of the table: a name, and what draws a million values."""
    rng = np.random.default_rng()
    values = np.full(N, 0.5)
    mechanisms = {
        "Laplace.release": Laplace(1.0),
        "Gaussian.release": Gaussian(1.0, 1e-6),
        "BoundedLaplace.release": BoundedLaplace(1.0, 1.0, (0.0, 1.0)),
        "GammaNorm.release": GammaNorm(1.0, N),
    }
    return {
        "numpy laplace": lambda: rng.laplace(size=N),
        "numpy standard_normal": lambda: rng.standard_normal(N),
        "discrete_laplace": lambda: noise.discrete_laplace(SCALE, N),
        "discrete_gaussian": lambda: noise.discrete_gaussian(SCALE, N),
        "discrete_cauchy": lambda: noise.discrete_cauchy(SCALE, 4, N),
        "gamma_norm, d = 1": lambda: noise.gamma_norm(2.0**30, 1, N),
        "gamma_norm, d = 10": lambda: noise.gamma_norm(2.0**30, 10, N // 10),
        **{
            name: lambda mechanism=mechanism: mechanism.release(values)
            for name, mechanism in mechanisms.items()
        },
    }


def seconds(draw: Callable[[], np.ndarray]) -> float:
    start = time.perf_counter()
    draw()
    return time.perf_counter() - start


def best_times(rows: dict, repeats: int) -> dict[str, float]:
    best = dict.fromkeys(rows, float("inf"))
    for _ in range(repeats):
        for name, draw in rows.items():
            best[name] = min(best[name], seconds(draw))
    return best


def peak_arrays(draw: Callable[[], np.ndarray]) -> float:
    """Peak memory in arrays of the result."""
    tracemalloc.start()
    try:
        result = draw()
        return tracemalloc.get_traced_memory()[1] / result.nbytes
    finally:
        tracemalloc.stop()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--repeats", type=int, default=7, help="7 unless given")
    repeats = parser.parse_args().repeats
    if repeats < 1:
        parser.error("--repeats must be at least 1")
    rows = tasks()
    best = best_times(rows, repeats)
    laplace, normal = (best[name] for name in REFERENCES)
    print(f"A million draws, best of {repeats} interleaved repeats")
    print(f"{'':24}{'ms':>8}{'x laplace':>12}{'x normal':>12}{'peak arrays':>14}")
    for name, draw in rows.items():
        spent = best[name]
        print(
            f"{name:24}{1e3 * spent:8.1f}{spent / laplace:12.1f}"
            f"{spent / normal:12.1f}{peak_arrays(draw):14.1f}"
        )


if __name__ == "__main__":
    main()
