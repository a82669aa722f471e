"""PEP 249 on the real system, without SQLAlchemy; and how pools of SQLAlchemy keep its connections."""

from __future__ import annotations

import os
import pickle
import sys
from collections.abc import Iterator

import pytest
import sqlalchemy
from sqlalchemy import pool
from sqlalchemy.engine import Engine

from highwater import ConstraintError, Endpoint, Highwater, Statement, dbapi
from highwater import sqlalchemy as highwater_sqlalchemy
from highwater._core.errors import problem_error
from highwater._core.wire import Problem
from highwater.dbapi._errors import error_of
from tests.system import System

pytestmark = pytest.mark.adapters


@pytest.fixture
def hw(system: System) -> Iterator[Highwater]:
    # With other regions to go to it would take a busy machine's slowness for a failure, send again, and get no rows.
    near = system.endpoints[0]
    with Highwater(endpoints=[Endpoint(near.gateway, near.tracker)], request_timeout=60, total_timeout=60) as hw:
        hw.transaction(
            [
                Statement("DROP TABLE IF EXISTS dbapi_item"),
                Statement("CREATE TABLE dbapi_item (id int PRIMARY KEY, label text)"),
            ]
        )
        yield hw


def test_transactions_cursors_and_rows(hw: Highwater) -> None:
    assert (dbapi.apilevel, dbapi.threadsafety, dbapi.paramstyle) == ("2.0", 1, "numeric_dollar")
    connection = dbapi.connect(client=hw)
    cursor = connection.cursor()
    assert connection.transaction is None
    cursor.execute("INSERT INTO dbapi_item VALUES ($1, $2) RETURNING id, label", (1, "one"))
    assert cursor.description is not None
    assert [column[:2] for column in cursor.description] == [("id", 23), ("label", 25)]
    assert (cursor.rowcount, cursor.fetchone(), cursor.fetchone()) == (1, (1, "one"), None)
    connection.rollback()
    cursor.executemany("INSERT INTO dbapi_item VALUES ($1, $2)", [(n, str(n)) for n in range(600)])
    assert cursor.rowcount == 600
    connection.commit()
    assert connection.committed.durable(timeout=60).verdict == "durable"
    cursor.execute("SELECT id FROM dbapi_item WHERE id < $1 ORDER BY id", (5,))
    assert cursor.fetchmany(2) == [(0,), (1,)]
    assert list(cursor) == [(2,), (3,), (4,)]
    with pytest.raises(dbapi.ProgrammingError):
        cursor.execute("SELECT 1", {"a": 1})  # type: ignore[arg-type]
    connection.close()
    for use in (connection.cursor, connection.commit, connection.rollback):
        with pytest.raises(dbapi.InterfaceError):
            use()


def test_autocommit_is_one_transaction_for_each_call(hw: Highwater) -> None:
    with dbapi.connect(client=hw) as connection:
        connection.autocommit = True
        cursor = connection.cursor()
        with pytest.raises(dbapi.IntegrityError):
            cursor.executemany("INSERT INTO dbapi_item VALUES ($1, '')", [(n % 300,) for n in range(301)])
        cursor.execute("SELECT count(*) FROM dbapi_item")
        assert cursor.fetchone() == (0,)
        cursor.executemany("INSERT INTO dbapi_item VALUES ($1, '')", [(n,) for n in range(301)])
        first = connection.committed
        cursor.execute("DELETE FROM dbapi_item")
        assert cursor.rowcount == 301
        assert connection.committed is not first
        for lost in ("SET search_path = x", "LISTEN x", "CREATE TEMP TABLE x ()", "SELECT pg_advisory_lock(1)"):
            with pytest.raises(dbapi.NotSupportedError):
                cursor.execute(lost)


def test_a_transaction_that_failed_says_why_until_it_is_rolled_back(hw: Highwater) -> None:
    with dbapi.connect(client=hw) as connection:
        cursor = connection.cursor()
        with pytest.raises(dbapi.ProgrammingError) as first:
            cursor.execute("SELECT * FROM there_is_no_such_table")
        assert first.value.pgcode == "42P01"
        for again in (lambda: cursor.execute("SELECT 1"), connection.commit):
            with pytest.raises(dbapi.ProgrammingError) as later:
                again()
            assert later.value.pgcode == "42P01"
        cursor.execute("SELECT 1")
        assert cursor.fetchone() == (1,)


