"""What a row of the compatibility page is made of.

Names in backquotes are names of ours, or of the documentation; a test looks up those of ours in the code.
"""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["Coming", "Number", "Parameter", "Procedure", "Row", "View"]


@dataclass(frozen=True, slots=True)
class Parameter:
    """A parameter of a documented procedure.

    Attributes:
        name: there.
        default: there; empty: it is required.
        python: of our method; empty: the same name, ``-``: there is none.
        option: of our command; empty: there is none.
        note: what is different, or what to use.
    """

    name: str
    default: str = ""
    python: str = ""
    option: str = ""
    note: str = ""


@dataclass(frozen=True, slots=True)
class Procedure:
    """A documented procedure and what takes its place. A place that the code does not have is shown as missing.

    Attributes:
        name: there.
        python: method of ours.
        command: of ours, without ``mgw``.
        note: what is different where there is a place.
        instead: why there is none, and what to use.
        parameters: its parameters.
    """

    name: str
    python: str = ""
    command: str = ""
    note: str = ""
    instead: str = ""
    parameters: tuple[Parameter, ...] = ()


@dataclass(frozen=True, slots=True)
class Coming:
    """What a row says once the code has something.

    Attributes:
        name: a method, ``mgw`` command, ``VIEW``, ``VIEW.COLUMN`` or status.
        text: what the row says then, with the verdict yes.
    """

    name: str
    text: str


@dataclass(frozen=True, slots=True)
class Row:
    """A documented name, fact or setting.

    Attributes:
        name: there.
        verdict: ``yes``: the same here; ``differs``; ``no``: not here.
        here: ours, or why not and what to use.
        coming: what it says instead once the code has that.
    """

    name: str
    verdict: str
    here: str
    coming: Coming | None = None


@dataclass(frozen=True, slots=True)
class Number:
    """A documented error.

    Attributes:
        number: there.
        meaning: there, in our words.
        here: why it does not occur here, or what is different; empty: it is the same.
    """

    number: int
    meaning: str
    here: str = ""


@dataclass(frozen=True, slots=True)
class View:
    """A documented view.

    Attributes:
        name: there.
        columns: there, in their order.
        ours: our view of that name or of another one; where it is missing, ``instead`` counts.
        instead: why there is none, and what to use.
        other: by column: ``VIEW.COLUMN`` of ours, or a text where there is none.
    """

    name: str
    columns: tuple[str, ...]
    ours: str = ""
    instead: str = ""
    other: tuple[tuple[str, str], ...] = ()
