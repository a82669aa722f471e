"""Goal: transactions on the application's own connections of psycopg have the promises that others have.

Through the loss of a region, a killed connection and a cancelled COMMIT; and nothing is claimed that PostgreSQL does
not hold. Method: the real system of three regions; psycopg and SQLAlchemy connect to its primary.
"""

from __future__ import annotations

import asyncio
import concurrent.futures
import contextlib
import json
import threading
from collections.abc import Callable, Iterator
from typing import Any

import psycopg
import pytest
import sqlalchemy
from psycopg import errors
from psycopg.sql import SQL

from highwater import (
    AsyncHighwater,
    Cancellation,
    DurabilityTimeoutError,
    Endpoint,
    Highwater,
    HighwaterError,
    InvalidRequestError,
    TransactionAbortedError,
    TransactionLostError,
    UnavailableError,
    UnknownOutcomeError,
)
from highwater._core.effects import Effect, HttpResponse, NoResponse, Send
from highwater.enlist import EnlistedTransaction, enlist
from highwater.enlist._statements import RECEIPT
from tests.enlist.conftest import LIMIT_S, Relay, count, until
from tests.system import REPOSITORY, System, app_address

pytestmark = pytest.mark.adapters


def test_the_receipt_is_that_of_the_other_sdk() -> None:
    theirs = (REPOSITORY / "sdk/ts/src/adapters/enlist/statements.ts").read_text()
    assert f"`{RECEIPT.decode()}`" in theirs


def test_a_transaction_has_its_promise_whatever_a_listener_raises(
    system: System, hw: Highwater, caplog: pytest.LogCaptureFixture
) -> None:
    def fail(transaction: object) -> None:
        raise LookupError("of a listener")

    with psycopg.connect(app_address(system)) as connection:
        enlisted = enlist(hw, connection)
        seen: list[EnlistedTransaction] = []
        enlisted.on_commit(fail)
        off = enlisted.on_commit(seen.append)
        assert enlisted.last(connection) is None
        connection.execute("INSERT INTO enlisted VALUES (%s)", ("kept",))
        connection.commit()
        first = enlisted.last(connection)
        assert first is not None
        with connection.transaction():
            connection.execute("INSERT INTO enlisted VALUES ('in a block')")
            with pytest.raises(errors.DivisionByZero), connection.transaction():
                connection.execute("SELECT 1/0")
        off()
        assert seen == [first, enlisted.last(connection)]
        assert [each.exc_info is not None for each in caplog.records if each.name == "highwater"] == [True, True]
        verdict = first.durable(level="global", timeout=60)
        assert (verdict.verdict, verdict.id) == ("durable", first.id)
        assert hw.status(first.id).state in {"committed", "durable"}
        # Another process has its token.
        hw.promise(first.promise().token).durable(timeout=60)
        assert first.after_durable(lambda each: each.id, timeout=60) == first.id
        assert (count(system, "kept"), count(system, "in a block")) == (1, 1)
        [setting] = connection.execute("SHOW synchronous_commit").fetchone() or ()
        assert setting != "off"


def test_texts_of_begin_and_commit_are_enlisted_too(system: System, hw: Highwater) -> None:
    with psycopg.connect(app_address(system), autocommit=True) as connection:
        enlisted = enlist(hw, connection)
        connection.execute("INSERT INTO enlisted VALUES ('autocommitted')")
        connection.execute("BEGIN READ ONLY")
        connection.execute("SELECT count(*) FROM enlisted")
        connection.execute("COMMIT")
        connection.execute("BEGIN")
        connection.execute("SELECT 1")
        assert connection.execute("COMMIT").statusmessage == "COMMIT"
        assert enlisted.last(connection) is None
        connection.execute("BEGIN ISOLATION LEVEL SERIALIZABLE")
        connection.execute("INSERT INTO enlisted VALUES ('by text')")
        with pytest.raises(InvalidRequestError) as refused:
            connection.execute("COMMIT AND CHAIN")
        assert refused.value.code == "transaction_control"
        assert connection.execute("commit;").statusmessage == "COMMIT"
        transaction = enlisted.last(connection)
        assert transaction is not None
        transaction.durable(timeout=60)
        connection.execute("BEGIN")
        connection.execute("INSERT INTO enlisted VALUES ('rolled back')")
        connection.execute("ROLLBACK")
        assert enlisted.last(connection) is transaction
        assert (count(system, "by text"), count(system, "rolled back")) == (1, 0)


