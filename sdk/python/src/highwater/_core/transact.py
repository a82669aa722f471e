"""Runs a body of code as one transaction, and again under a new id while conflicts undo it.

Owns when it may run again: only if the earlier attempt can never commit.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final, cast

from .effects import AwaitDurable, CallBody, Raised, Returned, Steps, sleep
from .errors import HighwaterError
from .interactive import InteractiveCore
from .observer import ObservedEvent, Observer, notify
from .requests import AckOptions
from .retry import full_jitter
from .runtime import Runtime
from .tuning import Tuning

MAX_ATTEMPTS: Final = 10


@dataclass(frozen=True, slots=True, kw_only=True)
class TransactDeps:
    runtime: Runtime
    tuning: Tuning
    observer: Observer | None = None
    begin: Callable[[Callable[[], float]], InteractiveCore[Any]]
    """Makes a new transaction whose calls take their time limit from the function."""


def transact(
    deps: TransactDeps, ack: AckOptions, *, timeout_ms: float, max_attempts: int = MAX_ATTEMPTS
) -> Steps[object]:
    """Runs the body until one run has committed, and with ``ack="durable"`` is durable.

    Returns the value of that run. ``timeout_ms`` limits all runs together, ``max_attempts`` their
    number.

    Errors: the body's own, after a rollback; ``UnknownOutcomeError``: a run that may have committed
    is not repeated.
    """
    runtime, tuning = deps.runtime, deps.tuning
    deadline_ms = runtime.monotonic_ms() + timeout_ms

    def left_ms() -> float:
        return max(0.0, deadline_ms - runtime.monotonic_ms())

    attempt = 0
    while True:
        attempt += 1
        tx = deps.begin(left_ms)
        conflict: BaseException | None = None
        is_safe = False
        try:
            value = yield from _run(tx)
            is_safe = tx.is_open and ack.ack == "durable"
            try:
                yield from _finish(tx, ack, left_ms)
            except BaseException as error:
                conflict = error
                raise
            return value
        except GeneratorExit:
            raise
        except BaseException as error:
            # Also after an interrupt or a cancellation: an open transaction would hold its locks
            # until it expires.
            yield from tx.dispose()
            conflict = conflict or tx.failure
            delay_ms = full_jitter(
                attempt, base_ms=tuning.conflict_base_ms, max_ms=tuning.backoff_max_ms, random=runtime.random()
            )
            # A lost one may be brought back by the service, unless its commit waits for durability.
            is_undone = (
                isinstance(conflict, HighwaterError)
                and conflict.retry == "transaction"
                and (is_safe or conflict.code != "transaction_lost")
            )
            is_interrupted = not isinstance(error, Exception)
            is_late = delay_ms + tuning.attempt_min_ms > left_ms()
            if not is_undone or is_interrupted or attempt >= max_attempts or is_late:
                raise
            notify(deps.observer, ObservedEvent(type="retry", id=tx.id, attempt=attempt, error=conflict))
        yield from sleep(delay_ms)


def _run(tx: InteractiveCore[Any]) -> Steps[object]:
    outcome = cast("Returned | Raised", (yield CallBody(tx)))
    if isinstance(outcome, Raised):
        raise outcome.error
    return outcome.value


def _finish(tx: InteractiveCore[Any], ack: AckOptions, left_ms: Callable[[], float]) -> Steps[None]:
    if tx.is_open:
        yield from tx.commit(ack, timeout_ms=left_ms())
    elif tx.failure is not None:
        # Whatever the body did with the error that ended it: none of it took effect.
        raise tx.failure
    # The answer may have come at the end of the service's wait.
    wait_ms = ack.wait_ms(left_ms())
    if wait_ms is not None and tx.committed is not None:
        yield AwaitDurable(tx.committed, wait_ms / 1_000)
