"""What ``mgw init`` writes for a link of some type: lines of a file that work once the variables are set."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

__all__ = ["Skeleton"]


@dataclass(frozen=True, slots=True)
class Skeleton:
    """A link and its queues as a file begins with them.

    Attributes:
        settings: YAML value by setting of the link; ``END`` in a variable becomes ``SOURCE`` or ``TARGET``.
        hints: settings that many links need, shown as comments.
        source: name of the queue or topic in the foreign system that an inbound job reads.
        target: the one that an outbound job writes.
        options: YAML value of the options of the source.
        create: command that makes a queue or topic in the foreign system, by its name; none: nothing has to be made.
    """

    settings: Mapping[str, str]
    hints: Mapping[str, str]
    source: str
    target: str
    domain: str = ""
    options: str = ""
    create: Mapping[str, str] = field(default_factory=dict)
