"""The options of an agent, and which of its attributes mean nothing here."""

from __future__ import annotations

import difflib
import os
from collections.abc import Mapping
from dataclasses import dataclass, replace

from mgw.gateway.definitions.objects import DEFAULT_BATCH_SIZE, DEFAULT_POLL_INTERVAL, AgentDef, JobDef
from mgw.links.contract import Field
from mgw.links.options import parse_value
from mgw.transforms.errors import ConfigInvalid, GatewayError

__all__ = [
    "AGENT_OPTIONS",
    "FOREIGN_OPTIONS",
    "NO_EFFECT",
    "AgentSettings",
    "check_option",
    "option_refusal",
    "retention_of",
    "without_effect",
]

RETENTION_OPTION = "ledger_retention"
DEFAULT_RETENTION = 7 * 86400.0  # seconds
BATCH_SIZE = "oracle.mgw.batch_size"
POLLING_INTERVAL = "oracle.mgw.polling_interval"
EVENT_RETENTION = "event_retention"
DEFAULT_EVENT_RETENTION = 14 * 86400.0  # seconds
HISTORY_RETENTION = "history_retention"
DEFAULT_HISTORY_RETENTION = 14 * 86400.0  # seconds
AUDIT_RETENTION = "audit_retention"
DEFAULT_AUDIT_RETENTION = 365 * 86400.0  # seconds
WORKERS = "workers"
MAX_WORKERS = 64

#: Options of every agent; all are read when it starts (AQ guide 12.2 §18.6).
AGENT_OPTIONS = (
    Field(
        RETENTION_OPTION,
        "Seconds for which the ledger behind `mgw prove` is kept; 0: no ledger.",
        float,
        DEFAULT_RETENTION,
        minimum=0,
    ),
    Field(
        EVENT_RETENTION,
        "Seconds for which rows of `MGW_EVENTS` are kept; if agents share a hub, the shortest value counts.",
        float,
        DEFAULT_EVENT_RETENTION,
        minimum=60,
    ),
    Field(
        BATCH_SIZE,
        "MsgBatchSize of jobs that do not set their own.",
        int,
        DEFAULT_BATCH_SIZE,
        minimum=1,
        maximum=10000,
    ),
    Field(
        POLLING_INTERVAL,
        "Poll interval of jobs that do not set their own, milliseconds.",
        int,
        round(DEFAULT_POLL_INTERVAL * 1000),
        minimum=100,
        maximum=60000,
    ),
    Field(
        HISTORY_RETENTION,
        "Seconds for which the history of jobs (`MGW_JOB_HISTORY`, charts of the page) is kept; 0: no history.",
        float,
        DEFAULT_HISTORY_RETENTION,
        minimum=0,
    ),
    Field(
        AUDIT_RETENTION,
        "Seconds for which rows of `MGW_AUDIT` are kept, and with them the generations; if agents share a hub, the "
        "shortest value counts.",
        float,
        DEFAULT_AUDIT_RETENTION,
        minimum=60,
    ),
    Field(
        WORKERS,
        "Processes that the agent's jobs are spread over, so that they use several cores; 0: one per core of the "
        "machine. With 1 they run in the process of `mgw run` itself.",
        int,
        1,
        minimum=0,
        maximum=MAX_WORKERS,
    ),
)

_FIELDS = {field.name.lower(): field for field in AGENT_OPTIONS}
#: Options of the documented product that mean nothing here: how their names begin, and why.
FOREIGN_OPTIONS = (
    ("oracle.mgw.tibrv.", "it is for TIB/Rendezvous, which has no link type here"),
    ("oracle.net.", "it is for connections to an Oracle database, which the hub is not"),
    ("javax.net.ssl.", "it is for Java; here TLS is set with options of the link"),
)

#: Attributes of an agent that are stored and shown, and that nothing reads. The agent runs as the process that runs it.
NO_EFFECT = ("username", "password", "database", "conntype", "service")


