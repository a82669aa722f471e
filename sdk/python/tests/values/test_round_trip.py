"""Property: what is sent as a parameter decodes to what it was."""

from datetime import UTC, date, datetime, timedelta
from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from highwater._core.params import to_param
from highwater._values import Interval, Multirange, Range, decode_array, decode_value
from highwater._values.interval import Interval as Parsed

TEXTS = st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"]))
FINITE = st.decimals(allow_nan=False, allow_infinity=False)


def ranges(bound: st.SearchStrategy[object]) -> st.SearchStrategy[Range[object]]:
    limits = st.none() | bound
    return st.builds(Range, limits, limits, st.sampled_from(["[)", "[]", "(]", "()"])) | st.just(Range(empty=True))


def rectangle(items: st.SearchStrategy[object]) -> st.SearchStrategy[list[object]]:
    row = st.lists(items, min_size=2, max_size=2)
    return st.lists(items, max_size=5) | st.lists(row, min_size=1, max_size=3)


@given(rectangle(st.none() | TEXTS))
def test_arrays_of_texts(items: list[object]) -> None:
    assert decode_array(str(to_param(items))) == items


@given(rectangle(st.none() | st.integers()))
def test_arrays_of_integers(items: list[object]) -> None:
    assert decode_value(str(to_param(items)), 1016) == items


@given(ranges(st.integers()))
def test_ranges_of_integers(value: Range[object]) -> None:
    assert decode_value(str(to_param(value)), 3926) == value


@given(ranges(TEXTS))
def test_ranges_whose_bounds_need_quotes(value: Range[object]) -> None:
    assert decode_value(str(to_param(value)), 3926, {20: str}) == value


@given(st.lists(ranges(FINITE)))
def test_multiranges_and_arrays_of_them(items: list[Range[object]]) -> None:
    value = Multirange(items)
    assert decode_value(str(to_param(value)), 4532) == value
    assert decode_value(str(to_param([value, None])), 6151) == [value, None]
    assert decode_value(str(to_param(items)), 3907) == items


@given(st.integers(-(2**31), 2**31 - 1), st.integers(-(2**31), 2**31 - 1), st.integers(-(2**63), 2**63 - 1))
def test_intervals(months: int, days: int, microseconds: int) -> None:
    value = Interval(months, days, microseconds)
    assert Parsed.from_text(str(to_param(value))) == value


@given(st.timedeltas())
def test_timedeltas(value: timedelta) -> None:
    assert Interval.from_timedelta(value).to_timedelta() == value
    assert decode_value(str(Interval.from_timedelta(value)), 1186) == value


@given(st.datetimes())
def test_timestamps(value: datetime) -> None:
    assert decode_value(str(to_param(value)), 1114) == value
    assert decode_value(str(to_param(value.replace(tzinfo=UTC))), 1184) == value.replace(tzinfo=UTC)


@given(st.dates())
def test_dates(value: date) -> None:
    assert decode_value(str(to_param(value)), 1082) == value


@given(FINITE)
def test_decimals_keep_their_scale(value: Decimal) -> None:
    again = decode_value(str(to_param(value)), 1700)
    assert again.as_tuple() == value.as_tuple()


@given(st.binary())
def test_bytes(value: bytes) -> None:
    assert decode_value(str(to_param(value)), 17) == value


@pytest.mark.parametrize("value", [Range(1, 2), Multirange([Range(1, 2)]), Interval(1, 2, 3)])
def test_they_can_be_keys(value: object) -> None:
    assert {value: 1}[value] == 1
