"""PEP 249 (the database API of Python) over interactive transactions.

A connection costs nothing. It runs one transaction at a time, and each begins with its first
statement. Parameters are ``$1``, ``$2``, …; values decode as described in the README, or by the
``types`` of `connect`. Each error has the client's error as ``orig``.

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
from ._connection import Column, Connection, Cursor, Row, StreamCursor
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
from ._settings import Follower, TransactionSettings

apilevel: str = "2.0"
"""Version of PEP 249."""
threadsafety: int = 1
"""Threads may share the module and a client, but not connections."""
paramstyle: str = "numeric_dollar"
"""Parameter style of PEP 249: ``$1``, ``$2``, …"""


def Binary(value: Any) -> bytes:  # noqa: N802 - the name of PEP 249
    """Converts a value to a bytea parameter.

    Args:
        value: Any value that ``bytes`` accepts.
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
    """Opens a connection on a client, or on a new client that closes with the connection.

    Sends nothing.

    Args:
        url: Address of the service for a new client. Pass either `url` or `client`.
        client: An existing client. The connection does not close it.
        transaction: Settings of all its transactions, such as `{"ack": "durable", "level":
            "region"}`.
        types: Decoders by type OID that replace the built-in ones (see the README). The client's
            `types` have no effect here.
        options: Further options of `Highwater` for a new client.

    Errors: `InterfaceError` if a client is passed together with `url` or options.
    """
    decoder = RowDecoder(types)
    if client is None:
        own = Highwater(url, types="raw", **options)
        return Connection(own, decoder=decoder, settings=transaction, on_close=own.close)
    if url is not None or options:
        raise InterfaceError("pass either a client, or the url and options of a new one")
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
