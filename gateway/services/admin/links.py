"""Procedures on messaging system links (AQ guide 12.2 §19.3)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import sqlalchemy as sa

from mgw.gateway.definitions.objects import DEFAULT_AGENT, LinkDef, key
from mgw.gateway.services.admin.base import (
    NO_CHANGE,
    Administration,
    OptionalText,
    Ora,
    check_identifier,
    check_text,
    merge_options,
    refused,
)
from mgw.gateway.state import catalog
from mgw.links import registry
from mgw.links.contract import Field, LinkSpec
from mgw.links.options import parse, parse_value
from mgw.links.options import stored as stored_option
from mgw.transforms.errors import AdminError, ConfigInvalid

__all__ = ["LinkProcedures", "checked_options", "stored_option"]

#: What every link has in addition to the attributes of its type; may be given among the properties, as documented.
_COMMON = ("username", "password", "max_connections", "inbound_log_queue", "outbound_log_queue")


class LinkProcedures(Administration):
    """Create, alter and remove links."""

    def get_link(self, linkname: str) -> LinkDef | None:
        """The link with its secrets in clear text, or None.

        Raises:
            ConfigInvalid: its secrets cannot be decrypted.
        """
        with self.hub.read() as conn:
            return catalog.get_link(conn, linkname, self.secrets)

    def list_links(self) -> list[LinkDef]:
        """All links with their secrets in clear text, by name.

        Raises:
            ConfigInvalid: a secret cannot be decrypted.
        """
        with self.hub.read() as conn:
            return catalog.list_links(conn, self.secrets)

    def link_names(self) -> list[str]:
        """Names of all links; needs no key."""
        with self.hub.read() as conn:
            return [link.name for link in catalog.list_links(conn)]

    def link_types(self) -> dict[str, str]:
        """Types of all links by their names in capitals; needs no key."""
        with self.hub.read() as conn:
            return {key(link.name): link.type for link in catalog.list_links(conn)}

    def create_msgsystem_link(  # noqa: PLR0917  the documented parameters in their documented order
        self,
        linkname: str,
        link_type: str,
        properties: Mapping[str, Any] | None = None,
        agent_name: str = DEFAULT_AGENT,
        options: Mapping[str, Any] | None = None,
        comment: str | None = None,
        *,
        username: str | None = None,
        password: str | None = None,
        max_connections: int | None = None,
        inbound_log_queue: str | None = None,
        outbound_log_queue: str | None = None,
    ) -> None:
        """Define a link; it belongs to its agent forever. Nothing is connected.

        Args:
            link_type: one of :func:`mgw.links.registry.types`, any case.
            properties: attributes of the type (:class:`links.contract.LinkSpec`); may hold the named ones below too.
            options: options of the type.
            max_connections: None: as many as its jobs need.

        Raises:
            AdminError: ORA-32807 exists; ORA-32850 no such agent; ORA-32801, ORA-32802 a bad value.
            LinkError: the client library of the type is not installed.
        """
        check_identifier("link", linkname)
        self.secrets.remember(password)
        self.secrets.show(username)
        spec = _spec(link_type)
        given = {name.lower(): value for name, value in (properties or {}).items()}
        common: dict[str, Any] = {
            "username": username,
            "password": password,
            "max_connections": max_connections,
            "inbound_log_queue": inbound_log_queue,
            "outbound_log_queue": outbound_log_queue,
        }
        _check_marker(
            linkname, {**{name: value for name, value in common.items() if value}, **given, **(options or {})}
        )
        taken = {field.name.lower() for field in spec.attributes}
        for name in _COMMON:
            if name not in taken and name in given:
                value = given.pop(name)
                common[name] = value if common[name] is None else common[name]
        link = LinkDef(
            name=linkname,
            type=spec.type,
            agent=agent_name,
            attributes=_attributes(spec, given, linkname),
            options=checked_options(spec.options, options or {}, f"link {linkname}"),
            comments=comment,
            **common,
        )
        _check(link)
        with self.change("link", linkname) as conn:
            agent = self.need_agent(conn, agent_name)
            if catalog.get_link(conn, linkname) is not None:
                raise AdminError(
                    f"link {linkname} already exists",
                    number=Ora.LINK_EXISTS,
                    cause="a link has that name",
                    cure="alter it, or choose another name",
                )
            catalog.insert_link(conn, replace(link, agent=agent.name), self.secrets, _secret_names(spec))

    def alter_msgsystem_link(
        self,
        linkname: str,
        properties: Mapping[str, Any] | None = None,
        options: Mapping[str, Any] | None = None,
        comment: OptionalText = NO_CHANGE,
    ) -> None:
        """Alter a link; dynamic attributes take effect at once, the others when the agent reconnects.

        Args:
            properties: attributes, ``username``, ``password``, ``max_connections``, ``inbound_log_queue`` and
                ``outbound_log_queue`` to change; NO_CHANGE keeps, None goes back to the default.
            options: merged element by element, None removes one; None as a whole keeps all.

        Raises:
            AdminError: ORA-32808; ORA-32803, ORA-32842 not alterable; ORA-32801 a bad value.
        """
        with self.change("link", linkname) as conn:
            given = {n.lower(): value for n, value in (properties or {}).items() if value is not NO_CHANGE}
            _check_marker(linkname, {**given, **(options or {})})
            link = self._to_alter(conn, linkname, given)
            spec = _spec(link.type)
            taken = {field.name.lower() for field in spec.attributes}
            changes: dict[str, Any] = {n: given.pop(n) for n in _COMMON if n in given and n not in taken}
            self.secrets.remember(changes.get("password"))
            attributes = _attributes(spec, {**link.attributes, **given}, link.name)
            _check_alterable(spec.attributes, link.attributes, attributes, link.name, Ora.NOT_ALTERABLE)
            merged = merge_options(link.options, options) if options is not None else dict(link.options)
            if options is not None:
                merged = checked_options(spec.options, merged, f"link {link.name}")
                _check_alterable(spec.options, link.options, merged, link.name, Ora.OPTION_NOT_ALTERABLE)
            if comment is not NO_CHANGE:
                changes["comments"] = comment
            altered = replace(link, attributes=attributes, options=merged, **changes)
            _check(altered)
            _check_connections(conn, altered)
            catalog.update_link(conn, altered, self.secrets, _secret_names(spec))

    def _to_alter(self, conn: sa.Connection, linkname: str, given: Mapping[str, Any]) -> LinkDef:
        """The link; without its password where that cannot be decrypted and another one is given."""
        try:
            return self.need_link(conn, linkname)
        except ConfigInvalid:
            link = catalog.get_link(conn, linkname)
            if link is None or given.get("password") is None:
                raise
            secret = {name for name in _secret_names(_spec(link.type)) if name not in given}
            if secret & {name.lower() for name in (*link.attributes, *link.options)}:
                raise
            return link

    def remove_msgsystem_link(self, linkname: str) -> None:
        """Remove a link on which no foreign queue is registered.

        Raises:
            AdminError: ORA-32808; ORA-32815 queues are registered on it.
        """
        with self.change("link", linkname) as conn:
            link = catalog.get_link(conn, linkname)
            if link is None:
                self.need_link(conn, linkname)
                return
            if queues := catalog.list_foreign_queues(conn, link=linkname):
                raise AdminError(
                    f"link {link.name} cannot be removed",
                    number=Ora.LINK_IN_USE,
                    cause=f"foreign queues are registered on it: {', '.join(queue.name for queue in queues)}",
                    cure="unregister them first",
                )
            catalog.delete_link(conn, linkname)


def _spec(link_type: str) -> LinkSpec:
    try:
        return registry.spec(link_type)
    except ConfigInvalid as error:
        raise refused(error, Ora.VALUE_MUST_BE) from error


def _secret_names(spec: LinkSpec) -> frozenset[str]:
    return frozenset(field.name.lower() for field in (*spec.attributes, *spec.options) if field.secret)


def _attributes(spec: LinkSpec, given: Mapping[str, Any], linkname: str) -> dict[str, Any]:
    """Attributes with the defaults of today, so that a later release does not change a link that exists."""
    try:
        values = parse(spec.attributes, given, f"link {linkname}")
    except ConfigInvalid as error:
        raise refused(error) from error
    return {name: value for name, value in values.items() if value is not None}


def checked_options(fields: Sequence[Field], given: Mapping[str, Any], owner: str) -> dict[str, str]:
    """Options as they are stored: documented spelling of the name, value as text; None is left out.

    Raises:
        AdminError: ORA-32801, unknown name or bad value.
    """
    known = {field.name.lower(): field for field in fields}
    named = {name: value for name, value in given.items() if value is not None}
    try:
        parse(fields, named, owner)
        return {
            known[name.lower()].name: stored_option(parse_value(known[name.lower()], value, owner))
            for name, value in named.items()
        }
    except ConfigInvalid as error:
        raise refused(error) from error


def _check_marker(linkname: str, given: Mapping[str, Any]) -> None:
    """Refuse the text that stands for a secret that is stored: it would be stored as if it were one."""
    name = next((name for name in sorted(given) if str(given[name]).strip() == catalog.ENCRYPTED), None)
    if name is not None:
        raise AdminError(
            f"link {linkname}: {name} cannot be {catalog.ENCRYPTED!r}",
            number=Ora.INVALID_VALUE,
            cause="that text stands for a secret that is stored and not shown",
            cure="give another value, or leave it out, which keeps a secret",
        )


def _check_alterable(
    fields: Sequence[Field], old: Mapping[str, Any], new: Mapping[str, Any], linkname: str, number: int
) -> None:
    before = {name.lower(): value for name, value in old.items()}
    after = {name.lower(): value for name, value in new.items()}
    for field in fields:
        name = field.name.lower()
        if not field.alterable and before.get(name, field.default) != after.get(name, field.default):
            raise AdminError(
                f"{field.name} of link {linkname} cannot be altered",
                number=number,
                cause="it is fixed when the link is created",
                cure="remove the link and create it again",
            )


def _check_connections(conn: sa.Connection, link: LinkDef) -> None:
    """One connection is too few for a job that reads and also writes to an exception queue of the link."""
    if link.max_connections != 1:
        return
    for job in catalog.list_subscribers(conn):
        if key(job.link) == key(link.name) and job.exception_queue and job.propagation_type.from_link:
            raise AdminError(
                f"link {link.name}: max_connections cannot be 1",
                number=Ora.INVALID_VALUE,
                cause=f"job {job.name} reads from it and writes to exception queue {job.exception_queue}: that is two",
                cure="leave it at 2 or more, or remove the exception queue from the job first",
            )


def _check(link: LinkDef) -> None:
    """Refuse what can never work, without a connection."""
    check_text(f"comment of link {link.name}", link.comments)
    if link.max_connections is not None and (not isinstance(link.max_connections, int) or link.max_connections < 1):
        raise AdminError(
            f"link {link.name}: max_connections cannot be {link.max_connections!r}",
            number=Ora.INVALID_VALUE,
            cause="it must be a whole number, at least 1",
            cure="correct it, or leave it out",
        )
    if link.password is not None and link.username is None:
        raise AdminError(
            f"link {link.name}: password without a user name",
            number=Ora.INVALID_VALUE,
            cause="the messaging system needs both",
            cure="give the user name as well",
        )
    try:
        registry.open_link(link.config())
    except ConfigInvalid as error:
        raise refused(error) from error
