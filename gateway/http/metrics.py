"""Metrics for Prometheus, from memory and from looks at the hub that count no message.

:data:`METRICS` describes each of them once: the samples, the documentation and the tests follow it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import Protocol

from prometheus_client import ProcessCollector
from prometheus_client.exposition import choose_encoder
from prometheus_client.metrics_core import (
    CounterMetricFamily,
    GaugeMetricFamily,
    HistogramMetricFamily,
)
from prometheus_client.metrics_core import Metric as Family
from prometheus_client.registry import Collector

from mgw.gateway.services.probes import HELD_SECONDS
from mgw.gateway.services.probing import (
    BATCH_BOUNDS,
    SECONDS_BOUNDS,
    Held,
    Histogram,
    Inside,
    Measured,
    Probing,
)
from mgw.gateway.services.verdict import GUARANTEES, JOB_STATES, JobSigns, Look, word_of
from mgw.transforms.errors import HubError

__all__ = ["METRICS", "HeldBack", "Metric", "exposition"]

Labels = Mapping[str, str]
Sample = tuple[str, Labels, float | Histogram]


class HeldBack(Protocol):
    """Requests that waited for the jobs.

    Attributes:
        held: how many.
        refused: those of them that were refused.
    """

    held: int
    refused: int


@dataclass(frozen=True, slots=True)
class Metric:
    """One metric: its name, its kind, what it means, its labels.

    Attributes:
        bounds: of a histogram, the upper bounds of its buckets.
    """

    name: str
    kind: str  # counter, gauge, histogram
    meaning: str
    labels: tuple[str, ...] = ()
    bounds: tuple[float, ...] = ()


#: Every metric, in the order in which they are shown.
METRICS = (
    Metric("mgw_build_info", "gauge", "Always 1; the label is the release.", ("version",)),
    Metric("mgw_live", "gauge", "1: the main loop of the process runs."),
    Metric("mgw_healthy", "gauge", "1: the agent is healthy, as /healthz says with max_age=60.", ("agent",)),
    Metric("mgw_hub_up", "gauge", "1: the hub answers. At 0, metrics that are read from the hub are missing."),
    Metric(
        "mgw_lease_remaining_seconds",
        "gauge",
        "Seconds until the lease of the agent ends; renewed every 3 s.",
        ("agent",),
    ),
    Metric("mgw_config_generation", "gauge", "Version of the definitions in force; grows with every change."),
    Metric(
        "mgw_config_apply_total",
        "counter",
        "Generations of the definitions (`mgw generations`) that became complete since the process started, whoever "
        "made them: ok; failed, where a step was refused after others were done. Also configuration files that were "
        f"read again at SIGHUP: ok, where they changed nothing; refused. At most {HELD_SECONDS:.0f} s old.",
        ("result",),
    ),
    Metric(
        "mgw_worker_restarts_total",
        "counter",
        "Processes of the worker that died and were replaced since the agent started; missing without `workers`.",
        ("worker",),
    ),
    Metric("mgw_link_up", "gauge", "1: a job of the link works; missing for a link without enabled jobs.", ("link",)),
    Metric(
        "mgw_link_connects_total",
        "counter",
        "How often a job connected to the link since the agent started.",
        ("link",),
    ),
    Metric(
        "mgw_link_failures_total",
        "counter",
        "How often a job failed at the link since the agent started.",
        ("link",),
    ),
    Metric(
        "mgw_certificate_expires_timestamp_seconds",
        "gauge",
        "When a certificate ends, as the agent last saw it: owner link, the client certificate of the link in the file "
        "place; owner broker, that of the broker at host and port.",
        ("link", "owner", "place"),
    ),
    Metric(
        "mgw_queue_messages",
        "gauge",
        "Messages in a queue of the hub, those in hand included: ready, waiting (delayed), expired (in an exception "
        f"queue, whatever the reason). At most {HELD_SECONDS:.0f} s old; every agent of the hub reports all queues.",
        ("queue", "state"),
    ),
    Metric(
        "mgw_hub_transaction_seconds",
        "histogram",
        "Seconds that transactions of the hub took since the agent started, waiting for their turn included. store: "
        "messages are put into a queue. complete: a link has confirmed messages; the next are planned. plan: messages "
        "are planned only. lease: the lease of the agent is renewed.",
        ("kind",),
        SECONDS_BOUNDS,
    ),
    Metric("mgw_job_state", "gauge", "1 for the state that the job is in, 0 for the others.", ("job", "state")),
    Metric("mgw_job_healthy", "gauge", "1: the job is healthy, as /healthz says with max_age=60.", ("job",)),
    Metric(
        "mgw_job_failures",
        "gauge",
        "Failures of the same kind as the last one, since the last recovery.",
        ("job",),
    ),
    Metric(
        "mgw_job_not_working_since_timestamp_seconds",
        "gauge",
        "Since when the job has been connecting, in RETRY, STUCK, BLOCKED or FAILED; missing while it works.",
        ("job",),
    ),
    Metric("mgw_last_progress_timestamp_seconds", "gauge", "When the job last moved a message.", ("job",)),
    Metric(
        "mgw_messages_total",
        "counter",
        "Messages since the job was created: moved, filtered (a rule or transformation left them out), discarded "
        "(expired, or no subscriber wanted them), exceptioned (moved to the exception queue), suppressed (received "
        "again and not stored twice); and since the agent started: resent (written again, because an earlier attempt "
        "failed and may have written it).",
        ("job", "direction", "outcome"),
    ),
    Metric(
        "mgw_left_out_total",
        "counter",
        "Messages that a rule kept from the job or from its destination since the job was created: its own rule or "
        "transformation, its rule as a subscriber of the queue that it reads, and the rules of all subscribers of the "
        "queue that it writes.",
        ("job",),
    ),
    Metric(
        "mgw_bytes_total",
        "counter",
        "Bytes of the bodies of messages that the job read since the agent started; characters of texts count as "
        "bytes. What is read again after a failure counts again.",
        ("job", "direction"),
    ),
    Metric(
        "mgw_batch_messages",
        "histogram",
        "Messages of the batches that the job read since the agent started.",
        ("job",),
        BATCH_BOUNDS,
    ),
    Metric(
        "mgw_stage_seconds",
        "histogram",
        "Seconds that batches took since the agent started. read_to_stored: from the read at a link until the hub has "
        "the messages (a job from link to link: its plan of them) on disk. stored_to_confirmed: from there, or from "
        "the plan of messages of the hub, until the destination has confirmed them; of a job that writes into the hub "
        "from a link, until they are acknowledged at the source. origin_to_confirmed: from the time at which the first "
        "message of the batch was published (its timestamp of Kafka or AMQP, else when it came into the hub) until the "
        "destination has the batch; missing where no message has such a time.",
        ("job", "stage"),
        SECONDS_BOUNDS,
    ),
    Metric(
        "mgw_backlog_messages",
        "gauge",
        "Messages that wait at the source; for jobs that read from a link whose broker reports it, every 5 s; missing "
        "while the job cannot reach it. For enabled jobs that read from a queue of the hub, at most "
        f"{HELD_SECONDS:.0f} s old.",
        ("job",),
    ),
    Metric(
        "mgw_oldest_message_seconds",
        "gauge",
        "Seconds for which the oldest message has waited; for jobs that read from a link whose broker reports it, and "
        "for enabled jobs that read from a queue of the hub; missing while none waits.",
        ("job",),
    ),
    Metric("mgw_guarantee", "gauge", "1 for the guarantee that the job has, 0 for the others.", ("job", "level")),
    Metric(
        "mgw_http_held_total",
        "counter",
        "Requests over HTTP that waited since the agent started, because the jobs needed the processor: answered, or "
        "refused after some seconds; missing in `mgw serve`.",
        ("outcome",),
    ),
    Metric("process_cpu_seconds_total", "counter", "CPU time of the process, user and system."),
    Metric("process_resident_memory_bytes", "gauge", "Memory of the process that is in RAM."),
    Metric("process_virtual_memory_bytes", "gauge", "Address space of the process."),
    Metric("process_start_time_seconds", "gauge", "When the process started."),
    Metric("process_open_fds", "gauge", "Open files and connections of the process."),
    Metric("process_max_fds", "gauge", "Limit of open files and connections of the process."),
)

_OUTCOMES = {
    "moved": "propagated_total",
    "filtered": "filtered_total",
    "discarded": "discarded_total",
    "exceptioned": "exceptioned_total",
    "suppressed": "suppressed_total",
}


def exposition(probes: Probing, accept: str = "", held: HeldBack | None = None) -> tuple[str, str]:
    """The text for one scrape, and its content type: OpenMetrics where ``accept`` (the header of the request) asks for
    it, else the text format."""
    encode, content_type = choose_encoder(accept)
    return encode(_Found([*_samples(probes), *_of_requests(held)])).decode(), content_type


class _Found(Collector):
    """Samples in the order of the table."""

    def __init__(self, samples: Sequence[Sample]) -> None:
        self._samples: dict[str, list[tuple[Labels, float | Histogram]]] = {}
        for name, labels, value in samples:
            self._samples.setdefault(name, []).append((labels, value))

    def collect(self) -> Iterator[Family]:
        for metric in METRICS:
            if samples := self._samples.get(metric.name):
                yield _family(metric, samples)


def _family(metric: Metric, samples: Sequence[tuple[Labels, float | Histogram]]) -> Family:
    made: Family
    if metric.kind == "histogram":
        made = HistogramMetricFamily(metric.name, metric.meaning)
        for labels, value in samples:
            assert isinstance(value, Histogram)  # noqa: S101  the table says so
            _add_histogram(made, labels, value)
        return made
    kind = CounterMetricFamily if metric.kind == "counter" else GaugeMetricFamily
    made = kind(metric.name.removesuffix("_total") if metric.kind == "counter" else metric.name, metric.meaning)
    for labels, value in samples:
        assert not isinstance(value, Histogram)  # noqa: S101  the table says so
        made.add_sample(metric.name, dict(labels), float(value))
    return made


def _add_histogram(family: Family, labels: Labels, histogram: Histogram) -> None:
    counts = list(accumulate(histogram.counts))
    bounds = (*(repr(float(bound)) for bound in histogram.bounds), "+Inf")
    for bound, count in zip(bounds, counts, strict=True):
        family.add_sample(f"{family.name}_bucket", {**labels, "le": bound}, count)
    family.add_sample(f"{family.name}_count", dict(labels), counts[-1])
    family.add_sample(f"{family.name}_sum", dict(labels), histogram.sum)


def _samples(probes: Probing) -> Iterator[Sample]:
    inside, measured = probes.inside(), probes.measured()
    try:
        look = probes.look()
    except HubError:
        look = None
    yield from _of_inside(inside, look)
    if look is not None:
        yield from _of_hub(probes, look, _held(probes))
    yield from _of_measured(measured)
    for family in _PROCESS.collect():
        for sample in family.samples:
            yield sample.name, {}, sample.value


def _of_requests(held: HeldBack | None) -> Iterator[Sample]:
    if held is not None:
        yield "mgw_http_held_total", {"outcome": "answered"}, held.held - held.refused
        yield "mgw_http_held_total", {"outcome": "refused"}, held.refused


def _held(probes: Probing) -> Held:
    try:
        return probes.held()
    except HubError:
        return Held()


def _of_measured(measured: Measured) -> Iterator[Sample]:
    for (job, direction), found in measured.jobs.items():
        name = {"job": job}
        way = name | {"direction": direction}
        yield "mgw_messages_total", way | {"outcome": "resent"}, found.resent
        yield "mgw_bytes_total", way, found.bytes
        yield "mgw_batch_messages", name, found.batches
        for stage, histogram in found.stages.items():
            if histogram.count:
                yield "mgw_stage_seconds", name | {"stage": stage}, histogram
    for link, count in measured.links.items():
        yield "mgw_link_connects_total", {"link": link}, count.connects
        yield "mgw_link_failures_total", {"link": link}, count.failures
    for kind, histogram in measured.transactions.items():
        yield "mgw_hub_transaction_seconds", {"kind": kind}, histogram


def _of_inside(inside: Inside, look: Look | None) -> Iterator[Sample]:
    yield "mgw_build_info", {"version": inside.version}, 1
    yield "mgw_live", {}, inside.live
    yield "mgw_hub_up", {}, look is not None
    if inside.lease_left is not None:
        yield "mgw_lease_remaining_seconds", {"agent": inside.agent}, inside.lease_left
    if inside.generation is not None:
        yield "mgw_config_generation", {}, inside.generation
    yield "mgw_config_apply_total", {"result": "refused"}, inside.applied.get("refused", 0)
    for number, count in inside.worker_restarts.items():
        yield "mgw_worker_restarts_total", {"worker": str(number)}, count


def _of_hub(probes: Probing, look: Look, held: Held) -> Iterator[Sample]:
    """The agent of this process, its links and jobs; other agents tell of theirs."""
    for result, count in held.applied.items():
        yield "mgw_config_apply_total", {"result": result}, count + probes.inside().applied.get(result, 0)
    health = probes.judged(look)
    yield "mgw_healthy", {"agent": probes.agent}, health.healthy
    for link in health.links:
        if link.state != "UNUSED":
            yield "mgw_link_up", {"link": link.name}, link.state == "UP"
    for each in look.signs.certificates:
        labels = {"link": each.link_key, "owner": each.owner.lower(), "place": each.place}
        if each.link_key in {link.name for link in health.links}:
            yield "mgw_certificate_expires_timestamp_seconds", labels, each.expires
    healthy = {entry.name: entry.healthy for entry in health.jobs}
    for job in look.signs.jobs:
        if probes.agent in ("", job.agent_key):
            yield "mgw_job_healthy", {"job": job.name_key}, healthy[job.name_key]
            yield from _of_job(job, look, held)
    for (queue, state), number in held.queues.items():
        yield "mgw_queue_messages", {"queue": queue, "state": state}, number


def _of_job(job: JobSigns, look: Look, held: Held) -> Iterator[Sample]:
    name = {"job": job.name_key}
    now = word_of(job.status, job.activity, job.enabled)
    for state in JOB_STATES:
        yield "mgw_job_state", name | {"state": state}, state == now
    yield "mgw_job_failures", name, job.failures
    if job.not_working_since is not None:
        yield "mgw_job_not_working_since_timestamp_seconds", name, job.not_working_since
    if job.last_progress is not None:
        yield "mgw_last_progress_timestamp_seconds", name, job.last_progress
    for outcome, column in _OUTCOMES.items():
        labels = name | {"direction": job.propagation_type.lower(), "outcome": outcome}
        yield "mgw_messages_total", labels, getattr(job, column)
    yield "mgw_left_out_total", name, job.left_out_total
    backlog, age = held.jobs.get(job.name_key, (job.backlog, None))
    if backlog is not None:
        yield "mgw_backlog_messages", name, backlog
    age = look.ages.get(job.name_key, age)
    if job.oldest is not None:
        age = max(0.0, look.now - job.oldest)
    if age is not None:
        yield "mgw_oldest_message_seconds", name, age
    if job.guarantee is not None:
        for level in GUARANTEES:
            yield "mgw_guarantee", name | {"level": level}, level == job.guarantee


#: Of this process; the package's own texts are left out.
_PROCESS = ProcessCollector(registry=None)
