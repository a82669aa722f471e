"""The dialect: PostgreSQL's own, over connections of `highwater.dbapi`.

Owns an engine's client if the user passed none: the first connection makes it, `dispose()` closes
it.
"""

from __future__ import annotations

import asyncio
import json
import os
import threading
from typing import Any, Final, cast

from sqlalchemy import event, exc, pool
from sqlalchemy.dialects.postgresql.base import PGDialect, PGExecutionContext
from sqlalchemy.engine import URL, Engine
from sqlalchemy.engine.characteristics import ConnectionCharacteristic

from .. import dbapi
from .._values.decode import RowDecoder
from ..aio import AsyncHighwater
from ..client import Highwater
from ._bridge import await_, in_greenlet
from ._memory import follow_connection
from ._types import COLSPECS
from ._url import options_of

_LEVELS: Final = {
    "AUTOCOMMIT": None,
    "READ COMMITTED": "read committed",
    "REPEATABLE READ": "repeatable read",
    "SERIALIZABLE": "serializable",
}
_JSON: Final = (114, 3802)
_ADDRESSES: Final = (650, 869)


class SettingsCharacteristic(ConnectionCharacteristic):
    """The execution option `highwater`.

    It sets transaction settings of one connection in place of the engine's.
    """

    transactional = True

    def reset_characteristic(self, dialect: Any, dbapi_conn: Any) -> None:
        dbapi_conn.settings = dbapi_conn.usual_settings

    def set_characteristic(self, dialect: Any, dbapi_conn: Any, value: Any) -> None:
        dbapi_conn.settings = {**dbapi_conn.usual_settings, **value}

    def get_characteristic(self, dialect: Any, dbapi_conn: Any) -> Any:
        return dbapi_conn.settings


class DialectConnection(dbapi.Connection):
    """A connection that a pool can keep."""

    def __init__(self, client: Any, *, decoder: RowDecoder, settings: dbapi.TransactionSettings) -> None:
        super().__init__(client, decoder=decoder, settings=settings)
        self.usual_settings: Final = settings


class AsyncCursor(dbapi.Cursor):
    async def _async_soft_close(self) -> None:
        """Does nothing: all rows are here already."""


class AsyncStreamCursor(dbapi.StreamCursor):
    def close(self) -> None:
        if not in_greenlet():
            # Nothing can be awaited here; the database cursor ends with its transaction.
            self._name = None
        super().close()


class AsyncDialectConnection(DialectConnection):
    """Awaits the client's results where SQLAlchemy's bridge allows it: below `AsyncConnection`."""

    def _settle(self, value: Any) -> Any:
        return await_(value)

    def cursor(self) -> dbapi.Cursor:
        self._check_open()
        return AsyncCursor(self)

    def stream_cursor(self) -> dbapi.Cursor:
        self._check_open()
        return AsyncCursor(self) if self.autocommit else AsyncStreamCursor(self)

    def terminate(self) -> None:
        """Closes the connection after a cancellation, or in garbage collection.

        Nothing can be awaited in the latter.
        """
        opened = self.transaction
        self.abandon()
        if opened is not None and in_greenlet():
            await_(asyncio.shield(opened.rollback()))


class HighwaterExecutionContext(PGExecutionContext):
    def create_server_side_cursor(self) -> Any:
        connection = cast("dbapi.Connection", self._dbapi_connection.dbapi_connection)
        return connection.stream_cursor()


