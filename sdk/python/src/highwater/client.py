# Generated from aio.py by scripts/reference/sdk/sync_client.py (make gen).
"""The synchronous client. Each call blocks its thread; any number of threads may share a client."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from time import monotonic
from types import TracebackType
from typing import Any, Self, TypeVar, Unpack, cast, overload

from ._client import BaseClient, Remember, Statements
from ._core.errors import closed_error
from ._core.ids import check_transaction_id, new_transaction_id
from ._core.interactive import InteractiveCore
from ._core.pending_set import PendingPromise
from ._core.requests import AckOptions
from ._core.sql import StatementInput
from ._core.wire import Position, RefusedToken, TransactionResponse, TransactionStatus, Verdict
from ._drivers import Outcome, explained
from ._interactive import BaseInteractive
from ._options import BeginOptions, Cancellation, CommitOptions, TransactionOptions, TransactOptions, ack_of
from ._promise import BasePromise
from ._session import BaseSession
from ._sync import SyncCalls, Turns, wait_durable
from ._transaction import BaseTransaction
from ._values import StatementResult

R = TypeVar("R")


class DurabilityPromise(BasePromise):
    """A committed transaction on its way to durability. Safe to use from any thread.

    Its token is enough to make another one in another process or at a later time:
    `hw.promise(token)`.
    """

    __slots__ = ()

    def durable(
        self, *, level: str | None = None, timeout: float | None = None, cancel: Cancellation | None = None
    ) -> Verdict:
        """Waits until the transaction is durable at the level, and returns that verdict.

        Ending a wait changes nothing: you can wait again.

        Args:
            level: Level to wait for. Default: the transaction's own.
            timeout: Time limit of the wait, in seconds. Default: 30. Every wait has a limit.

        Errors: `TransactionLostError`; `PromiseBrokenError`; `UnknownOutcomeError` if the
        transaction can no longer be judged; `DurabilityTimeoutError`, which is not a loss;
        `TokenRefusedError`; `no_tracker` if there is none at the client's addresses, or it refuses
        the client's credential; `unknown_level`; `client_closed`; `concurrent.futures.CancelledError`.

        Example:
            tx = hw.transaction(sql("INSERT INTO note VALUES ({text})", text="hello"))
            try:
                tx.durable(level="region", timeout=5)
            except TransactionLostError as error:
                print("lost, none of its changes exist:", error.transaction_id)
            except DurabilityTimeoutError:
                print("still pending, not lost")
        """
        at, entries = level or self.level, [self.entry]
        [verdict] = wait_durable(self._watcher, entries, level=at, timeout=timeout, cancel=cancel)
        return verdict

    def after_durable(
        self,
        run: Callable[[Verdict], R],
        *,
        level: str | None = None,
        timeout: float | None = None,
        cancel: Cancellation | None = None,
    ) -> R:
        """Runs a function in this thread once the transaction is durable, and returns its result.

        Use it for side effects that cannot be undone. If the transaction does not become durable,
        the function is never called.

        Args:
            run: Function that receives the verdict. It is called at most once, in the calling
                thread.
            level: Level to wait for. Default: the transaction's own.
            timeout: Time limit of the wait, in seconds. Default: 30.

        Errors: those of `durable()` and of the function.

        Example:
            tx = hw.transaction(sql("INSERT INTO note VALUES ({text})", text="hello"))
            tx.after_durable(lambda verdict: print("now the e-mail can go out"), level="region", timeout=60)
        """
        return run(self.durable(level=level, timeout=timeout, cancel=cancel))


class Transaction(BaseTransaction, DurabilityPromise):
    """A committed transaction: its results and its promise.

    Returned by `Highwater.transaction` and by `commit` of an interactive transaction.
    """

    __slots__ = ()


class Highwater(SyncCalls[DurabilityPromise, Transaction]):
    __doc__ = BaseClient.__doc__

    @overload
    def transaction(
        self, statements: Statements, *, cancel: Cancellation | None = None, **options: Unpack[TransactionOptions]
    ) -> Transaction: ...

    @overload
    def transaction(
        self,
        statements: Callable[[InteractiveTransaction], R],
        *,
        cancel: Cancellation | None = None,
        **options: Unpack[TransactOptions],
    ) -> R: ...

    def transaction(
        self,
        statements: Statements | Callable[[InteractiveTransaction], Any],
        *,
        cancel: Cancellation | None = None,
        **options: Any,
    ) -> Any:
        """Runs the statements as one transaction and returns when it has committed.

        With `ack="durable"` it returns when the transaction is durable at the level.

        If an answer is lost, or after a conflict, the client sends the same id again, so the
        transaction never takes effect twice. The transaction may still commit after `timeout`.

        Args:
            statements: One statement, or a sequence of statements to run in order. With a function
                this is `transact`.

        Errors: `InvalidRequestError`; `StatementError` or a subclass if the database refused a
        statement; `SerializationError` if there were conflicts until time or attempts ran out;
        `UnavailableError` if the service could not run the transaction in time (nothing was
        applied). With `ack="durable"`, `DurabilityTimeoutError` if it has committed and is still
        pending, and `TransactionLostError` or `PromiseBrokenError` if a failure discarded it.
        `UnknownOutcomeError` if the outcome was not known in time; look up its `transaction_id`.
        `TransactionAbortedError` or `TransactionLostError` if the given `id` was already settled
        that way. If the call is cancelled, the transaction may still be applied: the cause of the
        `CancelledError` is then an `UnknownOutcomeError`. With `ack="durable"` and after the commit
        it is a `DurabilityTimeoutError`, which has the token.

        Example:
            tx = hw.transaction(sql("INSERT INTO note VALUES ({text})", text="hello"), ack="durable", timeout=10)
            print(tx.state)  # "durable"
        """
        if callable(statements):
            return self._transact(statements, cast("TransactOptions", options), cancel=cancel)
        return self._transaction(statements, cast("TransactionOptions", options), cancel=cancel)

    def _transaction(
        self,
        statements: Statements,
        options: TransactionOptions,
        remember: Remember | None = None,
        *,
        cancel: Cancellation | None = None,
    ) -> Transaction:
        until = monotonic() + self._timeout_ms(options.get("timeout")) / 1_000
        given = options.get("id")
        transaction_id = new_transaction_id() if given is None else check_transaction_id(given)
        steps = self._transaction_steps(transaction_id, statements, options, remember)
        transaction = self._run(steps, Outcome(transaction_id), cancel=cancel)
        return self._acknowledged(transaction, ack_of(options), until, cancel=cancel)

    def _acknowledged(
        self, transaction: Transaction, ack: AckOptions, until: float, *, cancel: Cancellation | None = None
    ) -> Transaction:
        """Waits as `ack` says: the service may have stopped waiting before."""
        wait_ms = ack.wait_ms((until - monotonic()) * 1_000)
        if wait_ms is not None:
            with explained(transaction):
                transaction.durable(timeout=max(0.0, wait_ms / 1_000), cancel=cancel)
        return transaction

    def begin(self, *, cancel: Cancellation | None = None, **options: Unpack[BeginOptions]) -> InteractiveTransaction:
        """Returns an interactive transaction. Use it as `with hw.begin() as tx`.

        Sends nothing: the first statements open the transaction. Prefer a one-shot transaction
        where it is enough: an open transaction holds locks and a database session. `cancel` applies
        to all calls of the transaction that have none of their own.

        Errors: `client_closed`.

        Example:
            with hw.begin(isolation="read committed") as tx:
                [row] = tx.query(sql("SELECT balance FROM account WHERE id = {id} FOR UPDATE", id=1)).rows
                print(row["balance"])
                update = sql("UPDATE account SET balance = balance - 10 WHERE id = {id}", id=1)
                committed = tx.commit(statements=[update])
            committed.durable(level="region")
        """
        return self._begin(options, cancel=cancel)

    def _begin(
        self, options: BeginOptions, remember: Remember | None = None, *, cancel: Cancellation | None = None
    ) -> InteractiveTransaction:
        if self._is_closed:
            raise closed_error()
        return InteractiveTransaction(self, self._open(options, remember), cancel=cancel)

    def transact(
        self,
        body: Callable[[InteractiveTransaction], R],
        *,
        cancel: Cancellation | None = None,
        **options: Unpack[TransactOptions],
    ) -> R:
        """Runs the body as one transaction, commits it and returns what the body returned.

        After a conflict the body runs again under a new id: with jittered delays, for at most
        `timeout` seconds and `max_attempts` runs. Exactly one run takes effect. The body must have
        no effects outside the transaction; put them in `after_durable`. With `ack="durable"` this
        returns when the transaction is durable, and a loss before that also causes another run.
        Otherwise a loss raises `TransactionLostError`, because the service may bring the
        transaction back. If the call is cancelled, an open transaction is rolled back; a commit in
        progress may still take effect, as the cause of the error then says.

        Args:
            body: Function that receives the open transaction. This call returns its return value.

        Errors: the body's own, after a rollback; `UnknownOutcomeError` if the outcome of the commit
        was not known in time (the body is not run again). With `ack="durable"`,
        `DurabilityTimeoutError` if the transaction has committed and is still pending. The last
        conflict, when time or attempts run out. Otherwise those of `query` and `commit`.

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
        return self._transact(body, options, cancel=cancel)

    def _transact(
        self,
        body: Callable[[InteractiveTransaction], R],
        options: TransactOptions,
        remember: Remember | None = None,
        *,
        cancel: Cancellation | None = None,
    ) -> R:
        def call(core: InteractiveCore[Transaction]) -> R:
            return body(InteractiveTransaction(self, core, cancel=cancel))

        return cast("R", self._run_body(self._transact_steps(options, remember), call, cancel=cancel))

    def session(self, *, causal: bool = False) -> Session:
        """Creates a session, a group of transactions that one call waits for.

        Another process can take it over. Sends nothing.

        Args:
            causal: Whether reads with `read_only` see everything that the session has committed or
                read before. The session then fills in their option `after`.
        """
        return Session(self, causal=causal)

    def verdicts(
        self,
        tokens: Sequence[str],
        *,
        level: str | None = None,
        wait: float = 0,
        timeout: float | None = None,
        cancel: Cancellation | None = None,
    ) -> list[Verdict | RefusedToken]:
        """Returns a tracker's verdict for each token, in the order of the tokens.

        An invalid token, or one of another owner, gets a `RefusedToken` instead. With `wait` the
        tracker answers when no verdict is pending any more, or when that time ends.

        Args:
            tokens: Any number of tokens. Each request asks about 1,000 of them.
            level: Level to judge at. Default: the client's.
            wait: Time that the tracker may hold its answer while a verdict is pending, in seconds;
                at most 60.
            timeout: Time limit of the whole call, in seconds. Default: for each request the
                client's `total_timeout` plus `wait`.

        Errors: `unknown_level`; `UnavailableError` if no tracker answers.

        Example:
            token = hw.transaction(sql("INSERT INTO note VALUES ({text})", text="hello")).token
            for each in hw.verdicts([token], wait=5):
                print(each.level, each.verdict)
        """
        return self._run(self._verdicts_steps(tokens, level=level, wait=wait, timeout=timeout), cancel=cancel)

    def status(
        self,
        transaction_id: str,
        *,
        level: str | None = None,
        wait: float = 0,
        timeout: float | None = None,
        cancel: Cancellation | None = None,
    ) -> TransactionStatus:
        """Returns the state of a transaction by its id, even if its token was never received.

        State `unknown` means that the service does not know the id; its request may still be on the
        way.

        Args:
            transaction_id: Id of the transaction, for example from
                `UnknownOutcomeError.transaction_id`.
            level: Level to judge at. Default: the service's own (`region` if it has that level),
                not the client's.
            wait: Time that the gateway may hold its answer until the transaction is settled at the
                level, in seconds. At most 60.
            timeout: Time limit of the whole call, in seconds. Default: the client's `total_timeout`
                plus `wait`.

        Errors: `invalid_id`; `UnavailableError` if no gateway answers in time.
        """
        return self._run(self._status_steps(transaction_id, level=level, wait=wait, timeout=timeout), cancel=cancel)

    def _make_promise(self, entry: PendingPromise, *, position: Position, level: str) -> DurabilityPromise:
        return DurabilityPromise(self._watcher, self._host, entry, position=position, level=level)

    def _make_transaction(self, entry: PendingPromise, *, response: TransactionResponse, level: str) -> Transaction:
        return Transaction(self._watcher, self._host, entry, response=response, level=level, decode=self._decode)


