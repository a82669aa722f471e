"""The promise that a user holds: the token of a committed transaction and the questions about it.

Both clients share this part. `_sync` and `aio` do the waiting.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NoReturn

from ._background import Host
from ._core.errors import HighwaterError, durability_timeout
from ._core.pending_set import PendingPromise, Settlement
from ._core.wire import Position, Verdict
from ._watcher import Watcher

Listener = Callable[[Verdict], object]
"""Function that receives the verdict when a promise becomes durable, is lost or is broken.

An exception that it raises is only logged.
"""


class News:
    """A listener on a promise: called at most once, on the host, and not after its removal."""

    __slots__ = ("_host", "_kinds", "_listener")

    def __init__(self, host: Host, listener: Listener, kinds: tuple[str, ...]) -> None:
        self._host = host
        self._listener: Listener | None = listener
        self._kinds = kinds

    def on_settled(self, settlement: Settlement) -> None:
        if settlement.verdict is not None:
            self.notify(settlement.verdict)

    def notify(self, verdict: Verdict) -> None:
        if verdict.verdict in self._kinds:
            self._host.notify(self._call, verdict)

    def _call(self, verdict: Verdict) -> object:
        listener, self._listener = self._listener, None
        return None if listener is None else listener(verdict)

    def end(self) -> None:
        self._listener = None


class ClientListener:
    """A listener on the client: called any number of times, on the host, until its removal."""

    __slots__ = ("_host", "_listener")

    def __init__(self, host: Host, listener: Listener) -> None:
        self._host = host
        self._listener: Listener | None = listener

    def notify(self, verdict: Verdict) -> None:
        self._host.notify(self._call, verdict)

    def _call(self, verdict: Verdict) -> object:
        return None if self._listener is None else self._listener(verdict)

    def end(self) -> None:
        self._listener = None


class BasePromise:
    __slots__ = ("__weakref__", "_host", "_watcher", "entry", "level", "position")

    def __init__(self, watcher: Watcher, host: Host, entry: PendingPromise, *, position: Position, level: str) -> None:
        self._watcher = watcher
        self._host = host
        self.entry: PendingPromise = entry
        """Internal: what the client knows about the promise."""
        self.position: Position = position
        """Position of the commit.

        It does not change when the transaction is carried over to another epoch.
        """
        self.level: str = level
        """Default level of `durable` and `on_lost`."""

    def still_pending(self) -> HighwaterError:
        """Internal: the cause of a cancelled wait for what was committed."""
        entry = self.entry
        return durability_timeout(
            self.level, pending=1, token=entry.token, transaction_id=entry.id, metadata=entry.metadata
        )

    @property
    def id(self) -> str:
        """Id of the transaction, a UUIDv7. All zeros if the token names a position alone."""
        return self.entry.id

    @property
    def token(self) -> str:
        """Opaque text to store. Another process can wait for it later: `hw.promise(token)`."""
        return self.entry.token

    def verdict(self, *, level: str | None = None) -> Verdict | None:
        """Returns the known terminal verdict at the level, without waiting.

        None while the transaction is pending, or while this client does not know the verdict yet.
        Sends nothing.

        Args:
            level: Level of the verdict. Default: the transaction's own.
        """
        return self._watcher.known(self.entry, level or self.level)

    def on_lost(self, listener: Listener, *, level: str | None = None) -> Callable[[], None]:
        """Calls the listener once if the transaction is lost before it is durable at the level.

        The verdict is `lost`, or `broken` if the transaction had been durable without this client
        knowing. The listener is never called after the transaction was durable. The client keeps
        its stream open until one of the three verdicts. Returns a function that removes the
        listener. See `Highwater.on_lost` for where listeners are called.

        Args:
            level: Level of the promise. Default: the transaction's own.
        """
        return self._on(listener, level, ("lost", "broken"))

    def on_durable(self, listener: Listener, *, level: str | None = None) -> Callable[[], None]:
        """Calls the listener once when the transaction is durable at the level.

        Returns a function that removes the listener.

        Args:
            level: Level to watch. Default: the transaction's own.
        """
        return self._on(listener, level, ("durable",))

    def _on(self, listener: Listener, level: str | None, kinds: tuple[str, ...]) -> Callable[[], None]:
        level = level or self.level
        self._host.prepare()
        news = News(self._host, listener, kinds)
        waiter = news.on_settled
        with self._watcher.lock:
            known = self._watcher.known(self.entry, level)
            if known is None:
                self._watcher.watch(self.entry, level, waiter)
        if known is not None:
            news.notify(known)

        def off() -> None:
            news.end()
            self._watcher.unwatch(self.entry, level, waiter)

        return off

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.id}>"

    def __reduce__(self) -> NoReturn:
        raise TypeError(f"a {type(self).__name__} cannot be pickled; pass its token, and call hw.promise(token) there")