class HighwaterDialect(PGDialect):
    driver = "highwater"
    default_paramstyle = "numeric_dollar"
    supports_statement_cache = True
    supports_server_side_cursors = True
    supports_sane_rowcount = True
    supports_sane_multi_rowcount = True
    supports_native_json_deserialization = True
    dialect_injects_custom_json_deserializer = True
    use_insertmanyvalues_wo_returning = True
    # A connection is not a database session, so there is nothing to keep. The service limits how
    # many transactions may be open.
    poolclass = pool.NullPool
    execution_ctx_cls = HighwaterExecutionContext
    colspecs = COLSPECS
    connection_characteristics = PGDialect.connection_characteristics.union({"highwater": SettingsCharacteristic()})
    client_class: type[Highwater | AsyncHighwater] = Highwater
    connection_class: type[DialectConnection] = DialectConnection

    def __init__(self, **options: Any) -> None:
        super().__init__(**options)  # type: ignore[no-untyped-call]
        self._lock = threading.Lock()
        self._own: Any = None
        self._own_options: dict[str, Any] | None = None

    @classmethod
    def import_dbapi(cls) -> Any:
        return dbapi

    @classmethod
    def get_async_dialect_cls(cls, url: URL) -> type[HighwaterDialect]:
        return AsyncHighwaterDialect

    @classmethod
    def engine_created(cls, engine: Engine) -> None:
        event.listen(engine, "begin", follow_connection)
        event.listen(engine, "checkin", _checked_in)
        event.listen(engine, "engine_disposed", _disposed)

    def create_connect_args(self, url: URL) -> tuple[list[Any], dict[str, Any]]:
        return [], options_of(url)

    def connect(self, *arguments: Any, **options: Any) -> Any:
        settings = cast("dbapi.TransactionSettings", options.pop("transaction", None) or {})
        decoder = RowDecoder(self._types(options.pop("types", None) or {}))
        client = options.pop("client", None)
        if client is None:
            client = self._client(options)
        elif options:
            raise exc.ArgumentError("pass either a client, or the url and options of a new one")
        elif not isinstance(client, self.client_class):
            name = self.client_class.__name__
            raise exc.ArgumentError(f"this engine needs a client of class {name}, not {type(client).__name__}")
        return self.connection_class(client, decoder=decoder, settings=settings)

    def _types(self, own: dict[int, Any]) -> dict[int, Any]:
        deserialize = self._json_deserializer or json.loads
        types: dict[int, Any] = dict.fromkeys(_JSON, deserialize)
        if self._native_inet_types is False:
            types.update(dict.fromkeys(_ADDRESSES, str))
        return {**types, **own}

    def _client(self, options: dict[str, Any]) -> Any:
        if not options and "HIGHWATER_URL" not in os.environ:
            raise exc.ArgumentError(
                'the URL names no service: add a host, set HIGHWATER_URL, or pass connect_args={"client": …}'
            )
        with self._lock:
            if self._own is None or self._own_options != options:
                # An earlier client stays in use by its connections and promises.
                self._own = self.client_class(types="raw", **options)
                self._own_options = options
            return self._own

    def release_client(self) -> Any:
        """Returns the client that this dialect made, if any.

        The next connection makes another one.
        """
        with self._lock:
            client, self._own = self._own, None
            return client

    def close_client(self) -> None:
        client = self.release_client()
        if client is not None:
            client.close()

    # Other drivers ask the database. Here the connection knows, even before a transaction.

    def get_isolation_level_values(self, dbapi_conn: Any) -> list[Any]:
        return list(_LEVELS)

    def set_isolation_level(self, dbapi_connection: Any, level: str) -> None:
        is_autocommit = level == "AUTOCOMMIT"
        dbapi_connection.autocommit = is_autocommit
        if not is_autocommit:
            dbapi_connection.isolation_level = _LEVELS[level]

    def get_isolation_level(self, dbapi_connection: Any) -> Any:
        if dbapi_connection.autocommit:
            return "AUTOCOMMIT"
        return str(dbapi_connection.isolation_level or "serializable").upper()

    def get_default_isolation_level(self, dbapi_conn: Any) -> Any:
        return "SERIALIZABLE"

    def reset_isolation_level(self, dbapi_conn: Any) -> None:
        if self._on_connect_isolation_level is not None:
            self.set_isolation_level(dbapi_conn, self._on_connect_isolation_level)
            return
        dbapi_conn.autocommit = False
        dbapi_conn.isolation_level = None

    def detect_autocommit_setting(self, dbapi_conn: Any) -> bool:
        return bool(dbapi_conn.autocommit)

    def set_readonly(self, connection: Any, value: bool) -> None:
        connection.read_only = value

    def get_readonly(self, connection: Any) -> bool:
        return bool(connection.read_only)

    def set_deferrable(self, connection: Any, value: bool) -> None:
        connection.deferrable = value

    def get_deferrable(self, connection: Any) -> bool:
        return bool(connection.deferrable)

    def do_ping(self, dbapi_connection: Any) -> bool:
        """Only checks whether it was closed: there is no network connection that could break."""
        return not dbapi_connection.is_closed

    def is_disconnect(self, e: Any, connection: Any, cursor: Any) -> bool:
        """Only a closed client or connection counts.

        A transaction that ended by itself is rolled back, and the next one goes to any gateway that
        is available.
        """
        return isinstance(e, dbapi.InterfaceError) and (
            e.code == "client_closed" or (connection is not None and connection.is_closed)
        )

    def do_begin_twophase(self, connection: Any, xid: Any) -> None:
        raise NotImplementedError("two-phase transactions are not supported")


class AsyncHighwaterDialect(HighwaterDialect):
    driver = "highwater_async"
    is_async = True
    has_terminate = True
    supports_statement_cache = True
    client_class = AsyncHighwater
    connection_class = AsyncDialectConnection

    def do_terminate(self, dbapi_connection: Any) -> None:
        dbapi_connection.terminate()

    def close_client(self) -> None:
        client = self.release_client()
        if client is not None and in_greenlet():
            await_(client.close())


def _checked_in(dbapi_connection: Any, _: Any) -> None:
    if dbapi_connection is not None:
        dbapi_connection.unfollow()


def _disposed(engine: Engine) -> None:
    cast("HighwaterDialect", engine.dialect).close_client()
