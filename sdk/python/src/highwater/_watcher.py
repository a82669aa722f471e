"""Connects the pending set to trackers and waiters.

Feeds it marks, epochs and verdicts, asks the trackers about promises that only they can judge, and
calls the waiters. Owns waits, timers and questions; judges nothing. Callers watch, wait and bring
the marks of their answers from any thread. The host's loop brings the marks of the stream and runs
timers and questions. One lock guards the pending set. No user code and no waiter is called while it
is held.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Coroutine, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, TypedDict

from ._background import LOG, Host
from ._core.errors import (
    HighwaterError,
    closed_error,
    closed_wait,
    durability_timeout,
    fresh,
    refused_error,
    verdict_error,
)
from ._core.observer import ObservedEvent, Observer, notify
from ._core.pending_set import Moment, PendingPromise, PendingSet, Settled, Wait, Waiter
from ._core.runtime import Runtime
from ._core.tuning import Tuning
from ._core.wire import EpochRecord, Marks, RefusedToken, Verdict, VerdictsResponse
from ._stream import DurabilityStream

#: As long as the spread of the first questions after a failover.
ASK_TOGETHER_MS = 50


@dataclass(frozen=True, slots=True)
class Exposure:
    """Promises that this client waits for."""

    count: int
    """Number of promises."""
    oldest: float
    """Time since the oldest wait began, in seconds; 0 if there is none."""


@dataclass(frozen=True, slots=True)
class LiveState:
    """Newest marks of the current epoch, and the promises that this client waits for."""

    marks: Marks | None
    """Newest known marks of the current epoch; None before the first."""
    exposure: Exposure
    """Promises that this client waits for."""


Subscriber = Callable[[LiveState], object]
"""Function that `subscribe` of a client calls. An exception that it raises is only logged."""


@dataclass(frozen=True, slots=True)
class WatcherDeps:
    host: Host
    tuning: Tuning
    runtime: Runtime
    observer: Observer | None
    #: Makes the stream, on the loop, for the receivers of marks, of epochs, and of the refusal by
    #: every tracker.
    stream: Callable[
        [Callable[[Marks], None], Callable[[Sequence[EpochRecord]], None], Callable[[HighwaterError], None]],
        DurabilityStream,
    ]
    #: Asks the trackers about tokens at a level; they may hold the answer for that many
    #: milliseconds.
    ask: Callable[[list[str], str, float], Coroutine[Any, Any, VerdictsResponse]]
    #: Called once when an entry turns out lost or broken, before its waiters are called.
    on_loss: Callable[[PendingPromise, Verdict], None]


class Closable(Protocol):
    """A wait that `close` ends."""

    def end(self, error: HighwaterError) -> None: ...

    def close(self) -> None: ...


class _About(TypedDict):
    """What the error of a wait says about the transaction; of several, about a pending one."""

    token: str
    transaction_id: str | None
    metadata: Mapping[str, str] | None


@dataclass(eq=False, slots=True)
class _Question:
    """A request for verdicts in progress, with the waits that it is for."""

    level: str
    waits: set[Wait]
    task: asyncio.Task[None] | None = None


class Watcher:
    def __init__(self, deps: WatcherDeps) -> None:
        self._deps = deps
        self._pending_set = PendingSet()
        self.is_closed: bool = False
        self.renew()

    def renew(self) -> None:
        """Starts over after a fork or on another loop, without anything that was in progress."""
        is_closed = self.is_closed
        for entry in list(self._pending_set.entries):
            entry.waits.clear()
        self.lock: threading.RLock = threading.RLock()
        self._pending_set = PendingSet()
        self.waits: set[Closable] = set()
        self.is_closed = is_closed
        self._subscribers: dict[object, Subscriber] = {}
        self._is_to_tend = False
        # Only used on the loop:
        self._stream: DurabilityStream | None = None
        self._questions: set[_Question] = set()
        self._asking: asyncio.TimerHandle | None = None
        self._asking_at_ms = float("inf")
        self._rechecking: asyncio.TimerHandle | None = None

    @property
    def marks(self) -> Marks | None:
        with self.lock:
            return self._pending_set.history.newest_marks()

    @property
    def exposure(self) -> Exposure:
        with self.lock:
            oldest = min((entry.since_ms for entry in self._pending_set.entries), default=None)
            age_ms = 0 if oldest is None else max(0.0, self._moment().now_ms - oldest)
            return Exposure(len(self._pending_set.entries), age_ms / 1_000)

    def learn_marks(self, marks: Marks | None) -> None:
        """Learns marks. An answer may have none."""
        if marks is None:
            return
        with self.lock:
            settled = self._pending_set.learn_marks(marks, self._moment())
        self._finish(settled)

    def learn_epochs(self, epochs: Sequence[EpochRecord]) -> None:
        with self.lock:
            settled = self._pending_set.learn_epochs(epochs, self._moment())
        self._finish(settled)

    def find(self, token: str) -> PendingPromise | None:
        """Returns the entry of a token that is waited for."""
        with self.lock:
            return self._pending_set.find(token)

    def known(self, entry: PendingPromise, level: str) -> Verdict | None:
        """Returns the known verdict of the entry at the level, without waiting."""
        with self.lock:
            return self._pending_set.known(entry, level)

    def is_older(self, epoch: str, other: str) -> bool | None:
        """Whether the epoch is older than the other one; None if that is not known."""
        with self.lock:
            return self._pending_set.history.is_older(epoch, other)

    def error_of(self, entry: PendingPromise, verdict: Verdict) -> HighwaterError:
        """Makes the error of a verdict other than `durable`, with all known details."""
        with self.lock:
            successor = self._pending_set.history.successor(entry.origin)
        return verdict_error(verdict, metadata=entry.metadata, successor=successor)

    def timed_out(
        self, entries: Sequence[PendingPromise], level: str, *, timeout: float, pending: int
    ) -> HighwaterError:
        """Makes the error of a wait that timed out."""
        error = durability_timeout(level, pending=pending, **self._about(entries, level))
        if self._deps.observer is not None:
            event = ObservedEvent(type="timeout", id=error.transaction_id, level=level, waited=timeout)
            notify(self._deps.observer, event)
        return error

    def closed(self, entries: Sequence[PendingPromise], level: str) -> HighwaterError:
        """Makes the error of a wait that the end of the client ended."""
        return closed_wait(level, **self._about(entries, level))

    def _about(self, entries: Sequence[PendingPromise], level: str) -> _About:
        only = entries[0] if len(entries) == 1 else None
        first = next((each for each in entries if self.known(each, level) is None), entries[0])
        return {
            "token": first.token,
            "transaction_id": None if only is None else only.id,
            "metadata": None if only is None else only.metadata,
        }

    def watch(self, entry: PendingPromise, level: str, waiter: Waiter) -> None:
        """Calls the waiter once, when the entry is settled at the level.

        Call `known` first, under the same lock.
        """
        with self.lock:
            if self.is_closed:
                raise closed_error()
            self._tend_soon()
            self._pending_set.watch(entry, level, waiter, self._moment())

    def unwatch(self, entry: PendingPromise, level: str, waiter: Waiter) -> None:
        with self.lock:
            self._pending_set.unwatch(entry, level, waiter)
            self._tend_soon()

    def subscribe(self, subscriber: Subscriber) -> Callable[[], None]:
        """Reports the state, now and after every change.

        Keeps the stream open until unsubscribed.
        """
        key = object()
        with self.lock:
            if self.is_closed:
                raise closed_error()
            self._tend_soon()
            self._subscribers[key] = subscriber

        def unsubscribe() -> None:
            with self.lock:
                if self._subscribers.pop(key, None) is not None:
                    self._tend_soon()

        return unsubscribe

    def close(self) -> None:
        """Ends every wait with `client_closed`. `quit`, on the loop, ends the rest."""
        with self.lock:
            self.is_closed = True
            self._subscribers.clear()
            waits = list(self.waits)
        for wait in waits:
            wait.close()

    def _end_waits(self, error: HighwaterError) -> None:
        with self.lock:
            waits = list(self.waits)
        for wait in waits:
            # A new error object for each that raises it: two threads would mix up their tracebacks.
            wait.end(fresh(error))

    async def quit(self) -> None:
        """Ends questions, timers and the stream. Runs on the loop."""
        for timer in (self._asking, self._rechecking):
            if timer is not None:
                timer.cancel()
        tasks = [question.task for question in self._questions if question.task is not None]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        if self._stream is not None:
            await self._stream.close()

    def _moment(self) -> Moment:
        return Moment(self._deps.runtime.monotonic_ms(), self._deps.runtime.random)

    def _finish(self, settled: Iterable[Settled]) -> None:
        """Calls the waiters, then schedules the rest."""
        for each in settled:
            verdict = each.settlement.verdict
            if verdict is not None:
                self._observe(each, verdict)
                if each.is_loss:
                    self._deps.on_loss(each.entry, verdict)
            for waiter in each.waiters:
                # A settlement is reported once: a waiter that fails must not silence the others.
                try:
                    waiter(each.settlement)
                except Exception:  # noqa: BLE001 - logged
                    LOG.exception("a waiter for transaction %s failed", each.entry.id)
        with self.lock:
            if settled or self._pending_set.entries or self._subscribers:
                self._tend_soon()

    def _observe(self, settled: Settled, verdict: Verdict) -> None:
        kind = verdict.verdict
        if self._deps.observer is None or kind not in ("durable", "lost", "broken"):
            return
        entry = settled.entry
        waited = (self._moment().now_ms - entry.since_ms) / 1_000
        event = ObservedEvent(type=kind, id=entry.id, level=settled.level, verdict=verdict, waited=waited)
        notify(self._deps.observer, event)

    def _tend_soon(self) -> None:
        """Schedules `_tend` once for any number of changes. Requires the lock."""
        if self._is_to_tend or self.is_closed:
            return
        # The call comes first: it raises outside the loop of an asynchronous client, and a flag
        # that stayed set would stop everything.
        self._deps.host.call(self._tend)
        self._is_to_tend = True

    def _tend(self) -> None:
        """Adapts stream, timers and questions to the pending set.

        Runs on the loop after every change.
        """
        with self.lock:
            self._is_to_tend = False
            if self.is_closed:
                return
            is_waited_for = len(self._pending_set.entries) > 0
            subscribers = list(self._subscribers.values())
            state = LiveState(self.marks, self.exposure) if subscribers else None
            unneeded = [question for question in self._questions if self._is_unneeded(question)]
        if is_waited_for or subscribers:
            if self._stream is None:
                self._stream = self._deps.stream(self.learn_marks, self.learn_epochs, self._end_waits)
            self._stream.open()
        elif self._stream is not None:
            self._stream.release()
        for question in unneeded:
            if question.task is not None:
                question.task.cancel()
        for subscriber in subscribers:
            self._deps.host.notify(subscriber, state)
        self._set_timers(is_waited_for)

    def _is_unneeded(self, question: _Question) -> bool:
        """Whether all waits of the question were settled or given up in the meantime."""
        question.waits = {wait for wait in question.waits if wait.live}
        return not question.waits

    def _set_timers(self, is_waited_for: bool) -> None:
        loop = asyncio.get_running_loop()
        if not is_waited_for:
            for timer in (self._asking, self._rechecking):
                if timer is not None:
                    timer.cancel()
            self._asking = self._rechecking = None
            self._asking_at_ms = float("inf")
            return
        if self._rechecking is None:
            self._rechecking = loop.call_later(self._deps.tuning.recheck_ms / 1_000, self._recheck)
        with self.lock:
            next_ms = self._pending_set.next_ask_at_ms()
            now_ms = self._moment().now_ms
        if next_ms is None or next_ms >= self._asking_at_ms:
            return
        if self._asking is not None:
            self._asking.cancel()
        self._asking_at_ms = next_ms
        self._asking = loop.call_later(max(0.0, next_ms - now_ms) / 1_000, self._ask_due)

    def _recheck(self) -> None:
        self._rechecking = None
        with self.lock:
            self._pending_set.recheck(self._deps.tuning.recheck_ms, self._moment())
            self._tend_soon()

    def _ask_due(self) -> None:
        self._asking = None
        self._asking_at_ms = float("inf")
        tuning = self._deps.tuning
        room = tuning.verdict_requests_max - len(self._questions)
        # A question that ends makes room and calls this again.
        if room <= 0:
            return
        by_level: dict[str, list[Wait]] = {}
        with self.lock:
            # Also takes waits that are due soon: asked one by one, they would occupy every request
            # for as long as trackers hold it.
            due_ms = self._moment().now_ms + ASK_TOGETHER_MS
            for wait in self._pending_set.take_due(due_ms, room * tuning.verdict_batch):
                by_level.setdefault(wait.level, []).append(wait)
        for level, waits in by_level.items():
            for at in range(0, len(waits), tuning.verdict_batch):
                self._ask(level, waits[at : at + tuning.verdict_batch])
        with self.lock:
            self._tend_soon()

    def _ask(self, level: str, waits: Sequence[Wait]) -> None:
        question = _Question(level, set(waits))
        self._questions.add(question)
        question.task = self._deps.host.start(self._put(question))
        question.task.add_done_callback(lambda _: self._put_ended(question))

    def _put_ended(self, question: _Question) -> None:
        # Not inside the task: a task that is cancelled before its first step never runs.
        self._questions.discard(question)
        with self.lock:
            self._tend_soon()

    async def _put(self, question: _Question) -> None:
        tuning = self._deps.tuning
        with self.lock:
            # One slow promise holds up its whole request, so trackers hold none while others queue
            # for a turn.
            is_crowded = len(self._pending_set.to_ask) > tuning.verdict_batch * tuning.verdict_requests_max
            by_token: dict[str, list[Wait]] = {}
            for wait in question.waits:
                by_token.setdefault(wait.entry.token, []).append(wait)
        try:
            answer = await self._deps.ask(list(by_token), question.level, 0.0 if is_crowded else tuning.verdict_wait_ms)
        except HighwaterError as error:
            self._not_answered(question, error)
        except Exception:
            # A fault of this package: the end of the task reports it, and no promise depends on it.
            self._ask_later(question.waits)
            raise
        else:
            self._answered(by_token, answer)

    def _answered(self, by_token: dict[str, list[Wait]], answer: VerdictsResponse) -> None:
        settled: list[Settled] = []
        with self.lock:
            moment = self._moment()
            for verdict in answer.verdicts:
                for wait in by_token.pop(verdict.token, ()):
                    if isinstance(verdict, RefusedToken):
                        settled += self._pending_set.refuse(wait, refused_error(verdict))
                        continue
                    if verdict.verdict in ("unknown", "expired"):
                        LOG.warning("transaction %s cannot be judged: %s", verdict.id, verdict.verdict)
                    settled += self._pending_set.judge(wait, verdict, moment)
        # A token without an answer counts as a question without an answer.
        self._ask_later(wait for waits in by_token.values() for wait in waits)
        self._finish(settled)
        self.learn_marks(answer.marks)

    def _not_answered(self, question: _Question, error: HighwaterError) -> None:
        waits = list(question.waits)
        is_bad_token = error.code in ("invalid_token", "invalid_request")
        if is_bad_token and len(waits) > 1:
            # One bad token spoils the whole request: halve it until that token is alone.
            middle = len(waits) // 2
            self._ask(question.level, waits[:middle])
            self._ask(question.level, waits[middle:])
        elif is_bad_token or error.code == "unknown_level":
            with self.lock:
                settled = [each for wait in waits for each in self._pending_set.refuse(wait, error)]
            self._finish(settled)
        else:
            # Any other error concerns the service or the way to it, not these promises.
            LOG.warning("verdicts at level %s not answered: %s", question.level, error)
            self._ask_later(waits)

    def _ask_later(self, waits: Iterable[Wait]) -> None:
        with self.lock:
            moment = self._moment()
            for wait in waits:
                self._pending_set.ask_later(wait, moment)
