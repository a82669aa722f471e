"""What a session remembers: what later reads must see, and what a later process gets."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from highwater._core.errors import HighwaterError
from highwater._core.ids import decode_token
from highwater._core.pending_set import PendingPromise, make_entry
from highwater._core.session import REMEMBERED_MAX, SessionMemory, session_tokens
from highwater._core.wire import Position, RefusedToken, Verdict
from highwater._core.wire_types import Verdict as VerdictKind
from tests.client.support import E1, E2, E3, token


def entry_at(offset: int, epoch: str = E1) -> PendingPromise:
    text = token(epoch, offset)
    content = decode_token(text)
    return make_entry(text, transaction_id=content.id, position=content.position, now_ms=0)


def durable(entry: PendingPromise) -> None:
    entry.durable["region"] = Verdict(entry.token, entry.id, "durable", "region", entry.position, "test")


def memory(*epochs: str) -> SessionMemory:
    """It knows the order of these epochs."""

    def is_older(epoch: str, other: str) -> bool | None:
        return epochs.index(epoch) < epochs.index(other) if {epoch, other} <= {*epochs} else None

    return SessionMemory(lambda entry: "region" in entry.durable, is_older)


def add(session: SessionMemory, entry: PendingPromise) -> None:
    session.add(entry, session.begin())


def test_reads_must_see_the_furthest_of_the_newest_epoch() -> None:
    session = memory()
    assert session.after is None
    added: list[PendingPromise] = []
    seen: list[str | None] = []
    for offset, epoch in ((20, E1), (10, E1), (25, E1), (3, E2), (2, E2)):
        added.append(entry_at(offset, epoch))
        add(session, added[-1])
        seen.append(session.after)
    assert seen == [added[at].token for at in (0, 0, 2, 3, 3)]


def test_in_doubt_about_epochs_what_began_later_counts_and_what_another_session_made_does_not() -> None:
    session = memory()
    first, second = session.begin(), session.begin()
    newer, late, foreign = entry_at(2000, E2), entry_at(1000), entry_at(3000)
    session.add(newer, second)
    session.add(late, first)
    session.add(foreign, 0)
    assert session.after == newer.token
    own = entry_at(5, E3)
    add(session, own)
    assert session.after == own.token


def test_the_numbers_of_epochs_count_before_any_order_of_transactions() -> None:
    session = memory(E1, E2, E3)
    first, second = session.begin(), session.begin()
    newer, foreign = entry_at(2000, E2), entry_at(3000, E3)
    session.add(entry_at(1000), second)
    session.add(newer, first)
    add(session, entry_at(1010))
    assert session.after == newer.token
    session.add(foreign, 0)
    assert session.after == foreign.token


def test_the_token_is_short_where_all_is_durable_and_one_of_nothing_is_one() -> None:
    session = memory()
    assert (session.token, session_tokens("hws1")) == ("hws1", [])
    entries = [entry_at(offset) for offset in (10, 20, 30)]
    for entry in entries:
        add(session, entry)
    for entry in entries[:2]:
        durable(entry)
    assert session_tokens(session.token) == [entry.token for entry in entries[1:]]
    durable(entries[2])
    assert session_tokens(session.token) == [entries[2].token]
    other = entry_at(5, E2)
    durable(other)
    add(session, other)
    assert session_tokens(session.token) == [entries[2].token, other.token]


@pytest.mark.parametrize("wrong", ["", "nonsense", "hws2", "hws", token(E1, 1)])
def test_what_is_no_token_of_a_session_is_refused(wrong: str) -> None:
    with pytest.raises(HighwaterError) as caught:
        session_tokens(wrong)
    assert caught.value.code == "invalid_token"


def test_a_session_that_goes_on_remembers_those_that_exist() -> None:
    entries = [entry_at(offset) for offset in (10, 20, 30, 40)]
    kinds: list[VerdictKind] = ["durable", "lost", "pending", "broken"]
    verdicts: list[Verdict | RefusedToken] = [
        Verdict(entry.token, entry.id, kind, "region", Position(E1, 1), "test")
        for entry, kind in zip(entries, kinds, strict=True)
    ]
    refused = entry_at(50)
    verdicts.append(RefusedToken(refused.token, "region", "forbidden", "not yours"))
    session = memory()
    session.take_over([*entries, refused], verdicts)
    assert session_tokens(session.token) == [entries[0].token, entries[2].token]
    assert session.after == entries[2].token


def test_one_that_was_reported_lost_is_forgotten() -> None:
    session, entry = memory(), entry_at(10)
    add(session, entry)
    session.forget(entry)
    session.forget(entry)
    assert session.token == "hws1"


def test_memory_is_bounded_where_work_becomes_durable_as_it_goes() -> None:
    session = memory()
    for offset in range(1, REMEMBERED_MAX + 100):
        entry = entry_at(offset)
        durable(entry)
        add(session, entry)
    assert len(session.entries) <= REMEMBERED_MAX


@given(st.lists(st.tuples(st.integers(0, 50), st.sampled_from((E1, E2)), st.booleans())))
def test_property_the_token_stands_for_everything_that_is_not_durable_and_for_the_furthest(
    made: list[tuple[int, str, bool]],
) -> None:
    session = memory()
    entries = []
    for offset, epoch, is_durable in made:
        entry = entry_at(offset, epoch)
        if is_durable:
            durable(entry)
        add(session, entry)
        entries.append((entry, is_durable))
    kept = set(session_tokens(session.token))
    for entry, is_durable in entries:
        if not is_durable:
            assert entry.token in kept
    for epoch in (E1, E2):
        offsets = [
            entry.position.offset for entry, is_durable in entries if is_durable and entry.position.epoch == epoch
        ]
        standing = [entry for entry, is_durable in entries if is_durable and entry.token in kept]
        of_epoch = [entry.position.offset for entry in standing if entry.position.epoch == epoch]
        assert of_epoch == ([max(offsets)] if offsets else [])
