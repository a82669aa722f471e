"""A connection of PEP 249 and its cursors, which refer to one another.

A connection has no socket and no database session, but one transaction at a time. It owns where
statements run (in the open transaction, or with ``autocommit`` in a one-shot one), and who receives
commits. Works with either client: a subclass awaits the results of the asynchronous one.

One kind of cursor holds all rows of its statement, the other fetches them as needed.
"""

from __future__ import annotations

import itertools
import re
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from types import TracebackType
from typing import Any, Final, NoReturn, Self, TypeAlias

from .._core.errors import HighwaterError, fresh, results_not_kept, usage_error
from .._core.wire import Field, Statement
from .._core.wire_types import Isolation
from .._options import ack_of
from .._values import StatementResult
from .._values.decode import RowDecoder
from ._errors import Error, InterfaceError, ProgrammingError, error_of
from ._settings import Follower, TransactionSettings

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
Column: TypeAlias = tuple[str, int, None, None, None, None, None]
"""Entry of ``description`` for a column: its name and the OID of its type."""
Row: TypeAlias = tuple[Any, ...]
"""A row, by column position."""

STREAM_ROWS: Final = 1_000
"""Rows that a streaming cursor fetches at a time by default."""
_names = itertools.count(1)
_READS: Final = re.compile(r"\s*(?:select|values|table|with)\b", re.IGNORECASE)
_LOCKS: Final = re.compile(r"\bfor\s+(?:no\s+key\s+)?update\b", re.IGNORECASE)
_WRITES: Final = re.compile(r"\b(?:insert|update|delete|merge|into)\b", re.IGNORECASE)
_OF_ONE_SHOT: Final = ("after", "mode", "max_attempts")
_OF_BEGIN: Final = ("level", "max_delay", "metadata", "timeout")
_OF_COMMIT: Final = ("ack", "level", "max_wait", "max_delay", "timeout")

_WAITS_HERE: Final = {"on_timeout": "pending"}
"""The connection waits itself: a commit is remembered before it has a verdict."""


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
        self._of_followed: Mapping[str, object] = {}
        self.is_safe: bool = False
        """Whether the last commit that was sent waits for durability."""
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
        options = {**self._execution, **self._of_commit(names)}
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
            self._acknowledge(self._settle(opened.commit(**self._of_commit(_OF_COMMIT))))
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
            transaction = self._settle(opened.commit(**self._of_commit(_OF_COMMIT)))
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

    def follow(self, follower: Follower, *, commit: Mapping[str, object] | None = None) -> None:
        """Calls the follower with every commit until the transaction ends.

        With ``autocommit``: until ``commit`` or ``rollback``.

        Args:
            follower: Follower to call. Adding it twice has no effect.
            commit: Settings of commits until then, where the connection's own do not wait for
                durability.
        """
        if follower not in self._followers:
            self._followers.append(follower)
        self._of_followed = commit or {}

    def unfollow(self) -> None:
        """Removes all followers."""
        self._followers = []
        self._of_followed = {}

    def _acknowledge(self, transaction: Any) -> None:
        self.committed = transaction
        for follower in self._followers:
            follower.committed(self.client, transaction)
        ack = ack_of(self.settings)
        # The service may have answered at the end of its wait: pending is neither durable nor lost.
        if ack.wait_ms(0) is not None:
            timeout = self.settings.get("timeout") if ack.max_wait_ms is None else 0.0
            self._settle(transaction.durable(timeout=timeout))

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

    def _of_commit(self, names: Sequence[str]) -> dict[str, object]:
        """Returns the options of a call that commits."""
        options = {**self._some(names), **_WAITS_HERE}
        if options.get("ack") != "durable":
            options |= self._of_followed
        self.is_safe = options.get("ack") == "durable"
        return options

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


