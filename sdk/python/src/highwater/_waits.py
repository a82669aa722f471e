"""One wait for promises: until all of them are durable, or one never will be.

Threads and tasks sleep; this module does not.
"""

from __future__ import annotations

import concurrent.futures
from collections.abc import Callable, Collection, Sequence

from ._core.errors import HighwaterError, closed_error, fresh
from ._core.pending_set import PendingPromise, Settlement
from ._core.wire import Verdict
from ._watcher import Watcher


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
                self.error = closed_error()
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

    def result(self, timeout: float, *, is_cancelled: bool = False) -> list[Verdict]:
        """Returns the verdicts or raises the error. A verdict that came in time counts."""
        if not self.is_done:
            if is_cancelled:
                raise concurrent.futures.CancelledError
            raise self._watcher.timed_out(self._entries, self._level, timeout=timeout, pending=self._open)
        if self.error is not None:
            raise self.error
        return self.verdicts

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
