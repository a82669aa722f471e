"""A client's reports of its life, for logs, traces and metrics: one function, called as things happen.

The names of the events are the same in every language. Events go through `notify`, so that
nothing an observer raises disturbs a transaction, and none is built without an observer.

    begin, statements, commit     a call begins; what the observer returns is called when it ends
    retry                         an attempt failed, and another one follows
    durable, lost, broken         what somebody waited for is settled at a level
    timeout                       a wait ended before that
    stream_open, stream_closed    how the client hears of marks: by the stream
    polling                       … or by asking, where streams are held back
    stalled, recovered            a level's marks have ceased to rise, or rise again
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Final, Literal, TypeAlias

from .wire import Verdict

EventType: TypeAlias = Literal[
    "begin",
    "statements",
    "commit",
    "retry",
    "durable",
    "lost",
    "broken",
    "timeout",
    "stream_open",
    "stream_closed",
    "polling",
    "stalled",
    "recovered",
]


@dataclass(frozen=True, slots=True, kw_only=True)
class ObservedEvent:
    """One thing that happened. Fields that an event does not have are None; neither values nor text
    of statements are in it.

    `begin`, `statements`, `commit`: a call begins; what the observer returns is called when it ends. `retry`: an
    attempt failed, and another one follows. `durable`, `lost`, `broken`: what somebody waited for is settled at a
    level. `timeout`: a wait ended before. `stream_open`, `stream_closed`, `polling`: how the client gets marks.
    `stalled`, `recovered`: a level's marks have ceased to rise, or rise again.
    """

    type: EventType
    """What happened."""
    id: str | None = None
    """Of the transaction."""
    level: str | None = None
    """At which something is durable or gone, was waited for, or has stalled."""
    statements: int | None = None
    """Number of statements of the call."""
    headers: dict[str, str] = field(default_factory=dict)
    """Of a call: what an observer puts here goes out with each of its requests."""
    url: str | None = None
    """Where the attempt that failed, the stream or the question for marks went to."""
    attempt: int | None = None
    """Number of the attempt that failed, from 1."""
    error: BaseException | None = None
    """Why an attempt failed, or why a stream was closed."""
    verdict: Verdict | None = None
    """By which it is durable or gone."""
    waited_ms: float | None = None
    """How long it was waited for, in milliseconds."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ObservedEnd:
    """How a call ended: with its transaction's state, or with an error."""

    state: str | None = None
    """Of the transaction, where the call has answered."""
    error: BaseException | None = None
    """Why the call failed."""


EndObserver: TypeAlias = Callable[[ObservedEnd], object]
Observer: TypeAlias = Callable[[ObservedEvent], EndObserver | None]
"""What `observer` of a client is. It must return at once: it is called in the middle of things, from any thread.

An exception that it raises is logged, and no more.
"""

_LOG: Final = logging.getLogger("highwater")


def _nobody(end: ObservedEnd) -> None:
    """No observer asks how the call ends."""


def notify(observer: Observer | None, event: ObservedEvent) -> EndObserver:
    """Reports an event; the function that it returns reports the end of a call, and never raises either."""
    if observer is None:
        return _nobody
    try:
        ended = observer(event)
    except Exception:  # noqa: BLE001 - it is the user's
        _LOG.exception("an observer failed at %s", event.type)
        return _nobody
    return _nobody if ended is None else _guarded(ended, event)


def _guarded(ended: EndObserver, event: ObservedEvent) -> EndObserver:
    def notify_end(end: ObservedEnd) -> None:
        try:
            ended(end)
        except Exception:  # noqa: BLE001 - it is the user's
            _LOG.exception("an observer failed at the end of %s", event.type)

    return notify_end


def observers(several: Sequence[Observer]) -> Observer | None:
    """One observer for several, each guarded from the others; None for none."""
    if len(several) == 0:
        return None
    if len(several) == 1:
        return several[0]

    def observe(event: ObservedEvent) -> EndObserver:
        ends = [notify(each, event) for each in several]

        def ended(end: ObservedEnd) -> None:
            for each in ends:
                each(end)

        return ended

    return observe
