"""Which transactions leave together. Method: a lane on a loop and a clock that the test drives."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from highwater._core.effects import HttpResponse, Send
from highwater._lanes import COUNT_MAX, Item, Lane, Lanes

#: A sum of powers of two: no rounding.
GATHER = 0.25


class Timer:
    def __init__(self, due: float, callback: Callable[[], object]) -> None:
        self.due = due
        self.callback: Callable[[], object] | None = callback

    def cancel(self) -> None:
        self.callback = None


class World:
    """A loop whose turns and whose time the test makes."""

    def __init__(self) -> None:
        self.now = 5.0
        self.sent: list[list[str]] = []
        self.idle = 0
        self._soon: list[Callable[[], object]] = []
        self._timers: list[Timer] = []
        self._futures = asyncio.new_event_loop()
        self.lane = Lane(GATHER, lambda: self.now, self._on_idle)

    def _on_idle(self) -> None:
        self.idle += 1

    def call_soon(self, callback: Callable[..., object], *args: object) -> None:
        self._soon.append(lambda: callback(*args))

    call_soon_threadsafe = call_soon

    def call_later(self, delay: float, callback: Callable[..., object], *args: object) -> Timer:
        timer = Timer(self.now + delay, lambda: callback(*args))
        self._timers.append(timer)
        return timer

    def begin(self, name: str) -> asyncio.Future[HttpResponse | None]:
        item = Item(Send("POST", name, {}, b"", 1.0), self._futures.create_future())
        self.lane.join(item, self, self._send)
        return item.answer

    def _send(self, items: list[Item]) -> None:
        self.sent.append([item.request.url for item in items])

    def turn(self) -> None:
        while self._soon:
            soon, self._soon = self._soon, []
            for callback in soon:
                callback()

    def pass_time(self, seconds: float) -> None:
        self.now += seconds
        for timer in list(self._timers):
            if timer.due <= self.now and timer.callback is not None:
                callback, timer.callback = timer.callback, None
                callback()
        self.turn()

    def left(self) -> list[list[str]]:
        self.turn()
        sent, self.sent = self.sent, []
        return sent

    @property
    def timers(self) -> int:
        return len([timer for timer in self._timers if timer.callback is not None])

    def close(self) -> None:
        self._futures.close()


def test_what_begins_in_the_same_turn_leaves_at_once_together() -> None:
    world = World()
    world.begin("a")
    world.begin("b")
    assert world.left() == [["a", "b"]]
    assert world.timers == 0
    world.close()


def test_what_begins_meanwhile_leaves_when_the_request_has_ended() -> None:
    world = World()
    world.begin("a")
    assert world.left() == [["a"]]
    world.begin("b")
    world.turn()
    world.begin("c")
    assert world.left() == []
    world.lane.ended()
    world.begin("d")
    assert world.left() == [["b", "c", "d"]]
    assert world.timers == 0
    world.lane.ended()
    world.turn()
    assert world.idle == 1
    world.close()


def test_no_transaction_waits_longer_than_the_bound() -> None:
    world = World()
    world.begin("slow")
    world.turn()
    world.pass_time(GATHER / 2)
    world.begin("b")
    assert world.left() == [["slow"]]
    world.pass_time(GATHER / 2)
    assert world.left() == [["b"]]
    world.pass_time(GATHER)
    world.begin("c")
    assert world.left() == [["c"]], "the last request has left long ago"
    world.close()


def test_a_full_request_does_not_wait() -> None:
    world = World()
    world.begin("a")
    world.turn()
    for number in range(COUNT_MAX + 1):
        world.begin(str(number))
    assert [len(each) for each in world.left()] == [1, COUNT_MAX]
    assert world.timers == 1
    world.pass_time(GATHER)
    assert world.left() == [[str(COUNT_MAX)]]
    world.close()


def test_one_that_is_given_up_does_not_leave() -> None:
    world = World()
    world.begin("a")
    world.turn()
    world.begin("b").cancel()
    world.begin("c")
    world.pass_time(GATHER)
    assert world.left() == [["a"], ["c"]]
    world.begin("d").cancel()
    world.lane.ended()
    world.lane.ended()
    assert world.left() == []
    assert world.idle > 0
    world.close()


def test_a_thread_sends_by_itself_only_while_nothing_is_before_it() -> None:
    world = World()
    assert world.lane.begins_alone()
    assert not world.lane.begins_alone()
    world.begin("b")
    assert world.left() == []
    world.lane.ended()
    assert world.left() == [["b"]]
    assert not world.lane.begins_alone()
    world.lane.ended()
    assert world.lane.begins_alone()
    world.close()


def test_lanes_are_of_an_address_and_its_headers_and_end_when_nothing_is_on_its_way() -> None:
    lanes = Lanes(GATHER)

    def lane(url: str, **headers: str) -> Lane:
        return lanes.of(Send("POST", url, headers, b"", 1.0))

    one = lane("a", authorization="x", traceparent="1")
    assert lane("a", authorization="x", traceparent="2", tracestate="y") is one
    assert lane("a", authorization="y") is not one
    assert lane("b", authorization="x") is not one
    assert one.begins_alone()
    one.ended()
    assert lane("a", authorization="x") is not one
