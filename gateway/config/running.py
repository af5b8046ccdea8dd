"""What a hub holds, as a configuration document."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable
from typing import Any

import sqlalchemy as sa

from mgw.gateway.aq import Hub, QueueAdmin, QueueInfo, QueueTableInfo, QueueType, SubscriberInfo, is_of_job
from mgw.gateway.config.forms import hub_name, queue_table_of
from mgw.gateway.config.models import (
    AgentModel,
    Document,
    ForeignQueueModel,
    JobModel,
    LinkModel,
    QueueModel,
    QueueTableModel,
    SettingsModel,
    TransformationModel,
)
from mgw.gateway.config.object_types import read_types
from mgw.gateway.config.security import read_agents, read_grants
from mgw.gateway.definitions.objects import AgentDef, ForeignQueueDef, JobDef, LinkDef, TransformationDef, split_foreign
from mgw.gateway.services.admin import GatewayAdmin
from mgw.gateway.state import catalog
from mgw.gateway.state.secrets import Secrets
from mgw.transforms.errors import ConfigInvalid

__all__ = ["read_defined", "read_queue", "read_queue_table", "read_running", "read_section"]


def read_running(hub: Hub) -> Document:
    """Everything that is defined in the hub, without jobs that are marked for removal, and without those that schedules
    of DBMS_HQADM made, with their exception queues: they come and go with the schedules.

    Secrets are in clear text: the document is for comparing, not for showing.

    Raises:
        ConfigInvalid: a stored secret cannot be decrypted.
        HubError: the database refused.
    """
    admin = GatewayAdmin(hub)
    tables, queues = _queues(admin)
    sections: dict[str, Any] = {section: read(admin.aq) for section, read in _OF_HUB.items()}
    with hub.read() as conn:
        sections |= {section: read(conn, admin.secrets) for section, read in _OF_GATEWAY.items()}
    return Document(
        settings=SettingsModel(
            transform_modules=admin.aq.modules(),
            rule_functions={each.name: each.function for each in admin.aq.rule_functions()},
        ),
        queue_tables=tables,
        queues=queues,
        **sections,
    )


def read_section(hub: Hub, section: str) -> dict[str, Any]:
    """The objects of one section by name, as :func:`read_running` has them.

    Raises:
        ConfigInvalid: a stored secret cannot be decrypted.
        HubError: the database refused.
    """
    admin = GatewayAdmin(hub)
    if section in ("queue_tables", "queues"):
        tables, queues = _queues(admin)
        return dict[str, Any](tables if section == "queue_tables" else queues)
    if section in _OF_HUB:
        return _OF_HUB[section](admin.aq)
    with hub.read() as conn:
        return _OF_GATEWAY[section](conn, admin.secrets)


def read_defined(conn: sa.Connection, secrets: Secrets, section: str, name: str) -> Any:
    """One agent, link, foreign queue, transformation or job as :func:`read_running` has it; None: there is none.

    Raises:
        ConfigInvalid: a stored secret cannot be decrypted.
    """
    if section == "agents":
        agent = catalog.get_agent(conn, name)
        return None if agent is None else _agent(conn, secrets, agent)
    if section == "links":
        link = catalog.get_link(conn, name, secrets)
        return None if link is None else _link(link)
    if section == "foreign_queues":
        parts = split_foreign(name)
        queue = None if parts is None else catalog.get_foreign_queue(conn, *parts)
        return None if queue is None else _foreign_queue(queue)
    if section == "transformations":
        found = catalog.get_transformation(conn, name)
        return None if found is None else _transformation(found)
    job = catalog.get_job(conn, name)
    return _job(job) if job is not None and _is_defined(job) else None


def _agent(conn: sa.Connection, secrets: Secrets, agent: AgentDef) -> AgentModel:
    values: dict[str, Any] = {
        name: getattr(agent, name)
        for name in ("max_threads", "max_memory", "username", "database", "conntype", "service", "initfile")
    }
    options: dict[str, str | None] = {
        option.name: option.value
        for option in catalog.list_agent_options(conn, agent.name, None)
        if not option.encrypted
    }
    try:
        password = catalog.agent_password(conn, agent.name, secrets)
    except ConfigInvalid:  # the agent does not use it: no reason to refuse everything
        password = None
    return AgentModel(**values, password=password, comment=agent.comments, options=options)


def _link(link: LinkDef) -> LinkModel:
    return LinkModel(
        type=link.type,
        agent=link.agent,
        username=link.username,
        password=link.password,
        max_connections=link.max_connections,
        inbound_log_queue=link.inbound_log_queue,
        outbound_log_queue=link.outbound_log_queue,
        options=dict[str, str | None](link.options),
        comment=link.comments,
        attributes=dict(link.attributes),
    )


def _job(job: JobDef) -> JobModel:
    return JobModel.model_validate(
        {
            "type": job.propagation_type.value,
            "source": job.source,
            "destination": job.destination,
            "rule": job.rule,
            "transformation": job.transformation,
            "exception_queue": job.exception_queue,
            "poll_interval": job.poll_interval,
            "options": dict(job.options),
            "require_guarantee": job.require_guarantee.value if job.require_guarantee else None,
            "enabled": job.enabled,
            "comment": job.comments,
        }
    )


def _queues(gateway: GatewayAdmin) -> tuple[dict[str, QueueTableModel], dict[str, QueueModel]]:
    """Queue tables that several queues share, and queues; those the hub or a schedule made are left out."""
    admin, made = gateway.aq, {hub_name(name) for name in _made_by_schedules(gateway)}
    tables = {hub_name(table.full_name): table for table in admin.queue_tables()}
    subscribers = _subscribers(admin.queue_subscribers())
    queues = [queue for queue in admin.queues() if not queue.name.upper().startswith("AQ$_")]
    own_tables = {hub_name(queue.queue_table) for queue in queues if hub_name(queue.full_name) in made}
    queues = [queue for queue in queues if hub_name(queue.full_name) not in made]
    tables = {name: table for name, table in tables.items() if name not in own_tables}
    users = Counter(hub_name(queue.queue_table) for queue in queues)
    result: dict[str, QueueModel] = {}
    inline: set[str] = set()
    for queue in queues:
        table = hub_name(queue.queue_table)
        own = users[table] == 1 and _is_own(queue)
        if own:
            inline.add(table)
        result[queue.full_name] = _queue(queue, tables[table], subscribers.get(queue.full_name), own=own)
    shared = {table.full_name: _table(table) for name, table in tables.items() if name not in inline}
    return shared, result


def _made_by_schedules(admin: GatewayAdmin) -> list[str]:
    return [each.outbound.exception_queue for each in admin.list_outbound_schedules() if each.outbound is not None]


def read_queue(admin: QueueAdmin, name: str) -> QueueModel | None:
    """One queue as :func:`read_running` has it; None: there is none."""
    queue = admin.queue(name)
    table = None if queue is None else admin.queue_table(queue.queue_table)
    if queue is None or table is None:
        return None
    users = [each for each in admin.queues(queue.queue_table) if not each.name.upper().startswith("AQ$_")]
    subscribers = _subscribers(admin.queue_subscribers(name)).get(queue.full_name)
    return _queue(queue, table, subscribers, own=len(users) == 1 and _is_own(queue))


def read_queue_table(admin: QueueAdmin, name: str) -> QueueTableModel | None:
    """One queue table, also one that a queue has for itself; None: there is none."""
    table = admin.queue_table(name)
    return None if table is None else _table(table)


def _subscribers(found: Iterable[SubscriberInfo]) -> dict[str, dict[str, Any]]:
    """Settings of subscribers by queue and name; those of jobs come with the jobs."""
    subscribers: dict[str, dict[str, Any]] = {}
    for each in found:
        if each.name and not is_of_job(each.name):
            values = {
                "rule": each.rule,
                "transformation": each.transformation,
                "delivery_mode": each.delivery_mode.value,
                "options": dict(each.options),
            }
            subscribers.setdefault(each.queue, {})[each.name] = values
    return subscribers


def _is_own(queue: QueueInfo) -> bool:
    """Whether the queue table has the name of one that is made for the queue."""
    return hub_name(queue.queue_table) == hub_name(queue_table_of(queue.full_name, QueueModel()))


def _table(table: QueueTableInfo) -> QueueTableModel:
    return QueueTableModel.model_validate(_shape(table) | {"comment": table.comment})


def _queue(queue: QueueInfo, table: QueueTableInfo, subscribers: dict[str, Any] | None, *, own: bool) -> QueueModel:
    values: dict[str, Any] = {
        "subscribers": subscribers,
        "type": "NORMAL" if queue.queue_type is QueueType.NORMAL else "EXCEPTION",
        "enqueue": queue.enqueue_enabled or queue.queue_type is not QueueType.NORMAL,
        "dequeue": queue.dequeue_enabled,
        "comment": queue.comment,
    }
    if queue.queue_type is QueueType.NORMAL:
        retention: Any = "INFINITE" if queue.retention_time < 0 else queue.retention_time
        values |= {"max_retries": queue.max_retries, "retry_delay": queue.retry_delay, "retention_time": retention}
    values |= _shape(table) if own else {"queue_table": queue.queue_table}
    return QueueModel.model_validate(values)


def _shape(table: QueueTableInfo) -> dict[str, Any]:
    same = QueueTableModel.model_fields.keys() - {"payload_type", "comment"}
    return {name: getattr(table, name) for name in same} | {
        "payload_type": table.object_type or table.payload_type.value,
        "jms_types": (table.jms_types and table.object_type is None) or None,
        "options": dict(table.options),
    }


def _foreign_queue(queue: ForeignQueueDef) -> ForeignQueueModel:
    return ForeignQueueModel(
        provider_queue=queue.provider_queue,
        domain=queue.domain.value if queue.domain else None,
        options=dict[str, str | None](queue.options),
        comment=queue.comments,
    )


def _transformation(each: TransformationDef) -> TransformationModel:
    values = {"from_type": each.from_type, "to_type": each.to_type, "comment": each.comments}
    return TransformationModel.model_validate(values | {"definition": dict(each.definition)})


def _is_defined(job: JobDef) -> bool:
    return not job.status.leaving and job.outbound is None


def _agents(conn: sa.Connection, secrets: Secrets) -> dict[str, Any]:
    return {agent.name: _agent(conn, secrets, agent) for agent in catalog.list_agents(conn)}


#: How each section is read; queue tables and queues are read together.
_OF_GATEWAY: dict[str, Callable[[sa.Connection, Secrets], dict[str, Any]]] = {
    "agents": _agents,
    "links": lambda conn, secrets: {link.name: _link(link) for link in catalog.list_links(conn, secrets)},
    "foreign_queues": lambda conn, _: {
        f"{queue.name}@{queue.link}": _foreign_queue(queue) for queue in catalog.list_foreign_queues(conn)
    },
    "transformations": lambda conn, _: {
        each.name: _transformation(each) for each in catalog.list_transformations(conn)
    },
    "jobs": lambda conn, _: {job.name: _job(job) for job in catalog.list_jobs(conn) if _is_defined(job)},
}
_OF_HUB: dict[str, Callable[[QueueAdmin], dict[str, Any]]] = {
    "object_types": lambda admin: dict(read_types(admin)),
    "aq_agents": lambda admin: dict(read_agents(admin)),
    "grants": lambda admin: dict(read_grants(admin)),
}
