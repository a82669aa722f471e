"""Promises against a scripted tracker: stream, epochs, verdicts, waits that end and waits that are ended."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import Any

import pytest

from highwater import HighwaterError, InvalidRequestError, TransactionLostError, sql
from tests.client.fake_service import FakeResponse, committed, ok, problem
from tests.client.support import E1, E2, Json, epoch, marks, token, verdict_of
from tests.client.world import QUICK, Heard, World, until

STATEMENT = sql("SELECT 1")
FIRST = epoch(E1)
SECOND = epoch(E2, previous=E1, fork=50, start=60)


def at(*offsets: int) -> Any:
    """Transactions commit at these offsets, one after the other."""
    return lambda request, call: committed(request, offset=offsets[call - 1])


def judge(verdict_for: Any) -> Any:
    def verdicts(request: Json, call: int) -> FakeResponse:
        given = [
            verdict_of(each, "pending", level=request["level"], offset=51) | verdict_for(each, call)
            for each in request["tokens"]
        ]
        return ok({"verdicts": given, "marks": None})

    return verdicts


async def test_marks_that_ride_on_answers_settle_promises_too(world: World) -> None:
    fake = await world.service(
        transaction=lambda request, call: committed(
            request, offset=10 * call, marks=marks(E1, region=10) if call == 2 else None
        )
    )
    hw = world.client(fake)
    one = await hw.transaction(STATEMENT)
    wait = asyncio.ensure_future(one.durable())
    await until(lambda: hw.exposure.count == 1)
    two = await hw.transaction(STATEMENT)
    assert (await wait).verdict == "durable"
    assert two.verdict() is None


async def test_a_silent_stream_is_dead_and_another_tracker_takes_over_from_a_refusing_one(world: World) -> None:
    silent = await world.service()
    refusing = await world.service(stream=lambda call: 503)
    far = await world.service()
    hw = world.client(refusing, silent, far, tuning=replace(QUICK, stream_silence_ms=1_000, stream_open_ms=5_000))
    wait = asyncio.ensure_future(hw.promise(token(E1, 10)).durable())
    await far.streaming()
    assert len(refusing.stream_requests) > 0
    assert len(silent.stream_requests) > 0
    while not wait.done():
        # On a machine that stalls the third is silent for too long as well, and comes back.
        far.mark(marks(E1, region=10))
        await asyncio.wait({wait}, timeout=0.05)
    assert (await wait).verdict == "durable"


async def test_a_loss_settles_the_waits_at_all_levels_and_calls_every_listener_once(world: World) -> None:
    fake = await world.service(transaction=at(51), verdicts=judge(lambda *_: {"verdict": "lost"}))
    hw = world.client(fake)
    everywhere, own, removed, late = Heard(), Heard(), Heard(), Heard()
    hw.on_lost(everywhere)
    tx = await hw.transaction(STATEMENT)
    tx.on_lost(own)
    tx.on_lost(removed)()
    waits = [asyncio.ensure_future(each) for each in (tx.durable(), tx.durable(level="global"))]
    await fake.streaming()
    await until(lambda: len(tx.entry.waits) == 2)
    fake.epochs(FIRST, SECOND)
    for wait in waits:
        with pytest.raises(TransactionLostError) as caught:
            await wait
        assert caught.value.verdict is not None
        assert caught.value.level == caught.value.verdict.level
    assert tx.state == "lost"
    await own.until(lambda news: len(news) == 1)
    await everywhere.until(lambda news: len(news) == 1)
    # Whichever level was judged first: a verdict is about its own.
    assert own.news == [tx.verdict()]
    tx.on_lost(late)
    await late.until(lambda news: len(news) == 1)
    assert (len(everywhere.news), len(own.news), removed.news) == (1, 1, [])


async def test_durable_at_its_level_a_later_loss_at_a_stronger_one_is_no_news(world: World) -> None:
    fake = await world.service(transaction=at(51), verdicts=judge(lambda *_: {"verdict": "lost"}))
    hw = world.client(fake)
    received = Heard()
    hw.on_lost(received)
    tx = await hw.transaction(STATEMENT)
    tx.on_lost(received)
    wait = asyncio.ensure_future(tx.durable(level="global"))
    await fake.streaming()
    await until(lambda: len(tx.entry.waits) == 2)
    fake.mark(marks(E1, region=51, **{"global": 0}))
    fake.epochs(FIRST, SECOND)
    with pytest.raises(TransactionLostError):
        await wait
    assert (await tx.durable()).verdict == "durable"
    await hw.close()
    assert received.news == []


async def test_listeners_watch_what_is_committed_from_then_on_until_they_are_taken_away(world: World) -> None:
    fake = await world.service(transaction=at(10, 20, 30))
    hw = world.client(fake)
    first = await hw.transaction(STATEMENT)
    off = hw.on_lost(Heard())
    await hw.transaction(STATEMENT)
    hw.promise(token(E1, 25))
    assert hw.exposure.count == 2
    off_own = first.on_lost(Heard())
    assert hw.exposure.count == 3
    off()
    assert hw.exposure.count == 1
    off_own()
    assert hw.exposure.count == 0
    await hw.transaction(STATEMENT)
    assert hw.exposure.count == 0


async def test_one_token_that_the_tracker_refuses_does_not_spoil_the_others(world: World) -> None:
    bad = token(E1, 55)

    def verdicts(request: Json, call: int) -> FakeResponse:
        if bad in request["tokens"]:
            return problem("invalid_token")
        return judge(lambda *_: {"verdict": "durable"})(request, call)  # type: ignore[no-any-return]

    fake = await world.service(verdicts=verdicts)
    hw = world.client(fake, api_key="hwk_a_b", headers={"x-own": "1"})
    good = [asyncio.ensure_future(hw.promise(token(E1, 60 + i)).durable()) for i in range(20)]
    refused = asyncio.ensure_future(hw.promise(bad).durable())
    await fake.streaming()
    await until(lambda: hw.exposure.count == 21)
    fake.epochs(FIRST, SECOND)
    with pytest.raises(InvalidRequestError) as caught:
        await refused
    assert caught.value.code == "invalid_token"
    assert all(each.verdict == "durable" for each in await asyncio.gather(*good))
    sent = {(each["authorization"], each["x-own"]) for each in (*fake.stream_requests, *fake.headers)}
    assert sent == {("Bearer hwk_a_b", "1")}, "the stream and the questions"


async def test_a_promise_that_waits_for_long_is_asked_about_without_any_event(world: World) -> None:
    fake = await world.service(
        transaction=at(10), stream=lambda call: 503, verdicts=judge(lambda *_: {"verdict": "durable"})
    )
    hw = world.client(fake, tuning=replace(QUICK, recheck_ms=30))
    assert (await (await hw.transaction(STATEMENT)).durable()).verdict == "durable"


async def test_verdicts_in_the_order_of_the_tokens_and_in_batches(world: World) -> None:
    def verdicts(request: Json, call: int) -> FakeResponse:
        given = [verdict_of(each, "durable") for each in reversed(request["tokens"])]
        return ok({"verdicts": given, "marks": marks(E1, disk=1)})

    fake = await world.service(verdicts=verdicts)
    hw = world.client(fake, tuning=replace(QUICK, verdict_batch=2))
    tokens = [token(E1, offset) for offset in (1, 2, 3)]
    assert [each.token for each in await hw.verdicts(tokens, level="disk", wait=0.01)] == tokens
    asked = [(each["level"], each["waitMs"], len(each["tokens"])) for each in fake.questions]
    assert asked == [("disk", 10, 2), ("disk", 10, 1)]
    assert (hw.marks.epoch, hw.marks.levels) == (E1, {"disk": 1})
    assert await hw.verdicts([]) == []


async def test_close_ends_questions_too_and_no_call_begins_after_it(world: World) -> None:
    fake = await world.service(transaction=at(51), verdicts=lambda *_: "hang")
    hw = world.client(fake)
    tx = await hw.transaction(STATEMENT)
    wait = asyncio.ensure_future(tx.durable())
    await fake.streaming()
    fake.epochs(FIRST, SECOND)
    await fake.until(lambda: fake.held == 1)
    await hw.close()
    await fake.until(lambda: fake.held == 0 and len(fake.streams) == 0)
    for call in (wait, hw.status(tx.id)):
        with pytest.raises(HighwaterError) as caught:
            await call
        assert caught.value.code == "client_closed"
    await hw.close()
