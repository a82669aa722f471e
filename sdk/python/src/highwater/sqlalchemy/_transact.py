"""A body of code that runs in a session, again and in a new one for as long as conflicts undo it."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from contextlib import AbstractAsyncContextManager, AbstractContextManager
from typing import Any, Final, TypeVar, overload

from sqlalchemy.exc import DBAPIError
from sqlalchemy.ext.asyncio import AsyncSession
from sqlalchemy.orm import Session

from .. import dbapi
from .._core.errors import HighwaterError
from .._core.retry import full_jitter
from .._core.runtime import DEFAULT_RUNTIME
from .._core.transact import MAX_ATTEMPTS
from .._core.tuning import DEFAULT_TUNING
from .._core.wire import Ack
from ._durability import durable
from ._memory import memory_of

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
    level: str | None = None,
    max_attempts: int = MAX_ATTEMPTS,
    timeout: float = TIMEOUT,
) -> Awaitable[R]: ...


def transact(
    sessions: Callable[[], Any],
    body: Callable[[Any], Any],
    *,
    ack: Ack = "commit",
    level: str | None = None,
    max_attempts: int = MAX_ATTEMPTS,
    timeout: float = TIMEOUT,
) -> Any:
    """Runs the body in a new session, commits when it returns, and returns what it returned; of async ones: `await` it.

    A conflict runs it again in another session: with jitter, for `timeout` seconds in all, `max_attempts` times at
    most. Exactly one run takes effect. The body must have no effects elsewhere, and must not commit by itself. With
    `ack="durable"` this returns when the transaction is durable at the level; a loss before that runs it again, too.
    `sessions`: a `sessionmaker` or an `async_sessionmaker`, or whatever makes a session that is a context manager.
    Errors: the body's own, after a rollback. An `OperationalError` whose `orig.outcome` is `unknown` passes through:
    it may have committed.
    """
    retries = _Retries(max_attempts, timeout)
    session = sessions()
    if isinstance(session, AsyncSession):
        return _transact_async(sessions, session, body, retries, (level,) if ack == "durable" else None)
    while True:
        try:
            with session:
                value = body(session)
                session.commit()
                if ack == "durable":
                    durable(session, level=level, timeout=retries.left)
            return value
        except Exception as error:
            delay = retries.delay_after(error, memory_of(session).failure)
            if delay is None:
                raise
        time.sleep(delay)
        session = sessions()


async def _transact_async(
    sessions: Callable[[], Any],
    session: AsyncSession,
    body: Callable[[Any], Awaitable[Any]],
    retries: _Retries,
    durable_at: tuple[str | None] | None,
) -> Any:
    while True:
        try:
            async with session:
                value = await body(session)
                await session.commit()
                if durable_at is not None:
                    await durable(session, level=durable_at[0], timeout=retries.left)
            return value
        except Exception as error:
            delay = retries.delay_after(error, memory_of(session).failure)
            if delay is None:
                raise
        await asyncio.sleep(delay)
        session = sessions()


class _Retries:
    def __init__(self, max_attempts: int, timeout: float) -> None:
        self._max_attempts = max_attempts
        self._ends = time.monotonic() + timeout
        self._attempt = 0

    @property
    def left(self) -> float:
        return max(0.0, self._ends - time.monotonic())

    def delay_after(self, error: Exception, failure: BaseException | None) -> float | None:
        """Seconds before the next run, or None where there is none."""
        self._attempt += 1
        delay_ms = full_jitter(
            self._attempt,
            base_ms=DEFAULT_TUNING.conflict_base_ms,
            max_ms=DEFAULT_TUNING.backoff_max_ms,
            random=DEFAULT_RUNTIME.random(),
        )
        # Whatever the body made of the error that ended its transaction: nothing of it has happened.
        is_undone = _is_undone(error) if failure is None else _is_undone(failure)
        is_late = (delay_ms + DEFAULT_TUNING.attempt_min_ms) / 1_000 > self.left
        return None if not is_undone or self._attempt >= self._max_attempts or is_late else delay_ms / 1_000


def _is_undone(error: BaseException | None) -> bool:
    if isinstance(error, DBAPIError):
        error = error.orig
    if isinstance(error, dbapi.Error):
        error = error.orig
    return isinstance(error, HighwaterError) and error.retry == "transaction"
