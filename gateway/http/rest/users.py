"""Users of the web face, and their tokens."""

from __future__ import annotations

from datetime import datetime
from typing import Literal

from fastapi import APIRouter
from pydantic import BaseModel, Field

from mgw.gateway.http.access import Administrator
from mgw.gateway.http.rest.answers import HubOf, StrictModel
from mgw.gateway.http.rest.moments import moment
from mgw.gateway.services.users import Role, TokenRow, UserRow, Users

__all__ = ["router"]

router = APIRouter(prefix="/users", tags=["users"])

RoleWord = Literal["viewer", "operator", "administrator"]


class UserModel(BaseModel):
    """A user."""

    name: str
    role: RoleWord
    password: bool = Field(description="Whether the user may log in with a password.")
    created: datetime


class NewUser(StrictModel):
    """A user that is to be there."""

    role: RoleWord = "viewer"
    password: str | None = Field(
        default=None,
        min_length=12,
        max_length=1024,
        description="Without it: a new user has tokens alone, one that is there keeps the password.",
        json_schema_extra={"format": "password"},
    )


class TokenModel(BaseModel):
    """A token; what a program sends is shown once, when it is made."""

    id: str
    user: str
    role: RoleWord = Field(description="What it may do at most.")
    comment: str | None
    created: datetime
    expires: datetime | None
    used: datetime | None = Field(description="When it was last used, to about an hour.")


class NewToken(StrictModel):
    """A token that is to be made."""

    role: RoleWord | None = Field(default=None, description="What it may do at most; default: as its user.")
    comment: str | None = Field(default=None, max_length=1000)
    seconds: float | None = Field(default=None, gt=0, le=4e9, description="Until it ends; default: never.")


class MadeToken(TokenModel):
    """A token that was made."""

    token: str = Field(description="To be sent as `Authorization: Bearer TOKEN`; it is not shown again.")


def _user(row: UserRow) -> UserModel:
    return UserModel(
        name=row.name,
        role=row.role.lower(),  # type: ignore[arg-type]
        password=row.password is not None,
        created=moment(row.created),
    )


def _token(row: TokenRow) -> TokenModel:
    return TokenModel(
        id=row.id,
        user=row.user,
        role=row.role.lower(),  # type: ignore[arg-type]
        comment=row.comment,
        created=moment(row.created),
        expires=moment(row.expires),
        used=moment(row.used),
    )


@router.get("")
def list_users(hub: HubOf, _: Administrator) -> list[UserModel]:
    """All users."""
    return [_user(row) for row in Users(hub).overview()]


@router.put("/{name}")
def put_user(name: str, given: NewUser, hub: HubOf, who: Administrator) -> UserModel:
    """Create a user, or give one another role or password."""
    users = Users(hub)
    there = next((row for row in users.overview() if row.name.upper() == name.upper()), None)
    role = Role(given.role.upper())
    if there is None:
        users.add(name, role, given.password, by=who.name)
    else:
        if there.role is not role:
            users.set_role(name, role, by=who.name)
        if given.password is not None:
            users.set_password(name, given.password, by=who.name)
    return next(_user(row) for row in users.overview() if row.name.upper() == name.upper())


@router.delete("/{name}", status_code=204)
def remove_user(name: str, hub: HubOf, who: Administrator) -> None:
    """Remove a user with all tokens and sessions."""
    Users(hub).remove(name, by=who.name)


@router.get("/{name}/tokens")
def list_tokens(name: str, hub: HubOf, _: Administrator) -> list[TokenModel]:
    """The tokens of a user."""
    return [_token(row) for row in Users(hub).tokens() if row.user.upper() == name.upper()]


@router.post("/{name}/tokens", status_code=201)
def add_token(name: str, given: NewToken, hub: HubOf, who: Administrator) -> MadeToken:
    """Make a token for a program."""
    role = None if given.role is None else Role(given.role.upper())
    row, text = Users(hub).add_token(name, role=role, comment=given.comment, seconds=given.seconds, by=who.name)
    return MadeToken(**_token(row).model_dump(), token=text)


@router.delete("/{name}/tokens/{token_id}", status_code=204)
def remove_token(name: str, token_id: str, hub: HubOf, who: Administrator) -> None:
    """Remove a token; it is refused from now on."""
    Users(hub).remove_token(token_id, by=who.name, of=name)
