"""How things end: calls that are cancelled, processes that fork, loops that are closed, threads by the dozen."""

from __future__ import annotations

import asyncio
import gc
import os
import pickle
import sys
import threading
import weakref
from typing import Any

import pytest

from highwater import AsyncHighwater, Cancellation, Highwater, InvalidRequestError, TransactionLostError, sql
from tests.client.fake_service import FakeService, committed
from tests.client.support import E1, marks, token
from tests.client.test_durability import FIRST, SECOND, at, judge
from tests.client.world import CANCELLED, QUICK, World, start, until

STATEMENT = sql("SELECT 1")
#: Later versions of Python warn of every fork where there are threads.
FORKING = ("-W", "error", "-W", "ignore::DeprecationWarning")


async def test_a_wait_that_is_cancelled_takes_its_question_with_it(world: World) -> None:
    fake = await world.service(transaction=at(51), verdicts=lambda *_: "hang")
    hw = world.client(fake, request_timeout=60)
    tx = await hw.transaction(STATEMENT)
    wait, cancel = start(world, tx.durable)
    await fake.streaming()
    fake.epochs(FIRST, SECOND)
    await fake.until(lambda: fake.held == 1)
    await cancel()
    with pytest.raises(CANCELLED):
        await wait
    await fake.until(lambda: fake.held == 0)


async def test_a_transact_that_is_cancelled_rolls_back_and_does_not_run_again(world: World) -> None:
    fake = await world.service(interactive=lambda call, _: "hang" if call.name == "statements" else None)

    async def body(tx: Any) -> None:
        await tx.query(STATEMENT)
        await tx.query(STATEMENT)

    call, cancel = start(world, world.client(fake, request_timeout=60, total_timeout=60).transact, body)
    await fake.until(lambda: fake.held == 1)
    await cancel()
    with pytest.raises(CANCELLED):
        await call
    await fake.until(lambda: [each.name for each in fake.calls] == ["begin", "statements", "rollback"])


async def test_cancelled_before_it_begins_nothing_is_sent(world: World) -> None:
    fake = await world.service()
    hw = world.client(fake)
    if world.is_async:
        call = asyncio.ensure_future(hw.transaction(STATEMENT))
        call.cancel()
    else:
        cancellation = Cancellation()
        cancellation.cancel()
        cancellation.cancel()
        call = asyncio.ensure_future(hw.transaction(STATEMENT, cancel=cancellation))
    with pytest.raises(CANCELLED) as caught:
        await call
    assert (fake.transactions, caught.value.__cause__) == ([], None)


async def test_what_holds_connections_cannot_be_pickled_and_errors_can(world: World) -> None:
    fake = await world.service(transaction=at(51), verdicts=judge(lambda *_: {"verdict": "lost"}))
    hw = world.client(fake)
    tx = await hw.transaction(STATEMENT)
    for each in (hw, tx):
        with pytest.raises(TypeError, match="token"):
            pickle.dumps(each if world.is_async else each.target)
    wait = asyncio.ensure_future(tx.durable())
    await fake.streaming()
    fake.epochs(FIRST, SECOND)
    with pytest.raises(TransactionLostError) as caught:
        await wait
    copy = pickle.loads(pickle.dumps(caught.value))
    assert (type(copy), copy.code, copy.verdict, copy.message) == (
        TransactionLostError,
        "transaction_lost",
        caught.value.verdict,
        caught.value.message,
    )


async def test_many_threads_share_one_sync_client() -> None:
    fake = await FakeService(transaction=lambda request, call: committed(request, offset=call)).start()
    threads, each_runs = 16, 20
    done: list[str] = []

    def work(hw: Highwater) -> None:
        for _ in range(each_runs):
            tx = hw.transaction(STATEMENT)
            done.append(tx.durable(timeout=20).id)

    def run() -> None:
        with Highwater(fake.url, tuning=QUICK) as hw:
            workers = [threading.Thread(target=work, args=(hw,)) for _ in range(threads)]
            for worker in workers:
                worker.start()
            for worker in workers:
                worker.join()

    running = asyncio.ensure_future(asyncio.to_thread(run))
    while not running.done():
        fake.mark(marks(E1, region=len(fake.transactions)))
        await asyncio.wait({running}, timeout=0.01)
    await running
    assert len(set(done)) == threads * each_runs
    await fake.stop()
    assert not [each for each in threading.enumerate() if each.name.startswith("highwater")]


