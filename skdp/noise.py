"""Exact samplers of discrete noise: the only module of skdp that draws noise.

All samplers return integers, in units of a grid that the caller chooses. Their
distribution is exact: it does not depend on rounding in floating-point arithmetic.
Each random decision "is a uniform number below exp(-gamma)?" is taken in float64
unless the two lie within ``2**-38`` of each other; those rare cases are settled in
exact arithmetic, with as many further random bits as it takes.

Random bits come from ``os.urandom`` unless a seed is asked for. A seeded stream is
reproducible and therefore private only against those who do not know the seed.

References
----------
Canonne, Kamath and Steinke (2020). The discrete Gaussian for differential privacy.
Mironov (2012). On significance of the least significant bits for differential privacy.
"""

import math
from collections.abc import Callable
from fractions import Fraction
from numbers import Integral, Real
from typing import Any

import numpy as np

from skdp.lazy_uniform import (
    LazyUniform,
    is_below_exp,
    is_below_odds,
    is_below_ratio,
)
from skdp.random_bits import RandomBits, as_bits
from skdp.validation import check_float_values, check_integer, check_real

__all__ = [
    "MAX_SCALE",
    "RandomBits",
    "as_bits",
    "bernoulli_exp",
    "bernoulli_odds",
    "categorical",
    "discrete_cauchy",
    "discrete_gaussian",
    "discrete_laplace",
    "gamma_norm",
    "uniform_integers",
]

#: Largest noise scale, in grid units. 2**10 times as much still fits int64, and noise
#: of that size has a probability below exp(-1000).
MAX_SCALE = 2**53

_CHUNK = 2**15  # outputs drawn at a time: the work arrays stay in the cache
_WINDOW = 2.0**-38  # a float64 comparison closer than this is settled exactly
_PIECES = 64  # an exponential variable is a multiple of scale/64 plus a remainder
_FINE_BITS = 45  # bits of a Laplace scale in its own fine units
_CAP = 2**62
_EXACT_TERMS = 2**26  # so many 27-bit integers add up exactly in float64
_SMALLEST_SIGMA = Fraction(1, 2**20)


# --- Exact decisions


def _accept(
    probability: np.ndarray,
    settle: Callable[[LazyUniform, int], bool],
    bits: RandomBits,
) -> np.ndarray:
    """Return independent Bernoulli decisions.

    ``probability`` is a float64 approximation, good to 2**-45 or so; ``settle(u, i)``
    decides exactly whether u lies below the true probability of decision i.
    """
    words = bits.words(probability.size)
    distance = words * 2.0**-64
    distance -= probability
    accept = distance < 0
    for i in np.flatnonzero(np.abs(distance) < _WINDOW):
        accept[i] = settle(LazyUniform(int(words[i]), bits), i)
    return accept


def _accept_exp(
    gamma: np.ndarray, exact: Callable[[int], Fraction], bits: RandomBits
) -> np.ndarray:
    """Return Bernoulli(exp(-gamma)) decisions; ``exact(i)`` is the true exponent."""
    return _accept(np.exp(-gamma), lambda u, i: is_below_exp(u, exact(i)), bits)


def _settle_geometric(uniform: LazyUniform, guess: int) -> int:
    """Return the largest k with U < exp(-k / _PIECES), exactly."""
    k = guess
    while not is_below_exp(uniform, Fraction(k, _PIECES)):
        k -= 1
    while is_below_exp(uniform, Fraction(k + 1, _PIECES)):
        k += 1
    return k


def _geometric(count: int, bits: RandomBits) -> np.ndarray:
    """Return geometric variables, P(K >= k) = exp(-k / _PIECES)."""
    words = bits.words(count)
    uniform = np.maximum(words, np.uint64(1)) * 2.0**-64
    position = np.log(uniform)
    position *= -_PIECES
    pieces = np.floor(position)
    # |dposition| = _PIECES * du / u: a threshold within _WINDOW of the uniform number.
    gap = np.abs(position - np.rint(position))
    for i in np.flatnonzero(gap * uniform < _PIECES * _WINDOW):
        lazy = LazyUniform(int(words[i]), bits)
        pieces[i] = _settle_geometric(lazy, int(pieces[i]))
    return pieces.astype(np.int64)


