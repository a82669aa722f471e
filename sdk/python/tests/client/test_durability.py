"""Promises against a scripted tracker: stream, epochs, verdicts, waits that end and waits that are ended."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import Any

import pytest

from highwater import (
    DurabilityTimeoutError,
    HighwaterError,
    InvalidRequestError,
    PromiseBrokenError,
    TokenRefusedError,
    TransactionLostError,
    UnknownOutcomeError,
    sql,
)
from tests.client.fake_service import Answer, committed, ok, problem
from tests.client.support import E1, E2, E3, Json, epoch, marks, token, verdict_of
from tests.client.world import QUICK, Heard, World, until

STATEMENT = sql("SELECT 1")
FIRST = epoch(E1)
SECOND = epoch(E2, previous=E1, fork=50, start=60)


def at(*offsets: int) -> Any:
    """Transactions commit at these offsets, one after the other."""
    return lambda request, call: committed(request, offset=offsets[call - 1])


def judge(verdict_for: Any) -> Any:
    def verdicts(request: Json, call: int) -> Answer:
        given = [
            verdict_of(each, "pending", level=request["level"], offset=51) | verdict_for(each, call)
            for each in request["tokens"]
        ]
        return ok({"verdicts": given, "marks": None})

    return verdicts


async def test_one_stream_for_all_waits_opened_for_the_first_and_closed_after_the_last(world: World) -> None:
    fake = await world.service(transaction=at(10, 20))
    hw = world.client(fake)
    one, two = await hw.transaction(STATEMENT), await hw.transaction(STATEMENT)
    assert fake.stream_requests == []
    waits = [asyncio.ensure_future(each) for each in (one.durable(), two.durable(), two.durable(level="global"))]
    await fake.streaming()
    await until(lambda: hw.exposure.count == 2)
    assert hw.exposure.oldest_ms > 0
    fake.mark(marks(E1, region=15, **{"global": 5}))
    assert (await waits[0]).position.offset == 10
    fake.mark(marks(E1, region=25, **{"global": 20}))
    assert (await waits[1]).rule == "client:mark"
    assert (await waits[2]).level == "global"
    assert two.state == "durable"
    assert hw.exposure.count == 0
    await fake.until(lambda: len(fake.streams) == 0)
    assert len(fake.stream_requests) == 1


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


async def test_ten_thousand_promises_are_settled_by_one_mark_over_one_connection(world: World) -> None:
    fake = await world.service()
    # The service is on the loop that makes the promises here, and answers no stream until all are made.
    hw = world.client(fake, tuning=replace(QUICK, stream_open_ms=60_000, stream_silence_ms=60_000, recheck_ms=60_000))
    received = Heard()
    for offset in range(1, 10_001):
        hw.promise(token(E1, offset)).on_durable(received)
    await fake.streaming()
    assert hw.exposure.count == 10_000
    fake.mark(marks(E1, region=10_000))
    await received.until(lambda news: len(news) == 10_000)
    assert [verdict.position.offset for verdict in received.news] == list(range(1, 10_001))
    assert hw.exposure.count == 0
    assert (fake.questions, fake.connections) == ([], 1)


async def test_a_stream_that_is_cut_is_resumed_with_the_id_of_the_last_event(world: World) -> None:
    fake = await world.service(transaction=at(10, 20))
    hw = world.client(fake)
    one, two = await hw.transaction(STATEMENT), await hw.transaction(STATEMENT)
    first, second = asyncio.ensure_future(one.durable()), asyncio.ensure_future(two.durable())
    await fake.streaming()
    # Without the second wait the stream would close behind the first one, by itself.
    await until(lambda: hw.exposure.count == 2)
    fake.send("mark", marks(E1, region=10), id="1.42")
    await first
    fake.cut_streams()
    await fake.until(lambda: len(fake.stream_requests) == 2 and len(fake.streams) == 1)
    assert [headers.get("last-event-id") for headers in fake.stream_requests] == [None, "1.42"]
    fake.mark(marks(E1, region=20))
    await second


async def test_events_may_come_twice_cut_up_and_malformed(world: World) -> None:
    fake = await world.service(transaction=at(10))
    hw = world.client(fake)
    wait = asyncio.ensure_future((await hw.transaction(STATEMENT)).durable())
    await fake.streaming()
    fake.epochs(FIRST)
    fake.epochs(FIRST)
    fake.send("mark", marks(E1, region=9))
    fake.send("mark", marks(E1, region=3))
    fake.write("event: mark\ndata: {broken\n\nevent: mark\ndata: {}\n\nevent: later\ndata: 1\n\n")
    fake.write("event: ma")
    fake.write(f'rk\ndata: {{"epoch": "{E1}", "seq": 1,\ndata: "levels": {{"region": "10"}}}}\n\n')
    assert (await wait).verdict == "durable"
    assert len(fake.stream_requests) == 1


async def test_a_silent_stream_is_dead_and_another_tracker_takes_over_from_a_refusing_one(world: World) -> None:
    silent = await world.service()
    refusing = await world.service(stream=lambda call: 503)
    far = await world.service()
    hw = world.client(refusing, silent, far, tuning=replace(QUICK, stream_silence_ms=200, stream_open_ms=5_000))
    wait = asyncio.ensure_future(hw.promise(token(E1, 10)).durable())
    await far.streaming()
    assert len(refusing.stream_requests) > 0
    assert len(silent.stream_requests) > 0
    while not wait.done():
        # On a machine that stalls the third is silent for too long as well, and comes back.
        far.mark(marks(E1, region=10))
        await asyncio.wait({wait}, timeout=0.05)
    assert (await wait).verdict == "durable"


async def test_epoch_change_carried_over_at_the_fork(world: World) -> None:
    fake = await world.service(transaction=at(50))
    hw = world.client(fake)
    tx = await hw.transaction(STATEMENT)
    wait = asyncio.ensure_future(tx.durable())
    await fake.streaming()
    fake.epochs(FIRST)
    fake.mark(marks(E1, region=49))
    fake.epochs(FIRST, SECOND)
    fake.mark(marks(E2, region=60))
    position = (await wait).position
    assert (position.epoch, position.offset) == (E2, 60)
    assert (tx.position.epoch, tx.position.offset) == (E1, 50)
    assert fake.questions == []


async def test_epoch_change_lost_settles_all_and_tells_every_listener_once(world: World) -> None:
    fake = await world.service(
        transaction=at(51),
        verdicts=judge(lambda _, call: {} if call == 1 else {"verdict": "lost", "retriedIn": E2}),
    )
    hw = world.client(fake)
    everywhere, own, removed, late = Heard(), Heard(), Heard(), Heard()
    hw.on_lost(everywhere)
    tx = await hw.transaction(STATEMENT, metadata={"order": "7"})
    tx.on_lost(own)
    tx.on_lost(removed)()
    waits = [asyncio.ensure_future(each) for each in (tx.durable(), tx.durable(level="global"))]
    await fake.streaming()
    await until(lambda: len(tx.entry.waits) == 2)
    fake.epochs(FIRST, SECOND)
    for wait in waits:
        with pytest.raises(TransactionLostError) as caught:
            await wait
        error = caught.value
        assert error.verdict is not None
        assert (error.verdict.retried_in, error.code, error.transaction_id) == (E2, "transaction_lost", E1)
        assert (error.outcome, error.retry) == ("applied", "resolve_outcome"), "another attempt is there"
        assert (error.level, error.metadata, error.successor) == (error.verdict.level, {"order": "7"}, E2)
    assert tx.state == "lost"
    await own.until(lambda news: len(news) == 1)
    await everywhere.until(lambda news: len(news) == 1)
    # Whichever level was judged first: a verdict is about its own.
    assert own.news == [tx.verdict()]
    with pytest.raises(TransactionLostError):
        await tx.durable()
    tx.on_lost(late)
    await late.until(lambda news: len(news) == 1)
    assert (len(everywhere.news), len(own.news), removed.news) == (1, 1, [])
    assert hw.exposure.count == 0


async def test_found_by_its_receipt(world: World) -> None:
    fake = await world.service(
        transaction=at(51), verdicts=judge(lambda *_: {"position": {"epoch": E2, "offset": "77"}})
    )
    hw = world.client(fake)
    wait = asyncio.ensure_future((await hw.transaction(STATEMENT)).durable())
    await fake.streaming()
    fake.epochs(FIRST, SECOND)
    await fake.until(lambda: len(fake.questions) == 1)
    fake.mark(marks(E2, region=77))
    position = (await wait).position
    assert (position.epoch, position.offset) == (E2, 77)


async def test_broken_is_raised_and_told_and_lost_too_for_nobody_had_seen_it_durable(world: World) -> None:
    fake = await world.service(transaction=at(51), verdicts=judge(lambda *_: {"verdict": "broken"}))
    hw = world.client(fake)
    broken, lost = Heard(), Heard()
    hw.on_broken(broken)
    hw.on_lost(lost)
    wait = asyncio.ensure_future((await hw.transaction(STATEMENT)).durable())
    await fake.streaming()
    fake.epochs(FIRST, SECOND)
    with pytest.raises(PromiseBrokenError) as caught:
        await wait
    assert caught.value.verdict is not None
    await broken.until(lambda news: len(news) == 1)
    await lost.until(lambda news: [each.verdict for each in news] == ["broken"])


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


async def test_a_listener_alone_keeps_the_stream_and_lets_go_when_it_is_durable(world: World) -> None:
    fake = await world.service(transaction=at(10, 20))
    hw = world.client(fake)
    received = Heard()
    (await hw.transaction(STATEMENT)).on_lost(received)
    off = (await hw.transaction(STATEMENT)).on_lost(received)
    await fake.streaming()
    assert hw.exposure.count == 2
    off()
    fake.mark(marks(E1, region=10))
    await fake.until(lambda: len(fake.streams) == 0)
    assert hw.exposure.count == 0


async def test_listeners_on_the_client_watch_what_it_commits_from_then_on(world: World) -> None:
    fake = await world.service(transaction=at(10, 20, 30))
    hw = world.client(fake)
    await hw.transaction(STATEMENT)
    off = hw.on_lost(Heard())
    await hw.transaction(STATEMENT)
    hw.promise(token(E1, 25))
    assert hw.exposure.count == 2
    off()
    assert hw.exposure.count == 0
    await hw.transaction(STATEMENT)
    assert hw.exposure.count == 0


async def test_a_wait_has_an_end_and_the_timeout_is_no_loss(world: World) -> None:
    fake = await world.service(transaction=at(10))
    hw = world.client(fake)
    tx = await hw.transaction(STATEMENT)
    with pytest.raises(DurabilityTimeoutError) as caught:
        await tx.durable(timeout=0.03)
    error = caught.value
    assert (error.code, error.outcome, error.retry) == ("durability_timeout", "applied", "wait")
    assert error.transaction_id == tx.id
    assert (tx.state, hw.exposure.count) == ("committed", 0)
    wait = asyncio.ensure_future(tx.durable())
    await fake.mark_until(wait, marks(E1, region=10))
    await wait


async def test_verdicts_are_asked_in_batches_and_judged_one_by_one(world: World) -> None:
    lost = {token(E1, 100 + i): i % 2 == 1 for i in range(2_500)}
    fake = await world.service(verdicts=judge(lambda each, _: {"verdict": "lost" if lost[each] else "durable"}))
    hw = world.client(fake)
    gone, kept = Heard(), Heard()
    hw.on_lost(gone)
    hw.on_durable(kept)
    promises = [hw.promise(each) for each in lost]
    await fake.streaming()
    fake.epochs(FIRST, SECOND)
    await gone.until(lambda news: len(news) == 1_250)
    await kept.until(lambda news: len(news) == 1_250)
    assert all(promise.verdict().verdict == ("lost" if lost[promise.token] else "durable") for promise in promises)
    assert all(len(question["tokens"]) <= 1_000 for question in fake.questions)
    asked = [each for question in fake.questions for each in question["tokens"]]
    assert (len(asked), len(set(asked))) == (2_500, 2_500)


async def test_a_question_that_fails_is_asked_again_and_a_token_without_an_answer_too(world: World) -> None:
    def verdicts(request: Json, call: int) -> Any:
        if call == 3:
            return ok({"verdicts": [], "marks": None})
        early = {1: "cut", 2: problem("marks_unavailable")}
        return early.get(call) or judge(lambda *_: {"verdict": "durable"})(request, call)

    fake = await world.service(transaction=at(51), verdicts=verdicts)
    wait = asyncio.ensure_future((await world.client(fake).transaction(STATEMENT)).durable())
    await fake.streaming()
    fake.epochs(FIRST, SECOND)
    assert (await wait).verdict == "durable"
    assert len(fake.questions) == 4


async def test_a_level_that_does_not_exist_is_refused_and_not_waited_for(world: World) -> None:
    fake = await world.service(transaction=at(10), verdicts=lambda *_: problem("unknown_level"))
    wait = asyncio.ensure_future((await world.client(fake).transaction(STATEMENT)).durable(level="regoin"))
    await fake.streaming()
    fake.mark(marks(E1, region=5))
    with pytest.raises(InvalidRequestError) as caught:
        await wait
    assert caught.value.code == "unknown_level"


async def test_one_token_that_the_tracker_refuses_does_not_spoil_the_others(world: World) -> None:
    bad = token(E1, 55)

    def verdicts(request: Json, call: int) -> Answer:
        if bad in request["tokens"]:
            return problem("invalid_token")
        return judge(lambda *_: {"verdict": "durable"})(request, call)  # type: ignore[no-any-return]

    fake = await world.service(verdicts=verdicts)
    hw = world.client(fake)
    good = [asyncio.ensure_future(hw.promise(token(E1, 60 + i)).durable()) for i in range(20)]
    refused = asyncio.ensure_future(hw.promise(bad).durable())
    await fake.streaming()
    await until(lambda: hw.exposure.count == 21)
    fake.epochs(FIRST, SECOND)
    with pytest.raises(InvalidRequestError) as caught:
        await refused
    assert caught.value.code == "invalid_token"
    assert all(each.verdict == "durable" for each in await asyncio.gather(*good))


async def test_a_token_of_another_owner_ends_its_own_wait_and_no_other(world: World) -> None:
    own, foreign = token(E2, 10), token(E2, 20)

    def verdicts(request: Json, call: int) -> Answer:
        refusal = {"token": foreign, "verdict": "unknown", "level": "region", "rule": "refused"}
        refusal |= {"error": {"code": "forbidden", "detail": "another owner's"}}  # type: ignore[dict-item]
        given = [refusal if each == foreign else verdict_of(each, "durable") for each in request["tokens"]]
        return ok({"verdicts": given, "marks": None})

    fake = await world.service(verdicts=verdicts)
    hw = world.client(fake, api_key="hwk_a_b", headers={"x-own": "1"})
    waits = [asyncio.ensure_future(hw.promise(each).durable()) for each in (own, foreign)]
    await fake.streaming()
    assert fake.stream_requests[0]["authorization"] == "Bearer hwk_a_b"
    assert fake.stream_requests[0]["x-own"] == "1"
    fake.epochs(FIRST, epoch(E2, previous=E1, fork=5, start=6), epoch(E3, previous=E2, fork=7))
    assert (await waits[0]).verdict == "durable"
    with pytest.raises(TokenRefusedError) as caught:
        await waits[1]
    assert (caught.value.code, caught.value.retry, caught.value.token) == ("forbidden", "never", foreign)
    assert {each["authorization"] for each in fake.headers} == {"Bearer hwk_a_b"}
    first, second = await hw.verdicts([own, foreign])
    assert (first.verdict, second.verdict, second.code) == ("durable", "unknown", "forbidden")


@pytest.mark.parametrize("verdict", ["expired", "unknown"])
async def test_what_nobody_can_judge_any_more_is_an_unknown_outcome(world: World, verdict: str) -> None:
    fake = await world.service(transaction=at(51), verdicts=judge(lambda *_: {"verdict": verdict}))
    wait = asyncio.ensure_future((await world.client(fake).transaction(STATEMENT)).durable())
    await fake.streaming()
    fake.epochs(FIRST, SECOND)
    with pytest.raises(UnknownOutcomeError):
        await wait


async def test_a_promise_that_waits_for_long_is_asked_about_without_any_event(world: World) -> None:
    fake = await world.service(
        transaction=at(10), stream=lambda call: 503, verdicts=judge(lambda *_: {"verdict": "durable"})
    )
    hw = world.client(fake, tuning=replace(QUICK, recheck_ms=30))
    assert (await (await hw.transaction(STATEMENT)).durable()).verdict == "durable"


async def test_verdicts_in_the_order_of_the_tokens_and_in_batches(world: World) -> None:
    def verdicts(request: Json, call: int) -> Answer:
        given = [verdict_of(each, "durable") for each in reversed(request["tokens"])]
        return ok({"verdicts": given, "marks": marks(E1, disk=1)})

    fake = await world.service(verdicts=verdicts)
    hw = world.client(fake, tuning=replace(QUICK, verdict_batch=2))
    tokens = [token(E1, offset) for offset in (1, 2, 3)]
    assert [each.token for each in await hw.verdicts(tokens, level="disk", wait_ms=10)] == tokens
    asked = [(each["level"], each["waitMs"], len(each["tokens"])) for each in fake.questions]
    assert asked == [("disk", 10, 2), ("disk", 10, 1)]
    assert (hw.marks.epoch, hw.marks.levels) == (E1, {"disk": 1})
    assert await hw.verdicts([]) == []


async def test_a_mark_of_another_epoch_settles_nothing(world: World) -> None:
    fake = await world.service(transaction=at(10), verdicts=lambda *_: "hang")
    hw = world.client(fake)
    tx = await hw.transaction(STATEMENT)
    wait = asyncio.ensure_future(tx.durable())
    await fake.streaming()
    fake.mark(marks(E2, region=1_000))
    await until(lambda: hw.marks is not None)
    assert tx.verdict() is None
    fake.mark(marks(E1, region=10))
    await wait


async def test_close_ends_every_wait_question_and_stream(world: World) -> None:
    fake = await world.service(transaction=at(51), verdicts=lambda *_: "hang")
    hw = world.client(fake)
    tx = await hw.transaction(STATEMENT)
    wait = asyncio.ensure_future(tx.durable())
    await fake.streaming()
    fake.epochs(FIRST, SECOND)
    await fake.until(lambda: fake.held == 1)
    await hw.close()
    with pytest.raises(HighwaterError) as caught:
        await wait
    assert caught.value.code == "client_closed"
    await fake.until(lambda: fake.held == 0 and len(fake.streams) == 0)
    for call in (tx.durable(), hw.transaction(STATEMENT), hw.status(tx.id)):
        with pytest.raises(HighwaterError) as caught:
            await call
        assert caught.value.code == "client_closed"
    await hw.close()


async def test_what_is_known_needs_no_connection_also_after_close(world: World) -> None:
    fake = await world.service(transaction=lambda request, _: committed(request, offset=10, marks=marks(E1, region=10)))
    hw = world.client(fake)
    tx = await hw.transaction(STATEMENT)
    await hw.close()
    assert (await tx.durable(timeout=0)).verdict == "durable"
    assert fake.stream_requests == []
