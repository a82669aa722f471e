"""One wait for promises: until all of them are durable, or one never will be.

Threads and tasks sleep; this module does not.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, replace
from typing import Protocol, TypeVar

from ._background import Host
from ._core.errors import HighwaterError, fresh
from ._core.pending_set import PendingPromise, Settlement
from ._core.stores import EndedPart, is_loss
from ._core.wire import Verdict
from ._watcher import Watcher

R_co = TypeVar("R_co", covariant=True)


class AnyWait(Protocol[R_co]):
    """A wait that can be given up."""

    @property
    def is_done(self) -> bool: ...

    def result(self, timeout: float) -> R_co: ...

    def end(self) -> None: ...


class Waiting:
    """One wait for any number of entries at one level.

    `done` is called once, by the thread that settles it.
    """

    __slots__ = ("_done", "_entries", "_level", "_open", "_waiter", "_watcher", "error", "is_done", "verdicts")

    def __init__(
        self, watcher: Watcher, entries: Collection[PendingPromise], level: str, done: Callable[[], object]
    ) -> None:
        self._watcher = watcher
        self._level = level
        self._done = done
        self._open = 0
        self._waiter = self._on_settled
        self.verdicts: list[Verdict] = []
        self.error: HighwaterError | None = None
        self.is_done = False
        self._entries: Sequence[PendingPromise] = ()
        if not self._begin(entries):
            done()

    @property
    def pending(self) -> int:
        return self._open

    def _begin(self, entries: Collection[PendingPromise]) -> bool:
        """Watches the entries without a verdict. Returns False if there is nothing to wait for.

        Nothing can be settled in between. Once the lock is free, another thread may end the wait.
        """
        watcher, missing = self._watcher, []
        with watcher.lock:
            for entry in entries:
                known = watcher.known(entry, self._level)
                if known is None:
                    missing.append(entry)
                elif known.verdict == "durable":
                    self.verdicts.append(known)
                else:
                    self.error = watcher.error_of(entry, known)
                    break
            if self.error is None and missing and watcher.is_closed:
                self.error = watcher.closed(tuple(entries), self._level)
            if self.error is not None or not missing:
                self.is_done = True
                return False
            self._open = len(missing)
            self._entries = tuple(missing)
            for entry in missing:
                watcher.watch(entry, self._level, self._waiter)
            watcher.waits.add(self)
        return True

    def _on_settled(self, settlement: Settlement) -> None:
        verdict = settlement.verdict
        with self._watcher.lock:
            if self.is_done:
                return
            self._open -= 1
            # A new error object for each that raises it: two threads would mix up their tracebacks.
            self.error = None if settlement.error is None else fresh(settlement.error)
            if verdict is not None and verdict.verdict == "durable":
                self.verdicts.append(verdict)
            elif verdict is not None:
                entry = next(each for each in self._entries if each.token == verdict.token)
                self.error = self._watcher.error_of(entry, verdict)
            if self.error is None and self._open > 0:
                return
            self.is_done = True
        self.end()
        self._done()

    def result(self, timeout: float) -> list[Verdict]:
        """Returns the verdicts or raises the error. A verdict that came in time counts."""
        if not self.is_done:
            raise self._watcher.timed_out(self._entries, self._level, timeout=timeout, pending=self._open)
        if self.error is not None:
            raise self.error
        return self.verdicts

    def close(self) -> None:
        """Ends the wait because the client is closed."""
        self.end(self._watcher.closed(self._entries, self._level))

    def end(self, error: HighwaterError | None = None) -> None:
        """Gives up the open waits, with the error if there is one. Does nothing the second time."""
        with self._watcher.lock:
            if self not in self._watcher.waits:
                return
            self._watcher.waits.discard(self)
            is_settled = error is not None and not self.is_done
            if is_settled:
                self.error, self.is_done = error, True
            for entry in self._entries:
                self._watcher.unwatch(entry, self._level, self._waiter)
        if is_settled:
            self._done()


@dataclass(frozen=True, slots=True, kw_only=True)
class Part:
    """Something to wait for in one store."""

    store: str
    watcher: Watcher
    host: Host
    entries: Sequence[PendingPromise]
    level: str
    transaction_id: str | None = None


def at_level(parts: Sequence[Part], level: str | None) -> Sequence[Part]:
    """Returns the parts at the level, if one is given."""
    return parts if level is None else [replace(each, level=level) for each in parts]


def prepare(parts: Sequence[Part]) -> None:
    """Makes sure before a wait that each client has its loop."""
    for each in parts:
        each.host.prepare()


class StoresWait:
    """Waits in several stores at a time, until one has a loss or nothing more can be learned.

    A failure other than a loss does not end it: it must not hide a loss in another store.
    """

    __slots__ = ("_done", "_parts", "_waits")

    def __init__(self, parts: Sequence[Part], done: Callable[[], object]) -> None:
        self._done = done
        self._parts = parts
        self._waits: list[Waiting] = []
        try:
            for each in parts:
                self._waits.append(Waiting(each.watcher, each.entries, each.level, self._ended))
        except BaseException:
            self.end()
            raise
        self._ended()

    @property
    def is_done(self) -> bool:
        """Whether every part is settled, or one is lost."""
        if len(self._waits) < len(self._parts):
            return False
        return all(each.is_done for each in self._waits) or any(each.is_done for each in self._lost())

    def _lost(self) -> list[Waiting]:
        return [each for each in self._waits if is_loss(each.error)]

    def _ended(self) -> None:
        # Called by the thread that settles a part: whichever is last sees all of them.
        if self.is_done:
            self._done()

    def result(self, timeout: float) -> list[EndedPart]:
        """Returns how the wait for each part has ended."""
        is_over = any(each.is_done for each in self._lost())
        return [
            self._end_of(part, waiting, timeout, is_over=is_over)
            for part, waiting in zip(self._parts, self._waits, strict=True)
        ]

    def _end_of(self, part: Part, waiting: Waiting, timeout: float, *, is_over: bool) -> EndedPart:
        if is_over and not waiting.is_done:
            return EndedPart(part.store, part.transaction_id, None, is_open=True)
        try:
            waiting.result(timeout)
        except HighwaterError as error:
            return EndedPart(part.store, part.transaction_id, error)
        return EndedPart(part.store, part.transaction_id, None)

    def end(self) -> None:
        """Gives up the open waits."""
        for each in self._waits:
            each.end()
