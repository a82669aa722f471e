"""The data that every SDK is tested against: `sdk/conformance/vectors`, written by the TypeScript SDK."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from highwater._core.errors import HighwaterError, InvalidRequestError, answer_error
from highwater._core.ids import decode_token
from highwater._core.params import to_param
from highwater._core.pending_set import Moment, PendingPromise, PendingSet, Settled, Settlement, make_entry
from highwater._core.reading import read_epoch_event, read_marks, read_transaction_status
from highwater._core.retry import Decision, Situation, decide, resolve, retry_after
from highwater._core.sse import SseParser
from highwater._core.tuning import DEFAULT_TUNING
from highwater._core.wire import Position, Verdict
from highwater.enlist._statements import boundary_of
from tests.client.support import epoch, marks, uuid

FOLDER = Path(__file__).parents[3] / "conformance" / "vectors"
Json = dict[str, Any]


def load(name: str) -> Any:
    return json.loads((FOLDER / name).read_text("utf-8"))


def seconds(milliseconds: float | None) -> float | None:
    return None if milliseconds is None else milliseconds / 1_000


def shown(error: HighwaterError | None) -> Json | None:
    if error is None:
        return None
    return {
        "name": type(error).__name__,
        "code": error.code,
        "outcome": error.outcome,
        "retry": error.retry,
        "retryAfterMs": None if error.retry_after is None else error.retry_after * 1_000,
    }


def test_tokens() -> None:
    vectors = load("tokens.json")
    for each in vectors["valid"]:
        content = decode_token(each["token"])
        position = {"epoch": content.position.epoch, "offset": str(content.position.offset)}
        assert {"token": each["token"], "id": content.id, "position": position} == each
    for token in vectors["invalid"]:
        with pytest.raises(InvalidRequestError):
            decode_token(token)


SITUATIONS: dict[str, Json] = {
    "certain": {},
    "uncertain": {"uncertain": True},
    "repeatable": {"repeatable": True},
    "elsewhere": {"elsewhere": True},
    "late": {"attempt": 7, "remaining_ms": 2_000, "random": 1.0},
}


def decided(error: HighwaterError, overrides: Json) -> Json:
    usual: Json = {"attempt": 0, "remaining_ms": 30_000, "uncertain": False, "elsewhere": False, "random": 0.5}
    decision: Decision = decide(error, Situation(**(usual | overrides)), DEFAULT_TUNING)
    is_later = decision.action in {"send", "resolve"}
    return {"action": decision.action} | ({"delayMs": decision.delay_ms} if is_later else {})


@pytest.mark.parametrize("vector", load("errors.json"), ids=lambda each: str(each["error"]["code"]))
def test_errors_and_what_is_done_next(vector: Json) -> None:
    error = answer_error(vector["status"], vector["body"], seconds(vector["retryAfterMs"]))
    assert shown(error) == vector["error"]
    for name, overrides in SITUATIONS.items():
        assert decided(error, overrides) == vector[name], name


@pytest.mark.parametrize("vector", load("resolutions.json"))
def test_what_the_state_of_an_id_means(vector: Json) -> None:
    bodies = {each["error"]["code"]: each for each in load("errors.json")}
    held = bodies.get(vector["held"])
    error = None if held is None else answer_error(held["status"], held["body"])
    resolution = resolve(read_transaction_status(vector["status"]), error)
    assert resolution.action == vector["action"]
    settled_as = shown(resolution.error)
    assert settled_as == vector["error"] or (settled_as is not None and error is resolution.error)


@pytest.mark.parametrize("vector", load("retry-after.json"))
def test_retry_after(vector: Json) -> None:
    assert retry_after(vector["header"], vector["wallMs"]) == seconds(vector["ms"])


@pytest.mark.parametrize("vector", load("events.json"))
def test_events_of_a_stream_cut_anywhere(vector: Json) -> None:
    whole = vector["text"].encode()
    for at in range(len(whole) + 1):
        parser = SseParser("resumed")
        found = [*parser.push(whole[:at]), *parser.push(whole[at:])]
        events = [{"type": each.type, "data": each.data, "lastEventId": each.last_event_id} for each in found]
        assert events == vector["events"], f"cut at {at}"


@pytest.mark.parametrize("vector", load("params.json"))
def test_parameters(vector: Json) -> None:
    param = to_param(vector["value"])
    assert json.dumps(param) == json.dumps(vector["param"]) or param == vector["param"]
    assert isinstance(param, bool) == isinstance(vector["param"], bool)


@pytest.mark.parametrize("vector", load("boundaries.json"), ids=lambda each: repr(each["text"]))
def test_what_a_text_does_to_a_transaction(vector: Json) -> None:
    assert boundary_of(vector["text"]) == vector["boundary"]


class Player:
    """Plays a judgement: what comes in, and in between what is known of each promise."""

    def __init__(self) -> None:
        self.pending_set = PendingSet()
        self.moment = Moment(0, lambda: 0.5)
        self.entries: dict[str, PendingPromise] = {}
        self.watched: dict[str, tuple[PendingPromise, str]] = {}
        self.settled_as: dict[str, str] = {}

    def play(self, step: Json) -> None:
        match step:
            case {"watch": name}:
                self.watch(name, step)
            case {"marks": levels, "epoch": at}:
                offsets = {level: int(offset) for level, offset in levels.items()}
                self.notify(self.pending_set.learn_marks(read_marks(marks(uuid(at), **offsets)), self.moment))
            case {"epochs": epochs}:
                self.notify(self.pending_set.learn_epochs(read_epoch_event(ancestry(epochs)).epochs, self.moment))
            case {"verdict": kind, "of": name, "epoch": at, "offset": offset}:
                self.judge(name, kind, Position(uuid(at), int(offset)))
            case {"expect": expected}:
                assert {name: self.settled_as.get(name, "pending") for name in expected} == expected
            case _:
                raise AssertionError(f"not a step: {step}")

    def watch(self, name: str, step: Json) -> None:
        about, level = step.get("as", name), step.get("level", "region")
        position = Position(uuid(step["epoch"]), int(step["offset"]))
        if about not in self.entries:
            self.entries[about] = make_entry(about, transaction_id=uuid(99), position=position, now_ms=0)
        entry = self.entries[about]
        self.watched[name] = (entry, level)

        def on_settled(settlement: Settlement) -> None:
            assert settlement.verdict is not None
            self.settled_as[name] = settlement.verdict.verdict

        known = self.pending_set.known(entry, level)
        if known is None:
            self.pending_set.watch(entry, level, on_settled, self.moment)
        else:
            self.settled_as[name] = known.verdict

    def judge(self, name: str, kind: Any, position: Position) -> None:
        entry, level = self.watched[name]
        wait = entry.wait_at(level)
        if wait is not None:
            verdict = Verdict(entry.token, entry.id, kind, level, position, "test")
            self.notify(self.pending_set.judge(wait, verdict, self.moment))

    def notify(self, settled: list[Settled]) -> None:
        for each in settled:
            for waiter in each.waiters:
                waiter(each.settlement)


def ancestry(epochs: list[Json]) -> Json:
    """The event of a stream that reports these epochs, each the successor of the one before."""
    records, previous = [], None
    for each in epochs:
        places = {name: int(each[name]) for name in ("fork", "start") if name in each}
        records.append(epoch(uuid(each["epoch"]), previous=previous, **places))
        previous = uuid(each["epoch"])
    return {"epochs": records}


@pytest.mark.parametrize("judgement", load("judgements.json"), ids=lambda each: str(each["name"]))
def test_judgements(judgement: Json) -> None:
    player = Player()
    for step in judgement["steps"]:
        player.play(step)
