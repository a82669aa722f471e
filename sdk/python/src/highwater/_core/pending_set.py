"""The pending set holds the promises that are waited for, and judges them.

Pure: time and randomness come as arguments, settlements are returned as values. Not thread-safe:
its owner locks. The rules are named like the verdicts that this client finds by itself:

- ``client:mark``: a promise is durable at a level when a mark of that level has reached its offset
  in the newest reported epoch. Marks of another epoch say nothing: it may have been given up.
- Carried over: when its epoch is an ancestor of the newest and its offset is at or below the
  successor's fork offset, it continues at the successor's start offset and waits for marks there.
  A promise that marks of the ancestor had reached is durable.
- Only a tracker can judge any other promise of another epoch: ask, and ask again. This client never
  finds ``lost`` by itself. Missing evidence means ``pending``.
"""

from __future__ import annotations

import heapq
import sys
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Final, NamedTuple, TypeAlias

from .errors import HighwaterError
from .history import History
from .wire import EpochRecord, Marks, Position, Verdict

_FIRST_ASK_SPREAD_MS: Final = 50
"""First questions are spread over this time, because after a failover every client has one."""
_ASK_AGAIN_BASE_MS: Final = 100
_ASK_AGAIN_MAX_MS: Final = 10_000
_SWEEP_MIN: Final = 64
"""Dead entries of a queue are removed when they are the majority and at least this many."""
_POP_MAX: Final = 64
"""Maximum number of entries that are taken from a queue one by one."""


class Settlement(NamedTuple):
    """The end of a wait: a terminal verdict, or an error because the question was refused."""

    verdict: Verdict | None
    error: HighwaterError | None = None


Waiter: TypeAlias = Callable[[Settlement], object]


@dataclass(frozen=True, slots=True)
class Moment:
    now_ms: float
    random: Callable[[], float]


@dataclass(eq=False, slots=True)
class PendingPromise:
    """One transaction's promise. The pending set holds it only while something waits for it."""

    id: str
    token: str
    position: Position
    """The position where it is judged now."""
    since_ms: float
    origin: str
    """The epoch in which it committed."""
    metadata: Mapping[str, str] | None = None
    """Metadata of its options; None in a process that only has its token."""
    read_only: bool | None = None
    """Whether it is read-only; None in such a process."""
    durable: dict[str, Verdict] = field(default_factory=dict)
    """``durable`` verdicts by level. They stay, whatever happens later."""
    loss: Verdict | None = None
    """The verdict ``lost`` or ``broken``. It settles every level that is not durable.

    Its level is the one that it names.
    """
    waits: list[Wait] = field(default_factory=list)
    """One wait for each level that is waited for: a few at most."""

    def wait_at(self, level: str) -> Wait | None:
        for wait in self.waits:
            if wait.level == level:
                return wait
        return None


def make_entry(
    token: str,
    *,
    transaction_id: str,
    position: Position,
    now_ms: float,
    metadata: Mapping[str, str] | None = None,
    read_only: bool | None = None,
) -> PendingPromise:
    # Ten thousand promises of one epoch share one string for it. Answers and tokens already have
    # that one.
    epoch = sys.intern(position.epoch)
    position = position if position.epoch is epoch else Position(epoch, position.offset)
    return PendingPromise(transaction_id, token, position, now_ms, epoch, metadata, read_only)


def note_durable(entry: PendingPromise, level: str, rule: str) -> Verdict:
    """Records that the promise is durable at the level, by a rule of this client."""
    verdict = Verdict(
        token=entry.token,
        id=entry.id,
        verdict="durable",
        level=level,
        position=entry.position,
        rule=rule,
        metadata=entry.metadata,
        read_only=entry.read_only,
    )
    entry.durable[level] = verdict
    return verdict


