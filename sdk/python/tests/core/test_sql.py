import datetime as dt
import decimal
import ipaddress
import uuid
import zoneinfo
from enum import Enum, IntEnum, StrEnum
from typing import Any, cast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from highwater._core.errors import InvalidRequestError
from highwater._core.params import to_param
from highwater._core.sql import Sql, StatementInput, sql, to_statement
from highwater._core.wire import Statement


def shape(statement: Sql) -> tuple[str, tuple[object, ...]]:
    return statement.text, tuple(statement.params)


def test_values_become_numbered_parameters_and_text_stays_text() -> None:
    statement = sql("UPDATE a SET b = b - {amount} WHERE id = {id} AND name = {name}", amount=10, id=2**60, name="O'B")
    assert shape(statement) == (
        "UPDATE a SET b = b - $1 WHERE id = $2 AND name = $3",
        (10, "1152921504606846976", "O'B"),
    )


def test_a_statement_without_values_has_no_params() -> None:
    assert to_statement(sql("SELECT 1")) == Statement("SELECT 1", ())


def test_pieces_nest_repeat_and_are_renumbered() -> None:
    mine = sql("owner = {owner}", owner=7)
    where = sql("WHERE {mine} AND (x > {x} OR {mine})", mine=mine, x=1)
    statement = sql("SELECT {column} FROM t {where} LIMIT {n}", column=sql.ident("a"), where=where, n=5)
    assert shape(statement) == ('SELECT "a" FROM t WHERE owner = $1 AND (x > $2 OR owner = $3) LIMIT $4', (7, 1, 7, 5))


def test_a_placeholder_that_comes_twice_is_two_parameters() -> None:
    assert shape(sql("SELECT {a}, {a}", a="x")) == ("SELECT $1, $2", ("x", "x"))


def test_identifiers_are_quoted_and_raw_text_is_not() -> None:
    assert sql.ident("public", 'we"ird').text == '"public"."we""ird"'
    assert sql.raw("DESC -- {not} a placeholder").text == "DESC -- {not} a placeholder"
    for parts in ((), ("",), ("a\0b",)):
        with pytest.raises(InvalidRequestError) as caught:
            sql.ident(*parts)
        assert caught.value.code == "invalid_identifier"


def test_join_separates_values_and_pieces() -> None:
    assert sql("SELECT * FROM t WHERE id IN ({ids})", ids=sql.join([1, 2, 3])).text == (
        "SELECT * FROM t WHERE id IN ($1, $2, $3)"
    )
    both = sql.join([sql("a = {a}", a=1), sql("b = {b}", b=2)], sql(" AND "))
    assert shape(both) == ("a = $1 AND b = $2", (1, 2))
    assert shape(sql.join([])) == ("", ())


def test_a_parameter_never_melts_into_the_text_around_it() -> None:
    assert sql("LIMIT{n}", n=1).text == "LIMIT $1"
    assert sql("SELECT {a}0, {x}{b}{c}", a=1, x=sql.raw("x"), b=2, c=3).text == "SELECT $1 0, x $2 $3"
    assert sql("SELECT {a}::int, ({b})", a=1, b=2).text == "SELECT $1::int, ($2)"
    assert sql("SELECT ä{a}{empty}b", a=1, empty=sql.raw("")).text == "SELECT ä $1 b"


def test_braces_of_the_sql_are_doubled() -> None:
    assert sql("SELECT '{{1,2}}'::int[], {a}", a=1).text == "SELECT '{1,2}'::int[], $1"


@pytest.mark.parametrize(
    ("template", "values"),
    [
        ("SELECT {a}", {}),
        ("SELECT 1", {"a": 1}),
        ("SELECT {a}", {"a": 1, "b": 2}),
        ("SELECT '{1,2}'", {}),
        ("SELECT {}", {}),
        ("SELECT {0}", {}),
        ("SELECT {a.b}", {"a": 1}),
        ("SELECT {a[0]}", {"a": [1]}),
        ("SELECT {a!r}", {"a": 1}),
        ("SELECT {a:>10}", {"a": 1}),
        ("SELECT {a", {"a": 1}),
        ("SELECT a}", {}),
    ],
)
def test_a_template_that_is_none_is_refused(template: Any, values: dict[str, object]) -> None:
    with pytest.raises(InvalidRequestError) as caught:
        sql(template, **values)
    assert (caught.value.code, caught.value.outcome, caught.value.retry) == ("invalid_sql", "not_applied", "never")


class Colour(StrEnum):
    RED = "red"


class Size(IntEnum):
    LARGE = 3


class Mood(Enum):
    SAD = 1


class Money:
    def __highwater_param__(self) -> str:
        return "1.50"


