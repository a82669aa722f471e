"""The calls of the v1 protocol with their retries, as generators.

Owns which endpoint gets each attempt, and the time limit of all attempts together. ``retry`` makes
the decisions; ``pinned`` has the calls of open transactions.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Final, Generic, TypeVar

from .effects import HttpResponse, NoResponse, Send, Steps, send, sleep
from .endpoints import EndpointPool
from .errors import HighwaterError, answer_error, bad_answer, connection_error, unknown_outcome
from .observer import ObservedEnd, ObservedEvent, Observer, notify
from .reading import (
    read_tickets_response,
    read_transaction_response,
    read_transaction_status,
    read_verdicts_response,
)
from .requests import AckLimits, AckOptions, encode, granted_wait_ms, status_path
from .retry import Decision, Situation, decide, full_jitter, is_endpoint_fault, is_settled, resolve, retry_after
from .runtime import Runtime
from .tuning import Tuning
from .wire import TransactionResponse, TransactionStatus, Verdict, VerdictsResponse, WireError
from .wire_types import Ack, TransactionRequest, VerdictsRequest

SESSION_HEADER: Final = "highwater-session"
_NO_HEADERS: Final[Mapping[str, str]] = {}
_SETTLE_MS: Final = 10_000.0
"""How long the service may take to settle an id."""
_RUNS_MAX: Final = 10
"""How often conflicting statements run, unless the caller says so."""
_T = TypeVar("_T")


@dataclass(frozen=True, slots=True, kw_only=True)
class ServiceDeps:
    runtime: Runtime
    gateways: EndpointPool
    trackers: EndpointPool
    tuning: Tuning
    headers: Mapping[str, str]
    request_timeout_ms: float
    observer: Observer | None = None


@dataclass(slots=True)
class CallOptions:
    timeout_ms: float
    """Time limit for all attempts."""
    headers: Mapping[str, str] = field(default_factory=dict)
    """Headers besides the client's own, such as those of a trace."""
    max_attempts: int = _RUNS_MAX
    """How often a one-shot transaction may be sent, if conflicts undo it."""


@dataclass(slots=True)
class Pin:
    """The gateway of an open transaction, and the header that leads there through a proxy."""

    url: str
    session: str


@dataclass(slots=True, kw_only=True)
class Call(Generic[_T]):
    pool: EndpointPool
    path: str
    read: Callable[[object], _T]
    """Reads an answer, or raises WireError."""
    body: bytes | None = None
    """Body of a POST; None for a GET."""
    held_ms: float = 0.0
    """How long the service may hold the request before it answers."""
    url: str | None = None
    """The only suitable endpoint. Default: the best one."""
    session: str | None = None
    id: str | None = None
    """Id of the transaction."""
    on_answer: Callable[[Pin], None] | None = None


@dataclass(slots=True, kw_only=True)
class Sought:
    """What to look for when the answer to a commit was lost."""

    id: str
    ack: Ack | None = None
    level: str | None = None
    max_wait_ms: float = 0
    read_only: bool = False

    @classmethod
    def of(cls, transaction_id: str, ack: AckOptions, limits: AckLimits, *, read_only: bool = False) -> Sought:
        """Returns what to look for after a commit with these options.

        Only an answer that waits for a level names one: the client's default may not exist there.
        """
        level = limits.level if ack.ack == "durable" else None
        max_wait_ms = granted_wait_ms(ack, limits)
        return cls(id=transaction_id, ack=ack.ack, level=level, max_wait_ms=max_wait_ms, read_only=read_only)

    @property
    def held_ms(self) -> float:
        """How long the service may hold the answer to the commit."""
        return self.max_wait_ms if self.ack == "durable" else 0.0


@dataclass(slots=True)
class Budget:
    """The time and the attempts that a user's call has spent."""

    deadline_ms: float
    headers: Mapping[str, str] = field(default_factory=dict)
    attempt: int = 0
    failed: tuple[str, HighwaterError] | None = None
    """Where the last attempt failed, and how."""


