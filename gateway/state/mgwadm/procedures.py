"""The procedures of schema ``mgwadm`` with their parameters, each described once.

The SQL functions and the reference page are made from it. Meanings of parameters are those of the attributes where the
procedure sets one (:mod:`mgw.gateway.definitions.attributes`).
"""

from __future__ import annotations

from collections.abc import Mapping

from mgw.gateway.definitions.attributes import (
    AGENT_ATTRIBUTES,
    FOREIGN_QUEUE_ATTRIBUTES,
    JOB_ATTRIBUTES,
    LINK_ATTRIBUTES,
)
from mgw.gateway.definitions.objects import DEFAULT_AGENT
from mgw.gateway.definitions.roles import Role
from mgw.gateway.state.mgwadm.old_style_procedures import OLD_STYLE
from mgw.gateway.state.mgwadm.parameters import KEEPS, MERGED, NO_CHANGE, OPTIONS, Parameter, Procedure
from mgw.links.contract import Field

__all__ = ["NO_CHANGE", "PROCEDURES", "Parameter", "Procedure"]


def _described(fields: Mapping[str, Field], name: str, given: str = "") -> str:
    return fields[given or name].description


_JOB_NAME = Parameter("job_name", "text", "Name of the job.")


def _job(name: str, type_: str = "text", default: str = "", attribute: str = "", more: str = "") -> Parameter:
    return Parameter(name, type_, _described(JOB_ATTRIBUTES, name, attribute) + more, default)


_JOBS = (
    Procedure(
        "create_job",
        Role.ADMINISTRATOR,
        "Jobs",
        "Creates a job. For a multi-consumer source its subscriber `MGW_<job>` collects from the commit on.",
        (
            _JOB_NAME,
            _job("propagation_type", attribute="type"),
            _job("source"),
            _job("destination"),
            _job("rule", default="NULL", more=" It is compiled in Python: from SQL it must be NULL."),
            _job("transformation", default="NULL"),
            _job("exception_queue", default="NULL"),
            _job("poll_interval", "double precision", "NULL"),
            Parameter("options", "jsonb", OPTIONS, "NULL"),
            _job("enabled", "boolean", "true"),
            _job("comments", default="NULL", attribute="comment"),
            _job("require_guarantee", default="NULL", more=" From SQL it is checked when the job starts."),
        ),
    ),
    Procedure(
        "alter_job",
        Role.ADMINISTRATOR,
        "Jobs",
        "Alters a job, whether its agent runs or not.",
        (
            _JOB_NAME,
            _job("rule", default=f"'{NO_CHANGE}'", more=f"{KEEPS} Another one needs Python."),
            _job("transformation", default=f"'{NO_CHANGE}'", more=KEEPS),
            _job("exception_queue", default=f"'{NO_CHANGE}'", more=KEEPS),
            Parameter("poll_interval", "double precision", "As above; 0 keeps it, NULL goes back to the default.", "0"),
            Parameter("options", "jsonb", MERGED, "NULL"),
            _job("comments", default=f"'{NO_CHANGE}'", attribute="comment", more=KEEPS),
            _job(
                "require_guarantee",
                default=f"'{NO_CHANGE}'",
                more=f"{KEEPS} From SQL it is checked when the job starts again, which it does when its options or its "
                "exception queue are altered.",
            ),
        ),
    ),
    Procedure(
        "remove_job",
        Role.ADMINISTRATOR,
        "Jobs",
        "Removes a job. False: it is DELETE_PENDING until its agent has removed what belongs to it in the messaging "
        "system. It is refused while messages wait for its subscription, and for a topic of RabbitMQ, whose messages "
        "only `mgw jobs remove` can count.",
        (
            _JOB_NAME,
            Parameter(
                "force",
                "boolean",
                "True: at once, with the messages that wait for its subscription in the hub; a subscription in the "
                "messaging system is left there.",
                "false",
            ),
        ),
        "boolean",
    ),
    Procedure("enable_job", Role.OPERATOR, "Jobs", "Lets a job move messages.", (_JOB_NAME,)),
    Procedure("disable_job", Role.OPERATOR, "Jobs", "Stops a job; its subscription keeps collecting.", (_JOB_NAME,)),
    Procedure(
        "reset_job",
        Role.OPERATOR,
        "Jobs",
        "Makes a job READY without failures; it is tried again at once. A subscription that is gone with its queue is "
        "made again.",
        (_JOB_NAME,),
    ),
)

