"""Interactive transactions: what each call sends, what is sent again, and the outcome of a commit without an answer."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime

import pytest

from highwater._core.effects import HttpResponse, NoResponse, Send
from highwater._core.errors import HighwaterError, UnknownOutcomeError
from highwater._core.interactive import InteractiveCore
from highwater._core.observer import ObservedEnd, ObservedEvent
from highwater._core.requests import AckOptions, ExecutionOptions
from highwater._core.service import Service
from highwater._core.sql import sql
from highwater._core.wire import Marks, TransactionResponse
from tests.client.support import E1, marks, opened_body
from tests.core.support import FAR, NEAR, Reply, Request, World, answer, committed, cut, interactive, problem, state

ONE, TWO = sql("SELECT {a}", a=1), sql("SELECT 2")
Tx = InteractiveCore[tuple[TransactionResponse, str]]


def id_of(request: Request) -> str:
    if request.name in {"begin", "transactions"}:
        return str(request.body["id"])
    return request.path.partition("?")[0].split("/")[3]


def opened(request: Request, **changes: object) -> HttpResponse:
    session = f"here.{id_of(request)}.mac"
    return answer(opened_body(id_of(request), request.body, **changes), highwater_session=session)


def succeed(request: Request, _: int = 0) -> Reply:
    match request.name.partition("?")[0]:
        case "begin" | "statements":
            return opened(request)
        case "commit":
            return committed(id_of(request))
        case "rollback":
            return {"id": id_of(request), "state": "aborted"}
        case "transactions":
            return committed(request)
        case _:
            return state(id_of(request), "unknown")


def scripted(own: Callable[[Request, int], Reply | None]) -> World:
    """What is not scripted succeeds."""
    return World(lambda request, n: own(request, n) or succeed(request))


def begin(
    world: World, service: Service | None = None, execution: ExecutionOptions | None = None, total_ms: float = 5_000
) -> tuple[Tx, list[Marks | None]]:
    learned: list[Marks | None] = []
    tx = interactive(
        service or world.service(),
        lambda: total_ms,
        total_ms=total_ms,
        execution=execution,
        learn_marks=learned.append,
        committed=lambda response, level: (response, level),
    )
    return tx, learned


def opened_on(world: World, service: Service | None = None, total_ms: float = 5_000) -> Tx:
    tx, _ = begin(world, service, total_ms=total_ms)
    world.run(tx.execute([ONE]))
    return tx


def sent(world: World) -> list[tuple[str, object]]:
    return [(request.name, request.body.get("seq")) for request in world.sent]


def ended_with(world: World, tx: Tx, code: str) -> HighwaterError:
    with pytest.raises(HighwaterError) as caught:
        world.run(tx.execute([TWO]))
    assert caught.value.code == code
    return caught.value


def test_the_first_statements_ride_on_the_begin_and_calls_are_numbered_and_pinned() -> None:
    world = scripted(lambda r, _: opened(r, marks=marks(E1, region=4)) if r.name == "begin" else None)
    execution = ExecutionOptions(isolation="read committed", metadata={"a": "b"}, max_delay_ms=9)
    tx, learned = begin(world, execution=execution)
    assert (len(world.sent), tx.is_open, tx.expires_at) == (0, True, None)
    (first,) = world.run(tx.execute([ONE]))
    assert first.rows == [["SELECT $1"]]
    assert len(world.run(tx.execute([TWO, TWO]))) == 2
    assert tx.expires_at == datetime(2030, 1, 1, tzinfo=UTC)
    assert learned[0] == Marks(E1, 1, {"region": 4})
    ack = AckOptions(ack="durable", level="global", max_wait_ms=70)
    done = world.run(tx.commit(ack, statements=[ONE]))
    assert sent(world) == [("begin", None), ("statements", 1), ("commit", 2)]
    statements = [{"sql": "SELECT $1", "params": [1]}]
    about = {"isolation": "read committed", "metadata": {"a": "b"}, "maxDelayMs": 9}
    assert world.sent[0].body == {"id": tx.id, "statements": statements, **about}
    assert world.sent[2].body == {
        "seq": 2,
        "ack": "durable",
        "level": "global",
        "maxWaitMs": 70,
        "statements": statements,
    }
    sessions = [request.headers.get("highwater-session") for request in world.sent]
    assert sessions == [None, f"here.{tx.id}.mac", f"here.{tx.id}.mac"]
    assert (done[0].id, done[1], tx.is_open, tx.committed) == (tx.id, "global", False, done)
    assert world.run(tx.commit(AckOptions())) == done
    ended_with(world, tx, "transaction_ended")
    with pytest.raises(HighwaterError, match="has committed"):
        world.run(tx.rollback())


def test_what_is_not_begun_is_committed_in_one_request_and_rolled_back_in_none() -> None:
    world = World(succeed)
    tx, _ = begin(world, execution=ExecutionOptions(isolation="read committed"))
    world.run(tx.commit(AckOptions(), statements=[ONE]))
    assert world.sent[0].path == "/v1/transactions"
    assert world.sent[0].body == {
        "id": tx.id,
        "isolation": "read committed",
        "statements": [{"sql": "SELECT $1", "params": [1]}],
    }
    world.run(begin(world)[0].commit(AckOptions()))
    assert world.sent[1].body["statements"] == [{"sql": "SELECT"}]
    world.run(begin(world)[0].rollback())
    assert len(world.sent) == 2


def test_lost_replies_the_same_call_with_the_same_number_to_the_same_gateway() -> None:
    seen: set[str] = set()

    def once(request: Request, _: int) -> Reply | None:
        key = f"{request.name} {request.body}"
        if key in seen:
            return None
        seen.add(key)
        return cut()

    world = scripted(once)
    service = world.service((NEAR, FAR))
    tx, _ = begin(world, service)
    world.run(tx.execute([ONE]))
    world.run(tx.execute([TWO]))
    world.run(tx.commit(AckOptions()))
    other = opened_on(world, service)
    world.run(other.rollback())
    for each, numbers in ((tx, [1, 1, 2, 2]), (other, [1, 1])):
        calls = [request for request in world.sent if id_of(request) == each.id]
        answered = [request.url for request in calls if request.name == "begin"][-1]
        pinned = [request for request in calls if request.name != "begin"]
        assert [request.body["seq"] for request in pinned] == numbers
        assert {request.url for request in pinned} == {answered}


def test_a_failed_statement_uses_its_number_up_and_what_was_refused_unseen_does_not() -> None:
    replies = {
        2: problem("constraint_violation", 409, "not_applied", "never", constraint="c", open=True),
        3: problem("transaction_control", 400, "not_applied", "never"),
        4: problem("exposure_limit", 503, "not_applied", "wait", open=True),
    }
    world = scripted(lambda _, n: replies.get(n))
    tx = opened_on(world)
    assert ended_with(world, tx, "constraint_violation").open
    ended_with(world, tx, "transaction_control")
    assert tx.is_open
    world.run(tx.execute([sql("ROLLBACK TO SAVEPOINT a")]))
    world.run(tx.commit(AckOptions()))
    # The fourth call was refused for now, and came again by itself.
    assert [seq for _, seq in sent(world)] == [None, 1, 2, 2, 2, 3]


def test_an_invalid_parameter_is_refused_before_anything_is_sent_and_ends_nothing() -> None:
    world = World(succeed)
    tx, _ = begin(world)
    for text in ("\ud800", "SELECT '\udfff'"):
        with pytest.raises(HighwaterError) as caught:
            world.run(tx.execute([sql("SELECT {a}", a=text)]))
        assert caught.value.code == "invalid_parameter"
    assert (tx.is_open, len(world.sent)) == (True, 0)


@pytest.mark.parametrize("code", ["transaction_expired", "transaction_aborted", "serialization_failure", "cancelled"])
def test_expired_aborted_and_a_conflict_are_typed_and_end_it_and_every_later_call_raises_them(code: str) -> None:
    refused = problem(code, 409, "not_applied", "transaction", open=False)
    world = scripted(lambda r, _: refused if r.name == "statements" else None)
    tx = opened_on(world)
    error = ended_with(world, tx, code)
    assert (error.retry, error.outcome, tx.is_open, tx.failure) == ("transaction", "not_applied", False, error)
    assert ended_with(world, tx, "transaction_ended").__cause__ is error
    world.run(tx.rollback())
    assert len(world.sent) == 2


@pytest.mark.parametrize(("code", "retry"), [("wrong_gateway", "wait"), ("transaction_not_open", "never")])
def test_another_gateway_in_its_place_for_a_statement_and_for_a_commit(code: str, retry: str) -> None:
    elsewhere = problem(code, 409, "unknown", retry)
    world = scripted(lambda r, _: None if r.name == "begin" else elsewhere)
    ended_with(world, opened_on(world), "gateway_lost")
    # No commit had been sent before: the word "unknown" is for those who had.
    with pytest.raises(HighwaterError) as caught:
        world.run(opened_on(world).commit(AckOptions()))
    assert (caught.value.code, caught.value.outcome) == ("gateway_lost", "not_applied")


def dies_at_commit(then: Callable[[Request], Reply | None]) -> World:
    """The near gateway dies with the commit on its way; the far one is asked."""

    def script(request: Request, _: int) -> Reply | None:
        if request.url == NEAR:
            died = any(each.name == "commit" for each in world.sent)
            return cut() if died else None
        return then(request)

    world = scripted(script)
    return world


@pytest.mark.parametrize("settles", [True, False])
def test_a_commit_that_no_gateway_knows_is_settled_elsewhere_or_stays_unknown(settles: bool) -> None:
    wrong = problem("wrong_gateway", 409, "not_applied", "wait", retryAfterMs=1)
    world = dies_at_commit(lambda request: None if settles or request.name != "rollback" else wrong)
    tx = opened_on(world, world.service((NEAR, FAR)))
    with pytest.raises(HighwaterError) as caught:
        world.run(tx.commit(AckOptions(), timeout_ms=2_000))
    rollbacks = [request for request in world.sent if request.name == "rollback"]
    assert {request.headers["highwater-session"] for request in rollbacks} == {f"here.{tx.id}.mac"}
    if settles:
        assert (caught.value.code, caught.value.retry) == ("transaction_aborted", "transaction")
    else:
        assert isinstance(caught.value, UnknownOutcomeError)
    assert not tx.is_open


def test_commit_unconfirmed_is_resolved_not_believed() -> None:
    unconfirmed = problem("commit_unconfirmed", 503, "unknown", "resolve_outcome", open=False)

    def script(request: Request, _: int) -> Reply | None:
        if request.name == "commit":
            return unconfirmed
        return None if request.name == "begin" else state(tx.id, "durable", 9)

    world = scripted(script)
    tx = opened_on(world)
    assert world.run(tx.commit(AckOptions()))[0].state == "durable"


def test_dispose_rolls_back_what_is_left_open_also_when_the_service_is_gone() -> None:
    world = World(succeed)
    tx = opened_on(world)
    world.run(tx.dispose())
    assert sent(world)[-1] == ("rollback", 1)
    world.run(tx.dispose())
    assert len(world.sent) == 2
    done = opened_on(world)
    world.run(done.commit(AckOptions()))
    world.run(done.dispose())
    assert sent(world)[-1] == ("commit", 1)
    gone = scripted(lambda r, _: NoResponse("refused") if r.name == "rollback" else None)
    world.run(opened_on(gone).dispose())
    lost = opened_on(gone)
    gone.run(lost.dispose())
    assert not lost.is_open


@pytest.mark.parametrize(("is_open", "numbers"), [(True, [1, 2]), (False, [1])])
def test_a_rollback_out_of_sequence_comes_again_under_the_next_number_if_it_is_open(
    is_open: bool, numbers: list[int]
) -> None:
    refusal = problem("out_of_sequence", 409, "not_applied", "never", open=is_open)
    world = scripted(lambda r, _: refusal if r.name == "rollback" and r.body["seq"] == 1 else None)
    tx = opened_on(world)
    world.run(tx.rollback())
    assert [seq for name, seq in sent(world) if name == "rollback"] == numbers
    assert not tx.is_open


def test_an_interrupt_ends_it_and_its_rollback_is_sent_once_without_much_ado() -> None:
    world = World(succeed)
    tx = opened_on(world)
    steps = tx.execute([TWO])
    assert isinstance(next(steps), Send)
    with pytest.raises(KeyboardInterrupt):
        steps.throw(KeyboardInterrupt())
    assert (tx.is_open, type(tx.failure)) == (False, KeyboardInterrupt)
    before_ms = world.now_ms
    world.script = lambda *_: NoResponse("timeout")
    world.run(tx.dispose())
    assert sent(world)[-1] == ("rollback", 1)
    assert world.now_ms - before_ms < 2_100
    count = len(world.sent)
    world.run(tx.dispose())
    assert len(world.sent) == count


def test_an_answer_of_a_commit_is_pending_where_it_is_not_durable_yet() -> None:
    pending = scripted(
        lambda r, _: answer(committed(id_of(r), state="pending", level="region"), 202) if r.name == "commit" else None
    )
    response, _ = pending.run(opened_on(pending).commit(AckOptions(ack="durable")))
    assert response.state == "pending"
    assert pending.sent[-1].body["maxWaitMs"] == 1_000


def test_an_observer_sees_calls_and_its_headers_go_out_with_them() -> None:
    settled_as: list[tuple[str, int | None, object]] = []

    def observe(event: ObservedEvent) -> Callable[[ObservedEnd], None]:
        event.headers["traceparent"] = f"of-{event.type}"
        return lambda end: settled_as.append((event.type, event.statements, end.state or end.error))

    refused = problem("constraint_violation", 409, "not_applied", "never", open=True)
    world = scripted(lambda _, n: refused if n == 3 else None)
    service = world.service(observer=observe)
    tx = opened_on(world, service)
    world.run(tx.execute([TWO, TWO]))
    error = ended_with(world, tx, "constraint_violation")
    world.run(tx.commit(AckOptions()))
    assert settled_as == [
        ("begin", 1, "active"),
        ("statements", 2, "active"),
        ("statements", 1, error),
        ("commit", 0, "committed"),
    ]
    headers = [request.headers["traceparent"] for request in world.sent]
    assert headers == ["of-begin", "of-statements", "of-statements", "of-commit"]
