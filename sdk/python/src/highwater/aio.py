"""The async client: every call is awaited, on the event loop that the client is first used on."""

from __future__ import annotations

import asyncio
import contextlib
import inspect
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Generator, Sequence
from types import TracebackType
from typing import Any, Self, TypeVar, Unpack, cast

from ._background import Host, LoopHost
from ._client import BaseClient, Remember, Statements
from ._core.effects import AwaitDurable, CallBody, Effect, Raised, Returned, Steps
from ._core.errors import ConnectionError, closed_error  # noqa: A004 - the name in every SDK
from ._core.ids import check_transaction_id, new_transaction_id
from ._core.interactive import InteractiveCore
from ._core.pending_set import PendingPromise
from ._core.sql import StatementInput
from ._core.wire import Position, RefusedToken, TransactionResponse, TransactionStatus, Verdict
from ._drivers import Outcome, Visit, drive_async
from ._interactive import BaseInteractive, no_turn
from ._options import DURABLE_TIMEOUT, BeginOptions, CommitOptions, TransactionOptions, TransactOptions, ack_of
from ._promise import BasePromise
from ._session import BaseSession
from ._transaction import BaseTransaction
from ._values import StatementResult
from ._waits import Waiting
from ._watcher import Watcher

R = TypeVar("R")


async def wait_durable(
    host: Host, watcher: Watcher, entries: Collection[PendingPromise], *, level: str, timeout: float | None
) -> list[Verdict]:
    """Waits until all of them are durable at the level. Raises the error of the first that is settled otherwise."""
    host.prepare()
    limit = DURABLE_TIMEOUT if timeout is None else timeout
    loop = asyncio.get_running_loop()
    ended = loop.create_future()

    def end() -> None:
        if not ended.done():
            ended.set_result(None)

    timer = None
    waiting = Waiting(watcher, entries, level, end)
    try:
        if not waiting.is_done:
            # Ten thousand promises wait so at a time: a timeout of asyncio's own would be the most that each has.
            timer = loop.call_later(limit, end)
            await ended
        return waiting.result(limit)
    finally:
        if timer is not None:
            timer.cancel()
        waiting.end()


class AsyncDurabilityPromise(BasePromise):
    """A committed transaction on its way to durability. Its token alone is enough to make one: `hw.promise(token)`."""

    __slots__ = ()

    async def durable(self, *, level: str | None = None, timeout: float | None = None) -> Verdict:
        """Waits until the transaction is durable at the level, and returns that verdict.

        Ending a wait, also by cancelling it, changes nothing: wait again.

        Args:
            level: The level to wait for. Default: the transaction's own.
            timeout: Seconds. Default: 30. There is no wait without an end.

        Errors: `TransactionLostError`, `PromiseBrokenError`, `UnknownOutcomeError` (it cannot be judged any more);
        `DurabilityTimeoutError`, which is not a loss; `TokenRefusedError`; `unknown_level`; `client_closed`.
        """
        at, entries = level or self.level, [self.entry]
        [verdict] = await wait_durable(self._host, self._watcher, entries, level=at, timeout=timeout)
        return verdict

    async def after_durable(
        self,
        run: Callable[[Verdict], Awaitable[R] | R],
        *,
        level: str | None = None,
        timeout: float | None = None,
    ) -> R:
        """Runs the function once the transaction is durable, and returns what it returns, awaited where it can be.

        For side effects that nothing can undo. If it does not become durable, the function is never called.

        Args:
            run: Gets the verdict; called once at most.
            level: The level to wait for. Default: the transaction's own.
            timeout: Seconds. Default: 30.

        Errors: those of `durable()` and of the function.
        """
        return await _awaited(run(await self.durable(level=level, timeout=timeout)))


class AsyncTransaction(BaseTransaction, AsyncDurabilityPromise):
    """A committed transaction: its results, and its promise.

    Made by `AsyncHighwater.transaction` and by the `commit` of an interactive one.
    """

    __slots__ = ()