_QUEUE_NAME = Parameter("name", "text", "Name of the foreign queue, the part before the `@`.")
_LINK_NAME = Parameter("linkname", "text", "Name of the link.")

_QUEUES = (
    Procedure(
        "register_foreign_queue",
        Role.ADMINISTRATOR,
        "Foreign queues",
        "Records a queue, exchange or topic of a messaging system under a name. Nothing is created there.",
        (
            _QUEUE_NAME,
            _LINK_NAME,
            Parameter("provider_queue", "text", _described(FOREIGN_QUEUE_ATTRIBUTES, "provider_queue"), "NULL"),
            Parameter("domain", "text", "QUEUE or TOPIC. " + _described(FOREIGN_QUEUE_ATTRIBUTES, "domain"), "NULL"),
            Parameter("options", "jsonb", OPTIONS, "NULL"),
            Parameter("comment", "text", _described(FOREIGN_QUEUE_ATTRIBUTES, "comment"), "NULL"),
        ),
    ),
    Procedure(
        "unregister_foreign_queue",
        Role.ADMINISTRATOR,
        "Foreign queues",
        "Removes a registration that no job uses.",
        (_QUEUE_NAME, _LINK_NAME),
    ),
)

_PROPERTIES = (
    "JSON object of the [attributes](links.md) of the type. `username`, `max_connections`, `inbound_log_queue` and "
    "`outbound_log_queue` may be among them. "
)


def _link(name: str, type_: str = "text", attribute: str = "", more: str = "", default: str = "NULL") -> Parameter:
    return Parameter(name, type_, _described(LINK_ATTRIBUTES, name, attribute) + more, default)


_LINKS = (
    Procedure(
        "create_msgsystem_link",
        Role.ADMINISTRATOR,
        "Links",
        "Creates a link. It belongs to its agent forever; nothing is connected.",
        (
            _LINK_NAME,
            _link("link_type", attribute="type", default=""),
            Parameter("properties", "jsonb", _PROPERTIES.strip(), "NULL"),
            _link("agent_name", attribute="agent", default=f"'{DEFAULT_AGENT}'"),
            Parameter("options", "jsonb", "JSON object of [options](links.md) of the type.", "NULL"),
            _link("comment"),
            _link("username"),
            Parameter("password", "text", "Must be NULL: give it with `mgw links alter --password-file`.", "NULL"),
            _link("max_connections", "integer"),
            _link("inbound_log_queue"),
            _link("outbound_log_queue"),
        ),
    ),
    Procedure(
        "alter_msgsystem_link",
        Role.ADMINISTRATOR,
        "Links",
        "Alters a link; dynamic attributes take effect at once, the others when the agent reconnects.",
        (
            _LINK_NAME,
            Parameter("properties", "jsonb", _PROPERTIES + "`null` goes back to the default. NULL keeps all.", "NULL"),
            Parameter("options", "jsonb", MERGED, "NULL"),
            _link("comment", more=KEEPS, default=f"'{NO_CHANGE}'"),
        ),
    ),
    Procedure(
        "remove_msgsystem_link",
        Role.ADMINISTRATOR,
        "Links",
        "Removes a link on which no foreign queue is registered.",
        (_LINK_NAME,),
    ),
)


def _agent_name(default: bool = True) -> Parameter:
    return Parameter("agent_name", "text", "Name of the agent.", f"'{DEFAULT_AGENT}'" if default else "")


def _agent(altered: bool) -> tuple[Parameter, ...]:
    """The attributes of an agent, as create_agent or alter_agent takes them."""
    types = {"max_memory": "integer", "max_threads": "integer"}
    defaults = {"conntype": "'JDBC_OCI'"}
    found = []
    for name in (
        "username",
        "password",
        "database",
        "conntype",
        "max_memory",
        "max_threads",
        "service",
        "initfile",
        "comment",
    ):
        type_ = types.get(name, "text")
        keeps = altered and type_ == "text"
        default = f"'{NO_CHANGE}'" if keeps else defaults.get(name, "NULL")
        meaning = "Must be left out." if name == "password" else AGENT_ATTRIBUTES[name].description
        if type_ != "text":
            meaning += " NULL keeps it." if altered else f" NULL: {AGENT_ATTRIBUTES[name].default}."
        found.append(Parameter(name, type_, meaning, default))
    return tuple(found)


