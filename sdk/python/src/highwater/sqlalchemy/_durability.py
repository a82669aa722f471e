"""The promises behind sessions and connections of SQLAlchemy: waited for, listened to, handed on."""

from __future__ import annotations

import time
from collections.abc import Callable, Coroutine
from typing import Any, overload

from .._core.errors import usage_error
from .._options import DURABLE_TIMEOUT
from .._promise import Listener
from .._sync import Transaction
from ..aio import AsyncSession as AsyncClientSession
from ..aio import AsyncTransaction
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
    """Waits until all that this session has committed so far is durable at the level; of an `AsyncSession`: `await` it.

    All of its commits count, of all its engines of this dialect; work that is not committed does not, nor do reads that
    were rolled back, as they are when a session is closed after them. With nothing to wait for it returns at once.
    Ending a wait changes nothing: wait again.

    Args:
        session: Or a `Connection` or an `AsyncConnection`, also a closed one: it stands for what was committed on it.
        level: The level to wait for. Default: the client's.
        timeout: Seconds. Default: 30. There is no wait without an end.

    Errors: those of `durable()` of a transaction, as the client raises them: `TransactionLostError`,
    `PromiseBrokenError`, and `DurabilityTimeoutError`, which is not a loss. One that is reported lost or broken is then
    forgotten: the next call is about the others.
    """
    memory = memory_of(session)
    limit = DURABLE_TIMEOUT if timeout is None else timeout
    if is_async(session):
        return _durable_async(memory, level, limit)
    ends = time.monotonic() + limit
    for each in list(memory.sessions.values()):
        waited = each.durable(level=level, timeout=max(0.0, ends - time.monotonic()))
        if isinstance(each, AsyncClientSession):
            # In the sync code that `AsyncSession.run_sync` runs.
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
    """The transaction that this session committed last, as the client has it.

    Its `token`, `durable()`, `on_lost()`, `after_durable()`, …

    Args:
        session: As of `durable`.

    Errors: `not_committed`.
    """
    last = memory_of(session).last
    if last is None:
        raise usage_error("not_committed", "nothing was committed; commit first")
    return last


def token(session: Holder) -> str:
    """All that this session has committed, as text for another process, which passes it to `hw.session().resume()`.

    Args:
        session: As of `durable`.

    Errors: `not_committed`; `invalid_options` where several clients have it: ask `committed()` after each commit then.
    """
    sessions = list(memory_of(session).sessions.values())
    if not sessions:
        raise usage_error("not_committed", "nothing was committed; commit first")
    if len(sessions) > 1:
        raise usage_error("invalid_options", "the session has committed with several clients")
    text: str = sessions[0].token
    return text


def on_lost(session: Holder, listener: Listener, *, level: str | None = None) -> Callable[[], None]:
    """Calls back once for each transaction of this session that turns out lost before it is durable at the level.

    Those that it has committed, and those that it will commit. Returns what takes the listener away. Where it is
    called: see `Highwater.on_lost`.

    Args:
        session: As of `durable`.
        listener: Gets the verdict.
        level: Default: the client's.
    """
    return memory_of(session).on_lost(listener, level)
