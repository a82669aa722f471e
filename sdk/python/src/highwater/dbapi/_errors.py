"""The exceptions of PEP 249, and the mapping of the client's errors to them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from .._core.errors import HighwaterError, InvalidRequestError, StatementError
from .._core.wire_types import Outcome, Retry


class Warning(Exception):  # noqa: A001, N818 - the name of PEP 249
    """Exception of PEP 249; never raised here."""


class Error(Exception):
    """Base class of all errors of this module."""

    orig: HighwaterError | None
    """The client's error, with all details."""

    def __init__(self, message: str = "", orig: HighwaterError | None = None) -> None:
        super().__init__(message)
        self.orig = orig

    @property
    def sqlstate(self) -> str | None:
        """PostgreSQL's error code, if the database refused a statement."""
        return None if self.orig is None else self.orig.sqlstate

    @property
    def pgcode(self) -> str | None:
        """``sqlstate``, under the name of other drivers."""
        return self.sqlstate

    @property
    def constraint_name(self) -> str | None:
        """Name of the violated constraint."""
        return None if self.orig is None else self.orig.constraint

    @property
    def code(self) -> str | None:
        """Code of the client's error. Codes are API."""
        return None if self.orig is None else self.orig.code

    @property
    def outcome(self) -> Outcome | None:
        """Whether the transaction was applied."""
        return None if self.orig is None else self.orig.outcome

    @property
    def retry(self) -> Retry | None:
        """What the caller may do next. ``transaction``: run the whole body again, in a new one."""
        return None if self.orig is None else self.orig.retry

    def __reduce__(self) -> tuple[object, ...]:
        return (type(self), (str(self), self.orig))


class InterfaceError(Error):
    """The interface was misused, for example a closed connection or a cursor without rows."""


class DatabaseError(Error):
    """The database or the service refused a statement or a call."""


class DataError(DatabaseError):
    """A value does not fit its type."""


class OperationalError(DatabaseError):
    """A conflict, limit, failure or loss, not a fault of the program. ``retry`` says what helps."""


class IntegrityError(DatabaseError):
    """A statement violates a constraint; ``constraint_name`` names it."""


class InternalError(DatabaseError):
    """The database failed, or is in a state that does not allow the statement."""


class ProgrammingError(DatabaseError):
    """The statement itself is wrong."""


class NotSupportedError(DatabaseError):
    """The database or the service does not support this."""


# By class of SQLSTATE, as in other drivers of PostgreSQL.
_BY_CLASS: Final[Mapping[str, type[DatabaseError]]] = {
    state: kind
    for kind, states in (
        (NotSupportedError, "0A"),
        (ProgrammingError, "20 21 3D 3F 42 44"),
        (DataError, "22"),
        (IntegrityError, "23"),
        (InternalError, "24 25 2B 2D 2F 38 39 3B F0 P0 XX"),
        (OperationalError, "08 26 27 28 34 40 53 54 55 57 58 HV"),
    )
    for state in states.split()
}
_BY_CODE: Final[Mapping[str, type[Error]]] = {
    "transaction_ended": InterfaceError,
    "client_closed": InterfaceError,
    "invalid_parameter": DataError,
    "session_bound": NotSupportedError,
}


def error_of(error: HighwaterError) -> Error:
    """Returns the exception of PEP 249 for an error of the client."""
    kind: type[Error]
    if error.sqlstate is not None:
        kind = _BY_CLASS.get(error.sqlstate[:2], DatabaseError)
    elif error.code in _BY_CODE:
        kind = _BY_CODE[error.code]
    elif isinstance(error, StatementError):
        kind = DatabaseError
    elif isinstance(error, InvalidRequestError):
        kind = ProgrammingError
    else:
        kind = OperationalError
    return kind(error.message, error)
