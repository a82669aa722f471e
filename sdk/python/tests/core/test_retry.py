"""The decisions after a failed attempt."""

from __future__ import annotations

import pytest

from highwater._core.errors import HighwaterError, UnknownOutcomeError, answer_error, connection_error, verdict_error
from highwater._core.retry import Decision, Situation, decide, retry_after
from highwater._core.tuning import DEFAULT_TUNING
from highwater._core.wire import Position, Verdict
from highwater._core.wire_types import Verdict as VerdictKind
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
    assert decided(failure("exposure_limit", retry_after=2)) == Decision("send", 2_050)
    assert decided(failure("overloaded", retry_after=2), elsewhere=True) == Decision("send", 0)
    assert decided(failure("exposure_limit", retry_after=2), elsewhere=True) == Decision("send", 2_050)


def test_no_time_left_for_the_delay_give_up_now_not_later() -> None:
    assert decided(failure("overloaded", retry_after=2), remaining_ms=1_000) == Decision("give_up")
    # Nor for an attempt that could get an answer.
    assert decided(failure("overloaded", retry_after=0.8), remaining_ms=1_000) == Decision("give_up")
    assert decided(failure("serialization_failure", "transaction"), remaining_ms=0) == Decision("throw")


@pytest.mark.parametrize("header", ["-1", "9" * 400, ""])
def test_a_retry_after_that_is_none(header: str) -> None:
    assert retry_after(header, 0) is None


@pytest.mark.parametrize("verdict", ["expired", "unknown"])
def test_a_verdict_that_settles_nothing_is_an_unknown_outcome(verdict: VerdictKind) -> None:
    error = verdict_error(Verdict("t", ID, verdict, "region", Position(E1, 5), "test"))
    assert (type(error), error.outcome) == (UnknownOutcomeError, "unknown")
