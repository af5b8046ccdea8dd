"""The reference page of the SQL functions of schema ``mgwadm``."""

from __future__ import annotations

from itertools import groupby

from mgw.gateway.config.reference_text import cell, page, table
from mgw.gateway.definitions.roles import Role
from mgw.gateway.state.mgwadm.procedures import PROCEDURES, Procedure

__all__ = ["mgwadm_page"]


def mgwadm_page() -> str:
    """mgwadm.md: every SQL function with its parameters."""
    parts = [
        "# SQL functions of schema mgwadm\n",
        "On PostgreSQL these functions administer the gateway ([how to use them](../how-to/administer-with-sql.md)). "
        "Parameters without a default must be given; all may be given by name.\n",
    ]
    for section, procedures in groupby(PROCEDURES, key=lambda each: each.section):
        parts.append(f"## {section}\n")
        for procedure in procedures:
            parts += _procedure(procedure)
    parts += [
        "## Roles\n",
        "`mgwadm.grant_role(grantee text, role text)` lets a role of the database call the functions of a role of the "
        "gateway. Only the owner of the hub can call it.\n",
        table(("Role", "Functions"), [(str(role), _callable(role)) for role in Role if role is not Role.VIEWER]),
    ]
    return page(parts)


def _procedure(procedure: Procedure) -> list[str]:
    declared = ", ".join(parameter.declared for parameter in procedure.parameters)
    rows = [
        (f"`{each.name}`", f"`{each.type}`", f"`{each.default}`" if each.default else "", cell(each.meaning))
        for each in procedure.parameters
    ]
    return [
        f"### {procedure.name}\n",
        f"{procedure.summary}\n",
        f"    mgwadm.{procedure.name}({declared}) returns {procedure.returns}\n",
        table(("Parameter", "Type", "Default", "Meaning"), rows),
    ]


def _callable(role: Role) -> str:
    return ", ".join(f"`{each.name}`" for each in PROCEDURES if role.includes(each.role))
