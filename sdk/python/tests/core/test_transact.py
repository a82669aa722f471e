"""`transact`: what runs the body again, what does not, and under which id."""

from __future__ import annotations

from typing import Any

import pytest

from highwater._core.effects import CallBody, Returned, Send, Steps
from highwater._core.errors import HighwaterError, TransactionLostError, UnknownOutcomeError, state_error
from highwater._core.interactive import InteractiveCore
from highwater._core.requests import AckOptions
from highwater._core.service import Service
from highwater._core.sql import sql
from highwater._core.transact import TransactDeps, transact
from highwater._core.wire_types import Ack
from tests.core.support import Reply, Request, World, answer, committed, interactive, problem, state
from tests.core.test_interactive import id_of, scripted, sent, succeed

STATEMENT = sql("SELECT 1")
Tx = InteractiveCore[Any]


def steps_of(
    world: World,
    *,
    service: Service | None = None,
    ack: Ack | None = None,
    timeout_ms: float = 5_000,
    max_attempts: int = 10,
) -> Steps[object]:
    on = service or world.service()

    deps = TransactDeps(runtime=world.runtime, tuning=on.deps.tuning, begin=lambda left_ms: interactive(on, left_ms))
    return transact(deps, AckOptions(ack=ack), timeout_ms=timeout_ms, max_attempts=max_attempts)


def conflict(code: str = "serialization_failure") -> Reply:
    return problem(code, 409, "not_applied", "transaction", open=False)


def query(world: World, tx: Tx) -> None:
    world.run(tx.execute([STATEMENT]))


def test_between_two_runs_of_a_body_there_is_a_pause() -> None:
    commits = iter([conflict(), conflict()])
    world = scripted(lambda r, _: next(commits, None) if r.name == "commit" else None)
    world.body = lambda tx: query(world, tx)
    world.run(steps_of(world))
    # Jittered, and longer each time: half of 20, then half of 40, up to the bound of the tuning.
    assert world.slept_ms == [10, 10]


def test_what_a_body_makes_of_a_conflict_is_not_believed_wrapped_or_swallowed_it_runs_again() -> None:
    world = scripted(lambda r, n: conflict() if r.name == "statements" and n <= 4 else None)
    runs = 0

    def body(tx: Tx) -> None:
        nonlocal runs
        runs += 1
        query(world, tx)
        try:
            query(world, tx)
        except HighwaterError as error:
            if runs == 1:
                raise ValueError("wrapped") from error

    world.body = body
    world.run(steps_of(world))
    assert runs == 3


def test_an_unknown_outcome_is_not_run_again_also_when_there_is_time() -> None:
    unknown = problem("internal", 500, "unknown", "resolve_outcome")
    replies = {"begin": None, "commit": unknown}
    world = scripted(lambda r, _: replies[r.name] if r.name in replies else state(id_of(r), "active"))

    def body(tx: Tx) -> None:
        query(world, tx)
        world.run(tx.commit(AckOptions(), timeout_ms=500))

    world.body = body
    with pytest.raises(UnknownOutcomeError):
        world.run(steps_of(world, timeout_ms=60_000))
    assert [name for name, _ in sent(world)].count("begin") == 1


def test_ack_durable_it_is_waited_for_and_a_loss_before_that_runs_the_body_again() -> None:
    commits = 0

    def script(request: Request, _: int) -> Reply | None:
        nonlocal commits
        if request.name != "commit":
            return None
        commits += 1
        if commits == 1:
            return conflict("transaction_lost")
        return answer(committed(id_of(request), state="pending", level="region"), 202)

    world = scripted(script)
    world.body = lambda tx: query(world, tx)
    waited: list[object] = []

    def durable(promised: object) -> BaseException | None:
        waited.append(promised)
        return state_error(str(promised), "lost") if len(waited) == 1 else None

    world.durable = durable
    world.run(steps_of(world, ack="durable"))
    begun = [str(request.body["id"]) for request in world.sent if request.name == "begin"]
    assert waited == begun[1:]
    assert len(begun) == 3
    assert 0 < world.waits[-1][1] < 5


def test_a_wait_that_takes_too_long_is_no_reason_to_run_again() -> None:
    world = World(succeed)
    world.body = lambda tx: query(world, tx)
    world.durable = lambda _: TimeoutError("still pending")
    with pytest.raises(TimeoutError):
        world.run(steps_of(world, ack="durable"))
    assert [name for name, _ in sent(world)] == ["begin", "commit"]


def test_a_loss_that_another_attempt_outlived_is_not_run_again() -> None:
    world = World(succeed)
    world.body = lambda tx: query(world, tx)
    lost = TransactionLostError("x", code="transaction_lost", outcome="applied", retry="resolve_outcome")
    world.durable = lambda _: lost
    with pytest.raises(TransactionLostError):
        world.run(steps_of(world, ack="durable"))
    assert sum(request.name == "begin" for request in world.sent) == 1


def test_a_body_may_commit_or_roll_back_by_itself() -> None:
    world = World(succeed)

    def undo(tx: Tx) -> None:
        query(world, tx)
        world.run(tx.rollback())

    def commit(tx: Tx) -> None:
        query(world, tx)
        world.run(tx.commit(AckOptions()))

    for body in (undo, commit):
        world.body = body
        world.run(steps_of(world))
    assert [name for name, _ in sent(world)] == ["begin", "rollback", "begin", "commit"]


def test_a_body_without_a_statement_is_one_request() -> None:
    world = World(succeed)
    world.body = lambda _: 5
    assert world.run(steps_of(world)) == 5
    assert [request.path for request in world.sent] == ["/v1/transactions"]


def test_its_time_is_for_all_runs_and_calls_together() -> None:
    world = scripted(lambda r, _: conflict() if r.name == "commit" else None)

    def body(tx: Tx) -> None:
        world.now_ms += 150
        query(world, tx)

    world.body = body
    with pytest.raises(HighwaterError) as caught:
        world.run(steps_of(world, timeout_ms=500))
    assert caught.value.code == "serialization_failure"
    assert world.now_ms - 1_000 < 500
    assert all(request.timeout <= 0.5 for request in world.sent)


def test_an_interrupt_of_the_body_rolls_back_and_is_not_run_again() -> None:
    world = World(succeed)
    steps = steps_of(world)
    effect = next(steps)
    assert isinstance(effect, CallBody)
    query(world, effect.transaction)
    rollback = steps.throw(KeyboardInterrupt())
    assert isinstance(rollback, Send)
    assert rollback.url.endswith("/rollback")
    with pytest.raises(KeyboardInterrupt):
        steps.send(world.perform(rollback))


def test_a_generator_that_is_closed_goes_without_a_word() -> None:
    world = World(succeed)
    steps = steps_of(world)
    effect = next(steps)
    assert isinstance(effect, CallBody)
    query(world, effect.transaction)
    steps.close()
    later = steps_of(world)
    assert isinstance(next(later), CallBody)
    commit = later.send(Returned(1))
    assert isinstance(commit, Send)
    later.close()
