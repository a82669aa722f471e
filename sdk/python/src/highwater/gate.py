"""Holds responses until everything that they show is durable: middleware for ASGI.

For FastAPI, Starlette and every other ASGI application. The handler's transactions stay fast. The
response leaves when everything that its request has committed or read is durable; there is one wait
at the end.

Example:
    from typing import Any

    async def place(scope: Any, receive: Any, send: Any) -> None:
        await hw.transaction(sql("INSERT INTO note VALUES ({text})", text="hello"))
        await send({"type": "http.response.start", "status": 201, "headers": []})
        await send({"type": "http.response.body", "body": b"noted"})  # leaves when the note is durable

    app = OutputGate(place, hw=hw, timeout=5)
"""

from __future__ import annotations

import asyncio
import inspect
import json
import re
import threading
from collections.abc import Awaitable, Callable, Mapping, MutableMapping, Sequence
from dataclasses import dataclass
from time import monotonic
from typing import Any, Final, Literal, TypeAlias, TypeVar, cast

from ._client import BaseClient
from ._core.errors import HighwaterError, PromiseBrokenError, StatementError, TransactionLostError
from ._core.pending_set import PendingPromise
from ._core.sql import sql
from ._core.wire import RefusedToken, Verdict
from ._interactive import BaseInteractive
from ._promise import BasePromise
from ._session import BaseSession
from ._waits import Waiting
from ._witness import witness
from .aio import AsyncHighwater
from .client import Highwater

__all__ = ["GateStatus", "OutputGate", "ResponseHeldError", "bypass", "hold", "receipt_status"]

Message: TypeAlias = MutableMapping[str, Any]
Receive: TypeAlias = Callable[[], Awaitable[Message]]
Send: TypeAlias = Callable[[Message], Awaitable[None]]
App: TypeAlias = Callable[[MutableMapping[str, Any], Receive, Send], Awaitable[None]]
State: TypeAlias = Literal["pending", "lost", "unknown", "durable"]
T = TypeVar("T")

_TIMEOUT: Final = 10.0
_LOSSES_MAX: Final = 1_000
_STATUS: Final[Mapping[State, int]] = {"durable": 200, "pending": 202, "unknown": 404, "lost": 409}
#: SQLSTATEs that say nothing of what is stored, as gateways have it. Every other error of a
#: statement may rest on a row that a failover discards.
_NOT_OF_DATA: Final = re.compile(r"(?:08|0A|25|53|54|57|58|F0|XX)|42601$")
_OF_DATA: Final = ("constraint_violation", "statement_failed")


class ResponseHeldError(RuntimeError):
    """Raised in an application that goes on sending after the gate has ended its response."""


@dataclass(frozen=True, slots=True)
class GateStatus:
    """State of a receipt, as an answer to the one who polls it."""

    status: int
    """HTTP status: 200 durable, 202 pending, 409 lost, 404 unknown."""
    body: Mapping[str, str]
    """`state` and `receipt`. With `lost` also `redo`, who does it again: `service`, so the request
    must not be sent again, or `caller`. Absent while that is not known."""


