"""Goal and method: as in test_enlist.py, with asynchronous connections."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Iterator
from typing import Any

import psycopg
import pytest
import sqlalchemy
from psycopg import AsyncConnection, errors
from psycopg.pq import TransactionStatus
from sqlalchemy.ext.asyncio import create_async_engine

from highwater import AsyncHighwater, DurabilityTimeoutError, InvalidRequestError, TransactionLostError
from highwater._core.effects import Effect, Send
from highwater.enlist import AsyncEnlistedTransaction, enlist
from tests.enlist.conftest import Relay, count, until
from tests.system import System, app_address

pytestmark = pytest.mark.adapters


async def test_a_transaction_has_its_promise(system: System, async_hw: AsyncHighwater) -> None:
    async with await AsyncConnection.connect(app_address(system)) as connection:
        enlisted = enlist(async_hw, connection)
        await connection.execute("INSERT INTO enlisted VALUES ('kept')")
        await connection.commit()
        first = enlisted.last(connection)
        assert first is not None
        async with connection.transaction():
            await connection.execute("INSERT INTO enlisted VALUES ('in a block')")
        second = enlisted.last(connection)
        assert second is not None
        await asyncio.gather(first.durable(level="global", timeout=60), second.durable(timeout=60))
        await async_hw.promise((await first.promise()).token).durable(timeout=60)
        assert await second.after_durable(lambda verdict: verdict.id, timeout=60) == second.id
        with pytest.raises(errors.DivisionByZero):
            await connection.execute("SELECT 1/0")
        await connection.commit()
        await connection.execute("INSERT INTO enlisted VALUES ('twice')")
        await connection.execute("INSERT INTO enlisted VALUES ('twice')")
        with pytest.raises(errors.UniqueViolation):
            await connection.commit()
        assert enlisted.last(connection) is second
        async with connection.pipeline():
            await connection.execute("INSERT INTO enlisted VALUES ('piped')")
            await connection.commit()
        third = enlisted.last(connection)
        assert third is not None
        await third.durable(timeout=60)
        assert [count(system, each) for each in ("kept", "in a block", "twice", "piped")] == [1, 1, 0, 1]
    with psycopg.connect(app_address(system)) as other, pytest.raises(InvalidRequestError, match="of its kind"):
        enlisted.add(other)


async def test_many_at_a_time(system: System, async_hw: AsyncHighwater) -> None:
    enlisted = enlist(async_hw, ack="durable")
    seen: list[AsyncEnlistedTransaction] = []
    enlisted.on_commit(seen.append)

    async def work(at: int) -> None:
        async with await AsyncConnection.connect(app_address(system), autocommit=True) as connection:
            enlisted.add(connection)
            await connection.execute("BEGIN")
            await connection.execute("INSERT INTO enlisted VALUES (%s)", (f"task {at}",))
            await connection.execute("COMMIT")
            last = enlisted.last(connection)
            assert last is not None
            assert (await last.promise()).verdict() is not None

    await asyncio.gather(*(work(at) for at in range(12)))
    assert len({each.id for each in seen}) == 12
    assert count(system, "task %") == 12


async def test_a_cancelled_task_leaves_a_connection_that_works(system: System, async_hw: AsyncHighwater) -> None:
    async with (
        await AsyncConnection.connect(app_address(system), autocommit=True) as gate,
        await AsyncConnection.connect(app_address(system)) as connection,
    ):
        enlisted = enlist(async_hw, connection)
        await gate.execute("SELECT pg_advisory_lock(7)")
        await connection.execute("INSERT INTO enlisted VALUES ('cancelled')")
        await connection.execute("INSERT INTO late VALUES (1)")
        committing = asyncio.create_task(connection.commit())
        pid = connection.info.backend_pid
        waits = f"SELECT 1 FROM pg_locks WHERE pid = {pid} AND locktype = 'advisory' AND NOT granted"
        await asyncio.to_thread(until, lambda: system.command("query", sql=waits))
        committing.cancel()
        with pytest.raises((asyncio.CancelledError, errors.QueryCanceled)):
            await committing
        await gate.execute("SELECT pg_advisory_unlock(7)")
        await connection.rollback()
        await connection.execute("INSERT INTO enlisted VALUES ('next')")
        await connection.commit()
        last = enlisted.last(connection)
        assert last is not None
        await last.durable(timeout=60)
        assert [count(system, each) for each in ("cancelled", "next")] == [0, 1]


@contextlib.contextmanager
def held(hw: AsyncHighwater, path: str = "/v1/tickets") -> Iterator[None]:
    """Requests to the path are sent at the end of the block."""
    perform, over = hw._host.perform, asyncio.Event()

    async def perform_later(effect: Effect) -> object:
        if isinstance(effect, Send) and effect.url.endswith(path):
            await over.wait()
        return await perform(effect)

    hw._host.perform = perform_later  # type: ignore[method-assign]
    try:
        yield
    finally:
        over.set()


async def begin_commit(connection: AsyncConnection[Any], text: str) -> asyncio.Task[None]:
    """Returns a task whose COMMIT waits for its ticket."""
    written = asyncio.Event()

    async def work() -> None:
        async with connection.transaction():
            await connection.execute("INSERT INTO enlisted VALUES (%s)", (text,))
            written.set()

    task = asyncio.create_task(work())
    await written.wait()
    await asyncio.to_thread(until, connection.lock.locked)
    return task


async def test_a_commit_that_is_cancelled_while_it_waits_for_its_ticket_is_rolled_back(
    system: System, async_hw: AsyncHighwater
) -> None:
    async with await AsyncConnection.connect(app_address(system)) as connection:
        enlisted = enlist(async_hw, connection)
        with held(async_hw):
            task = await begin_commit(connection, "cancelled before")
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
            assert connection.info.transaction_status == TransactionStatus.IDLE
            assert enlisted.last(connection) is None
        async with connection.transaction():
            await connection.execute("INSERT INTO enlisted VALUES ('block behind')")
        assert [count(system, each) for each in ("cancelled before", "block behind")] == [0, 1]
        assert enlisted.last(connection) is not None


async def test_a_wait_for_durability_ends_in_time_without_a_token(system: System, async_hw: AsyncHighwater) -> None:
    async with await AsyncConnection.connect(app_address(system)) as connection:
        enlisted = enlist(async_hw, connection)
        with held(async_hw, "/v1/tickets/ends"):
            await connection.execute("INSERT INTO enlisted VALUES ('no token in time')")
            await connection.commit()
            last = enlisted.last(connection)
            assert last is not None
            with pytest.raises(DurabilityTimeoutError) as late:
                await last.durable(timeout=0.05)
            assert (late.value.outcome, late.value.transaction_id) == ("applied", last.id)
        await last.durable(timeout=60)


async def test_a_connection_whose_rollback_is_interrupted_is_closed(
    system: System, async_hw: AsyncHighwater, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("highwater.enlist._psycopg._GIVE_UP_S", 0.1)
    with Relay(app_address(system)) as relay, held(async_hw):
        connection = await AsyncConnection.connect(relay.address)
        enlist(async_hw, connection)
        task = await begin_commit(connection, "rollback unanswered")
        relay.is_mute = True
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert connection.broken
        await connection.close()
    assert count(system, "rollback unanswered") == 0


async def test_an_engine_of_sqlalchemy(system: System, async_hw: AsyncHighwater) -> None:
    engine = create_async_engine(app_address(system).replace("postgresql://", "postgresql+psycopg://"))
    enlisted = enlist(async_hw, engine)
    async with engine.connect() as connection:
        await connection.execute(sqlalchemy.text("INSERT INTO enlisted VALUES ('by SQLAlchemy')"))
        await connection.commit()
        last = enlisted.last(connection)
    assert last is not None
    await last.durable(timeout=60)
    await engine.dispose()
    other = create_async_engine(app_address(system).replace("postgresql://", "postgresql+asyncpg://"))
    enlist(async_hw, other)
    with pytest.raises(InvalidRequestError, match="neither a connection of psycopg 3"):
        async with other.connect() as connection:
            await connection.execute(sqlalchemy.text("SELECT 1"))
    await other.dispose()


@pytest.mark.failover
async def test_through_the_loss_of_a_region(system: System, async_hw: AsyncHighwater) -> None:
    connection = await AsyncConnection.connect(app_address(system))
    enlisted = enlist(async_hw, connection)
    await asyncio.to_thread(system.command, "hold")
    await connection.execute("INSERT INTO enlisted VALUES ('lost')")
    await connection.commit()
    lost = enlisted.last(connection)
    assert lost is not None
    received: asyncio.Queue[tuple[str, str]] = asyncio.Queue()
    lost.on_lost(lambda verdict: received.put_nowait((verdict.id, verdict.verdict)))
    await lost.promise()
    await asyncio.to_thread(system.command, "failover")
    with pytest.raises(TransactionLostError):
        await lost.durable(timeout=60)
    async with asyncio.timeout(60):
        assert await received.get() == (lost.id, "lost")
    assert count(system, "lost") == 0
    await connection.close()
