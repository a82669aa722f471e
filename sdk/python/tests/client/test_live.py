"""Live reports, sessions, and how the client gets marks where streams do not come through."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import Any

import pytest

from highwater import DurabilityTimeoutError, Endpoint, InvalidRequestError, ObservedEvent, sql
from tests.client.fake_service import FakeResponse, committed, ok, problem
from tests.client.support import E1, E2, epoch, marks
from tests.client.test_durability import FIRST, at
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
    assert (await third.durable(timeout=0)).rule == "client:acknowledged"
    assert await third.after_durable(lambda verdict: verdict.level) == "region"
    off()
    await hw.transaction(STATEMENT, ack="durable", on_timeout="pending")
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


async def test_close_waits_for_listeners_that_were_called(world: World) -> None:
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
    assert hw.exposure.oldest > 0
    fake.mark(marks(E1, region=10))
    await wait
    await received.until(lambda news: news[-1].exposure.count == 0 and news[-1].marks.levels == {"region": 10})
    assert len(fake.streams) == 1
    off()
    await fake.until(lambda: len(fake.streams) == 0)


async def test_a_proxy_that_holds_streams_back_marks_are_asked_for_and_streams_tried_again(world: World) -> None:
    is_blocked = True
    ancestry = [FIRST, epoch(E2, previous=E1, fork=10, start=15)]

    def marks_now(call: int) -> FakeResponse:
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
    first = await hw.transaction(STATEMENT)
    position = (await first.durable()).position
    # Carried over to the second epoch: so the epochs were learned, too.
    assert (position.epoch, position.offset) == (E2, 15)
    assert (first.position.epoch, first.position.offset, first.state) == (E1, 10, "durable")
    assert fake.polls >= 3
    is_blocked = False
    second = asyncio.ensure_future((await hw.transaction(STATEMENT)).durable())
    await fake.streaming()
    while not second.done():
        fake.mark(marks(E2, region=40))
        await asyncio.wait({second}, timeout=0.05)
    kinds = {event.type for event in settled_as}
    assert {"commit", "polling", "stream_closed", "stream_open", "durable"} <= kinds


async def test_where_there_is_no_tracker_a_wait_ends_with_that(world: World) -> None:
    gateway = await world.service(stream=lambda _: 404, marks=lambda _: problem("not_found"))
    wait = (await world.client(gateway).transaction(STATEMENT)).durable()
    with pytest.raises(InvalidRequestError) as raised:
        await wait
    assert raised.value.code == "no_tracker"


async def test_a_poll_that_fails_at_once_moves_on_to_the_next_tracker(world: World) -> None:
    near = await world.service(stream=lambda _: 502)
    far, gateway = await world.service(), await world.service()
    hw = world.client(endpoints=[Endpoint(gateway.url, each.url) for each in (near, far)])
    wait = asyncio.ensure_future((await hw.transaction(STATEMENT)).durable())
    await far.streaming()
    far.mark(marks(E1, region=10))
    await wait
    assert near.polls == 1


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
    with pytest.raises(DurabilityTimeoutError, match="pending"):
        await session.durable(timeout=0)
