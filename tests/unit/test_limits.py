"""Which failures are limits that block a job, and how they are named."""

from __future__ import annotations

import pytest

from mgw.gateway.runtime.connection_quota import NoConnectionFree
from mgw.gateway.runtime.hindrance import limit_of
from mgw.transforms.errors import Blame, DeliveryRejected, HubFull, LinkTimeout, LinkUnavailable, ParkedTooMany


@pytest.mark.parametrize(
    ("error", "limit"),
    [
        (DeliveryRejected("no", cause="quota exceeded").blamed(Blame.FULL), "the destination is full: quota exceeded"),
        (DeliveryRejected("no", cause="no binding").blamed(Blame.DESTINATION), ""),
        (LinkTimeout("no answer").limited("alarm of RabbitMQ: low on disk"), "alarm of RabbitMQ: low on disk"),
        (LinkTimeout("no answer"), ""),
        (LinkUnavailable("gone"), ""),
        (NoConnectionFree("none", cause="it needs 1"), "max_connections of the link: it needs 1"),
        (HubFull("full"), "the space of the hub"),
        (ParkedTooMany("10 parked", cause="the limit is 10"), "park_messages: the limit is 10"),
    ],
)
def test_a_limit_is_named(error: Exception, limit: str) -> None:
    assert limit_of(error) == limit
