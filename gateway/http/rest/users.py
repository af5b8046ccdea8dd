"""Users of the web face, and their tokens."""

from __future__ import annotations

import hashlib
from datetime import datetime
from typing import Any, Literal

from fastapi import APIRouter
from fastapi.responses import JSONResponse, Response
from pydantic import BaseModel, Field

from mgw.gateway.http.access import Administrator
from mgw.gateway.http.rest.answers import HubOf, StrictModel
from mgw.gateway.http.rest.conditions import Conditions, header_of, is_known
from mgw.gateway.http.rest.moments import moment
from mgw.gateway.services.users import KEPT, Role, TokenRow, UserRow, Users

__all__ = ["router"]

router = APIRouter(prefix="/users", tags=["users"])

RoleWord = Literal["viewer", "operator", "administrator"]

_TAGGED: dict[int | str, dict[str, Any]] = {
    200: {"headers": {"ETag": {"description": "For If-Match.", "schema": {"type": "string"}}}},
    304: {"description": "The user is what If-None-Match says."},
}


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


class UserChange(StrictModel):
    """What changes of a user; what is left out stays."""

    role: RoleWord | None = Field(default=None, description="Another role; it holds from the next request on.")
    password: str | None = Field(
        default=None,
        min_length=12,
        max_length=1024,
        description="Another password, which ends the sessions of the user; null: tokens alone from now on.",
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


def _tag(row: UserRow) -> str:
    """The entity tag: another one after each change."""
    return hashlib.sha256(repr((row.name, row.role, row.password)).encode()).hexdigest()[:32]


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
        users.alter(name, role=role, password=KEPT if given.password is None else given.password, by=who.name)
    return next(_user(row) for row in users.overview() if row.name.upper() == name.upper())


@router.get("/{name}", response_model=UserModel, responses=_TAGGED)
def show_user(name: str, hub: HubOf, _: Administrator, expected: Conditions) -> Any:
    """One user."""
    row = Users(hub).get(name)
    if is_known(_tag(row), expected):
        return Response(status_code=304, headers=header_of(_tag(row)))
    return _told(row)


@router.patch("/{name}", response_model=UserModel, responses={200: _TAGGED[200]})
def patch_user(name: str, given: UserChange, hub: HubOf, who: Administrator, expected: Conditions) -> Any:
    """Give a user another role or password, or none; what is left out stays."""
    altered = Users(hub).alter(
        name,
        role=None if given.role is None else Role(given.role.upper()),
        password=given.password if "password" in given.model_fields_set else KEPT,
        by=who.name,
        check=lambda found: expected.check_tag(_tag(found), f"user {found.name}"),
    )
    return _told(altered)


def _told(row: UserRow) -> Response:
    return JSONResponse(_user(row).model_dump(mode="json"), headers=header_of(_tag(row)))


@router.delete("/{name}", status_code=204)
def remove_user(name: str, hub: HubOf, who: Administrator) -> None:
    """Remove a user with all tokens and sessions."""
    Users(hub).remove(name, by=who.name)


@router.get("/{name}/tokens")
def list_tokens(name: str, hub: HubOf, _: Administrator) -> list[TokenModel]:
    """The tokens of a user."""
    users = Users(hub)
    user = users.get(name)
    return [_token(row) for row in users.tokens() if row.user == user.name]


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
