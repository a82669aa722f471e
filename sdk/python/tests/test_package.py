"""Goal: what is published works. Method: build it, install it in environments that have nothing else, and use it there.

Nothing is fetched: the wheels of what it needs lie beside the project's own environment.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tarfile
import venv
import zipfile
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.readme import programs, with_service
from tests.system import REPOSITORY, System

pytestmark = pytest.mark.package

SDK = REPOSITORY / "sdk/python"
WHEELS = REPOSITORY / ".venv/wheels"
BARE_PACKAGES = {"anyio", "certifi", "h11", "highwater_sdk", "httpcore", "httpx", "idna", "typing_extensions"}

USER_PROGRAM = """
import asyncio
from typing import Any, assert_type

from highwater import AsyncHighwater, AsyncTransaction, Highwater, Transaction, Verdict, sql
from highwater.webhooks import VerifiedWebhook, verify


def run(hw: Highwater) -> None:
    tx = hw.transaction(sql("SELECT {n}", n=1), ack="durable")
    assert_type(tx, Transaction)
    assert_type(tx.rows[0], dict[str, Any])
    assert_type(tx.durable(level="region", timeout=1.5), Verdict)
    assert_type(hw.transact(lambda inner: inner.query(sql("SELECT 1")).row_count), int)
    assert_type(verify(b"", {}, "whsec_"), VerifiedWebhook)
    hw.transaction(sql("SELECT 1"), ack="sometime")  # error: the word is none of the protocol
    hw.transaction("SELECT 1")  # error: text alone may be anybody's


async def run_async(hw: AsyncHighwater) -> None:
    tx = await hw.transaction(sql("SELECT {n}", n=1))
    assert_type(tx, AsyncTransaction)
    assert_type(await tx.durable(), Verdict)
    async with asyncio.timeout(1), hw.begin() as inner:
        await inner.commit()
