"""The errors of this package, and what an answer or a verdict becomes.

Check ``code``: it is API, and messages are not. ``outcome`` answers the question that an error of a database client
must answer: was it applied?

    HighwaterError
    ├── InvalidRequestError         the request itself is wrong: fix the caller
    │   └── TokenRefusedError       a tracker does not judge this token for this caller; ``token``
    ├── StatementError              the database refused a statement
    │   ├── ConstraintError         a constraint is violated; ``constraint`` names it
    │   └── SerializationError      conflicted with another transaction: run the whole body again, with a new id
    ├── UnavailableError            the service cannot do it now: wait
    │   ├── ConnectionError         no answer, or none that can be understood
    │   └── ExposureLimitError      too much is committed and not durable yet; ``limit`` and ``exposure`` say how much
    ├── UnknownOutcomeError         it may or may not have committed; ``transaction_id`` is the id to ask about
    ├── TransactionAbortedError     this id never committed and never will
    ├── TransactionLostError        was committed, and is gone after a failure; ``verdict`` says how that is known
    ├── PromiseBrokenError          was durable at the level, and a failure that the level covers took it all the same
    └── DurabilityTimeoutError      still pending when the wait ended; nothing is lost
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, TypeVar

from .reading import read_problem
from .wire import AtRisk, Evidence, Position, Problem, ReachedLimit, RefusedToken, Verdict, WireError
from .wire_types import Outcome, Retry


class HighwaterError(Exception):
    """What every error of this package is. ``code`` is API, and messages are not.

    ``outcome`` answers the question that an error of a database client must answer: was it applied?

    Example:
        try:
            hw.transaction(sql("INSERT INTO account VALUES ({id}, {balance})", id=1, balance=100))
        except HighwaterError as error:
            print(error.code, error.outcome, error.retry, error.constraint)
            # constraint_violation not_applied never account_pkey
    """

    code: str
    """Stable identifier: a code of the service's catalogue, or one of this package's own (README)."""
    outcome: Outcome
    """Whether the transaction that the error is about was applied."""
    retry: Retry
    """What a caller may do."""
    status: int | None
    """HTTP status of the answer; None where there was none."""
    sqlstate: str | None
    """PostgreSQL's code, where the database refused something."""
    constraint: str | None
    """Name of the constraint that is violated."""
    statement: int | None
    """Index of the statement at fault, from 0."""
    fields: tuple[str, ...]
    """What is wrong with the request, field by field."""
    limit: ReachedLimit | None
    """The limit that was met."""
    exposure: AtRisk | None
    """What is committed and not durable yet, of those that the limit counts."""
    evidence: Evidence | None
    """Of a refused statement: what it rests on. ``hw.promise(error.evidence.token).durable()`` waits for that."""
    transaction_id: str | None
    """Of the transaction that the error is about."""
    open: bool | None
    """Of an interactive transaction: whether it is still open; None where that was not said."""
    retry_after_ms: float | None
    """How many milliseconds the service asked to wait before the next attempt."""
    token: str | None
    """The token that was refused, or that the wait was for."""
    level: str | None
    """The level that was waited for in vain; of a transaction that is gone, that of its verdict."""
    position: Position | None
    """Of a transaction that is gone: where it had committed, or was carried over to."""
    successor: str | None
    """Of a transaction that is gone: the epoch that is without it, or in which another attempt of it committed."""
    metadata: Mapping[str, str] | None
    """Of a transaction of this process: what its options said."""
    verdict: Verdict | None
    """Of a wait that a verdict has ended: that verdict, with the rule it was given by."""

    def __init__(
        self,
        message: str,
        *,
        code: str,
        outcome: Outcome,
        retry: Retry,
        status: int | None = None,
        sqlstate: str | None = None,
        constraint: str | None = None,
        statement: int | None = None,
        fields: tuple[str, ...] = (),
        limit: ReachedLimit | None = None,
        exposure: AtRisk | None = None,
        evidence: Evidence | None = None,
        transaction_id: str | None = None,
        open: bool | None = None,  # noqa: A002 - the protocol's word
        retry_after_ms: float | None = None,
        token: str | None = None,
        level: str | None = None,
        position: Position | None = None,
        successor: str | None = None,
        metadata: Mapping[str, str] | None = None,
        verdict: Verdict | None = None,
        cause: BaseException | None = None,
    ) -> None:
        super().__init__(message)
        self.code = code
        self.outcome = outcome
        self.retry = retry
        self.status = status
        self.sqlstate = sqlstate
        self.constraint = constraint
        self.statement = statement
        self.fields = fields
        self.limit = limit
        self.exposure = exposure
        self.evidence = evidence
        self.transaction_id = transaction_id
        self.open = open
        self.retry_after_ms = retry_after_ms
        self.token = token
        self.level = level
        self.position = position
        self.successor = successor
        self.metadata = metadata
        self.verdict = verdict
        self.__cause__ = cause

    @property
    def message(self) -> str:
        """What went wrong, for people: not API."""
        return str(self.args[0])

    def __repr__(self) -> str:
        details = f"code={self.code!r}, outcome={self.outcome!r}, retry={self.retry!r}"
        return f"{type(self).__name__}({self.message!r}, {details})"

    def __reduce__(self) -> tuple[object, ...]:
        # Pickled by name and details: an error crosses process pools as whole as it is here, but for its cause.
        return (_rebuild, (type(self), self.message, dict(self.__dict__)))


