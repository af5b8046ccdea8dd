"""Messages over REST: every form comes back as it was given, and what cannot be is refused with the reason."""

from __future__ import annotations

import base64
import json
from collections.abc import Iterator
from typing import Any
from urllib.parse import quote, urlencode

import pytest

from mgw.gateway.aq import NoMessage, QueueAdmin
from mgw.gateway.services.hubs import Hub, open_hub
from mgw.gateway.services.messages import browse
from mgw.transforms.message import Header, Message, PayloadKind, ValueType
from tests.support.gateway_hubs import hub_url, hubs
from tests.support.waiting import eventually
from tests.support.web import Caller, serving

__all__ = ["hub_url", "hubs"]  # fixtures

MESSAGES = "/api/v1/queues/Q/messages"


@pytest.fixture
def hub(hub_url: str) -> Iterator[Hub]:
    with open_hub(hub_url, create=True) as made:
        yield made


@pytest.fixture
def web(hub: Hub) -> Iterator[Caller]:
    with serving(hub) as caller:
        yield caller


def queue(hub: Hub, name: str = "Q", holds: str = "BASIC", **table: Any) -> None:
    admin = QueueAdmin(hub)
    admin.create_queue_table(f"{name}_QT", queue_payload_type=holds, **table)
    admin.create_queue(name, f"{name}_QT")
    admin.start_queue(name)


def found(web: Caller, path: str = MESSAGES, **asked: Any) -> list[dict[str, Any]]:
    """All pages of a list of messages."""
    messages: list[dict[str, Any]] = []
    while True:
        page = web.ok("GET", f"{path}?{urlencode(asked)}")
        messages += page["messages"]
        if page["next"] is None:
            return messages
        asked["cursor"] = page["next"]


def stored(hub: Hub, name: str = "Q", consumer: str | None = None) -> list[Message]:
    try:
        return [each.message for each in browse(hub, name, count=100, consumer=consumer)]
    except NoMessage:
        return []


# -------------------------------------------------------------------------------------------------------------- forms

BODIES = {
    "text": ("BASIC", {"text": "Grüße\n\0\t"}, "Grüße\n\0\t"),
    "empty-text": ("BASIC", {"text": ""}, ""),
    "bytes": ("BASIC", {"base64": base64.b64encode(bytes(range(256))).decode()}, bytes(range(256))),
    "raw": ("RAW", {"base64": "AP8="}, b"\0\xff"),
    "nothing": ("BASIC", {}, None),
    "fields": (
        "FIELDS",
        {"fields": [{"name": "a", "value": 1}, {"name": "a", "type": "raw", "value": "AA=="}]},
        (Header("a", ValueType.INTEGER, 1), Header("a", ValueType.RAW, b"\0")),
    ),
}


@pytest.mark.parametrize("name", BODIES)
def test_a_body_comes_back_in_the_form_in_which_it_was_sent(hub: Hub, web: Caller, name: str) -> None:
    holds, given, body = BODIES[name]
    queue(hub, holds=holds)
    (identity,) = web.ok("POST", MESSAGES, given)["ids"]
    (shown,) = found(web)
    assert shown["id"] == identity
    assert [message.body for message in stored(hub)] == [body]
    back = {form: shown[form] for form in ("text", "json", "base64", "fields") if shown[form] is not None}
    if name != "fields":
        assert back == given
    web.ok("POST", MESSAGES, back)
    assert [message.body for message in stored(hub)] == [body, body]
    one = web.ok("GET", f"{MESSAGES}/{identity.lower()}")
    assert one == shown | {"readers": []}


@pytest.mark.parametrize(
    ("text", "kept"),
    [
        ('{"a":[1,2.5,null,true],"ü":"\\u0000"}', '{"a":[1,2.5,null,true],"ü":"\\u0000"}'),
        ("null", "null"),
        (' { "n" : 1.00000000000000000000000000001 } ', '{"n":1.00000000000000000000000000001}'),
        ("12345678901234567890123456789", "12345678901234567890123456789"),
        ('"text"', '"text"'),
        ("1e999", "1E+999"),
    ],
)
def test_json_is_stored_as_text_with_all_its_digits(hub: Hub, web: Caller, text: str, kept: str) -> None:
    queue(hub, holds="JSON")
    body = f'{{"json": {text}}}'.encode()
    assert web("POST", MESSAGES, body=body, Content_Type="application/json").status == 201
    assert [message.body for message in stored(hub)] == [kept]
    assert found(web)[0]["text"] == kept