"""


def run(*command: str | Path, cwd: Path, expected: int | None = 0, path: Path | None = None) -> str:
    """What the program prints. It sees neither the repository nor the environment of the tests."""
    environment = {name: value for name, value in os.environ.items() if name not in ("PYTHONPATH", "VIRTUAL_ENV")}
    if path is not None:
        environment["PATH"] = f"{path}{os.pathsep}{environment['PATH']}"
    done = subprocess.run(
        [str(each) for each in command], cwd=cwd, env=environment, capture_output=True, text=True, check=False
    )
    assert expected in (None, done.returncode), f"{done.stdout}\n{done.stderr}"
    return done.stdout


@dataclass(frozen=True)
class Built:
    wheel: Path
    sdist: Path


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Built:
    """The wheel is built of the source distribution, so neither lacks what the other has."""
    dist = tmp_path_factory.mktemp("dist")
    run(sys.executable, "-m", "build", "--no-isolation", "--outdir", dist, SDK, cwd=dist)
    [wheel], [sdist] = dist.glob("*.whl"), dist.glob("*.tar.gz")
    return Built(wheel, sdist)


class Environment:
    """An empty environment with what is installed into it."""

    def __init__(self, path: Path, *requirements: str) -> None:
        venv.create(path, with_pip=False)
        self.python = path / "bin/python"
        install = ("-m", "pip", "--python", self.python, "install", "--quiet", "--no-index", "--find-links", WHEELS)
        run(sys.executable, *install, *requirements, cwd=path)


@pytest.fixture(scope="module")
def bare(built: Built, tmp_path_factory: pytest.TempPathFactory) -> Environment:
    return Environment(tmp_path_factory.mktemp("bare"), str(built.wheel))


@pytest.fixture(scope="module")
def full(built: Built, tmp_path_factory: pytest.TempPathFactory) -> Environment:
    """From the source distribution, with all extras."""
    return Environment(tmp_path_factory.mktemp("full"), f"{built.sdist}[sqlalchemy,opentelemetry]")


def test_what_is_in_the_archives(built: Built) -> None:
    with zipfile.ZipFile(built.wheel) as wheel:
        files = {name for name in wheel.namelist() if ".dist-info/" not in name}
        assert any(name.endswith("/LICENSE") for name in wheel.namelist())
    sources = SDK / "src"
    assert files == {
        path.relative_to(sources).as_posix()
        for path in sources.rglob("*")
        if path.is_file() and "__pycache__" not in path.parts
    }
    assert "highwater/py.typed" in files
    with tarfile.open(built.sdist) as sdist:
        roots = {"/".join(name.split("/")[1:3]) for name in sdist.getnames()}
    assert roots == {"PKG-INFO", "LICENSE", "README.md", "pyproject.toml", "src/highwater", ".gitignore"}


def test_nothing_but_httpx_comes_along_and_every_module_without_extras_imports(
    bare: Environment, tmp_path: Path
) -> None:
    names = "import importlib.metadata as m; print(*sorted(d.name.replace('-', '_') for d in m.distributions()))"
    installed = run(bare.python, "-I", "-c", names, cwd=tmp_path).split()
    assert set(installed) <= BARE_PACKAGES
    assert "httpx" in installed
    script = (
        "import highwater, highwater.webhooks, highwater.errors\n"
        "print(highwater.__file__)\n"
        "try:\n    import highwater.opentelemetry\n"
        "except ModuleNotFoundError as error:\n    print(error.name)\n"
    )
    where, missing = run(bare.python, "-I", "-W", "error", "-c", script, cwd=tmp_path).splitlines()
    assert Path(where).is_relative_to(bare.python.parents[1])
    assert missing == "opentelemetry"


def test_the_quick_start_runs_in_an_empty_environment(bare: Environment, tmp_path: Path, real_system: System) -> None:
    create = "CREATE TABLE account AS SELECT 1 AS id, 100::int8 AS balance"
    real_system.command("query", sql=create)
    real_system.command("query", sql="GRANT ALL ON account TO PUBLIC")
    endpoint = real_system.endpoints[0]
    program = tmp_path / "quick_start.py"
    program.write_text(with_service(programs()[0], endpoint.gateway, endpoint.tracker))
    try:
        assert run(bare.python, "-I", "-W", "error", program, cwd=tmp_path) == "[{'balance': 90}]\n"
    finally:
        real_system.command("query", sql="DROP TABLE account")


def test_programs_of_users_pass_mypy_strict(full: Environment, tmp_path: Path) -> None:
    mypy = (
        sys.executable,
        "-m",
        "mypy",
        "--strict",
        "--python-executable",
        full.python,
        "--cache-dir",
        tmp_path / "cache",
    )
    for index, program in enumerate(programs()):
        (tmp_path / f"readme_{index}.py").write_text(program)
    files = [f"readme_{index}.py" for index in range(len(programs()))]
    run(*mypy, *files, cwd=tmp_path)
    (tmp_path / "user.py").write_text(USER_PROGRAM)
    faults = run(*mypy, "user.py", cwd=tmp_path, expected=1).splitlines()
    wrong = [line for line, text in enumerate(USER_PROGRAM.splitlines(), start=1) if "# error" in text]
    assert [int(fault.split(":")[1]) for fault in faults if ": error: " in fault] == wrong


def test_sqlalchemy_finds_the_dialect_by_its_name_alone(full: Environment, tmp_path: Path) -> None:
    script = (
        "from sqlalchemy import create_engine\n"
        "from sqlalchemy.ext.asyncio import create_async_engine\n"
        "engines = create_engine('highwater://:key@localhost'), create_async_engine('highwater+async://:key@localhost')\n"
        "print(*(type(engine.dialect).__name__ for engine in engines))\n"
    )
    found = run(full.python, "-I", "-W", "error", "-c", script, cwd=tmp_path)
    assert found == "HighwaterDialect AsyncHighwaterDialect\n"


def public_modules() -> list[str]:
    names = (path.stem for path in (SDK / "src/highwater").iterdir() if path.suffix == ".py" or path.is_dir())
    return ["highwater", *sorted(f"highwater.{name}" for name in names if not name.startswith("_"))]


def test_the_types_of_every_public_module_are_complete(full: Environment, tmp_path: Path) -> None:
    pyright = (REPOSITORY / "node_modules/.bin/node", (SDK / "node_modules/.bin/pyright").resolve())
    options = ("--verifytypes", "highwater", "--ignoreexternal", "--outputjson")
    found = json.loads(run(*pyright, *options, cwd=tmp_path, path=full.python.parent, expected=None))
    faults = [fault for symbol in found["typeCompleteness"]["symbols"] for fault in symbol["diagnostics"]]
    assert [fault for fault in faults if fault["severity"] == "error"] == []
    assert found["typeCompleteness"]["completenessScore"] == 1
    assert {module["name"] for module in found["typeCompleteness"]["modules"]} >= set(public_modules())
