"""A connection of PEP 249: no socket and no database session, but one transaction at a time.

Owns where statements run (in the open transaction, or with ``autocommit`` in a one-shot one), and
who receives commits. Works with either client: a subclass awaits the results of the asynchronous
one.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from types import TracebackType
from typing import Any, Final, NoReturn, Protocol, Self, TypedDict

from .._core.errors import HighwaterError, fresh, results_not_kept, usage_error
from .._core.wire import Statement
from .._core.wire_types import Ack, Isolation, Mode
from .._promise import BasePromise
from .._values import StatementResult
from .._values.decode import RowDecoder
from ._cursor import Cursor, StreamCursor
from ._errors import InterfaceError, ProgrammingError, error_of

STATEMENTS_MAX: Final = 256
"""Maximum number of statements in a request."""
_LISTENS: Final = re.compile(r"\s*(?:un)?listen\b", re.IGNORECASE)
_REWINDS: Final = re.compile(r"\s*rollback\b", re.IGNORECASE)
_LEAVES: Final = re.compile(
    r"\s*(?:set(?!\s+(?:local|transaction|constraints)\b)|reset|prepare|deallocate|load|declare)\b"
    r"|.*\bpg_(?:try_)?advisory_lock|\s*create\s+(?:local\s+|global\s+)?temp",
    re.IGNORECASE | re.DOTALL,
)
"""Statements whose effect is on the session. It ends with its transaction, so alone they have no
effect.
"""


class TransactionSettings(TypedDict, total=False):
    """How a connection's transactions run and when their commits are answered, besides isolation.

    The settings are those of ``hw.transaction``.
    """

    ack: Ack | None
    """``durable``: a commit returns when durable at the level; it raises after a loss or a timeout.
    """
    level: str | None
    """Level of the transactions. Default: the client's."""
    max_wait_ms: float | None
    """With ``ack="durable"``: milliseconds that the service waits before it answers.

    The connection then waits on.
    """
    max_delay_ms: float | None
    """Milliseconds after which the trackers send an event ``transaction.delayed``.

    They send it if a transaction is not durable by then.
    """
    metadata: Mapping[str, str] | None
    """Metadata for webhooks about the transactions."""
    timeout: float | None
    """Time limit for all attempts of a call, and for the wait of ``ack="durable"``, in seconds.

    Default: the client's.
    """
    after: str | None
    """With ``autocommit`` and ``read_only``: a token whose effects the read must see."""
    mode: Mode | None
    """With ``autocommit`` and ``read_only``: ``local`` may read from a replica near the gateway."""


class Follower(Protocol):
    """Receives the outcomes of a connection's transactions."""

    def committed(self, client: Any, transaction: BasePromise, /) -> None:
        """Called when a transaction has committed.

        Args:
            client: The client that ran it.
            transaction: The transaction, with its ``token``, ``durable()`` and ``on_lost()``.
        """

    def failed(self, error: BaseException, /) -> None:
        """Called when an error has ended a transaction.

        Args:
            error: The client's error.
        """


_OF_ONE_SHOT: Final = ("after", "mode")
_OF_BEGIN: Final = ("level", "max_delay_ms", "metadata", "timeout")
_OF_COMMIT: Final = ("ack", "level", "max_wait_ms", "max_delay_ms", "timeout")


