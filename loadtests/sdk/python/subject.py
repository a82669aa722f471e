"""A subject of the benchmark: the Python SDK, or a program by hand with httpx alone.

Usage: subject.py sync|async bare|sdk|unshared, with orders on standard input; see ../protocol.ts.
"""

from __future__ import annotations

import asyncio
import gc
import json
import random
import sys
import threading
import time
import traceback
import tracemalloc
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Protocol

import httpx
from bare import AsyncBare, SyncBare

from sdk import AsyncSdk, SyncSdk

ROWS = 10_000


class AsyncClient(Protocol):
    async def commit(self, row: int) -> bool:
        """False: refused for a conflict with another transaction, and nothing was applied."""

    async def connect(self) -> None:
        """Returns when the stream has sent the current state."""

    def durable(self, token: str) -> asyncio.Future[Any]:
        """Done when the token's transaction is durable."""


class SyncClient(Protocol):
    def commit(self, row: int) -> bool: ...

    def connect(self) -> None: ...

    def when_durable(self, token: str, count_down: CountDown) -> None:
        """Counts down when the transaction is durable, without a thread for each wait."""


class CountDown:
    def __init__(self, count: int) -> None:
        self._left = count
        self._lock = threading.Lock()
        self._is_done = threading.Event()
        self.done_ns = 0

    def __call__(self, *_: object) -> None:
        with self._lock:
            self._left -= 1
            if self._left == 0:
                self.done_ns = time.monotonic_ns()
                self._is_done.set()

    def wait(self) -> None:
        if not self._is_done.wait(60):
            raise TimeoutError("not all promises were kept")


def _tokens(url: str, count: int) -> list[str]:
    tokens: list[str] = httpx.get(f"{url}/bench/tokens?count={count}", timeout=60).json()
    return tokens


def _traced_bytes() -> int:
    gc.collect()
    return tracemalloc.get_traced_memory()[0]


class AsyncSubject:
    def __init__(self, way: str) -> None:
        self._way = way
        self._clients: dict[str, AsyncClient] = {}
        self._pending: list[asyncio.Future[Any]] = []

    def _client(self, url: str) -> AsyncClient:
        if url not in self._clients:
            self._clients[url] = (
                AsyncBare(url) if self._way == "bare" else AsyncSdk(url, share_requests=self._way == "sdk")
            )
        return self._clients[url]

    async def commit(self, order: dict[str, Any]) -> dict[str, Any]:
        client = self._client(order["url"])
        committed = conflicts = 0
        started, cpu = time.monotonic(), time.process_time()

        async def loop() -> None:
            nonlocal committed, conflicts
            while time.monotonic() < started + order["seconds"]:
                row = random.randint(1, ROWS)
                while not await client.commit(row):
                    conflicts += 1
                committed += 1

        await asyncio.gather(*(loop() for _ in range(order["concurrency"])))
        return _committed([(committed, conflicts)], started, cpu)

    async def pend(self, order: dict[str, Any]) -> dict[str, Any]:
        client = self._client(order["url"])
        await client.connect()
        tokens = await asyncio.to_thread(_tokens, order["url"], order["count"])
        # Only now: what is traced takes twice the time, and commits are not to pay for it.
        tracemalloc.start()
        before = _traced_bytes()
        self._pending = [client.durable(token) for token in tokens]
        await asyncio.sleep(0)
        bytes_each = (_traced_bytes() - before) / order["count"]
        tracemalloc.stop()
        return {"kind": "pending", "bytesEach": bytes_each}

    async def settle(self, order: dict[str, Any]) -> dict[str, Any]:
        cpu = time.process_time()
        done_ns = 0

        async def all_done() -> None:
            nonlocal done_ns
            await asyncio.gather(*self._pending)
            done_ns = time.monotonic_ns()

        done = asyncio.ensure_future(all_done())
        async with httpx.AsyncClient() as http:
            marked = (await http.post(f"{order['url']}/bench/mark")).json()
        await done
        self._pending = []
        return _settled(done_ns, marked, cpu)

    async def run(self) -> None:
        loop = asyncio.get_running_loop()
        while line := await loop.run_in_executor(None, sys.stdin.readline):
            order = json.loads(line)
            _answer(await getattr(self, order["kind"])(order))


class SyncSubject:
    def __init__(self, way: str) -> None:
        self._way = way
        self._clients: dict[str, SyncClient] = {}
        self._pending = CountDown(0)

    def _client(self, url: str) -> SyncClient:
        if url not in self._clients:
            self._clients[url] = (
                SyncBare(url) if self._way == "bare" else SyncSdk(url, share_requests=self._way == "sdk")
            )
        return self._clients[url]

    def commit(self, order: dict[str, Any]) -> dict[str, Any]:
        client = self._client(order["url"])
        concurrency = order["concurrency"]
        started, cpu = time.monotonic(), time.process_time()

        def loop(_: int) -> tuple[int, int]:
            committed = conflicts = 0
            while time.monotonic() < started + order["seconds"]:
                row = random.randint(1, ROWS)
                while not client.commit(row):
                    conflicts += 1
                committed += 1
            return committed, conflicts

        with ThreadPoolExecutor(concurrency) as threads:
            counts = list(threads.map(loop, range(concurrency)))
        return _committed(counts, started, cpu)

    def pend(self, order: dict[str, Any]) -> dict[str, Any]:
        client = self._client(order["url"])
        client.connect()
        tokens = _tokens(order["url"], order["count"])
        self._pending = CountDown(len(tokens))
        tracemalloc.start()
        before = _traced_bytes()
        for token in tokens:
            client.when_durable(token, self._pending)
        bytes_each = (_traced_bytes() - before) / order["count"]
        tracemalloc.stop()
        return {"kind": "pending", "bytesEach": bytes_each}

    def settle(self, order: dict[str, Any]) -> dict[str, Any]:
        cpu = time.process_time()
        marked = httpx.post(f"{order['url']}/bench/mark").json()
        self._pending.wait()
        return _settled(self._pending.done_ns, marked, cpu)

    def run(self) -> None:
        for line in sys.stdin:
            order = json.loads(line)
            _answer(getattr(self, order["kind"])(order))


def _committed(counts: list[tuple[int, int]], started: float, cpu: float) -> dict[str, Any]:
    elapsed_ms, cpu_ms = 1_000 * (time.monotonic() - started), 1_000 * (time.process_time() - cpu)
    committed, conflicts = (sum(each) for each in zip(*counts, strict=True))
    return {
        "kind": "committed",
        "committed": committed,
        "conflicts": conflicts,
        "elapsedMs": elapsed_ms,
        "cpuMs": cpu_ms,
    }


def _settled(done_ns: int, marked: dict[str, str], cpu: float) -> dict[str, Any]:
    # One clock for all processes of the machine: CLOCK_MONOTONIC, which the service reads as well.
    elapsed_ms = (done_ns - int(marked["markedAtNs"])) / 1e6
    return {"kind": "settled", "elapsedMs": elapsed_ms, "cpuMs": 1_000 * (time.process_time() - cpu)}


def _answer(reply: dict[str, Any]) -> None:
    print(json.dumps(reply), flush=True)


def main() -> None:
    kind, way = sys.argv[1:3]
    try:
        if kind == "async":
            asyncio.run(AsyncSubject(way).run())
        else:
            SyncSubject(way).run()
    except Exception:
        _answer({"kind": "failed", "fault": traceback.format_exc()})
        raise


if __name__ == "__main__":
    main()
