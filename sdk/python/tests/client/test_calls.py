"""One-shot and interactive transactions over a wire with faults: what is sent, and what comes of it."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import Any

import pytest

from highwater import Endpoint, HighwaterError, InvalidRequestError, ObservedEvent, TransactionAbortedError, sql
from tests.client.fake_service import FakeResponse, FakeService, InteractiveCall, committed, opened
from tests.client.support import E1, Json, token
from tests.client.world import QUICK, World

STATEMENT = sql("SELECT {n}", n=1)


async def test_what_is_sent_and_what_comes_back(world: World) -> None:
    result = {
        "command": "SELECT",
        "rowCount": 1,
        "fields": [{"name": "n", "oid": 20}, {"name": "t", "oid": 25}],
        "rows": [["9007199254740993", None]],
    }
    served = {"node": "n", "region": "r", "role": "replica", "behindBytes": "5", "behindMs": None}
    fake = await world.service(transaction=lambda request, _: committed(request, results=[result], served=served))

    def observe(event: ObservedEvent) -> None:
        event.headers["traceparent"] = "00-1"

    hw = world.client(fake, level="zone", observer=observe)
    seen = token(E1, 3)
    tx = await hw.transaction(
        [STATEMENT, sql("SELECT 2")],
        isolation="repeatable read",
        read_only=True,
        ack="durable",
        max_wait=0.1,
        on_timeout="pending",
        max_delay=5,
        metadata={"order": "7"},
        after=seen,
        mode="local",
    )
    assert fake.headers[0]["traceparent"] == "00-1"
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


async def test_connections_are_kept(world: World) -> None:
    fake = await world.service()
    hw = world.client(fake)
    for _ in range(5):
        await hw.transaction(STATEMENT)
    assert fake.connections == 1


async def test_a_replay_has_no_rows_and_says_so(world: World) -> None:
    fake = await world.service(transaction=lambda request, _: committed(request, results=None, replayed=True))
    tx = await world.client(fake).transaction(STATEMENT)
    assert (tx.replayed, tx.results) == (True, None)
    with pytest.raises(HighwaterError) as caught:
        _ = tx.rows
    assert (caught.value.code, caught.value.outcome) == ("results_not_kept", "applied")
    assert type(caught.value) is HighwaterError


@pytest.mark.late
async def test_a_black_hole_is_left_soon_and_a_slow_answer_is_waited_for(world: World) -> None:
    # Longer than a machine stalls: the sign of life of the slow one must come in time.
    tuning = replace(QUICK, probe_ms=1_500)
    near = await world.service(transaction=lambda *_: "hang", black_hole=True)
    far = await world.service()
    options: Any = {"request_timeout": 60, "total_timeout": 60, "tuning": tuning}
    await world.client(near, far, **options).transaction(STATEMENT)
    assert (near.probes, len(near.transactions), len(far.transactions)) == (1, 1, 1)

    async def late(request: Json, call: int) -> FakeResponse:
        await slow.until(lambda: slow.probes == 1)
        return committed(request)

    slow = await world.service(transaction=late)
    await world.client(slow, far, **options).transaction(STATEMENT)
    assert (len(slow.transactions), len(far.transactions)) == (1, 1)


async def test_options_are_checked(world: World) -> None:
    refused: list[Json] = [{"url": None}, {"endpoints": []}, {"endpoints": [Endpoint("ftp://x", "nonsense")]}]
    for wrong in refused:
        with pytest.raises(InvalidRequestError):
            world.client(**wrong)
    fake = await world.service()
    hw = world.client(fake)
    for statement, options in ((STATEMENT, {"id": "0"}), (sql("SELECT {text}", text="\ud800"), {})):
        with pytest.raises(InvalidRequestError):
            await hw.transaction(statement, **options)
    assert fake.transactions == []


async def test_an_interactive_transaction_with_its_options(world: World) -> None:
    fake = await world.service()
    async with world.client(fake).begin(isolation="read committed", metadata={"a": "b"}) as tx:
        assert (await tx.query(sql("SELECT 1"))).rows == [{"sql": "SELECT 1"}]
        assert tx.is_open
        assert tx.expires_at.year == 2030
        with pytest.raises(InvalidRequestError) as caught:
            await tx.durable()
        assert caught.value.code == "not_committed"
        done = await tx.commit(statements=[sql("SELECT 4")], ack="durable", on_timeout="pending", level="zone")
    begin, commit = fake.calls
    assert begin.body["isolation"] == "read committed"
    assert begin.body["metadata"] == {"a": "b"}
    assert (commit.body["ack"], commit.body["level"]) == ("durable", "zone")
    assert (tx.is_open, tx.committed.id, done.level) == (False, tx.id, "zone")


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


def twice(fake: FakeService) -> list[Endpoint]:
    """Two addresses of one service: where there are two, signs of life are asked for, and neither is the worse."""
    urls = [fake.url, fake.url.replace("127.0.0.1", "localhost")]
    return [Endpoint(each, each) for each in urls]


async def test_interactive_a_gateway_that_is_silent_for_a_while_keeps_its_transaction(world: World) -> None:
    """It would roll back what runs as soon as the connection is closed, and no one else has it."""
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
    # Long enough for a call to arrive before it is given up.
    tuning = replace(QUICK, probe_ms=250, pinned_patience=2)
    hw = world.client(endpoints=twice(fake), tuning=tuning, request_timeout=60, total_timeout=60)
    tx = await hw.begin()
    await tx.query(STATEMENT)
    fake.black_hole = True
    with pytest.raises(TransactionAbortedError) as caught:
        await tx.query(STATEMENT)
    assert (caught.value.code, tx.is_open, tx.failure) == ("gateway_lost", False, caught.value)
    assert [each.name for each in fake.calls if each.name != "begin"] == ["statements", "statements"]


async def test_interactive_calls_made_at_the_same_time_run_one_after_another(world: World) -> None:
    under_way = 0
    most = 0

    async def slowly(call: InteractiveCall, number: int) -> FakeResponse:
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
