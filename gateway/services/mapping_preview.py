"""What the destination of a job would get, shown on a message of its source before the job is saved.

The job is made in a hub for the purpose, with what it needs of the running one, and the message goes through
:mod:`mgw.gateway.services.trial`. Nothing is stored or sent, and no message is taken: one of the hub is browsed, one of
a messaging system is read only where its link can show one without taking or marking it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from io import StringIO
from typing import TypeVar

from ruamel.yaml import YAML
from ruamel.yaml.scalarstring import LiteralScalarString

from mgw.gateway.aq import Hub
from mgw.gateway.config.apply import scratch_hub
from mgw.gateway.config.models import Document, JobModel
from mgw.gateway.config.running import read_running
from mgw.gateway.runtime.job_setup import LinkEnd
from mgw.gateway.services import lookup
from mgw.gateway.services.admin import GatewayAdmin
from mgw.gateway.services.definitions import name_in
from mgw.gateway.services.messages import body_bytes
from mgw.gateway.services.queue_story import queue_story, some_messages
from mgw.gateway.services.trial import Outcome, Trial, of_job, read_message
from mgw.links import registry
from mgw.links.contract import Delivery, Link
from mgw.links.inspection import ShowsMessages
from mgw.transforms.errors import ConversionFailure, GatewayError, HubError
from mgw.transforms.message import Message
from mgw.transforms.payloads.written import written

__all__ = ["Preview", "preview"]

_SAMPLE = """\
body: '{"order": 1}'
headers:
  tenant: a
