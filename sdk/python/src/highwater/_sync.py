"""How calling threads wait: they perform the effects of the core and block on promises."""

from __future__ import annotations

import asyncio
import concurrent.futures
import contextlib
import threading
import time
import weakref
from collections import Counter
from collections.abc import Callable, Collection, Iterator
from types import TracebackType
from typing import Any, Generic, Self, TypeVar

from ._background import ThreadHost, abandoned
from ._client import BaseClient
from ._core.effects import AwaitDurable, CallBody, Effect, Raised, Returned, Send, Sleep, Steps
from ._core.errors import NoAnswerError, closed_error, unknown_outcome
from ._core.pending_set import PendingPromise
from ._core.wire import Verdict
from ._drivers import Outcome, Visit, drive, explain
from ._interactive import no_turn
from ._lanes import Lanes
from ._options import DURABLE_TIMEOUT, Cancellation
from ._promise import BasePromise
from ._shared_requests import may_share
from ._transaction import BaseTransaction
from ._transport import Certificates, SyncTransport
from ._waits import AnyWait, Waiting
from ._watcher import Watcher

R = TypeVar("R")
P = TypeVar("P", bound=BasePromise)
T = TypeVar("T", bound=BaseTransaction)


class Caller:
    """Performs the core's effects in the calling thread. Owns the connections of those threads."""

    def __init__(self, host: ThreadHost, certificates: Certificates, lanes: Lanes | None) -> None:
        self._host = host
        self._lanes = lanes
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
                # A thread that reads a socket cannot watch a timer or be stopped; a loop can.
                if effect.probe is None and cancel is None:
                    return self._send(effect)
                return self._on_loop(effect, cancel)
            case Sleep(seconds):
                sleep(seconds, cancel)
                return None
            case _:
                raise TypeError(f"the synchronous client does not perform {type(effect).__name__}")

    def _send(self, request: Send) -> object:
        """Sends the request from the calling thread, unless others are to share it."""
        if self._lanes is None or not may_share(request):
            return self._transport().send(request)
        lane = self._lanes.of(request)
        if not lane.begins_alone():
            return self._on_loop(request)
        try:
            return self._transport().send(request)
        finally:
            lane.ended()

    def _on_loop(self, request: Send, cancel: Cancellation | None = None) -> object:
        # A request of its own, so that its end cancels the transaction at the gateway.
        is_alone = cancel is not None

        async def send() -> object:
            return await self._host.transport().send(request, is_alone=is_alone)

        return result_of(self._host.run(send), cancel)

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

    def __init__(self, transaction_id: str) -> None:
        self._id = transaction_id
        self._changed = threading.Condition()
        self._is_taken = False
        self._commits = 0

    @contextlib.contextmanager
    def take(
        self, seconds: float | None, cancel: Cancellation | None = None, *, is_commit: bool = False
    ) -> Iterator[float]:
        """Waits for earlier calls of the transaction and yields the time left.

        Without `seconds` there is no limit. Errors: `request_timeout`;
        `concurrent.futures.CancelledError`. In both cases nothing was sent.
        """
        limit = threading.TIMEOUT_MAX if seconds is None else min(seconds, threading.TIMEOUT_MAX)
        deadline = time.monotonic() + limit
        with self._counted(is_commit) as is_committing:
            self._wait(limit, cancel, is_committing=is_committing)
            try:
                yield max(0.0, deadline - time.monotonic())
            finally:
                with self._changed:
                    self._is_taken = False
                    self._changed.notify_all()

    def _wait(self, limit: float, cancel: Cancellation | None, *, is_committing: bool) -> None:
        off = cancel.watch(self._wake) if cancel is not None else None
        try:
            with self._changed:
                self._changed.wait_for(
                    lambda: not self._is_taken or (cancel is not None and cancel.is_cancelled), timeout=limit
                )
                check(cancel)
                if self._is_taken:
                    raise no_turn(is_committing=is_committing)
                self._is_taken = True
        except BaseException as error:
            if is_committing:
                explain(error, unknown_outcome(self._id))
            raise
        finally:
            if off is not None:
                off()

    @contextlib.contextmanager
    def _counted(self, is_commit: bool) -> Iterator[bool]:
        """Yields whether there is a commit among the earlier calls."""
        with self._changed:
            is_committing = self._commits > 0
            self._commits += is_commit
        try:
            yield is_committing
        finally:
            with self._changed:
                self._commits -= is_commit

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


