"""What the tests of the guide's pages share."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from tests.system import REPOSITORY


def assert_typed(program: str, folder: Path) -> None:
    """Checks the program's types with the package's own settings, in an empty folder."""
    (folder / "guide.py").write_text(program)
    settings = REPOSITORY / "sdk/python/pyproject.toml"
    mypy = [sys.executable, "-m", "mypy", "--config-file", settings, "--cache-dir", REPOSITORY / ".mypy_cache"]
    done = subprocess.run(
        [*map(str, mypy), str(folder / "guide.py")],
        cwd=REPOSITORY / "sdk/python",
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout
