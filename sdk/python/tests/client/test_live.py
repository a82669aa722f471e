"""What is told as it happens, sessions, and how the client hears of marks where streams do not come through."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import Any

import pytest

from highwater import (
    DurabilityTimeoutError,
    Endpoint,
    InvalidRequestError,
    ObservedEvent,
    TransactionLostError,
    sql,
)
from tests.client.fake_service import Answer, committed, ok
from tests.client.support import E1, E2, Json, epoch, marks, token, verdict_of
from tests.client.test_durability import FIRST, SECOND, at, judge
from tests.client.world import QUICK, Heard, World, until

STATEMENT = sql("SELECT 1")


async def test_on_durable_of_a_transaction_and_of_the_client_once_and_never_for_what_is_lost(world: World) -> None:
    fake = await world.service(
        transaction=lambda request, call: committed(
            request, offset=call * 10, **({"state": "durable", "level": "region"} if call == 3 else {})
        )
    )
    hw = world.client(fake)
    everywhere, own, removed, late = Heard(), Heard(), Heard(), Heard()
    off = hw.on_durable(everywhere)
    first, second = await hw.transaction(STATEMENT), await hw.transaction(STATEMENT)
    second.on_durable(own)
    second.on_durable(removed)()
    await fake.streaming()
    fake.mark(marks(E1, region=20))
    await own.until(lambda news: [each.rule for each in news] == ["client:mark"])
    await everywhere.until(lambda news: {each.id for each in news} == {first.id, second.id})
    third = await hw.transaction(STATEMENT, ack="durable")
    await everywhere.until(lambda news: news[2:] != [] and news[2].id == third.id)
    off()
    await hw.transaction(STATEMENT, ack="durable")
    third.on_durable(late)
    await late.until(lambda news: len(news) == 1)
    assert (len(everywhere.news), removed.news) == (3, [])


async def test_listeners_may_call_the_client_and_what_they_raise_disturbs_nothing(
    world: World, caplog: pytest.LogCaptureFixture
) -> None:
    fake = await world.service(transaction=at(10, 20))
    hw = world.client(fake)
    received = Heard()

    def fail(verdict: Any) -> None:
        raise LookupError("of the listener")

    if world.is_async:

        async def compensate(verdict: Any) -> None:
            tx = await hw.transaction(STATEMENT)
            received(await tx.durable())

    else:

        def compensate(verdict: Any) -> None:  # type: ignore[misc]
            received(hw.target.transaction(STATEMENT).durable())

    tx = await hw.transaction(STATEMENT)
    tx.on_durable(fail)
    tx.on_durable(compensate)
    await fake.streaming()
    fake.mark(marks(E1, region=10))
    await fake.until(lambda: len(fake.transactions) == 2)
    await until(lambda: hw.exposure.count == 1)

    def mark() -> bool:
        # The stream may have closed behind the first promise, and be on its way again.
        fake.mark(marks(E1, region=20))
        return received.news != []

    await until(mark)
    assert [each.position.offset for each in received.news] == [20]
    assert "a listener failed" in caplog.text


async def test_close_waits_for_listeners_that_were_told(world: World) -> None:
    fake = await world.service(transaction=at(10))
    hw = world.client(fake)
    received = Heard()
    hw.on_durable(received)
    tx = await hw.transaction(STATEMENT)
    wait = asyncio.ensure_future(tx.durable())
    await fake.streaming()
    await until(lambda: len(tx.entry.waits) == 1)
    fake.mark(marks(E1, region=10))
    await wait
    await hw.close()
    assert [each.id for each in received.news] == [tx.id]


async def test_after_durable_runs_when_it_is_durable_and_not_before_or_otherwise(world: World) -> None:
    fake = await world.service(transaction=at(10))
    tx = await world.client(fake).transaction(STATEMENT)
    runs: list[Any] = []

    def run(verdict: Any) -> str:
        runs.append(verdict)
        return "ran"

    with pytest.raises(DurabilityTimeoutError):
        await tx.after_durable(run, timeout=0.02)
    assert runs == []
    done = asyncio.ensure_future(tx.after_durable(run))
    await fake.mark_until(done, marks(E1, region=10))
    assert await done == "ran"
    assert len(runs) == 1


async def test_subscribe_how_things_stand_now_and_after_changes(world: World) -> None:
    fake = await world.service(transaction=at(10))
    hw = world.client(fake)
    received = Heard()
    off = hw.subscribe(received)
    await received.until(lambda news: news != [] and news[0].marks is None and news[0].exposure.count == 0)
    await fake.streaming()
    fake.mark(marks(E1, region=4))
    await received.until(lambda news: news[-1].marks is not None and news[-1].marks.levels == {"region": 4})
    tx = await hw.transaction(STATEMENT)
    wait = asyncio.ensure_future(tx.durable())
    await received.until(lambda news: news[-1].exposure.count == 1)
    fake.mark(marks(E1, region=10))
    await wait
    await received.until(lambda news: news[-1].exposure.count == 0 and news[-1].marks.levels == {"region": 10})
    assert len(fake.streams) == 1
    off()
    await fake.until(lambda: len(fake.streams) == 0)


async def test_a_proxy_that_holds_streams_back_marks_are_asked_for_and_streams_tried_again(world: World) -> None:
    is_blocked = True
    ancestry = [FIRST, epoch(E2, previous=E1, fork=10, start=15)]

    def marks_now(call: int) -> Answer:
        is_early = call < 3
        now = marks(E1, region=5) if is_early else marks(E2, region=20)
        return ok({"marks": now, "levels": ["region"], "epochs": ancestry[:1] if is_early else ancestry})

    fake = await world.service(
        transaction=lambda request, call: (
            committed(request, offset=10) if call == 1 else committed(request, epoch=E2, offset=40)
        ),
        stream=lambda _: "held" if is_blocked else None,
        marks=marks_now,
    )
    tuning = replace(QUICK, stream_open_ms=50, poll_base_ms=5, poll_max_ms=20, poll_for_ms=300)
    settled_as: list[ObservedEvent] = []
    hw = world.client(fake, tuning=tuning, observer=[settled_as.append])
    position = (await (await hw.transaction(STATEMENT)).durable()).position
    # Carried over to the second epoch: so the epochs were learned, too.
    assert (position.epoch, position.offset) == (E2, 15)
    assert fake.polls >= 3
    is_blocked = False
    second = asyncio.ensure_future((await hw.transaction(STATEMENT)).durable())
    await fake.streaming()
    while not second.done():
        fake.mark(marks(E2, region=40))
        await asyncio.wait({second}, timeout=0.05)
    kinds = {event.type for event in settled_as}
    assert {"commit", "polling", "stream_closed", "stream_open", "durable"} <= kinds


async def test_a_poll_that_fails_at_once_moves_on_to_the_next_tracker(world: World) -> None:
    near = await world.service(stream=lambda _: 502)
    far, gateway = await world.service(), await world.service()
    hw = world.client(endpoints=[Endpoint(gateway.url, each.url) for each in (near, far)])
    wait = asyncio.ensure_future((await hw.transaction(STATEMENT)).durable())
    await far.streaming()
    far.mark(marks(E1, region=10))
    await wait
    assert near.polls == 1


async def test_session_all_of_it_reads_included_is_waited_for(world: World) -> None:
    fake = await world.service(transaction=at(10, 20, 30))
    hw = world.client(fake)
    session = hw.session()
    await session.durable(timeout=0)
    await session.transaction(STATEMENT)
    await session.transaction(STATEMENT, read_only=True)
    await hw.transaction(STATEMENT)
    wait = asyncio.ensure_future(session.durable(level="disk"))
    await fake.streaming()
    fake.mark(marks(E1, disk=19))
    with pytest.raises(DurabilityTimeoutError) as caught:
        await session.durable(level="disk", timeout=0.02)
    await until(lambda: hw.exposure.count == 1)
    assert "pending" in caught.value.message
    fake.mark(marks(E1, disk=20))
    await wait
    await session.durable(level="disk", timeout=0)


async def test_session_a_loss_is_reported_once_and_the_rest_can_be_waited_for(world: World) -> None:
    lost: set[str] = set()
    fake = await world.service(
        transaction=at(40, 51), verdicts=judge(lambda each, _: {"verdict": "lost"} if each in lost else {})
    )
    session = world.client(fake).session()
    await session.transaction(STATEMENT)
    lost.add((await session.transaction(STATEMENT)).token)
    wait = asyncio.ensure_future(session.durable())
    await fake.streaming()
    fake.epochs(FIRST, SECOND)
    with pytest.raises(TransactionLostError):
        await wait
    rest = asyncio.ensure_future(session.durable())
    # The stream of the first wait may be closing, and a mark in it would not be read.
    await fake.mark_until(rest, marks(E2, region=60))
    await rest


async def test_session_causal_reads_see_what_it_knows_of(world: World) -> None:
    fake = await world.service(transaction=at(10, 20, 5, 30, 40))
    hw = world.client(fake)
    session = hw.session(causal=True)
    first = await session.transaction(STATEMENT, read_only=True)
    second = await session.transaction(STATEMENT)
    await session.transaction(STATEMENT, read_only=True)
    await session.transaction(STATEMENT, read_only=True, after=first)
    await session.transaction(STATEMENT)
    after = [each.get("after") for each in fake.transactions]
    assert after == [None, None, second.token, first.token, None]


async def test_session_transactions_of_every_kind_are_remembered(world: World) -> None:
    fake = await world.service()
    session = world.client(fake).session()

    async def body(tx: Any) -> None:
        await tx.query(STATEMENT)

    await session.transact(body)
    async with session.begin() as tx:
        await tx.query(STATEMENT)
        done = await tx.commit()
    assert done.token in session.token
    assert len(session.token.split(".")) == 3


async def test_session_another_process_takes_over(world: World) -> None:
    tokens = [token(E1, offset) for offset in (10, 20, 30, 40)]
    kinds = ["durable", "pending", "lost", "broken"]

    def verdicts(request: Json, call: int) -> Answer:
        given = [verdict_of(each, kind) for each, kind in zip(request["tokens"], kinds, strict=True)]
        return ok({"verdicts": given, "marks": None})

    fake = await world.service(verdicts=verdicts)
    session = world.client(fake).session()
    settled_as = await session.resume(".".join(["hws1", *tokens]))
    assert [each.verdict for each in settled_as] == kinds
    wait = asyncio.ensure_future(session.durable())
    await fake.streaming()
    fake.mark(marks(E1, region=20))
    await wait
    assert tokens[2] not in session.token
    assert await session.resume("hws1") == []
    with pytest.raises(InvalidRequestError):
        await session.resume("hw1")


async def test_observers_hear_the_life_of_a_transaction(world: World) -> None:
    fake = await world.service(transaction=lambda request, call: "cut" if call == 1 else committed(request))
    settled_as: list[tuple[str, str | None]] = []

    def observe(event: ObservedEvent) -> Any:
        if event.type == "commit":
            event.headers["traceparent"] = "00-1"
        settled_as.append((event.type, event.id))
        return lambda end: settled_as.append((f"{event.type} ended", end.state))

    hw = world.client(fake, observer=observe)
    tx = await hw.transaction(STATEMENT)
    wait = asyncio.ensure_future(tx.durable())
    await fake.streaming()
    fake.mark(marks(E1, region=10))
    await wait
    await hw.close()
    assert [each for each in settled_as if not each[0].startswith("stream")] == [
        ("commit", tx.id),
        ("retry", tx.id),
        ("commit ended", "committed"),
        ("durable", tx.id),
    ]
    assert [each["traceparent"] for each in fake.headers] == ["00-1", "00-1"]
