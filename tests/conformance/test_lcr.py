"""Change records from an ANYDATA queue over a link and into an ANYDATA queue (AQ guide 12.2 §20.1.5)."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest

from mgw.gateway.aq.payloads.anydata import is_lcr, wrap
from mgw.links.memory.broker import MemoryBroker
from mgw.transforms.lcr import DDL, ROW, xml_to_lcr
from mgw.transforms.message import Header, Message, PayloadKind, ValueType
from tests.support.brokers import PostgreSQL
from tests.support.gateways import Gateway, gateway_on
from tests.support.waiting import eventually

UPDATE = wrap(
    {
        "source_database_name": "SHOP",
        "command_type": "UPDATE",
        "object_owner": "OE",
        "object_name": "ORDERS",
        "old_values": [{"column_name": "ID", "data": wrap(7)}],
        "new_values": [
            {"column_name": "STATE", "data": wrap("paid")},
            {"column_name": "NOTE", "data": wrap(None, "CHAR")},
        ],
    },
    ROW,
)
CREATE = wrap(
    {"source_database_name": "SHOP", "command_type": "CREATE TABLE", "ddl_text": "CREATE TABLE t (a NUMBER)"}, DDL
)


@pytest.fixture(params=["sqlite", pytest.param("postgresql", marks=[pytest.mark.postgresql])])
def gateway(request: pytest.FixtureRequest, tmp_path: Path, broker: MemoryBroker) -> Iterator[Gateway]:
    url = f"sqlite:///{tmp_path}/hub.db"
    if request.param == "postgresql":
        postgresql: PostgreSQL = request.getfixturevalue("postgresql")
        url = postgresql.create_database(f"lcr_{uuid.uuid4().hex[:12]}")
    with gateway_on(url) as gateway:
        gateway.admin.create_msgsystem_link("mem", "MEMORY", {"broker": broker.name})
        for name in ("CHANGES", "COPIES", "BAD"):
            gateway.queue(name, queue_payload_type="ANYDATA")
        for name in ("X", "XBAD"):
            gateway.admin.register_foreign_queue(name, "mem", name)
        yield gateway


@pytest.mark.parametrize("field", ["", "ORACLE_LCR"])
def test_records_travel_as_xml_and_come_back(gateway: Gateway, broker: MemoryBroker, field: str) -> None:
    canonical = "FIELDS" if field else "BASIC"
    for name, types in (("lcr_to_xml", ("ANYDATA", canonical)), ("xml_to_lcr", (canonical, "ANYDATA"))):
        definition = {"function": f"mgw.transforms.builtin:{name}", "options": {"field": field}}
        gateway.admin.create_transformation(name, *types, definition)
    gateway.admin.create_job("out", "OUTBOUND", "CHANGES", "X@mem", transformation="lcr_to_xml", exception_queue="BAD")
    gateway.enqueue("CHANGES", [Message(UPDATE), Message(wrap("no record")), Message(CREATE)])
    with gateway.run():
        eventually(lambda: len(broker.queue("X").messages) == 2)
    assert [message.body for message in gateway.browse("BAD")] == [wrap("no record")]
    sent = [message.body for message in broker.queue("X").messages]
    texts = [body[0].value if isinstance(body, tuple) else body for body in sent]
    assert [xml_to_lcr(str(text)) for text in texts] == [UPDATE, CREATE]

    gateway.admin.create_job(
        "in", "INBOUND", "X@mem", "COPIES", transformation="xml_to_lcr", exception_queue="XBAD@mem"
    )
    strange = "<ROW_LCR><scn>x</scn></ROW_LCR>"
    body = (Header(field, ValueType.TEXT, strange),) if field else strange
    broker.put("X", Message(body, kind=PayloadKind.FIELDS if field else PayloadKind.BASIC))
    with gateway.run():
        eventually(lambda: len(broker.queue("XBAD").messages) == 1)
        eventually(lambda: len(gateway.browse("COPIES")) == 2)
    bodies = [message.body for message in gateway.browse("COPIES")]
    assert bodies == [UPDATE, CREATE]
    assert all(map(is_lcr, bodies))  # type: ignore[arg-type]


def test_rules_see_what_a_record_changes(gateway: Gateway) -> None:
    gateway.queue("NEWS", queue_payload_type="ANYDATA", multiple_consumers=True)
    gateway.queues.add_subscriber(
        "NEWS",
        "orders",
        rule="tab.user_data.GetTypeName() = 'SYS.LCR$_ROW_RECORD' AND tab.user_data.object_name = 'ORDERS'",
    )
    gateway.queues.add_subscriber("NEWS", "all")
    gateway.enqueue("NEWS", [Message(UPDATE), Message(CREATE)])
    assert [message.body for message in gateway.browse("NEWS", "orders")] == [UPDATE]
    assert len(gateway.browse("NEWS", "all")) == 2
