"""Statements on privileges, roles and AQ agents."""

from __future__ import annotations

import secrets
from typing import NamedTuple

from mgw.gateway.aq.grants import AqAgent, Grant, QueuePrivilege, QueueRight, RoleMember, SystemPrivilege
from mgw.gateway.aq.names import QualifiedName
from mgw.gateway.aq.store.statements import Db
from mgw.gateway.aq.store.tables import PRIVILEGE_COUNTER

__all__ = [
    "Held",
    "add_automatic_agent",
    "changed",
    "delete_agent",
    "delete_grants",
    "delete_role",
    "find_agents",
    "grants_on",
    "held_by",
    "insert_role",
    "is_role",
    "list_queue_privileges",
    "list_roles",
    "list_system_privileges",
    "map_agent",
    "system_grant",
    "unmap_agent",
    "upsert_agent",
    "upsert_grant",
    "version",
]

_VERSION = "SELECT value FROM aq_counter WHERE name = ?"
# Roles may be granted to roles: the names a user goes by are found step by step.
_HELD = """
    WITH RECURSIVE known(name) AS (
        SELECT CAST(? AS text) UNION SELECT 'PUBLIC'
         UNION SELECT r.role_key FROM aq_role r JOIN known ON known.name = r.grantee_key)
    SELECT 'name', name, CAST(0 AS bigint) FROM known
     UNION ALL
    SELECT 'privilege', p.privilege, p.queue_id FROM aq_privilege p JOIN known ON known.name = p.grantee_key
     UNION ALL
    SELECT 'agent', agent_key, CAST(0 AS bigint) FROM aq_agent_user WHERE user_key = ?
"""


class Held(NamedTuple):
    """What a user holds, directly, through roles and as everybody."""

    names: frozenset[str]  # the user, the roles, PUBLIC
    system: frozenset[str]
    queues: dict[int, frozenset[str]]
    agents: frozenset[str]


def version(db: Db) -> int:
    """A number that is another one after every change of privileges, roles or mappings."""
    return db.scalar(_VERSION, (PRIVILEGE_COUNTER,)) or 0


def changed(db: Db) -> None:
    """Begin a change: others wait for its end, and what sessions remember of privileges is void after it.

    The number is random: counting up, a change that is rolled back and another one would give the same.
    """
    db.run("UPDATE aq_counter SET value = ? WHERE name = ?", (secrets.randbits(62), PRIVILEGE_COUNTER))


def held_by(db: Db, user_key: str) -> Held:
    """Everything a user holds, in one look."""
    names, system, agents = set[str](), set[str](), set[str]()
    queues: dict[int, set[str]] = {}
    for kind, name, queue_id in db.rows(_HELD, (user_key, user_key)):
        if kind == "name":
            names.add(name)
        elif kind == "agent":
            agents.add(name)
        elif queue_id:
            queues.setdefault(queue_id, set()).add(name)
        else:
            system.add(name)
    rights = {queue_id: frozenset(found) for queue_id, found in queues.items()}
    return Held(frozenset(names), frozenset(system), rights, frozenset(agents))


# -- privileges ------------------------------------------------------------------------------------------------------


def grants_on(db: Db, queue_id: int, privilege: str) -> list[Grant]:
    """Every grant of a privilege on a queue, oldest first."""
    rows = db.rows(
        "SELECT id, grantor_key, grantee_key, grantable FROM aq_privilege WHERE queue_id = ? AND privilege = ?"
        " ORDER BY id",
        (queue_id, privilege),
    )
    return [Grant(number, grantor, grantee, bool(grantable)) for number, grantor, grantee, grantable in rows]


def system_grant(db: Db, privilege: str, grantee_key: str) -> Grant | None:
    """The grant of a system privilege to a user or role, or None."""
    return next((grant for grant in grants_on(db, 0, privilege) if grant.grantee_key == grantee_key), None)


def upsert_grant(  # noqa: PLR0917
    db: Db, queue_id: int, privilege: str, grantee: str, grantor: str, grantable: bool, now: float
) -> None:
    """Store a grant; one that is there keeps its option, or gets it."""
    db.run(
        """INSERT INTO aq_privilege
                  (queue_id, privilege, grantee, grantee_key, grantor, grantor_key, grantable, created)
           VALUES (?, ?, ?, ?, ?, ?, ?, ?)
           ON CONFLICT (queue_id, privilege, grantee_key, grantor_key)
           DO UPDATE SET grantable = CASE WHEN aq_privilege.grantable = 1 THEN 1 ELSE excluded.grantable END""",
        (queue_id, privilege, grantee, grantee.upper(), grantor, grantor.upper(), int(grantable), now),
    )


def delete_grants(db: Db, ids: list[int]) -> None:
    """Delete grants by their ids."""
    db.run("DELETE FROM aq_privilege WHERE id {ids}", (db.ids(ids),))


