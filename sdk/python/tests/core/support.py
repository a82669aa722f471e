"""A world without I/O: a clock that only sleeping moves, and a script that answers what the core sends."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, TypeVar

from highwater._core.effects import (
    AwaitDurable,
    CallBody,
    Effect,
    HttpResponse,
    NoResponse,
    Raised,
    Returned,
    Send,
    Sleep,
    Steps,
)
from highwater._core.endpoints import EndpointPool
from highwater._core.interactive import InteractiveCore, InteractiveDeps
from highwater._core.observer import Observer
from highwater._core.requests import ExecutionOptions
from highwater._core.runtime import Runtime
from highwater._core.service import Service, ServiceDeps
from highwater._core.tuning import Tuning
from highwater._core.wire import Marks, TransactionResponse
from tests.client.support import E1, committed_body

T = TypeVar("T")
Json = dict[str, Any]
Reply = HttpResponse | NoResponse | Json
Script = Callable[["Request", int], Reply]
Body = Callable[[InteractiveCore[Any]], Any]

NEAR, FAR = "https://near.example", "https://far.example"
TUNING = Tuning(backoff_base_ms=2, backoff_max_ms=20, attempt_min_ms=150)


@dataclass(frozen=True)
class Request:
    """What was sent, read."""

    url: str
    path: str
    body: Json
    headers: Mapping[str, str]
    timeout: float
    probe: float | None

    @property
    def name(self) -> str:
        return self.path.rpartition("/")[2]


def cut() -> NoResponse:
    return NoResponse("broken")


def answer(body: object, status: int = 200, **headers: str) -> HttpResponse:
    text = body if isinstance(body, str) else json.dumps(body)
    return HttpResponse(status, {name.replace("_", "-"): value for name, value in headers.items()}, text.encode())


def problem(code: str, status: int, outcome: str, retry: str, **extra: object) -> HttpResponse:
    body = {"type": f"/errors/{code}", "title": code, "status": status, "code": code}
    return answer({**body, "outcome": outcome, "retry": retry, **extra}, status)


def committed(request: Request | str, offset: int = 10, epoch: str = E1, **changes: object) -> Json:
    about = request if isinstance(request, str) else str(request.body["id"])
    return committed_body(about, epoch=epoch, offset=offset, **changes)


def state(id: str, state: str, offset: int | None = None, **changes: object) -> Json:
    """The answer to the question what became of an id."""
    position: Json = {} if offset is None else committed(id, offset)
    about: Json = {name: position[name] for name in ("token", "position") if name in position}
    return {"id": id, "state": state, "marks": None, **about, **changes}


def interactive(
    service: Service,
    left_ms: Callable[[], float],
    *,
    total_ms: float = 5_000,
    execution: ExecutionOptions | None = None,
    learn_marks: Callable[[Marks | None], None] = lambda _: None,
    committed: Callable[[TransactionResponse, str], Any] = lambda response, _: response.id,
) -> InteractiveCore[Any]:
    deps = InteractiveDeps(
        service=service,
        level="region",
        wait_ms=1_000,
        total_ms=total_ms,
        left_ms=left_ms,
        learn_marks=learn_marks,
        committed=committed,
    )
    return InteractiveCore(deps, execution or ExecutionOptions())


@dataclass
class World:
    """Drives a generator of the core. Everything it did is remembered."""

    script: Script
    now_ms: float = 1_000.0
    sent: list[Request] = field(default_factory=list)
    slept_ms: list[float] = field(default_factory=list)
    waits: list[tuple[object, float]] = field(default_factory=list)
    logged: list[tuple[str, Mapping[str, object]]] = field(default_factory=list)
    body: Body | None = None
    durable: Callable[[object], BaseException | None] = lambda _: None
    #: What an answer, or the lack of one, takes.
    exchange_ms: float = 1.0

    def service(
        self,
        urls: tuple[str, ...] = (NEAR,),
        *,
        tuning: Tuning = TUNING,
        request_timeout_ms: float = 2_000,
        observer: Observer | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> Service:
        return Service(
            ServiceDeps(
                runtime=self.runtime,
                gateways=EndpointPool(urls, tuning),
                trackers=EndpointPool(urls, tuning),
                tuning=tuning,
                headers=headers or {},
                request_timeout_ms=request_timeout_ms,
                observer=observer,
            )
        )

    @property
    def runtime(self) -> Runtime:
        def log(level: str, message: str, fields: Mapping[str, object]) -> None:
            self.logged.append((message, fields))

        return Runtime(monotonic_ms=lambda: self.now_ms, wall_ms=lambda: 0.0, random=lambda: 0.5, log=log)

    def run(self, steps: Steps[T]) -> T:
        try:
            effect = next(steps)
            while True:
                try:
                    result = self.perform(effect)
                except BaseException as error:  # noqa: BLE001 - as a driver does
                    effect = steps.throw(error)
                else:
                    effect = steps.send(result)
        except StopIteration as end:
            value: T = end.value
            return value

    def perform(self, effect: Effect) -> object:
        match effect:
            case Send():
                return self._exchange(effect)
            case Sleep(seconds):
                self.slept_ms.append(round(seconds * 1_000, 6))
                self.now_ms += seconds * 1_000
                return None
            case CallBody(transaction):
                assert self.body is not None
                try:
                    return Returned(self.body(transaction))
                except Exception as error:  # noqa: BLE001 - as a driver does
                    return Raised(error)
            case AwaitDurable(promised, timeout):
                self.waits.append((promised, timeout))
                failed = self.durable(promised)
                if failed is not None:
                    raise failed
                return None

    def _exchange(self, effect: Send) -> HttpResponse | NoResponse:
        url, _, path = effect.url.partition("/v1/")
        body = json.loads(effect.body) if effect.body is not None else {}
        request = Request(url, f"/v1/{path}", body, effect.headers, effect.timeout, effect.probe)
        assert effect.method == ("GET" if effect.body is None else "POST")
        self.sent.append(request)
        self.now_ms += self.exchange_ms
        reply = self.script(request, len(self.sent))
        if isinstance(reply, NoResponse) and reply.kind == "timeout":
            self.now_ms += effect.timeout * 1_000
        return answer(reply) if isinstance(reply, dict) else reply
