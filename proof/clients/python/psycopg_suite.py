"""psycopg 3: pipelines, COPY, server-side cursors, two-phase commit, notifications, cancel."""

import os
import threading
import time
from collections.abc import Callable
from typing import Any

import psycopg
from cases import see
from psycopg import pq

URL = os.environ["DATABASE_URL"]


def fields(error: Exception) -> Any:
    if not isinstance(error, psycopg.Error):
        return str(error)
    diag = error.diag
    names = [name for name in dir(diag) if not name.startswith("_")]
    found = {name: getattr(diag, name) for name in names}
    # Localized messages and source positions must be equal, too, because the server is the same.
    return {name: value for name, value in found.items() if isinstance(value, str)}


def case(name: str, call: Callable[[], Any]) -> None:
    see(name, call, fields)


def basics(conn: psycopg.Connection[Any]) -> None:
    case("tables", lambda: conn.execute("CREATE TABLE item (id int PRIMARY KEY, text text)").statusmessage)
    case("insert", lambda: conn.execute("INSERT INTO item VALUES (%s, %s)", (1, "a")).rowcount)
    case("binary", lambda: conn.cursor(binary=True).execute("SELECT %s::bytea, 1.5::float8", (b"\0\xff",)).fetchall())
    case("prepared", lambda: [conn.execute("SELECT %s::int", (n,), prepare=True).fetchone() for n in range(5)])
    case("duplicate", lambda: conn.execute("INSERT INTO item VALUES (1, 'b')"))
    case("nothing", lambda: conn.execute("DELETE FROM item WHERE id = 99").statusmessage)
    case("syntax", lambda: conn.execute("SELECT * FORM item"))

    def block() -> Any:
        with conn.transaction():
            conn.execute("INSERT INTO item VALUES (2, 'b')")
            try:
                with conn.transaction():
                    conn.execute("INSERT INTO item VALUES (2, 'c')")
            except psycopg.errors.UniqueViolation:
                pass
            return conn.execute("SELECT count(*) FROM item").fetchall()

    case("nested transactions", block)

    def rolled_back() -> Any:
        with conn.transaction(force_rollback=True):
            conn.execute("INSERT INTO item VALUES (3, 'c')")
        return conn.execute("SELECT count(*) FROM item").fetchall()

    case("forced rollback", rolled_back)
    case("many", lambda: many(conn))
    case("stream", lambda: sum(row[0] for row in conn.cursor().stream("SELECT generate_series(1, 1000)")))

    def stepwise() -> Any:
        with conn.transaction(), conn.cursor("named") as cursor:
            cursor.itersize = 7
            cursor.execute("SELECT generate_series(1, 50)")
            return [len(cursor.fetchmany(20)), cursor.fetchone(), len(cursor.fetchall())]

    case("server-side cursor", stepwise)


def many(conn: psycopg.Connection[Any]) -> Any:
    cursor = conn.cursor()
    rows = [(n, str(n)) for n in range(100, 200)]
    cursor.executemany("INSERT INTO item VALUES (%s, %s) RETURNING id", rows, returning=True)
    seen = [cursor.fetchone()]
    while cursor.nextset():
        seen.append(cursor.fetchone())
    return [len(seen), seen[-1]]


def copies(conn: psycopg.Connection[Any]) -> None:
    def copy_in(rows: list[tuple[int, str]], how: str = "") -> Any:
        cursor = conn.cursor()
        with cursor.copy(f"COPY item FROM STDIN {how}") as copy:
            if how:
                copy.set_types(["int4", "text"])
            for row in rows:
                copy.write_row(row)
        return cursor.rowcount

    case("copy in", lambda: copy_in([(n, "x" * 100) for n in range(1_000, 21_000)]))
    case("copy in, binary", lambda: copy_in([(n, "y") for n in range(30_000, 31_000)], "(FORMAT binary)"))
    case("copy in, a duplicate", lambda: copy_in([(1, "x")]))

    def broken_off() -> None:
        with conn.cursor().copy("COPY item FROM STDIN") as copy:
            copy.write_row((40_000, "z"))
            raise ValueError("enough")

    case("copy in, broken off", broken_off)

    def copy_out() -> Any:
        with conn.cursor().copy("COPY (SELECT * FROM item ORDER BY id) TO STDOUT") as copy:
            return sum(len(block) for block in copy)

    case("copy out", copy_out)

    def copy_in_block() -> Any:
        with conn.transaction():
            copy_in([(50_000, "t")])
        return conn.execute("SELECT count(*) FROM item").fetchall()

    case("copy in a transaction", copy_in_block)


