"""Both clients on the real system, traced: what a user sees of one request."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable, Iterator

import pytest
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.trace import Tracer

from highwater import AsyncHighwater, AsyncInteractiveTransaction, AsyncTransaction, Endpoint, Highwater, sql
from highwater.opentelemetry import tracing
from tests.system import System

LEVEL = "global"
NAMES = ["begin", "statements", "commit", "durable", "commit", "durable"]


class Traced:
    def __init__(self, system: System) -> None:
        self._system = system
        self.exporter = InMemorySpanExporter()
        self.provider = TracerProvider()
        self.provider.add_span_processor(SimpleSpanProcessor(self.exporter))
        nearest = system.endpoints[0]
        self.endpoints = [Endpoint(nearest.gateway, nearest.tracker)]
        self.tracer: Tracer = self.provider.get_tracer("test")

    def silence(self) -> None:
        """No mark reaches the client. A wait for what is durable already when it begins makes no span."""
        self._system.command("cut", service="tracker")

    def speak_once(self, is_waiting: Callable[[], bool]) -> None:
        deadline = time.monotonic() + 60
        while not is_waiting() and time.monotonic() < deadline:
            time.sleep(0.005)
        self._system.command("uncut", service="tracker")

    def check(self) -> None:
        spans = sorted(self.exporter.get_finished_spans(), key=lambda span: span.start_time or 0)
        [request, *own] = spans
        assert request.name == "request"
        assert [span.name for span in own] == [f"highwater {name}" for name in NAMES]
        commits = [span.context for span in own if span.name == "highwater commit"]
        assert [link.context for span in own for link in span.links] == commits
        assert [span.parent for span in own] == [request.context] * len(own)
        states = [(span.attributes or {}).get("highwater.state") for span in own]
        assert states == ["active", "active", "committed", None, "committed", None]


@pytest.fixture
def traced(system: System) -> Iterator[Traced]:
    traced = Traced(system)
    yield traced
    traced.provider.shutdown()


def test_a_request_of_the_sync_client(traced: Traced) -> None:
    observer = tracing(tracer_provider=traced.provider)
    with (
        Highwater(endpoints=traced.endpoints, level=LEVEL, observer=observer) as hw,
        traced.tracer.start_as_current_span("request"),
    ):

        def speak() -> threading.Thread:
            thread = threading.Thread(target=traced.speak_once, args=(lambda: hw.exposure.count > 0,))
            thread.start()
            return thread

        traced.silence()
        with hw.begin() as tx:
            tx.query(sql("SELECT 1"))
            tx.query(sql("SELECT 2"))
            tx.commit()
        speaking = speak()
        tx.durable()
        speaking.join()
        traced.silence()
        second = hw.transaction(sql("SELECT 3"))
        speaking = speak()
        second.durable()
        speaking.join()
    traced.check()


async def test_a_request_of_the_async_client(traced: Traced) -> None:
    observer = tracing(tracer_provider=traced.provider)
    async with AsyncHighwater(endpoints=traced.endpoints, level=LEVEL, observer=observer) as hw:
        with traced.tracer.start_as_current_span("request"):

            async def until_durable(committed: AsyncInteractiveTransaction | AsyncTransaction) -> None:
                speaking = asyncio.to_thread(traced.speak_once, lambda: hw.exposure.count > 0)
                await asyncio.gather(committed.durable(), speaking)

            traced.silence()
            async with hw.begin() as tx:
                await tx.query(sql("SELECT 1"))
                await tx.query(sql("SELECT 2"))
                await tx.commit()
            await until_durable(tx)
            traced.silence()
            await until_durable(await hw.transaction(sql("SELECT 3")))
    traced.check()
