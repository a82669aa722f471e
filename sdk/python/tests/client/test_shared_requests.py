"""Transactions that share a request share nothing else, on one event loop as in threads.

Method: a service that answers the first transaction when the test says so, and shared requests line by line. Others
that begin meanwhile gather for longer than any machine stalls.
"""

from __future__ import annotations

import asyncio
import json
from dataclasses import replace
from typing import Any

import pytest

from highwater import ConstraintError, Endpoint, HighwaterError, NoAnswerError, sql
from highwater._core.observer import ObservedEvent
from tests.client.fake_service import BatchRequest, FakeResponse, FakeService, committed, problem
from tests.client.support import refusing
from tests.client.world import CANCELLED, QUICK, World, start, until

GATHERING = replace(QUICK, gather_ms=60_000)


class Scene:
    """A client whose first transaction is under way until the test lets it go."""

    def __init__(self, world: World, fake: FakeService, options: dict[str, Any]) -> None:
        self.world = world
        self.fake = fake
        self.hw = world.client(fake, **{"tuning": GATHERING, **options})
        self.go_on = asyncio.Event()

    async def begin(self, *texts: str) -> list[asyncio.Future[Any]]:
        """Begins them while another transaction is under way."""
        first = asyncio.ensure_future(self.hw.transaction(sql("SELECT 'first'")))
        await self.fake.until(lambda: len(self.fake.transactions) == 1)
        calls = [asyncio.ensure_future(self.hw.transaction(sql("SELECT {n}", n=text))) for text in texts]
        await until(lambda: self.gathered == len(texts))
        self.go_on.set()
        await first
        return calls

    async def run(self, *texts: str) -> list[Any]:
        return await asyncio.gather(*await self.begin(*texts), return_exceptions=True)

    @property
    def gathered(self) -> int:
        client = self.hw if self.world.is_async else self.hw.target
        return sum(len(lane._gathered) for lane in list(client._lanes._lanes.values()))


async def scene_of(world: World, batch: Any, *, replayed: bool = False, **options: Any) -> Scene:
    """A transaction that comes alone commits at offset 1."""

    async def answer(request: Any, number: int) -> FakeResponse:
        if number == 1:
            await scene.go_on.wait()
        return committed(request, offset=1, replayed=replayed)

    fake = await world.service(batch=batch, transaction=answer)
    scene = Scene(world, fake, options)
    return scene


async def echo(request: BatchRequest) -> None:
    await request.begin()
    for index, transaction in reversed(list(enumerate(request.transactions))):
        await request.line(index, committed(transaction, offset=int(transaction["statements"][0]["params"][0])))
    await request.end()


def offsets(results: list[Any]) -> list[int]:
    return [int(each.position.offset) for each in results]


def requests(fake: FakeService) -> tuple[int, int]:
    """Counts the requests: those that were shared, and those of single transactions, the first among them."""
    return len(fake.batches), len(fake.transactions)


async def test_one_alone_leaves_at_once_by_itself(world: World) -> None:
    scene = await scene_of(world, echo)
    scene.go_on.set()
    for _ in range(2):
        assert offsets([await scene.hw.transaction(sql("SELECT 1"))]) == [1]
    assert requests(scene.fake) == (0, 2)


async def test_what_begins_meanwhile_goes_together_and_each_has_its_own_answer(world: World) -> None:
    scene = await scene_of(world, echo)
    texts = [str(number) for number in range(100, 120)]
    assert offsets(await scene.run(*texts)) == list(range(100, 120))
    assert requests(scene.fake) == (1, 1)


async def test_each_has_its_own_outcome(world: World) -> None:
    async def refusal_and_commit(request: BatchRequest) -> None:
        refusal, commit = problem("constraint_violation"), committed(request.transactions[0])
        lines = [
            {"index": 1, "status": refusal.status, "body": refusal.body},
            {"index": 0, "status": commit.status, "body": commit.body},
        ]
        await request.begin()
        # Cut in the middle of lines.
        for byte in b"".join(json.dumps(line).encode() + b"\n" for line in lines):
            await request.send(bytes([byte]))
        await request.end()

    # The one whose line is missing is sent again.
    scene = await scene_of(world, refusal_and_commit, replayed=True)
    results = await scene.run("a", "b", "c")
    assert len([each for each in results if isinstance(each, ConstraintError)]) == 1
    kept = [each for each in results if not isinstance(each, HighwaterError)]
    assert sorted(offsets(kept)) == [1, 10]
    assert sorted(each.replayed for each in kept) == [False, True]
    assert requests(scene.fake) == (1, 2)


