"""The examples of applications do what their READMEs say: their tables and the hub's change in one transaction."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
import textwrap
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pika
import pytest
import sqlalchemy as sa

from mgw.gateway.aq.hub import Hub
from mgw.gateway.aq.model import DequeueMode, DequeueOptions
from mgw.transforms.errors import AqError
from tests.cli.conftest import Mgw
from tests.support.brokers import PostgreSQL, RabbitMQ

ROOT = Path(__file__).parents[2]
_BROWSE = DequeueOptions(dequeue_mode=DequeueMode.BROWSE, wait=0)


@dataclass
class Shop:
    """One of the examples, in a folder of its own, on a database."""

    name: str
    folder: Path
    mgw: Mgw
    url: str

    def python(self, *words: str) -> str:
        """Run Python there; its output."""
        done = subprocess.run(
            [sys.executable, *words],
            cwd=self.folder,
            env=self.mgw.environment(),
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
        assert (done.returncode, done.stderr) == (0, ""), done
        return done.stdout.strip()

    def make(self) -> None:
        """The tables of the example, and the hub next to them."""
        self.python(*(["manage.py", "migrate"] if self.name == "django" else ["shop.py", "tables"]))
        self.mgw.ok("apply", "gateway.yaml")

    def order(self, product: str, quantity: int) -> int:
        """The number of a new order."""
        return int(self.python("manage.py" if self.name == "django" else "shop.py", "order", product, str(quantity)))

    def run(self, django: str, sqlalchemy: str) -> None:
        """Run a few statements in the example."""
        before = {
            "django": "import django, os; os.environ['DJANGO_SETTINGS_MODULE'] = 'shop.settings'; django.setup()",
            "sqlalchemy": "from shop import *; engine = database(); hub = Hub.open(HUB)",
        }
        self.python("-c", before[self.name] + "\n" + textwrap.dedent(django if self.name == "django" else sqlalchemy))

    def orders(self) -> list[tuple[Any, ...]]:
        """Rows of the example's table."""
        engine = sa.create_engine(sa.make_url(self.url).difference_update_query(["schema"]))
        with engine.connect() as conn:
            found = conn.exec_driver_sql("SELECT product, quantity FROM shop_order ORDER BY id").all()
        engine.dispose()
        return [tuple(row) for row in found]

    def messages(self) -> list[Any]:
        """What is in the hub's queue."""
        with Hub.open(self.url) as hub, hub.session() as session:
            try:
                found = session.dequeue_array("ORDERS", _BROWSE, 100)
            except AqError as error:
                if error.number != 25228:
                    raise
                return []
        return [json.loads(str(each.message.body)) for each in found]


@pytest.fixture(params=["sqlite", "postgresql", "schema"])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[str]:
    """The address of a hub in the application's database; ``schema``: in one that the address names."""
    if request.param == "sqlite":
        yield f"sqlite:///{tmp_path}/shop.db"
        return
    server: PostgreSQL = request.getfixturevalue("postgresql")
    yield server.create_database("example") + ("?schema=messages" if request.param == "schema" else "")
    server.drop_database("example")


@pytest.fixture(params=["django", "sqlalchemy"])
def shop(request: pytest.FixtureRequest, url: str, tmp_path: Path, rabbitmq: RabbitMQ) -> Shop:
    folder = tmp_path / "example"
    shutil.copytree(ROOT / "examples" / f"{request.param}-shop", folder)
    environ = {
        "MGW_HUB": url,
        "PYTHONPATH": f"{folder}:{ROOT}",
        "RABBIT_PORT": str(rabbitmq.port),
        "RABBIT_USER": rabbitmq.username,
        "RABBIT_PASSWORD": rabbitmq.password,
        "PYTHONWARNINGS": "default",
    }
    made = Shop(request.param, folder, Mgw(folder, environ), url)
    made.make()
    return made


def test_commit_makes_both_rollback_makes_neither_and_the_message_arrives(shop: Shop, rabbitmq: RabbitMQ) -> None:
    number = shop.order("flour", 3)
    sent = {"order": number, "product": "flour", "quantity": 3}
    assert (shop.orders(), shop.messages()) == ([("flour", 3)], [sent])

    shop.run(
        django="""
            from django.db import transaction
            from shop.orders import place
            try:
                with transaction.atomic():
                    place("salt", 2)
                    raise ZeroDivisionError
            except ZeroDivisionError:
                pass
            with transaction.atomic():
                place("oil", 1)
                try:
                    with transaction.atomic():  # a savepoint
                        place("vinegar", 1)
                        raise ZeroDivisionError
                except ZeroDivisionError:
                    pass
        """,
        sqlalchemy="""
            with orm.Session(engine) as session:
                place(hub, session, "salt", 2)
                session.rollback()
                place(hub, session, "oil", 1)
                with session.begin_nested() as savepoint:
                    place(hub, session, "vinegar", 1)
                    savepoint.rollback()
                session.commit()
            engine.dispose()
            hub.close()
        """,
    )
    assert shop.orders() == [("flour", 3), ("oil", 1)]
    assert [each["product"] for each in shop.messages()] == ["flour", "oil"]

    with pika.BlockingConnection(pika.URLParameters(rabbitmq.url)) as connection:
        channel = connection.channel()
        channel.queue_declare("shop.orders", durable=True)
        arrived = []
        with shop.mgw.running():
            for _, _, body in channel.consume("shop.orders", auto_ack=True, inactivity_timeout=60):
                arrived.append(json.loads(body) if body else None)
                if len(arrived) == 2 or body is None:
                    break
        channel.queue_delete("shop.orders")
    assert [each and each["product"] for each in arrived] == ["flour", "oil"]
    assert shop.messages() == []
