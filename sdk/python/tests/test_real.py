"""The real system starts, reports the truth, and recovers."""

import pytest

from tests.system import System


def test_the_system_of_the_tests(system: System) -> None:
    assert len(system.endpoints) == 3
    assert system.command("query", sql="SELECT 1 AS one") == [{"one": 1}]
    with pytest.raises(RuntimeError, match="no command"):
        system.command("explode")
