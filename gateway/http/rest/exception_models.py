"""Messages of exception queues as requests and answers have them."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Any

from pydantic import BaseModel, Field, WithJsonSchema

from mgw.gateway.http.rest.answers import StrictModel
from mgw.gateway.http.rest.given import Moment, Word, seconds
from mgw.gateway.http.rest.message_models import AnyJson, ShownHeaders, moment_or_none
from mgw.gateway.services.exceptions import Edit, Entry, Outcome, Which
from mgw.gateway.services.message_json import body_form, headers_form

__all__ = [
    "EditWanted",
    "EntryModel",
    "ExceptionModel",
    "OutcomeModel",
    "Selection",
    "edit_of",
    "entry_model",
    "exception_model",
    "outcome_model",
]

_WHOLE = 1 << 62  # bytes of a body: it is not cut
_OWN = "MGW_error"  # so begin the headers that say why the message is there


class EntryModel(BaseModel):
    """A message of an exception queue, without its body."""

    id: str = Field(description="As `mgw exceptions list` shows it.")
    job: str = Field(description="Empty: another program put it there.")
    queue: str = Field(description="The exception queue.")
    time: datetime | None = Field(description="Of the failure.")
    number: int | None = Field(description="Of the error.")
    reason: str = Field(description="What went wrong, why, and what to do.")
    origin: str = Field(description="Where it came from.")
    original_id: str | None = Field(description="Which message it was there.")
    consumer: str | None = Field(description="The subscriber for which it failed.")
    omitted: str = Field(description="What of it could not be stored here.")
    edited: str = Field(description="What was edited last, by whom and when.")


class ExceptionModel(EntryModel):
    """A message of an exception queue. Of `text`, `json`, `base64` and `fields` it has the one that its body is."""

    size: int = Field(description="Bytes of the body.")
    text: str | None = Field(description="The body, if it is text.")
    json_body: AnyJson = Field(serialization_alias="json", description="The body, if it has a declared type.")
    base64: str | None = Field(description="The body, if it is bytes.")
    fields: ShownHeaders = Field(description="The body, if it is fields.")
    type: str | None = Field(description="The declared type of the body.")
    headers: ShownHeaders = Field(description="Without those that say why it is here.")
    correlation: str | None = Field(description="Its correlation.")
    priority: int = Field(description="Smaller is more important.")
    expiration: float | None = Field(description="Seconds that it had to live at its source.")

    def model_dump(self, **_: Any) -> dict[str, Any]:
        """With the names of the interface."""
        return super().model_dump(by_alias=True)


class EditWanted(StrictModel):
    """What is to be changed of a message; what is not named stays."""

    text: str | None = Field(default=None, description="The new body of a message whose body is text.")
    json_body: AnyJson = Field(default=None, alias="json", description="The same, as JSON.")
    base64: str | None = Field(default=None, description="The new body of a message whose body is bytes.")
    headers: Annotated[
        Any,
        WithJsonSchema({"type": "object"}),
    ] = Field(default=None, description="By name, in the form of other messages; null removes a header.")
    correlation: Word | None = Field(default=None, max_length=128, description="null removes it.")


class Selection(StrictModel):
    """Which messages of an exception queue are meant: those that fulfil every condition given."""

    ids: list[Word] = Field(default_factory=list, max_length=10_000, description="As the list shows them.")
    number: int | None = Field(default=None, ge=-(2**31), lt=2**31, description="Of the error.")
    reason: Word | None = Field(default=None, description="Part of the text of the error; `*` and `?` are wildcards.")
    since: Moment | None = Field(default=None, description="Failures from this moment on.")
    before: Moment | None = Field(default=None, description="Failures before this moment.")
    all: bool = Field(default=False, description="All messages of the job; needed where no id and no filter is given.")
    limit: int | None = Field(default=None, ge=1, le=10**9, description="Maximum number of messages, oldest first.")
    rate: float | None = Field(
        default=None, ge=0.001, le=1e9, description="Maximum number of messages a second; makes it a task."
    )
    task: bool = Field(default=False, description="Do not wait for the end: answer with a task.")
    dry_run: bool = Field(default=False, description="Only say what would be done.")
    consumer: Word | None = Field(
        default=None, max_length=128, description="Subscriber, where the exception queue is a multi-consumer queue."
    )
    to: Word | None = Field(
        default=None,
        max_length=400,
        description="`QUEUE@LINK`: registered foreign queue that gets them instead of the source.",
    )

    def which(self) -> Which:
        """As the services take it."""
        return Which(tuple(self.ids), self.number, self.reason, seconds(self.since), seconds(self.before))


class OutcomeModel(BaseModel):
    """What happened to the messages that were meant."""

    target: str = Field(description="Where messages are put.")
    dry_run: bool = Field(description="Nothing was done.")
    done: list[str] = Field(description="Ids, in order; with a dry run those that would be.")
    gone: list[str] = Field(description="Messages that somebody else took, or holds.")
    failed: dict[str, str] = Field(description="Why messages stay where they are, by id.")
    reasons: dict[str, int] = Field(description="How many of `done` had which error.")
    stopped: str | None = Field(description="Why it ended early; what was not reached stays where it is.")


def entry_model(entry: Entry) -> EntryModel:
    """A message without its body."""
    return EntryModel(**_entry(entry))


def _entry(entry: Entry) -> dict[str, Any]:
    reason = entry.reason
    return {
        "id": entry.id,
        "job": entry.job,
        "queue": entry.queue,
        "time": moment_or_none(reason.time),
        "number": reason.number,
        "reason": reason.text,
        "origin": reason.origin,
        "original_id": reason.msgid.hex() if reason.msgid else reason.key or None,
        "consumer": reason.consumer,
        "omitted": reason.omitted,
        "edited": reason.edited,
    }


def exception_model(entry: Entry) -> ExceptionModel:
    """A message with its body."""
    message = entry.message
    body = body_form(message.body, _WHOLE)
    return ExceptionModel(
        **_entry(entry),
        size=body.size,
        text=body.text,
        json_body=body.json,
        base64=body.base64,
        fields=body.fields,
        type=body.type_name,
        headers=headers_form([each for each in message.headers if not each.name.startswith(_OWN)]),
        correlation=message.correlation,
        priority=message.priority,
        expiration=entry.reason.expiration,
    )


def edit_of(given: EditWanted) -> Edit:
    """As the services take it."""
    named = given.model_fields_set
    return Edit(
        text=given.text,
        json=given.json_body,
        has_json="json_body" in named,
        base64=given.base64,
        headers=given.headers,
        correlation=None if "correlation" not in named else given.correlation or "",
    )


def outcome_model(outcome: Outcome) -> OutcomeModel:
    """What happened."""
    return OutcomeModel(
        target=outcome.target,
        dry_run=outcome.dry,
        done=outcome.done,
        gone=outcome.gone,
        failed=outcome.failed,
        reasons=dict(outcome.reasons),
        stopped=outcome.stopped or None,
    )
