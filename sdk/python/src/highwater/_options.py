"""The checked options of a client and its calls. Times are in seconds."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, TypedDict
from urllib.parse import urlsplit

from ._core.errors import usage_error
from ._core.requests import AckOptions, ExecutionOptions, HasToken, OnTimeout
from ._core.wire_types import Ack, Isolation, Mode, Reads, ValueAtRisk

#: Default length of a wait, in seconds. Every wait has a limit.
DURABLE_TIMEOUT = 30.0


class ExecutionFields(TypedDict, total=False):
    """Options for how a transaction runs."""

    isolation: Isolation | None
    """Isolation level.

    Default: `serializable`, or `repeatable read` for a read that may run on a replica.
    """
    read_only: bool | None
    """Makes the transaction read-only; the database enforces it. Needed for `after` and `mode`."""
    deferrable: bool | None
    """Whether to wait for a snapshot that no later transaction makes unsafe.

    For `read_only` and `serializable`.
    """
    max_delay: float | None
    """Seconds after which the trackers send an event `transaction.delayed`.

    They send it if the transaction is not durable at its level by then.
    """
    metadata: Mapping[str, str] | None
    """Metadata for webhooks and events about this transaction and for errors of waits for it."""
    keep: bool | None
    """Whether trackers keep the contents, so that they can be read if the transaction is lost.

    Default: the gateway's setting.
    """
    on_lost: Literal["replay"] | None
    """`replay`: if a failover loses it, the service brings it back before it admits writes.

    Never run it again yourself. Implies `keep`, and has no effect with `ack="durable"`.
    """
    at_risk: ValueAtRisk | None
    """What the application loses if a failure discards the transaction after its answer.

    An exact amount and its unit. It counts toward the service's limits of the unit until it is
    durable. With `ack="durable"` nothing is at risk.
    """
    level: str | None
    """The transaction's level, also for `durable()` and `on_lost()`. Default: the client's."""


class AckFields(TypedDict, total=False):
    """Options for when a commit returns."""

    ack: Ack | None
    """`commit` (default) returns at the commit point, `durable` when durable at the level.

    If the transaction does not become durable in time, the call raises `DurabilityTimeoutError`,
    which has the token. The transaction has committed then, and is not lost.
    """
    max_wait: float | None
    """With `ack="durable"`: how long to wait after the commit, in seconds.

    At most 60, and never longer than the call may take. Default: as long as the call may take; with
    `on_timeout="pending"` half of the client's `request_timeout`.
    """
    on_timeout: OnTimeout | None
    """With `ack="durable"`: what ends a wait without durability.

    `error` (default) raises `DurabilityTimeoutError`; `pending` returns, and the transaction's
    `state` is `pending`.
    """


class TransactionOptions(ExecutionFields, AckFields, total=False):
    """Options of a one-shot transaction."""

    id: str | None
    """UUIDv7 to use, to continue an earlier attempt with unknown outcome. Default: a new id."""
    after: str | HasToken | None
    """With `read_only`: a token or a transaction whose effects the read must see."""
    mode: Mode | None
    """With `read_only`: `local` may read from a replica near the gateway, `primary` never does.

    Default: `local` with `after` or `reads="durable"`, otherwise `primary`.
    """
    reads: Reads | None
    """With `read_only`: `durable` returns only rows that no failure covered by the level can undo.

    They come from a replica near the gateway if one can serve them. The call waits as with
    `ack="durable"`. Reads of one session with it never go back.
    Default: `committed`, which returns as `ack` says.
    """
    max_attempts: int
    """Maximum number of runs: after a conflict, the statements run again under the same id.

    Nothing was read here in between, so the same statements are still right. Default: 10.
    """
    timeout: float | None
    """Time limit for all attempts, in seconds. Default: the client's `total_timeout`."""


class BeginOptions(ExecutionFields, total=False):
    """Options of an interactive transaction."""

    timeout: float | None
    """Time limit of a call without its own, in seconds. Default: the client's `total_timeout`."""


class CommitOptions(AckFields, total=False):
    """Options for the commit of an interactive transaction."""

    level: str | None
    """The transaction's level from here on. Default: that of `begin`."""
    max_delay: float | None
    """Seconds after which the trackers send an event `transaction.delayed`.

    They send it if the transaction is not durable at its level by then.
    """
    timeout: float | None
    """Time limit for all attempts, in seconds. Default: that of `begin`."""


