"""What to do after a failed attempt. Pure: a table of (error, situation) -> decision, and nothing else."""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import UTC
from email.utils import parsedate_to_datetime
from typing import Final, Literal

from .errors import HighwaterError, state_error
from .tuning import Tuning
from .wire import TransactionStatus


@dataclass(slots=True, kw_only=True)
class Situation:
    attempt: int
    """Attempts that have failed before this one."""
    remaining_ms: float
    """Time that is left for all attempts together."""
    uncertain: bool
    """An earlier attempt may have been applied: an error of this one says nothing about that one."""
    elsewhere: bool
    """Another endpoint is there that has not failed lately."""
    random: float


@dataclass(frozen=True, slots=True)
class Decision:
    """``send``: the same id and body again. ``resolve``: ask what became of the id. ``throw``: the error is the answer.

    ``give_up``: the time is over; what is raised depends on whether an attempt may have been applied.
    """

    action: Literal["send", "resolve", "throw", "give_up"]
    delay_ms: float = 0.0


def full_jitter(attempt: int, *, base_ms: float, max_ms: float, random: float) -> float:
    """A delay drawn evenly from zero to a limit that doubles with every attempt: "full jitter"."""
    return random * min(max_ms, base_ms * 2.0 ** min(attempt, 30))


_THROW: Final = Decision("throw")
_GIVE_UP: Final = Decision("give_up")


def is_connection_fault(error: HighwaterError) -> bool:
    """No answer, or none of the service."""
    return error.code in {"connection_failed", "request_timeout", "bad_answer"}


def is_endpoint_fault(error: HighwaterError) -> bool:
    """Codes that say more about the endpoint than about the request: another one may do better."""
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
    """Errors that are about the id, not about the attempt."""
    return error.code in _SETTLED


def decide(error: HighwaterError, situation: Situation, tuning: Tuning) -> Decision:
    match error.retry:
        case "never" | "transaction":
            # A resend can fail on what its own first attempt did: ask before the caller believes "not applied".
            if not situation.uncertain or is_settled(error):
                return _THROW
            return _later("resolve", 0.0, situation, tuning)
        case "wait":
            at_once = is_endpoint_fault(error) and situation.elsewhere
            return _later("send", 0.0 if at_once else _delay(error, situation, tuning), situation, tuning)
        case "resolve_outcome":
            return _later("resolve", _delay(error, situation, tuning), situation, tuning)


def _delay(error: HighwaterError, situation: Situation, tuning: Tuning) -> float:
    jitter_ms = full_jitter(
        situation.attempt, base_ms=tuning.backoff_base_ms, max_ms=tuning.backoff_max_ms, random=situation.random
    )
    # On top of the service's own wish, so that those whom it sent away together do not come back together.
    return (error.retry_after_ms or 0.0) + jitter_ms


def _later(action: Literal["send", "resolve"], delay_ms: float, situation: Situation, tuning: Tuning) -> Decision:
    return _GIVE_UP if delay_ms + tuning.attempt_min_ms > situation.remaining_ms else Decision(action, delay_ms)


@dataclass(frozen=True, slots=True)
class Resolution:
    """``adopt``: the transaction committed and the state says where. ``ask``: not settled yet.

    ``send``: the id is unknown, so sending it again is its first run or is refused by its receipt.
    ``throw``: settled otherwise; ``error`` says how.

    A conflict of a resend is sent again as well: the copy that was never answered may still be on its way and commit,
    and a client that gets a conflict runs the whole body again under a new id. A copy that commits meanwhile refuses
    the resend.
    """

    action: Literal["adopt", "ask", "send", "throw"]
    error: HighwaterError | None = None


_COMMITTED: Final = frozenset(("committed", "pending", "durable"))


def resolve(status: TransactionStatus, held: HighwaterError | None) -> Resolution:
    """What the state of an id means for a transaction whose attempt failed; ``held``: a resend's definite error."""
    error = state_error(status.id, status.state)
    if error is not None:
        return Resolution("throw", error)
    if status.state in _COMMITTED:
        is_known = status.token is not None and status.position is not None
        return Resolution("adopt" if is_known else "ask")
    if status.state == "unknown":
        if held is None or held.retry == "transaction":
            return Resolution("send")
        return Resolution("throw", held)
    return Resolution("ask")


_SECONDS: Final = re.compile(r"\s*\d{1,9}\s*\Z", re.ASCII)


def retry_after_ms(header: str | None, wall_ms: float) -> float | None:
    """A Retry-After header in milliseconds: seconds, or an HTTP date. ``wall_ms``: since 1970."""
    if header is None:
        return None
    if _SECONDS.match(header):
        return float(header) * 1_000
    try:
        date = parsedate_to_datetime(header)
    except ValueError:
        return None
    at = date if date.tzinfo is not None else date.replace(tzinfo=UTC)
    return max(0.0, at.timestamp() * 1_000 - wall_ms)
