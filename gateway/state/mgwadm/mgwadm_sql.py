"""Puts the functions of schema ``mgwadm`` into the database (PostgreSQL), and keeps them current.

Their text is in the ``*.sql`` next to this. The public functions are made from :mod:`procedures`, and what they know of
 options and link types from the descriptions in Python: an option that is new is known in SQL, too.
"""

from __future__ import annotations

import json
import re
import zlib
from collections.abc import Mapping, Sequence
from functools import cache
from importlib import resources
from typing import TYPE_CHECKING, Any

from mgw.gateway.aq import FUNCTION_SETTINGS, Db, FunctionHome, State, channel_sql, functions_schema, schema_of_tables
from mgw.gateway.aq import quoted_name as quoted
from mgw.gateway.definitions.agent_options import AGENT_OPTIONS, FOREIGN_OPTIONS
from mgw.gateway.definitions.attributes import AGENT_ATTRIBUTES, JOB_ATTRIBUTES
from mgw.gateway.definitions.job_options import JOB_OPTIONS
from mgw.gateway.definitions.job_words import LEAVING
from mgw.gateway.definitions.roles import Role
from mgw.gateway.state.mgwadm.old_style_procedures import AUDITED
from mgw.gateway.state.tables import CHANGE_CHANNEL
from mgw.links import registry
from mgw.links.contract import Field, Guarantee
from mgw.links.options import kind_of, wanted

if TYPE_CHECKING:
    from mgw.gateway.state.mgwadm.procedures import Procedure

__all__ = ["MGWADM", "MGWADM_VERSION", "MgwAdm", "described"]

MGWADM_VERSION = 1  # raised by every release that changes *.sql; an older release leaves newer ones alone
_FILES = ("common", "links", "queues", "jobs", "old_style", "agents")
_ROW, _TEXT_ROW = "functions_mgwadm", "functions_mgwadm_text"  # rows of aq_part: the version, and a checksum
_FORMER: tuple[str, ...] = ()  # functions that an earlier release had and this one does not
_LOCK_SECONDS = 30  # that a call waits for others, as in Python
_IDLE_SECONDS = 15  # that a transaction with a call may lie idle
#: Link types whose subscriptions the gateway can ask how much they hold (:class:`mgw.links.contract.Collects`).
_COLLECTS = ("RABBITMQ", "MEMORY")
#: Domains in which a job that reads leaves a subscription in the messaging system.
_SUBSCRIBES = {"RABBITMQ": ("TOPIC",), "MEMORY": ("TOPIC",), "MQTT": ("TOPIC", "QUEUE"), "KAFKA": ()}
#: Attributes of links whose change sends the login nowhere else and protects it as before. Any other one, and an option
#: that is a free text (AMQP_ManagementURL), is not changed from SQL where a link has stored secrets.
_HARMLESS = frozenset(
    (
        "broker",
        "client",
        "client_id_prefix",
        "connect_timeout",
        "connection_name",
        "header_names",
        "keepalive",
        "max_packet_size",
        "protocol_version",
        "session_expiry",
        "timeout",
        "virtual_host",
    )
)
_OWNER = "SELECT pg_get_userbyid(relowner) = current_user FROM pg_class WHERE oid = to_regclass('aq_hub')"
_STATES = {state.name: str(int(state)) for state in State}


def described() -> dict[str, Any]:
    """What the SQL functions know of options and link types, made from the descriptions."""
    types = {}
    for name in registry.types(own=True):
        spec = registry.spec(name)
        types[name] = {
            "title": spec.title,
            "domain": next((str(domain) for domain in spec.domains if domain), None),
            "domains": [None if domain is None else str(domain) for domain in spec.domains],
            "collects": name in _COLLECTS,
            "subscribes": list(_SUBSCRIBES[name]),
            "attributes": [{**_field(field), "way": field.name not in _HARMLESS} for field in spec.attributes],
            "options": [{**_field(field), "way": field.type is str and not field.choices} for field in spec.options],
            "job_options": [_field(field) for field in spec.job_options],
            "queue_options": [_field(field) for field in spec.queue_options],
        }
    return {
        "types": types,
        "names": list(types),
        "agent": {name: _field(field) for name, field in AGENT_ATTRIBUTES.items()},
        "agent_options": [_field(field) for field in AGENT_OPTIONS],
        "foreign_options": [list(each) for each in FOREIGN_OPTIONS],
        "job_options": [_field(field) for field in JOB_OPTIONS],
        "poll_interval": _field(JOB_ATTRIBUTES["poll_interval"]),
        "guarantees": [str(each) for each in Guarantee],
    }


