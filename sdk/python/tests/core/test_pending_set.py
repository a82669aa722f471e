from __future__ import annotations

import pytest

from highwater._core.errors import usage_error
from highwater._core.ids import new_transaction_id
from highwater._core.pending_set import Moment, PendingPromise, PendingSet, Settled, Settlement, Wait, make_entry
from highwater._core.wire import EpochRecord, Marks, Position, Verdict
from highwater._core.wire_types import Verdict as VerdictKind
from tests.client.support import E1, E2, E3, FORK

FIRST = EpochRecord(E1, 1, None, 1, 0)
SECOND = EpochRecord(E2, 2, E1, 60, 50)
THIRD = EpochRecord(E3, 3, E2, 90, 80)


def moment(now_ms: float = 0) -> Moment:
    return Moment(now_ms, lambda: 0.5)


def marks(epoch: str, **levels: int) -> Marks:
    return Marks(epoch, int(epoch[-12:], 16), levels)


def ignore(_: Settlement) -> None:
    pass


def settled_as(settled: list[Settled]) -> list[str]:
    """Those that were settled, in order: `offset level verdict`."""
    verdicts = [(each, each.settlement.verdict) for each in settled]
    return [
        f"{each.entry.token} {each.level} {'refused' if verdict is None else verdict.verdict}"
        for each, verdict in verdicts
    ]


def verdict_of(entry: PendingPromise, verdict: VerdictKind, epoch: str = E1, offset: int = 1) -> Verdict:
    return Verdict(entry.token, entry.id, verdict, "region", Position(epoch, offset), "test")


def entry_at(offset: int, epoch: str = E1, now_ms: float = 0) -> PendingPromise:
    position = Position(epoch, offset)
    return make_entry(str(offset), transaction_id=new_transaction_id(), position=position, now_ms=now_ms)


def watch(
    pending_set: PendingSet, offset: int, epoch: str = E1, level: str = "region", now_ms: float = 0
) -> PendingPromise:
    entry = entry_at(offset, epoch, now_ms)
    if pending_set.known(entry, level) is None:
        pending_set.watch(entry, level, ignore, moment(now_ms))
    return entry


def asked(pending_set: PendingSet, now_ms: float = 1e9) -> list[str]:
    return [wait.entry.token for wait in pending_set.take_due(now_ms, 100)]


def only_wait(entry: PendingPromise) -> Wait:
    (wait, *_) = entry.waits
    return wait


@pytest.fixture
def pending_set() -> PendingSet:
    return PendingSet()


class TestMarks:
    def test_a_level_without_a_mark_is_asked_about_because_it_may_be_misspelt(self, pending_set: PendingSet) -> None:
        watch(pending_set, 10, level="regoin")
        assert asked(pending_set) == []
        pending_set.learn_marks(marks(E1, region=5), moment())
        assert asked(pending_set) == ["10"]

    def test_the_newest_marks_merge_what_arrived_in_any_order(self, pending_set: PendingSet) -> None:
        assert pending_set.history.newest_marks() is None
        pending_set.learn_marks(marks(E1, region=5, disk=9), moment())
        pending_set.learn_marks(marks(E1, region=7, disk=8), moment())
        assert pending_set.history.newest_marks() == marks(E1, region=7, disk=9)
        pending_set.learn_epochs([FIRST, SECOND], moment())
        pending_set.learn_marks(marks(E2, disk=61), moment())
        pending_set.learn_marks(marks(E1, disk=10), moment())
        assert pending_set.history.newest_marks() == marks(E2, disk=61)

    def test_ten_thousand_promises_are_settled_in_one_pass_and_leave_nothing(self, pending_set: PendingSet) -> None:
        entries = [watch(pending_set, offset) for offset in range(10_000, 0, -1)]
        settled = pending_set.learn_marks(marks(E1, region=10_000), moment())
        assert [each.entry.token for each in settled] == [str(offset) for offset in range(1, 10_001)]
        assert len(pending_set.entries) + len(pending_set.to_ask) == 0
        assert all(entry.waits == [] for entry in entries)

    def test_promises_that_were_given_up_do_not_stay_in_memory(self, pending_set: PendingSet) -> None:
        watch(pending_set, 5)
        for _ in range(10_000):
            entry = watch(pending_set, 5)
            assert pending_set.unwatch(entry, "region", ignore)
        (queue,) = pending_set._queues.values()
        assert len(queue) < 200
        assert len(pending_set.learn_marks(marks(E1, region=5), moment())) == 1


