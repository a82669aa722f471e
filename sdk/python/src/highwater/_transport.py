"""HTTP exchanges over httpx: one request, and one answer or the lack of one.

Only this module and `_shared_requests` know the HTTP library. `_core` interprets answers and
decides about retries.
"""

from __future__ import annotations

import asyncio
import contextlib
import importlib
import logging
import ssl
import threading
import time
from collections.abc import AsyncIterator, Coroutine, Mapping
from typing import Any
from urllib.parse import urljoin

import httpx

from ._core.effects import HttpResponse, NoResponse, Send
from ._lanes import Lanes
from ._shared_requests import SharedRequests

#: Idle connections to keep, and for how long: longer than a pause between two transactions.
_LIMITS = httpx.Limits(max_connections=None, max_keepalive_connections=64, keepalive_expiry=30.0)
_FAILURES = (httpx.HTTPError, httpx.InvalidURL, OSError)
#: Failures after which certainly nothing of the request was sent.
_NEVER_SENT = (httpx.ConnectError, httpx.ConnectTimeout, httpx.PoolTimeout, httpx.UnsupportedProtocol, httpx.InvalidURL)

LOG = logging.getLogger("highwater")
#: Set when the first failure of the process was logged. With a wrong address, the program would
#: show nothing until the time of the call is over.
_told = threading.Event()

Verify = ssl.SSLContext | bool


def load() -> None:
    """Loads the modules that a first request needs.

    A fork during that import would leave it half done for good.
    """
    with contextlib.suppress(ImportError):
        importlib.import_module("anyio._backends._asyncio")


class Certificates:
    """TLS settings for all connections of a client.

    They are read once and when needed, because that takes some milliseconds.
    """

    def __init__(self, verify: Verify) -> None:
        self._verify = verify
        self.renew()

    def renew(self) -> None:
        """Renews the lock after a fork: a thread that is gone may hold it."""
        self._lock = threading.Lock()

    def __call__(self) -> ssl.SSLContext:
        with self._lock:
            if isinstance(self._verify, bool):
                self._verify = httpx.create_ssl_context(verify=self._verify)
            return self._verify


class StreamError(Exception):
    """A stream that could not be opened, or broke."""


class StreamSilentError(StreamError):
    """A stream that was silent for too long."""


class SyncTransport:
    """Exchanges in the calling thread. Any number of threads may share it."""

    def __init__(self, certificates: Certificates) -> None:
        self._client = httpx.Client(verify=certificates(), limits=_LIMITS)

    def send(self, request: Send) -> HttpResponse | NoResponse:
        """Makes an exchange.

        A trickling body may take twice the time: httpx limits only single reads.
        """
        deadline = time.monotonic() + request.timeout
        chunks: list[bytes] = []
        try:
            with self._client.stream(
                request.method,
                request.url,
                headers=request.headers,
                content=request.body,
                timeout=request.timeout,
            ) as response:
                for chunk in response.iter_bytes():
                    chunks.append(chunk)
                    if time.monotonic() > deadline:
                        return NoResponse("timeout")
        except _FAILURES as error:
            return _no_answer(error, request.url)
        return HttpResponse(response.status_code, response.headers, b"".join(chunks))

    def close(self) -> None:
        self._client.close()


class AsyncTransport:
    """Exchanges and streams on one event loop.

    With `lanes`, one-shot transactions share requests.
    """

    def __init__(self, certificates: Certificates, lanes: Lanes | None = None) -> None:
        self._client = httpx.AsyncClient(verify=certificates(), limits=_LIMITS)
        self._shared = None if lanes is None else SharedRequests(self._client, self._alone, lanes)

    async def send(self, request: Send, *, is_alone: bool = False) -> HttpResponse | NoResponse:
        """Makes an exchange.

        Cancelling it affects no other. `is_alone`: it shares no request, so cancelling it closes
        its connection.
        """
        exchange = self._alone if is_alone else self._exchange
        try:
            async with asyncio.timeout(request.timeout):
                if request.probe is None or request.probe >= request.timeout:
                    return await exchange(request)
                return await self._watched(exchange(request), request, request.probe)
        except TimeoutError as error:
            return NoResponse("timeout", error)
        except _FAILURES as error:
            return _no_answer(error, request.url)

    async def _exchange(self, request: Send) -> HttpResponse:
        if self._shared is not None and self._shared.takes(request):
            return await self._shared.exchange(request)
        return await self._alone(request)

    async def _alone(self, request: Send) -> HttpResponse:
        # The caller limits the whole exchange, so each part may take all of the time.
        response = await self._client.request(
            request.method,
            request.url,
            headers=request.headers,
            content=request.body,
            timeout=request.timeout,
        )
        return HttpResponse(response.status_code, response.headers, response.content)

    async def _watched(
        self, work: Coroutine[Any, Any, HttpResponse], request: Send, probe: float
    ) -> HttpResponse | NoResponse:
        exchange = asyncio.ensure_future(work)
        try:
            done, _ = await asyncio.wait({exchange}, timeout=probe)
            if not done and not await self._gives_sign_of_life(request.url, exchange, probe, request.patience):
                return NoResponse("timeout")
            return await exchange
        finally:
            await _end(exchange)

    async def _gives_sign_of_life(self, url: str, exchange: asyncio.Future[Any], probe: float, patience: int) -> bool:
        """Whether the endpoint gives any answer, even a refusal; only a black hole gives none.

        A slow statement keeps its time.
        """
        asking = self._client.get(urljoin(url, "/"), timeout=2 * probe * patience)
        sign: asyncio.Future[Any] = asyncio.ensure_future(asking)
        done: set[asyncio.Future[Any]] = set()
        try:
            # Several short waits: a process that was suspended for a while misses one of them, not
            # all.
            for _ in range(patience):
                done, _pending = await asyncio.wait(
                    {exchange, sign}, timeout=probe, return_when=asyncio.FIRST_COMPLETED
                )
                if done:
                    break
            # A request that times out got no sign of life; a refused connection is one.
            return exchange in done or (sign in done and not isinstance(sign.exception(), httpx.TimeoutException))
        finally:
            await _end(sign)

    @contextlib.asynccontextmanager
    async def stream(
        self, url: str, headers: Mapping[str, str], *, silence: float
    ) -> AsyncIterator[tuple[int, str, AsyncIterator[bytes]]]:
        """Yields status, type and body of an answer that arrives in pieces.

        `silence` is the maximum pause in seconds. Raises `StreamError` if the stream cannot be
        opened or breaks, `StreamSilentError` if a pause is too long.
        """
        try:
            async with self._client.stream("GET", url, headers=headers, timeout=silence) as response:
                yield response.status_code, response.headers.get("content-type", ""), response.aiter_bytes()
        except _FAILURES as error:
            kind = StreamSilentError if isinstance(error, httpx.TimeoutException) else StreamError
            raise kind(f"{type(error).__name__}: {error}") from error

    async def close(self) -> None:
        if self._shared is not None:
            await self._shared.close()
        await self._client.aclose()


async def _end(task: asyncio.Future[Any]) -> None:
    """Cancels a task and waits for its end, so that no connection is left half used."""
    if not task.done():
        task.cancel()
        await asyncio.wait({task})
    if not task.cancelled():
        task.exception()


def _no_answer(error: Exception, url: str) -> NoResponse:
    is_refused = isinstance(error, _NEVER_SENT)
    if not is_refused and isinstance(error, httpx.TimeoutException):
        return NoResponse("timeout", error)
    if not _told.is_set():
        _told.set()
        LOG.warning("%s cannot be reached: %s", url, error)
    return NoResponse("refused" if is_refused else "broken", error)
