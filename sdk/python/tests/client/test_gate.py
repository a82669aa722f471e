"""Goal: nothing of a response leaves before everything that its request has committed or read is durable.

Method: FastAPI behind the gate, with handlers of both kinds, against a scripted service that says when a mark rises.
"""

from __future__ import annotations

import asyncio
import itertools
import json
from collections.abc import AsyncIterator, Callable, Iterator
from typing import Any

from fastapi import FastAPI, HTTPException, Response
from fastapi.responses import RedirectResponse, StreamingResponse

from highwater import HighwaterError, sql
from highwater.gate import OutputGate, bypass, hold, receipt_status
from tests.client.fake_service import FakeService, committed, ok, opened, problem
from tests.client.support import E1, E2, Json, epoch, marks, opened_body, token, verdict_of
from tests.client.world import World

STATEMENT = sql("SELECT 1")
SECRET = {"x-secret": "1", "set-cookie": "secret=1", "location": "/secret"}
#: Long enough that something which is not held would have left.
LEAVES = 0.06


def counted(**more: Any) -> Callable[[Json, int], Any]:
    """Every commit is 10 beyond the one before."""
    return lambda request, number: committed(request, offset=10 * number, **more)


class Answer:
    """What the server gets from the application, as it comes."""

    def __init__(self, app: Any, path: str) -> None:
        self.sent: list[Any] = []
        self._changed = asyncio.Event()
        self._got = False
        scope: Json = {"type": "http", "method": "GET", "path": path, "headers": [], "query_string": b"", "app": None}
        scope |= {"asgi": {"version": "3.0", "spec_version": "2.3"}, "http_version": "1.1", "scheme": "http"}
        self.task = asyncio.ensure_future(app(scope, self._receive, self._send))

    async def _receive(self) -> Any:
        if self._got:
            await asyncio.Event().wait()
        self._got = True
        return {"type": "http.request", "body": b"", "more_body": False}

    async def _send(self, message: Any) -> None:
        self.sent.append(message)
        self._changed.set()

    @property
    def status(self) -> int:
        return int(self.sent[0]["status"])

    @property
    def headers(self) -> dict[str, str]:
        return {name.decode(): value.decode() for name, value in self.sent[0]["headers"]}

    @property
    def body(self) -> str:
        return b"".join(each.get("body", b"") for each in self.sent).decode()

    async def whole(self) -> Answer:
        async with asyncio.timeout(60):
            await asyncio.gather(self.task, return_exceptions=True)
        return self

    async def until(self, body: str) -> None:
        async with asyncio.timeout(60):
            while self.body != body:
                self._changed.clear()
                await self._changed.wait()

    async def is_held(self) -> bool:
        before = len(self.sent)
        await asyncio.sleep(LEAVES)
        return len(self.sent) == before and not self.task.done()


def build(world: World, hw: Any, **options: Any) -> Any:
    """The application, with handlers for the kind of client."""
    app = FastAPI()
    own = hw if world.is_async else hw.target

    def route(path: str, body: Callable[[Any], Any]) -> None:
        """`body` is a generator: it yields calls of the client, and gets their results."""

        async def with_loop() -> Any:
            return await _driven(body(own))

        def with_thread() -> Any:
            return _driven_sync(body(own))

        app.get(path, response_model=None)(with_loop if world.is_async else with_thread)

    def write(hw: Any) -> Any:
        yield hw.transaction(STATEMENT, read_only=True)
        return Response("done", 201, headers=SECRET)

    def twice(hw: Any) -> Any:
        yield hw.transaction(STATEMENT)
        yield hw.transaction(STATEMENT)
        return Response("done")

    def fail(hw: Any) -> Any:
        yield hw.transaction(STATEMENT)
        raise HTTPException(404, "there is no such order")

    def crash(hw: Any) -> Any:
        yield hw.transaction(STATEMENT)
        raise ValueError("there is no such order")

    def redirect(hw: Any) -> Any:
        yield hw.transaction(STATEMENT)
        return RedirectResponse("/secret")

    def refuse(hw: Any) -> Any:
        try:
            yield hw.transaction(STATEMENT)
        except HighwaterError as error:
            return Response(error.code)

    def open_one(hw: Any) -> Any:
        tx = hw.begin()
        yield tx.query(STATEMENT)
        return Response("read")

    def passing(hw: Any) -> Any:
        yield hw.transaction(STATEMENT)
        bypass()
        return Response("passed")

    def other(_hw: Any) -> Any:
        hold(token(E1, 50))
        yield from ()
        return Response("other")

    def nothing(_hw: Any) -> Any:
        yield from ()
        return Response("nothing")

    async def chunks() -> AsyncIterator[str]:
        for chunk in ("one", "two", "three"):
            await own.transaction(STATEMENT)
            yield chunk

    def chunks_of_threads() -> Iterator[str]:
        for chunk in ("one", "two", "three"):
            own.transaction(STATEMENT)
            yield chunk

    @app.get("/stream", response_model=None)
    async def stream() -> StreamingResponse:
        return StreamingResponse(chunks() if world.is_async else chunks_of_threads())

    routes: dict[str, Callable[[Any], Any]] = {
        "write": write,
        "fail": fail,
        "crash": crash,
        "redirect": redirect,
        "refuse": refuse,
    }
    routes |= {"twice": twice, "open": open_one, "pass": passing, "other": other, "nothing": nothing}
    for name, body in routes.items():
        route(f"/{name}", body)
    return OutputGate(app, own, **{"timeout": 20, **options})


