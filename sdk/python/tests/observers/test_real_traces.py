"""Both clients on the real system, traced: what a user sees of one request."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.trace import Tracer

from highwater import AsyncHighwater, Endpoint, Highwater, sql
from highwater.opentelemetry import tracing
from tests.system import System

# What is durable already when somebody waits for it makes no span, so the level is one that takes a while.
LEVEL = "global"
NAMES = ["begin", "statements", "commit", "durable", "commit", "durable"]


class Traced:
    def __init__(self, system: System) -> None:
        self.exporter = InMemorySpanExporter()
        self.provider = TracerProvider()
        self.provider.add_span_processor(SimpleSpanProcessor(self.exporter))
        self.endpoints = [Endpoint(each.gateway, each.tracker) for each in system.endpoints]
        self.tracer: Tracer = self.provider.get_tracer("test")

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
def traced(real_system: System) -> Iterator[Traced]:
    traced = Traced(real_system)
    yield traced
    traced.provider.shutdown()


def test_a_request_of_the_sync_client(traced: Traced) -> None:
    observer = tracing(tracer_provider=traced.provider)
    with (
        Highwater(endpoints=traced.endpoints, level=LEVEL, observer=observer) as hw,
        traced.tracer.start_as_current_span("request"),
    ):
        with hw.begin() as tx:
            tx.query(sql("SELECT 1"))
            tx.query(sql("SELECT 2"))
            tx.commit()
        tx.durable()
        hw.transaction(sql("SELECT 3")).durable()
    traced.check()


async def test_a_request_of_the_async_client(traced: Traced) -> None:
    observer = tracing(tracer_provider=traced.provider)
    async with AsyncHighwater(endpoints=traced.endpoints, level=LEVEL, observer=observer) as hw:
        with traced.tracer.start_as_current_span("request"):
            async with hw.begin() as tx:
                await tx.query(sql("SELECT 1"))
                await tx.query(sql("SELECT 2"))
                await tx.commit()
            await tx.durable()
            await (await hw.transaction(sql("SELECT 3"))).durable()
    traced.check()
