"""Transactions that share a request share nothing else, on one event loop as in threads.

Method: a server that answers batches line by line, as the test says.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

import pytest

from highwater import Batch, ConnectionError, Endpoint, HighwaterError, SerializationError, sql  # noqa: A004
from tests.client.fake_service import LIMIT, committed, problem
from tests.client.support import Json, refusing
from tests.client.world import World

#: For those that meet, and of which one then waits alone.
RESENT_MS = 1_000


def together(count: int, *, alone_ms: float = 60_000) -> Batch:
    """It leaves when so many have come, and no thread is too slow to be there; one that comes alone waits longer."""
    return Batch(max_delay_ms=alone_ms, max_count=count)


class Request:
    """One request, and what it is answered with."""

    def __init__(
        self, path: str, headers: dict[str, str], body: Json, wire: tuple[asyncio.StreamReader, asyncio.StreamWriter]
    ) -> None:
        self.path = path
        self.headers = headers
        self.body = body
        self._reader, self._writer = wire

    @property
    def transactions(self) -> list[Json]:
        found: list[Json] = self.body.get("transactions", [self.body])
        return found

    async def answer(self, status: int, body: Any, **headers: str) -> None:
        data = json.dumps(body).encode()
        lines = "".join(f"{name.replace('_', '-')}: {value}\r\n" for name, value in headers.items())
        self._writer.write(f"HTTP/1.1 {status} x\r\ncontent-length: {len(data)}\r\n{lines}\r\n".encode() + data)
        await self._writer.drain()

    async def begin(self) -> None:
        head = b"HTTP/1.1 200 OK\r\ncontent-type: application/x-ndjson\r\ntransfer-encoding: chunked\r\n\r\n"
        self._writer.write(head)
        await self._writer.drain()

    async def send(self, data: bytes) -> None:
        self._writer.write(f"{len(data):x}\r\n".encode() + data + b"\r\n")
        await self._writer.drain()

    async def line(self, index: int, status: int, body: Any) -> None:
        await self.send(json.dumps({"index": index, "status": status, "body": body}).encode() + b"\n")

    async def end(self) -> None:
        self._writer.write(b"0\r\n\r\n")
        await self._writer.drain()

    def cut(self) -> None:
        self._writer.transport.abort()

    async def gone(self) -> None:
        """Returns when the client has gone away."""
        async with asyncio.timeout(LIMIT):
            assert await self._reader.read() == b""


class Server:
    def __init__(self, serve: Callable[[Request], Awaitable[None]]) -> None:
        self._serve = serve
        self._tasks: set[asyncio.Task[Any]] = set()
        self.requests: list[Request] = []
        self.url = ""

    @property
    def paths(self) -> list[str]:
        return [request.path.removeprefix("/v1/transactions") for request in self.requests]

    @property
    def endpoints(self) -> list[Endpoint]:
        return [Endpoint(self.url, self.url)]

    async def accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._tasks.add(task)
        try:
            while True:
                head = (await reader.readuntil(b"\r\n\r\n")).decode().split("\r\n")
                pairs = (line.partition(": ") for line in head[1:] if line)
                headers = {name.lower(): value for name, _, value in pairs}
                body = await reader.readexactly(int(headers.get("content-length", "0")))
                request = Request(head[0].split(" ")[1], headers, json.loads(body or b"{}"), (reader, writer))
                self.requests.append(request)
                await self._serve(request)
        except (OSError, asyncio.IncompleteReadError, asyncio.CancelledError):
            pass
        finally:
            self._tasks.discard(task)
            writer.transport.abort()

    async def stop(self) -> None:
        rest = list(self._tasks)
        for task in rest:
            task.cancel()
        await asyncio.gather(*rest, return_exceptions=True)


@asynccontextmanager
async def serving(serve: Callable[[Request], Awaitable[None]]) -> AsyncIterator[Server]:
    server = Server(serve)
    listening = await asyncio.start_server(server.accept, "127.0.0.1", 0)
    server.url = f"http://127.0.0.1:{listening.sockets[0].getsockname()[1]}"
    try:
        yield server
    finally:
        listening.close()
        await server.stop()


def body_of(transaction: Json, offset: int = 10) -> Any:
    return committed(transaction, offset=offset).body


async def echo(request: Request) -> None:
    if not request.path.endswith("/batch"):
        await request.answer(200, body_of(request.body, 1))
        return
    await request.begin()
    for index, transaction in enumerate(request.transactions):
        await request.line(index, 200, body_of(transaction, 100 + index))
    await request.end()


async def run(client: Any, *texts: str) -> list[Any]:
    calls = [client.transaction(sql("SELECT {n}", n=text)) for text in texts]
    return await asyncio.gather(*calls, return_exceptions=True)


def offsets(results: list[Any]) -> list[int]:
    return sorted(int(each.position.offset) for each in results)


async def test_what_begins_together_goes_together_and_has_its_own_outcome(world: World) -> None:
    async def serve(request: Request) -> None:
        if not request.path.endswith("/batch"):
            # The one whose line was missing is sent again.
            await request.answer(200, {**body_of(request.body, 30), "replayed": True, "results": None})
            return
        await request.begin()
        conflict = problem("serialization_failure")
        lines = [
            {"index": 1, "status": conflict.status, "body": conflict.body},
            {"index": 0, "status": 200, "body": body_of(request.transactions[0])},
        ]
        # Cut in the middle of lines.
        for byte in b"".join(json.dumps(line).encode() + b"\n" for line in lines):
            await request.send(bytes([byte]))
        await request.end()

    async with serving(serve) as server:
        hw = world.client(endpoints=server.endpoints, batch=together(3, alone_ms=RESENT_MS))
        results = await run(hw, "a", "b", "c")
        assert [each for each in results if isinstance(each, SerializationError)]
        kept = [each for each in results if not isinstance(each, HighwaterError)]
        assert offsets(kept) == [10, 30]
        assert sorted(each.replayed for each in kept) == [False, True]
        assert server.paths == ["/batch", ""]


async def test_one_that_has_ended_is_answered_while_another_goes_on(world: World) -> None:
    go_on = asyncio.Event()

    async def serve(request: Request) -> None:
        await request.begin()
        await request.line(1, 200, body_of(request.transactions[1]))
        await go_on.wait()
        await request.line(0, 200, body_of(request.transactions[0]))
        await request.end()

    async with serving(serve) as server:
        hw = world.client(endpoints=server.endpoints, batch=together(2))
        calls = [asyncio.ensure_future(hw.transaction(sql("SELECT 1"))) for _ in range(2)]
        async with asyncio.timeout(LIMIT):
            done, waiting = await asyncio.wait(calls, return_when=asyncio.FIRST_COMPLETED)
        assert [len(done), len(waiting)] == [1, 1]
        go_on.set()
        for call in calls:
            assert (await call).state == "committed"


async def test_a_count_is_kept_and_one_alone_goes_as_it_always_did(world: World) -> None:
    async with serving(echo) as server:
        hw = world.client(endpoints=server.endpoints, batch=together(2))
        await run(hw, *"abcd")
        assert sorted(len(request.transactions) for request in server.requests) == [2, 2]
        server.requests.clear()
        hw = world.client(endpoints=server.endpoints, batch=Batch(max_delay_ms=300, max_count=2))
        assert offsets(await run(hw, "e")) == [1]
        assert server.paths == [""]
        server.requests.clear()
        long = "x" * 200_000
        assert len(await run(hw, long, long)) == 2
        assert server.paths == ["", ""]
        server.requests.clear()
        plain = world.client(endpoints=server.endpoints)
        await run(plain, "f", "g")
        assert server.paths == ["", ""]


@pytest.mark.parametrize("status", [404, 405, 413])
async def test_a_gateway_without_batches_gets_them_one_by_one(world: World, status: int) -> None:
    async def serve(request: Request) -> None:
        if request.path.endswith("/batch"):
            await request.answer(status, {})
        else:
            await echo(request)

    async with serving(serve) as server:
        hw = world.client(endpoints=server.endpoints, batch=together(2))
        assert offsets(await run(hw, "a", "b")) == [1, 1]
        assert server.paths == ["/batch", "", ""]
        server.requests.clear()
        assert offsets(await run(hw, "a", "b")) == [1, 1]
        assert server.paths == (["/batch", "", ""] if status == 413 else ["", ""])


async def test_a_batch_that_is_refused_as_a_whole_is_each_ones_refusal(world: World) -> None:
    is_refused = False

    async def serve(request: Request) -> None:
        nonlocal is_refused
        if is_refused:
            await echo(request)
            return
        is_refused = True
        refusal = problem("overloaded", retryAfterMs=1)
        await request.answer(refusal.status, refusal.body, retry_after="1")

    async with serving(serve) as server:
        hw = world.client(endpoints=server.endpoints, batch=together(2))
        assert len(offsets(await run(hw, "a", "b"))) == 2
        assert server.paths[0] == "/batch"


@pytest.mark.parametrize("how", ["cut", "short", "garbage"])
async def test_an_answer_that_breaks_off_is_found_out_by_sending_again(world: World, how: str) -> None:
    async def serve(request: Request) -> None:
        if not request.path.endswith("/batch"):
            await echo(request)
            return
        await request.begin()
        await request.line(1, 200, body_of(request.transactions[1]))
        if how == "cut":
            request.cut()
        else:
            if how == "garbage":
                await request.send(b"{}\n")
            await request.end()

    async with serving(serve) as server:
        hw = world.client(endpoints=server.endpoints, batch=together(2, alone_ms=RESENT_MS))
        assert offsets(await run(hw, "a", "b"))[0] == 1
        assert "" in server.paths


@pytest.mark.late
async def test_who_gives_up_leaves_the_others_and_the_last_takes_the_request_along(world: World) -> None:
    go_on = asyncio.Event()

    async def serve(request: Request) -> None:
        await request.begin()
        await go_on.wait()
        await echo_lines(request)

    async def echo_lines(request: Request) -> None:
        for index, transaction in enumerate(request.transactions):
            await request.line(index, 200, body_of(transaction))
        await request.end()

    async with serving(serve) as server:
        hw = world.client(endpoints=server.endpoints, batch=together(2))
        hasty = asyncio.ensure_future(hw.transaction(sql("SELECT 1"), timeout=1.0))
        patient = asyncio.ensure_future(hw.transaction(sql("SELECT 2")))
        with pytest.raises(HighwaterError):
            await hasty
        assert not patient.done()
        go_on.set()
        assert (await patient).state == "committed"
        go_on.clear()
        server.requests.clear()
        both = [asyncio.ensure_future(hw.transaction(sql("SELECT 1"), timeout=3.0)) for _ in range(2)]
        for each in await asyncio.gather(*both, return_exceptions=True):
            assert isinstance(each, HighwaterError)
        assert server.paths == ["/batch"]
        await server.requests[0].gone()


async def test_other_callers_go_by_themselves(world: World) -> None:
    async with serving(echo) as server:
        one, other = (
            world.client(endpoints=server.endpoints, batch=together(2), api_key=key) for key in ("one", "two")
        )
        await asyncio.gather(run(one, "a", "b"), run(other, "c", "d"))
        assert sorted(request.headers["authorization"] for request in server.requests) == ["Bearer one", "Bearer two"]


def test_a_batch_that_cannot_be_is_refused() -> None:
    for wrong in ({"max_count": 0}, {"max_count": 257}, {"max_delay_ms": -1.0}):
        with pytest.raises(HighwaterError, match="batch"):
            Batch(**wrong)


async def test_a_gateway_that_is_not_there(world: World) -> None:
    with refusing() as gone:
        hw = world.client(endpoints=[Endpoint(gone, gone)], batch=True, total_timeout=0.5)
        for each in await run(hw, "a", "b"):
            assert isinstance(each, ConnectionError)
            assert each.outcome == "not_applied"
