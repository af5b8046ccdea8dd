"""The MQTT link: versions 3.1.1 and 5.

A source is a topic filter (``plant/+/telemetry``) or a shared subscription (``$share/group/filter``). Its job has a
persistent session of its own at the broker, which begins when the job is first activated and keeps collecting while the
job is disabled, up to the broker's limits. It subscribes at QoS 1 and acknowledges after the hub has the messages; a
message published at QoS 2 arrives at QoS 1, one published at QoS 0 stays at QoS 0. Subscribing at QoS 2 is refused:
the client's half of that exchange would have to survive a crash, and does not.

A message that comes again is not stored twice where the broker gives packet ids cyclically
(:mod:`links.mqtt.receiving_log`): Mosquitto does, and other brokers may be declared to. The job is then exact over all
crashes of the gateway and clean restarts of the broker. What this link cannot see, and what must hold for it:

* Mosquitto keeps its sessions on disk (``persistence true``). A crash of the broker loses what came after its last save
  (``autosave_interval``, 1800 s by default);
* its queue limits are not reached (``max_queued_messages``, 1000 by default: above it messages are dropped unseen);
* ``max_inflight_messages`` is not 0 under MQTT 3.1.1, and below 32,768;
* messages are published at QoS 1 or 2.

With an ``outbound_log_queue`` (MQTT 5) a destination keeps its sending log in an echo of what it publishes
(:mod:`mgw.links.mqtt.logged_destination`) and is exact over all crashes of the gateway.

A destination is a topic, which may be chosen per message (:mod:`mgw.transforms.mqtt.topic`), published to at QoS 1. A
message without body has a zero-length payload; published with retain it removes the retained message of its topic.
"""

from __future__ import annotations

import secrets
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from mgw.links.certificates import Certificate, certificates_of
from mgw.links.contract import (
    Check,
    Destination,
    Direction,
    Endpoint,
    Guarantee,
    GuaranteeReport,
    JobUse,
    Link,
    LinkConfig,
    Source,
)
from mgw.links.header_names import is_documented
from mgw.links.inspection import Existence
from mgw.links.listening import listening
from mgw.links.log_preparation import LogStep, prepared_by
from mgw.links.mqtt import topics
from mgw.links.mqtt.connection import Session, client_id_of, open_session
from mgw.links.mqtt.destination import MqttDestination, check_publisher
from mgw.links.mqtt.echo_log import Echo
from mgw.links.mqtt.guarantee import check_subscriber, inbound_promise, shortcoming
from mgw.links.mqtt.knowledge import Answers, Knowledge
from mgw.links.mqtt.logged_destination import EchoDestination
from mgw.links.mqtt.preparation import no_echo, step_of
from mgw.links.mqtt.probe import check_logs, check_nodes, run_checks, version_of
from mgw.links.mqtt.settings import Settings
from mgw.links.mqtt.source import MqttSource, forget
from mgw.links.mqtt.spec import SPEC
from mgw.links.nodes import Nodes, nodes_of
from mgw.links.options import parse
from mgw.links.place import Place
from mgw.links.tls import Tls
from mgw.transforms.errors import AdminError, ConfigInvalid
from mgw.transforms.mqtt import Inbound, Outbound

__all__ = ["SPEC", "MqttLink", "open_link"]


def open_link(config: LinkConfig) -> MqttLink:
    """An MQTT link; raises ConfigInvalid for a bad attribute."""
    return MqttLink(config)


