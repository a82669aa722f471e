"""One suite for both clients: a test awaits every call, and where the client is sync, a thread makes the call."""

from __future__ import annotations

import asyncio
import concurrent.futures
import functools
import inspect
from collections.abc import Awaitable, Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from types import TracebackType
from typing import Any, Self

from highwater import AsyncHighwater, Cancellation, DurabilityPromise, Highwater, InteractiveTransaction, Session
from highwater._core.tuning import DEFAULT_TUNING, Tuning
from tests.client.fake_service import LIMIT, FakeService

QUICK = replace(
    DEFAULT_TUNING, backoff_base_ms=2, backoff_max_ms=20, attempt_min_ms=150, stream_idle_ms=20, verdict_wait_ms=50
)

CANCELLED = (asyncio.CancelledError, concurrent.futures.CancelledError)

_BLOCKING = {
    *("transaction", "transact", "verdicts", "status", "close", "durable", "after_durable"),
    *("query", "execute", "commit", "rollback", "resume"),
}
_WRAPPED = (Highwater, Session, InteractiveTransaction, DurabilityPromise)


class Threaded:
    """A sync client, or what it gives out, with its calls made by threads of their own."""

    def __init__(self, target: Any, pool: ThreadPoolExecutor, loop: asyncio.AbstractEventLoop) -> None:
        self.target = target
        self._pool = pool
        self._loop = loop

    def __getattr__(self, name: str) -> Any:
        value = getattr(self.target, name)
        if name in _BLOCKING:
            return functools.partial(self._call, value)
        if callable(value):
            return lambda *arguments, **options: self._wrap(value(*arguments, **options))
        return self._wrap(value)

    async def _call(self, function: Callable[..., Any], /, *arguments: Any, **options: Any) -> Any:
        plain = [self._unwrap(each) for each in arguments]
        options = {name: self._unwrap(each) for name, each in options.items()}
        value, error = await self._loop.run_in_executor(
            self._pool, _caught, functools.partial(function, *plain, **options)
        )
        if error is not None:
            raise error
        return self._wrap(value)

    def _wrap(self, value: Any) -> Any:
        return Threaded(value, self._pool, self._loop) if isinstance(value, _WRAPPED) else value

    def _unwrap(self, value: Any) -> Any:
        if isinstance(value, Threaded):
            return value.target
        if inspect.iscoroutinefunction(value):
            return lambda argument: asyncio.run_coroutine_threadsafe(value(self._wrap(argument)), self._loop).result()
        return value

    def __await__(self) -> Any:
        yield from ()
        return self

    async def __aenter__(self) -> Self:
        self.target.__enter__()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        await self._call(self.target.__exit__, kind, error, traceback)


def _caught(function: Callable[[], Any]) -> tuple[Any, BaseException | None]:
    """The result or the very error: a future would make another one of a cancellation."""
    try:
        return function(), None
    except BaseException as error:  # noqa: BLE001 - it is raised again by who asked
        return None, error


class World:
    """Services and clients of one test, which end with it."""

    def __init__(self, kind: str) -> None:
        self.is_async = kind == "async"
        self._pool = ThreadPoolExecutor(max_workers=64)
        self._services: list[FakeService] = []
        self._clients: list[Any] = []

    async def service(self, **script: Any) -> FakeService:
        service = await FakeService(**script).start()
        self._services.append(service)
        return service

    def client(self, *services: FakeService, tuning: Tuning = QUICK, **options: Any) -> Any:
        """A client with short delays and long limits: a machine that stalls must not make it send a request twice."""
        given = {"request_timeout": 20.0, "total_timeout": 30.0, "tuning": tuning, **options}
        if "endpoints" not in given and "url" not in given:
            given["url"] = [service.url for service in services]
        client: Any
        if self.is_async:
            client = AsyncHighwater(**given)
        else:
            client = Threaded(Highwater(**given), self._pool, asyncio.get_running_loop())
        self._clients.append(client)
        return client

    async def close(self) -> None:
        async with asyncio.timeout(LIMIT):
            await asyncio.gather(*(client.close() for client in self._clients))
            for service in self._services:
                await service.stop()
        self._pool.shutdown()


def start(
    world: World, call: Callable[..., Awaitable[Any]], *arguments: Any, **options: Any
) -> tuple[asyncio.Future[Any], Callable[[], Awaitable[object]]]:
    """Begins the call. Gives it, and the function that cancels it."""
    if world.is_async:
        task = asyncio.ensure_future(call(*arguments, **options))

        async def cancel() -> object:
            return task.cancel()

        return task, cancel
    cancellation = Cancellation()
    task = asyncio.ensure_future(call(*arguments, **options, cancel=cancellation))
    return task, lambda: asyncio.to_thread(cancellation.cancel)


class Heard:
    """A listener that remembers, whichever thread it is called on."""

    def __init__(self) -> None:
        self.news: list[Any] = []
        self._loop = asyncio.get_running_loop()
        self._changed = asyncio.Event()

    def __call__(self, news: Any) -> None:
        self.news.append(news)
        self._loop.call_soon_threadsafe(self._changed.set)

    async def until(self, condition: Callable[[Sequence[Any]], bool]) -> None:
        async with asyncio.timeout(LIMIT):
            while not condition(self.news):
                self._changed.clear()
                await self._changed.wait()


async def until(condition: Callable[[], bool]) -> None:
    """For what is not announced: looks again and again."""
    async with asyncio.timeout(LIMIT):
        while not condition():  # noqa: ASYNC110 - nobody tells
            await asyncio.sleep(0.005)
