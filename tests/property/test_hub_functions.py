"""What SQL enqueues Python dequeues identically, and the other way round: any message, every property, every type."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterator
from contextlib import ExitStack, suppress
from dataclasses import replace
from typing import Any, NamedTuple

import psycopg
import pytest
from hypothesis import HealthCheck, assume, event, given
from hypothesis import strategies as st
from psycopg.rows import dict_row

from mgw.gateway.aq.admin import QueueAdmin
from mgw.gateway.aq.errors import MessageRefused
from mgw.gateway.aq.hub import Hub
from mgw.gateway.aq.model import DequeueOptions, Navigation
from mgw.gateway.aq.sessions.session import Session
from mgw.transforms.errors import AqError
from mgw.transforms.message import Header, Message, PayloadKind, ValueType, encode_headers
from tests.property.test_rules_in_sql import CONDITIONS, MESSAGES
from tests.support.brokers import PostgreSQL
from tests.support.examples import looks_at

pytestmark = pytest.mark.postgresql

CHARACTERS = st.characters(exclude_categories=["Cs"], exclude_characters="\x00")  # text of PostgreSQL holds no NUL
TEXT = st.text(CHARACTERS, max_size=40)
FLOATS = st.floats(width=64).filter(lambda value: repr(value) != "-0.0")  # nor do its numbers know a negative zero
UNSIGNED = {ValueType.UBYTE: 8, ValueType.USHORT: 16, ValueType.UINT: 32}
INTEGERS = {ValueType.BYTE: 7, ValueType.SHORT: 15, ValueType.INTEGER: 31, ValueType.LONG: 63}
VALUES: dict[ValueType, Any] = {
    ValueType.TEXT: TEXT,
    ValueType.RAW: st.binary(max_size=40),
    ValueType.BOOLEAN: st.booleans(),
    ValueType.FLOAT: FLOATS,
    ValueType.DOUBLE: FLOATS,
    ValueType.DATE: FLOATS,
    ValueType.JSON: TEXT,
    ValueType.DECIMAL: TEXT,
    **{kind: st.integers(0, 2**bits - 1) for kind, bits in UNSIGNED.items()},
} | {kind: st.integers(-(2**bits), 2**bits - 1) for kind, bits in INTEGERS.items()}
HEADER = st.sampled_from(list(ValueType)).flatmap(lambda kind: st.builds(Header, TEXT, st.just(kind), VALUES[kind]))
HEADERS = st.lists(HEADER, max_size=5).map(tuple)
BODIES: dict[str, Any] = {
    "RAW": st.none() | st.binary(max_size=60),
    "BASIC": st.none() | st.binary(max_size=60) | TEXT,
    "TEXT": st.none() | TEXT,
    "JSON": st.recursive(TEXT | st.integers() | st.none(), lambda inner: st.lists(inner, max_size=3)).map(json.dumps),
    "FIELDS": st.none() | HEADERS,
}
PROPERTIES = (
    "kind", "priority", "correlation", "expiration", "exception_queue", "sender_name", "sender_address",
    "sender_protocol", "user_property",
)  # fmt: skip
SECONDS = st.floats(0, 2**37)  # clients know years of four digits only


def messages(payload_type: str) -> st.SearchStrategy[Message]:
    """Messages that have every property that a sender can set."""
    return st.builds(
        Message,
        BODIES[payload_type],
        HEADERS,
        st.sampled_from([PayloadKind.RAW, PayloadKind.BASIC, PayloadKind.FIELDS]),
        priority=st.integers(-(2**63), 2**63 - 1),
        correlation=st.none() | st.text(CHARACTERS, max_size=128),
        expiration=st.none() | SECONDS,
        exception_queue=st.none() | TEXT,
        sender_name=st.none() | TEXT,
        sender_address=st.none() | TEXT,
        sender_protocol=st.integers(0, 255),
        user_property=st.none() | TEXT,
    )


SUBSCRIBERS = ("first", "second")
BATCH = st.sampled_from(sorted(BODIES)).flatmap(
    lambda payload_type: st.tuples(st.just(payload_type), st.lists(messages(payload_type), min_size=1, max_size=4))
)


class Ends(NamedTuple):
    """Both ways into one hub."""

    session: Session
    sql: psycopg.Connection[dict[str, Any]]
    admin: QueueAdmin


@pytest.fixture(scope="module")
def ends(postgresql: PostgreSQL) -> Iterator[Ends]:
    url = postgresql.create_database("hub_both_ways")
    with ExitStack() as stack:
        stack.callback(postgresql.drop_database, "hub_both_ways")
        hub = stack.enter_context(Hub.open(url, create=True, durability="fast"))
        admin = QueueAdmin(hub)
        for payload_type in BODIES:
            admin.create_queue_table(f"{payload_type}_t", payload_type)
            admin.create_queue(payload_type, f"{payload_type}_t")
            admin.start_queue(payload_type)
        admin.create_queue_table("topic_t", multiple_consumers=True)
        admin.create_queue("topic", "topic_t")
        admin.start_queue("topic")
        for name in SUBSCRIBERS:
            admin.add_subscriber("topic", name)
        plain = url.replace("postgresql+psycopg://", "postgresql://")
        sql = stack.enter_context(psycopg.connect(plain, row_factory=dict_row, autocommit=True))
        yield Ends(stack.enter_context(hub.session()), sql, admin)


def _same(left: Header, right: Header) -> bool:
    if isinstance(left.value, float) and math.isnan(left.value):
        return isinstance(right.value, float) and math.isnan(right.value) and left[:2] == right[:2]
    return left == right and type(left.value) is type(right.value)


def _same_headers(left: Any, right: Any) -> bool:
    if not isinstance(left, tuple) or not isinstance(right, tuple):
        return bool(left == right)
    return len(left) == len(right) and all(map(_same, left, right))


def _json(headers: tuple[Header, ...]) -> str:
    return encode_headers(headers) or "[]"


ENQUEUE = """
    SELECT aq.enqueue(%(queue)s, {payload}, priority => %(priority)s, expiration => %(expiration)s,
                      correlation => %(correlation)s, headers => %(headers)s::jsonb,
                      exception_queue => %(exception_queue)s, sender_name => %(sender_name)s,
                      sender_address => %(sender_address)s, sender_protocol => %(sender_protocol)s,
                      user_property => %(user_property)s,
                      kind => %(kind)s) id"""


def enqueue(sql: psycopg.Connection[dict[str, Any]], queue: str, message: Message) -> bytes:
    """Enqueue from SQL."""
    kind, body = "%(body)s::text", message.body
    if isinstance(body, bytes):
        kind = "%(body)s::bytea"
    elif isinstance(body, tuple):
        kind, body = "%(body)s::jsonb", _json(body)
    row = sql.execute(
        ENQUEUE.format(payload=kind),
        {
            "queue": queue,
            "body": body,
            "priority": message.priority,
            "expiration": message.expiration,
            "correlation": message.correlation,
            "headers": _json(message.headers),
            "exception_queue": message.exception_queue,
            "sender_name": message.sender_name,
            "sender_address": message.sender_address,
            "sender_protocol": message.sender_protocol,
            "user_property": message.user_property,
            "kind": message.kind.value,
        },
    ).fetchone()
    assert row is not None
    return bytes(row["id"])


@looks_at(60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(batch=BATCH)
def test_python_gets_what_sql_sent(ends: Ends, batch: tuple[str, list[Message]]) -> None:
    queue, sent = batch
    with ends.sql.transaction():
        ids = [enqueue(ends.sql, queue, message) for message in sent]
    found = ends.session.dequeue_array(queue, DequeueOptions(wait=0), 10)
    ends.session.commit()
    assert [each.msgid for each in found] == ids
    for message, each in zip(sent, found, strict=True):
        got = each.message
        assert _same_headers(got.headers, message.headers)
        assert _same_headers(got.body, message.body)
        assert got.enqueue_time is not None
        if message.expiration is not None:
            assert got.expires_at == got.enqueue_time + message.expiration
        expected = replace(
            message,
            headers=got.headers,
            body=got.body,
            msgid=got.msgid,
            enqueue_time=got.enqueue_time,
            expires_at=got.expires_at,
        )
        assert got == expected


@looks_at(60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(batch=BATCH)
def test_sql_gets_what_python_sent(ends: Ends, batch: tuple[str, list[Message]]) -> None:
    queue, sent = batch
    ids = ends.session.enqueue_array(queue, sent)
    ends.session.commit()
    rows = ends.sql.execute("SELECT *, headers::text AS stored FROM aq.dequeue_array(%s)", (queue,)).fetchall()
    assert [row["msgid"] for row in rows] == ids
    for message, row in zip(sent, rows, strict=True):
        body = message.body
        text = body if isinstance(body, str) else _json(body) if isinstance(body, tuple) else None
        assert row["payload"] == (body if isinstance(body, bytes) else None if text is None else text.encode())
        assert row["payload_text"] == text
        assert row["stored"] == encode_headers(message.headers)
        assert {name: row[name] for name in PROPERTIES} == {name: getattr(message, name) for name in PROPERTIES}
        assert (row["attempts"], row["state"]) == (0, "READY")
        assert (row["expires_at"] is None) == (message.expiration is None)


ROUTED = """
    SELECT c.name FROM aq_entry e JOIN aq_consumer c ON c.id = e.consumer_id JOIN aq_message m ON m.id = e.message_id
     WHERE m.correlation IS NOT DISTINCT FROM %s ORDER BY c.name"""


def _routed(enqueue: Callable[[], object], rows: Callable[[], list[str]]) -> list[str] | None:
    """Who gets the message; None: it is refused because of a rule."""
    try:
        enqueue()
    except (AqError, MessageRefused) as error:
        return [] if error.number == 24033 else None
    except psycopg.Error as error:
        if error.sqlstate not in ("MG033", "MG449"):
            raise
        return [] if error.sqlstate == "MG033" else None
    return rows()


@looks_at(60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(message=MESSAGES, rules=st.tuples(CONDITIONS, CONDITIONS))
def test_sql_routes_as_python_does_or_not_at_all(ends: Ends, message: Message, rules: tuple[str, str]) -> None:
    message = replace(message, original_msgid=None)  # not for applications to set
    assume("-0.0" not in repr(message) and not (isinstance(message.body, str) and "\x00" in message.body))
    try:
        for name, rule in zip(SUBSCRIBERS, rules, strict=True):
            ends.admin.alter_subscriber("topic", name, rule=rule)
    except AqError:
        assume(False)
    with ends.sql.transaction(force_rollback=True):
        in_sql = _routed(
            lambda: enqueue(ends.sql, "topic", message),
            lambda: [row["name"] for row in ends.sql.execute(ROUTED, (message.correlation,))],
        )
    msgid: list[bytes] = []

    def found() -> list[str]:
        names = []
        for name in SUBSCRIBERS:
            with suppress(AqError):
                only = DequeueOptions(name, wait=0, msgid=msgid[0], navigation=Navigation.FIRST_MESSAGE)
                ends.session.dequeue("topic", only)
                names.append(name)
        return names

    in_python = _routed(lambda: msgid.append(ends.session.enqueue("topic", message)), found)
    ends.session.rollback()
    event("decided" if in_sql is not None else "left to Python")
    assert in_sql is None or in_sql == in_python
