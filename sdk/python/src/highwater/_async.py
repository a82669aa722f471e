"""How coroutines wait: they await the effects of the core and promises."""

from __future__ import annotations

import asyncio
import concurrent.futures
import contextlib
import inspect
import math
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Coroutine
from types import TracebackType
from typing import Any, Generic, Self, TypeVar

from ._background import Host, LoopHost
from ._client import BaseClient
from ._core.effects import AwaitDurable, CallBody, Effect, Raised, Returned, Steps
from ._core.errors import NoAnswerError, closed_error, unknown_outcome
from ._core.pending_set import PendingPromise
from ._core.wire import Verdict
from ._drivers import Outcome, Visit, drive_async, explain
from ._interactive import no_turn
from ._options import DURABLE_TIMEOUT
from ._promise import BasePromise
from ._transaction import BaseTransaction
from ._waits import AnyWait, Waiting
from ._watcher import Watcher

R = TypeVar("R")
P = TypeVar("P", bound=BasePromise)
T = TypeVar("T", bound=BaseTransaction)


async def awaited(result: Awaitable[R] | R) -> R:
    """Returns the result of a user's function, which may be a coroutine function."""
    return await result if inspect.isawaitable(result) else result


async def joined(work: asyncio.Future[R] | concurrent.futures.Future[R], *, timeout: float | None = None) -> R:
    """Waits for work on this loop that others may wait for, too. Errors: `TimeoutError`."""
    async with asyncio.timeout(timeout):
        return await asyncio.shield(work if isinstance(work, asyncio.Future) else asyncio.wrap_future(work))


async def wait_durable(
    host: Host, watcher: Watcher, entries: Collection[PendingPromise], *, level: str, timeout: float | None
) -> list[Verdict]:
    """Waits until all entries are durable at the level.

    Raises the error of the first entry that is settled otherwise.
    """
    host.prepare()
    limit = DURABLE_TIMEOUT if timeout is None else timeout
    return await ended(lambda done: Waiting(watcher, entries, level, done), limit)


async def ended(begin: Callable[[Callable[[], None]], AnyWait[R]], limit: float) -> R:
    """Begins a wait, and returns its result when it is done or when the time is over."""
    loop = asyncio.get_running_loop()
    over = loop.create_future()

    def end() -> None:
        if not over.done():
            over.set_result(None)

    timer = None
    waiting = begin(end)
    try:
        if not waiting.is_done:
            # Ten thousand promises may wait at a time: asyncio.timeout would be the largest part of
            # each wait.
            timer = loop.call_later(limit, end)
            await over
        return waiting.result(limit)
    finally:
        if timer is not None:
            timer.cancel()
        waiting.end()


async def together(calls: Collection[Callable[[], Coroutine[Any, Any, R]]]) -> list[R | BaseException]:
    """Makes the calls at the same time. Returns what each returned or raised."""
    return await asyncio.gather(*(call() for call in calls), return_exceptions=True)


class Turns:
    """Makes the calls of one transaction run one after another."""

    def __init__(self, transaction_id: str) -> None:
        self._id = transaction_id
        self._lock = asyncio.Lock()
        self._commits = 0

    @contextlib.asynccontextmanager
    async def take(self, seconds: float | None, *, is_commit: bool = False) -> AsyncIterator[float]:
        """Waits for earlier calls of the transaction and yields the time left.

        Without `seconds` there is no limit. Errors: `request_timeout`; nothing was sent then.
        """
        deadline = math.inf if seconds is None else time.monotonic() + seconds
        is_committing = self._commits > 0
        self._commits += is_commit
        try:
            try:
                async with asyncio.timeout(seconds):
                    await self._lock.acquire()
            except TimeoutError as error:
                raise no_turn(error, is_committing=is_committing) from error
            except asyncio.CancelledError as error:
                if is_committing:
                    explain(error, unknown_outcome(self._id))
                raise
            try:
                yield max(0.0, deadline - time.monotonic())
            finally:
                self._lock.release()
        finally:
            self._commits -= is_commit


class AsyncCalls(BaseClient[P, T], Generic[P, T]):
    """Performs the calls of the asynchronous client, and waits for them when it is closed."""

    _host: LoopHost

    def _make_host(self) -> LoopHost:
        self._calls = 0
        self._idle: asyncio.Future[None] | None = None
        self._is_closed = False
        self._closing: asyncio.Task[None] | None = None
        return LoopHost(self._certificates, self._lanes, lambda: self._renew(forked=False))

    def _renew(self, *, forked: bool) -> None:
        super()._renew(forked=forked)
        self._calls = 0
        self._idle = None

    async def close(self) -> None:
        """Closes the client: ends waits with `client_closed` and closes the stream.

        Returns when calls in progress have their answers and the listeners have been called for all
        earlier verdicts. A second call waits for the same; any other call made afterwards raises
        `client_closed`. If this call is cancelled, closing continues: calls in progress still get
        their answers. Another client can still judge stored tokens.
        """
        if not self._is_closed:
            self._is_closed = True
            self._end_listening()
            if not self._host.is_over:
                self._closing = asyncio.get_running_loop().create_task(self._close())
        if self._closing is not None and not self._host.is_over:
            await asyncio.shield(self._closing)

    async def _close(self) -> None:
        try:
            while self._calls > 0:
                self._idle = asyncio.get_running_loop().create_future()
                await self._idle
        finally:
            # Also if the event loop ends before that.
            await self._watcher.quit()
            await self._host.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        await self.close()

    def _enter(self) -> None:
        if self._is_closed:
            raise closed_error()
        self._host.prepare()
        self._calls += 1

    def _leave(self) -> None:
        self._calls -= 1
        if self._calls == 0 and self._idle is not None and not self._idle.done():
            self._idle.set_result(None)

    async def _run(self, steps: Steps[R], outcome: Outcome | None = None) -> R:
        with Visit(self._enter, self._leave):
            return await drive_async(steps, self._host.perform, outcome or Outcome())

    async def _finish(self, steps: Steps[None]) -> None:
        """Rolls back.

        A closed client sends nothing: the service ends an abandoned transaction itself.
        """
        try:
            await self._run(steps)
        except NoAnswerError as error:
            if error.code != "client_closed":
                raise

    async def _run_body(self, steps: Steps[Any], call: Callable[[Any], Awaitable[object]]) -> Any:
        """Runs `transact`. `call` calls the user's function with a transaction of the core."""
        # Not while the body runs: it is the user's code and may close the client.
        visit = Visit(self._enter, self._leave)

        async def perform(effect: Effect) -> object:
            match effect:
                case CallBody(transaction):
                    visit.leave()
                    try:
                        return Returned(await call(transaction))
                    except Exception as error:  # noqa: BLE001 - the core handles it
                        return Raised(error)
                case AwaitDurable(committed, timeout):
                    return await committed.durable(timeout=timeout)
                case _:
                    visit.enter()
                    return await self._host.perform(effect)

        with visit:
            return await drive_async(steps, perform, Outcome())
