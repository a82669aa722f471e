"""One-shot transactions: what is sent, what is sent again, and what the caller gets."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import pytest

from highwater._core.effects import HttpResponse, NoResponse
from highwater._core.errors import HighwaterError, TransactionAbortedError, TransactionLostError, UnknownOutcomeError
from highwater._core.observer import ObservedEvent
from highwater._core.requests import AckLimits, AckOptions, ExecutionOptions, transaction_body
from highwater._core.service import CallOptions, Service, Sought
from highwater._core.sql import sql
from highwater._core.wire import TransactionResponse
from highwater._core.wire_types import Ack, Mode
from tests.client.support import E1, marks, token, verdict_of
from tests.core.support import FAR, NEAR, Reply, Request, Script, World, answer, committed, cut, problem, state

ID = "0198c0de-0000-7000-8000-000000000001"
ONE = sql("SELECT {a}", a=1)


def transact(
    world: World,
    service: Service,
    *,
    timeout_ms: float = 5_000,
    execution: ExecutionOptions | None = None,
    ack: Ack | None = None,
    level: str = "region",
    max_wait_ms: float | None = None,
    after: str | None = None,
    mode: Mode | None = None,
) -> TransactionResponse:
    acks = AckOptions(ack=ack, max_wait_ms=max_wait_ms)
    limits = AckLimits(level=level, wait_ms=1_000, total_ms=timeout_ms)
    body = transaction_body(
        [ONE],
        transaction_id=ID,
        execution=execution or ExecutionOptions(),
        ack=acks,
        limits=limits,
        after=after,
        mode=mode,
    )
    sought = Sought.of(ID, acks, limits)
    return world.run(service.transaction(body, sought, CallOptions(timeout_ms)))


def always(reply: Reply) -> Script:
    return lambda *_: reply


def first(replies: Sequence[Reply]) -> Script:
    """These, and then it commits."""
    return lambda request, n: replies[n - 1] if n <= len(replies) else committed(request)


def test_a_transaction_its_request_and_its_answer() -> None:
    world = World(lambda request, _: committed(request, 10, marks=marks(E1, region=4)))
    service = world.service(headers={"authorization": "Bearer x"})
    execution = ExecutionOptions(isolation="read committed", read_only=True, max_delay_ms=4.2, metadata={"a": "b"})
    response = transact(world, service, execution=execution, after="hw2_x", mode="local")
    (request,) = world.sent
    assert request.body == {
        "id": ID,
        "statements": [{"sql": "SELECT $1", "params": [1]}],
        "isolation": "read committed",
        "readOnly": True,
        "maxDelayMs": 5,
        "metadata": {"a": "b"},
        "after": "hw2_x",
        "mode": "local",
    }
    assert (request.url, request.path, request.timeout, request.probe) == (NEAR, "/v1/transactions", 2, None)
    assert request.headers == {
        "authorization": "Bearer x",
        "accept": "application/json",
        "content-type": "application/json",
    }
    assert (response.state, response.token, response.replayed) == ("committed", token(E1, 10, ID), False)
    assert response.marks is not None
    assert response.marks.levels == {"region": 4}


def test_a_lost_reply_the_same_id_and_body_again() -> None:
    world = World(lambda request, n: cut() if n == 1 else committed(request, replayed=True, results=None))
    response = transact(world, world.service())
    assert world.sent[0].body == world.sent[1].body
    assert (len(world.sent), response.replayed, response.results) == (2, True, None)


def test_503_wait_again_after_retry_after() -> None:
    def script(request: Request, n: int) -> HttpResponse:
        if n == 1:
            refused = problem("exposure_limit", 503, "not_applied", "wait")
            return HttpResponse(503, {"retry-after": "1"}, refused.body)
        if n == 2:
            return problem("epoch_changed", 503, "not_applied", "wait", retryAfterMs=40)
        return answer(committed(request))

    world = World(script)
    transact(world, world.service())
    assert world.slept_ms == [1_001, 42]


def test_an_attempt_without_an_answer_times_out_and_the_next_goes_elsewhere_at_once() -> None:
    world = World(lambda request, _: NoResponse("timeout") if request.url == NEAR else committed(request))
    service = world.service((NEAR, FAR))
    transact(world, service)
    # The near one rests for a while.
    transact(world, service)
    assert [request.url for request in world.sent] == [NEAR, FAR, FAR]
    assert world.slept_ms == []
    assert world.sent[0].probe == 0.75
    world.now_ms += 60_000
    transact(world, service)
    assert world.sent[-2].url == NEAR


def test_a_refused_connection_is_certain_and_a_broken_one_is_not() -> None:
    for reply, kind in ((NoResponse("refused"), "not_applied"), (cut(), "unknown")):
        world = World(always(reply))
        with pytest.raises(HighwaterError) as caught:
            transact(world, world.service(), timeout_ms=300)
        assert caught.value.outcome == kind
        assert len(world.sent) > 1
        if kind == "unknown":
            assert (caught.value.code, caught.value.transaction_id) == ("outcome_unknown", ID)
            assert isinstance(caught.value.__cause__, HighwaterError)


def unconfirmed() -> HttpResponse:
    return problem("commit_unconfirmed", 503, "unknown", "resolve_outcome")


def test_commit_unconfirmed_the_state_is_asked_for_until_the_id_is_settled() -> None:
    replies = iter(
        [
            unconfirmed(),
            problem("primary_unavailable", 503, "not_applied", "wait"),
            answer(state(ID, "active")),
            answer(state(ID, "committed", 9)),
        ]
    )
    world = World(lambda *_: next(replies))
    response = transact(world, world.service())
    assert [request.path for request in world.sent[1:]] == [f"/v1/transactions/{ID}"] * 3
    assert (response.state, response.replayed, response.results) == ("committed", True, None)
    assert response.position.offset == 9


def test_commit_unconfirmed_and_an_id_that_no_gateway_knows_is_sent_again() -> None:
    replies = [unconfirmed(), answer(state(ID, "unknown"))]
    world = World(first(replies))
    assert not transact(world, world.service()).replayed
    assert [request.name.partition("?")[0] for request in world.sent] == ["transactions", ID, "transactions"]


@pytest.mark.parametrize(("settled", "kind"), [("aborted", TransactionAbortedError), ("lost", TransactionLostError)])
def test_an_id_that_was_settled_otherwise_is_a_typed_error(settled: str, kind: type[HighwaterError]) -> None:
    world = World(lambda _, n: problem("internal", 500, "unknown", "resolve_outcome") if n == 1 else state(ID, settled))
    with pytest.raises(kind) as caught:
        transact(world, world.service())
    assert (caught.value.outcome, caught.value.retry) == ("not_applied", "transaction")


def violation(**extra: object) -> HttpResponse:
    return problem("constraint_violation", 409, "not_applied", "never", **extra)


def test_a_resend_that_fails_on_what_its_own_first_attempt_did_the_state_decides() -> None:
    replies: Iterator[Reply] = iter([cut(), violation(), answer(state(ID, "durable", 9, level="region"))])
    world = World(lambda *_: next(replies))
    response = transact(world, world.service())
    assert (response.replayed, response.state, response.level) == (True, "durable", "region")


def refused_resend(*settling: Reply) -> tuple[HighwaterError, list[tuple[str, object]]]:
    unknown = answer(state(ID, "unknown"))
    replies: Iterator[Reply] = iter([cut(), violation(constraint="c"), unknown, *settling])
    world = World(lambda *_: next(replies))
    with pytest.raises(HighwaterError) as caught:
        transact(world, world.service())
    return caught.value, [(request.path, request.body) for request in world.sent[3:]]


def test_a_refused_resend_is_believed_when_the_id_is_settled() -> None:
    aborted = {"code": "transaction_aborted", "outcome": "not_applied", "retry": "transaction"}
    error, sent = refused_resend(
        answer({"answers": [{"status": 200, "body": {"ticket": "t"}}]}),
        answer({"answers": [{"status": 409, "body": aborted}]}),
    )
    assert (error.code, error.constraint) == ("constraint_violation", "c")
    assert sent == [
        ("/v1/tickets", {"transactions": [{"id": ID}]}),
        ("/v1/tickets/ends", {"tickets": [{"ticket": "t", "ended": "commit"}]}),
    ]


def test_a_refused_resend_is_an_unknown_outcome_when_the_id_cannot_be_settled() -> None:
    for reply in (problem("not_found", 404, "not_applied", "never"), answer({"answers": []})):
        error, sent = refused_resend(reply)
        assert isinstance(error, UnknownOutcomeError)
        assert isinstance(error.__cause__, HighwaterError)
        assert (error.__cause__.code, len(sent)) == ("constraint_violation", 1)


def test_a_resend_that_conflicts_while_the_first_copy_may_be_on_its_way_is_not_run_under_a_new_id() -> None:
    def script(request: Request, n: int) -> HttpResponse | NoResponse:
        if request.path != "/v1/transactions":
            return answer(state(ID, "unknown"))
        return cut() if n == 1 else conflict

    conflict = problem("serialization_failure", 409, "not_applied", "transaction")
    world = World(script)
    with pytest.raises(UnknownOutcomeError):
        transact(world, world.service(), timeout_ms=500)
    assert [request.path for request in world.sent].count("/v1/transactions") > 2


def test_a_split_brain_after_a_lost_reply_is_still_an_unknown_outcome() -> None:
    world = World(lambda _, n: cut() if n == 1 else problem("split_brain", 503, "not_applied", "wait"))
    with pytest.raises(UnknownOutcomeError):
        transact(world, world.service(), timeout_ms=300)
    certain = World(lambda *_: problem("split_brain", 503, "not_applied", "wait"))
    with pytest.raises(HighwaterError) as caught:
        transact(certain, certain.service(), timeout_ms=300)
    assert (caught.value.code, caught.value.outcome) == ("split_brain", "not_applied")


def test_an_answer_that_is_no_answer_of_the_service_counts_as_none() -> None:
    wrong = [answer("<html>"), answer({"hello": "world"}), answer("bad gateway", 502), answer("[" * 100_000)]
    world = World(first(wrong))
    transact(world, world.service())
    assert len(world.sent) == 5


def test_time_is_for_all_attempts_and_each_has_no_more_than_is_left() -> None:
    world = World(lambda *_: NoResponse("timeout"))
    with pytest.raises(UnknownOutcomeError):
        transact(world, world.service(), timeout_ms=3_000)
    assert sum(request.timeout for request in world.sent) <= 3
    assert world.sent[0].timeout == 2
    assert world.sent[-1].timeout < 1


def test_ack_durable_level_and_wait_go_along_and_the_attempt_is_longer() -> None:
    world = World(lambda request, _: committed(request, state="durable", level="global"))
    transact(world, world.service(), ack="durable", level="global", max_wait_ms=70)
    assert world.sent[0].body | {"ack": "durable", "level": "global", "maxWaitMs": 70} == world.sent[0].body
    transact(world, world.service(), ack="durable")
    assert (world.sent[1].body["maxWaitMs"], world.sent[1].timeout) == (1_000, 2)
    transact(world, world.service(), ack="durable", max_wait_ms=1e9, timeout_ms=1e9)
    assert (world.sent[2].body["maxWaitMs"], world.sent[2].timeout) == (60_000, 61)
    transact(world, world.service(), ack="durable", max_wait_ms=1_000, timeout_ms=400)
    assert world.sent[3].body["maxWaitMs"] == 300


def test_ack_durable_whose_answer_was_lost_the_state_is_waited_for_at_its_level() -> None:
    world = World(lambda _, n: unconfirmed() if n == 1 else state(ID, "committed", 9))
    response = transact(world, world.service(), ack="durable", max_wait_ms=1_500)
    assert world.sent[1].path == f"/v1/transactions/{ID}?wait=2&level=region"
    assert (response.state, response.level) == ("pending", "region")


def test_status_and_verdicts_are_asked_again_until_they_are_answered() -> None:
    world = World(lambda _, n: cut() if n == 1 else state(ID, "durable", marks=marks(E1, disk=3)))
    status = world.run(world.service().status(ID, CallOptions(1_000), wait_ms=10, level="disk"))
    assert (status.state, world.sent[-1].path) == ("durable", f"/v1/transactions/{ID}?wait=1&level=disk")
    verdicts = {"verdicts": [verdict_of("t", "lost")], "marks": None}
    asked = World(lambda _, n: cut() if n == 1 else verdicts)
    answered = asked.run(asked.service().verdicts(["t"], CallOptions(9_000), level="disk", wait_ms=5_000))
    assert asked.sent[1].body == {"tokens": ["t"], "level": "disk", "waitMs": 5_000}
    assert asked.sent[1].timeout == 6
    assert [verdict.verdict for verdict in answered.verdicts] == ["lost"]


def test_a_retry_is_observed_when_the_next_attempt_begins_and_the_last_failure_is_not_one() -> None:
    settled_as: list[ObservedEvent] = []
    world = World(lambda request, n: cut() if n <= 2 else committed(request))
    transact(world, world.service(observer=settled_as.append))
    assert [(event.type, event.id, event.attempt) for event in settled_as] == [("retry", ID, 1), ("retry", ID, 2)]
    assert settled_as[0].url == f"{NEAR}/v1/transactions"
    settled_as.clear()
    failing = World(lambda *_: violation())
    with pytest.raises(HighwaterError):
        transact(failing, failing.service(observer=settled_as.append))
    assert settled_as == []
