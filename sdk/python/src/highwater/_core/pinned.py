"""The calls of one open transaction.

They are numbered, go to the gateway that holds it, and are repeated there after a lost reply. A
repeated number runs nothing twice. Owns the meaning of a gateway's failure: nothing was committed,
unless a commit was on its way.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TypeVar

from .effects import Steps, sleep
from .errors import HighwaterError, connection_error, gateway_lost, state_error
from .reading import read_open_transaction_response, read_rollback_response, read_transaction_response
from .requests import encode
from .retry import is_connection_fault, is_settled
from .service import Budget, Call, CallOptions, Pin, Service, Sought
from .wire import OpenTransactionResponse, TransactionResponse
from .wire_types import BeginRequest, CommitRequest, RollbackResponse, StatementsRequest

_T = TypeVar("_T")


def begin(service: Service, body: BeginRequest, options: CallOptions) -> Steps[tuple[Pin, OpenTransactionResponse]]:
    """Opens a transaction on the best gateway.

    Errors: typed; never ``unknown``, because nothing is committed.
    """
    pins: list[Pin] = []
    call = Call(
        pool=service.deps.gateways,
        path="/v1/transactions/begin",
        body=encode(body),
        read=read_open_transaction_response,
        id=body["id"],
        on_answer=pins.append,
    )
    try:
        answer = yield from service.read(call, options)
    except HighwaterError as error:
        if error.outcome != "unknown":
            raise
        raise connection_error(error.code, error.message, sent=False, cause=error) from error
    return pins[-1], answer


class PinnedCalls:
    """The calls of one transaction that is open."""

    __slots__ = ("_id", "_pin", "_service")

    def __init__(self, service: Service, transaction_id: str, pin: Pin) -> None:
        self._service = service
        self._id = transaction_id
        self._pin = pin

    def statements(self, body: StatementsRequest, options: CallOptions) -> Steps[OpenTransactionResponse]:
        return self._step(self._call("statements", body, read_open_transaction_response), options)

    def rollback(self, seq: int, options: CallOptions) -> Steps[RollbackResponse]:
        return self._step(self._call("rollback", {"seq": seq}, read_rollback_response), options)

    def commit(self, body: CommitRequest, sought: Sought, options: CallOptions) -> Steps[TransactionResponse]:
        """Commits, once.

        A lost reply is resolved by repetition and, if the gateway is gone, by the state of the id.
        If that is unknown, the id is settled so that it never commits.

        Errors: typed; ``outcome_unknown`` if the time ends and it may have committed.
        """
        service = self._service
        attempts_max = service.deps.tuning.pinned_attempts
        budget = service.budget(options)
        call = self._call("commit", body, read_transaction_response, sought.held_ms)
        uncertain = False
        faults = 0
        while True:
            answer = yield from service.attempt(call, budget)
            if not isinstance(answer, HighwaterError):
                return answer
            # Shows that the call came to the wrong place, but nothing about calls before it.
            is_misplaced = answer.code in {"wrong_gateway", "transaction_not_open"}
            is_known = answer.open is not None and answer.outcome == "not_applied"
            # The gateway that holds the transaction is right; but a temporary refusal is no answer
            # yet.
            if not is_misplaced and (is_known or is_settled(answer)) and answer.retry != "wait":
                raise answer
            uncertain = uncertain or (not is_misplaced and answer.outcome != "not_applied")
            if not uncertain and (answer.retry == "never" or answer.code == "transaction_not_open"):
                raise gateway_lost(self._id, answer) if is_misplaced else answer
            if is_misplaced or is_connection_fault(answer):
                faults += self._weight(answer)
            decision = service.decide(answer, call.pool, budget, uncertain=False)
            is_over = decision.action in {"throw", "give_up"} or faults >= attempts_max
            if uncertain and (is_over or is_misplaced or answer.retry != "wait"):
                return (yield from self._resolve(body["seq"], sought, budget, answer))
            if is_over:
                raise gateway_lost(self._id, answer) if faults > 0 else answer
            yield from sleep(decision.delay_ms)

    def _resolve(self, seq: int, sought: Sought, budget: Budget, held: HighwaterError) -> Steps[TransactionResponse]:
        service = self._service
        # Any gateway can settle an id.
        settle = Call(
            pool=service.deps.gateways,
            path=f"/v1/transactions/{self._id}/rollback",
            body=encode({"seq": seq + 1}),
            read=read_rollback_response,
            session=self._pin.session,
            id=self._id,
        )
        while True:
            resolved = yield from service.resolve(sought, budget, held=held, definite=False)
            if resolved is not None:
                return resolved
            # The id is unknown, but its COMMIT may still be in progress. Only a settled id never
            # commits.
            answer = yield from service.attempt(settle, budget)
            if not isinstance(answer, HighwaterError):
                raise state_error(self._id, "aborted") or held
            if is_settled(answer) and answer.open is not True:
                raise answer
            yield from service.pause(service.backoff_ms(budget.attempt), self._id, budget, answer)

    def _call(
        self, name: str, body: Mapping[str, object], read: Callable[[object], _T], held_ms: float = 0.0
    ) -> Call[_T]:
        return Call(
            pool=self._service.deps.gateways,
            path=f"/v1/transactions/{self._id}/{name}",
            body=encode(body),
            held_ms=held_ms,
            read=read,
            url=self._pin.url,
            session=self._pin.session,
            id=self._id,
        )

    def _weight(self, fault: HighwaterError) -> int:
        """Returns the weight of a fault.

        A gateway that was silent for the whole time is asked only once more.
        """
        return self._service.deps.tuning.pinned_attempts - 1 if fault.code == "request_timeout" else 1

    def _step(self, call: Call[_T], options: CallOptions) -> Steps[_T]:
        """Runs a call that commits nothing: after any fault the transaction is not applied."""
        service = self._service
        budget = service.budget(options)
        faults = 0
        while True:
            answer = yield from service.attempt(call, budget)
            if not isinstance(answer, HighwaterError):
                return answer
            is_gone = answer.code == "wrong_gateway" or is_connection_fault(answer)
            if is_gone:
                faults += self._weight(answer)
            decision = service.decide(answer, call.pool, budget, uncertain=False)
            if decision.action == "send" and faults < service.deps.tuning.pinned_attempts:
                yield from sleep(decision.delay_ms)
            elif is_gone or answer.outcome == "unknown":
                raise gateway_lost(self._id, answer)
            else:
                raise answer
