"""A connection of PEP 249: no socket and no session of the database, but the place of one transaction after another.

Owns where statements run (the open transaction, or a one-shot one with ``autocommit``), and who gets commits. Works
with either client: what a call of the async one gives is settled by a subclass.
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
"""Of one request."""
_LISTENS: Final = re.compile(r"\s*(?:un)?listen\b", re.IGNORECASE)
_REWINDS: Final = re.compile(r"\s*rollback\b", re.IGNORECASE)
_LEAVES: Final = re.compile(
    r"\s*(?:set(?!\s+(?:local|transaction|constraints)\b)|reset|prepare|deallocate|load|declare)\b"
    r"|.*\bpg_(?:try_)?advisory_lock|\s*create\s+(?:local\s+|global\s+)?temp",
    re.IGNORECASE | re.DOTALL,
)
"""What a statement leaves in its session is gone with its transaction; alone, it would have no effect."""


class TransactionSettings(TypedDict, total=False):
    """How transactions of a connection run and when their commits are answered, beside their isolation.

    As the options of the same names of ``hw.transaction``.
    """

    ack: Ack | None
    """``durable``: a commit returns when it is durable at the level, and raises when it is lost or the wait is over."""
    level: str | None
    """The level that transactions are about. Default: the client's."""
    max_wait_ms: float | None
    """With ``ack="durable"``: how many milliseconds the service waits before it answers, and the wait goes on here."""
    max_delay_ms: float | None
    """The trackers send an event ``transaction.delayed`` if one is not durable after so many milliseconds."""
    metadata: Mapping[str, str] | None
    """Comes back in webhooks about the transactions."""
    timeout: float | None
    """Seconds for all attempts of a call together, and for the wait of ``ack="durable"``. Default: the client's."""
    after: str | None
    """With ``autocommit`` and ``read_only``: a token whose effects the read must see."""
    mode: Mode | None
    """With ``autocommit`` and ``read_only``: ``local`` may read from a replica near the gateway."""


class Follower(Protocol):
    """Gets the outcomes of the transactions of a connection."""

    def committed(self, client: Any, transaction: BasePromise, /) -> None:
        """One has committed.

        Args:
            client: With which it ran.
            transaction: With its ``token``, ``durable()``, ``on_lost()``.
        """

    def failed(self, error: BaseException, /) -> None:
        """An error has ended one.

        Args:
            error: The client's own.
        """


_OF_ONE_SHOT: Final = ("after", "mode")
_OF_BEGIN: Final = ("level", "max_delay_ms", "metadata", "timeout")
_OF_COMMIT: Final = ("ack", "level", "max_wait_ms", "max_delay_ms", "timeout")


class Connection:
    """Runs statements in a transaction that begins with the first one, until ``commit`` or ``rollback``.

    With ``autocommit`` each call of ``execute`` is a transaction of its own, in one round trip; so is each
    ``executemany``, all or nothing. Not for several threads at the same time; they may have connections of the same
    client.
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
        """The ``Highwater`` that it is of."""
        self.isolation_level: Isolation | None = None
        """None: the service's own, which is ``serializable`` but for reads that may run on a replica."""
        self.read_only: bool = False
        """Transactions that begin from now on change nothing."""
        self.deferrable: bool = False
        """With ``read_only`` and ``serializable``: they wait for a snapshot that no later transaction makes unsafe."""
        self.settings: TransactionSettings = settings or {}
        """How transactions that begin from now on run."""
        self.is_closed: bool = False
        """Whether ``close`` was called."""
        self.committed: Any = None
        """The transaction that was committed last: its ``token``, ``durable()``, ``on_lost()``, …"""
        self.decoder: RowDecoder = decoder or RowDecoder()
        """Internal: for cursors."""
        self.rewinds: int = 0
        """Internal: how often statements went back to a savepoint: younger cursors of the database are gone then."""
        self._autocommit = False
        self._open: Any = None
        self._followers: list[Follower] = []
        self._on_close = on_close

    def _settle(self, value: Any) -> Any:
        """What a call of the client gave, waited for."""
        return value

    @property
    def autocommit(self) -> bool:
        """Each call of ``execute`` is a transaction of its own. Cannot be changed while one is open."""
        return self._autocommit

    @autocommit.setter
    def autocommit(self, value: bool) -> None:
        if value != self._autocommit and self._open is not None:
            raise ProgrammingError("a transaction is open: commit it or roll it back first")
        self._autocommit = value

    @property
    def transaction(self) -> Any:
        """The open transaction of the client, or None where nothing was executed since the last one ended."""
        return self._open

    def cursor(self) -> Cursor:
        """A cursor; any number may be used, one after another or in turn."""
        self._check_open()
        return Cursor(self)

    def stream_cursor(self) -> Cursor:
        """A cursor that fetches rows of a query as they are asked for, from a cursor in the database.

        It needs a transaction; with ``autocommit`` it is a plain one.
        """
        self._check_open()
        return Cursor(self) if self._autocommit else StreamCursor(self)

    def run(self, statements: Sequence[Statement]) -> list[StatementResult]:
        """Runs statements, in one round trip where they are 256 at most. The results are never short of rows.

        Args:
            statements: With parameters ``$1``, ``$2``, …

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
        """One transaction of several round trips."""
        opened = self.client.begin(**self._execution, **self._some(_OF_BEGIN))
        try:
            results = self._execute(opened, statements)
            self._acknowledge(self._settle(opened.commit(**self._some(_OF_COMMIT))))
        finally:
            if opened.committed is None:
                self._settle(opened.rollback())
        return results

    def commit(self) -> None:
        """Commits what was executed since the last one. ``committed`` is the transaction then.

        Errors: among others an ``OperationalError`` whose ``retry`` is ``transaction`` for a conflict, and one whose
        ``outcome`` is ``unknown`` where it is not known. A transaction that a failed statement has ended is not
        rolled back in silence: its error is raised.
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
            # What is still open can be committed again: the service had no room for it.
            if not opened.is_open:
                self._open = None
                self.unfollow()

    def rollback(self) -> None:
        """Undoes what was executed since the last commit. Nothing is sent where nothing is open."""
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
        """Rolls back what is open. The client stays, unless the connection made it."""
        if self.is_closed:
            return
        try:
            self.rollback()
        finally:
            self.is_closed = True
            if self._on_close is not None:
                self._on_close()

    def abandon(self) -> None:
        """Closes it where nothing can be waited for; the service rolls back an abandoned transaction."""
        self._open = None
        self.is_closed = True
        self.unfollow()

    def follow(self, follower: Follower) -> None:
        """Calls it with every commit until the transaction ends; with ``autocommit`` until ``commit`` or ``rollback``.

        Args:
            follower: The same one twice is called once.
        """
        if follower not in self._followers:
            self._followers.append(follower)

    def unfollow(self) -> None:
        """Calls none any more."""
        self._followers = []

    def _acknowledge(self, transaction: Any) -> None:
        self.committed = transaction
        for follower in self._followers:
            follower.committed(self.client, transaction)
        if self.settings.get("ack") == "durable":
            # The service may have answered at the end of its patience: pending is neither durable nor lost.
            self._settle(transaction.durable(timeout=self.settings.get("timeout")))

    @property
    def _execution(self) -> dict[str, object]:
        # The service takes "deferrable" only where it means something.
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
            # Why it has ended is what the caller has to know.
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
                f"statement {index} has more rows than the service returns; stream them",
                code="result_too_large",
                outcome="applied" if is_applied else "not_applied",
                retry="never",
                statement=index,
                transaction_id=transaction_id,
            )
