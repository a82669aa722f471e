"""Both clients on the real system: three regions, and the failures that the promises are about."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from decimal import Decimal
from typing import Any

import pytest

from highwater import ConstraintError, Endpoint, TransactionLostError, sql
from highwater._core.tuning import DEFAULT_TUNING
from tests.client.world import Heard, World
from tests.system import System


def client_of(world: World, system: System, **options: Any) -> Any:
    endpoints = [Endpoint(each.gateway, each.tracker) for each in system.endpoints]
    given = {"endpoints": endpoints, "request_timeout": 10, "total_timeout": 60, "tuning": DEFAULT_TUNING, **options}
    return world.client(**given)


def near_client_of(world: World, system: System) -> Any:
    """Of one region: with others to go to it takes a busy machine's slowness for a failure, and gets no rows."""
    near = system.endpoints[0]
    return client_of(world, system, endpoints=[Endpoint(near.gateway, near.tracker)], request_timeout=60)


async def table_of(hw: Any, name: str) -> Any:
    table = sql.ident(name)
    await hw.transaction(
        [
            sql("DROP TABLE IF EXISTS {table}", table=table),
            sql("CREATE TABLE {table} (id bigint PRIMARY KEY, amount numeric NOT NULL)", table=table),
        ],
        ack="durable",
        max_wait_ms=30_000,
    )
    return table


async def test_the_quick_start_and_what_is_around_it(world: World, system: System) -> None:
    hw = near_client_of(world, system)
    table = await table_of(hw, f"python_quick_{'async' if world.is_async else 'sync'}")
    kept = Heard()
    hw.on_durable(kept)
    insert = sql("INSERT INTO {table} VALUES ({id}, {amount})", table=table, id=2**60, amount=Decimal("0.1"))
    tx = await hw.transaction([insert, sql("SELECT * FROM {table}", table=table)])
    assert tx.rows == [{"id": 2**60, "amount": Decimal("0.1")}]
    verdict = await tx.durable(level="global")
    assert (verdict.verdict, verdict.id) == ("durable", tx.id)
    await kept.until(lambda news: [each.id for each in news] == [tx.id])
    with pytest.raises(ConstraintError) as caught:
        await hw.transaction(insert)
    assert caught.value.sqlstate == "23505"
    assert (await hw.status(tx.id)).state in ("committed", "durable")
    [settled_as] = await hw.verdicts([tx.token], wait_ms=5_000)
    assert settled_as.verdict == "durable"
    assert set(hw.marks.levels) == {"disk", "region", "global"}


async def test_transact_sessions_and_reads_that_see_them(world: World, system: System) -> None:
    hw = near_client_of(world, system)
    table = await table_of(hw, f"python_session_{'async' if world.is_async else 'sync'}")
    session = hw.session(causal=True)
    await session.transaction(sql("INSERT INTO {table} VALUES (1, 0)", table=table))

    async def add_one(tx: Any) -> Decimal:
        read = await tx.query(sql("SELECT amount FROM {table} WHERE id = 1", table=table))
        amount: Decimal = read.rows[0]["amount"] + 1
        await tx.query(sql("UPDATE {table} SET amount = {amount} WHERE id = 1", table=table, amount=amount))
        return amount

    # They conflict with each other: each takes effect once.
    amounts = await asyncio.gather(*(session.transact(add_one, timeout=60) for _ in range(4)))
    assert sorted(amounts) == [1, 2, 3, 4]
    read = await session.transaction(sql("SELECT amount FROM {table}", table=table), read_only=True)
    assert read.rows == [{"amount": 4}]
    assert read.served is not None
    await session.durable(level="global")
    other = client_of(world, system).session()
    assert {each.verdict for each in await other.resume(session.token)} <= {"durable"}


@pytest.fixture
async def worlds() -> AsyncIterator[list[World]]:
    """One of each client: a failure takes long to make and to mend, so both live through the same one."""
    worlds = [World("sync"), World("async")]
    yield worlds
    for world in worlds:
        await world.close()


@pytest.mark.failover
async def test_what_a_failover_loses_is_told_and_what_it_keeps_goes_on(worlds: list[World], system: System) -> None:
    clients = [client_of(world, system) for world in worlds]
    held, failed = asyncio.Event(), asyncio.Event()

    async def live_through(world: World, hw: Any, ready: asyncio.Event, waiting: asyncio.Event) -> None:
        table = await table_of(hw, f"python_lost_{'async' if world.is_async else 'sync'}")
        insert = "INSERT INTO {table} VALUES ({id}, 0)"
        kept = await hw.transaction(sql(insert, table=table, id=1))
        await kept.durable()
        ready.set()
        await held.wait()
        gone, received, of_client = await hw.transaction(sql(insert, table=table, id=2)), Heard(), Heard()
        gone.on_lost(received)
        hw.on_lost(of_client)
        session = hw.session()
        also = await session.transaction(sql(insert, table=table, id=3))
        wait = asyncio.ensure_future(gone.durable(timeout=120))
        waiting.set()
        with pytest.raises(TransactionLostError) as caught:
            await wait
        assert caught.value.transaction_id == gone.id
        assert caught.value.successor is not None
        await received.until(lambda news: [each.id for each in news] == [gone.id])
        with pytest.raises(TransactionLostError):
            await session.durable(timeout=120)
        await of_client.until(lambda news: {each.id for each in news} == {gone.id, also.id})
        assert len(of_client.news) == 2
        await failed.wait()
        # Another client of the regions that are left, with the tokens alone.
        later = client_of(world, system)
        with pytest.raises(TransactionLostError):
            await later.promise(gone.token).durable(timeout=120)
        assert (await later.promise(kept.token).durable(timeout=120)).verdict == "durable"
        rows = (await hw.transaction(sql("SELECT id FROM {table}", table=table))).rows
        assert rows == [{"id": 1}]

    states = [(asyncio.Event(), asyncio.Event()) for _ in worlds]
    lives = [
        asyncio.ensure_future(live_through(world, hw, *state))
        for world, hw, state in zip(worlds, clients, states, strict=True)
    ]
    whole = asyncio.gather(*lives)
    await first_of(whole, *(ready for ready, _ in states))
    await asyncio.to_thread(system.command, "hold")
    held.set()
    await first_of(whole, *(waiting for _, waiting in states))
    await asyncio.to_thread(system.command, "failover")
    failed.set()
    await whole


async def first_of(whole: asyncio.Future[Any], *events: asyncio.Event) -> None:
    """Waits for all of the events, or raises what has ended the whole before."""
    settled_as = asyncio.gather(*(event.wait() for event in events))
    await asyncio.wait({whole, settled_as}, return_when=asyncio.FIRST_COMPLETED)
    if not settled_as.done():
        settled_as.cancel()
        await whole
    await settled_as


async def test_a_gateway_and_a_stream_that_are_gone_are_gone_around(worlds: list[World], system: System) -> None:
    clients = [client_of(world, system) for world in worlds]
    firsts = [await hw.transaction(sql("SELECT 1")) for hw in clients]
    waits = [asyncio.ensure_future(first.durable(level="global", timeout=60)) for first in firsts]
    await asyncio.to_thread(system.command, "cut", service="tracker")
    await asyncio.gather(*waits)
    await asyncio.to_thread(system.command, "stop", service="gateway")
    for hw in clients:
        second = await hw.transaction(sql("SELECT 2"))
        assert (await second.durable(level="global", timeout=60)).verdict == "durable"