def test_a_commit_with_comments_is_enlisted_and_one_among_other_statements_is_refused(
    system: System, hw: Highwater
) -> None:
    with psycopg.connect(app_address(system), autocommit=True) as connection:
        enlisted = enlist(hw, connection)
        seen: list[EnlistedTransaction | None] = []
        ends: list[Any] = ["COMMIT -- done", "/* a /* b */ */ COMMIT", b"-- x\nEND;", SQL("; commit /* c */ work")]
        for end in ends:
            connection.execute("/* app */ BEGIN")
            connection.execute("INSERT INTO enlisted VALUES (gen_random_uuid() || ' commented')")
            connection.execute(end)
            seen.append(enlisted.last(connection))
        assert None not in seen
        assert (len(set(seen)), count(system, "%commented")) == (4, 4)
        connection.execute("BEGIN")
        connection.execute("INSERT INTO enlisted VALUES ('with more')")
        insert = "INSERT INTO enlisted VALUES ('with more; end')"
        more: list[Any] = ["COMMIT; SELECT 1", "-- x\nEND; BEGIN", SQL("COMMIT -- x\nAND CHAIN"), f"{insert}; COMMIT"]
        for end in more:
            with pytest.raises(InvalidRequestError) as refused:
                connection.execute(end)
            assert (refused.value.code, refused.value.outcome) == ("transaction_control", "not_applied")
        with pytest.raises(errors.ActiveSqlTransaction):
            connection.execute("COMMIT PREPARED 'none'")
        connection.execute("-- undo\nROLLBACK")
        assert count(system, "with more%") == 0
        # Outside an enlisted transaction it goes to the server as it is.
        connection.execute(f"BEGIN; {insert}; COMMIT".encode())
        assert count(system, "with more%") == 1
        assert enlisted.last(connection) is seen[-1]


def test_failures_are_those_of_psycopg(system: System, hw: Highwater) -> None:
    with psycopg.connect(app_address(system)) as connection:
        enlisted = enlist(hw, connection)
        with pytest.raises(errors.DivisionByZero):
            connection.execute("SELECT 1/0")
        connection.commit()  # a rollback, as PostgreSQL does it
        connection.execute("INSERT INTO enlisted VALUES ('rolled back')")
        connection.rollback()
        connection.execute("INSERT INTO enlisted VALUES ('twice')")
        connection.execute("INSERT INTO enlisted VALUES ('twice')")
        with pytest.raises(errors.UniqueViolation):
            connection.commit()
        with pytest.raises(InvalidRequestError, match="PREPARE TRANSACTION"):
            connection.tpc_begin("one")
        connection.tpc_rollback()
        assert enlisted.last(connection) is None
        connection.execute("INSERT INTO enlisted VALUES ('afterwards')")
        connection.commit()
        last = enlisted.last(connection)
        assert last is not None
        last.durable(timeout=60)
        assert [count(system, each) for each in ("rolled back", "twice", "afterwards")] == [0, 0, 1]


