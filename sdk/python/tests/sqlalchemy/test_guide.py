"""The program of the guide runs on the real system, and its types are right."""

from __future__ import annotations

import re
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.guides import assert_typed
from tests.sqlalchemy.conftest import url_of
from tests.system import REPOSITORY, System

GUIDE = REPOSITORY / "docs/guide/sqlalchemy.md"
PRINTS = """committed: committed
durable
now the e-mail can go out
now: 2000
durable: ['Ada', 'Bert', 'Cleo', 'Dora']
"""


def program() -> str:
    return "\n".join(re.findall(r"^```python\n(.*?)^```", GUIDE.read_text(), re.DOTALL | re.MULTILINE))


def test_the_program_of_the_guide(system: System, capsys: pytest.CaptureFixture[str]) -> None:
    text = program()
    for name in ("highwater", "highwater+async"):
        url = url_of(system, name).render_as_string(hide_password=False)
        assert f'"{name}://:API_KEY@highwater.example"' in text
        text = text.replace(f'"{name}://:API_KEY@highwater.example"', repr(url))
    namespace: dict[str, Any] = {"__name__": "guide"}
    # SQLAlchemy looks up the types of mapped classes in their module.
    module = type(sys)("guide")
    module.__dict__.update(namespace)
    sys.modules["guide"] = module
    try:
        exec(compile(text, str(GUIDE), "exec"), module.__dict__)
    finally:
        del sys.modules["guide"]
        system.command("query", sql="DROP TABLE IF EXISTS purchase, buyer")
    assert capsys.readouterr().out == PRINTS


def test_its_types(tmp_path: Path) -> None:
    assert_typed(program(), tmp_path)