class TestEpochs:
    def test_carried_over_at_or_below_the_fork_offset_then_judged_by_the_successors_marks(
        self, pending_set: PendingSet
    ) -> None:
        at, above = watch(pending_set, 50), watch(pending_set, 51)
        assert pending_set.learn_epochs([FIRST, SECOND], moment()) == []
        assert at.position == Position(E2, 60)
        assert above.position == Position(E1, 51)
        assert pending_set.learn_marks(marks(E2, region=59), moment()) == []
        assert settled_as(pending_set.learn_marks(marks(E2, region=60), moment())) == ["50 region durable"]
        assert asked(pending_set) == ["51"]

    def test_carried_over_again_the_second_time_by_its_place_before_the_epochs_own_record(
        self, pending_set: PendingSet
    ) -> None:
        entry = watch(pending_set, 50)
        # Start 60 of the second epoch, an upper bound, is above the third's fork: that proves nothing against it.
        pending_set.learn_epochs([FIRST, SECOND, EpochRecord(E3, 3, E2, 90, 55)], moment())
        assert entry.position == Position(E3, 90)

    def test_a_promise_of_the_second_epoch_itself_is_not_carried_above_the_thirds_fork(
        self, pending_set: PendingSet
    ) -> None:
        entry = watch(pending_set, 85, E2)
        pending_set.learn_epochs([FIRST, SECOND, THIRD], moment())
        assert entry.position == Position(E2, 85)
        assert asked(pending_set) == ["85"]

    def test_marks_of_an_ended_epoch_above_its_fork_do_not_make_durable(self, pending_set: PendingSet) -> None:
        watch(pending_set, 55)
        pending_set.learn_epochs([FIRST, SECOND], moment())
        assert pending_set.learn_marks(marks(E1, region=70), moment()) == []
        watch(pending_set, 56)
        assert asked(pending_set) == ["55", "56"]

    def test_what_its_old_epochs_marks_had_passed_is_durable_also_after_the_carry_over(
        self, pending_set: PendingSet
    ) -> None:
        pending_set.learn_marks(marks(E1, region=40), moment())
        pending_set.learn_epochs([FIRST, SECOND], moment())
        entry = watch(pending_set, 30)
        known = pending_set.known(entry, "region")
        assert known is not None
        assert known.verdict == "durable"
        assert pending_set.known(entry, "global") is None

    def test_an_epoch_outside_the_ancestry_its_marks_count_and_the_tracker_is_asked(
        self, pending_set: PendingSet
    ) -> None:
        pending_set.learn_epochs([FIRST, SECOND], moment())
        watch(pending_set, 10, FORK)
        assert asked(pending_set) == ["10"]
        assert settled_as(pending_set.learn_marks(marks(FORK, region=10), moment())) == ["10 region durable"]

    def test_an_epoch_that_was_given_up_settles_nothing_and_the_tracker_is_asked(self, pending_set: PendingSet) -> None:
        pending_set.learn_epochs([FIRST, SECOND], moment())
        pending_set.learn_marks(marks(E2, region=100), moment())
        pending_set.learn_epochs([FIRST, EpochRecord(E3, 3, E1, 60, 50)], moment())
        pending_set.learn_marks(marks(E3, region=70), moment())
        entry = watch(pending_set, 80, E2)
        assert pending_set.known(entry, "region") is None
        assert asked(pending_set) == ["80"]
        assert pending_set.learn_marks(marks(E2, region=120), moment()) == []
        assert pending_set.history.newest_marks() == marks(E3, region=70)

    def test_of_two_epochs_with_one_number_the_one_announced_last_counts(self, pending_set: PendingSet) -> None:
        watch(pending_set, 10, E2)
        assert pending_set.learn_marks(Marks(E2, 2, {"region": 5}), moment()) == []
        assert pending_set.learn_marks(Marks(FORK, 2, {"region": 500}), moment()) == []
        assert asked(pending_set) == ["10"]
        assert settled_as(pending_set.learn_marks(Marks(E2, 2, {"region": 10}), moment())) == ["10 region durable"]

    def test_marks_of_an_unknown_epoch_cast_doubt_until_the_ancestry_arrives_again(
        self, pending_set: PendingSet
    ) -> None:
        pending_set.learn_epochs([FIRST], moment())
        entry = watch(pending_set, 10)
        pending_set.learn_marks(marks(E2, region=70), moment())
        assert asked(pending_set) == ["10"]
        pending_set.judge(only_wait(entry), verdict_of(entry, "pending", offset=10), moment())
        pending_set.learn_epochs([FIRST, SECOND], moment())
        assert len(pending_set.to_ask) == 0
        assert len(pending_set.entries) == 0, "carried over, and the marks were known"

    def test_marks_of_an_ancestor_cast_no_doubt_and_a_tracker_that_lags_changes_nothing(
        self, pending_set: PendingSet
    ) -> None:
        pending_set.learn_epochs([FIRST, SECOND], moment())
        watch(pending_set, 70, E2)
        pending_set.learn_marks(marks(E1, region=50), moment())
        pending_set.learn_epochs([FIRST], moment())
        assert len(pending_set.to_ask) == 0
        assert pending_set.history.head == E2

    def test_without_any_ancestry_marks_of_another_epoch_are_a_reason_to_ask_not_to_judge(
        self, pending_set: PendingSet
    ) -> None:
        watch(pending_set, 10)
        pending_set.learn_marks(marks(E1, region=5), moment())
        assert pending_set.learn_marks(marks(E2, region=500), moment()) == []
        assert asked(pending_set) == ["10"]

    def test_the_epoch_that_came_after(self, pending_set: PendingSet) -> None:
        assert pending_set.history.successor(E1) is None
        pending_set.learn_epochs([FIRST, SECOND, THIRD], moment())
        assert [pending_set.history.successor(each) for each in (E1, E2, E3, FORK)] == [E2, E3, None, E3]

    def test_marks_of_old_epochs_are_forgotten_and_the_newest_are_not(self, pending_set: PendingSet) -> None:
        for n in range(100, 300):
            pending_set.learn_marks(marks(f"00000000-0000-4000-8000-{n:012x}", region=n), moment())
        newest = pending_set.history.newest_marks()
        assert newest is not None
        assert newest.levels == {"region": 299}
        assert len(pending_set.history._marks) == 64