_E = TypeVar("_E", bound=HighwaterError)


def _rebuild(kind: type[_E], message: str, details: Mapping[str, object]) -> _E:
    error = kind.__new__(kind, message)
    error.args = (message,)
    error.__dict__.update(details)
    return error


def fresh(error: _E) -> _E:
    """The same error to raise once more: one that two threads raise would mix up their tracebacks."""
    copy = _rebuild(type(error), error.message, error.__dict__)
    copy.__cause__ = error.__cause__
    return copy


class InvalidRequestError(HighwaterError):
    """The request itself is wrong: fix the caller. Nothing was applied."""


class TokenRefusedError(InvalidRequestError):
    """A tracker does not judge this token for this caller.

    It is none (``invalid_token``), or another owner's (``forbidden``).
    """

    token: str
    """The one that was refused."""


class StatementError(HighwaterError):
    """The database refused a statement; ``sqlstate`` says why, ``statement`` which one. Nothing was applied."""


class ConstraintError(StatementError):
    """A constraint is violated; ``constraint`` names it."""


class SerializationError(StatementError):
    """Conflicted with another transaction: run the whole body again, with a new id. ``transact`` does."""


class UnavailableError(HighwaterError):
    """The service cannot do it now: wait. The client has tried until its time was over."""


class ConnectionError(UnavailableError):  # noqa: A001 - the name in every SDK
    """No answer, or none that can be understood; ``client_closed`` where the client was closed.

    ``outcome`` says whether it may be applied.
    """


class ExposureLimitError(UnavailableError):
    """Too much is committed and not durable yet; ``limit`` and ``exposure`` say how much. Nothing was applied."""


class UnknownOutcomeError(HighwaterError):
    """It may or may not have committed; ``transaction_id`` is the id to ask ``hw.status`` about.

    Never run it again under another id.
    """


class TransactionAbortedError(HighwaterError):
    """This id never committed and never will: run the whole body again, with a new id."""


class TransactionLostError(HighwaterError):
    """Was committed, and is gone after a failure.

    ``verdict`` says how that is known; it is None when the service refused an id that was lost earlier. Where
    ``outcome`` is ``applied``, another attempt under the same id has committed: nothing is to be run again.
    """


class PromiseBrokenError(HighwaterError):
    """Was durable at the level, and a failure that the level covers took it all the same.

    ``verdict`` says how that is known.
    """


