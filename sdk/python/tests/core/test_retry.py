"""The decisions after a failed attempt."""

from __future__ import annotations

import pytest

from highwater._core.errors import (
    HighwaterError,
    PromiseBrokenError,
    TransactionAbortedError,
    TransactionLostError,
    UnknownOutcomeError,
    answer_error,
    connection_error,
)
from highwater._core.retry import Decision, Resolution, Situation, decide, resolve, retry_after_ms
from highwater._core.tuning import DEFAULT_TUNING
from highwater._core.wire import Position, TransactionStatus
from tests.client.support import E1

ID = "0198c0de-0000-7000-8000-000000000001"


def failure(code: str, retry: str = "wait", retry_after: float | None = None) -> HighwaterError:
    return answer_error(503, {"code": code, "outcome": "not_applied", "retry": retry}, retry_after)


def decided(
    error: HighwaterError,
    *,
    attempt: int = 0,
    remaining_ms: float = 30_000,
    uncertain: bool = False,
    elsewhere: bool = False,
    random: float = 0.5,
) -> Decision:
    situation = Situation(
        attempt=attempt, remaining_ms=remaining_ms, uncertain=uncertain, elsewhere=elsewhere, random=random
    )
    return decide(error, situation, DEFAULT_TUNING)


@pytest.mark.parametrize("code", ["connection_failed", "request_timeout", "bad_answer"])
def test_no_answer_the_same_again_at_once_where_another_endpoint_is_there(code: str) -> None:
    error = connection_error(code, "x", sent=True)
    assert error.outcome == "unknown"
    assert decided(error) == Decision("send", 50)
    assert decided(error, elsewhere=True) == Decision("send", 0)
    assert connection_error(code, "x", sent=False).outcome == "not_applied"


def test_delays_full_jitter_that_doubles_up_to_a_bound_on_top_of_what_the_service_asks_for() -> None:
    delays = [decided(failure("split_brain"), attempt=n, random=1).delay_ms for n in (0, 1, 2, 3, 10, 60)]
    assert delays == [100, 200, 400, 800, 5_000, 5_000]
    assert decided(failure("split_brain"), random=0) == Decision("send", 0)
    assert decided(failure("exposure_limit", retry_after=2_000)) == Decision("send", 2_050)
    assert decided(failure("overloaded", retry_after=2_000), elsewhere=True) == Decision("send", 0)
    assert decided(failure("exposure_limit", retry_after=2_000), elsewhere=True) == Decision("send", 2_050)


def test_no_time_left_for_the_delay_give_up_now_not_later() -> None:
    assert decided(failure("overloaded", retry_after=2_000), remaining_ms=1_000) == Decision("give_up")
    # Nor for an attempt that could get an answer.
    assert decided(failure("overloaded", retry_after=800), remaining_ms=1_000) == Decision("give_up")
    assert decided(failure("serialization_failure", "transaction"), remaining_ms=0) == Decision("throw")


def test_a_definite_error_of_a_resend_is_not_believed_unless_it_is_about_the_id() -> None:
    for retry in ("never", "transaction"):
        assert decided(failure("constraint_violation", retry)).action == "throw"
        assert decided(failure("constraint_violation", retry), uncertain=True) == Decision("resolve", 0)
        assert decided(failure("transaction_aborted", retry), uncertain=True).action == "throw"
    assert decided(failure("commit_unconfirmed", "resolve_outcome")) == Decision("resolve", 50)


def status(state: str, *, placed: bool = False) -> TransactionStatus:
    return TransactionStatus(ID, state, "t" if placed else None, Position(E1, 5) if placed else None)  # type: ignore[arg-type]


@pytest.mark.parametrize("state", ["committed", "pending", "durable"])
def test_a_state_that_says_where_it_committed_is_the_answer(state: str) -> None:
    held = failure("constraint_violation", "never")
    assert resolve(status(state, placed=True), None) == Resolution("adopt")
    assert resolve(status(state, placed=True), held) == Resolution("adopt")
    assert resolve(status(state), None) == Resolution("ask")


def test_a_state_that_settles_nothing() -> None:
    held = failure("constraint_violation", "never")
    conflict = failure("serialization_failure", "transaction")
    assert resolve(status("active"), held) == Resolution("ask")
    assert resolve(status("unknown"), None) == Resolution("send")
    assert resolve(status("unknown"), held) == Resolution("throw", held)
    assert resolve(status("unknown"), conflict) == Resolution("send")


@pytest.mark.parametrize(
    ("state", "kind"),
    [
        ("aborted", TransactionAbortedError),
        ("lost", TransactionLostError),
        ("broken", PromiseBrokenError),
        ("expired", UnknownOutcomeError),
    ],
)
def test_a_state_that_settles_otherwise(state: str, kind: type[HighwaterError]) -> None:
    resolution = resolve(status(state), None)
    assert resolution.action == "throw"
    assert type(resolution.error) is kind


@pytest.mark.parametrize(
    ("header", "wall_ms", "expected"),
    [
        ("2", 0, 2_000),
        ("Thu, 01 Jan 1970 00:00:10 GMT", 4_000, 6_000),
        ("Thu, 01 Jan 1970 00:00:10 GMT", 40_000, 0),
        ("soon", 0, None),
        ("-1", 0, None),
        ("9" * 400, 0, None),
        ("", 0, None),
        (None, 0, None),
    ],
)
def test_retry_after_in_seconds_or_as_a_date(header: str | None, wall_ms: float, expected: float | None) -> None:
    assert retry_after_ms(header, wall_ms) == expected
