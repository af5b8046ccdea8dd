"""Metrics in the text format of Prometheus, from memory and from one look at the hub that counts no message."""

from __future__ import annotations

import os
import resource
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from mgw.gateway.services.probes import Inside, Probing
from mgw.gateway.services.verdict import GUARANTEES, JOB_STATES, JobSigns, Look, word_of
from mgw.transforms.errors import HubError

__all__ = ["CONTENT_TYPE", "METRICS", "MISSING", "Metric", "exposition"]

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"

Labels = Mapping[str, str]
Sample = tuple[str, Labels, float]


@dataclass(frozen=True, slots=True)
class Metric:
    """One metric: its name, its kind, what it means, its labels."""

    name: str
    kind: str  # counter, gauge
    meaning: str
    labels: tuple[str, ...] = ()


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
    Metric("mgw_config_apply_total", "counter", "Configuration files read again at SIGHUP: ok, refused.", ("result",)),
    Metric(
        "mgw_worker_restarts_total",
        "counter",
        "Processes of the worker that died and were replaced since the agent started; missing without `workers`.",
        ("worker",),
    ),
    Metric("mgw_link_up", "gauge", "1: a job of the link works; missing for a link without enabled jobs.", ("link",)),
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
        "Since when the job has been connecting, in RETRY, stuck or FAILED; missing while it works.",
        ("job",),
    ),
    Metric("mgw_last_progress_timestamp_seconds", "gauge", "When the job last moved a message.", ("job",)),
    Metric(
        "mgw_messages_total",
        "counter",
        "Messages since the job was created: moved, filtered (a rule or transformation left them out), discarded "
        "(expired, or no subscriber wanted them), exceptioned (moved to the exception queue), suppressed (received "
        "again and not stored twice).",
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
        "mgw_backlog_messages",
        "gauge",
        "Messages that wait at the source; for jobs that read from a link whose broker reports it, every 5 s; missing "
        "while the job cannot reach it.",
        ("job",),
    ),
    Metric(
        "mgw_oldest_message_seconds",
        "gauge",
        "Seconds for which the oldest message has waited; for jobs that read from a link whose broker reports it, and "
        "for jobs with a limit (max_message_age, age_warning).",
        ("job",),
    ),
    Metric("mgw_guarantee", "gauge", "1 for the guarantee that the job has, 0 for the others.", ("job", "level")),
    Metric("process_cpu_seconds_total", "counter", "CPU time of the process, user and system."),
    Metric("process_resident_memory_bytes", "gauge", "Memory of the process that is in RAM."),
    Metric("process_virtual_memory_bytes", "gauge", "Address space of the process."),
    Metric("process_start_time_seconds", "gauge", "When the process started."),
    Metric("process_open_fds", "gauge", "Open files and connections of the process."),
    Metric("process_max_fds", "gauge", "Limit of open files and connections of the process."),
)

#: What is not measured, for the documentation.
MISSING = (
    "the backlog of jobs that read from a queue of the hub, which would have to be counted (`mgw status` does)",
    "bytes",
    "sizes of batches",
    "durations of stages and of transactions of the hub",
    "connections made by a link",
    "messages sent again",
    "messages of queues",
)

_OUTCOMES = {
    "moved": "propagated_total",
    "filtered": "filtered_total",
    "discarded": "discarded_total",
    "exceptioned": "exceptioned_total",
    "suppressed": "suppressed_total",
}


def exposition(probes: Probing) -> str:
    """The text for one scrape."""
    inside = probes.inside()
    try:
        look = probes.look()
    except HubError:
        look = None
    samples = [*_of_inside(inside, look), *(_of_hub(probes, look) if look is not None else ()), *_of_process()]
    by_name: dict[str, list[str]] = {}
    for name, labels, value in samples:
        by_name.setdefault(name, []).append(_line(name, labels, value))
    lines = []
    for metric in METRICS:
        if metric.name in by_name:
            lines += [f"# HELP {metric.name} {metric.meaning}", f"# TYPE {metric.name} {metric.kind}"]
            lines += by_name[metric.name]
    return "\n".join([*lines, ""])


def _line(name: str, labels: Labels, value: float) -> str:
    shown = ",".join(f'{label}="{_escaped(text)}"' for label, text in labels.items())
    return f"{name}{{{shown}}} {value:.15g}" if shown else f"{name} {value:.15g}"


def _escaped(text: str) -> str:
    return text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")


def _of_inside(inside: Inside, look: Look | None) -> Iterator[Sample]:
    yield "mgw_build_info", {"version": inside.version}, 1
    yield "mgw_live", {}, inside.live
    yield "mgw_hub_up", {}, look is not None
    if inside.lease_left is not None:
        yield "mgw_lease_remaining_seconds", {"agent": inside.agent}, inside.lease_left
    if inside.generation is not None:
        yield "mgw_config_generation", {}, inside.generation
    for result in ("ok", "refused"):
        yield "mgw_config_apply_total", {"result": result}, inside.applied.get(result, 0)
    for number, count in inside.worker_restarts.items():
        yield "mgw_worker_restarts_total", {"worker": str(number)}, count


def _of_hub(probes: Probing, look: Look) -> Iterator[Sample]:
    """The agent of this process, its links and jobs; other agents tell of theirs."""
    health = probes.judged(look)
    yield "mgw_healthy", {"agent": probes.agent}, health.healthy
    for link in health.links:
        if link.state != "UNUSED":
            yield "mgw_link_up", {"link": link.name}, link.state == "UP"
    healthy = {entry.name: entry.healthy for entry in health.jobs}
    for job in look.signs.jobs:
        if job.agent_key == probes.agent:
            yield "mgw_job_healthy", {"job": job.name_key}, healthy[job.name_key]
            yield from _of_job(job, look)


def _of_job(job: JobSigns, look: Look) -> Iterator[Sample]:
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
    if job.backlog is not None:
        yield "mgw_backlog_messages", name, job.backlog
    age = look.ages.get(job.name_key)
    if job.oldest is not None:
        age = max(0.0, look.now - job.oldest)
    if age is not None:
        yield "mgw_oldest_message_seconds", name, age
    if job.guarantee is not None:
        for level in GUARANTEES:
            yield "mgw_guarantee", name | {"level": level}, level == job.guarantee


_PAGE = os.sysconf("SC_PAGE_SIZE")
_TICK = os.sysconf("SC_CLK_TCK")


def _of_process() -> Iterator[Sample]:
    used = resource.getrusage(resource.RUSAGE_SELF)
    yield "process_cpu_seconds_total", {}, used.ru_utime + used.ru_stime
    try:
        virtual, resident = (int(word) * _PAGE for word in Path("/proc/self/statm").read_text().split()[:2])
        ticks = int(Path("/proc/self/stat").read_text().rpartition(")")[2].split()[19])
        boot = next(line for line in Path("/proc/stat").read_text().splitlines() if line.startswith("btime "))
        files = len(os.listdir("/proc/self/fd"))
    except OSError:  # no /proc
        return
    yield "process_resident_memory_bytes", {}, resident
    yield "process_virtual_memory_bytes", {}, virtual
    yield "process_start_time_seconds", {}, int(boot.split()[1]) + ticks / _TICK
    yield "process_open_fds", {}, files
    yield "process_max_fds", {}, resource.getrlimit(resource.RLIMIT_NOFILE)[0]
