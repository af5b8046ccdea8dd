"""Agents warn of messages that wait for longer than the ``age_warning`` of their queue table or subscriber."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from mgw.gateway.aq.admin import QueueAdmin
from mgw.gateway.aq.hub import Hub
from mgw.gateway.observe.events import Event, Journalist
from mgw.gateway.runtime.timekeeping import LOOK_SECONDS, Timekeeper
from mgw.gateway.state.gateway_hub import open_hub
from mgw.transforms.clock import SYSTEM_CLOCK
from mgw.transforms.errors import AqError
from mgw.transforms.message import Message
from tests.conformance.link_suite import unique
from tests.support.brokers import PostgreSQL


class Later:
    """The system's clock, as much later as a test says."""

    def __init__(self) -> None:
        self.ahead = 0.0

    def now(self) -> float:
        return SYSTEM_CLOCK.now() + self.ahead

    def monotonic(self) -> float:
        return SYSTEM_CLOCK.monotonic() + self.ahead

    def pass_by(self, seconds: float) -> None:
        self.ahead += seconds


class Told(Journalist):
    """Keeps what it is told."""

    def __init__(self) -> None:
        super().__init__(lambda *_: None)
        self.texts: list[str] = []

    def tell(self, event: Event) -> None:
        super().tell(event)
        self.texts.append(event.text())


@pytest.fixture
def clock() -> Later:
    return Later()


@pytest.fixture(params=["sqlite", pytest.param("postgresql", marks=pytest.mark.postgresql)])
def hub(request: pytest.FixtureRequest, tmp_path: Path, clock: Later) -> Iterator[Hub]:
    url = f"sqlite:///{tmp_path}/hub.db"
    if request.param == "postgresql":
        server: PostgreSQL = request.getfixturevalue("postgresql")
        url = server.create_database(unique("ages"))
    hub = open_hub(url, create=True, clock=clock)
    yield hub
    hub.close()


def _put(hub: Hub, queue: str) -> None:
    with hub.session() as session:
        session.enqueue(queue, Message(b"x"))
        session.commit()


def test_queue_is_warned_of_once_until_it_is_read(hub: Hub, clock: Later) -> None:
    admin, told = QueueAdmin(hub), Told()
    for name, options in (("WATCHED", {"age_warning": 60}), ("LEFT_ALONE", None)):
        admin.create_queue_table(f"{name}_QT", options=options)
        admin.create_queue(name, f"{name}_QT")
        admin.start_queue(name)
        _put(hub, name)
    keeper = Timekeeper(hub, told, clock)
    keeper.run()
    clock.pass_by(LOOK_SECONDS)
    keeper.run()
    assert told.texts == []
    for _ in range(3):
        clock.pass_by(60)
        keeper.run()
    assert len(told.texts) == 1
    assert told.texts[0].startswith("the oldest message of queue WATCHED has waited for 7")
    assert told.texts[0].endswith("(age_warning 60 s)")
    with hub.session() as session:
        session.dequeue("WATCHED")
        session.commit()
    clock.pass_by(LOOK_SECONDS)
    keeper.run()
    assert told.texts[1:] == ["no message of queue WATCHED waits for longer than 60 s any more"]
    _put(hub, "WATCHED")
    clock.pass_by(61)
    keeper.run()
    assert len(told.texts) == 3


def test_subscriber_has_a_limit_of_its_own_or_that_of_the_queue_table(hub: Hub, clock: Later) -> None:
    admin, told = QueueAdmin(hub), Told()
    admin.create_queue_table("T", multiple_consumers=True, options={"AGE_WARNING": "100"})
    admin.create_queue("Q", "T")
    admin.start_queue("Q")
    admin.add_subscriber("Q", "FAST", options={"age_warning": 20})
    admin.add_subscriber("Q", "SLOW")
    _put(hub, "Q")
    keeper = Timekeeper(hub, told, clock)
    found = []
    for _ in range(5):
        clock.pass_by(30)
        keeper.run()
        found.append([text.partition(" has ")[0].rpartition("of subscriber ")[2] for text in told.texts])
    assert found == [["FAST of queue Q"]] * 3 + [["FAST of queue Q", "SLOW of queue Q"]] * 2
    admin.alter_subscriber("Q", "FAST", rule=None, options={"age_warning": None})
    assert admin.queue_subscribers("Q")[0].options == {}


def test_option_is_checked_by_its_description(hub: Hub) -> None:
    admin = QueueAdmin(hub)
    for options, text in (
        ({"age_warnin": 5}, "queue table T: option 'age_warnin' is unknown"),
        ({"age_warning": 0}, "the smallest value is 1"),
        ({"age_warning": "soon"}, "a number is expected"),
    ):
        with pytest.raises(AqError, match=text):
            admin.create_queue_table("T", options=options)
    made = admin.create_queue_table("T", options={"Age_Warning": 5})
    assert made.options == {"age_warning": "5.0"}
    with pytest.raises(AqError, match="queue table T: age_warning cannot be '-1'"):
        admin.alter_queue_table("T", options={"age_warning": -1})
    assert admin.alter_queue_table("T", comment="x").options == {"age_warning": "5.0"}
    assert admin.alter_queue_table("T", options={"age_warning": None}).options == {}