def _field(field: Field) -> dict[str, Any]:
    return {
        "name": field.name,
        "type": field.type.__name__,
        "kind": kind_of(field),
        "secret": field.secret,
        "required": field.required,
        "alterable": field.alterable,
        "default": field.default,
        "choices": list(map(str, field.choices)),
        "minimum": field.minimum,
        "maximum": field.maximum,
        "smallest": None if field.minimum is None else f"{field.minimum:.15g}",
        "largest": None if field.maximum is None else f"{field.maximum:.15g}",
        "cure": f"give {wanted(field)}: {field.description}",
    }


_TARGET_KIND = "CASE upper($1) WHEN 'JOB_OPTION' THEN 'job' WHEN 'MSGLINK_OPTION' THEN 'link' ELSE 'agent' END"
_QUEUE_OBJECT = "$1 || '@' || $2"
#: What the audit keeps of a procedure, in SQL: kind and name of the object, the verb, and whether it is a deed, which
#: changes no definition. remove_job and cleanup_gateway keep it themselves.
_AUDITED = {
    **dict.fromkeys(
        ("create_agent", "alter_agent", "remove_agent", "remove_agent_login"), ("'agent'", "$1", "NULL", False)
    ),
    "db_connect_info": ("'agent'", "'DEFAULT_AGENT'", "NULL", False),
    "startup": ("'agent'", "$1", "'start'", True),
    "shutdown": ("'agent'", "$1", "'stop'", True),
    "set_log_level": ("'agent'", "$2", "format('set log level %s of', $1)", True),
    "set_option": (_TARGET_KIND, "$2", "NULL", False),
    "remove_option": (_TARGET_KIND, "$2", "NULL", False),
    **dict.fromkeys(
        ("create_msgsystem_link", "alter_msgsystem_link", "remove_msgsystem_link"), ("'link'", "$1", "NULL", False)
    ),
    "register_foreign_queue": ("'foreign queue'", _QUEUE_OBJECT, "NULL", False),
    "unregister_foreign_queue": ("'foreign queue'", _QUEUE_OBJECT, "NULL", False),
    "create_job": ("'job'", "$1", "NULL", False),
    "alter_job": ("'job'", "$1", "NULL", False),
    "enable_job": ("'job'", "$1", "'enable'", False),
    "disable_job": ("'job'", "$1", "'disable'", False),
    "reset_job": ("'job'", "$1", "'reset'", True),
    **AUDITED,
}


def _public(procedure: Procedure) -> str:
    """The function that callers see."""
    given = ", ".join(f"${number}" for number in range(1, len(procedure.parameters) + 1))
    call = f"@adm@._{procedure.name}({given})"
    declared = ", ".join(parameter.declared for parameter in procedure.parameters)
    result = ("", f"PERFORM {call};", "")
    if procedure.returns != "void":
        result = (f"v_result {procedure.returns};", f"v_result := {call};", "RETURN v_result;")
    kind, name, verb, deed = _AUDITED.get(procedure.name, ("", "", "", False))
    seen = f"v_before := @adm@._seen({kind}, {name});" if kind else ""
    kept = f"PERFORM @adm@._keep({kind}, {name}, {verb}, {str(deed).lower()}, v_before);" if kind else ""
    return f"""
CREATE OR REPLACE FUNCTION @adm@.{procedure.name}({declared}) RETURNS {procedure.returns}
LANGUAGE plpgsql SECURITY DEFINER @settings@ AS $$
DECLARE
    v_before jsonb;
    {result[0]}
BEGIN
    {"" if procedure.locks else "PERFORM @adm@._begin();"}
    {seen}
    {result[1]}
    {"" if procedure.locks else "PERFORM @adm@._end();"}
    {kept}
    {result[2]}
END $$;
"""


_ROLE = """
-- Lets a role of the database call the procedures of a role of the gateway. Called by the owner of the hub.
CREATE OR REPLACE FUNCTION @adm@.grant_role(grantee text, role text) RETURNS void
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    v_names text[] := CASE upper(role) {roles} END;
    v_signature text;
BEGIN
    IF v_names IS NULL THEN
        PERFORM @adm@._refuse(32802, format('role %s is unknown', @adm@._repr(role)), 'it is one of {names}',
            'correct it');
    END IF;
    EXECUTE format('GRANT USAGE ON SCHEMA %s TO %I', @adm_name@, grantee);
    FOR v_signature IN SELECT p.oid::regprocedure::text FROM pg_proc p
                          JOIN pg_namespace n ON n.oid = p.pronamespace
                        WHERE quote_ident(n.nspname) = @adm_name@ AND p.proname = ANY (v_names) LOOP
        EXECUTE format('GRANT EXECUTE ON FUNCTION %s TO %I', v_signature, grantee);
    END LOOP;
END $$;
"""


