"""Goal: the examples in the docstrings, which the reference shows, run as they are printed, and their types are right.

Method: what reads the docstrings for the reference gives the examples. Each runs on the real system, with a client and
the names that its reader has imported.
"""

from __future__ import annotations

import asyncio
import importlib
import json
import re
import subprocess
import sys
import textwrap
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from highwater import AsyncHighwater, Endpoint, Highwater, sql
from tests.readme import with_service
from tests.system import REPOSITORY, System, app_address

READER = REPOSITORY / "scripts/reference/sdk/python.py"
#: What a reader of an example has imported besides the names of its module.
IMPORTS = """
import asyncio
import threading
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor

from highwater import *
"""
#: What some of them print; the others need only end well.
PRINTS = {
    "highwater": r"durable\n",
    "AsyncHighwater.transaction": r"3 are durable\n",
    "DurabilityPromise.durable": r"",
    "DurabilityPromise.after_durable": r"now the e-mail can go out\n",
    "Highwater.transaction": r"durable\n",
    "Highwater.verdicts": r"region durable\n",
    "HighwaterError": r"constraint_violation not_applied never account_pkey\n",
    "Session": r"True Served\(.*\)\n(?:durable\n|pending\n)+",
    "Sql": r"SELECT id FROM account WHERE balance >= \$1 AND id = \$2 \(10, 1\)\n",
    "sql": r"\[\{'id': 1\}, \{'id': 2\}, \{'id': 3\}\]\n",
}


@dataclass(frozen=True)
class Example:
    name: str
    module: str
    code: str

    @property
    def is_async(self) -> bool:
        return "await " in self.code or "async with" in self.code

    def as_function(self, name: str) -> str:
        """The example as the body of a function that has a client."""
        known = ("highwater", "highwater.errors", "highwater.dbapi")
        imports = "" if self.module in known else f"from {self.module} import *\n"
        client = "AsyncHighwater" if self.is_async else "Highwater"
        head = f"{'async ' if self.is_async else ''}def {name}(hw: {client}) -> None:"
        return f"{imports}\n{head}\n{textwrap.indent(self.code.strip(), '    ')}\n"


def read() -> list[Example]:
    arguments = [sys.executable, str(READER), str(REPOSITORY / "sdk/python/src")]
    done = subprocess.run(arguments, capture_output=True, text=True, check=True)
    found = []
    for module in json.loads(done.stdout):
        entries = [module, *module["entries"], *(each for e in module["entries"] for each in e.get("methods", []))]
        for entry in entries:
            found += [Example(entry["name"], module["name"], code) for code in entry["examples"]]
    return found


EXAMPLES = read()


@pytest.fixture(scope="module")
def prepared(real_system: System) -> Iterator[System]:
    endpoint = real_system.endpoints[0]
    with Highwater(endpoints=[Endpoint(endpoint.gateway, endpoint.tracker)]) as hw:
        hw.transaction(
            [
                sql("CREATE TABLE account (id int PRIMARY KEY, balance int8 NOT NULL)"),
                sql("INSERT INTO account SELECT i, 1000 FROM generate_series(1, 9) AS i"),
                sql("CREATE TABLE note (text text)"),
            ],
            ack="durable",
            level="global",
        )
    yield real_system
    real_system.command("query", sql="DROP TABLE account, note")


def test_what_prints_something_is_there() -> None:
    names = [example.name for example in EXAMPLES]
    assert set(PRINTS) <= set(names)
    assert len(names) == len(set(names)) >= 15


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda example: f"{example.module}: {example.name}")
def test_an_example(prepared: System, example: Example, capsys: pytest.CaptureFixture[str]) -> None:
    endpoint = prepared.endpoints[0]
    program = with_service(IMPORTS + example.as_function("run"), endpoint.gateway, endpoint.tracker)
    program = program.replace("postgresql://shop@127.0.0.1:5432/app", app_address(prepared))
    importlib.import_module(example.module)
    namespace: dict[str, Any] = {"__name__": "example"}
    exec(compile(program, example.name, "exec"), namespace)
    endpoints = [Endpoint(endpoint.gateway, endpoint.tracker)]
    if example.is_async:

        async def main() -> None:
            async with AsyncHighwater(endpoints=endpoints) as hw:
                await namespace["run"](hw)

        asyncio.run(main())
    else:
        with Highwater(endpoints=endpoints) as hw:
            namespace["run"](hw)
    assert re.fullmatch(PRINTS.get(example.name, r"(?s).*"), capsys.readouterr().out)


def test_their_types(tmp_path: Path) -> None:
    for index, example in enumerate(EXAMPLES):
        (tmp_path / f"example_{index}.py").write_text(IMPORTS + example.as_function("run"))
    settings = REPOSITORY / "sdk/python/pyproject.toml"
    mypy = [
        sys.executable,
        "-m",
        "mypy",
        "--config-file",
        settings,
        "--cache-dir",
        REPOSITORY / ".mypy_cache",
        tmp_path,
    ]
    done = subprocess.run(
        list(map(str, mypy)), cwd=REPOSITORY / "sdk/python", capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout
