"""Goal: every base type of the server decodes to what the README says, and what came can be sent back and is the same.

Method: edge values of every type that the server's catalogue has, as themselves and as elements of an array.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta

import pytest

from highwater import Endpoint, Highwater, decode_value, sql
from highwater._values.decode import _ARRAYS
from tests.system import System
from tests.values.edges import BECOMES, EDGES, WITHOUT_INPUT, stays_text

CASES = [(name, text) for name, texts in EDGES.items() for text in texts]
IN_UTC = sql("SET LOCAL TimeZone TO 'UTC'")


@pytest.fixture(scope="module")
def hw(real_system: System) -> Iterator[Highwater]:
    # With other regions to go to it would take a busy machine's slowness for a failure, send again, and get no rows.
    near = real_system.endpoints[0]
    endpoints = [Endpoint(near.gateway, near.tracker)]
    with Highwater(endpoints=endpoints, total_timeout=120, request_timeout=60) as client:
        yield client


def typed(name: str) -> str:
    # A typed parameter would be of length 1 for "bit" and "bpchar"; a column's type without its length is not.
    return "varbit" if name == "bit" else name


def test_every_base_type_of_the_server_is_tried(hw: Highwater) -> None:
    types = hw.transaction(
        sql("""
            SELECT typname AS name, oid, typarray AS array_oid FROM pg_type
            WHERE typtype IN ('b', 'r', 'm') AND typnamespace = 'pg_catalog'::regnamespace
                AND (typcategory <> 'A' OR typname IN ('int2vector', 'oidvector'))
        """)
    ).rows
    names = {row["name"] for row in types} - WITHOUT_INPUT
    assert names == {name.strip('"') for name in EDGES}
    known = {array: element for array, element in _ARRAYS.items() if element != 3642}  # gtsvector
    assert {row["array_oid"]: row["oid"] for row in types if row["name"] in names - {"box"}} == known


def test_values_and_arrays_of_every_base_type_come_back_as_they_were_sent(hw: Highwater) -> None:
    there = hw.transaction(
        [
            IN_UTC,
            *(
                sql(
                    "SELECT value, value::text AS text, ARRAY[value, NULL] AS list "
                    "FROM (SELECT {text}::{of} AS value) AS one",
                    text=text,
                    of=sql.raw(typed(name)),
                )
                for name, text in CASES
            ),
        ]
    )
    assert there.results is not None
    rows = [result.rows[0] for result in there.results[1:]]

    wrong = []
    for (name, text), row in zip(CASES, rows, strict=True):
        kinds = ("str",) if stays_text(name, text) else BECOMES.get(name, ("str",))
        if type(row["value"]).__name__ not in kinds:
            wrong.append((name, text, row["value"]))
        # NaN is not itself.
        if name != "box" and repr(row["list"]) != repr([row["value"], None]):
            wrong.append((name, text, row["list"]))
    assert wrong == []

    back = hw.transaction(
        [
            IN_UTC,
            *(
                sql(
                    "SELECT {value}::{of}::text AS text, ({list}::{of}[])[1]::text AS element",
                    value=sql.json(row["value"]) if name in ("json", "jsonb") else row["value"],
                    list=[json.dumps(row["value"])] if name in ("json", "jsonb") else row["list"],
                    of=sql.raw(typed(name)),
                )
                for (name, _), row in zip(CASES, rows, strict=True)
            ),
        ]
    )
    assert back.results is not None
    changed = []
    for (name, text), row, result in zip(CASES, rows, back.results[1:], strict=True):
        again = result.rows[0]
        texts = [row["text"], again["text"], again["element"]]
        if name == "json":
            texts = [json.dumps(json.loads(each)) for each in texts]
        if name == "interval":
            # A day counts as 24 hours in a timedelta, as it does when PostgreSQL compares.
            texts = [repr(decode_value(each, 1186)) for each in texts]
        if len(set(texts)) != 1:
            changed.append((name, text, *texts))
    assert changed == []


def test_hours_are_hours_over_a_change_of_the_clock(hw: Highwater) -> None:
    noon = datetime(2026, 3, 29, 10, tzinfo=UTC)
    for hours in (-12, 12, -36, 36):
        results = hw.transaction(
            [
                sql("SET LOCAL TimeZone TO 'UTC'" if abs(hours) > 24 else "SET LOCAL TimeZone TO 'Europe/Berlin'"),
                sql("SELECT {at}::timestamptz + {by}::interval AS sum", at=noon, by=timedelta(hours=hours)),
            ]
        ).results
        assert results is not None
        assert results[1].rows == [{"sum": noon + timedelta(hours=hours)}]


def test_raw_leaves_text_and_decoders_of_ones_own_hold_on_the_way(real_system: System) -> None:
    endpoint = real_system.endpoints[0]
    query = sql("SELECT 1.50::numeric AS a, ARRAY[1.50::numeric] AS b, now() AS c")
    with Highwater(endpoints=[Endpoint(endpoint.gateway, endpoint.tracker)], types="raw") as raw:
        row = raw.transaction(query).rows[0]
        assert (row["a"], row["b"]) == ("1.50", "{1.50}")
        assert isinstance(row["c"], str)
    with Highwater(endpoints=[Endpoint(endpoint.gateway, endpoint.tracker)], types={1700: float}) as own:
        row = own.transaction(query).rows[0]
        assert (row["a"], row["b"]) == (1.5, [1.5])