def test_rows_that_are_streamed_survive_savepoints(hw: Highwater) -> None:
    with dbapi.connect(client=hw) as connection:
        plain = connection.cursor()
        plain.execute("SAVEPOINT a")
        stream = connection.stream_cursor()
        stream.execute("SELECT n FROM generate_series(1, $1) AS n", (2_500,))
        assert stream.fetchmany(3) == [(1,), (2,), (3,)]
        plain.execute("ROLLBACK TO SAVEPOINT a")
        stream.close()  # the database has closed it: nothing is sent that would fail
        plain.execute("SELECT 1")
        again = connection.stream_cursor()
        again.execute("SELECT n FROM generate_series(1, $1) AS n", (2_500,))
        assert again.fetchone() == (1,)
        assert len(again.fetchall()) == 2_499
        again.close()
        again = connection.stream_cursor()
        again.execute("INSERT INTO dbapi_item VALUES (1, '') RETURNING id")
        assert again.fetchall() == [(1,)]


def test_errors_are_pickled_whole() -> None:
    problem = Problem(
        code="constraint_violation",
        outcome="not_applied",
        retry="never",
        message="duplicate",
        sqlstate="23505",
        constraint="item_pkey",
    )
    error = error_of(problem_error(problem, status=409))
    copy = pickle.loads(pickle.dumps(error))
    assert type(copy) is dbapi.IntegrityError
    assert (str(copy), copy.pgcode, copy.constraint_name) == ("duplicate", "23505", "item_pkey")
    assert isinstance(copy.orig, ConstraintError)


def test_pools_keep_connections_and_disposed_engines_begin_anew(near_engine: Engine) -> None:
    pooled = sqlalchemy.create_engine(
        near_engine.url, poolclass=pool.QueuePool, pool_size=1, max_overflow=0, pool_pre_ping=True
    )
    raw = []
    for level in ("AUTOCOMMIT", "READ COMMITTED"):
        with pooled.connect().execution_options(isolation_level=level) as connection:
            connection.execute(sqlalchemy.text("SELECT 1"))
            raw.append(connection.connection.dbapi_connection)
    assert raw[0] is raw[1]
    with pooled.connect() as connection:
        assert connection.scalar(sqlalchemy.text("SHOW transaction_isolation")) == "serializable"
    pooled.dispose()
    with pooled.connect() as connection:
        assert connection.connection.dbapi_connection is not raw[0]
        assert connection.scalar(sqlalchemy.text("SELECT 1")) == 1
    pooled.dispose()


def test_an_engine_of_a_client_leaves_it_open(hw: Highwater) -> None:
    engine = highwater_sqlalchemy.create_engine(hw, transaction={"ack": "durable", "level": "global"})
    with engine.begin() as connection:
        connection.execute(sqlalchemy.text("INSERT INTO dbapi_item VALUES (1, 'x')"))
    assert highwater_sqlalchemy.committed(connection).verdict(level="global") is not None
    engine.dispose()
    assert hw.transaction(Statement("SELECT label FROM dbapi_item")).rows == [{"label": "x"}]


@pytest.mark.skipif(not hasattr(os, "fork"), reason="there are no forks here")
def test_a_forked_process_goes_on_with_the_engine(engine: Engine) -> None:
    with engine.connect() as connection:
        connection.execute(sqlalchemy.text("SELECT 1"))
    child = os.fork()
    if child == 0:
        try:
            with engine.connect() as connection:
                value = connection.scalar(sqlalchemy.text("SELECT 41 + 1"))
            os._exit(0 if value == 42 else 1)
        except BaseException as error:  # noqa: BLE001 - the parent is told by the code
            sys.stderr.write(f"{error!r}\n")
            os._exit(2)
    _, status = os.waitpid(child, 0)
    assert os.waitstatus_to_exitcode(status) == 0
