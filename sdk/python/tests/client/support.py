"""Builders that the tests share: epochs, marks, tokens, verdicts."""

from __future__ import annotations

import base64
import os
import socket
import time
import uuid as uuids
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

Json = dict[str, Any]


def uuid(n: int) -> str:
    return f"00000000-0000-4000-8000-{n:012x}"


E1, E2, E3, FORK = (uuid(n) for n in (1, 2, 3, 4))


@contextmanager
def refusing() -> Iterator[str]:
    """The address of a port that no process listens at, and that no other process can take meanwhile."""
    with socket.socket() as held:
        held.bind(("127.0.0.1", 0))
        yield f"http://127.0.0.1:{held.getsockname()[1]}"


def new_id() -> str:
    random = int.from_bytes(os.urandom(10), "big")
    value = (int(time.time() * 1_000) << 80) | random
    value = (value & ~(0xF << 76)) | (0x7 << 76)
    return str(uuids.UUID(int=(value & ~(0x3 << 62)) | (0x2 << 62)))


def token(epoch: str, offset: int, id: str | None = None) -> str:
    """A token as the service would write it: flags, key, id, epoch, parent, owner, offset, MAC."""
    place = offset.to_bytes(max(1, (offset.bit_length() + 7) // 8), "big")
    ids = uuids.UUID(id or new_id()).bytes + uuids.UUID(epoch).bytes
    parts = b"\x00\x01" + ids + bytes(32) + place + b"\xaa" * 16
    return "hw2_" + base64.urlsafe_b64encode(parts).decode().rstrip("=")


def marks(epoch: str, **levels: int) -> Json:
    return {"epoch": epoch, "seq": int(epoch[-12:], 16), "levels": {name: str(at) for name, at in levels.items()}}


def epoch(id: str, *, previous: str | None = None, fork: int = 0, start: int = 1) -> Json:
    return {
        "id": id,
        "seq": int(id[-12:], 16),
        "previous": previous,
        "node": "east",
        "cause": "first" if previous is None else "promotion",
        "startedAt": "2026-01-01T00:00:00Z",
        "startOffset": str(start),
        "forkOffset": str(fork),
        "forkLimit": None,
        "supersedes": [],
        "commanded": False,
        "finalMarks": {},
    }


def verdict_of(
    token: str, verdict: str, *, id: str = E1, epoch: str = E1, offset: int = 1, level: str = "region", **more: Any
) -> Json:
    position = {"epoch": epoch, "offset": str(offset)}
    return {"token": token, "id": id, "verdict": verdict, "level": level, "rule": "test", "position": position, **more}


def committed_body(id: str, *, epoch: str = E1, offset: int = 10, **changes: object) -> Json:
    """The answer to a transaction that committed at the offset."""
    position = {"epoch": epoch, "offset": str(offset)}
    about = {"id": id, "state": "committed", "token": token(epoch, offset, id), "position": position}
    return {**about, "results": [], "marks": None, "announced": True, **changes}


def opened_body(id: str, request: Json, **changes: object) -> Json:
    """The answer to a call that leaves the transaction open; each statement gives one row with its text."""
    results = [
        {"command": "SELECT", "rowCount": 1, "fields": [{"name": "sql", "oid": 25}], "rows": [[each["sql"]]]}
        for each in request.get("statements", ())
    ]
    about = {"id": id, "state": "active", "seq": request.get("seq", 0), "marks": None}
    return {**about, "results": results, "expiresAt": "2030-01-01T00:00:00.000Z", **changes}
