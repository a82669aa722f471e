"""How calling threads wait: they perform the effects of the core and block on promises."""

from __future__ import annotations

import concurrent.futures
import contextlib
import threading
import time
from collections.abc import Callable, Collection, Iterator
from typing import TypeVar

from ._background import ThreadHost, abandoned
from ._batch import is_one_shot
from ._core.effects import Effect, Send, Sleep
from ._core.pending_set import PendingPromise
from ._core.wire import Verdict
from ._interactive import no_turn
from ._options import DURABLE_TIMEOUT, Cancellation
from ._promise import BasePromise
from ._transaction import BaseTransaction
from ._transport import Certificates, SyncTransport
from ._waits import Waiting
from ._watcher import Watcher

R = TypeVar("R")


class Caller:
    """Performs the core's effects in the calling thread. Owns the connections of those threads."""

    def __init__(self, host: ThreadHost, certificates: Certificates, *, is_batched: bool) -> None:
        self._host = host
        self._is_batched = is_batched
        self._certificates = certificates
        self._lock = threading.Lock()
        self._http: SyncTransport | None = None

    def perform(self, effect: Effect, cancel: Cancellation | None) -> object:
        if isinstance(effect, Send) and effect.url.endswith("/rollback"):
            # A cancelled call must still roll back its transaction.
            cancel = None
        check(cancel)
        match effect:
            case Send():
                # Requests that threads share are assembled on the loop.
                is_shared = self._is_batched and is_one_shot(effect)
                if effect.probe is None and cancel is None and not is_shared:
                    return self._transport().send(effect)
                # A thread that reads a socket cannot watch a timer or be stopped; a loop can.
                return result_of(self._host.run(lambda: self._host.perform(effect)), cancel)
            case Sleep(seconds):
                sleep(seconds, cancel)
                return None
            case _:
                raise TypeError(f"the synchronous client does not perform {type(effect).__name__}")

    def _transport(self) -> SyncTransport:
        with self._lock:
            if self._http is None:
                self._http = SyncTransport(self._certificates)
            return self._http

    def abandon(self) -> None:
        """Abandons the connections after a fork: they belong to the parent process."""
        abandoned.append(self._http)

    def close(self) -> None:
        with self._lock:
            http, self._http = self._http, None
        if http is not None:
            http.close()


class Turns:
    """Makes the calls of one transaction run one after another."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._is_taken = False

    @contextlib.contextmanager
    def take(self, seconds: float | None, cancel: Cancellation | None) -> Iterator[float]:
        """Waits for earlier calls of the transaction and yields the time left.

        Without `seconds` there is no limit. Errors: `request_timeout`;
        `concurrent.futures.CancelledError`. In both cases nothing was sent.
        """
        limit = threading.TIMEOUT_MAX if seconds is None else min(seconds, threading.TIMEOUT_MAX)
        deadline = time.monotonic() + limit
        off = cancel.watch(self._wake) if cancel is not None else None
        try:
            with self._changed:
                self._changed.wait_for(
                    lambda: not self._is_taken or (cancel is not None and cancel.is_cancelled), timeout=limit
                )
                check(cancel)
                if self._is_taken:
                    raise no_turn()
                self._is_taken = True
        finally:
            if off is not None:
                off()
        try:
            yield max(0.0, deadline - time.monotonic())
        finally:
            with self._changed:
                self._is_taken = False
                self._changed.notify_all()

    def _wake(self) -> None:
        with self._changed:
            self._changed.notify_all()


def check(cancel: Cancellation | None) -> None:
    """Ends a call that was cancelled before it sent anything."""
    if cancel is not None and cancel.is_cancelled:
        raise concurrent.futures.CancelledError


def result_of(future: concurrent.futures.Future[R], cancel: Cancellation | None) -> R:
    off = cancel.watch(future.cancel) if cancel is not None else None
    try:
        return future.result()
    finally:
        if off is not None:
            off()
        # Has an effect only if this thread was interrupted.
        future.cancel()


def sleep(seconds: float, cancel: Cancellation | None) -> None:
    if cancel is None:
        time.sleep(seconds)
        return
    woken = threading.Event()
    off = cancel.watch(woken.set)
    try:
        if woken.wait(seconds):
            raise concurrent.futures.CancelledError
    finally:
        off()


def wait_durable(
    watcher: Watcher,
    entries: Collection[PendingPromise],
    *,
    level: str,
    timeout: float | None,
    cancel: Cancellation | None,
) -> list[Verdict]:
    """Blocks until all entries are durable at the level.

    Raises the error of the first entry that is settled otherwise.
    """
    limit = DURABLE_TIMEOUT if timeout is None else timeout
    woken = threading.Event()
    off = cancel.watch(woken.set) if cancel is not None else None
    waiting = None
    try:
        check(cancel)
        waiting = Waiting(watcher, entries, level, woken.set)
        if not waiting.is_done:
            woken.wait(min(limit, threading.TIMEOUT_MAX))
        return waiting.result(limit, is_cancelled=cancel is not None and cancel.is_cancelled)
    finally:
        if off is not None:
            off()
        if waiting is not None:
            waiting.end()


class DurabilityPromise(BasePromise):
    """A committed transaction on its way to durability. Safe to use from any thread.

    Its token is enough to make another one in another process or at a later time:
    `hw.promise(token)`.
    """

    __slots__ = ()

    def durable(
        self, *, level: str | None = None, timeout: float | None = None, cancel: Cancellation | None = None
    ) -> Verdict:
        """Blocks until the transaction is durable at the level, and returns that verdict.

        Ending a wait changes nothing: you can wait again.

        Args:
            level: Level to wait for. Default: the transaction's own.
            timeout: Time limit of the wait, in seconds. Default: 30. Every wait has a limit.

        Errors: `TransactionLostError`; `PromiseBrokenError`; `UnknownOutcomeError` if the
        transaction can no longer be judged; `DurabilityTimeoutError`, which is not a loss;
        `TokenRefusedError`; `unknown_level`; `client_closed`; `concurrent.futures.CancelledError`.

        Example:
            tx = hw.transaction(sql("INSERT INTO note VALUES ({text})", text="hello"))
            try:
                tx.durable(level="region", timeout=5)
            except TransactionLostError as error:
                print("lost, none of its changes exist:", error.transaction_id)
            except DurabilityTimeoutError:
                print("still pending, not lost")
        """
        at = level or self.level
        [verdict] = wait_durable(self._watcher, [self.entry], level=at, timeout=timeout, cancel=cancel)
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
