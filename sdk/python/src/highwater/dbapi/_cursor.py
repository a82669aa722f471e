"""Cursors of PEP 249: one holds all rows of its statement, the other fetches them as needed."""

from __future__ import annotations

import itertools
import re
from collections import deque
from collections.abc import Iterator, Sequence
from types import TracebackType
from typing import TYPE_CHECKING, Any, Final, Self, TypeAlias

from .._core.wire import Field, Statement
from .._values import StatementResult
from ._errors import Error, InterfaceError, ProgrammingError

if TYPE_CHECKING:
    from ._connection import Connection

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


def _statement(operation: str, parameters: Sequence[object] | None) -> Statement:
    if isinstance(parameters, (str, bytes, dict)):
        raise ProgrammingError("parameters must be a sequence of values for $1, $2, …")
    return Statement(operation, tuple(parameters or ()))


def _is_query(operation: str) -> bool:
    return bool(_READS.match(operation)) and not _WRITES.search(_LOCKS.sub("", operation))
