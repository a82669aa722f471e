"""The package's observers: one writes to `logging`, one prints the life of every transaction."""

from __future__ import annotations

import logging
import sys
import time
from collections.abc import Callable
from typing import Final

from ._core.errors import HighwaterError
from ._core.observer import EndObserver, ObservedEnd, ObservedEvent, Observer

_LEVELS: Final = {
    "lost": logging.ERROR,
    "broken": logging.CRITICAL,
    "retry": logging.INFO,
    "timeout": logging.WARNING,
    "polling": logging.WARNING,
    "stalled": logging.WARNING,
}
_CALLS: Final = ("begin", "statements", "commit")


def _facts(event: ObservedEvent, end: ObservedEnd | None = None) -> dict[str, object]:
    """Returns an event's fields that have a value, without headers, which may carry secrets."""
    facts: dict[str, object] = {
        "event": event.type,
        "id": event.id,
        "level": event.level,
        "statements": event.statements,
        "url": event.url,
        "attempt": event.attempt,
        "state": None if end is None else end.state,
        "waited": None if event.waited is None else round(event.waited, 6),
        "rule": None if event.verdict is None else event.verdict.rule,
    }
    error = event.error if end is None else end.error
    if error is not None:
        facts["error"] = type(error).__name__
    if isinstance(error, HighwaterError):
        facts |= {"code": error.code, "outcome": error.outcome, "sqlstate": error.sqlstate}
    return {name: fact for name, fact in facts.items() if fact is not None}


def log_events(logger: logging.Logger | None = None) -> Observer:
    """Returns an observer that logs every event.

    Shape: ``extra={"highwater": {"event": …, "id": …}}`` for structured handlers; the message has
    the same fields as text.

    Level: ``DEBUG``, except ``INFO`` for a retry, ``WARNING`` for a timeout, polling and a stall,
    ``ERROR`` for a loss and ``CRITICAL`` for a broken promise.

    A call is logged when it ends, without the text and values of its statements. Every client
    already has such an observer for the logger ``highwater``.

    Args:
        logger: Logger to write to. Default: the logger ``highwater``.
    """
    log = logging.getLogger("highwater") if logger is None else logger

    def write(level: int, facts: dict[str, object]) -> None:
        log.log(level, "%s", _line(facts), extra={"highwater": facts})

    def observe(event: ObservedEvent) -> EndObserver | None:
        level = _LEVELS.get(event.type, logging.DEBUG)
        if not log.isEnabledFor(level):
            return None
        if event.type not in _CALLS:
            write(level, _facts(event))
            return None

        def ended(end: ObservedEnd) -> None:
            write(level, _facts(event, end))

        return ended

    return observe


def print_events(write: Callable[[str], object] | None = None) -> Observer:
    """Returns an observer that prints the life of every transaction, one line per event.

    A line begins with the milliseconds since the observer was made. A call is printed when it ends,
    with its duration. `Highwater(url, debug=True)` does the same.

    Args:
        write: Function that receives each line with its newline. Default: standard error's `write`.
    """
    started = time.monotonic()
    out = sys.stderr.write if write is None else write

    def line(facts: dict[str, object], took_ms: float | None = None) -> None:
        took = "" if took_ms is None else f" in {took_ms:.1f} ms"
        out(f"highwater {(time.monotonic() - started) * 1_000:9.1f} ms  {_line(facts)}{took}\n")

    def observe(event: ObservedEvent) -> EndObserver | None:
        if event.type not in _CALLS:
            line(_facts(event))
            return None
        began = time.monotonic()

        def ended(end: ObservedEnd) -> None:
            line(_facts(event, end), (time.monotonic() - began) * 1_000)

        return ended

    return observe


def _line(facts: dict[str, object]) -> str:
    event, *rest = facts.items()
    # The id comes second in every line, so that transactions are easy to tell apart.
    return " ".join([f"{event[1]!s:<13}", *(f"{name}={fact}" for name, fact in rest)]).rstrip()