class Service:
    def __init__(self, deps: ServiceDeps) -> None:
        self.deps: Final = deps

    def transaction(self, body: TransactionRequest, sought: Sought, options: CallOptions) -> Steps[TransactionResponse]:
        """Sends a one-shot transaction with the same id and body until it is settled.

        The gateway commits an id once, so a lost reply only costs a resend, and so does a conflict.

        Errors: every typed error of the service; ``outcome_unknown`` if the time ends and an
        attempt may have been applied.
        """
        call = Call(
            pool=self.deps.gateways,
            path="/v1/transactions",
            body=encode(body),
            held_ms=sought.held_ms,
            id=sought.id,
            read=read_transaction_response,
        )
        budget = self.budget(options)
        uncertain = False
        while True:
            answer = yield from self.attempt(call, budget)
            if not isinstance(answer, HighwaterError):
                return answer
            uncertain = uncertain or answer.outcome != "not_applied"
            repeatable = budget.attempt < options.max_attempts
            decision = self.decide(answer, call.pool, budget, uncertain=uncertain, repeatable=repeatable)
            if decision.action == "throw":
                raise answer
            if decision.action == "give_up":
                raise unknown_outcome(sought.id, answer) if uncertain else answer
            yield from sleep(decision.delay_ms)
            if decision.action == "send":
                continue
            definite = answer.retry in {"never", "transaction"}
            resolved = yield from self.resolve(sought, budget, held=answer, definite=definite)
            if resolved is not None:
                return resolved

    def resolve(
        self, sought: Sought, budget: Budget, *, held: HighwaterError, definite: bool
    ) -> Steps[TransactionResponse | None]:
        """Asks for the state of an id until it is settled.

        Returns None if it should be sent again.
        """
        cause = held
        while True:
            wait_ms = min(sought.held_ms, self.remaining_ms(budget))
            call = self._status_call(sought.id, wait_ms=wait_ms, level=sought.level)
            status = yield from self.attempt(call, budget)
            if isinstance(status, HighwaterError):
                cause = status
                decision = self.decide(status, call.pool, budget, uncertain=False)
                if decision.action in {"throw", "give_up"}:
                    raise unknown_outcome(sought.id, cause)
                delay_ms = decision.delay_ms
            else:
                resolution = resolve(status, held if definite else None)
                if resolution.error is not None:
                    raise resolution.error
                if resolution.action == "adopt":
                    return _adopt(status, sought)
                if resolution.action == "send":
                    return None
                if resolution.action == "settle":
                    yield from self._settle(sought, budget, held)
                delay_ms = self.backoff_ms(budget.attempt)
            yield from self.pause(delay_ms, sought.id, budget, cause)

    def _settle(self, sought: Sought, budget: Budget, held: HighwaterError) -> Steps[None]:
        """Settles the id, so that no copy of the request can commit, and raises ``held``.

        Returns if the id must be looked up again.

        Errors: ``outcome_unknown`` if the id cannot be settled.
        """
        if sought.read_only:
            # There is nothing that a copy could apply.
            raise held
        answer = yield from self._ask("/v1/tickets", {"transactions": [{"id": sought.id}]}, budget)
        if not isinstance(answer, HighwaterError):
            # Without a receipt, the end of a ticket settles the id.
            end = {"ticket": answer.get("ticket"), "ended": "commit"}
            answer = yield from self._ask("/v1/tickets/ends", {"tickets": [end]}, budget)
        if not isinstance(answer, HighwaterError):
            return
        if answer.code == "transaction_aborted":
            raise held
        if answer.retry == "never" and not is_settled(answer):
            raise unknown_outcome(sought.id, held)

    def _ask(
        self, path: str, body: Mapping[str, object], budget: Budget
    ) -> Steps[Mapping[str, object] | HighwaterError]:
        """Sends a list of one item. Returns the item's own answer, or the error of either."""
        call = Call(
            pool=self.deps.gateways, path=path, body=encode(body), held_ms=_SETTLE_MS, read=read_tickets_response
        )
        answers = yield from self.attempt(call, budget)
        if isinstance(answers, HighwaterError):
            return answers
        status, answer = answers[0] if answers else (0, {})
        return answer if status == 200 else answer_error(status, answer)

    def pause(self, delay_ms: float, transaction_id: str, budget: Budget, cause: HighwaterError) -> Steps[None]:
        """Sleeps; without time for another attempt it raises, and the outcome stays unknown."""
        if delay_ms + self.deps.tuning.attempt_min_ms > self.remaining_ms(budget):
            raise unknown_outcome(transaction_id, cause)
        yield from sleep(delay_ms)

    def backoff_ms(self, attempt: int) -> float:
        tuning = self.deps.tuning
        return full_jitter(
            attempt, base_ms=tuning.backoff_base_ms, max_ms=tuning.backoff_max_ms, random=self.deps.runtime.random()
        )

    def status(
        self, transaction_id: str, options: CallOptions, *, wait_ms: float = 0.0, level: str | None = None
    ) -> Steps[TransactionStatus]:
        """Sends ``GET /v1/transactions/{id}``.

        The gateway holds it for ``wait_ms``, or until the id is settled at the level.
        """
        return self.read(self._status_call(transaction_id, wait_ms=wait_ms, level=level), options)

    def verdicts(
        self, tokens: list[str], options: CallOptions, *, level: str | None, wait_ms: float = 0.0
    ) -> Steps[VerdictsResponse]:
        """Asks for verdicts in one request, for at most ``TOKENS_PER_REQUEST_MAX`` tokens.

        If a tracker is blind, the next one is asked about open promises.
        """
        body: VerdictsRequest = {"tokens": tokens, "waitMs": math.ceil(wait_ms)}
        if level is not None:
            body["level"] = level
        trackers, monotonic_ms = self.deps.trackers, self.deps.runtime.monotonic_ms
        until_ms = monotonic_ms() + options.timeout_ms
        asked = 0
        pins: list[Pin] = []
        while True:
            call = Call(
                pool=trackers,
                path="/v1/durability/verdicts",
                body=encode(body),
                held_ms=wait_ms,
                read=read_verdicts_response,
                on_answer=pins.append,
            )
            left_ms = max(0.0, until_ms - monotonic_ms())
            answer = yield from self.read(call, replace(options, timeout_ms=left_ms))
            if not answer.blind:
                return answer
            asked += 1
            trackers.failed(pins[-1].url, monotonic_ms())
            is_open = any(
                isinstance(each, Verdict) and each.verdict in ("pending", "unknown") for each in answer.verdicts
            )
            if not is_open or asked >= trackers.size or not trackers.has_awake(monotonic_ms()):
                return answer

    def _status_call(self, transaction_id: str, *, wait_ms: float, level: str | None) -> Call[TransactionStatus]:
        seconds = max(0, math.ceil(wait_ms / 1_000))
        return Call(
            pool=self.deps.gateways,
            path=status_path(transaction_id, wait_seconds=seconds, level=level),
            held_ms=seconds * 1_000,
            id=transaction_id,
            read=read_transaction_status,
        )

    def read(self, call: Call[_T], options: CallOptions) -> Steps[_T]:
        """Repeats a call that has the same effect each time, until it succeeds or is refused."""
        budget = self.budget(options)
        while True:
            answer = yield from self.attempt(call, budget)
            if not isinstance(answer, HighwaterError):
                return answer
            decision = self.decide(answer, call.pool, budget, uncertain=False)
            if decision.action in {"throw", "give_up"}:
                raise answer
            yield from sleep(decision.delay_ms)

    def attempt(self, call: Call[_T], budget: Budget) -> Steps[_T | HighwaterError]:
        """Makes one attempt on the best endpoint. Returns a failure instead of raising it."""
        deps = self.deps
        pool = call.pool
        base = call.url or pool.pick(deps.runtime.monotonic_ms())
        if budget.failed is not None:
            self._tell_retry(call, budget, *budget.failed)
        budget.attempt += 1
        # A request that is held on purpose gets half of the usual time in addition.
        usual_ms = max(deps.request_timeout_ms, call.held_ms + deps.request_timeout_ms / 2)
        timeout = min(usual_ms, self.remaining_ms(budget)) / 1_000
        reply = yield from send(
            Send(
                method="GET" if call.body is None else "POST",
                url=f"{base}{call.path}",
                headers=self._headers(call, budget),
                body=call.body,
                timeout=timeout,
                probe=deps.tuning.probe_ms / 1_000 if pool.size > 1 else None,
                # Only this gateway has the open transaction, and rolls it back when the connection
                # closes.
                patience=1 if call.url is None else deps.tuning.pinned_patience,
            )
        )
        result = read_reply(reply, call.read, wall_ms=deps.runtime.wall_ms(), path=call.path, timeout=timeout)
        if isinstance(result, HighwaterError):
            if is_endpoint_fault(result):
                pool.failed(base, deps.runtime.monotonic_ms())
            else:
                pool.succeeded(base)
            fields = {"url": base, "path": call.path, "attempt": budget.attempt, "error": result}
            deps.runtime.log("debug", "attempt failed", fields)
            budget.failed = (f"{base}{call.path}", result)
            return result
        budget.failed = None
        pool.succeeded(base)
        if call.on_answer is not None and isinstance(reply, HttpResponse):
            call.on_answer(Pin(base, reply.headers.get(SESSION_HEADER, "")))
        return result

    def _tell_retry(self, call: Call[_T], budget: Budget, url: str, error: HighwaterError) -> None:
        if self.deps.observer is not None:
            event = ObservedEvent(type="retry", id=call.id, url=url, attempt=budget.attempt, error=error)
            notify(self.deps.observer, event)

    def observed(
        self, event: ObservedEvent, steps: Steps[_T], state_of: Callable[[_T], str] = lambda _: "active"
    ) -> Steps[_T]:
        """Runs the call and reports it to the observer."""
        ended = notify(self.deps.observer, event)
        try:
            result = yield from steps
        except BaseException as error:
            ended(ObservedEnd(error=error))
            raise
        ended(ObservedEnd(state=state_of(result)))
        return result

    def _headers(self, call: Call[_T], budget: Budget) -> Mapping[str, str]:
        headers = {**self.deps.headers, **budget.headers, "accept": "application/json"}
        if call.body is not None:
            headers["content-type"] = "application/json"
        if call.session is not None:
            headers[SESSION_HEADER] = call.session
        return headers

    def decide(
        self, error: HighwaterError, pool: EndpointPool, budget: Budget, *, uncertain: bool, repeatable: bool = False
    ) -> Decision:
        runtime = self.deps.runtime
        situation = Situation(
            attempt=budget.attempt - 1,
            remaining_ms=self.remaining_ms(budget),
            uncertain=uncertain,
            elsewhere=budget.attempt < pool.size and pool.has_awake(runtime.monotonic_ms()),
            random=runtime.random(),
            repeatable=repeatable,
        )
        return decide(error, situation, self.deps.tuning)

    def budget(self, options: CallOptions) -> Budget:
        return Budget(self.deps.runtime.monotonic_ms() + options.timeout_ms, options.headers)

    def remaining_ms(self, budget: Budget) -> float:
        return max(0.0, budget.deadline_ms - self.deps.runtime.monotonic_ms())