def test_json_becomes_what_the_queue_holds(hub: Hub, web: Caller) -> None:
    queue(hub, "F", "FIELDS")
    web.ok("POST", "/api/v1/queues/F/messages", {"json": {"id": 7, "name": "x"}})
    assert [message.body for message in stored(hub, "F")] == [
        (Header("id", ValueType.INTEGER, 7), Header("name", ValueType.TEXT, "x"))
    ]
    QueueAdmin(hub).create_type("ADDRESS", {"street": "VARCHAR2(30)", "cost": "NUMBER"})
    queue(hub, "O", "ADDRESS")
    digits = "1.00000000000000000000000000001"
    body = f'{{"json": {{"street": "Alameda", "cost": {digits}}}}}'.encode()
    found_ = web("POST", "/api/v1/queues/O/messages", body=body, Content_Type="application/json")
    assert found_.status == 201, found_.body
    page = web("GET", "/api/v1/queues/O/messages")
    assert f'"cost":{digits}' in page.body.decode()
    assert page.json["messages"][0]["type"].endswith("ADDRESS")
    queue(hub, "ANY", "ANYDATA")
    web.ok("POST", "/api/v1/queues/ANY/messages", {"text": "12.50", "type": "NUMBER"})
    assert [(each["json"], each["type"]) for each in found(web, "/api/v1/queues/ANY/messages")] == [
        (12.5, "SYS.NUMBER")
    ]
    assert "ANYDATA" in web.refused(422, "POST", "/api/v1/queues/F/messages", {"text": "1", "type": "NUMBER"})["detail"]


HEADERS: dict[str, tuple[Any, Header]] = {
    "text": ("Grüße \0", Header("h", ValueType.TEXT, "Grüße \0")),
    "raw": ("AP8=", Header("h", ValueType.RAW, b"\0\xff")),
    "boolean": (True, Header("h", ValueType.BOOLEAN, True)),
    "byte": (-128, Header("h", ValueType.BYTE, -128)),
    "short": (32767, Header("h", ValueType.SHORT, 32767)),
    "int": (-(2**31), Header("h", ValueType.INTEGER, -(2**31))),
    "long": (2**63 - 1, Header("h", ValueType.LONG, 2**63 - 1)),
    "float": (0.5, Header("h", ValueType.FLOAT, 0.5)),
    "double": (5e-324, Header("h", ValueType.DOUBLE, 5e-324)),
    "date": ("2026-11-20T10:57:34.123456Z", Header("h", ValueType.DATE, 1795172254.123456)),
    "json": ('{"a":null}', Header("h", ValueType.JSON, '{"a":null}')),
    "decimal": ("1.10", Header("h", ValueType.DECIMAL, "1.10")),
    "ubyte": (255, Header("h", ValueType.UBYTE, 255)),
    "ushort": (65535, Header("h", ValueType.USHORT, 65535)),
    "uint": (2**32 - 1, Header("h", ValueType.UINT, 2**32 - 1)),
}


def test_there_is_a_word_for_every_type_of_header() -> None:
    assert {header.type for _, header in HEADERS.values()} == set(ValueType)


def test_every_type_of_header_comes_back_as_it_was_sent(hub: Hub, web: Caller) -> None:
    queue(hub)
    headers = {word: {"type": word, "value": value} for word, (value, _) in HEADERS.items()}
    web.ok("POST", MESSAGES, {"headers": headers})
    (message,) = stored(hub)
    assert message.headers == tuple(header._replace(name=word) for word, (_, header) in HEADERS.items())
    assert found(web)[0]["headers"] == headers


