"""What the calls of the user become on the wire: options in, JSON out, in the one encoding that every attempt sends."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final, Protocol, cast
from urllib.parse import urlencode

from .errors import usage_error
from .sql import StatementInput, to_statement
from .wire import WAIT_MS_MAX
from .wire_types import Ack, Isolation, Mode, Param, TransactionRequest
from .wire_types import Statement as WireStatement

#: json.dumps makes one for each call.
_ENCODER: Final = json.JSONEncoder(ensure_ascii=False, separators=(",", ":"))


class HasToken(Protocol):
    @property
    def token(self) -> str: ...


@dataclass(slots=True, kw_only=True)
class ExecutionOptions:
    """How a transaction runs."""

    isolation: Isolation | None = None
    """Default: ``serializable``, or ``repeatable read`` for a read that may run on a replica."""
    read_only: bool | None = None
    deferrable: bool | None = None
    """With ``read_only`` and ``serializable``: waits for a snapshot that no later transaction makes unsafe."""
    max_delay_ms: float | None = None
    """The trackers send an event ``transaction.delayed`` if it is not durable after so long."""
    metadata: Mapping[str, str] | None = None
    """Comes back in webhooks about this transaction."""


@dataclass(slots=True, kw_only=True)
class AckOptions:
    """When a commit is answered."""

    ack: Ack | None = None
    """At the commit point (``commit``, the default) or when durable at the level (``durable``)."""
    level: str | None = None
    """The level that this transaction is about, also for ``durable()`` and ``on_lost()`` afterwards."""
    max_wait_ms: float | None = None
    """For ``ack="durable"``: how long the service waits before it answers ``pending``, which is not a loss.

    Never more than a minute, nor than the call may take. Default: half of the client's request timeout.
    """
    max_delay_ms: float | None = None


@dataclass(slots=True, kw_only=True)
class AckLimits:
    """The client's own times and level, for what the user did not give."""

    level: str
    wait_ms: float
    total_ms: float


def execution_body(options: ExecutionOptions) -> dict[str, object]:
    """What a request takes over from options, without what was not given."""
    metadata = options.metadata
    return _given(
        isolation=options.isolation,
        readOnly=options.read_only,
        deferrable=options.deferrable,
        maxDelayMs=_whole(options.max_delay_ms),
        metadata=None if metadata is None else dict(metadata),
    )


def ack_body(options: AckOptions, limits: AckLimits) -> dict[str, object]:
    delay = _whole(options.max_delay_ms)
    if options.ack != "durable":
        return _given(ack=options.ack, maxDelayMs=delay)
    return _given(ack="durable", level=limits.level, maxWaitMs=granted_wait_ms(options, limits), maxDelayMs=delay)


def granted_wait_ms(options: AckOptions, limits: AckLimits) -> int:
    """How long the service may hold the answer of a safe commit back."""
    total_ms = limits.total_ms
    # Leaves a quarter of the time, at most a second, for the answer to travel in.
    limit_ms = min(WAIT_MS_MAX, total_ms - min(1_000.0, total_ms / 4))
    wanted_ms = limits.wait_ms if options.max_wait_ms is None else options.max_wait_ms
    return max(0, math.floor(min(wanted_ms, limit_ms)))


def statements_body(statements: Sequence[StatementInput]) -> list[WireStatement]:
    bodies: list[WireStatement] = []
    for each in map(to_statement, statements):
        body: WireStatement = {"sql": each.sql}
        if each.params:
            body["params"] = cast("list[Param]", each.params)
        bodies.append(body)
    return bodies


def transaction_body(
    statements: Sequence[StatementInput],
    *,
    transaction_id: str,
    execution: ExecutionOptions,
    ack: AckOptions,
    limits: AckLimits,
    after: str | HasToken | None = None,
    mode: Mode | None = None,
) -> TransactionRequest:
    """The request of a one-shot transaction."""
    body = {
        "id": transaction_id,
        "statements": statements_body(statements),
        **execution_body(execution),
        **ack_body(ack, limits),
        **_given(after=after if after is None or isinstance(after, str) else after.token, mode=mode),
    }
    return cast("TransactionRequest", body)


def status_path(transaction_id: str, *, wait_seconds: int, level: str | None) -> str:
    query = _given(wait=wait_seconds or None, level=level)
    path = f"/v1/transactions/{transaction_id}"
    return f"{path}?{urlencode(query)}" if query else path


def encode(body: Mapping[str, object]) -> bytes:
    """JSON as the wire carries it. Errors: ``invalid_parameter`` for text that is no Unicode."""
    try:
        return _ENCODER.encode(body).encode()
    except UnicodeEncodeError as error:
        raise usage_error("invalid_parameter", "a string contains an unpaired surrogate", error) from error


def _whole(milliseconds: float | None) -> int | None:
    return None if milliseconds is None else math.ceil(milliseconds)


def _given(**fields: object) -> dict[str, object]:
    return {name: value for name, value in fields.items() if value is not None}
