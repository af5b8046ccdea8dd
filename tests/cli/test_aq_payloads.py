"""Objects, XML and ANYDATA on the command line and in a configuration."""

from __future__ import annotations

import json

from mgw.gateway.aq.admin import QueueAdmin
from mgw.gateway.aq.payloads.anydata import wrap
from mgw.gateway.state.gateway_hub import open_hub
from mgw.transforms.message import Message, PayloadKind
from mgw.transforms.objects import ObjectValue
from tests.cli.conftest import Mgw

TABLES = "queues:\n  DOCS: {payload_type: xmltype}\n  ANY: {payload_type: anydata}\n"
WITH_OBJECTS = TABLES + "  POINTS: {payload_type: oe.point}\n"


def test_queues_of_declared_types(mgw: Mgw) -> None:
    mgw.ok("apply", mgw.file(TABLES))
    refused = mgw("apply", mgw.file(WITH_OBJECTS, "objects.yaml"))
    assert refused.code == 78
    assert "unknown-object-type: object type 'OE.POINT' is not defined; define it under object_types" in refused.err
    with open_hub(f"sqlite:///{mgw.folder}/hub.db") as hub:
        QueueAdmin(hub).create_type("oe.point", {"x": "NUMBER", "y": "NUMBER"})
    mgw.ok("apply", "objects.yaml")
    assert "nothing to do" in mgw.ok("plan", "objects.yaml")
    assert "payload_type: OE.POINT" in mgw.ok("export")

    mgw.ok("aq", "enqueue", "POINTS", stdin='{"x": 1.50, "Y": 2}')
    for text, complaint in (('{"x": "a"}', "attribute x"), ("plain", "an object of type OE.POINT is needed")):
        wrong = mgw("aq", "enqueue", "POINTS", stdin=text)
        assert (wrong.code, complaint in wrong.err) == (1, True)
    assert mgw("aq", "enqueue", "DOCS", stdin="<a>").code == 1
    mgw.ok("aq", "enqueue", "ANY", stdin="hello")

    assert 'OE.POINT {"x":1.5,"y":2}' in mgw.ok("aq", "browse", "POINTS")
    shown = json.loads(mgw.ok("aq", "browse", "POINTS", "--json"))
    (shown,) = shown if isinstance(shown, list) else [shown]
    assert (shown["type"], shown["value"]) == ("OE.POINT", {"x": 1.5, "y": 2})
    mgw.ok("aq", "enqueue", "POINTS", stdin='{"x": 12345678901234567890.12, "y": 100}')
    assert '"value": {"x":12345678901234567890.12,"y":100}' in mgw.ok("aq", "browse", "POINTS", "--json")
    assert "SYS.VARCHAR2" in mgw.ok("aq", "browse", "ANY")
    assert "OE.POINT" in mgw.ok("aq", "queues")


def test_numbers_that_json_does_not_have_are_shown_as_text(mgw: Mgw) -> None:
    mgw.ok("apply", mgw.file(TABLES))
    with open_hub(f"sqlite:///{mgw.folder}/hub.db") as hub:
        QueueAdmin(hub).create_type("oe.point", {"x": "BINARY_DOUBLE"})
        QueueAdmin(hub).create_queue_table("points_t", "oe.point")
        QueueAdmin(hub).create_queue("POINTS", "points_t")
        QueueAdmin(hub).start_queue("POINTS")
        with hub.session() as session:
            session.enqueue("POINTS", Message(ObjectValue("OE.POINT", {"x": float("-inf")}), kind=PayloadKind.OBJECT))
            session.enqueue("ANY", Message(wrap(float("nan")), kind=PayloadKind.ANYDATA))
            session.commit()
    assert '{"x":"-inf"}' in mgw.ok("aq", "browse", "POINTS")
    assert '"nan"' in mgw.ok("aq", "browse", "ANY", "--json")
    assert '"nan"' in mgw.ok("aq", "dequeue", "ANY", "--body")


