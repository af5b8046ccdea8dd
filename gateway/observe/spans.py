"""Traces of batches: OpenTelemetry, off unless it is configured, and then imported only.

A batch is a span from its selection to the moment when it is settled. A message that comes with a sampled W3C context
(header ``traceparent``) gets a span of its own in that trace, and goes on with the context of this span; the span of
the batch has links to those of its messages. A message without a context, or with one that is not sampled, goes on as
it is.
"""

from __future__ import annotations

import os
import re
import time
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import replace
from functools import cache
from typing import TYPE_CHECKING, Any

from mgw import __version__
from mgw.gateway.definitions.objects import JobDef
from mgw.transforms.errors import ConfigInvalid, GatewayError
from mgw.transforms.message import Header, Message, ValueType, find_header

if TYPE_CHECKING:
    from opentelemetry.trace import Span, Tracer

__all__ = ["BatchSpans", "log_context", "spans_of", "tracing"]

TRACEPARENT = "traceparent"
_ENDPOINTS = ("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "OTEL_EXPORTER_OTLP_ENDPOINT")
_CONTEXT = re.compile(r"00-([0-9a-f]{32})-([0-9a-f]{16})-([0-9a-f]{2})")
_LINKS = 128  # of one span, as the specification has it
_OPEN = 1000  # batches: more are not under way, and those that were divided or parked are never settled as they were

Fit = Callable[[Message], Message]


def tracing() -> bool:
    """Whether the environment asks for traces: an endpoint of a collector is set, and ``OTEL_SDK_DISABLED`` is not."""
    disabled = os.environ.get("OTEL_SDK_DISABLED", "").strip().lower() == "true"
    return not disabled and any(os.environ.get(name) for name in _ENDPOINTS)


@cache
def _tracer() -> Tracer:
    """The tracer of this process, which sends what it records to the collector in the background.

    Raises:
        ConfigInvalid: the extra ``otel`` is not installed.
    """
    try:
        from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
        from opentelemetry.sdk.resources import Resource
        from opentelemetry.sdk.trace import TracerProvider
        from opentelemetry.sdk.trace.export import BatchSpanProcessor
    except ImportError:
        raise ConfigInvalid(
            "traces cannot be sent",
            cause=f"{' or '.join(_ENDPOINTS)} is set, and the extra otel is not installed",
            cure="pip install 'messaging-gateway[otel]', or set OTEL_SDK_DISABLED=true",
        ) from None
    name = os.environ.get("OTEL_SERVICE_NAME") or "mgw"
    provider = TracerProvider(resource=Resource.create({"service.name": name, "service.version": __version__}))
    provider.add_span_processor(BatchSpanProcessor(OTLPSpanExporter()))
    return provider.get_tracer("mgw", __version__)


def spans_of(job: JobDef) -> BatchSpans | None:
    """The traces of a route; None where nobody asks for any.

    Raises:
        ConfigInvalid: they are asked for, and the extra ``otel`` is not installed.
    """
    return BatchSpans(_tracer(), job) if tracing() else None


def log_context() -> dict[str, str]:
    """The trace and the span that a line of the log belongs to; empty where there is none."""
    if not tracing():
        return {}
    from opentelemetry import trace

    found = trace.get_current_span().get_span_context()
    if not found.is_valid:
        return {}
    return {"trace_id": trace.format_trace_id(found.trace_id), "span_id": trace.format_span_id(found.span_id)}


class BatchSpans:
    """The spans of a route; its thread alone calls."""

    def __init__(self, tracer: Tracer, job: JobDef) -> None:
        self._tracer = tracer
        self._job = job
        self._attributes = {
            "mgw.job": job.name,
            "mgw.source": job.source,
            "mgw.destination": job.destination,
            "mgw.direction": job.propagation_type.value.lower(),
        }
        self._begun = 0  # when the selection of the batch began that is being selected
        self._messages: list[Span] = []
        self._open: dict[int, tuple[Any, Span, list[Span]]] = {}

    def carry(self, fit: Fit | None) -> Fit:
        """A step that messages pass, with their traces."""

        def step(message: Message) -> Message:
            found = find_header(message.headers, TRACEPARENT)
            span = None if found is None else self._span_of(found.value)
            if span is None:
                return message if fit is None else fit(message)
            self._messages.append(span)
            try:
                return _with(message if fit is None else fit(message), _written(span))
            except GatewayError as error:
                self._messages.remove(span)
                _fail(span, error)
                raise

        return step

    def _span_of(self, value: object) -> Span | None:
        from opentelemetry import trace

        parts = _CONTEXT.fullmatch(value) if isinstance(value, str) else None
        if parts is None or not int(parts[3], 16) & trace.TraceFlags.SAMPLED:
            return None
        flags = trace.TraceFlags(trace.TraceFlags.SAMPLED)
        parent = trace.SpanContext(int(parts[1], 16), int(parts[2], 16), is_remote=True, trace_flags=flags)
        if not parent.is_valid:
            return None
        context = trace.set_span_in_context(trace.NonRecordingSpan(parent))
        return self._tracer.start_span(
            f"{self._job.name} carry", context, trace.SpanKind.PRODUCER, attributes=self._attributes
        )

    def selecting(self) -> None:
        """A batch is selected from now on."""
        self._begun = time.time_ns()
        self._messages = []

    def selected(self, batch: Any, size: int) -> None:
        """What was selected since belongs to this batch."""
        from opentelemetry import trace

        messages = self._messages
        self._messages = []
        span = self._tracer.start_span(
            f"{self._job.name} batch",
            kind=trace.SpanKind.INTERNAL,
            attributes=self._attributes | {"messaging.batch.message_count": size},
            links=[trace.Link(each.get_span_context()) for each in messages[:_LINKS]],
            start_time=self._begun,
        )
        if not size:  # nothing of it is sent, and it may leave its plan without being settled
            _end(span, messages)
            return
        self._open[id(batch)] = (batch, span, messages)
        if len(self._open) > _OPEN:
            _, oldest, carried = self._open.pop(next(iter(self._open)))
            _end(oldest, carried)

    def during(self, batch: Any) -> AbstractContextManager[Any]:
        """While a batch is worked on, lines of the log are of its span."""
        found = self._open.get(id(batch))
        if found is None:
            return nullcontext()
        from opentelemetry import trace

        return trace.use_span(found[1], end_on_exit=False, record_exception=False)

    def settled(self, batches: Sequence[Any]) -> None:
        """These batches are done with."""
        for batch in batches:
            found = self._open.pop(id(batch), None)
            if found is not None:
                _end(found[1], found[2])

    def close(self) -> None:
        """What is not settled comes again, with other spans."""
        for _, span, messages in self._open.values():
            for each in (*messages, span):
                _fail(each, GatewayError("not settled", cause="the job stopped or lost its connection"))
        self._open.clear()


def _end(batch: Span, messages: Sequence[Span]) -> None:
    for span in (*messages, batch):
        span.end()


def _written(span: Span) -> str:
    """The context of a span, for the one who gets the message."""
    from opentelemetry import trace

    found = span.get_span_context()
    return f"00-{trace.format_trace_id(found.trace_id)}-{trace.format_span_id(found.span_id)}-{found.trace_flags:02x}"


def _with(message: Message, text: str) -> Message:
    """The message with another context; what it had is replaced, where a step has not left it out."""
    headers = tuple(
        Header(TRACEPARENT, ValueType.TEXT, text) if header.name == TRACEPARENT else header
        for header in message.headers
    )
    return replace(message, headers=headers)


def _fail(span: Span, error: GatewayError) -> None:
    from opentelemetry.trace import Status, StatusCode

    span.set_status(Status(StatusCode.ERROR, str(error)))
    span.end()
