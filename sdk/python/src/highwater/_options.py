"""The options of a client and its calls, checked. Times are seconds unless a name ends in `_ms`."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TypedDict
from urllib.parse import urlsplit

from ._core.errors import usage_error
from ._core.requests import AckOptions, ExecutionOptions, HasToken
from ._core.wire_types import Ack, Isolation, Mode

#: Default length of a wait in seconds. There is no wait without an end.
DURABLE_TIMEOUT = 30.0


class ExecutionFields(TypedDict, total=False):
    """How a transaction runs."""

    isolation: Isolation | None
    """Default: `serializable`, or `repeatable read` for a read that may run on a replica."""
    read_only: bool | None
    """The transaction changes nothing, and the database holds it to that. Needed for `after` and `mode`."""
    deferrable: bool | None
    """With `read_only` and `serializable`: waits for a snapshot that no later transaction makes unsafe."""
    max_delay_ms: float | None
    """The trackers send an event `transaction.delayed` if it is not durable at its level after so many milliseconds."""
    metadata: Mapping[str, str] | None
    """Comes back in webhooks and events about this transaction, and in errors of waits for it."""
    level: str | None
    """The level that this transaction is about, also for `durable()` and `on_lost()`. Default: the client's."""


class AckFields(TypedDict, total=False):
    """When a commit is answered."""

    ack: Ack | None
    """At the commit point (`commit`, the default) or when durable at the level (`durable`)."""
    max_wait_ms: float | None
    """For `ack="durable"`: how many milliseconds the service waits before it answers `pending`, which is not a loss.

    Never more than a minute, nor than the call may take. Default: half of the client's `request_timeout`.
    """


class TransactionOptions(ExecutionFields, AckFields, total=False):
    """Of a one-shot transaction."""

    id: str | None
    """A UUIDv7, to continue an earlier attempt whose outcome is unknown. Default: a new one."""
    after: str | HasToken | None
    """With `read_only`: a token, or a transaction, whose effects the read must see."""
    mode: Mode | None
    """With `read_only`: `local` may read from a replica near the gateway, `primary` never does.

    `local` with `after`, `primary` without.
    """
    timeout: float | None
    """Seconds for all attempts together. Default: the client's `total_timeout`."""


class BeginOptions(ExecutionFields, total=False):
    """Of an interactive transaction."""

    timeout: float | None
    """Seconds for each of its calls, if the call has no own. Default: the client's `total_timeout`."""


class CommitOptions(AckFields, total=False):
    """Of the commit of an interactive transaction."""

    level: str | None
    """The level that the transaction is about from here on. Default: as in `begin`."""
    max_delay_ms: float | None
    """The trackers send an event `transaction.delayed` if it is not durable at its level after so many milliseconds."""
    timeout: float | None
    """Seconds for all attempts together. Default: as in `begin`."""


class TransactOptions(ExecutionFields, AckFields, total=False):
    """Of `transact`: how the transaction runs, when its commit is answered, and how often it may run again."""

    max_attempts: int
    """Runs of the body at most. Default: 10."""
    timeout: float | None
    """Seconds for all runs together. Default: the client's `total_timeout`."""


def execution_of(options: ExecutionFields) -> ExecutionOptions:
    return ExecutionOptions(
        isolation=options.get("isolation"),
        read_only=options.get("read_only"),
        deferrable=options.get("deferrable"),
        max_delay_ms=options.get("max_delay_ms"),
        metadata=options.get("metadata"),
    )


def ack_of(options: TransactionOptions | TransactOptions | CommitOptions) -> AckOptions:
    return AckOptions(
        ack=options.get("ack"),
        level=options.get("level"),
        max_wait_ms=options.get("max_wait_ms"),
        max_delay_ms=options.get("max_delay_ms"),
    )


@dataclass(frozen=True, slots=True)
class Endpoint:
    """Addresses of one region, where gateway and tracker have their own."""

    gateway: str
    """URL of the gateway, without the path of its calls."""
    tracker: str
    """URL of the tracker, without the path of its calls."""


def endpoints_of(url: str | Sequence[str] | None, endpoints: Sequence[Endpoint] | None) -> list[Endpoint]:
    """Errors: `invalid_options`."""
    if (url is None) == (endpoints is None):
        raise usage_error("invalid_options", "set either url or endpoints")
    urls = [url] if isinstance(url, str) else list(url or ())
    found = list(endpoints) if endpoints is not None else [Endpoint(each, each) for each in urls]
    if not found:
        raise usage_error("invalid_options", "at least one endpoint is needed")
    return [Endpoint(_base_url(each.gateway), _base_url(each.tracker)) for each in found]


def _base_url(text: str) -> str:
    try:
        parts = urlsplit(text)
        is_url = parts.scheme in ("http", "https") and bool(parts.hostname)
    except ValueError:
        is_url = False
    if not is_url:
        raise usage_error("invalid_options", f"not a URL: {text}")
    return text.rstrip("/")


class Cancellation:
    """Ends calls of the sync client from another thread: give it to them as `cancel`, and call `cancel()`.

    Each of them then raises `concurrent.futures.CancelledError`. Ending a wait changes nothing. A commit that is ended
    may be applied all the same: the cause of the error is an `UnknownOutcomeError` then, with the id to ask about.

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
        """Ends what is under way with it, and what is begun later. From any thread, any number of times."""
        with self._lock:
            self._is_cancelled = True
            calls = list(self._calls.values())
            self._calls.clear()
        for call in calls:
            call()

    def watch(self, call: Callable[[], object]) -> Callable[[], None]:
        """Calls it once when this is cancelled, at once if it is already. Returns what takes it away.

        Args:
            call: Must return at once; it runs in the thread that cancels.
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
