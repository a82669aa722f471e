"""Every call that waits can be limited in time and be cancelled, and leaves nothing: no task, no question, no socket.

One table of the calls; each is stopped in the middle, in both ways and with both clients, and made again where that
means something.
"""

from __future__ import annotations

import asyncio
import gc
import threading
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any, cast

import pytest

from highwater import (
    AsyncHighwater,
    DurabilityTimeoutError,
    Highwater,
    HighwaterError,
    NoAnswerError,
    TransactionAbortedError,
    UnavailableError,
    UnknownOutcomeError,
    sql,
)
from tests.client.fake_service import FakeService, committed, ok
from tests.client.support import E1, marks, token, verdict_of
from tests.client.world import CANCELLED, QUICK, World, start, until

STATEMENT = sql("SELECT 1")
#: For a call whose end does not depend on how far it had come.
SHORT_S = 0.3
#: For one that must be under way when its time is over: longer than a busy machine stalls.
SENT_S = 2.5

Call = Callable[..., Awaitable[Any]]


@dataclass
class Scene:
    """What a call is made on. While `hangs`, the service answers none of those that the table is about."""

    world: World
    fake: FakeService
    hw: Any
    hangs: bool = True
    begins: bool = True
    """A begin is let through at all times."""

    async def opened(self) -> Any:
        tx = await self.hw.begin()
        await tx.query(STATEMENT)
        return tx

    async def committed(self) -> Any:
        """One that the service lets through."""
        self.hangs = False
        tx = await self.hw.transaction(STATEMENT)
        self.hangs = True
        return tx


async def transaction(scene: Scene) -> Call:
    return lambda **options: scene.hw.transaction(STATEMENT, **options)


async def first_query(scene: Scene) -> Call:
    scene.begins = False

    async def call(**options: Any) -> Any:
        return await (await scene.hw.begin()).query(STATEMENT, **options)

    return call


async def query(scene: Scene) -> Call:
    tx = await scene.opened()
    return lambda **options: tx.query(STATEMENT, **options)


async def commit(scene: Scene) -> Call:
    return cast("Call", (await scene.opened()).commit)


async def safe_transaction(scene: Scene) -> Call:
    scene.hangs = False
    return lambda **options: scene.hw.transaction(STATEMENT, ack="durable", **options)


async def safe_commit(scene: Scene) -> Call:
    tx = await scene.opened()
    scene.hangs = False
    return lambda **options: tx.commit(ack="durable", **options)


async def safe_transact(scene: Scene) -> Call:
    scene.hangs = False

    async def body(tx: Any) -> None:
        await tx.query(STATEMENT)

    return lambda **options: scene.hw.transact(body, ack="durable", **options)


async def rollback(scene: Scene) -> Call:
    return cast("Call", (await scene.opened()).rollback)


async def transact(scene: Scene) -> Call:
    async def body(tx: Any) -> None:
        await tx.query(STATEMENT)
        await tx.query(STATEMENT)

    return lambda **options: scene.hw.transact(body, **options)


async def status(scene: Scene) -> Call:
    return lambda **options: scene.hw.status("01980f3e-6d2a-7c44-9b1d-3f6a2c8e5d70", **options)


async def verdicts(scene: Scene) -> Call:
    return lambda **options: scene.hw.verdicts([token(E1, 10)], **options)


async def resume(scene: Scene) -> Call:
    earlier, session = scene.hw.session(), scene.hw.session()
    scene.hangs = False
    await earlier.transaction(STATEMENT)
    scene.hangs = True
    return lambda **options: session.resume(earlier.token, **options)


async def durable(scene: Scene) -> Call:
    return cast("Call", (await scene.committed()).durable)


async def after_durable(scene: Scene) -> Call:
    tx = await scene.committed()
    return lambda **options: tx.after_durable(lambda verdict: verdict, **options)


async def interactive_durable(scene: Scene) -> Call:
    tx = await scene.opened()
    scene.hangs = False
    await tx.commit()
    return cast("Call", tx.durable)


async def session_durable(scene: Scene) -> Call:
    session = scene.hw.session()
    scene.hangs = False
    for _ in range(3):
        await session.transaction(STATEMENT)
    return cast("Call", session.durable)


