"""Checks of agents: their options, and what of them has no effect."""

from __future__ import annotations

from mgw.gateway.config.checks.context import Context
from mgw.gateway.config.findings import Path
from mgw.gateway.config.models import AgentModel
from mgw.gateway.definitions.agent_options import AGENT_OPTIONS, NO_EFFECT

__all__ = ["check_agent"]


def check_agent(ctx: Context, name: str, agent: AgentModel) -> None:
    """An agent's options and attributes."""
    path: Path = ("agents", name)
    ctx.plain_password((*path, "password"), agent.password)
    ctx.values((*path, "options"), AGENT_OPTIONS, agent.options, f"agent {name}")
    for setting in NO_EFFECT:
        given = getattr(agent, setting)
        if given is not None and given != AgentModel.model_fields[setting].default:
            ctx.source.warning(
                "no-effect",
                (*path, setting),
                f"{setting} of agent {name} is stored, has no effect",
                "leave it out; the agent runs with the login and resources of its process",
            )