class AsyncHighwater(BaseClient[AsyncDurabilityPromise, AsyncTransaction]):
    __doc__ = BaseClient.__doc__

    _host: LoopHost

    def _make_host(self) -> LoopHost:
        self._calls = 0
        self._idle: asyncio.Future[None] | None = None
        self._is_closed = False
        self._closing: asyncio.Task[None] | None = None
        return LoopHost(self._certificates, self._batch, lambda: self._renew(forked=False))

    def _renew(self, *, forked: bool) -> None:
        super()._renew(forked=forked)
        self._calls = 0
        self._idle = None

    async def transaction(self, statements: Statements, **options: Unpack[TransactionOptions]) -> AsyncTransaction:
        """Runs the statements as one transaction, and returns when it has committed.

        With `ack="durable"`: when it is durable at the level, or the wait for that is over (then `state` is `pending`,
        which is not a loss). A lost answer is resolved with the same id: it never runs twice. A conflict is the
        caller's to rerun, unless an earlier copy of the request was never answered: that one may still commit, so the
        same id is sent again. When `timeout` is over it may commit all the same.

        Args:
            statements: One, or several that run in their order.

        Errors: `StatementError` and below if the database refused it. `UnavailableError` if the
        service could not do it in time, and did not. `UnknownOutcomeError`, with the id to ask
        about, if the outcome was not known in time. `InvalidRequestError`. `TransactionAbortedError`
        or `TransactionLostError` for an `id` that was settled so. If the task is cancelled, it may
        be applied all the same: the cause of the `CancelledError` is then an `UnknownOutcomeError`.

        Example:
            async with AsyncHighwater("https://highwater.example") as hw:
                texts = [sql("INSERT INTO note VALUES ({text})", text=text) for text in ("a", "b", "c")]
                committed = await asyncio.gather(*(hw.transaction(text) for text in texts))
                await asyncio.gather(*(tx.durable(timeout=10) for tx in committed))  # one stream for all
                print(len(committed), "are durable")
        """
        return await self._transaction(statements, options)

    async def _transaction(
        self, statements: Statements, options: TransactionOptions, remember: Remember | None = None
    ) -> AsyncTransaction:
        given = options.get("id")
        transaction_id = new_transaction_id() if given is None else check_transaction_id(given)
        steps = self._transaction_steps(transaction_id, statements, options, remember)
        return await self._run(steps, Outcome(transaction_id))

    def begin(self, **options: Unpack[BeginOptions]) -> AsyncInteractiveTransaction:
        """An interactive transaction: `async with hw.begin() as tx`. Nothing is sent yet; its statements open it.

        `await hw.begin()` is the same without the rollback of what is left open. Where one-shot transactions will do
        they are better: an open one holds locks and a session of the database.
        Errors: `client_closed`.
        """
        return self._begin(options)

    def _begin(self, options: BeginOptions, remember: Remember | None = None) -> AsyncInteractiveTransaction:
        if self._is_closed:
            raise closed_error()
        return AsyncInteractiveTransaction(self, self._open(options, remember))

    async def transact(
        self, body: Callable[[AsyncInteractiveTransaction], Awaitable[R]], **options: Unpack[TransactOptions]
    ) -> R:
        """Runs the body as one transaction, commits it when it returns, and returns what it returned.

        A conflict, and a loss before the answer, run it again under a new id: with jitter, for `timeout` seconds in
        all, `max_attempts` times at most. Exactly one run takes effect. The body must not have effects elsewhere;
        those belong into `after_durable`. With `ack="durable"` this returns when the transaction is durable. A call
        that is cancelled rolls back what is open then; a commit under way may take effect.

        Args:
            body: Gets the open transaction; what it returns is what this returns.

        Errors: the body's own, after a rollback. `UnknownOutcomeError` if the outcome of the commit
        was not known in time; the body did not run again. `DurabilityTimeoutError` with
        `ack="durable"` if it has committed and is pending. The last conflict, when time or attempts
        are over. Otherwise those of `query` and `commit`.
        """
        return await self._transact(body, options)

    async def _transact(
        self,
        body: Callable[[AsyncInteractiveTransaction], Awaitable[R]],
        options: TransactOptions,
        remember: Remember | None = None,
    ) -> R:
        # Not while the body runs: that is the user's code, which may close the client.
        visit = Visit(self._enter, self._leave)

        async def perform(effect: Effect) -> object:
            match effect:
                case CallBody(transaction):
                    visit.leave()
                    try:
                        return Returned(await _awaited(body(AsyncInteractiveTransaction(self, transaction))))
                    except Exception as error:  # noqa: BLE001 - what to do about it is for the core to say
                        return Raised(error)
                case AwaitDurable(committed, timeout):
                    return await committed.durable(timeout=timeout)
                case _:
                    visit.enter()
                    return await self._host.perform(effect)

        with visit:
            return cast("R", await drive_async(self._transact_steps(options, remember), perform, Outcome()))

    def session(self, *, causal: bool = False) -> AsyncSession:
        """A group of transactions that one wait covers, and that another process can take over.

        Nothing is sent.

        Args:
            causal: Its reads with `read_only` see all that it has committed or read before: `after` is filled in.
        """
        return AsyncSession(self, causal=causal)

    async def verdicts(
        self,
        tokens: Sequence[str],
        *,
        level: str | None = None,
        wait_ms: float = 0,
        timeout: float | None = None,
    ) -> list[Verdict | RefusedToken]:
        """A tracker's verdict for each token, in the order of the tokens.

        For one that is no token, or another owner's, a `RefusedToken` that says so. With `wait_ms` the answer is held
        until none is pending, or for so long.

        Args:
            tokens: Any number: they are asked about in parts of 1,000.
            level: The level to judge at. Default: the client's.
            wait_ms: How long the tracker holds its answer while a verdict is pending, in milliseconds; a minute at
                most.
            timeout: Seconds for all of it. Default: for each part the client's `total_timeout` beside `wait_ms`.

        Errors: `unknown_level`; `UnavailableError` when no tracker answers.
        """
        return await self._run(self._verdicts_steps(tokens, level=level, wait_ms=wait_ms, timeout=timeout))

    async def status(
        self, transaction_id: str, *, level: str | None = None, wait_ms: float = 0, timeout: float | None = None
    ) -> TransactionStatus:
        """What became of a transaction, by its id: also one whose token was never received.

        State `unknown` is that of an id that the service does not know (yet): it may still be on its way.

        Args:
            transaction_id: As in `UnknownOutcomeError.transaction_id`.
            level: The level to judge at. Default: the service's own (`region` where there is one), not the
                client's.
            wait_ms: How long the gateway holds its answer until the transaction is settled at the level, in
                milliseconds; a minute at most.
            timeout: Seconds for all of it. Default: the client's `total_timeout` beside `wait_ms`.

        Errors: `invalid_id`; `UnavailableError` when no gateway answers in time.
        """
        return await self._run(self._status_steps(transaction_id, level=level, wait_ms=wait_ms, timeout=timeout))

    async def close(self) -> None:
        """Ends waits with `client_closed`, and the stream; returns when calls under way have their answers.

        Earlier listeners have then been called. Stored tokens can be judged by another client. A second
        call waits for the same; a call of another kind that is made after it raises `client_closed`. Where it is
        cancelled, it goes on by itself: calls under way get their answers, and then nothing is left.
        """
        if not self._is_closed:
            self._is_closed = True
            self._end_listening()
            if not self._host.is_over:
                self._closing = asyncio.get_running_loop().create_task(self._close())
        if self._closing is not None and not self._host.is_over:
            await asyncio.shield(self._closing)

    async def _close(self) -> None:
        try:
            while self._calls > 0:
                self._idle = asyncio.get_running_loop().create_future()
                await self._idle
        finally:
            # Also where the loop ends before.
            await self._watcher.quit()
            await self._host.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        await self.close()

    def _enter(self) -> None:
        if self._is_closed:
            raise closed_error()
        self._host.prepare()
        self._calls += 1

    def _leave(self) -> None:
        self._calls -= 1
        if self._calls == 0 and self._idle is not None and not self._idle.done():
            self._idle.set_result(None)

    async def _run(self, steps: Steps[R], outcome: Outcome | None = None) -> R:
        with Visit(self._enter, self._leave):
            return await drive_async(steps, self._host.perform, outcome or Outcome())

    async def _finish(self, steps: Steps[None]) -> None:
        """A rollback. Where the client is closed nothing is sent: the service ends an abandoned
        transaction by itself.
        """
        try:
            await self._run(steps)
        except ConnectionError as error:
            if error.code != "client_closed":
                raise

    def _make_promise(self, entry: PendingPromise, *, position: Position, level: str) -> AsyncDurabilityPromise:
        return AsyncDurabilityPromise(self._watcher, self._host, entry, position=position, level=level)

    def _make_transaction(
        self, entry: PendingPromise, *, response: TransactionResponse, level: str
    ) -> AsyncTransaction:
        return AsyncTransaction(self._watcher, self._host, entry, response=response, level=level, decode=self._decode)


