"""A gateway and a tracker in one, scripted by the test: each call answers what the test says, or nothing, or dies.

It is a small HTTP/1.1 server on asyncio streams, for its faults lie below what HTTP servers let one do.
"""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Any, Literal
from urllib.parse import parse_qs, urlsplit

from tests.client.support import Json, committed_body, opened_body

#: Seconds after which what does not come will not come.
LIMIT = 60


@dataclass(frozen=True)
class FakeResponse:
    status: int
    body: Any
    headers: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class InteractiveCall:
    name: str
    id: str
    session: str | None
    body: Json


@dataclass(frozen=True)
class BatchRequest:
    """Several transactions in one request, which a script answers line by line."""

    transactions: list[Json]
    traceparents: list[str]
    reader: asyncio.StreamReader
    writer: asyncio.StreamWriter

    async def begin(self) -> None:
        await self._write(
            b"HTTP/1.1 200 OK\r\ncontent-type: application/x-ndjson\r\ntransfer-encoding: chunked\r\n\r\n"
        )

    async def send(self, data: bytes) -> None:
        await self._write(f"{len(data):x}\r\n".encode() + data + b"\r\n")

    async def line(self, index: int, answer: FakeResponse) -> None:
        line = {"index": index, "status": answer.status, "body": answer.body}
        await self.send(json.dumps(line).encode() + b"\n")

    async def end(self) -> None:
        await self._write(b"0\r\n\r\n")

    async def _write(self, data: bytes) -> None:
        self.writer.write(data)
        await self.writer.drain()


PROBLEMS: dict[str, tuple[int, str, str]] = {
    "serialization_failure": (409, "not_applied", "transaction"),
    "constraint_violation": (409, "not_applied", "never"),
    "invalid_token": (400, "not_applied", "never"),
    "not_found": (404, "not_applied", "never"),
    "marks_unavailable": (503, "not_applied", "wait"),
}


def problem(code: str, **extra: Any) -> FakeResponse:
    status, outcome, retry = PROBLEMS[code]
    body = {"type": f"/errors/{code}", "title": code, "status": status, "code": code}
    return FakeResponse(status, {**body, "outcome": outcome, "retry": retry, **extra})


def ok(body: Json) -> FakeResponse:
    return FakeResponse(200, body)


def committed(request: Json, **overrides: Any) -> FakeResponse:
    return ok(committed_body(request["id"], **overrides))


def opened(call: InteractiveCall) -> FakeResponse:
    return ok(opened_body(call.id, call.body))


Script = Callable[..., Any]