@dataclass(frozen=True)
class Row:
    make: Callable[[Scene], Awaitable[Call]]
    too_late: type[HighwaterError] | None
    """What is raised when its time is over; a rollback returns, for the service ends it by itself."""
    promises: int = 0
    """How many the client waits for meanwhile; without any, a request is held by the service."""
    patience_s: float = SHORT_S
    is_repeated: bool = True
    """False where the call ended what it was about."""
    is_cancellable: bool = True
    """The sync client finishes a rollback, for what was cancelled is to leave nothing open."""
    may_be_applied: bool = False
    """The cause of a cancelled call's error is then an unknown outcome, with the transaction's id."""
    has_committed: bool = False
    """The cause of a cancelled call's error then says so, with the transaction's id and token."""


ROWS = {
    "transaction": Row(transaction, UnknownOutcomeError, patience_s=SENT_S, may_be_applied=True),
    "first query": Row(first_query, NoAnswerError),
    "query": Row(query, TransactionAbortedError, patience_s=SENT_S, is_repeated=False),
    "commit": Row(commit, UnknownOutcomeError, patience_s=SENT_S, is_repeated=False, may_be_applied=True),
    "rollback": Row(rollback, None, is_repeated=False, is_cancellable=False),
    "transact": Row(transact, TransactionAbortedError, patience_s=SENT_S),
    "status": Row(status, UnavailableError),
    "verdicts": Row(verdicts, UnavailableError),
    "resume": Row(resume, UnavailableError),
    "safe transaction": Row(
        safe_transaction, DurabilityTimeoutError, promises=1, patience_s=SENT_S, has_committed=True
    ),
    "safe commit": Row(safe_commit, DurabilityTimeoutError, promises=1, patience_s=SENT_S, has_committed=True),
    "safe transact": Row(safe_transact, DurabilityTimeoutError, promises=1, patience_s=SENT_S, has_committed=True),
    "durable": Row(durable, DurabilityTimeoutError, promises=1),
    "after durable": Row(after_durable, DurabilityTimeoutError, promises=1),
    "durable of an interactive one": Row(interactive_durable, DurabilityTimeoutError, promises=1),
    "durable of a session": Row(session_durable, DurabilityTimeoutError, promises=3),
}
EACH = pytest.mark.parametrize("name", list(ROWS))
EACH_TOO_LATE = pytest.mark.parametrize(
    "name",
    [pytest.param(name, marks=pytest.mark.late) if row.patience_s > SHORT_S else name for name, row in ROWS.items()],
)


async def scene_of(world: World) -> Scene:
    def held(answer: Any) -> Any:
        return "hang" if scene.hangs else answer

    def interactive(call: Any, number: int) -> Any:
        return None if call.name == "begin" and scene.begins else held(None)

    def judged(body: Any, _: int) -> Any:
        answers = [verdict_of(each, "durable") for each in body["tokens"]]
        return held(ok({"verdicts": answers, "marks": None}))

    fake = await world.service(
        transaction=lambda request, _: held(committed(request, offset=10)),
        interactive=interactive,
        verdicts=judged,
        state=lambda sought, *_: held(ok({"id": sought, "state": "unknown", "marks": None})),
    )
    scene = Scene(world, fake, world.client(fake, request_timeout=60, total_timeout=60))
    return scene


def client_of(scene: Scene) -> Any:
    return scene.hw if scene.world.is_async else scene.hw.target


async def nothing_is_left(scene: Scene, tasks: set[asyncio.Task[Any]]) -> None:
    """Neither where the call waited, nor at the service, nor, once the client is closed, anywhere."""
    client, fake = client_of(scene), scene.fake
    await fake.until(lambda: fake.held == 0)
    await until(lambda: scene.hw.exposure.count == 0)
    assert not client._watcher.waits
    # The stream is kept for a moment, for the next wait; nothing else is under way.
    await until(lambda: not client._watcher._questions and not client._host._tasks)
    if scene.world.is_async:
        await until(lambda: asyncio.all_tasks() <= tasks | fake._tasks)
    await scene.hw.close()
    await fake.until(lambda: not fake._tasks)
    if not scene.world.is_async:
        assert not [each for each in threading.enumerate() if each.name.startswith("highwater")]


async def made_again(scene: Scene, row: Row, call: Call) -> None:
    """Makes the same call again, or another one where the call has ended the thing that it was about."""
    scene.hangs = False
    again = asyncio.ensure_future(call() if row.is_repeated else scene.hw.transaction(STATEMENT))
    if row.promises > 0:
        await until(lambda: again.done() or scene.hw.exposure.count == row.promises)
        await scene.fake.mark_until(again, marks(E1, region=10))
    await again


