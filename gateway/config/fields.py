"""Values as a configuration file may write them, and the mapping in which an unknown key is an error."""

from __future__ import annotations

import re
from functools import cache
from typing import Annotated, Any, Literal, get_args

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field, WithJsonSchema, model_validator

from mgw.gateway.aq import OTHER_NAMES, QUEUE_TABLE_ATTRIBUTES, own_kind
from mgw.gateway.aq import payload_forms as payloads
from mgw.links.contract import Field as Description

__all__ = [
    "ONE_OR_MANY",
    "Options",
    "PayloadType",
    "QueueGrant",
    "SortList",
    "Strict",
    "SystemGrant",
    "Text",
    "as_in_its_table",
    "described",
    "lower",
    "one_or_many",
    "upper",
]


def upper(value: object) -> object:
    """A choice as it is stored: letters and the width of blanks do not matter, nor blanks around commas."""
    return re.sub(r" ?, ?", ",", " ".join(value.upper().split())) if isinstance(value, str) else value


def lower(value: object) -> object:
    return " ".join(value.lower().split()) if isinstance(value, str) else value


def _text(value: object) -> object:
    """A number where a text is expected: YAML takes 12.2 for one."""
    return str(value) if isinstance(value, int | float) and not isinstance(value, bool) else value


def one_or_many(value: object) -> object:
    return [value] if isinstance(value, str) else value


def _option_text(value: object) -> object:
    """Option values are stored as text; YAML's true, 30 and null mean TRUE, 30 and 'not set'."""
    if isinstance(value, bool):
        return "TRUE" if value else "FALSE"
    if isinstance(value, float) and value.is_integer():  # JSON knows no difference between 5 and 5.0
        return str(int(value))
    return str(value) if isinstance(value, int | float) else value


Options = dict[str, Annotated[str | None, BeforeValidator(_option_text)]]
_PAYLOADS = ("RAW", "BASIC", "FIELDS", "TEXT", "JSON", "XMLTYPE", "ANYDATA")
_OBJECT_TYPE = r'[^\s."]+[.][^\s."]+'


def _payload_name(value: object) -> object:
    """As the hub writes it; it knows some of its own types by other names, too."""
    if not isinstance(value, str):
        return value
    own = own_kind(value)
    return payloads.jms_type(value) or upper(value) if own is None else own.value


def _payload_type(value: str) -> str:
    if value not in _PAYLOADS and not re.fullmatch(_OBJECT_TYPE, value):
        own = ", ".join(_PAYLOADS)
        raise ValueError(f"one of {own}, or SCHEMA.NAME of an object type (MGW.NAME of one without a schema)")
    return value


PayloadType = Annotated[
    str,
    BeforeValidator(_payload_name),
    AfterValidator(_payload_type),
    WithJsonSchema(
        {
            "anyOf": [
                {"enum": list(_PAYLOADS), "x-also": list(OTHER_NAMES)},
                {"pattern": f"^{_OBJECT_TYPE}$", "type": "string"},
            ]
        }
    ),
]
SortList = Annotated[
    Literal["ENQ_TIME", "ENQ_TIME,PRIORITY", "PRIORITY", "PRIORITY,ENQ_TIME", "PRIORITY,COMMIT_TIME", "COMMIT_TIME"],
    BeforeValidator(upper),
]
#: For the JSON Schema: what else a file may write (:func:`mgw.gateway.config.schema_parts.as_written`).
ONE_OR_MANY = Field(json_schema_extra={"x-one-or-many": True})
Text = Annotated[str, BeforeValidator(_text), Field(json_schema_extra={"x-number": True})]
QueueGrant = Annotated[
    Literal[
        "ENQUEUE",
        "DEQUEUE",
        "ALL",
        "ENQUEUE WITH GRANT OPTION",
        "DEQUEUE WITH GRANT OPTION",
        "ALL WITH GRANT OPTION",
    ],
    BeforeValidator(upper),
]
SystemGrant = Annotated[
    Literal[
        "ENQUEUE_ANY",
        "DEQUEUE_ANY",
        "MANAGE_ANY",
        "ENQUEUE_ANY WITH ADMIN OPTION",
        "DEQUEUE_ANY WITH ADMIN OPTION",
        "MANAGE_ANY WITH ADMIN OPTION",
    ],
    BeforeValidator(upper),
]


class Strict(BaseModel):
    """A mapping in which an unknown key is an error."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    @model_validator(mode="before")
    @classmethod
    def _no_number_is_true(cls, values: Any) -> Any:
        """True is not a number, although Python takes it for 1."""
        if not isinstance(values, dict) or not any(isinstance(value, bool) for value in values.values()):
            return values
        numbers = _numbers(cls)
        return {
            name: str(value) if isinstance(value, bool) and name in numbers else value for name, value in values.items()
        }


@cache
def _numbers(model: type[BaseModel]) -> frozenset[str]:
    """Keys whose value is a number."""
    return frozenset(name for name, field in model.model_fields.items() if {int, float} & set(_kinds(field.annotation)))


def _kinds(annotation: Any) -> list[Any]:
    """An annotation and what it is made of."""
    return [annotation, *(kind for part in get_args(annotation) for kind in _kinds(part))]


def described(attribute: Description) -> Any:
    """A key of a model, from the description of the attribute: its meaning, default and range."""
    return Field(
        default=... if attribute.required else attribute.default,
        description=attribute.description,
        **_bounds(attribute),
    )


def as_in_its_table(name: str) -> Any:
    """A key of a queue that stands for an attribute of its queue table; without it the table's default counts."""
    attribute = QUEUE_TABLE_ATTRIBUTES[name]
    default = attribute.default
    shown = str(default).lower() if isinstance(default, bool) else default
    meaning = "As in a queue table." if default is None else f"As in a queue table; default {shown}."
    return Field(default=None, description=meaning, **_bounds(attribute))


def _bounds(attribute: Description) -> dict[str, Any]:
    bounds = {"ge": attribute.minimum, "le": attribute.maximum}
    if attribute.type is int:
        bounds = {name: None if bound is None else int(bound) for name, bound in bounds.items()}
    bounds = {name: bound for name, bound in bounds.items() if bound is not None}
    return bounds | ({"allow_inf_nan": False} if attribute.type is float and attribute.minimum is not None else {})
