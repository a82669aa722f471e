"""The exceptions of PEP 249, and which of them an error of the client is."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from .._core.errors import HighwaterError, InvalidRequestError, StatementError
from .._core.wire_types import Outcome, Retry


class Warning(Exception):  # noqa: A001, N818 - the name of PEP 249
    """Of PEP 249; never raised here."""


class Error(Exception):
    """What every error of this module is."""

    orig: HighwaterError | None
    """The client's own error, with all that it knows."""

    def __init__(self, message: str = "", orig: HighwaterError | None = None) -> None:
        super().__init__(message)
        self.orig = orig

    @property
    def sqlstate(self) -> str | None:
        """PostgreSQL's code, where the database refused something."""
        return None if self.orig is None else self.orig.sqlstate

    @property
    def pgcode(self) -> str | None:
        """``sqlstate``, by the name that other drivers give it."""
        return self.sqlstate

    @property
    def constraint_name(self) -> str | None:
        """The constraint that is violated."""
        return None if self.orig is None else self.orig.constraint

    @property
    def code(self) -> str | None:
        """The client's code of the error: it is API."""
        return None if self.orig is None else self.orig.code

    @property
    def outcome(self) -> Outcome | None:
        """What became of the transaction that the error is about."""
        return None if self.orig is None else self.orig.outcome

    @property
    def retry(self) -> Retry | None:
        """What a caller may do; ``transaction``: run the whole body again, in a new one."""
        return None if self.orig is None else self.orig.retry

    def __reduce__(self) -> tuple[object, ...]:
        return (type(self), (str(self), self.orig))


class InterfaceError(Error):
    """The interface was used wrongly: a closed connection, a cursor without rows."""


class DatabaseError(Error):
    """The database or the service refused something."""


class DataError(DatabaseError):
    """A value that does not fit."""


class OperationalError(DatabaseError):
    """Not the program's fault: conflicts, limits, failures, losses. ``retry`` says what helps."""


class IntegrityError(DatabaseError):
    """A constraint is violated; ``constraint_name`` names it."""


class InternalError(DatabaseError):
    """The database is in a state where it cannot do that, or failed by itself."""


class ProgrammingError(DatabaseError):
    """The statement itself is wrong."""


class NotSupportedError(DatabaseError):
    """The database or the service has nothing like it."""


# By class of SQLSTATE, as other drivers of PostgreSQL have it.
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
    """The exception of PEP 249 that stands for an error of the client."""
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
