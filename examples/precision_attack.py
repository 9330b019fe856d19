"""An attack on noise in floating point, and why it fails on a grid.

A textbook Laplace mechanism adds ``-b * sign(u) * log(1 - 2|u|)`` to the value. The
sum can reach only some of all floats, and which ones these are depends on the value:
one output is often enough to tell whether the answer was 0 or 1, whatever epsilon says
(Mironov 2012).

Run it: ``python examples/precision_attack.py``
"""

import argparse

import numpy as np

from skdp.mechanisms import Laplace

SCALE = 1.0
NEARBY = np.arange(-8, 9)  # uniform doubles around the one that would give the output


def textbook_noise(uniform: np.ndarray) -> np.ndarray:
    """Laplace noise from uniform doubles k * 2**-53 in (0, 1)."""
    centred = uniform - 0.5
    return -SCALE * np.sign(centred) * np.log(1 - 2 * np.abs(centred))


def could_come_from(value: float, outputs: np.ndarray) -> np.ndarray:
    """Whether some uniform double turns ``value`` into each of the outputs."""
    noise = outputs - value
    tail = 0.5 * np.exp(-np.abs(noise) / SCALE)
    k = np.rint(np.where(noise < 0, tail, 1 - tail) * 2.0**53)
    candidates = (k[:, None] + NEARBY) * 2.0**-53
    candidates = np.clip(candidates, 2.0**-53, 1 - 2.0**-53)
    return (value + textbook_noise(candidates) == outputs[:, None]).any(axis=1)


def betrayed_textbook(n: int, rng: np.random.Generator) -> int:
    """Count outputs for the answer 0 that are impossible for the answer 1."""
    uniform = rng.integers(1, 2**53, size=n) * 2.0**-53
    outputs = 0.0 + textbook_noise(uniform)
    outputs = outputs[np.abs(outputs) < 20]  # the far tail would be unfair to count
    return int((~could_come_from(1.0, outputs)).sum())


def betrayed_on_grid(n: int) -> int:
    """The same for skdp: outputs that are off the grid shared by both answers."""
    mechanism = Laplace(epsilon=1.0, sensitivity=SCALE)
    outputs = np.array([mechanism.release(0.0) for _ in range(n)])
    # Both answers are grid points themselves, so an output that differs from 1 by a
    # whole number of steps is possible for 1 as well. 2**-43 divides every step here.
    steps = (outputs - 1.0) * 2.0**43
    return int((steps != np.rint(steps)).sum())


def main() -> None:
    """Print how many outputs betray their input."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--releases", type=int, default=20_000)
    n = parser.parse_args().releases
    textbook = betrayed_textbook(n, np.random.default_rng(0))
    print(f"{n} releases of the answer 0 with epsilon = 1; is 1 still possible?")
    print(f"  textbook sampler: {textbook:6d} outputs ({textbook / n:.0%}) rule 1 out")
    print(f"  skdp.mechanisms:  {betrayed_on_grid(n):6d} outputs rule 1 out")


if __name__ == "__main__":
    main()
