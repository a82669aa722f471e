"""The store's history as the client knows it: ancestry of the current epoch, marks of every epoch.

Pure. Owns the standing of each position; ``pending_set`` owns promises.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final, Literal, NamedTuple, TypeAlias

from .wire import EpochRecord, Marks, Position

_EPOCHS_MAX: Final = 64
"""Epochs whose marks are kept. Older ones do not matter: trackers are asked about their promises.
"""

Standing: TypeAlias = Literal["open", "doubtful", "ended"]
"""The standing of a position.

``open``: its epoch is the current one as far as is known. ``doubtful``: its epoch may have ended;
its marks still count, but ask. ``ended``: its epoch has ended, and the position is above everything
that the successor certainly contains.
"""


@dataclass(slots=True)
class _EpochMarks:
    seq: int
    levels: dict[str, int]


class Learned(NamedTuple):
    """What was new in marks."""

    raised: Sequence[str]
    """Levels whose mark rose."""
    moved: bool
    """Whether standings may have changed, because the epoch is not in the ancestry."""
    first: bool
    """Whether these are the first marks of their epoch."""


class History:
    __slots__ = ("_ancestry", "_foreign", "_last_marked", "_marks", "_successors")

    def __init__(self) -> None:
        self._ancestry: Sequence[EpochRecord] = ()
        self._successors: dict[str, EpochRecord] = {}
        self._marks: dict[str, _EpochMarks] = {}
        self._foreign: str | None = None
        """Epoch of the newest marks from outside the ancestry: the current epoch may have ended."""
        self._last_marked: str | None = None

    @property
    def head(self) -> str | None:
        """The current epoch as far as this client knows."""
        return self._ancestry[-1].id if self._ancestry else self._last_marked

    @property
    def epochs_known(self) -> int:
        """Upper bound on how often a position can be carried over."""
        return len(self._ancestry)

    def mark(self, epoch: str, level: str) -> int | None:
        """Returns the highest known mark of the level in the epoch.

        None means never observed, not zero.
        """
        known = self._marks.get(epoch)
        return None if known is None else known.levels.get(level)

    def lacks_level(self, epoch: str, level: str) -> bool:
        """Whether marks of the epoch are known and the level is not among them."""
        known = self._marks.get(epoch)
        return known is not None and level not in known.levels

    def newest_marks(self) -> Marks | None:
        """Returns the newest marks of the current epoch."""
        for epoch in (self.head, self._last_marked):
            known = None if epoch is None else self._marks.get(epoch)
            if epoch is not None and known is not None:
                return Marks(epoch, known.seq, dict(known.levels))
        return None

    def levels_passed(self, position: Position) -> list[str]:
        """Returns the levels whose mark in the position's epoch has reached the position."""
        known = self._marks.get(position.epoch)
        levels: Iterable[tuple[str, int]] = () if known is None else known.levels.items()
        return [level for level, offset in levels if offset >= position.offset]

    def learn_marks(self, marks: Marks) -> Learned:
        """Learns marks. Marks of any age stay true in their epoch, so the highest one counts."""
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
        """Learns the ancestry of the current epoch, oldest first.

        Returns False if nothing is new.
        """
        if not epochs:
            return False
        head = epochs[-1].id
        known = next((at for at, record in enumerate(self._ancestry) if record.id == head), None)
        is_head = known is not None and known == len(self._ancestry) - 1
        # From a tracker that has not noticed the newest epoch yet.
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
        """Returns the next epoch, or the current one if the epoch is not in its ancestry."""
        record = self._successors.get(epoch)
        if record is not None:
            return record.id
        return None if self.head == epoch else self.head

    def carry_over(self, position: Position, *, contained: bool) -> Position | None:
        """Returns the position in the next epoch that stands for this one; None without proof.

        ``contained``: the position was itself carried over from an earlier epoch. It then precedes
        the record of its own epoch, which every successor contains.
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
