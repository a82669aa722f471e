"""Runs SQLAlchemy's suite for dialects, and prints a line of JSON for each test."""

import json
from typing import Any

from sqlalchemy.testing.plugin.pytestplugin import *  # noqa: F403
from sqlalchemy.testing.plugin.pytestplugin import pytest_sessionfinish as _finish

_seen: dict[str, str] = {}


def pytest_runtest_logreport(report: Any) -> None:
    """A test's result is the worst of its setup, its call and its teardown."""
    name = report.nodeid.split("::", 1)[-1]
    if report.failed:
        # Only its beginning: the rest may contain sets in any order.
        message = getattr(getattr(report.longrepr, "reprcrash", None), "message", "")
        _seen[name] = f"{report.when} failed: {message.split(':')[0]}"
    elif name not in _seen or (report.when == "call" and _seen[name] == "passed"):
        _seen[name] = report.outcome


def pytest_sessionfinish(session: Any) -> None:
    for name, result in sorted(_seen.items()):
        print("\n" + json.dumps({"case": name, "result": result}), end="")
    print()
    _finish(session)
