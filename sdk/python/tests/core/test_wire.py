"""Every message is read, and one without what this package relies on is refused."""

from __future__ import annotations

import copy
import pickle
from collections.abc import Callable
from typing import Any

import pytest

from highwater._core import errors as all_errors
from highwater._core.errors import (
    ConstraintError,
    HighwaterError,
    NoAnswerError,
    TransactionLostError,
    UnavailableError,
    answer_error,
    fresh,
    verdict_error,
)
from highwater._core.reading import (
    read_epoch_event,
    read_marks,
    read_marks_response,
    read_open_transaction_response,
    read_position,
    read_problem,
    read_rollback_response,
    read_stall_event,
    read_transaction_response,
    read_transaction_status,
    read_verdicts_response,
)
from highwater._core.wire import (
    EpochRecord,
    Field,
    Marks,
    Position,
    RefusedToken,
    Served,
    Verdict,
    WireError,
    WireResult,
)
from tests.client.support import E1, E2, epoch, marks, verdict_of
from tests.core.support import committed

ID = "0198c0de-0000-7000-8000-000000000001"
RESULT = {
    "command": "SELECT",
    "rowCount": 1,
    "fields": [{"name": "a", "oid": 23}],
    "rows": [["1"], [None]],
    "truncated": True,
}
SERVED = {"node": "b", "region": "us-west", "role": "replica", "behindBytes": "0", "behindMs": 4, "ageMs": 7}
REFUSED = {
    "token": "t",
    "verdict": "unknown",
    "level": "region",
    "rule": "refused",
    "error": {"code": "forbidden", "detail": "not yours"},
}
PROBLEM = {
    "type": "/errors/exposure_limit",
    "title": "Too much is at risk",
    "status": 503,
    "code": "exposure_limit",
    "outcome": "not_applied",
    "retry": "wait",
    "retryAfterMs": 20,
    "limit": {"name": "exposureTransactions", "value": 5},
    "exposure": {"transactions": 7, "bytes": "123", "oldestMs": None},
    "open": True,
    "fields": ["a"],
}
Read = Callable[[object], object]

EXAMPLES: dict[str, tuple[Read, dict[str, Any], list[str]]] = {
    "position": (read_position, {"epoch": E1.upper(), "offset": "9" * 64}, ["epoch", "offset"]),
    "marks": (read_marks, marks(E1, disk=10**28, region=0), ["epoch", "seq", "levels"]),
    "response": (
        read_transaction_response,
        committed(ID, results=[RESULT], served=SERVED),
        ["id", "state", "token", "position", "results"],
    ),
    "open": (
        read_open_transaction_response,
        {
            "id": ID,
            "state": "active",
            "seq": 3,
            "results": [RESULT],
            "marks": None,
            "expiresAt": "2026-01-01T00:00:00Z",
        },
        ["id", "state", "results", "expiresAt"],
    ),
    "rolled back": (read_rollback_response, {"id": ID, "state": "aborted"}, ["state"]),
    "marks response": (
        read_marks_response,
        {"marks": marks(E1, disk=1), "levels": ["disk"], "epochs": [epoch(E1)]},
        ["epochs"],
    ),
    "status": (read_transaction_status, {"id": ID, "state": "unknown", "marks": None}, ["id", "state"]),
    "verdicts": (
        read_verdicts_response,
        {"verdicts": [verdict_of("t", "lost", retriedIn=E2, settledAt="region"), REFUSED], "marks": None},
        ["verdicts"],
    ),
    "epochs": (read_epoch_event, {"epochs": [epoch(E1), epoch(E2, previous=E1, fork=7, start=9)]}, ["epochs"]),
    "stall": (read_stall_event, {"level": "region", "epoch": E1, "offset": "1", "pending": 3}, ["level", "epoch"]),
    "problem": (read_problem, PROBLEM, ["code", "outcome", "retry"]),
}


@pytest.mark.parametrize("name", EXAMPLES)
def test_a_message_is_read_also_with_fields_of_the_future(name: str) -> None:
    read, example, _ = EXAMPLES[name]
    assert read({**example, "future": {"x": [1]}}) == read(example)


@pytest.mark.parametrize("name", EXAMPLES)
def test_a_message_without_one_of_its_required_parts_is_refused(name: str) -> None:
    read, example, needed = EXAMPLES[name]
    values: list[object] = [None, 1, "x", [], {}, True]
    for value in values:
        with pytest.raises(WireError):
            read(value)
    for key in needed:
        with pytest.raises(WireError):
            read({field: value for field, value in example.items() if field != key})
        for other in (3.5, False):
            with pytest.raises(WireError):
                read(example | {key: other})


