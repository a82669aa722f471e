"""Connections to the primary of the real system, as an application has them, in the role of an application."""

from __future__ import annotations

import contextlib
import socket
import threading
import time
from collections.abc import AsyncIterator, Callable, Iterator
from typing import Self
from urllib.parse import urlsplit

import pytest

from highwater import AsyncHighwater, Endpoint, Highwater, sql
from tests.system import System

TABLES = (
    "CREATE TABLE IF NOT EXISTS enlisted (text text UNIQUE DEFERRABLE INITIALLY DEFERRED)",
    "CREATE TABLE IF NOT EXISTS late (pid int)",
    # Its COMMIT waits for a lock that a test holds, and then its connection or statement is ended.
    """CREATE OR REPLACE FUNCTION wait_here() RETURNS trigger LANGUAGE plpgsql AS
       'BEGIN PERFORM pg_advisory_xact_lock_shared(7); RETURN NULL; END'""",
    "DROP TRIGGER IF EXISTS wait_at_commit ON late",
    """CREATE CONSTRAINT TRIGGER wait_at_commit AFTER INSERT ON late DEFERRABLE INITIALLY DEFERRED
       FOR EACH ROW EXECUTE FUNCTION wait_here()""",
    "TRUNCATE enlisted, late",
)


LIMIT_S = 120


def until(condition: Callable[[], object]) -> None:
    deadline = time.monotonic() + LIMIT_S
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.02)


def count(system: System, text: str) -> int:
    [row] = system.command("query", sql=f"SELECT count(*)::int AS n FROM enlisted WHERE text LIKE '{text}'")
    return int(row["n"])


@pytest.fixture
def hw(system: System) -> Iterator[Highwater]:
    endpoints = [Endpoint(each.gateway, each.tracker) for each in system.endpoints]
    with Highwater(endpoints=endpoints, request_timeout=60, total_timeout=120) as client:
        client.transaction([sql(each) for each in TABLES], ack="durable", level="global", timeout=90)
        yield client


@pytest.fixture
async def async_hw(hw: Highwater, system: System) -> AsyncIterator[AsyncHighwater]:
    """Beside a synchronous one, which has made the tables."""
    endpoints = [Endpoint(each.gateway, each.tracker) for each in system.endpoints]
    async with AsyncHighwater(endpoints=endpoints, request_timeout=60, total_timeout=120) as client:
        yield client


class Relay:
    """Passes bytes between one client and the database; mute, it does not pass on what the database answers."""

    def __init__(self, url: str) -> None:
        parts = urlsplit(url)
        assert parts.hostname is not None
        self.is_mute = False
        self._listener = socket.create_server(("127.0.0.1", 0))
        self._place = (parts.hostname, parts.port or 5432)
        port = self._listener.getsockname()[1]
        self.address = parts._replace(netloc=f"{parts.username}@127.0.0.1:{port}").geturl()
        self._ends: list[socket.socket] = [self._listener]
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self) -> None:
        client, _ = self._listener.accept()
        server = socket.create_connection(self._place)
        self._ends += [client, server]
        threading.Thread(target=self._pass, args=(client, server, lambda: False), daemon=True).start()
        self._pass(server, client, lambda: self.is_mute)

    def _pass(self, source: socket.socket, sink: socket.socket, is_mute: Callable[[], bool]) -> None:
        try:
            while data := source.recv(65_536):
                if not is_mute():
                    sink.sendall(data)
        except OSError:
            return

    def close(self) -> None:
        for each in self._ends:
            with contextlib.suppress(OSError):
                each.shutdown(socket.SHUT_RDWR)
            each.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