async def test_a_full_request_does_not_wait_and_a_long_transaction_goes_alone(world: World) -> None:
    scene = await scene_of(world, echo)
    first = asyncio.ensure_future(scene.hw.transaction(sql("SELECT 1")))
    await scene.fake.until(lambda: len(scene.fake.transactions) == 1)
    # The test's threads are 64, and one of them waits.
    count = 70 if world.is_async else 60
    calls = [asyncio.ensure_future(scene.hw.transaction(sql("SELECT {n}", n=str(n)))) for n in range(count)]
    long = await scene.hw.transaction(sql("SELECT {n}", n="x" * 20_000))
    assert offsets([long]) == [1]
    await until(lambda: scene.gathered == (count - 64 if world.is_async else count))
    assert [len(each.transactions) for each in scene.fake.batches] == ([64] if world.is_async else [])
    scene.go_on.set()
    assert offsets(await asyncio.gather(*calls)) == list(range(count))
    await first


async def test_they_need_not_share(world: World) -> None:
    fake = await world.service(batch=echo)
    hw = world.client(fake, share_requests=False)
    await asyncio.gather(*(hw.transaction(sql("SELECT 1")) for _ in range(5)))
    assert requests(fake) == (0, 5)


@pytest.mark.parametrize("status", [400, 404, 405, 413])
async def test_a_gateway_that_does_not_take_them_gets_them_one_by_one(world: World, status: int) -> None:
    async def refuse(request: BatchRequest) -> FakeResponse:
        return FakeResponse(status, {})

    scene = await scene_of(world, refuse)
    assert offsets(await scene.run("a", "b")) == [1, 1]
    assert requests(scene.fake) == (1, 3)
    scene.fake.transactions.clear()
    scene.go_on.clear()
    is_asked = status in (400, 413)
    calls = [asyncio.ensure_future(scene.hw.transaction(sql("SELECT 1"))) for _ in range(3)]
    await scene.fake.until(lambda: len(scene.fake.transactions) == (1 if is_asked else 3))
    scene.go_on.set()
    await asyncio.gather(*calls)
    assert len(scene.fake.transactions) == 3


async def test_a_refusal_of_the_whole_is_each_ones_refusal(world: World) -> None:
    async def refuse(request: BatchRequest) -> FakeResponse:
        return problem("constraint_violation")

    scene = await scene_of(world, refuse)
    results = await scene.run("a", "b")
    assert [type(each) for each in results] == [ConstraintError] * 2
    assert requests(scene.fake) == (1, 1)


@pytest.mark.parametrize("how", ["cut", "short", "garbage"])
async def test_an_answer_that_breaks_off_is_found_out_by_sending_again(world: World, how: str) -> None:
    async def break_off(request: BatchRequest) -> None:
        await request.begin()
        await request.line(1, committed(request.transactions[1]))
        if how == "cut":
            request.writer.transport.abort()
            return
        if how == "garbage":
            await request.send(b"{}\n")
        await request.end()

    scene = await scene_of(world, break_off)
    assert sorted(offsets(await scene.run("1", "2"))) == [1, 10]
    assert len({each["id"] for each in scene.fake.transactions[1:]}) == 1


async def test_a_caller_that_gives_up_leaves_the_others(world: World) -> None:
    held = asyncio.Event()

    async def late(request: BatchRequest) -> None:
        await held.wait()
        await echo(request)

    scene = await scene_of(world, late)
    calls = await scene.begin("1", "2")
    await scene.fake.until(lambda: len(scene.fake.batches) == 1)
    if world.is_async:
        calls[0].cancel()
        with pytest.raises(asyncio.CancelledError) as cancelled:
            await calls[0]
        assert "may or may not have committed" in str(cancelled.value.__cause__)
    held.set()
    assert offsets([await calls[1]]) == [2]


async def test_one_that_is_given_up_before_its_request_leaves_is_not_sent(world: World) -> None:
    if not world.is_async:
        pytest.skip("a thread's call that can be cancelled shares no request")
    scene = await scene_of(world, echo)
    first = asyncio.ensure_future(scene.hw.transaction(sql("SELECT 1")))
    await scene.fake.until(lambda: len(scene.fake.transactions) == 1)
    calls = [asyncio.ensure_future(scene.hw.transaction(sql("SELECT {n}", n=str(n)))) for n in range(3)]
    await until(lambda: scene.gathered == 3)
    calls[1].cancel()
    await asyncio.gather(calls[1], return_exceptions=True)
    scene.go_on.set()
    assert offsets([await calls[0], await calls[2]]) == [0, 2]
    assert [len(each.transactions) for each in scene.fake.batches] == [2]
    await first


