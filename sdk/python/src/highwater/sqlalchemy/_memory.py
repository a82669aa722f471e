"""Remembers what a SQLAlchemy session or connection has committed, to wait for it later.

SQLAlchemy reports the beginning of each transaction and its connection; the connection reports the
commit. Owns the link between the two.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from typing import Any, Final
from weakref import WeakKeyDictionary

from sqlalchemy import event
from sqlalchemy.engine import Connection
from sqlalchemy.ext.asyncio import AsyncConnection, AsyncSession, async_scoped_session
from sqlalchemy.orm import Session, SessionTransaction, scoped_session

from .. import dbapi
from .._core.wire import Verdict
from .._promise import BasePromise, Listener

_KEY: Final = "highwater"


class Memory:
    """Everything that one session or connection has committed, by client; usually there is one."""

    def __init__(self) -> None:
        self.sessions: dict[Any, Any] = {}
        """One of the client's sessions for each client."""
        self.last: Any = None
        """The last committed transaction."""
        self.commits: int = 0
        self.failure: BaseException | None = None
        """The error that ended the current transaction, whatever the body did with it."""
        self.connection: dbapi.Connection | None = None
        """The last one that a transaction began on."""
        self.commit: Mapping[str, object] = {}
        """Settings of commits, where the connection's own do not wait for durability."""
        self._listeners: list[Callable[[BasePromise], None]] = []

    def committed(self, client: Any, transaction: BasePromise) -> None:
        session = self.sessions.get(client)
        if session is None:
            session = self.sessions[client] = client.session()
        session._remember(transaction)
        self.last = transaction
        self.commits += 1
        for listen in self._listeners:
            listen(transaction)

    def failed(self, error: BaseException) -> None:
        self.failure = error

    def on_lost(self, listener: Listener, level: str | None) -> Callable[[], None]:
        offs: list[Callable[[], None]] = []
        seen: set[str] = set()

        def on_lost_once(verdict: Verdict) -> object:
            if verdict.token in seen:
                return None
            seen.add(verdict.token)
            return listener(verdict)

        def listen(promise: BasePromise) -> None:
            offs.append(promise.on_lost(on_lost_once, level=level))

        self._listeners.append(listen)
        for client, session in self.sessions.items():
            for entry in list(session._memory.entries):
                listen(client._make_promise(entry, position=entry.position, level=client._level))

        def off() -> None:
            if listen in self._listeners:
                self._listeners.remove(listen)
            while offs:
                offs.pop()()

        return off


_lock = threading.Lock()
_of_connections: WeakKeyDictionary[Connection, Memory] = WeakKeyDictionary()

SyncHolder = Session | scoped_session[Any] | Connection
AsyncHolder = AsyncSession | async_scoped_session[Any] | AsyncConnection
Holder = SyncHolder | AsyncHolder


def is_async(holder: Holder) -> bool:
    return isinstance(holder, (AsyncSession, async_scoped_session, AsyncConnection))


def memory_of(holder: Holder) -> Memory:
    """Returns the memory of a session, or of a connection that is used without a session."""
    if isinstance(holder, (scoped_session, async_scoped_session)):
        holder = holder()
    if isinstance(holder, AsyncSession):
        holder = holder.sync_session
    if isinstance(holder, AsyncConnection):
        holder = holder._proxied
    with _lock:
        memory: Memory | None
        if isinstance(holder, Connection):
            memory = _of_connections.get(holder)
            if memory is None:
                memory = _of_connections[holder] = Memory()
            return memory
        memory = holder.info.get(_KEY)
        if memory is None:
            memory = holder.info[_KEY] = Memory()
        return memory


def follow_connection(connection: Connection) -> None:
    """Called when a transaction begins on a connection of one of our engines."""
    _follow(connection, memory_of(connection))


def follow_session(session: Session, transaction: SessionTransaction, connection: Connection) -> None:
    """Called when a session begins to use a connection, of any engine."""
    if connection.dialect.driver.startswith("highwater"):
        _follow(connection, memory_of(session))


def _follow(connection: Connection, memory: Memory) -> None:
    raw: object = connection.connection.dbapi_connection
    if isinstance(raw, dbapi.Connection):
        memory.failure = None
        memory.connection = raw
        raw.follow(memory, commit=memory.commit)


def follow_sessions() -> None:
    """Follows sessions of every kind from now on, also of kinds unknown to this package."""
    event.listen(Session, "after_begin", follow_session)
