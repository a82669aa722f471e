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
from .._core.errors import HighwaterError, answer_error, closed_error, durability_timeout
from .._core.reading import read_tickets_response, read_transaction_response
from .._core.requests import ExecutionOptions, encode
from .._core.service import Call, CallOptions
from .._core.wire import WireError
from .._core.wire_types import Ticket, TicketEnd, TicketRequest
from .._drivers import Outcome, drive_async
from .._options import DURABLE_TIMEOUT, AckFields
from .._transaction import BaseTransaction
from ._outcomes import is_of_transaction, with_outcome
from ._statements import aborted, lost

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
                    # A connection that was closed meanwhile raises an error of its own.
                    is_over = not isinstance(error, HighwaterError) and hw._is_closed
                    is_own = isinstance(error, Exception) and not is_over
                    answer.set_exception(error if is_own else closed_error())
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
        """Errors: those of the service. Without a ticket nothing is committed."""
        request: TicketRequest = {"id": transaction_id, "level": self.level}
        if (metadata := self._options.get("metadata")) is not None:
            request["metadata"] = dict(metadata)
        if (max_delay := self._options.get("max_delay")) is not None:
            request["maxDelayMs"] = round(max_delay * 1_000)
        asked_s = monotonic()
        try:
            ticket = cast("Ticket", await self._tickets.ask(request))
        except HighwaterError as error:
            raise with_outcome(error, transaction_id, "not_applied") from error
        return Issued(
            id=ticket["id"],
            tag=ticket["tag"],
            epoch=ticket["epoch"],
            digest=ticket["digest"],
            ticket=ticket["ticket"],
            until_s=asked_s + ticket["lifeMs"] / 1_000,
        )

    def check(self, issued: Issued) -> None:
        """Errors: why nothing may be committed with the ticket any more."""
        if self.hw._is_closed:
            raise closed_error()
        if monotonic() > issued.until_s:
            raise aborted(issued.id, "the ticket's time is over")

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
        """Returns the transaction of a COMMIT that the server has answered.

        Errors: those of the transaction; otherwise the last failure to ask, with the outcome
        `applied`.
        """
        try:
            return await self.committed(issued, is_answered=True)
        except HighwaterError as error:
            if error.code in {"transaction_lost", "transaction_aborted"}:
                # Without a receipt in the current history it is lost.
                raise lost(issued.id, self.level, error) from error
            if is_of_transaction(error):
                raise
            raise with_outcome(error, issued.id, "applied") from error
        except asyncio.CancelledError as error:
            # Nothing cancels it but the end of the client's loop.
            raise with_outcome(closed_error(), issued.id, "applied") from error

    def late(self, issued: Issued, level: str | None = None) -> HighwaterError:
        """Makes the error of a wait that ended without a token."""
        return durability_timeout(level or self.level, pending=1, token="", transaction_id=issued.id)

    async def acknowledge(self, issued: Issued, transaction: Callable[[], Coroutine[Any, Any, T]]) -> None:
        """Waits as `ack="durable"` says. Errors: those of `durable()`."""
        until = deadline(self._options.get("max_wait"))
        try:
            async with asyncio.timeout(left(until)):
                committed = await transaction()
        except TimeoutError as error:
            raise self.late(issued) from error
        hw, entries = self.hw, [committed.entry]
        await wait_durable(hw._host, hw._watcher, entries, level=self.level, timeout=left(until))

    def check_acknowledged(self, issued: Issued, error: Exception) -> None:
        """Raises the error of `acknowledge`, unless `on_timeout` is `pending` and nothing is known.

        The server has answered COMMIT, so the outcome of a failure to wait is `applied`.
        """
        if is_of_transaction(error):
            raise error
        if self._options.get("on_timeout") != "pending":
            raise with_outcome(error, issued.id, "applied")


def _end(issued: Issued, ended: Literal["commit", "rollback"]) -> TicketEnd:
    return {"ticket": issued.ticket, "ended": ended}


def deadline(timeout: float | None) -> float:
    """Returns when a wait with this time limit ends."""
    return monotonic() + (DURABLE_TIMEOUT if timeout is None else timeout)


def left(until: float) -> float:
    """Returns the seconds until then."""
    return max(0.0, until - monotonic())
