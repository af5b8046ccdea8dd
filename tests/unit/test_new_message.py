"""The fast way to make a message."""

from __future__ import annotations

from dataclasses import FrozenInstanceError, astuple, fields, replace

import pytest

from mgw.transforms.message import Message, new_message


def test_new_message_is_a_message_like_any_other() -> None:
    usual = Message(b"body", priority=3, correlation="c", attempts=2)
    made = new_message(*(getattr(usual, field.name) for field in fields(Message)))
    assert type(made) is Message
    assert made == usual
    assert hash(made) == hash(usual)
    assert repr(made) == repr(usual)
    assert astuple(replace(made, priority=4)) == astuple(replace(usual, priority=4))
    with pytest.raises(FrozenInstanceError):
        made.priority = 5  # type: ignore[misc]


def test_new_message_needs_every_field() -> None:
    with pytest.raises(TypeError):
        new_message(b"body")
