"""Every warning of every package is in the log of ``mgw run``, in its form; a library alone adds nothing to logging."""

from __future__ import annotations

import json
import logging
import re
import subprocess
import sys
from pathlib import Path

import pytest

from mgw.gateway.aq.hub import Hub
from mgw.links.client_logging import NotedOnly
from mgw.transforms.message import Message
from tests.cli.conftest import Mgw
from tests.cli.test_functions import running
from tests.support.brokers import RabbitMQ
from tests.support.waiting import eventually

#: Called by a job: makes each library, and each package that the agent does not make do so by itself, warn.
NOISY = """\
import logging
import os
import socket
import threading
import warnings
from contextlib import suppress
from datetime import UTC, datetime, timedelta

done = []


def noisy(message):
    if not done:
        done.append(True)
        for each in (of_pika, of_kafka, of_paho, of_sqlalchemy, of_apscheduler, of_python, of_admin, of_pipelines):
            each()
    return message


def of_pika():
    from pika.tcp_socket_opts import set_sock_opts

    with socket.socket() as opened:
        set_sock_opts({"NO_SUCH_OPTION": 1}, opened)


def of_kafka():
    import mgw.links.kafka.python_client.network
    from kafka.coordinator.heartbeat import Heartbeat

    Heartbeat(group_id="g", session_timeout_ms=1000, heartbeat_interval_ms=900)


def of_paho():
    import mgw.links.mqtt.connection
    from paho.mqtt.client import Client
    from paho.mqtt.enums import CallbackAPIVersion

    client = Client(CallbackAPIVersion.VERSION2)
    client.enable_logger()
    client.on_pre_connect = lambda *_: 1 // 0
    with suppress(ZeroDivisionError):
        client.connect("127.0.0.1", 1)


def of_sqlalchemy():
    import sqlalchemy as sa

    engine = sa.create_engine("sqlite://")
    with engine.connect() as conn:
        for name in "ab":
            conn.exec_driver_sql(f"CREATE TABLE {name} (x)")
        conn.execute(sa.select(*(sa.table(name, sa.column("x")) for name in "ab")))
    engine.dispose()


def of_apscheduler():
    from apscheduler.events import EVENT_JOB_MISSED
    from apscheduler.schedulers.background import BackgroundScheduler

    missed = threading.Event()
    scheduler = BackgroundScheduler(timezone="UTC")
    scheduler.add_listener(lambda _: missed.set(), EVENT_JOB_MISSED)
    scheduler.add_job(print, "date", run_date=datetime.now(UTC) - timedelta(seconds=9), misfire_grace_time=1)
    scheduler.start()
    missed.wait(30)
    scheduler.shutdown()


def of_python():
    warnings.warn("a warning of Python")


def of_admin():
    from mgw import GatewayAdmin, open_hub

    with open_hub(os.environ["MGW_HUB"]) as hub:
        GatewayAdmin(hub).create_agent("spare", "somebody", "password")


def of_pipelines():
    from mgw.pipelines.sink.publish import _log

    _log.warning("batch %d of query %s was written before; its rows are dropped", 1, "q")
"""
#: Component in the log and a part of the text, by where the warning is from.
EXPECTED = {
    "pika": ("pika.tcp_socket_opts", "Unsupported TCP option NO_SUCH_OPTION"),
    "kafka": ("kafka.coordinator.heartbeat", "heartbeat_interval_ms is high"),
    "paho": ("paho.mqtt.client", "Caught exception in on_pre_connect"),
    "sqlalchemy": ("py.warnings", "cartesian product"),
    "apscheduler": ("apscheduler.executors.default", "was missed by"),
    "Python": ("py.warnings", "a warning of Python"),
    "hub": ("AQN", "exception queue MGW.NOWHERE named by 1 message(s)"),
    "link": ("MSGD", "a message has no message-id"),
    "runtime": ("Engine", "job lost_out: failure 1"),
    "administration": ("AdminMgr", "has no effect"),
    "pipelines": ("mgw.pipelines.sink.publish", "batch 1 of query q was written before"),
}
CONFIGURATION = """\
version: 1
settings: {{transform_modules: [noisy_code]}}
links:
  mem: {{type: memory}}
  rabbit: {{type: rabbitmq, hostname: {0.host}, port: {0.port}, username: {0.username}, password: "{0.password}"}}
foreign_queues:
  out@mem: {{domain: queue}}
  nowhere@mem: {{domain: queue}}
  ids@rabbit: {{domain: queue, options: {{AMQP_UniqueIds: true}}}}
queues:
  NOISY: {{}}
  LOST: {{}}
  SHORT: {{}}
  IDS: {{}}
transformations:
  noisy: {{function: "noisy_code:noisy"}}
jobs:
  noisy_out: {{type: outbound, source: NOISY, destination: out@mem, transformation: noisy}}
  lost_out: {{type: outbound, source: LOST, destination: nowhere@mem}}
  ids_in: {{type: inbound, source: ids@rabbit, destination: IDS}}
"""
HEAD = re.compile(r">>\d{4}-\d\d-\d\d \d\d:\d\d:\d\d  MGW  (\S+)  (WARNING|ERROR)  (LOG|EXCEPTION|\d+)  \S.*")


