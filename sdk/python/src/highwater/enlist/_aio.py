"""Enlisted connections of the asynchronous client, and the transactions that they commit."""

from __future__ import annotations

import weakref
from collections.abc import Awaitable, Callable
from typing import Any, TypeVar

from .._async import awaited, joined
from .._background import call_listener
from .._core.wire import Verdict
from .._tokens import driver_connection
from ..aio import AsyncHighwater, AsyncTransaction
from ._psycopg import EnlistedConnection, check_kind
from ._tickets import EnlistOptions, Issued, TicketService, deadline, left
from ._transaction import BaseEnlisted, starter

R = TypeVar("R")


class AsyncEnlistedTransaction(BaseEnlisted[AsyncTransaction]):
    """A transaction that has committed on the application's own connection."""

    async def promise(self) -> AsyncTransaction:
        """Returns the transaction with its token.

        Returns when the gateway has found its receipt and read a position behind it.

        Errors: `TransactionLostError` if a failover discarded it before; `UnavailableError` if no
        gateway answers within the client's `total_timeout`; ask again then. Its outcome is
        `applied`, because the server has answered COMMIT.
        """
        return await joined(self._asked())

    async def durable(self, *, level: str | None = None, timeout: float | None = None) -> Verdict:
        """Like `AsyncTransaction.durable`. Errors: those of `promise` too.

        Args:
            level: Level to wait for. Default: the transaction's own.
            timeout: Time limit of the wait, also of that for the token, in seconds. Default: 30.
                The `DurabilityTimeoutError` has an empty token if there is none yet.
        """
        until = deadline(timeout)
        try:
            transaction = await joined(self._asked(), timeout=left(until))
        except TimeoutError as error:
            raise self._late(level) from error
        return await transaction.durable(level=level, timeout=left(until))

    async def after_durable(
        self,
        run: Callable[[Verdict], Awaitable[R] | R],
        *,
        level: str | None = None,
        timeout: float | None = None,
    ) -> R:
        """Like `AsyncTransaction.after_durable`. Errors: those of `promise` too.

        Args:
            run: Function that receives the verdict. It is called at most once.
            level: Level to wait for. Default: the transaction's own.
            timeout: Time limit of the wait, in seconds. Default: 30.
        """
        return await awaited(run(await self.durable(level=level, timeout=timeout)))


class AsyncEnlisted:
    """Connections of psycopg 3 that are enlisted. Made by `enlist`."""

    def __init__(self, hw: AsyncHighwater, options: EnlistOptions) -> None:
        self._service: TicketService[AsyncTransaction] = TicketService(hw, options)
        self._start = starter(hw)
        self._last: weakref.WeakKeyDictionary[Any, AsyncEnlistedTransaction] = weakref.WeakKeyDictionary()
        self._listeners: dict[object, Callable[[AsyncEnlistedTransaction], object]] = {}

    def add(self, connection: Any) -> None:
        """Enlists one more connection, before its first transaction: for pools of psycopg.

        Args:
            connection: An asynchronous connection of psycopg 3.

        Errors: `invalid_options` for a connection of another kind.
        """
        check_kind(connection, is_async=True)
        EnlistedConnection(self._service, connection, start=self._start, make=self._make, on_commit=self._committed)

    def last(self, connection: object) -> AsyncEnlistedTransaction | None:
        """Returns the transaction that was last committed on the connection, and has written.

        None before the first. Ask before the connection goes back to its pool.

        Args:
            connection: Enlisted connection, or a connection of SQLAlchemy on one.
        """
        return self._last.get(driver_connection(connection))

    def on_commit(self, listener: Callable[[AsyncEnlistedTransaction], object]) -> Callable[[], None]:
        """Calls the listener with each transaction before its COMMIT returns.

        An exception that it raises is logged. Returns a function that removes the listener.

        Args:
            listener: Function that receives the transaction.
        """
        key = object()
        self._listeners[key] = listener

        def off() -> None:
            self._listeners.pop(key, None)

        return off

    def _make(self, issued: Issued, known: AsyncTransaction | None) -> AsyncEnlistedTransaction:
        return AsyncEnlistedTransaction(self._service, issued, start=self._start, known=known)

    def _committed(self, connection: Any, transaction: AsyncEnlistedTransaction) -> None:
        self._last[connection] = transaction
        for listener in list(self._listeners.values()):
            call_listener(listener, transaction)
