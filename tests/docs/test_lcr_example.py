"""The example of change records does what its README says: each change is made once, or not at all."""

from __future__ import annotations

import importlib.util
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pika
import pytest

from mgw.gateway.aq import Hub
from tests.cli.conftest import Mgw
from tests.support.brokers import RabbitMQ
from tests.support.waiting import eventually

EXAMPLE = Path(__file__).parents[2] / "examples" / "lcr-apply"


@pytest.fixture
def example(tmp_path: Path, rabbitmq: RabbitMQ, monkeypatch: pytest.MonkeyPatch) -> Iterator[tuple[Any, Mgw]]:
    """The program, and the command line on its hub."""
    folder = tmp_path / "example"
    shutil.copytree(EXAMPLE, folder)
    monkeypatch.setenv("MGW_HUB", f"sqlite:///{folder}/shop.db")
    environ = {
        "MGW_HUB": f"sqlite:///{folder}/shop.db",
        "RABBIT_PORT": str(rabbitmq.port),
        "RABBIT_USER": rabbitmq.username,
        "RABBIT_PASSWORD": rabbitmq.password,
    }
    mgw = Mgw(folder, environ)
    mgw.ok("apply", "gateway.yaml")
    spec = importlib.util.spec_from_file_location("lcr_apply", folder / "apply.py")
    assert spec is not None
    assert spec.loader is not None
    program = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(program)
    queues = "shop.changes", "shop.changes.not-read"
    with pika.BlockingConnection(pika.URLParameters(rabbitmq.url)) as connection:
        channel = connection.channel()
        for name in queues:
            channel.queue_declare(name, durable=True)
    yield program, mgw
    with pika.BlockingConnection(pika.URLParameters(rabbitmq.url)) as connection:
        for name in queues:
            connection.channel().queue_delete(name)


def test_changes_are_made_in_the_copy(example: tuple[Any, Mgw]) -> None:
    program, mgw = example
    engine = program.database()

    def rows() -> list[tuple[Any, ...]]:
        with engine.connect() as connection:
            return [tuple(row) for row in connection.execute(program.ORDERS.select().order_by(program.ORDERS.c.id))]

    made = 0
    with Hub.open(program.HUB) as hub, mgw.running():
        program.main(engine, ["table"])
        for words in (("INSERT", "1", "open"), ("INSERT", "2", "open"), ("UPDATE", "1", "paid"), ("DELETE", "2", "-")):
            program.main(engine, ["change", *words])

        def all_made() -> bool:
            nonlocal made
            made += program.apply(hub, engine, wait=0)
            return bool(made == 4)

        eventually(all_made, deadline=60)
        assert rows() == [(1, "paid")]

        program.main(engine, ["change", "UPDATE", "9", "paid"])

        def conflict() -> str:
            try:
                program.apply(hub, engine, wait=0)
            except program.Conflict as error:
                return str(error)
            return ""

        assert eventually(conflict, deadline=60) == "UPDATE of {'id': 9} met 0 rows"
        assert conflict()  # it is still there
        assert rows() == [(1, "paid")]
    engine.dispose()
