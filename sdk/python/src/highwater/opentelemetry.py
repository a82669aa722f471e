"""Traces for OpenTelemetry: an observer for a client. Needs ``highwater-sdk[opentelemetry]``.

Calls are spans ``highwater begin``, ``highwater statements`` and ``highwater commit``, children of
the span that is current when the call is made. The propagator's headers carry their context with
each request. A wait for durability is a span ``highwater durable`` beside the commit and linked to
it, because the commit ends long before and another part of the program may wait.
"""

from __future__ import annotations

import threading
import time
from collections import OrderedDict
from typing import Final

from opentelemetry import context as contexts
from opentelemetry import propagate, trace
from opentelemetry.context import Context
from opentelemetry.propagators.textmap import TextMapPropagator
from opentelemetry.trace import Link, Span, SpanContext, SpanKind, StatusCode, Tracer, TracerProvider
from opentelemetry.util.types import AttributeValue

from ._core.errors import HighwaterError
from ._core.observer import EndObserver, ObservedEnd, ObservedEvent, Observer

__all__ = ["tracing"]

# Number of commits remembered for the spans of their waits. The oldest are forgotten first.
_COMMITS_MAX: Final = 10_000
_CALLS: Final = ("begin", "statements", "commit")
_WAITS: Final = ("durable", "lost", "broken", "timeout")


def tracing(*, tracer_provider: TracerProvider | None = None, propagator: TextMapPropagator | None = None) -> Observer:
    """Returns an observer that makes spans.

    A call that fails, a loss and a broken promise have the status ERROR, with the error's code.
    Spans contain neither values nor statement text.

    Args:
        tracer_provider: Tracer provider. Default: the global one.
        propagator: Propagator that adds a span's context to request headers. Default: the global
            one.

    Example:
        with Highwater("https://highwater.example", observer=tracing()) as traced:
            tx = traced.transaction(sql("SELECT 1"))  # span "highwater commit"
            tx.durable()  # span "highwater durable", linked to it
    """
    return _Tracing(trace.get_tracer("highwater", tracer_provider=tracer_provider), propagator)


class _Tracing:
    def __init__(self, tracer: Tracer, propagator: TextMapPropagator | None) -> None:
        self._tracer = tracer
        self._propagator = propagator
        self._lock = threading.Lock()
        # By id: the span and the context of each commit; and the calls in progress, for their
        # retries.
        self._commits: OrderedDict[str, tuple[SpanContext, Context]] = OrderedDict()
        self._calls: dict[str, Span] = {}

    def __call__(self, event: ObservedEvent) -> EndObserver | None:
        if event.type in _CALLS:
            return self._call(event)
        if event.type in _WAITS:
            self._waited(event)
        elif event.type == "retry" and event.id is not None:
            with self._lock:
                span = self._calls.get(event.id)
            if span is not None:
                span.add_event("retry", _present({"highwater.attempt": event.attempt, **_error_of(event.error)}))
        return None

    def _call(self, event: ObservedEvent) -> EndObserver:
        parent = contexts.get_current()
        span = self._tracer.start_span(
            f"highwater {event.type}",
            context=parent,
            kind=SpanKind.CLIENT,
            attributes=_present({**_about(event), "highwater.statements": event.statements}),
        )
        carried = trace.set_span_in_context(span, parent)
        if self._propagator is None:
            propagate.inject(event.headers, context=carried)
        else:
            self._propagator.inject(event.headers, context=carried)
        with self._lock:
            if event.id is not None:
                self._calls[event.id] = span
                if event.type == "commit":
                    self._remember(event.id, span.get_span_context(), parent)

        def ended(end: ObservedEnd) -> None:
            with self._lock:
                if event.id is not None and self._calls.get(event.id) is span:
                    del self._calls[event.id]
            if end.state is not None:
                span.set_attribute("highwater.state", end.state)
            _fail(span, end.error)
            span.end()

        return ended

    def _remember(self, transaction_id: str, commit: SpanContext, parent: Context) -> None:
        self._commits[transaction_id] = (commit, parent)
        self._commits.move_to_end(transaction_id)
        if len(self._commits) > _COMMITS_MAX:
            self._commits.popitem(last=False)

    def _waited(self, event: ObservedEvent) -> None:
        with self._lock:
            commit, parent = self._commits.get(event.id or "", (None, None))
        end_ns = time.time_ns()
        span = self._tracer.start_span(
            "highwater durable",
            context=Context() if parent is None else parent,
            links=[] if commit is None else [Link(commit)],
            attributes=_present({**_about(event), "highwater.outcome": event.type}),
            start_time=end_ns - int((event.waited or 0) * 1_000_000_000),
        )
        if event.type in ("lost", "broken"):
            span.set_status(StatusCode.ERROR, event.type)
        _fail(span, event.error)
        span.end(end_ns)


def _about(event: ObservedEvent) -> dict[str, AttributeValue | None]:
    return {
        "db.system.name": "postgresql",
        "highwater.transaction.id": event.id,
        "highwater.level": event.level,
        "highwater.rule": None if event.verdict is None else event.verdict.rule,
    }


def _present(attributes: dict[str, AttributeValue | None]) -> dict[str, AttributeValue]:
    return {name: value for name, value in attributes.items() if value is not None}


def _error_of(error: BaseException | None) -> dict[str, AttributeValue | None]:
    if not isinstance(error, HighwaterError):
        return {"error.type": None if error is None else type(error).__qualname__}
    return {
        "error.type": error.code,
        "highwater.error.outcome": error.outcome,
        "db.response.status_code": error.sqlstate,
    }


def _fail(span: Span, error: BaseException | None) -> None:
    if error is None:
        return
    attributes = _present(_error_of(error))
    span.set_attributes(attributes)
    # Not the error's message: PostgreSQL quotes values in its own.
    span.set_status(StatusCode.ERROR, str(attributes["error.type"]))
