"""``mgw users``: who may use the web face."""

from __future__ import annotations

from typing import Annotated, Literal

import typer

from mgw.gateway.cli.common import EXIT_USAGE, fail, hub_url, open_hub, print_json, print_table, say, who
from mgw.gateway.cli.jsonform import moment, second
from mgw.gateway.cli.words import Json, PasswordFile, typed_password

__all__ = ["app"]

app = typer.Typer(
    help="Users of the web face. Without any, it is open to this machine alone, without a log-in.",
    no_args_is_help=True,
    rich_markup_mode=None,
)

UserName = Annotated[str, typer.Argument(metavar="NAME", help="Name, in whatever letter case.")]
RoleWord = Literal["viewer", "operator", "administrator"]


@app.command("list")
def users_list(ctx: typer.Context, *, as_json: Json = False) -> None:
    """Users, with their roles."""
    from mgw.gateway.services.users import Users

    with open_hub(hub_url(ctx)) as hub:
        found = Users(hub).overview()
    if as_json:
        rows = [
            {
                "name": each.name,
                "role": each.role,
                "password": each.password is not None,
                "created": moment(each.created),
            }
            for each in found
        ]
        print_json(rows)
        return
    print_table(
        {"NAME": "fold", "ROLE": "fold", "PASSWORD": "fold", "CREATED (UTC)": "right"},
        [(each.name, each.role.lower(), "yes" if each.password else "no", second(each.created)) for each in found],
    )


@app.command("add")
def users_add(
    ctx: typer.Context,
    name: UserName,
    *,
    role: Annotated[RoleWord, typer.Option(help="What the user may do.")] = "viewer",
    password_file: PasswordFile = None,
    no_password: Annotated[bool, typer.Option("--no-password", help="For programs: tokens alone.")] = False,
) -> None:
    """Create a user. With the first one, which must be an administrator, everybody has to log in."""
    from mgw.gateway.services.users import Role, Users

    if no_password and password_file is not None:
        fail("give --password-file or --no-password, not both", EXIT_USAGE)
    password = None if no_password else typed_password(password_file)
    with open_hub(hub_url(ctx)) as hub:
        Users(hub).add(name, Role(role.upper()), password, by=who())
    say(f"user {name} created: {role}")


@app.command("password")
def users_password(
    ctx: typer.Context,
    name: UserName,
    *,
    password_file: PasswordFile = None,
    no_password: Annotated[bool, typer.Option("--no-password", help="Tokens alone from now on.")] = False,
) -> None:
    """Give a user another password; ends the sessions of the user."""
    from mgw.gateway.services.users import Users

    if no_password and password_file is not None:
        fail("give --password-file or --no-password, not both", EXIT_USAGE)
    password = None if no_password else typed_password(password_file)
    with open_hub(hub_url(ctx)) as hub:
        found = Users(hub).set_password(name, password, by=who())
    say(f"user {found} has {'no password any more' if no_password else 'another password'}")


@app.command("role")
def users_role(
    ctx: typer.Context, name: UserName, role: Annotated[RoleWord, typer.Argument(help="What the user may do.")]
) -> None:
    """Give a user another role, in effect at once."""
    from mgw.gateway.services.users import Role, Users

    with open_hub(hub_url(ctx)) as hub:
        found = Users(hub).set_role(name, Role(role.upper()), by=who())
    say(f"user {found} is {role} now")


@app.command("remove")
def users_remove(ctx: typer.Context, name: UserName) -> None:
    """Remove a user with all tokens and sessions. Without any user, the web face is open to this machine again."""
    from mgw.gateway.services.users import Users

    with open_hub(hub_url(ctx)) as hub:
        users = Users(hub)
        found = users.remove(name, by=who())
        left = users.exist()
    say(f"user {found} removed" + ("" if left else "; there are no users, nobody has to log in"))


@app.command("tokens")
def users_tokens(ctx: typer.Context, *, as_json: Json = False) -> None:
    """Tokens; what they are is shown once, when they are created."""
    from mgw.gateway.services.users import Users

    with open_hub(hub_url(ctx)) as hub:
        found = Users(hub).tokens()
    if as_json:
        rows = [
            {
                "id": each.id,
                "user": each.user,
                "role": each.role,
                "comment": each.comment,
                "created": moment(each.created),
                "expires": moment(each.expires),
                "used": moment(each.used),
            }
            for each in found
        ]
        print_json(rows)
        return
    columns = {"ID": "fold", "USER": "fold", "ROLE": "fold", "COMMENT": "fold"}
    columns |= {"CREATED (UTC)": "right", "EXPIRES (UTC)": "right", "USED (UTC)": "right"}
    print_table(
        columns,
        [
            (
                each.id,
                each.user,
                each.role.lower(),
                each.comment or "",
                second(each.created),
                second(each.expires),
                second(each.used),
            )
            for each in found
        ],
    )


@app.command("token")
def users_token(
    ctx: typer.Context,
    name: UserName,
    *,
    role: Annotated[RoleWord | None, typer.Option(help="What it may do at most. [default: as its user]")] = None,
    days: Annotated[
        float | None, typer.Option(min=0.001, max=36500, help="Days until it ends. [default: never]")
    ] = None,
    comment: Annotated[str | None, typer.Option(help="What it is for.")] = None,
) -> None:
    """Create a token for a program, which sends it as `Authorization: Bearer TOKEN`; shown this once."""
    from mgw.gateway.services.users import Role, Users

    with open_hub(hub_url(ctx)) as hub:
        _, text = Users(hub).add_token(
            name,
            role=None if role is None else Role(role.upper()),
            comment=comment,
            seconds=None if days is None else days * 86400,
            by=who(),
        )
    say(text)


@app.command("revoke")
def users_revoke(
    ctx: typer.Context, token: Annotated[str, typer.Argument(metavar="ID", help="Id of a token.")]
) -> None:
    """Remove a token; it is refused from now on."""
    from mgw.gateway.services.users import Users

    with open_hub(hub_url(ctx)) as hub:
        Users(hub).remove_token(token, by=who())
    say(f"token {token} removed")
