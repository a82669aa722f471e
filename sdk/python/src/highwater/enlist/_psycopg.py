"""Connections of psycopg 3: sees what begins and ends transactions, and adds the receipt to COMMIT.

psycopg runs generators that yield what they wait for, the same for both kinds of connections. The
hooks here are such generators. They yield `Until` where they wait for the service, and the
connection's `wait` waits for that.
"""

from __future__ import annotations

import asyncio
import concurrent.futures
import contextlib
import inspect
from collections.abc import Callable, Generator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, Generic, TypeVar

from .._core.errors import HighwaterError, unknown_outcome, usage_error
from .._core.ids import new_transaction_id
from ._outcomes import is_of_transaction
from ._statements import (
    COMMIT,
    EARLY,
    NOTHING_WRITTEN,
    RECEIPT,
    boundary_of,
    is_failed,
    is_refusal,
    receipt_values,
    refusal_of,
    refused,
)
from ._tickets import Issued, TicketService
from ._transaction import BaseEnlisted, Start, Work

if TYPE_CHECKING:
    from psycopg.pq.abc import PGresult

R = TypeVar("R")
E = TypeVar("E", bound=BaseEnlisted[Any])

Steps = Generator[Any, Any, R]

#: A rollback that takes longer closes the connection, which rolls back, too.
_GIVE_UP_S: Final = 5.0


@dataclass(frozen=True, slots=True)
class Until:
    """A hook waits for this work."""

    work: Work[Any]


@dataclass(frozen=True, slots=True)
class Ended:
    value: Any


def _advance(steps: Steps[Any], ready: Any = None) -> Any:
    """Returns what it waits for next, or its end."""
    try:
        return steps.send(ready)
    except StopIteration as end:
        return Ended(end.value)


def _on_socket(steps: Steps[Any], state: Any) -> Steps[Any]:
    """Runs it as far as it waits for the socket alone."""
    while not isinstance(state, Until | Ended):
        ready = yield state
        state = _advance(steps, ready)
    return state


def _give_up(steps: Steps[Any], interrupt: BaseException) -> Steps[None]:
    """Raises the interrupt in the hook, and runs what the hook still has to do on the socket."""
    try:
        state = steps.throw(interrupt)
        while True:
            ready = yield state
            state = steps.send(ready)
    except BaseException as error:
        if error is not interrupt:
            raise


def _hook_waits(connection: Any) -> None:
    """Makes the connection wait for the service where a hook does.

    It may have no socket any more then, so psycopg's own `wait` is called where one is needed. An
    interrupt of a wait for the service reaches the hook, which must not leave the transaction open:
    psycopg takes its block for ended. A hook that is interrupted there, too, is closed.
    """
    wait = connection.wait

    def wait_here(steps: Steps[Any], *args: Any, **options: Any) -> Any:
        with contextlib.closing(steps):
            state = _advance(steps)
            while not isinstance(state, Ended):
                if not isinstance(state, Until):
                    state = wait(_on_socket(steps, state), *args, **options)
                    continue
                try:
                    concurrent.futures.wait([state.work])  # type: ignore[list-item] # of a synchronous client
                except BaseException as interrupt:
                    wait(_give_up(steps, interrupt))
                    raise
                state = _advance(steps)
            return state.value

    async def wait_on_loop(steps: Steps[Any], *args: Any, **options: Any) -> Any:
        with contextlib.closing(steps):
            state = _advance(steps)
            while not isinstance(state, Ended):
                if not isinstance(state, Until):
                    state = await wait(_on_socket(steps, state), *args, **options)
                    continue
                try:
                    await asyncio.wait([state.work])  # type: ignore[type-var] # of an asynchronous client
                except GeneratorExit:
                    # Nothing can be awaited any more.
                    raise
                except BaseException as interrupt:
                    # An application that cancels wants an end, even without an answer.
                    with contextlib.suppress(TimeoutError):
                        async with asyncio.timeout(_GIVE_UP_S):
                            await wait(_give_up(steps, interrupt))
                    raise
                state = _advance(steps)
            return state.value

    connection.wait = wait_on_loop if inspect.iscoroutinefunction(wait) else wait_here


