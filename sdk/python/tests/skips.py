"""Fails a test or a module that is skipped, or a test that is expected to fail, without a reason.

``scripts/test-ends.ts`` does the same for Node's tests.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from collections.abc import Generator

# How pytest reports that there is no reason.
NO_REASON = {"", "reason:", "Skipped", "Skipped:", "Skipped: unconditional skip"}


def _require_reason(report: pytest.TestReport | pytest.CollectReport) -> None:
    if not report.skipped:
        return
    skipped = report.longrepr[2] if isinstance(report.longrepr, tuple) else ""
    if getattr(report, "wasxfail", skipped).strip() in NO_REASON:
        report.outcome = "failed"
        report.longrepr = f"{report.nodeid} is skipped or expected to fail without a reason: give one, as reason=..."


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtest_makereport() -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """A test."""
    report = yield
    _require_reason(report)
    return report


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_make_collect_report() -> Generator[None, pytest.CollectReport, pytest.CollectReport]:
    """A module."""
    report = yield
    _require_reason(report)
    return report