def test_plain_values_names_that_repeat_and_dates_of_any_precision(hub: Hub, web: Caller) -> None:
    queue(hub)
    plain = {"t": "x", "n": 2**31, "i": 7, "d": 1.5, "b": False}
    web.ok("POST", MESSAGES, {"headers": plain})
    typed = found(web)[0]["headers"]
    assert {name: each["value"] for name, each in typed.items()} == plain
    assert [each["type"] for each in typed.values()] == ["text", "long", "int", "double", "boolean"]
    odd = 1795172254.1234567  # no moment of whole microseconds
    repeated = [
        {"name": "a", "type": "int", "value": 1},
        {"name": "b", "type": "date", "value": odd},
        {"name": "a", "type": "text", "value": "2"},
    ]
    web.ok("POST", MESSAGES, {"headers": repeated})
    assert found(web)[1]["headers"] == repeated
    web.ok("POST", MESSAGES, {"headers": {"a": [1, {"type": "raw", "value": ""}]}})
    assert [(each.name, each.value) for each in stored(hub)[2].headers] == [("a", 1), ("a", b"")]


def test_a_number_that_is_none_is_shown_as_text(hub: Hub, web: Caller) -> None:
    queue(hub)
    with hub.session() as session:
        session.enqueue("Q", Message("x", headers=(Header("h", ValueType.DOUBLE, float("nan")),)))
        session.commit()
    assert found(web)[0]["headers"] == {"h": {"type": "double", "value": "nan"}}


REFUSED: list[tuple[Any, str]] = [
    ({"headers": {"h": {"type": "double", "value": "nan"}}}, "h"),
    ({"headers": {"h": {"type": "long", "value": 2**63}}}, "-9223372036854775808"),
    ({"headers": {"h": 2**64}}, "64 bits"),
    ({"headers": {"h": {"type": "byte", "value": 128}}}, "127"),
    ({"headers": {"h": {"type": "int", "value": True}}}, "int"),
    ({"headers": {"h": {"type": "double", "value": 2**53 + 1}}}, "decimal"),
    ({"headers": {"h": {"type": "text", "value": 1}}}, "text"),
    ({"headers": {"h": {"type": "raw", "value": "%"}}}, "base64"),
    ({"headers": {"h": {"type": "date", "value": "yesterday"}}}, "ISO 8601"),
    ({"headers": {"h": {"type": "json", "value": "{"}}}, "json"),
    ({"headers": {"h": {"type": "decimal", "value": "NaN"}}}, "decimal"),
    ({"headers": {"h": {"type": "number", "value": 1}}}, "uint"),
    ({"headers": {"h": {"value": 1, "kind": "int"}}}, "type"),
    ({"headers": {"h": None}}, "null"),
    ({"headers": 7}, "array"),
    ({"headers": [{"name": 1, "value": 1}]}, "name"),
    ({"headers": {"h" * 251: 1}}, "250"),
    ({"headers": {"\ud800": 1}}, "Unicode"),
    ({"text": "x", "base64": ""}, "several"),
    ({"base64": "!"}, "base64"),
    ({"fields": {"a": 1}}, "fields"),
    ({"json": {"a": "\ud800"}}, "Unicode"),
    ({"text": "\ud800"}, "text"),
    ({"correlation": "x" * 129}, "correlation"),
    ({"correlation": "\0"}, "NUL"),
    ({"priority": 2**63}, "priority"),
    ({"delay": -1}, "delay"),
    ({"body": "x"}, "body"),
    ({"\ud800": "x"}, "unicode"),
    ({"recipients": ["A"]}, "recipient"),
    ([], "at least 1"),
    ("text", "body"),
]


@pytest.fixture(scope="module")
def refusing(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Hub, Caller]]:
    """A hub that stores nothing, as all it gets is refused; its first answer, for which much is made, is there."""
    with open_hub(f"sqlite:///{tmp_path_factory.mktemp('refusing')}/hub.db", create=True) as hub, serving(hub) as web:
        queue(hub)
        eventually(lambda: web("GET", MESSAGES).status == 200, what="a first answer")
        yield hub, web


@pytest.mark.parametrize(("given", "told"), REFUSED, ids=[str(each)[:40] for each, _ in REFUSED])
def test_what_cannot_be_a_message_is_refused_and_the_reason_told(
    given: Any, told: str, refusing: tuple[Hub, Caller]
) -> None:
    hub, web = refusing
    answer = web("POST", MESSAGES, given)
    assert answer.status == 422, answer.body
    assert told in answer.body.decode()
    assert stored(hub) == []


