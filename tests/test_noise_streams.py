"""Where random bits come from, and that no two processes share them.

Words are 64 random bits: two of the few thousand drawn here are equal by chance with
probability below 1e-12; values of noise, of 54 bits, below 1e-9.
"""

import copy
import multiprocessing
import os
import pickle
import sys
import warnings
from concurrent.futures import ProcessPoolExecutor

import numpy as np
import pytest
from joblib import Parallel, delayed

from skdp.noise import RandomBits, discrete_gaussian, discrete_laplace, gamma_norm

SCALE = 2.0**52
needs_fork = pytest.mark.skipif(not hasattr(os, "fork"), reason="needs os.fork")


def noise_of(random_state):
    return discrete_laplace(SCALE, 40, random_state)


def assert_disjoint(*samples):
    """No value occurs twice, within a sample or in two of them."""
    values = np.concatenate([np.asarray(sample).ravel() for sample in samples])
    assert np.unique(values).size == values.size


def in_fork(function):
    """Run a function in a forked child and return its result."""
    reader, writer = os.pipe()
    with warnings.catch_warnings():
        # Python 3.12 warns about threads: BLAS may have some, the child uses none.
        warnings.simplefilter("ignore", DeprecationWarning)
        child = os.fork()
    if child == 0:
        try:
            os.write(writer, pickle.dumps(function()))
        finally:
            os._exit(0)
    os.close(writer)
    with os.fdopen(reader, "rb") as pipe:
        answer = pipe.read()
    os.waitpid(child, 0)
    return pickle.loads(answer)


# --- One process


