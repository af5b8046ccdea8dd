"""``mgw aq grant``, ``revoke``, ``privileges``, ``roles``, ``agents``: who may use the hub's queues."""

from __future__ import annotations

from dataclasses import asdict
from typing import Annotated, Any

import typer

from mgw.gateway.cli.common import EXIT_USAGE, completer, fail, hub_url, open_hub, print_json, print_table, say

__all__ = ["register"]

QUEUE_RIGHTS = ("ENQUEUE", "DEQUEUE", "ALL")
SYSTEM_RIGHTS = ("ENQUEUE_ANY", "DEQUEUE_ANY", "MANAGE_ANY")
_OPTION = ", and may pass it on"

roles = typer.Typer(help="Roles and who holds them.", no_args_is_help=True, rich_markup_mode=None)
agents = typer.Typer(
    help="AQ agents, under whose names users work with secure queues.", no_args_is_help=True, rich_markup_mode=None
)

Privilege = Annotated[
    str,
    typer.Argument(
        metavar="PRIVILEGE",
        help="ENQUEUE, DEQUEUE or ALL on a queue; EXECUTE on a type; ENQUEUE_ANY, DEQUEUE_ANY or MANAGE_ANY.",
    ),
]
Grantee = Annotated[str, typer.Argument(metavar="GRANTEE", help="A user, a role, or PUBLIC.")]
On = Annotated[str | None, typer.Option("--queue", "-q", help="The queue.", autocompletion=completer("queues"))]
Type = Annotated[
    str | None, typer.Option("--type", "-t", help="The object type.", autocompletion=completer("object_types"))
]
As = Annotated[str | None, typer.Option("--user", help="Act as this user, with the privileges of that user only.")]
Agent = Annotated[str, typer.Argument(metavar="AGENT", autocompletion=completer("aq_agents"))]
User = Annotated[str, typer.Argument(metavar="USER", help="A database user.")]
Json = Annotated[bool, typer.Option("--json", help="Print JSON.")]
Certificate = Annotated[str | None, typer.Option(help="Where the agent's certificate is.")]
Http = Annotated[bool, typer.Option("--http", help="The agent may use HTTP.")]
Anyp = Annotated[bool, typer.Option("--any-protocol", help="The agent may use any protocol.")]


def register(app: typer.Typer) -> None:
    """Add the commands to ``mgw aq``."""
    app.command("grant")(grant)
    app.command("revoke")(revoke)
    app.command("privileges")(privileges)
    app.command("database-role")(database_role)
    app.add_typer(roles, name="roles")
    app.add_typer(agents, name="agents")


def _on(privilege: str, queue: str | None, type_name: str | None) -> str | None:
    """The queue of a queue privilege, else None; leaves when privilege and object do not go together."""
    if (privilege.upper() == "EXECUTE") is (type_name is None):
        fail("EXECUTE is the only privilege on object types; give both EXECUTE and --type, or neither", EXIT_USAGE)
    if type_name is not None and queue is None:
        return None
    on_queue = privilege.upper() in QUEUE_RIGHTS
    if not on_queue and queue is not None and privilege.upper() not in SYSTEM_RIGHTS:
        fail(f"there is no privilege {privilege.upper()} on queues; grant {', '.join(QUEUE_RIGHTS)}", EXIT_USAGE)
    if on_queue and queue is None:
        fail(f"privilege {privilege.upper()} is on one queue; add --queue", EXIT_USAGE)
    if not on_queue and queue is not None:
        fail(f"privilege {privilege.upper()} is not on a queue; leave --queue out", EXIT_USAGE)
    return queue


def grant(
    ctx: typer.Context,
    privilege: Privilege,
    grantee: Grantee,
    *,
    queue: On = None,
    type_name: Type = None,
    option: Annotated[bool, typer.Option("--with-option", help="The grantee may pass it on.")] = False,
    user: As = None,
) -> None:
    """Let a user or role use a queue, all queues, or an object type."""
    from mgw.gateway.services.queues import administration

    name = _on(privilege, queue, type_name)
    if type_name is not None and option:
        fail("EXECUTE cannot be passed on; leave --with-option out", EXIT_USAGE)
    with open_hub(hub_url(ctx)) as hub:
        admin = administration(hub, user=user)
        if type_name is not None:
            admin.grant_type_privilege(type_name, grantee)
        elif name is not None:
            admin.grant_queue_privilege(privilege, name, grantee, option)
        else:
            admin.grant_system_privilege(privilege, grantee, option)
    on = type_name or name
    say(f"{grantee} holds {privilege.upper()}{f' on {on}' if on else ''}{_OPTION if option else ''}")


def revoke(
    ctx: typer.Context,
    privilege: Privilege,
    grantee: Grantee,
    *,
    queue: On = None,
    type_name: Type = None,
    user: As = None,
) -> None:
    """Take a privilege back. Queue privileges that the grantee passed on are revoked with it."""
    from mgw.gateway.services.queues import administration

    name = _on(privilege, queue, type_name)
    with open_hub(hub_url(ctx)) as hub:
        admin = administration(hub, user=user)
        if type_name is not None:
            admin.revoke_type_privilege(type_name, grantee)
        elif name is not None:
            admin.revoke_queue_privilege(privilege, name, grantee)
        else:
            admin.revoke_system_privilege(privilege, grantee)
    on = type_name or name
    say(f"revoked {privilege.upper()}{f' on {on}' if on else ''} from {grantee}")


