"""PEP 249 over interactive transactions: for what speaks the database API of Python.

A connection costs nothing: it runs one transaction at a time, and each begins with its first
statement. Parameters are ``$1``, ``$2``, …; values decode as the README says, but for the ``types``
of `connect`. Each error has the client's own one as ``orig``.

Example:
    from highwater import dbapi

    with dbapi.connect("https://highwater.example") as connection:
        connection.cursor().execute("UPDATE account SET balance = balance - $1 WHERE id = $2", (10, 1))
        connection.commit()
        connection.committed.durable(level="region", timeout=5)
"""

from __future__ import annotations

from typing import Any

from .._values.decode import RowDecoder, TypeDecoders
from ..client import Highwater
from ._connection import Connection, Follower, TransactionSettings
from ._cursor import Column, Cursor, Row, StreamCursor
from ._errors import (
    DatabaseError,
    DataError,
    Error,
    IntegrityError,
    InterfaceError,
    InternalError,
    NotSupportedError,
    OperationalError,
    ProgrammingError,
    Warning,  # noqa: A004 - the name of PEP 249
)

apilevel: str = "2.0"
"""Of PEP 249."""
threadsafety: int = 1
"""Threads may share the module, and a client; not connections."""
paramstyle: str = "numeric_dollar"
"""Of PEP 249: ``$1``, ``$2``, …"""


def Binary(value: Any) -> bytes:  # noqa: N802 - the name of PEP 249
    """A value for a bytea.

    Args:
        value: What ``bytes`` takes.
    """
    return bytes(value)


def connect(
    url: str | None = None,
    *,
    client: Highwater | None = None,
    transaction: TransactionSettings | None = None,
    types: TypeDecoders | None = None,
    **options: Any,
) -> Connection:
    """A connection of a client, or of one that is made with these options and closed with the connection.

    Nothing is sent.

    Args:
        url: Makes a client with this address for the connection, instead of `client`.
        client: The caller closes it.
        transaction: For all its transactions, for example `{"ack": "durable", "level": "region"}`.
        types: Decoders by OID. They replace those that the README lists; a client's own do not count
            here.
        options: The other options of the `Highwater` that is made.

    Errors: `InterfaceError`, where both are given.
    """
    decoder = RowDecoder(types)
    if client is None:
        own = Highwater(url, types="raw", **options)
        return Connection(own, decoder=decoder, settings=transaction, on_close=own.close)
    if url is not None or options:
        raise InterfaceError("pass either a client or a function that creates one")
    return Connection(client, decoder=decoder, settings=transaction)


__all__ = [
    "Binary",
    "Column",
    "Connection",
    "Cursor",
    "DataError",
    "DatabaseError",
    "Error",
    "Follower",
    "IntegrityError",
    "InterfaceError",
    "InternalError",
    "NotSupportedError",
    "OperationalError",
    "ProgrammingError",
    "Row",
    "StreamCursor",
    "TransactionSettings",
    "Warning",
    "apilevel",
    "connect",
    "paramstyle",
    "threadsafety",
]
