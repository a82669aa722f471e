"""Turns the user's calls into requests: options in, JSON out, in one encoding for all attempts."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final, Literal, Protocol, TypeAlias, cast
from urllib.parse import urlencode

from .errors import usage_error
from .sql import StatementInput, to_statement
from .wire import WAIT_MS_MAX
from .wire_types import Ack, Isolation, Mode, Param, Reads, TransactionRequest, ValueAtRisk
from .wire_types import Statement as WireStatement

OnTimeout: TypeAlias = Literal["error", "pending"]
"""What ends a wait without durability."""

#: json.dumps makes a new one for each call.
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
    """Whether to wait for a snapshot that no later transaction makes unsafe.

    For ``read_only`` and ``serializable``.
    """
    max_delay_ms: float | None = None
    """Time after which the trackers send ``transaction.delayed`` if it is not durable."""
    metadata: Mapping[str, str] | None = None
    """Metadata for webhooks about this transaction."""
    keep: bool | None = None
    """Whether trackers keep the contents."""
    on_lost: Literal["replay"] | None = None
    """Who redoes it if it is lost: the service."""
    at_risk: ValueAtRisk | None = None
    """What the application loses with it: an amount and its unit."""


@dataclass(slots=True, kw_only=True)
class AckOptions:
    """When a commit returns."""

    ack: Ack | None = None
    """``commit`` (default) returns at the commit point, ``durable`` when durable at the level."""
    level: str | None = None
    """The transaction's level, also for later ``durable()`` and ``on_lost()``."""
    max_wait_ms: float | None = None
    """With ``ack="durable"``: how long to wait after the commit.

    At most a minute, and less than the time limit of the call.
    """
    on_timeout: OnTimeout | None = None
    """With ``ack="durable"``: what ends a wait without durability. Default: ``error``."""
    max_delay_ms: float | None = None

    def wait_ms(self, left_ms: float) -> float | None:
        """How long to wait for durability once the service has answered; None for no wait.

        A wait with a time of its own is over then.
        """
        if self.ack != "durable" or self.on_timeout == "pending":
            return None
        return left_ms if self.max_wait_ms is None else 0.0


@dataclass(slots=True, kw_only=True)
class AckLimits:
    """The client's own times and level, as defaults."""

    level: str
    wait_ms: float
    total_ms: float


def execution_body(options: ExecutionOptions) -> dict[str, object]:
    """Returns a request's fields for the options that are set."""
    metadata = options.metadata
    return _given(
        isolation=options.isolation,
        readOnly=options.read_only,
        deferrable=options.deferrable,
        maxDelayMs=_whole(options.max_delay_ms),
        metadata=None if metadata is None else dict(metadata),
        keep=options.keep,
        onLost=options.on_lost,
        atRisk=options.at_risk,
    )


def ack_body(options: AckOptions, limits: AckLimits) -> dict[str, object]:
    delay = _whole(options.max_delay_ms)
    if options.ack != "durable":
        return _given(ack=options.ack, maxDelayMs=delay)
    return _given(ack="durable", level=limits.level, maxWaitMs=granted_wait_ms(options, limits), maxDelayMs=delay)


def granted_wait_ms(options: AckOptions, limits: AckLimits) -> int:
    """Returns how long the service may hold the answer to a safe commit."""
    total_ms = limits.total_ms
    # Leaves a quarter of the time, at most a second, for the answer to travel.
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
    reads: Reads | None = None,
) -> TransactionRequest:
    """Returns the request of a one-shot transaction."""
    body = {
        "id": transaction_id,
        "statements": statements_body(statements),
        **execution_body(execution),
        **ack_body(ack, limits),
        **_given(after=after if after is None or isinstance(after, str) else after.token, mode=mode, reads=reads),
    }
    return cast("TransactionRequest", body)


def status_path(transaction_id: str, *, wait_seconds: int, level: str | None) -> str:
    query = _given(wait=wait_seconds or None, level=level)
    path = f"/v1/transactions/{transaction_id}"
    return f"{path}?{urlencode(query)}" if query else path


def encode(body: Mapping[str, object]) -> bytes:
    """Encodes JSON for the wire. Errors: ``invalid_parameter`` for text that is not Unicode."""
    try:
        return _ENCODER.encode(body).encode()
    except UnicodeEncodeError as error:
        raise usage_error("invalid_parameter", "a string contains an unpaired surrogate", error) from error


def _whole(milliseconds: float | None) -> int | None:
    return None if milliseconds is None else math.ceil(milliseconds)


def _given(**fields: object) -> dict[str, object]:
    return {name: value for name, value in fields.items() if value is not None}