class Cursor:
    """Executes statements of its connection and holds the rows of the last one."""

    server_side: bool = False
    """Whether rows are fetched as needed."""

    def __init__(self, connection: Connection) -> None:
        self.connection: Connection = connection
        """The connection that made the cursor."""
        self.arraysize: int = 1
        """Default number of rows for ``fetchmany``."""
        self.description: Sequence[Column] | None = None
        """Columns of the last statement; None if it returned no rows."""
        self.rowcount: int = -1
        """Number of rows that the last statement returned or changed; -1 if unknown."""
        self.lastrowid: None = None
        """Attribute of PEP 249. Always None: PostgreSQL has no row ids."""
        self._rows: deque[Row] = deque()
        self._is_closed = False

    def execute(self, operation: str, parameters: Sequence[object] | None = None) -> Self:
        """Runs a statement.

        Args:
            operation: Statement with parameters ``$1``, ``$2``, …
            parameters: Values of the parameters, in order.

        Errors: those of this module.
        """
        self._begin()
        [result] = self.connection.run([_statement(operation, parameters)])
        self._describe(result.fields)
        self.rowcount = result.row_count
        if self.description is not None:
            self._rows.extend(self._decoded(result))
        return self

    def executemany(self, operation: str, seq_of_parameters: Sequence[Sequence[object]]) -> Self:
        """Runs a statement once per set of parameters, 256 per round trip. Discards any rows.

        Args:
            operation: Statement with parameters ``$1``, ``$2``, …
            seq_of_parameters: Values for each run, in order.

        Errors: those of this module.
        """
        self._begin()
        statements = [_statement(operation, parameters) for parameters in seq_of_parameters]
        results = self.connection.run(statements) if statements else []
        self.rowcount = sum(result.row_count for result in results)
        return self

    def fetchone(self) -> Row | None:
        """Returns the next row, or None.

        Errors: `ProgrammingError` if the last statement returned no rows.
        """
        self._check_rows()
        return self._rows.popleft() if self._rows else None

    def fetchmany(self, size: int | None = None) -> list[Row]:
        """Returns the next rows.

        Args:
            size: Maximum number of rows. Default: ``arraysize``.

        Errors: those of `Cursor.fetchone`.
        """
        self._check_rows()
        count = min(self.arraysize if size is None else size, len(self._rows))
        return [self._rows.popleft() for _ in range(count)]

    def fetchall(self) -> list[Row]:
        """Returns all remaining rows.

        Errors: those of `Cursor.fetchone`.
        """
        self._check_rows()
        rows = list(self._rows)
        self._rows.clear()
        return rows

    def setinputsizes(self, sizes: object) -> None:
        """Does nothing; PEP 249 requires it.

        Args:
            sizes: Ignored.
        """

    def setoutputsize(self, size: int, column: int | None = None) -> None:
        """Does nothing; PEP 249 requires it.

        Args:
            size: Ignored.
            column: Ignored.
        """

    def close(self) -> None:
        """Closes the cursor and discards its rows. The transaction stays as it is."""
        self._is_closed = True
        self._rows.clear()

    def _begin(self) -> None:
        if self._is_closed:
            raise InterfaceError("the cursor is closed")
        self.description = None
        self.rowcount = -1
        self._rows.clear()

    def _describe(self, fields: Sequence[Field]) -> None:
        self.description = [(field.name, field.oid, None, None, None, None, None) for field in fields] or None

    def _decoded(self, result: StatementResult) -> Iterator[Row]:
        # By position, because columns may share a name; and with this connection's types, not the
        # client's.
        decoders = [self.connection.decoder.decoder(field.oid) for field in result.fields]
        for row in result.values:
            yield tuple(
                text if text is None or decode is None else decode(text)
                for text, decode in zip(row, decoders, strict=True)
            )

    def _check_rows(self) -> None:
        if self._is_closed:
            raise InterfaceError("the cursor is closed")
        if self.description is None:
            raise ProgrammingError("the last statement has no rows to fetch")

    def __iter__(self) -> Iterator[Row]:
        while (row := self.fetchone()) is not None:
            yield row

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()


class StreamCursor(Cursor):
    """Fetches rows through a cursor of the database, some at a time.

    Statements that are not plain queries run as in `Cursor`.
    """

    server_side: bool = True
    """Whether rows are fetched as needed."""

    def __init__(self, connection: Connection) -> None:
        super().__init__(connection)
        self._name: str | None = None
        self._rewinds = 0
        self._transaction: Any = None
        self._is_exhausted = True

    def execute(self, operation: str, parameters: Sequence[object] | None = None) -> Self:
        """Like `Cursor.execute`, but a query's rows stay in the database until they are fetched."""
        if not _is_query(operation):
            return super().execute(operation, parameters)
        self._begin()
        name = f"highwater_{next(_names)}"
        declare = _statement(f"DECLARE {name} NO SCROLL CURSOR FOR {operation}", parameters)
        # Fetches no rows, only the description of the columns. The fetching call decides how many
        # rows.
        _, described = self.connection.run([declare, Statement(f"FETCH FORWARD 0 FROM {name}")])
        self._describe(described.fields)
        self._name = name
        self._rewinds = self.connection.rewinds
        self._transaction = self.connection.transaction
        self._is_exhausted = False
        return self

    def fetchone(self) -> Row | None:
        """Like `Cursor.fetchone`; fetches 1,000 rows per round trip."""
        self._check_rows()
        if not self._rows:
            self._fetch(STREAM_ROWS)
        return super().fetchone()

    def fetchmany(self, size: int | None = None) -> list[Row]:
        """Like `Cursor.fetchmany`; fetches all of its rows in one round trip."""
        self._check_rows()
        wanted = self.arraysize if size is None else size
        if wanted > len(self._rows):
            self._fetch(wanted - len(self._rows))
        return super().fetchmany(wanted)

    def fetchall(self) -> list[Row]:
        """Like `Cursor.fetchall`; fetches 1,000 rows per round trip."""
        rows = super().fetchall()
        while not self._is_exhausted:
            self._fetch(STREAM_ROWS)
            rows += super().fetchall()
        return rows

    def close(self) -> None:
        """Like `Cursor.close`; also closes the database cursor while its transaction is open."""
        self._end()
        super().close()

    def _begin(self) -> None:
        super()._begin()
        self._end()

    def _fetch(self, count: int) -> None:
        if self._is_exhausted:
            return
        [result] = self.connection.run([Statement(f"FETCH FORWARD {count} FROM {self._name}")])
        self._rows.extend(self._decoded(result))
        self._is_exhausted = len(result.values) < count

    def _end(self) -> None:
        """Closes the database cursor: tables cannot be altered while it is open."""
        name, self._name = self._name, None
        self._is_exhausted = True
        connection, transaction = self.connection, self.connection.transaction
        if name is None or transaction is not self._transaction or not transaction.is_open:
            return
        # Closing a cursor that no longer exists is an error, which would fail the transaction.
        if connection.rewinds != self._rewinds:
            return
        try:
            connection.run([Statement(f"CLOSE {name}")])
        except Error:
            # The transaction has failed, and the caller has its error.
            return


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


def _statement(operation: str, parameters: Sequence[object] | None) -> Statement:
    if isinstance(parameters, (str, bytes, dict)):
        raise ProgrammingError("parameters must be a sequence of values for $1, $2, …")
    return Statement(operation, tuple(parameters or ()))


def _is_query(operation: str) -> bool:
    return bool(_READS.match(operation)) and not _WRITES.search(_LOCKS.sub("", operation))
