"""What a program would write by hand: httpx, JSON, and a dictionary of promises.

No retries, no epochs, no failover. The cost of the SDK is measured against this.
"""

from __future__ import annotations

import asyncio
import base64
import json
import os
import threading
import time
from collections.abc import Callable
from typing import Any

import httpx

_LIMITS = httpx.Limits(max_connections=None, max_keepalive_connections=64)
_TIMEOUT = 60.0
#: Where the offset begins in the token of a write: flags, id and epoch stand before it.
_OFFSET_AT = 66
_MAC_BYTES = 16


def _request(row: int) -> bytes:
    head, tail = f"{int(time.time() * 1_000):012x}", os.urandom(8).hex()
    request = {
        "id": f"{head[:8]}-{head[8:]}-7{tail[:3]}-8{tail[3:6]}-{tail[4:16]}",
        "statements": [
            {"sql": "UPDATE bench SET n = n + 1 WHERE id = $1", "params": [row]},
            {"sql": "SELECT n FROM bench WHERE id = $1", "params": [row]},
        ],
        "isolation": "serializable",
    }
    return json.dumps(request).encode()


_HEADERS = {"content-type": "application/json"}


def _is_committed(response: httpx.Response) -> bool:
    answer: dict[str, Any] = response.json()
    if answer.get("code") == "serialization_failure":
        return False
    if int(answer["results"][-1]["rows"][0][0]) < 1:
        raise ValueError(answer)
    return True


def _offset_of(token: str) -> int:
    text = token.removeprefix("hw2_")
    content = base64.urlsafe_b64decode(text + "=" * (-len(text) % 4))
    return int.from_bytes(content[_OFFSET_AT:-_MAC_BYTES])


def _marks_in(text: str) -> tuple[list[int], str]:
    """The marks of whole events, and what is left."""
    *events, rest = text.split("\n\n")
    datas = [event.split("data: ", 1)[1] for event in events if "\nevent: mark\n" in event]
    return [int(json.loads(data)["levels"]["region"]) for data in datas], rest


class AsyncBare:
    def __init__(self, url: str) -> None:
        self._url = url
        self._http = httpx.AsyncClient(limits=_LIMITS)
        self._waiting: dict[str, tuple[int, asyncio.Future[None], asyncio.TimerHandle]] = {}
        self._reader: asyncio.Task[None] | None = None
        self._connected = asyncio.Event()

    async def commit(self, row: int) -> bool:
        url = f"{self._url}/v1/transactions"
        return _is_committed(await self._http.post(url, content=_request(row), headers=_HEADERS))

    async def connect(self) -> None:
        self._reader = self._reader or asyncio.ensure_future(self._read())
        await self._connected.wait()

    async def _read(self) -> None:
        text = ""
        async with self._http.stream("GET", f"{self._url}/v1/durability/stream", timeout=None) as stream:
            async for part in stream.aiter_text():
                marks, text = _marks_in(text + part)
                for mark in marks:
                    self._advance(mark)
                    self._connected.set()

    def _advance(self, mark: int) -> None:
        for token, (offset, future, timer) in list(self._waiting.items()):
            if offset <= mark:
                del self._waiting[token]
                timer.cancel()
                future.set_result(None)

    def durable(self, token: str) -> asyncio.Future[None]:
        loop = asyncio.get_running_loop()
        future = loop.create_future()
        timer = loop.call_later(_TIMEOUT, future.cancel)
        self._waiting[token] = (_offset_of(token), future, timer)
        return future


class SyncBare:
    def __init__(self, url: str) -> None:
        self._url = url
        self._http = httpx.Client(limits=_LIMITS)
        self._waiting: dict[str, tuple[int, Callable[[], None]]] = {}
        self._connected = threading.Event()
        self._reader: threading.Thread | None = None

    def commit(self, row: int) -> bool:
        url = f"{self._url}/v1/transactions"
        return _is_committed(self._http.post(url, content=_request(row), headers=_HEADERS))

    def connect(self) -> None:
        if self._reader is None:
            self._reader = threading.Thread(target=self._read, daemon=True)
            self._reader.start()
        self._connected.wait()

    def _read(self) -> None:
        text = ""
        with self._http.stream("GET", f"{self._url}/v1/durability/stream", timeout=None) as stream:
            for part in stream.iter_text():
                marks, text = _marks_in(text + part)
                for mark in marks:
                    for token, (offset, listener) in list(self._waiting.items()):
                        if offset <= mark:
                            del self._waiting[token]
                            listener()
                    self._connected.set()

    def when_durable(self, token: str, listener: Callable[[], None]) -> None:
        self._waiting[token] = (_offset_of(token), listener)
