"""The Kafka link, on kafka-python.

What it lacks (see ``SPEC.capabilities``): Kafka has no field for a message id, a priority or an expiration, and does
not tell text from bytes. The message id travels in header ``MGW_AQ_messageID``; with the job option AQ_MsgProperties
priority and expiration travel in headers, too. A source is one topic, not a pattern, because its positions belong to
one topic. There is no queue domain: a topic keeps what was read.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Sequence
from dataclasses import replace
from typing import Any

from links import kafka_checks
from links.contract import (
    Capability,
    Check,
    Destination,
    Direction,
    Domain,
    Endpoint,
    Field,
    GuaranteeReport,
    JobUse,
    LinkConfig,
    LinkSpec,
)
from links.kafka_client import Settings, describe, settings_of
from links.kafka_destination import KafkaDestination
from links.kafka_exact import KafkaExactDestination
from links.kafka_log import SendingLog, describe_log
from links.kafka_source import KafkaSource
from links.kafka_transaction import open_transactions
from links.listening import address, listening
from links.options import parse
from transforms.errors import AdminError, ConfigInvalid, QueueMissing
from transforms.kafka import KeyFrom, Rules

__all__ = ["SPEC", "KafkaLink", "open_link"]

_MILLISECONDS = 3_600_000

SPEC = LinkSpec(
    type="KAFKA",
    title="Apache Kafka",
    description="Topics of a Kafka cluster, with keys, partitions and headers.",
    attributes=(
        Field(
            "bootstrap_servers",
            "Servers to ask first, host:port, separated by commas.",
            required=True,
            alterable=False,
        ),
        Field(
            "security_protocol",
            "How the listener speaks: plain or TLS (SSL), with or without login (SASL).",
            default="PLAINTEXT",
            choices=("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL"),
            alterable=False,
        ),
        Field(
            "sasl_mechanism",
            "How the link's user name and password are proven (with SASL).",
            default="SCRAM-SHA-512",
            choices=("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512"),
            alterable=False,
        ),
        Field("tls_ca_file", "PEM file of the authorities to trust; without it those of the system."),
        Field("tls_cert_file", "PEM file of the client certificate, where the cluster asks for one."),
        Field("tls_key_file", "PEM file of the key of the client certificate."),
    ),
    options=(
        Field(
            "KAFKA_Linger_ms",
            "Milliseconds to wait for more records before a request.",
            int,
            1,
            minimum=0,
            maximum=1000,
        ),
        Field("KAFKA_Batch_size", "Bytes of one record batch.", int, 262_144, minimum=1024, maximum=16_777_216),
        Field(
            "KAFKA_Compression_type",
            "Compression of record batches.",
            default="none",
            choices=("none", "gzip", "lz4", "snappy", "zstd"),
        ),
        Field(
            "KAFKA_Max_request_size",
            "Largest message in bytes; without it what the topic takes (max.message.bytes).",
            int,
            minimum=1024,
            maximum=134_217_728,
        ),
        Field(
            "KAFKA_Request_timeout_ms",
            "Milliseconds to wait for the answer to one request.",
            int,
            10_000,
            minimum=1000,
            maximum=_MILLISECONDS,
        ),
        Field(
            "KAFKA_Delivery_timeout_ms",
            "Milliseconds without any confirmation after which a destination gives up and connects anew.",
            int,
            30_000,
            minimum=1000,
            maximum=_MILLISECONDS,
        ),
        Field(
            "KAFKA_Bootstrap_timeout_ms",
            "Milliseconds to find a server of the cluster.",
            int,
            10_000,
            minimum=500,
            maximum=_MILLISECONDS,
        ),
        Field(
            "KAFKA_Metadata_max_age_ms",
            "Milliseconds after which topics and partitions are looked up again.",
            int,
            15_000,
            minimum=100,
            maximum=_MILLISECONDS,
        ),
        Field("KAFKA_Fetch_max_bytes", "Bytes of one answer.", int, 52_428_800, minimum=1024, maximum=536_870_912),
        Field(
            "KAFKA_Max_partition_fetch_bytes",
            "Bytes of one partition in one answer.",
            int,
            1_048_576,
            minimum=1024,
            maximum=134_217_728,
        ),
    ),
    queue_options=(
        Field(
            "KAFKA_Key",
            "What the record's key is (header MGW_KAFKA_key wins).",
            default="CORRELATION",
            choices=tuple(KeyFrom),
            alterable=False,
        ),
        Field(
            "KAFKA_ValueType",
            "Body of messages read: bytes (RAW) or UTF-8 text.",
            default="RAW",
            choices=("RAW", "TEXT"),
            alterable=False,
        ),
        Field(
            "KAFKA_HeaderType",
            "Headers of messages read, where their sender was not a gateway: bytes (RAW) or UTF-8 text.",
            default="RAW",
            choices=("RAW", "TEXT"),
            alterable=False,
        ),
        Field(
            "KAFKA_Partition",
            "Partition of messages sent: header MGW_KAFKA_partition if there is one, or always by the key.",
            default="HEADER",
            choices=("HEADER", "KEY"),
            alterable=False,
        ),
        Field(
            "KAFKA_StartAt",
            "Where a new job begins to read: behind the last message (latest) or at the first (earliest).",
            default="latest",
            choices=("latest", "earliest"),
            alterable=False,
        ),
    ),
    job_options=(
        Field(
            "AQ_MsgProperties",
            "Carry priority, delay, expiration, exception queue, original id and sender as headers MGW_AQ_*.",
            bool,
            False,
            dynamic=True,
        ),
        Field(
            "PreserveMessageID",
            "Carry the message id; a Kafka record has it always, in header MGW_AQ_messageID.",
            bool,
            False,
            dynamic=True,
        ),
    ),
    domains=(None, Domain.TOPIC),
    capabilities=frozenset(
        (
            Capability.REDELIVERY,
            Capability.PUSH,
            Capability.TYPED_HEADERS,
            Capability.TEXT_HEADERS,
            Capability.RAW_HEADERS,
            Capability.REPEATED_HEADERS,
            Capability.CORRELATION,
            Capability.NULL_BODY,
            Capability.POSITIONS,
            Capability.BACKLOG,
            Capability.TOPIC_DOMAIN,
        )
    ),
    extra="kafka",
)

_TOPIC = re.compile(r"[a-zA-Z0-9._-]{1,249}")
_ADDRESS = re.compile(r"[^:,\s]+(:\d{1,5})?|\[[0-9a-fA-F:]+\]:\d{1,5}")


def open_link(config: LinkConfig) -> KafkaLink:
    """A Kafka link; connects nothing yet.

    Raises:
        ConfigInvalid: an attribute or option that can never work.
    """
    return KafkaLink(config)


class KafkaLink:
    """See :class:`links.contract.Link`."""

    def __init__(self, config: LinkConfig) -> None:
        self.config = config
        owner = f"link {config.name}"
        attributes = parse(SPEC.attributes, config.attributes, owner)
        for server in attributes["bootstrap_servers"].split(","):
            if not _ADDRESS.fullmatch(server.strip()):
                raise ConfigInvalid(
                    f"{owner}: bootstrap_servers cannot have {server.strip()!r}",
                    cause="a server is host:port",
                    cure="write for example kafka1.example:9092,kafka2.example:9092",
                )
        if config.inbound_log_queue is not None:
            raise ConfigInvalid(
                f"{owner}: inbound_log_queue is refused",
                cause="a Kafka link needs none: the positions of jobs that read from it are kept in the hub",
                cure="leave inbound_log_queue out; such jobs are exactly once without it",
            )
        if config.outbound_log_queue is not None and not _is_topic(config.outbound_log_queue):
            raise ConfigInvalid(
                f"{owner}: outbound_log_queue cannot be {config.outbound_log_queue!r}",
                cause="it is the name of a topic: letters, digits, '.', '_', '-', at most 249",
                cure="name a compacted topic with a partition for every job that writes to the link",
            )
        self._settings: Settings = settings_of(config, attributes, parse(SPEC.options, config.options, owner))

    def test(self) -> Sequence[Check]:
        """See :meth:`links.contract.Link.test`."""
        return kafka_checks.test_link(self._settings)

    def listening(self) -> frozenset[str]:
        """See :meth:`links.contract.Link.listening`. Servers that bootstrap_servers does not name are not asked."""
        return listening([address(server, 9092) for server in self._settings.servers])

    def verify(self, use: JobUse, direction: Direction) -> GuaranteeReport:
        """See :meth:`links.contract.Link.verify`."""
        topic = describe(self._settings, use.endpoint.provider_queue, "verify", direction)
        if direction is Direction.INBOUND:
            return kafka_checks.report_inbound(topic)
        if self._settings.log_topic is None:
            return kafka_checks.report_outbound(topic, None)
        log, state = describe_log(self._settings, "verify"), kafka_checks.transaction_state(self._settings)
        return kafka_checks.report_outbound(topic, log, state)

    def check_endpoint(self, endpoint: Endpoint, direction: Direction | None) -> None:
        """See :meth:`links.contract.Link.check_endpoint`."""
        name = endpoint.provider_queue
        cause = cure = ""
        if endpoint.domain not in SPEC.domains:
            cause, cure = f"Kafka has no domain {endpoint.domain}", "leave the domain out, or use TOPIC"
        elif not _is_topic(name):
            cause = f"{name!r} is not the name of a topic: letters, digits, '.', '_', '-', at most 249; no patterns"
            cure = "register one foreign queue for each topic"
        elif direction is Direction.OUTBOUND and name == self._settings.log_topic:
            cause, cure = f"topic {name} is the link's sending log (outbound_log_queue)", "write to another topic"
        if cause:
            raise AdminError(f"foreign queue {endpoint.full_name} is refused", cause=cause, cure=cure)
        try:
            parse(SPEC.queue_options, endpoint.options, f"foreign queue {endpoint.full_name}")
        except ConfigInvalid as error:
            raise AdminError(error.what, cause=error.cause, cure=error.cure) from error

    def source(self, use: JobUse) -> KafkaSource:
        """See :meth:`links.contract.Link.source`."""
        options, rules = _rules(use)
        return KafkaSource(self._settings, use, rules, from_start=options["kafka_startat"] == "earliest")

    def destination(self, use: JobUse) -> Destination:
        """See :meth:`links.contract.Link.destination`; exactly once where the link has an outbound_log_queue."""
        kind = KafkaDestination if self._settings.log_topic is None else KafkaExactDestination
        return kind(self._settings, use, _rules(use)[1])

    def forget(self, use: JobUse, direction: Direction) -> None:
        """Remove the job's record from the sending log; the positions of a job that reads are the hub's."""
        if direction is Direction.INBOUND or self._settings.log_topic is None:
            return
        transactions = open_transactions(self._settings, use, 1_048_576)
        try:
            SendingLog(self._settings, use).forget(transactions)
        except QueueMissing:
            return
        finally:
            transactions.close()

    def clean_logs(
        self,
        hub_id: str,
        uses: Sequence[tuple[JobUse, Direction]],
        broken: Collection[str],
        lives: Callable[[str], bool],
    ) -> Sequence[str]:
        """See :class:`links.log_cleaning.KeepsLogs`."""
        if self._settings.log_topic is None or not uses:
            return []
        jobs, any_use, removed = {use.job for use, _ in uses}, uses[0][0], []
        for key, readable in SendingLog(self._settings, any_use).owners().items():
            owner, _, job = key.decode(errors="replace").partition("/")
            unreadable = not readable and job in jobs and job in broken
            if owner != hub_id or (not unreadable and lives(job)):
                continue
            self.forget(replace(any_use, job=job, hub_id=hub_id), Direction.OUTBOUND)
            why = "which cannot be read" if unreadable else "which does not exist any more"
            removed.append(f"removed the record of job {job}, {why}, from log topic {self._settings.log_topic}")
        return removed


def _is_topic(name: str) -> bool:
    return bool(_TOPIC.fullmatch(name)) and name not in (".", "..")


def _rules(use: JobUse) -> tuple[dict[str, Any], Rules]:
    options = parse(SPEC.queue_options, use.endpoint.options, f"foreign queue {use.endpoint.full_name}")
    job = parse(SPEC.job_options, use.options, f"job {use.job}", foreign=True)
    return options, Rules(
        key=KeyFrom(options["kafka_key"]),
        text_value=options["kafka_valuetype"] == "TEXT",
        text_headers=options["kafka_headertype"] == "TEXT",
        take_partition=options["kafka_partition"] == "HEADER",
        properties=job["aq_msgproperties"],
        original=not use.logged,
    )
