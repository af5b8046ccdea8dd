"""Where the schemas of bodies come from: a file, files by id, or a registry. The same for every schema language.

With a registry, or with files by id, a body begins with a zero byte and the four bytes of its schema's id (the wire
format of Confluent's clients). With one file it is the value alone.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Mapping
from typing import Generic, TypeVar

from mgw.transforms.codecs.registry import Access, Schema, registry_at
from mgw.transforms.errors import ConfigInvalid, ConversionFailure

__all__ = ["SchemaSource", "refused"]

S = TypeVar("S")
_HEAD = struct.Struct(">bI")


class SchemaSource(Generic[S]):
    """Schemas in the form in which a codec uses them.

    Args:
        language: named in errors.
        schema: file of the one schema, for bodies that do not name theirs.
        schemas: files of schemas by id, for bodies that do.
        access: a registry, for bodies that do.
        read_file: makes a schema of a file.
        parse: makes one of what a registry answers.
        form: in which a registry is asked for schemas.

    Raises:
        ConfigInvalid: not exactly one of ``schema``, ``schemas`` and ``access`` is given; a file holds no schema.
    """

    def __init__(
        self,
        language: str,
        schema: str | None,
        schemas: Mapping[int, str] | None,
        access: Access | None,
        *,
        read_file: Callable[[str], S],
        parse: Callable[[Schema], S],
        form: str = "",
    ) -> None:
        if sum(each is not None for each in (schema, schemas, access)) != 1:
            raise ConfigInvalid(
                f"it is not clear where the {language} schema comes from",
                cause="exactly one of the options schema, schemas and registry tells it",
                cure="give one of them",
            )
        self._language = language
        self._parse = parse
        self._one = None if schema is None else read_file(schema)
        self._by_id = None if schemas is None else {number: read_file(path) for number, path in schemas.items()}
        self._registry = None if access is None else registry_at(access, form)

    @property
    def of_files(self) -> tuple[S, ...]:
        """The schemas that are read already."""
        return (*(() if self._one is None else (self._one,)), *(self._by_id or {}).values())

    def check(self, *, write: bool = False, subject: str | None = None, schema_id: int | None = None) -> None:
        """Refuse options that contradict one another, before there is a message.

        Raises:
            ConfigInvalid: they do.
        """
        if not write:
            return
        if self._one is not None:
            fits = subject is None and schema_id is None
        elif self._by_id is not None:
            fits = schema_id is not None and subject is None
            if fits and schema_id not in self._by_id:
                raise ConfigInvalid(
                    f"schema {schema_id} is not among the files", cause="schemas does not name it", cure="add its file"
                )
        else:
            fits = subject is not None or schema_id is not None
        if not fits:
            raise ConfigInvalid(
                f"it is not clear which {self._language} schema a body is written with",
                cause="schema names the one; with schemas the option schema_id does, with registry that or subject",
                cure="give the option that fits, and no other",
            )

    def to_read(self, body: bytes) -> tuple[S, int]:
        """The schema of a body, and where what follows its id begins.

        Raises:
            ConversionFailure: the body does not name a schema, or one that does not exist.
            RegistryUnavailable: the registry does not answer.
        """
        if self._one is not None:
            return self._one, 0
        if len(body) < _HEAD.size or body[0] != 0:
            raise refused(self._language, "decoded", "it does not begin with a zero byte and the id of a schema")
        return self._of(_HEAD.unpack_from(body)[1]), _HEAD.size

    def to_write(self, subject: str | None, schema_id: int | None) -> tuple[bytes, S]:
        """What a body begins with, and the schema that it is written with.

        Raises:
            ConversionFailure: there is no such schema.
            RegistryUnavailable: the registry does not answer, or has no such subject.
        """
        if self._one is not None:
            return b"", self._one
        if schema_id is not None:
            return _HEAD.pack(0, schema_id), self._of(schema_id)
        assert self._registry is not None and subject is not None  # noqa: S101, PT018  as check() has seen to
        found = self._registry.latest(subject)
        return _HEAD.pack(0, found.id), self._parse(found)

    def _of(self, number: int) -> S:
        if self._by_id is not None:
            found = self._by_id.get(number)
            if found is None:
                raise ConversionFailure(
                    f"schema {number} is not among the files of the transformation",
                    cause="the message names it",
                    cure="add its file to the option schemas",
                )
            return found
        assert self._registry is not None  # noqa: S101  one of the three is given
        return self._parse(self._registry.schema(number))


def refused(language: str, what: str, cause: str) -> ConversionFailure:
    """The failure of a body that cannot be decoded or encoded."""
    return ConversionFailure(
        f"the body cannot be {what} as {language}",
        cause=cause,
        cure="correct the sender, or the schema of the transformation",
    )
