"""Tests of mappings: files ``*_test.yaml`` next to a configuration, with messages in and messages out."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from pathlib import Path as FilePath
from typing import Any, Literal

from pydantic import Field, ValidationError, model_validator

from mgw.gateway.config.fields import Strict
from mgw.gateway.config.load import OVERRIDES, Source, load
from mgw.transforms.payloads.written import BODIES

__all__ = [
    "SUFFIX",
    "ExpectedFailure",
    "MappingTest",
    "MessageForm",
    "configuration_of",
    "files_in",
    "json_schema",
    "read",
]

SUFFIX = "_test.yaml"


class MessageForm(Strict):
    """A message as people write it."""

    body: Any = Field(default=None, description="Text; anything else is JSON.")
    body_hex: str | None = Field(default=None, description="Bytes, in hexadecimal digits.")
    fields_: dict[str, Any] | None = Field(default=None, alias="fields", description="Named fields.")
    kind: Literal["raw", "basic", "fields"] | None = Field(default=None, description="Canonical payload type.")
    headers: dict[str, Any] | list[dict[str, Any]] | None = Field(
        default=None, description="Values by name; a list of `{name: N, value: V}` where names repeat."
    )
    correlation: str | None = Field(default=None, description="Correlation.")
    priority: int | None = Field(default=None, description="Priority; smaller is more important.")
    delay: float | None = Field(default=None, description="Seconds.")
    expiration: float | None = Field(default=None, description="Seconds.")
    attempts: int | None = Field(default=None, description="Failed attempts so far.")
    enqueue_time: float | datetime | None = Field(
        default=None, description="Epoch seconds, or a moment as `2026-11-20T10:57:34Z`; without a zone it is in UTC."
    )
    sender_name: str | None = Field(default=None, description="Name of the sender.")
    sender_address: str | None = Field(default=None, description="Queue it was last propagated from.")
    exception_queue: str | None = Field(default=None, description="Queue that takes it when it fails too often.")
    user_property: str | None = Field(default=None, description="Text that says more about the body.")
    msgid: str | None = Field(default=None, description="Message id, 32 hexadecimal digits.")

    @model_validator(mode="after")
    def _one_body(self) -> MessageForm:
        given = [name for name in BODIES if getattr(self, "fields_" if name == "fields" else name) is not None]
        if len(given) > 1:
            raise ValueError(f"{' and '.join(given)}: a message has one body")
        return self

    def values(self) -> dict[str, Any]:
        """What is written, by key."""
        values = self.model_dump(by_alias=True, exclude_unset=True)
        moment = self.enqueue_time
        if isinstance(moment, datetime):
            values["enqueue_time"] = (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp()
        return values


class ExpectedFailure(Strict):
    """How a message is expected to fail."""

    number: int | None = Field(default=None, description="Number of the error, such as 722.")
    text: str | None = Field(default=None, description="Text that is in the error.")


class MappingTest(Strict):
    """One test: messages in, and what is expected of them."""

    job: str | None = Field(default=None, description="Job whose rule, conversion and transformation are tested.")
    transformation: str | None = Field(default=None, description="Transformation that is tested.")
    message: MessageForm | None = Field(default=None, description="Message that comes in.")
    messages: list[MessageForm] | None = Field(default=None, description="Messages that come in, one after the other.")
    expect: MessageForm | list[MessageForm] | None = Field(
        default=None, description="Messages that go out, in order. What one does not name is as in the message it was."
    )
    filtered: Literal[True] | None = Field(default=None, description="No message goes out, on purpose.")
    fails: ExpectedFailure | None = Field(default=None, description="The message goes to the exception queue.")

    @model_validator(mode="after")
    def _whole(self) -> MappingTest:
        for names in (("job", "transformation"), ("message", "messages"), ("expect", "filtered", "fails")):
            if sum(getattr(self, name) is not None for name in names) != 1:
                raise ValueError(f"a test has one of {', '.join(names)}")
        return self


class _File(Strict):
    """A file of tests of mappings."""

    configuration: list[str] | str | None = Field(
        default=None, description="Configuration files, relative to this one; default: its name without `_test`."
    )
    tests: dict[str, MappingTest] = Field(description="Tests by name.")


def json_schema() -> dict[str, Any]:
    """The JSON Schema of these files."""
    return {"$schema": "https://json-schema.org/draft/2020-12/schema", **_File.model_json_schema(by_alias=True)}


def files_in(path: FilePath) -> Iterator[FilePath]:
    """A file, or all test files in a folder and those below it, by name."""
    if path.is_dir():
        yield from sorted(each for each in path.rglob(f"*{SUFFIX}") if each.is_file())
    else:
        yield path


def read(path: FilePath, environ: Mapping[str, str]) -> tuple[Source, dict[str, MappingTest]]:
    """The tests of a file that are right; what is wrong is in the findings of the source."""
    source = load([path], {name: value for name, value in environ.items() if name != OVERRIDES})
    for section in source.tree.keys() - {"configuration", "tests"}:
        source.error("unknown-key", (section,), f"{section!r} is not known here", "the keys are configuration, tests")
    found: dict[str, MappingTest] = {}
    tests = source.tree.get("tests")
    if not isinstance(tests, dict) or not tests:
        source.error("missing-key", ("tests",), "the file has no tests", "write tests: {NAME: {...}}")
        return source, found
    for name, values in tests.items():
        try:
            found[name] = MappingTest.model_validate(values)
        except ValidationError as error:
            for detail in error.errors(include_url=False):
                where = ("tests", name, *(each for each in detail["loc"] if isinstance(each, (str, int))))
                source.error("bad-value", where, f"test {name!r}: {detail['msg'].removeprefix('Value error, ')}")
    return source, found


def configuration_of(path: FilePath, source: Source) -> list[FilePath]:
    """The configuration files that a file of tests belongs to."""
    named = source.tree.get("configuration")
    if named is None:
        return [path.with_name(path.name.removesuffix(SUFFIX) + ".yaml")]
    return [path.parent / str(each) for each in (named if isinstance(named, list) else [named])]
