"""The promises of SQLAlchemy sessions and connections: waits, listeners and tokens."""

from __future__ import annotations

import time
from collections.abc import Callable, Coroutine
from typing import Any, overload

from .._core.errors import usage_error
from .._options import DURABLE_TIMEOUT
from .._promise import Listener
from ..aio import AsyncSession as AsyncClientSession
from ..aio import AsyncTransaction
from ..client import Transaction
from ._bridge import await_
from ._memory import AsyncHolder, Holder, Memory, SyncHolder, is_async, memory_of


@overload
def durable(session: SyncHolder, *, level: str | None = None, timeout: float | None = None) -> None: ...


@overload
def durable(
    session: AsyncHolder, *, level: str | None = None, timeout: float | None = None
) -> Coroutine[Any, Any, None]: ...


def durable(
    session: Holder, *, level: str | None = None, timeout: float | None = None
) -> Coroutine[Any, Any, None] | None:
    """Waits until everything this session has committed so far is durable at the level.

    For an `AsyncSession`, `await` the result. All commits on all engines of this dialect count.
    Uncommitted work does not count, nor do reads that were rolled back, which happens when a
    session closes after them. Returns at once if there is nothing to wait for. Ending a wait
    changes nothing: you can wait again.

    Args:
        session: Session, `Connection` or `AsyncConnection`. A closed connection still stands for
            its commits.
        level: Level to wait for. Default: the client's.
        timeout: Time limit of the wait, in seconds. Default: 30. Every wait has a limit.

    Errors: the client's, as for `durable()` of a transaction: `TransactionLostError`,
    `PromiseBrokenError`, and `DurabilityTimeoutError`, which is not a loss. A transaction that was
    reported lost or broken is then forgotten, so that the next call waits for the others.
    """
    memory = memory_of(session)
    limit = DURABLE_TIMEOUT if timeout is None else timeout
    if is_async(session):
        return _durable_async(memory, level, limit)
    ends = time.monotonic() + limit
    for each in list(memory.sessions.values()):
        waited = each.durable(level=level, timeout=max(0.0, ends - time.monotonic()))
        if isinstance(each, AsyncClientSession):
            # In synchronous code that `AsyncSession.run_sync` runs.
            await_(waited)
    return None


async def _durable_async(memory: Memory, level: str | None, limit: float) -> None:
    ends = time.monotonic() + limit
    for each in list(memory.sessions.values()):
        await each.durable(level=level, timeout=max(0.0, ends - time.monotonic()))


@overload
def committed(session: SyncHolder) -> Transaction: ...


@overload
def committed(session: AsyncHolder) -> AsyncTransaction: ...


def committed(session: Holder) -> Any:
    """Returns the client's transaction of this session's last commit.

    It has `token`, `durable()`, `on_lost()`, `after_durable()`, …

    Args:
        session: As for `durable`.

    Errors: `not_committed`.
    """
    last = memory_of(session).last
    if last is None:
        raise usage_error("not_committed", "the session has committed nothing yet; commit first")
    return last


def token(session: Holder) -> str:
    """Returns everything that this session has committed, as text for another process.

    That process passes it to `hw.session().resume()`.

    Args:
        session: As for `durable`.

    Errors: `not_committed`; `invalid_options` if the session has committed with several clients:
    call `committed()` after each commit instead.
    """
    sessions = list(memory_of(session).sessions.values())
    if not sessions:
        raise usage_error("not_committed", "the session has committed nothing yet; commit first")
    if len(sessions) > 1:
        raise usage_error(
            "invalid_options", "the session has committed with several clients; call committed() each time"
        )
    text: str = sessions[0].token
    return text


def on_lost(session: Holder, listener: Listener, *, level: str | None = None) -> Callable[[], None]:
    """Calls the listener once for each of the session's transactions that is lost before durable.

    Covers past and future commits of the session. Returns a function that removes the listener. See
    `Highwater.on_lost` for where listeners are called.

    Args:
        session: As for `durable`.
        listener: Function that receives the verdict.
        level: Level of the promise. Default: the client's.
    """
    return memory_of(session).on_lost(listener, level)
