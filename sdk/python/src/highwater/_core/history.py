"""What the client knows of the store's history: the ancestry of the current epoch, and the marks of every epoch.

Pure. Owns the answer to "where does a position stand?"; promises are the business of ``pending_set``.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final, Literal, NamedTuple, TypeAlias

from .wire import EpochRecord, Marks, Position

_EPOCHS_MAX: Final = 64
"""Epochs whose marks are kept. Older ones do not matter: their promises are asked about."""

Standing: TypeAlias = Literal["open", "doubtful", "ended"]
"""Where a position stands.

``open``: its epoch is the current one as far as anybody knows. ``doubtful``: its epoch may have ended; its marks still
count, but ask. ``ended``: its epoch is over and its place is above what the successor certainly contains.
"""


@dataclass(slots=True)
class _EpochMarks:
    seq: int
    levels: dict[str, int]


class Learned(NamedTuple):
    """What marks said that was new."""

    raised: Sequence[str]
    """Levels that rose."""
    moved: bool
    """Standings may have moved, because the epoch is not in the ancestry."""
    first: bool
    """These are the first marks of their epoch."""


class History:
    __slots__ = ("_ancestry", "_foreign", "_last_marked", "_marks", "_successors")

    def __init__(self) -> None:
        self._ancestry: Sequence[EpochRecord] = ()
        self._successors: dict[str, EpochRecord] = {}
        self._marks: dict[str, _EpochMarks] = {}
        self._foreign: str | None = None
        """Epoch of the newest marks from outside the ancestry: the current epoch may be over."""
        self._last_marked: str | None = None

    @property
    def head(self) -> str | None:
        """The current epoch as far as this client knows."""
        return self._ancestry[-1].id if self._ancestry else self._last_marked

    @property
    def epochs_known(self) -> int:
        """No position can be carried over more often than this."""
        return len(self._ancestry)

    def mark(self, epoch: str, level: str) -> int | None:
        """The highest known offset of the level in the epoch; None when it was never observed, which is not zero."""
        known = self._marks.get(epoch)
        return None if known is None else known.levels.get(level)

    def lacks_level(self, epoch: str, level: str) -> bool:
        """True when marks of the epoch are known and the level is not among them."""
        known = self._marks.get(epoch)
        return known is not None and level not in known.levels

    def newest_marks(self) -> Marks | None:
        """The newest marks of the current epoch."""
        for epoch in (self.head, self._last_marked):
            known = None if epoch is None else self._marks.get(epoch)
            if epoch is not None and known is not None:
                return Marks(epoch, known.seq, dict(known.levels))
        return None

    def levels_passed(self, position: Position) -> list[str]:
        """Levels whose mark in the place's epoch has reached the place."""
        known = self._marks.get(position.epoch)
        levels: Iterable[tuple[str, int]] = () if known is None else known.levels.items()
        return [level for level, offset in levels if offset >= position.offset]

    def learn_marks(self, marks: Marks) -> Learned:
        """Takes marks in. Marks of any age stay true in their epoch, so the highest one counts."""
        known = self._marks.get(marks.epoch)
        first = known is None
        if known is None:
            known = self._marks[marks.epoch] = _EpochMarks(marks.seq, {})
            self._forget_old_marks()
        known.seq = max(known.seq, marks.seq)
        raised = [level for level, offset in marks.levels.items() if offset > known.levels.get(level, -1)]
        for level in raised:
            known.levels[level] = marks.levels[level]
        return Learned(raised, self._notice_epoch(marks.epoch), first)

    def _notice_epoch(self, epoch: str) -> bool:
        head_before = self.head
        self._last_marked = epoch
        if not self._ancestry:
            return head_before != epoch
        if any(record.id == epoch for record in self._ancestry):
            return False
        moved = self._foreign != epoch
        self._foreign = epoch
        return moved

    def learn_epochs(self, epochs: Sequence[EpochRecord]) -> bool:
        """Takes in the ancestry of the current epoch, oldest first. False when it says nothing new."""
        if not epochs:
            return False
        head = epochs[-1].id
        known = next((at for at, record in enumerate(self._ancestry) if record.id == head), None)
        is_head = known is not None and known == len(self._ancestry) - 1
        # The view of a tracker that has not noticed the newest epoch yet.
        if known is not None and not is_head:
            return False
        is_longer = len(epochs) > len(self._ancestry)
        if is_head and not is_longer and self._foreign is None:
            return False
        if not is_head or is_longer:
            self._ancestry = tuple(epochs)
        self._foreign = None
        self._successors = {record.previous: record for record in self._ancestry if record.previous is not None}
        return True

    def standing(self, position: Position) -> Standing:
        if position.epoch in self._successors:
            return "ended"
        head = self.head
        current = head if self._foreign is None else None
        return "open" if head is None or current == position.epoch else "doubtful"

    def successor(self, epoch: str) -> str | None:
        """The epoch that came after this one, or the current one where the epoch is not in its ancestry."""
        record = self._successors.get(epoch)
        if record is not None:
            return record.id
        return None if self.head == epoch else self.head

    def carry_over(self, position: Position, *, contained: bool) -> Position | None:
        """The place in the next epoch that stands for this one, or None when nothing proves that there is one.

        ``contained``: the place was itself taken over from an earlier epoch. It precedes its epoch's own record then,
        and the successor contains that record by being the successor.
        """
        successor = self._successors.get(position.epoch)
        if successor is None or (not contained and position.offset > successor.fork_offset):
            return None
        return Position(successor.id, successor.start_offset)

    def _forget_old_marks(self) -> None:
        for epoch in list(self._marks):
            if len(self._marks) <= _EPOCHS_MAX:
                return
            if epoch not in {self.head, self._foreign, self._last_marked}:
                del self._marks[epoch]
