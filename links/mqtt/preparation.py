"""What ``mgw links prepare`` says of MQTT: a topic exists once it is used, so nothing is created."""

from __future__ import annotations

from mgw.links.contract import JobUse
from mgw.links.log_preparation import LogStep, LogVerb
from mgw.links.mqtt.echo_log import Echo
from mgw.links.mqtt.settings import Settings
from mgw.transforms.errors import LinkRefused

__all__ = ["no_echo", "step_of"]


def step_of(use: JobUse, echo: Echo) -> LogStep:
    """The log of a job."""
    form = "nothing to create: MQTT has no queues, and a topic exists once it is used"
    return LogStep(LogVerb.NONE, f"topic {echo.record_topic}", form, (use.job,))


def no_echo(settings: Settings, use: JobUse, problem: str) -> LinkRefused:
    """The broker cannot keep the log of a job."""
    return LinkRefused(
        f"link {settings.link}: the broker at {settings.place} cannot keep the sending log of job {use.job}",
        link=settings.link,
        operation="prepare",
        cause=problem,
        cure="correct that, or leave outbound_log_queue out of the link: its jobs then work at least once",
    )