def _grants(procedures: Sequence[Procedure]) -> str:
    roles = {
        role: [each.name for each in procedures if role.includes(each.role)] for role in Role if role is not Role.VIEWER
    }
    cases = " ".join(f"WHEN '{role}' THEN '{{version,{','.join(names)}}}'::text[]" for role, names in roles.items())
    return _ROLE.format(roles=cases, names=", ".join(roles))


@cache
def _text() -> str:
    from mgw.gateway.state.mgwadm.procedures import PROCEDURES  # not every program needs them

    folder = resources.files(__package__)
    text = "\n".join(folder.joinpath(f"{name}.sql").read_text("utf-8") for name in _FILES)
    leaving = ", ".join(map(_literal, LEAVING))
    return (
        re.sub(r"@([A-Z]+)@", lambda found: _STATES[found[1]], text.replace("@leaving@", f"({leaving})"))
        + _grants(PROCEDURES)
        + "".join(map(_public, PROCEDURES))
    )


@cache
def _described() -> str:
    return json.dumps(described(), ensure_ascii=False, sort_keys=True)


@cache
def _checksum() -> int:
    return zlib.crc32((_text() + _described()).encode()) & 0x7FFFFFFF


def _literal(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"


def _qualified(sql: str, schema: str) -> str:
    """SQL in which the names of the hub's and the gateway's tables have their schema."""
    name = quoted(schema).replace("'", "''")
    return re.sub(r"\b(?:aq|gw)_[a-z_]+\b", lambda found: f"{name}.{found[0]}", sql)


class MgwAdm:
    """See :class:`mgw.gateway.aq.store.function_home_sql.SqlFunctions`."""

    home = FunctionHome("mgwadm", "Administration")

    def stale(self, parts: Mapping[str, int]) -> bool:
        """Whether they are missing, or older than this release's."""
        version = parts.get(_ROW, 0)
        return version < MGWADM_VERSION or (version == MGWADM_VERSION and parts.get(_TEXT_ROW) != _checksum())

    def possible(self, db: Db, hub_id: bytes) -> bool:
        """Not for somebody else than the owner of the tables: they would run with his rights."""
        return functions_schema(db, hub_id) is not None and bool(db.scalar(_OWNER))

    def install(self, db: Db, hub_id: bytes, where: str) -> None:
        """Make them, or replace those there are; who was granted EXECUTE keeps it.

        Raises:
            HubError: the hub's user has no right to do it.
        """
        try:
            self._install(db, hub_id)
        except Exception as error:
            refusal = self.home.refused(error, where)
            if refusal is None:
                raise
            raise refusal from error

    def _install(self, db: Db, hub_id: bytes) -> None:
        queues = functions_schema(db, hub_id)
        if queues is None or not self.possible(db, hub_id):
            return
        tables = schema_of_tables(db)
        name = self.home.name(db, hub_id, tables)
        names = sorted(set(re.findall(r"FUNCTION @adm@\.(\w+)", _text())) | set(_FORMER))
        channels = [_literal(str(db.scalar(f"SELECT {channel_sql(base)}"))) for base in (CHANGE_CHANNEL, "mgw_hub")]
        words = {
            "adm": quoted(name),
            "adm_name": f"quote_ident({_literal(name)})",
            "aq": quoted(queues),
            "channel": channels[0],
            "hub_channel": channels[1],
            "idle": str(_IDLE_SECONDS * 1000),
            "described": _literal(_described()),
            "settings": f"{FUNCTION_SETTINGS} SET lock_timeout = '{_LOCK_SECONDS}s'",
            "version": str(MGWADM_VERSION),
        }
        text = re.sub(r"@(\w+)@", lambda found: words[found[1]], _qualified(_text(), tables))
        self.home.make(db, name, text, names)
        self.home.comment(db, name, hub_id, tables)
        db.run(f"DELETE FROM aq_part WHERE name IN ('{_ROW}', '{_TEXT_ROW}')")
        values = ((_ROW, MGWADM_VERSION), (_TEXT_ROW, _checksum()))
        db.many("INSERT INTO aq_part (name, version) VALUES (?, ?)", values)


#: The functions, as the gateway's part of the schema has them.
MGWADM = MgwAdm()
