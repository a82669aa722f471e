"""The program of the guide's page runs on the real system as it is printed, and its types are right."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

from highwater import Highwater
from tests.guides import assert_typed
from tests.system import REPOSITORY, System, app_address

GUIDE = REPOSITORY / "docs/guide/enlist.md"


def blocks(kind: str) -> str:
    return "".join(re.findall(rf"^```{kind}\n(.*?)^```$", GUIDE.read_text(), re.DOTALL | re.MULTILINE))


def test_the_program_of_the_guide(system: System, hw: Highwater, tmp_path: Path) -> None:
    del hw  # it waits until the system serves
    endpoint = system.endpoints[0]
    program = blocks("python").replace("http://127.0.0.1:4600", endpoint.gateway)
    program = program.replace("http://127.0.0.1:4601", endpoint.tracker)
    shop = "postgresql+psycopg://shop@127.0.0.1:5432/app"
    address = app_address(system)
    program = program.replace(shop, address.replace("postgresql://", "postgresql+psycopg://"))
    (tmp_path / "guide.py").write_text(program.replace("postgresql://shop@127.0.0.1:5432/app", address))
    try:
        done = subprocess.run(
            [sys.executable, str(tmp_path / "guide.py")],
            cwd=REPOSITORY / "sdk/python/src",
            env={"PYTHONPATH": str(REPOSITORY / "sdk/python/src"), "PYTHONDONTWRITEBYTECODE": "1"},
            capture_output=True,
            text=True,
            check=False,
        )
    finally:
        system.command("query", sql="DROP TABLE IF EXISTS purchase")
    assert (done.stdout, done.stderr) == (blocks("text"), "")


def test_its_types(tmp_path: Path) -> None:
    assert_typed(blocks("python"), tmp_path)
