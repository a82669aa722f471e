"""The service's side of enlisted transactions: tickets before their COMMIT, tokens behind.

Everything here runs on the client's event loop. Requests are self-clocked: one on its way, and what
comes meanwhile goes together in the next.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Mapping
from dataclasses import dataclass
from time import monotonic
from typing import Any, Generic, Literal, TypeVar, cast

from .._async import wait_durable
from .._client import BaseClient
from .._core.errors import DurabilityTimeoutError, HighwaterError, answer_error, closed_error
from .._core.reading import read_tickets_response, read_transaction_response
from .._core.requests import ExecutionOptions, encode
from .._core.service import Call, CallOptions
from .._core.wire import WireError
from .._core.wire_types import Ticket, TicketEnd, TicketRequest
from .._drivers import Outcome, drive_async
from .._options import AckFields
from .._transaction import BaseTransaction
from ._statements import lost

T = TypeVar("T", bound=BaseTransaction)
R = TypeVar("R")

_PER_REQUEST_MAX = 256
_AGAIN_S = 0.2


class EnlistOptions(AckFields, total=False):
    """Options of `enlist`, for every transaction of the connections."""

    level: str | None
    """Level of the transactions. Default: the client's."""
    max_delay: float | None
    """Seconds after which the trackers send an event `transaction.delayed`.

    They send it if the transaction is not durable at its level by then.
    """
    metadata: Mapping[str, str] | None
    """Metadata that webhooks and events about the transactions carry."""


@dataclass(frozen=True, slots=True)
class Issued:
    """What is issued for one transaction; it commits before `until_s`, or not at all."""

    id: str
    tag: str
    epoch: str
    digest: str
    ticket: str
    until_s: float


class _Requests:
    def __init__(self, hw: BaseClient[Any, Any], path: str, field: str) -> None:
        self._hw = hw
        self._path = path
        self._field = field
        self._waiting: list[tuple[Mapping[str, object], asyncio.Future[object]]] = []
        self._is_running = False

    async def ask(self, item: Mapping[str, object]) -> object:
        """Returns the answer's body. Errors: those of the service."""
        answer: asyncio.Future[object] = asyncio.get_running_loop().create_future()
        self._waiting.append((item, answer))
        if not self._is_running:
            self._is_running = True
            self._hw._host.start(self._run())
        return await answer

    async def ask_alone(self, item: Mapping[str, object]) -> object:
        """Asks without others, because its answer may take long."""
        answer: asyncio.Future[object] = asyncio.get_running_loop().create_future()
        await self._send([(item, answer)])
        return await answer

    async def _run(self) -> None:
        try:
            while self._waiting:
                taken, self._waiting = self._waiting[:_PER_REQUEST_MAX], self._waiting[_PER_REQUEST_MAX:]
                await self._send(taken)
        finally:
            self._is_running = False

    async def _send(self, taken: list[tuple[Mapping[str, object], asyncio.Future[object]]]) -> None:
        hw = self._hw

        def read(body: object) -> list[tuple[int, Mapping[str, object]]]:
            answers = read_tickets_response(body)
            if len(answers) != len(taken):
                raise WireError("the answers are not those of the items")
            return answers

        body = encode({self._field: [item for item, _ in taken]})
        call = Call(pool=hw._service.deps.gateways, path=self._path, body=body, read=read)
        steps = hw._service.read(call, CallOptions(hw._total_ms))
        try:
            answers = await drive_async(steps, hw._host.perform, Outcome())
        except BaseException as error:
            for _, answer in taken:
                if not answer.done():
                    answer.set_exception(error if isinstance(error, Exception) else closed_error())
            if not isinstance(error, Exception):
                raise
            return
        for (_, answer), (status, own) in zip(taken, answers, strict=True):
            if answer.done():
                continue
            if status < 300:
                answer.set_result(own)
            else:
                answer.set_exception(answer_error(status, own))


class TicketService(Generic[T]):
    def __init__(self, hw: BaseClient[Any, T], options: EnlistOptions) -> None:
        self.hw = hw
        self._options = options
        self._tickets = _Requests(hw, "/v1/tickets", "transactions")
        self._ends = _Requests(hw, "/v1/tickets/ends", "tickets")

    @property
    def level(self) -> str:
        return self._options.get("level") or self.hw._level

    @property
    def metadata(self) -> Mapping[str, str] | None:
        return self._options.get("metadata")

    @property
    def is_safe(self) -> bool:
        return self._options.get("ack") == "durable"

    async def issue(self, transaction_id: str) -> Issued:
        request: TicketRequest = {"id": transaction_id, "level": self.level}
        if (metadata := self._options.get("metadata")) is not None:
            request["metadata"] = dict(metadata)
        if (max_delay := self._options.get("max_delay")) is not None:
            request["maxDelayMs"] = round(max_delay * 1_000)
        asked_s = monotonic()
        ticket = cast("Ticket", await self._tickets.ask(request))
        return Issued(
            id=ticket["id"],
            tag=ticket["tag"],
            epoch=ticket["epoch"],
            digest=ticket["digest"],
            ticket=ticket["ticket"],
            until_s=asked_s + ticket["lifeMs"] / 1_000,
        )

    async def withdraw(self, issued: Issued) -> None:
        """It will never commit. If this does not arrive, the ticket's time ends by itself."""
        try:
            await self._ends.ask(_end(issued, "rollback"))
        except HighwaterError:
            return

    async def committed(self, issued: Issued, *, is_answered: bool) -> T:
        """Returns the committed transaction.

        Errors: those of its outcome; while that is not known, the last failure to ask, after the
        client's `total_timeout`.
        """
        until_s = monotonic() + self.hw._total_ms / 1_000
        ask = self._ends.ask if is_answered else self._ends.ask_alone
        while True:
            try:
                response = read_transaction_response(await ask(_end(issued, "commit")))
                execution = ExecutionOptions(metadata=self._options.get("metadata"))
                return self.hw._committed(response, self.level, execution, None)
            except HighwaterError as error:
                is_open = error.retry in {"wait", "resolve_outcome"}
                if not is_open or monotonic() + _AGAIN_S > until_s:
                    raise
            await asyncio.sleep(_AGAIN_S)

    async def promised(self, issued: Issued) -> T:
        """Returns the transaction of a COMMIT that the server has answered."""
        try:
            return await self.committed(issued, is_answered=True)
        except HighwaterError as error:
            if error.code in {"transaction_lost", "transaction_aborted"}:
                # Without a receipt in the current history it is lost.
                raise lost(issued.id, self.level, error) from error
            raise

    async def acknowledge(self, transaction: Callable[[], Coroutine[Any, Any, T]]) -> None:
        """Waits as `ack="durable"` says.

        Errors: those of `durable()`; `DurabilityTimeoutError`, unless `on_timeout` is `pending`.
        """
        committed = await transaction()
        hw, entries = self.hw, [committed.entry]
        try:
            await wait_durable(hw._host, hw._watcher, entries, level=self.level, timeout=self._options.get("max_wait"))
        except DurabilityTimeoutError:
            if self._options.get("on_timeout") != "pending":
                raise


def _end(issued: Issued, ended: Literal["commit", "rollback"]) -> TicketEnd:
    return {"ticket": issued.ticket, "ended": ended}