def test_a_pipeline_of_the_application(system: System, hw: Highwater) -> None:
    with psycopg.connect(app_address(system)) as connection:
        enlisted = enlist(hw, connection)
        with connection.pipeline():
            connection.execute("INSERT INTO enlisted VALUES ('piped 1')")
            connection.execute("INSERT INTO enlisted VALUES ('piped 2')")
            connection.commit()
            first = enlisted.last(connection)
            with connection.transaction():
                connection.execute("INSERT INTO enlisted VALUES ('piped 3')")
            connection.execute("SELECT 1/0")
            with pytest.raises(errors.DivisionByZero):
                connection.commit()
            connection.rollback()
        second = enlisted.last(connection)
        assert first is not None
        assert second is not None
        assert first is not second
        first.durable(timeout=60)
        second.durable(timeout=60)
        assert count(system, "piped _") == 3


def test_a_commit_is_durable_with_that_option(system: System, hw: Highwater) -> None:
    with psycopg.connect(app_address(system)) as connection:
        enlisted = enlist(hw, connection, ack="durable", level="global", metadata={"by": "a test"}, max_delay=60)
        connection.execute("INSERT INTO enlisted VALUES ('safe')")
        connection.commit()
        last = enlisted.last(connection)
        assert last is not None
        known = last.promise().verdict(level="global")
        assert known is not None
        assert known.verdict == "durable"


def test_without_a_gateway_the_transaction_is_rolled_back(system: System) -> None:
    with (
        Highwater("http://127.0.0.1:1", total_timeout=0.5) as hw,
        psycopg.connect(app_address(system)) as connection,
    ):
        enlist(hw, connection)
        connection.execute("INSERT INTO enlisted VALUES ('no ticket')")
        with pytest.raises(UnavailableError):
            connection.commit()
        assert connection.info.transaction_status == psycopg.pq.TransactionStatus.IDLE
    assert count(system, "no ticket") == 0


def test_only_connections_of_its_kind(system: System, hw: Highwater) -> None:
    with pytest.raises(InvalidRequestError, match="neither a connection of psycopg 3"):
        enlist(hw, object())
    with psycopg.connect(app_address(system)) as connection, pytest.raises(InvalidRequestError, match="of its kind"):
        enlist(AsyncHighwater("http://127.0.0.1:1"), connection)


