"""Subscribers and schedules of the older interfaces, as answers have them."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

from pydantic import BaseModel, Field

from mgw.gateway.services.health import COLUMN_TEXTS
from mgw.gateway.services.old_style import OutboundRow, ScheduleRow, SubscriberRow

__all__ = ["OutboundScheduleModel", "Removed", "ScheduleModel", "SubscriberHalf"]


def _of(view: str, column: str) -> Any:
    """A member that means what a column means."""
    return Field(description=COLUMN_TEXTS.get(f"{view}.{column}") or COLUMN_TEXTS[column])


class Removed(BaseModel):
    """What became of a removal."""

    removed: bool = Field(description="False: its agent finishes it.")


class SubscriberHalf(BaseModel):
    """The subscriber of a job, or one that has no schedule."""

    name: str
    type: str = _of("MGW_SUBSCRIBERS", "PROPAGATION_TYPE")
    source: str = _of("MGW_SUBSCRIBERS", "QUEUE_NAME")
    destination: str = _of("MGW_SUBSCRIBERS", "DESTINATION")
    schedule: str | None = _of("MGW_SUBSCRIBERS", "SCHEDULE_ID")
    old_style: bool = _of("MGW_SUBSCRIBERS", "OLD_STYLE")
    status: str = _of("MGW_SUBSCRIBERS", "STATUS")
    backlog: int | None = _of("MGW_SUBSCRIBERS", "BACKLOG")
    failures: int = _of("MGW_SUBSCRIBERS", "FAILURES")
    rule: str | None = _of("MGW_SUBSCRIBERS", "RULE")
    transformation: str | None = _of("MGW_SUBSCRIBERS", "TRANSFORMATION")
    exception_queue: str | None = _of("MGW_SUBSCRIBERS", "EXCEPTION_QUEUE")
    options: dict[str, Any] = Field(description="Options of its job.")
    last_error: str | None = _of("MGW_SUBSCRIBERS", "LAST_ERROR_MSG")

    @classmethod
    def of(cls, row: SubscriberRow, options: dict[str, Any]) -> SubscriberHalf:
        """A row of MGW_SUBSCRIBERS."""
        return cls(
            name=row.subscriber_id,
            type=row.propagation_type,
            source=row.queue_name,
            destination=row.destination,
            schedule=row.schedule_id,
            old_style=row.old_style == "TRUE",
            status=row.status,
            backlog=row.backlog,
            failures=row.failures,
            rule=row.rule,
            transformation=row.transformation,
            exception_queue=row.exception_queue,
            options=options,
            last_error=row.last_error_msg,
        )


class ScheduleModel(BaseModel):
    """The schedule of a job, or one that has no subscriber."""

    name: str
    type: str = _of("MGW_SCHEDULES", "PROPAGATION_TYPE")
    source: str = _of("MGW_SCHEDULES", "SOURCE")
    destination: str = _of("MGW_SCHEDULES", "DESTINATION")
    subscriber: str | None = _of("MGW_SCHEDULES", "SUBSCRIBER_ID")
    old_style: bool = _of("MGW_SCHEDULES", "OLD_STYLE")
    disabled: bool = Field(description="It moves nothing.")
    latency: float = _of("MGW_SCHEDULES", "LATENCY")

    @classmethod
    def of(cls, row: ScheduleRow) -> ScheduleModel:
        """A row of MGW_SCHEDULES."""
        return cls(
            name=row.schedule_id,
            type=row.propagation_type,
            source=row.source,
            destination=row.destination,
            subscriber=row.subscriber_id,
            old_style=row.old_style == "TRUE",
            disabled=row.schedule_disabled == "Y",
            latency=row.latency,
        )


def _column(column: str) -> Any:
    return _of("DBA_OUTBOUND_SCHEDULES", column)


class OutboundScheduleModel(BaseModel):
    """A schedule of the older gateway (DBMS_HQADM)."""

    job: str = _column("JOB_NAME")
    queue: str = _column("QUEUE_NAME")
    protocol: str = Field(description="MQSERIES_OUTBOUND (any link), RABBITMQ_OUTBOUND, KAFKA_OUTBOUND, MQTT_OUTBOUND.")
    destination: str = _column("DESTINATION")
    start_time: datetime = _column("START_TIME")
    duration: float | None = _column("DURATION")
    next_time: str | None = _column("NEXT_TIME")
    latency: float = _column("LATENCY")
    window_begin: datetime = _column("WINDOW_BEGIN")
    window_end: datetime | None = _column("WINDOW_END")
    window_open: bool = Field(description="The window is open now.")
    disabled: bool = Field(description="It was disabled, or has failed for good: the error says why.")
    status: str = _column("STATUS")
    transmit_queue: str = _column("TRANSMIT_QUEUE")
    transmit_consumer: str | None = _column("TRANSMIT_CONSUMER")
    transmit_messages: int = _column("TRANSMIT_MSGS")
    exception_queue: str = _column("EXCEPTION_QUEUE")
    exception_messages: int = _column("EXCEPTION_MSGS")
    propagated: int = _column("PROPAGATED_MSGS")
    failures: int = _column("FAILURES")
    error: str | None = _column("ERROR_MSG")
    error_time: datetime | None = _column("ERROR_TIME")

    @classmethod
    def of(cls, row: OutboundRow) -> OutboundScheduleModel:
        """A row of DBA_OUTBOUND_SCHEDULES."""
        return cls(
            job=row.job_name,
            queue=row.queue_name,
            protocol=row.protocol_name,
            destination=row.destination,
            start_time=_instant(row.start_time),
            duration=row.duration,
            next_time=row.next_time,
            latency=row.latency,
            window_begin=_instant(row.window_begin),
            window_end=None if row.window_end is None else _instant(row.window_end),
            window_open=row.window_open == "Y",
            disabled=row.disabled == "Y",
            status=row.status,
            transmit_queue=row.transmit_queue,
            transmit_consumer=row.transmit_consumer,
            transmit_messages=row.transmit_msgs,
            exception_queue=row.exception_queue,
            exception_messages=row.exception_msgs,
            propagated=row.propagated_msgs,
            failures=row.failures,
            error=row.error_msg,
            error_time=None if row.error_time is None else _instant(row.error_time),
        )


def _instant(text: str) -> datetime:
    """A moment as views have it."""
    return datetime.fromisoformat(text).replace(tzinfo=UTC)