def test_every_kind_of_payload_goes_in_and_out(mgw: Mgw) -> None:
    file = """\
object_types:
  OE.P: {attributes: {x: NUMBER, y: VARCHAR2(5)}}
queues:
  RAW: {payload_type: raw}
  TEXT: {payload_type: text}
  JSON: {payload_type: json}
  XML: {payload_type: xmltype}
  OBJ: {payload_type: OE.P}
  ANY: {payload_type: anydata}
  FIELDS: {payload_type: fields}
"""
    mgw.ok("apply", mgw.file(file))
    digits = '{"x":12345678901234567890.12,"y":null}'
    for queue, given, options, shown in (
        ("RAW", "\x01", (), "\x01"),
        ("TEXT", "häh", (), "häh"),
        ("JSON", '{"a": 1.10}', (), '{"a": 1.10}'),
        ("XML", "<a/>", (), "<a/>"),
        ("OBJ", digits, (), digits),
        ("ANY", "text", (), "text"),
        ("ANY", "\x01", ("--raw",), "\x01"),
        ("ANY", "16.50", ("--type", "number"), "16.5"),
        ("ANY", digits, ("--type", "oe.p"), digits),
        ("FIELDS", '{"a": 1}', (), '{"a":1}'),
    ):
        mgw.ok("aq", "enqueue", queue, *options, stdin=given)
        if given == digits:
            assert f'"value": {digits}}}\n' in mgw.ok("aq", "browse", queue, "--json")
        assert mgw.ok("aq", "dequeue", queue, "--body") == shown


def test_wrong_bodies_and_names_are_explained(mgw: Mgw) -> None:
    mgw.ok("apply", mgw.file(TABLES + "  FIELDS: {payload_type: fields}\n  PLAIN: {}\n"))
    for words, code, expected in (
        (("enqueue", "FIELDS", "x"), 1, "the body cannot be used: it is not JSON"),
        (("enqueue", "ANY", "x", "--type", "oe.p"), 1, "the body cannot be used: it is not JSON"),
        (("enqueue", "ANY", "{}", "--type", "oe.p"), 1, "there is no type OE.P"),
        (("enqueue", "ANY", "x", "--type", "number"), 1, "ORA-22626"),
        (("enqueue", "PLAIN", "x", "--type", "number"), 2, "--type is for ANYDATA, queue PLAIN holds BASIC"),
        (("enqueue", "DOCS", "<a>"), 1, "not well-formed XML: Premature end of data in tag a line 1, line 1, column 4"),
        (("dequeue", "PLAIN", "--msgid", "zz"), 2, "--msgid 'zz' is not 32 hexadecimal digits"),
        (("dequeue", "PLAIN", "--msgid", "00"), 2, "--msgid '00' is not 32 hexadecimal digits"),
        (("dequeue", "nosuch"), 1, "queue 'nosuch' does not exist; known: ANY, DOCS, FIELDS, PLAIN\n"),
        (("grant", "read", "scott", "--queue", "PLAIN"), 2, "there is no privilege READ on queues"),
        (("tables", "enable-jms-types", "plain_tab"), 1, "ORA-24016"),
    ):
        done = mgw("aq", *words)
        assert (done.code, expected in done.err) == (code, True), done
    assert mgw.ok("aq", "tables", "enable-jms-types", "any_tab") == "queue table ANY_TAB accepts JMS and XML types\n"
    mgw.ok("aq", "enqueue", "ANY", "<a/>", "--type", "sys.xmltype")


def test_queues_of_jms_types_are_declared_listed_and_used(mgw: Mgw) -> None:
    text = """\
queues:
  TEXTS: {payload_type: "AQ$_JMS_text_message"}
  ALL: {payload_type: "SYS.AQ$_JMS_MESSAGE", multiple_consumers: true}
"""
    file = mgw.file(text)
    mgw.ok("apply", file)
    assert mgw.ok("plan", file) == "nothing to do: 2 objects match the files\n"
    assert "payload_type: SYS.AQ$_JMS_TEXT_MESSAGE" in mgw.ok("export")
    assert "jms_types" not in mgw.ok("export")
    mgw.ok("aq", "enqueue", "TEXTS", "hello")
    assert 'SYS.AQ$_JMS_TEXT_MESSAGE "hello"' in mgw.ok("aq", "dequeue", "TEXTS")
    assert mgw("aq", "tables", "create", "T", "--type", "SYS.AQ$_JMS_SONG_MESSAGE").err.count("ORA-24015")