def read_reply(
    reply: HttpResponse | NoResponse, read: Callable[[object], _T], *, wall_ms: float, path: str, timeout: float
) -> _T | HighwaterError:
    """Returns the answer as the call reads it, or the typed error."""
    if isinstance(reply, NoResponse):
        if reply.kind == "timeout":
            message = f"no answer within {timeout:g} s"
            return connection_error("request_timeout", message, sent=True, cause=reply.cause)
        sent = reply.kind != "refused"
        return connection_error("connection_failed", f"no answer to {path}", sent=sent, cause=reply.cause)
    body = parsed(reply.body)
    if not 200 <= reply.status < 300:
        return answer_error(reply.status, body, retry_after(reply.headers.get("retry-after"), wall_ms))
    try:
        return read(body)
    except WireError as error:
        return bad_answer(f"the answer to {path} does not have the expected shape", error)


def parsed(body: bytes) -> object:
    """Returns the content of a JSON body; None if it is not JSON."""
    try:
        return json.loads(body)
    except (ValueError, RecursionError):
        return None


def _adopt(status: TransactionStatus, sought: Sought) -> TransactionResponse:
    """Makes the answer of a committed transaction, as far as its state shows."""
    if status.token is None or status.position is None:
        raise bad_answer("the status of a committed transaction has no token")
    is_pending = sought.ack == "durable" and status.state == "committed"
    return TransactionResponse(
        id=status.id,
        state="pending" if is_pending else status.state,
        token=status.token,
        position=status.position,
        results=None,
        level=status.level or sought.level,
        achieved=status.achieved,
        marks=status.marks,
        replayed=True,
    )
