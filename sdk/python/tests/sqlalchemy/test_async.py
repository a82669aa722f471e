"""The same with `AsyncSession`, on the real system."""

from __future__ import annotations

import asyncio

import pytest
import sqlalchemy
from sqlalchemy import exc, select
from sqlalchemy.ext.asyncio import AsyncEngine, AsyncSession, async_sessionmaker
from sqlalchemy.orm import Session, selectinload

from highwater import DurabilityTimeoutError
from highwater.sqlalchemy import committed, durable, token, transact
from tests.sqlalchemy.conftest import cause_of
from tests.sqlalchemy.models import Customer, Purchase
from tests.system import System

pytestmark = pytest.mark.adapters


async def test_an_async_session_commits_and_is_durable(async_engine: AsyncEngine) -> None:
    async with AsyncSession(async_engine, expire_on_commit=False) as session:
        ada = Customer(name="Ada", purchases=[Purchase(cents=100), Purchase(cents=250)])
        session.add(ada)
        await session.commit()
        first = committed(session)
        ada.name = "Ada Lovelace"
        await session.commit()
        await durable(session, level="global", timeout=30)
        assert first.verdict(level="global") is not None
        assert committed(session).verdict(level="global") is not None
        assert token(session).startswith("hws1.")
        query = select(Customer).options(selectinload(Customer.purchases))
        found = (await session.scalars(query)).one()
        assert found is ada
        assert [each.cents for each in found.purchases] == [100, 250]


async def test_rollbacks_savepoints_and_errors(async_engine: AsyncEngine) -> None:
    async with AsyncSession(async_engine) as session:
        session.add(Customer(name="kept"))
        await session.flush()
        nested = await session.begin_nested()
        session.add(Customer(name="kept"))
        with pytest.raises(exc.IntegrityError) as caught:
            await session.flush()
        await nested.rollback()
        assert cause_of(caught).pgcode == "23505"
        await session.commit()
        session.add(Customer(name="never"))
        await session.flush()
        await session.rollback()
        assert (await session.scalars(select(Customer.name))).all() == ["kept"]


async def test_connections_streams_and_sync_code_inside(async_engine: AsyncEngine) -> None:
    async with async_engine.begin() as connection:
        await connection.execute(sqlalchemy.insert(Customer), [{"name": f"core {n}"} for n in range(700)])
    await durable(connection)
    async with async_engine.connect() as connection:
        result = await connection.stream(select(Customer.name), execution_options={"yield_per": 200})
        assert [len(part) async for part in result.partitions()] == [200, 200, 200, 100]

    def sync_code(session: Session) -> None:
        session.add(Customer(name="bridged"))
        session.commit()
        durable(session)

    async with AsyncSession(async_engine) as session:
        await session.run_sync(sync_code)
        assert committed(session).verdict() is not None


async def test_transact_reruns_conflicts(async_engine: AsyncEngine) -> None:
    sessions = async_sessionmaker(async_engine)
    async with sessions.begin() as session:
        session.add(Customer(name="shared", purchases=[Purchase(cents=1)]))
    meeting = asyncio.Barrier(4)
    runs: list[int] = []

    async def add_one(session: AsyncSession) -> int:
        purchase = (await session.scalars(select(Purchase))).one()
        if len(runs) < 4:
            runs.append(1)
            await meeting.wait()
        purchase.cents += 1
        return purchase.cents

    results = await asyncio.gather(*(transact(sessions, add_one, ack="durable", timeout=60) for _ in range(4)))
    assert sorted(results) == [2, 3, 4, 5]


async def test_a_wait_that_ends_is_no_loss(async_engine: AsyncEngine, system: System) -> None:
    async with AsyncSession(async_engine) as session:
        system.command("hold")
        session.add(Customer(name="held"))
        await session.commit()
        with pytest.raises(DurabilityTimeoutError):
            await durable(session, timeout=0.05)
        system.command("heal")
        await durable(session, timeout=120)


async def test_a_cancelled_task_leaves_its_session_usable_and_nothing_open(async_engine: AsyncEngine) -> None:
    async with AsyncSession(async_engine) as session:
        await session.execute(select(Customer))
        task = asyncio.ensure_future(session.execute(sqlalchemy.text("SELECT pg_sleep(60)")))
        activity = "SELECT count(*) FROM pg_stat_activity WHERE query LIKE '%pg_sleep(60)%' AND state = 'active'"
        async with AsyncSession(async_engine) as other:
            while True:
                sleeping = await other.scalar(sqlalchemy.text(f"{activity} AND pid <> pg_backend_pid()"))
                await other.rollback()
                if sleeping:
                    break
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
            await session.rollback()
            assert (await session.scalars(select(Customer))).all() == []