class OutputGate:
    """Holds the responses of an ASGI application. Websockets pass.

    The gate rolls back interactive transactions that a handler leaves open before it waits. When
    the time is over it answers 202, and when something was lost 409, with a JSON object of `state`
    and `receipt` in place of the response. `state` is `pending`, `lost` or `unknown`; with `lost`,
    `redo` says who does it again. If the head of a stream has left, the gate ends the response with
    an error instead, and the server cuts the connection. Add it as the outermost middleware.

    Args:
        app: Application.
        hw: Client, of either kind, whose transactions count.
        level: Level to wait for. Default: the client's.
        timeout: Longest wait of a response, and of each chunk of a stream, in seconds.
        headers: Headers of the answers that the gate gives itself, such as those of CORS. They must
            not depend on the request's data.
    """

    def __init__(
        self,
        app: App,
        hw: Highwater | AsyncHighwater,
        *,
        level: str | None = None,
        timeout: float = _TIMEOUT,
        headers: Mapping[str, str] | None = None,
    ) -> None:
        self._app = app
        self._hw = hw
        self._level = level
        self._timeout = timeout
        self._headers = dict(headers or {})

    async def __call__(self, scope: MutableMapping[str, Any], receive: Receive, send: Send) -> None:
        """Serves one connection, as ASGI has it."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        floor = _Scope(self._hw, self._level)
        response = _HeldResponse(floor, send, self._timeout, self._headers)
        reset = witness.set(floor)
        try:
            await self._app(scope, receive, response.send)
        except ResponseHeldError:
            if not response.is_over:
                raise
        except Exception:
            # The server would say that there was an error.
            await response.fail()
            raise
        finally:
            witness.reset(reset)


def bypass() -> None:
    """Lets the response of this request leave at once. Call it before the response begins."""
    at = witness.get()
    if isinstance(at, _Scope):
        at.is_bypassed = True


def hold(held: str | BasePromise) -> None:
    """Adds a transaction to what the response of this request waits for.

    Use it for a transaction of another service, by its token, and for one on a connection of your
    own.

    Args:
        held: Token or transaction.
    """
    at = witness.get()
    if isinstance(at, _Scope):
        at.add(held)


async def receipt_status(
    hw: Highwater | AsyncHighwater, receipt: str, *, level: str | None = None, wait: float = 0
) -> GateStatus:
    """Returns the state of a receipt from a 202. A receipt is no credential and contains no data.

    Args:
        hw: Client of the gate.
        receipt: Receipt from the body of the 202.
        level: Level of the gate. Default: the client's.
        wait: Time that the tracker may hold its answer while something is pending, in seconds; at
            most 60.

    Errors: those of `Highwater.verdicts`; `invalid_token`.
    """
    resume: Callable[..., Any] = hw.session().resume
    verdicts: Sequence[Verdict | RefusedToken] = await _called(resume, receipt, level=level, wait=wait)
    states = {each.verdict for each in verdicts}
    state: State = "durable"
    if states & {"lost", "broken"}:
        state = "lost"
    elif states & {"unknown", "expired"}:
        state = "unknown"
    elif "pending" in states:
        state = "pending"
    body = {"state": state, "receipt": receipt}
    if state == "lost" and any(isinstance(each, Verdict) and each.redo for each in verdicts):
        body["redo"] = "service"
    elif state == "lost" and "pending" not in states:
        body["redo"] = "caller"
    return GateStatus(_STATUS[state], body)


class _Scope:
    """What one request has committed or read."""

    def __init__(self, hw: Highwater | AsyncHighwater, level: str | None) -> None:
        self.is_bypassed = False
        self._hw = hw
        self._session: BaseSession = hw.session()
        self._level = level or self._session._level
        self._lock = threading.Lock()
        self._opened: list[BaseInteractive[Any]] = []
        self._is_unknown = False
        self.receipt = ""
        self._is_lost = False
        self.redo: Literal["service", "caller"] | None = None
        """Who does again what was lost; None while that is not known."""

    def add(self, held: str | BasePromise) -> None:
        self._session._remember(self._hw.promise(held) if isinstance(held, str) else held)

    def committed(self, client: object, promise: BasePromise) -> None:
        if client is self._hw:
            self.add(promise)

    def opened(self, client: object, transaction: Any) -> None:
        if client is self._hw:
            with self._lock:
                self._opened.append(transaction)

    def failed(self, client: object, error: BaseException) -> None:
        """Takes in an error that may rest on data."""
        if client is not self._hw or not isinstance(error, HighwaterError):
            return
        if error.evidence is not None:
            self.add(error.evidence.token)
        elif (
            isinstance(error, StatementError)
            and error.code in _OF_DATA
            and not _NOT_OF_DATA.match(error.sqlstate or "XX")
        ):
            self._is_unknown = True

    async def settle(self, timeout: float) -> State:
        """Rolls back what is open, and waits until all that the request has seen is durable."""
        until = monotonic() + timeout
        await self._end_opened(until)
        self.receipt = self._session.token
        # The session forgets what is lost, and the others say who does them again.
        for _ in range(_LOSSES_MAX):
            try:
                with self._session._forgetting() as entries:
                    await self._wait(entries, max(0.0, until - monotonic()))
                break
            except (TransactionLostError, PromiseBrokenError) as error:
                self._is_lost = True
                self.redo = self.redo or error.redo
            except HighwaterError:
                if not self._is_lost:
                    self.receipt = self._session.token
                return "lost" if self._is_lost else "unknown" if self._is_unknown else "pending"
        if self._is_lost:
            self.redo = self.redo or "caller"
            return "lost"
        return "unknown" if self._is_unknown else "durable"

    async def _wait(self, entries: Sequence[PendingPromise], timeout: float) -> None:
        """Waits on this loop, also for the client of threads, without a thread for each wait."""
        loop = asyncio.get_running_loop()
        ended = asyncio.Event()

        def end() -> None:
            loop.call_soon_threadsafe(ended.set)

        base: BaseClient[Any, Any] = self._hw
        base._host.prepare()
        waiting = Waiting(base._watcher, entries, self._level, end)
        try:
            if not waiting.is_done:
                timer = loop.call_later(timeout, ended.set)
                await ended.wait()
                timer.cancel()
            waiting.result(timeout)
        finally:
            waiting.end()

    async def _end_opened(self, until: float) -> None:
        with self._lock:
            opened, self._opened = self._opened, []
        for each in opened:
            if each.is_open:
                try:
                    await _called(cast("Any", each).rollback, timeout=max(0.1, until - monotonic()))
                except HighwaterError:
                    continue
        aborted = [each._core for each in opened if each.committed is None and each._core.is_answered]
        if not aborted:
            return
        # What an aborted transaction has read has no token. A read that begins after its end, in
        # the same epoch, is not before anything that it saw. The scope gets it like every other.
        try:
            floor = await _called(
                cast("Any", self._hw).transaction,
                sql("SELECT"),
                read_only=True,
                timeout=max(0.1, until - monotonic()),
            )
        except HighwaterError:
            self._is_unknown = True
        else:
            epoch = floor.position.epoch
            self._is_unknown |= any(each.epoch != epoch for each in aborted)


class _HeldResponse:
    """One response: nothing of it leaves before the gate allows it."""

    def __init__(self, scope: _Scope, send: Send, timeout: float, headers: Mapping[str, str]) -> None:
        self.is_over = False
        """Whether the gate has answered in place of the application."""
        self._scope = scope
        self._send = send
        self._timeout = timeout
        self._headers = headers
        self._head: Message | None = None
        self._is_begun = False

    async def send(self, message: Message) -> None:
        if self.is_over:
            raise ResponseHeldError("the gate has answered this request")
        if message["type"] == "http.response.start" and not self._scope.is_bypassed:
            # A copy: the application may go on changing it.
            self._head = {**message, "headers": list(message.get("headers", ()))}
            return
        if not self._scope.is_bypassed and not await self._may_leave():
            return
        self._is_begun = True
        if self._head is not None:
            head, self._head = self._head, None
            await self._send(head)
        await self._send(message)

    async def fail(self) -> None:
        """Waits before an error of the application becomes visible."""
        if not self._is_begun and not self.is_over and not self._scope.is_bypassed:
            await self._may_leave()

    async def _may_leave(self) -> bool:
        state = await self._scope.settle(self._timeout)
        if state == "durable":
            return True
        self.is_over = True
        if self._is_begun:
            raise ResponseHeldError(f"the rest of the response is held: {state}") from None
        headers = {"content-type": "application/json", "cache-control": "no-store"}
        if state != "lost":
            headers["retry-after"] = "1"
        said = {"state": state, "receipt": self._scope.receipt}
        if state == "lost" and self._scope.redo is not None:
            said["redo"] = self._scope.redo
        body = json.dumps(said).encode()
        fields = {**self._headers, **headers, "content-length": str(len(body))}
        pairs = [(name.lower().encode("latin-1"), value.encode("latin-1")) for name, value in fields.items()]
        await self._send({"type": "http.response.start", "status": 409 if state == "lost" else 202, "headers": pairs})
        await self._send({"type": "http.response.body", "body": body})
        return False


async def _called(function: Callable[..., Awaitable[T] | T], *arguments: Any, **options: Any) -> T:
    """Calls a method of either client: that of threads in a thread, with this request's context."""
    if inspect.iscoroutinefunction(function):
        return await cast("Awaitable[T]", function(*arguments, **options))
    return cast("T", await asyncio.to_thread(function, *arguments, **options))