class AsyncInteractiveTransaction(BaseInteractive[AsyncTransaction]):
    __doc__ = BaseInteractive.__doc__

    def __init__(self, client: AsyncHighwater, core: InteractiveCore[AsyncTransaction]) -> None:
        super().__init__(core, client._decode)
        self._client = client
        self._lock = asyncio.Lock()

    @contextlib.asynccontextmanager
    async def _turn(self, seconds: float) -> AsyncIterator[float]:
        """Behind the calls that were made before; gives the time that is left then. Errors: `request_timeout`."""
        deadline = time.monotonic() + seconds
        try:
            async with asyncio.timeout(seconds):
                await self._lock.acquire()
        except TimeoutError as error:
            raise no_turn(error) from error
        try:
            yield max(0.0, deadline - time.monotonic())
        finally:
            self._lock.release()

    async def query(self, statement: StatementInput, *, timeout: float | None = None) -> StatementResult:
        """Runs one statement.

        When the call's time is over or it is cancelled, the transaction is over too, and nothing of it is committed.

        Args:
            statement: Made by `sql`, or a `Statement`.
            timeout: Seconds for all attempts together. Default: as in `begin`.

        Errors: `StatementError` and below; `TransactionAbortedError`: `transaction_expired` when too long nothing was
        called, `gateway_lost` when what had it is gone; `transaction_ended` for a call behind the end.
        """
        [result] = await self.execute([statement], timeout=timeout)
        return result

    async def execute(
        self, statements: Sequence[StatementInput], *, timeout: float | None = None
    ) -> list[StatementResult]:
        """Runs statements in one round trip, in their order, up to the first that fails.

        Args:
            statements: Made by `sql`, or each a `Statement`.
            timeout: Seconds for all attempts together. Default: as in `begin`.

        Errors: as `query`; `statement` is the index of the one at fault.
        """
        self._check_process()
        async with self._turn(self._seconds(timeout)) as left:
            return await self._client._run(self._execute_steps(statements, left))

    async def commit(
        self, *, statements: Sequence[StatementInput] = (), **options: Unpack[CommitOptions]
    ) -> AsyncTransaction:
        """Commits, after these statements, in the same round trip; with `ack="durable"` waits at the service.

        A lost answer is resolved: it never commits twice, nor under another id. `exposure_limit` leaves the transaction
        open: commit again, or roll back. Where it has committed before, it returns the same transaction. A call that is
        cancelled may have committed: the cause of the error is an `UnknownOutcomeError` then.

        Args:
            statements: Run before the commit; their results are those of the committed transaction.

        Errors: `UnknownOutcomeError` when the outcome is not known in time; else those of `query`.
        """
        self._check_process()
        async with self._turn(self._seconds(options.get("timeout"))) as left:
            steps = self._commit_steps(ack_of(options), statements, left)
            return await self._client._run(steps, Outcome(self.id))

    async def rollback(self, *, timeout: float | None = None) -> None:
        """Rolls back.

        Returns also where the service cannot be reached: it will never commit, and it ends by itself at `expires_at`.
        On a transaction that has ended it does nothing; on a committed one it raises.

        Args:
            timeout: Seconds for all attempts together. Default: the client's `total_timeout`.

        Errors: `transaction_ended` after a commit.
        """
        self._check_process()
        async with self._turn(self._rollback_seconds(timeout)) as left:
            await self._client._finish(self._rollback_steps(left))

    async def durable(self, *, level: str | None = None, timeout: float | None = None) -> Verdict:
        """As `AsyncDurabilityPromise.durable`, once it is committed. Errors: `not_committed` before."""
        return await self._committed_or_raise().durable(level=level, timeout=timeout)

    def __await__(self) -> Generator[Any, None, Self]:
        """`tx = await hw.begin()`: nothing is to be waited for."""
        yield from ()
        return self

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if not self._is_own:
            return
        async with self._lock:
            await self._client._finish(self._exit_steps(error))


