"""Spans of the real SDK of OpenTelemetry, made of the events of a client."""

from collections.abc import Iterator
from dataclasses import dataclass

import pytest
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.trace import SpanKind, StatusCode, format_trace_id

from highwater import opentelemetry as traces
from highwater._core.errors import HighwaterError, StatementError, connection_error
from highwater._core.observer import ObservedEnd, ObservedEvent, notify
from highwater.opentelemetry import tracing

ID = "0198c000-0000-7000-8000-000000000001"


@dataclass(frozen=True)
class Traces:
    provider: TracerProvider
    exporter: InMemorySpanExporter

    def spans(self) -> dict[str, ReadableSpan]:
        return {span.name: span for span in self.exporter.get_finished_spans()}


@pytest.fixture
def traced() -> Iterator[Traces]:
    provider = TracerProvider()
    exporter = InMemorySpanExporter()
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    yield Traces(provider, exporter)
    provider.shutdown()


def test_calls_are_children_of_the_current_span_and_their_context_goes_out(traced: Traces) -> None:
    observe = tracing(tracer_provider=traced.provider)
    with traced.provider.get_tracer("test").start_as_current_span("request") as request:
        for kind in ("begin", "statements", "commit"):
            event = ObservedEvent(type=kind, id=ID, statements=2)
            end = notify(observe, event)
            trace_id, span_id = event.headers["traceparent"].split("-")[1:3]
            assert trace_id == format_trace_id(request.get_span_context().trace_id)
            end(ObservedEnd(state="committed" if kind == "commit" else "active"))
            span = traced.spans()[f"highwater {kind}"]
            assert span.context is not None
            assert span_id == f"{span.context.span_id:016x}"
            assert span.parent == request.get_span_context()
            assert span.kind == SpanKind.CLIENT
            assert dict(span.attributes or {}) == {
                "db.system.name": "postgresql",
                "highwater.transaction.id": ID,
                "highwater.statements": 2,
                "highwater.state": "committed" if kind == "commit" else "active",
            }


def test_a_wait_is_a_span_beside_the_commit_and_linked_to_it(traced: Traces) -> None:
    observe = tracing(tracer_provider=traced.provider)
    with traced.provider.get_tracer("test").start_as_current_span("request") as request:
        notify(observe, ObservedEvent(type="commit", id=ID))(ObservedEnd(state="committed"))
    notify(observe, ObservedEvent(type="durable", id=ID, level="region", waited=1.5))
    commit, durable = traced.spans()["highwater commit"], traced.spans()["highwater durable"]
    assert [link.context for link in durable.links] == [commit.context]
    assert durable.parent == request.get_span_context()
    assert durable.start_time is not None
    assert durable.end_time is not None
    assert durable.end_time - durable.start_time == 1_500_000_000
    assert durable.status.status_code == StatusCode.UNSET
    assert durable.attributes is not None
    assert durable.attributes["highwater.level"] == "region"


@pytest.mark.parametrize(
    ("kind", "status"), [("lost", StatusCode.ERROR), ("broken", StatusCode.ERROR), ("timeout", StatusCode.UNSET)]
)
def test_how_a_wait_ended_shows(traced: Traces, kind: str, status: StatusCode) -> None:
    observe = tracing(tracer_provider=traced.provider)
    notify(observe, ObservedEvent(type=kind, id=ID, level="region", waited=0.001))  # type: ignore[arg-type]
    span = traced.spans()["highwater durable"]
    assert span.status.status_code == status
    assert span.parent is None
    assert list(span.links) == []
    assert span.attributes is not None
    assert span.attributes["highwater.outcome"] == kind


def test_retries_are_events_of_the_call_and_an_error_is_its_status(traced: Traces) -> None:
    observe = tracing(tracer_provider=traced.provider)
    failure: HighwaterError = connection_error("connection_failed", "no answer", sent=True)
    end = notify(observe, ObservedEvent(type="commit", id=ID))
    notify(observe, ObservedEvent(type="retry", id=ID, attempt=1, error=failure))
    end(ObservedEnd(error=failure))
    notify(observe, ObservedEvent(type="retry", id=ID, attempt=2, error=failure))
    span = traced.spans()["highwater commit"]
    assert [(event.name, dict(event.attributes or {})) for event in span.events] == [
        ("retry", {"highwater.attempt": 1, "error.type": "connection_failed", "highwater.error.outcome": "unknown"})
    ]
    assert span.status.status_code == StatusCode.ERROR
    assert span.attributes is not None
    assert span.attributes["error.type"] == "connection_failed"


@pytest.mark.parametrize("error", [ValueError("a secret"), None])
def test_a_failed_call_shows_the_code_and_no_values(traced: Traces, error: ValueError | None) -> None:
    refused = error or StatementError(
        'invalid input syntax for type integer: "a secret"',
        code="statement_failed",
        outcome="not_applied",
        retry="never",
        sqlstate="22P02",
    )
    notify(tracing(tracer_provider=traced.provider), ObservedEvent(type="commit", id=ID))(ObservedEnd(error=refused))
    span = traced.spans()["highwater commit"]
    assert span.status.description == ("ValueError" if error else "statement_failed")
    assert "secret" not in span.to_json()


def test_memory_of_commits_is_bounded(traced: Traces, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(traces, "_COMMITS_MAX", 2)
    observe = tracing(tracer_provider=traced.provider)
    for name in ("a", "b", "c"):
        notify(observe, ObservedEvent(type="commit", id=name))(ObservedEnd(state="committed"))
    for name in ("a", "b", "c"):
        notify(observe, ObservedEvent(type="durable", id=name, waited=0.001))
    spans = [span for span in traced.exporter.get_finished_spans() if span.name == "highwater durable"]
    assert [len(span.links) for span in spans] == [0, 1, 1]


def test_a_propagator_of_ones_own(traced: Traces) -> None:
    from opentelemetry.baggage.propagation import W3CBaggagePropagator

    event = ObservedEvent(type="commit", id=ID)
    notify(tracing(tracer_provider=traced.provider, propagator=W3CBaggagePropagator()), event)(ObservedEnd())
    assert event.headers == {}
