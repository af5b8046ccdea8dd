"""Refusals around payload types, transformations, privileges and agents (AQ guide 12.2 §8.4, §8.5, §8.8)."""

from __future__ import annotations

from mgw.transforms.errors import AqError

__all__ = [
    "AgentExists",
    "AgentMissing",
    "AgentNameReserved",
    "AgentNotMapped",
    "AgentWithoutProtocol",
    "NotTheOwner",
    "PayloadTypeForbidden",
    "PayloadTypeUnknown",
    "PrivilegeInvalid",
    "PrivilegeMissing",
    "TransformationInvalid",
    "TransformationMissing",
    "TypeExists",
    "TypeInUse",
    "TypeInvalid",
    "TypeMissing",
]


class PayloadTypeUnknown(AqError):
    """The payload type of a queue table does not exist (AQ guide 12.2 §4.6.6, §8.1.1).

    Action: Name a payload type, or create the object type first.
    """

    ora = 24015


class PayloadTypeForbidden(AqError):
    """The payload type cannot be used by this user, or not for this (AQ guide 12.2 §8.1.1, §8.4).

    Action: Have the owner of the type grant EXECUTE on it.
    """

    ora = 24016


class PrivilegeInvalid(AqError):
    """The privilege does not exist, or was not granted by this user (AQ guide 12.2 §8.5).

    Action: Name ENQUEUE, DEQUEUE or ALL; ENQUEUE_ANY, DEQUEUE_ANY or MANAGE_ANY.
    """

    ora = 24066


class NotTheOwner(AqError):
    """Only the owner of a queue table may do that (AQ guide 12.2 §8.1.5).

    Action: Connect as the owner.
    """

    ora = 24072


class AgentNameReserved(AqError):
    """Names of agents that begin with AQ$_ belong to the hub (AQ guide 12.2 §1.8, §2.3).

    Action: Choose another name.
    """

    ora = 24049


class AgentMissing(AqError):
    """The AQ agent does not exist (AQ guide 12.2 §8.8).

    Action: Create it, or correct its name.
    """

    ora = 24088


class AgentExists(AqError):
    """An AQ agent of that name exists (AQ guide 12.2 §8.8).

    Action: Alter it, or choose another name.
    """

    ora = 24089


class AgentWithoutProtocol(AqError):
    """The AQ agent may use no protocol (AQ guide 12.2 §8.8).

    Action: Enable one.
    """

    ora = 24090


class AgentNotMapped(AqError):
    """The AQ agent does not have the privileges of that user (AQ guide 12.2 §8.8, §10.1).

    Action: Map it: enable_db_access.
    """

    ora = 24093


class TransformationMissing(AqError):
    """The transformation does not exist, already exists, or its types do not match (AQ guide 12.2 §8.4, §1.9).

    Action: Correct its name; its result must be of the type that is asked for.
    """

    ora = 24094


class TransformationInvalid(AqError):
    """The transformation cannot be used: its definition is wrong (AQ guide 12.2 §8.4).

    Action: Correct the expression or the function.
    """

    ora = 24095


class TypeExists(AqError):
    """An object type of that name exists (AQ guide 12.2 §2.2).

    Action: Choose another name, or drop the type first.
    """

    ora = 955


class TypeInvalid(AqError):
    """An object type cannot be created: its name, an attribute or their number is invalid (AQ guide 12.2 §2.2, §4.6.4).

    Action: Correct the declaration; nested tables and references cannot be part of a payload.
    """

    ora = 902


class TypeMissing(AqError):
    """The object type does not exist (AQ guide 12.2 §2.2).

    Action: Create it, or correct its name.
    """

    ora = 4043


class TypeInUse(AqError):
    """An object type cannot be dropped or changed while queue tables hold it (AQ guide 12.2 §2.2).

    Action: Drop those queue tables first.
    """

    ora = 2303


class PrivilegeMissing(AqError):
    """The user lacks the privilege for the operation (AQ guide 12.2 §4.2, §8.5).

    Action: Have the owner grant it.
    """

    ora = 1031