@dataclass(eq=False, slots=True)
class Wait:
    """All waiters for one entry at one level."""

    entry: PendingPromise
    level: str
    since_ms: float
    waiters: list[Waiter] = field(default_factory=list)
    live: bool = True
    """False once it is settled or given up."""
    ask_at_ms: float | None = None
    """When to ask a tracker; None while marks are enough."""
    asks: int = 0
    """Questions without a result since marks were last enough."""
    asking: bool = False
    queue: _Queue | None = None
    """The queue in which it waits for a mark, with its number there."""
    number: int = -1


class Settled(NamedTuple):
    """Waiters to call, collected by every call that can settle something."""

    entry: PendingPromise
    level: str
    waiters: Sequence[Waiter]
    settlement: Settlement
    is_loss: bool = False
    """Whether this entry turned out lost or broken for the first time."""


class _Queue:
    """Waits by offset. One mark takes all waits that it has passed."""

    __slots__ = ("_dead", "_items", "_next")

    def __init__(self) -> None:
        self._items: list[tuple[int, int, Wait]] = []
        self._next = 0
        self._dead = 0

    def __len__(self) -> int:
        """Number of entries in memory, including dead ones."""
        return len(self._items)

    def push(self, wait: Wait) -> None:
        self._next += 1
        wait.queue, wait.number = self, self._next
        heapq.heappush(self._items, (wait.entry.position.offset, self._next, wait))

    def drop(self, wait: Wait) -> None:
        """Removes a wait from this queue."""
        wait.queue = None
        self._dead += 1
        if self._dead >= _SWEEP_MIN and self._dead * 2 > len(self._items):
            self._items = [item for item in self._items if self._is_live(item)]
            heapq.heapify(self._items)
            self._dead = 0

    def take_up_to(self, offset: int) -> list[Wait]:
        """Removes and returns every live wait at or below the offset, lowest first."""
        items = self._items
        passed: list[tuple[int, int, Wait]] = []
        while items and items[0][0] <= offset and len(passed) < _POP_MAX:
            passed.append(heapq.heappop(items))
        if items and items[0][0] <= offset:
            # If a mark passes many, one pass over all is quicker than taking them one by one.
            passed += sorted(item for item in items if item[0] <= offset)
            items[:] = [item for item in items if item[0] > offset]
            heapq.heapify(items)
        taken = [item[2] for item in passed if self._is_live(item)]
        self._dead -= len(passed) - len(taken)
        for wait in taken:
            wait.queue = None
        return taken

    def _is_live(self, item: tuple[int, int, Wait]) -> bool:
        _offset, number, wait = item
        return wait.queue is self and wait.number == number


