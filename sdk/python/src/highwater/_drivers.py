"""Performs the effects of the core's generators: one driver for threads, one for event loops.

The drivers also know whether a commit was sent, and whether `close` must wait for a call.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterator
from concurrent.futures import CancelledError
from contextlib import contextmanager
from typing import TypeVar

from ._core.effects import AwaitDurable, CallBody, Effect, Send, Steps
from ._core.errors import HighwaterError, unknown_outcome
from ._promise import BasePromise

T = TypeVar("T")


def explain(error: BaseException, cause: HighwaterError) -> None:
    """Notes on a cancellation or an interrupt what has become of the transaction.

    The exception itself passes unchanged, and so do all others.
    """
    if isinstance(error, Exception) and not isinstance(error, CancelledError):
        return
    error.add_note(f"highwater: {cause.message}")
    if error.__cause__ is None:
        error.__cause__ = cause


@contextmanager
def explained(committed: BasePromise) -> Iterator[None]:
    """Notes on a cancellation or an interrupt in the block that the transaction has committed."""
    try:
        yield
    except BaseException as error:
        explain(error, committed.still_pending())
        raise


class Outcome:
    """Notes on a cancellation or an interrupt that the commit in progress may be applied.

    After its answer it notes that the transaction has committed.
    """

    __slots__ = ("_committed", "_id", "_is_sent")

    def __init__(self, transaction_id: str | None = None) -> None:
        self._id = transaction_id
        self._is_sent = False
        self._committed: BasePromise | None = None

    def begins(self, effect: Effect) -> None:
        """Records the effect that is performed next."""
        match effect:
            case Send():
                self._is_sent = self._is_sent or effect.url.endswith(("/v1/transactions", "/commit"))
            case CallBody(transaction):
                self._id, self._is_sent, self._committed = transaction.id, False, None
            case AwaitDurable(committed):
                self._committed = committed

    def failed(self, error: BaseException) -> None:
        """Records what performing it raised."""
        if self._committed is not None:
            explain(error, self._committed.still_pending())
        elif self._id is not None and self._is_sent:
            explain(error, unknown_outcome(self._id))


def drive(steps: Steps[T], perform: Callable[[Effect], object], outcome: Outcome) -> T:
    try:
        effect = next(steps)
        while True:
            outcome.begins(effect)
            try:
                result = perform(effect)
            except BaseException as error:  # noqa: BLE001 - the call handles interrupts too
                outcome.failed(error)
                effect = steps.throw(error)
            else:
                effect = steps.send(result)
    except StopIteration as end:
        value: T = end.value
        return value


async def drive_async(steps: Steps[T], perform: Callable[[Effect], Awaitable[object]], outcome: Outcome) -> T:
    try:
        effect = next(steps)
        while True:
            outcome.begins(effect)
            try:
                result = await perform(effect)
            except BaseException as error:  # noqa: BLE001 - the call handles cancellation too
                outcome.failed(error)
                effect = steps.throw(error)
            else:
                effect = steps.send(result)
    except StopIteration as end:
        value: T = end.value
        return value


class Visit:
    """A call that `close` waits for.

    It may leave and return, unless the client was closed meanwhile.
    """

    __slots__ = ("_enter", "_is_in", "_leave")

    def __init__(self, enter: Callable[[], None], leave: Callable[[], None]) -> None:
        self._enter = enter
        self._leave = leave
        self._is_in = False

    def enter(self) -> None:
        """Begins or resumes the visit. Errors: `client_closed`."""
        if not self._is_in:
            self._enter()
            self._is_in = True

    def leave(self) -> None:
        if self._is_in:
            self._is_in = False
            self._leave()

    def __enter__(self) -> None:
        self.enter()

    def __exit__(self, *_: object) -> None:
        self.leave()