class DurabilityTimeoutError(HighwaterError):
    """Still pending when the wait ended; nothing is lost, and it can be waited for again."""


_BY_CODE: Final[Mapping[str, type[HighwaterError]]] = {
    "constraint_violation": ConstraintError,
    "serialization_failure": SerializationError,
    "refusal_unconfirmed": SerializationError,
    "statement_failed": StatementError,
    "statement_timeout": StatementError,
    "transaction_aborted": TransactionAbortedError,
    "transaction_lost": TransactionLostError,
    "id_expired": UnknownOutcomeError,
    "promise_broken": PromiseBrokenError,
    "transaction_expired": TransactionAbortedError,
    "cancelled": TransactionAbortedError,
    "gateway_lost": TransactionAbortedError,
    "exposure_limit": ExposureLimitError,
}
_BY_RETRY: Final[Mapping[str, type[HighwaterError]]] = {
    "wait": UnavailableError,
    "resolve_outcome": UnknownOutcomeError,
    "never": InvalidRequestError,
    "transaction": InvalidRequestError,
}


def problem_error(problem: Problem, *, status: int, retry_after_ms: float | None = None) -> HighwaterError:
    """The typed error of a problem answer. A code that this version does not know is typed by its retry rule."""
    kind = _BY_CODE.get(problem.code) or _BY_RETRY[problem.retry]
    return kind(
        problem.message,
        code=problem.code,
        outcome=problem.outcome,
        retry=problem.retry,
        status=status,
        sqlstate=problem.sqlstate,
        constraint=problem.constraint,
        statement=problem.statement,
        fields=problem.fields,
        limit=problem.limit,
        exposure=problem.exposure,
        evidence=problem.evidence,
        transaction_id=problem.transaction_id,
        open=problem.open,
        retry_after_ms=retry_after_ms if problem.retry_after_ms is None else problem.retry_after_ms,
    )


def answer_error(status: int, body: object, retry_after_ms: float | None = None) -> HighwaterError:
    """The typed error of any answer outside 2xx: a problem of the service, or something a proxy on the way made up."""
    try:
        problem = read_problem(body)
    except WireError:
        message = f"status {status}, and the body is not the service's; a proxy may have answered"
        kind: type[HighwaterError]
        code: str
        outcome: Outcome
        retry: Retry
        if status == 429:
            kind, code, outcome, retry = UnavailableError, "overloaded", "not_applied", "wait"
        elif status >= 500:
            kind, code, outcome, retry = ConnectionError, "bad_answer", "unknown", "wait"
        else:
            kind, code, outcome, retry = InvalidRequestError, "unexpected_status", "not_applied", "never"
        return kind(message, code=code, outcome=outcome, retry=retry, status=status, retry_after_ms=retry_after_ms)
    return problem_error(problem, status=status, retry_after_ms=retry_after_ms)


def connection_error(code: str, message: str, *, sent: bool, cause: BaseException | None = None) -> ConnectionError:
    """No answer, or none that can be understood. ``sent=False`` is proof that nothing of it can have been applied."""
    outcome: Outcome = "unknown" if sent else "not_applied"
    return ConnectionError(message, code=code, outcome=outcome, retry="wait", cause=cause)


def bad_answer(message: str, cause: BaseException | None = None) -> ConnectionError:
    """An answer that is not what was asked for."""
    return connection_error("bad_answer", message, sent=True, cause=cause)


def closed_error() -> ConnectionError:
    return ConnectionError("the client is closed", code="client_closed", outcome="not_applied", retry="never")


def usage_error(code: str, message: str, cause: BaseException | None = None) -> InvalidRequestError:
    return InvalidRequestError(message, code=code, outcome="not_applied", retry="never", cause=cause)


def refused_error(refused: RefusedToken) -> TokenRefusedError:
    return TokenRefusedError(
        refused.detail, code=refused.code, outcome="not_applied", retry="never", token=refused.token
    )


