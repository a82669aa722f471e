"""The adapters of the Python SDK, for the driver.

Runs one statement in every way that they have, alone and in a transaction, and says how each ended.
"""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable, Iterator
from contextlib import closing
from typing import Any

import psycopg
import sqlalchemy
from highwater import AsyncHighwater, Highwater, HighwaterError, dbapi
from highwater.enlist import enlist
from highwater.sqlalchemy import committed, create_async_engine, create_engine, transact
from show import Json
from sqlalchemy.ext.asyncio import AsyncSession
from sqlalchemy.orm import Session


def in_all_adapters(hw: Highwater, statement: str, options: Json, database: str | None) -> list[Json]:
    """How the statement ended, in each way that differs from the others."""
    ends: set[str] = set()
    for way in _ways(hw, statement, options, database):
        try:
            ends.add(_shown(way()))
        except Exception as error:  # noqa: BLE001 - whatever it is, the scenario says whether it is right
            ends.add(_shown_error(error))
    return [json.loads(each) for each in ends]


async def in_all_adapters_async(hw: AsyncHighwater, statement: str, options: Json, database: str | None) -> list[Json]:
    """Like `in_all_adapters`, for the asynchronous client."""
    ends: set[str] = set()
    for way in _async_ways(hw, statement, options, database):
        try:
            ends.add(_shown(await way()))
        except Exception as error:  # noqa: BLE001 - as above
            ends.add(_shown_error(error))
    return [json.loads(each) for each in ends]


def _shown(promise: Any) -> str:
    known = promise.verdict()
    return json.dumps({"state": "pending" if known is None else known.verdict})


def _shown_error(raised: BaseException) -> str:
    error: object = raised
    while error is not None and not isinstance(error, HighwaterError):
        error = getattr(error, "orig", None)
    if error is None:
        raise raised
    return json.dumps(
        {
            "class": type(error).__name__,
            "code": error.code,
            "outcome": error.outcome,
            "retry": error.retry,
            "level": error.level,
            "state": error.state,
            "hasToken": error.token is not None,
        }
    )


def _ways(hw: Highwater, statement: str, options: Any, database: str | None) -> Iterator[Callable[[], Any]]:
    text = sqlalchemy.text(statement)
    engine = create_engine(hw, transaction=options)

    def by_dbapi(*, alone: bool) -> Any:
        with closing(dbapi.connect(client=hw, transaction=options)) as connection:
            connection.autocommit = alone
            connection.cursor().execute(statement)
            connection.commit()
            return connection.committed

    def by_sqlalchemy(isolation: str) -> Any:
        with engine.connect().execution_options(isolation_level=isolation) as connection:
            connection.execute(text)
            connection.commit()
            return committed(connection)

    def by_transact() -> Any:
        used: list[Any] = []

        def body(session: Session) -> None:
            used.append(session)
            session.execute(text)

        transact(lambda: Session(create_engine(hw)), body, **_of_transact(options))
        return committed(used[-1])

    yield lambda: by_dbapi(alone=True)
    yield lambda: by_dbapi(alone=False)
    yield lambda: by_sqlalchemy("AUTOCOMMIT")
    yield lambda: by_sqlalchemy("SERIALIZABLE")
    yield by_transact
    if database is None:
        return

    def by_psycopg() -> Any:
        with psycopg.connect(database) as connection:
            enlisted = enlist(hw, connection, **_enlisted(options))
            connection.execute(statement)
            connection.commit()
            last = enlisted.last(connection)
            return None if last is None else last.promise()

    yield by_psycopg


def _async_ways(
    hw: AsyncHighwater, statement: str, options: Any, database: str | None
) -> Iterator[Callable[[], Awaitable[Any]]]:
    text = sqlalchemy.text(statement)
    engine = create_async_engine(hw, transaction=options)

    async def by_sqlalchemy(isolation: str) -> Any:
        async with engine.connect() as connection:
            await connection.execution_options(isolation_level=isolation)
            await connection.execute(text)
            await connection.commit()
            return committed(connection)

    async def by_transact() -> Any:
        used: list[Any] = []

        async def body(session: AsyncSession) -> None:
            used.append(session)
            await session.execute(text)

        await transact(lambda: AsyncSession(create_async_engine(hw)), body, **_of_transact(options))
        return committed(used[-1])

    yield lambda: by_sqlalchemy("AUTOCOMMIT")
    yield lambda: by_sqlalchemy("SERIALIZABLE")
    yield by_transact
    if database is None:
        return

    async def by_psycopg() -> Any:
        async with await psycopg.AsyncConnection.connect(database) as connection:
            enlisted = enlist(hw, connection, **_enlisted(options))
            await connection.execute(statement)
            await connection.commit()
            last = enlisted.last(connection)
            return None if last is None else await last.promise()

    yield by_psycopg


def _enlisted(options: Json) -> Json:
    return {name: value for name, value in options.items() if name != "timeout"}


def _of_transact(options: Json) -> Json:
    """Its `timeout` is that of the wait, too."""
    names = {"ack": "ack", "level": "level", "on_timeout": "on_timeout", "max_wait": "timeout", "timeout": "timeout"}
    return {names[name]: value for name, value in options.items() if name in names}