def test_default_is_the_operating_system(monkeypatch):
    bits = RandomBits()
    assert bits.seeded is False
    assert_disjoint(bits.words(50), bits.words(50), RandomBits(None).words(50))
    assert_disjoint(noise_of(None), noise_of(None))
    monkeypatch.setattr(os, "urandom", lambda n: bytes(range(1, 9)) * (n // 8))
    expected = np.frombuffer(bytes(range(1, 9)), dtype=np.uint64)[0]
    assert (bits.words(3) == expected).all()


@pytest.mark.parametrize("seed", [0, 1, 12345, 2**40, 2**200, np.int64(7)])
def test_int_seed_is_reproducible(seed):
    bits = RandomBits(seed)
    assert bits.seeded is True
    first = bits.words(50)
    np.testing.assert_array_equal(RandomBits(seed).words(50), first)
    assert_disjoint(first, bits.words(50), RandomBits(seed + 1).words(50))
    np.testing.assert_array_equal(noise_of(seed), noise_of(seed))


def test_numpy_and_python_ints_are_the_same_seed():
    np.testing.assert_array_equal(noise_of(7), noise_of(np.int64(7)))


@pytest.mark.parametrize("draw", [discrete_laplace, discrete_gaussian])
def test_a_stream_is_shared_by_calls(draw):
    bits = RandomBits(3)
    assert_disjoint(draw(SCALE, 20, bits), draw(SCALE, 20, bits))


@pytest.mark.parametrize("make", [np.random.default_rng, np.random.RandomState])
def test_generator_is_advanced_and_reproducible(make):
    source, twin = make(5), make(5)
    first, second = noise_of(source), noise_of(source)
    assert_disjoint(first, second)
    np.testing.assert_array_equal(noise_of(twin), first)
    np.testing.assert_array_equal(noise_of(twin), second)
    assert RandomBits(source).seeded is True
    vectors = gamma_norm(2.0**39, 3, 5, make(5))
    np.testing.assert_array_equal(gamma_norm(2.0**39, 3, 5, make(5)), vectors)


@pytest.mark.parametrize("seed", [0, 42])
def test_noise_is_not_the_stream_that_shuffles_data(seed):
    words = RandomBits(seed).words(1000)
    assert_disjoint(
        words,
        np.random.default_rng(seed).integers(0, 2**64, 1000, dtype=np.uint64),
        np.random.RandomState(seed).randint(0, 2**64, 1000, dtype=np.uint64),
        np.random.Philox(seed).random_raw(1000),
        np.random.Philox(key=seed).random_raw(1000),
    )


def test_noise_is_not_the_rest_of_a_generators_stream():
    source = np.random.default_rng(9)
    assert_disjoint(
        np.random.default_rng(9).integers(0, 2**64, 1000, dtype=np.uint64),
        RandomBits(source).words(1000),
    )


@pytest.mark.parametrize(
    "random_state",
    [True, False, np.True_, 1.5, "0", b"0", [1], (1, 2), np.random, object()],
    ids=repr,
)
def test_wrong_kind_of_random_state(random_state):
    with pytest.raises(TypeError, match="'random_state'"):
        RandomBits(random_state)
    with pytest.raises(TypeError, match="'random_state'"):
        noise_of(random_state)


@pytest.mark.parametrize("random_state", [-1, np.int64(-3), -(2**70)])
def test_negative_seed(random_state):
    with pytest.raises(ValueError, match="'random_state'"):
        noise_of(random_state)


def test_words_have_the_right_form():
    for bits in (RandomBits(), RandomBits(0)):
        for count in (0, 1, 5):
            words = bits.words(count)
            assert words.shape == (count,) and words.dtype == np.uint64


# --- Copies


@pytest.mark.parametrize("seed", [None, 0])
def test_pickled_copies_do_not_repeat_each_other(seed):
    bits = RandomBits(seed)
    text = pickle.dumps(bits)
    first, second, third = pickle.loads(text), pickle.loads(text), copy.deepcopy(bits)
    assert first.seeded is second.seeded is third.seeded is bits.seeded
    assert_disjoint(*(one.words(50) for one in (bits, first, second, third)))


@pytest.mark.parametrize("seed", [0, 2**70])
def test_a_pickle_does_not_hold_the_seed(seed):
    # Copies of one stream, pickled at the same point, hold nothing that repeats it.
    assert pickle.dumps(RandomBits(seed)) == pickle.dumps(RandomBits(1))


# --- Processes


@needs_fork
@pytest.mark.parametrize("seed", [None, 0])
def test_forked_stream_does_not_repeat_its_parent(seed):
    bits = RandomBits(seed)
    before = bits.words(50)
    children = [in_fork(lambda: bits.words(50)) for _ in range(2)]
    grandchild = in_fork(lambda: in_fork(lambda: bits.words(50)))
    assert_disjoint(before, *children, grandchild, bits.words(500))


@needs_fork
def test_fork_leaves_the_parent_reproducible():
    bits, twin = RandomBits(0), RandomBits(0)
    bits.words(5), twin.words(5)
    in_fork(lambda: bits.words(5))
    np.testing.assert_array_equal(bits.words(5), twin.words(5))


@needs_fork
@pytest.mark.parametrize("make", [np.random.default_rng, np.random.RandomState])
def test_forked_generator_does_not_repeat_its_parent(make):
    source = make(0)
    children = [in_fork(lambda: noise_of(source)) for _ in range(2)]
    assert_disjoint(*children, noise_of(source))


@needs_fork
def test_int_seed_is_the_same_after_fork():
    np.testing.assert_array_equal(in_fork(lambda: noise_of(3)), noise_of(3))


def arguments():
    """What to send to workers: twice each, and the noise at home."""
    made = [np.random.default_rng(0), np.random.RandomState(0), RandomBits(0)]
    return [(SCALE, 40, source) for source in made for _ in range(2)]


def assert_workers_differ(answers):
    assert_disjoint(*answers, *(noise_of(source) for *_, source in arguments()[::2]))


def test_copies_sent_to_spawned_workers_differ():
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(2, mp_context=context) as pool:
        answers = pool.map(discrete_laplace, *zip(*arguments(), strict=True))
        assert_workers_differ(list(answers))
        same = pool.submit(discrete_laplace, SCALE, 40, 3).result()
    np.testing.assert_array_equal(same, noise_of(3))


def test_copies_sent_to_joblib_workers_differ():
    jobs = [
        delayed(discrete_laplace)(*given) for given in [*arguments(), (SCALE, 9, 3)]
    ]
    *answers, same = Parallel(n_jobs=2, backend="loky")(jobs)
    assert_workers_differ(answers)
    np.testing.assert_array_equal(same, discrete_laplace(SCALE, 9, 3))


@pytest.mark.skipif(sys.platform == "win32", reason="needs fork")
def test_copies_in_a_forked_pool_differ():
    context = multiprocessing.get_context("fork")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        with ProcessPoolExecutor(2, mp_context=context) as pool:
            answers = pool.map(discrete_laplace, *zip(*arguments(), strict=True))
            assert_workers_differ(list(answers))
