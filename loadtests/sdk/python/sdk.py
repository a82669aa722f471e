"""The Python SDK as a subject of the benchmark."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable

import highwater
from highwater import Verdict, sql

_TIMEOUT = 60.0
_UPDATE = "UPDATE bench SET n = n + 1 WHERE id = {row}"
_SELECT = "SELECT n FROM bench WHERE id = {row}"


class AsyncSdk:
    def __init__(self, url: str, *, share_requests: bool) -> None:
        self._hw = highwater.AsyncHighwater(url, share_requests=share_requests)

    async def commit(self, row: int) -> bool:
        try:
            tx = await self._hw.transaction([sql(_UPDATE, row=row), sql(_SELECT, row=row)], isolation="serializable")
        except highwater.SerializationError:
            return False
        # On a slow machine an answer may come too late, and a replay has no rows.
        if not tx.replayed and tx.rows[0]["n"] < 1:
            raise ValueError("there is no such row")
        return True

    async def connect(self) -> None:
        known = asyncio.Event()

        def look(state: highwater.LiveState) -> None:
            if state.marks is not None:
                known.set()

        self._hw.subscribe(look)
        await known.wait()

    def durable(self, token: str) -> asyncio.Future[Verdict]:
        return asyncio.ensure_future(self._hw.promise(token).durable(timeout=_TIMEOUT))


class SyncSdk:
    def __init__(self, url: str, *, share_requests: bool) -> None:
        self._hw = highwater.Highwater(url, share_requests=share_requests)

    def commit(self, row: int) -> bool:
        try:
            tx = self._hw.transaction([sql(_UPDATE, row=row), sql(_SELECT, row=row)], isolation="serializable")
        except highwater.SerializationError:
            return False
        # On a slow machine an answer may come too late, and a replay has no rows.
        if not tx.replayed and tx.rows[0]["n"] < 1:
            raise ValueError("there is no such row")
        return True

    def connect(self) -> None:
        known = threading.Event()

        def look(state: highwater.LiveState) -> None:
            if state.marks is not None:
                known.set()

        self._hw.subscribe(look)
        known.wait()

    def when_durable(self, token: str, listener: Callable[..., None]) -> None:
        self._hw.promise(token).on_durable(listener)
