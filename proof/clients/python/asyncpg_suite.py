"""asyncpg: binary protocol, prepared statements, cursors, COPY, listeners, pools, cancellation."""

import asyncio
import io
import os
from collections.abc import Awaitable, Callable
from typing import Any

import asyncpg
from cases import see_async

URL = os.environ["DATABASE_URL"]


def fields(error: Exception) -> Any:
    known = ["sqlstate", "message", "detail", "hint", "position", "schema_name", "table_name", "constraint_name"]
    return {name: getattr(error, name, None) for name in known}


async def case(name: str, call: Callable[[], Awaitable[Any]]) -> None:
    await see_async(name, call, fields)


async def basics(conn: Any) -> None:
    await case("tables", lambda: conn.execute("CREATE TABLE item (id int PRIMARY KEY, text text)"))
    await case("script", lambda: conn.execute("INSERT INTO item VALUES (1, 'a'); INSERT INTO item VALUES (2, 'b')"))
    await case("fetch", lambda: conn.fetch("SELECT id, text, now() > 'epoch' AS later FROM item ORDER BY id"))
    await case("types", lambda: conn.fetchrow("SELECT $1::int[], $2::jsonb, $3::numeric", [1, None], "{}", 7))
    await case("many", lambda: conn.executemany("INSERT INTO item VALUES ($1, $2)", [(n, "m") for n in range(10, 60)]))
    await case("many, a duplicate", lambda: conn.executemany("INSERT INTO item VALUES ($1, 'd')", [(70,), (1,), (71,)]))
    await case("nothing of it", lambda: conn.fetchval("SELECT count(*) FROM item WHERE text = 'd'"))
    await case("duplicate", lambda: conn.execute("INSERT INTO item VALUES ($1, 'x')", 1))
    await case("update of nothing", lambda: conn.execute("UPDATE item SET text = 'y' WHERE id = $1", 999))
    await case("syntax", lambda: conn.fetch("SELECT $1::int FORM item", 1))

    async def statement() -> Any:
        prepared = await conn.prepare("SELECT text FROM item WHERE id = $1")
        return [await prepared.fetchval(1), await prepared.fetchval(2), [a.name for a in prepared.get_attributes()]]

    await case("prepared", statement)


async def blocks(conn: Any) -> None:
    async def nested() -> Any:
        async with conn.transaction(isolation="serializable"):
            await conn.execute("INSERT INTO item VALUES (100, 'n')")
            try:
                async with conn.transaction():
                    await conn.execute("INSERT INTO item VALUES (100, 'n')")
            except asyncpg.UniqueViolationError:
                pass
            return await conn.fetchval("SELECT count(*) FROM item WHERE text = 'n'")

    await case("nested", nested)

    async def failed() -> Any:
        async with conn.transaction():
            await conn.execute("INSERT INTO item VALUES (101, 'n')")
            raise ValueError("no")

    await case("failed", failed)

    async def cursor() -> Any:
        async with conn.transaction():
            seen = [row[0] async for row in conn.cursor("SELECT generate_series(1, 100)", prefetch=9)]
            stepwise = await conn.cursor("SELECT generate_series(1, 100)")
            await stepwise.forward(10)
            return [len(seen), await stepwise.fetchrow(), len(await stepwise.fetch(500))]

    await case("cursor", cursor)


async def copies(conn: Any) -> None:
    records = [(n, "c") for n in range(1_000, 11_000)]
    await case("copy records", lambda: conn.copy_records_to_table("item", records=records))
    await case("copy a duplicate", lambda: conn.copy_records_to_table("item", records=[(1, "c")]))

    async def copy_out() -> Any:
        into = io.BytesIO()
        status = await conn.copy_from_query("SELECT * FROM item ORDER BY id", output=into, format="csv")
        return [status, len(into.getvalue())]

    await case("copy out", copy_out)


async def sessions(conn: Any) -> None:
    async def received() -> Any:
        got: asyncio.Queue[Any] = asyncio.Queue()
        await conn.add_listener("news", lambda _conn, _pid, channel, payload: got.put_nowait((channel, payload)))
        other = await asyncpg.connect(URL)
        await other.execute("SELECT pg_notify('news', 'a')")
        await other.close()
        return await asyncio.wait_for(got.get(), 60)

    await case("listener", received)

    async def timed_out() -> Any:
        await conn.execute("SELECT pg_sleep(600)", timeout=0.3)

    await case("timeout, which cancels", timed_out)
    await case("alive after it", lambda: conn.fetchval("SELECT 1"))
    await case("reset", conn.reset)
    await case("settings", lambda: conn.fetchval("SHOW search_path"))
    await case("version", lambda: version(conn))

    async def pooled() -> Any:
        async with asyncpg.create_pool(URL, min_size=2, max_size=6) as pool:

            async def add(n: int) -> str:
                return str(await pool.execute("INSERT INTO item VALUES ($1, 'pool')", n))

            done = await asyncio.gather(*(add(n) for n in range(20_000, 20_060)))
            return [len(done), done[0], await pool.fetchval("SELECT count(*) FROM item WHERE text = 'pool'")]

    await case("pool", pooled)


async def version(conn: Any) -> Any:
    return list(conn.get_server_version())


async def main() -> None:
    conn = await asyncpg.connect(URL)
    await basics(conn)
    await blocks(conn)
    await copies(conn)
    await sessions(conn)
    await conn.close()


asyncio.run(main())
