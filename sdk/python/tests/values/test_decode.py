"""What each type's text becomes. The edge values of every type are tried on a real server elsewhere."""

import ipaddress
from datetime import UTC, date, datetime, time, timedelta, timezone
from decimal import Decimal
from uuid import UUID

import pytest

from highwater._core.wire import Field, WireResult
from highwater._values import Interval, Multirange, Range, decode_value, result_decoder

INT8, INT4, TEXT, NUMERIC, JSONB, DATE, INTERVAL = 20, 23, 25, 1700, 3802, 1082, 1186
INT4_ARRAY, TEXT_ARRAY, BOX_ARRAY, DATE_RANGE_ARRAY = 1007, 1009, 1020, 3913


@pytest.mark.parametrize(
    ("oid", "text", "expected"),
    [
        (16, "t", True),
        (16, "f", False),
        (17, "\\x00ff5c", b"\x00\xff\\"),
        (17, "a\\\\b\\000\\377", b"a\\b\x00\xff"),
        (INT8, "9223372036854775807", 2**63 - 1),
        (NUMERIC, "0.10", Decimal("0.10")),
        (NUMERIC, "9" * 600 + "." + "1" * 300, Decimal("9" * 600 + "." + "1" * 300)),
        (NUMERIC, "-Infinity", Decimal("-Infinity")),
        (701, "5e-324", 5e-324),
        (JSONB, '{"a": [1, null, 9007199254740993]}', {"a": [1, None, 9007199254740993]}),
        (114, "null", None),
        (2950, "ffffffff-ffff-ffff-ffff-ffffffffffff", UUID(int=2**128 - 1)),
        (869, "192.168.0.1/24", ipaddress.ip_interface("192.168.0.1/24")),
        (869, "::1", ipaddress.ip_address("::1")),
        (650, "10.0.0.0/8", ipaddress.ip_network("10.0.0.0/8")),
        (DATE, "2026-02-28", date(2026, 2, 28)),
        (1083, "12:34:56.789", time(12, 34, 56, 789_000)),
        (1266, "12:34:56+05:30", time(12, 34, 56, tzinfo=timezone(timedelta(hours=5, minutes=30)))),
        (1114, "2026-01-01 00:00:00.000001", datetime(2026, 1, 1, 0, 0, 0, 1)),  # noqa: DTZ001 - the type has no zone
        (1184, "2026-01-01 02:00:00.1+02", datetime(2026, 1, 1, 0, 0, 0, 100_000, UTC)),
        (INTERVAL, "3 days -04:05:06.000001", timedelta(days=3, hours=-4, minutes=-5, seconds=-6, microseconds=-1)),
        (INTERVAL, "1 year 2 mons", Interval(months=14)),
        (INTERVAL, "-1 years +2 mons -3 days 00:00:01", Interval(months=-10, days=-3, microseconds=1_000_000)),
        (INTERVAL, "00:00:00", timedelta()),
        (3904, "[1,5)", Range(1, 5)),
        (3904, "empty", Range(empty=True)),
        (3906, "(,1.5]", Range(None, Decimal("1.5"), "(]")),
        (3908, '["2026-01-01 00:00:00",)', Range(datetime(2026, 1, 1), None)),  # noqa: DTZ001
        (3912, "[2026-01-01,infinity)", Range(date(2026, 1, 1), "infinity")),
        (4451, "{[1,3),[5,7)}", Multirange([Range(1, 3), Range(5, 7)])),
        (4451, "{}", Multirange()),
        (1560, "0101", "0101"),
        (790, "$1.00", "$1.00"),
        (99_999, "sad", "sad"),
        (INT4_ARRAY, "{1,NULL,3}", [1, None, 3]),
        (INT4_ARRAY, "[0:1][5:6]={{1,2},{3,4}}", [[1, 2], [3, 4]]),
        (INT4_ARRAY, "{}", []),
        (TEXT_ARRAY, '{a,"NULL",NULL,"q\\"u\\\\o,{}"," ",""}', ["a", "NULL", None, 'q"u\\o,{}', " ", ""]),
        (BOX_ARRAY, "{(2,2),(1,1);(4,4),(3,3)}", "{(2,2),(1,1);(4,4),(3,3)}"),
        (DATE_RANGE_ARRAY, '{"[2026-01-01,2026-01-02)"}', [Range(date(2026, 1, 1), date(2026, 1, 2))]),
    ],
)
def test_a_type_becomes_what_python_has_for_it(oid: int, text: str, expected: object) -> None:
    value = decode_value(text, oid)
    assert value == expected
    assert type(value) is type(expected)


