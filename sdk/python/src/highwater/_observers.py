"""Observers that come with the package: one writes to `logging`, one prints the life of every transaction."""

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
    """What an event says, without what it does not have and without headers, which may carry secrets."""
    facts: dict[str, object] = {
        "event": event.type,
        "id": event.id,
        "level": event.level,
        "statements": event.statements,
        "url": event.url,
        "attempt": event.attempt,
        "state": None if end is None else end.state,
        "waited_ms": None if event.waited_ms is None else round(event.waited_ms, 3),
        "rule": None if event.verdict is None else event.verdict.rule,
    }
    error = event.error if end is None else end.error
    if error is not None:
        facts["error"] = type(error).__name__
    if isinstance(error, HighwaterError):
        facts |= {"code": error.code, "outcome": error.outcome, "sqlstate": error.sqlstate}
    return {name: fact for name, fact in facts.items() if fact is not None}


def log_events(logger: logging.Logger | None = None) -> Observer:
    """An observer that logs every event to the logger. Default: ``highwater``.

    Shape: ``extra={"highwater": {"event": …, "id": …}}`` for structured handlers; the message says the same as text.
    Level: ``DEBUG``, but ``INFO`` for a retry, ``WARNING`` for a timeout, polling and a stall, ``ERROR`` for a loss and
    ``CRITICAL`` for a broken promise. A call is logged when it ends, without values and text of its statements.
    Every client does this by itself, to the logger ``highwater``.

    Args:
        logger: Another one than ``highwater``.
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
    """The debug mode: an observer that prints the life of every transaction, one line an event.

    A line begins with the milliseconds since the observer was made; a call is printed when it ends, with its own time.
    `Highwater(url, debug=True)` is the same.

    Args:
        write: Gets each line, with its end. Default: standard error's.
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
    # The id stands second in every line, so that the lives of transactions can be told apart by eye.
    return " ".join([f"{event[1]!s:<13}", *(f"{name}={fact}" for name, fact in rest)]).rstrip()
