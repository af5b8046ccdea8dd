"""Sub-commands of ``mgw`` that other packages add: entry points of the group ``mgw.commands``.

An entry point names a Typer program (``pipeline = "mgw.pipelines.cli:app"``). They are looked up only when a command is
asked for that the gateway itself does not have, or when all are listed; only the one that is asked for is imported.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from typer.core import TyperGroup

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint

__all__ = ["GROUP", "Commands"]

GROUP: Final = "mgw.commands"


def _found() -> dict[str, EntryPoint]:
    from importlib.metadata import entry_points

    return {point.name: point for point in sorted(entry_points(group=GROUP), key=lambda point: point.name)}


class Commands(TyperGroup):
    """The gateway's own commands, then those of other packages."""

    def list_commands(self, ctx: Any) -> list[str]:
        """Names of all commands."""
        own = super().list_commands(ctx)
        return own + [name for name in _found() if name not in own]

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        """A command by its name; None when there is none."""
        own = super().get_command(ctx, cmd_name)
        if own is not None or cmd_name.startswith("-") or (point := _found().get(cmd_name)) is None:
            return own
        from typer.main import get_command

        return get_command(point.load())