async def under_way(scene: Scene, row: Row) -> None:
    if row.promises > 0:
        await until(lambda: scene.hw.exposure.count == row.promises)
        await scene.fake.streaming()
    else:
        await scene.fake.until(lambda: scene.fake.held == 1)


@EACH
async def test_a_call_that_is_cancelled_leaves_nothing_and_can_be_made_again(world: World, name: str) -> None:
    row = ROWS[name]
    if not (row.is_cancellable or world.is_async):
        return
    scene = await scene_of(world)
    tasks = asyncio.all_tasks()
    call = await row.make(scene)
    running, cancel = start(world, call)
    await under_way(scene, row)
    await cancel()
    with pytest.raises(CANCELLED) as caught:
        await running
    cause = caught.value.__cause__
    if row.may_be_applied:
        assert isinstance(cause, UnknownOutcomeError)
        ids = {*(each["id"] for each in scene.fake.transactions), *(each.id for each in scene.fake.calls)}
        assert ids == {cause.transaction_id}
    elif row.has_committed:
        assert isinstance(cause, DurabilityTimeoutError)
        ids = {*(each["id"] for each in scene.fake.transactions), *(each.id for each in scene.fake.calls)}
        assert ids == {cause.transaction_id}
        assert (cause.outcome, cause.state) == ("applied", "pending")
        assert scene.hw.promise(cause.token).id == cause.transaction_id
    else:
        assert cause is None
    await scene.fake.until(lambda: scene.fake.held == 0)
    await made_again(scene, row, call)
    await nothing_is_left(scene, tasks)


@EACH_TOO_LATE
async def test_a_call_whose_time_is_over_leaves_nothing_and_can_be_made_again(world: World, name: str) -> None:
    row = ROWS[name]
    scene = await scene_of(world)
    tasks = asyncio.all_tasks()
    call = await row.make(scene)
    if row.too_late is None:
        await call(timeout=row.patience_s)
    else:
        with pytest.raises(row.too_late):
            await call(timeout=row.patience_s)
    await scene.fake.until(lambda: scene.fake.held == 0)
    await made_again(scene, row, call)
    await nothing_is_left(scene, tasks)


@pytest.mark.parametrize("how", ["cancelled", "too late"])
async def test_a_call_that_waits_for_its_turn_is_given_up_without_a_trace(world: World, how: str) -> None:
    scene = await scene_of(world)
    released = asyncio.Event()

    async def slowly(call: Any, number: int) -> None:
        if number == 2:
            await released.wait()

    scene.fake.on_interactive = slowly
    tx = await scene.opened()
    before = asyncio.ensure_future(tx.query(STATEMENT))
    await scene.fake.until(lambda: len(scene.fake.calls) == 2)
    for call in (lambda **options: tx.query(STATEMENT, **options), tx.commit):
        if how == "cancelled":
            running, cancel = start(world, call)
            await asyncio.sleep(0.02)
            await cancel()
            with pytest.raises(CANCELLED) as caught:
                await running
            assert caught.value.__cause__ is None
        else:
            with pytest.raises(NoAnswerError) as late:
                await call(timeout=0.02)
            assert (late.value.code, late.value.outcome) == ("request_timeout", "not_applied")
    if how == "too late":
        with pytest.raises(NoAnswerError):
            await tx.rollback(timeout=0.02)
    released.set()
    await before
    await tx.query(STATEMENT)
    assert (await tx.commit()).state == "committed"
    assert [each.body.get("seq") for each in scene.fake.calls] == [None, 1, 2, 3]


async def test_two_commits_at_once_have_the_one_transaction(world: World) -> None:
    scene = await scene_of(world)
    tx = await scene.opened()
    scene.hangs = False
    first, second = await asyncio.gather(tx.commit(), tx.commit())
    assert first.token == second.token
    assert (await tx.commit()).token == first.token
    assert len(scene.fake.calls) == 2
    with pytest.raises(HighwaterError) as ended:
        await tx.query(STATEMENT)
    assert (ended.value.code, ended.value.outcome) == ("transaction_ended", "applied")


