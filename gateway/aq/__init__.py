"""The hub: durable, transactional queues in a SQL database (AQ guide 12.2).

This is the public interface: code outside the hub imports from here, and only from here. Each name is imported when it
is first used: a command that asks for one of them does not load the others.

* :class:`Hub`, :class:`Session`, :class:`QueueAdmin`: what applications work with;
* :mod:`transfer <mgw.gateway.aq.queues.transfer>`: what a route needs, in a transaction of its caller;
* :class:`Db` and the catalogues: what modules with tables of their own in the hub (:class:`SchemaPart`) need.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from mgw.gateway.aq.admin import COMPATIBLE, MAX_PAYLOAD, QueueAdmin
    from mgw.gateway.aq.admin.audit import (
        Author,
        Changed,
        Undertaking,
        act_for,
        acting,
        extend_change,
        keep_change,
        part_of,
        prune_audit,
    )
    from mgw.gateway.aq.admin.removal import Held, Removal, moved, record
    from mgw.gateway.aq.admin.roles_sql import role_statements
    from mgw.gateway.aq.admin.transformations import transformation_users
    from mgw.gateway.aq.attributes import QUEUE_ATTRIBUTES, QUEUE_TABLE_ATTRIBUTES, SUBSCRIBER_ATTRIBUTES, by_name
    from mgw.gateway.aq.conditions.purge_conditions import PURGES
    from mgw.gateway.aq.conditions.routing_sql import schema_of_tables
    from mgw.gateway.aq.conditions.rules import Rule, compile_rule, register_function, unregister_function
    from mgw.gateway.aq.errors import (
        HoldsMessages,
        MessageRefused,
        NoMessage,
        NoRecipients,
        NotEnabledForDequeue,
        NotEnabledForEnqueue,
        QueueInUse,
    )
    from mgw.gateway.aq.functions.functions_sql import schema_name as functions_schema
    from mgw.gateway.aq.grants import AqAgent
    from mgw.gateway.aq.hub import Hub
    from mgw.gateway.aq.model import (
        FOREVER,
        INFINITE,
        NO_WAIT,
        Agent,
        Claimed,
        Counts,
        Dequeued,
        DequeueMode,
        DequeueOptions,
        Durability,
        EnqueueOptions,
        Navigation,
        PayloadType,
        PutResult,
        QueueInfo,
        QueueRef,
        QueueTableInfo,
        QueueType,
        RuleFunction,
        SequenceDeviation,
        State,
        SubscriberInfo,
        TransformationInfo,
        TypeInfo,
        Visibility,
    )
    from mgw.gateway.aq.names import (
        DEFAULT_SCHEMA,
        JOB_SUBSCRIBER,
        QualifiedName,
        agent_name,
        is_of_job,
        qualified,
        shown_key,
        user_name,
    )
    from mgw.gateway.aq.options import QUEUE_TABLE_OPTIONS, SUBSCRIBER_OPTIONS, number_of
    from mgw.gateway.aq.payloads import forms as payload_forms
    from mgw.gateway.aq.payloads import transformations_sql as transformation_catalog
    from mgw.gateway.aq.payloads import types_sql as type_catalog
    from mgw.gateway.aq.payloads.anydata import SCALARS, canonical_type, type_name, unwrap, wrap
    from mgw.gateway.aq.payloads.chains import chains_with, check_steps
    from mgw.gateway.aq.payloads.forms import OTHER_NAMES, own_kind, payload_of
    from mgw.gateway.aq.payloads.transformations import as_definition, payload_name
    from mgw.gateway.aq.payloads.transformations import check as check_transformation
    from mgw.gateway.aq.python_code.functions_sql import list_functions, list_modules
    from mgw.gateway.aq.python_code.stored_functions import Bindings
    from mgw.gateway.aq.python_code.stored_functions import bound as bound_functions
    from mgw.gateway.aq.python_code.stored_functions import stored as stored_functions
    from mgw.gateway.aq.queues import catalog_sql as queue_catalog
    from mgw.gateway.aq.queues import consumers_sql as queue_consumers
    from mgw.gateway.aq.queues import looking, transfer
    from mgw.gateway.aq.queues.catalog_sql import queue_settings
    from mgw.gateway.aq.queues.codec import decode as decode_messages
    from mgw.gateway.aq.queues.codec import message_number
    from mgw.gateway.aq.queues.condition_search import pushed as pushed_down
    from mgw.gateway.aq.queues.messages_sql import BY_PLAN as HELD_BY_PLAN
    from mgw.gateway.aq.queues.transfer import backlog as queue_backlog
    from mgw.gateway.aq.queues.transfer import resolve as resolve_queue
    from mgw.gateway.aq.schema import postgresql as postgresql_upgrade
    from mgw.gateway.aq.schema import sqlite as sqlite_upgrade
    from mgw.gateway.aq.schema.backup import Copied, copy_hub
    from mgw.gateway.aq.schema.drop import Dropped
    from mgw.gateway.aq.schema.drop import drop as drop_hub
    from mgw.gateway.aq.security.privileges import Rights, rights_of
    from mgw.gateway.aq.sessions.session import Session
    from mgw.gateway.aq.store.checks import FLAG as FLAG_CHECK
    from mgw.gateway.aq.store.checks import add_checks
    from mgw.gateway.aq.store.checks import one_of as one_of_check
    from mgw.gateway.aq.store.columns import NEW_TYPED_MESSAGE, STORED
    from mgw.gateway.aq.store.connection_state import hub_clock
    from mgw.gateway.aq.store.database import libpq_uri, parse_url, watchfulness
    from mgw.gateway.aq.store.function_home_sql import SETTINGS as FUNCTION_SETTINGS
    from mgw.gateway.aq.store.function_home_sql import Home as FunctionHome
    from mgw.gateway.aq.store.migrations.changes import Changes
    from mgw.gateway.aq.store.migrations.plan import PartPlan
    from mgw.gateway.aq.store.namespace_sql import channel_sql
    from mgw.gateway.aq.store.namespace_sql import quoted as quoted_name
    from mgw.gateway.aq.store.processes import lives as process_lives
    from mgw.gateway.aq.store.processes import start_of as process_start
    from mgw.gateway.aq.store.schema_part import SchemaPart, Step, plans_view
    from mgw.gateway.aq.store.statements import Db, Row
    from mgw.gateway.aq.store.tables import WAYS, BodyType
    from mgw.gateway.aq.upkeep import time_manager
    from mgw.gateway.aq.upkeep.time_manager import TimeManagerReport
    from mgw.gateway.aq.views import COLUMNS as HUB_VIEW_COLUMNS

__all__ = [
    "COMPATIBLE",
    "DEFAULT_SCHEMA",
    "FLAG_CHECK",
    "FOREVER",
    "FUNCTION_SETTINGS",
    "HELD_BY_PLAN",
    "HUB_VIEW_COLUMNS",
    "INFINITE",
    "JOB_SUBSCRIBER",
    "MAX_PAYLOAD",
    "NEW_TYPED_MESSAGE",
    "NO_WAIT",
    "OTHER_NAMES",
    "PURGES",
    "QUEUE_ATTRIBUTES",
    "QUEUE_TABLE_ATTRIBUTES",
    "QUEUE_TABLE_OPTIONS",
    "SCALARS",
    "STORED",
    "SUBSCRIBER_ATTRIBUTES",
    "SUBSCRIBER_OPTIONS",
    "WAYS",
    "Agent",
    "AqAgent",
    "Author",
    "Bindings",
    "BodyType",
    "Changed",
    "Changes",
    "Claimed",
    "Copied",
    "Counts",
    "Db",
    "DequeueMode",
    "DequeueOptions",
    "Dequeued",
    "Dropped",
    "Durability",
    "EnqueueOptions",
    "FunctionHome",
    "Held",
    "HoldsMessages",
    "Hub",
    "MessageRefused",
    "Navigation",
    "NoMessage",
    "NoRecipients",
    "NotEnabledForDequeue",
    "NotEnabledForEnqueue",
    "PartPlan",
    "PayloadType",
    "PutResult",
    "QualifiedName",
    "QueueAdmin",
    "QueueInUse",
    "QueueInfo",
    "QueueRef",
    "QueueTableInfo",
    "QueueType",
    "Removal",
    "Rights",
    "Row",
    "Rule",
    "RuleFunction",
    "SchemaPart",
    "SequenceDeviation",
    "Session",
    "State",
    "Step",
    "SubscriberInfo",
    "TimeManagerReport",
    "TransformationInfo",
    "TypeInfo",
    "Undertaking",
    "Visibility",
    "act_for",
    "acting",
    "add_checks",
    "agent_name",
    "as_definition",
    "bound_functions",
    "by_name",
    "canonical_type",
    "chains_with",
    "channel_sql",
    "check_steps",
    "check_transformation",
    "compile_rule",
    "copy_hub",
    "decode_messages",
    "drop_hub",
    "extend_change",
    "functions_schema",
    "hub_clock",
    "is_of_job",
    "keep_change",
    "libpq_uri",
    "list_functions",
    "list_modules",
    "looking",
    "message_number",
    "moved",
    "number_of",
    "one_of_check",
    "own_kind",
    "parse_url",
    "part_of",
    "payload_forms",
    "payload_name",
    "payload_of",
    "plans_view",
    "postgresql_upgrade",
    "process_lives",
    "process_start",
    "prune_audit",
    "pushed_down",
    "qualified",
    "queue_backlog",
    "queue_catalog",
    "queue_consumers",
    "queue_settings",
    "quoted_name",
    "record",
    "register_function",
    "resolve_queue",
    "rights_of",
    "role_statements",
    "schema_of_tables",
    "shown_key",
    "sqlite_upgrade",
    "stored_functions",
    "time_manager",
    "transfer",
    "transformation_catalog",
    "transformation_users",
    "type_catalog",
    "type_name",
    "unregister_function",
    "unwrap",
    "user_name",
    "watchfulness",
    "wrap",
]

#: Module -> its names here; where a name has another one in its module, that stands behind it.
_HOMES = {
    "attributes": (
        "QUEUE_ATTRIBUTES",
        "QUEUE_TABLE_ATTRIBUTES",
        "SUBSCRIBER_ATTRIBUTES",
        "by_name",
    ),
    "admin": (
        "COMPATIBLE",
        "MAX_PAYLOAD",
        "QueueAdmin",
    ),
    "admin.audit": (
        "Author",
        "Changed",
        "Undertaking",
        "act_for",
        "acting",
        "extend_change",
        "keep_change",
        "part_of",
        "prune_audit",
    ),
    "admin.roles_sql": ("role_statements",),
    "admin.removal": ("Held", "Removal", "moved", "record"),
    "admin.transformations": ("transformation_users",),
    "conditions.purge_conditions": ("PURGES",),
    "conditions.rules": (
        "Rule",
        "compile_rule",
        "register_function",
        "unregister_function",
    ),
    "conditions.routing_sql": ("schema_of_tables",),
    "errors": (
        "HoldsMessages",
        "MessageRefused",
        "NoMessage",
        "NoRecipients",
        "NotEnabledForDequeue",
        "NotEnabledForEnqueue",
        "QueueInUse",
    ),
    "functions.functions_sql": ("functions_schema=schema_name",),
    "grants": ("AqAgent",),
    "hub": ("Hub",),
    "model": (
        "Agent",
        "Claimed",
        "Counts",
        "DequeueMode",
        "DequeueOptions",
        "Dequeued",
        "Durability",
        "EnqueueOptions",
        "FOREVER",
        "INFINITE",
        "NO_WAIT",
        "Navigation",
        "PayloadType",
        "PutResult",
        "QueueInfo",
        "QueueRef",
        "QueueTableInfo",
        "QueueType",
        "RuleFunction",
        "SequenceDeviation",
        "State",
        "SubscriberInfo",
        "TransformationInfo",
        "TypeInfo",
        "Visibility",
    ),
    "names": (
        "DEFAULT_SCHEMA",
        "JOB_SUBSCRIBER",
        "QualifiedName",
        "agent_name",
        "is_of_job",
        "qualified",
        "shown_key",
        "user_name",
    ),
    "options": (
        "QUEUE_TABLE_OPTIONS",
        "SUBSCRIBER_OPTIONS",
        "number_of",
    ),
    "payloads.anydata": (
        "SCALARS",
        "canonical_type",
        "type_name",
        "unwrap",
        "wrap",
    ),
    "payloads.chains": (
        "chains_with",
        "check_steps",
    ),
    "payloads.forms": (
        "OTHER_NAMES",
        "own_kind",
        "payload_of",
    ),
    "payloads.transformations": (
        "as_definition",
        "check_transformation=check",
        "payload_name",
    ),
    "python_code.functions_sql": (
        "list_functions",
        "list_modules",
    ),
    "python_code.stored_functions": (
        "Bindings",
        "bound_functions=bound",
        "stored_functions=stored",
    ),
    "queues.catalog_sql": ("queue_settings",),
    "queues.codec": (
        "decode_messages=decode",
        "message_number",
    ),
    "queues.condition_search": ("pushed_down=pushed",),
    "queues.messages_sql": ("HELD_BY_PLAN=BY_PLAN",),
    "queues.transfer": (
        "queue_backlog=backlog",
        "resolve_queue=resolve",
    ),
    "schema.backup": (
        "Copied",
        "copy_hub",
    ),
    "schema.drop": (
        "Dropped",
        "drop_hub=drop",
    ),
    "security.privileges": (
        "Rights",
        "rights_of",
    ),
    "sessions.session": ("Session",),
    "store.checks": (
        "FLAG_CHECK=FLAG",
        "add_checks",
        "one_of_check=one_of",
    ),
    "store.columns": (
        "NEW_TYPED_MESSAGE",
        "STORED",
    ),
    "store.connection_state": ("hub_clock",),
    "store.database": (
        "libpq_uri",
        "parse_url",
        "watchfulness",
    ),
    "store.function_home_sql": (
        "FUNCTION_SETTINGS=SETTINGS",
        "FunctionHome=Home",
    ),
    "store.migrations.changes": ("Changes",),
    "store.migrations.plan": ("PartPlan",),
    "store.namespace_sql": (
        "channel_sql",
        "quoted_name=quoted",
    ),
    "store.processes": (
        "process_lives=lives",
        "process_start=start_of",
    ),
    "store.schema_part": (
        "SchemaPart",
        "Step",
        "plans_view",
    ),
    "store.statements": (
        "Db",
        "Row",
    ),
    "store.tables": ("WAYS", "BodyType"),
    "upkeep.time_manager": ("TimeManagerReport",),
    "views": ("HUB_VIEW_COLUMNS=COLUMNS",),
}
#: Modules that are handed out whole.
_MODULES = {
    "looking": "queues.looking",
    "payload_forms": "payloads.forms",
    "postgresql_upgrade": "schema.postgresql",
    "queue_catalog": "queues.catalog_sql",
    "queue_consumers": "queues.consumers_sql",
    "sqlite_upgrade": "schema.sqlite",
    "time_manager": "upkeep.time_manager",
    "transfer": "queues.transfer",
    "transformation_catalog": "payloads.transformations_sql",
    "type_catalog": "payloads.types_sql",
}
_HOME = {
    public: (module, inner or public)
    for module, names in _HOMES.items()
    for public, _, inner in (name.partition("=") for name in names)
}


def __getattr__(name: str) -> Any:
    if name in _MODULES:
        found: Any = import_module(f"{__name__}.{_MODULES[name]}")
    elif name in _HOME:
        module, inner = _HOME[name]
        found = getattr(import_module(f"{__name__}.{module}"), inner)
    else:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    globals()[name] = found
    return found


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