class PendingSet:
    def __init__(self) -> None:
        self.history: Final = History()
        self._entries: dict[PendingPromise, None] = {}
        self._by_token: dict[str, PendingPromise] = {}
        self._queues: dict[tuple[str, str], _Queue] = {}
        self._to_ask: dict[Wait, None] = {}

    @property
    def entries(self) -> Collection[PendingPromise]:
        """Promises that are waited for, oldest wait first."""
        return self._entries.keys()

    @property
    def to_ask(self) -> Collection[Wait]:
        """Waits that marks alone cannot settle."""
        return self._to_ask.keys()

    def find(self, token: str) -> PendingPromise | None:
        """Returns the entry of an awaited token, so that two handles share one outcome."""
        return self._by_token.get(token)

    def known(self, entry: PendingPromise, level: str) -> Verdict | None:
        """Returns the known verdict of the entry at the level, from verdicts or marks."""
        # The pending set refiles its waits whenever the history changes, so this settles none of
        # them.
        if entry.loss is None:
            self._carry(entry, [])
        durable = entry.durable.get(level)
        if durable is not None:
            return durable
        if entry.loss is not None:
            # It holds at the level that its verdict names; at this level its promise may not be
            # broken.
            return entry.loss
        return self._note_durable(entry, level) if self._has_passed(entry, level) else None

    def watch(self, entry: PendingPromise, level: str, waiter: Waiter, moment: Moment) -> None:
        """Adds a waiter. Settles nothing: call ``known`` first."""
        wait = entry.wait_at(level)
        if wait is None:
            wait = Wait(entry, sys.intern(level), moment.now_ms)
            entry.waits.append(wait)
            self._entries[entry] = None
            self._by_token[entry.token] = entry
            self._file(wait, moment)
        wait.waiters.append(waiter)

    def unwatch(self, entry: PendingPromise, level: str, waiter: Waiter) -> bool:
        """Removes a waiter. Returns True if no caller waits for the entry any more."""
        wait = entry.wait_at(level)
        if wait is not None and waiter in wait.waiters:
            wait.waiters.remove(waiter)
            if not wait.waiters:
                self._drop(wait)
        return entry not in self._entries

    def learn_marks(self, marks: Marks, moment: Moment) -> list[Settled]:
        raised, moved, first = self.history.learn_marks(marks)
        settled: list[Settled] = []
        for level in raised:
            queue = self._queues.get((marks.epoch, level))
            offset = self.history.mark(marks.epoch, level)
            if queue is None or offset is None:
                continue
            for wait in queue.take_up_to(offset):
                self._settle_durable(wait, settled)
        # The first marks also show which levels have no mark yet; see _file.
        if moved or first:
            self._refile(settled, moment)
        return settled

    def learn_epochs(self, epochs: Sequence[EpochRecord], moment: Moment) -> list[Settled]:
        settled: list[Settled] = []
        if self.history.learn_epochs(epochs):
            self._refile(settled, moment)
        return settled

    def judge(self, wait: Wait, verdict: Verdict, moment: Moment) -> list[Settled]:
        """Takes in a tracker's answer about this wait."""
        wait.asking = False
        settled: list[Settled] = []
        if not wait.live:
            return settled
        entry = wait.entry
        if entry.read_only is not None:
            verdict = replace(verdict, metadata=entry.metadata, read_only=entry.read_only)
        match verdict.verdict:
            case "durable":
                entry.durable[wait.level] = verdict
                self._settle(wait, Settlement(verdict), settled)
            case "lost" | "broken":
                entry.loss = verdict
                for index, each in enumerate(list(entry.waits)):
                    self._settle(each, Settlement(verdict), settled, is_loss=index == 0)
            case "expired" | "unknown":
                self._settle(wait, Settlement(verdict), settled)
            case "pending":
                # The tracker may know a position that this client could not derive (from its
                # receipt).
                entry.position = verdict.position
                wait.ask_at_ms = None
                wait.asks += 1
                self._refile_entry(entry, settled, moment)
        return settled

    def ask_later(self, wait: Wait, moment: Moment) -> None:
        """Asks again later: the question could not be asked or got no answer."""
        wait.asking = False
        if wait.live and wait in self._to_ask:
            wait.asks += 1
            wait.ask_at_ms = moment.now_ms + _ask_delay_ms(wait.asks, moment.random())

    def refuse(self, wait: Wait, error: HighwaterError) -> list[Settled]:
        """Ends a wait whose question was refused for good.

        An example is a level that does not exist.
        """
        wait.asking = False
        settled: list[Settled] = []
        if wait.live:
            self._settle(wait, Settlement(None, error), settled)
        return settled

    def take_due(self, now_ms: float, limit: int) -> list[Wait]:
        """Returns waits that are due for a question, up to the limit.

        Each is taken once until its answer.
        """
        due: list[Wait] = []
        for wait in self._to_ask:
            if len(due) >= limit:
                break
            if not wait.asking and wait.ask_at_ms is not None and wait.ask_at_ms <= now_ms:
                wait.asking = True
                due.append(wait)
        return due

    def next_ask_at_ms(self) -> float | None:
        return min(
            (wait.ask_at_ms for wait in self._to_ask if not wait.asking and wait.ask_at_ms is not None), default=None
        )

    def recheck(self, older_than_ms: float, moment: Moment) -> None:
        """Asks about all old waits.

        A promise must not depend on a report that this client missed.
        """
        for entry in self._entries:
            for wait in entry.waits:
                if moment.now_ms - wait.since_ms >= older_than_ms:
                    self._ask(wait, moment)

    def _has_passed(self, entry: PendingPromise, level: str) -> bool:
        if not self.history.is_current(entry.position):
            return False
        mark = self.history.mark(entry.position.epoch, level)
        return mark is not None and mark >= entry.position.offset

    def _note_durable(self, entry: PendingPromise, level: str) -> Verdict:
        return note_durable(entry, level, "client:mark")

    def _carry(self, entry: PendingPromise, settled: list[Settled]) -> None:
        """Carries the entry along the ancestry as far as the evidence goes.

        A verdict by the marks of its old epoch counts.
        """
        for _ in range(self.history.epochs_known):
            contained = entry.position.epoch != entry.origin
            following = self.history.carry_over(entry.position, contained=contained)
            if following is None:
                return
            for level in self.history.levels_passed(entry.position):
                wait = entry.wait_at(level)
                if wait is not None:
                    self._settle_durable(wait, settled)
                elif level not in entry.durable:
                    self._note_durable(entry, level)
            entry.position = following

    def _refile(self, settled: list[Settled], moment: Moment) -> None:
        self._queues.clear()
        for entry in list(self._entries):
            self._refile_entry(entry, settled, moment)

    def _refile_entry(self, entry: PendingPromise, settled: list[Settled], moment: Moment) -> None:
        self._carry(entry, settled)
        for wait in list(entry.waits):
            if self._has_passed(entry, wait.level):
                self._settle_durable(wait, settled)
            else:
                self._file(wait, moment)

    def _file(self, wait: Wait, moment: Moment) -> None:
        """Puts a wait where its evidence will come from.

        That is under its epoch's marks, on the list to ask, or both.
        """
        position = wait.entry.position
        epoch = position.epoch
        if wait.queue is not None:
            wait.queue.drop(wait)
        is_current = self.history.is_current(position)
        if is_current:
            key = (epoch, wait.level)
            queue = self._queues.get(key)
            if queue is None:
                queue = self._queues[key] = _Queue()
            queue.push(wait)
        # A level without a mark may get one later, or be misspelt: a question shows which.
        if not is_current or self.history.lacks_level(epoch, wait.level):
            self._ask(wait, moment)
        else:
            wait.ask_at_ms = None
            wait.asks = 0
            self._to_ask.pop(wait, None)

    def _ask(self, wait: Wait, moment: Moment) -> None:
        self._to_ask[wait] = None
        if wait.ask_at_ms is None:
            wait.ask_at_ms = moment.now_ms + _ask_delay_ms(wait.asks, moment.random())

    def _settle_durable(self, wait: Wait, settled: list[Settled]) -> None:
        if wait.live:
            self._settle(wait, Settlement(self._note_durable(wait.entry, wait.level)), settled)

    def _settle(self, wait: Wait, settlement: Settlement, settled: list[Settled], *, is_loss: bool = False) -> None:
        settled.append(Settled(wait.entry, wait.level, tuple(wait.waiters), settlement, is_loss))
        self._drop(wait)

    def _drop(self, wait: Wait) -> None:
        entry = wait.entry
        wait.live = False
        wait.waiters.clear()
        if wait.queue is not None:
            wait.queue.drop(wait)
        self._to_ask.pop(wait, None)
        entry.waits.remove(wait)
        if not entry.waits:
            self._entries.pop(entry, None)
            if self._by_token.get(entry.token) is entry:
                del self._by_token[entry.token]


def _ask_delay_ms(asks: int, random: float) -> float:
    if asks == 0:
        return random * _FIRST_ASK_SPREAD_MS
    return (0.5 + random / 2) * min(_ASK_AGAIN_MAX_MS, _ASK_AGAIN_BASE_MS * 2.0 ** min(asks, 20))
