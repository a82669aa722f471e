"""Runs a body of code in a session, and again in a new session while conflicts undo it."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Awaitable, Callable, Iterator
from contextlib import AbstractAsyncContextManager, AbstractContextManager
from dataclasses import dataclass
from typing import Any, Final, TypeVar, overload

from sqlalchemy.exc import DBAPIError
from sqlalchemy.ext.asyncio import AsyncSession
from sqlalchemy.orm import Session

from .. import dbapi
from .._core.errors import DurabilityTimeoutError, HighwaterError, TransactionLostError
from .._core.requests import OnTimeout
from .._core.retry import full_jitter
from .._core.runtime import DEFAULT_RUNTIME
from .._core.transact import MAX_ATTEMPTS
from .._core.tuning import DEFAULT_TUNING
from .._core.wire_types import Ack
from ._durability import durable
from ._memory import Memory, memory_of

S = TypeVar("S", bound=Session)
A = TypeVar("A", bound=AsyncSession)
R = TypeVar("R")

TIMEOUT: Final = 30.0


@overload
def transact(
    sessions: Callable[[], AbstractContextManager[S]],
    body: Callable[[S], R],
    *,
    ack: Ack = "commit",
    on_timeout: OnTimeout = "error",
    level: str | None = None,
    max_attempts: int = MAX_ATTEMPTS,
    timeout: float = TIMEOUT,
) -> R: ...


@overload
def transact(
    sessions: Callable[[], AbstractAsyncContextManager[A]],
    body: Callable[[A], Awaitable[R]],
    *,
    ack: Ack = "commit",
    on_timeout: OnTimeout = "error",
    level: str | None = None,
    max_attempts: int = MAX_ATTEMPTS,
    timeout: float = TIMEOUT,
) -> Awaitable[R]: ...


def transact(
    sessions: Callable[[], Any],
    body: Callable[[Any], Any],
    *,
    ack: Ack = "commit",
    on_timeout: OnTimeout = "error",
    level: str | None = None,
    max_attempts: int = MAX_ATTEMPTS,
    timeout: float = TIMEOUT,
) -> Any:
    """Runs the body in a new session, commits it and returns what the body returned.

    For async sessions, `await` the result. After a conflict the body runs again in another session:
    with jittered delays, for at most `timeout` seconds and `max_attempts` runs. Exactly one run
    takes effect: nothing runs again if one of several engines has committed, or the body has
    committed itself. The body must have no effects outside the transaction. With `ack="durable"`
    this returns when the transaction is durable at the level; a loss before that also causes
    another run. With `ack="commit"` a loss is raised: the service may bring such a transaction
    back.

    Args:
        sessions: A `sessionmaker` or an `async_sessionmaker`, or any function that returns a
            session to use as a context manager.
        body: Function that receives the session. This call returns its return value.
        ack: When to return: at the commit, or when durable.
        on_timeout: What ends the wait of `ack="durable"` without durability:
            `DurabilityTimeoutError`, or with `pending` the return.
        level: Level for `ack="durable"`. Default: the client's.
        max_attempts: Maximum number of runs of the body.
        timeout: Time limit for all runs, in seconds.

    Errors: the body's own, after a rollback. An `OperationalError` whose `orig.outcome` is
    `unknown` is raised without another run: the transaction may have committed.
    """
    retries = _Retries(max_attempts, timeout)
    session = sessions()
    wait = _Wait(level, is_wanted=ack == "durable", may_be_pending=on_timeout == "pending")
    if isinstance(session, AsyncSession):
        return _transact_async(sessions, session, body, retries, wait)
    while True:
        run = _Run(memory_of(session), wait)
        try:
            with session:
                value = body(session)
                session.commit()
                with wait.ended():
                    if wait.is_wanted:
                        durable(session, level=level, timeout=retries.left)
            return value
        except Exception as error:
            delay = retries.delay_after(is_undone=run.is_undone(error))
            if delay is None:
                raise
        time.sleep(delay)
        session = sessions()


async def _transact_async(
    sessions: Callable[[], Any],
    session: AsyncSession,
    body: Callable[[Any], Awaitable[Any]],
    retries: _Retries,
    wait: _Wait,
) -> Any:
    while True:
        run = _Run(memory_of(session), wait)
        try:
            async with session:
                value = await body(session)
                await session.commit()
                with wait.ended():
                    if wait.is_wanted:
                        await durable(session, level=wait.level, timeout=retries.left)
            return value
        except Exception as error:
            delay = retries.delay_after(is_undone=run.is_undone(error))
            if delay is None:
                raise
        await asyncio.sleep(delay)
        session = sessions()


@dataclass(frozen=True, slots=True)
class _Wait:
    """The wait for durability after a commit."""

    level: str | None
    is_wanted: bool
    may_be_pending: bool

    @property
    def commit(self) -> dict[str, object]:
        """Settings of the commit, which does not wait itself. The service learns who does."""
        if not self.is_wanted:
            return {}
        return {"ack": "durable", "max_wait": 0.0, **({} if self.level is None else {"level": self.level})}

    @contextlib.contextmanager
    def ended(self) -> Iterator[None]:
        """Lets the wait end without durability, if the caller allows it."""
        try:
            yield
        except DurabilityTimeoutError:
            if not self.may_be_pending:
                raise


class _Retries:
    def __init__(self, max_attempts: int, timeout: float) -> None:
        self._max_attempts = max_attempts
        self._ends = time.monotonic() + timeout
        self._attempt = 0

    @property
    def left(self) -> float:
        return max(0.0, self._ends - time.monotonic())

    def delay_after(self, *, is_undone: bool) -> float | None:
        """Returns the seconds before the next run, or None if there is none."""
        self._attempt += 1
        delay_ms = full_jitter(
            self._attempt,
            base_ms=DEFAULT_TUNING.conflict_base_ms,
            max_ms=DEFAULT_TUNING.backoff_max_ms,
            random=DEFAULT_RUNTIME.random(),
        )
        is_late = (delay_ms + DEFAULT_TUNING.attempt_min_ms) / 1_000 > self.left
        return None if not is_undone or self._attempt >= self._max_attempts or is_late else delay_ms / 1_000


class _Run:
    """One run of the body: knows whether any of it took effect."""

    def __init__(self, memory: Memory, wait: _Wait) -> None:
        memory.commit = wait.commit
        self._memory = memory
        self._commits_before = memory.commits

    def is_undone(self, error: Exception) -> bool:
        memory = self._memory
        commits = memory.commits - self._commits_before
        cause = _client_error(error)
        if commits > 0:
            # Of several transactions (one per engine, or by the body itself) the others would be
            # applied twice.
            is_lost = isinstance(cause, TransactionLostError) and cause.transaction_id == memory.last.id
            return commits == 1 and is_lost and self._may_run_again(cause)
        # Whatever the body did with the error that ended its transaction.
        return self._may_run_again(cause if memory.failure is None else _client_error(memory.failure))

    def _may_run_again(self, cause: HighwaterError | None) -> bool:
        """The service may bring back what it lost, unless its commit waited for durability."""
        is_safe = self._memory.connection is not None and self._memory.connection.is_safe
        return (
            cause is not None
            and cause.retry == "transaction"
            and (is_safe or not isinstance(cause, TransactionLostError))
        )


def _client_error(error: BaseException) -> HighwaterError | None:
    inner: BaseException | None = error
    if isinstance(inner, DBAPIError):
        inner = inner.orig
    if isinstance(inner, dbapi.Error):
        inner = inner.orig
    return inner if isinstance(inner, HighwaterError) else None
