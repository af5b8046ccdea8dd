"""The command on a PostgreSQL hub, and against brokers that are there and that are not."""

from __future__ import annotations

import json
import socket

import pika
import pytest
import sqlalchemy as sa

from mgw.gateway.aq.hub import Hub
from mgw.transforms.message import Message
from tests.cli.conftest import COMPLETE, Mgw
from tests.support.brokers import PostgreSQL, RabbitMQ


@pytest.mark.postgresql
def test_configuration_and_status_are_the_same_on_postgresql(mgw: Mgw, postgresql: PostgreSQL) -> None:
    mgw.environ["MGW_HUB"] = postgresql.create_database("mgw_cli")
    assert mgw.ok("apply", mgw.file(COMPLETE)).splitlines()[-1] == "24 created"
    (mgw.folder / "export.yaml").write_text(mgw.ok("export"), "utf-8")
    assert mgw.ok("apply", "export.yaml").startswith("nothing to do: 24 objects")
    mgw.ok("aq", "enqueue", "news", "hello")
    jobs = {job["job_name"]: job for job in json.loads(mgw.ok("status", "--json"))["jobs"]}
    assert {name: job["backlog"] for name, job in jobs.items()} == {"ALL_NEWS": 1, "NEWS_OUT": 1, "ORDERS_IN": None}
    refused = mgw("apply", "--prune", mgw.file("version: 1\n", "empty.yaml"))
    assert (refused.code, refused.out) == (1, "")
    assert "remove job NEWS_OUT: 1 message, the oldest is " in refused.err.replace("news_out", "NEWS_OUT")
    assert mgw.ok("apply", "--prune", "--force", "empty.yaml").splitlines()[-1] == "24 removed"
    assert mgw.ok("export") == "version: 1\n"


def _link(port: int) -> str:
    settings = f"hostname: 127.0.0.1, port: {port}, username: guest, password: '${{LINK_PASSWORD}}'"
    return f"links:\n  rabbit: {{type: rabbitmq, {settings}}}\n"


@pytest.mark.rabbitmq
def test_link_test_says_what_works_and_that_a_password_is_wrong(mgw: Mgw, rabbitmq: RabbitMQ) -> None:
    mgw.environ["LINK_PASSWORD"] = rabbitmq.password
    mgw.ok("apply", mgw.file(_link(rabbitmq.port)))
    assert mgw.ok("links", "test", "RABBIT").startswith("ok ")
    mgw.environ["LINK_PASSWORD"] = "sesame-open-42"
    mgw.ok("apply", "gateway.yaml")
    result = mgw("links", "test", "rabbit")
    assert result.code == 1
    assert "FAIL" in result.out
    assert "sesame" not in result.out
    assert not all(check["ok"] for check in json.loads(mgw("links", "test", "rabbit", "--json").out))


@pytest.mark.rabbitmq
def test_user_name_is_shown_although_it_is_the_password(mgw: Mgw, rabbitmq: RabbitMQ) -> None:
    mgw.environ["LINK_PASSWORD"] = "nobody-here"
    mgw.ok("apply", mgw.file(_link(rabbitmq.port).replace("guest", "nobody-here")))
    assert "user 'nobody-here'" in mgw("links", "test", "rabbit").out


def test_link_test_says_that_nobody_listens(mgw: Mgw) -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    mgw.ok("apply", mgw.file(_link(port)))
    result = mgw("links", "test", "rabbit")
    assert (result.code, "FAIL" in result.out, str(port) in result.out) == (1, True, True)


@pytest.mark.postgresql
def test_hub_has_a_schema_of_its_own_where_there_are_tables_already(mgw: Mgw, postgresql: PostgreSQL) -> None:
    url = postgresql.create_database("shop_cli")
    engine = sa.create_engine(url)
    with engine.begin() as conn:
        conn.exec_driver_sql("CREATE TABLE purchase (id integer)")
    file = mgw.file("queues: {ORDERS: {payload_type: json}}\n")
    refused = mgw("apply", file, "--hub", f"{url}?schema=public")
    assert refused.code == 1
    assert "its schema public holds other tables (purchase)" in refused.err
    for schema in ("", "?schema=hub"):
        mgw.ok("apply", file, "--hub", url + schema)
        with Hub.open(url + schema) as hub, engine.begin() as conn:
            conn.exec_driver_sql("INSERT INTO purchase VALUES (1)")
            hub.session(conn).enqueue("ORDERS", Message(f'{{"schema": "{schema}"}}'))
        listed = mgw.ok("aq", "browse", "ORDERS", "--hub", url + schema)
        assert f'{{"schema": "{schema}"}}' in listed
    with engine.begin() as conn:
        assert conn.exec_driver_sql("SELECT payload_text FROM aq.browse('ORDERS')").scalars().all() == [
            '{"schema": ""}'
        ]
    engine.dispose()


@pytest.mark.rabbitmq
def test_a_job_is_not_altered_to_promise_less_than_it_requires(mgw: Mgw, rabbitmq: RabbitMQ) -> None:
    mgw.environ["LINK_PASSWORD"] = rabbitmq.password
    login = pika.PlainCredentials(rabbitmq.username, rabbitmq.password)
    with pika.BlockingConnection(pika.ConnectionParameters("127.0.0.1", rabbitmq.port, "/", login)) as connection:
        connection.channel().queue_declare("of_test_servers", durable=True)
    job = "{type: outbound, source: Q, destination: ORDERS@rabbit, require_guarantee: at-least-once%s}"
    text = _link(rabbitmq.port) + "foreign_queues:\n  ORDERS@rabbit: {domain: queue, provider_queue: of_test_servers}\n"
    text += "queues: {Q: {}}\njobs:\n  out: "
    mgw.ok("apply", mgw.file(text + job % ""))
    option = "JMS_DeliveryMode=NON_PERSISTENT"
    changed = mgw.file(text + job % ", options: {JMS_DeliveryMode: NON_PERSISTENT}", "changed.yaml")
    for words in (("jobs", "alter", "out", "--option", option), ("apply", changed)):
        refused = mgw(*words)
        assert (refused.code, "job out cannot promise at-least-once" in refused.err) == (1, True), refused
    assert mgw.ok("plan", "gateway.yaml").startswith("nothing to do")
