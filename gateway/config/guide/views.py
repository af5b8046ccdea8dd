"""Views of the documented gateway and their columns (AQ guide 12.2 §9.51 to §9.59, §21)."""

from __future__ import annotations

from mgw.gateway.config.guide.model import View

__all__ = ["VIEWS"]

_LAST_ERROR = "LAST_ERROR_DATE LAST_ERROR_MSG LAST_ERROR_TIME"


def _view(name: str, columns: str, ours: str = "", instead: str = "", other: tuple[tuple[str, str], ...] = ()) -> View:
    return View(name, tuple(columns.split()), ours or name, instead, other)


VIEWS = (
    _view(
        "MGW_GATEWAY",
        "AGENT_DATABASE AGENT_INSTANCE AGENT_JOB AGENT_NAME AGENT_PING AGENT_START_TIME AGENT_STATUS AGENT_USER "
        f"COMMENTS CONNTYPE INITFILE {_LAST_ERROR} MAX_CONNECTIONS MAX_MEMORY MAX_THREADS SERVICE",
    ),
    _view("MGW_AGENT_OPTIONS", "AGENT_NAME ENCRYPTED NAME TYPE VALUE"),
    _view("MGW_LINKS", "AGENT_NAME LINK_COMMENT LINK_NAME LINK_TYPE"),
    _view(
        "MGW_MQSERIES_LINKS",
        "AGENT_NAME CHANNEL HOSTNAME INBOUND_LOG_QUEUE INTERFACE_TYPE LINK_COMMENT LINK_NAME MAX_CONNECTIONS OPTIONS "
        "OUTBOUND_LOG_QUEUE PORT QUEUE_MANAGER",
        "MGW_RABBITMQ_LINKS",
        other=(
            ("CHANNEL", "a broker has no channels of that kind"),
            ("INTERFACE_TYPE", "a link has one interface, the protocol of its broker"),
            ("QUEUE_MANAGER", "MGW_RABBITMQ_LINKS.VIRTUAL_HOST"),
        ),
    ),
    _view(
        "MGW_TIBRV_LINKS",
        "AGENT_NAME CM_LEDGER CM_NAME DAEMON LINK_COMMENT LINK_NAME NETWORK OPTIONS SERVICE",
        "MGW_MQTT_LINKS",
        other=(
            ("CM_LEDGER", "MGW_MQTT_LINKS.OUTBOUND_LOG_QUEUE"),
            ("CM_NAME", "MGW_MQTT_LINKS.CLIENT_ID_PREFIX"),
            ("DAEMON", "MGW_MQTT_LINKS.HOSTNAME"),
            ("NETWORK", "MGW_MQTT_LINKS.HOSTS: nodes of one cluster, not a network"),
            ("SERVICE", "MGW_MQTT_LINKS.PORT"),
        ),
    ),
    _view("MGW_FOREIGN_QUEUES", "DOMAIN LINK_NAME NAME OPTIONS PROVIDER_QUEUE QUEUE_COMMENT"),
    _view(
        "MGW_JOBS",
        "AGENT_NAME COMMENTS DESTINATION ENABLED EXCEPTION_QUEUE EXCEPTIONQ_MSGS FAILURES JOB_NAME LAST_ERROR_MSG "
        "LAST_ERROR_DATE LAST_ERROR_TIME LINK_NAME OPTIONS POLL_INTERVAL PROPAGATED_MSGS PROP_STYLE PROPAGATION_TYPE "
        "RULE SOURCE STATUS TRANSFORMATION",
    ),
    _view(
        "MGW_SUBSCRIBERS",
        f"DESTINATION EXCEPTIONQ_MSGS EXCEPTION_QUEUE FAILURES {_LAST_ERROR} OPTIONS PROP_STYLE PROPAGATED_MSGS "
        "PROPAGATION_TYPE QUEUE_NAME RULE STATUS SUBSCRIBER_ID TRANSFORMATION",
        instead="a job is subscriber and schedule: `MGW_JOBS`",
        other=(("QUEUE_NAME", "MGW_JOBS.SOURCE"), ("SUBSCRIBER_ID", "MGW_JOBS.JOB_NAME")),
    ),
    _view(
        "MGW_SCHEDULES",
        "DESTINATION LATENCY PROPAGATION_TYPE SCHEDULE_DISABLED SCHEDULE_ID SOURCE NEXT_TIME PROPAGATION_WINDOW "
        "START_DATE START_TIME",
        instead="a job is subscriber and schedule: `MGW_JOBS`",
        other=(
            ("LATENCY", "MGW_JOBS.POLL_INTERVAL"),
            ("SCHEDULE_DISABLED", "MGW_JOBS.ENABLED"),
            ("SCHEDULE_ID", "MGW_JOBS.JOB_NAME"),
            ("NEXT_TIME", "reserved there"),
            ("PROPAGATION_WINDOW", "reserved there"),
            ("START_DATE", "reserved there"),
            ("START_TIME", "reserved there"),
        ),
    ),
    _view(
        "DBA_OUTBOUND_SCHEDULES",
        "EXCEPTION_QUEUE TRANSMIT_QUEUE DISABLED ERROR_TIME ERROR ERROR_MSG",
        instead="`MGW_JOBS`",
    ),
)