def list_queue_privileges(db: Db, queue_id: int | None = None) -> list[QueuePrivilege]:
    """Privileges of every grantor and grantee, by queue; on one queue, or on all."""
    where, params = ("WHERE q.id = ?", (queue_id,)) if queue_id is not None else ("", ())
    rows = db.rows(
        f"""SELECT q.id, q.schema, q.name, p.grantee, p.grantor, p.privilege, p.grantable
             FROM aq_privilege p JOIN aq_queue q ON q.id = p.queue_id {where}
            ORDER BY q.name_key, p.grantee_key, p.grantor_key, p.privilege""",
        params,
    )
    found: dict[tuple[int, str, str], QueuePrivilege] = {}
    for number, schema, name, grantee, grantor, privilege, grantable in rows:
        key = (number, grantee.upper(), grantor.upper())
        known = found.get(key)
        enqueue, dequeue = (known.enqueue, known.dequeue) if known else (0, 0)
        if privilege == QueueRight.ENQUEUE:
            enqueue = 2 if grantable else 1
        else:
            dequeue = 2 if grantable else 1
        found[key] = QueuePrivilege(QualifiedName(schema, name).shown, schema, grantee, grantor, enqueue, dequeue)
    return list(found.values())


def list_system_privileges(db: Db) -> list[SystemPrivilege]:
    """Every grant of a system privilege."""
    rows = db.rows(
        "SELECT privilege, grantee, grantor, grantable FROM aq_privilege WHERE queue_id = 0"
        " ORDER BY grantee_key, privilege"
    )
    return [SystemPrivilege(name, grantee, grantor, bool(grantable)) for name, grantee, grantor, grantable in rows]


# -- roles -----------------------------------------------------------------------------------------------------------


def insert_role(db: Db, role: str, grantee: str, grantor: str, now: float) -> int:
    """Store that a grantee holds a role; returns 0 if it does already."""
    return db.run(
        "INSERT INTO aq_role (role_key, grantee_key, role, grantee, grantor, created) VALUES (?, ?, ?, ?, ?, ?)"
        " ON CONFLICT DO NOTHING",
        (role.upper(), grantee.upper(), role, grantee, grantor, now),
    )


def delete_role(db: Db, role: str, grantee: str) -> int:
    """End the membership; returns 0 if there was none."""
    return db.run("DELETE FROM aq_role WHERE role_key = ? AND grantee_key = ?", (role.upper(), grantee.upper()))


def is_role(db: Db, name: str) -> bool:
    """Whether somebody holds a role of that name."""
    return db.row("SELECT 1 FROM aq_role WHERE role_key = ? LIMIT 1", (name.upper(),)) is not None


def list_roles(db: Db) -> list[RoleMember]:
    """Every role that is held, by grantee."""
    rows = db.rows("SELECT role, grantee, grantor FROM aq_role ORDER BY grantee_key, role_key")
    return [RoleMember(*row) for row in rows]


# -- agents ----------------------------------------------------------------------------------------------------------


def find_agents(db: Db, name: str | None = None) -> list[AqAgent]:
    """One agent (or none), or all of them, by name."""
    where, params = ("WHERE name_key = ?", (name.upper(),)) if name is not None else ("", ())
    users: dict[str, list[str]] = {}
    which = "WHERE agent_key = ?" if name is not None else ""
    for key, user in db.rows(f"SELECT agent_key, db_username FROM aq_agent_user {which} ORDER BY user_key", params):
        users.setdefault(key, []).append(user)
    rows = db.rows(
        f"""SELECT name_key, name, certificate_location, enable_http, enable_anyp, automatic
              FROM aq_agent {where} ORDER BY name_key""",
        params,
    )
    return [
        AqAgent(name, certificate, bool(http), bool(anyp), bool(automatic), tuple(users.get(key, ())))
        for key, name, certificate, http, anyp, automatic in rows
    ]


def upsert_agent(  # noqa: PLR0917
    db: Db, name: str, certificate_location: str | None, enable_http: bool, enable_anyp: bool, now: float
) -> None:
    """Store an agent, or set all its attributes."""
    db.run(
        """INSERT INTO aq_agent (name_key, name, certificate_location, enable_http, enable_anyp, automatic, created)
           VALUES (?, ?, ?, ?, ?, 0, ?)
           ON CONFLICT (name_key) DO UPDATE SET certificate_location = excluded.certificate_location,
               enable_http = excluded.enable_http, enable_anyp = excluded.enable_anyp, automatic = 0""",
        (name.upper(), name, certificate_location, int(enable_http), int(enable_anyp), now),
    )


def add_automatic_agent(db: Db, name: str, now: float) -> None:
    """An agent for a subscriber, if there is none of that name (AQ guide 12.2 §22.3)."""
    db.run(
        """INSERT INTO aq_agent (name_key, name, enable_http, enable_anyp, automatic, created)
           VALUES (?, ?, 0, 0, 1, ?) ON CONFLICT DO NOTHING""",
        (name.upper(), name, now),
    )


def delete_agent(db: Db, name: str) -> int:
    """Delete an agent with its mappings; returns 0 if there was none."""
    db.run("DELETE FROM aq_agent_user WHERE agent_key = ?", (name.upper(),))
    return db.run("DELETE FROM aq_agent WHERE name_key = ?", (name.upper(),))


def map_agent(db: Db, agent: str, user: str) -> None:
    """The agent has the privileges of the user; nothing happens if it has already."""
    db.run(
        "INSERT INTO aq_agent_user (agent_key, user_key, db_username) VALUES (?, ?, ?) ON CONFLICT DO NOTHING",
        (agent.upper(), user.upper(), user),
    )


def unmap_agent(db: Db, agent: str, user: str) -> int:
    """End a mapping; returns 0 if there was none."""
    return db.run("DELETE FROM aq_agent_user WHERE agent_key = ? AND user_key = ?", (agent.upper(), user.upper()))
