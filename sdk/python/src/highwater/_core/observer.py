"""A client reports its events to one function, the observer, for logs, traces and metrics.

The names of the events are the same in every language. Events go through `notify`, so that an
exception of an observer never disturbs a transaction. Without an observer no event is built.

    begin, statements, commit     a call begins; the observer's return value is called at its end
    retry                         an attempt failed, and another one follows
    durable, lost, broken         an awaited promise is settled at a level
    timeout                       a wait ended before that
    stream_open, stream_closed    the client receives marks from the stream, or no longer does
    polling                       the client asks for marks, because streams do not come through
    stalled, recovered            a level's marks have stopped rising, or rise again
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
    """An event of a client.

    Fields that do not apply are None. Neither the text nor the values of statements are included.

    `begin`, `statements`, `commit`: a call begins; the observer's return value is called when it
    ends. `retry`: an attempt failed, and another one follows. `durable`, `lost`, `broken`: an
    awaited promise is settled at a level. `timeout`: a wait ended before that. `stream_open`,
    `stream_closed`, `polling`: how the client gets marks. `stalled`, `recovered`: a level's marks
    have stopped rising, or rise again.
    """

    type: EventType
    """Kind of event."""
    id: str | None = None
    """Id of the transaction."""
    level: str | None = None
    """Level of the verdict, of the wait or of the stall."""
    statements: int | None = None
    """Number of statements in the call."""
    headers: dict[str, str] = field(default_factory=dict)
    """Headers of a call. Entries that an observer adds go out with each of its requests."""
    url: str | None = None
    """URL of the failed attempt, of the stream or of the request for marks."""
    attempt: int | None = None
    """Number of the failed attempt, from 1."""
    error: BaseException | None = None
    """Why an attempt failed or a stream closed."""
    verdict: Verdict | None = None
    """The verdict that settled the promise."""
    waited: float | None = None
    """Length of the wait, in seconds."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ObservedEnd:
    """The end of a call: with the transaction's state, or with an error."""

    state: str | None = None
    """State of the transaction, if the call was answered."""
    error: BaseException | None = None
    """Why the call failed."""


EndObserver: TypeAlias = Callable[[ObservedEnd], object]
Observer: TypeAlias = Callable[[ObservedEvent], EndObserver | None]
"""Function that receives the events of a client. The client calls it from any thread.

It must return quickly. It may return a function to be called when the call ends. Exceptions are
only logged.
"""

_LOG: Final = logging.getLogger("highwater")


def _nobody(end: ObservedEnd) -> None:
    """Does nothing: no observer wants to know how the call ends."""


def notify(observer: Observer | None, event: ObservedEvent) -> EndObserver:
    """Reports an event and returns a function that reports the end of the call. Neither raises."""
    if observer is None:
        return _nobody
    try:
        ended = observer(event)
    except Exception:  # noqa: BLE001 - the observer is the user's
        _LOG.exception("an observer failed at %s", event.type)
        return _nobody
    return _nobody if ended is None else _guarded(ended, event)


def _guarded(ended: EndObserver, event: ObservedEvent) -> EndObserver:
    def notify_end(end: ObservedEnd) -> None:
        try:
            ended(end)
        except Exception:  # noqa: BLE001 - the observer is the user's
            _LOG.exception("an observer failed at the end of %s", event.type)

    return notify_end


def observers(several: Sequence[Observer]) -> Observer | None:
    """Combines observers into one, each protected from the others; None if there are none."""
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
