"""The main paths of the ORM on the real system, sync: what an application does, and that durability follows."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor
from datetime import datetime

import pytest
import sqlalchemy
from sqlalchemy import exc, select
from sqlalchemy.engine import Engine
from sqlalchemy.orm import Session, scoped_session, selectinload, sessionmaker

from highwater import (
    ConstraintError,
    Endpoint,
    Highwater,
    HighwaterError,
    InvalidRequestError,
    SerializationError,
    TransactionLostError,
)
from highwater.sqlalchemy import committed, durable, on_lost, token, transact
from tests.sqlalchemy.conftest import cause_of
from tests.sqlalchemy.models import Customer, Purchase
from tests.system import System

pytestmark = pytest.mark.adapters


def test_relationships_the_identity_map_and_what_the_server_fills_in(engine: Engine) -> None:
    with Session(engine) as session:
        ada = Customer(name="Ada", purchases=[Purchase(cents=100), Purchase(cents=250)])
        session.add(ada)
        session.flush()
        assert ada.id is not None
        assert isinstance(ada.created, datetime)
        session.commit()
        durable(session)
        assert session.scalars(select(Customer).where(Customer.name == "Ada")).one() is ada
        assert [each.cents for each in ada.purchases] == [100, 250]
        ada.purchases.pop(0)
        ada.name = "Ada Lovelace"
        session.commit()
        durable(session, level="global", timeout=30)
    with Session(engine) as session:
        found = session.scalars(select(Customer).options(selectinload(Customer.purchases))).one()
        assert (found.name, [each.cents for each in found.purchases]) == ("Ada Lovelace", [250])
        session.delete(found)
        session.commit()
        assert session.scalars(select(Purchase)).all() == []


def test_many_rows_keep_their_order_and_an_update_of_many_is_counted(engine: Engine) -> None:
    with Session(engine) as session:
        customers = [Customer(name=f"customer {number}") for number in range(1_500)]
        session.add_all(customers)
        session.commit()
        # The commit has expired them all: the names are those that the database has under the ids that came back.
        assert len(session.scalars(select(Customer)).all()) == 1_500
        assert [each.name for each in customers] == [f"customer {number}" for number in range(1_500)]
        for each in customers[:600]:
            each.name = f"renamed {each.id}"
        session.commit()
        renamed = select(sqlalchemy.func.count()).select_from(Customer).where(Customer.name.like("renamed %"))
        assert session.scalar(renamed) == 600


def test_a_rollback_and_a_savepoint_undo_what_they_should(engine: Engine) -> None:
    with Session(engine) as session:
        session.add(Customer(name="never"))
        session.flush()
        session.rollback()
        session.add(Customer(name="kept"))
        session.flush()
        nested = session.begin_nested()
        session.add(Customer(name="kept"))
        with pytest.raises(exc.IntegrityError):
            session.flush()
        nested.rollback()
        with session.begin_nested():
            session.add(Customer(name="also kept"))
        session.commit()
        assert session.scalars(select(Customer.name).order_by(Customer.id)).all() == ["kept", "also kept"]


def test_errors_have_the_class_of_pep_249_and_all_that_the_client_knows(engine: Engine) -> None:
    with Session(engine) as session:
        session.add(Customer(name="Bert", purchases=[Purchase(cents=-1)]))
        with pytest.raises(exc.IntegrityError) as caught:
            session.commit()
        cause = cause_of(caught)
        assert (cause.pgcode, cause.sqlstate) == ("23514", "23514")
        assert cause.constraint_name == "alchemy_purchase_cents"
        assert isinstance(cause.orig, ConstraintError)
        assert cause.outcome == "not_applied"
        session.rollback()
        with pytest.raises(exc.ProgrammingError):
            session.execute(sqlalchemy.text("SELECT * FROM there_is_no_such_table"))
        session.rollback()
        with pytest.raises(exc.DataError):
            session.execute(sqlalchemy.text("SELECT 1 / 0"))
        session.rollback()
        assert session.scalars(select(Customer)).all() == []


def test_durable_is_about_all_commits_of_a_session(engine: Engine, system: System) -> None:
    with Session(engine) as session:
        durable(session)  # with nothing to wait for it returns
        with pytest.raises(InvalidRequestError):
            committed(session)
        session.add(Customer(name="one"))
        session.commit()
        first = committed(session)
        session.add(Customer(name="two"))
        session.commit()
        second = committed(session)
        assert first.id != second.id
        durable(session, level="region")
        assert first.verdict(level="region") is not None
        assert second.verdict(level="region") is not None
        session.add(Customer(name="never"))
        session.flush()
        session.rollback()
        assert committed(session) is second
        stored = token(session)
    endpoint = system.endpoints[0]
    with Highwater(endpoints=[Endpoint(endpoint.gateway, endpoint.tracker)]) as hw:
        assert {each.verdict for each in hw.session().resume(stored)} == {"durable"}


def test_durable_knows_scoped_sessions_connections_and_autocommit(near_engine: Engine) -> None:
    sessions = scoped_session(sessionmaker(near_engine))
    sessions.add(Customer(name="scoped"))
    sessions.commit()
    durable(sessions)
    assert committed(sessions).verdict() is not None
    sessions.remove()
    with near_engine.begin() as connection:
        connection.execute(sqlalchemy.insert(Customer).values(name="core"))
    durable(connection)
    assert committed(connection).verdict() is not None
    alone = near_engine.execution_options(isolation_level="AUTOCOMMIT")
    with alone.connect() as connection:
        connection.execute(sqlalchemy.insert(Customer).values(name="alone"))
        first = committed(connection)
        connection.execute(sqlalchemy.insert(Customer).values(name="alone, too"))
        assert committed(connection) is not first
        durable(connection)
        assert first.verdict() is not None


def test_an_ack_that_is_durable_returns_when_it_is(engine: Engine) -> None:
    options = {"highwater": {"ack": "durable", "level": "global"}}
    with Session(engine) as session:
        session.connection(execution_options=options)
        session.add(Customer(name="safe"))
        session.commit()
        assert committed(session).verdict(level="global") is not None
        # The option was for one transaction.
        session.add(Customer(name="fast"))
        session.commit()
        assert committed(session).level == "region"


def test_isolation_is_serializable_unless_something_else_is_said(engine: Engine) -> None:
    show = sqlalchemy.text("SHOW transaction_isolation")
    with engine.connect() as connection:
        assert connection.scalar(show) == "serializable"
        assert connection.get_isolation_level() == "SERIALIZABLE"
    for level in ("READ COMMITTED", "REPEATABLE READ", "SERIALIZABLE"):
        with engine.connect().execution_options(isolation_level=level) as connection:
            assert connection.scalar(show) == level.lower()
    with engine.connect().execution_options(postgresql_readonly=True) as connection:
        with pytest.raises(exc.InternalError) as caught:
            connection.execute(sqlalchemy.insert(Customer).values(name="never"))
        assert cause_of(caught).pgcode == "25006"
    with engine.connect() as connection:
        assert connection.scalar(sqlalchemy.text("SHOW transaction_read_only")) == "off"


def test_transact_reruns_conflicts_and_each_takes_effect_once(engine: Engine) -> None:
    sessions = sessionmaker(engine)
    with sessions.begin() as session:
        session.add(Customer(name="shared", purchases=[Purchase(cents=1)]))
    meeting = threading.Barrier(4)
    runs: list[int] = []

    def add_one(session: Session) -> int:
        purchase = session.scalars(select(Purchase)).one()
        if len(runs) < 4:
            runs.append(1)
            meeting.wait(60)
        purchase.cents += 1
        return purchase.cents

    with ThreadPoolExecutor(4) as pool:
        results = sorted(pool.map(lambda _: transact(sessions, add_one, timeout=60), range(4)))
    assert results == [2, 3, 4, 5]

    def wrong(session: Session) -> None:
        session.add(Customer(name="shared"))

    with pytest.raises(exc.IntegrityError):
        transact(sessions, wrong)

    def commits_by_itself(session: Session) -> None:
        session.add(Customer(name="once"))
        session.commit()
        raise SerializationError("a conflict", code="serialization_failure", outcome="not_applied", retry="transaction")

    with pytest.raises(SerializationError):
        transact(sessions, commits_by_itself)
    with sessions() as session:
        assert session.scalars(select(Customer.name).order_by(Customer.name)).all() == ["once", "shared"]


@pytest.mark.failover
def test_transact_runs_what_was_lost_again(engine: Engine, system: System) -> None:
    ids: list[str] = []

    def body(session: Session) -> None:
        session.add(Customer(name="Ada"))

    class Watched(Session):
        def commit(self) -> None:
            super().commit()
            ids.append(committed(self).id)
            if len(ids) == 1:
                system.command("failover")

    system.command("hold")
    transact(sessionmaker(engine, class_=Watched), body, ack="durable", timeout=120)
    assert len(set(ids)) == 2
    with Session(engine) as session:
        assert session.scalars(select(Customer.name)).all() == ["Ada"]


def test_threads_have_sessions_of_one_engine(engine: Engine) -> None:
    def work(number: int) -> int:
        with Session(engine) as session:
            customer = Customer(name=f"thread {number}")
            session.add(customer)
            session.commit()
            durable(session)
            return customer.id

    with ThreadPoolExecutor(6) as pool:
        ids = list(pool.map(work, range(24)))
    assert len(set(ids)) == 24


def test_a_stream_fetches_some_rows_at_a_time(engine: Engine) -> None:
    numbers = sqlalchemy.select(
        sqlalchemy.func.generate_series(sqlalchemy.bindparam("least", type_=sqlalchemy.Integer), 2500)
    )
    with engine.connect() as connection:
        result = connection.execute(numbers, {"least": 101}, execution_options={"yield_per": 400})
        sizes = [len(part) for part in result.partitions()]
        assert sizes == [400] * 6
        abandoned = connection.execute(numbers, {"least": 1}, execution_options={"stream_results": True})
        assert abandoned.fetchone() == (1,)
        abandoned.close()
        names = connection.scalars(sqlalchemy.text("SELECT name FROM pg_cursors WHERE name LIKE 'highwater%'"))
        assert names.all() == []


@pytest.mark.failover
def test_a_loss_at_a_failover_is_reported(engine: Engine, system: System) -> None:
    received: list[str] = []
    told = threading.Event()

    def on_settled(verdict: object) -> None:
        received.append(str(getattr(verdict, "id", None)))
        if len(received) == 2:
            told.set()

    with Session(engine) as session:
        session.add(Customer(name="kept"))
        session.commit()
        durable(session)
        system.command("hold")
        session.add(Customer(name="gone"))
        session.commit()
        gone = committed(session)
        on_lost(session, on_settled)
        session.add(Customer(name="gone, too"))
        session.commit()
        also = committed(session)
        system.command("failover")
        for _ in range(2):
            with pytest.raises(TransactionLostError) as caught:
                durable(session, timeout=120)
            assert caught.value.transaction_id in {gone.id, also.id}
        durable(session, timeout=120)  # what is left of it is
        assert told.wait(120)
        assert set(received) == {gone.id, also.id}
        session.rollback()
        assert session.scalars(select(Customer.name)).all() == ["kept"]


def test_a_gateway_that_is_gone_ends_the_transaction_and_not_the_session(engine: Engine, system: System) -> None:
    with Session(engine) as session:
        session.add(Customer(name="first try"))
        session.flush()
        system.command("stop", service="gateway")
        session.add(Customer(name="second"))
        with pytest.raises(exc.OperationalError) as caught:
            session.flush()
        cause = cause_of(caught).orig
        assert isinstance(cause, HighwaterError)
        assert (cause.code, cause.retry) == ("gateway_lost", "transaction")
        session.rollback()
        session.add(Customer(name="again"))
        session.commit()
        assert session.scalars(select(Customer.name)).all() == ["again"]
