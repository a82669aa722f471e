"""The errors of this package, and the conversion of answers and verdicts to errors.

Check ``code``: codes are API, messages are not. ``outcome`` says whether the transaction was
applied.

    HighwaterError
    ├── InvalidRequestError         the request is wrong: fix the caller
    │   └── TokenRefusedError       a tracker does not judge this token for this caller; ``token``
    ├── StatementError              the database refused a statement
    │   ├── ConstraintError         a statement violates a constraint; ``constraint`` names it
    │   └── SerializationError      a conflict: run the whole body again with a new id
    ├── UnavailableError            the service cannot do it now: wait
    │   ├── NoAnswerError         no answer, or one that cannot be understood
    │   └── ExposureLimitError      too much is committed but not durable; ``limit``, ``exposure``
    ├── UnknownOutcomeError         it may or may not have committed; look up ``transaction_id``
    ├── TransactionAbortedError     this id has not committed and never will
    ├── TransactionLostError        it was committed, and a failure discarded it; ``verdict``
    ├── PromiseBrokenError          it was durable, and a failure discarded it all the same
    └── DurabilityTimeoutError      still pending when the wait ended; not a loss; ``token``
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, Literal, TypeVar

from .reading import read_problem
from .wire import AtRisk, Evidence, Position, Problem, ReachedLimit, RefusedToken, Verdict, WireError
from .wire_types import Outcome, Retry, TransactionState
from .wire_types import Verdict as VerdictKind


class HighwaterError(Exception):
    """Base class of all errors of this package.

    Check ``code``: codes are API, messages are not. ``outcome`` says whether the transaction was
    applied.

    Example:
        try:
            hw.transaction(sql("INSERT INTO account VALUES ({id}, {balance})", id=1, balance=100))
        except HighwaterError as error:
            print(error.code, error.outcome, error.retry, error.constraint)
            # constraint_violation not_applied never account_pkey
    """

    code: str
    """Stable identifier, from the service's catalogue or this package (see the README)."""
    outcome: Outcome
    """Whether the transaction was applied."""
    retry: Retry
    """What the caller may do next."""
    status: int | None
    """HTTP status of the answer; None without an answer."""
    sqlstate: str | None
    """PostgreSQL's error code, if the database refused a statement."""
    constraint: str | None
    """Name of the violated constraint."""
    statement: int | None
    """Index of the statement that failed, from 0."""
    fields: tuple[str, ...]
    """What is wrong with the request, field by field."""
    limit: ReachedLimit | None
    """The limit that was reached."""
    exposure: AtRisk | None
    """Committed transactions that are not durable yet, among those that the limit counts."""
    evidence: Evidence | None
    """For a refused statement: everything that it could see.

    ``hw.promise(error.evidence.token).durable()`` waits until that is durable.
    """
    redo: Literal["service"] | None
    """For a lost transaction: the service brings it back. Do not run it again."""
    transaction_id: str | None
    """Id of the transaction."""
    open: bool | None
    """Whether an interactive transaction is still open; None if the service did not say."""
    retry_after: float | None
    """Seconds that the service asked to wait before the next attempt."""
    token: str | None
    """The refused token, or the token of the promise that was waited for."""
    state: TransactionState | None
    """For a wait that has ended early: the state of the transaction, ``pending``."""
    level: str | None
    """Level of the wait; for a lost or broken transaction, the level of its verdict."""
    position: Position | None
    """For a lost or broken transaction: the position where it committed or was carried over to."""
    successor: str | None
    """For a lost or broken transaction: the epoch that does not contain it.

    If another attempt under the same id committed: the epoch of that attempt.
    """
    metadata: Mapping[str, str] | None
    """Metadata of the transaction's options, if this process ran it."""
    verdict: Verdict | None
    """The verdict that ended a wait, with its rule."""
    store: str | None = None
    """For a wait in several stores: name of the store that the error is about."""
    parts: tuple[StorePart, ...] = ()
    """For a wait in several stores: what is known of each part."""

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
        redo: Literal["service"] | None = None,
        transaction_id: str | None = None,
        open: bool | None = None,  # noqa: A002 - the protocol's word
        retry_after: float | None = None,
        token: str | None = None,
        state: TransactionState | None = None,
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
        self.redo = redo
        self.transaction_id = transaction_id
        self.open = open
        self.retry_after = retry_after
        self.token = token
        self.state = state
        self.level = level
        self.position = position
        self.successor = successor
        self.metadata = metadata
        self.verdict = verdict
        self.__cause__ = cause

    @property
    def message(self) -> str:
        """What went wrong, for people. Not API."""
        return str(self.args[0])

    def __repr__(self) -> str:
        details = f"code={self.code!r}, outcome={self.outcome!r}, retry={self.retry!r}"
        return f"{type(self).__name__}({self.message!r}, {details})"

    def __reduce__(self) -> tuple[object, ...]:
        # Pickled by message and attributes: an error crosses process pools complete, except for its
        # cause.
        return (_rebuild, (type(self), self.message, dict(self.__dict__)))


