"""The store's history as the client knows it: the newest epoch, its ancestry, marks of every epoch.

Pure. Owns which epoch's marks count; ``pending_set`` owns promises.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

from .wire import EpochRecord, Marks, Position

_EPOCHS_MAX: Final = 64
"""Epochs whose marks are kept. Older ones do not matter: trackers are asked about their promises.
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
    """Whether their epoch is the newest since then."""
    first: bool
    """Whether these are the first marks of their epoch."""


class History:
    __slots__ = ("_ancestry", "_marks", "_seq", "_successors", "head")

    def __init__(self) -> None:
        self.head: str | None = None
        """The newest reported epoch."""
        self._seq = 0
        self._ancestry: Sequence[EpochRecord] = ()
        """Up to the newest epoch; empty while that is known by its marks alone."""
        self._successors: dict[str, EpochRecord] = {}
        self._marks: dict[str, _EpochMarks] = {}

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
        known = None if self.head is None else self._marks.get(self.head)
        return None if self.head is None or known is None else Marks(self.head, known.seq, dict(known.levels))

    def is_older(self, epoch: str, other: str) -> bool | None:
        """Whether the epoch is older than the other one; None unless both were reported."""
        own, others = self._seq_of(epoch), self._seq_of(other)
        return None if own is None or others is None else own < others

    def _seq_of(self, epoch: str) -> int | None:
        known = self._marks.get(epoch)
        if known is not None:
            return known.seq
        return next((record.seq for record in self._ancestry if record.id == epoch), None)

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
        moved = marks.epoch != self.head and marks.seq >= self._seq
        if moved:
            self._move_to(marks.epoch, marks.seq, ())
        return Learned(raised, moved, first)

    def learn_epochs(self, epochs: Sequence[EpochRecord]) -> bool:
        """Learns the ancestry of the current epoch, oldest first.

        Returns False if nothing is new.
        """
        # One that ends at an older epoch is from a tracker that has not noticed the newest yet.
        if not epochs or epochs[-1].seq < self._seq:
            return False
        head = epochs[-1]
        if head.id == self.head and len(epochs) <= len(self._ancestry):
            return False
        self._move_to(head.id, head.seq, tuple(epochs))
        return True

    def _move_to(self, epoch: str, seq: int, ancestry: Sequence[EpochRecord]) -> None:
        self.head, self._seq, self._ancestry = epoch, seq, ancestry
        self._successors = {record.previous: record for record in ancestry if record.previous is not None}

    def is_current(self, position: Position) -> bool:
        """Whether marks of the position's epoch may settle it.

        Those of any other epoch may not: it ended, and was perhaps given up with all it had.
        """
        return self.head is None or self.head == position.epoch

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
            if epoch != self.head:
                del self._marks[epoch]
