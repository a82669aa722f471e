"""Settings of every test, and the real system for those that need one.

Properties have no deadline, for the machine is shared, and leave no files behind.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from hypothesis import settings

# pytest finds hooks in this module by their names.
from tests.skips import pytest_make_collect_report, pytest_runtest_makereport  # noqa: F401
from tests.system import System

settings.register_profile("highwater", deadline=None, database=None, print_blob=True)
settings.load_profile("highwater")


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Whatever asks for the real system is marked ``real``, so that no test can forget to."""
    for item in items:
        if "real_system" in getattr(item, "fixturenames", ()):
            item.add_marker("real")


@pytest.fixture(scope="session")
def real_system() -> Iterator[System]:
    """Started by the first test that asks for it."""
    system = System()
    yield system
    system.close()


@pytest.fixture
def system(real_system: System) -> Iterator[System]:
    """The real system; whatever a test broke is mended after it."""
    yield real_system
    real_system.command("mend")
