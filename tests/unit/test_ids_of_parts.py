"""The ids of messages that a transformation makes of one."""

from __future__ import annotations

from mgw.gateway.runtime.ends.hub_source import identified
from mgw.transforms.message import Message


def test_parts_of_a_message_have_ids_that_are_the_same_at_every_attempt() -> None:
    parts = [Message("a", msgid=b"1" * 16), Message("b", msgid=b"1" * 16), Message("c", msgid=b"1" * 16)]
    ids = [part.msgid for part in identified(parts)]
    assert ids[0] == b"1" * 16
    assert len(set(ids)) == len(ids)
    assert ids == [part.msgid for part in identified(parts)]


def test_parts_of_a_message_without_an_id_get_none() -> None:
    """An id made of nothing would be that of the parts of all other messages, too: a receiver would drop them."""
    assert [part.msgid for part in identified([Message("a"), Message("b")])] == [None, None]