@dataclass(frozen=True, slots=True)
class _Open:
    id: str
    ticket: Work[Issued]


class EnlistedConnection(Generic[E]):
    """The hooks of one connection."""

    def __init__(
        self,
        service: TicketService[Any],
        connection: Any,
        *,
        start: Start,
        make: Callable[[Issued, Any], E],
        on_commit: Callable[[Any, E], None],
    ) -> None:
        self._service = service
        self._connection = connection
        self._start = start
        self._make = make
        self._on_commit = on_commit
        self._open: _Open | None = None
        self._exec = connection._exec_command
        _hook_waits(connection)
        connection._exec_command = self._command
        connection.cursor_factory = _hooked(connection.cursor_factory, self)

    def _command(self, command: Any, *args: Any, **options: Any) -> Steps[PGresult | None]:
        """Stands in for the connection's `_exec_command`, which runs its own BEGIN and COMMIT."""
        return (yield from self.boundary(self.text_of(command), lambda: self._exec(command, *args, **options)))

    def boundary(self, text: str, run: Callable[[], Steps[Any]]) -> Steps[PGresult | None]:
        """Runs a statement, and does here what it means for the transaction."""
        boundary = boundary_of(text)
        if boundary == "commit" and self._open is not None:
            return (yield from self._commit(self._open, run))
        if boundary == "refused" and self._open is not None:
            raise refused(text)
        if boundary in {"begin", "rollback"}:
            self._forget()
        if boundary == "begin":
            if self._connection._tpc is not None:
                raise refused("PREPARE TRANSACTION")
            transaction_id = new_transaction_id()
            self._open = _Open(transaction_id, self._start(lambda: self._service.issue(transaction_id)))
        result: PGresult | None = yield from run()
        return result

    def text_of(self, command: Any) -> str:
        if isinstance(command, bytes):
            return command.decode()
        if isinstance(command, str):
            return command
        as_string = getattr(command, "as_string", None)
        return "" if as_string is None else str(as_string(self._connection))

    def _forget(self) -> None:
        before, self._open = self._open, None
        if before is not None:
            before.ticket.add_done_callback(self._withdraw_later)

    def _withdraw_later(self, ticket: Work[Issued]) -> None:
        if not ticket.cancelled() and ticket.exception() is None:
            self._withdraw(ticket.result())

    def _withdraw(self, issued: Issued) -> None:
        # If it does not arrive, the ticket's time ends by itself.
        with contextlib.suppress(HighwaterError):
            self._start(lambda: self._service.withdraw(issued))

    def _commit(self, opened: _Open, run: Callable[[], Steps[Any]]) -> Steps[PGresult | None]:
        if self._connection._pipeline is not None:
            # An error of what is on its way is not one of the receipt.
            yield from self._connection._pipeline._sync_gen()
        try:
            yield Until(opened.ticket)
            issued = opened.ticket.result()
            self._service.check(issued)
        except GeneratorExit:
            self._forget()
            self._connection.pgconn.finish()
            raise
        except BaseException:
            self._forget()
            yield from self._roll_back()
            raise
        self._open = None
        results: list[PGresult] = []
        error = yield from self._send(issued, results)
        if error is not None:
            return (yield from self._failed(issued, error, is_commit_sent=len(results) > 1, run=run))
        if results[1].command_status == NOTHING_WRITTEN:
            self._withdraw(issued)
        else:
            yield from self._committed(issued, None)
        return results[-1]

    def _committed(self, issued: Issued, known: Any) -> Steps[None]:
        transaction = self._make(issued, known)
        self._on_commit(self._connection, transaction)
        if self._service.is_safe:
            try:
                acknowledged = self._start(lambda: self._service.acknowledge(issued, transaction._promised))
                yield Until(acknowledged)
                acknowledged.result()
            except Exception as error:  # noqa: BLE001 - COMMIT has been answered, whatever it is
                self._service.check_acknowledged(issued, error)

    def _find(self, issued: Issued) -> Steps[Any]:
        """Returns the transaction if its COMMIT, which had no answer, took effect.

        Errors: those of the transaction; `outcome_unknown` while the service does not say how it
        ended.
        """
        try:
            found = self._start(lambda: self._service.committed(issued, is_answered=False))
            yield Until(found)
            return found.result()
        except Exception as error:
            if is_of_transaction(error):
                raise
            raise unknown_outcome(issued.id, error) from error

    def _send(self, issued: Issued, results: list[PGresult]) -> Steps[Exception | None]:
        """Sends all three in one write. Returns the first error, and adds the results before it."""
        import psycopg
        from psycopg import generators, pq

        pgconn = self._connection.pgconn
        is_own = pgconn.pipeline_status == pq.PipelineStatus.OFF
        try:
            if is_own:
                pgconn.enter_pipeline_mode()
            pgconn.send_query_params(EARLY, None)
            pgconn.send_query_params(RECEIPT, receipt_values(issued))
            pgconn.send_query_params(COMMIT, None)
            pgconn.pipeline_sync()
            yield from generators.send(pgconn)
            error: Exception | None = None
            while True:
                answer = yield from generators.fetch_many(pgconn)
                for result in answer:
                    if result.status == pq.ExecStatus.PIPELINE_SYNC:
                        if is_own:
                            pgconn.exit_pipeline_mode()
                        return error
                    if result.status == pq.ExecStatus.FATAL_ERROR:
                        error = error or psycopg.errors.error_from_result(
                            result, encoding=self._connection.info.encoding
                        )
                    elif error is None:
                        results.append(result)
                if not answer and pgconn.status == pq.ConnStatus.BAD:
                    return error or psycopg.OperationalError("the connection was lost during COMMIT")
        except psycopg.Error as lost:
            return lost

    def _failed(
        self, issued: Issued, error: Exception, *, is_commit_sent: bool, run: Callable[[], Steps[Any]]
    ) -> Steps[PGresult | None]:
        if not is_refusal(error):
            known = yield from self._find(issued)
            yield from self._committed(issued, known)
            return None
        self._withdraw(issued)
        if is_failed(error):
            result: PGresult | None = yield from run()
            return result
        if is_commit_sent:
            # COMMIT's own refusal has ended the transaction already.
            raise error
        yield from self._roll_back()
        raise refusal_of(error, issued.id)

    def _roll_back(self) -> Steps[None]:
        import psycopg

        try:
            yield from self._exec(b"ROLLBACK")
            if self._connection._pipeline is not None:
                yield from self._connection._pipeline._sync_gen()
        except psycopg.Error:
            # Without a connection there is nothing to roll back.
            return
        except BaseException:
            # Interrupted: the transaction would stay open, and later ones would be part of it.
            self._connection.pgconn.finish()
            raise


