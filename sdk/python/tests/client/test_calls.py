"""One-shot and interactive transactions over a wire with faults: what is sent, and what comes of it."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import Any

import pytest

from highwater import (
    ConnectionError,  # noqa: A004 - the name in every SDK
    ConstraintError,
    Endpoint,
    ExposureLimitError,
    HighwaterError,
    InvalidRequestError,
    SerializationError,
    StatementError,
    TransactionAbortedError,
    UnknownOutcomeError,
    sql,
)
from tests.client.fake_service import Answer, FakeService, InteractiveCall, committed, ok, opened, problem
from tests.client.support import E1, Json, marks, new_id, refusing, token
from tests.client.world import QUICK, World

STATEMENT = sql("SELECT {n}", n=1)


def state(sought: str, kind: str, **more: Any) -> Answer:
    return ok({"id": sought, "state": kind, "marks": None, **more})


async def test_what_is_sent_and_what_comes_back(world: World) -> None:
    result = {
        "command": "SELECT",
        "rowCount": 1,
        "fields": [{"name": "n", "oid": 20}, {"name": "t", "oid": 25}],
        "rows": [["9007199254740993", None]],
    }
    fake = await world.service(
        transaction=lambda request, _: committed(
            request, results=[result], served={"node": "n", "region": "r", "role": "replica"} | SERVED
        )
    )
    hw = world.client(fake, level="zone")
    seen = token(E1, 3)
    tx = await hw.transaction(
        [STATEMENT, sql("SELECT 2")],
        isolation="repeatable read",
        read_only=True,
        ack="durable",
        max_wait_ms=100,
        max_delay_ms=5_000,
        metadata={"order": "7"},
        after=seen,
        mode="local",
    )
    [sent] = fake.transactions
    assert sent == {
        "id": tx.id,
        "statements": [{"sql": "SELECT $1", "params": [1]}, {"sql": "SELECT 2"}],
        "isolation": "repeatable read",
        "readOnly": True,
        "ack": "durable",
        "level": "zone",
        "maxWaitMs": 100,
        "maxDelayMs": 5_000,
        "metadata": {"order": "7"},
        "after": seen,
        "mode": "local",
    }
    assert tx.rows == [{"n": 9007199254740993, "t": None}]
    assert tx.results[0].values == [["9007199254740993", None]]
    assert (tx.state, tx.announced, tx.replayed, tx.level) == ("committed", True, False, "zone")
    assert (tx.served.role, tx.served.behind_bytes) == ("replica", 5)


SERVED = {"behindBytes": "5", "behindMs": None}


async def test_connections_are_kept(world: World) -> None:
    fake = await world.service()
    hw = world.client(fake)
    for _ in range(5):
        await hw.transaction(STATEMENT)
    assert fake.connections == 1


async def test_a_lost_reply_is_sent_again_under_the_same_id(world: World) -> None:
    fake = await world.service(transaction=lambda request, call: "cut" if call < 3 else committed(request))
    tx = await world.client(fake).transaction(STATEMENT)
    assert [each["id"] for each in fake.transactions] == [tx.id] * 3
    assert fake.transactions[0] == fake.transactions[2]


async def test_a_replay_has_no_rows_and_says_so(world: World) -> None:
    fake = await world.service(transaction=lambda request, _: committed(request, results=None, replayed=True))
    tx = await world.client(fake).transaction(STATEMENT)
    assert (tx.replayed, tx.results) == (True, None)
    with pytest.raises(HighwaterError) as caught:
        _ = tx.rows
    assert (caught.value.code, caught.value.outcome) == ("results_not_kept", "applied")
    assert type(caught.value) is HighwaterError


async def test_503_with_retry_after_is_waited_for_and_429_of_a_proxy_too(world: World) -> None:
    replies: list[Any] = [
        problem("overloaded", headers={"retry-after": "0"}, retryAfterMs=1),
        Answer(429, b"slow down", {"retry-after": "0"}),
        Answer(502, b"<html>"),
    ]
    fake = await world.service(transaction=lambda _, call: replies[call - 1] if call <= 3 else None)
    await world.client(fake).transaction(STATEMENT)
    assert len({each["id"] for each in fake.transactions}) == 1
    assert len(fake.transactions) == 4


async def test_an_exposure_limit_says_how_much_when_time_is_over(world: World) -> None:
    exposure = {"transactions": 9, "bytes": "123", "oldestMs": 5}
    fake = await world.service(
        transaction=lambda *_: problem(
            "exposure_limit", limit={"name": "transactions", "value": 9}, exposure=exposure, retryAfterMs=60_000
        )
    )
    with pytest.raises(ExposureLimitError) as caught:
        await world.client(fake).transaction(STATEMENT)
    error = caught.value
    assert (error.outcome, error.limit and error.limit.value) == ("not_applied", 9)
    assert error.exposure is not None
    assert error.exposure.bytes == 123


async def test_what_the_database_refuses_is_typed(world: World) -> None:
    refusals: dict[str, tuple[type[HighwaterError], Json]] = {
        "constraint_violation": (ConstraintError, {"sqlstate": "23505", "constraint": "account_pkey"}),
        "serialization_failure": (SerializationError, {"sqlstate": "40001"}),
        "statement_failed": (StatementError, {"sqlstate": "42601", "statement": 0}),
    }
    for code, (kind, details) in refusals.items():
        fake = await world.service(transaction=lambda *_, code=code, details=details: problem(code, **details))
        with pytest.raises(kind) as caught:
            await world.client(fake).transaction(STATEMENT)
        assert {name: getattr(caught.value, name) for name in details} == details
        assert len(fake.transactions) == 1


@pytest.mark.late
async def test_an_outcome_that_nobody_tells_in_time_is_unknown(world: World) -> None:
    fake = await world.service(transaction=lambda *_: "cut", state=lambda *_: "cut")
    with pytest.raises(UnknownOutcomeError) as caught:
        await world.client(fake, total_timeout=2.5).transaction(STATEMENT)
    assert caught.value.transaction_id == fake.transactions[0]["id"]
    assert (caught.value.outcome, caught.value.retry) == ("unknown", "resolve_outcome")


async def test_an_unknown_outcome_is_resolved_by_its_state(world: World) -> None:
    def status(sought: str, query: Json, call: int) -> Answer:
        if call == 1:
            return state(sought, "active")
        return state(sought, "committed", token=token(E1, 7, sought), position={"epoch": E1, "offset": "7"})

    fake = await world.service(transaction=lambda *_: problem("outcome_unknown"), state=status)
    tx = await world.client(fake).transaction(STATEMENT)
    assert (tx.replayed, tx.position.offset, len(fake.transactions)) == (True, 7, 1)


@pytest.mark.late
async def test_a_refused_connection_moves_on_to_the_next_endpoint(world: World) -> None:
    near = await world.service(transaction=lambda *_: problem("primary_unavailable"))
    far = await world.service()
    with refusing() as gone:
        hw = world.client(url=[gone, near.url, far.url])
        await hw.transaction(STATEMENT)
        await hw.transaction(STATEMENT)
        assert (len(near.transactions), len(far.transactions)) == (1, 2)
        nowhere = world.client(endpoints=[Endpoint(gone, gone)], total_timeout=2.5)
        with pytest.raises(ConnectionError) as caught:
            await nowhere.transaction(STATEMENT)
    assert (caught.value.code, caught.value.outcome) == ("connection_failed", "not_applied")


@pytest.mark.late
async def test_a_black_hole_is_left_soon_and_a_slow_answer_is_waited_for(world: World) -> None:
    # Longer than a machine stalls: the sign of life of the slow one must come in time.
    tuning = replace(QUICK, probe_ms=1_500)
    near = await world.service(transaction=lambda *_: "hang", black_hole=True)
    far = await world.service()
    options: Any = {"request_timeout": 60, "total_timeout": 60, "tuning": tuning}
    await world.client(near, far, **options).transaction(STATEMENT)
    assert (near.probes, len(near.transactions), len(far.transactions)) == (1, 1, 1)

    async def late(request: Json, call: int) -> Answer:
        await slow.until(lambda: slow.probes == 1)
        return committed(request)

    slow = await world.service(transaction=late)
    await world.client(slow, far, **options).transaction(STATEMENT)
    assert (len(slow.transactions), len(far.transactions)) == (1, 1)
    only = await world.service(transaction=lambda *_: "hang")
    with pytest.raises(UnknownOutcomeError):
        await world.client(only, tuning=tuning, request_timeout=2.3, total_timeout=2.4).transaction(STATEMENT)
    assert only.probes == 0


async def test_safe_transactions_are_durable_at_once(world: World) -> None:
    fake = await world.service(transaction=lambda request, _: committed(request, state="durable", level="region"))
    tx = await world.client(fake).transaction(STATEMENT, ack="durable")
    verdict = await tx.durable(timeout=0)
    assert (tx.state, verdict.rule) == ("durable", "client:acknowledged")
    assert fake.stream_requests == []


async def test_status_long_polls(world: World) -> None:
    seen: list[Any] = []

    def status(sought: str, query: Json, call: int) -> Answer:
        seen.append(query)
        return state(sought, "lost", level="zone")

    fake = await world.service(state=status)
    sought = new_id()
    answer = await world.client(fake).status(sought, wait_ms=1_500, level="zone")
    assert (answer.id, answer.state, answer.level) == (sought, "lost", "zone")
    assert seen == [{"wait": ["2"], "level": ["zone"]}]
    with pytest.raises(InvalidRequestError):
        await world.client(fake).status("no id")


async def test_options_are_checked(world: World) -> None:
    fake = await world.service()
    with pytest.raises(InvalidRequestError):
        world.client(url=None)
    with pytest.raises(InvalidRequestError):
        world.client(endpoints=[])
    with pytest.raises(InvalidRequestError):
        world.client(endpoints=[Endpoint("ftp://x", "nonsense")])
    hw = world.client(fake)
    with pytest.raises(InvalidRequestError):
        await hw.transaction(STATEMENT, id="0")
    with pytest.raises(InvalidRequestError):
        hw.promise("hw2_no")
    with pytest.raises(InvalidRequestError):
        await hw.transaction(sql("SELECT {text}", text="\ud800"))
    assert fake.transactions == []


async def test_interactive_statements_ride_on_begin_and_commit(world: World) -> None:
    fake = await world.service()
    hw = world.client(fake)
    async with hw.begin(isolation="read committed", metadata={"a": "b"}) as tx:
        assert fake.calls == []
        result = await tx.query(sql("SELECT 1"))
        assert result.rows == [{"sql": "SELECT 1"}]
        results = await tx.execute([sql("SELECT 2"), sql("SELECT 3")])
        assert [each.rows[0]["sql"] for each in results] == ["SELECT 2", "SELECT 3"]
        assert tx.is_open
        assert tx.expires_at.year == 2030
        done = await tx.commit(statements=[sql("SELECT 4")], ack="durable", level="zone")
    assert [each.name for each in fake.calls] == ["begin", "statements", "commit"]
    begin, statements, commit = fake.calls
    assert (begin.session, statements.session, commit.session) == (None, f"here.{tx.id}.mac", f"here.{tx.id}.mac")
    assert begin.body["isolation"] == "read committed"
    assert begin.body["metadata"] == {"a": "b"}
    assert (statements.body["seq"], commit.body["seq"]) == (1, 2)
    assert (commit.body["ack"], commit.body["level"]) == ("durable", "zone")
    assert (tx.is_open, tx.committed.id, done.level) == (False, tx.id, "zone")
    with pytest.raises(InvalidRequestError) as caught:
        await tx.query(STATEMENT)
    assert caught.value.code == "transaction_ended"


async def test_interactive_all_of_it_with_the_commit_is_one_request(world: World) -> None:
    fake = await world.service()
    tx = await world.client(fake).begin()
    with pytest.raises(InvalidRequestError) as caught:
        await tx.durable()
    assert caught.value.code == "not_committed"
    await tx.commit(statements=[STATEMENT])
    assert ([each["id"] for each in fake.transactions], fake.calls) == ([tx.id], [])


async def test_interactive_left_open_it_is_rolled_back_whatever_the_reason(world: World) -> None:
    fake = await world.service()
    hw = world.client(fake)
    async with hw.begin() as tx:
        await tx.query(STATEMENT)
    assert [each.name for each in fake.calls] == ["begin", "rollback"]
    with pytest.raises(RuntimeError):  # noqa: PT012 - it is the block that is tested
        async with hw.begin() as tx:
            await tx.query(STATEMENT)
            raise RuntimeError
    assert [each.name for each in fake.calls][2:] == ["begin", "rollback"]
    async with hw.begin():
        pass
    assert len(fake.calls) == 4


async def test_interactive_a_lost_reply_is_repeated_with_its_number(world: World) -> None:
    fake = await world.service(interactive=lambda call, number: "cut" if number in (2, 4) else None)
    tx = await world.client(fake).begin()
    await tx.query(STATEMENT)
    await tx.query(STATEMENT)
    await tx.commit()
    assert [(each.name, each.body.get("seq")) for each in fake.calls] == [
        ("begin", None),
        ("statements", 1),
        ("statements", 1),
        ("commit", 2),
        ("commit", 2),
    ]


async def test_interactive_a_gateway_that_is_gone_has_applied_nothing(world: World) -> None:
    fake = await world.service(interactive=lambda call, _: "cut" if call.name == "statements" else None)
    tx = await world.client(fake).begin()
    await tx.query(STATEMENT)
    with pytest.raises(TransactionAbortedError) as caught:
        await tx.query(STATEMENT)
    assert (caught.value.code, caught.value.outcome, caught.value.retry) == (
        "gateway_lost",
        "not_applied",
        "transaction",
    )
    assert (tx.is_open, tx.failure) == (False, caught.value)


def twice(fake: FakeService) -> list[Endpoint]:
    """Two addresses of one service: where there are two, signs of life are asked for, and neither is the worse."""
    urls = [fake.url, fake.url.replace("127.0.0.1", "localhost")]
    return [Endpoint(each, each) for each in urls]


async def test_interactive_a_gateway_that_is_silent_for_a_while_keeps_its_transaction(world: World) -> None:
    """It would roll back what runs as soon as the connection is closed, and nobody else has it."""
    tuning = replace(QUICK, probe_ms=50, pinned_patience=1_000)

    async def slowly(call: InteractiveCall, _: int) -> None:
        if call.name == "statements":
            await fake.until(lambda: fake.probes > 0)
            # Of a one-shot transaction this would be the end.
            await asyncio.sleep(3 * tuning.probe_ms / 1_000)

    fake = await world.service(interactive=slowly)
    hw = world.client(endpoints=twice(fake), tuning=tuning, request_timeout=60, total_timeout=60)
    tx = await hw.begin()
    await tx.query(STATEMENT)
    # On a slow machine its begin was asked after as well, and made again.
    fake.black_hole, fake.probes = True, 0
    await tx.query(STATEMENT)
    await tx.commit()
    assert [each.name for each in fake.calls if each.name != "begin"] == ["statements", "commit"]


async def test_interactive_a_gateway_that_stays_silent_is_asked_once_more_and_given_up(world: World) -> None:
    fake = await world.service(interactive=lambda call, _: "hang" if call.name == "statements" else None)
    tuning = replace(QUICK, probe_ms=50, pinned_patience=2)
    hw = world.client(endpoints=twice(fake), tuning=tuning, request_timeout=60, total_timeout=60)
    tx = await hw.begin()
    await tx.query(STATEMENT)
    fake.black_hole = True
    with pytest.raises(TransactionAbortedError) as caught:
        await tx.query(STATEMENT)
    assert caught.value.code == "gateway_lost"
    assert [each.name for each in fake.calls if each.name != "begin"] == ["statements", "statements"]


async def test_interactive_what_its_gateway_took_for_a_client_that_went_away_is_aborted(world: World) -> None:
    gone = problem("cancelled", open=False)
    fake = await world.service(interactive=lambda call, _: gone if call.name == "statements" else None)
    tx = await world.client(fake).begin()
    await tx.query(STATEMENT)
    with pytest.raises(TransactionAbortedError) as caught:
        await tx.query(STATEMENT)
    assert (caught.value.code, caught.value.retry, tx.is_open) == ("cancelled", "transaction", False)


async def test_interactive_calls_made_at_the_same_time_run_one_after_another(world: World) -> None:
    under_way = 0
    most = 0

    async def slowly(call: InteractiveCall, number: int) -> Answer:
        nonlocal under_way, most
        under_way += 1
        most = max(most, under_way)
        await asyncio.sleep(0.005)
        under_way -= 1
        return opened(call) if call.name != "commit" else committed({"id": call.id})

    fake = await world.service(interactive=slowly)
    tx = await world.client(fake).begin()
    await asyncio.gather(*(tx.query(STATEMENT) for _ in range(8)))
    await tx.commit()
    assert [each.body.get("seq") for each in fake.calls] == [None, 1, 2, 3, 4, 5, 6, 7, 8]
    assert most == 1


async def test_interactive_after_a_failed_statement_it_may_go_on_at_a_savepoint(world: World) -> None:
    def fail_once(call: InteractiveCall, number: int) -> Any:
        return problem("statement_failed", open=True, sqlstate="22012") if number == 2 else None

    fake = await world.service(interactive=fail_once)
    tx = await world.client(fake).begin()
    await tx.query(sql("SAVEPOINT a"))
    with pytest.raises(StatementError):
        await tx.query(sql("SELECT 1/0"))
    assert tx.is_open
    await tx.query(sql("ROLLBACK TO SAVEPOINT a"))
    await tx.commit()
    assert [each.body.get("seq") for each in fake.calls] == [None, 1, 2, 3]


async def test_transact_runs_a_conflict_again_under_a_new_id_and_once_takes_effect(world: World) -> None:
    def conflict_twice(call: InteractiveCall, number: int) -> Any:
        commits = sum(1 for each in fake.calls if each.name == "commit")
        is_early = call.name == "commit" and commits <= 2
        return problem("serialization_failure", open=False) if is_early else None

    fake = await world.service(interactive=conflict_twice)
    hw = world.client(fake)
    ids: list[str] = []

    async def body(tx: Any) -> int:
        ids.append(tx.id)
        await tx.query(STATEMENT)
        return len(ids)

    assert await hw.transact(body, ack="commit", level="zone") == 3
    assert len(set(ids)) == 3
    assert [each.name for each in fake.calls if each.id == ids[2]] == ["begin", "commit"]
    fake.calls.clear()
    with pytest.raises(SerializationError):
        await hw.transact(body, max_attempts=1)


async def test_transact_errors_of_the_body_roll_back_and_pass_through(world: World) -> None:
    fake = await world.service()

    async def body(tx: Any) -> None:
        await tx.query(STATEMENT)
        raise LookupError("not enough")

    with pytest.raises(LookupError):
        await world.client(fake).transact(body)
    assert [each.name for each in fake.calls] == ["begin", "rollback"]


@pytest.mark.late
async def test_transact_an_unknown_outcome_never_runs_again(world: World) -> None:
    fake = await world.service(
        interactive=lambda call, _: "cut" if call.name in ("commit", "rollback") else None, state=lambda *_: "cut"
    )
    runs = 0

    async def body(tx: Any) -> None:
        nonlocal runs
        runs += 1
        await tx.query(STATEMENT)

    with pytest.raises(UnknownOutcomeError):
        await world.client(fake).transact(body, timeout=3.0)
    assert runs == 1


async def test_transact_safe_it_returns_when_it_is_durable(world: World) -> None:
    fake = await world.service(
        interactive=lambda call, _: (
            committed({"id": call.id}, state="pending", offset=5) if call.name == "commit" else None
        )
    )
    hw = world.client(fake)

    async def body(tx: Any) -> str:
        await tx.query(STATEMENT)
        return "done"

    done = asyncio.ensure_future(hw.transact(body, ack="durable"))
    await fake.streaming()
    assert not done.done()
    fake.mark(marks(E1, region=5))
    assert await done == "done"
