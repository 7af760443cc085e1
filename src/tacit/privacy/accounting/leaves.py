"""Events taken apart: leaves with their counts, and their JSON form.

dp-accounting is imported on first use: it costs a quarter of a second beyond scikit-learn.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Mapping
from typing import Any, TypeAlias

from tacit.errors import InvalidInput

__all__ = [
    "Event",
    "Leaves",
    "event_from_json",
    "event_to_json",
    "kind",
    "leaves",
    "refuse",
    "repeated",
]

Event: TypeAlias = Any
"""A dp-accounting ``DpEvent``."""
Leaves: TypeAlias = tuple[tuple[Event, int], ...]
"""Distinct releases with how often each happens, in order of first appearance."""

# kind → what the accountants make of it
_KINDS = {
    "NonPrivateDpEvent": "non-private",
    "GaussianDpEvent": "gaussian",
    "EpsilonDeltaDpEvent": "step",
    "LaplaceDpEvent": "laplace",
    "RandomizedResponseDpEvent": "response",
    "PoissonSampledDpEvent": "poisson",
    "SampledWithoutReplacementDpEvent": "fixed-size",
    "ZCDpEvent": "zcdp",
}


def kind(event: Event) -> str:
    """Return what ``event`` is to an accountant; ``"other"`` is left to dp-accounting."""
    return _KINDS.get(type(event).__name__, "other")


def refuse(event: Event, accountant: str, why: str) -> InvalidInput:
    """Return the error for an event that ``accountant`` does not know."""
    return InvalidInput(f"event {event!r}: the {accountant!r} accountant {why}")


def _number(event: Event, field: str, *, least: float = 0.0, most: float = math.inf) -> float:
    value = getattr(event, field)
    if not isinstance(value, (int, float)) or math.isnan(value) or not least <= value <= most:
        raise InvalidInput(
            f"event {event!r}: {field}={value!r} must be a number from {least:g} to {most:g}"
        )
    return float(value)


def _checked(event: Event) -> Event | None:
    """Return ``event`` in its simplest form, or None if it releases nothing."""
    from dp_accounting import dp_event

    match kind(event):
        case "gaussian" | "laplace":
            noise = _number(event, "noise_multiplier")
            if math.isinf(noise):
                return None
            return event if noise > 0 else dp_event.NonPrivateDpEvent()
        case "step":
            epsilon, delta = _number(event, "epsilon"), _number(event, "delta", most=1.0)
            if math.isinf(epsilon) or delta == 1.0:
                return dp_event.NonPrivateDpEvent()
            return event if epsilon > 0 or delta > 0 else None
        case "response":
            return event if _number(event, "noise_parameter", most=1.0) < 1 else None
        case "poisson":
            rate = _number(event, "sampling_probability", most=1.0)
            inner = _checked(event.event)
            if rate == 0 or inner is None:
                return None
            return event if rate < 1 else inner
        case "fixed-size":
            size = _number(event, "sample_size")
            rows = _number(event, "source_dataset_size", least=1)
            inner = _checked(event.event)
            if size == 0 or inner is None:
                return None
            return event if size < rows else inner
        case "zcdp":
            rho, xi = _number(event, "rho"), _number(event, "xi")
            return event if rho > 0 or xi > 0 else None
    return event


def leaves(events: Event | Iterable[Event]) -> Leaves:
    """Take ``events`` apart into single releases, equal ones counted together.

    A release without cost (infinite noise, sampling rate 0) is left out, one without noise becomes
    ``NonPrivateDpEvent``, and a sampled one with rate 1 becomes the release itself.
    """
    from dp_accounting import dp_event

    counts: dict[str, tuple[Event, int]] = {}

    def visit(event: Event, count: int) -> None:
        if isinstance(event, dp_event.ComposedDpEvent):
            for part in event.events:
                visit(part, count)
        elif isinstance(event, dp_event.SelfComposedDpEvent):
            repeats = event.count
            if isinstance(repeats, bool) or int(repeats) != repeats or repeats < 0:
                raise InvalidInput(f"event {event!r}: count={repeats!r} must be a whole number")
            if repeats:
                visit(event.event, count * int(repeats))
        elif not isinstance(event, dp_event.DpEvent):
            raise InvalidInput(
                f"event {event!r}: must be a dp_accounting event, such as mechanism.event"
            )
        elif not isinstance(event, dp_event.NoOpDpEvent):
            simple = _checked(event)
            if simple is not None and simple is not event:
                visit(simple, count)
            elif simple is not None:
                key = event_to_json(simple)
                counts[key] = (simple, counts.get(key, (simple, 0))[1] + count)

    for event in events if isinstance(events, Iterable) else (events,):
        visit(event, 1)
    return tuple(counts.values())


def repeated(parts: Leaves) -> list[Event]:
    """Return ``parts`` as events that carry their counts."""
    from dp_accounting import dp_event

    return [dp_event.SelfComposedDpEvent(event, count) for event, count in parts]


def _encode(value: Any) -> Any:
    import attr

    if attr.has(type(value)):
        fields = {
            field.name: _encode(getattr(value, field.name)) for field in attr.fields(type(value))
        }
        return {"type": type(value).__name__, **fields}
    if isinstance(value, (list, tuple)):
        return [_encode(part) for part in value]
    if isinstance(value, bool) or value is None or isinstance(value, str):
        return value
    return int(value) if isinstance(value, int) else float(value)


def event_to_json(event: Event) -> str:
    """Return ``event`` as canonical JSON: equal events give equal text."""
    return json.dumps(_encode(event), sort_keys=True, separators=(",", ":"))


def _decode(value: Any) -> Any:
    from dp_accounting import dp_event

    from tacit.privacy import events

    if isinstance(value, Mapping):
        name = value.get("type")
        owner = events if name == "EpsilonDeltaDpEvent" else dp_event
        found = getattr(owner, str(name), None)
        if not (isinstance(found, type) and issubclass(found, dp_event.DpEvent)):
            raise InvalidInput(f"event {name!r}: not an event of dp-accounting or tacit")
        return found(**{key: _decode(part) for key, part in value.items() if key != "type"})
    return [_decode(part) for part in value] if isinstance(value, list) else value


def event_from_json(text: str) -> Event:
    """Return the event that `event_to_json` wrote."""
    return _decode(json.loads(text))