@pytest.mark.parametrize("number", [b"NaN", b"Infinity", b"-Infinity"])
def test_what_is_not_json_is_not_read(web: Caller, hub: Hub, number: bytes) -> None:
    queue(hub)
    for body in (b'{"json": %s}', b'{"headers": {"h": %s}}', b"[" * 100_000 + b"%s"):
        assert web("POST", MESSAGES, body=body % number, Content_Type="application/json").status == 400


def test_messages_are_enqueued_all_or_none(hub: Hub, web: Caller) -> None:
    queue(hub)
    web.refused(422, "POST", MESSAGES, [{"text": "a"}, {"text": "b", "headers": {"h": None}}])
    web.refused(422, "POST", MESSAGES, [{"text": "a"}, {"text": "b", "recipients": ["NOBODY"]}])
    assert stored(hub) == []
    ids = web.ok("POST", MESSAGES, [{"text": text} for text in "abc"])["ids"]
    assert [each["id"] for each in found(web)] == ids
    QueueAdmin(hub).stop_queue("Q")
    assert web.refused(409, "POST", MESSAGES, {"text": "d"})["number"] == 25207


def test_the_options_of_an_enqueue_have_their_meaning(hub: Hub, web: Caller) -> None:
    queue(hub, sort_list="PRIORITY,ENQ_TIME")
    given = {
        "text": "late",
        "priority": 9,
        "correlation": "c",
        "expiration": 60,
        "sender": "ME",
        "exception_queue": "BAD",
        "user_property": "u",
    }
    web.ok("POST", MESSAGES, given)
    web.ok("POST", MESSAGES, {"text": "soon", "priority": -5})
    web.ok("POST", MESSAGES, {"text": "not yet", "delay": 3600})
    first, second = found(web)
    assert (first["text"], second["text"]) == ("soon", "late")
    assert {name: second[name] for name in given if name != "expiration"} == {
        name: value for name, value in given.items() if name != "expiration"
    }
    assert second["expires"] > second["enqueued"]
    assert [each["text"] for each in found(web, state="WAITING")] == ["not yet"]


# ------------------------------------------------------------------------------------------------------------- looking


def test_a_list_goes_on_where_the_page_before_ended(hub: Hub, web: Caller) -> None:
    queue(hub, sort_list="PRIORITY,ENQ_TIME")
    web.ok("POST", MESSAGES, [{"text": str(number), "priority": number % 3} for number in range(25)])
    texts = [each["text"] for each in found(web, limit=4)]
    assert texts == sorted(map(str, range(25)), key=lambda text: (int(text) % 3, int(text)))
    assert [each["text"] for each in found(web, limit=4, condition="tab.priority = 1")] == texts[9:17]
    assert len(found(web, limit=1000)) == 25


def test_a_list_is_filtered_by_correlation_condition_and_state(hub: Hub, web: Caller) -> None:
    queue(hub, holds="JSON")
    for number in range(4):
        web.ok("POST", MESSAGES, {"json": {"n": number}, "correlation": f"c{number}", "headers": {"odd": number % 2}})
    assert [each["correlation"] for each in found(web, condition="tab.user_data.n > 1")] == ["c2", "c3"]
    assert [each["correlation"] for each in found(web, condition="HEADER('odd') = 1")] == ["c1", "c3"]
    assert [each["correlation"] for each in found(web, correlation="c_")] == ["c0", "c1", "c2", "c3"]
    assert [each["correlation"] for each in found(web, correlation="c2")] == ["c2"]
    assert found(web, state="PROCESSED") == []
    told = web.refused(422, "GET", f"{MESSAGES}?{urlencode({'condition': 'tab.priority = = 1'})}")
    assert told["number"] == 25448
    assert "line 1, column" in told["detail"]


