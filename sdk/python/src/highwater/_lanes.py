"""Decides which one-shot transactions leave together in one request.

Pure but for a lock: the clock, the loop and what sends are given. A transaction with nothing before
it leaves at once. Others that begin while a request is on its way gather for the next one (decision
0213).
"""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Protocol

from ._core.effects import HttpResponse, Send

#: Maximum number of transactions in a request.
COUNT_MAX = 64
#: Headers of a transaction's own trace. The service reads the first, and none reads the second.
TRACEPARENT = "traceparent"
TRACE_HEADERS = (TRACEPARENT, "tracestate")
#: Turns of a loop within which callers get their answers and begin their next transactions.
_TURNS_TO_NEXT = 5

Key = tuple[str, tuple[tuple[str, str], ...]]


@dataclass(slots=True, eq=False)
class Item:
    """A transaction that waits for its answer."""

    request: Send
    answer: asyncio.Future[HttpResponse | None]
    """None: its caller sends it alone."""
    is_alone: bool = False


class Cancellable(Protocol):
    def cancel(self) -> object: ...


class Loop(Protocol):
    """The part of an event loop that a lane uses."""

    def call_soon(self, callback: Callable[..., object], *args: object) -> object: ...

    def call_soon_threadsafe(self, callback: Callable[..., object], *args: object) -> object: ...

    def call_later(self, delay: float, callback: Callable[..., object], *args: object) -> Cancellable: ...


@dataclass(slots=True, eq=False)
class Lane:
    """Transactions that may share requests with each other.

    One loop gathers and sends. Any thread may send one alone while nothing else is on its way.
    """

    gather: float
    """Least time between two requests in seconds, unless one is answered or full before."""
    now: Callable[[], float]
    on_idle: Callable[[], None]
    _lock: threading.Lock = field(default_factory=threading.Lock)
    _loop: Loop | None = None
    _send: Callable[[list[Item]], None] | None = None
    _timer: Cancellable | None = None
    _gathered: list[Item] = field(default_factory=list)
    _under_way: int = 0
    """Number of requests that have left and lack an answer."""
    _left: float = 0.0

    def begins_alone(self) -> bool:
        """Whether nothing is before the caller's transaction. It then sends it and calls `ended`.

        From any thread.
        """
        with self._lock:
            if self._under_way or self._gathered:
                return False
            self._leaves()
            return True

    def join(self, item: Item, loop: Loop, send: Callable[[list[Item]], None]) -> None:
        """Adds a transaction to the next request. Only on the loop."""
        with self._lock:
            self._loop, self._send = loop, send
            self._gathered.append(item)
            count = len(self._gathered)
            wait = self._left + self.gather - self.now() if self._under_way else 0.0
        if count == COUNT_MAX:
            self._leave()
        elif count == 1 and wait > 0:
            self._timer = loop.call_later(wait, self._leave)
        elif count == 1:
            # What begins in the same turn goes along.
            loop.call_soon(self._leave)

    def ended(self) -> None:
        """Takes note that a request has ended. From any thread."""
        with self._lock:
            self._under_way -= 1
            loop = self._loop if self._gathered else None
            is_idle = self._under_way == 0 and not self._gathered
        if loop is not None:
            loop.call_soon_threadsafe(self._leave_in, _TURNS_TO_NEXT)
        elif is_idle:
            self.on_idle()

    def _leave_in(self, turns: int) -> None:
        if turns > 0 and self._loop is not None:
            self._loop.call_soon(self._leave_in, turns - 1)
        else:
            self._leave()

    def _leave(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        with self._lock:
            items = [item for item in self._gathered if not item.answer.done()]
            self._gathered = []
            is_idle = self._under_way == 0 and not items
            if items:
                self._leaves()
        if is_idle:
            self.on_idle()
        elif items and self._send is not None:
            self._send(items)

    def _leaves(self) -> None:
        self._under_way += 1
        self._left = self.now()


class Lanes:
    """The lanes of a client, by address and headers: only one caller's requests can be one."""

    def __init__(self, gather: float, now: Callable[[], float] = time.monotonic) -> None:
        self._gather = gather
        self._now = now
        self.renew()

    def renew(self) -> None:
        """Forgets what was on its way, after a fork or on another loop."""
        self._lock = threading.Lock()
        self._lanes: dict[Key, Lane] = {}

    def of(self, request: Send) -> Lane:
        key = _key_of(request)
        with self._lock:
            lane = self._lanes.get(key)
            if lane is None:
                lane = self._lanes[key] = Lane(self._gather, self._now, lambda: self._forget(key))
            return lane

    def _forget(self, key: Key) -> None:
        # A thread may still begin on the lane: then another lane does not know of that request.
        with self._lock:
            self._lanes.pop(key, None)


def _key_of(request: Send) -> Key:
    # Each transaction has its own trace.
    headers = ((name, value) for name, value in request.headers.items() if name not in TRACE_HEADERS)
    return request.url, tuple(headers)
