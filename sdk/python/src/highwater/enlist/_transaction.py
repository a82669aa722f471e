"""A transaction that the application committed on its own connection, as both clients hold it.

The token comes from the gateway a little after COMMIT's answer; nothing waits for it before it is
needed.
"""

from __future__ import annotations

import asyncio
import concurrent.futures
import threading
from collections.abc import Callable, Coroutine
from typing import Any, Generic, TypeVar

from .._async import joined
from .._background import Host, ThreadHost
from .._core.errors import HighwaterError, TransactionLostError, closed_error
from .._core.wire import Position, Verdict
from .._promise import Listener, News
from .._transaction import BaseTransaction
from ._outcomes import with_outcome
from ._tickets import Issued, TicketService

R = TypeVar("R")
T = TypeVar("T", bound=BaseTransaction)

Work = asyncio.Future[R] | concurrent.futures.Future[R]
Start = Callable[[Callable[[], Coroutine[Any, Any, Any]]], Work[Any]]
"""Starts work on the client's event loop. Errors: `client_closed`."""


def starter(hw: Any) -> Start:
    """Returns what starts work of this client."""
    host: Host = hw._host
    tasks: set[asyncio.Future[Any]] = set()

    def end(task: asyncio.Future[Any]) -> None:
        tasks.discard(task)
        # A failure that no call asks for is not logged.
        if not task.cancelled():
            task.exception()

    async def until_closed(work: Callable[[], Coroutine[Any, Any, R]]) -> R:
        try:
            return await work()
        except asyncio.CancelledError as error:
            # Nothing cancels it but the end of the loop.
            raise closed_error() from error

    def start(work: Callable[[], Coroutine[Any, Any, R]]) -> Work[R]:
        if hw._is_closed:
            raise closed_error()
        if isinstance(host, ThreadHost):
            return host.run(lambda: until_closed(work))
        host.prepare()
        task = asyncio.get_running_loop().create_task(until_closed(work))
        tasks.add(task)
        task.add_done_callback(end)
        return task

    return start


class BaseEnlisted(Generic[T]):
    def __init__(self, service: TicketService[T], issued: Issued, *, start: Start, known: T | None) -> None:
        self._service = service
        self._issued = issued
        self._start = start
        self._lock = threading.Lock()
        self._work: Work[T]
        try:
            self._work = self._ask(lambda: _value(known) if known else service.promised(issued))
        except HighwaterError as error:
            # The server has answered COMMIT, so COMMIT returns, and `promise` raises this.
            self._work = concurrent.futures.Future()
            self._work.set_exception(error)

    @property
    def id(self) -> str:
        """Transaction id, a UUIDv7."""
        return self._issued.id

    def _asked(self) -> Work[T]:
        """Asks again after a failure that says nothing about the transaction."""
        with self._lock:
            work = self._work
            if work.done() and (work.cancelled() or _is_open(work.exception())):
                self._work = self._ask(lambda: self._service.promised(self._issued))
            return self._work

    def _ask(self, work: Callable[[], Coroutine[Any, Any, T]]) -> Work[T]:
        """Errors: `client_closed`."""
        try:
            return self._start(work)
        except HighwaterError as error:
            raise with_outcome(error, self.id, "applied") from error

    def _late(self, level: str | None) -> HighwaterError:
        return self._service.late(self._issued, level)

    async def _promised(self) -> T:
        """On the client's event loop, where the work ends, too."""
        work = self._asked()
        if isinstance(work, asyncio.Future):
            return await joined(work)
        ended = asyncio.Event()
        # A future of this loop for it would log its failure if the loop ended first.
        work.add_done_callback(lambda _: ended.set())
        await ended.wait()
        return work.result()

    def on_lost(self, listener: Listener, *, level: str | None = None) -> Callable[[], None]:
        """Calls the listener once if the transaction is lost before it is durable at the level.

        A transaction that was lost before it had a token has no verdict of a tracker: the listener
        then gets the rule `client:no_receipt`, and no token. Returns a function that removes the
        listener. See `Highwater.on_lost` for where listeners are called.

        Args:
            listener: Function that receives the verdict.
            level: Level of the promise. Default: the transaction's own.
        """
        host = self._service.hw._host
        host.prepare()
        news = News(host, listener, ("lost",))
        offs: list[Callable[[], None]] = [news.end]

        def listen(work: Work[T]) -> None:
            if work.cancelled():
                return
            error = work.exception()
            if isinstance(error, TransactionLostError):
                news.notify(self._verdict())
            elif error is None:
                offs.append(work.result().on_lost(news._call, level=level))

        self._asked().add_done_callback(listen)

        def off() -> None:
            for each in offs:
                each()

        return off

    def _verdict(self) -> Verdict:
        return Verdict(
            token="",
            id=self.id,
            verdict="lost",
            level=self._service.level,
            position=Position(epoch=self._issued.epoch, offset=0),
            rule="client:no_receipt",
            metadata=self._service.metadata,
            read_only=False,
        )

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.id}>"


def _is_open(error: BaseException | None) -> bool:
    return error is not None and not isinstance(error, TransactionLostError)


async def _value(known: R) -> R:
    return known
