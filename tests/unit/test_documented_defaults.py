"""Every option and parameter of the hub has the documented default (AQ guide 12.2 §8, §10)."""

from __future__ import annotations

import inspect
from dataclasses import MISSING, fields
from typing import Any

import pytest

from mgw.gateway.aq.admin import QueueAdmin
from mgw.gateway.aq.model import FOREVER, INFINITE, NO_WAIT, Agent, DequeueOptions, EnqueueOptions
from mgw.gateway.aq.sessions.session import Session
from mgw.transforms.message import Message

REQUIRED = inspect.Parameter.empty

OPTIONS: dict[type, dict[str, Any]] = {
    EnqueueOptions: {
        "visibility": "ON_COMMIT",
        "relative_msgid": None,
        "sequence_deviation": None,
        "transformation": None,
        "delivery_mode": "PERSISTENT",
    },
    DequeueOptions: {
        "consumer_name": None,
        "dequeue_mode": "REMOVE",
        "navigation": "NEXT_MESSAGE",
        "visibility": "ON_COMMIT",
        "wait": FOREVER,
        "msgid": None,
        "correlation": None,
        "deq_condition": None,
        "transformation": None,
        "delivery_mode": "PERSISTENT",
    },
}

#: What a message is sent with when nothing is said; the rest of its fields is set by the hub.
PROPERTIES: dict[str, Any] = {
    "priority": 1,
    "delay": 0,
    "expiration": None,
    "correlation": None,
    "attempts": 0,
    "exception_queue": None,
    "sender_name": None,
    "sender_address": None,
    "sender_protocol": 0,
    "original_msgid": None,
    "user_property": None,
    "msgid": None,
    "enqueue_time": None,
    "expires_at": None,
}

# auto_commit is none of TRUE and FALSE: a call is part of the caller's transaction where it is given one, and commits
# by itself where it is not (docs/decisions/0011).
PROCEDURES: dict[str, dict[str, Any]] = {
    "create_queue_table": {
        "queue_table": REQUIRED,
        "queue_payload_type": "BASIC",
        "storage_clause": None,
        "sort_list": None,
        "multiple_consumers": False,
        "message_grouping": "NONE",
        "comment": None,
        "auto_commit": None,
        "primary_instance": 0,
        "secondary_instance": 0,
        "compatible": None,
        "secure": False,
        "replication_mode": None,
        "max_payload": None,
        "options": None,
    },
    "alter_queue_table": {
        "queue_table": REQUIRED,
        "comment": None,
        "primary_instance": None,
        "secondary_instance": None,
        "replication_mode": None,
        "options": None,
    },
    "drop_queue_table": {"queue_table": REQUIRED, "force": False, "auto_commit": None, "move_to": None},
    "purge_queue_table": {
        "queue_table": REQUIRED,
        "purge_condition": None,
        "block": False,
        "delivery_mode": "PERSISTENT",
    },
    "migrate_queue_table": {"queue_table": REQUIRED, "compatible": REQUIRED},
    "create_queue": {
        "queue_name": REQUIRED,
        "queue_table": REQUIRED,
        "queue_type": "NORMAL_QUEUE",
        "max_retries": None,
        "retry_delay": 0,
        "retention_time": 0,
        "dependency_tracking": False,
        "comment": None,
        "auto_commit": None,
    },
    "alter_queue": {
        "queue_name": REQUIRED,
        "max_retries": None,
        "retry_delay": None,
        "retention_time": None,
        "comment": None,
        "auto_commit": None,
    },
    "start_queue": {"queue_name": REQUIRED, "enqueue": True, "dequeue": True},
    "stop_queue": {"queue_name": REQUIRED, "enqueue": True, "dequeue": True, "wait": True},
    "drop_queue": {"queue_name": REQUIRED, "auto_commit": None, "force": True, "move_to": None},
    "queue_subscribers": {"queue_name": None},
    "enable_jms_types": {"queue_table": REQUIRED},
    "grant_type_privilege": {"type_name": REQUIRED, "grantee": REQUIRED},
    "revoke_type_privilege": {"type_name": REQUIRED, "grantee": REQUIRED},
    "set_up_queue": {"queue_table": REQUIRED, "queue_name": REQUIRED, "queue_user": None},
    "create_transformation": {
        "name": REQUIRED,
        "from_type": REQUIRED,
        "to_type": REQUIRED,
        "transformation": REQUIRED,
        "comment": None,
    },
    "modify_transformation": {"name": REQUIRED, "attribute_number": REQUIRED, "transformation": REQUIRED},
    "drop_transformation": {"name": REQUIRED},
    "grant_system_privilege": {"privilege": REQUIRED, "grantee": REQUIRED, "admin_option": False},
    "revoke_system_privilege": {"privilege": REQUIRED, "grantee": REQUIRED},
    "grant_queue_privilege": {
        "privilege": REQUIRED,
        "queue_name": REQUIRED,
        "grantee": REQUIRED,
        "grant_option": False,
    },
    "revoke_queue_privilege": {"privilege": REQUIRED, "queue_name": REQUIRED, "grantee": REQUIRED},
    "add_subscriber": {
        "queue_name": REQUIRED,
        "subscriber": REQUIRED,
        "rule": None,
        "transformation": None,
        "queue_to_queue": False,
        "delivery_mode": "PERSISTENT",
        "options": None,
    },
    "alter_subscriber": {
        "queue_name": REQUIRED,
        "subscriber": REQUIRED,
        "rule": REQUIRED,
        "transformation": None,
        "options": None,
    },
    "remove_subscriber": {"queue_name": REQUIRED, "subscriber": REQUIRED, "force": True, "move_to": None},
    "create_aq_agent": {
        "agent_name": REQUIRED,
        "certificate_location": None,
        "enable_http": False,
        "enable_anyp": False,
    },
    "alter_aq_agent": {
        "agent_name": REQUIRED,
        "certificate_location": None,
        "enable_http": False,
        "enable_anyp": False,
    },
    "drop_aq_agent": {"agent_name": REQUIRED},
    "enable_db_access": {"agent_name": REQUIRED, "db_username": REQUIRED},
    "disable_db_access": {"agent_name": REQUIRED, "db_username": REQUIRED},
    "enable_aq_agent": {"agent_name": REQUIRED, "db_username": REQUIRED},
    "disable_aq_agent": {"agent_name": REQUIRED, "db_username": REQUIRED},
}