def _hooked(factory: type[Any], hooks: EnlistedConnection[Any]) -> type[Any]:
    """Returns the kind of cursor that sees BEGIN and COMMIT as texts."""

    class EnlistedCursor(factory):  # type: ignore[misc] # of whatever kind the application has
        def _execute_gen(self, query: Any, params: Any = None, **options: Any) -> Steps[None]:
            def run() -> Steps[None]:
                yield from super(EnlistedCursor, self)._execute_gen(query, params, **options)

            text = hooks.text_of(query)
            if boundary_of(text) is None:
                yield from run()
                return
            yield from self._start_query(query)
            result = yield from hooks.boundary(text, run)
            if result is not None:
                self._set_results([result])

    EnlistedCursor.__name__ = EnlistedCursor.__qualname__ = factory.__name__
    return EnlistedCursor


def check_kind(connection: Any, *, is_async: bool) -> None:
    """Errors: `invalid_options` for another driver's connection, or that of the other client."""
    if not hasattr(connection, "pgconn") or not hasattr(connection, "_exec_command"):
        kind = type(connection).__name__
        raise usage_error(
            "invalid_options", f"a {kind} is neither a connection of psycopg 3 nor an engine of SQLAlchemy"
        )
    if inspect.iscoroutinefunction(connection.wait) != is_async:
        which = "Highwater" if is_async else "AsyncHighwater"
        raise usage_error("invalid_options", f"enlist this connection with a client of its kind: {which}")
