"""Decides what to do after a failed attempt.

Pure: a table from (error, situation) to a decision.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import UTC
from email.utils import parsedate_to_datetime
from typing import Final, Literal

from .errors import HighwaterError, SerializationError, state_error
from .tuning import Tuning
from .wire import TransactionStatus


@dataclass(slots=True, kw_only=True)
class Situation:
    attempt: int
    """Number of attempts that failed before this one."""
    remaining_ms: float
    """Time left for all attempts."""
    uncertain: bool
    """Whether an earlier attempt may have been applied; this attempt's error does not show it."""
    elsewhere: bool
    """Whether there is another endpoint that has not failed lately."""
    random: float
    repeatable: bool = False
    """Whether the same request may run again after a conflict."""


@dataclass(frozen=True, slots=True)
class Decision:
    """The decision after a failed attempt.

    ``send``: send the same id and body again. ``resolve``: ask for the state of the id. ``throw``:
    the error is the answer. ``give_up``: the time is over; the error to raise depends on whether an
    attempt may have been applied.
    """

    action: Literal["send", "resolve", "throw", "give_up"]
    delay_ms: float = 0.0


def full_jitter(attempt: int, *, base_ms: float, max_ms: float, random: float) -> float:
    """Returns a "full jitter" delay.

    It is uniform between zero and a limit that doubles with every attempt.
    """
    return random * min(max_ms, base_ms * 2.0 ** min(attempt, 30))


_THROW: Final = Decision("throw")
_GIVE_UP: Final = Decision("give_up")


def is_connection_fault(error: HighwaterError) -> bool:
    """Whether there was no answer, or none from the service."""
    return error.code in {"connection_failed", "request_timeout", "bad_answer"}


def is_endpoint_fault(error: HighwaterError) -> bool:
    """Whether the code concerns the endpoint more than the request.

    Another endpoint may then do better.
    """
    return is_connection_fault(error) or error.code in {"primary_unavailable", "overloaded"}


_SETTLED: Final = frozenset(
    (
        "transaction_aborted",
        "transaction_expired",
        "transaction_lost",
        "promise_broken",
        "id_expired",
        "id_reused",
        "client_closed",
    )
)


def is_settled(error: HighwaterError) -> bool:
    """Whether the error is about the id, not about the attempt."""
    return error.code in _SETTLED


def decide(error: HighwaterError, situation: Situation, tuning: Tuning) -> Decision:
    if situation.repeatable and isinstance(error, SerializationError):
        delay_ms = _delay(error, situation, tuning, base_ms=tuning.conflict_base_ms)
        return _later("send", delay_ms, situation, tuning)
    match error.retry:
        case "never" | "transaction":
            # A resend can fail because of its own first attempt: ask before the caller believes
            # "not applied".
            if not situation.uncertain or is_settled(error):
                return _THROW
            return _later("resolve", 0.0, situation, tuning)
        case "wait":
            at_once = is_endpoint_fault(error) and situation.elsewhere
            return _later("send", 0.0 if at_once else _delay(error, situation, tuning), situation, tuning)
        case "resolve_outcome":
            return _later("resolve", _delay(error, situation, tuning), situation, tuning)


def _delay(error: HighwaterError, situation: Situation, tuning: Tuning, *, base_ms: float | None = None) -> float:
    jitter_ms = full_jitter(
        situation.attempt,
        base_ms=tuning.backoff_base_ms if base_ms is None else base_ms,
        max_ms=tuning.backoff_max_ms,
        random=situation.random,
    )
    # Added to the service's delay, so that clients it sent away together do not return together.
    return (error.retry_after or 0.0) * 1_000 + jitter_ms


def _later(action: Literal["send", "resolve"], delay_ms: float, situation: Situation, tuning: Tuning) -> Decision:
    return _GIVE_UP if delay_ms + tuning.attempt_min_ms > situation.remaining_ms else Decision(action, delay_ms)


@dataclass(frozen=True, slots=True)
class Resolution:
    """What the state of an id means for a failed attempt.

    ``adopt``: the transaction committed, and the state says where. ``ask``: not settled yet.
    ``send``: the id is unknown, so sending it again is its first run or is refused by its receipt.
    ``settle``: the id is unknown, and a resend was refused. ``throw``: settled otherwise; ``error``
    says how.

    After a refused resend, the copy that got no answer may still commit. So the id is settled, and
    no copy can commit any more.
    """

    action: Literal["adopt", "ask", "send", "settle", "throw"]
    error: HighwaterError | None = None


_COMMITTED: Final = frozenset(("committed", "pending", "durable"))


def resolve(status: TransactionStatus, held: HighwaterError | None) -> Resolution:
    """Returns what the state of an id means for a failed attempt.

    ``held`` is a resend's definite error.
    """
    error = state_error(status.id, status.state, status.redo)
    if error is not None:
        return Resolution("throw", error)
    if status.state in _COMMITTED:
        is_known = status.token is not None and status.position is not None
        return Resolution("adopt" if is_known else "ask")
    if status.state == "unknown":
        return Resolution("send" if held is None else "settle")
    return Resolution("ask")


_SECONDS: Final = re.compile(r"\s*\d{1,9}\s*\Z", re.ASCII)


def retry_after(header: str | None, wall_ms: float) -> float | None:
    """Converts a Retry-After header (seconds or an HTTP date) to seconds.

    ``wall_ms`` is milliseconds since 1970.
    """
    if header is None:
        return None
    if _SECONDS.match(header):
        return float(header)
    try:
        date = parsedate_to_datetime(header)
    except ValueError:
        return None
    at = date if date.tzinfo is not None else date.replace(tzinfo=UTC)
    return max(0.0, at.timestamp() - wall_ms / 1_000)
