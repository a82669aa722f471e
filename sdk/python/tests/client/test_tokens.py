"""Goal: an application of the PostgreSQL wire gets the promise of what it committed from its own driver.

Method: psycopg, asyncpg and SQLAlchemy on both connect to a gateway's wire of the real system.
"""

from __future__ import annotations

from collections.abc import Iterator

import asyncpg  # type: ignore[import-untyped]
import psycopg
import pytest
import sqlalchemy
from sqlalchemy.ext.asyncio import create_async_engine

from highwater import AsyncHighwater, Endpoint, Highwater, InvalidRequestError, TransactionLostError, sql
from tests.system import System

COMMIT = "-c highwater.ack=commit"


@pytest.fixture
def hw(system: System) -> Iterator[Highwater]:
    endpoints = [Endpoint(each.gateway, each.tracker) for each in system.endpoints]
    with Highwater(endpoints=endpoints, request_timeout=60, total_timeout=120) as client:
        client.transaction(
            sql("CREATE TABLE IF NOT EXISTS wired (text text)"), ack="durable", level="global", timeout=90
        )
        yield client


def of(url: str, driver: str) -> str:
    return url.replace("postgresql://", f"postgresql+{driver}://")


def test_a_connection_of_psycopg(system: System, hw: Highwater) -> None:
    with psycopg.connect(system.describe()["wire"], options=COMMIT) as connection:
        session = hw.session()
        connection.execute("INSERT INTO wired VALUES ('by psycopg')")
        connection.commit()
        first = session.token_of(connection)
        with connection.transaction():
            connection.execute("INSERT INTO wired VALUES ('in a block')")
        second = hw.token_of(connection, level="global")
        assert first.token != second.token
        assert first.durable(timeout=60).id == first.id
        assert second.durable(timeout=60).level == "global"
        session.durable(timeout=60)
        assert first.token in session.token
        connection.execute("SELECT count(*) FROM wired")
        connection.commit()
        with pytest.raises(InvalidRequestError, match=r"highwater\.ack = 'commit'") as none:
            hw.token_of(connection)
        assert none.value.code == "no_token"
        with connection.pipeline(), pytest.raises(InvalidRequestError, match="leave the pipeline"):
            hw.token_of(connection)


def test_a_safe_connection_has_no_token(system: System, hw: Highwater) -> None:
    with psycopg.connect(system.describe()["wire"], autocommit=True) as connection:
        connection.execute("INSERT INTO wired VALUES ('safe')")
        with pytest.raises(InvalidRequestError, match="the answer to COMMIT already means durable"):
            hw.token_of(connection)
    with pytest.raises(InvalidRequestError, match="is not a connection of"):
        hw.token_of(object())


def test_a_connection_of_sqlalchemy(system: System, hw: Highwater) -> None:
    engine = sqlalchemy.create_engine(of(system.describe()["wire"], "psycopg"), connect_args={"options": COMMIT})
    with engine.connect() as connection:
        connection.execute(sqlalchemy.text("INSERT INTO wired VALUES ('by SQLAlchemy')"))
        connection.commit()
        assert hw.token_of(connection).durable(timeout=60).verdict == "durable"
    engine.dispose()


async def test_async_connections(system: System, hw: Highwater) -> None:
    wire = system.describe()["wire"]
    endpoints = [Endpoint(each.gateway, each.tracker) for each in system.endpoints]
    insert = "INSERT INTO wired VALUES ('async')"
    settings = {"highwater.ack": "commit"}
    async with AsyncHighwater(endpoints=endpoints) as own:
        async with await psycopg.AsyncConnection.connect(wire, options=COMMIT) as by_psycopg:
            await by_psycopg.execute(insert)
            await by_psycopg.commit()
            await own.token_of(by_psycopg).durable(timeout=60)
        by_asyncpg = await asyncpg.connect(wire, server_settings=settings)
        async with by_asyncpg.transaction():
            await by_asyncpg.execute(insert)
        session = own.session()
        await session.token_of(by_asyncpg).durable(timeout=60)
        await session.durable(timeout=60)
        await by_asyncpg.fetch("SELECT * FROM wired")
        with pytest.raises(InvalidRequestError, match="the server sent none"):
            own.token_of(by_asyncpg)
        await by_asyncpg.close()
        pool = asyncpg.create_pool(wire, server_settings=settings, min_size=1, max_size=2)
        async with pool, pool.acquire() as pooled:
            await pooled.execute(insert)
            await own.token_of(pooled).durable(timeout=60)
        for driver, arguments in (("asyncpg", {"server_settings": settings}), ("psycopg", {"options": COMMIT})):
            engine = create_async_engine(of(wire, driver), connect_args=arguments)
            async with engine.connect() as connection:
                await connection.execute(sqlalchemy.text(insert))
                await connection.commit()
                await own.token_of(connection).durable(timeout=60)
            await engine.dispose()


@pytest.mark.failover
def test_a_token_through_the_loss_of_a_region(system: System, hw: Highwater) -> None:
    received: list[tuple[str, str]] = []
    connection = psycopg.connect(system.describe()["wire"], options=COMMIT, autocommit=True)
    system.command("hold")
    connection.execute("INSERT INTO wired VALUES ('lost')")
    lost = hw.token_of(connection)
    lost.on_lost(lambda verdict: received.append((verdict.id, verdict.verdict)))
    system.command("failover")
    with pytest.raises(TransactionLostError):
        lost.durable(timeout=60)
    connection.close()
    hw.close()
    assert received == [(lost.id, "lost")]
    assert system.command("query", sql="SELECT 1 FROM wired WHERE text = 'lost'") == []