class InteractiveTransaction(BaseInteractive[Transaction]):
    __doc__ = BaseInteractive.__doc__

    def __init__(
        self, client: Highwater, core: InteractiveCore[Transaction], *, cancel: Cancellation | None = None
    ) -> None:
        super().__init__(core, client._decode)
        self._client = client
        self._turns = Turns(self.id)
        self._cancel = cancel
        client._opened(self)

    def query(
        self, statement: StatementInput, *, timeout: float | None = None, cancel: Cancellation | None = None
    ) -> StatementResult:
        """Runs one statement.

        If the call times out or is cancelled, the transaction ends and nothing of it is committed.

        Args:
            statement: Statement made by `sql`, or a `Statement`.
            timeout: Time limit for all attempts, in seconds. Default: that of `begin`, or the time
                left in `transact`.

        Errors: `StatementError` or a subclass; `TransactionAbortedError` with code
        `transaction_expired` if the transaction was idle for too long, or `gateway_lost` if its
        gateway is gone; `transaction_ended` if it has already ended.
        """
        [result] = self.execute([statement], timeout=timeout, cancel=cancel)
        return result

    def execute(
        self, statements: Sequence[StatementInput], *, timeout: float | None = None, cancel: Cancellation | None = None
    ) -> list[StatementResult]:
        """Runs statements in order in one round trip, and stops at the first that fails.

        Args:
            statements: Statements made by `sql`, or `Statement` objects.
            timeout: Time limit for all attempts, in seconds. Default: that of `begin`, or the time
                left in `transact`.

        Errors: those of `query`; `statement` is the index of the statement that failed.
        """
        self._check_process()
        cancel = cancel or self._cancel
        with self._turns.take(self._seconds(timeout), cancel=cancel) as left:
            return self._client._run(self._execute_steps(statements, left), cancel=cancel)

    def commit(
        self,
        *,
        statements: Sequence[StatementInput] = (),
        cancel: Cancellation | None = None,
        **options: Unpack[CommitOptions],
    ) -> Transaction:
        """Runs the statements, if any, and commits, in one round trip.

        With `ack="durable"` it returns when the transaction is durable. After a lost answer the
        client finds out the outcome; it never commits twice or under another id. `exposure_limit`
        leaves the transaction open: commit again, or roll back. On a committed transaction this
        returns the same result again, and waits for it as `ack` says. A cancelled call may have
        committed: the cause of the error is then an `UnknownOutcomeError`, or, once the commit was
        answered, a `DurabilityTimeoutError`.

        Args:
            statements: Statements to run before the commit. The committed transaction has their
                results.

        Errors: `UnknownOutcomeError` if the outcome is not known in time; with `ack="durable"`,
        those of `durable()`; otherwise those of `query`.
        """
        self._check_process()
        until = monotonic() + self._seconds(options.get("timeout"))
        cancel = cancel or self._cancel
        with self._turns.take(self._seconds(options.get("timeout")), is_commit=True, cancel=cancel) as left:
            steps = self._commit_steps(ack_of(options), statements, left)
            committed = self._client._run(steps, Outcome(self.id), cancel=cancel)
        return self._client._acknowledged(committed, ack_of(options), until, cancel=cancel)

    def rollback(self, *, timeout: float | None = None) -> None:
        """Rolls back the transaction.

        Also returns if the service cannot be reached: the transaction never commits and ends by
        itself at `expires_at`. Does nothing if the transaction has ended without a commit.

        Args:
            timeout: Time limit for all attempts, in seconds. Default: the client's `total_timeout`.

        Errors: `transaction_ended` after a commit.
        """
        self._check_process()
        with self._turns.take(self._rollback_seconds(timeout)) as left:
            self._client._finish(self._rollback_steps(left))

    def durable(
        self, *, level: str | None = None, timeout: float | None = None, cancel: Cancellation | None = None
    ) -> Verdict:
        """Waits for durability after the commit, like `DurabilityPromise.durable`.

        Args:
            level: Level to wait for. Default: the transaction's own.
            timeout: Time limit of the wait, in seconds. Default: 30. Every wait has a limit.

        Errors: `not_committed` before the commit; otherwise those of `DurabilityPromise.durable`.
        """
        return self._committed_or_raise().durable(level=level, timeout=timeout, cancel=cancel)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if not self._is_own:
            return
        with self._turns.take(None):
            self._client._finish(self._exit_steps(error))