class TransactOptions(ExecutionFields, AckFields, total=False):
    """Options of `transact`."""

    max_attempts: int
    """Maximum number of runs of the body. Default: 10."""
    timeout: float | None
    """Time limit for all runs, in seconds. Default: the client's `total_timeout`."""


def execution_of(options: ExecutionFields) -> ExecutionOptions:
    return ExecutionOptions(
        isolation=options.get("isolation"),
        read_only=options.get("read_only"),
        deferrable=options.get("deferrable"),
        max_delay_ms=milliseconds(options.get("max_delay")),
        metadata=options.get("metadata"),
        keep=options.get("keep"),
        on_lost=options.get("on_lost"),
        at_risk=options.get("at_risk"),
    )


def ack_of(options: Mapping[str, Any]) -> AckOptions:
    return AckOptions(
        ack=options.get("ack") or ("durable" if options.get("reads") == "durable" else None),
        level=options.get("level"),
        max_wait_ms=milliseconds(options.get("max_wait")),
        on_timeout=options.get("on_timeout"),
        max_delay_ms=milliseconds(options.get("max_delay")),
    )


def milliseconds(seconds: float | None) -> float | None:
    return None if seconds is None else seconds * 1_000


@dataclass(frozen=True, slots=True)
class Endpoint:
    """Addresses of one region whose gateway and tracker have separate addresses."""

    gateway: str
    """URL of the gateway, without the paths of its calls."""
    tracker: str
    """URL of the tracker, without the paths of its calls."""


def endpoints_of(url: str | Sequence[str] | None, endpoints: Sequence[Endpoint] | None) -> list[Endpoint]:
    """Returns the endpoints of the options, with checked URLs. Errors: `invalid_options`.

    Without options, it is the environment that names them.
    """
    if url is None and endpoints is None and (found_url := os.environ.get("HIGHWATER_URL")):
        url = [each.strip() for each in found_url.split(",")]
    if (url is None) == (endpoints is None):
        raise usage_error("invalid_options", "pass either url or endpoints, or set HIGHWATER_URL")
    urls = [url] if isinstance(url, str) else list(url or ())
    found = list(endpoints) if endpoints is not None else [Endpoint(each, each) for each in urls]
    if not found:
        raise usage_error("invalid_options", "url or endpoints must name at least one endpoint")
    return [Endpoint(_base_url(each.gateway), _base_url(each.tracker)) for each in found]


def _base_url(text: str) -> str:
    try:
        parts = urlsplit(text)
        is_url = parts.scheme in ("http", "https") and bool(parts.hostname)
    except ValueError:
        is_url = False
    if not is_url:
        raise usage_error("invalid_options", f"not an http or https URL: {text}")
    return text.rstrip("/")


class Cancellation:
    """Cancels calls of the synchronous client from another thread.

    Pass it to the calls as `cancel`, then call `cancel()`: each of them raises
    `concurrent.futures.CancelledError`. Cancelling a wait changes nothing. A cancelled commit may
    still be applied: the cause of the error is then an `UnknownOutcomeError` with the id to look
    up. Once it has committed, the cause is a `DurabilityTimeoutError` with the token.

    Example:
        cancellation = Cancellation()
        timer = threading.Timer(60, cancellation.cancel)
        timer.start()
        try:
            tx = hw.transaction(sql("INSERT INTO note VALUES ({text})", text="hello"), cancel=cancellation)
            tx.durable(cancel=cancellation)
        finally:
            timer.cancel()
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._is_cancelled = False
        self._calls: dict[object, Callable[[], object]] = {}

    @property
    def is_cancelled(self) -> bool:
        """Whether `cancel()` was called."""
        return self._is_cancelled

    def cancel(self) -> None:
        """Cancels calls in progress, and all later calls that are given this object.

        May be called from any thread and any number of times.
        """
        with self._lock:
            self._is_cancelled = True
            calls = list(self._calls.values())
            self._calls.clear()
        for call in calls:
            call()

    def watch(self, call: Callable[[], object]) -> Callable[[], None]:
        """Calls a function once on cancellation, or at once if already cancelled.

        Returns a function that removes it.

        Args:
            call: Function that must return quickly; it runs in the thread that cancels.
        """
        key = object()
        with self._lock:
            is_late = self._is_cancelled
            if not is_late:
                self._calls[key] = call
        if is_late:
            call()

        def off() -> None:
            with self._lock:
                self._calls.pop(key, None)

        return off
