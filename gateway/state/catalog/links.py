"""Statements on links and registered foreign queues."""

from __future__ import annotations

import json
from collections.abc import Collection
from dataclasses import replace
from typing import Any

import sqlalchemy as sa

from mgw.gateway.definitions.objects import ForeignQueueDef, LinkDef, key
from mgw.gateway.state import tables as t
from mgw.gateway.state.catalog.text import ENCRYPTED, compact
from mgw.gateway.state.secrets import Secrets
from mgw.links.contract import Domain

__all__ = [
    "delete_foreign_queue",
    "delete_link",
    "get_foreign_queue",
    "get_link",
    "insert_foreign_queue",
    "insert_link",
    "list_foreign_queues",
    "list_links",
    "update_link",
]


def get_link(conn: sa.Connection, name: str, secrets: Secrets | None = None) -> LinkDef | None:
    """The link of that name, or None; secrets as in :func:`list_links`.

    Raises:
        ConfigInvalid: its secrets cannot be decrypted.
    """
    row = conn.execute(_links().where(t.link.c.name_key == key(name))).one_or_none()
    return _link(row, secrets) if row is not None else None


def list_links(conn: sa.Connection, secrets: Secrets | None = None, *, agent: str | None = None) -> list[LinkDef]:
    """All links (of one agent), by name. Without ``secrets`` the password is None and secret values ``<<ENCRYPTED>>``.

    Raises:
        ConfigInvalid: a secret cannot be decrypted.
    """
    statement = _links().order_by(t.link.c.name_key)
    if agent is not None:
        statement = statement.where(t.link.c.agent_key == key(agent))
    return [_link(row, secrets) for row in conn.execute(statement)]


def insert_link(conn: sa.Connection, link: LinkDef, secrets: Secrets, secret_names: Collection[str] = ()) -> None:
    """Store a new link; ``secret_names`` (lower case) are the attributes and options to encrypt."""
    values = _link_values(link, secrets, secret_names)
    conn.execute(
        sa.insert(t.link).values(
            name_key=key(link.name), name=link.name, type=link.type, agent_key=key(link.agent), **values
        )
    )


def update_link(conn: sa.Connection, link: LinkDef, secrets: Secrets, secret_names: Collection[str] = ()) -> None:
    """Store a link again; its name, type and agent stay."""
    values = _link_values(link, secrets, secret_names)
    conn.execute(sa.update(t.link).where(t.link.c.name_key == key(link.name)).values(**values))


def delete_link(conn: sa.Connection, name: str) -> None:
    """Remove a link."""
    conn.execute(sa.delete(t.link).where(t.link.c.name_key == key(name)))


def _links() -> sa.Select[Any]:
    return sa.select(t.link, t.agent.c.name.label("agent_name")).join(t.agent, t.agent.c.name_key == t.link.c.agent_key)


def _link_values(link: LinkDef, secrets: Secrets, secret_names: Collection[str]) -> dict[str, Any]:
    hidden: dict[str, Any] = {"password": link.password} if link.password is not None else {}
    plain: dict[str, dict[str, Any]] = {"attributes": {}, "options": {}}
    for part, values in (("attributes", link.attributes), ("options", link.options)):
        for name, value in values.items():
            if value is not None and name.lower() in secret_names:
                hidden.setdefault(part, {})[name] = value
                plain[part][name] = ENCRYPTED
            else:
                plain[part][name] = value
    return {
        "attributes": compact(plain["attributes"]),
        "options": compact(plain["options"]),
        "username": link.username,
        "password": secrets.encrypt(compact(hidden)) if hidden else None,
        "max_connections": link.max_connections,
        "inbound_log_queue": link.inbound_log_queue,
        "outbound_log_queue": link.outbound_log_queue,
        "comments": link.comments,
    }


def _link(row: sa.Row[Any], secrets: Secrets | None) -> LinkDef:
    link = LinkDef(
        name=row.name,
        type=row.type,
        agent=row.agent_name,
        attributes=json.loads(row.attributes),
        options=json.loads(row.options),
        username=row.username,
        max_connections=row.max_connections,
        inbound_log_queue=row.inbound_log_queue,
        outbound_log_queue=row.outbound_log_queue,
        comments=row.comments,
    )
    if secrets is None or not row.password:
        return link
    hidden = json.loads(secrets.decrypt(row.password, f"link {row.name}"))
    found = [*hidden.get("attributes", {}).values(), *hidden.get("options", {}).values(), hidden.get("password")]
    secrets.remember(*map(str, filter(None, found)))
    secrets.show(link.username)
    return replace(
        link,
        password=hidden.get("password"),
        attributes={**link.attributes, **hidden.get("attributes", {})},
        options={**link.options, **hidden.get("options", {})},
    )


def get_foreign_queue(conn: sa.Connection, name: str, link: str) -> ForeignQueueDef | None:
    """The registration ``name@link``, or None."""
    c = t.foreign_queue.c
    row = conn.execute(_queues().where(c.name_key == key(name), c.link_key == key(link))).one_or_none()
    return _queue(row) if row is not None else None


def list_foreign_queues(conn: sa.Connection, *, link: str | None = None) -> list[ForeignQueueDef]:
    """All registrations (of one link), by link and name."""
    c = t.foreign_queue.c
    statement = _queues().order_by(c.link_key, c.name_key)
    if link is not None:
        statement = statement.where(c.link_key == key(link))
    return [_queue(row) for row in conn.execute(statement)]


def insert_foreign_queue(conn: sa.Connection, queue: ForeignQueueDef) -> None:
    """Store a new registration."""
    conn.execute(
        sa.insert(t.foreign_queue).values(
            name_key=key(queue.name),
            link_key=key(queue.link),
            name=queue.name,
            domain=queue.domain.value if queue.domain is not None else None,
            provider_queue=queue.provider_queue,
            options=compact(dict(queue.options)),
            comments=queue.comments,
        )
    )


def delete_foreign_queue(conn: sa.Connection, name: str, link: str) -> None:
    """Remove a registration."""
    c = t.foreign_queue.c
    conn.execute(sa.delete(t.foreign_queue).where(c.name_key == key(name), c.link_key == key(link)))


def _queues() -> sa.Select[Any]:
    return sa.select(t.foreign_queue, t.link.c.name.label("link_name")).join(
        t.link, t.link.c.name_key == t.foreign_queue.c.link_key
    )


def _queue(row: sa.Row[Any]) -> ForeignQueueDef:
    return ForeignQueueDef(
        name=row.name,
        link=row.link_name,
        provider_queue=row.provider_queue,
        domain=Domain(row.domain) if row.domain is not None else None,
        options=json.loads(row.options),
        comments=row.comments,
    )