def pipelines(conn: psycopg.Connection[Any]) -> None:
    def several() -> Any:
        with conn.pipeline():
            cursors = [conn.execute("INSERT INTO item VALUES (%s, 'p')", (n,)) for n in range(60_000, 60_050)]
            last = conn.execute("SELECT count(*) FROM item WHERE text = 'p'")
        return [sum(cursor.rowcount for cursor in cursors), last.fetchall()]

    case("pipeline", several)

    def with_syncs() -> Any:
        with conn.pipeline() as pipeline:
            conn.execute("INSERT INTO item VALUES (61000, 'q')")
            pipeline.sync()
            conn.execute("INSERT INTO item VALUES (61001, 'q')")
            pipeline.sync()
            cursor = conn.execute("SELECT count(*) FROM item WHERE text = 'q'")
        return cursor.fetchall()

    case("pipeline of several transactions", with_syncs)

    def failing() -> Any:
        with conn.pipeline():
            conn.execute("INSERT INTO item VALUES (62000, 'r')")
            conn.execute("SELECT 1 / 0")
            conn.execute("INSERT INTO item VALUES (62001, 'r')")

    case("pipeline that fails", failing)

    def failing_later() -> Any:
        seen: list[Any] = []
        try:
            with conn.pipeline() as pipeline:
                conn.execute("INSERT INTO item VALUES (63000, 's')")
                pipeline.sync()
                conn.execute("INSERT INTO item VALUES (1, 's')")
                conn.execute("INSERT INTO item VALUES (63001, 's')")
                pipeline.sync()
                conn.execute("INSERT INTO item VALUES (63002, 's')")
        except psycopg.Error as error:
            seen.append(error.sqlstate)
        return [*seen, conn.execute("SELECT id FROM item WHERE text IN ('r', 's') ORDER BY id").fetchall()]

    case("pipeline whose second transaction fails", failing_later)

    def in_block() -> Any:
        with conn.pipeline(), conn.transaction():
            conn.execute("INSERT INTO item VALUES (64000, 't2')")
            conn.execute("INSERT INTO item VALUES (64001, 't2')")
        return conn.execute("SELECT count(*) FROM item WHERE text = 't2'").fetchall()

    case("a block in a pipeline", in_block)


def sessions(conn: psycopg.Connection[Any]) -> None:
    def two_phase(end: str) -> Any:
        with psycopg.connect(URL) as own:
            xid = own.xid(1, f"branch-{end}", "q")
            own.tpc_begin(xid)
            own.execute("INSERT INTO item VALUES (%s, '2pc')", (70_000 if end == "commit" else 70_001,))
            own.tpc_prepare()
            own.tpc_commit() if end == "commit" else own.tpc_rollback()
        return conn.execute("SELECT id FROM item WHERE text = '2pc'").fetchall()

    case("two-phase commit", lambda: two_phase("commit"))
    case("two-phase rollback", lambda: two_phase("rollback"))

    def notified() -> Any:
        with psycopg.connect(URL, autocommit=True) as own:
            own.execute("LISTEN news")
            conn.execute("NOTIFY news, 'one'")
            conn.execute("NOTIFY news, 'two'")
            received = own.notifies(timeout=60, stop_after=2)
            return [(each.channel, each.payload) for each in received]

    case("notifications", notified)

    def cancelled() -> Any:
        done = threading.Event()

        def cancel() -> None:
            while not done.wait(0.2):
                conn.cancel_safe()

        thread = threading.Thread(target=cancel)
        thread.start()
        try:
            conn.execute("SELECT pg_sleep(600)")
        finally:
            done.set()
            thread.join()

    case("cancelled", cancelled)
    # A late cancellation ends the next statement instead.
    for _ in range(5):
        try:
            conn.execute("SELECT 1")
        except psycopg.errors.QueryCanceled:
            time.sleep(0.2)
    case("alive after it", lambda: conn.execute("SELECT 'yes'").fetchall())

    def large_object() -> Any:
        with conn.transaction():
            (oid,) = conn.execute("SELECT lo_from_bytea(0, %s)", (b"abc" * 1000,)).fetchone() or (0,)
            (data,) = conn.execute("SELECT lo_get(%s)", (oid,)).fetchone() or (b"",)
            conn.execute("SELECT lo_unlink(%s)", (oid,))
        return len(data)

    case("large object", large_object)
    case("status", lambda: [conn.info.transaction_status.name, conn.info.encoding, conn.info.server_version])
    case("encodings", lambda: encodings(conn))

    def left_open() -> Any:
        own = psycopg.connect(URL)
        own.execute("INSERT INTO item VALUES (80000, 'left')")
        own.close()
        return conn.execute("SELECT count(*) FROM item WHERE id = 80000").fetchall()

    case("closed inside a transaction", left_open)


def encodings(conn: psycopg.Connection[Any]) -> Any:
    conn.execute("SET client_encoding TO 'LATIN1'")
    text = conn.execute("SELECT 'ä'").fetchone()
    conn.execute("RESET client_encoding")
    return [text, conn.info.encoding]


def main() -> None:
    with psycopg.connect(URL, autocommit=True) as conn:
        basics(conn)
        copies(conn)
        pipelines(conn)
        sessions(conn)
    with psycopg.connect(URL) as conn:
        case("implicit transaction", lambda: conn.execute("INSERT INTO item VALUES (90000, 'i')").statusmessage)
        conn.commit()
        case("committed", lambda: [conn.execute("SELECT count(*) FROM item").fetchall(), pq.version() > 0])


main()