class AsyncSession(BaseSession):
    """What one line of work commits and reads: waited for at once, seen by its later reads, handed on by its token.

    Made by `AsyncHighwater.session`; several may share a client. It needs no closing.
    """

    def __init__(self, client: AsyncHighwater, *, causal: bool) -> None:
        super().__init__(client, causal=causal)
        self._client = client

    async def transaction(self, statements: Statements, **options: Unpack[TransactionOptions]) -> AsyncTransaction:
        """Like `hw.transaction`, and remembered by this session."""
        return await self._client._transaction(statements, self._seeing(options), self._remember)

    def begin(self, **options: Unpack[BeginOptions]) -> AsyncInteractiveTransaction:
        """Like `hw.begin`; remembered once it is committed."""
        return self._client._begin(options, self._remember)

    async def transact(
        self, body: Callable[[AsyncInteractiveTransaction], Awaitable[R]], **options: Unpack[TransactOptions]
    ) -> R:
        """Like `hw.transact`, and remembered by this session."""
        return await self._client._transact(body, options, self._remember)

    async def durable(self, *, level: str | None = None, timeout: float | None = None) -> None:
        """Waits until all that this session has committed or read so far is durable at the level.

        With nothing to wait for it returns at once. It does not wait for later commits.

        Args:
            level: The level to wait for. Default: the client's.
            timeout: Seconds. Default: 30. There is no wait without an end.

        Errors: as `DurabilityPromise.durable`. One that is reported lost or broken is then forgotten: the next call is
        about the others.
        """
        with self._forgetting() as entries:
            at = level or self._level
            await wait_durable(self._client._host, self._watcher, entries, level=at, timeout=timeout)

    async def resume(
        self, token: str, *, level: str | None = None, wait_ms: float = 0, timeout: float | None = None
    ) -> list[Verdict | RefusedToken]:
        """Takes over the session that the token is of, and says what became of each transaction in it.

        `durable` and `pending` ones exist (the latter may yet be lost), and are remembered from here on; `lost` and
        `broken` ones are gone. One that `durable` stands for is not listed by itself.

        Args:
            token: What `token` of a session was.
            level: The level to judge at. Default: the client's.
            wait_ms: How long a tracker holds its answer while a verdict is pending, in milliseconds; a minute at most.
            timeout: Seconds for all of it. Default: as for `hw.verdicts`.

        Errors: `invalid_token`, where it is none of a session; those of `hw.verdicts`.
        """
        tokens, entries = self._entries_of(token)
        verdicts = await self._client.verdicts(tokens, level=level, wait_ms=wait_ms, timeout=timeout)
        return self._take_over(entries, verdicts)


async def _awaited(result: Awaitable[R] | R) -> R:
    return await result if inspect.isawaitable(result) else result