NOWHEN = dt.time(3, 4, tzinfo=zoneinfo.ZoneInfo("Europe/Berlin"))
#: Values that every language has are in the vectors.
VALUES: list[tuple[object, object]] = [
    (float("nan"), "NaN"),
    (float("-inf"), "-Infinity"),
    (-0.0, "-0"),
    (2**53, "9007199254740992"),
    (-(2**63), "-9223372036854775808"),
    (decimal.Decimal("0.10"), "0.10"),
    (decimal.Decimal("sNaN"), "NaN"),
    (dt.datetime(2026, 1, 2, 3, 4, 5, 6, tzinfo=dt.UTC), "2026-01-02T03:04:05.000006+00:00"),
    (dt.datetime(1, 1, 1), "0001-01-01T00:00:00"),  # noqa: DTZ001 - a timestamp without a zone
    (dt.date(2026, 1, 2), "2026-01-02"),
    (dt.time(3, 4, 5, 6), "03:04:05.000006"),
    (dt.timedelta(days=-1, seconds=2, microseconds=3), "-0 days -86397 seconds -999997 microseconds"),
    (dt.timedelta(days=1, seconds=2, microseconds=3), "1 days 2 seconds 3 microseconds"),
    (uuid.UUID(int=1), "00000000-0000-0000-0000-000000000001"),
    (b"\0\xff", "\\x00ff"),
    (memoryview(b"\1"), "\\x01"),
    (ipaddress.ip_address("10.0.0.1"), "10.0.0.1"),
    (ipaddress.ip_network("10.0.0.0/8"), "10.0.0.0/8"),
    (Colour.RED, "red"),
    (Size.LARGE, 3),
    (Mood.SAD, "SAD"),
    (dt.time(3, 4, tzinfo=dt.UTC), "03:04:00+00:00"),
    (Money(), "1.50"),
    ({"a": 1, "b": [2**64], "c": decimal.Decimal("0.10")}, '{"a":1,"b":[18446744073709551616],"c":"0.10"}'),
    ([1, None, True, 2**60, 1e300], '{1,NULL,true,"1152921504606846976",1e+300}'),
    (((1, 2), (3, 4)), "{{1,2},{3,4}}"),
    ([b"\1"], '{"\\\\x01"}'),
    ([Money()], '{"1.50"}'),
]


@pytest.mark.parametrize(("value", "expected"), VALUES)
def test_every_kind_of_value_has_its_text(value: object, expected: object) -> None:
    param = to_param(value)
    assert param == expected
    assert type(param) is type(expected)


def test_an_integer_of_any_length_is_exact() -> None:
    # More digits than str() writes.
    assert to_param(-(10**5000)) == f"-1{'0' * 5000}"


def test_json_for_lists_and_scalars() -> None:
    assert sql("SELECT {a}", a=sql.json([1, "a"])).params == ('[1,"a"]',)
    assert sql.json("a").params == ('"a"',)


@pytest.mark.parametrize(
    "value", [object(), {1, 2}, lambda: 1, {"a": object()}, {"a": float("nan")}, {"a": b"x"}, NOWHEN]
)
def test_what_has_no_sql_form_is_refused(value: object) -> None:
    with pytest.raises(InvalidRequestError) as caught:
        sql("SELECT {a}", a=value)
    assert caught.value.code == "invalid_parameter"


def test_statements_can_be_spelled_out_but_plain_text_is_none() -> None:
    assert to_statement(Statement("SELECT $1", [dt.date(2026, 1, 2)])) == Statement("SELECT $1", ("2026-01-02",))
    with pytest.raises(InvalidRequestError) as caught:
        to_statement(cast("StatementInput", "SELECT 1"))
    assert caught.value.code == "invalid_statement"


def test_a_refused_parameter_is_named() -> None:
    with pytest.raises(InvalidRequestError, match=r"\{two\} has type object.*use None for NULL"):
        sql("SELECT {one}, {two}", one=1, two=object())
    with pytest.raises(InvalidRequestError, match=r"\$2 has type object"):
        to_statement(Statement("SELECT $1, $2", [1, object()]))


def test_a_repr_shows_no_values() -> None:
    assert repr(sql("SELECT {a}", a="secret")) == "<Sql 'SELECT $1' with 1 parameters>"


def parse_array(text: str) -> list[str | None]:
    """A reader of one-dimensional array literals as PostgreSQL's array_in reads them."""
    items: list[str | None] = []
    at = 1
    while text[at] != "}":
        if text[at] == '"':
            item, at = "", at + 1
            while text[at] != '"':
                at += text[at] == "\\"
                item += text[at]
                at += 1
            at += 1
            items.append(item)
        else:
            assert text[at : at + 4] == "NULL"
            at += 4
            items.append(None)
        at += text[at] == ","
    return items


@given(st.lists(st.none() | st.text()))
def test_property_array_text_comes_back_as_it_went_in(items: list[str | None]) -> None:
    assert parse_array(str(to_param(items))) == items


@given(st.lists(st.text()))
def test_property_no_value_ever_reaches_the_text(values: list[str]) -> None:
    statement = sql.join(values)
    assert statement.text == ", ".join(f"${n}" for n in range(1, len(values) + 1))
    assert list(statement.params) == values
