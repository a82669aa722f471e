"""What must hold whatever comes in between: a close in the middle of a call, a call outside of any loop."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from highwater import AsyncHighwater, HighwaterError, sql
from highwater._core.ids import decode_token
from highwater._core.pending_set import PendingPromise, make_entry
from highwater._core.wire import Marks
from highwater._waits import Waiting
from highwater._watcher import Watcher
from tests.client.fake_service import FakeService, committed
from tests.client.support import E1, marks, token
from tests.client.test_durability import FIRST, SECOND, at, judge
from tests.client.world import QUICK, World

STATEMENT = sql("SELECT 1")


def watcher_of(world: World, hw: Any) -> Watcher:
    watcher: Watcher = (hw if world.is_async else hw.target)._watcher
    return watcher


def entry_at(offset: int) -> PendingPromise:
    text = token(E1, offset)
    content = decode_token(text)
    return make_entry(text, transaction_id=content.id, position=content.position, now_ms=0)


@pytest.mark.parametrize(("kind", "endpoints"), [("one-shot", 1), ("transact", 1), ("transact", 2)])
async def test_close_waits_for_the_commit_of_a_call_under_way(world: World, kind: str, endpoints: int) -> None:
    released = asyncio.Event()

    async def one_shot(request: Any, _: int) -> Any:
        await released.wait()
        return committed(request)

    async def interactive(call: Any, _: int) -> None:
        if call.name == "commit":
            await released.wait()

    async def body(tx: Any) -> int:
        await tx.query(STATEMENT)
        return 5

    fakes = [await world.service(transaction=one_shot, interactive=interactive) for _ in range(endpoints)]
    hw, [near, *_] = world.client(*fakes), fakes
    call = asyncio.ensure_future(hw.transact(body) if kind == "transact" else hw.transaction(STATEMENT))
    await near.until(lambda: near.transactions != [] or any(each.name == "commit" for each in near.calls))
    closing = asyncio.ensure_future(hw.close())
    await asyncio.wait({closing}, timeout=0.05)
    assert not closing.done()
    released.set()
    done = await call
    assert done == 5 if kind == "transact" else done.state == "committed"
    await closing


async def test_a_body_that_closes_the_client_gets_an_error_and_nothing_more_is_sent(world: World) -> None:
    fake = await world.service()
    hw = world.client(fake)

    async def body(tx: Any) -> None:
        await tx.query(STATEMENT)
        await hw.close()

    with pytest.raises(HighwaterError) as caught:
        await hw.transact(body)
    assert caught.value.code == "client_closed"
    assert [each.name for each in fake.calls] == ["begin"]


async def test_a_question_that_fails_for_no_good_reason_is_asked_again(
    world: World, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    fake = await world.service(transaction=at(51), verdicts=judge(lambda *_: {"verdict": "durable"}))
    hw = world.client(fake)
    service = (hw if world.is_async else hw.target)._service
    ask, calls = service.verdicts, 0

    def broken(*arguments: Any, **options: Any) -> Any:
        nonlocal calls
        calls += 1
        if calls == 1:
            raise RuntimeError("a fault")
        return ask(*arguments, **options)

    monkeypatch.setattr(service, "verdicts", broken)
    tx = await hw.transaction(STATEMENT)
    wait = asyncio.ensure_future(tx.durable())
    await fake.streaming()
    fake.epochs(FIRST, SECOND)
    assert (await wait).verdict == "durable"
    assert "a fault" in caplog.text


async def test_a_promise_that_is_watched_outside_of_any_loop_says_so_and_breaks_nothing() -> None:
    fake = await FakeService().start()
    hw = AsyncHighwater(fake.url, tuning=QUICK)
    promise = hw.promise(token(E1, 10))

    def outside() -> None:
        with pytest.raises(RuntimeError):
            promise.on_lost(print)
        with pytest.raises(RuntimeError):
            hw.subscribe(print)

    await asyncio.to_thread(outside)
    assert hw.exposure.count == 0
    wait = asyncio.ensure_future(promise.durable())
    await fake.until(lambda: len(fake.streams) > 0)
    fake.mark(marks(E1, region=10))
    assert (await wait).verdict == "durable"
    await hw.close()
    await fake.stop()


async def test_a_promise_can_be_waited_for_on_a_new_loop_before_anything_else_is_called() -> None:
    fake = await FakeService().start()
    hw = AsyncHighwater(fake.url, tuning=QUICK)
    promise = hw.promise(token(E1, 10))

    async def in_vain() -> None:
        with pytest.raises(HighwaterError) as caught:
            await promise.durable(timeout=0.05)
        assert caught.value.code == "durability_timeout"

    await asyncio.to_thread(asyncio.run, in_vain())
    wait = asyncio.ensure_future(promise.durable())
    while not wait.done():
        fake.mark(marks(E1, region=10))
        await asyncio.wait({wait}, timeout=0.05)
    assert (await wait).verdict == "durable"
    await hw.close()
    await fake.stop()


async def test_a_wait_that_is_settled_while_it_begins_ends_once(world: World) -> None:
    watcher = watcher_of(world, world.client(await world.service()))

    class Begun(set[Any]):
        """Another thread brings the mark as soon as the wait can be found."""

        def add(self, wait: Any) -> None:
            super().add(wait)
            watcher.learn_marks(Marks(E1, 1, {"region": 20}))

    watcher.waits = Begun()
    ends: list[None] = []
    waiting = Waiting(watcher, [entry_at(10), entry_at(20)], "region", lambda: ends.append(None))
    assert [verdict.verdict for verdict in waiting.result(1)] == ["durable", "durable"]
    assert len(ends) == 1
    assert not watcher.waits


async def test_a_waiter_that_fails_does_not_silence_the_others(world: World, caplog: pytest.LogCaptureFixture) -> None:
    watcher = watcher_of(world, world.client(await world.service()))
    reported: list[str] = []

    def failing(_: Any) -> None:
        raise RuntimeError("a fault")

    first, second = entry_at(10), entry_at(20)
    watcher.watch(first, "region", failing)
    watcher.watch(first, "region", lambda _: reported.append("first"))
    watcher.watch(second, "region", lambda _: reported.append("second"))
    watcher.learn_marks(Marks(E1, 1, {"region": 20}))
    assert reported == ["first", "second"]
    assert "a fault" in caplog.text