class Session(BaseSession):
    """Groups transactions: one call waits for all of them, and one token hands them on.

    With `causal`, later reads see them. Made by `Highwater.session`. Several sessions may
    share a client. A session needs no closing.

    Example:
        session = hw.session(causal=True)
        session.transaction(sql("INSERT INTO note VALUES ({text})", text="hello"))
        # The read sees the note on any node:
        read = session.transaction(sql("SELECT * FROM note"), read_only=True)
        print(len(read.rows) > 0, read.served)
        stored = session.token
        session.durable(timeout=30)

        # In a later process:
        for each in hw.session().resume(stored):
            print(each.verdict)  # "lost" or "broken": it no longer exists
    """

    def __init__(self, client: Highwater, *, causal: bool) -> None:
        super().__init__(client, causal=causal)
        self._client = client

    @overload
    def transaction(
        self, statements: Statements, *, cancel: Cancellation | None = None, **options: Unpack[TransactionOptions]
    ) -> Transaction: ...

    @overload
    def transaction(
        self,
        statements: Callable[[InteractiveTransaction], R],
        *,
        cancel: Cancellation | None = None,
        **options: Unpack[TransactOptions],
    ) -> R: ...

    def transaction(
        self,
        statements: Statements | Callable[[InteractiveTransaction], Any],
        *,
        cancel: Cancellation | None = None,
        **options: Any,
    ) -> Any:
        """Like `hw.transaction`; the session remembers the transaction."""
        if callable(statements):
            return self._client._transact(statements, cast("TransactOptions", options), self._remember, cancel=cancel)
        seeing = self._seeing(cast("TransactionOptions", options))
        return self._client._transaction(statements, seeing, self._rememberer(seeing), cancel=cancel)

    def begin(self, *, cancel: Cancellation | None = None, **options: Unpack[BeginOptions]) -> InteractiveTransaction:
        """Like `hw.begin`; the session remembers the transaction once it has committed."""
        return self._client._begin(options, self._remember, cancel=cancel)

    def transact(
        self,
        body: Callable[[InteractiveTransaction], R],
        *,
        cancel: Cancellation | None = None,
        **options: Unpack[TransactOptions],
    ) -> R:
        """Like `hw.transact`; the session remembers the transaction."""
        return self._client._transact(body, options, self._remember, cancel=cancel)

    def token_of(self, connection: object, *, level: str | None = None) -> DurabilityPromise:
        """Like `hw.token_of`; the session remembers the transaction."""
        promise = self._client.token_of(connection, level=level)
        self._remember(promise)
        return promise

    def durable(
        self, *, level: str | None = None, timeout: float | None = None, cancel: Cancellation | None = None
    ) -> None:
        """Waits until everything committed or read in this session so far is durable at the level.

        Returns at once if there is nothing to wait for. Does not wait for later commits.

        Args:
            level: Level to wait for. Default: the client's.
            timeout: Time limit of the wait, in seconds. Default: 30. Every wait has a limit.

        Errors: those of `DurabilityPromise.durable`. The session then forgets a transaction that
        was reported lost or broken, so that the next call waits for the others.
        """
        with self._forgetting() as entries:
            at = level or self._level
            wait_durable(self._watcher, entries, level=at, timeout=timeout, cancel=cancel)

    def resume(
        self,
        token: str,
        *,
        level: str | None = None,
        wait: float = 0,
        timeout: float | None = None,
        cancel: Cancellation | None = None,
    ) -> list[Verdict | RefusedToken]:
        """Takes over the session of a token and returns the verdict of each of its transactions.

        Transactions with verdict `durable` or `pending` exist, and this session remembers them; a
        pending one may still be lost. Those with verdict `lost` or `broken` do not exist any more.
        A `durable` transaction may stand for earlier ones of its epoch, which are not listed.

        Args:
            token: The `token` of an earlier session.
            level: Level to judge at. Default: the client's.
            wait: Time that a tracker may hold its answer while a verdict is pending, in seconds; at
                most 60.
            timeout: Time limit of the whole call, in seconds. Default: as for `hw.verdicts`.

        Errors: `invalid_token` if the text is not a session token; those of `hw.verdicts`.
        """
        tokens, entries = self._entries_of(token)
        verdicts = self._client.verdicts(tokens, level=level, wait=wait, timeout=timeout, cancel=cancel)
        return self._take_over(entries, verdicts)
