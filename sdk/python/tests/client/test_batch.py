"""Transactions that share a request share nothing else, on one event loop as in threads.

Method: a service that answers batches line by line, as the test says.
"""

from __future__ import annotations

import asyncio
import json
from dataclasses import replace
from typing import Any

import pytest

from highwater import Batch, ConnectionError, Endpoint, HighwaterError, SerializationError, sql  # noqa: A004
from tests.client.fake_service import BatchRequest, FakeResponse, FakeService, committed, problem
from tests.client.support import refusing
from tests.client.world import QUICK, World

#: For requests that meet; one of them then waits alone.
RESENT_MS = 1_000


def together(count: int, *, alone_ms: float = 60_000) -> Batch:
    """It leaves when so many have come, and no thread is too slow to be there; one that comes alone waits longer."""
    return Batch(max_delay_ms=alone_ms, max_count=count)


async def serving(world: World, batch: Any, *, replayed: bool = False) -> FakeService:
    """A transaction that comes alone commits at offset 1."""
    return await world.service(
        batch=batch, transaction=lambda request, _: committed(request, offset=1, replayed=replayed)
    )


async def echo(request: BatchRequest) -> None:
    await request.begin()
    for index, transaction in enumerate(request.transactions):
        await request.line(index, committed(transaction, offset=100 + index))
    await request.end()


async def run(client: Any, *texts: str) -> list[Any]:
    calls = [client.transaction(sql("SELECT {n}", n=text)) for text in texts]
    return await asyncio.gather(*calls, return_exceptions=True)


def offsets(results: list[Any]) -> list[int]:
    return sorted(int(each.position.offset) for each in results)


def requests(fake: FakeService) -> tuple[int, int]:
    """Counts the requests since the last call: batches, and single transactions."""
    counts = len(fake.batches), len(fake.transactions)
    fake.batches.clear()
    fake.transactions.clear()
    return counts


async def test_what_begins_together_goes_together_and_has_its_own_outcome(world: World) -> None:
    async def conflict_and_commit(request: BatchRequest) -> None:
        conflict, commit = problem("serialization_failure"), committed(request.transactions[0])
        lines = [
            {"index": 1, "status": conflict.status, "body": conflict.body},
            {"index": 0, "status": commit.status, "body": commit.body},
        ]
        await request.begin()
        # Cut in the middle of lines.
        for byte in b"".join(json.dumps(line).encode() + b"\n" for line in lines):
            await request.send(bytes([byte]))
        await request.end()

    # The one whose line is missing is sent again.
    fake = await serving(world, conflict_and_commit, replayed=True)
    results = await run(world.client(fake, batch=together(3, alone_ms=RESENT_MS)), "a", "b", "c")
    assert [each for each in results if isinstance(each, SerializationError)]
    kept = [each for each in results if not isinstance(each, HighwaterError)]
    assert offsets(kept) == [1, 10]
    assert sorted(each.replayed for each in kept) == [False, True]
    assert requests(fake) == (1, 1)


async def test_a_count_is_kept_and_one_alone_goes_as_it_always_did(world: World) -> None:
    fake = await serving(world, echo)
    hw = world.client(fake, batch=together(2))
    await run(hw, *"abcd")
    assert [len(each.transactions) for each in fake.batches] == [2, 2]
    assert requests(fake) == (2, 0)
    hw = world.client(fake, batch=Batch(max_delay_ms=300, max_count=2))
    assert offsets(await run(hw, "e")) == [1]
    assert requests(fake) == (0, 1)
    long = "x" * 200_000
    for client, texts in ((hw, (long, long)), (world.client(fake), ("f", "g"))):
        assert offsets(await run(client, *texts)) == [1, 1]
        assert requests(fake) == (0, 2)


@pytest.mark.parametrize("status", [404, 405, 413])
async def test_a_gateway_without_batches_gets_them_one_by_one(world: World, status: int) -> None:
    async def refuse(request: BatchRequest) -> FakeResponse:
        return FakeResponse(status, {})

    fake = await serving(world, refuse)
    hw = world.client(fake, batch=together(2))
    for asked in (1, 1 if status == 413 else 0):
        assert offsets(await run(hw, "a", "b")) == [1, 1]
        assert requests(fake) == (asked, 2)


@pytest.mark.parametrize("how", ["cut", "short", "garbage"])
async def test_an_answer_that_breaks_off_is_found_out_by_sending_again(world: World, how: str) -> None:
    async def break_off(request: BatchRequest) -> None:
        await request.begin()
        await request.line(1, committed(request.transactions[1]))
        if how == "cut":
            request.writer.transport.abort()
            return
        if how == "garbage":
            await request.send(b"{}\n")
        await request.end()

    fake = await serving(world, break_off)
    assert offsets(await run(world.client(fake, batch=together(2, alone_ms=RESENT_MS)), "a", "b"))[0] == 1
    assert len(fake.transactions) > 0


@pytest.mark.late
async def test_who_gives_up_leaves_the_others(world: World) -> None:
    go_on = asyncio.Event()

    async def late(request: BatchRequest) -> None:
        await go_on.wait()
        await echo(request)

    hw = world.client(await serving(world, late), batch=together(2))
    # Time enough for the other one to come into its batch, on a machine that stalls as well.
    hasty = asyncio.ensure_future(hw.transaction(sql("SELECT 1"), timeout=2.5))
    patient = asyncio.ensure_future(hw.transaction(sql("SELECT 2")))
    with pytest.raises(HighwaterError):
        await hasty
    assert not patient.done()
    go_on.set()
    assert (await patient).state == "committed"


async def test_other_callers_go_by_themselves(world: World) -> None:
    fake = await serving(world, echo)
    one, other = (world.client(fake, batch=together(2), api_key=key) for key in ("one", "two"))
    await asyncio.gather(run(one, "a", "b"), run(other, "c", "d"))
    assert sorted(each["authorization"] for each in fake.headers) == ["Bearer one", "Bearer two"]


@pytest.mark.parametrize("wrong", [{"max_count": 0}, {"max_count": 257}, {"max_delay_ms": -1.0}])
def test_a_batch_that_cannot_be_is_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(HighwaterError, match="batch"):
        Batch(**wrong)


async def test_a_gateway_that_is_not_there(world: World) -> None:
    # The last attempt has longer than a busy machine stalls: cut short, it would leave the outcome unknown.
    tuning = replace(QUICK, attempt_min_ms=2_000)
    with refusing() as gone:
        hw = world.client(endpoints=[Endpoint(gone, gone)], batch=True, total_timeout=2.5, tuning=tuning)
        for each in await run(hw, "a", "b"):
            assert isinstance(each, ConnectionError)
            assert each.outcome == "not_applied"