class TestVerdicts:
    def test_pending_the_trackers_place_is_taken_on_and_asked_again_with_growing_delays(
        self, pending_set: PendingSet
    ) -> None:
        pending_set.learn_epochs([FIRST, SECOND], moment())
        entry = watch(pending_set, 51)
        wait = only_wait(entry)
        delays, now_ms = [], 0.0
        for _ in range(10):
            next_ms = pending_set.next_ask_at_ms()
            assert next_ms is not None
            delays.append(next_ms - now_ms)
            now_ms = next_ms
            assert asked(pending_set, now_ms) == ["51"]
            pending_set.judge(wait, verdict_of(entry, "pending", offset=51), moment(now_ms))
        assert delays == sorted(delays)
        assert delays[-1] == 7_500
        pending_set.judge(wait, verdict_of(entry, "pending", E2, 77), moment(now_ms))
        assert len(pending_set.to_ask) == 0
        assert settled_as(pending_set.learn_marks(marks(E2, region=77), moment())) == ["51 region durable"]

    def test_pending_where_the_marks_have_been_already_is_durable(self, pending_set: PendingSet) -> None:
        pending_set.learn_epochs([FIRST, SECOND], moment())
        entry = watch(pending_set, 51)
        pending_set.learn_marks(marks(E2, region=80), moment())
        settled = pending_set.judge(only_wait(entry), verdict_of(entry, "pending", E2, 77), moment())
        assert settled_as(settled) == ["51 region durable"]

    def test_lost_settles_every_level_that_was_not_durable_and_stays(self, pending_set: PendingSet) -> None:
        entry = watch(pending_set, 51)
        for level in ("disk", "global"):
            pending_set.watch(entry, level, ignore, moment())
        pending_set.learn_marks(Marks(E1, 1, {"disk": 51, "region": 0, "global": 0}), moment())
        wait = only_wait(entry)
        settled = pending_set.judge(wait, verdict_of(entry, "lost"), moment())
        assert settled_as(settled) == ["51 region lost", "51 global lost"]
        assert [each.is_loss for each in settled] == [True, False]
        assert len(pending_set.entries) == 0
        disk, zone = pending_set.known(entry, "disk"), pending_set.known(entry, "zone")
        assert disk is not None
        assert zone is not None
        assert (disk.verdict, zone.verdict, zone.level) == ("durable", "lost", "region")
        assert pending_set.judge(wait, verdict_of(entry, "durable"), moment()) == [], "an answer too late"

    def test_broken_counts_at_the_level_that_its_verdict_names_and_at_no_other(self, pending_set: PendingSet) -> None:
        entry = watch(pending_set, 51)
        pending_set.watch(entry, "global", ignore, moment())
        verdict = verdict_of(entry, "broken")
        settled = pending_set.judge(only_wait(entry), verdict, moment())
        assert [(each.level, each.settlement.verdict) for each in settled] == [("region", verdict), ("global", verdict)]
        assert verdict.level == "region"
        assert pending_set.known(entry, "zone") is verdict

    @pytest.mark.parametrize("verdict", ["expired", "unknown"])
    def test_expired_and_unknown_end_the_wait_at_their_level_and_are_asked_again_next_time(
        self, pending_set: PendingSet, verdict: VerdictKind
    ) -> None:
        entry = watch(pending_set, 51)
        settled = pending_set.judge(only_wait(entry), verdict_of(entry, verdict), moment())
        assert settled_as(settled) == [f"51 region {verdict}"]
        assert pending_set.known(entry, "region") is None

    def test_a_question_that_is_refused_ends_the_wait_with_its_error(self, pending_set: PendingSet) -> None:
        entry = watch(pending_set, 51)
        wait, error = only_wait(entry), usage_error("unknown_level", "x")
        (settled,) = pending_set.refuse(wait, error)
        assert (settled.settlement.verdict, settled.settlement.error) == (None, error)
        assert pending_set.refuse(wait, error) == []

    def test_no_answer_asked_again_later_and_not_twice_at_once(self, pending_set: PendingSet) -> None:
        pending_set.learn_epochs([FIRST, SECOND], moment())
        entry = watch(pending_set, 51)
        assert asked(pending_set, 100) == ["51"]
        assert asked(pending_set, 100) == []
        pending_set.ask_later(only_wait(entry), moment(100))
        assert asked(pending_set, 100) == []
        assert asked(pending_set, 300) == ["51"]

    def test_what_waits_for_long_is_asked_about_even_though_nothing_says_that_it_must_be(
        self, pending_set: PendingSet
    ) -> None:
        pending_set.learn_epochs([FIRST], moment())
        watch(pending_set, 10, now_ms=0)
        watch(pending_set, 20, now_ms=900)
        pending_set.recheck(1_000, moment(1_000))
        assert asked(pending_set) == ["10"]

    def test_no_more_are_taken_than_there_is_room_for(self, pending_set: PendingSet) -> None:
        pending_set.learn_epochs([FIRST, SECOND], moment())
        for offset in range(60, 70):
            watch(pending_set, offset)
        assert len(pending_set.take_due(1e9, 3)) == 3
        assert len(pending_set.take_due(1e9, 100)) == 7


def test_the_last_waiter_that_goes_takes_the_promise_out_of_the_book(pending_set: PendingSet) -> None:
    entry = entry_at(5)
    waiters = [lambda _: None, lambda _: None]
    for waiter in waiters:
        pending_set.watch(entry, "region", waiter, moment())
    assert [pending_set.unwatch(entry, "region", waiter) for waiter in waiters] == [False, True]
    assert pending_set.learn_marks(marks(E1, region=9), moment()) == []
    assert len(pending_set.entries) + len(pending_set.to_ask) == 0


def test_promises_of_one_epoch_share_its_text() -> None:
    # Spelled apart, as two tokens spell it.
    one, two = (entry_at(n, "-".join(E1.split("-"))) for n in (1, 2))
    assert one.position.epoch is two.position.epoch