async def _driven(steps: Any) -> Any:
    result: Any = None
    error: BaseException | None = None
    try:
        while True:
            awaitable = steps.send(result) if error is None else steps.throw(error)
            error = None
            try:
                result = await awaitable
            except HighwaterError as cause:
                error = cause
    except StopIteration as end:
        return end.value


def _driven_sync(steps: Any) -> Any:
    """The calls of this client have their results at once, or raise within the handler."""
    result: Any = None
    try:
        while True:
            result = steps.send(result)
    except StopIteration as end:
        return end.value


async def test_a_response_is_held_and_sent_whole(world: World) -> None:
    fake = await world.service(transaction=counted())
    app = build(world, world.client(fake))
    answer = Answer(app, "/write")
    await fake.streaming()
    assert await answer.is_held()
    assert answer.sent == []
    await fake.mark_until(answer.task, marks(E1, region=10))
    assert (answer.status, answer.body) == (201, "done")
    assert answer.headers.items() >= SECRET.items()
    assert (await Answer(app, "/nothing").whole()).body == "nothing"


async def test_a_202_has_the_state_and_a_receipt_alone(world: World) -> None:
    states = iter(["pending", "durable", "lost", "expired"])
    fake = await world.service(
        transaction=counted(),
        verdicts=lambda request, _: (
            None
            if request.get("waitMs", 0) > 0
            else ok({"verdicts": [verdict_of(request["tokens"][0], next(states))], "marks": None})
        ),
    )
    hw = world.client(fake)
    answer = await Answer(build(world, hw, timeout=0.03, headers={"X-Own": "1"}), "/write").whole()
    assert answer.status == 202
    assert not answer.headers.keys() & SECRET.keys()
    assert answer.headers["x-own"] == "1"
    body = json.loads(answer.body)
    assert body.keys() == {"state", "receipt"}
    assert body["state"] == "pending"
    own = hw if world.is_async else hw.target
    polled = [await receipt_status(own, body["receipt"]) for _ in range(4)]
    found = [(each.status, each.body["state"]) for each in polled]
    assert found == [(202, "pending"), (200, "durable"), (409, "lost"), (404, "unknown")]


async def test_a_409_if_something_is_lost(world: World) -> None:
    fake = await world.service(
        transaction=lambda request, _: committed(request, offset=70),
        verdicts=lambda request, _: ok(
            {"verdicts": [verdict_of(each, "lost") for each in request["tokens"]], "marks": None}
        ),
    )
    answer = Answer(build(world, world.client(fake)), "/write")
    await fake.streaming()
    fake.epochs(epoch(E1), epoch(E2, previous=E1, fork=50, start=60))
    await answer.whole()
    assert answer.status == 409
    assert not answer.headers.keys() & SECRET.keys()
    body = json.loads(answer.body)
    assert (body["state"], body["redo"]) == ("lost", "caller")


async def test_a_409_says_service_if_any_that_is_lost_comes_back(world: World) -> None:
    ids: list[str] = []

    def commit(request: Json, number: int) -> Any:
        ids.append(request["id"])
        return committed(request, offset=70 + number)

    fake = await world.service(
        transaction=commit,
        verdicts=lambda request, _: ok(
            {
                "verdicts": [
                    verdict_of(each, "lost") | ({"redo": "service"} if each == token(E1, 72, ids[1]) else {})
                    for each in request["tokens"]
                ],
                "marks": None,
            }
        ),
    )
    hw = world.client(fake)
    answer = Answer(build(world, hw), "/twice")
    await fake.streaming()
    fake.epochs(epoch(E1), epoch(E2, previous=E1, fork=50, start=60))
    await answer.whole()
    body = json.loads(answer.body)
    assert (body["state"], body["redo"]) == ("lost", "service")
    own = hw if world.is_async else hw.target
    assert (await receipt_status(own, body["receipt"])).body["redo"] == "service"


