"""Sends one-shot transactions of one event loop, several of them in one request.

Owns whose answer is whose; `_lanes` decides which leave together. It knows nothing of errors,
retries and time limits: each transaction gets its own answer as soon as it ends.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable

import httpx

from ._core.effects import HttpResponse, Send
from ._lanes import TRACE_HEADERS, TRACEPARENT, Item, Lanes

#: Maximum size of a transaction in bytes; a larger one is sent alone. So a full request stays below
#: the 4 MiB that the service takes.
_BYTES_MAX = 16_384
_PATH = "/v1/transactions"
#: The gateway is too old for shared requests.
_UNKNOWN = (404, 405)
#: Statuses of a whole request, before any of it ran.
_NOT_RUN = (400, *_UNKNOWN, 413)


def may_share(request: Send) -> bool:
    return request.method == "POST" and request.url.endswith(_PATH) and len(request.body or b"") <= _BYTES_MAX


class SharedRequests:
    """The shared requests of one event loop."""

    def __init__(
        self, client: httpx.AsyncClient, alone: Callable[[Send], Awaitable[HttpResponse]], lanes: Lanes
    ) -> None:
        self._client = client
        self._alone = alone
        self._lanes = lanes
        #: URLs of gateways that are too old for shared requests.
        self._without: set[str] = set()
        self._tasks: set[asyncio.Task[None]] = set()

    def takes(self, request: Send) -> bool:
        return may_share(request) and request.url not in self._without

    async def exchange(self, request: Send) -> HttpResponse:
        """Returns the answer to a request.

        Raises what httpx raises. Cancelling it does not affect the others in the request.
        """
        loop = asyncio.get_running_loop()
        item = Item(request, loop.create_future())
        lane = self._lanes.of(request)
        lane.join(item, loop, lambda items: self._start(items, lane.ended))
        try:
            return await item.answer or await self._alone(request)
        finally:
            if item.is_alone:
                lane.ended()

    def _start(self, items: list[Item], ended: Callable[[], None]) -> None:
        if len(items) == 1:
            items[0].is_alone = True
            items[0].answer.set_result(None)
            return
        task = asyncio.get_running_loop().create_task(self._send(items))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        task.add_done_callback(lambda _: ended())
        ended_one = _ends_unwanted(task, len(items))
        for item in items:
            item.answer.add_done_callback(ended_one)

    async def _send(self, items: list[Item]) -> None:
        try:
            await self._exchange(items)
        except Exception as error:  # noqa: BLE001 - any error is the answer to each of them
            for item in items:
                if not item.answer.done():
                    item.answer.set_exception(error)

    async def _exchange(self, items: list[Item]) -> None:
        first = items[0].request
        async with self._client.stream(
            "POST",
            f"{first.url}/batch",
            headers={name: value for name, value in first.headers.items() if name not in TRACE_HEADERS},
            content=_body_of([item.request for item in items]),
            timeout=max(item.request.timeout for item in items),
        ) as response:
            status = response.status_code
            if status == httpx.codes.OK:
                await _read(response, items)
                return
            body = await response.aread()
        if status in _UNKNOWN:
            self._without.add(first.url)
        _answer(items, None if status in _NOT_RUN else HttpResponse(status, response.headers, body))

    async def close(self) -> None:
        """Ends requests in progress, whose callers have ended."""
        rest = list(self._tasks)
        for task in rest:
            task.cancel()
        await asyncio.gather(*rest, return_exceptions=True)


def _body_of(requests: list[Send]) -> bytes:
    traces = [request.headers.get(TRACEPARENT, "") for request in requests]
    rest = b',"traceparents":' + json.dumps(traces).encode() if any(traces) else b""
    return b'{"transactions":[' + b",".join(request.body or b"" for request in requests) + b"]" + rest + b"}"


def _answer(items: list[Item], answer: HttpResponse | None) -> None:
    for item in items:
        if not item.answer.done():
            item.answer.set_result(answer)


async def _read(response: httpx.Response, items: list[Item]) -> None:
    parts: list[bytes] = []
    async for chunk in response.aiter_bytes():
        *ends, rest = chunk.split(b"\n")
        for end in ends:
            _take(b"".join((*parts, end)), items)
            parts.clear()
        parts.append(rest)
    if not all(item.answer.done() for item in items):
        raise httpx.RemoteProtocolError("the response ended before the answer to this transaction")


def _take(line: bytes, items: list[Item]) -> None:
    try:
        answered = json.loads(line)
        answer = items[answered["index"]].answer
        status, body = int(answered["status"]), json.dumps(answered["body"]).encode()
    except (ValueError, LookupError, TypeError) as error:
        raise httpx.RemoteProtocolError("a line of the response is malformed") from error
    if not answer.done():
        answer.set_result(HttpResponse(status, {}, body))


def _ends_unwanted(task: asyncio.Task[None], count: int) -> Callable[[asyncio.Future[HttpResponse | None]], None]:
    """Ends the request when no caller waits for it any more, although an answer is missing."""
    has_given_up = False

    def ended_one(answer: asyncio.Future[HttpResponse | None]) -> None:
        nonlocal count, has_given_up
        count -= 1
        has_given_up = has_given_up or answer.cancelled()
        if count == 0 and has_given_up:
            task.cancel()

    return ended_one