correlation: c1
"""
_OF_THE_HUB = ("enqueue_time", "attempts", "sender_name", "sender_address")  # nobody writes these
_LONGEST = 16 * 1024  # bytes of a body that is written out to be changed

_Model = TypeVar("_Model")


@dataclass(frozen=True, slots=True)
class Preview:
    """What becomes of one message. The texts hold no secret of a link.

    Attributes:
        about: which message it is; empty: there is none.
        lacking: why no message of the source is shown; empty where one is.
        outcome: what the job makes of it; None: there is no message.
        refused: why the destination cannot take what it would get, or None.
        sample: the message, or an example, as :func:`mgw.gateway.services.trial.read_message` reads it.
        exception_queue: where the job puts what fails; None: it stops.
    """

    about: str
    lacking: str
    outcome: Outcome | None
    refused: ConversionFailure | None
    sample: str
    destination: str
    exception_queue: str | None


def preview(hub: Hub, name: str, document: Document, sample: str | None = None) -> Preview:
    """Run a message through a job that a document has, and that need not be saved.

    Args:
        sample: a message that somebody wrote; None: the first one of the source.

    Raises:
        ConfigInvalid: the sample is none.
        GatewayError: the job cannot be made of these settings.
    """
    job = document.jobs[name]
    admin = GatewayAdmin(hub)  # one for all, because it knows the secrets that it has opened
    with scratch_hub(_needed(read_running(hub), name, job)) as (scratch, refused):
        if refused is not None:
            raise refused[1]
        trial = of_job(scratch, name)
        lacking, failure, message = "", None, None
        if sample is not None:
            about, message = "the message that you gave", read_message(sample)
        else:
            about, lacking, found = _looked(admin, name, job, trial)
            if found is not None:
                message, failure = found.message, found.failure
            if trial.stored is not None:
                trial = replace(trial, stored=None)  # the queue has it in its form already
        outcome = None
        if message is not None:
            outcome = trial.run(message) if failure is None else Outcome(message, failure=failure)
        return Preview(
            about if message is not None else "",
            lacking,
            outcome,
            None if outcome is None else _refusal(admin, trial, outcome),
            sample if sample is not None else _written(message),
            job.destination,
            job.exception_queue,
        )


def _needed(held: Document, name: str, job: JobModel) -> Document:
    """What the hub for the purpose must hold."""
    ends = [end for end in (job.source, job.destination, job.exception_queue) if end is not None]
    queues = _of("queues", held.queues, ends)
    foreign = _of("foreign_queues", held.foreign_queues, ends)
    tables = [queue.queue_table for queue in queues.values() if queue.queue_table is not None]
    links = _of("links", held.links, [each.rpartition("@")[2] for each in foreign])
    return held.model_copy(
        update={
            "jobs": {name: job},
            "queues": queues,
            "queue_tables": _of("queue_tables", held.queue_tables, tables),
            "foreign_queues": foreign,
            "links": links,
            "aq_agents": {},
            "grants": {},
        }
    )


def _of(section: str, objects: Mapping[str, _Model], names: Iterable[str]) -> dict[str, _Model]:
    found = [name_in(section, objects, name) for name in names]
    return {name: objects[name] for name in found if name is not None}


def _looked(admin: GatewayAdmin, name: str, job: JobModel, trial: Trial) -> tuple[str, str, Delivery | None]:
    """See :func:`_first`; where the source shows none, such as a queue that is stopped, its error is why."""
    try:
        return _first(admin, name, job, trial)
    except HubError:
        raise
    except GatewayError as error:
        hidden = admin.secrets.redact
        return "", hidden("; ".join(filter(None, (error.what, error.cause)))), None


def _first(admin: GatewayAdmin, name: str, job: JobModel, trial: Trial) -> tuple[str, str, Delivery | None]:
    """Words for the first message of the source, why there is none, and the message."""
    if trial.source is None:
        found = _first_of_hub(admin, name, job.source)
        lacking = f"queue {job.source} holds no message now"
        return f"the first message of queue {job.source}", "" if found else lacking, found
    link = _opened(admin, trial.source)
    if not isinstance(link, ShowsMessages):
        return "", f"a link of type {trial.source.link.type} shows no message without taking it", None
    found = link.first_message(trial.source.use)
    return f"the first message of {job.source}", "" if found else f"{job.source} holds no message now", found


def _opened(admin: GatewayAdmin, end: LinkEnd) -> Link:
    """The link of an end as the running hub has it: the hub for the purpose knows no password."""
    return registry.open_link(lookup.link(admin, end.link.name).config())


def _first_of_hub(admin: GatewayAdmin, name: str, source: str) -> Delivery | None:
    """The first message of a queue: for the subscriber that is the job, if it is there and has one, else for any."""
    story = queue_story(admin.hub, source)
    consumers: list[str | None] = [None]
    if story.queue.multiple_consumers:
        held = admin.get_job(name)
        own = None if held is None else held.subscriber
        consumers = sorted(story.consumers, key=lambda each: each != own)
    for consumer in consumers:
        listing = some_messages(admin.hub, story.queue.full_name, count=1, consumer=consumer)
        if listing.messages:
            return Delivery(listing.messages[0].message)
    return None


def _refusal(admin: GatewayAdmin, trial: Trial, outcome: Outcome) -> ConversionFailure | None:
    """Why the messaging system of the destination cannot take one of the messages; nobody is connected."""
    if trial.target is None or not outcome.messages:
        return None
    destination = _opened(admin, trial.target).destination(trial.target.use)
    try:
        for message in outcome.messages:
            destination.encode(message)
    except ConversionFailure as failure:
        return failure
    return None


def _written(message: Message | None) -> str:
    """The message as somebody may change it; an example where there is none, or it is long."""
    if message is None or len(body_bytes(message.body)) > _LONGEST:
        return _SAMPLE
    try:
        values = written(message)
        for each in _OF_THE_HUB:
            values.pop(each, None)
        if isinstance(values.get("body"), str) and "\n" in values["body"]:
            values["body"] = LiteralScalarString(values["body"])
        text = StringIO()
        yaml = YAML()
        yaml.width = 1000
        yaml.dump(values, text)
        read_message(text.getvalue())
    except (GatewayError, ValueError):  # a body that has no such form
        return _SAMPLE
    return text.getvalue()
