"""An interactive transaction as both clients hold it; how its calls are driven is theirs."""

from __future__ import annotations

import os
from collections.abc import Sequence
from datetime import datetime
from typing import Generic, TypeVar

from ._core.effects import Steps
from ._core.errors import ConnectionError, connection_error, usage_error  # noqa: A004 - the name in every SDK
from ._core.interactive import InteractiveCore
from ._core.requests import AckOptions
from ._core.sql import StatementInput
from ._transaction import BaseTransaction
from ._values import ResultDecoder, StatementResult

T = TypeVar("T", bound=BaseTransaction)

#: How long an interrupt waits for a rollback, in milliseconds. The service ends an abandoned transaction by itself.
_INTERRUPTED_ROLLBACK_MS = 2_000.0


class BaseInteractive(Generic[T]):
    """An open transaction. Nothing is sent before its first statements, which open it.

    Calls that are made at the same time run one after another, and the wait for its turn is part of a call's time. As a
    context manager it is rolled back where it is left open. After a statement that failed, only ROLLBACK TO a savepoint
    or `rollback()` helps, as in PostgreSQL; if the first statement fails, or a conflict is met, the transaction is
    over. Made by `begin` of a client, and given to the body of `transact`.
    """

    def __init__(self, core: InteractiveCore[T], decode: ResultDecoder) -> None:
        self._core = core
        self._decode = decode
        self._process = os.getpid()

    @property
    def id(self) -> str:
        """A UUIDv7; the committed transaction has the same."""
        return self._core.id

    @property
    def is_open(self) -> bool:
        """False once it was committed, rolled back, or ended by an error."""
        return self._core.is_open

    @property
    def failure(self) -> BaseException | None:
        """The error that ended it. None while it is open, and when it was committed or rolled back."""
        return self._core.failure

    @property
    def committed(self) -> T | None:
        """The committed transaction; None before the commit."""
        return self._core.committed

    @property
    def expires_at(self) -> datetime | None:
        """When the service rolls it back unless another call comes before; by its clock. None before the first."""
        return self._core.expires_at

    def _seconds(self, timeout: float | None) -> float:
        """What a call may take, with the wait for its turn."""
        return self._core.left_ms() / 1_000 if timeout is None else timeout

    def _rollback_seconds(self, timeout: float | None) -> float:
        return self._core.total_ms / 1_000 if timeout is None else timeout

    def _committed_or_raise(self) -> T:
        if self._core.committed is None:
            raise usage_error("not_committed", "the transaction has not committed; call commit() first")
        return self._core.committed

    @property
    def _is_own(self) -> bool:
        return os.getpid() == self._process

    def _check_process(self) -> None:
        """Before the lock is taken: a thread that a forked process has not got may have held it."""
        if not self._is_own:
            raise usage_error(
                "transaction_ended", "the transaction belongs to the parent process; begin another after the fork"
            )

    def _execute_steps(
        self, statements: Sequence[StatementInput], timeout: float | None
    ) -> Steps[list[StatementResult]]:
        results = yield from self._core.execute(statements, timeout_ms=milliseconds(timeout))
        return [self._decode(result) for result in results]

    def _commit_steps(self, ack: AckOptions, statements: Sequence[StatementInput], timeout: float | None) -> Steps[T]:
        return (yield from self._core.commit(ack, statements=statements, timeout_ms=milliseconds(timeout)))

    def _rollback_steps(self, timeout: float | None) -> Steps[None]:
        return self._core.rollback(timeout_ms=milliseconds(timeout))

    def _exit_steps(self, error: BaseException | None) -> Steps[None]:
        """Rolls back what was left open; an interrupt does not wait for long."""
        if self._core.committed is not None:
            return
        is_interrupt = error is not None and not isinstance(error, Exception)
        yield from self._core.rollback(timeout_ms=_INTERRUPTED_ROLLBACK_MS if is_interrupt else None)

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.id} {'open' if self.is_open else 'ended'}>"


def no_turn(cause: BaseException | None = None) -> ConnectionError:
    """Calls that were made before took all the time of this one: the transaction goes on without it."""
    message = "other calls of the transaction used up this call's timeout; nothing was sent"
    return connection_error("request_timeout", message, sent=False, cause=cause)


def milliseconds(seconds: float | None) -> float | None:
    return None if seconds is None else seconds * 1_000