@dataclass(frozen=True, slots=True)
class StorePart:
    """What is known of one part of a wait in several stores.

    A part is one transaction, or what a session did in one store.
    """

    store: str
    """Name of the store."""
    state: VerdictKind
    """Verdict of the part.

    `pending` if there is no evidence, also because its store could not be asked; `error` then says
    why. `unknown` if a tracker refused the token.
    """
    transaction_id: str | None = None
    """Id of the transaction; of a session, of the one that `error` is about."""
    error: HighwaterError | None = None
    """Why the part is not durable. None if it is, and if it was pending when the wait ended."""


_E = TypeVar("_E", bound=HighwaterError)


def _rebuild(kind: type[_E], message: str, details: Mapping[str, object]) -> _E:
    error = kind.__new__(kind, message)
    error.args = (message,)
    error.__dict__.update(details)
    return error


def fresh(error: _E) -> _E:
    """Copies an error to raise it again: raising one object in two threads mixes its tracebacks."""
    copy = _rebuild(type(error), error.message, error.__dict__)
    copy.__cause__ = error.__cause__
    return copy


class InvalidRequestError(HighwaterError):
    """The request is wrong: fix the caller. Nothing was applied."""


class TokenRefusedError(InvalidRequestError):
    """A tracker does not judge this token for this caller.

    The text is not a token (``invalid_token``), or the token belongs to another owner
    (``forbidden``).
    """

    token: str
    """The refused token."""


class StatementError(HighwaterError):
    """The database refused a statement. Nothing was applied.

    ``sqlstate`` says why, ``statement`` which one.
    """


class ConstraintError(StatementError):
    """A statement violates a constraint; ``constraint`` names it."""


class SerializationError(StatementError):
    """The transaction conflicted with another one: run the whole body again, with a new id.

    ``transact`` does that.
    """


class UnavailableError(HighwaterError):
    """The service cannot do it now: wait. The client has retried until its time limit."""


class NoAnswerError(UnavailableError):
    """No answer came, or it cannot be understood.

    ``outcome`` says whether the transaction may have been applied. The code is ``client_closed`` if
    the client was closed.
    """


class ExposureLimitError(UnavailableError):
    """Too much is committed and not durable yet. Nothing was applied.

    ``limit`` and ``exposure`` say how much.
    """


class UnknownOutcomeError(HighwaterError):
    """The transaction may or may not have committed. Look up ``transaction_id`` with ``hw.status``.

    Never run it again under another id.
    """


class TransactionAbortedError(HighwaterError):
    """This id has not committed and never will: run the whole body again, with a new id."""


class TransactionLostError(HighwaterError):
    """The transaction was committed, and a failure discarded it.

    ``verdict`` has the evidence; it is None if the service refused an id that was lost earlier. If
    ``outcome`` is ``applied``, another attempt under the same id has committed: do not run anything
    again.
    """


class PromiseBrokenError(HighwaterError):
    """The transaction was durable at the level, and a failure that the level covers discarded it.

    ``verdict`` has the evidence.
    """


class DurabilityTimeoutError(HighwaterError):
    """The transaction was still pending when the wait ended.

    It has committed and is not lost: wait again, with ``hw.promise(token).durable()``.
    """

    token: str
    """Token of the transaction; after a wait for several, of one that is still pending."""


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


def problem_error(problem: Problem, *, status: int, retry_after: float | None = None) -> HighwaterError:
    """Makes the typed error of a problem answer. An unknown code is typed by its retry rule."""
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
        redo=problem.redo,
        transaction_id=problem.transaction_id,
        open=problem.open,
        retry_after=retry_after if problem.retry_after is None else problem.retry_after,
    )


def answer_error(status: int, body: object, retry_after: float | None = None) -> HighwaterError:
    """Makes the typed error of an answer outside 2xx, from the service or from a proxy."""
    try:
        problem = read_problem(body)
    except WireError:
        message = f"status {status} without the service's body; a proxy may have answered"
        kind: type[HighwaterError]
        code: str
        outcome: Outcome
        retry: Retry
        if status == 429:
            kind, code, outcome, retry = UnavailableError, "overloaded", "not_applied", "wait"
        elif status == 408 or status >= 500:
            # A proxy that lost patience (408) may have passed the request on.
            kind, code, outcome, retry = NoAnswerError, "bad_answer", "unknown", "wait"
        else:
            kind, code, outcome, retry = InvalidRequestError, "unexpected_status", "not_applied", "never"
        return kind(message, code=code, outcome=outcome, retry=retry, status=status, retry_after=retry_after)
    return problem_error(problem, status=status, retry_after=retry_after)


