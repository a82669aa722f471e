"""What a session has committed or read, to wait for it, see it in later reads and hand it on.

Pure, and not thread-safe: its owner locks.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from typing import Final

from .errors import usage_error
from .pending_set import PendingPromise
from .wire import RefusedToken, Verdict

REMEMBERED_MAX: Final = 10_000
"""Promises that a session remembers one by one.

Above that number it keeps, of the promises that are durable at the client's level, only the
furthest of each epoch, which stands for the others at stronger levels.
"""
PREFIX: Final = "hws1"


class SessionMemory:
    __slots__ = ("_begun", "_entries", "_floor", "_is_durable", "_is_older", "_latest")

    def __init__(
        self, is_durable: Callable[[PendingPromise], bool], is_older: Callable[[str, str], bool | None]
    ) -> None:
        """Makes an empty memory.

        ``is_durable`` returns whether a promise is known to be durable at the client's level, and
        ``is_older`` whether an epoch is older than another one, or None.
        """
        self._is_durable = is_durable
        self._is_older = is_older
        self._entries: dict[PendingPromise, None] = {}
        self._latest: tuple[PendingPromise, int] | None = None
        """The furthest promise of the newest epoch, and its number.

        A read that sees it sees everything before it.
        """
        self._floor: tuple[PendingPromise, int] | None = None
        """The furthest read with ``reads="durable"``: the next one does not show less."""
        self._begun = 0
        """Number of the session's transactions so far."""

    @property
    def entries(self) -> Collection[PendingPromise]:
        return self._entries.keys()

    @property
    def after(self) -> str | None:
        """The token whose effects a causal read must see."""
        return None if self._latest is None else self._latest[0].token

    @property
    def floor(self) -> str | None:
        """The token whose effects a durable-only read must see."""
        return None if self._floor is None else self._floor[0].token

    @property
    def token(self) -> str:
        """Everything that is remembered, as text for another process.

        It holds the token of every transaction that is not known to be durable, and for the durable
        ones the furthest of each epoch. So it stays short if work becomes durable as it goes.
        """
        self._compact()
        return ".".join((PREFIX, *(entry.token for entry in self._entries)))

    def begin(self) -> int:
        """Returns the number of a transaction, in the order in which the session's began."""
        self._begun += 1
        return self._begun

    def add(self, entry: PendingPromise, begun: int, *, is_durable_read: bool = False) -> None:
        """Remembers a transaction. ``begun`` is its number, or 0 if another session made it."""
        self._entries[entry] = None
        if not self._is_behind(entry, begun, self._latest):
            self._latest = entry, begun
        if is_durable_read and not self._is_behind(entry, begun, self._floor):
            self._floor = entry, begun
        if len(self._entries) > REMEMBERED_MAX:
            self._compact()

    def _is_behind(self, entry: PendingPromise, begun: int, latest: tuple[PendingPromise, int] | None) -> bool:
        """Whether the latest promise stays the latest, or the floor the floor.

        If the order of two epochs is not known, the transaction that began later is likely to be in
        the later epoch.
        """
        if latest is None:
            return False
        own, other = entry.position, latest[0].position
        if own.epoch == other.epoch:
            return own.offset < other.offset
        is_older = self._is_older(own.epoch, other.epoch)
        return begun < latest[1] if is_older is None else is_older

    def forget(self, entry: PendingPromise) -> None:
        """Forgets a promise that was reported lost or broken: the next wait is about the others."""
        self._entries.pop(entry, None)

    def take_over(self, entries: Sequence[PendingPromise], verdicts: Sequence[Verdict | RefusedToken]) -> None:
        """Remembers the existing transactions of a session that this one continues."""
        exists = {verdict.token for verdict in verdicts if verdict.verdict in {"durable", "pending"}}
        for entry in entries:
            if entry.token in exists:
                self.add(entry, 0)

    def _compact(self) -> None:
        furthest: dict[str, PendingPromise] = {}
        for entry in list(self._entries):
            if not self._is_durable(entry):
                continue
            other = furthest.get(entry.position.epoch)
            if other is not None and other.position.offset >= entry.position.offset:
                del self._entries[entry]
                continue
            if other is not None:
                del self._entries[other]
            furthest[entry.position.epoch] = entry


def session_tokens(token: str) -> list[str]:
    """Returns the transaction tokens in a session token. Errors: ``invalid_token``."""
    prefix, *tokens = token.split(".")
    if prefix != PREFIX:
        raise usage_error("invalid_token", "not a session token; pass the value of session.token")
    return tokens
