"""Procedures of DBMS_MGWADM (AQ guide 12.2 §19, PL/SQL packages reference)."""

from __future__ import annotations

from mgw.gateway.config.guide.model import Parameter, Procedure

__all__ = ["MGWADM"]

_LOGIN = "stored and shown, has no effect: the agent runs with the login of its process"
_AGENT = Parameter("agent_name", "", option="AGENT")
_JOB = Parameter("job_name", "", option="JOB")
_OPTIONS = "pairs of name and value; None as value removes one, the name `*` with None all"

_AGENT_SETTINGS = (
    Parameter("username", "NULL", option="--username", note=_LOGIN),
    Parameter("password", "NULL", option="--password-file", note=_LOGIN),
    Parameter(
        "database",
        "NULL: local connection",
        option="--database",
        note="stored and shown, has no effect: the hub's URL counts",
    ),
    Parameter("conntype", "JDBC_OCI", option="--conntype", note="stored and shown, has no effect"),
    Parameter(
        "max_memory",
        "64 MB",
        option="--max-memory",
        note="no heap size: a limit that the agent warns at (436), not watched at 64",
    ),
    Parameter(
        "max_threads",
        "1, at most 128",
        option="--max-threads",
        note="16, so that one busy job does not hold up the others",
    ),
    Parameter(
        "service",
        "NULL: all instances",
        option="--service",
        note="stored and shown, has no effect: `mgw run` on a host binds it",
    ),
    Parameter("initfile", "NULL: the default file", option="--initfile"),
    Parameter("comment", "NULL", option="--comment"),
)
_KEPT = {"username", "password", "database", "conntype", "service", "initfile", "comment"}


def _altered(parameters: tuple[Parameter, ...]) -> tuple[Parameter, ...]:
    """The same parameters of a procedure that alters: what is left out keeps its value."""
    return tuple(
        Parameter(
            each.name, "NO_CHANGE" if each.name in _KEPT else "NULL: keep", each.python, each.option, _alter_note(each)
        )
        for each in parameters
    )


def _alter_note(each: Parameter) -> str:
    return "" if each.name in {"max_threads", "comment", "initfile"} else each.note