def test_messages_of_subscribers_have_a_state_for_each(hub: Hub, web: Caller) -> None:
    queue(hub, multiple_consumers=True)
    admin = QueueAdmin(hub)
    admin.add_subscriber("Q", "A")
    admin.add_subscriber("Q", "B", rule="tab.priority < 5")
    (identity,) = web.ok("POST", MESSAGES, {"text": "x"})["ids"]
    web.ok("POST", MESSAGES, {"text": "y", "recipients": ["C"]})
    assert [(each["text"], each["state"]) for each in found(web)] == [("x", "SPLIT"), ("y", "SPLIT")]
    assert [(each["text"], each["state"]) for each in found(web, consumer="B")] == [("x", "READY")]
    assert [(each["name"], each["state"]) for each in web.ok("GET", f"{MESSAGES}/{identity}")["readers"]] == [
        ("A", "READY"),
        ("B", "READY"),
    ]
    assert web.refused(404, "GET", f"{MESSAGES}?consumer=NOBODY")["number"] == 24035
    web.refused(422, "GET", f"{MESSAGES}?state=UNDELIVERABLE")


def test_a_long_body_is_cut_and_says_so(hub: Hub, web: Caller) -> None:
    queue(hub)
    web.ok("POST", MESSAGES, [{"text": "ü" * 10}, {"base64": base64.b64encode(b"0123456789").decode()}])
    text, raw = found(web, body_bytes=5)
    assert (text["text"], text["size"], text["truncated"]) == ("üü", 20, True)
    assert (base64.b64decode(raw["base64"]), raw["size"], raw["truncated"]) == (b"01234", 10, True)
    assert [each["truncated"] for each in found(web)] == [False, False]
    assert web.ok("GET", f"{MESSAGES}/{text['id']}")["text"] == "ü" * 10


def test_what_is_not_there_is_told(hub: Hub, web: Caller) -> None:
    queue(hub, "ORDERS")
    told = web.refused(404, "GET", "/api/v1/queues/ORDRES/messages")
    assert "ORDERS" in told["cure"]
    web.refused(404, "POST", "/api/v1/queues/ORDRES/messages", {})
    web.refused(404, "GET", f"/api/v1/queues/ORDERS/messages/{'0' * 32}")
    web.refused(404, "GET", f"/api/v1/queues/ORDERS/messages/{hub.hub_id.hex()}{'f' * 16}")
    for wrong in ("x", "0" * 31, "0" * 33):
        web.refused(422, "GET", f"/api/v1/queues/ORDERS/messages/{wrong}")
    for asked in ("limit=0", "limit=1001", "limit=x", "cursor=%00", "cursor=W10", "cursor=WzFlOTk5XQ", "state=ready"):
        web.refused(422, "GET", f"/api/v1/queues/ORDERS/messages?{asked}")
    wrong: list[Any] = [[1, 2, 3, 4, 5], ["x"], {}, [None], [1e300], [2**70]]
    for cursor in wrong:
        text = base64.urlsafe_b64encode(json.dumps(cursor).encode()).decode()
        web.refused(422, "GET", f"/api/v1/queues/ORDERS/messages?cursor={text}")
    for name in ('a"b', "a.b.c", "%", "\0", "ü" * 300, "' OR 1=1 --", "\ud800".encode("utf-8", "surrogatepass")):
        answer = web("GET", f"/api/v1/queues/{quote(name, safe='')}/messages")
        assert answer.status in (404, 422), (name, answer.body)
    for name in ("correlation", "condition", "consumer"):
        assert web("GET", f"/api/v1/queues/ORDERS/messages?{name}=%00").status == 422


def test_a_cursor_of_another_queue_shows_nothing_that_is_not_there(hub: Hub, web: Caller) -> None:
    queue(hub)
    web.ok("POST", MESSAGES, {"text": "x"})
    for cursor in ([0], [1, 2], [0.5, 0, 0, 0]):
        text = base64.urlsafe_b64encode(json.dumps(cursor).encode()).decode()
        assert web("GET", f"{MESSAGES}?cursor={text}").status in (200, 422)


def test_a_message_of_kind_raw_keeps_its_kind(hub: Hub, web: Caller) -> None:
    queue(hub, holds="RAW")
    web.ok("POST", MESSAGES, {"base64": "AA=="})
    assert [message.kind for message in stored(hub)] == [PayloadKind.RAW]
    assert "RAW" in web.refused(422, "POST", MESSAGES, {"text": "x"})["cause"]
