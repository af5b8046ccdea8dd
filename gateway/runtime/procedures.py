"""What an agent has done by the services, which are a room above it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from mgw.gateway.aq import Hub
from mgw.gateway.runtime.secret_files import ReadFiles
from mgw.gateway.state.secrets import Secrets

__all__ = ["Procedures"]


@dataclass(frozen=True, slots=True)
class Procedures:
    """Calls upwards, given to the agent by the code that starts it.

    Attributes:
        finish_remove_job: removes a job that is marked for removal and no longer works, by its name.
        apply_files: makes the hub what configuration files say; gives the lines to be logged.
        read_files: what configuration files are read from.
        prepare_links: prepares the links of configuration files that ask for it, but for those whose names are in the
            set, to which it adds what is prepared; gives the lines to be logged, and raises where one cannot be now.
    """

    finish_remove_job: Callable[[Hub, Secrets, str], None]
    apply_files: Callable[[Hub, Secrets, Sequence[Path]], Iterable[str]]
    prepare_links: Callable[[Hub, Secrets, Sequence[Path], set[str]], Iterable[str]]
    read_files: Callable[[Sequence[Path]], ReadFiles]