MGWADM = (
    Procedure(
        "CREATE_AGENT",
        "create_agent",
        "agents create",
        "No scheduler job class: `mgw run --agent NAME` is the process. Options may be given with it; in SQL they are "
        "set with `mgwadm.set_option`.",
        parameters=(_AGENT, *_AGENT_SETTINGS),
    ),
    Procedure(
        "ALTER_AGENT",
        "alter_agent",
        "agents alter",
        "In effect at the next start, as there. Without a name it alters DEFAULT_AGENT. Options may be given with it; "
        "in SQL they are set with `mgwadm.set_option`.",
        parameters=(_AGENT, *_altered(_AGENT_SETTINGS)),
    ),
    Procedure("REMOVE_AGENT", "remove_agent", "agents remove", parameters=(_AGENT,)),
    Procedure(
        "STARTUP",
        "startup",
        "agents startup",
        "A process `mgw run` of that agent has to be there: it is what starts it. `mgw run` starts the agent by "
        "itself unless it was shut down.",
        parameters=(
            Parameter("agent_name", "DEFAULT_AGENT", option="AGENT"),
            Parameter("instance", "0, ignored", "-", note="ignored there, left out here"),
            Parameter("force", "NO_FORCE, ignored", "-", note="ignored there, left out here"),
        ),
    ),
    Procedure(
        "SHUTDOWN",
        "shutdown",
        "agents shutdown",
        parameters=(
            Parameter("agent_name", "DEFAULT_AGENT", option="AGENT"),
            Parameter("sdmode", "SHUTDOWN_NORMAL", note="another mode is refused (ORA-32802)"),
        ),
    ),
    Procedure(
        "SET_LOG_LEVEL",
        "set_log_level",
        "agents log-level",
        parameters=(
            Parameter("agent_name", "DEFAULT_AGENT", option="AGENT", note="in Python after `log_level`"),
            Parameter("log_level", "", option="LEVEL"),
        ),
    ),
    Procedure(
        "SET_OPTION",
        "set_option",
        note="On the command line `--option` of `mgw agents alter`, `mgw links alter`, `mgw jobs alter`; encrypted: "
        "`--encrypted-option` of `mgw agents create` and `mgw agents alter`, refused in SQL.",
        parameters=(
            Parameter("target_type", "", note="`AGENT_JAVA_PROP`, `MSGLINK_OPTION`, `JOB_OPTION`"),
            Parameter("target_name"),
            Parameter("option_name"),
            Parameter("option_value"),
            Parameter("encrypted", "FALSE", note="for options of agents; secret options of links always are"),
        ),
    ),
    Procedure(
        "REMOVE_OPTION",
        "remove_option",
        note="On the command line `--option NAME=` of the same commands.",
        parameters=(Parameter("target_type"), Parameter("target_name"), Parameter("option_name")),
    ),
    Procedure(
        "DB_CONNECT_INFO",
        "db_connect_info",
        "agents db-connect-info",
        "Deprecated there. Stored and shown, without effect: set the hub's URL, `--hub` or `MGW_HUB`. Refused in SQL, "
        "as it needs a password. `mgw agents remove-login` takes it back.",
        parameters=(
            Parameter("username", option="USERNAME"),
            Parameter("password", option="--password-file"),
            Parameter("database", "NULL", option="--database"),
        ),
    ),
    Procedure(
        "CLEANUP_GATEWAY",
        "cleanup_gateway",
        "agents cleanup",
        "CLEAN_STARTUP_STATE is `mgw agents clean`, too. In Python the action comes first. In SQL CLEAN_STARTUP_STATE "
        "alone does its work; what looks at brokers or at the ledger names the command of `mgw`.",
        parameters=(
            Parameter("agent_name", "DEFAULT_AGENT", option="--agent"),
            Parameter("action", "", option="ACTION"),
            Parameter("sarg", "NULL", option="JOB"),
        ),
    ),
    Procedure(
        "CREATE_MSGSYSTEM_LINK",
        "create_msgsystem_link",
        "links create",
        "The type of the link is a parameter, not the type of `properties`.",
        parameters=(
            Parameter("linkname", "", option="LINK"),
            Parameter("agent_name", "DEFAULT_AGENT", option="--agent"),
            Parameter("properties", "", option="--set", note="pairs of name and value: [links](reference/links.md)"),
            Parameter("options", "NULL", option="--option", note=_OPTIONS),
            Parameter("comment", "NULL", option="--comment"),
        ),
    ),
    Procedure(
        "ALTER_MSGSYSTEM_LINK",
        "alter_msgsystem_link",
        "links alter",
        "More may change: host, port and all options, at the next connect; [how](how-to/move-a-link.md).",
        parameters=(
            Parameter("linkname", "", option="LINK"),
            Parameter("properties", "NULL: keep all", option="--set", note="None goes back to the default"),
            Parameter("options", "NULL: keep", option="--option", note=_OPTIONS),
            Parameter("comment", "NO_CHANGE", option="--comment"),
        ),
    ),
    Procedure(
        "REMOVE_MSGSYSTEM_LINK",
        "remove_msgsystem_link",
        "links remove",
        parameters=(Parameter("linkname", "", option="LINK"),),
    ),
    Procedure(
        "REGISTER_FOREIGN_QUEUE",
        "register_foreign_queue",
        "queues register",
        "Registers only, as there.",
        parameters=(
            Parameter("name", "", option="QUEUE@LINK"),
            Parameter("linkname", "", option="QUEUE@LINK"),
            Parameter("provider_queue", "NULL: name", option="--provider-queue"),
            Parameter("domain", "NULL", option="--domain"),
            Parameter("options", "NULL", option="--option", note=_OPTIONS),
            Parameter("comment", "NULL", option="--comment"),
        ),
    ),
    Procedure(
        "UNREGISTER_FOREIGN_QUEUE",
        "unregister_foreign_queue",
        "queues remove",
        parameters=(Parameter("name", "", option="QUEUE@LINK"), Parameter("linkname", "", option="QUEUE@LINK")),
    ),
    Procedure(
        "CREATE_JOB",
        "create_job",
        "jobs create",
        "Two more types: THROUGH (link to link) and LOCAL (queue to queue of the hub).",
        parameters=(
            _JOB,
            Parameter("propagation_type", "", option="--type", note="`OUTBOUND_PROPAGATION` is taken as OUTBOUND"),
            Parameter("source", "", option="--source"),
            Parameter("destination", "", option="--destination"),
            Parameter("rule", "NULL", option="--rule", note="for jobs that read a link, too"),
            Parameter("transformation", "NULL", option="--transformation"),
            Parameter("exception_queue", "NULL", option="--exception-queue"),
            Parameter("poll_interval", "NULL: 5 s", option="--poll-interval"),
            Parameter("options", "NULL", option="--option", note=_OPTIONS),
            Parameter("enabled", "TRUE", option="--disabled"),
            Parameter("comments", "NULL", option="--comment"),
        ),
    ),
    Procedure(
        "ALTER_JOB",
        "alter_job",
        "jobs alter",
        "Rule and transformation may change for JMS payloads, too.",
        parameters=(
            _JOB,
            Parameter("rule", "NO_CHANGE", option="--rule"),
            Parameter("transformation", "NO_CHANGE", option="--transformation"),
            Parameter("exception_queue", "NO_CHANGE", option="--exception-queue"),
            Parameter(
                "poll_interval",
                "0: keep; NULL: the default",
                option="--poll-interval",
                note="on the command line, left out keeps and 0 is the default",
            ),
            Parameter("options", "NULL: keep", option="--option", note=_OPTIONS),
            Parameter("comments", "NO_CHANGE", option="--comment"),
        ),
    ),
    Procedure("ENABLE_JOB", "enable_job", "jobs enable", parameters=(_JOB,)),
    Procedure("DISABLE_JOB", "disable_job", "jobs disable", parameters=(_JOB,)),
    Procedure("RESET_JOB", "reset_job", "jobs reset", parameters=(_JOB,)),
    Procedure(
        "REMOVE_JOB",
        "remove_job",
        "jobs remove",
        "Refused while messages wait for it in a subscription, unless it is said what becomes of them: `move_to`, "
        "`drop_messages` or `force`. SQL has `force` alone, as the others look at brokers or move messages: "
        "`mgw jobs remove`.",
        parameters=(
            _JOB,
            Parameter("force", "NO_FORCE", option="--force", note="`NO_FORCE` and `FORCE` are False and True"),
        ),
    ),
)