def _uniform(bound: int, count: int, bits: RandomBits) -> np.ndarray:
    """Return exact uniform integers in [0, bound) for 1 <= bound <= 2**63."""
    words = bits.words(count)
    limit = 2**64 - 2**64 % bound
    if limit < 2**64:
        rejected = np.flatnonzero(words >= np.uint64(limit))
        if rejected.size:
            words = words.copy()
        while rejected.size:
            words[rejected] = bits.words(rejected.size)
            rejected = rejected[words[rejected] >= np.uint64(limit)]
    return (words % np.uint64(bound)).astype(np.int64)


def _uniform_below(bound: int, bits: RandomBits) -> int:
    """Return an exact uniform integer in [0, bound) for a bound of any size."""
    words = -(-bound.bit_length() // 64)
    spare = 64 * words - bound.bit_length()
    while True:
        value = int.from_bytes(bits.words(words).tobytes(), "little") >> spare
        if value < bound:
            return value


def _class_totals(mantissa: np.ndarray, group: np.ndarray) -> list[int]:
    """Return the exact sum of the 53-bit integers of each group 0, 1, ..."""
    totals = [0] * (int(group.max()) + 1)
    for start in range(0, mantissa.size, _EXACT_TERMS):
        part = slice(start, start + _EXACT_TERMS)
        high = np.bincount(group[part], weights=mantissa[part] >> 27)
        low = np.bincount(group[part], weights=mantissa[part] & (2**27 - 1))
        for i in np.flatnonzero(high):
            totals[i] += (int(high[i]) << 27) + int(low[i])
    return totals


def _signs(count: int, bits: RandomBits) -> np.ndarray:
    """Return fair coin flips as booleans."""
    words = bits.words(-(-count // 64))
    return np.unpackbits(words.view(np.uint8))[:count].astype(bool)


def _accept_far(ring: int, scale: int, exponent: int, bits: RandomBits) -> bool:
    """Decide, in integers of any size, on a value that int64 cannot hold."""
    low_bits = 0
    for _ in range(ring - 1):
        low_bits = 2 * low_bits + int(_uniform(2, 1, bits)[0])
    value = ((scale + int(_uniform(scale, 1, bits)[0])) << (ring - 1)) + low_bits
    top = Fraction(1, 2 ** (exponent * (ring - 1)))
    ratio = 1 / (top + top * Fraction(value, scale) ** exponent)
    return is_below_ratio(LazyUniform(int(bits.words(1)[0]), bits), ratio)


# --- Chunked samplers


def _check_shape(size: Any) -> tuple[int, ...]:
    if size is None:
        return ()
    sizes = size if isinstance(size, (tuple, list)) else (size,)
    return tuple(check_integer(length, "size", low=0) for length in sizes)


def _filled(
    draw: Callable[[int, RandomBits], np.ndarray], size: Any, random_state: Any
) -> Any:
    """Fill an array from ``draw(count, bits)``, which may return fewer values.

    ``draw`` is called until enough values have been accepted, on cache-sized chunks.
    """
    bits = as_bits(random_state)
    shape = _check_shape(size)
    out = np.empty(math.prod(shape), dtype=np.int64)
    filled = 0
    while filled < out.size:
        wanted = min(out.size - filled, _CHUNK)
        values = draw(wanted, bits)[:wanted]
        out[filled : filled + values.size] = values
        filled += values.size
    return int(out[0]) if size is None else out.reshape(shape)


def _check_scale(scale: Any, name: str) -> Fraction:
    if isinstance(scale, (bool, np.bool_)) or not isinstance(scale, Real):
        raise TypeError(f"The {name!r} parameter must be a number. Got {scale!r}.")
    if not isinstance(scale, (int, Fraction)):  # also numpy's own integers
        scale = int(scale) if isinstance(scale, Integral) else float(scale)
    exact = Fraction(scale) if math.isfinite(scale) else Fraction(-1)
    if not 0 < exact <= MAX_SCALE:
        raise ValueError(
            f"The {name!r} parameter must be in the range (0, 2**53]. Got {scale!r}."
        )
    return exact


class _LaplaceSampler:
    """Discrete exponential and Laplace variables of scale ``fine / 2**shift``."""

    def __init__(self, scale: Fraction) -> None:
        bits = scale.numerator.bit_length() - scale.denominator.bit_length()
        self.shift = min(max(_FINE_BITS - bits, 0), 62)
        self.piece = math.ceil(scale * 2**self.shift / _PIECES)
        self.fine = self.piece * _PIECES
        self.scale = Fraction(self.fine, 2**self.shift)

    def exponential(self, count: int, bits: RandomBits) -> np.ndarray:
        """Return up to ``count`` magnitudes, P(X >= k) = exp(-k / scale)."""
        remainder = _uniform(self.piece, count, bits)
        keep = _accept_exp(
            remainder * (1.0 / self.fine),
            lambda i: Fraction(int(remainder[i]), self.fine),
            bits,
        )
        remainder = remainder[keep]
        remainder += self.piece * _geometric(remainder.size, bits)
        remainder >>= self.shift
        return remainder

    def laplace(self, count: int, bits: RandomBits) -> np.ndarray:
        """Return up to ``count`` values, P(X = k) proportional to exp(-|k|/scale)."""
        noise = self.exponential(count + count // 50 + 4, bits)
        negative = _signs(noise.size, bits)
        twice_zero = negative & (noise == 0)
        np.negative(noise, where=negative, out=noise)
        return noise[~twice_zero] if twice_zero.any() else noise


# --- Public samplers


def uniform_integers(bound: int, size: Any = None, random_state: Any = None) -> Any:
    """Draw uniform integers in [0, bound).

    Parameters
    ----------
    bound : int
        Number of values, between 1 and 2**63.
    size : None, int or tuple of int
        Shape of the result; None gives one int.
    random_state : None, int, Generator, RandomState or RandomBits
        Source of the random bits.

    Examples
    --------
    >>> from skdp.noise import uniform_integers
    >>> uniform_integers(1)
    0
    """
    bound = check_integer(bound, "bound", low=1, high=2**63)
    return _filled(lambda n, bits: _uniform(bound, n, bits), size, random_state)


def bernoulli_exp(gamma: Any, divisor: int = 1, random_state: Any = None) -> Any:
    """Draw exact Bernoulli(exp(-gamma/divisor)) variables.

    Parameters
    ----------
    gamma : number or array of numbers
        Finite floats or int64 >= 0, taken as the exact numbers that they are.
    divisor : int
        Common divisor of the exponents.
    random_state : None, int, Generator, RandomState or RandomBits
        Source of the random bits.

    Returns
    -------
    bool or array of bool

    Examples
    --------
    >>> from skdp.noise import bernoulli_exp
    >>> bernoulli_exp(0.0)
    True
    """
    exponents = np.asarray(gamma)
    divisor = check_integer(divisor, "divisor", low=1, high=2**1000)
    if exponents.dtype.kind not in "iuf" or exponents.dtype.itemsize > 8:
        raise TypeError("The 'gamma' parameter must be numbers >= 0.")
    if not (np.isfinite(exponents).all() and (exponents >= 0).all()):
        raise ValueError("The 'gamma' parameter must be finite numbers >= 0.")
    flat = exponents.ravel()
    accept = _accept_exp(
        flat.astype(np.float64) / float(divisor),
        lambda i: Fraction(flat[i].item()) / divisor,
        as_bits(random_state),
    )
    return bool(accept[0]) if exponents.ndim == 0 else accept.reshape(exponents.shape)


def bernoulli_odds(
    weight: int, gamma: float, size: Any = None, random_state: Any = None
) -> Any:
    """Draw exact Bernoulli variables with odds ``weight * exp(-gamma)`` to one.

    Parameters
    ----------
    weight : int
        Factor >= 1 of the odds.
    gamma : float
        Finite exponent >= 0.
    size : None, int or tuple of int
        Shape of the result; None gives one int.
    random_state : None, int, Generator, RandomState or RandomBits
        Source of the random bits.

    Returns
    -------
    int or array of int64
        Ones and zeros.

    Examples
    --------
    >>> from skdp.noise import bernoulli_odds
    >>> int(bernoulli_odds(1, 1.0, size=10).max()) <= 1
    True
    """
    weight = check_integer(weight, "weight", low=1, high=2**63)
    gamma = check_real(gamma, "gamma", low=0, closed="left")
    exact, odds = Fraction(gamma), weight * math.exp(-gamma)

    def settle(uniform: LazyUniform, i: int) -> bool:
        return is_below_odds(uniform, weight, exact)

    def draw(count: int, bits: RandomBits) -> np.ndarray:
        probability = np.full(count, odds / (1 + odds))
        return _accept(probability, settle, bits).astype(np.int64)

    return _filled(draw, size, random_state)


def categorical(weights: Any, random_state: Any = None) -> int:
    """Draw an index i with probability exactly ``weights[i] / sum(weights)``.

    The weights are taken as the exact numbers that they are, and neither their sum nor
    a small one among large ones is rounded.

    Parameters
    ----------
    weights : array of float64 of shape (n,)
        Finite numbers >= 0, not all 0.
    random_state : None, int, Generator, RandomState or RandomBits
        Source of the random bits.

    Returns
    -------
    int

    Examples
    --------
    >>> from skdp.noise import categorical
    >>> categorical([0.0, 2.5, 0.0])
    1
    """
    values = check_float_values(weights, "weights")
    if values.ndim != 1 or not ((values >= 0).all() and values.any()):
        raise ValueError(
            "The 'weights' parameter must be a vector of numbers >= 0, not all 0."
        )
    bits = as_bits(random_state)
    where = np.flatnonzero(values)
    fraction, exponent = np.frexp(values[where])
    mantissa = np.ldexp(fraction, 53).astype(np.int64)  # in [2**52, 2**53)
    group = exponent - exponent.min()
    totals = _class_totals(mantissa, group)
    totals = {i: total << i for i, total in enumerate(totals) if total}
    rest = _uniform_below(sum(totals.values()), bits)
    for i, total in totals.items():
        chosen = i
        if rest < total:
            break
        rest -= total
    members = np.flatnonzero(group == chosen)
    while True:  # a uniform proposal, accepted with probability mantissa/2**53
        i = members[_uniform(members.size, 1, bits)[0]]
        if int(bits.words(1)[0]) >> 11 < mantissa[i]:
            return int(where[i])


def discrete_laplace(scale: Any, size: Any = None, random_state: Any = None) -> Any:
    """Draw discrete Laplace noise, P(X = k) proportional to ``exp(-|k|/scale)``.

    Parameters
    ----------
    scale : int, float or Fraction
        Scale in grid units, at most 2**53. It is rounded up to a dyadic number, by a
        relative 2**-38 at most (for scales below 2**-17 to a multiple of 2**-56).
    size : None, int or tuple of int
        Shape of the result; None gives one int.
    random_state : None, int, Generator, RandomState or RandomBits
        Source of the random bits.

    Returns
    -------
    int or array of int64

    Examples
    --------
    >>> from skdp.noise import discrete_laplace
    >>> discrete_laplace(3.0, size=4, random_state=0).shape
    (4,)
    """
    return _filled(
        _LaplaceSampler(_check_scale(scale, "scale")).laplace, size, random_state
    )


def discrete_gaussian(sigma: Any, size: Any = None, random_state: Any = None) -> Any:
    """Draw discrete Gaussian noise, ``P(X = k) ~ exp(-k^2/(2 sigma^2))``.

    Parameters
    ----------
    sigma : int, float or Fraction
        Scale in grid units, at most 2**53, taken as the exact number that it is (and
        as 2**-20 where it is smaller: the noise is 0 but for one in exp(2**39) cases).
    size : None, int or tuple of int
        Shape of the result; None gives one int.
    random_state : None, int, Generator, RandomState or RandomBits
        Source of the random bits.

    Returns
    -------
    int or array of int64

    Examples
    --------
    >>> from skdp.noise import discrete_gaussian
    >>> discrete_gaussian(3.0, size=(2, 2), random_state=0).shape
    (2, 2)
    """
    sigma = max(_check_scale(sigma, "sigma"), _SMALLEST_SIGMA)
    variance = sigma**2
    proposal = _LaplaceSampler(max(sigma, Fraction(1, 2)))
    centre = variance / proposal.scale
    inverse, offset = float(1 / sigma), float(centre / sigma)

    def draw(count: int, bits: RandomBits) -> np.ndarray:
        noise = proposal.laplace(count + count // 2 + 4, bits)
        gamma = np.abs(noise) * inverse
        gamma -= offset
        np.square(gamma, out=gamma)
        gamma *= 0.5
        keep = _accept_exp(
            gamma, lambda i: (abs(int(noise[i])) - centre) ** 2 / (2 * variance), bits
        )
        return noise[keep]

    return _filled(draw, size, random_state)


def discrete_cauchy(
    scale: int, exponent: int = 4, size: Any = None, random_state: Any = None
) -> Any:
    """Draw Cauchy-like noise, ``P(X = k) ~ 1/(1 + |k/scale|^exponent)``.

    Values beyond +-2**62 are returned as +-2**62: clamp the release to public bounds
    well inside.

    Parameters
    ----------
    scale : int
        Scale in grid units, between 1 and 2**53.
    exponent : int
        Tail exponent between 2 (Cauchy, no mean) and 16.
    size : None, int or tuple of int
        Shape of the result; None gives one int.
    random_state : None, int, Generator, RandomState or RandomBits
        Source of the random bits.

    Returns
    -------
    int or array of int64

    Examples
    --------
    >>> from skdp.noise import discrete_cauchy
    >>> discrete_cauchy(2**20, size=3, random_state=0).shape
    (3,)
    """
    scale = check_integer(scale, "scale", low=1, high=MAX_SCALE)
    exponent = check_integer(exponent, "exponent", low=2, high=16)

    ratio = 2 ** (exponent - 1)
    far = 62 - scale.bit_length()  # rings beyond do not fit int64

    def draw(count: int, bits: RandomBits) -> np.ndarray:
        # Ring 0 is |k| < scale, ring j is 2^(j-1) scale <= |k| < 2^j scale. Their
        # masses under the envelope are 1, 1, r, r^2, ... with r = 1/ratio.
        ring = (_uniform(2 * ratio - 1, count, bits) >= ratio - 1).astype(np.int64)
        rising = np.flatnonzero(ring)
        while rising.size:
            rising = rising[_uniform(ratio, rising.size, bits) == 0]
            ring[rising] += 1
        shift = np.clip(ring - 1, 0, far)
        noise = _uniform(scale, count, bits) + np.where(ring > 0, scale, 0)
        low_bits = bits.words(count) & (
            (np.uint64(1) << shift.astype(np.uint64)) - np.uint64(1)
        )
        noise = (noise << shift) | low_bits.astype(np.int64)
        envelope = np.exp2(-exponent * shift.astype(float))

        def settle(uniform: LazyUniform, i: int) -> bool:
            top = Fraction(1, 2 ** (exponent * int(shift[i])))
            tail = Fraction(int(noise[i]), scale) ** exponent
            return is_below_ratio(uniform, 1 / (top + top * tail))

        probability = 1.0 / (envelope + envelope * (noise * (1.0 / scale)) ** exponent)
        keep = _accept(probability, settle, bits)
        for i in np.flatnonzero(ring - 1 > far):
            keep[i] = _accept_far(int(ring[i]), scale, exponent, bits)
            noise[i] = _CAP
        np.minimum(noise, _CAP, out=noise)
        negative = _signs(count, bits)
        keep &= ~(negative & (noise == 0))
        np.negative(noise, where=negative, out=noise)
        return noise[keep]

    return _filled(draw, size, random_state)


def gamma_norm(
    scale: float, n_features: int, size: int | None = None, random_state: Any = None
) -> np.ndarray:
    """Draw vectors whose density is proportional to ``exp(-|z|/scale)``.

    The direction is uniform and the norm is Gamma(n_features, scale). Both are computed
    in float64 from exact discrete variables and the vector is rounded to the grid: its
    distribution is the stated one up to the rounding of float64 and a norm on a grid of
    2**-45 scales, not exactly: keep ``scale`` below 2**30 or so. See the theory section
    of the documentation on what that means.

    Parameters
    ----------
    scale : float
        Scale in grid units, between 1 and 2**40.
    n_features : int
        Length of a vector.
    size : None or int
        Number of vectors; None gives one vector.
    random_state : None, int, Generator, RandomState or RandomBits
        Source of the random bits.

    Returns
    -------
    array of int64, of shape (n_features,) or (size, n_features)

    Examples
    --------
    >>> from skdp.noise import gamma_norm
    >>> gamma_norm(2.0**20, 3, size=2, random_state=0).shape
    (2, 3)
    """
    scale = check_real(scale, "scale", low=1, high=2**40, closed="both")
    shape = (
        1 if size is None else check_integer(size, "size", low=0),
        check_integer(n_features, "n_features", low=1),
    )
    bits = as_bits(random_state)
    unit = 2.0**_FINE_BITS
    exponential = _LaplaceSampler(Fraction(2**_FINE_BITS)).exponential
    norms = _filled(exponential, shape, bits).sum(axis=1, dtype=float) / unit
    directions = discrete_gaussian(2**_FINE_BITS, shape, bits) / unit
    while not (nonzero := directions.any(axis=1)).all():
        again = (int((~nonzero).sum()), shape[1])
        directions[~nonzero] = discrete_gaussian(2**_FINE_BITS, again, bits) / unit
    directions /= np.linalg.norm(directions, axis=1, keepdims=True)
    noise = np.rint(directions * (scale * norms)[:, None]).astype(np.int64)
    return noise[0] if size is None else noise
