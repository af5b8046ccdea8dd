"""The image, run by podman and runc as an operator would run it: read-only, without capabilities, brokers outside."""

from __future__ import annotations

import json
import os
import uuid
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, closing
from functools import partial
from pathlib import Path

import pytest
from cryptography.fernet import Fernet

from tests.demo import feed
from tests.demo.plant import CONFIGURATION, Plant
from tests.support import containers
from tests.support.brokers import Kafka, Mosquitto, PostgreSQL, RabbitMQ
from tests.support.containers import Container, podman
from tests.support.ports import free_port
from tests.support.waiting import eventually

pytestmark = [pytest.mark.matrix, pytest.mark.timeout(900)]

HARDENED = ("--network=host", "--read-only", "--tmpfs=/tmp", "--cap-drop=all", "--security-opt=no-new-privileges")
#: The gateway's user in the image.
USER = 10001
PASSWORD = "only in a file 4711"

Start = Callable[..., AbstractContextManager[Container]]


@pytest.fixture(scope="module")
def place(rabbitmq: RabbitMQ, kafka: Kafka, mosquitto: Mosquitto, tmp_path_factory: pytest.TempPathFactory) -> Plant:
    """The quickstart's brokers, outside of any container, with its queues and topics."""
    found = Plant(rabbitmq, kafka, mosquitto, tmp_path_factory.mktemp("plant"))
    found.make_queues()
    return found


@pytest.fixture
def start(image: str, place: Plant, tmp_path: Path) -> Iterator[Start]:
    """``start(**variables)`` runs the quickstart in a container; all of one test share a volume. Secrets are files."""
    secrets = tmp_path / "secrets"
    secrets.mkdir()
    user = f"gateway_{uuid.uuid4().hex[:8]}"
    with closing(place.amqp()) as connection:  # the hub of every test is new, its logs must be, too
        for job in ("orders_in", "readings_in", "alarms_to_rabbit"):
            for log in ("acks", "sent"):
                connection.channel().queue_delete(f"mgw.{log}.{job}")
    place.rabbitmq.ctl("add_user", user, PASSWORD)
    place.rabbitmq.ctl("set_permissions", user, ".*", ".*", ".*")
    (secrets / "rabbit_password").write_text(f"{PASSWORD}\n")
    (secrets / "secret_key").write_bytes(Fernet.generate_key())
    for path in (secrets, *secrets.iterdir()):
        os.chown(path, USER, USER)
        path.chmod(0o500 if path.is_dir() else 0o400)
    volume = f"mgw-{uuid.uuid4().hex[:12]}"
    variables = {
        "MGW_HTTP": f"127.0.0.1:{free_port()}",  # of the host, whose network it shares
        "MQTT_PORT": str(place.mosquitto.port),
        "RABBIT_PORT": str(place.rabbitmq.port),
        "RABBIT_USER": user,
        "RABBIT_PASSWORD_FILE": "/run/mgw/rabbit_password",
        "KAFKA_BOOTSTRAP": place.kafka.bootstrap,
        "MGW_SECRET_KEY_FILE": "/run/mgw/secret_key",
    }

    def begin(**other: str) -> AbstractContextManager[Container]:
        options = [*HARDENED, f"--volume={volume}:/var/lib/mgw", f"--volume={secrets}:/run/mgw:ro"]
        options.append(f"--volume={CONFIGURATION}:/etc/mgw/quickstart.yaml:ro")
        options += [f"--env={name}={value}" for name, value in (variables | other).items()]
        return containers.run(image, "run", "/etc/mgw/quickstart.yaml", options=options)

    yield begin
    podman("volume", "rm", "--force", volume, check=False)


def _jobs(container: Container) -> dict[str, dict[str, object]]:
    rows: list[dict[str, object]] = json.loads(container.exec("mgw", "jobs", "list", "--json"))
    return {str(row["job_name"]).lower(): row for row in rows}


def _is(container: Container, job: str, column: str, value: object) -> bool:
    return _jobs(container).get(job, {}).get(column) == value


def _moved(container: Container, job: str, count: int) -> None:
    def enough() -> bool:
        found = _jobs(container).get(job)  # it is not there before the file is applied
        return found is not None and int(str(found["propagated_total"])) >= count

    eventually(enough, what=f"{count} messages of job {job}", deadline=120)


def _texts(place: Plant, topic: str, count: int) -> list[str]:
    return [value.strip() for _, _, value in feed.kafka_read(place.kafka, topic, count)]


