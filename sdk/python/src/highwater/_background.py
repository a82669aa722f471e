"""Where a client runs its background work: on its own event loop in a thread, or on the program's.

Owns threads, the loop with its connections, and the calls of listeners. `_watcher` and `_stream`
own the work itself, the same for both clients.
"""

from __future__ import annotations

import asyncio
import concurrent.futures
import inspect
import logging
import queue
import threading
from collections.abc import Callable, Coroutine
from typing import Any, Protocol, TypeVar

from ._core.effects import Effect, Send, Sleep
from ._core.errors import closed_error, usage_error
from ._lanes import Lanes
from ._transport import AsyncTransport, Certificates, load

LOG = logging.getLogger("highwater")

T = TypeVar("T")

#: Objects that a forked process must neither use nor close: its parent still uses these sockets and
#: epolls.
abandoned: list[object] = []


class Host(Protocol):
    """An event loop for the background work of one client."""

    def call(self, callback: Callable[[], object]) -> None:
        """Calls it on the loop, soon. From any thread."""

    def start(self, coroutine: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        """Starts a task on the loop. Only on the loop."""

    def transport(self) -> AsyncTransport:
        """Returns the connections of the loop. Only on the loop."""

    async def perform(self, effect: Effect) -> object:
        """Performs an effect of a background call. Only on the loop."""

    def notify(self, listener: Callable[[Any], object], news: Any) -> None:
        """Calls a user's listener, soon and never within a call of this package.

        From any thread.
        """

    def prepare(self) -> None:
        """Makes sure before a wait that there is a loop, or raises."""

    def renew(self, *, forked: bool) -> None:
        """Forgets the loop and everything on it, if it is closed or belongs to another process."""


class _Base:
    """Connections of one loop, and tasks, held until they end because a loop does not hold them."""

    def __init__(self, certificates: Certificates, lanes: Lanes | None) -> None:
        self._certificates = certificates
        self._lanes = lanes
        self._loop: asyncio.AbstractEventLoop | None = None
        self._http: AsyncTransport | None = None
        self._tasks: set[asyncio.Task[Any]] = set()
        self.renew(forked=False)

    def renew(self, *, forked: bool) -> None:
        if forked:
            abandoned.append((self._loop, self._http, self._tasks))
        self._loop = None
        self._http = None
        self._tasks = set()

    def transport(self) -> AsyncTransport:
        if self._http is None:
            self._http = AsyncTransport(self._certificates, self._lanes)
        return self._http

    def prepare(self) -> None:
        """Does nothing; there is nothing to prepare."""

    async def perform(self, effect: Effect) -> object:
        match effect:
            case Send():
                return await self.transport().send(effect)
            case Sleep(seconds):
                await asyncio.sleep(seconds)
                return None
            case _:
                raise TypeError(f"background work cannot perform {type(effect).__name__}")

    def start(self, coroutine: Coroutine[Any, Any, T]) -> asyncio.Task[T]:
        task = asyncio.get_running_loop().create_task(coroutine)
        self._tasks.add(task)
        task.add_done_callback(self._ended)
        return task

    def _ended(self, task: asyncio.Task[Any]) -> None:
        self._tasks.discard(task)
        if not task.cancelled() and (error := task.exception()) is not None:
            LOG.error("a background task failed", exc_info=error)


class ThreadHost(_Base):
    """Host of a synchronous client: a daemon thread with a loop, and another that calls listeners.

    Both start when first needed.
    """

    def renew(self, *, forked: bool) -> None:
        super().renew(forked=forked)
        self._lock = threading.Lock()
        self._thread: threading.Thread | None = None
        self._notifier: threading.Thread | None = None
        self._news: queue.SimpleQueue[Callable[[], object] | None] = queue.SimpleQueue()
        self._stopped = False

    def call(self, callback: Callable[[], object]) -> None:
        with self._lock:
            if self._stopped:
                return
            self._begin().call_soon_threadsafe(callback)

    def run(self, work: Callable[[], Coroutine[Any, Any, T]]) -> concurrent.futures.Future[T]:
        """Runs the work on the loop. Cancelling the returned future cancels it there.

        Errors: `client_closed`.
        """
        with self._lock:
            if self._stopped:
                raise closed_error()
            return asyncio.run_coroutine_threadsafe(work(), self._begin())

    def run_if_begun(self, work: Callable[[], Coroutine[Any, Any, object]]) -> None:
        """Runs the last work on the loop and waits for it; does nothing without a running loop."""
        with self._lock:
            if self._loop is None or self._stopped:
                return
            ended = asyncio.run_coroutine_threadsafe(work(), self._loop)
        ended.result()

    def notify(self, listener: Callable[[Any], object], news: Any) -> None:
        with self._lock:
            if self._stopped:
                return
            if self._notifier is None:
                self._notifier = threading.Thread(
                    target=_call_listeners, args=(self._news,), name="highwater-listeners", daemon=True
                )
                self._notifier.start()
            self._news.put(lambda: call_listener(listener, news))

    def stop(self) -> None:
        """Ends the threads after all earlier notifications were delivered."""
        with self._lock:
            self._stopped = True
            loop, thread, notifier = self._loop, self._thread, self._notifier
            self._news.put(None)
        me = threading.current_thread()
        if notifier is not None and notifier is not me:
            notifier.join()
        if loop is not None and thread is not None and thread.is_alive():
            loop.call_soon_threadsafe(loop.stop)
            if thread is not me:
                thread.join()

    def _begin(self) -> asyncio.AbstractEventLoop:
        if self._loop is None:
            load()
            self._loop = asyncio.new_event_loop()
            self._thread = threading.Thread(target=self._run, args=(self._loop,), name="highwater", daemon=True)
            self._thread.start()
        return self._loop

    def _run(self, loop: asyncio.AbstractEventLoop) -> None:
        asyncio.set_event_loop(loop)
        try:
            loop.run_forever()
            loop.run_until_complete(self._end())
        finally:
            asyncio.set_event_loop(None)
            loop.close()

    async def _end(self) -> None:
        rest = asyncio.all_tasks() - {asyncio.current_task()}
        for task in rest:
            task.cancel()
        await asyncio.gather(*rest, return_exceptions=True)
        if self._http is not None:
            await self._http.close()
        await asyncio.get_running_loop().shutdown_asyncgens()


class LoopHost(_Base):
    """Host of an asynchronous client: the loop on which it is first used.

    `on_over` is called if that loop is closed and another one takes over.
    """

    def __init__(self, certificates: Certificates, lanes: Lanes | None, on_over: Callable[[], None]) -> None:
        super().__init__(certificates, lanes)
        self._on_over = on_over

    @property
    def is_over(self) -> bool:
        """Whether its loop was closed, as `asyncio.run` does at its end."""
        return self._loop is not None and self._loop.is_closed()

    def prepare(self) -> None:
        if self.is_over:
            self._on_over()
        self.bind()

    def bind(self) -> asyncio.AbstractEventLoop:
        """Returns the running loop.

        Errors: `invalid_options` if the client belongs to another one.
        """
        loop = asyncio.get_running_loop()
        if self._loop is None:
            self._loop = loop
        elif self._loop is not loop:
            raise usage_error("invalid_options", "the client belongs to another event loop; create one for each loop")
        return loop

    def call(self, callback: Callable[[], object]) -> None:
        self.bind().call_soon(callback)

    def transport(self) -> AsyncTransport:
        self.bind()
        return super().transport()

    def notify(self, listener: Callable[[Any], object], news: object) -> None:
        self.bind().call_soon(self._notify, listener, news)

    def _notify(self, listener: Callable[[Any], object], news: object) -> None:
        result = call_listener(listener, news)
        if inspect.iscoroutine(result):
            self.start(_awaited(result))

    async def close(self) -> None:
        """Waits for earlier notifications and closes the connections."""
        await asyncio.sleep(0)
        rest = self._tasks - {asyncio.current_task()}
        await asyncio.gather(*rest, return_exceptions=True)
        if self._http is not None:
            await self._http.close()


def _call_listeners(news: queue.SimpleQueue[Callable[[], object] | None]) -> None:
    while (call := news.get()) is not None:
        call()


def call_listener(listener: Callable[[Any], object], news: object) -> object:
    """Calls a listener of the application. Its exceptions are logged."""
    try:
        return listener(news)
    except Exception:  # it must not end this package's own work
        LOG.exception("a listener failed")
        return None


async def _awaited(result: Coroutine[Any, Any, object]) -> None:
    try:
        await result
    except Exception:  # as above
        LOG.exception("a listener failed")
