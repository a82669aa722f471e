"""Adds Highwater to transactions on the application's own connections to the primary.

Connections are those of psycopg 3, or those of SQLAlchemy on psycopg 3. Statements stay where they
are. Around BEGIN the client asks a gateway for a ticket; the receipt and `synchronous_commit=off`
travel with COMMIT, in one round trip; the token comes a little later. A COMMIT without an answer is
looked up, and returns if it took effect.

Example:
    from highwater import Highwater
    from highwater.enlist import enlist
    import psycopg

    with Highwater("https://highwater.example") as hw:
        with psycopg.connect("postgresql://shop@127.0.0.1:5432/app") as connection:
            enlisted = enlist(hw, connection)
            connection.execute("INSERT INTO note VALUES ('hello')")
            connection.commit()
            tx = enlisted.last(connection)
        if tx is not None:
            tx.durable(level="region")
"""

from __future__ import annotations

from typing import Any, Unpack, overload

from ..aio import AsyncHighwater
from ..client import Highwater
from ._aio import AsyncEnlisted, AsyncEnlistedTransaction
from ._client import Enlisted, EnlistedTransaction
from ._tickets import EnlistOptions

__all__ = [
    "AsyncEnlisted",
    "AsyncEnlistedTransaction",
    "EnlistOptions",
    "Enlisted",
    "EnlistedTransaction",
    "enlist",
]


@overload
def enlist(hw: Highwater, connection: Any = None, **options: Unpack[EnlistOptions]) -> Enlisted: ...
@overload
def enlist(hw: AsyncHighwater, connection: Any = None, **options: Unpack[EnlistOptions]) -> AsyncEnlisted: ...
def enlist(
    hw: Highwater | AsyncHighwater, connection: Any = None, **options: Unpack[EnlistOptions]
) -> Enlisted | AsyncEnlisted:
    """Enlists a connection, or every connection that an engine of SQLAlchemy opens from now on.

    What commits without BEGIN, a text of several statements and READ ONLY transactions are passed
    on as they are. In an enlisted transaction these are refused: `COMMIT AND CHAIN`, PREPARE
    TRANSACTION, and a text of several statements with a COMMIT among them.

    Args:
        hw: Client of the same kind: `Highwater` for `psycopg.Connection` and `Engine`,
            `AsyncHighwater` for `psycopg.AsyncConnection` and `AsyncEngine`.
        connection: Connection of psycopg 3, or an engine of SQLAlchemy before its first
            connection. Default: none; call `add` with each.

    Errors: `invalid_options` for a connection of another kind. Errors of COMMIT, where nothing was
    applied: `TransactionAbortedError` if a failover ended the transaction, or its ticket's time is
    over; those of the service if there is no ticket for it, such as `ExposureLimitError`.
    `UnknownOutcomeError` if its outcome is not known in time.
    """
    enlisted = Enlisted(hw, options) if isinstance(hw, Highwater) else AsyncEnlisted(hw, options)
    engine = getattr(connection, "sync_engine", connection)
    if hasattr(engine, "dialect"):
        from sqlalchemy import event

        def connected(dbapi_connection: Any, _: object) -> None:
            enlisted.add(getattr(dbapi_connection, "driver_connection", dbapi_connection))

        event.listen(engine, "connect", connected)
    elif connection is not None:
        enlisted.add(connection)
    return enlisted
