"""The part of the two clients that does no I/O: it turns options into transactions and promises.

A user's call is a generator of the core. `client` drives it in the calling thread, `aio` on the
event loop. Owns what all calls share: endpoints, listeners and the watcher.
"""

from __future__ import annotations

import logging
import os
import weakref
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Generic, NoReturn, TypeVar

from ._background import LOG, Host
from ._core.effects import Steps
from ._core.endpoints import EndpointPool
from ._core.errors import HighwaterError
from ._core.ids import check_transaction_id, decode_token
from ._core.interactive import InteractiveCore, InteractiveDeps
from ._core.observer import ObservedEvent, Observer, observers
from ._core.pending_set import PendingPromise, make_entry, note_durable
from ._core.requests import AckLimits, ExecutionOptions, transaction_body
from ._core.runtime import LogLevel, Runtime
from ._core.service import CallOptions, Service, ServiceDeps, Sought
from ._core.sql import Sql, StatementInput
from ._core.transact import MAX_ATTEMPTS, TransactDeps, transact
from ._core.tuning import DEFAULT_TUNING, Tuning
from ._core.wire import (
    EpochRecord,
    Marks,
    Position,
    RefusedToken,
    Statement,
    TransactionResponse,
    TransactionStatus,
    Verdict,
    VerdictsResponse,
)
from ._drivers import Outcome, drive_async
from ._interactive import BaseInteractive
from ._lanes import Lanes
from ._listeners import Listeners
from ._observers import log_events, print_events
from ._options import BeginOptions, Endpoint, TransactionOptions, TransactOptions, ack_of, endpoints_of, execution_of
from ._promise import BasePromise, Listener
from ._stream import DurabilityStream, StreamDeps
from ._tokens import token_of
from ._transaction import BaseTransaction
from ._transport import Certificates, Verify
from ._values import TypeDecoders, result_decoder
from ._watcher import Exposure, Subscriber, Watcher, WatcherDeps
from ._witness import witness

Statements = StatementInput | Sequence[StatementInput]

P = TypeVar("P", bound=BasePromise)
T = TypeVar("T", bound=BaseTransaction)
Remember = Callable[[BaseTransaction], None]

#: Clients of this process, to be renewed after a fork.
_clients: weakref.WeakSet[BaseClient[Any, Any]] = weakref.WeakSet()


