"""Random bits for noise: the operating system's, or a seeded stream.

Only :mod:`skdp.noise` turns them into noise.
"""

import multiprocessing
import os
from collections.abc import Callable
from numbers import Integral
from typing import Any

import numpy as np

from skdp.validation import check_integer

__all__ = ["RandomBits", "as_bits"]

_HOME_PROCESS = os.getpid()


def _in_worker() -> bool:
    """Whether this process may hold a copy of another process's generators."""
    return os.getpid() != _HOME_PROCESS or multiprocessing.parent_process() is not None


def _entropy_of(random_state: Any) -> list[int]:
    if isinstance(random_state, Integral) and not isinstance(random_state, bool):
        return [check_integer(random_state, "random_state", low=0)]
    if isinstance(random_state, np.random.Generator):
        words = random_state.integers(0, 2**32, size=8, dtype=np.uint32)
    elif isinstance(random_state, np.random.RandomState):
        words = random_state.randint(0, 2**32, size=8, dtype=np.uint32)
    else:
        raise TypeError(
            "The 'random_state' parameter must be None, an int >= 0, a "
            "numpy.random.Generator or a numpy.random.RandomState. "
            f"Got {type(random_state).__name__}."
        )
    entropy = [int(word) for word in words]
    if _in_worker():  # the same generator may have been sent to other workers
        entropy.append(int.from_bytes(os.urandom(16)))
    return entropy


class RandomBits:
    """A stream of uniform 64-bit words.

    Parameters
    ----------
    random_state : None, int, Generator or RandomState
        None reads ``os.urandom`` at every call, so that no two processes can repeat
        one another. An int gives the same words everywhere. A Generator or
        RandomState is advanced, and its stream is made unique in worker processes,
        which hold copies of it. Recognised are multiprocessing, loky and a fork after
        the import of skdp; a generator sent to other processes by other means repeats
        its words there.
    context : bytes, default=b""
        What the words are for. One seed gives different words in different contexts.

    Attributes
    ----------
    seeded : bool
        Whether the words could be predicted by someone who knows the seed.
    """

    def __init__(self, random_state: Any = None, context: bytes = b"") -> None:
        self.seeded = random_state is not None
        if self.seeded:
            entropy = _entropy_of(random_state)
            if context:
                entropy.append(int.from_bytes(context))
            self._seed(entropy)

    def _seed(self, entropy: list[int]) -> None:
        # The spawn key separates noise from any other use of the same seed, such as
        # shuffling the rows.
        sequence = np.random.SeedSequence(entropy, spawn_key=(0x736B6470,))
        self._stream = np.random.Philox(sequence)
        self._process = os.getpid()

    def words(self, count: int) -> np.ndarray:
        """Return ``count`` uniform words as uint64."""
        if not self.seeded:
            return np.frombuffer(os.urandom(8 * count), dtype=np.uint64)
        if os.getpid() != self._process:  # forked: never repeat the parent's words
            self._seed([int.from_bytes(os.urandom(32))])
        return self._stream.random_raw(count)

    def __reduce__(self) -> tuple[Callable, tuple]:
        return _revive, (self.seeded,)


def _revive(seeded: bool) -> RandomBits:
    """Return a fresh stream for a pickled one: two copies must not repeat words."""
    bits = RandomBits()
    if seeded:
        bits.seeded = True
        bits._seed([int.from_bytes(os.urandom(32))])
    return bits


def as_bits(random_state: Any) -> RandomBits:
    """Return a stream for ``random_state``; one that is a stream already is shared."""
    return (
        random_state
        if isinstance(random_state, RandomBits)
        else RandomBits(random_state)
    )
