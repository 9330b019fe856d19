"""What was released: frozen descriptions that know their own privacy.

An event is a value. It answers ``profile(epsilon)`` (the smallest delta known),
``epsilon(delta)``, ``rdp(orders)`` and, where it has one, ``pld()``; it refuses with
:class:`~skdp.exceptions.UnsupportedEventError` what nobody has proved for it. It
serialises to JSON and back, unchanged. A ledger stores events rather than numbers, so
that a tighter rule can read the same ledger again.

Every event names its neighbour relation, and its parameters are relative to the
sensitivity under that relation. Events of different relations do not compose.
"""

from skdp.events._base import Event, from_json
from skdp.events._combined import Composed, Group, Parallel
from skdp.events._objective import ObjectivePerturbation
from skdp.events._single import (
    Approximate,
    BoundedRange,
    Gaussian,
    Laplace,
    Pure,
    SampledGaussian,
    ZeroConcentrated,
)

__all__ = [
    "Approximate",
    "BoundedRange",
    "Composed",
    "Event",
    "Gaussian",
    "Group",
    "Laplace",
    "ObjectivePerturbation",
    "Parallel",
    "Pure",
    "SampledGaussian",
    "ZeroConcentrated",
    "from_json",
]
