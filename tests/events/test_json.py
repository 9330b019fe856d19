"""Events become JSON and come back unchanged; anything else is refused."""

import json
import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from skdp import events

RELATIONS = ("replace", "add_remove")


def singles(neighboring):
    """Return a strategy for every kind of single event under one relation."""
    relation = st.just(neighboring)
    positive = st.floats(min_value=0, exclude_min=True, allow_infinity=False)
    below_one = st.floats(0, 1, exclude_max=True)
    probability = st.floats(0, 1, exclude_min=True)
    return st.one_of(
        st.builds(events.Pure, positive, relation),
        st.builds(events.Approximate, positive, below_one, relation),
        st.builds(events.ZeroConcentrated, positive, relation),
        st.builds(events.BoundedRange, positive, relation),
        st.builds(events.Laplace, positive, relation),
        st.builds(events.Gaussian, positive, relation),
        st.builds(
            events.SampledGaussian,
            positive,
            probability,
            st.integers(1, 10**12),
            relation,
        ),
        st.builds(
            events.ObjectivePerturbation,
            positive,
            st.just(0.0) | positive,
            st.just("softmax"),
            st.integers(2, 10**12),
            st.just(0.0) | positive,
            relation,
        ),
    )


def combine(parts):
    counted = st.lists(st.tuples(parts, st.integers(1, 10**9)), min_size=1, max_size=3)
    return st.one_of(
        counted.map(lambda pairs: events.Composed(*zip(*pairs, strict=True))),
        st.lists(parts, min_size=1, max_size=3).map(events.Parallel),
        st.builds(events.Group, parts, st.integers(1, 1000)),
    )


any_event = st.sampled_from(RELATIONS).flatmap(
    lambda neighboring: st.recursive(singles(neighboring), combine, max_leaves=6)
)

EXAMPLES = [
    events.Pure(0.1),
    events.Pure(0.1, "add_remove"),
    events.Approximate(0.3, 1e-6),
    events.ZeroConcentrated(0.5),
    events.BoundedRange(1 / 3),
    events.Laplace(5e-324),
    events.Gaussian(1.7976931348623157e308),
    events.SampledGaussian(1.0, 0.01, 10_000),
    events.SampledGaussian(1.0, 1.0, 1, "replace"),
    events.ObjectivePerturbation(0.1, 0.5, "softmax", 7, 0.25, "add_remove"),
    events.Composed([events.Pure(0.1), events.Gaussian(2.0)], [3, 1]),
    events.Parallel([events.Pure(0.1), events.Laplace(2.0)]),
    events.Group(events.Pure(0.1), 3),
    events.Group(events.Composed([events.Group(events.Gaussian(2.0), 2)]), 3),
    events.Composed([events.Parallel([events.Composed([events.Pure(0.1)], [7])])]),
]


def test_every_kind_has_an_example():
    kinds = {type(event).__name__ for event in EXAMPLES}
    assert kinds == set(events.__all__) - {"Event", "from_json"}


@pytest.mark.parametrize("event", EXAMPLES, ids=lambda event: type(event).__name__)
def test_round_trip(event):
    text = event.to_json()
    back = events.from_json(text)
    assert back == event
    assert type(back) is type(event)
    assert hash(back) == hash(event)
    assert repr(back) == repr(event)
    assert back.to_json() == text


@settings(deadline=None, max_examples=100)
@given(any_event)
def test_round_trip_of_any_event(event):
    back = events.from_json(event.to_json())
    assert back == event
    assert hash(back) == hash(event)
    assert repr(back) == repr(event)


@pytest.mark.parametrize("event", EXAMPLES, ids=lambda event: type(event).__name__)
def test_json_is_strict_and_plain(event):
    def refuse(constant):
        raise AssertionError(f"{constant} is not JSON")

    assert json.loads(event.to_json(), parse_constant=refuse) == event.to_dict()


def test_bytes_are_accepted():
    assert events.from_json(events.Pure(0.5).to_json().encode()) == events.Pure(0.5)


def test_a_numerical_answer_survives():
    event = events.Composed([events.Pure(0.1), events.Laplace(3.0)], [5, 2])
    back = events.from_json(event.to_json())
    assert back.epsilon(1e-6) == event.epsilon(1e-6)


