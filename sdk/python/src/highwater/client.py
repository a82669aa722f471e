"""The sync client: every call blocks its own thread, and any number of threads may share one client."""

from __future__ import annotations

import threading
import weakref
from collections import Counter
from collections.abc import Callable, Sequence
from types import TracebackType
from typing import Self, TypeVar, Unpack, cast

from ._background import ThreadHost
from ._client import BaseClient, Remember, Statements
from ._core.effects import AwaitDurable, CallBody, Effect, Raised, Returned, Steps
from ._core.errors import ConnectionError, closed_error  # noqa: A004 - the name in every SDK
from ._core.ids import check_transaction_id, new_transaction_id
from ._core.interactive import InteractiveCore
from ._core.pending_set import PendingPromise
from ._core.sql import StatementInput
from ._core.wire import Position, RefusedToken, TransactionResponse, TransactionStatus, Verdict
from ._drivers import Outcome, Visit, drive
from ._interactive import BaseInteractive
from ._options import BeginOptions, Cancellation, CommitOptions, TransactionOptions, TransactOptions, ack_of
from ._session import BaseSession
from ._sync import Caller, DurabilityPromise, Transaction, Turns, check, wait_durable
from ._values import StatementResult

R = TypeVar("R")


class Highwater(BaseClient[DurabilityPromise, Transaction]):
    __doc__ = BaseClient.__doc__

    _host: ThreadHost

    def _make_host(self) -> ThreadHost:
        host = ThreadHost(self._certificates, self._batch)
        self._begin_calls(host)
        # A client that is dropped takes its threads along; at the end of the process they end by themselves.
        weakref.finalize(self, host.stop).atexit = False
        return host

    def _begin_calls(self, host: ThreadHost) -> None:
        self._caller = Caller(host, self._certificates, is_batched=self._batch is not None)
        self._calls: Counter[int] = Counter()
        self._ended = threading.Condition()
        self._is_closed = False
        self._is_ended = False
        self._closing = threading.Lock()

    def _renew(self, *, forked: bool) -> None:
        super()._renew(forked=forked)
        is_closed, is_ended = self._is_closed, self._is_ended
        self._caller.abandon()
        self._begin_calls(self._host)
        self._is_closed, self._is_ended = is_closed, is_ended

    def transaction(
        self, statements: Statements, *, cancel: Cancellation | None = None, **options: Unpack[TransactionOptions]
    ) -> Transaction:
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
        or `TransactionLostError` for an `id` that was settled so.

        Example:
            tx = hw.transaction(sql("INSERT INTO note VALUES ({text})", text="hello"), ack="durable", timeout=10)
            print(tx.state)  # "pending" would say: not yet, and not lost
        """
        return self._transaction(statements, options, cancel)

    def _transaction(
        self,
        statements: Statements,
        options: TransactionOptions,
        cancel: Cancellation | None,
        remember: Remember | None = None,
    ) -> Transaction:
        given = options.get("id")
        transaction_id = new_transaction_id() if given is None else check_transaction_id(given)
        steps = self._transaction_steps(transaction_id, statements, options, remember)
        return self._run(steps, cancel, Outcome(transaction_id))

    def begin(self, *, cancel: Cancellation | None = None, **options: Unpack[BeginOptions]) -> InteractiveTransaction:
        """An interactive transaction: `with hw.begin() as tx`. Nothing is sent yet; its first statements open it.

        Where one-shot transactions will do they are better: an open one holds locks and a session of the database.
        `cancel` is for all of its calls that have none of their own.
        Errors: `client_closed`.

        Example:
            with hw.begin(isolation="read committed") as tx:
                [row] = tx.query(sql("SELECT balance FROM account WHERE id = {id} FOR UPDATE", id=1)).rows
                print(row["balance"])
                update = sql("UPDATE account SET balance = balance - 10 WHERE id = {id}", id=1)
                committed = tx.commit(statements=[update])
            committed.durable(level="region")
        """
        return self._begin(options, cancel)

    def _begin(
        self, options: BeginOptions, cancel: Cancellation | None, remember: Remember | None = None
    ) -> InteractiveTransaction:
        if self._is_closed:
            raise closed_error()
        return InteractiveTransaction(self, self._open(options, remember), cancel)

    def transact(
        self,
        body: Callable[[InteractiveTransaction], R],
        *,
        cancel: Cancellation | None = None,
        **options: Unpack[TransactOptions],
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

        Example:
            def withdraw(tx: InteractiveTransaction) -> int:
                [row] = tx.query(sql("SELECT balance FROM account WHERE id = {id}", id=1)).rows
                left: int = row["balance"] - 10
                if left < 0:
                    raise ValueError("not enough")  # rolls back
                tx.query(sql("UPDATE account SET balance = {left} WHERE id = {id}", left=left, id=1))
                return left

            print(hw.transact(withdraw))
        """
        return self._transact(body, options, cancel)

    def _transact(
        self,
        body: Callable[[InteractiveTransaction], R],
        options: TransactOptions,
        cancel: Cancellation | None,
        remember: Remember | None = None,
    ) -> R:
        # Not while the body runs: that is the user's code, which may close the client.
        visit = Visit(self._enter, self._leave)

        def perform(effect: Effect) -> object:
            match effect:
                case CallBody(transaction):
                    visit.leave()
                    try:
                        return Returned(body(InteractiveTransaction(self, transaction, cancel)))
                    except Exception as error:  # noqa: BLE001 - what to do about it is for the core to say
                        return Raised(error)
                case AwaitDurable(committed, timeout):
                    return committed.durable(timeout=timeout, cancel=cancel)
                case _:
                    visit.enter()
                    return self._caller.perform(effect, cancel)

        check(cancel)
        with visit:
            return cast("R", drive(self._transact_steps(options, remember), perform, Outcome()))

    def session(self, *, causal: bool = False) -> Session:
        """A group of transactions that one wait covers, and that another process can take over.

        Nothing is sent.

        Args:
            causal: Its reads with `read_only` see all that it has committed or read before: `after` is filled in.
        """
        return Session(self, causal=causal)

    def verdicts(
        self,
        tokens: Sequence[str],
        *,
        level: str | None = None,
        wait_ms: float = 0,
        timeout: float | None = None,
        cancel: Cancellation | None = None,
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

        Example:
            token = hw.transaction(sql("INSERT INTO note VALUES ({text})", text="hello")).token
            for each in hw.verdicts([token], wait_ms=5_000):
                print(each.level, each.verdict)
        """
        return self._run(self._verdicts_steps(tokens, level=level, wait_ms=wait_ms, timeout=timeout), cancel)

    def status(
        self,
        transaction_id: str,
        *,
        level: str | None = None,
        wait_ms: float = 0,
        timeout: float | None = None,
        cancel: Cancellation | None = None,
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
        return self._run(self._status_steps(transaction_id, level=level, wait_ms=wait_ms, timeout=timeout), cancel)

    def close(self) -> None:
        """Ends waits with `client_closed`, and the stream; returns when calls of other threads have their answers.

        Earlier listeners have then been called. Stored tokens can be judged by another client. A second
        call does nothing; a call of another kind that is made after it raises `client_closed`.
        """
        # Where another thread is at it, that one sees to it; where an interrupt has ended it, the next call does.
        if not self._closing.acquire(blocking=False):
            return
        try:
            if not self._is_ended:
                self._close()
                self._is_ended = True
        finally:
            self._closing.release()

    def _close(self) -> None:
        with self._ended:
            self._is_closed = True
        self._end_listening()
        with self._ended:
            me = threading.get_ident()
            self._ended.wait_for(lambda: all(each == me for each, calls in self._calls.items() if calls > 0))
        self._host.run_if_begun(self._watcher.quit)
        self._host.stop()
        self._caller.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()

    def _run(self, steps: Steps[R], cancel: Cancellation | None, outcome: Outcome | None = None) -> R:
        check(cancel)
        with Visit(self._enter, self._leave):
            return drive(steps, lambda effect: self._caller.perform(effect, cancel), outcome or Outcome())

    def _finish(self, steps: Steps[None]) -> None:
        """A rollback. Where the client is closed nothing is sent: the service ends an abandoned
        transaction by itself.
        """
        try:
            self._run(steps, None)
        except ConnectionError as error:
            if error.code != "client_closed":
                raise

    def _enter(self) -> None:
        with self._ended:
            if self._is_closed:
                raise closed_error()
            self._calls[threading.get_ident()] += 1

    def _leave(self) -> None:
        me = threading.get_ident()
        with self._ended:
            self._calls[me] -= 1
            if self._calls[me] == 0:
                del self._calls[me]
            self._ended.notify_all()

    def _make_promise(self, entry: PendingPromise, *, position: Position, level: str) -> DurabilityPromise:
        return DurabilityPromise(self._watcher, self._host, entry, position=position, level=level)

    def _make_transaction(self, entry: PendingPromise, *, response: TransactionResponse, level: str) -> Transaction:
        return Transaction(self._watcher, self._host, entry, response=response, level=level, decode=self._decode)


class InteractiveTransaction(BaseInteractive[Transaction]):
    __doc__ = BaseInteractive.__doc__

    def __init__(self, client: Highwater, core: InteractiveCore[Transaction], cancel: Cancellation | None) -> None:
        super().__init__(core, client._decode)
        self._client = client
        self._cancel = cancel
        self._turns = Turns()

    def query(
        self, statement: StatementInput, *, timeout: float | None = None, cancel: Cancellation | None = None
    ) -> StatementResult:
        """Runs one statement.

        When the call's time is over or it is cancelled, the transaction is over too, and nothing of it is committed.

        Args:
            statement: Made by `sql`, or a `Statement`.
            timeout: Seconds for all attempts together. Default: as in `begin`.

        Errors: `StatementError` and below; `TransactionAbortedError`: `transaction_expired` when too long nothing was
        called, `gateway_lost` when what had it is gone; `transaction_ended` for a call behind the end.
        """
        [result] = self.execute([statement], timeout=timeout, cancel=cancel)
        return result

    def execute(
        self,
        statements: Sequence[StatementInput],
        *,
        timeout: float | None = None,
        cancel: Cancellation | None = None,
    ) -> list[StatementResult]:
        """Runs statements in one round trip, in their order, up to the first that fails.

        Args:
            statements: Made by `sql`, or each a `Statement`.
            timeout: Seconds for all attempts together. Default: as in `begin`.

        Errors: as `query`; `statement` is the index of the one at fault.
        """
        self._check_process()
        cancel = cancel or self._cancel
        with self._turns.take(self._seconds(timeout), cancel) as left:
            return self._client._run(self._execute_steps(statements, left), cancel)

    def commit(
        self,
        *,
        statements: Sequence[StatementInput] = (),
        cancel: Cancellation | None = None,
        **options: Unpack[CommitOptions],
    ) -> Transaction:
        """Commits, after these statements, in the same round trip; with `ack="durable"` waits at the service.

        A lost answer is resolved: it never commits twice, nor under another id. `exposure_limit` leaves the transaction
        open: commit again, or roll back. Where it has committed before, it returns the same transaction. A call that is
        cancelled may have committed: the cause of the error is an `UnknownOutcomeError` then.

        Args:
            statements: Run before the commit; their results are those of the committed transaction.

        Errors: `UnknownOutcomeError` when the outcome is not known in time; else those of `query`.
        """
        self._check_process()
        cancel = cancel or self._cancel
        with self._turns.take(self._seconds(options.get("timeout")), cancel) as left:
            steps = self._commit_steps(ack_of(options), statements, left)
            return self._client._run(steps, cancel, Outcome(self.id))

    def rollback(self, *, timeout: float | None = None) -> None:
        """Rolls back.

        Returns also where the service cannot be reached: it will never commit, and it ends by itself at `expires_at`.
        On a transaction that has ended it does nothing; on a committed one it raises.

        Args:
            timeout: Seconds for all attempts together. Default: the client's `total_timeout`.

        Errors: `transaction_ended` after a commit.
        """
        self._check_process()
        with self._turns.take(self._rollback_seconds(timeout), None) as left:
            self._client._finish(self._rollback_steps(left))

    def durable(
        self, *, level: str | None = None, timeout: float | None = None, cancel: Cancellation | None = None
    ) -> Verdict:
        """As `DurabilityPromise.durable`, once it is committed. Errors: `not_committed` before."""
        return self._committed_or_raise().durable(level=level, timeout=timeout, cancel=cancel)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if not self._is_own:
            return
        with self._turns.take(None, None):
            self._client._finish(self._exit_steps(error))


class Session(BaseSession):
    """What one line of work commits and reads: waited for at once, seen by its later reads, handed on by its token.

    Made by `Highwater.session`; several may share a client. It needs no closing.

    Example:
        session = hw.session(causal=True)
        session.transaction(sql("INSERT INTO note VALUES ({text})", text="hello"))
        read = session.transaction(sql("SELECT * FROM note"), read_only=True)  # sees it, on whatever node
        print(len(read.rows) > 0, read.served)
        stored = session.token
        session.durable(timeout=30)

        # In the process that comes after this one:
        for each in hw.session().resume(stored):
            print(each.verdict)  # "lost" or "broken": it is gone
    """

    def __init__(self, client: Highwater, *, causal: bool) -> None:
        super().__init__(client, causal=causal)
        self._client = client

    def transaction(
        self, statements: Statements, *, cancel: Cancellation | None = None, **options: Unpack[TransactionOptions]
    ) -> Transaction:
        """Like `hw.transaction`, and remembered by this session."""
        return self._client._transaction(statements, self._seeing(options), cancel, self._remember)

    def begin(self, *, cancel: Cancellation | None = None, **options: Unpack[BeginOptions]) -> InteractiveTransaction:
        """Like `hw.begin`; remembered once it is committed."""
        return self._client._begin(options, cancel, self._remember)

    def transact(
        self,
        body: Callable[[InteractiveTransaction], R],
        *,
        cancel: Cancellation | None = None,
        **options: Unpack[TransactOptions],
    ) -> R:
        """Like `hw.transact`, and remembered by this session."""
        return self._client._transact(body, options, cancel, self._remember)

    def durable(
        self, *, level: str | None = None, timeout: float | None = None, cancel: Cancellation | None = None
    ) -> None:
        """Blocks until all that this session has committed or read so far is durable at the level.

        With nothing to wait for it returns at once. It does not wait for later commits.

        Args:
            level: The level to wait for. Default: the client's.
            timeout: Seconds. Default: 30. There is no wait without an end.

        Errors: as `DurabilityPromise.durable`. One that is reported lost or broken is then forgotten: the next call is
        about the others.
        """
        at = level or self._level
        with self._forgetting() as entries:
            wait_durable(self._watcher, entries, level=at, timeout=timeout, cancel=cancel)

    def resume(
        self,
        token: str,
        *,
        level: str | None = None,
        wait_ms: float = 0,
        timeout: float | None = None,
        cancel: Cancellation | None = None,
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
        verdicts = self._client.verdicts(tokens, level=level, wait_ms=wait_ms, timeout=timeout, cancel=cancel)
        return self._take_over(entries, verdicts)