async def test_errors_and_redirects_are_held(world: World) -> None:
    fake = await world.service(transaction=counted())
    app = build(world, world.client(fake))
    for number, (path, status) in enumerate([("/fail", 404), ("/redirect", 307), ("/crash", 500)], 1):
        answer = Answer(app, path)
        await fake.until(lambda number=number: len(fake.transactions) == number)  # type: ignore[misc]
        await fake.streaming()
        assert await answer.is_held(), path
        await fake.mark_until(answer.task, marks(E1, region=10 * number))
        await answer.whole()
        assert answer.status == status


async def test_a_refusal_waits_for_what_it_rests_on(world: World) -> None:
    evidence = {"state": "committed", "token": token(E1, 30), "position": {"epoch": E1, "offset": "30"}}
    refusals = itertools.chain([{"evidence": evidence}], itertools.repeat({}))
    fake = await world.service(
        transaction=lambda *_: problem("constraint_violation", sqlstate="23505", **next(refusals))
    )
    app = build(world, world.client(fake))
    answer = Answer(app, "/refuse")
    await fake.streaming()
    fake.mark(marks(E1, region=29))
    assert await answer.is_held()
    await fake.mark_until(answer.task, marks(E1, region=30))
    assert answer.body == "constraint_violation"
    unknown = await Answer(app, "/refuse").whole()
    assert (unknown.status, json.loads(unknown.body)["state"]) == (202, "unknown")


async def test_each_chunk_is_held_and_a_late_one_cuts(world: World) -> None:
    fake = await world.service(transaction=counted())
    answer = Answer(build(world, world.client(fake), timeout=0.4), "/stream")
    await fake.streaming()
    marking = asyncio.ensure_future(fake.mark_until(answer.task, marks(E1, region=10)))
    await answer.until("one")
    marking.cancel()
    assert await answer.is_held()
    marking = asyncio.ensure_future(fake.mark_until(answer.task, marks(E1, region=20)))
    await answer.until("onetwo")
    await answer.whole()
    marking.cancel()
    assert answer.body == "onetwo"
    # The server sees that the response is not complete.
    assert answer.sent[-1]["more_body"]


async def test_open_transactions_are_rolled_back_and_their_reads_awaited(world: World) -> None:
    known: list[Any] = [marks(E1), marks(E2)]
    fake = await world.service(
        transaction=counted(),
        interactive=lambda call, _: (
            ok(opened_body(call.id, call.body, marks=known[0]))
            if call.name == "begin"
            else opened(call)
            if call.name == "statements"
            else None
        ),
    )
    app = build(world, world.client(fake))
    answer = Answer(app, "/open")
    await fake.streaming()
    assert [each.name for each in fake.calls] == ["begin", "rollback"]
    assert len(fake.transactions) == 1
    assert await answer.is_held()
    await fake.mark_until(answer.task, marks(E1, region=10))
    assert answer.body == "read"
    known.pop(0)
    other = Answer(app, "/open")
    await fake.until(lambda: len(fake.transactions) == 2)
    await fake.mark_until(other.task, marks(E1, region=20))
    assert (other.status, json.loads(other.body)["state"]) == (202, "unknown")


async def test_a_route_may_pass_and_tokens_of_others_count(world: World) -> None:
    fake = await world.service(transaction=counted())
    app = build(world, world.client(fake))
    assert (await Answer(app, "/pass").whole()).body == "passed"
    answer = Answer(app, "/other")
    await fake.streaming()
    fake.mark(marks(E1, region=49))
    assert await answer.is_held()
    await fake.mark_until(answer.task, marks(E1, region=50))
    assert answer.body == "other"


async def test_requests_have_floors_of_their_own(world: World) -> None:
    offsets: dict[str, int] = {}

    def transaction(request: Json, number: int) -> Any:
        offsets[request["id"]] = 10 * number
        return committed(request, offset=10 * number)

    fake: FakeService = await world.service(transaction=transaction)
    app = build(world, world.client(fake))
    answers = [Answer(app, "/write") for _ in range(10)]
    await fake.until(lambda: len(fake.transactions) == len(answers) and len(fake.streams) > 0)
    for mark in range(10, 110, 10):
        fake.mark(marks(E1, region=mark))
        await asyncio.sleep(0.02)
        assert sum(len(each.sent) > 0 for each in answers) <= mark // 10
    await asyncio.gather(*(each.whole() for each in answers))
