"""Names: one name is one object, whatever characters users and objects have in theirs. Run on both databases."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from mgw.gateway.aq.admin import QueueAdmin
from mgw.gateway.aq.model import Agent, DequeueOptions
from mgw.gateway.aq.names import qualified
from mgw.transforms.errors import AqError
from mgw.transforms.message import Message
from tests.conformance.hub_suite import now, refused
from tests.conformance.hub_suite_views import ViewCase

#: What user ``anna`` tries on the objects of user ``anna.smith``, as objects of her own.
TRICKS: dict[str, Callable[[QueueAdmin], Any]] = {
    "drop table": lambda a: a.drop_queue_table('"anna"."smith.T"', force=True),
    "purge": lambda a: a.purge_queue_table('"anna"."smith.T"'),
    "alter table": lambda a: a.alter_queue_table('"anna"."smith.T"', comment="mine"),
    "migrate": lambda a: a.migrate_queue_table('"anna"."smith.T"', "12.2"),
    "jms types": lambda a: a.enable_jms_types('"anna"."smith.T"'),
    "queue in the table": lambda a: a.create_queue("anna.new", '"anna"."smith.T"'),
    "alter queue": lambda a: a.alter_queue('"anna"."smith.Q"', max_retries=1),
    "stop": lambda a: a.stop_queue('"anna"."smith.Q"'),
    "drop queue": lambda a: a.drop_queue('"anna"."smith.Q"'),
    "subscribe": lambda a: a.add_subscriber('"anna"."smith.Q"', "me"),
    "grant": lambda a: a.grant_queue_privilege("ALL", '"anna"."smith.Q"', "me"),
    "drop type": lambda a: a.drop_type('"anna"."smith.point"'),
    "modify": lambda a: a.modify_transformation('"anna"."smith.shout"', 0, "'x'"),
    "drop transformation": lambda a: a.drop_transformation('"anna"."smith.shout"'),
    "other end": lambda a: a.drop_queue_table('anna."smith.T"', force=True),
}


class NameSuite(ViewCase):
    """A dot in a name, and other characters that need quotes."""

    @pytest.fixture
    def smith(self, _hub: None) -> QueueAdmin:
        admin = QueueAdmin(self.hub, user="anna.smith", schema="anna.smith")
        admin.create_queue_table("T", multiple_consumers=True, compatible="8.1")
        admin.create_queue("Q", "T")
        admin.start_queue("Q")
        admin.add_subscriber("Q", "reader")
        admin.create_type("point", {"x": "NUMBER"})
        admin.create_transformation("shout", "BASIC", "BASIC", "UPPER(source.user_data)")
        self.send('"anna.smith".Q', "kept")
        return admin

    def test_a_dot_in_a_schema_gives_nobody_the_objects_of_another(self, smith: QueueAdmin) -> None:
        for user in ("anna", None):
            for name, trick in TRICKS.items():
                with pytest.raises(AqError) as caught:
                    trick(QueueAdmin(self.hub, user=user))
                assert caught.value.number in (4043, 24002, 24010, 24094), name
        assert smith.queue("Q")
        assert smith.queue_table("T")
        assert len(smith.types()) == len(smith.transformations()) == 1
        assert self.take('"anna.smith".Q', "reader") == ["kept"]

    def test_sessions_do_not_get_there_either(self, smith: QueueAdmin) -> None:
        with self.hub.session(user="anna") as session:
            with refused(25205):
                session.enqueue('"anna"."smith.Q"', Message("x"))
            with refused(25205):
                session.dequeue('"anna"."smith.Q"', now(consumer_name="reader"))
            with refused(25205):
                session.listen([Agent("reader", '"anna"."smith.Q"')], 0)

    def test_names_that_differ_in_the_place_of_the_dot_stand_side_by_side(self, smith: QueueAdmin) -> None:
        anna = QueueAdmin(self.hub, user="anna", schema="anna")
        anna.create_queue_table('"smith.T"', multiple_consumers=True)
        anna.create_queue('"smith.Q"', '"smith.T"')
        anna.start_queue('"smith.Q"')
        anna.create_type('"smith.point"', {"y": "NUMBER"})
        anna.create_transformation('"smith.shout"', "BASIC", "BASIC", "LOWER(source.user_data)")
        anna.add_subscriber('"smith.Q"', "reader", transformation='"smith.shout"')
        smith.alter_subscriber("Q", "reader", rule=None, transformation="shout")
        self.send('anna."smith.Q"', "For Anna")
        assert self.take('anna."smith.Q"', "reader") == ["for anna"]
        assert self.take('"anna.smith".Q', "reader") == ["KEPT"]
        with refused(24095):
            smith.drop_transformation("shout")
        assert sorted(each.full_name for each in self.admin.queue_tables()) == ['"anna.smith".T', 'anna."smith.T"']
        shown = self.rows("SELECT OWNER, NAME, QUEUE_TABLE FROM DBA_QUEUES WHERE QUEUE_TYPE = 'NORMAL_QUEUE'")
        assert sorted((row["OWNER"], row["NAME"], row["QUEUE_TABLE"]) for row in shown) == [
            ("ANNA", "SMITH.Q", "SMITH.T"),
            ("ANNA.SMITH", "Q", "T"),
        ]
        anna.drop_queue_table('"smith.T"', force=True)
        assert [each.full_name for each in self.admin.queue_tables()] == ['"anna.smith".T']

    def test_a_queue_of_the_same_look_is_read_by_who_may_only(self, smith: QueueAdmin) -> None:
        """What is shown of one queue is not shown for another that looks like it."""
        anna = QueueAdmin(self.hub, user="anna", schema="anna")
        anna.create_queue_table("T", multiple_consumers=True)
        anna.create_queue('"smith.Q"', "T")
        anna.add_subscriber('"smith.Q"', "own")
        assert [each.name for each in anna.queue_subscribers()] == ["own"]
        assert [each.name for each in smith.queue_subscribers()] == ["reader"]

    def test_name_as_it_is_shown_is_a_name(self) -> None:
        for name in (
            "orders",
            '"my orders"',
            '"a.b"',
            '"eu.Straße"."_x"',
            "mill.grün#1",
            '"my mill"."a.b"',
            '"m.i.l.l".o',
        ):
            given = qualified(name)
            assert qualified(given.shown) == given
            self.admin.create_queue_table(given.shown)
            made = self.admin.queue_table(given.shown)
            assert made is not None
            assert (made.schema, made.name, made.full_name) == (given.schema, given.name, given.shown)
            self.admin.create_queue(given.shown, given.shown)
            queue = self.admin.queue(given.shown)
            assert queue is not None
            assert (queue.full_name, queue.queue_table) == (given.shown, given.shown)
            self.admin.start_queue(queue.full_name)
            self.send(queue.full_name, "x")
            assert self.take(queue.full_name) == ["x"]
            row = self.row("SELECT OWNER, NAME FROM DBA_QUEUES WHERE QUEUE_TYPE = 'NORMAL_QUEUE'")
            assert (row["OWNER"], row["NAME"]) == (given.schema.upper(), given.name.upper())
            self.admin.drop_queue_table(given.shown, force=True)

    def test_users_and_schemas_have_no_quotes_in_their_names(self) -> None:
        for name in ('an"na', '"', '""anna.smith""'):
            with refused(25200):
                QueueAdmin(self.hub, user=name)
            with refused(25200):
                self.admin.grant_system_privilege("ENQUEUE_ANY", name)
            with refused(25200), self.hub.session(schema=name) as session:
                session.enqueue("q", Message("x"))
        with self.hub.session(user='"anna"') as session, refused(25205):
            session.dequeue("anna.nothing", DequeueOptions(wait=0))

    def test_texts_that_cannot_be_stored_are_not_looked_for(self) -> None:
        """A database that fails at one would undo the transaction."""
        self.queue()
        self.topic("reader")
        with self.hub.session() as session:
            session.enqueue("orders", Message("before"))
            for text in ("a\0b", "a\ud800"):
                for options, number in (
                    ({"correlation": text}, None),
                    ({"deq_condition": f"tab.corrid = '{text}'"}, 25448),
                    ({"consumer_name": text}, 24047),
                ):
                    with pytest.raises(AqError) as caught:
                        session.dequeue("events" if "consumer_name" in options else "orders", now(**options))
                    assert (caught.value.number or None) == number, options
                with refused(25448):
                    self.admin.add_subscriber("events", "other", rule=f"tab.corrid = '{text}'")
                with refused(24047):
                    session.listen([Agent(text, "events")], 0)
            session.commit()
        assert self.take("orders") == ["before"]
