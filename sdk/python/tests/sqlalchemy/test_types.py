"""Values of every kind go to the database and come back as SQLAlchemy's users expect them, and reflection works."""

from __future__ import annotations

import enum
import ipaddress
import uuid
from collections.abc import Iterator
from datetime import UTC, date, datetime, time, timedelta, timezone
from decimal import Decimal
from typing import Any

import pytest
import sqlalchemy as sa
from sqlalchemy.dialects import postgresql as pg
from sqlalchemy.dialects.postgresql import Range
from sqlalchemy.dialects.postgresql.ranges import MultiRange
from sqlalchemy.engine import Engine
from sqlalchemy.ext.asyncio import AsyncEngine

from tests.sqlalchemy.conftest import url_of
from tests.system import System

pytestmark = pytest.mark.adapters


class Mood(enum.Enum):
    GLAD = "glad"
    SAD = "sad"


TYPES: list[tuple[sa.types.TypeEngine[Any], list[Any]]] = [
    (sa.SmallInteger(), [0, -32768, 32767]),
    (sa.Integer(), [0, 2**31 - 1, -(2**31)]),
    (sa.BigInteger(), [2**63 - 1, -(2**63)]),
    (sa.Boolean(), [True, False]),
    (sa.Float(), [0.1, -1e300]),
    (sa.Numeric(30, 10), [Decimal("0.1000000000"), Decimal("-12345678901234567890.0123456789")]),
    (sa.Numeric(10, 2, asdecimal=False), [1.25]),
    (sa.Float(asdecimal=True), [Decimal("1.5000000000")]),
    (sa.String(30), ["", "it's", "né\n€ 🙂", "$1", ":x %s"]),
    (sa.Text(), ["a" * 10_000]),
    (sa.CHAR(3), ["abc"]),
    (sa.LargeBinary(), [b"", b"\x00\xff\\x"]),
    (sa.Date(), [date(2026, 2, 28), date(1, 1, 1)]),
    (sa.Time(), [time(23, 59, 59, 999999)]),
    (sa.DateTime(), [datetime(2026, 11, 21, 17, 0, 0, 1, tzinfo=UTC).replace(tzinfo=None)]),
    (sa.DateTime(timezone=True), [datetime(2026, 11, 21, 17, tzinfo=UTC)]),
    (sa.Interval(), [timedelta(days=3, seconds=5, microseconds=7), timedelta(seconds=-1)]),
    (sa.Uuid(), [uuid.UUID(int=7)]),
    (sa.Uuid(as_uuid=False), [str(uuid.UUID(int=7))]),
    (sa.Enum(Mood, name="alchemy_mood"), list(Mood)),
    (sa.Enum("small", "big", name="alchemy_size", native_enum=False), ["small"]),
    (sa.JSON(), [{"a": [1, None, "x"]}, [1, 2], "text", 1.5, True]),
    (pg.JSONB(), [{"a": {"b": [1, {"c": "d"}]}}, [[]], "text", 0]),
    (pg.ARRAY(sa.Integer), [[], [1, None, 3], [[1, 2], [3, 4]]]),
    (pg.ARRAY(sa.Text), [['a"b', "c,d", "NULL", "", "{}\\"]]),
    (pg.ARRAY(sa.Numeric(10, 2)), [[Decimal("1.50")]]),
    (pg.ARRAY(sa.Uuid()), [[uuid.UUID(int=1)]]),
    (pg.ARRAY(sa.DateTime(timezone=True)), [[datetime(2026, 1, 1, tzinfo=UTC)]]),
    (pg.ARRAY(pg.JSONB()), [[{"a": "b"}, [1]]]),
    (pg.ARRAY(sa.Enum(Mood, name="alchemy_mood")), [[Mood.GLAD, None, Mood.SAD]]),
    (pg.INET(), [ipaddress.ip_address("10.0.0.1"), ipaddress.ip_interface("10.0.0.1/8")]),
    (pg.CIDR(), [ipaddress.ip_network("10.0.0.0/8")]),
    (pg.INT4RANGE(), [Range(1, 5), Range(None, 5), Range(empty=True)]),
    (pg.NUMRANGE(), [Range(Decimal("1.5"), None, bounds="()")]),
    (pg.TSTZRANGE(), [Range(datetime(2026, 1, 1, tzinfo=UTC), datetime(2026, 1, 2, tzinfo=UTC))]),
    (pg.DATERANGE(), [Range(date(2026, 1, 1), date(2026, 1, 3))]),
    (pg.INT4MULTIRANGE(), [MultiRange([Range(1, 3), Range(7, 9)]), MultiRange()]),
    (pg.BIT(3), [pg.BitString("101")]),
    (pg.MACADDR(), ["08:00:2b:01:02:03"]),
]


@pytest.fixture
def table(engine: Engine) -> Iterator[sa.Table]:
    metadata = sa.MetaData()
    columns = [sa.Column(f"c{index}", kind) for index, (kind, _) in enumerate(TYPES)]
    table = sa.Table("alchemy_types", metadata, sa.Column("id", sa.Integer, sa.Identity(), primary_key=True), *columns)
    metadata.create_all(engine)
    yield table
    metadata.drop_all(engine)


