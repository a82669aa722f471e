"""The real system, for tests that are marked ``real``: three regions on this machine, and faults on demand.

``sdk/conformance/host.ts`` starts it and says which faults there are. It ends with this process, whose end closes its
standard input.
"""

from __future__ import annotations

import json
import re
import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx

REPOSITORY = Path(__file__).resolve().parents[3]
#: A failover on a busy machine, and the way back.
_COMMAND_TIMEOUT_S = 300


@dataclass(frozen=True, slots=True)
class Endpoint:
    region: str
    gateway: str
    tracker: str


class System:
    """One real system. Tests share it: each names its own tables, and repairs what it breaks."""

    def __init__(self) -> None:
        self._process = subprocess.Popen(
            [REPOSITORY / "node_modules/.bin/node", REPOSITORY / "sdk/conformance/host.ts"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        if line == "":
            raise RuntimeError(f"the system did not start: code {self._process.wait()}")
        self._control = str(json.loads(line)["control"])

    def describe(self) -> Any:
        """As it is now: ``endpoints`` with the primary's region first, ``regions``, ``primary``, ``database``."""
        return self._answer(httpx.get(self._control, timeout=_COMMAND_TIMEOUT_S))

    @property
    def endpoints(self) -> list[Endpoint]:
        """Those of the primary's region first."""
        return [Endpoint(**each) for each in self.describe()["endpoints"]]

    def command(self, name: str, /, **options: object) -> Any:
        """A fault, a mend, or ``query``: the comment at the top of the host lists them."""
        return self._answer(httpx.post(f"{self._control}/{name}", json=options, timeout=_COMMAND_TIMEOUT_S))

    def _answer(self, response: httpx.Response) -> Any:
        if response.status_code != 200:
            raise RuntimeError(response.json()["error"])
        return response.json()

    def close(self) -> None:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.close()
        self._process.wait()
        self._process.stdout.close()


def app_address(system: System) -> str:
    """The primary's, for role `app`."""
    return re.sub(r"//[^@]*@", "//app@", str(system.describe()["database"]))
