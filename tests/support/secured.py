"""The three brokers as a careful operator has them: TLS, a login with no more rights than it needs, nothing anonymous.

Clients of the tests use listeners of their own, under the name ``tester``, which may do everything.
"""

from __future__ import annotations

import base64
import hashlib
import json
import os
import shlex
from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from types import TracebackType
from typing import Self

from tests.support.brokers import Kafka, Mosquitto, RabbitMQ, Server

__all__ = ["PASSWORD", "Rights", "Secured"]

USER, PASSWORD = "gateway", "let me in: 42"
TESTER = "tester"

Rights = Mapping[str, Sequence[str]]
"""By messaging system, what the login of the gateway may do, in the words of the examples."""


class _Mosquitto(Mosquitto):
    """With a second user, and what the first one may do."""

    def __init__(self, rules: Iterable[str]) -> None:
        super().__init__(username=USER, password=PASSWORD, tls=True, config=())
        self._config = (f"acl_file {self.folder}/acl",)
        self._rules = [*rules, f"user {TESTER}", "topic readwrite #"]

    def prepare(self) -> None:
        (self.folder / "acl").write_text("\n".join(self._rules) + "\n")
        (self.folder / "acl").chmod(0o600)
        super().prepare()
        self.run(["mosquitto_passwd", "-b", str(self.folder / "passwords"), TESTER, TESTER])


class _RabbitMQ(RabbitMQ):
    """With virtual hosts, queues and two users from the start."""

    def __init__(self, vhosts: Iterable[str], queues: Iterable[str], rights: Sequence[str]) -> None:
        super().__init__(tls=True)
        self.username = self.password = TESTER
        self._config = (f"load_definitions = {self.folder}/definitions.json",)
        may = {USER: rights, TESTER: (".*", ".*", ".*")}
        names = list(vhosts)
        self._definitions = {
            "users": [_user(USER, PASSWORD), _user(TESTER, TESTER)],
            "vhosts": [{"name": name} for name in names],
            "permissions": [
                {"user": user, "vhost": name} | dict(zip(("configure", "write", "read"), each, strict=True))
                for name in names
                for user, each in may.items()
            ],
            "queues": [
                {"name": queue, "vhost": name, "durable": True, "auto_delete": False, "arguments": {}}
                for name in names
                for queue in queues
            ],
        }

    def prepare(self) -> None:
        super().prepare()
        (self.folder / "definitions.json").write_text(json.dumps(self._definitions))


def _user(name: str, password: str) -> dict[str, object]:
    salt = os.urandom(4)
    hashed = base64.b64encode(salt + hashlib.sha256(salt + password.encode()).digest()).decode()
    return {"name": name, "password_hash": hashed, "tags": []} | {"hashing_algorithm": "rabbit_password_hashing_sha256"}


class Secured:
    """A context manager: one RabbitMQ, one Kafka, one Mosquitto, with the queues and topics that are named."""

    def __init__(self, rights: Rights, *, vhosts: Iterable[str], queues: Iterable[str], topics: Iterable[str]) -> None:
        self._topics = list(topics)
        self._acls = rights["kafka"]
        (rabbit,) = dict.fromkeys(rights["rabbitmq"])
        self.rabbitmq = _RabbitMQ(vhosts, queues, shlex.split(rabbit)[-3:])
        self.mosquitto = _Mosquitto(rights["mqtt"])
        self.kafka = Kafka(
            tls=True,
            username=USER,
            password=PASSWORD,
            config={
                "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
                "super.users": "User:ANONYMOUS",  # listeners without a login, which are for the tests
            },
        )
        self._open = ExitStack()

    def __enter__(self) -> Self:
        servers: tuple[Server, ...] = (self.rabbitmq, self.kafka, self.mosquitto)
        with ThreadPoolExecutor() as pool:  # each waits for the other two no longer than for itself
            started = [pool.submit(self._open.enter_context, server) for server in servers]
        try:
            for each in started:
                each.result()
            for topic in self._topics:
                self.kafka.create_topic(topic)
            self.allow(self._acls)
        except BaseException:
            self._open.close()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._open.close()

    def variables(self, end: str, system: str, vhost: str) -> dict[str, str]:
        """What an example needs to find the broker; ``end`` is SOURCE or TARGET."""
        server = {"rabbitmq": self.rabbitmq, "kafka": self.kafka, "mqtt": self.mosquitto}[system]
        assert server.certificates is not None
        given = {f"{end}_CA_FILE": str(server.certificates.ca), f"{end}_PASSWORD": PASSWORD}
        if isinstance(server, Kafka):
            return given | {f"{end}_SERVERS": str(server.secure_bootstrap)}
        return given | {f"{end}_PORT": str(server.tls_port), f"{end}_VHOST": vhost}

    def allow(self, lines: Iterable[str]) -> None:
        """Do what ``kafka-acls.sh --add --allow-principal User:gateway`` does with these options, a line each."""
        from kafka.admin import (
            ACL,
            ACLOperation,
            ACLPermissionType,
            ACLResourcePatternType,
            ResourcePattern,
            ResourceType,
        )

        from tests.support.kafka_clients import KafkaAdminClient

        acls = []
        for line in lines:
            words = shlex.split(line)
            pairs = list(zip(words[::2], words[1::2], strict=True))
            options = dict(pairs)
            kind = "topic" if "--topic" in options else "transactional-id"
            pattern = options.get("--resource-pattern-type", "literal").upper()
            resource = ResourcePattern(
                ResourceType[kind.replace("-", "_").upper()], options[f"--{kind}"], ACLResourcePatternType[pattern]
            )
            for name, value in pairs:
                if name == "--operation":
                    operation = ACLOperation["".join(f"_{c}" if c.isupper() else c for c in value).strip("_").upper()]
                    acls.append(ACL(f"User:{USER}", "*", operation, ACLPermissionType.ALLOW, resource))
        admin = KafkaAdminClient(bootstrap_servers=self.kafka.bootstrap)
        try:
            admin.create_acls(acls)
        finally:
            admin.close()