CALLS: dict[str, dict[str, Any]] = {
    "enqueue": {"queue_name": REQUIRED, "message": REQUIRED, "options": EnqueueOptions(), "recipients": ()},
    "enqueue_array": {
        "queue_name": REQUIRED,
        "messages": REQUIRED,
        "options": EnqueueOptions(),
        "recipients": (),
        "recipient_lists": None,
        "array_size": None,
    },
    "dequeue": {"queue_name": REQUIRED, "options": DequeueOptions()},
    "dequeue_array": {"queue_name": REQUIRED, "options": DequeueOptions(), "array_size": 100},
    "listen": {"agents": REQUIRED, "wait": FOREVER, "listen_delivery_mode": "PERSISTENT"},
}


@pytest.mark.parametrize("kind", OPTIONS, ids=lambda kind: kind.__name__)
def test_options_have_the_documented_defaults(kind: type) -> None:
    assert {each.name: each.default for each in fields(kind)} == OPTIONS[kind]


def test_properties_have_the_documented_defaults() -> None:
    assert {name: getattr(Message(), name) for name in PROPERTIES} == PROPERTIES
    assert all(each.default is not MISSING for each in fields(Message))


def test_an_agent_is_local_unless_it_says_otherwise() -> None:
    assert Agent("RED") == ("RED", None, 0)


def test_constants_have_the_documented_meaning() -> None:
    assert (NO_WAIT, INFINITE) == (0, -1)
    assert max(10**18, FOREVER) == FOREVER


@pytest.mark.parametrize(
    ("owner", "name", "defaults"),
    [(QueueAdmin, *item) for item in PROCEDURES.items()] + [(Session, *item) for item in CALLS.items()],
    ids=[*PROCEDURES, *CALLS],
)
def test_procedures_have_the_documented_parameters(owner: type, name: str, defaults: dict[str, Any]) -> None:
    found = inspect.signature(getattr(owner, name)).parameters
    assert {each: found[each].default for each in found if each != "self"} == defaults
