"""The exception desk: messages that jobs could not deliver are shown, edited, replayed and discarded.

:func:`desk_of` opens the desk of a job. The exception queue is in the hub, or on a link; what a replay guarantees is
in docs/delivery-guarantees.md.
"""

from __future__ import annotations

from mgw.gateway.services.exceptions.contract import (
    EVERYTHING,
    LONGEST_PLACE,
    Change,
    Desk,
    DeskRefused,
    Entry,
    NoSuchPlace,
    Outcome,
    Pace,
    Page,
    Which,
)
from mgw.gateway.services.exceptions.desk import consumers_of, desk_of, jobs_with_desks
from mgw.gateway.services.exceptions.editing import Edit, edit, entry_of, require_choice
from mgw.gateway.services.exceptions.groups import MOST, Groups, grouped
from mgw.gateway.services.exceptions.parked import Waiting, give_up, parked_keys, release
from mgw.gateway.services.exceptions.patterns import DeskState, Pattern, desk_states, patterns

__all__ = [
    "EVERYTHING",
    "LONGEST_PLACE",
    "MOST",
    "Change",
    "Desk",
    "DeskRefused",
    "DeskState",
    "Edit",
    "Entry",
    "Groups",
    "NoSuchPlace",
    "Outcome",
    "Pace",
    "Page",
    "Pattern",
    "Waiting",
    "Which",
    "consumers_of",
    "desk_of",
    "desk_states",
    "edit",
    "entry_of",
    "give_up",
    "grouped",
    "jobs_with_desks",
    "parked_keys",
    "patterns",
    "release",
    "require_choice",
]