@dataclass(frozen=True, slots=True)
class AgentSettings:
    """What the options of an agent say, defaults filled in."""

    ledger_retention: float = DEFAULT_RETENTION  # seconds; 0: no ledger
    batch_size: int = DEFAULT_BATCH_SIZE
    poll_seconds: float = DEFAULT_POLL_INTERVAL
    event_retention: float = DEFAULT_EVENT_RETENTION  # seconds
    workers: int = 1  # processes; 0: one per core
    history_retention: float = DEFAULT_HISTORY_RETENTION  # seconds; 0: no history
    audit_retention: float = DEFAULT_AUDIT_RETENTION  # seconds

    @property
    def processes(self) -> int:
        """Processes that the jobs are spread over; 1: they run in the agent's own."""
        return self.workers or min(MAX_WORKERS, len(os.sched_getaffinity(0)))

    @classmethod
    def read(cls, stored: Mapping[str, str], defaults: Mapping[str, str] | None = None) -> AgentSettings:
        """The settings behind stored options; those that are unknown have no meaning.

        Args:
            defaults: options that count where they are not stored.

        Raises:
            GatewayError: a value is none for its option.
        """
        options = {**(defaults or {}), **{name.lower(): value for name, value in stored.items()}}
        held = {name.lower(): value for name, value in options.items()}
        given = {
            name: parse_value(_FIELDS[name], held[name], "agent")
            for name in (BATCH_SIZE, POLLING_INTERVAL, EVENT_RETENTION, WORKERS, HISTORY_RETENTION, AUDIT_RETENTION)
            if name in held
        }
        return cls(
            retention_of(options),
            given.get(BATCH_SIZE, DEFAULT_BATCH_SIZE),
            given[POLLING_INTERVAL] / 1000 if POLLING_INTERVAL in given else DEFAULT_POLL_INTERVAL,
            given.get(EVENT_RETENTION, DEFAULT_EVENT_RETENTION),
            given.get(WORKERS, 1),
            given.get(HISTORY_RETENTION, DEFAULT_HISTORY_RETENTION),
            given.get(AUDIT_RETENTION, DEFAULT_AUDIT_RETENTION),
        )

    def applied(self, job: JobDef) -> JobDef:
        """The job with the agent's settings where it has none of its own."""
        return replace(
            job,
            poll_interval=job.poll_seconds if job.poll_interval is not None else self.poll_seconds,
            options={"msgbatchsize": str(self.batch_size)} | dict(job.options),
        )


def option_refusal(name: str) -> tuple[str, str] | None:
    """Why there is no agent option of that name, and what to do; None: there is one."""
    lower = name.lower()
    if lower in _FIELDS:
        return None
    for prefix, reason in FOREIGN_OPTIONS:
        if lower.startswith(prefix):
            return reason, "leave it out"
    near = difflib.get_close_matches(lower, _FIELDS, n=1)
    known = ", ".join(field.name for field in AGENT_OPTIONS)
    return "agents have no such option", f"did you mean {near[0]}?" if near else f"use one of {known}"


def check_option(name: str, value: object, owner: str) -> None:
    """Refuse a value that the option cannot have; the name must be known. ``owner``: for the error, ``agent NIGHT``.

    Raises:
        ConfigInvalid: it is not of its type, or out of range.
    """
    field = _FIELDS[name.lower()]
    if value is None:
        raise ConfigInvalid(f"option {field.name} has no value", cause="it is empty", cure="give one or remove it")
    if field.name == RETENTION_OPTION:
        retention_of({name: str(value)})
    else:
        parse_value(field, value, owner)


def without_effect(agent: AgentDef) -> list[str]:
    """The attributes that the agent has, and that mean nothing."""
    default = AgentDef(agent.name)
    return [name for name in NO_EFFECT if name != "password" and getattr(agent, name) != getattr(default, name)]


def retention_of(options: Mapping[str, str]) -> float:
    """Seconds for which the ledger keeps its rows, from the options of an agent; 0: it keeps no ledger.

    Raises:
        GatewayError: the option is not a number from 0.
    """
    text = next((value for name, value in options.items() if name.lower() == RETENTION_OPTION), None)
    if text is None:
        return DEFAULT_RETENTION
    try:
        seconds = float(text)
    except ValueError:
        seconds = -1.0
    if not 0 <= seconds < float("inf"):
        raise GatewayError(
            f"agent option {RETENTION_OPTION} cannot be {text!r}",
            cause="it is a number of seconds, 0 for no ledger",
            cure=f"set it to {DEFAULT_RETENTION:.0f} for a week, or remove it",
        )
    return seconds
