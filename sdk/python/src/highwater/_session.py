"""A session as both clients hold it: the transactions that it has committed or read."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from ._core.errors import HighwaterError, PromiseBrokenError, TransactionLostError
from ._core.pending_set import PendingPromise
from ._core.session import SessionMemory, session_tokens
from ._core.wire import RefusedToken, Verdict
from ._options import TransactionOptions
from ._promise import BasePromise

if TYPE_CHECKING:
    from ._client import BaseClient


class BaseSession:
    def __init__(self, client: BaseClient[Any, Any], *, causal: bool) -> None:
        self._base = client
        self._watcher = client._watcher
        self._level = client._level
        self._is_causal = causal
        self._memory = SessionMemory(self._is_durable, self._watcher.is_older)

    @property
    def token(self) -> str:
        """Everything that this session remembers, as text for another process.

        It holds the token of every transaction that is not known to be durable at the client's
        level, and for the durable ones the furthest token of each epoch. So it stays short if work
        becomes durable as it goes. Store it together with, or before, the work that depends on it.
        """
        with self._watcher.lock:
            return self._memory.token

    def _is_durable(self, entry: PendingPromise) -> bool:
        known = self._watcher.known(entry, self._level)
        return known is not None and known.verdict == "durable"

    def _remember(self, promise: BasePromise) -> None:
        with self._watcher.lock:
            self._memory.add(promise.entry, self._memory.begin())

    def _rememberer(self, options: TransactionOptions) -> Callable[[BasePromise], None]:
        """Counts a transaction that begins now. Returns the function that remembers it."""
        with self._watcher.lock:
            begun = self._memory.begin()

        def remember(promise: BasePromise) -> None:
            with self._watcher.lock:
                self._memory.add(promise.entry, begun, is_durable_read=options.get("reads") == "durable")

        return remember

    def _seeing(self, options: TransactionOptions) -> TransactionOptions:
        """Fills in `after`.

        A causal read then sees everything that this session knows of. A durable-only read sees what
        the earlier ones have seen.
        """
        is_causal = self._is_causal and options.get("read_only") is True
        with self._watcher.lock:
            after = self._memory.after if is_causal else self._memory.floor
        if after is None or not (is_causal or options.get("reads") == "durable"):
            return options
        return {"after": after, **options}

    @contextmanager
    def _forgetting(self) -> Iterator[Sequence[PendingPromise]]:
        """Yields the entries to wait for, and forgets one that turns out lost or broken."""
        entries = self._open_entries()
        try:
            yield entries
        except (TransactionLostError, PromiseBrokenError) as error:
            self._forget(entries, error)
            raise

    def _forget(self, entries: Sequence[PendingPromise], error: HighwaterError) -> None:
        with self._watcher.lock:
            for entry in entries:
                if error.verdict is not None and entry.token == error.verdict.token:
                    self._memory.forget(entry)

    def _open_entries(self) -> Sequence[PendingPromise]:
        with self._watcher.lock:
            return list(self._memory.entries)

    def _entries_of(self, token: str) -> tuple[list[str], list[PendingPromise]]:
        tokens = session_tokens(token)
        return tokens, [self._base.promise(each).entry for each in tokens]

    def _take_over(
        self, entries: Sequence[PendingPromise], verdicts: list[Verdict | RefusedToken]
    ) -> list[Verdict | RefusedToken]:
        with self._watcher.lock:
            self._memory.take_over(entries, verdicts)
        return verdicts
