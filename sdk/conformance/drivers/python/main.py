"""Drives the Python SDK: one request per line of standard input, one answer per line of output.

`main.py sync` drives `Highwater`, each call in a thread of its own; `main.py async` drives
`AsyncHighwater`. It translates and nothing more: it never retries, waits or compares, for then it
would be the driver that is tested.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
import re
import ssl
import sys
import threading
from collections import Counter
from collections.abc import Awaitable, Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from adapters import in_all_adapters, in_all_adapters_async
from highwater import (
    AsyncHighwater,
    Cancellation,
    Endpoint,
    Highwater,
    HighwaterError,
    ObservedEnd,
    ObservedEvent,
    Observer,
    Statement,
    webhooks,
)
from highwater._core.tuning import Tuning
from highwater.outbox import OutboxRow, follow_outbox, follow_outbox_async
from highwater.stores import AsyncStores, AsyncStoresSession, Stores, StoresSession
from show import Json, RaisedByBodyError, show, show_error, show_part, show_transaction, show_verdict

IS_SYNC = sys.argv[1:] == ["sync"]
#: Threads for calls that go on at the same time.
THREADS = 64
#: Delays that a scenario need not wait for.
QUICK: dict[str, float] = {
    "backoff_base_ms": 2,
    "backoff_max_ms": 20,
    "attempt_min_ms": 150,
    "stream_idle_ms": 20,
    "verdict_wait_ms": 50,
}

#: Names of a scenario's options, and what the SDK calls them.
WAIT = {"level": "level", "timeoutMs": "timeout"}
ACK = {"ack": "ack", "maxWaitMs": "max_wait", "onTimeout": "on_timeout", "maxDelayMs": "max_delay", **WAIT}
RUNS = {"maxAttempts": "max_attempts"}
EXECUTION = {"isolation": "isolation", "readOnly": "read_only", "metadata": "metadata", "atRisk": "at_risk"}
ASK = {"level": "level", "waitMs": "wait"}


def pick(given: Json, names: dict[str, str]) -> Json:
    """Only what is given: an option that is None is not one that is absent.

    What a scenario gives in milliseconds the SDK takes in seconds.
    """
    return {
        option: given[name] / 1_000 if name.endswith("Ms") else given[name]
        for name, option in names.items()
        if given.get(name) is not None
    }


def statements(listed: Sequence[str | Json]) -> list[Statement]:
    return [
        Statement(each, ()) if isinstance(each, str) else Statement(each["sql"], tuple(each.get("params", ())))
        for each in listed
    ]


class Listener:
    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self.received: list[str] = []
        #: What each verdict said of its transaction.
        self.about: list[Json] = []
        self.error: Exception | None = None
        self.off: Callable[[], object] = lambda: None
        self._loop = loop
        self._changed = asyncio.Event()

    def record(self, what: str) -> None:
        # The sync client calls it on a thread of its own.
        self._loop.call_soon_threadsafe(self._note, what)

    def record_verdict(self, verdict: Any) -> None:
        self.about.append({"metadata": verdict.metadata, "readOnly": verdict.read_only})
        self.record(verdict.verdict)
        if self.error is not None:
            raise self.error

    def record_state(self, state: Any) -> None:
        self.record("" if state.marks is None else str(state.marks.levels.get("region", "")))

    def _note(self, what: str) -> None:
        self.received.append(what)
        self._changed.set()

    async def at_least(self, count: int) -> None:
        while len(self.received) < count:
            self._changed.clear()
            await self._changed.wait()


class Scope:
    """What the steps of one run of a scenario have made, by name."""

    def __init__(self) -> None:
        self.clients: dict[str, Any] = {}
        self.sessions: dict[str, Any] = {}
        self.stores: dict[str, Any] = {}
        self.promises: dict[str, Any] = {}
        self.open: dict[str, Any] = {}
        self.listeners: dict[str, Listener] = {}
        #: The events that each client's observer received.
        self.observed: dict[str, list[str]] = {}


class Call:
    """One request on its way through the SDK, which can be cancelled."""

    def __init__(self, scope: Scope, given: Json) -> None:
        self.scope = scope
        self.given = given
        self.cancellation = Cancellation()
        self.runs: int | None = None

    @property
    def client(self) -> Any:
        return self.scope.clients[self.given.get("client", "hw")]

    @property
    def origin(self) -> Any:
        """Where transactions are begun: a session if there is one, else the client."""
        name = self.given.get("session")
        session = self.client if name is None else self.scope.sessions[name]
        return session.of(self.given["store"]) if isinstance(session, (StoresSession, AsyncStoresSession)) else session

    async def ask(self, method: Callable[..., Any], *args: object, **options: object) -> Any:
        if not IS_SYNC:
            return await method(*args, **options)
        loop = asyncio.get_running_loop()
        return await loop.run_in_executor(POOL, lambda: method(*args, **options, cancel=self.cancellation))

    async def ask_plainly(self, method: Callable[..., Any], *args: object, **options: object) -> Any:
        """A call that cannot be cancelled."""
        if not IS_SYNC:
            return await method(*args, **options)
        return await asyncio.get_running_loop().run_in_executor(POOL, lambda: method(*args, **options))


async def make_client(call: Call) -> None:
    given = call.given
    names = {"level": "level", "apiKey": "api_key", "requestTimeoutMs": "request_timeout"}
    options = pick(given, {**names, "totalTimeoutMs": "total_timeout", "shareRequests": "share_requests"})
    tuning = {
        re.sub(r"[A-Z]", lambda m: f"_{m[0].lower()}", name): value for name, value in given.get("tuning", {}).items()
    }
    quick = QUICK if given.get("quick") else {}
    endpoints = [Endpoint(each["gateway"], each["tracker"]) for each in given["endpoints"]]
    kind = Highwater if IS_SYNC else AsyncHighwater
    settled: Any = {**quick, **tuning}
    if given.get("raw"):
        options["types"] = "raw"
    name = given.get("as", "hw")
    told = call.scope.observed[name] = []
    call.scope.clients[name] = kind(
        endpoints=endpoints,
        tuning=Tuning(**settled),
        verify=CERTIFICATES,
        observer=observer_of(told),
        **options,
    )


def observer_of(told: list[str]) -> Observer:
    def observe(event: ObservedEvent) -> Callable[[ObservedEnd], None]:
        told.append(event.type)

        def ended(end: ObservedEnd) -> None:
            how = end.error.code if isinstance(end.error, HighwaterError) else (end.state or "ok")
            told.append(f"{event.type}: {how}")

        return ended

    return observe


async def transaction(call: Call) -> Json:
    given = call.given
    options = pick(given, {**EXECUTION, **ACK, "id": "id", "after": "after", "mode": "mode", "reads": "reads", **RUNS})
    # One that can be cancelled shares no request.
    ask = call.ask if given.get("cancellable") else call.ask_plainly
    tx = await ask(call.origin.transaction, statements(given["statements"]), **options)
    call.scope.promises[given.get("as", "")] = tx
    return show_transaction(tx)


async def begin(call: Call) -> Json:
    options = pick(call.given, {**EXECUTION, **WAIT})
    tx = call.origin.begin(**options)
    call.scope.open[call.given["as"]] = tx
    return {"id": tx.id}


async def execute(call: Call) -> Json:
    tx = call.scope.open[call.given["tx"]]
    options = pick(call.given, {"timeoutMs": "timeout"})
    results = await call.ask(tx.execute, statements(call.given["statements"]), **options)
    return {"rows": show(results[-1].rows) if results else None, "results": len(results)}


async def commit(call: Call) -> Json:
    name = call.given["tx"]
    last = statements(call.given.get("statements", []))
    tx = await call.ask(call.scope.open[name].commit, statements=last, **pick(call.given, ACK))
    call.scope.promises[name] = tx
    return show_transaction(tx)


async def rollback(call: Call) -> Json:
    tx = call.scope.open[call.given["tx"]]
    await call.ask_plainly(tx.rollback)
    return {"open": tx.is_open}


async def transact(call: Call) -> Json:
    ids: list[str] = []
    last: list[Any] = []

    def started(tx: Any) -> list[Any]:
        ids.append(tx.id)
        last[:] = [tx]
        call.runs = len(ids)
        return list(call.given["body"])

    def check(step: Any) -> None:
        if isinstance(step, dict) and "raise" in step and step.get("onRun", len(ids)) == len(ids):
            raise RaisedByBodyError(step["raise"])

    def is_statement(step: Any) -> bool:
        return isinstance(step, str) or "sql" in step

    def body(tx: Any) -> None:
        for step in started(tx):
            check(step)
            if is_statement(step):
                tx.query(statements([step])[0])

    async def body_async(tx: Any) -> None:
        for step in started(tx):
            check(step)
            if is_statement(step):
                await tx.query(statements([step])[0])

    options = pick(call.given, {**EXECUTION, **ACK, **RUNS})
    method = getattr(call.origin, call.given.get("via", "transact"))
    await call.ask(method, body if IS_SYNC else body_async, **options)
    committed = last[0].committed
    if committed is not None:
        call.scope.promises[call.given.get("as", "")] = committed
    return {"runs": len(ids), "ids": len(set(ids)), "state": None if committed is None else committed.state}


async def adapters(call: Call) -> Json:
    database = call.given.get("database")
    use = in_all_adapters if IS_SYNC else in_all_adapters_async
    return {"ends": await call.ask_plainly(use, call.client, call.given["statement"], pick(call.given, ACK), database)}


async def durable(call: Call) -> Json:
    promise = call.scope.promises[call.given["of"]]
    return show_verdict(await call.ask(promise.durable, **pick(call.given, WAIT)))


async def durable_all(call: Call) -> Json:
    promises = [call.client.promise(token) for token in call.given["tokens"]]
    options = pick(call.given, WAIT)
    counts: Counter[str] = Counter()
    if IS_SYNC:
        # A thread for each wait is not how a program with so many of them waits.
        ends = await count_by_listening(promises, options.get("timeout", 30.0))
        counts.update(ends)
    else:
        for end in await asyncio.gather(*(each.durable(**options) for each in promises), return_exceptions=True):
            counts[type(end).__name__ if isinstance(end, BaseException) else end.verdict] += 1
    return dict(counts)


async def count_by_listening(promises: Sequence[Any], timeout: float) -> list[str]:
    names = {"durable": "durable", "lost": "TransactionLostError", "broken": "PromiseBrokenError"}
    listener = Listener(asyncio.get_running_loop())
    offs = [on(listener.record_verdict) for each in promises for on in (each.on_durable, each.on_lost)]
    with contextlib.suppress(TimeoutError):
        await asyncio.wait_for(listener.at_least(len(promises)), timeout)
    for off in offs:
        off()
    received = [names[verdict] for verdict in listener.received]
    return received + ["DurabilityTimeoutError"] * (len(promises) - len(received))


async def after_durable(call: Call) -> Json:
    called: list[object] = []
    promise = call.scope.promises[call.given["of"]]
    await call.ask(promise.after_durable, called.append, **pick(call.given, WAIT))
    return {"called": len(called)}


async def listen(call: Call) -> None:
    given = call.given
    listener = Listener(asyncio.get_running_loop())
    if given.get("throws"):
        listener.error = RuntimeError("the listener of a scenario")
    of = given.get("of")
    source = call.client if of is None else call.scope.promises[of]
    options = {} if of is None else pick(given, {"level": "level"})
    listener.off = getattr(source, f"on_{given['to']}")(listener.record_verdict, **options)
    call.scope.listeners[given["as"]] = listener


async def subscribe(call: Call) -> None:
    listener = Listener(asyncio.get_running_loop())
    listener.off = call.client.subscribe(listener.record_state)
    call.scope.listeners[call.given["as"]] = listener


async def observed(call: Call) -> list[str]:
    told = call.scope.observed[call.given.get("client", "hw")]
    return [each for each in told if each.split(":")[0] in call.given["only"]]


async def unlisten(call: Call) -> None:
    call.scope.listeners[call.given["as"]].off()


async def received(call: Call) -> Json:
    listener = call.scope.listeners[call.given["as"]]
    await listener.at_least(call.given.get("atLeast", 0))
    return {
        "count": len(listener.received),
        "verdicts": listener.received,
        "about": listener.about,
        "reports": sum(each is listener.error for each in REPORTED),
    }


async def promise(call: Call) -> Json:
    made = call.client.promise(call.given["token"], **pick(call.given, {"level": "level"}))
    call.scope.promises[call.given["as"]] = made
    known = made.verdict()
    return {"id": made.id, "verdict": None if known is None else known.verdict}


async def token(call: Call) -> Json:
    return {"token": call.scope.promises[call.given["of"]].token}


async def session(call: Call) -> None:
    stores = call.given.get("stores")
    maker = call.client if stores is None else call.scope.stores[stores]
    call.scope.sessions[call.given["as"]] = maker.session(**pick(call.given, {"causal": "causal"}))


async def session_durable(call: Call) -> Json | None:
    options = pick(call.given, {**WAIT, "onTimeout": "on_timeout"})
    parts = await call.ask(call.scope.sessions[call.given["of"]].durable, **options)
    return None if parts is None else {"parts": [show_part(each) for each in parts]}


async def stores(call: Call) -> None:
    kind: Any = Stores if IS_SYNC else AsyncStores
    clients = {store: call.scope.clients[name] for store, name in call.given["clients"].items()}
    call.scope.stores[call.given["as"]] = kind(clients)


async def wait_for_all(call: Call) -> Json:
    promises = [call.scope.promises[name] for name in call.given["of"]]
    joined = call.scope.stores[call.given["stores"]].all(promises)
    options = pick(call.given, {**WAIT, "onTimeout": "on_timeout"})
    if call.given.get("afterDurable"):
        parts = await call.ask(joined.after_durable, lambda found: found, **options)
    else:
        parts = await call.ask(joined.durable, **options)
    return {"parts": [show_part(each) for each in parts]}


async def save_id(call: Call) -> Json:
    return {"text": call.scope.promises[call.given["of"]].id}


async def save_session(call: Call) -> Json:
    return {"text": call.scope.sessions[call.given["of"]].token}


async def resume(call: Call) -> Json:
    to = call.scope.sessions[call.given["session"]]
    verdicts = await call.ask(to.resume, call.given["token"], **pick(call.given, ASK))
    if isinstance(verdicts, dict):
        return {"verdicts": {store: [each.verdict for each in listed] for store, listed in verdicts.items()}}
    return {"verdicts": [each.verdict for each in verdicts]}


async def status(call: Call) -> Json:
    given = call.given
    of = given.get("of", "")
    transaction_id = given["id"] if "id" in given else (call.scope.promises.get(of) or call.scope.open[of]).id
    found = await call.ask(call.client.status, transaction_id, **pick(given, ASK))
    return {"state": found.state, "level": found.level, "achieved": found.achieved, "token": found.token}


async def verdicts(call: Call) -> list[Json]:
    found = await call.ask(call.client.verdicts, call.given["tokens"], **pick(call.given, ASK))
    return [show_verdict(each) for each in found]


async def exposure(call: Call) -> Json:
    return {"count": call.client.exposure.count}


async def marks(call: Call) -> Json | None:
    known = call.client.marks
    if known is None:
        return None
    return {"epoch": known.epoch, "seq": known.seq, "levels": {name: str(at) for name, at in known.levels.items()}}


async def close(call: Call) -> None:
    await call.ask_plainly(call.client.close)


async def follow(call: Call) -> list[Json]:
    given = call.given
    handled: list[Json] = []
    stop: Any = threading.Event() if IS_SYNC else asyncio.Event()

    def note(row: OutboxRow) -> None:
        if given.get("failOn") == row.payload:
            raise ValueError("no")
        handled.append({"key": row.key, "payload": row.payload, "attempt": row.attempt})
        if len(handled) == given["count"]:
            stop.set()

    async def note_async(row: OutboxRow) -> None:
        note(row)

    options = {**pick(given, {"level": "level", "maxAttempts": "max_attempts"}), "poll": 0.05, "retry": 0.05}
    run, handler = (follow_outbox, note) if IS_SYNC else (follow_outbox_async, note_async)
    await call.ask_plainly(run, call.client, given["topic"], handler, stop=stop, **options)
    return handled


async def verify_webhook(call: Call) -> Json:
    given = call.given
    found = webhooks.verify(given["body"], given["headers"], given["secrets"], now=lambda: float(given["nowSeconds"]))
    return {"id": found.id, "type": found.event.type, "data": dict(found.event.data)}


async def end(call: Call) -> None:
    for client in call.scope.clients.values():
        await call.ask_plainly(client.close)


COMMANDS: dict[str, Callable[[Call], Awaitable[object]]] = {
    "client": make_client,
    "transaction": transaction,
    "begin": begin,
    "execute": execute,
    "commit": commit,
    "rollback": rollback,
    "transact": transact,
    "adapters": adapters,
    "durable": durable,
    "durableAll": durable_all,
    "afterDurable": after_durable,
    "listen": listen,
    "unlisten": unlisten,
    "subscribe": subscribe,
    "observed": observed,
    "received": received,
    "promise": promise,
    "token": token,
    "session": session,
    "sessionDurable": session_durable,
    "stores": stores,
    "all": wait_for_all,
    "saveSession": save_session,
    "saveId": save_id,
    "resume": resume,
    "status": status,
    "verdicts": verdicts,
    "exposure": exposure,
    "marks": marks,
    "close": close,
    "followOutbox": follow,
    "verifyWebhook": verify_webhook,
    "end": end,
}

#: To read them costs more than most scenarios.
CERTIFICATES = ssl.create_default_context()
POOL = ThreadPoolExecutor(THREADS)
#: Errors that the SDK has logged.
REPORTED: list[BaseException] = []
SCOPES: dict[str, Scope] = {}
CALLS: dict[int, tuple[Call, asyncio.Task[None]]] = {}


class Reports(logging.Handler):
    def emit(self, record: logging.LogRecord) -> None:
        if record.exc_info and record.exc_info[1] is not None:
            REPORTED.append(record.exc_info[1])


logging.getLogger("highwater").addHandler(Reports())


def say(answer: Json) -> None:
    sys.stdout.write(json.dumps(answer) + "\n")
    sys.stdout.flush()


async def obey(number: int, verb: str, call: Call) -> None:
    try:
        say({"call": number, "ok": await COMMANDS[verb](call)})
    except BaseException as error:  # noqa: BLE001 - whatever it is, the scenario says whether it is right
        say({"call": number, "error": show_error(error, call.runs)})
    finally:
        CALLS.pop(number, None)


def cancel(number: int) -> None:
    if number not in CALLS:
        return
    call, task = CALLS[number]
    if IS_SYNC:
        call.cancellation.cancel()
    else:
        task.cancel()


async def main() -> None:
    loop = asyncio.get_running_loop()
    reader = asyncio.StreamReader(limit=2**26)
    await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), sys.stdin)
    while line := await reader.readline():
        request = json.loads(line)
        number, given = request["call"], request["with"]
        if request["do"] == "cancel":
            cancel(given["call"])
            say({"call": number, "ok": None})
            continue
        scope = SCOPES.setdefault(request["scope"], Scope())
        if request["do"] == "end":
            del SCOPES[request["scope"]]
        call = Call(scope, given)
        CALLS[number] = (call, loop.create_task(obey(number, request["do"], call)))
        # It has begun before it can be cancelled; a task that never began would never answer.
        await asyncio.sleep(0)


if __name__ == "__main__":
    asyncio.run(main())