class FakeService:
    """A script returns an `FakeResponse`, or None for success, and may be a coroutine function.

    `cut`: the connection dies after the request was read. `hang`: no answer, ever.
    """

    def __init__(
        self,
        *,
        transaction: Script | None = None,
        batch: Callable[[BatchRequest], Awaitable[FakeResponse | None]] | None = None,
        state: Script | None = None,
        verdicts: Script | None = None,
        interactive: Script | None = None,
        marks: Script | None = None,
        stream: Callable[[int], int | Literal["held"] | None] | None = None,
        black_hole: bool = False,
    ) -> None:
        self.on_transaction = transaction
        self.on_batch = batch
        self.on_state = state
        self.on_verdicts = verdicts
        self.on_interactive = interactive
        self.on_marks = marks
        self.on_stream = stream
        self.black_hole = black_hole
        self.url = ""
        self.transactions: list[Json] = []
        self.batches: list[BatchRequest] = []
        self.headers: list[dict[str, str]] = []
        self.questions: list[Json] = []
        self.states: list[str] = []
        self.calls: list[InteractiveCall] = []
        self.stream_requests: list[dict[str, str]] = []
        self.streams: set[asyncio.StreamWriter] = set()
        self.connections = 0
        self.probes = 0
        self.polls = 0
        self.held = 0
        self._changed: asyncio.Future[None] | None = None
        self._server: asyncio.Server | None = None
        self._tasks: set[asyncio.Task[None]] = set()

    async def start(self) -> FakeService:
        self._server = await asyncio.start_server(self._accept, "127.0.0.1", 0)
        port = self._server.sockets[0].getsockname()[1]
        self.url = f"http://127.0.0.1:{port}"
        return self

    async def stop(self) -> None:
        if self._server is not None:
            self._server.close()
        for task in list(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def until(self, condition: Callable[[], bool]) -> None:
        """Returns as soon as the condition holds. Looks whenever something happened here."""
        async with asyncio.timeout(LIMIT):
            while not condition():
                if self._changed is None:
                    self._changed = asyncio.get_running_loop().create_future()
                await asyncio.shield(self._changed)

    async def streaming(self) -> None:
        await self.until(lambda: len(self.streams) > 0)

    def send(self, kind: str, data: Any, *, id: str = "1.1") -> None:
        self.write(f"id: {id}\nevent: {kind}\ndata: {json.dumps(data)}\n\n")

    def write(self, text: str) -> None:
        for writer in list(self.streams):
            writer.write(text.encode())

    def mark(self, marks: Json) -> None:
        self.send("mark", marks)

    async def mark_until(self, done: asyncio.Future[Any], marks: Json) -> None:
        """Sends the mark until the task is done: a stream of an earlier wait that is ending would lose it."""
        while not done.done():
            self.mark(marks)
            await asyncio.sleep(0.01)

    def epochs(self, *epochs: Json) -> None:
        self.send("epoch", {"epochs": list(epochs)})

    def cut_streams(self) -> None:
        for writer in list(self.streams):
            writer.transport.abort()

    def _notify(self) -> None:
        changed, self._changed = self._changed, None
        if changed is not None and not changed.done():
            changed.set_result(None)

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._tasks.add(task)
        self.connections += 1
        try:
            while await self._serve(reader, writer):
                pass
        except (ConnectionError, asyncio.IncompleteReadError, asyncio.CancelledError):
            pass
        finally:
            self._tasks.discard(task)
            writer.transport.abort()
            self._notify()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bool:
        head = (await reader.readuntil(b"\r\n\r\n")).decode().split("\r\n")
        _method, target, _ = head[0].split(" ")
        headers = {name.lower(): value.strip() for name, _, value in (line.partition(":") for line in head[1:] if line)}
        body = await reader.readexactly(int(headers.get("content-length", "0")))
        path, query = urlsplit(target).path, parse_qs(urlsplit(target).query)
        if path == "/v1/durability/stream":
            await self._open_stream(reader, writer, headers)
            return False
        if path == "/v1/transactions/batch" and self.on_batch is not None:
            self.headers.append(headers)
            sent = json.loads(body)
            self.batches.append(BatchRequest(sent["transactions"], sent.get("traceparents", []), reader, writer))
            self._notify()
            reply: Any = await self.on_batch(self.batches[-1])
            if reply is None:
                return True
        else:
            reply = await self._reply(path, query, json.loads(body) if body else {}, headers)
        if isinstance(reply, FakeResponse):
            data = json.dumps(reply.body).encode()
            kind = "application/json" if reply.status < 400 else "application/problem+json"
            fields = {"content-type": kind, "content-length": str(len(data)), **reply.headers}
            lines = "".join(f"{name}: {value}\r\n" for name, value in fields.items())
            writer.write(f"HTTP/1.1 {reply.status} x\r\n{lines}\r\n".encode() + data)
            await writer.drain()
            self._notify()
            return True
        if reply == "hang":
            self.held += 1
            self._notify()
            try:
                await reader.read()
            finally:
                self.held -= 1
        return False

    async def _open_stream(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, headers: dict[str, str]
    ) -> None:
        self.stream_requests.append(headers)
        status = self.on_stream(len(self.stream_requests)) if self.on_stream else None
        self._notify()
        if status == "held":
            await reader.read()
            return
        if status is not None:
            writer.write(f"HTTP/1.1 {status} x\r\ncontent-length: 0\r\nconnection: close\r\n\r\n".encode())
            await writer.drain()
            return
        writer.write(b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\nconnection: close\r\n\r\n: hello\n\n")
        await writer.drain()
        self.streams.add(writer)
        self._notify()
        try:
            await reader.read()
        finally:
            self.streams.discard(writer)
            self._notify()

    async def _reply(self, path: str, query: dict[str, list[str]], body: Json, headers: dict[str, str]) -> Any:
        self.headers.append(headers)
        named = re.fullmatch(r"/v1/transactions/(?:([^/]+)/)?(begin|statements|commit|rollback)", path)
        if named is not None:
            return await self._interactive(named, body, headers)
        if path == "/v1/durability/marks":
            self.polls += 1
            return await self._scripted(self.on_marks, self.polls) or problem("marks_unavailable")
        if path == "/":
            self.probes += 1
            return "hang" if self.black_hole else problem("not_found")
        if path == "/v1/transactions":
            self.transactions.append(body)
            return await self._scripted(self.on_transaction, body, len(self.transactions)) or committed(body)
        if path.startswith("/v1/transactions/"):
            sought = path.rpartition("/")[2]
            self.states.append(sought)
            unknown = ok({"id": sought, "state": "unknown", "marks": None})
            return await self._scripted(self.on_state, sought, query, len(self.states)) or unknown
        if path == "/v1/durability/verdicts":
            self.questions.append(body)
            return await self._scripted(self.on_verdicts, body, len(self.questions)) or "hang"
        return problem("not_found")

    async def _scripted(self, script: Script | None, *arguments: Any) -> Any:
        self._notify()
        reply = None if script is None else script(*arguments)
        return await reply if isinstance(reply, Awaitable) else reply

    async def _interactive(self, named: re.Match[str], body: Json, headers: dict[str, str]) -> Any:
        name = named[2]
        call = InteractiveCall(name, named[1] or body["id"], headers.get("highwater-session"), body)
        self.calls.append(call)
        reply = await self._scripted(self.on_interactive, call, len(self.calls))
        if reply is None:
            reply = {
                "begin": lambda: opened(call),
                "statements": lambda: opened(call),
                "commit": lambda: committed({"id": call.id}),
                "rollback": lambda: ok({"id": call.id, "state": "aborted"}),
            }[name]()
        if name != "begin" or not isinstance(reply, FakeResponse):
            return reply
        return FakeResponse(reply.status, reply.body, {"highwater-session": f"here.{call.id}.mac", **reply.headers})
