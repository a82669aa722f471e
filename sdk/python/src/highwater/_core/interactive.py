"""An interactive transaction.

It begins with its first call, runs one call at a time and ends in one of four ways. Owns its state;
``pinned`` owns the calls on the wire. Calls are generators. The client that drives them makes sure
that one ends before the next begins.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Final, Generic, TypeVar, cast

from .effects import Steps
from .errors import HighwaterError, InvalidRequestError
from .ids import new_transaction_id
from .observer import EventType, ObservedEvent
from .pinned import PinnedCalls, begin
from .requests import (
    AckLimits,
    AckOptions,
    ExecutionOptions,
    ack_body,
    execution_body,
    statements_body,
    transaction_body,
)
from .service import CallOptions, Service, Sought
from .sql import StatementInput
from .wire import Marks, OpenTransactionResponse, Statement, TransactionResponse, WireResult
from .wire_types import BeginRequest, CommitRequest, Outcome

_C = TypeVar("_C")
_T = TypeVar("_T")
_NO_HEADERS: Final[Mapping[str, str]] = {}
_INTERRUPTED_ROLLBACK_MS: Final = 2_000
"""Time limit for the rollback of an interrupted transaction."""


@dataclass(frozen=True, slots=True, kw_only=True)
class InteractiveDeps(Generic[_C]):
    service: Service
    level: str
    """Default level."""
    wait_ms: float
    total_ms: float
    left_ms: Callable[[], float]
    """Returns the time limit of a call that has none of its own."""
    learn_marks: Callable[[Marks | None], None]
    committed: Callable[[TransactionResponse, str], _C]
    """Converts the answer to the commit, and its level, to the result of ``commit``."""
    failed: Callable[[BaseException], None] = lambda error: None
    """Called with the error of each call."""


class InteractiveCore(Generic[_C]):
    """An open transaction.

    Nothing is sent before its first statements, which travel with the begin. So a transaction of n
    calls costs n + 1 round trips, and one whose statements all travel with the commit costs one.
    """

    def __init__(self, deps: InteractiveDeps[_C], execution: ExecutionOptions, level: str | None = None) -> None:
        self.id: Final = new_transaction_id()
        self.is_open: bool = True
        """False once the transaction has committed, been rolled back or been ended by an error."""
        self.failure: BaseException | None = None
        """The error that ended the transaction."""
        self.committed: _C | None = None
        self.is_answered: bool = False
        """Whether a statement was answered."""
        self.epoch: str | None = None
        """Epoch that the gateway knew of when it answered the first statement."""
        self.expires_at: datetime | None = None
        """Time, by the service's clock, of its rollback if no other call comes before."""
        self._deps = deps
        self._execution = execution
        self._level = level
        self._calls: PinnedCalls | None = None
        self._seq = 0
        self._is_interrupted = False
        self._outcome: Outcome = "not_applied"
        """Of the transaction, once it has ended."""

    def left_ms(self) -> float:
        """Returns the time limit of a call that has none of its own."""
        return self._deps.left_ms()

    @property
    def total_ms(self) -> float:
        """Time limit of a rollback that has none of its own."""
        return self._deps.total_ms

    def execute(
        self,
        statements: Sequence[StatementInput],
        *,
        timeout_ms: float | None = None,
        headers: Mapping[str, str] = _NO_HEADERS,
    ) -> Steps[tuple[WireResult, ...]]:
        """Runs statements in one round trip.

        After a failed statement only ROLLBACK TO a savepoint or ``rollback()`` works, as in
        PostgreSQL. If the first statement fails, or a conflict occurs, the transaction is over.
        """
        return self._call(self._execute(statements, timeout_ms, headers))

    def _execute(
        self, statements: Sequence[StatementInput], timeout_ms: float | None, headers: Mapping[str, str]
    ) -> Steps[tuple[WireResult, ...]]:
        deps = self._deps
        wire = statements_body(statements)
        call = CallOptions(deps.left_ms() if timeout_ms is None else timeout_ms, headers)
        answer: OpenTransactionResponse
        if self._calls is None:
            event, call = self._event("begin", statements, call)
            body = {"id": self.id, "statements": wire, **execution_body(self._execution)}
            begun = begin(deps.service, cast("BeginRequest", body), call)
            pin, answer = yield from deps.service.observed(event, begun)
            self._calls = PinnedCalls(deps.service, self.id, pin)
        else:
            event, call = self._event("statements", statements, call)
            steps = self._numbered(self._calls.statements({"seq": self._seq + 1, "statements": wire}, call))
            answer = yield from deps.service.observed(event, steps)
        self.expires_at = _instant(answer.expires_at)
        if not self.is_answered:
            self.is_answered = True
            self.epoch = None if answer.marks is None else answer.marks.epoch
        deps.learn_marks(answer.marks)
        return answer.results

    def commit(
        self,
        ack: AckOptions,
        *,
        statements: Sequence[StatementInput] = (),
        timeout_ms: float | None = None,
        headers: Mapping[str, str] = _NO_HEADERS,
    ) -> Steps[_C]:
        """Runs the statements and commits; with ``ack="durable"`` the service waits for durability.

        After a lost answer it finds out the outcome: it never commits twice or under another id.
        ``exposure_limit`` leaves the transaction open: commit again, or roll back. Once committed,
        it returns the same answer again.
        """
        if self.committed is not None:
            return self.committed
        steps = self._commit(ack, statements, timeout_ms, headers)
        return (yield from self._call(steps, interrupted="unknown"))

    def _commit(
        self,
        ack: AckOptions,
        statements: Sequence[StatementInput],
        timeout_ms: float | None,
        headers: Mapping[str, str],
    ) -> Steps[_C]:
        deps = self._deps
        level = ack.level or self._level or deps.level
        call = CallOptions(deps.left_ms() if timeout_ms is None else timeout_ms, headers)
        limits = AckLimits(level=level, wait_ms=deps.wait_ms, total_ms=call.timeout_ms)
        sought = Sought.of(self.id, ack, limits, read_only=self._execution.read_only is True)
        event, call = self._event("commit", statements, call, level)
        if self._calls is None:
            # Nothing was sent yet: everything goes in one request.
            whole = transaction_body(
                statements or (Statement("SELECT"),),
                transaction_id=self.id,
                execution=self._execution,
                ack=ack,
                limits=limits,
            )
            steps = deps.service.transaction(whole, sought, call)
        else:
            body = cast("CommitRequest", {"seq": self._seq + 1, **ack_body(ack, limits)})
            if statements:
                body["statements"] = statements_body(statements)
            steps = self._numbered(self._calls.commit(body, sought, call))
        response = yield from deps.service.observed(event, steps, lambda answer: answer.state)
        self.is_open = False
        self._outcome = "applied"
        self.committed = deps.committed(response, level)
        return self.committed

    def rollback(self, *, timeout_ms: float | None = None, headers: Mapping[str, str] = _NO_HEADERS) -> Steps[None]:
        """Rolls back the transaction.

        Also returns if the service cannot be reached: the transaction never commits and ends by
        itself at ``expires_at``. Does nothing if it has ended, and raises if it has committed.
        """
        if self.committed is not None:
            raise self._ended("the transaction has committed and cannot be rolled back")
        was_open, self.is_open = self.is_open, False
        was_interrupted, self._is_interrupted = self._is_interrupted, False
        if self._calls is None or not (was_open or was_interrupted):
            return
        usual_ms = self._deps.total_ms if timeout_ms is None else timeout_ms
        limit_ms = usual_ms if was_open else min(usual_ms, _INTERRUPTED_ROLLBACK_MS)
        try:
            # The service itself ends a transaction that was cut off during a call; this one was cut
            # off between two.
            yield from self._roll_back(self._calls, CallOptions(limit_ms, headers))
        except HighwaterError as error:
            fields = {"id": self.id, "error": error}
            self._deps.service.deps.runtime.log("debug", "rollback not answered", fields)

    def _roll_back(self, calls: PinnedCalls, call: CallOptions) -> Steps[None]:
        try:
            yield from calls.rollback(self._seq + 1, call)
        except HighwaterError as error:
            if error.code != "out_of_sequence" or error.open is not True:
                raise
            # The gateway has counted a call that this client has not.
            yield from calls.rollback(self._seq + 2, call)

    def dispose(self) -> Steps[None]:
        """Rolls back an open transaction, for any reason. Never raises because of its outcome."""
        if self.committed is None:
            yield from self.rollback()

    def _event(
        self,
        kind: EventType,
        statements: Sequence[StatementInput],
        call: CallOptions,
        level: str | None = None,
    ) -> tuple[ObservedEvent, CallOptions]:
        """Returns the event of a call, and the call with the headers that observers add."""
        # Observers write to the same dictionary that the call is sent with.
        headers = dict(call.headers)
        event = ObservedEvent(type=kind, id=self.id, level=level, statements=len(statements), headers=headers)
        return event, CallOptions(call.timeout_ms, headers)

    def _ended(self, message: str) -> HighwaterError:
        is_unknown = self._outcome == "unknown"
        return InvalidRequestError(
            message,
            code="transaction_ended",
            outcome=self._outcome,
            retry="resolve_outcome" if is_unknown else "never",
            transaction_id=self.id if is_unknown else None,
            cause=self.failure,
        )

    def _call(self, steps: Steps[_T], *, interrupted: Outcome = "not_applied") -> Steps[_T]:
        """Runs a call and keeps an error that ends the transaction as its failure.

        ``interrupted`` is the outcome when the call was cut off.
        """
        if not self.is_open:
            steps.close()
            raise self._ended("the transaction has ended; begin a new one")
        try:
            return (yield from steps)
        except BaseException as error:
            self._deps.failed(error)
            if not _is_still_open(error, is_begun=self._calls is not None):
                self.is_open = False
                self.failure = error
                if self._outcome != "applied":
                    self._outcome = error.outcome if isinstance(error, HighwaterError) else interrupted
                self._is_interrupted = not isinstance(error, HighwaterError)
            raise

    def _numbered(self, steps: Steps[_T]) -> Steps[_T]:
        """Counts a call only if it was run: one that was refused before has not used its number."""
        try:
            answer = yield from steps
        except HighwaterError as error:
            if error.open is True and error.retry != "wait" and error.code != "out_of_sequence":
                self._seq += 1
            raise
        self._seq += 1
        return answer


def _is_still_open(error: BaseException, *, is_begun: bool) -> bool:
    """Whether the transaction goes on after the error.

    It does if the service says so, or refused the call without looking at it.
    """
    if not isinstance(error, HighwaterError):
        return False
    if error.open is not None:
        return error.open
    if error.code in {"invalid_parameter", "invalid_statement"}:
        return True
    return is_begun and error.retry == "never" and error.outcome == "not_applied"


def _instant(text: str) -> datetime | None:
    try:
        return datetime.fromisoformat(text)
    except ValueError:
        return None
