"""The listeners on a client. Owns the promises watched for them, and reports each event once."""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal

from ._background import Host
from ._core.pending_set import PendingPromise, Settlement
from ._core.wire import Verdict
from ._promise import ClientListener, Listener
from ._watcher import Watcher

Kind = Literal["lost", "broken", "durable"]


class Listeners:
    def __init__(self, host: Host, level: str) -> None:
        self._host = host
        self._level = level
        self._by_kind: dict[Kind, dict[object, ClientListener]] = {"lost": {}, "broken": {}, "durable": {}}
        #: Keeps an entry watched while there are listeners on the client.
        self._kept: dict[PendingPromise, Callable[[Settlement], None]] = {}

    def add(self, watcher: Watcher, kind: Kind, listener: Listener) -> Callable[[], None]:
        """Adds a listener and returns a function that removes it."""
        key, own = object(), ClientListener(self._host, listener)
        self._by_kind[kind][key] = own

        def off() -> None:
            own.end()
            self._by_kind[kind].pop(key, None)
            if not self._is_observed:
                self._unkeep(watcher)

        return off

    @property
    def _is_observed(self) -> bool:
        return any(self._by_kind.values())

    def keep(self, watcher: Watcher, entry: PendingPromise) -> None:
        """Keeps the entry watched for the listeners until it is settled at the client's level."""
        if not self._is_observed:
            return
        self._host.prepare()

        def on_settled(settlement: Settlement) -> None:
            with watcher.lock:
                self._kept.pop(entry, None)
            if settlement.verdict is not None and settlement.verdict.verdict == "durable":
                self._notify("durable", settlement.verdict)

        with watcher.lock:
            if watcher.is_closed or entry in self._kept:
                return
            known = watcher.known(entry, self._level)
            if known is None:
                watcher.watch(entry, self._level, on_settled)
                self._kept[entry] = on_settled
        if known is not None and known.verdict == "durable":
            self._notify("durable", known)

    def notify_loss(self, entry: PendingPromise, verdict: Verdict) -> None:
        if verdict.verdict == "broken":
            self._notify("broken", verdict)
        if self._level not in entry.durable:
            self._notify("lost", verdict)

    def end(self, watcher: Watcher) -> None:
        """Stops reporting. Earlier reports are still delivered."""
        self._unkeep(watcher)
        for listeners in self._by_kind.values():
            listeners.clear()

    def renew(self) -> None:
        """Starts over with the watcher, which watches nothing."""
        self._kept.clear()

    def _unkeep(self, watcher: Watcher) -> None:
        with watcher.lock:
            kept = list(self._kept.items())
            self._kept.clear()
        for entry, waiter in kept:
            watcher.unwatch(entry, self._level, waiter)

    def _notify(self, kind: Kind, verdict: Verdict) -> None:
        for listener in list(self._by_kind[kind].values()):
            listener.notify(verdict)
