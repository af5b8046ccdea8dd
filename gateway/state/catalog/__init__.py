"""Statements on the gateway's definitions: agents, links, foreign queues, transformations, jobs and the change counter.

Every function runs in the caller's transaction. What a link keeps secret (its password, and attributes and options
that its type calls secret) is one encrypted JSON text in the column ``password``; the plain columns show
``<<ENCRYPTED>>`` in its place. Run state is in :mod:`state.run_state`, the rules are in :mod:`services.admin`.
"""

from __future__ import annotations

from mgw.gateway.state.catalog.agents import (
    AgentOption,
    AgentState,
    agent_exists,
    agent_password,
    agent_state,
    clear_agent_run,
    delete_agent,
    delete_agent_option,
    get_agent,
    insert_agent,
    list_agent_options,
    list_agents,
    set_agent_option,
    set_agent_state,
    update_agent,
)
from mgw.gateway.state.catalog.changes import (
    CHANGE_CHANNEL,
    bump_change,
    change_version,
    insert_defaults,
    load_snapshot,
    lock_administration,
)
from mgw.gateway.state.catalog.jobs import (
    delete_job,
    get_job,
    insert_job,
    jobs_of_source,
    jobs_with_transformations,
    list_jobs,
    reset_job,
    set_job_status,
    take_plans,
    update_job,
)
from mgw.gateway.state.catalog.links import (
    delete_foreign_queue,
    delete_link,
    get_foreign_queue,
    get_link,
    insert_foreign_queue,
    insert_link,
    list_foreign_queues,
    list_links,
    update_link,
)
from mgw.gateway.state.catalog.text import ENCRYPTED
from mgw.gateway.state.catalog.transformations import (
    altered_transformation,
    get_transformation,
    insert_transformation,
    list_transformations,
    update_transformation,
)

__all__ = [
    "CHANGE_CHANNEL",
    "ENCRYPTED",
    "AgentOption",
    "AgentState",
    "agent_exists",
    "agent_password",
    "agent_state",
    "altered_transformation",
    "bump_change",
    "change_version",
    "clear_agent_run",
    "delete_agent",
    "delete_agent_option",
    "delete_foreign_queue",
    "delete_job",
    "delete_link",
    "get_agent",
    "get_foreign_queue",
    "get_job",
    "get_link",
    "get_transformation",
    "insert_agent",
    "insert_defaults",
    "insert_foreign_queue",
    "insert_job",
    "insert_link",
    "insert_transformation",
    "jobs_of_source",
    "jobs_with_transformations",
    "list_agent_options",
    "list_agents",
    "list_foreign_queues",
    "list_jobs",
    "list_links",
    "list_transformations",
    "load_snapshot",
    "lock_administration",
    "reset_job",
    "set_agent_option",
    "set_agent_state",
    "set_job_status",
    "take_plans",
    "update_agent",
    "update_job",
    "update_link",
    "update_transformation",
]
