"""The shared part of both clients' interactive transactions. Each client drives its own calls."""

from __future__ import annotations

import os
from collections.abc import Sequence
from datetime import datetime
from typing import Generic, TypeVar

from ._core.effects import Steps
from ._core.errors import NoAnswerError, connection_error, usage_error
from ._core.interactive import InteractiveCore
from ._core.requests import AckOptions
from ._core.sql import StatementInput
from ._options import milliseconds
from ._transaction import BaseTransaction
from ._values import ResultDecoder, StatementResult

T = TypeVar("T", bound=BaseTransaction)

#: Time limit for a rollback after an interrupt, in milliseconds. The service ends an abandoned
#: transaction itself.
_INTERRUPTED_ROLLBACK_MS = 2_000.0


class BaseInteractive(Generic[T]):
    """An interactive transaction. Its first statements open it; nothing is sent before.

    Concurrent calls run one after another, and waiting for a turn counts towards a call's time
    limit. As a context manager it rolls back a transaction that is left open. After a failed
    statement only ROLLBACK TO a savepoint or `rollback()` works, as in PostgreSQL. If the first
    statement fails, or a conflict occurs, the transaction is over. Returned by `begin` of a client
    and passed to the body of `transact`.
    """

    def __init__(self, core: InteractiveCore[T], decode: ResultDecoder) -> None:
        self._core = core
        self._decode = decode
        self._process = os.getpid()

    @property
    def id(self) -> str:
        """Id of the transaction, a UUIDv7. The committed transaction has the same id."""
        return self._core.id

    @property
    def is_open(self) -> bool:
        """False once the transaction has committed, been rolled back or been ended by an error."""
        return self._core.is_open

    @property
    def failure(self) -> BaseException | None:
        """Error that ended the transaction. None while open, and after a commit or a rollback."""
        return self._core.failure

    @property
    def committed(self) -> T | None:
        """The committed transaction; None before the commit."""
        return self._core.committed

    @property
    def expires_at(self) -> datetime | None:
        """Time at which the service rolls back the transaction if no other call comes before.

        By the service's clock. None before the first call.
        """
        return self._core.expires_at

    def _seconds(self, timeout: float | None) -> float:
        """Returns the time limit of a call, including the wait for its turn."""
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
        """Checks before the lock is taken: after a fork, a thread that is gone may hold it."""
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
        """Rolls back a transaction that was left open. After an interrupt it waits only briefly."""
        if self._core.committed is not None:
            return
        is_interrupt = error is not None and not isinstance(error, Exception)
        yield from self._core.rollback(timeout_ms=_INTERRUPTED_ROLLBACK_MS if is_interrupt else None)

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.id} {'open' if self.is_open else 'ended'}>"


def no_turn(cause: BaseException | None = None, *, is_committing: bool) -> NoAnswerError:
    """Returns the error of a call that timed out waiting for its turn; the transaction goes on.

    If one of the calls before it is a commit, the transaction may be applied.
    """
    message = "other calls of the transaction used up this call's timeout; nothing was sent"
    return connection_error("request_timeout", message, sent=is_committing, cause=cause)
