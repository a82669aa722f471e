"""Goal: whatever is lost on the way, what was reported is true, and nothing takes effect twice.

Method: gateways over one store that lose requests, answers and copies that arrive late, die,
conflict and refuse. A client follows the errors' advice. In the end, a look into the store, after the
last late copy has arrived.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from highwater._core.effects import NoResponse, Steps
from highwater._core.errors import HighwaterError
from highwater._core.ids import new_transaction_id
from highwater._core.interactive import InteractiveCore
from highwater._core.requests import AckLimits, AckOptions, ExecutionOptions, transaction_body
from highwater._core.service import CallOptions, Service, Sought
from highwater._core.sql import sql
from highwater._core.transact import TransactDeps, transact
from tests.core.support import FAR, NEAR, Reply, Request, World, committed, interactive, problem, state
from tests.core.test_interactive import id_of, opened

STATEMENT = sql("UPDATE account SET balance = balance - 1")
#: What may become of a request, or of its answer.
FAULTS = (
    *("none", "none", "none", "refused", "request lost", "answer lost", "late", "busy"),
    *("conflict", "unconfirmed", "dies"),
)


@dataclass
class Store:
    """What is decided of each id: it committed, or a tombstone keeps it from ever doing so."""

    receipts: dict[str, str] = field(default_factory=dict)
    late: list[str] = field(default_factory=list)

    def commit(self, of: str) -> bool:
        return self.receipts.setdefault(of, "commit") == "commit"

    def settle(self, of: str) -> bool:
        """True when it can never commit any more."""
        return self.receipts.setdefault(of, "aborted") == "aborted"

    def arrive(self) -> None:
        """Copies that were on their way for long run now."""
        for each in self.late:
            self.commit(each)
        self.late.clear()

    @property
    def effects(self) -> list[str]:
        return [each for each, kind in self.receipts.items() if kind == "commit"]


@dataclass
class Gateways:
    """Two of them over one store. One that dies answers nothing any more, and what was open there is gone."""

    store: Store
    faults: Iterator[str]
    open: dict[str, str] = field(default_factory=dict)
    answered: dict[tuple[str, int], Reply] = field(default_factory=dict)
    dead: set[str] = field(default_factory=set)

    def __call__(self, request: Request, _: int) -> Reply:
        if request.url in self.dead:
            return NoResponse("refused")
        fault = next(self.faults, "none")
        if fault == "late arrival":
            self.store.arrive()
            fault = "none"
        match fault:
            case "refused":
                return NoResponse("refused")
            case "request lost":
                return NoResponse("broken")
            case "busy":
                return problem("overloaded", 503, "not_applied", "wait", retryAfterMs=1)
            case "dies":
                return self._die(request)
        reply = self._run(request, fault)
        return NoResponse("timeout" if fault == "late" else "broken") if fault in {"answer lost", "late"} else reply

    def _die(self, request: Request) -> Reply:
        if len(self.dead) == 0:
            self.dead.add(request.url)
            if request.name == "commit":
                # It may have reached the database before that.
                self.store.late.append(id_of(request))
        return NoResponse("broken")

    def _run(self, request: Request, fault: str) -> Reply:
        of = id_of(request)
        name = request.name.partition("?")[0]
        match name:
            case "transactions":
                return self._one_shot(request, of, fault)
            case "begin":
                if of in self.store.receipts:
                    return aborted(open=False)
                self.open[of] = request.url
                return opened(request)
            case "statements" | "commit" | "rollback":
                return self._numbered(request, of, name, fault)
            case _:
                kind = self.store.receipts.get(of)
                if self.open.get(of) == request.url:
                    return state(of, "active")
                return (
                    state(of, "unknown")
                    if kind is None
                    else state(of, *(("committed", 9) if kind == "commit" else ("aborted",)))
                )

    def _one_shot(self, request: Request, of: str, fault: str) -> Reply:
        if fault == "late" and of not in self.store.receipts:
            self.store.late.append(of)
            return NoResponse("timeout")
        if fault == "conflict" and of not in self.store.receipts:
            return conflict()
        replayed = of in self.store.receipts
        if not self.store.commit(of):
            return aborted()
        if fault == "unconfirmed":
            return unconfirmed()
        return committed(request, replayed=True, results=None) if replayed else committed(request)

    def _numbered(self, request: Request, of: str, name: str, fault: str) -> Reply:
        key = (of, int(request.body["seq"]))
        if self.open.get(of) != request.url and key not in self.answered:
            return self._elsewhere(of, name)
        if key not in self.answered:
            self.answered[key] = self._first(request, of, name, fault)
        return self.answered[key]

    def _first(self, request: Request, of: str, name: str, fault: str) -> Reply:
        if fault == "conflict" and name != "rollback":
            del self.open[of]
            return conflict(open=False)
        if name == "statements":
            return opened(request)
        del self.open[of]
        if name == "rollback":
            return {"id": of, "state": "aborted"}
        self.store.commit(of)
        return unconfirmed() if fault == "unconfirmed" else committed(of)

    def _elsewhere(self, of: str, name: str) -> Reply:
        if name != "rollback":
            return problem("wrong_gateway", 421, "not_applied", "wait")
        if self.open.get(of) not in {None, *self.dead}:
            # As when a proxy leads to the gateway that has it.
            del self.open[of]
        return {"id": of, "state": "aborted"} if self.store.settle(of) else applied()


def conflict(**extra: object) -> Reply:
    return problem("serialization_failure", 409, "not_applied", "transaction", **extra)


def aborted(**extra: object) -> Reply:
    return problem("transaction_aborted", 409, "not_applied", "transaction", **extra)


def unconfirmed() -> Reply:
    return problem("commit_unconfirmed", 503, "unknown", "resolve_outcome")


def applied() -> Reply:
    return problem("out_of_sequence", 409, "applied", "never", open=False)


PLAYS = st.lists(st.sampled_from((*FAULTS, "late arrival")), max_size=25)


def play(faults: list[str]) -> tuple[World, Store, Service]:
    store = Store()
    world = World(Gateways(store, iter(faults)))
    return world, store, world.service((NEAR, FAR))


def outcome_of(call: Callable[[], object]) -> HighwaterError | None:
    try:
        call()
    except HighwaterError as error:
        return error
    return None


@settings(max_examples=200)
@given(PLAYS)
def test_property_a_one_shot_transaction_takes_effect_once_or_as_its_error_says(faults: list[str]) -> None:
    world, store, service = play(faults)
    limits = AckLimits(level="region", wait_ms=1_000, total_ms=8_000)
    settled_as: list[tuple[str, HighwaterError | None]] = []
    for _ in range(5):
        new = new_transaction_id()
        body = transaction_body(
            [STATEMENT], transaction_id=new, execution=ExecutionOptions(), ack=AckOptions(), limits=limits
        )
        steps = service.transaction(body, Sought(id=new), CallOptions(8_000))
        settled_as.append((new, outcome_of(partial(world.run, steps))))
        error = settled_as[-1][1]
        # What the caller is to do: the same again under a new id only where the error says so.
        if error is None or error.retry != "transaction":
            break
    store.arrive()
    for each, error in settled_as:
        if error is None:
            assert each in store.effects
        elif error.outcome == "not_applied":
            assert each not in store.effects, f"{error!r} of what took effect"
    assert len(store.effects) <= 1


@settings(max_examples=200)
@given(PLAYS)
def test_property_a_transact_takes_effect_once_or_as_its_error_says(faults: list[str]) -> None:
    world, store, service = play(faults)
    ids: list[str] = []

    def body(tx: InteractiveCore[Any]) -> str:
        ids.append(tx.id)
        world.run(tx.execute([STATEMENT]))
        world.run(tx.execute([STATEMENT]))
        return tx.id

    world.body = body
    deps = TransactDeps(
        runtime=world.runtime,
        tuning=service.deps.tuning,
        begin=lambda left_ms: interactive(service, left_ms, total_ms=8_000),
    )
    steps: Steps[object] = transact(deps, AckOptions(), timeout_ms=8_000)
    error = outcome_of(lambda: world.run(steps))
    store.arrive()
    if error is None:
        assert store.effects == [ids[-1]]
    elif error.outcome == "not_applied":
        assert store.effects == [], f"{error!r} of what took effect"
    else:
        assert store.effects in ([], [ids[-1]])