def test_nan_is_nan() -> None:
    assert decode_value("NaN", NUMERIC).is_nan()
    assert decode_value("NaN", 701) != decode_value("NaN", 701)


@pytest.mark.parametrize(
    ("oid", "text"),
    [
        (DATE, "infinity"),
        (DATE, "4713-01-01 BC"),
        (DATE, "5874897-12-31"),
        (DATE, "28.02.2026"),
        (DATE, "02/28/2026"),
        (1083, "24:00:00"),
        (1266, "24:00:00-15:59"),
        (1114, "-infinity"),
        (1114, "294276-12-31 23:59:59.999999"),
        (1114, "Wed Jul 01 12:34:56 2026"),
        (1184, "0044-03-15 12:00:00+00 BC"),
        (1184, "0001-01-01 00:00:00+02"),
        (1184, "2026-07-01 12:34:56"),
        (INTERVAL, "infinity"),
        (INTERVAL, "P1Y2M"),
        (INTERVAL, "@ 1 year"),
        (INTERVAL, ""),
        (17, "größer"),
        (3904, "[1,5"),
        (4451, "{[1,3)[5,7)}"),
        (INT4_ARRAY, "{1,2"),
        (INT4_ARRAY, "{1}}"),
        (INT4_ARRAY, "{1}{2}"),
        (INT4_ARRAY, "1"),
        (JSONB, "[" * 100_000 + "]" * 100_000),
    ],
)
def test_what_python_cannot_hold_stays_text(oid: int, text: str) -> None:
    assert decode_value(text, oid) == text


def test_null_is_none_whatever_the_type() -> None:
    assert [decode_value(None, oid) for oid in (16, TEXT, INT4_ARRAY, 99_999)] == [None] * 4


def test_a_decoder_of_ones_own_holds_in_arrays_and_ranges_too_and_raw_is_text() -> None:
    types = {INT4: lambda text: f"<{text}>"}
    assert decode_value("1", INT4, types) == "<1>"
    assert decode_value("{1,NULL}", INT4_ARRAY, types) == ["<1>", None]
    assert decode_value("[1,2)", 3904, types) == Range("<1>", "<2>")
    assert decode_value("{1}", INT4_ARRAY, "raw") == "{1}"
    assert decode_value("7", INT8, types) == 7


def test_a_result_has_rows_by_name_and_every_text() -> None:
    def fail(text: str) -> object:
        raise RuntimeError(text)

    fields = (Field("id", INT8), Field("name", TEXT), Field("id", INT4), Field("sum", NUMERIC))
    wire = WireResult("SELECT", 2, fields, [["1", "a", "2", "0.5"], [None, None, None, None]], truncated=True)
    result = result_decoder({NUMERIC: fail})(wire)
    assert result.rows == [{"id": 2, "name": "a", "sum": "0.5"}, {"id": None, "name": None, "sum": None}]
    assert result.values == [["1", "a", "2", "0.5"], [None, None, None, None]]
    assert (result.command, result.row_count, result.truncated) == ("SELECT", 2, True)


def test_a_range_knows_what_it_contains() -> None:
    assert 1 in Range(1, 5)
    assert 5 not in Range(1, 5)
    assert 1 not in Range(1, 5, "(]")
    assert 5 in Range(1, 5, "[]")
    assert -(10**9) in Range(None, 5)
    assert 1 not in Range(empty=True)
    with pytest.raises(ValueError, match="bounds must be one of"):
        Range(1, 2, "[[")  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="must have no bounds"):
        Range(1, 2, empty=True)


def test_an_interval_with_months_is_no_timedelta() -> None:
    with pytest.raises(ValueError, match="no fixed length"):
        Interval(months=1).to_timedelta()
    assert Interval(days=1, microseconds=-1).to_timedelta() == timedelta(days=1, microseconds=-1)
    assert Interval.from_timedelta(timedelta(hours=-25)) == Interval(days=-1, microseconds=-3_600_000_000)