async def test_a_request_that_no_caller_waits_for_ends(world: World) -> None:
    gone = asyncio.Event()

    async def never(request: BatchRequest) -> None:
        await request.reader.read()
        gone.set()

    if not world.is_async:
        pytest.skip("a thread's call that can be cancelled shares no request")
    scene = await scene_of(world, never)
    for call in await scene.begin("1", "2"):
        await scene.fake.until(lambda: len(scene.fake.batches) == 1)
        call.cancel()
        await asyncio.gather(call, return_exceptions=True)
    async with asyncio.timeout(30):
        await gone.wait()


async def test_a_request_ends_when_only_callers_that_have_given_up_lack_an_answer(world: World) -> None:
    go_on, gone = asyncio.Event(), asyncio.Event()

    async def answer_one(request: BatchRequest) -> None:
        await request.begin()
        await go_on.wait()
        await request.line(1, committed(request.transactions[1], offset=2))
        await request.reader.read()
        gone.set()

    if not world.is_async:
        pytest.skip("a thread's call that can be cancelled shares no request")
    scene = await scene_of(world, answer_one)
    calls = await scene.begin("1", "2")
    await scene.fake.until(lambda: len(scene.fake.batches) == 1)
    calls[0].cancel()
    await asyncio.gather(calls[0], return_exceptions=True)
    go_on.set()
    assert offsets([await calls[1]]) == [2]
    async with asyncio.timeout(30):
        await gone.wait()


async def test_a_thread_s_call_that_can_be_cancelled_has_a_request_of_its_own(world: World) -> None:
    if world.is_async:
        pytest.skip("every task can be cancelled")
    fake = await world.service(transaction=lambda request, number: "hang" if number == 2 else None, batch=echo)
    hw = world.client(fake, tuning=GATHERING)
    await hw.transaction(sql("SELECT 1"))
    running, cancel = start(world, hw.transaction, sql("SELECT 2"))
    await fake.until(lambda: fake.held == 1)
    await cancel()
    with pytest.raises(CANCELLED):
        await running
    await fake.until(lambda: fake.held == 0)
    assert requests(fake) == (0, 2)


async def test_each_has_its_own_trace_and_others_headers_go_by_themselves(world: World) -> None:
    begun: list[str] = []

    def observe(event: ObservedEvent) -> None:
        if event.type == "commit" and event.id is not None:
            begun.append(event.id)
            event.headers["traceparent"] = f"of-{event.id}"
            if len(begun) == 1:
                event.headers["baggage"] = "a=b"

    scene = await scene_of(world, echo, observer=observe, api_key="one", tuning=replace(QUICK, gather_ms=2_000))
    # It has a lane of its own, so what begins now leaves at once.
    first = asyncio.ensure_future(scene.hw.transaction(sql("SELECT 1")))
    await scene.fake.until(lambda: len(scene.fake.transactions) == 1)
    assert offsets([await scene.hw.transaction(sql("SELECT 2"))]) == [1]
    scene.go_on.set()
    await first
    scene.fake.headers.clear()
    scene.fake.transactions.clear()
    scene.go_on.clear()
    await scene.run("1", "2")
    (shared,) = scene.fake.batches
    assert shared.traceparents == [f"of-{each['id']}" for each in shared.transactions]
    assert sorted(begun[3:]) == sorted(each["id"] for each in shared.transactions)
    alone, together = scene.fake.headers
    assert (alone["authorization"], together["authorization"]) == ("Bearer one", "Bearer one")
    assert "traceparent" in alone
    assert "traceparent" not in together


async def test_a_gateway_that_is_not_there(world: World) -> None:
    # The last attempt has longer than a busy machine stalls: cut short, it would leave the outcome unknown.
    tuning = replace(QUICK, attempt_min_ms=2_000)
    with refusing() as gone:
        hw = world.client(endpoints=[Endpoint(gone, gone)], total_timeout=2.5, tuning=tuning)
        calls = [hw.transaction(sql("SELECT 1")) for _ in range(5)]
        for each in await asyncio.gather(*calls, return_exceptions=True):
            assert isinstance(each, NoAnswerError)
            assert each.outcome == "not_applied"