def test_what_is_read() -> None:
    assert read_position({"epoch": E1.upper(), "offset": "12345678901234567890"}) == Position(E1, 12345678901234567890)
    assert read_marks(marks(E1, disk=7)) == Marks(E1, 1, {"disk": 7})
    event = read_epoch_event({"epochs": [epoch(E2, previous=E1.upper(), fork=7, start=9)]})
    assert event.epochs == (EpochRecord(E2, 2, E1, 9, 7),)
    response = read_transaction_response(committed(ID.upper(), results=[RESULT], served=SERVED, replayed=True))
    assert (response.id, response.replayed, response.announced) == (ID, True, True)
    assert response.served == Served("b", "us-west", "replica", 0, 0.004, 0.007)
    assert response.results == (WireResult("SELECT", 1, (Field("a", 23),), [["1"], [None]], truncated=True),)
    verdicts = read_verdicts_response(EXAMPLES["verdicts"][1]).verdicts
    assert verdicts == (
        Verdict("t", E1, "lost", "region", Position(E1, 1), "test", retried_in=E2, settled_at="region"),
        RefusedToken("t", "region", "forbidden", "not yours"),
    )


@pytest.mark.parametrize(
    "change",
    [
        {"fields": [None]},
        {"fields": [{"name": 1, "oid": 23}]},
        {"rows": [None]},
        {"rows": [[1]]},
        {"rows": ["x"]},
        {"rowCount": "1"},
    ],
)
def test_results_whose_columns_or_rows_are_none_are_no_answer(change: dict[str, object]) -> None:
    with pytest.raises(WireError):
        read_transaction_response(committed(ID, results=[RESULT | change]))


@pytest.mark.parametrize("offset", ["05", "", "-1", "1.0", "1e3", "\uff19", "1\n", "9" * 65, 5, None])
def test_an_offset_is_canonical_text(offset: object) -> None:
    with pytest.raises(WireError):
        read_position({"epoch": E1, "offset": offset})


def test_what_only_informs_may_be_malformed() -> None:
    problem = read_problem(PROBLEM | {"limit": "x", "exposure": {}, "retryAfterMs": "soon", "open": 1, "fields": 2})
    assert (problem.limit, problem.exposure, problem.retry_after, problem.open, problem.fields) == (
        *(None, None, None, None),
        (),
    )
    assert read_transaction_response(committed(ID, served={"role": "tea"})).served is None


def test_details_of_a_refused_statement_reach_the_caller() -> None:
    body = PROBLEM | {
        "code": "constraint_violation",
        "retry": "never",
        "detail": "duplicate key",
        "sqlstate": "23505",
        "constraint": "account_pkey",
        "statement": 1,
        "transactionId": ID,
    }
    error = answer_error(409, body)
    assert isinstance(error, ConstraintError)
    assert (error.sqlstate, error.constraint, error.statement) == ("23505", "account_pkey", 1)
    assert (error.transaction_id, error.status, str(error)) == (ID, 409, "duplicate key")
    exposed = answer_error(503, PROBLEM, 40)
    assert (exposed.retry_after, exposed.open) == (0.02, True)
    assert exposed.limit is not None
    assert exposed.exposure is not None
    assert (exposed.limit.value, exposed.exposure.transactions, exposed.exposure.bytes) == (5, 7, 123)


def test_answers_that_are_not_the_services_own() -> None:
    proxy = answer_error(502, "<html>")
    assert type(proxy) is NoAnswerError
    assert (proxy.code, proxy.outcome, proxy.retry) == ("bad_answer", "unknown", "wait")
    assert answer_error(429, None, 3).retry_after == 3
    assert answer_error(401, {}).code == "unexpected_status"
    for code in ("tea_break", "__class__"):
        assert type(answer_error(503, PROBLEM | {"code": code})) is UnavailableError


def lost_error() -> HighwaterError:
    verdict = Verdict("t", ID, "lost", "region", Position(E1, 5), "no receipt")
    return verdict_error(verdict, metadata={"order": "7"}, successor=E2)


def test_a_lost_transaction_carries_what_is_known_of_it() -> None:
    error = lost_error()
    assert isinstance(error, TransactionLostError)
    assert (error.code, error.outcome, error.retry) == ("transaction_lost", "not_applied", "transaction")
    assert (error.transaction_id, error.token, error.level) == (ID, "t", "region")
    assert (error.position, error.successor, error.metadata) == (Position(E1, 5), E2, {"order": "7"})


def test_one_that_was_run_again_under_its_id_is_not_to_be_run_under_another() -> None:
    verdict = Verdict("t", ID, "lost", "region", Position(E1, 5), "other attempt", retried_in=E2)
    error = verdict_error(verdict)
    assert (error.outcome, error.retry, error.successor) == ("applied", "resolve_outcome", E2)


@pytest.mark.parametrize("again", [fresh, copy.copy, lambda error: pickle.loads(pickle.dumps(error))])
def test_an_error_can_be_copied_and_pickled_whole(again: Callable[[HighwaterError], HighwaterError]) -> None:
    error = lost_error()
    other = again(error)
    assert other is not error
    assert (type(other), str(other), other.__dict__) == (type(error), str(error), error.__dict__)


def test_the_tree_in_the_docstring_is_the_tree() -> None:
    lines = (all_errors.__doc__ or "").splitlines()
    listed = [word for line in lines for word in line.split()[:3] if word.endswith("Error")]
    kinds = [each for each in vars(all_errors).values() if isinstance(each, type) and issubclass(each, HighwaterError)]
    assert sorted(listed) == sorted(kind.__name__ for kind in kinds)
