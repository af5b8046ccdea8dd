"""Names of queues, queue tables and agents (AQ guide 12.2 §2.1, §2.2, §2.3)."""

from __future__ import annotations

from typing import NamedTuple

from mgw.gateway.aq.errors import AgentNameInvalid, AgentNameReserved, NameInvalid, NameReserved, NameTooLong

__all__ = [
    "DEFAULT_SCHEMA",
    "JOB_SUBSCRIBER",
    "MAX_AGENT_NAME",
    "MAX_QUEUE_NAME",
    "QualifiedName",
    "agent_key",
    "agent_name",
    "bare_agent",
    "is_of_job",
    "qualified",
    "shown_key",
    "user_name",
]

DEFAULT_SCHEMA = "MGW"
MAX_QUEUE_NAME = 122  # bytes, AQ guide 12.2 §2.1
MAX_SCHEMA_NAME = 128
MAX_AGENT_NAME = 128
MAX_ADDRESS = 1024
#: What the names of subscribers begin with that jobs of the gateway have; the name of the job follows.
JOB_SUBSCRIBER = "MGW_"
_PUNCTUATION = frozenset("_$#-/+")


class QualifiedName(NamedTuple):
    """``schema.name`` with the case it was given; two names are one if their :attr:`key` is."""

    schema: str
    name: str

    @property
    def key(self) -> str:
        """What uniqueness and look-up compare; a schema with a dot in it stands in quotes, which no name holds."""
        schema = f'"{self.schema}"' if "." in self.schema else self.schema
        return f"{schema}.{self.name}".upper()

    @property
    def shown(self) -> str:
        """The plain name in the default schema, else ``schema.name``, in quotes where :func:`qualified` needs them."""
        name = _quoted(self.name)
        return name if self.schema.upper() == DEFAULT_SCHEMA else f"{_quoted(self.schema)}.{name}"

    @property
    def label(self) -> str:
        """The same without quotes, for people: two objects may have one."""
        return self.name if self.schema.upper() == DEFAULT_SCHEMA else f"{self.schema}.{self.name}"


def _quoted(part: str) -> str:
    return part if _is_plain(part) else f'"{part}"'


def _is_plain(part: str) -> bool:
    return part[:1].isalnum() and all(c.isalnum() or c in _PUNCTUATION for c in part)


def shown_key(shown: str) -> str:
    """The :attr:`QualifiedName.key` of a name as it is shown; of another text, something that is the key of none."""
    parts = _split(shown)
    if not 1 <= len(parts) <= 2:
        return ""
    return QualifiedName(parts[0] if len(parts) == 2 else DEFAULT_SCHEMA, parts[-1]).key


def qualified(text: str, schema: str = DEFAULT_SCHEMA, *, what: str = "queue", system: bool = True) -> QualifiedName:
    """Read ``[schema.]name``; parts may be in double quotes and then hold any character but a quote.

    Args:
        text: the name.
        schema: the schema of a plain name.
        what: kind of object, for the error.
        system: whether a name made by the hub (``AQ$_...``) is accepted.

    Raises:
        AqError: 24019 too long, 25200 bad form, 24079 reserved.
    """
    parts = _split(text)
    if len(parts) == 1 and (not schema or '"' in schema):
        raise NameInvalid(
            f"schema {schema!r} of {what} {text!r} is not valid",
            cause="a schema name is not empty and has no double quotes",
            cure="give the name of the schema without quotes",
        )
    if not 1 <= len(parts) <= 2:
        raise NameInvalid(
            f"{what} name {text!r} is not valid",
            cause="a name is [schema.]name: letters, digits and _ $ # - / +, beginning with a letter or a digit",
            cure="put any other name in double quotes",
        )
    name = QualifiedName(parts[0] if len(parts) == 2 else schema, parts[-1])
    for part, limit in ((name.schema, MAX_SCHEMA_NAME), (name.name, MAX_QUEUE_NAME if system is False else 128)):
        if len(part.encode("utf-8", "replace")) > limit:
            raise NameTooLong(
                f"{what} name {part[:40]!r}... is too long",
                cause=f"{len(part.encode('utf-8', 'replace'))} bytes, at most {limit} are allowed",
                cure="use a shorter name",
            )
    if not system and name.name.upper().startswith("AQ$_"):
        raise NameReserved(
            f"{what} name {name.name!r} is reserved",
            cause="names that begin with AQ$_ belong to the hub",
            cure="use another name",
        )
    return name


