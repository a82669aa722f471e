"""Runs the settler, and kills it as a power failure would: before, within or after a step of its own.

    die_at.py take|verdicts|acknowledge|leave before|within|after

Only where the step has something to do: a settler that dies idle shows nothing.
"""

from __future__ import annotations

import importlib
import os
import signal
import sys
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parent.parent))
settle = importlib.import_module("settle")
step, when = sys.argv[1:]
owner = settle.Highwater if step == "verdicts" else settle.Queue
original = getattr(owner, step)


def die() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def die_at_insert(statement: str) -> None:
    if statement.startswith("INSERT INTO settlement"):
        die()


def dying(self: Any, *args: Any, **options: Any) -> Any:
    has_work = step == "take" or len(args[0]) > 0
    if has_work and when == "before":
        die()
    if has_work and when == "within":
        self._file.set_trace_callback(die_at_insert)
    result = original(self, *args, **options)
    if has_work and when == "after" and (step != "take" or result):
        die()
    return result


setattr(owner, step, dying)
settle.main()
