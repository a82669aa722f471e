"""The programs in the README."""

from __future__ import annotations

import re
from pathlib import Path

README = Path(__file__).resolve().parents[1] / "README.md"
_BLOCK = re.compile(r"^```python\n(.*?)^```", re.DOTALL | re.MULTILINE)
_SERVICE = '"https://highwater.example"'


def programs() -> list[str]:
    return _BLOCK.findall(README.read_text())


def with_service(program: str, gateway: str, tracker: str) -> str:
    """The program as it is run here, where gateway and tracker have addresses of their own."""
    endpoint = f"endpoints=[__import__('highwater').Endpoint({gateway!r}, {tracker!r})]"
    # The second store of an example is the same database here.
    return program.replace(_SERVICE, endpoint).replace(_SERVICE.replace("highwater", "billing"), endpoint)