class MqttLink:
    """One configured MQTT broker (see :class:`mgw.links.contract.Link`)."""

    def __init__(self, config: LinkConfig) -> None:
        self.config = config
        owner = f"link {config.name}"
        values = parse(SPEC.attributes, config.attributes, owner)
        options = parse(SPEC.options, config.options, owner)
        self._documented = is_documented(values)
        self._declared: bool = options["mqtt_cyclicpacketids"]
        self._one_node: bool = options["mqtt_singlenode"]
        self._shared: bool = options["mqtt_sharedsessions"]
        check_logs(config, owner)
        files = (values["tls_ca_file"], values["tls_cert_file"], values["tls_key_file"])
        if any(files) and not values["tls"]:
            raise ConfigInvalid(
                f"{owner}: TLS files are given, but tls is off",
                cause="the connection would not be encrypted",
                cure="set tls to TRUE, or leave the files out",
            )
        if config.password is not None and config.username is None:
            raise ConfigInvalid(
                f"{owner}: a password without a user name", cause="MQTT sends both or neither", cure="set username"
            )
        self._knowledge = Knowledge()
        port = values["port"] or (8883 if values["tls"] else 1883)
        nodes = nodes_of(owner, values["hostname"], values["hosts"], port)
        check_nodes(config, owner, nodes)
        self._settings = Settings(
            link=config.name,
            host=nodes[0].host,
            port=nodes[0].port,
            version=values["protocol_version"],
            prefix=values["client_id_prefix"],
            keepalive=values["keepalive"],
            session_expiry=values["session_expiry"],
            max_packet_size=values["max_packet_size"],
            connect_timeout=values["connect_timeout"],
            tls=Tls.of(config.name, values, on=values["tls"]),
            username=config.username,
            password=config.password,
            nodes=Nodes(nodes),
        )

    @property
    def node(self) -> str:
        """See :class:`mgw.links.nodes.HasNodes`."""
        return self._settings.nodes.last

    def share_knowledge(self, links: Iterable[Link]) -> None:
        """See :class:`mgw.links.pool.SharesKnowledge`."""
        for link in links:
            if isinstance(link, MqttLink) and link._settings.place == self._settings.place:
                self._knowledge = link._knowledge

    def place(self, use: JobUse, direction: Direction) -> Place:
        """See :class:`mgw.links.place.KnowsPlace`. A broker does not say which one it is."""
        if direction is Direction.INBOUND:
            return Place(f"{self._settings.place}, session {self._client_id(use, 'in')}")
        echo = self._echo(use, self._outbound(use))
        return Place(self._settings.place, log="" if echo is None else f"log topic {echo.record_topic}")

    # -- without a connection -------------------------------------------------------------------------------------

    def check_endpoint(self, endpoint: Endpoint, direction: Direction | None) -> None:
        """See :meth:`mgw.links.contract.Link.check_endpoint`."""
        topics.check(endpoint, direction)

    def check_job(self, endpoint: Endpoint, options: Mapping[str, Any], direction: Direction) -> None:
        """See :class:`mgw.links.job_checks.ChecksJobs`."""
        if self._settings.version >= 5 or topics.options_of(endpoint)["mqtt_envelope"] == "JSON":
            return
        refused = "preservemessageid" if direction is Direction.OUTBOUND else "jms_nolocal"
        if str(options.get(refused, "")).upper() == "TRUE":
            raise topics.refusal(
                endpoint,
                "MQTT 3.1.1 carries no message ids, which the job option needs "
                f"({'PreserveMessageID' if refused[0] == 'p' else 'JMS_NoLocal'})",
                "set protocol_version of the link to 5, register the queue with MQTT_Envelope = JSON, or leave out the "
                "option",
            )

    def _job_options(self, use: JobUse) -> dict[str, Any]:
        try:
            return parse(SPEC.job_options, use.options, f"job {use.job}", foreign=True)
        except ConfigInvalid as error:
            raise AdminError(error.what, cause=error.cause, cure=error.cure) from error

    def _qos(self, use: JobUse, options: dict[str, Any]) -> int:
        """Of what a job publishes. To an exception queue that is what the queue was registered with."""
        chosen = self._job_options(use)["jms_deliverymode"] if use.logged else None
        return int(options["mqtt_qos"]) if chosen is None else int(chosen == "PERSISTENT")

    def _client_id(self, use: JobUse, role: str) -> str:
        return client_id_of(self._settings, use.job, use.hub_id, role, use.endpoint.provider_queue)

    def _client_ids(self, use: JobUse) -> tuple[str, str]:
        """Those of an inbound job: the second one is used after the broker has lost the session of the first."""
        return self._client_id(use, "in"), self._client_id(use, "in2")

    def source(self, use: JobUse) -> Source:
        """See :meth:`mgw.links.contract.Link.source`."""
        options = topics.options_of(use.endpoint)
        rules = Inbound(
            options["mqtt_payloadtype"] == "TEXT",
            options["mqtt_envelope"] == "JSON",
            self._job_options(use)["aq_msgproperties"],
            documented=self._documented,
        )
        return MqttSource(
            self._settings,
            self._client_ids(use),
            use.endpoint.provider_queue,
            rules,
            knowledge=self._knowledge,
            cyclic=lambda: self._cyclic(use),
            qos=options["mqtt_qos"],
            retained=options["mqtt_retained"] == "deliver",
            batch_size=use.largest_batch,
        )

    def destination(self, use: JobUse) -> Destination:
        """See :meth:`mgw.links.contract.Link.destination`."""
        identity, rules = self._client_id(use, "out"), self._outbound(use)
        echo = self._echo(use, rules)
        if echo is None:
            return MqttDestination(self._settings, identity, rules, use.clock, located=use.located)
        return EchoDestination(
            self._settings,
            identity,
            rules,
            use.clock,
            echo=echo,
            knowledge=self._knowledge,
            shortcoming=lambda: self._known_problem(use, echo),
            batch_size=use.batch_size,
            batch_limit=use.largest_batch,
            located=use.located,
        )

    def _echo(self, use: JobUse, rules: Outbound) -> Echo | None:
        """The names of the job's echo; None where it keeps no sending log."""
        template = self.config.outbound_log_queue
        if template is None or not use.logged or self._settings.version < 5 or not rules.qos:
            return None
        topic_filter = rules.topic.filter + ("/#" if rules.topic_from_header else "")
        return Echo(self._client_id(use, "echo"), topic_filter, template.replace("{job}", use.job))

    def _known_problem(self, use: JobUse, echo: Echo) -> str:
        problem = use.attempt.of(self, Answers).echo_problem
        if problem is not None:
            return problem
        session = self._probe()
        try:
            return self._find_problem(session, use, echo)
        finally:
            session.wire.close()

    def _find_problem(self, session: Session, use: JobUse, echo: Echo) -> str:
        answers = use.attempt.of(self, Answers)
        if not self._one_node and answers.mosquitto is None:
            self._ask_version(session, answers)
        one_node = self._one_node or bool(answers.mosquitto)
        problem = shortcoming(self._settings, self._knowledge, session, echo, use.batch_size, one_node=one_node)
        answers.echo_problem = problem
        return problem

    def _outbound(self, use: JobUse) -> Outbound:
        options = topics.options_of(use.endpoint)
        return Outbound(
            topics.template_of(use.endpoint, options),
            version=self._settings.version,
            qos=self._qos(use, options),
            retain=options["mqtt_retain"],
            envelope=options["mqtt_envelope"] == "JSON",
            topic_from_header=options["mqtt_topicfrom"] == "HEADER",
            aq_properties=self._job_options(use)["aq_msgproperties"] and use.logged,
            original=not use.logged,
            documented=self._documented,
        )

    # -- on the live system ---------------------------------------------------------------------------------------

    def _probe(self) -> Session:
        prefix = self._settings.prefix
        if self._settings.version < 5:
            prefix = "".join(c for c in prefix if c.isascii() and c.isalnum())[:8]
        return open_session(self._settings, f"{prefix}probe{secrets.token_hex(4)}", clean=True)

    def _cyclic(self, use: JobUse) -> bool:
        """Whether packet ids come in order; asks the broker unless :meth:`verify` just did. Several nodes may each
        count in a session of their own, so there it has to be declared that they do not."""
        if self._settings.several and not self._shared:
            return False
        answers = use.attempt.of(self, Answers)
        if not self._declared and answers.mosquitto is None:
            session = self._probe()
            try:
                self._ask_version(session, answers)
            finally:
                session.wire.close()
        return self._declared or bool(answers.mosquitto)

    def _ask_version(self, session: Session, answers: Answers) -> None:
        answers.mosquitto = "mosquitto" in (version_of(session, self._settings) or "").lower()

    def test(self) -> Sequence[Check]:
        """See :meth:`mgw.links.contract.Link.test`."""
        return run_checks(self._settings, self._probe)

    def listening(self) -> frozenset[str]:
        """See :meth:`mgw.links.contract.Link.listening`."""
        return listening(self._settings.nodes.all)

    def certificates(self) -> Sequence[Certificate]:
        """See :class:`mgw.links.certificates.ShowsCertificates`."""
        return certificates_of(self._settings.tls, self._settings.nodes.all)

    def verify(self, use: JobUse, direction: Direction) -> GuaranteeReport:
        """See :meth:`links.contract.Link.verify`. Topics always exist; what is checked is what the broker allows."""
        settings = self._settings
        options = topics.options_of(use.endpoint)
        outbound = direction is Direction.OUTBOUND
        qos: int = self._qos(use, options) if outbound else options["mqtt_qos"]
        notes: list[str] = []
        level = Guarantee.AT_LEAST_ONCE
        session = self._probe()
        try:
            if direction is Direction.OUTBOUND:
                rules = self._outbound(use)
                check_publisher(session, settings, qos, options["mqtt_retain"])
                level, notes = self._outbound_promise(session, use, rules)
            else:
                check_subscriber(session, self.config.name, use.endpoint, qos)
            if direction is Direction.INBOUND and qos:
                self._ask_version(session, use.attempt.of(self, Answers))
        finally:
            session.wire.close()
        if qos == 0:
            chosen = "JMS_DeliveryMode" if outbound and options["mqtt_qos"] else "MQTT_Qos"
            return GuaranteeReport(Guarantee.AT_MOST_ONCE, f"QoS 0 was chosen: messages may be lost ({chosen})")
        if direction is Direction.INBOUND:
            level, notes = inbound_promise(
                settings,
                use.endpoint.provider_queue,
                mosquitto=bool(use.attempt.of(self, Answers).mosquitto),
                shared=self._shared,
                declared=self._declared,
                retained=options["mqtt_retained"] == "deliver",
                lost=self._knowledge.loss(self._client_id(use, "in")) or "",
            )
        if settings.version < 5 and options["mqtt_envelope"] != "JSON":
            notes.append("headers, correlation and expiration do not travel (MQTT 3.1.1 without MQTT_Envelope = JSON)")
        return GuaranteeReport(level, "; ".join(notes))

    def find_queue(self, endpoint: Endpoint) -> Existence:
        """See :class:`mgw.links.inspection.FindsQueues`. No subscription is tried: what the broker said when it let the
        link in tells only whether it has wildcards, shared subscriptions and the QoS.

        Raises:
            LinkRefused: it has not.
        """
        session = self._probe()
        try:
            check_subscriber(session, self.config.name, endpoint, topics.options_of(endpoint)["mqtt_qos"])
        finally:
            session.wire.close()
        return Existence(
            True,
            "an MQTT broker has every topic; whether its access rules let the link use this one shows when a job runs",
            needs_none=True,
        )

    def _outbound_promise(self, session: Session, use: JobUse, rules: Outbound) -> tuple[Guarantee, list[str]]:
        """The level, and the first condition that failed."""
        again = "MQTT QoS 1: after a failure messages are published again"
        if self._settings.version < 5:
            notes = [again, "an MQTT 3.1.1 broker confirms messages that its access rules drop"]
            if self.config.outbound_log_queue is not None:
                notes.insert(0, "a sending log (outbound_log_queue) needs MQTT 5 (protocol_version)")
            return Guarantee.AT_LEAST_ONCE, notes
        echo = self._echo(use, rules)
        if echo is not None and use.through:
            return Guarantee.AT_LEAST_ONCE, [
                f"{again}; from link to link that is done with a batch whose record was not in the sending log yet"
            ]
        if echo is None:
            return Guarantee.AT_LEAST_ONCE, [f"{again} (no outbound_log_queue){prepared_by(self.config.name)}"]
        problem = self._find_problem(session, use, echo)
        if problem:
            return Guarantee.AT_LEAST_ONCE, [f"no sending log: {problem}", again]
        if overflow := self._knowledge.overflow(echo.client_id):
            return Guarantee.AT_LEAST_ONCE, [overflow]
        return Guarantee.EXACT_UNLESS_BROKER_CRASH, [
            "a crash of the broker loses what came after its last save (Mosquitto: autosave_interval), including "
            "records of the sending log, which stops the job",
            "messages whose expiration passes while the agent is down may arrive twice",
        ]

    def prepare_logs(self, uses: Sequence[tuple[JobUse, Direction]], *, dry_run: bool) -> Sequence[LogStep]:
        """See :class:`mgw.links.log_preparation.PreparesLogs`. Nothing is created; the broker is asked whether it can
        keep the echo of each job that writes."""
        del dry_run
        steps = []
        for use, direction in uses:
            if direction is Direction.INBOUND or not self._outbound(use).qos:
                continue
            echo = self._echo(use, self._outbound(use))
            if echo is None:
                raise no_echo(self._settings, use, "the link uses MQTT 3.1.1, and the log needs MQTT 5")
            if problem := self._known_problem(use, echo):
                raise no_echo(self._settings, use, problem)
            steps.append(step_of(use, echo))
        return steps

    def forget(self, use: JobUse, direction: Direction) -> None:
        """See :meth:`mgw.links.contract.Link.forget`: removes the persistent sessions of the job, at all nodes."""
        settings = self._settings
        if direction is Direction.INBOUND:
            forget(settings, self._client_ids(use), settings.nodes.all)
        elif (echo := self._echo(use, self._outbound(use))) is not None:
            forget(settings, [echo.client_id], settings.nodes.all)
