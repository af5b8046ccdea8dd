"""What a topic no longer holds of what a job has not read yet: stored positions compared with the log as it is."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from mgw.links.contract import RESUME
from mgw.links.kafka.client import Topic
from mgw.links.kafka.settings import Settings
from mgw.transforms.errors import PositionLost
from mgw.transforms.gap import Gap, named

__all__ = ["ADDED_LATER", "Missing", "StoredOffset", "gaps_of", "lost", "position_text", "stored_offsets"]

_SHOWN = 20  # partitions in the text of an error; the event has them all

_CUT = "the log begins behind them: retention, or somebody deleted records"
_TRUNCATED = (
    "it lost its end, or was put back from a backup; where the job goes on, at the oldest message that is left, it "
    "reads messages twice rather than leaving any out"
)


@dataclass(frozen=True, slots=True)
class StoredOffset:
    """The position of a partition as the hub has it. ``trouble``: why its offset means nothing in this topic."""

    offset: int | None  # to be read next; None: it cannot be read
    text: str
    trouble: str = ""


#: The position of a partition that the topic got after the job had begun: all of it is to be read.
ADDED_LATER = StoredOffset(0, "0")


class Missing(NamedTuple):
    """A gap, the stored position as people read it, and what the log holds, in words."""

    gap: Gap
    shown: str
    holds: str


def position_text(topic: Topic, offset: int) -> str:
    """A position as the hub keeps it: cluster and topic by their ids, and the offset that is read next."""
    return json.dumps({"cluster": topic.cluster_id, "topic": topic.topic_id, "offset": offset})


def stored_offsets(positions: Mapping[str, str], topic: Topic) -> dict[int, StoredOffset]:
    """The stored positions by partition."""
    return {int(name): _stored(text, topic) for name, text in positions.items() if name != RESUME}


def _stored(text: str, topic: Topic) -> StoredOffset:
    try:
        table = json.loads(text)
        cluster, topic_id, offset = table["cluster"], table["topic"], int(table["offset"])
    except (ValueError, KeyError, TypeError):
        return StoredOffset(None, text, "the stored position cannot be read")
    if cluster and topic.cluster_id and cluster != topic.cluster_id:
        trouble = f"it belongs to cluster {cluster}, this is cluster {topic.cluster_id}"
    elif topic_id and topic.topic_id and topic_id != topic.topic_id:
        trouble = f"the topic was deleted and created again (id {topic.topic_id})"
    else:
        trouble = ""
    return StoredOffset(offset, text, trouble)


def gaps_of(topic: Topic, stored: Mapping[int, StoredOffset], ranges: Mapping[int, tuple[int, int]]) -> list[Missing]:
    """What is missing in each partition. ``ranges``: its first offset, and the one after the last."""
    found: list[Missing] = []
    for number, at in sorted(stored.items()):
        name, shown = str(number), at.text if at.offset is None else str(at.offset)
        if number not in ranges:
            gap = Gap(name, at.offset, None, at.trouble or "the topic no longer has that partition")
            found.append(Missing(gap, shown, ""))
            continue
        first, end = ranges[number]
        holds = f"the log holds offsets {first} to {end}"
        oldest = first, position_text(topic, first)
        if at.trouble or at.offset is None:
            found.append(Missing(Gap(name, at.offset, None, at.trouble, *oldest), shown, holds))
        elif at.offset < first:
            found.append(Missing(Gap(name, at.offset, first - 1, _CUT, *oldest), shown, holds))
        elif at.offset > end:
            cause = f"the stored offset {at.offset} is beyond the end of the log, {end}: {_TRUNCATED}"
            found.append(Missing(Gap(name, None, None, cause, *oldest), shown, holds))
    return found


def lost(settings: Settings, topic: Topic, job: str, found: Sequence[Missing]) -> PositionLost:
    """The error that stops a job, with all gaps; its text names the first of them."""
    places = [f"partition {each.gap.partition}, offset {each.shown}" for each in found[:_SHOWN]]
    causes: dict[str, None] = {}
    for gap, _, holds in found[:_SHOWN]:
        causes[gap.cause] = None
        if holds:
            causes[named(gap, holds) if len(found) > 1 else holds] = None
    more = f" and {len(found) - _SHOWN} more partitions" if len(found) > _SHOWN else ""
    return PositionLost(
        f"link {settings.link}: the stored position of topic {topic.name}, {'; '.join(places)}{more} is lost, messages "
        "may be missing",
        link=settings.link,
        operation="connect",
        cause="; ".join(causes),
        cure="find out which messages are missing; to continue behind them, in these partitions only: mgw"
        f" agents cleanup RESET_SUB_MISSING_MESSAGE {job}",
        number=415,
    ).missing(*[each.gap for each in found])
