"""Privileges, roles and AQ agents, as the hub's calls take and give them (AQ guide 12.2 §4.2, §8.5, §8.8)."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum
from typing import NamedTuple

__all__ = [
    "ADMINISTRATOR",
    "OWNERS",
    "PUBLIC",
    "AqAgent",
    "Grant",
    "QueuePrivilege",
    "QueueRight",
    "RoleMember",
    "SystemPrivilege",
    "SystemRight",
    "TypePrivilege",
    "unfounded",
]

ADMINISTRATOR = "AQ_ADMINISTRATOR_ROLE"  # AQ guide 12.2 §4.2.1
PUBLIC = "PUBLIC"  # everybody is its member
OWNERS = frozenset(("SYS", "SYSTEM"))  # names of the hub's owner (AQ guide 12.2 §8.5.1)


class QueueRight(StrEnum):
    """Privileges on one queue; ALL stands for both (AQ guide 12.2 §8.5.3)."""

    ENQUEUE = "ENQUEUE"
    DEQUEUE = "DEQUEUE"


class SystemRight(StrEnum):
    """Privileges on every queue (AQ guide 12.2 §8.5.1)."""

    ENQUEUE_ANY = "ENQUEUE_ANY"
    DEQUEUE_ANY = "DEQUEUE_ANY"
    MANAGE_ANY = "MANAGE_ANY"


class Grant(NamedTuple):
    """One grant of one privilege on one queue: who gave it to whom, and whether it may be passed on."""

    id: int
    grantor_key: str
    grantee_key: str
    grantable: bool


@dataclass(frozen=True, slots=True)
class QueuePrivilege:
    """One row of QUEUE_PRIVILEGES: 0 no, 1 yes, 2 with grant option (AQ guide 12.2 §9.9)."""

    queue: str
    owner: str
    grantee: str
    grantor: str
    enqueue: int
    dequeue: int


@dataclass(frozen=True, slots=True)
class SystemPrivilege:
    """A system privilege that a user or role holds."""

    privilege: str
    grantee: str
    grantor: str
    admin_option: bool


@dataclass(frozen=True, slots=True)
class TypePrivilege:
    """EXECUTE on an object type: the grantee may make queue tables, types and transformations of it."""

    type: str
    grantee: str
    grantor: str


@dataclass(frozen=True, slots=True)
class RoleMember:
    """A role that a user, or another role, holds."""

    role: str
    grantee: str
    grantor: str


@dataclass(frozen=True, slots=True)
class AqAgent:
    """An AQ agent with the database users whose privileges it has (AQ guide 12.2 §8.8, §9.24).

    Attributes:
        automatic: made by ``add_subscriber``, and not altered since.
    """

    name: str
    certificate_location: str | None
    enable_http: bool
    enable_anyp: bool
    automatic: bool
    users: tuple[str, ...]


def unfounded(owner_key: str, grants: Iterable[Grant]) -> list[int]:
    """Ids of the grants that no longer go back to the owner of the queue through grant options.

    Grants may form circles; what only a circle holds up falls.
    """
    left = list(grants)
    entitled = {owner_key}
    while True:
        founded = [grant for grant in left if grant.grantor_key in entitled]
        if not founded:
            return [grant.id for grant in left]
        entitled.update(grant.grantee_key for grant in founded if grant.grantable)
        left = [grant for grant in left if grant not in founded]