class Connection:
    """Runs statements in a transaction, from the first statement until ``commit`` or ``rollback``.

    With ``autocommit``, each ``execute`` is a transaction of its own in one round trip; so is each
    ``executemany``, all or nothing. Threads must not use a connection at the same time, but may
    have connections of the same client.
    """

    def __init__(
        self,
        client: Any,
        *,
        decoder: RowDecoder | None = None,
        settings: TransactionSettings | None = None,
        on_close: Callable[[], object] | None = None,
    ) -> None:
        self.client: Any = client
        """The ``Highwater`` client of the connection."""
        self.isolation_level: Isolation | None = None
        """Isolation level. None: the service's default.

        That is ``serializable``, except for reads that may run on a replica.
        """
        self.read_only: bool = False
        """Whether transactions that begin from now on are read-only."""
        self.deferrable: bool = False
        """Whether they wait for a snapshot that no later transaction makes unsafe.

        For ``read_only`` and ``serializable``.
        """
        self.settings: TransactionSettings = settings or {}
        """Settings of transactions that begin from now on."""
        self.is_closed: bool = False
        """Whether ``close`` was called."""
        self.committed: Any = None
        """The last committed transaction, with its ``token``, ``durable()``, ``on_lost()``, …"""
        self.decoder: RowDecoder = decoder or RowDecoder()
        """Internal: for cursors."""
        self.rewinds: int = 0
        """Internal: number of returns to a savepoint. Younger database cursors end with each."""
        self._autocommit = False
        self._open: Any = None
        self._followers: list[Follower] = []
        self._on_close = on_close

    def _settle(self, value: Any) -> Any:
        """Waits for a result of the client, if necessary."""
        return value

    @property
    def autocommit(self) -> bool:
        """Whether each ``execute`` is a transaction of its own.

        Fixed while a transaction is open.
        """
        return self._autocommit

    @autocommit.setter
    def autocommit(self, value: bool) -> None:
        if value != self._autocommit and self._open is not None:
            raise ProgrammingError("a transaction is open: commit it or roll it back first")
        self._autocommit = value

    @property
    def transaction(self) -> Any:
        """The client's open transaction; None if nothing was executed since the last one ended."""
        return self._open

    def cursor(self) -> Cursor:
        """Returns a new cursor. Any number may be used, in turn or interleaved."""
        self._check_open()
        return Cursor(self)

    def stream_cursor(self) -> Cursor:
        """Returns a cursor that fetches a query's rows as needed, from a cursor in the database.

        It needs a transaction. With ``autocommit`` it is an ordinary cursor.
        """
        self._check_open()
        return Cursor(self) if self._autocommit else StreamCursor(self)

    def run(self, statements: Sequence[Statement]) -> list[StatementResult]:
        """Runs statements, up to 256 of them in one round trip. Results are never truncated.

        Args:
            statements: Statements with parameters ``$1``, ``$2``, …

        Errors: those of this module.
        """
        self._check_open()
        try:
            self._refuse_session_bound(statements)
            self.rewinds += sum(1 for statement in statements if _REWINDS.match(statement.sql))
            return self._run_alone(statements) if self._autocommit else self._run_inside(statements)
        except HighwaterError as error:
            self._raise(error, self._open)

    def _run_inside(self, statements: Sequence[Statement]) -> list[StatementResult]:
        if self._open is None:
            self._open = self.client.begin(**self._execution, **self._some(_OF_BEGIN))
        return self._execute(self._open, statements)

    def _execute(self, transaction: Any, statements: Sequence[Statement]) -> list[StatementResult]:
        results: list[StatementResult] = []
        for at in range(0, len(statements), STATEMENTS_MAX):
            results += self._settle(transaction.execute(list(statements[at : at + STATEMENTS_MAX])))
        _refuse_truncated(results, is_applied=False, transaction_id=transaction.id)
        return results

    def _run_alone(self, statements: Sequence[Statement]) -> list[StatementResult]:
        if len(statements) > STATEMENTS_MAX:
            return self._run_in_parts(statements)
        names = (*_OF_BEGIN, *_OF_COMMIT, *_OF_ONE_SHOT)
        options = {**self._execution, **self._some(names)}
        transaction = self._settle(self.client.transaction(list(statements), **options))
        self._acknowledge(transaction)
        if transaction.results is None:
            raise results_not_kept(transaction.id)
        _refuse_truncated(transaction.results, is_applied=True, transaction_id=transaction.id)
        return list(transaction.results)

    def _run_in_parts(self, statements: Sequence[Statement]) -> list[StatementResult]:
        """Runs one transaction in several round trips."""
        opened = self.client.begin(**self._execution, **self._some(_OF_BEGIN))
        try:
            results = self._execute(opened, statements)
            self._acknowledge(self._settle(opened.commit(**self._some(_OF_COMMIT))))
        finally:
            if opened.committed is None:
                self._settle(opened.rollback())
        return results

    def commit(self) -> None:
        """Commits everything executed since the last commit. ``committed`` is then the transaction.

        Errors: among others an ``OperationalError`` with ``retry`` ``transaction`` after a
        conflict, and one with ``outcome`` ``unknown`` if the outcome is not known. If a failed
        statement has ended the transaction, its error is raised again instead of a silent rollback.
        """
        self._check_open()
        opened = self._open
        if opened is None:
            self.unfollow()
            return
        try:
            transaction = self._settle(opened.commit(**self._some(_OF_COMMIT)))
            self._acknowledge(transaction)
        except HighwaterError as error:
            self._raise(error, opened)
        finally:
            # A transaction that is still open can be committed again: the service had no room for
            # it.
            if not opened.is_open:
                self._open = None
                self.unfollow()

    def rollback(self) -> None:
        """Undoes everything executed since the last commit.

        Sends nothing if no transaction is open.
        """
        self._check_open()
        opened, self._open = self._open, None
        self.unfollow()
        if opened is None:
            return
        try:
            self._settle(opened.rollback())
        except HighwaterError as error:
            self._raise(error, None)

    def close(self) -> None:
        """Rolls back an open transaction and closes the connection.

        Also closes a client that the connection made.
        """
        if self.is_closed:
            return
        try:
            self.rollback()
        finally:
            self.is_closed = True
            if self._on_close is not None:
                self._on_close()

    def abandon(self) -> None:
        """Closes the connection without waiting.

        The service rolls back an abandoned transaction.
        """
        self._open = None
        self.is_closed = True
        self.unfollow()

    def follow(self, follower: Follower) -> None:
        """Calls the follower with every commit until the transaction ends.

        With ``autocommit``: until ``commit`` or ``rollback``.

        Args:
            follower: Follower to call. Adding it twice has no effect.
        """
        if follower not in self._followers:
            self._followers.append(follower)

    def unfollow(self) -> None:
        """Removes all followers."""
        self._followers = []

    def _acknowledge(self, transaction: Any) -> None:
        self.committed = transaction
        for follower in self._followers:
            follower.committed(self.client, transaction)
        if self.settings.get("ack") == "durable":
            # The service may have answered at the end of its wait: pending is neither durable nor
            # lost.
            self._settle(transaction.durable(timeout=self.settings.get("timeout")))

    @property
    def _execution(self) -> dict[str, object]:
        # The service accepts "deferrable" only where it has a meaning.
        is_deferrable = self.deferrable and self.read_only and self.isolation_level in (None, "serializable")
        given = {
            "isolation": self.isolation_level,
            "read_only": self.read_only or None,
            "deferrable": is_deferrable or None,
        }
        return {name: value for name, value in given.items() if value is not None}

    def _some(self, names: Sequence[str]) -> dict[str, object]:
        settings: Mapping[str, object] = self.settings
        return {name: settings[name] for name in names if settings.get(name) is not None}

    def _refuse_session_bound(self, statements: Sequence[Statement]) -> None:
        is_alone = self._autocommit and len(statements) == 1
        for statement in statements:
            if _LISTENS.match(statement.sql) or (is_alone and _LEAVES.match(statement.sql)):
                message = f"a session ends with its transaction, so this has no effect: {statement.sql[:80]}"
                raise usage_error("session_bound", message)

    def _raise(self, error: HighwaterError, opened: Any) -> NoReturn:
        failure = None if opened is None else opened.failure
        if failure is not None:
            for follower in self._followers:
                follower.failed(failure)
        if error.code == "transaction_ended" and isinstance(failure, HighwaterError):
            # The caller needs to know why the transaction ended.
            error = fresh(failure)
        raise error_of(error) from error

    def _check_open(self) -> None:
        if self.is_closed:
            raise InterfaceError("the connection is closed")

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        """Commits, or rolls back after an error, and closes."""
        try:
            if error is None:
                self.commit()
        finally:
            self.close()


def _refuse_truncated(results: Sequence[StatementResult], *, is_applied: bool, transaction_id: str) -> None:
    for index, result in enumerate(results):
        if result.truncated:
            raise HighwaterError(
                f"statement {index} has more rows than the service returns; use a streaming cursor",
                code="result_too_large",
                outcome="applied" if is_applied else "not_applied",
                retry="never",
                statement=index,
                transaction_id=transaction_id,
            )