def test_many_connections_share_requests(system: System, hw: Highwater, monkeypatch: pytest.MonkeyPatch) -> None:
    enlisted = enlist(hw)
    seen: list[EnlistedTransaction] = []
    enlisted.on_commit(seen.append)
    read, requests = hw._service.read, []

    def counted(call: Any, options: Any) -> Any:
        requests.append(call.path)
        return read(call, options)

    monkeypatch.setattr(hw._service, "read", counted)
    together = threading.Barrier(8)

    def work(at: int) -> None:
        with psycopg.connect(app_address(system)) as connection:
            enlisted.add(connection)
            for turn in range(4):
                together.wait(LIMIT_S)
                connection.execute("INSERT INTO enlisted VALUES (%s)", (f"thread {at} {turn}",))
                connection.commit()

    threads = [threading.Thread(target=work, args=(at,)) for at in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len({each.id for each in seen}) == 32
    for each in seen:
        each.durable(timeout=60)
    tickets = [path for path in requests if path.startswith("/v1/tickets")]
    assert 0 < len(tickets) < 2 * 32, "requests were shared"


def interrupted(system: System, hw: Highwater, how: str, text: str) -> BaseException | None:
    """Runs a transaction whose COMMIT waits, and ends its statement or its session there."""
    raised: list[BaseException] = []
    connection = psycopg.connect(app_address(system))
    pid = connection.info.backend_pid
    enlisted = enlist(hw, connection)

    def commit() -> None:
        try:
            connection.execute("INSERT INTO enlisted VALUES (%s)", (text,))
            connection.execute("INSERT INTO late VALUES (1)")
            connection.commit()
        except (psycopg.Error, HighwaterError) as error:
            raised.append(error)

    with psycopg.connect(app_address(system), autocommit=True) as gate:
        gate.execute("SELECT pg_advisory_lock(7)")
        thread = threading.Thread(target=commit)
        thread.start()
        waits = f"SELECT 1 FROM pg_locks WHERE pid = {pid} AND locktype = 'advisory' AND NOT granted"
        until(lambda: system.command("query", sql=waits))
        system.command("query", sql=f"SELECT pg_{how}_backend({pid})")
        thread.join()
    connection.close()
    assert enlisted.last(connection) is None
    return raised[0] if raised else None


def test_a_cancelled_commit_has_not_committed_and_a_killed_one_is_settled(system: System, hw: Highwater) -> None:
    assert isinstance(interrupted(system, hw, "cancel", "cancelled"), errors.QueryCanceled)
    killed = interrupted(system, hw, "terminate", "killed")
    assert isinstance(killed, TransactionAbortedError), killed
    assert killed.retry == "transaction"
    assert (count(system, "cancelled"), count(system, "killed")) == (0, 0)


def test_a_commit_whose_answer_is_lost_returns(system: System, hw: Highwater) -> None:
    """The connection goes through a relay that passes on everything but the answer to COMMIT."""
    with Relay(app_address(system)) as relay, psycopg.connect(relay.address) as connection:
        enlisted = enlist(hw, connection)
        connection.execute("INSERT INTO enlisted VALUES ('unanswered')")
        relay.is_mute = True
        thread = threading.Thread(target=connection.commit)
        thread.start()
        until(lambda: count(system, "unanswered") == 1)
        relay.close()
        thread.join(LIMIT_S)
        last = enlisted.last(connection)
        assert last is not None
        last.durable(timeout=60)
        assert connection.broken


def problem(status: int, code: str, retry: str) -> HttpResponse:
    body = {"type": f"https://example.org/{code}", "title": code, "status": status}
    body |= {"code": code, "outcome": "not_applied", "retry": retry}
    return HttpResponse(status, {}, json.dumps(body).encode())


#: What becomes of a request. None of these says anything about the transaction.
FAULTS: dict[str, HttpResponse | NoResponse] = {
    "a failover": problem(503, "primary_unavailable", "wait"),
    "a gateway that is down": NoResponse("refused"),
    "a revoked key": problem(401, "unauthenticated", "never"),
    "no answer": NoResponse("timeout"),
}


@contextlib.contextmanager
def faulty(system: System, path: str, fault: HttpResponse | NoResponse) -> Iterator[Highwater]:
    """A client that has one fault at this path, and soon gives up."""
    endpoint = system.endpoints[0]
    with Highwater(endpoints=[Endpoint(endpoint.gateway, endpoint.tracker)], total_timeout=3) as client:
        perform = client._host.perform

        async def perform_faulty(effect: Effect) -> object:
            return fault if isinstance(effect, Send) and effect.url.endswith(path) else await perform(effect)

        client._host.perform = perform_faulty  # type: ignore[method-assign]
        yield client


def unanswered(system: System, hw: Highwater, text: str, then: Callable[[], None] = lambda: None) -> list[Exception]:
    """Runs a transaction that commits, and whose COMMIT gets no answer. Returns what COMMIT raised."""
    raised: list[Exception] = []
    with Relay(app_address(system)) as relay, psycopg.connect(relay.address) as connection:
        enlist(hw, connection)
        connection.execute("INSERT INTO enlisted VALUES (%s)", (text,))
        relay.is_mute = True

        def commit() -> None:
            try:
                connection.commit()
            except Exception as error:  # noqa: BLE001 - the test looks at it
                raised.append(error)

        thread = threading.Thread(target=commit)
        thread.start()
        until(lambda: count(system, text) == 1)
        then()
        relay.close()
        thread.join(LIMIT_S)
        assert not thread.is_alive()
    return raised


@pytest.mark.parametrize("name", FAULTS)
def test_an_unanswered_commit_whose_look_up_fails_has_an_unknown_outcome(
    system: System, hw: Highwater, name: str
) -> None:
    with faulty(system, "/v1/tickets/ends", FAULTS[name]) as client:
        [error] = unanswered(system, client, f"unknown after {name}")
    assert isinstance(error, UnknownOutcomeError), error
    assert (error.code, error.outcome, error.retry) == ("outcome_unknown", "unknown", "resolve_outcome")
    assert hw.status(str(error.transaction_id)).state in {"committed", "durable"}


@pytest.mark.parametrize("name", FAULTS)
def test_an_answered_commit_has_been_applied_whatever_its_report_meets(
    system: System, hw: Highwater, name: str
) -> None:
    with (
        faulty(system, "/v1/tickets/ends", FAULTS[name]) as client,
        psycopg.connect(app_address(system)) as connection,
        psycopg.connect(app_address(system)) as late,
        psycopg.connect(app_address(system)) as pending,
    ):
        enlisted = enlist(client, connection)
        connection.execute("INSERT INTO enlisted VALUES (%s)", (f"applied despite {name}",))
        connection.commit()
        last = enlisted.last(connection)
        assert last is not None
        with pytest.raises(HighwaterError) as promised:
            last.promise()
        assert (promised.value.outcome, promised.value.transaction_id) == ("applied", last.id)
        enlist(client, late, ack="durable", max_wait=0.05)
        late.execute("INSERT INTO enlisted VALUES (%s)", (f"late despite {name}",))
        with pytest.raises(HighwaterError) as raised:
            late.commit()
        assert raised.value.outcome == "applied"
        enlist(client, pending, ack="durable", max_wait=0.05, on_timeout="pending")
        pending.execute("INSERT INTO enlisted VALUES (%s)", (f"pending despite {name}",))
        pending.commit()
        assert count(system, f"%despite {name}") == 3


@pytest.mark.parametrize("name", FAULTS)
def test_a_commit_without_a_ticket_has_not_been_applied(system: System, hw: Highwater, name: str) -> None:
    text = f"without a ticket by {name}"
    with (
        faulty(system, "/v1/tickets", FAULTS[name]) as client,
        psycopg.connect(app_address(system)) as connection,
    ):
        enlist(client, connection)
        connection.execute("INSERT INTO enlisted VALUES (%s)", (text,))
        with pytest.raises(HighwaterError) as raised:
            connection.commit()
        assert raised.value.outcome == "not_applied"
        assert connection.info.transaction_status == psycopg.pq.TransactionStatus.IDLE
    assert count(system, text) == 0


def test_a_client_that_was_closed_commits_nothing(system: System, hw: Highwater) -> None:
    with psycopg.connect(app_address(system)) as connection:
        with faulty(system, "/none", NoResponse("refused")) as client:
            enlisted = enlist(client, connection)
            connection.execute("INSERT INTO enlisted VALUES ('closed before')")
        with pytest.raises(HighwaterError) as raised:
            connection.commit()
        assert (raised.value.code, raised.value.outcome) == ("client_closed", "not_applied")
        assert connection.info.transaction_status == psycopg.pq.TransactionStatus.IDLE
        assert enlisted.last(connection) is None
    assert count(system, "closed before") == 0


def test_a_client_that_is_closed_during_commit_says_what_it_knows(system: System, hw: Highwater) -> None:
    with faulty(system, "/none", NoResponse("refused")) as client:
        [error] = unanswered(system, client, "unanswered and closed", client.close)
        assert isinstance(error, UnknownOutcomeError), error
    with (
        faulty(system, "/none", NoResponse("refused")) as client,
        psycopg.connect(app_address(system)) as connection,
        psycopg.connect(app_address(system)) as gate,
    ):
        enlisted = enlist(client, connection)
        gate.execute("SELECT pg_advisory_lock(7)")
        connection.execute("INSERT INTO enlisted VALUES ('answered and closed')")
        connection.execute("INSERT INTO late VALUES (1)")
        thread = threading.Thread(target=connection.commit)
        thread.start()
        pid = connection.info.backend_pid
        waits = f"SELECT 1 FROM pg_locks WHERE pid = {pid} AND locktype = 'advisory' AND NOT granted"
        until(lambda: system.command("query", sql=waits))
        client.close()
        gate.execute("SELECT pg_advisory_unlock(7)")
        thread.join(LIMIT_S)
        last = enlisted.last(connection)
        assert last is not None
        for ask in (last.promise, last.durable, lambda: last.on_lost(print)):
            with pytest.raises(HighwaterError) as raised:
                ask()
            assert (raised.value.code, raised.value.outcome) == ("client_closed", "applied")
        assert count(system, "answered and closed") == 1


def test_waits_for_a_token_end_in_time_and_when_the_client_is_closed(system: System, hw: Highwater) -> None:
    with (
        faulty(system, "/none", NoResponse("refused")) as client,
        psycopg.connect(app_address(system)) as connection,
    ):
        enlisted = enlist(client, connection)
        connection.execute("INSERT INTO enlisted VALUES ('waits for a token')")
        perform, asked = client._host.perform, threading.Event()

        async def hang(effect: Effect) -> object:
            if not isinstance(effect, Send) or not effect.url.endswith("/v1/tickets/ends"):
                return await perform(effect)
            asked.set()
            return await asyncio.Event().wait()

        client._host.perform = hang  # type: ignore[method-assign]
        connection.commit()
        last = enlisted.last(connection)
        assert last is not None
        assert asked.wait(LIMIT_S)
        for cancel in (None, Cancellation()):
            with pytest.raises(DurabilityTimeoutError) as late:
                last.durable(timeout=0.05, cancel=cancel)
            assert (late.value.outcome, late.value.transaction_id) == ("applied", last.id)
        safe = enlist(client, ack="durable", max_wait=0.05)
        with psycopg.connect(app_address(system)) as other:
            safe.add(other)
            other.execute("INSERT INTO enlisted VALUES ('waits for durability')")
            with pytest.raises(DurabilityTimeoutError):
                other.commit()
        raised: list[HighwaterError] = []

        def wait() -> None:
            with pytest.raises(HighwaterError) as ended:
                last.promise()
            raised.append(ended.value)

        thread = threading.Thread(target=wait)
        thread.start()
        client.close()
        thread.join(LIMIT_S)
        assert [(each.code, each.outcome) for each in raised] == [("client_closed", "applied")]


def test_an_interrupt_while_commit_waits_for_its_ticket_rolls_back(
    system: System, hw: Highwater, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupt(_: object) -> None:
        raise KeyboardInterrupt

    with psycopg.connect(app_address(system)) as connection:
        enlist(hw, connection)
        with monkeypatch.context() as patch:

            def work() -> None:
                with connection.transaction():
                    connection.execute("INSERT INTO enlisted VALUES ('interrupted')")
                    patch.setattr(concurrent.futures, "wait", interrupt)

            with pytest.raises(KeyboardInterrupt):
                work()
        assert connection.info.transaction_status == psycopg.pq.TransactionStatus.IDLE
        with connection.transaction():
            connection.execute("INSERT INTO enlisted VALUES ('block behind')")
        assert [count(system, each) for each in ("interrupted", "block behind")] == [0, 1]


def test_an_engine_of_sqlalchemy(system: System, hw: Highwater) -> None:
    engine = sqlalchemy.create_engine(app_address(system).replace("postgresql://", "postgresql+psycopg://"))
    enlisted = enlist(hw, engine)
    seen: list[EnlistedTransaction] = []
    enlisted.on_commit(seen.append)
    with engine.connect() as connection:
        connection.execute(sqlalchemy.text("INSERT INTO enlisted VALUES ('by SQLAlchemy')"))
        with connection.begin_nested():
            connection.execute(sqlalchemy.text("INSERT INTO enlisted VALUES ('nested')"))
        connection.commit()
        last = enlisted.last(connection)
    assert last is not None
    with engine.begin() as connection:
        connection.execute(sqlalchemy.text("INSERT INTO enlisted VALUES ('by begin')"))
    with engine.connect() as connection:
        connection.execute(sqlalchemy.text("INSERT INTO enlisted VALUES ('rolled back')"))
    assert seen[0] is last
    assert len(seen) == 2
    for each in seen:
        each.durable(timeout=60)
    assert [count(system, each) for each in ("by SQLAlchemy", "nested", "by begin", "rolled back")] == [1, 1, 1, 0]
    engine.dispose()


@pytest.mark.failover
def test_through_the_loss_of_a_region(system: System, hw: Highwater) -> None:
    connection, opened = (psycopg.connect(app_address(system)) for _ in range(2))
    enlisted = enlist(hw, connection)
    enlisted.add(opened)
    connection.execute("INSERT INTO enlisted VALUES ('durable before')")
    connection.commit()
    kept = enlisted.last(connection)
    assert kept is not None
    kept.durable(level="global", timeout=60)
    system.command("hold")
    connection.execute("INSERT INTO enlisted VALUES ('lost')")
    connection.commit()
    lost = enlisted.last(connection)
    assert lost is not None
    received: list[tuple[str, str]] = []
    lost.on_lost(lambda verdict: received.append((verdict.id, verdict.verdict)))
    lost.promise()
    opened.execute("INSERT INTO enlisted VALUES ('open')")
    system.command("failover")
    with pytest.raises(TransactionLostError):
        lost.durable(timeout=60)
    until(lambda: received)
    assert received == [(lost.id, "lost")]
    # The old primary is gone: the COMMIT took no effect in the new history.
    with pytest.raises(Exception) as ended:
        opened.commit()
    assert isinstance(ended.value, psycopg.Error) or getattr(ended.value, "retry", "") == "transaction"
    with psycopg.connect(app_address(system)) as following:
        enlisted.add(following)
        following.execute("INSERT INTO enlisted VALUES ('after')")
        following.commit()
        after = enlisted.last(following)
        assert after is not None
        after.durable(timeout=60)
    texts = ("durable before", "lost", "open", "after")
    assert [count(system, each) for each in texts] == [1, 0, 0, 1]
    connection.close()
    opened.close()


@pytest.mark.failover
def test_lost_before_it_has_a_token(system: System, hw: Highwater) -> None:
    """No gateway can be reached between COMMIT's answer and the failover."""
    connection, gate = (psycopg.connect(app_address(system)) for _ in range(2))
    enlisted = enlist(hw, connection)
    regions = [each.region for each in system.endpoints]
    system.command("hold")
    gate.execute("SELECT pg_advisory_lock(7)")
    connection.execute("INSERT INTO enlisted VALUES ('without a token')")
    connection.execute("INSERT INTO late VALUES (1)")
    thread = threading.Thread(target=connection.commit)
    thread.start()
    pid = connection.info.backend_pid
    waits = f"SELECT 1 FROM pg_locks WHERE pid = {pid} AND locktype = 'advisory' AND NOT granted"
    # COMMIT has been sent, so the ticket is there.
    until(lambda: system.command("query", sql=waits))
    for region in regions:
        system.command("cut", service="gateway", region=region)
    gate.execute("SELECT pg_advisory_unlock(7)")
    thread.join(LIMIT_S)
    lost = enlisted.last(connection)
    assert lost is not None
    received: list[tuple[str, str, str]] = []
    lost.on_lost(lambda verdict: received.append((verdict.id, verdict.rule or "", verdict.token)))
    system.command("failover")
    for region in regions:
        system.command("uncut", service="gateway", region=region)
    with pytest.raises(TransactionLostError):
        lost.durable(timeout=60)
    until(lambda: received)
    assert received == [(lost.id, "client:no_receipt", "")]
    assert count(system, "without a token") == 0
    connection.close()
    gate.close()
