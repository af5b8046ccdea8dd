"""What the reason codes of MQTT 5 say of who is to blame for a refusal."""

from __future__ import annotations

import pytest

from mgw.links.mqtt.wire import blame_of
from mgw.transforms.errors import Blame


@pytest.mark.parametrize(
    ("code", "blame"),
    [
        (0x80, Blame.UNKNOWN),  # unspecified error
        (0x83, Blame.UNKNOWN),  # implementation specific error
        (0x87, Blame.DESTINATION),  # not authorized
        (0x90, Blame.MESSAGE),  # topic name invalid
        (0x95, Blame.MESSAGE),  # packet too large
        (0x97, Blame.FULL),  # quota exceeded
        (0x99, Blame.MESSAGE),  # payload format invalid
        (0xFE, Blame.UNKNOWN),  # no code of MQTT 5
    ],
)
def test_every_refusal_blames_what_it_is_about(code: int, blame: Blame) -> None:
    assert blame_of(code) is blame
