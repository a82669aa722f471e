"""Every program of the README runs, on the real system, and does what its comments say."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import pytest

from highwater import Endpoint, Highwater, sql
from tests.readme import programs, with_service
from tests.system import System

PROGRAMS = programs()
#: Of the program that stands at this place in the README: what it prints.
PRINTS = {
    0: r"\[\{'balance': 90\}\]\n",
    1: r"",
    2: r"to customer@example.org\n",
    3: r"\[\{'text': 'hello'\}\] Served\(.*\)\n(durable\n)+",
    4: r"",
    5: r"",
    6: r"",
    7: r"",
}


@pytest.fixture(scope="module")
def prepared(real_system: System) -> Iterator[System]:
    endpoint = real_system.endpoints[0]
    with Highwater(endpoints=[Endpoint(endpoint.gateway, endpoint.tracker)]) as hw:
        hw.transaction(
            [
                sql("CREATE TABLE account (id int PRIMARY KEY, balance int8 NOT NULL)"),
                sql("INSERT INTO account SELECT i, 100 FROM generate_series(1, 9) AS i"),
                sql("CREATE TABLE email (receiver text)"),
                sql("CREATE TABLE counter (n int)"),
                sql("INSERT INTO counter VALUES (0)"),
                sql("CREATE TABLE note (text text)"),
            ],
            ack="durable",
            level="global",
        )
    yield real_system
    real_system.command("query", sql="DROP TABLE account, email, counter, note")


def test_every_program_is_expected_to_print_something() -> None:
    assert list(PRINTS) == list(range(len(PROGRAMS)))


@pytest.mark.parametrize("index", range(len(PROGRAMS)))
def test_a_program_of_the_readme(prepared: System, index: int, capsys: pytest.CaptureFixture[str]) -> None:
    endpoint = prepared.endpoints[0]
    program = with_service(PROGRAMS[index], endpoint.gateway, endpoint.tracker)
    namespace: dict[str, Any] = {"__name__": "__main__"}
    exec(compile(program, f"README.md, program {index}", "exec"), namespace)
    assert re.fullmatch(PRINTS[index], capsys.readouterr().out)


def test_what_they_did_is_there(prepared: System) -> None:
    [row] = prepared.command(
        "query", sql="SELECT (SELECT sum(balance)::int FROM account) AS sum, (SELECT n FROM counter) AS n"
    )
    assert row == {"sum": 900 - 10 + 3 - 10, "n": 2}
    assert prepared.command("query", sql="SELECT receiver FROM email") == [{"receiver": "customer 80"}]
