"""Roles of those who use the web face, from the least to the most powerful."""

from __future__ import annotations

from enum import StrEnum

__all__ = ["ROLES", "Role"]


class Role(StrEnum):
    """What somebody may do; each role may do what those before it may."""

    VIEWER = "VIEWER"  # look at everything but secrets
    OPERATOR = "OPERATOR"  # the verbs of jobs and links, the exception desk, messages of queues
    ADMINISTRATOR = "ADMINISTRATOR"  # definitions and users

    def includes(self, needed: Role) -> bool:
        """Whether this role is enough where ``needed`` is asked for."""
        order = list(Role)
        return order.index(self) >= order.index(needed)

    def at_most(self, limit: Role) -> Role:
        """The weaker of both."""
        return self if limit.includes(self) else limit


ROLES = tuple(str(role) for role in Role)