def _split(text: str) -> list[str]:
    """Parts of a dotted name, or an empty list if its form is wrong."""
    parts: list[str] = []
    if not isinstance(text, str):
        return parts
    rest = text.strip()
    while rest:
        if rest[0] == '"':
            end = rest.find('"', 1)
            part, rest = rest[1:end], rest[end + 1 :]
            if end < 2 or not part.isprintable():
                return []
        else:
            part, dot, after = rest.partition(".")
            rest = dot + after
            if not _is_plain(part):
                return []
        parts.append(part)
        if rest and (rest[0] != "." or len(rest) == 1):
            return []
        rest = rest[1:]
    return parts


def bare_agent(text: str) -> str:
    """The name of an agent as it is read: without blanks around it, then without quotes. Not checked; may be empty.

    The function _agent of functions/common.sql does the same.
    """
    name = text.strip()
    return name[1:-1] if name.startswith('"') and name.endswith('"') and len(name) > 2 else name


def agent_key(text: str) -> str:
    """What compares of the name of an agent, however an application writes it."""
    return bare_agent(text).upper()


def is_of_job(subscriber: str | None) -> bool:
    """Whether a subscriber is that of a job of the gateway: it comes and goes with the job."""
    return subscriber is not None and subscriber.upper().startswith(JOB_SUBSCRIBER)


def agent_name(text: str | None, *, what: str = "agent") -> str | None:
    """Check the name of an agent (subscriber, recipient, consumer); None stays None.

    Raises:
        AqError: 24047 empty or not printable, 24019 over 128 characters, 24049 reserved.
    """
    if text is None:
        return None
    name = bare_agent(text) if isinstance(text, str) else ""
    if len(name) > MAX_AGENT_NAME:
        raise NameTooLong(
            f"{what} name {name[:40]!r}... is too long",
            cause=f"{len(name)} characters, at most {MAX_AGENT_NAME} are allowed",
            cure="use a shorter name",
        )
    if not name or not name.isprintable():
        raise AgentNameInvalid(
            f"{what} name {text!r:.42} is not valid",
            cause=f"a name has 1 to {MAX_AGENT_NAME} printable characters",
            cure="use another name",
        )
    if name.upper().startswith("AQ$_"):
        raise AgentNameReserved(
            f"{what} name {name!r} is reserved",
            cause="names that begin with AQ$_ belong to the hub",
            cure="use another name",
        )
    return name


def user_name(text: str, *, what: str = "user") -> str:
    """Check the name of a user or role; two names are one if they differ in case only.

    Raises:
        AqError: 25200 empty, not printable or with a double quote in it, 24019 over 128 bytes.
    """
    name = text.strip() if isinstance(text, str) else ""
    if name.startswith('"') and name.endswith('"') and len(name) > 2:
        name = name[1:-1]
    length = len(name.encode("utf-8", "replace"))
    if length > MAX_SCHEMA_NAME:
        raise NameTooLong(
            f"{what} name {name[:40]!r}... is too long",
            cause=f"{length} bytes, at most {MAX_SCHEMA_NAME} are allowed",
            cure="use a shorter name",
        )
    if not name or not name.isprintable() or '"' in name:
        raise NameInvalid(
            f"{what} name {text!r:.42} is not valid",
            cause=f"a name has 1 to {MAX_SCHEMA_NAME} bytes of printable characters, without double quotes",
            cure="use another name",
        )
    return name
