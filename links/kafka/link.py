"""The Kafka link, on kafka-python or librdkafka (:mod:`mgw.links.kafka.client`).

What it lacks (see ``SPEC.capabilities``): Kafka has no field for a message id, a priority or an expiration, and does
not distinguish text from bytes. The message id travels in header ``MGW_AQ_messageID``; with the job option
AQ_MsgProperties priority and expiration travel in headers, too. A source is one topic, not a pattern, because its
positions belong to one topic. There is no queue domain: a topic keeps what was read.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import closing
from dataclasses import replace
from typing import Any

from mgw.links.certificates import Certificate, certificates_of
from mgw.links.contract import (
    Check,
    Delivery,
    Destination,
    Direction,
    Endpoint,
    GuaranteeReport,
    JobUse,
    LinkConfig,
)
from mgw.links.header_names import is_documented
from mgw.links.inspection import Existence
from mgw.links.kafka import guarantee, probe
from mgw.links.kafka.connection import client_of, describe
from mgw.links.kafka.destination import KafkaDestination
from mgw.links.kafka.kept_topic import KeptTopic, without_origin
from mgw.links.kafka.logged_destination import KafkaExactDestination
from mgw.links.kafka.preparation import prepare
from mgw.links.kafka.replayed_topic import ReplayedTopic
from mgw.links.kafka.sending_log import SendingLog, describe_log
from mgw.links.kafka.settings import Settings, settings_of
from mgw.links.kafka.source import KafkaSource
from mgw.links.kafka.spec import CLIENTS, DEFAULT_CLIENT, SPEC
from mgw.links.kafka.tls import tls_context
from mgw.links.listening import address, listening
from mgw.links.log_preparation import LogStep
from mgw.links.options import parse
from mgw.links.place import Place
from mgw.transforms.errors import AdminError, ConfigInvalid, QueueMissing
from mgw.transforms.kafka import KeyFrom, Rules
from mgw.transforms.message import Message

__all__ = ["SPEC", "KafkaLink", "check_client", "open_link"]


_LOOK_SECONDS, _LOOK_SLICE = 10.0, 1.0
_TOPIC = re.compile(r"[a-zA-Z0-9._-]{1,249}")
_ADDRESS = re.compile(r"[^:,\s]+(:\d{1,5})?|\[[0-9a-fA-F:]+\]:\d{1,5}")


def open_link(config: LinkConfig) -> KafkaLink:
    """A Kafka link; connects nothing yet.

    Raises:
        ConfigInvalid: an attribute or option that can never work.
    """
    return KafkaLink(config)


def check_client(attributes: Mapping[str, Any]) -> None:
    """See that the client library which a link with these attributes uses is installed.

    Raises:
        LinkError: it is not.
    """
    chosen = next((value for name, value in attributes.items() if str(name).lower() == "client"), DEFAULT_CLIENT)
    if chosen in CLIENTS:  # else it is refused as a value
        client_of(str(chosen))


class KafkaLink:
    """See :class:`mgw.links.contract.Link`."""

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
                cause="a Kafka link does not need it: the positions of jobs that read from it are kept in the hub",
                cure="remove inbound_log_queue; such jobs are exactly once without it",
            )
        if config.outbound_log_queue is not None and not _is_topic(config.outbound_log_queue):
            raise ConfigInvalid(
                f"{owner}: outbound_log_queue cannot be {config.outbound_log_queue!r}",
                cause="it is the name of a topic: letters, digits, '.', '_', '-', at most 249",
                cure="name a compacted topic with a partition for every job that writes to the link",
            )
        self._attributes = attributes
        self._settings: Settings = settings_of(
            config, client_of(attributes["client"]), attributes, parse(SPEC.options, config.options, owner)
        )

    def _fresh(self) -> Settings:
        """The settings with the TLS files as they are now: a certificate may be renewed while the link lives."""
        common = self._settings.common
        if "ssl_context" not in common:
            return self._settings
        return replace(
            self._settings,
            common={**common, "ssl_context": tls_context(self._settings.tls, ",".join(self._settings.servers))},
        )

    def test(self) -> Sequence[Check]:
        """See :meth:`mgw.links.contract.Link.test`."""
        return probe.run_checks(self._fresh())

    def listening(self) -> frozenset[str]:
        """See :meth:`mgw.links.contract.Link.listening`. Servers that bootstrap_servers does not name are not asked."""
        return listening([address(server, 9092) for server in self._settings.servers])

    def certificates(self) -> Sequence[Certificate]:
        """See :class:`mgw.links.certificates.ShowsCertificates`. Servers that bootstrap_servers does not name are not
        asked."""
        return certificates_of(self._settings.tls, [address(server, 9092) for server in self._settings.servers])

    def verify(self, use: JobUse, direction: Direction) -> GuaranteeReport:
        """See :meth:`mgw.links.contract.Link.verify`."""
        settings = self._fresh()
        topic = describe(settings, use.endpoint.provider_queue, "verify", direction)
        use.attempt.of(self, _Answers).cluster = topic.cluster_id
        if direction is Direction.INBOUND:
            return guarantee.report_inbound(topic)
        if settings.log_topic is None:
            return guarantee.report_without_log(settings.link)
        log, state = describe_log(settings, "verify"), guarantee.transaction_state(settings)
        asks = settings.client.asks_for_transactions
        return guarantee.report_outbound(topic, log, state, asks_for_transactions=asks)

    def place(self, use: JobUse, direction: Direction) -> Place:
        """See :class:`mgw.links.place.KnowsPlace`."""
        answers, settings = use.attempt.of(self, _Answers), self._settings
        if answers.cluster is None:
            answers.cluster = describe(self._fresh(), use.endpoint.provider_queue, "connect", direction).cluster_id
        log = settings.log_topic if direction is Direction.OUTBOUND and use.logged else None
        system = f"cluster {answers.cluster}" if answers.cluster else ""
        return Place(",".join(settings.servers), system, f"log topic {log}" if log else "")

    def check_endpoint(self, endpoint: Endpoint, direction: Direction | None) -> None:
        """See :meth:`mgw.links.contract.Link.check_endpoint`."""
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
        """See :meth:`mgw.links.contract.Link.source`."""
        options, rules = _rules(use, documented=is_documented(self._attributes))
        return KafkaSource(self._fresh(), use, rules, from_start=options["kafka_startat"] == "earliest")

    def destination(self, use: JobUse) -> Destination:
        """See :meth:`mgw.links.contract.Link.destination`; exactly once where the link has an outbound_log_queue."""
        kind = KafkaDestination if self._settings.log_topic is None else KafkaExactDestination
        return kind(self._fresh(), use, self._rules(use))

    def forget(self, use: JobUse, direction: Direction) -> None:
        """Remove the job's record from the sending log; the positions of a job that reads are the hub's."""
        if direction is Direction.INBOUND or self._settings.log_topic is None:
            return
        settings = self._fresh()
        transactions = settings.client.transactions(settings, use, 1_048_576)
        try:
            SendingLog(settings, use).forget(transactions)
        except QueueMissing:
            return
        finally:
            transactions.close()

    def prepare_logs(self, uses: Sequence[tuple[JobUse, Direction]], *, dry_run: bool) -> Sequence[LogStep]:
        """See :class:`mgw.links.log_preparation.PreparesLogs`."""
        writers = [use for use, direction in uses if direction is Direction.OUTBOUND]
        return prepare(self._fresh(), writers, dry_run=dry_run) if self._settings.log_topic is not None else []

    def clean_logs(
        self,
        hub_id: str,
        uses: Sequence[tuple[JobUse, Direction]],
        broken: Collection[str],
        lives: Callable[[str], bool],
    ) -> Sequence[str]:
        """See :class:`mgw.links.log_cleaning.KeepsLogs`."""
        if self._settings.log_topic is None or not uses:
            return []
        jobs, any_use, removed = {use.job for use, _ in uses}, uses[0][0], []
        for key, readable in SendingLog(self._fresh(), any_use).owners().items():
            owner, _, job = key.decode(errors="replace").partition("/")
            unreadable = not readable and job in jobs and job in broken
            if owner != hub_id or (not unreadable and lives(job)):
                continue
            self.forget(replace(any_use, job=job, hub_id=hub_id), Direction.OUTBOUND)
            why = "which cannot be read" if unreadable else "which no longer exists"
            removed.append(f"removed the record of job {job}, {why}, from log topic {self._settings.log_topic}")
        return removed

    # -- set-up -------------------------------------------------------------------------------------------------------

    def find_queue(self, endpoint: Endpoint) -> Existence:
        """See :class:`mgw.links.inspection.FindsQueues`."""
        settings, name = self._fresh(), endpoint.provider_queue
        try:
            topic = describe(settings, name, "verify", None)
        except QueueMissing as error:
            servers = ",".join(settings.servers)
            made = f"kafka-topics.sh --bootstrap-server {servers} --create --topic {name} --partitions 3"
            return Existence(False, f"the cluster shows no topic {name} to this user ({error.cause})", made)
        return Existence(
            True,
            f"topic {name} has {len(topic.partitions)} partition(s), the fewest replicas of one are {topic.replicas}",
        )

    def first_message(self, use: JobUse) -> Delivery | None:
        """See :class:`mgw.links.inspection.ShowsMessages`: no group is joined, and no position is stored."""
        source = KafkaSource(self._fresh(), use, self._rules(use), from_start=True)
        with closing(source):
            source.connect({})
            end = use.clock.monotonic() + _LOOK_SECONDS
            while use.clock.monotonic() < end:
                batch = source.read(1, _LOOK_SLICE)
                if batch.deliveries:
                    return batch.deliveries[0]
                if (left := source.backlog()) is not None and not left.messages:
                    return None
        return None

    # -- the exception desk -------------------------------------------------------------------------------------------

    def exceptions_reader(self, use: JobUse) -> KeptTopic:
        """See :class:`mgw.links.reading_back.ReadsBack`."""
        found = KeptTopic(self._fresh(), use, self._rules(use))
        use.attempt.of(self, _Answers).cluster = found.topic.cluster_id
        return found

    def exceptions_writer(self, use: JobUse, to: JobUse | None = None) -> Destination:
        """See :class:`mgw.links.reading_back.ReadsBack`."""
        target = use if to is None else to
        return ReplayedTopic(self._fresh(), target, self._rules(target), same_partition=to is None)

    def came_from(self, use: JobUse, origin: str) -> bool:
        """See :class:`mgw.links.reading_back.ReadsBack`."""
        return origin.rpartition("@")[0].rpartition("/")[0] == use.endpoint.provider_queue

    def sent_again(self, message: Message) -> Message:
        """See :class:`mgw.links.reading_back.ReadsBack`."""
        return without_origin(message)

    def _rules(self, use: JobUse) -> Rules:
        return _rules(use, documented=is_documented(self._attributes))[1]


class _Answers:
    """What was found out before in an attempt of a job."""

    def __init__(self) -> None:
        self.cluster: str | None = None  # id; "" where the cluster has none


def _is_topic(name: str) -> bool:
    return bool(_TOPIC.fullmatch(name)) and name not in (".", "..")


def _rules(use: JobUse, *, documented: bool) -> tuple[dict[str, Any], Rules]:
    options = parse(SPEC.queue_options, use.endpoint.options, f"foreign queue {use.endpoint.full_name}")
    job = parse(SPEC.job_options, use.options, f"job {use.job}", foreign=True)
    return options, Rules(
        key=KeyFrom(options["kafka_key"]),
        text_value=options["kafka_valuetype"] == "TEXT",
        text_headers=options["kafka_headertype"] == "TEXT",
        take_partition=options["kafka_partition"] == "HEADER",
        properties=job["aq_msgproperties"],
        original=not use.logged,
        documented=documented,
        guess_headers=options["kafka_headertype"] == "AUTO",
    )