def connection_error(code: str, message: str, *, sent: bool, cause: BaseException | None = None) -> NoAnswerError:
    """Makes the error of a missing or unreadable answer.

    ``sent=False`` is proof that nothing of the request can have been applied.
    """
    outcome: Outcome = "unknown" if sent else "not_applied"
    return NoAnswerError(message, code=code, outcome=outcome, retry="wait", cause=cause)


def bad_answer(message: str, cause: BaseException | None = None) -> NoAnswerError:
    """Makes the error of an answer that does not fit the request."""
    return connection_error("bad_answer", message, sent=True, cause=cause)


def closed_error() -> NoAnswerError:
    """Makes the error of a call that was not sent."""
    return NoAnswerError(
        "the client is closed; create a new one", code="client_closed", outcome="not_applied", retry="never"
    )


def closed_wait(
    level: str,
    *,
    token: str,
    transaction_id: str | None = None,
    metadata: Mapping[str, str] | None = None,
) -> NoAnswerError:
    """Makes the error of a wait that `close` ended: what it was for has committed."""
    return NoAnswerError(
        "the client is closed; another one can wait for the token",
        code="client_closed",
        outcome="applied",
        retry="never",
        level=level,
        transaction_id=transaction_id,
        token=token,
        state="pending",
        metadata=metadata,
    )


def usage_error(code: str, message: str, cause: BaseException | None = None) -> InvalidRequestError:
    return InvalidRequestError(message, code=code, outcome="not_applied", retry="never", cause=cause)


def refused_error(refused: RefusedToken) -> TokenRefusedError:
    return TokenRefusedError(
        refused.detail, code=refused.code, outcome="not_applied", retry="never", token=refused.token
    )


def unknown_outcome(transaction_id: str, cause: BaseException | None = None) -> UnknownOutcomeError:
    return UnknownOutcomeError(
        f"transaction {transaction_id} may or may not have committed; look up its status",
        code="outcome_unknown",
        outcome="unknown",
        retry="resolve_outcome",
        transaction_id=transaction_id,
        cause=cause,
    )


def gateway_lost(transaction_id: str, cause: BaseException | None = None) -> TransactionAbortedError:
    """Makes the error for an open transaction whose gateway is gone.

    Its COMMIT was never sent, so it never commits.
    """
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
    """Makes the error for rows of a replay: an empty list would be a wrong answer."""
    return HighwaterError(
        "the service does not keep the results of a replayed transaction; read the rows again",
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


def state_error(transaction_id: str, state: str, redo: Literal["service"] | None = None) -> HighwaterError | None:
    """Makes the error for a settled state other than committed; None for an unsettled state."""
    settled = _SETTLED.get(state)
    if settled is None:
        return None
    kind, code, outcome, retry, what = settled
    if redo is not None:
        retry, what = "never", "was committed, and a failure discarded it; the service redoes it"
    message = f"transaction {transaction_id} {what}"
    return kind(message, code=code, outcome=outcome, retry=retry, redo=redo, transaction_id=transaction_id)


def verdict_error(
    verdict: Verdict, *, metadata: Mapping[str, str] | None = None, successor: str | None = None
) -> HighwaterError:
    """Makes the error for a terminal verdict other than ``durable``, with all its known details."""
    error = state_error(verdict.id, verdict.verdict, verdict.redo)
    if error is None:
        error = UnknownOutcomeError(
            f"no tracker knows the outcome of transaction {verdict.id}",
            code="transaction_unknown",
            outcome="unknown",
            retry="resolve_outcome",
            transaction_id=verdict.id,
        )
    if verdict.retried_in is not None:
        # A delayed copy of the request has run in the new history. Running the body again under a
        # new id would apply it twice.
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
    pending: int,
    token: str,
    transaction_id: str | None = None,
    metadata: Mapping[str, str] | None = None,
) -> DurabilityTimeoutError:
    """Makes the error of a wait that timed out."""
    what = transaction_id or f"{pending} transactions"
    return DurabilityTimeoutError(
        f"{what} still pending at {level}; committed and not lost: wait again",
        code="durability_timeout",
        outcome="applied",
        retry="wait",
        level=level,
        transaction_id=transaction_id,
        token=token,
        state="pending",
        metadata=metadata,
    )


def no_tracker(url: str, cause: HighwaterError) -> InvalidRequestError:
    """Makes the error of a wait for which no address of the client has a tracker."""
    return InvalidRequestError(
        f"no tracker at {url}: {cause.message}", code="no_tracker", outcome="applied", retry="never", cause=cause
    )
