"""The real system starts, reports the truth, and recovers."""

import asyncio
import threading
import time
import uuid
from collections.abc import Callable
from concurrent.futures import CancelledError, Future, ThreadPoolExecutor
from typing import Any

import pytest

from highwater import (
    AsyncHighwater,
    Cancellation,
    ConstraintError,
    Endpoint,
    Highwater,
    TransactionOptions,
    sql,
)
from tests.system import System


def test_the_system_of_the_tests(system: System) -> None:
    assert len(system.endpoints) == 3
    assert system.command("query", sql="SELECT 1 AS one") == [{"one": 1}]
    with pytest.raises(RuntimeError, match="no command"):
        system.command("explode")


KEYS = range(1, 61)
PLAIN: TransactionOptions = {"isolation": "read committed"}
#: Longer than a busy machine needs.
LIMIT_S = 120


def client_of(system: System, kind: Callable[..., Any]) -> Any:
    # Of one region: with others to go to, it would take a busy machine's slowness for a failure, and send again.
    near = [Endpoint(each.gateway, each.tracker) for each in system.endpoints[:1]]
    return kind(endpoints=near, request_timeout=60, total_timeout=LIMIT_S)


def until(system: System, count: int, what: str) -> None:
    end = time.monotonic() + LIMIT_S
    while system.command("query", sql=f"SELECT count(*)::int AS n FROM {what}") != [{"n": count}]:
        assert time.monotonic() < end, what


def statements_of(table: str) -> dict[str, Any]:
    """One conflicts with what another session holds and runs again, one fails, one has a huge result."""
    plain = {
        str(key): sql(f"INSERT INTO {table} VALUES ({{key}}, {{n}}) RETURNING id, n", key=key, n=key * key)
        for key in KEYS
    }
    return {
        "conflict": sql(f"UPDATE {table} SET n = n + 1 WHERE id = 0 RETURNING n"),
        "failing": [sql(f"INSERT INTO {table} VALUES (1000, 1)"), sql(f"INSERT INTO {table} VALUES (0, 1)")],
        "huge": sql("SELECT repeat('x', 3000000) AS text"),
        **plain,
    }


def sleeping(table: str) -> str:
    other = "state = 'active' AND pid <> pg_backend_pid()"
    return f"pg_stat_activity WHERE {other} AND query LIKE '%pg_sleep(600) AS {table}%'"


WAITING = "(SELECT FROM pg_locks WHERE NOT granted LIMIT 1) AS waiting"


def check(results: dict[str, Any]) -> None:
    """Each has its own answer."""
    assert results.pop("conflict").rows == [{"n": 2}]
    failing = results.pop("failing")
    assert isinstance(failing, ConstraintError)
    assert failing.outcome == "not_applied"
    assert results.pop("huge").rows[0]["text"] == "x" * 3_000_000
    assert [results[str(key)].rows for key in KEYS] == [[{"id": key, "n": key * key}] for key in KEYS]


def check_table(hw_rows: Any) -> None:
    assert hw_rows == [{"n": 61, "sum": 2 + sum(key * key for key in KEYS)}]


async def test_64_tasks_at_the_same_time(system: System) -> None:
    table = f"many_{uuid.uuid4().hex}"
    async with client_of(system, AsyncHighwater) as hw:
        await hw.transaction(
            [sql(f"CREATE TABLE {table} (id int PRIMARY KEY, n int)"), sql(f"INSERT INTO {table} VALUES (0, 0)")]
        )
        holder = hw.begin()
        await holder.query(sql(f"UPDATE {table} SET n = n + 1 WHERE id = 0"))
        statements = statements_of(table)
        tasks = {
            name: asyncio.ensure_future(hw.transaction(each, **({} if name == "conflict" else PLAIN)))
            for name, each in statements.items()
        }
        # A task is cancelled as any other; then its own request ends, or it leaves the others' request.
        cancelled = asyncio.ensure_future(hw.transaction(sql(f"SELECT pg_sleep(600) AS {table}"), **PLAIN))
        await asyncio.to_thread(until, system, 1, WAITING)
        await asyncio.to_thread(until, system, 1, sleeping(table))
        await holder.commit()
        cancelled.cancel()
        with pytest.raises(asyncio.CancelledError) as error:
            await cancelled
        assert error.value.__cause__ is not None
        results = await asyncio.gather(*tasks.values(), return_exceptions=True)
        check(dict(zip(tasks, results, strict=True)))
        # Its request has ended with the last of the others.
        await asyncio.to_thread(until, system, 0, sleeping(table))
        check_table((await hw.transaction(sql(f"SELECT count(*)::int AS n, sum(n)::int AS sum FROM {table}"))).rows)


def test_64_threads_at_the_same_time(system: System) -> None:
    table = f"many_{uuid.uuid4().hex}"
    with client_of(system, Highwater) as hw, ThreadPoolExecutor(64) as pool:
        hw.transaction(
            [sql(f"CREATE TABLE {table} (id int PRIMARY KEY, n int)"), sql(f"INSERT INTO {table} VALUES (0, 0)")]
        )
        holder = hw.begin()
        holder.query(sql(f"UPDATE {table} SET n = n + 1 WHERE id = 0"))
        cancellation = Cancellation()
        sleep = sql(f"SELECT pg_sleep(600) AS {table}")
        cancelled: Future[Any] = pool.submit(lambda: hw.transaction(sleep, cancel=cancellation, **PLAIN))
        together = threading.Barrier(len(KEYS) + 3)

        def run(name: str, statements: Any) -> Any:
            together.wait()
            try:
                return hw.transaction(statements, **({} if name == "conflict" else PLAIN))
            except ConstraintError as error:
                return error

        calls = {name: pool.submit(run, name, each) for name, each in statements_of(table).items()}
        until(system, 1, WAITING)
        holder.commit()
        check({name: call.result(LIMIT_S) for name, call in calls.items()})
        until(system, 1, sleeping(table))
        cancellation.cancel()
        with pytest.raises(CancelledError):
            cancelled.result(LIMIT_S)
        until(system, 0, sleeping(table))
        check_table(hw.transaction(sql(f"SELECT count(*)::int AS n, sum(n)::int AS sum FROM {table}")).rows)