async def test_a_sync_client_that_is_dropped_takes_its_threads_along() -> None:
    fake = await FakeService().start()

    def use() -> weakref.ref[Highwater]:
        hw = Highwater(fake.url, tuning=QUICK)
        off = hw.promise(token(E1, 10)).on_durable(lambda _: None)
        while not fake.streams:
            threading.Event().wait(0.005)
        off()
        return weakref.ref(hw)

    dropped = await asyncio.to_thread(use)

    def is_gone() -> bool:
        gc.collect()
        return dropped() is None and not [each for each in threading.enumerate() if each.name == "highwater"]

    await until(is_gone)
    await fake.stop()


@pytest.mark.filterwarnings("ignore::ResourceWarning", "ignore::pytest.PytestUnraisableExceptionWarning")
async def test_an_async_client_belongs_to_one_loop_and_moves_on_when_that_is_closed() -> None:
    fake = await FakeService(transaction=at(10, 20, 30)).start()
    hw = AsyncHighwater(fake.url, tuning=QUICK)

    async def use() -> Any:
        tx = await hw.transaction(STATEMENT)
        wait = asyncio.ensure_future(tx.durable())
        await asyncio.sleep(0)
        return tx, wait

    first, wait = await asyncio.to_thread(asyncio.run, use())
    assert wait.cancelled()
    tx, _ = await asyncio.to_thread(asyncio.run, use())
    assert tx.token != first.token
    # On the third loop the promise of the first goes on.
    again = asyncio.ensure_future(hw.promise(first.token).durable())
    third = asyncio.ensure_future(hw.transaction(STATEMENT))
    await third
    await fake.until(lambda: len(fake.streams) > 0)
    while not again.done():
        fake.mark(marks(E1, region=10))
        await asyncio.wait({again}, timeout=0.05)
    assert (await again).verdict == "durable"

    async def elsewhere() -> None:
        with pytest.raises(InvalidRequestError, match="another event loop"):
            await hw.transaction(STATEMENT)

    await asyncio.to_thread(asyncio.run, elsewhere())
    await hw.close()
    await fake.stop()
    # What the closed loops had open is a matter between the loop and who closed it.
    del first, wait, tx, again, third
    gc.collect()


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork here")
async def test_a_forked_process_goes_on_with_connections_of_its_own() -> None:
    """In a process of its own, for the one of the tests has threads that a fork would not like."""
    fake = await FakeService(transaction=lambda request, call: committed(request, offset=call)).start()
    program = f"""
import os, sys, threading
from highwater import Highwater, HighwaterError, sql
hw = Highwater({fake.url!r})
tx = hw.transaction(sql("SELECT 1"))
open_tx = hw.begin()
open_tx.query(sql("SELECT 2"))
waiter = threading.Thread(target=tx.durable, daemon=True)
waiter.start()
while hw.exposure.count == 0:
    pass
child = os.fork()
if child == 0:
    status = 1
    try:
        assert hw.exposure.count == 0
        own = hw.transaction(sql("SELECT 3"))
        assert own.durable(timeout=20).verdict == "durable"
        assert tx.durable(timeout=20).verdict == "durable"
        try:
            open_tx.query(sql("SELECT 4"))
        except HighwaterError as error:
            status = 0 if error.code == "transaction_ended" else 2
        with open_tx:
            pass
        hw.close()
    finally:
        os._exit(status)
waiter.join(20)
open_tx.commit()
assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
hw.close()
"""
    process = await asyncio.create_subprocess_exec(
        sys.executable, *FORKING, "-c", program, env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    )
    ended = asyncio.ensure_future(process.wait())
    # Both processes have a stream of their own.
    await fake.until(lambda: len(fake.stream_requests) == 2)
    while not ended.done():
        fake.mark(marks(E1, region=len(fake.transactions)))
        await asyncio.wait({ended}, timeout=0.05)
    assert await ended == 0
    assert [each.name for each in fake.calls] == ["begin", "commit"]
    assert len(fake.transactions) == 2
    await fake.stop()


async def test_a_program_ends_without_close_and_without_a_word() -> None:
    fake = await FakeService().start()
    program = f"""
from highwater import Highwater, sql
hw = Highwater({fake.url!r})
hw.transaction(sql("SELECT 1")).on_lost(print)
hw.on_durable(print)
"""
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        *("-W", "error", "-X", "dev", "-c", program),
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
        stderr=asyncio.subprocess.PIPE,
    )
    _, errors = await asyncio.wait_for(process.communicate(), 30)
    assert (process.returncode, errors) == (0, b"")
    await fake.stop()
