"""Many sessions at the same time wait for their turn, as at a pool of connections: none is refused."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from threading import Barrier

import pytest
from sqlalchemy import func, select, text
from sqlalchemy.engine import Engine
from sqlalchemy.ext.asyncio import AsyncSession
from sqlalchemy.orm import Session

from highwater import AsyncHighwater, Endpoint, Highwater, HighwaterError, ObservedEvent
from highwater.sqlalchemy import create_async_engine, create_engine
from tests.sqlalchemy.models import Customer
from tests.system import System

pytestmark = pytest.mark.adapters

SESSIONS = 50
HOLD = text("SELECT pg_sleep(0.05)")


def near(system: System) -> list[Endpoint]:
    return [Endpoint(system.endpoints[0].gateway, system.endpoints[0].tracker)]


def into(refusals: list[str]) -> Callable[[ObservedEvent], None]:
    def observe(event: ObservedEvent) -> None:
        if isinstance(event.error, HighwaterError):
            refusals.append(event.error.code)

    return observe


def test_fifty_threads(engine: Engine, system: System) -> None:
    refusals: list[str] = []
    together = Barrier(SESSIONS)
    with Highwater(endpoints=near(system), request_timeout=60, total_timeout=120, observer=into(refusals)) as hw:
        # Without a pool, every session has a connection of its own, and nothing waits before the gateway.
        own = create_engine(hw)

        def work(number: int) -> None:
            with Session(own) as session:
                together.wait(60)
                session.add(Customer(name=f"thread {number}"))
                session.flush()
                session.execute(HOLD)
                session.commit()

        with ThreadPoolExecutor(SESSIONS) as threads:
            list(threads.map(work, range(SESSIONS)))
        own.dispose()
    assert refusals == []
    with Session(engine) as session:
        assert session.scalar(select(func.count()).select_from(Customer)) == SESSIONS


async def test_fifty_tasks(engine: Engine, system: System) -> None:
    refusals: list[str] = []
    async with AsyncHighwater(
        endpoints=near(system), request_timeout=60, total_timeout=120, observer=into(refusals)
    ) as hw:
        own = create_async_engine(hw)

        async def work(number: int) -> None:
            async with AsyncSession(own) as session:
                session.add(Customer(name=f"task {number}"))
                await session.flush()
                await session.execute(HOLD)
                await session.commit()

        await asyncio.gather(*(work(number) for number in range(SESSIONS)))
        await own.dispose()
    assert refusals == []
    with Session(engine) as session:
        assert session.scalar(select(func.count()).select_from(Customer)) == SESSIONS
