"""How the procedures of schema ``mgwadm`` are described."""

from __future__ import annotations

from dataclasses import dataclass

from mgw.gateway.definitions.roles import Role

__all__ = ["KEEPS", "MERGED", "NO_CHANGE", "OPTIONS", "Parameter", "Procedure"]

#: The text that keeps the value of a parameter of an alter procedure.
NO_CHANGE = "NO_CHANGE"


@dataclass(frozen=True, slots=True)
class Parameter:
    """A parameter; ``default`` is SQL, empty where it must be given."""

    name: str
    type: str
    meaning: str
    default: str = ""

    @property
    def declared(self) -> str:
        """As a function has it."""
        return f"{self.name} {self.type}" + (f" DEFAULT {self.default}" if self.default else "")


@dataclass(frozen=True, slots=True)
class Procedure:
    """A procedure: the function of its name calls ``_<name>`` with its parameters, in their order.

    Attributes:
        role: who may call it, see ``mgwadm.grant_role``.
        section: heading of the reference page.
        returns: type of its value.
        locks: it takes the lock of the administration itself, later.
    """

    name: str
    role: Role
    section: str
    summary: str
    parameters: tuple[Parameter, ...]
    returns: str = "void"
    locks: bool = False


OPTIONS = "JSON object of [options](links.md): `'{\"MsgBatchSize\": 100}'`."
MERGED = f'{OPTIONS} They are merged element by element: `null` removes one, `{{"*": null}}` all; NULL keeps all.'
KEEPS = f" `{NO_CHANGE}` keeps it, NULL removes it."