def joined(
    work: asyncio.Future[R] | concurrent.futures.Future[R],
    *,
    timeout: float | None = None,
    cancel: Cancellation | None = None,
) -> R:
    """Waits for work on the client's loop that others may wait for, too. Errors: `TimeoutError`."""
    if isinstance(work, asyncio.Future):
        raise TypeError("the synchronous client's work is not a loop's own")
    limit = None if timeout is None else min(timeout, threading.TIMEOUT_MAX)
    if cancel is not None:
        woken = threading.Event()
        off = cancel.watch(woken.set)
        work.add_done_callback(lambda _: woken.set())
        woken.wait(limit)
        off()
        check(cancel)
        limit = 0
    return work.result(limit)


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
    return ended(lambda done: Waiting(watcher, entries, level, done), limit, cancel=cancel)


def ended(
    begin: Callable[[Callable[[], object]], AnyWait[R]], limit: float, *, cancel: Cancellation | None = None
) -> R:
    """Begins a wait, and returns its result when it is done or when the time is over."""
    woken = threading.Event()
    off = cancel.watch(woken.set) if cancel is not None else None
    waiting = None
    try:
        check(cancel)
        waiting = begin(woken.set)
        if not waiting.is_done:
            woken.wait(min(limit, threading.TIMEOUT_MAX))
        if not waiting.is_done:
            check(cancel)
        return waiting.result(limit)
    finally:
        if off is not None:
            off()
        if waiting is not None:
            waiting.end()


def together(calls: Collection[Callable[[], R]]) -> list[R | BaseException]:
    """Makes the calls at the same time, in threads. Returns what each returned or raised."""
    if not calls:
        return []

    def attempt(call: Callable[[], R]) -> R | BaseException:
        try:
            return call()
        except BaseException as error:  # noqa: BLE001 - the caller raises it
            return error

    with concurrent.futures.ThreadPoolExecutor(len(calls)) as threads:
        return list(threads.map(attempt, calls))


class SyncCalls(BaseClient[P, T], Generic[P, T]):
    """Performs the calls of the synchronous client, and waits for them when it is closed."""

    _host: ThreadHost

    def _make_host(self) -> ThreadHost:
        host = ThreadHost(self._certificates, self._lanes)
        self._begin_calls(host)
        # A client that is garbage-collected stops its threads. At process exit they end by
        # themselves.
        weakref.finalize(self, host.stop).atexit = False
        return host

    def _begin_calls(self, host: ThreadHost) -> None:
        self._caller = Caller(host, self._certificates, self._lanes)
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

    def close(self) -> None:
        """Closes the client: ends waits with `client_closed` and closes the stream.

        Returns when the calls of other threads have their answers and the listeners have been
        called for all earlier verdicts. A second call does nothing; any other call made afterwards
        raises `client_closed`. Another client can still judge stored tokens.
        """
        # If another thread is closing, it finishes. After an interrupted close, the next call
        # finishes.
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

    def _run(self, steps: Steps[R], outcome: Outcome | None = None, *, cancel: Cancellation | None = None) -> R:
        check(cancel)
        with Visit(self._enter, self._leave):
            return drive(steps, lambda effect: self._caller.perform(effect, cancel), outcome or Outcome())

    def _finish(self, steps: Steps[None]) -> None:
        """Rolls back.

        A closed client sends nothing: the service ends an abandoned transaction itself.
        """
        try:
            self._run(steps)
        except NoAnswerError as error:
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

    def _run_body(self, steps: Steps[Any], call: Callable[[Any], object], *, cancel: Cancellation | None) -> Any:
        """Runs `transact`. `call` calls the user's function with a transaction of the core."""
        # Not while the body runs: it is the user's code and may close the client.
        visit = Visit(self._enter, self._leave)

        def perform(effect: Effect) -> object:
            match effect:
                case CallBody(transaction):
                    visit.leave()
                    try:
                        return Returned(call(transaction))
                    except Exception as error:  # noqa: BLE001 - the core handles it
                        return Raised(error)
                case AwaitDurable(committed, timeout):
                    return committed.durable(timeout=timeout, cancel=cancel)
                case _:
                    visit.enter()
                    return self._caller.perform(effect, cancel)

        check(cancel)
        with visit:
            return drive(steps, perform, Outcome())