class BaseClient(Generic[P, T]):
    """Runs PostgreSQL transactions and reports for each whether it became durable or was lost.

    One client per process is enough. It reuses its connections, and keeps one event stream open
    while something waits for durability. As a context manager it closes at the end of its block.
    After a fork, the child process may go on using the client: it opens connections of its own and
    has no waits.

    Args:
        url: Address of the service, or one address per region, nearest first. Each must serve both
            the gateway and the tracker. Default: the environment variable `HIGHWATER_URL`, with
            commas between several.
        endpoints: Instead of `url`: endpoints where gateway and tracker have separate addresses,
            nearest first.
        level: Default level of `durable`, `on_lost` and `verdicts`.
        request_timeout: Time limit for one attempt, in seconds.
        total_timeout: Time limit for all attempts of a call without its own `timeout`, in seconds.
        api_key: API key or JSON Web Token. Sent to gateways and trackers as `Authorization:
            Bearer`. Default: the environment variable `HIGHWATER_API_KEY`.
        headers: Additional headers for every request.
        types: Decoders by type OID that replace the built-in ones (see the README). With `"raw"`,
            every value stays text.
        observer: One or several observers, which receive every event of the client, for traces and
            metrics.
        debug: Whether to print the life of each transaction to standard error. Default: the
            environment variable `HIGHWATER_DEBUG`.
        share_requests: Whether one-shot transactions of this client that are under way at the same
            time share requests, on one loop or in threads. Each keeps its own outcome and gets its
            answer as soon as it ends. One with `cancel` has a request of its own.
        verify: TLS verification, as in httpx: True, False or an `ssl.SSLContext`.
        tuning: Internal: delays and bounds that tests shorten.

    Errors: `invalid_options` if there is no address, both `url` and `endpoints` are given, or an
    address is not an HTTP URL.
    """

    _is_closed: bool

    def __init__(
        self,
        url: str | Sequence[str] | None = None,
        *,
        endpoints: Sequence[Endpoint] | None = None,
        level: str = "region",
        request_timeout: float = 10.0,
        total_timeout: float = 30.0,
        api_key: str | None = None,
        headers: Mapping[str, str] | None = None,
        types: TypeDecoders | None = None,
        observer: Observer | Sequence[Observer] = (),
        debug: bool | None = None,
        share_requests: bool = True,
        verify: Verify = True,
        tuning: Tuning = DEFAULT_TUNING,
    ) -> None:
        found = endpoints_of(url, endpoints)
        self._level = level
        self._request_ms = request_timeout * 1_000
        self._total_ms = total_timeout * 1_000
        self._tuning = tuning
        self._decode = result_decoder(types)
        self._certificates = Certificates(verify)
        self._lanes = Lanes(tuning.gather_ms / 1_000) if share_requests else None
        self._observer = _observer_of(observer, debug)
        self._runtime = Runtime(log=_log)
        key = os.environ.get("HIGHWATER_API_KEY") if api_key is None else api_key
        own = {"authorization": f"Bearer {key}"} if key else {}
        self._service = Service(
            ServiceDeps(
                runtime=self._runtime,
                gateways=EndpointPool([each.gateway for each in found], tuning),
                trackers=EndpointPool([each.tracker for each in found], tuning),
                tuning=tuning,
                headers={**own, **(headers or {})},
                request_timeout_ms=self._request_ms,
                observer=self._observer,
            )
        )
        self._host = self._make_host()
        self._listeners = Listeners(self._host, level)
        self._watcher = Watcher(
            WatcherDeps(
                host=self._host,
                tuning=tuning,
                runtime=self._runtime,
                observer=self._observer,
                stream=self._make_stream,
                ask=self._ask,
                on_loss=self._listeners.notify_loss,
            )
        )
        _clients.add(self)

    def _make_host(self) -> Host:
        raise NotImplementedError

    def _make_promise(self, entry: PendingPromise, *, position: Position, level: str) -> P:
        raise NotImplementedError

    def _make_transaction(self, entry: PendingPromise, *, response: TransactionResponse, level: str) -> T:
        raise NotImplementedError

    def _make_stream(
        self,
        on_marks: Callable[[Marks], None],
        on_epochs: Callable[[Sequence[EpochRecord]], None],
        on_refused: Callable[[HighwaterError], None],
    ) -> DurabilityStream:
        deps = self._service.deps
        return DurabilityStream(
            StreamDeps(
                host=self._host,
                trackers=deps.trackers,
                tuning=self._tuning,
                headers=deps.headers,
                runtime=self._runtime,
                observer=self._observer,
                on_marks=on_marks,
                on_epochs=on_epochs,
                on_refused=on_refused,
            )
        )

    async def _ask(self, tokens: list[str], level: str, wait_ms: float) -> VerdictsResponse:
        call = CallOptions(self._request_ms + wait_ms)
        steps = self._service.verdicts(tokens, call, level=level, wait_ms=wait_ms)
        return await drive_async(steps, self._host.perform, Outcome())

    # The user's calls, as steps for a driver.

    def _transaction_steps(
        self,
        transaction_id: str,
        statements: Statements,
        options: TransactionOptions,
        remember: Remember | None = None,
    ) -> Steps[T]:
        level = options.get("level") or self._level
        timeout_ms = self._timeout_ms(options.get("timeout"))
        execution, ack = execution_of(options), ack_of(options)
        limits = AckLimits(level=level, wait_ms=self._request_ms / 2, total_ms=timeout_ms)
        listed = [statements] if isinstance(statements, (Sql, Statement)) else list(statements)
        body = transaction_body(
            listed,
            transaction_id=transaction_id,
            execution=execution,
            ack=ack,
            limits=limits,
            after=options.get("after"),
            mode=options.get("mode"),
            reads=options.get("reads"),
        )
        sought = Sought.of(transaction_id, ack, limits, read_only=execution.read_only is True)
        event = ObservedEvent(type="commit", id=transaction_id, level=level, statements=len(listed))
        attempts = options.get("max_attempts", MAX_ATTEMPTS)
        call = CallOptions(timeout_ms, event.headers, attempts)
        steps = self._service.transaction(body, sought, call)
        try:
            response = yield from self._service.observed(event, steps, lambda answer: answer.state)
        except HighwaterError as error:
            self._failed(error)
            raise
        return self._committed(response, level, execution, remember)

    def _open(
        self,
        options: BeginOptions | TransactOptions,
        remember: Remember | None,
        left_ms: Callable[[], float] | None = None,
    ) -> InteractiveCore[T]:
        """Makes an interactive transaction.

        `left_ms` returns the time limit of a call without its own.
        """
        execution = execution_of(options)
        each_ms = self._timeout_ms(options.get("timeout"))
        deps = InteractiveDeps(
            service=self._service,
            level=self._level,
            wait_ms=self._request_ms / 2,
            total_ms=self._total_ms,
            left_ms=left_ms or (lambda: each_ms),
            learn_marks=self._watcher.learn_marks,
            committed=lambda response, level: self._committed(response, level, execution, remember),
            failed=self._failed,
        )
        return InteractiveCore(deps, execution, options.get("level"))

    def _transact_steps(self, options: TransactOptions, remember: Remember | None) -> Steps[object]:
        deps = TransactDeps(
            runtime=self._runtime,
            tuning=self._tuning,
            observer=self._observer,
            begin=lambda left_ms: self._open(options, remember, left_ms),
        )
        timeout_ms = self._timeout_ms(options.get("timeout"))
        attempts = options.get("max_attempts", MAX_ATTEMPTS)
        return transact(deps, ack_of(options), timeout_ms=timeout_ms, max_attempts=attempts)

    def _status_steps(
        self, transaction_id: str, *, level: str | None, wait: float, timeout: float | None
    ) -> Steps[TransactionStatus]:
        wait_ms = wait * 1_000
        call = CallOptions(self._asking_ms(timeout, wait_ms))
        checked = check_transaction_id(transaction_id)
        status = yield from self._service.status(checked, call, wait_ms=wait_ms, level=level)
        self._watcher.learn_marks(status.marks)
        return status

    def _verdicts_steps(
        self, tokens: Sequence[str], *, level: str | None, wait: float, timeout: float | None
    ) -> Steps[list[Verdict | RefusedToken]]:
        wait_ms = wait * 1_000
        by_token: dict[str, Verdict | RefusedToken] = {}
        size = self._tuning.verdict_batch
        monotonic_ms = self._runtime.monotonic_ms
        until_ms = None if timeout is None else monotonic_ms() + timeout * 1_000
        for at in range(0, len(tokens), size):
            # A given timeout covers all requests; without one, each request has the time limit of a
            # call.
            left_ms = self._asking_ms(None, wait_ms) if until_ms is None else max(0.0, until_ms - monotonic_ms())
            call = CallOptions(left_ms)
            batch = list(tokens[at : at + size])
            answer = yield from self._service.verdicts(batch, call, level=level or self._level, wait_ms=wait_ms)
            self._watcher.learn_marks(answer.marks)
            by_token.update((verdict.token, verdict) for verdict in answer.verdicts)
        return [by_token[token] for token in tokens if token in by_token]

    def _asking_ms(self, timeout: float | None, wait_ms: float) -> float:
        return self._total_ms + wait_ms if timeout is None else timeout * 1_000

    def _timeout_ms(self, timeout: float | None) -> float:
        return self._total_ms if timeout is None else timeout * 1_000

    def _committed(
        self,
        response: TransactionResponse,
        level: str,
        execution: ExecutionOptions,
        remember: Remember | None,
    ) -> T:
        """Returns the transaction of an answer, and lets the client's listeners watch it."""
        entry = self._entry(response.token, response.id, response.position, execution)
        if response.state == "durable":
            note_durable(entry, response.level or level, "client:acknowledged")
        transaction = self._make_transaction(entry, response=response, level=level)
        self._watcher.learn_marks(response.marks)
        if remember is not None:
            remember(transaction)
        at = witness.get()
        if at is not None:
            at.committed(self, transaction)
        self._listeners.keep(self._watcher, entry)
        return transaction

    def _failed(self, error: BaseException) -> None:
        at = witness.get()
        if at is not None:
            at.failed(self, error)

    def _opened(self, transaction: BaseInteractive[T]) -> None:
        at = witness.get()
        if at is not None:
            at.opened(self, transaction)

    def _entry(
        self, token: str, transaction_id: str, position: Position, execution: ExecutionOptions | None = None
    ) -> PendingPromise:
        waited_for = self._watcher.find(token)
        if waited_for is not None:
            return waited_for
        return make_entry(
            token,
            transaction_id=transaction_id,
            position=position,
            now_ms=self._runtime.monotonic_ms(),
            metadata=None if execution is None else execution.metadata,
            read_only=None if execution is None else execution.read_only is True,
        )

    # Calls that need no waiting and are the same in both clients.

    def promise(self, token: str, *, level: str | None = None) -> P:
        """Returns the promise of a token that this or another process stored, in any language.

        Sends nothing: the client asks the trackers when something waits for the promise.

        Args:
            token: Token of a transaction. Pass a session's token to `Session.resume`.
            level: Level of its waits and listeners. Default: the client's.

        Errors: `invalid_token` if the text is not a token.
        """
        content = decode_token(token)
        entry = self._entry(token, content.id, content.position)
        self._listeners.keep(self._watcher, entry)
        return self._make_promise(entry, position=content.position, level=level or self._level)

    def token_of(self, connection: object, *, level: str | None = None) -> P:
        """Returns the promise of the last transaction on a connection to a gateway's wire.

        The PostgreSQL wire sends a token with the answer to COMMIT where `highwater.ack` is
        `commit`. Ask before the connection goes back to its pool.

        Args:
            connection: Connection of psycopg 3 or asyncpg, or a connection of SQLAlchemy on one of
                them.
            level: Level of its waits and listeners. Default: the client's.

        Errors: `no_token` if the connection's last transaction has none, or the connection is in
        pipeline mode; `invalid_options` for another driver.
        """
        return self.promise(token_of(connection), level=level)

    @property
    def marks(self) -> Marks | None:
        """Newest known marks of the current epoch; None before the first."""
        return self._watcher.marks

    @property
    def exposure(self) -> Exposure:
        """Promises that `durable()`, `on_lost()` or a listener on the client waits for."""
        return self._watcher.exposure

    def subscribe(self, subscriber: Subscriber) -> Callable[[], None]:
        """Calls the subscriber with marks and exposure, now and after each change, until removed.

        Returns a function that removes the subscriber. The stream stays open until then.
        Subscribers run where listeners do: see `on_lost`.

        Errors: `client_closed`.
        """
        self._host.prepare()
        return self._watcher.subscribe(subscriber)

    def on_lost(self, listener: Listener) -> Callable[[], None]:
        """Calls the listener once for each transaction that is lost or broken before it is durable.

        Covers transactions that this client commits from now on and tokens passed to `promise()`,
        at the client's level. Also covers reads (`read_only`), which have seen what is lost.
        Returns a function that removes the listener. The synchronous client
        calls all listeners one after another on a thread of their own, where they may call the
        client again and wait. The asynchronous client calls them on its event loop and also runs
        coroutine functions. An exception raised by a listener is logged.
        """
        return self._listeners.add(self._watcher, "lost", listener)

    def on_broken(self, listener: Listener) -> Callable[[], None]:
        """Calls the listener once for each transaction whose promise is broken.

        Such a transaction was durable at a level, and a failure that the level covers discarded it
        all the same. Covers the same transactions as `on_lost`. Returns a function that removes the
        listener.
        """
        return self._listeners.add(self._watcher, "broken", listener)

    def on_durable(self, listener: Listener) -> Callable[[], None]:
        """Calls the listener once for each transaction that becomes durable at the client's level.

        Covers the same transactions as `on_lost`. Returns a function that removes the listener.
        """
        return self._listeners.add(self._watcher, "durable", listener)

    def _end_listening(self) -> None:
        """Does the part of `close` that needs no waiting."""
        self._listeners.end(self._watcher)
        self._watcher.close()

    def _renew(self, *, forked: bool) -> None:
        """Starts over after a fork or on another loop, without connections, waits and questions."""
        self._certificates.renew()
        if self._lanes is not None:
            self._lanes.renew()
        self._host.renew(forked=forked)
        self._watcher.renew()
        self._listeners.renew()

    def __reduce__(self) -> NoReturn:
        raise TypeError(f"a {type(self).__name__} cannot be pickled; create one in each process and pass tokens")


def _observer_of(observer: Observer | Sequence[Observer], debug: bool | None) -> Observer | None:
    own = [observer] if callable(observer) else list(observer)
    is_debug = os.environ.get("HIGHWATER_DEBUG", "") not in ("", "0") if debug is None else debug
    return observers([log_events(), *own, *([print_events()] if is_debug else [])])


_LEVELS = {"debug": logging.DEBUG, "info": logging.INFO, "warning": logging.WARNING, "error": logging.ERROR}


def _log(level: LogLevel, message: str, fields: Mapping[str, object]) -> None:
    LOG.log(_LEVELS[level], "%s: %s", message, fields)


def _after_fork() -> None:
    for client in list(_clients):
        client._renew(forked=True)


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)