# --- Refusals


def altered(event, **changes):
    """Return the JSON of an event with some fields replaced, or removed if None."""
    plain = event.to_dict() | changes
    return json.dumps({key: value for key, value in plain.items() if value is not None})


@pytest.mark.parametrize("text", ["", "{", "Pure(1.0)", '{"eps": 1.0'])
def test_what_is_no_json_is_a_value_error(text):
    with pytest.raises(ValueError):
        events.from_json(text)


@pytest.mark.parametrize("text", ["3", "null", '"Pure"', "[]", "true", "{}", "[1, 2]"])
def test_json_that_is_no_event_is_a_value_error(text):
    with pytest.raises(ValueError, match="event"):
        events.from_json(text)


@pytest.mark.parametrize("value", [None, 3, events.Pure(1.0)])
def test_what_is_no_text_is_a_type_error(value):
    with pytest.raises(TypeError):
        events.from_json(value)


@pytest.mark.parametrize("kind", ["Nope", "Event", "pure", "", "__class__", 3, [], {}])
def test_unknown_kinds_are_refused(kind):
    key = next(iter(events.Pure(1.0).to_dict()))  # the kind comes first
    with pytest.raises(ValueError, match="event"):
        events.from_json(json.dumps(events.Pure(1.0).to_dict() | {key: kind}))


@pytest.mark.parametrize("event", EXAMPLES, ids=lambda event: type(event).__name__)
def test_missing_and_extra_fields_are_refused(event):
    plain = event.to_dict()
    for name in list(plain)[1:]:  # the first names the kind
        missing = {key: value for key, value in plain.items() if key != name}
        with pytest.raises(ValueError, match=f"{type(event).__name__}.*fields"):
            events.from_json(json.dumps(missing))
    with pytest.raises(ValueError, match=f"{type(event).__name__}.*fields"):
        events.from_json(json.dumps(plain | {"extra": 1.0}))


@pytest.mark.parametrize("bad", ["0.1", [0.1], {}, True, math.nan, math.inf, -1.0, 0])
def test_ill_typed_numbers_are_refused(bad):
    with pytest.raises((TypeError, ValueError), match=r"'eps'|event"):
        events.from_json(altered(events.Pure(1.0), eps=bad))
    with pytest.raises((TypeError, ValueError), match=r"'steps'|event"):
        events.from_json(altered(events.SampledGaussian(1.0, 0.1), steps=bad))


def test_numbers_that_overflow_are_refused():
    text = events.Pure(1.0).to_json()
    for number in ("1e999", "-1e999", "1" + 400 * "0", "NaN", "Infinity"):
        with pytest.raises(ValueError, match="'eps'"):
            events.from_json(text.replace("1.0", number))


@pytest.mark.parametrize("bad", ["both", 3, ["replace"]])
def test_unknown_neighbours_are_refused(bad):
    with pytest.raises(ValueError, match="'neighboring'"):
        events.from_json(altered(events.Pure(1.0), neighboring=bad))


@pytest.mark.parametrize("bad", [5, "ab", [], [5], events.Pure(1.0).to_dict(), True])
@pytest.mark.parametrize("kind", [events.Composed, events.Parallel])
def test_ill_typed_parts_are_refused(kind, bad):
    with pytest.raises((TypeError, ValueError), match="events"):
        events.from_json(altered(kind([events.Pure(1.0)]), events=bad))


@pytest.mark.parametrize("bad", [5, "1", [0], [1.5], [1, 2], ["1"], [True]])
def test_ill_typed_counts_are_refused(bad):
    with pytest.raises((TypeError, ValueError), match="'counts'"):
        events.from_json(altered(events.Composed([events.Pure(1.0)]), counts=bad))


def test_relations_do_not_mix_in_json():
    event = events.Composed([events.Pure(1.0), events.Pure(1.0)])
    text = event.to_json().replace('"replace"', '"add_remove"', 1)
    with pytest.raises(ValueError, match="neighbour"):
        events.from_json(text)


def test_bad_parts_are_found_at_any_depth():
    inner = events.Composed([events.Parallel([events.Pure(0.25)])])
    text = inner.to_json().replace("0.25", "-0.25")
    with pytest.raises(ValueError, match="'eps'"):
        events.from_json(text)
