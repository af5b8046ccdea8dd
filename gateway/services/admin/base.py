"""What the administration modules share: the serialized transaction, the sentinels, the error numbers, name checks."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from enum import Enum, IntEnum
from pathlib import Path
from typing import Any, Final, Protocol, TypeAlias

import sqlalchemy as sa

from mgw.gateway.aq import Changed, Hub, keep_change
from mgw.gateway.definitions.objects import AgentDef, ForeignQueueDef, JobDef, LinkDef, split_foreign
from mgw.gateway.services.admin.recorded import Seen, changes, look
from mgw.gateway.state import catalog
from mgw.gateway.state.gateway_hub import complete
from mgw.gateway.state.secrets import Secrets
from mgw.transforms.clock import SYSTEM_CLOCK, Clock
from mgw.transforms.errors import AdminError, GatewayError

__all__ = ["NO_CHANGE", "Administration", "Guard", "NoChange", "Ora", "Overtaken", "check_identifier", "check_text"]


class NoChange(Enum):
    """Type of :data:`NO_CHANGE`."""

    NO_CHANGE = "NO_CHANGE"

    def __repr__(self) -> str:
        return "NO_CHANGE"


#: A parameter of an alter procedure that keeps its value; None means "no value" there.
NO_CHANGE: Final = NoChange.NO_CHANGE

#: A text that may be kept, cleared or set.
OptionalText: TypeAlias = str | NoChange | None


class Ora(IntEnum):
    """Numbers of :class:`~mgw.transforms.errors.AdminError` (database error reference, ORA-32800 to 32856)."""

    HQ_ADDRESS = 20001  # the four of DBMS_HQADM, MQSeries gateway guide 9.2 ch. 11
    HQ_NOT_RAW = 20002
    HQ_INTERFACE = 20003
    HQ_IN_PROGRESS = 20004
    INVALID_VALUE = 32801
    VALUE_MUST_BE = 32802
    NOT_ALTERABLE = 32803
    WRONG_FORM = 32804
    IDENTIFIER_TOO_LONG = 32805
    VALUE_TOO_LONG = 32806
    LINK_EXISTS = 32807
    LINK_MISSING = 32808
    QUEUE_EXISTS = 32809
    QUEUE_MISSING = 32810
    SUBSCRIBER_EXISTS = 32811
    SUBSCRIBER_MISSING = 32812
    SCHEDULE_EXISTS = 32813
    SCHEDULE_MISSING = 32814
    LINK_IN_USE = 32815
    QUEUE_IN_USE = 32816
    AQ_QUEUE_MISSING = 32818
    AQ_QUEUE_NOT_NORMAL = 32819
    EXCEPTION_QUEUE_OTHER_SIDE = 32820
    EXCEPTION_QUEUE_OTHER_TYPE = 32821
    MARKED_FOR_REMOVAL = 32822
    SOURCE_IN_USE = 32823
    SCHEDULED = 32824
    NOT_STARTED = 32825
    MUST_BE_SHUT_DOWN = 32827
    NOT_RUNNING = 32828
    STILL_STARTING = 32829
    OPTION_UNKNOWN = 32840
    OPTION_INVALID = 32841
    OPTION_NOT_ALTERABLE = 32842
    OUT_OF_RANGE = 32843
    ALREADY_RUNNING = 32845
    CANNOT_START = 32846
    DOMAIN_REQUIRED = 32848
    AGENT_MISSING = 32850
    AGENT_EXISTS = 32851
    AGENT_RESERVED = 32852
    AGENT_IN_USE = 32853
    JOB_EXISTS = 32854
    JOB_MISSING = 32855
    NEW_STYLE = 32856


_IDENTIFIER = re.compile(r"[A-Za-z][A-Za-z0-9_$#.-]*")
_QUEUE_NAME = re.compile(r"[!-?A-~]+")  # printable ASCII without blanks and "@"
MAX_IDENTIFIER = 128  # bytes


class Overtaken(GatewayError):
    """Something was changed between reading the definitions and writing them; nothing was written."""


def check_identifier(kind: str, name: object, *, queue: bool = False) -> str:
    """``name`` if it may name an agent, link, job, transformation or (``queue``) foreign queue.

    Raises:
        AdminError: ORA-32801 missing, ORA-32804 characters, ORA-32805 longer than 128 bytes.
    """
    if not isinstance(name, str) or not name.strip():
        raise AdminError(
            f"{kind} name is missing",
            number=Ora.INVALID_VALUE,
            cause=f"{name!r} names nothing",
            cure=f"give the {kind} a name",
        )
    if len(name.encode()) > MAX_IDENTIFIER:
        raise AdminError(
            f"{kind} name {name[:40]!r}... has {len(name.encode())} bytes",
            number=Ora.IDENTIFIER_TOO_LONG,
            cause=f"a name holds at most {MAX_IDENTIFIER} bytes",
            cure="choose a shorter name",
        )
    if not (_QUEUE_NAME if queue else _IDENTIFIER).fullmatch(name):
        allowed = (
            "printable ASCII characters without blanks and @"
            if queue
            else "a letter first, then letters, digits and _ $ # . -"
        )
        raise AdminError(
            f"{kind} name {name!r} cannot be used",
            number=Ora.WRONG_FORM,
            cause=f"a name is {allowed}",
            cure="rename it",
        )
    return name


def check_text(what: str, text: str | None, limit: int = 4000) -> str | None:
    """``text`` if it fits.

    Raises:
        AdminError: ORA-32806.
    """
    if text is not None and len(text) > limit:
        raise AdminError(
            f"{what} has {len(text)} characters",
            number=Ora.VALUE_TOO_LONG,
            cause=f"it holds at most {limit}",
            cure="shorten it",
        )
    return text


def refused(error: GatewayError, number: int = Ora.INVALID_VALUE) -> AdminError:
    """A setting that cannot work, as the refusal of the call that brought it."""
    return AdminError(error.what, cause=error.cause, cure=error.cure, number=number)


class Guard(Protocol):
    """Looks at every change in its transaction: whether it rests on what is there."""

    def before(self, conn: sa.Connection) -> None:
        """Nothing is changed yet.

        Raises:
            Overtaken: what the change rests on is not so any more.
        """

    def after(self, conn: sa.Connection) -> None:
        """The change is made, and nobody else sees it yet."""


class Administration:
    """The hub, the secrets, and one transaction per call, one call at a time over all processes.

    Args:
        hub: the open hub. The gateway's tables are made in it if they are missing and it was opened with ``create``.
        secrets: the keys; made from the hub's URL if None.
        clock: time of day, for tests.

    Raises:
        HubError: the hub lacks the gateway's tables, and was opened without ``create``.
    """

    def __init__(self, hub: Hub, secrets: Secrets | None = None, *, clock: Clock = SYSTEM_CLOCK) -> None:
        complete(hub)
        self.hub = hub
        self.secrets = secrets if secrets is not None else secrets_of(hub)
        self.clock = clock
        self.expected: int | None = None  # version of the definitions that the changes rest on
        self.guard: Guard | None = None  # of the object that the changes are of
        self.tell_no_effect = True  # warn in the log of what is stored and means nothing

    def require_version(self, version: int) -> None:
        """Wait for changes that are under way, and look whether the definitions are at a version.

        Raises:
            Overtaken: they are at another one.
        """
        with self.hub.write() as conn:
            catalog.lock_administration(conn)
            _require_version(conn, version)

    @contextmanager
    def change(self, kind: str = "", name: str = "", verb: str = "", *, deed: bool = False) -> Iterator[sa.Connection]:
        """A serialized transaction that raises the change counter when it succeeds, and is kept in the audit.

        Args:
            kind, name: the object that is changed; without a kind nothing is kept.
            verb: what is done to it, where that is not to create, alter or remove it.
            deed: it is kept although it changes no definition.

        Raises:
            Overtaken: the changes rest on an older version than the hub has, or on another object.
        """
        with self.hub.write() as conn:
            catalog.lock_administration(conn)
            if self.expected is not None:
                _require_version(conn, self.expected)
            if self.guard is not None:
                self.guard.before(conn)
            before = look(conn, kind, name, self.secrets) if kind else None
            yield conn
            version = catalog.bump_change(conn)
            if kind:
                self._keep(conn, Changed(verb, kind, name, version=version), before, deed=deed)
            if self.guard is not None:
                self.guard.after(conn)
        if self.expected is not None:
            self.expected = version

    def _keep(self, conn: sa.Connection, changed: Changed, before: Seen | None, *, deed: bool) -> None:
        """Write into the audit what was changed; nothing, where everything is as it was."""
        after = look(conn, changed.kind, changed.name, self.secrets)
        old, new = changes(before, after)
        if old == new and not deed:
            return
        verb = changed.verb or ("create" if old is None else "remove" if new is None else "alter")
        name = next((each.name for each in (after, before) if each is not None), changed.name)
        told = (None, None) if old == new else (old, new)
        changed = replace(changed, verb=verb, name=name, before=told[0], after=told[1])
        keep_change(conn, changed, now=self.hub.clock.now())

    def need_agent(self, conn: sa.Connection, name: str) -> AgentDef:
        """The agent, or ORA-32850."""
        agent = catalog.get_agent(conn, name)
        if agent is None:
            known = ", ".join(item.name for item in catalog.list_agents(conn))
            raise AdminError(
                f"agent {name} does not exist",
                number=Ora.AGENT_MISSING,
                cause=f"the agents are {known}",
                cure="create it first, or correct the name",
            )
        return agent

    def need_link(self, conn: sa.Connection, name: str) -> LinkDef:
        """The link with its secrets, or ORA-32808."""
        link = catalog.get_link(conn, name, self.secrets)
        if link is None:
            known = ", ".join(item.name for item in catalog.list_links(conn)) or "none"
            raise AdminError(
                f"link {name} does not exist",
                number=Ora.LINK_MISSING,
                cause=f"the links are: {known}",
                cure="create it first, or correct the name",
            )
        return link

    def need_queue(self, conn: sa.Connection, full_name: str) -> ForeignQueueDef:
        """The registration behind ``queue@link``, or ORA-32804, ORA-32810."""
        parts = split_foreign(full_name)
        if parts is None:
            raise AdminError(
                f"{full_name!r} is not a foreign queue",
                number=Ora.WRONG_FORM,
                cause="a registered foreign queue is written queue@link",
                cure="correct the name",
            )
        queue = catalog.get_foreign_queue(conn, *parts)
        if queue is None:
            raise AdminError(
                f"foreign queue {full_name} does not exist",
                number=Ora.QUEUE_MISSING,
                cause=f"link {parts[1]} has no registered queue {parts[0]}",
                cure="register it (foreign_queues in the file, register_foreign_queue in Python), or correct the name",
            )
        return queue

    def need_job(self, conn: sa.Connection, name: str) -> JobDef:
        """The job, or ORA-32855."""
        job = catalog.get_job(conn, name)
        if job is None and catalog.get_subscriber(conn, name) is not None:
            raise AdminError(
                f"job {name} does not exist",
                number=Ora.JOB_MISSING,
                cause="subscriber and schedule together are a job, and the subscriber of that name has no schedule",
                cure="give it a schedule (mgw schedules create), or use mgw subscribers",
            )
        if job is None:
            raise AdminError(
                f"job {name} does not exist",
                number=Ora.JOB_MISSING,
                cause="no job has that name",
                cure="mgw jobs list shows the names (view MGW_JOBS)",
            )
        return job


def _require_version(conn: sa.Connection, version: int) -> None:
    if catalog.change_version(conn) != version:
        raise Overtaken(
            "the definitions were changed meanwhile",
            cause="another process was faster",
            cure="look at them, and try again",
        )


def secrets_of(hub: Hub) -> Secrets:
    """The secrets of an open hub."""
    return Secrets(Path(f"{hub.path}.key")) if hub.path is not None else Secrets.for_hub(hub.name)


def merge_options(old: Mapping[str, str], new: Mapping[str, Any]) -> dict[str, str]:
    """Options element by element: a value replaces, None removes one, the name ``*`` with None removes all."""
    result = {name.lower(): (name, value) for name, value in old.items()}
    for name, value in new.items():
        if value is None:
            if name == "*":
                result.clear()
            else:
                result.pop(name.lower(), None)
        else:
            shown = ("TRUE" if value else "FALSE") if isinstance(value, bool) else str(value)
            result[name.lower()] = (name, shown)
    return dict(result.values())