def test_the_quickstart_runs_without_rights_and_ends_drained(start: Start, place: Plant) -> None:
    readings = [json.dumps({"id": number, "fahrenheit": number}) for number in range(40)]
    with start() as container:
        container.says("up and running")
        # What is published before a job has subscribed is lost to it.
        subscribed = partial(_is, container, "telemetry_in", "activity", "IDLE")
        eventually(subscribed, what="a subscription", deadline=120)
        feed.publish_lines(place.rabbitmq, "readings", readings)
        feed.mosquitto_publish(
            place.mosquitto, "plant/press1/telemetry", ['{"temperature": 20}', '{"temperature": 90}']
        )
        _moved(container, "readings_to_kafka", len(readings))
        _moved(container, "telemetry_to_kafka", 2)
        _moved(container, "alarms_to_rabbit", 1)
        eventually(container.healthy, what="a content HEALTHCHECK", deadline=60)

        status = dict(
            line.split(":\t", 1) for line in container.exec("cat", "/proc/1/status").splitlines() if ":\t" in line
        )
        assert status["Uid"].split() == [str(USER)] * 4
        assert {int(status[name], 16) for name in ("CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb")} == {0}
        assert status["NoNewPrivs"] == "1"
        for folder in ("/", "/opt/mgw", "/etc/mgw", "/run/mgw"):
            assert container.exec("sh", "-c", f"touch {folder}/x 2>/dev/null || echo closed") == "closed\n", folder
        assert PASSWORD not in podman("inspect", "--type=container", container.id) + container.log()

        container.exec("mgw", "agents", "shutdown")
        eventually(lambda: not container.healthy(), what="a HEALTHCHECK that sees the stopped agent", deadline=60)
        assert container.stop() == 0, container.log()
        assert "Traceback" not in container.log()
    ids = sorted(json.loads(text)["id"] for text in _texts(place, "readings", len(readings)))
    assert ids == list(range(len(readings)))
    assert len(_texts(place, "plant.telemetry", 2)) == 2
    assert place.depth("alarms") == 1


def test_killed_while_it_moves_it_goes_on_with_its_volume_and_loses_nothing(start: Start, place: Plant) -> None:
    orders = [f'{{"order": {number}}}' for number in range(3000)]
    feed.publish_lines(place.rabbitmq, "orders", orders)
    with start() as container:
        _moved(container, "orders_in", 100)
        container.kill()
        assert container.state()["ExitCode"] == 137
    with start() as container:
        container.says("up and running")
        # What the gateway has and has not acknowledged counts, too: it is not in the hub yet.
        eventually(lambda: place.held("orders") == 0, what="an empty queue at RabbitMQ", deadline=120)
        eventually(lambda: _jobs(container)["orders_to_kafka"]["backlog"] == 0, what="an empty hub", deadline=120)
        assert container.stop() == 0, container.log()
    assert set(_texts(place, "orders", len(orders))) == set(orders)


def test_the_hub_may_be_a_postgresql_outside(start: Start, place: Plant, postgresql: PostgreSQL) -> None:
    name = f"image_{uuid.uuid4().hex[:8]}"
    postgresql.create_database(name)
    address = f"postgresql+psycopg://{postgresql.username}@127.0.0.1:{postgresql.port}/{name}"
    before = len(_texts(place, "readings", 0))
    with start(MGW_HUB=address) as container:
        container.says("up and running")
        feed.publish_lines(place.rabbitmq, "readings", ['{"id": 1, "fahrenheit": 32}'])
        _moved(container, "readings_to_kafka", 1)
        eventually(container.healthy, what="a content HEALTHCHECK", deadline=60)
        assert container.stop() == 0, container.log()
    assert json.loads(_texts(place, "readings", before + 1)[-1])["celsius"] == 0


def test_only_what_runs_is_in_the_image(image: str) -> None:
    inside = podman("run", "--rm", "--pull=never", "--entrypoint=/opt/mgw/bin/python", image, "-c", INSIDE)
    assert json.loads(inside) == []
    sizes = [int(json.loads(podman("image", "inspect", name))[0]["Size"]) for name in (image, containers.BASE)]
    assert sizes[0] - sizes[1] < 160 << 20, sizes
    assert podman("run", "--rm", "--pull=never", image, "--version").startswith("mgw ")


INSIDE = """
import importlib.util, json
print(json.dumps([n for n in ("pip", "setuptools", "pyspark", "pytest", "mypy") if importlib.util.find_spec(n)]))
"""
