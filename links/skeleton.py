"""What ``mgw init`` writes for a link of some type: lines of a file that work once the variables are set."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

__all__ = ["Skeleton"]


@dataclass(frozen=True, slots=True)
class Skeleton:
    """A link and its queues as a file begins with them.

    Values may hold variables; ``END`` in one becomes ``SOURCE`` or ``TARGET``.

    Attributes:
        settings: YAML value by setting of a link to a broker on this machine as it is installed.
        secure: the same of a link with TLS and a login.
        rights: where or how the broker is told what the login of such a link may do.
        may_read, may_write: what it is told there, for a login that reads the source, or writes the target, and for the
            logs; a line each.
        source: name of the queue or topic in the foreign system that an inbound job reads.
        target: the one that an outbound job writes.
        reads, writes: guarantee of jobs that read the source, or write the target, once the link is prepared.
        through: guarantee of jobs that write the target from link to link; empty: as ``writes``.
        domain: that of the foreign queues; it may be empty.
        options: YAML value of the options of the source.
        create: command that makes a queue or topic in the foreign system, by its name; none: nothing has to be made.
    """

    settings: Mapping[str, str]
    secure: Mapping[str, str]
    source: str
    target: str
    reads: str
    writes: str
    rights: str
    may_read: Sequence[str]
    may_write: Sequence[str]
    through: str = ""
    domain: str = ""
    options: str = ""
    create: Mapping[str, str] = field(default_factory=dict)
