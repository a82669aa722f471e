"""Sends concurrent one-shot transactions of a client in few requests.

Owns which transactions share a request. It knows nothing of errors, retries and time limits: each
transaction gets its own answer as soon as it ends.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field

import httpx

from ._core.effects import HttpResponse, Send
from ._core.errors import usage_error

#: The service's own limit.
_COUNT_MAX = 256
#: Maximum size of a request in bytes. A larger transaction is sent alone.
_BYTES_MAX = 262_144
_PATH = "/v1/transactions"
#: Statuses of a whole request, before any of it ran: an older gateway, or one that wants shorter
#: requests.
_OLDER = (404, 405)
_TOO_LONG = 413

_Key = tuple[str, tuple[tuple[str, str], ...]]


@dataclass(frozen=True, slots=True)
class Batch:
    """How transactions that begin at about the same time share a request.

    Pass it as `Highwater(url, batch=Batch(...))`. A single transaction takes `max_delay_ms` longer.
    A cancelled one continues at the gateway while others share its request.

    Errors: `invalid_options`.

    Example:
        with Highwater("https://highwater.example", batch=Batch(max_delay_ms=2)) as many, ThreadPoolExecutor(8) as pool:
            texts = [sql("INSERT INTO note VALUES ({text})", text=text) for text in ("a", "b", "c")]
            print(len(list(pool.map(many.transaction, texts))))
    """

    max_delay_ms: float = 1
    """Time that a transaction waits for others to share its request, in milliseconds."""
    max_count: int = 64
    """Maximum number of transactions in a request, from 1 to 256."""

    def __post_init__(self) -> None:
        if self.max_delay_ms < 0 or not 1 <= self.max_count <= _COUNT_MAX:
            raise usage_error(
                "invalid_options", "batch: max_delay_ms must not be negative, and max_count must be 1 to 256"
            )


def is_one_shot(request: Send) -> bool:
    return request.method == "POST" and request.url.endswith(_PATH)


@dataclass(slots=True, eq=False)
class _Item:
    request: Send
    body: bytes
    #: None: send it alone.
    answer: asyncio.Future[HttpResponse | None]


@dataclass(slots=True, eq=False)
class _Open:
    """A batch that transactions may still join."""

    timer: asyncio.TimerHandle
    items: list[_Item] = field(default_factory=list)
    size: int = 0


class Batches:
    """The batches of one event loop."""

    def __init__(
        self, client: httpx.AsyncClient, alone: Callable[[Send], Awaitable[HttpResponse]], options: Batch
    ) -> None:
        self._client = client
        self._alone = alone
        self._options = options
        self._open: dict[_Key, _Open] = {}
        #: URLs of gateways without batches, because they are older.
        self._without: set[str] = set()
        self._tasks: set[asyncio.Task[None]] = set()

    def takes(self, request: Send) -> bool:
        return is_one_shot(request) and len(request.body or b"") <= _BYTES_MAX and request.url not in self._without

    async def exchange(self, request: Send) -> HttpResponse:
        """Returns the answer to a request.

        Raises what httpx raises. Cancelling it does not affect the others in the batch.
        """
        item = _Item(request, request.body or b"", asyncio.get_running_loop().create_future())
        self._join(item)
        return await item.answer or await self._alone(request)

    def _join(self, item: _Item) -> None:
        request, body = item.request, item.body
        # Each transaction has its own trace; the request has that of the first.
        headers = ((name, value) for name, value in request.headers.items() if not name.startswith("trace"))
        key = (request.url, tuple(headers))
        batch = self._open.get(key)
        if batch is not None and batch.size + len(body) > _BYTES_MAX:
            self._leave(key)
            batch = None
        if batch is None:
            delay = self._options.max_delay_ms / 1_000
            batch = _Open(asyncio.get_running_loop().call_later(delay, self._leave, key))
            self._open[key] = batch
        batch.items.append(item)
        batch.size += len(body)
        if len(batch.items) >= self._options.max_count:
            self._leave(key)

    def _leave(self, key: _Key) -> None:
        batch = self._open.pop(key)
        batch.timer.cancel()
        items = [item for item in batch.items if not item.answer.done()]
        if len(items) == 1:
            items[0].answer.set_result(None)
        elif items:
            task = asyncio.get_running_loop().create_task(self._send(items))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)
            for item in items:
                item.answer.add_done_callback(_last_of(items, task))

    async def _send(self, items: list[_Item]) -> None:
        try:
            await self._exchange(items)
        except Exception as error:  # noqa: BLE001 - any error is the answer to each of them
            for item in items:
                if not item.answer.done():
                    item.answer.set_exception(error)

    async def _exchange(self, items: list[_Item]) -> None:
        first = items[0].request
        async with self._client.stream(
            "POST",
            f"{first.url}/batch",
            headers=first.headers,
            content=b'{"transactions":[' + b",".join(item.body for item in items) + b"]}",
            timeout=max(item.request.timeout for item in items),
        ) as response:
            status = response.status_code
            if status in _OLDER or status == _TOO_LONG:
                if status != _TOO_LONG:
                    self._without.add(first.url)
                _answer(items, None)
            elif status != httpx.codes.OK:
                _answer(items, HttpResponse(status, response.headers, await response.aread()))
            else:
                await _read(response, items)

    async def close(self) -> None:
        """Ends requests in progress, whose callers have ended."""
        for key in list(self._open):
            self._open.pop(key).timer.cancel()
        rest = list(self._tasks)
        for task in rest:
            task.cancel()
        await asyncio.gather(*rest, return_exceptions=True)


def _answer(items: list[_Item], answer: HttpResponse | None) -> None:
    for item in items:
        if not item.answer.done():
            item.answer.set_result(answer)


async def _read(response: httpx.Response, items: list[_Item]) -> None:
    rest = b""
    async for chunk in response.aiter_bytes():
        *lines, rest = (rest + chunk).split(b"\n")
        for line in lines:
            try:
                answered = json.loads(line)
                answer = items[answered["index"]].answer
                status, body = int(answered["status"]), json.dumps(answered["body"]).encode()
            except (ValueError, LookupError, TypeError) as error:
                raise httpx.RemoteProtocolError("a line of the batch response is malformed") from error
            if not answer.done():
                answer.set_result(HttpResponse(status, {}, body))
    if not all(item.answer.done() for item in items):
        raise httpx.RemoteProtocolError("the batch response ended before the answer to this transaction")


def _last_of(items: list[_Item], task: asyncio.Task[None]) -> Callable[[asyncio.Future[HttpResponse | None]], None]:
    """Ends the request when every caller that waits for it has given up."""

    def ended(answer: asyncio.Future[HttpResponse | None]) -> None:
        if answer.cancelled() and all(item.answer.done() for item in items):
            task.cancel()

    return ended
