"""The views of privileges and AQ agents (AQ guide 12.2 §9.9, §9.24), and who may see what (§9.3, §9.6, §9.17)."""

from __future__ import annotations

from collections.abc import Mapping

from mgw.gateway.aq.grants import ADMINISTRATOR, PUBLIC
from mgw.gateway.aq.views.dialect import Dialect, Maker, View, name_of, owner_of, yes

__all__ = ["VIEWS", "may_dequeue", "may_see", "may_see_table"]


def _names(d: Dialect) -> str:
    """The names a user goes by: the own one, PUBLIC, and the roles that any of these holds."""
    return f"""(WITH RECURSIVE known(name) AS (SELECT {d.user} UNION SELECT '{PUBLIC}'
         UNION SELECT r.role_key FROM aq_role r JOIN known ON known.name = r.grantee_key) SELECT name FROM known)"""


def _administers(d: Dialect) -> str:
    # a login of that name does not hold the role
    return f"{d.owner} OR '{ADMINISTRATOR}' <> {d.user} AND '{ADMINISTRATOR}' IN {_names(d)}"


def _granted(d: Dialect, queue: str, privilege: str = "") -> str:
    return f"EXISTS (SELECT 1 FROM aq_privilege p WHERE {queue} {privilege} AND p.grantee_key IN {_names(d)})"


def may_see(d: Dialect) -> str:
    """Whether the user owns queue ``q``, has a privilege on it, or any system privilege."""
    return f"({owner_of('q')} = {d.user} OR {_administers(d)} OR {_granted(d, 'p.queue_id IN (q.id, 0)')})"


def may_dequeue(d: Dialect) -> str:
    """Whether the user may dequeue from queue ``q``."""
    queue = "(p.queue_id = q.id AND p.privilege = 'DEQUEUE' OR p.queue_id = 0 AND p.privilege = 'DEQUEUE_ANY')"
    return f"({owner_of('q')} = {d.user} OR {_administers(d)} OR {_granted(d, queue)})"


def may_see_table(d: Dialect) -> str:
    """Whether the user owns queue table ``t``, or may see one of its queues."""
    return (
        f"({owner_of('t')} = {d.user}"
        f" OR EXISTS (SELECT 1 FROM aq_queue q WHERE q.queue_table_id = t.id AND {may_see(d)}))"
    )


def _queue_privileges(d: Dialect) -> View:
    def held(privilege: str) -> str:
        return f"max(CASE WHEN p.privilege = '{privilege}' THEN 1 + p.grantable ELSE 0 END)"

    columns = {
        "GRANTEE": "p.grantee_key",
        "OWNER": owner_of("q"),
        "NAME": name_of("q"),
        "GRANTOR": "p.grantor_key",
        "ENQUEUE_PRIVILEGE": held("ENQUEUE"),
        "DEQUEUE_PRIVILEGE": held("DEQUEUE"),
    }
    concerned = f"p.grantor_key = {d.user} OR p.grantee_key IN {_names(d)} OR {owner_of('q')} = {d.user}"
    return columns, (
        f"aq_privilege p JOIN aq_queue q ON q.id = p.queue_id WHERE {d.owner} OR {concerned}"
        " GROUP BY q.id, q.name_key, q.schema, p.grantee_key, p.grantor_key"
    )


def _internet_users(_: Dialect) -> View:
    return {
        "AGENT_NAME": "a.name_key",
        "DB_USERNAME": "u.user_key",
        "HTTP_ENABLED": yes("a.enable_http = 1"),
        "FTP_ENABLED": "'NO'",
    }, "aq_agent a LEFT JOIN aq_agent_user u ON u.agent_key = a.name_key"


VIEWS: Mapping[str, Maker] = {"QUEUE_PRIVILEGES": _queue_privileges, "AQ$INTERNET_USERS": _internet_users}