def privileges(ctx: typer.Context, *, queue: On = None, user: As = None, as_json: Json = False) -> None:
    """Everything that is granted; with --user, what that user can see."""
    from mgw.gateway.services.queues import administration

    with open_hub(hub_url(ctx)) as hub:
        admin = administration(hub, user=user)
        on_queues = admin.queue_privileges(queue)
        system = [] if queue is not None else admin.system_privileges()
        members = [] if queue is not None else admin.roles()
        types = [] if queue is not None else admin.type_privileges()
    if as_json:
        print_json(
            {
                "queues": [asdict(each) for each in on_queues],
                "system": [asdict(each) for each in system],
                "roles": [asdict(each) for each in members],
                "types": [asdict(each) for each in types],
            }
        )
        return
    rows: list[tuple[Any, ...]] = [(each.grantee, f"role {each.role}", "", each.grantor) for each in members]
    rows += [(each.grantee, _shown(each.privilege, each.admin_option), "", each.grantor) for each in system]
    rows += [(grant.grantee, "EXECUTE", grant.type, grant.grantor) for grant in types]
    for one in on_queues:
        for word, level in (("ENQUEUE", one.enqueue), ("DEQUEUE", one.dequeue)):
            if level:
                rows.append((one.grantee, _shown(word, level == 2), one.queue, one.grantor))
    print_table({"GRANTEE": "fold", "HOLDS": "left", "ON": "fold", "GRANTED BY": "fold"}, rows)


def _shown(privilege: str, option: bool) -> str:
    return f"{privilege} +option" if option else privilege


def database_role(
    ctx: typer.Context,
    role: Annotated[str, typer.Argument(metavar="ROLE", help="Name of the PostgreSQL role.")],
    *,
    apply: Annotated[bool, typer.Option("--apply", help="Run the statements instead of printing them.")] = False,
) -> None:
    """Print the SQL that makes a PostgreSQL role for programs that use queues with a login of their own."""
    from mgw.gateway.services.queues import database_role as statements_of

    with open_hub(hub_url(ctx)) as hub:
        statements = statements_of(hub, role, apply=apply)
    if not apply:
        say("\n".join(statements))
        return
    say(f"members of role {role} may use the queues of the hub that they are granted")


@roles.command("grant")
def roles_grant(ctx: typer.Context, role: Annotated[str, typer.Argument(metavar="ROLE")], grantee: Grantee) -> None:
    """Give a role. AQ_ADMINISTRATOR_ROLE may do everything; any other name is a role of your own."""
    from mgw.gateway.services.queues import administration

    with open_hub(hub_url(ctx)) as hub:
        administration(hub).grant_role(role, grantee)
    say(f"{grantee} holds role {role}")


@roles.command("revoke")
def roles_revoke(ctx: typer.Context, role: Annotated[str, typer.Argument(metavar="ROLE")], grantee: Grantee) -> None:
    """Take a role back."""
    from mgw.gateway.services.queues import administration

    with open_hub(hub_url(ctx)) as hub:
        administration(hub).revoke_role(role, grantee)
    say(f"revoked role {role} from {grantee}")


@agents.command("list")
def agents_list(ctx: typer.Context, as_json: Json = False) -> None:
    """AQ agents and the users they act for. Those of subscribers are made by the hub."""
    from mgw.gateway.services.queues import administration

    with open_hub(hub_url(ctx)) as hub:
        found = administration(hub).aq_agents()
    if as_json:
        print_json([asdict(each) for each in found])
        return
    rows = [
        (
            each.name,
            ", ".join(each.users),
            "any" if each.enable_anyp else "HTTP" if each.enable_http else "",
            "subscriber" if each.automatic else "",
        )
        for each in found
    ]
    print_table({"AGENT": "fold", "USERS": "fold", "PROTOCOLS": "left", "MADE FOR": "left"}, rows)


@agents.command("create")
def agents_create(
    ctx: typer.Context, agent: Agent, *, certificate: Certificate = None, http: Http = False, anyp: Anyp = False
) -> None:
    """Create an AQ agent."""
    from mgw.gateway.services.queues import administration

    with open_hub(hub_url(ctx)) as hub:
        administration(hub).create_aq_agent(agent, certificate, http, anyp)
    say(f"created AQ agent {agent}")


@agents.command("alter")
def agents_alter(
    ctx: typer.Context, agent: Agent, *, certificate: Certificate = None, http: Http = False, anyp: Anyp = False
) -> None:
    """Set all attributes of an AQ agent; what is left out is switched off."""
    from mgw.gateway.services.queues import administration

    with open_hub(hub_url(ctx)) as hub:
        administration(hub).alter_aq_agent(agent, certificate, http, anyp)
    say(f"altered AQ agent {agent}")


@agents.command("drop")
def agents_drop(ctx: typer.Context, agent: Agent) -> None:
    """Remove an AQ agent with its mappings."""
    from mgw.gateway.services.queues import administration

    with open_hub(hub_url(ctx)) as hub:
        administration(hub).drop_aq_agent(agent)
    say(f"dropped AQ agent {agent}")


@agents.command("enable")
def agents_enable(ctx: typer.Context, agent: Agent, user: User) -> None:
    """Let a user work under the name of an AQ agent."""
    from mgw.gateway.services.queues import administration

    with open_hub(hub_url(ctx)) as hub:
        administration(hub).enable_db_access(agent, user)
    say(f"AQ agent {agent} has the privileges of user {user}")


@agents.command("disable")
def agents_disable(ctx: typer.Context, agent: Agent, user: User) -> None:
    """Keep a user from working under the name of an AQ agent."""
    from mgw.gateway.services.queues import administration

    with open_hub(hub_url(ctx)) as hub:
        administration(hub).disable_db_access(agent, user)
    say(f"AQ agent {agent} no longer has the privileges of user {user}")
