"""A promise that the user holds: the token of a committed transaction, and what can be asked of it.

What both clients share; how one waits is theirs (`_sync`, `_async`).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NoReturn

from ._background import Host
from ._core.pending_set import PendingPromise, Settlement
from ._core.wire import Position, Verdict
from ._watcher import Watcher

Listener = Callable[[Verdict], object]
"""What is called when a promise is kept, lost or broken. An exception that it raises is logged, and no more."""


class News:
    """A listener of the user's: called once at most, on the host, and not after it was taken away."""

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
    """A listener on the client: called any number of times, on the host, and not after it was taken away."""

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
        """Internal: what the client knows of it."""
        self.position: Position = position
        """Where the transaction committed. It stays so when the transaction is carried over to another epoch."""
        self.level: str = level
        """The default level of `durable` and `on_lost`."""

    @property
    def id(self) -> str:
        """Of the transaction, a UUIDv7."""
        return self.entry.id

    @property
    def token(self) -> str:
        """Opaque; can be stored, and judged by another process later: `hw.promise(token)`."""
        return self.entry.token

    def verdict(self, *, level: str | None = None) -> Verdict | None:
        """What is known at the level without waiting: a terminal verdict, or None while it is pending.

        Also None where this client does not know it yet. Nothing is sent.

        Args:
            level: Default: the transaction's own.
        """
        return self._watcher.known(self.entry, level or self.level)

    def on_lost(self, listener: Listener, *, level: str | None = None) -> Callable[[], None]:
        """Calls back once if the transaction is ever lost before it is durable at the level.

        With verdict `lost`, or `broken` when it had been durable without this client knowing; never after it was
        durable. Until one of the three the client keeps its stream open. Returns what takes the listener away. Where
        listeners are called: see `Highwater.on_lost`.

        Args:
            level: Default: the transaction's own.
        """
        return self._on(listener, level, ("lost", "broken"))

    def on_durable(self, listener: Listener, *, level: str | None = None) -> Callable[[], None]:
        """Calls back once when it is durable at the level, and never otherwise. Returns what takes that away.

        Args:
            level: Default: the transaction's own.
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