def unknown_outcome(transaction_id: str, cause: BaseException | None = None) -> UnknownOutcomeError:
    return UnknownOutcomeError(
        f"transaction {transaction_id} may or may not have committed; ask for its status",
        code="outcome_unknown",
        outcome="unknown",
        retry="resolve_outcome",
        transaction_id=transaction_id,
        cause=cause,
    )


def gateway_lost(transaction_id: str, cause: BaseException | None = None) -> TransactionAbortedError:
    """The gateway of the open transaction is gone. Its COMMIT was never sent, so it never commits."""
    return TransactionAbortedError(
        f"the gateway of transaction {transaction_id} is gone; use a new id",
        code="gateway_lost",
        outcome="not_applied",
        retry="transaction",
        transaction_id=transaction_id,
        open=False,
        cause=cause,
    )


def results_not_kept(transaction_id: str) -> HighwaterError:
    """For rows that are asked of a replay: an empty list would be a wrong answer."""
    return HighwaterError(
        "the transaction is a replay, and its results are not kept; read the rows again",
        code="results_not_kept",
        outcome="applied",
        retry="never",
        transaction_id=transaction_id,
    )


_SETTLED: Final[Mapping[str, tuple[type[HighwaterError], str, Outcome, Retry, str]]] = {
    "lost": (
        TransactionLostError,
        "transaction_lost",
        "not_applied",
        "transaction",
        "was committed, and a failure discarded it; use a new id",
    ),
    "aborted": (
        TransactionAbortedError,
        "transaction_aborted",
        "not_applied",
        "transaction",
        "is settled as aborted; use a new id",
    ),
    "broken": (
        PromiseBrokenError,
        "promise_broken",
        "unknown",
        "never",
        "was durable, and a failure discarded it: the promise is broken",
    ),
    "expired": (
        UnknownOutcomeError,
        "id_expired",
        "unknown",
        "never",
        "is too old: its receipt is no longer kept",
    ),
}


def state_error(transaction_id: str, state: str) -> HighwaterError | None:
    """The error that stands for a settled state other than committed, or None where the state settles nothing."""
    settled = _SETTLED.get(state)
    if settled is None:
        return None
    kind, code, outcome, retry, what = settled
    message = f"transaction {transaction_id} {what}"
    return kind(message, code=code, outcome=outcome, retry=retry, transaction_id=transaction_id)


def verdict_error(
    verdict: Verdict, *, metadata: Mapping[str, str] | None = None, successor: str | None = None
) -> HighwaterError:
    """The error that stands for a terminal verdict other than ``durable``, with all that is known of it."""
    error = state_error(verdict.id, verdict.verdict)
    if error is None:
        error = UnknownOutcomeError(
            f"no tracker knows transaction {verdict.id}",
            code="transaction_unknown",
            outcome="unknown",
            retry="resolve_outcome",
            transaction_id=verdict.id,
        )
    if verdict.retried_in is not None:
        # A copy of the request that was on its way for long has run in the new history: a client
        # that ran the body again under a new id would do it twice.
        error.args = (f"{error.message}; another attempt under the same id committed",)
        error.outcome, error.retry = "applied", "resolve_outcome"
    error.token = verdict.token
    error.level = verdict.level
    error.position = verdict.position
    error.successor = verdict.retried_in or successor
    error.metadata = metadata
    error.verdict = verdict
    return error


def durability_timeout(
    level: str,
    *,
    timeout: float,
    pending: int,
    transaction_id: str | None = None,
    metadata: Mapping[str, str] | None = None,
) -> DurabilityTimeoutError:
    """``timeout`` in seconds."""
    what = transaction_id or f"{pending} transactions"
    return DurabilityTimeoutError(
        f"{what} still pending at {level} after {timeout:g} s; not a loss, wait again",
        code="durability_timeout",
        outcome="applied",
        retry="wait",
        level=level,
        transaction_id=transaction_id,
        metadata=metadata,
    )
