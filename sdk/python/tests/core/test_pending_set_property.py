"""Goal: in any order of events, and whenever a wait begins, the pending set never says `durable` of
a lost transaction nor `lost` of one that is there, never says `lost` unasked. In the end it leaves nothing open.

Method: a made-up history of three epochs that the book cannot see, its events shuffled and repeated, and a tracker that
answers from the history, at times only `pending`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from hypothesis import given, settings
from hypothesis import strategies as st

from highwater._core.ids import new_transaction_id
from highwater._core.pending_set import Moment, PendingPromise, PendingSet, Settled, Settlement, make_entry
from highwater._core.wire import EpochRecord, Marks, Position, Verdict
from tests.client.support import E1, E2, E3

EPOCHS = (E1, E2, E3)
END = 1_000
MOMENT = Moment(0, lambda: 0.5)


@dataclass(frozen=True)
class Made:
    """A transaction, where it committed, and whether it was found by its receipt above the fork."""

    epoch: int
    offset: int
    found: bool
    when: int


@dataclass
class Held:
    made: Made
    entry: PendingPromise
    settled_as: list[Verdict] = field(default_factory=list)


MADE = st.builds(Made, st.integers(0, 2), st.integers(1, 100), st.booleans(), st.integers(0, 40))
FORKS = st.tuples(st.integers(10, 90), st.integers(10, 90))
SHARES = st.lists(st.tuples(st.integers(0, 2), st.floats(0, 1)), max_size=10)


def ignore(_: Settlement) -> None:
    pass


def survives(forks: tuple[int, int], made: Made) -> bool:
    return made.epoch == len(EPOCHS) - 1 or made.offset <= forks[made.epoch] or made.found


class Play:
    def __init__(self, forks: tuple[int, int], made: list[Made], shares: list[tuple[int, float]]) -> None:
        self.pending_set = PendingSet()
        self.forks = forks
        self.held = [
            Held(
                each,
                make_entry(
                    str(n),
                    transaction_id=new_transaction_id(),
                    position=Position(EPOCHS[each.epoch], each.offset),
                    now_ms=0,
                ),
            )
            for n, each in enumerate(made)
        ]
        self.by_entry = {each.entry: each for each in self.held}
        records = [
            EpochRecord(E1, 1, None, 1, 0),
            EpochRecord(E2, 2, E1, 5, forks[0]),
            EpochRecord(E3, 3, E2, 5, forks[1]),
        ]
        bounds = (*forks, END)
        known = [(EPOCHS[at], int(bounds[at] * share)) for at, share in shares]
        self.events: list[Callable[[], list[Settled]]] = [
            *(lambda n=n: self.pending_set.learn_epochs(records[:n], MOMENT) for n in (1, 2, 3)),
            # No promise is violated: marks of an epoch end at or below the successor's fork.
            *(lambda at=at, to=to: self.learn(at, to) for at, to in known),
            lambda: self.learn(E3, END),
        ]

    def learn(self, epoch: str, offset: int) -> list[Settled]:
        return self.pending_set.learn_marks(Marks(epoch, EPOCHS.index(epoch) + 1, {"region": offset}), MOMENT)

    def begin(self, step: int) -> None:
        for held in self.held:
            if held.made.when != step:
                continue
            known = self.pending_set.known(held.entry, "region")
            if known is None:
                self.pending_set.watch(held.entry, "region", ignore, MOMENT)
            else:
                held.settled_as.append(known)

    def note(self, settled: list[Settled], *, unasked: bool) -> None:
        for each in settled:
            verdict = each.settlement.verdict
            assert verdict is not None
            assert not unasked or verdict.verdict == "durable"
            self.by_entry[each.entry].settled_as.append(verdict)

    def ask(self, *, silent: bool) -> None:
        for wait in self.pending_set.take_due(1e9, 10**9):
            held = self.by_entry[wait.entry]
            there = survives(self.forks, held.made)
            found_at = Position(E3, 7) if there else Position(EPOCHS[held.made.epoch], held.made.offset)
            verdict = Verdict(
                wait.entry.token,
                wait.entry.id,
                "pending" if silent else "durable" if there else "lost",
                "region",
                found_at,
                "test",
            )
            self.note(self.pending_set.judge(wait, verdict, MOMENT), unasked=False)


@settings(max_examples=300)
@given(
    FORKS,
    st.lists(MADE, min_size=1, max_size=12),
    SHARES,
    st.lists(st.integers(0, 100), min_size=20, max_size=40),
    st.lists(st.booleans(), max_size=30),
)
def test_property_order_repetition_and_silence_change_no_outcome(
    forks: tuple[int, int], made: list[Made], shares: list[tuple[int, float]], order: list[int], reticence: list[bool]
) -> None:
    play = Play(forks, made, shares)
    steps = [*order, *range(len(play.events))]
    for step, choice in enumerate(steps):
        play.begin(step)
        play.note(play.events[choice % len(play.events)](), unasked=True)
    for step in range(len(steps), 42):
        play.begin(step)
    for silence in range(100):
        if not play.pending_set.entries:
            break
        play.ask(silent=silence < len(reticence) and reticence[silence])
    assert not play.pending_set.entries, "something hangs"
    for held in play.held:
        assert [verdict.verdict for verdict in held.settled_as] == ["durable" if survives(forks, held.made) else "lost"]


@given(st.lists(st.tuples(st.integers(0, 2), st.dictionaries(st.sampled_from(("disk", "region")), st.integers(0, 9)))))
def test_property_marks_that_are_repeated_or_out_of_order_never_lower_one(
    settled_as: list[tuple[int, dict[str, int]]],
) -> None:
    history = PendingSet().history
    highest: dict[tuple[str, str], int] = {}
    for at, levels in [*settled_as, *reversed(settled_as)]:
        learned = history.learn_marks(Marks(EPOCHS[at], at + 1, levels))
        for level, offset in levels.items():
            before = highest.get((EPOCHS[at], level), -1)
            assert (level in learned.raised) == (offset > before)
            highest[EPOCHS[at], level] = max(before, offset)
        for (epoch, level), offset in highest.items():
            assert history.mark(epoch, level) == offset