def _publish_without_id(server: RabbitMQ) -> None:
    import pika

    with pika.BlockingConnection(pika.URLParameters(server.url)) as connection:
        channel = connection.channel()
        channel.queue_declare("ids", durable=True)
        channel.basic_publish("", "ids", b"x", pika.BasicProperties(delivery_mode=2))


@pytest.mark.rabbitmq
@pytest.mark.parametrize("form", ["text", "json"])
def test_a_warning_of_each_package_is_in_the_log_of_a_run(mgw: Mgw, rabbitmq: RabbitMQ, form: str) -> None:
    (mgw.folder / "noisy_code.py").write_text(NOISY, "utf-8")
    mgw.environ["PYTHONPATH"] = f"{mgw.folder}:{mgw.environment()['PYTHONPATH']}"
    mgw.environ["PYTHONWARNINGS"] = "default"
    mgw.ok("apply", mgw.file(CONFIGURATION.format(rabbitmq)))
    with Hub.open(mgw.environment()["MGW_HUB"]) as hub, hub.session() as session:
        session.enqueue("SHORT", Message("x", expiration=0.2, exception_queue="MGW.NOWHERE"))
        session.commit()
    mgw.ok("aq", "enqueue", "NOISY", "x")
    mgw.ok("aq", "enqueue", "LOST", "x")
    _publish_without_id(rabbitmq)
    with running(mgw, "--log-format", form) as said:
        (file,) = (mgw.folder / "log").iterdir()

        def missing() -> list[str]:
            shown = file.read_text("utf-8"), said()
            return [name for name, (_, text) in EXPECTED.items() if not all(text in each for each in shown)]

        eventually(lambda: not missing(), what="all warnings", deadline=90)
    _judge_file(file)
    _judge_output(said(), form)


def _judge_file(file: Path) -> None:
    records = file.read_text("utf-8").split("\n>>")
    for where, (component, text) in EXPECTED.items():
        found = [f">>{each.removeprefix('>>')}" for each in records if text in each]
        assert found, where
        head = HEAD.fullmatch(found[0].splitlines()[0])
        assert head is not None, (where, found[0])
        assert head[1] == component, (where, found[0])


def _judge_output(output: str, form: str) -> None:
    lines = output.splitlines()
    for where, (component, text) in EXPECTED.items():
        found = next(line for line in lines if text in line)
        if form == "json":
            entry = json.loads(found)
            assert (entry["level"], entry["component"]) in {("WARNING", component), ("ERROR", component)}, where
        else:
            head = rf"\d{{4}}-\d\d-\d\d \d\d:\d\d:\d\d (WARNING|ERROR  ) {re.escape(component)}: "
            assert re.match(head, found), (where, found)
    if form == "json":
        assert all(isinstance(json.loads(line), dict) for line in lines)


ALONE = """\
import logging, sys
from mgw import GatewayAdmin, open_hub
import mgw.links.kafka.python_client.network
import mgw.links.mqtt.connection, mgw.links.rabbitmq.connection, mgw.pipelines.sink.publish
from mgw.gateway.runtime import supervisor

with open_hub(sys.argv[1], create=True) as hub:
    GatewayAdmin(hub).create_agent("spare", "somebody", "password")  # warns
names = [name for name in logging.root.manager.loggerDict if name.partition(".")[0] == "mgw"]
loggers = [logging.root, *map(logging.getLogger, names)]
print(sorted({type(each).__name__ for logger in loggers for each in logger.handlers}))
print({logger.name for logger in loggers[1:] if logger.level != logging.NOTSET})
"""


def test_a_program_that_opens_a_hub_has_no_handler_and_no_level_more(tmp_path: Path) -> None:
    command = [sys.executable, "-c", ALONE, f"sqlite:///{tmp_path}/hub.db"]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert (done.stdout, done.stderr) == ("['NullHandler']\nset()\n", "")


def test_a_command_tells_warnings_on_standard_error(mgw: Mgw) -> None:
    mgw.ok("apply", mgw.file("version: 1\nqueues:\n  Q: {}\n"))
    mgw.ok("apply", mgw.file("version: 1\nagents:\n  spare: {}\n"))
    told = mgw("agents", "alter", "spare", "--initfile", "nowhere.ora")
    assert (told.code, told.out) == (0, "agent spare altered\n")
    assert told.err.startswith("mgw: warning: "), told.err
    assert "nowhere.ora does not exist on this host" in told.err


@pytest.mark.parametrize(
    ("beginnings", "text", "level"),
    [((), "anything", "INFO"), (("failed",), "failed to receive", "INFO"), (("failed",), "caught", "ERROR")],
)
def test_what_a_link_reports_itself_is_a_note(beginnings: tuple[str, ...], text: str, level: str) -> None:
    record = logging.LogRecord("client", logging.ERROR, __file__, 1, text, (), None)
    assert NotedOnly(*beginnings).filter(record)
    assert record.levelname == level
