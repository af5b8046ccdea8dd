"""Traces of batches over OTLP: a message's trace goes on through the gateway, and nothing is paid where nobody asks."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pika
import pytest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.trace.v1.trace_pb2 import Span, Status

from tests.cli.conftest import Mgw
from tests.conformance.test_bad_input import amqp, declare, rabbit_link, running
from tests.support.brokers import RabbitMQ
from tests.support.ports import LOOPBACK
from tests.support.waiting import eventually

__all__ = ["amqp"]  # a fixture

PATIENCE = 90.0
TRACE, PARENT = "4bf92f3577b34da6a3ce929d0e0e4736", "00f067aa0ba902b7"
SENDER = "google/_upb"  # a library that is loaded to send spans, and by nothing else in these jobs
CONTEXT = f"00-{TRACE}-{PARENT}-01"


@dataclass
class Collector:
    """An endpoint for OTLP over HTTP that keeps the spans."""

    port: int = 0
    spans: list[Span] = field(default_factory=list)
    names: set[str] = field(default_factory=set)  # of services

    def named(self, name: str) -> list[Span]:
        return [span for span in self.spans if span.name == name]


@contextmanager
def collecting() -> Iterator[Collector]:
    found = Collector()

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            request = ExportTraceServiceRequest()
            request.ParseFromString(self.rfile.read(int(self.headers["Content-Length"])))
            for resource in request.resource_spans:
                found.names |= {a.value.string_value for a in resource.resource.attributes if a.key == "service.name"}
                for scope in resource.scope_spans:
                    found.spans.extend(scope.spans)
            self.send_response(200)
            self.send_header("Content-Length", "0")
            self.end_headers()

        def log_message(self, *_: Any) -> None:
            pass

    with ThreadingHTTPServer((LOOPBACK, 0), Handler) as server:
        found.port = server.server_port
        thread = threading.Thread(target=server.serve_forever, daemon=True)
        thread.start()
        try:
            yield found
        finally:
            server.shutdown()
            thread.join()


def browsed(mgw: Mgw, queue: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in mgw.ok("aq", "browse", queue, "--json").splitlines()]


def header(mgw: Mgw, queue: str) -> list[str]:
    return [value for row in browsed(mgw, queue) for name, _, value in row["headers"] if name == "traceparent"]


@pytest.mark.rabbitmq
def test_the_trace_of_a_message_goes_on_from_broker_to_queue(tmp_path: Path, rabbitmq: RabbitMQ, amqp: Any) -> None:
    with collecting() as collector:
        environ = {
            "OTEL_EXPORTER_OTLP_ENDPOINT": f"http://{LOOPBACK}:{collector.port}",
            "OTEL_BSP_SCHEDULE_DELAY": "100",
        }
        mgw, source = Mgw(tmp_path, environ | {"OTEL_SERVICE_NAME": "plant"}), declare(amqp, "traces")
        file = mgw.file(
            f"links:\n  {rabbit_link(rabbitmq)}\n"
            f"foreign_queues:\n  IN@rabbit: {{provider_queue: {source}, domain: queue}}\n"
            "queues:\n  H: {}\n  H2: {}\n"
            "jobs:\n  in: {type: inbound, source: IN@rabbit, destination: H}\n"
            "  on: {type: local, source: H, destination: H2}\n"
        )
        for context in (CONTEXT, CONTEXT[:-2] + "00", "nonsense", None):
            headers = {"tenant": "a"} | ({} if context is None else {"traceparent": context})
            amqp.basic_publish("", source, b"x", pika.BasicProperties(headers=headers, delivery_mode=2))
        with running(mgw, file, "--http", "off", "--log-format", "json") as agent:
            eventually(lambda: len(browsed(mgw, "H2")) == 4, deadline=PATIENCE)
            eventually(lambda: collector.named("on batch"), deadline=PATIENCE, what="spans of both jobs")
        assert agent.process.wait(60) == 0
    passed, *others = header(mgw, "H2")
    assert others == [CONTEXT[:-2] + "00", "nonsense"]  # not sampled, and none at all: as they came
    (first,), (second,) = collector.named("in carry"), collector.named("on carry")
    assert (first.trace_id.hex(), first.parent_span_id.hex()) == (TRACE, PARENT)
    assert (second.trace_id.hex(), second.parent_span_id) == (TRACE, first.span_id)
    assert passed == f"00-{TRACE}-{second.span_id.hex()}-01"
    linked = [link.span_id for span in collector.named("in batch") for link in span.links]
    assert linked == [first.span_id]
    sizes = [
        attribute.value.int_value
        for span in collector.named("in batch")
        for attribute in span.attributes
        if attribute.key == "messaging.batch.message_count"
    ]
    assert sum(sizes) == 4
    assert collector.names == {"plant"}
    assert all(span.status.code == Status.STATUS_CODE_UNSET for span in collector.spans)


def test_a_message_that_cannot_be_converted_ends_its_span_with_the_error(tmp_path: Path) -> None:
    with collecting() as collector:
        environ = {
            "OTEL_EXPORTER_OTLP_ENDPOINT": f"http://{LOOPBACK}:{collector.port}",
            "OTEL_BSP_SCHEDULE_DELAY": "100",
        }
        mgw = Mgw(tmp_path, environ)
        file = mgw.file(
            "queues: {H: {}, H2: {payload_type: RAW}, BAD: {}}\n"
            "jobs:\n  on: {type: local, source: H, destination: H2, exception_queue: BAD}\n"
        )
        mgw.ok("apply", file)
        mgw.ok("aq", "enqueue", "H", "x", "--header", f"traceparent={CONTEXT}")
        with running(mgw, "--http", "off") as agent:
            agent.counts("on", "exceptionq_total", 1)
            eventually(lambda: collector.named("on carry"), deadline=PATIENCE, what="the span of the message")
        assert agent.process.wait(60) == 0
        assert "ended span" not in agent.said
    assert {span.status.code for span in collector.named("on carry")} == {Status.STATUS_CODE_ERROR}


def test_nothing_is_imported_and_nothing_changed_where_nobody_asks(tmp_path: Path) -> None:
    for environ in ({}, {"OTEL_EXPORTER_OTLP_ENDPOINT": f"http://{LOOPBACK}:9", "OTEL_SDK_DISABLED": "true"}):
        folder = tmp_path / str(len(environ))
        folder.mkdir()
        mgw = Mgw(folder, environ)
        file = mgw.file("queues: {H: {}, H2: {}}\njobs:\n  on: {type: local, source: H, destination: H2}\n")
        mgw.ok("apply", file)
        mgw.ok("aq", "enqueue", "H", "x", "--header", f"traceparent={CONTEXT}")
        with running(mgw, "--http", "off") as agent:
            eventually(partial(_has_it, mgw), deadline=PATIENCE)
            maps = Path(f"/proc/{agent.process.pid}/maps").read_text()
        assert SENDER not in maps


def _has_it(mgw: Mgw) -> bool:
    return header(mgw, "H2") == [CONTEXT]


def test_a_collector_that_is_away_keeps_no_message(tmp_path: Path) -> None:
    mgw = Mgw(tmp_path, {"OTEL_EXPORTER_OTLP_ENDPOINT": f"http://{LOOPBACK}:9", "OTEL_BSP_SCHEDULE_DELAY": "100"})
    file = mgw.file("queues: {H: {}, H2: {}}\njobs:\n  on: {type: local, source: H, destination: H2}\n")
    mgw.ok("apply", file)
    with running(mgw, "--http", "off") as agent:
        for number in range(5):
            mgw.ok("aq", "enqueue", "H", str(number), "--header", f"traceparent={CONTEXT}")
        agent.counts("on", "propagated_total", 5)
        assert SENDER in Path(f"/proc/{agent.process.pid}/maps").read_text()
    assert agent.process.wait(60) == 0
    assert len(set(header(mgw, "H2"))) == 5