async def test_a_call_behind_a_commit_without_an_answer_does_not_say_that_nothing_was_applied(world: World) -> None:
    scene = await scene_of(world)

    async def hang(call: Any, number: int) -> None:
        if number > 1:
            await asyncio.sleep(60)

    scene.fake.on_interactive = hang
    tx = await scene.opened()
    committing = asyncio.ensure_future(tx.commit(timeout=1))
    await scene.fake.until(lambda: len(scene.fake.calls) == 2)
    with pytest.raises(NoAnswerError) as late:
        await tx.commit(timeout=0.02)
    assert (late.value.code, late.value.outcome) == ("request_timeout", "unknown")
    with pytest.raises(UnknownOutcomeError):
        await committing
    with pytest.raises(HighwaterError) as ended:
        await tx.commit()
    assert (ended.value.code, ended.value.outcome) == ("transaction_ended", "unknown")
    assert (ended.value.retry, ended.value.transaction_id) == ("resolve_outcome", tx.id)


async def test_a_call_that_is_cancelled_behind_a_commit_says_that_it_may_be_applied(world: World) -> None:
    scene = await scene_of(world)
    released = asyncio.Event()

    async def slowly(call: Any, number: int) -> None:
        if number > 1:
            await released.wait()

    scene.fake.on_interactive = slowly
    tx = await scene.opened()
    committing = asyncio.ensure_future(tx.commit())
    await scene.fake.until(lambda: len(scene.fake.calls) == 2)
    for call in (tx.commit, lambda **options: tx.query(STATEMENT, **options)):
        running, cancel = start(world, call)
        await asyncio.sleep(0.02)
        await cancel()
        with pytest.raises(CANCELLED) as caught:
            await running
        cause = caught.value.__cause__
        assert isinstance(cause, UnknownOutcomeError)
        assert cause.transaction_id == tx.id
    released.set()
    assert (await committing).state == "committed"


async def test_a_wait_that_close_ends_says_that_the_transaction_is_applied(world: World) -> None:
    scene = await scene_of(world)
    safe = [await make(scene) for make in (safe_transaction, safe_transact)]
    running = [asyncio.ensure_future(call()) for call in safe]
    await until(lambda: scene.hw.exposure.count == 2)
    await scene.hw.close()
    for each in running:
        with pytest.raises(NoAnswerError) as closed:
            await each
        error = closed.value
        assert (error.code, error.outcome, error.state) == ("client_closed", "applied", "pending")
        assert error.token is not None
        assert error.transaction_id is not None
    with pytest.raises(NoAnswerError) as unsent:
        await scene.hw.transaction(STATEMENT)
    assert (unsent.value.code, unsent.value.outcome) == ("client_closed", "not_applied")


async def test_a_close_that_is_cancelled_goes_on_by_itself() -> None:
    released = asyncio.Event()

    async def late(request: Any, call: int) -> Any:
        if call > 1:
            await released.wait()
        return committed(request)

    fake = await FakeService(transaction=late).start()
    tasks = asyncio.all_tasks()
    hw = AsyncHighwater(fake.url, tuning=QUICK)
    wait = asyncio.ensure_future((await hw.transaction(STATEMENT)).durable())
    call = asyncio.ensure_future(hw.transaction(STATEMENT))
    await fake.until(lambda: len(fake.transactions) == 2)
    await fake.streaming()
    closing, other = asyncio.ensure_future(hw.close()), asyncio.ensure_future(hw.close())
    await asyncio.sleep(0)
    closing.cancel()
    with pytest.raises(asyncio.CancelledError):
        await closing
    with pytest.raises(HighwaterError) as closed:
        await wait
    assert closed.value.code == "client_closed"
    assert not call.done()
    assert not other.done()
    released.set()
    assert (await call).state == "committed"
    await other
    await hw.close()
    await fake.until(lambda: not fake._tasks)
    await fake.stop()
    await until(lambda: asyncio.all_tasks() <= tasks)
    gc.collect()


async def test_a_close_that_is_interrupted_is_finished_by_the_next(monkeypatch: pytest.MonkeyPatch) -> None:
    fake = await FakeService().start()

    def use() -> None:
        hw = Highwater(fake.url, tuning=QUICK)
        hw.promise(token(E1, 10)).on_durable(lambda _: None)
        while not fake.streams:
            threading.Event().wait(0.005)

        def interrupted(*_: Any) -> None:
            raise KeyboardInterrupt

        with monkeypatch.context() as patched:
            patched.setattr(hw._host, "run_if_begun", interrupted)
            with pytest.raises(KeyboardInterrupt):
                hw.close()
        assert [each for each in threading.enumerate() if each.name == "highwater"]
        hw.close()
        hw.close()

    await asyncio.to_thread(use)
    assert not [each for each in threading.enumerate() if each.name.startswith("highwater")]
    await fake.until(lambda: not fake._tasks)
    await fake.stop()
