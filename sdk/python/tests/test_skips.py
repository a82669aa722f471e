"""A run of pytest refuses what is skipped without a reason, and takes what has one."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

TESTS = """
import pytest

@pytest.mark.skip({reason})
def test_mark(): ...

def test_call():
    pytest.skip({reason})

@pytest.mark.xfail({reason})
def test_xfail():
    raise AssertionError
"""
MODULE = "import pytest\npytest.skip(allow_module_level=True, {reason})\n"


@pytest.mark.parametrize(
    ("reason", "ends"),
    [
        ("", "2 failed, 2 errors"),
        ("reason=' '", "2 failed, 2 errors"),
        ("reason='needs a moon'", "3 skipped, 1 xfailed"),
    ],
)
def test_reasons_are_required(tmp_path: Path, reason: str, ends: str) -> None:
    (tmp_path / "test_tests.py").write_text(TESTS.format(reason=reason))
    (tmp_path / "test_module.py").write_text(MODULE.format(reason=reason))
    args = ["-c", os.devnull, "-p", "no:cacheprovider", "-p", "tests.skips", "--continue-on-collection-errors"]
    ended = subprocess.run(
        [sys.executable, "-m", "pytest", *args, str(tmp_path)],
        cwd=Path(__file__).parents[1],
        env={**os.environ, "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert f" {ends} in " in ended.stdout, ended.stdout