_TARGET = (
    Parameter("target_type", "text", "`AGENT_JAVA_PROP`, `MSGLINK_OPTION` or `JOB_OPTION`."),
    Parameter("target_name", "text", "Name of the agent, link or job."),
    Parameter("option_name", "text", "Name of the option."),
)

_AGENTS = (
    Procedure(
        "create_agent",
        Role.ADMINISTRATOR,
        "Agents",
        "Creates an agent.",
        (_agent_name(default=False), *_agent(altered=False)),
    ),
    Procedure(
        "alter_agent",
        Role.ADMINISTRATOR,
        "Agents",
        f"Alters an agent, from its next start on. `{NO_CHANGE}` keeps a text, NULL removes it.",
        (_agent_name(), *_agent(altered=True)),
    ),
    Procedure(
        "remove_agent",
        Role.ADMINISTRATOR,
        "Agents",
        "Removes an agent that is stopped and has no links.",
        (_agent_name(default=False),),
    ),
    Procedure(
        "remove_agent_login",
        Role.ADMINISTRATOR,
        "Agents",
        "Removes user name, password and database of an agent, which have no effect.",
        (_agent_name(default=False),),
    ),
    Procedure(
        "db_connect_info",
        Role.ADMINISTRATOR,
        "Agents",
        "Deprecated: the login of the default agent, which has no effect. Refused: a password cannot be given in SQL.",
        (
            Parameter("username", "text", "User name."),
            Parameter("password", "text", "Password."),
            Parameter("database", "text", "Database.", "NULL"),
        ),
    ),
    Procedure(
        "startup",
        Role.OPERATOR,
        "Agents",
        "Schedules an agent; a supervisor that runs starts it.",
        (_agent_name(),),
    ),
    Procedure(
        "shutdown",
        Role.OPERATOR,
        "Agents",
        "Asks an agent to stop; work in flight is finished.",
        (_agent_name(), Parameter("sdmode", "text", "The only mode.", "'SHUTDOWN_NORMAL'")),
    ),
    Procedure(
        "set_log_level",
        Role.OPERATOR,
        "Agents",
        "Sets the log level of a running agent, until it stops.",
        (Parameter("log_level", "integer", "0 (basic) to 4 (everything)."), _agent_name()),
    ),
    Procedure(
        "set_option",
        Role.ADMINISTRATOR,
        "Options",
        "Sets one option of an agent (from its next start on), a link or a job.",
        (
            *_TARGET,
            Parameter("option_value", "text", "Its value."),
            Parameter("encrypted", "boolean", "Must be false: the database does not have the key.", "false"),
        ),
    ),
    Procedure(
        "remove_option",
        Role.ADMINISTRATOR,
        "Options",
        "Removes one option of an agent (from its next start on), a link or a job.",
        _TARGET,
    ),
    Procedure(
        "cleanup_gateway",
        Role.OPERATOR,
        "Clean-up",
        "Cleans up after an error. Only `CLEAN_STARTUP_STATE` works from SQL: it sets an agent that left its status "
        "behind back to NOT_STARTED, after up to 5 seconds in which the agent may answer. The other actions look "
        "at brokers: `mgw agents cleanup CLEAN_LOG_QUEUES` and its like.",
        (
            Parameter(
                "action",
                "text",
                "`CLEAN_STARTUP_STATE`, `CLEAN_LOG_QUEUES`, `RESET_SUB_MISSING_LOG_REC` or "
                "`RESET_SUB_MISSING_MESSAGE`.",
            ),
            Parameter("sarg", "text", "Name of the job, for the last two.", "NULL"),
            _agent_name(),
        ),
        locks=True,
    ),
)

#: All procedures, in the order of the reference page.
PROCEDURES = (*_AGENTS, *_LINKS, *_QUEUES, *_JOBS, *OLD_STYLE)
