"""Messages as requests and answers have them."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Any, Literal

from pydantic import BaseModel, Field, WithJsonSchema

from mgw.gateway.http.rest.answers import StrictModel
from mgw.gateway.http.rest.given import Word
from mgw.gateway.http.rest.moments import moment
from mgw.gateway.services.message_json import TYPE_WORDS, Given, body_form, headers_form
from mgw.gateway.services.messages import Looked, Reader
from mgw.transforms.message import Message

__all__ = [
    "BODY_LIMIT",
    "AnyJson",
    "GivenHeaders",
    "MessageModel",
    "NewMessage",
    "ReaderModel",
    "ShownHeaders",
    "StateWord",
    "looked_model",
    "message_model",
    "moment_or_none",
    "reader_models",
]

BODY_LIMIT = 64 * 1024  # bytes of a body in a list, unless more are asked for

StateWord = Literal["READY", "WAITING", "PROCESSED", "EXPIRED", "UNDELIVERABLE", "CLAIMED", "SPLIT"]

_TYPED = {
    "type": "object",
    "required": ["value"],
    "properties": {
        "type": {"type": "string", "enum": list(TYPE_WORDS.values())},
        "value": {"type": ["string", "number", "boolean"]},
    },
}
_HEADER_TEXT = (
    'By name: `{"type": "int", "value": 3}`. The types are '
    f"{', '.join(f'`{word}`' for word in TYPE_WORDS.values())}; `raw` is base64, `date` ISO 8601 or seconds since "
    "1970, `json` and `decimal` are text. Where a name repeats: an array of objects with `name`, `type` and `value`."
)
_GIVEN = {
    "anyOf": [
        {
            "type": "object",
            "additionalProperties": {"anyOf": [_TYPED, {"type": ["string", "number", "boolean", "array"]}]},
        },
        {
            "type": "array",
            "items": {
                **_TYPED,
                "required": ["name", "value"],
                "properties": {"name": {"type": "string"}, **_TYPED["properties"]},  # type: ignore[dict-item]
            },
        },
    ]
}
#: Headers or fields that somebody sends; what of them cannot be is said by the services.
GivenHeaders = Annotated[Any, WithJsonSchema(_GIVEN)]
ShownHeaders = Annotated[Any, WithJsonSchema(_GIVEN)]
AnyJson = Annotated[Any, WithJsonSchema({})]


class NewMessage(StrictModel):
    """A message to be enqueued. At most one of `text`, `json`, `base64` and `fields`; without them it has no body."""

    text: str | None = Field(default=None, description="A body that is text.")
    json_body: AnyJson = Field(
        default=None, alias="json", description="A body that is JSON: stored as compact text, with all its digits."
    )
    base64: str | None = Field(default=None, description="A body that is bytes, in base64.")
    fields: GivenHeaders = Field(
        default=None, description=f"A body of named fields, for queues that hold FIELDS. {_HEADER_TEXT}"
    )
    type: str | None = Field(default=None, max_length=300, description="What ANYDATA wraps: `NUMBER`, `OE.ADDRESS`.")
    headers: GivenHeaders = Field(
        default_factory=dict,
        description=f"{_HEADER_TEXT} A plain value will do: text, true or false, an integer (int, or long where it "
        "does not fit), another number (double).",
    )
    priority: int = Field(default=1, ge=-(2**63), lt=2**63, description="Smaller is more important.")
    correlation: Word | None = Field(
        default=None, max_length=128, description="Text by which consumers choose messages."
    )
    delay: float = Field(default=0, ge=0, le=1e9, description="Seconds until it can be dequeued.")
    expiration: float | None = Field(default=None, ge=0, le=1e9, description="Seconds for which it can be dequeued.")
    sender: Word | None = Field(default=None, max_length=128, description="Name of the sender.")
    exception_queue: Word | None = Field(
        default=None, max_length=300, description="Takes it when it expires, or fails too often."
    )
    user_property: Word | None = Field(default=None, description="Text that says more about the body.")
    recipients: list[Word] = Field(
        default_factory=list, max_length=1024, description="Consumers that get it instead of the subscribers."
    )

    def given(self) -> Given:
        """As the services take it."""
        return Given(
            text=self.text,
            json=self.json_body,
            has_json="json_body" in self.model_fields_set,
            base64=self.base64,
            fields=self.fields,
            type_name=self.type,
            headers={} if self.headers is None else self.headers,
            priority=self.priority,
            correlation=self.correlation,
            delay=self.delay,
            expiration=self.expiration,
            sender=self.sender,
            exception_queue=self.exception_queue,
            user_property=self.user_property,
            recipients=self.recipients,
        )


class ReaderModel(BaseModel):
    """A consumer that a message of a multi-consumer queue is for."""

    name: str = Field(description="Name of the consumer; empty: whoever reads at the address.")
    address: str = Field(description="A queue elsewhere that it is propagated to; empty: a consumer of this queue.")
    state: StateWord = Field(description="Of the message for this consumer.")
    attempts: int = Field(description="Failed attempts of this consumer.")


class MessageModel(BaseModel):
    """A message. Of `text`, `json`, `base64` and `fields` it has the one that its body is, or none."""

    id: str = Field(description="32 hexadecimal digits, as the command line shows them.")
    state: StateWord = Field(description="SPLIT: of a multi-consumer queue; each consumer has a state of its own.")
    size: int = Field(description="Bytes of the body as it is stored; of its JSON where it has a declared type.")
    truncated: bool = Field(
        description="The body is longer than asked for: text and bytes end early, JSON and fields are left out."
    )
    text: str | None = Field(description="The body, if it is text.")
    json_body: AnyJson = Field(
        serialization_alias="json", description="The body, if it has a declared type (objects, ANYDATA)."
    )
    base64: str | None = Field(description="The body, if it is bytes.")
    fields: ShownHeaders = Field(description=f"The body, if it is fields. {_HEADER_TEXT}")
    type: str | None = Field(description="The declared type of the body.")
    headers: ShownHeaders = Field(description=_HEADER_TEXT)
    priority: int = Field(description="Smaller is more important.")
    correlation: str | None = Field(description="Its correlation.")
    enqueued: datetime | None = Field(description="When it was enqueued.")
    expires: datetime | None = Field(description="When it expires; null: never.")
    attempts: int = Field(description="Failed attempts to dequeue it.")
    sender: str | None = Field(description="Name of the sender.")
    sender_address: str | None = Field(description="Queue that it was propagated from.")
    original_id: str | None = Field(description="Its id in that queue.")
    exception_queue: str | None = Field(
        description="Takes it when it expires, or fails too often; null: the one of its queue table."
    )
    user_property: str | None = Field(description="Text that says more about the body.")

    def model_dump(self, **_: Any) -> dict[str, Any]:
        """With the names of the interface."""
        return super().model_dump(by_alias=True)


def message_model(msgid: bytes, message: Message, state: str, limit: int) -> MessageModel:
    """A message with at most ``limit`` bytes of its body."""
    body = body_form(message.body, limit)
    return MessageModel(
        id=msgid.hex().upper(),
        state=state,  # type: ignore[arg-type]
        size=body.size,
        truncated=body.truncated,
        text=body.text,
        json_body=body.json,
        base64=body.base64,
        fields=body.fields,
        type=body.type_name,
        headers=headers_form(message.headers),
        priority=message.priority,
        correlation=message.correlation,
        enqueued=moment_or_none(message.enqueue_time),
        expires=moment_or_none(message.expires_at),
        attempts=message.attempts,
        sender=message.sender_name,
        sender_address=message.sender_address,
        original_id=message.original_msgid.hex().upper() if message.original_msgid else None,
        exception_queue=message.exception_queue,
        user_property=message.user_property,
    )


def moment_or_none(seconds: float | None) -> datetime | None:
    """None for a moment beyond the year 9999, too."""
    try:
        return moment(seconds)
    except (ValueError, OverflowError, OSError):
        return None


def looked_model(found: Looked, limit: int) -> MessageModel:
    """A message that was looked at."""
    return message_model(found.msgid, found.message, found.state.name, limit)


def reader_models(readers: tuple[Reader, ...] | list[Reader]) -> list[ReaderModel]:
    """The consumers of a message."""
    return [
        ReaderModel(
            name=each.name,
            address=each.address,
            state=each.state.name,  # type: ignore[arg-type]
            attempts=each.attempts,
        )
        for each in readers
    ]