def test_values_come_back_as_they_went(engine: Engine, table: sa.Table) -> None:
    with engine.begin() as connection:
        for index, (_, values) in enumerate(TYPES):
            column = table.c[f"c{index}"]
            for value in [*values, None]:
                inserted = connection.execute(table.insert().values({column: value}).returning(table.c.id, column))
                row_id, returned = inserted.one()
                assert returned == value
                assert type(returned) is type(value)
                assert connection.scalar(sa.select(column).where(table.c.id == row_id)) == value
                if value is not None and not isinstance(column.type, (sa.JSON, pg.JSONB)):
                    found = connection.scalars(sa.select(table.c.id).where(column == value)).all()
                    assert row_id in found


async def test_they_do_so_with_asyncio(async_engine: AsyncEngine, table: sa.Table) -> None:
    row = {f"c{index}": values[0] for index, (_, values) in enumerate(TYPES)}
    async with async_engine.begin() as connection:
        inserted = await connection.execute(table.insert().returning(*list(table.c)[1:]), [row, row])
        assert [each._asdict() for each in inserted] == [row, row]


def test_values_without_a_type_and_instants_elsewhere(engine: Engine) -> None:
    there = datetime(2026, 11, 21, 17, tzinfo=timezone(timedelta(hours=5, minutes=30)))
    with engine.connect() as connection:
        row = connection.execute(
            sa.select(
                sa.literal(1),
                sa.literal("x"),
                sa.literal(there),
                sa.literal(None),
                sa.func.coalesce(sa.literal(Decimal("1.5")), 2),
                sa.func.jsonb_build_object("k", sa.literal("v")),
                sa.literal([1, 2], pg.ARRAY(sa.Integer)),
                sa.cast({"a": 1}, pg.JSONB)["a"],
                sa.cast({"a": {"b": 2}}, pg.JSONB)[("a", "b")].as_integer(),
                sa.cast([5, 6], pg.JSONB)[1],
            )
        ).one()
        assert tuple(row) == (1, "x", there, None, Decimal("1.5"), {"k": "v"}, [1, 2], 1, 2, 6)
        same_names = connection.execute(sa.text("SELECT 1 AS a, 2 AS a, '{}'::jsonb AS b"))
        assert tuple(same_names.one()) == (1, 2, {})


def test_decoding_can_be_changed(system: System) -> None:
    def shout(text: str) -> object:
        return f"JSON {text}"

    engine = sa.create_engine(
        url_of(system), json_deserializer=shout, native_inet_types=False, connect_args={"types": {1700: float}}
    )
    with engine.connect() as connection:
        row = connection.execute(sa.text("SELECT '[1]'::jsonb, '10.0.0.1'::inet, 1.5::numeric")).one()
        assert tuple(row) == ("JSON [1]", "10.0.0.1", 1.5)
        assert connection.scalar(sa.select(sa.cast("[2]", sa.JSON))) == 'JSON "[2]"'
    engine.dispose()


def test_reflection_finds_what_was_made(engine: Engine) -> None:
    metadata = sa.MetaData()
    sa.Table(
        "alchemy_parent",
        metadata,
        sa.Column("id", sa.BigInteger, sa.Identity(), primary_key=True),
        sa.Column("kind", sa.Enum(Mood, name="alchemy_kind"), server_default="GLAD", nullable=False),
        sa.Column("amount", sa.Numeric(12, 3), comment="in cents"),
        sa.Column("labels", pg.ARRAY(sa.Text)),
        sa.UniqueConstraint("kind", "amount", name="alchemy_parent_unique"),
        sa.CheckConstraint("amount > 0", name="alchemy_parent_amount"),
        sa.Index("alchemy_parent_index", "amount", postgresql_where=sa.text("amount > 5")),
    )
    sa.Table(
        "alchemy_child",
        metadata,
        sa.Column("id", sa.Uuid, primary_key=True),
        sa.Column("parent", sa.ForeignKey("alchemy_parent.id", ondelete="CASCADE"), nullable=False),
    )
    metadata.create_all(engine)
    try:
        inspector = sa.inspect(engine)
        assert {"alchemy_parent", "alchemy_child"} <= set(inspector.get_table_names())
        found = sa.MetaData()
        found.reflect(engine, only=["alchemy_parent", "alchemy_child"])
        parent, child = found.tables["alchemy_parent"], found.tables["alchemy_child"]
        assert isinstance(parent.c.id.type, sa.BigInteger)
        assert parent.c.id.identity is not None
        assert isinstance(parent.c.kind.type, sa.Enum)
        assert parent.c.kind.type.enums == ["GLAD", "SAD"]
        assert parent.c.amount.comment == "in cents"
        assert isinstance(parent.c.labels.type, pg.ARRAY)
        [key] = child.foreign_keys
        assert (key.target_fullname, key.ondelete) == ("alchemy_parent.id", "CASCADE")
        assert isinstance(child.c.id.type, sa.Uuid)
        [unique] = inspector.get_unique_constraints("alchemy_parent")
        assert unique["column_names"] == ["kind", "amount"]
        indexes = {index["name"]: index for index in inspector.get_indexes("alchemy_parent")}
        assert indexes["alchemy_parent_index"]["column_names"] == ["amount"]
        assert {each["name"] for each in inspector.get_check_constraints("alchemy_parent")} == {"alchemy_parent_amount"}
        assert inspector.get_pk_constraint("alchemy_child")["constrained_columns"] == ["id"]
    finally:
        metadata.drop_all(engine)
