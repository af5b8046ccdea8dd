"""RabbitMQ (AMQP 0-9-1).

Streams cannot say how many messages wait. Queue names have no wildcards; the routing pattern of a topic job may.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import replace
from typing import Any
from urllib.parse import urlsplit

from mgw.links.certificates import Certificate, certificates_of
from mgw.links.contract import (
    Check,
    Delivery,
    Destination,
    Direction,
    Domain,
    Endpoint,
    Field,
    GuaranteeReport,
    JobUse,
    Link,
    LinkConfig,
    Source,
)
from mgw.links.header_names import is_documented
from mgw.links.inspection import Existence
from mgw.links.listening import listening
from mgw.links.log_preparation import LogStep
from mgw.links.options import parse
from mgw.links.place import Place
from mgw.links.rabbitmq.conditions import Answers
from mgw.links.rabbitmq.connection import Session
from mgw.links.rabbitmq.destination import DestinationPlan, RabbitDestination
from mgw.links.rabbitmq.errors import missing
from mgw.links.rabbitmq.exceptions_queue import open_queue
from mgw.links.rabbitmq.guarantee import report_destination, report_source
from mgw.links.rabbitmq.held_queue import without_hops
from mgw.links.rabbitmq.inspection import first_of, found_exchange, found_queue
from mgw.links.rabbitmq.job_queue import forget_job_queue, job_queue
from mgw.links.rabbitmq.knowledge import Knowledge
from mgw.links.rabbitmq.log_queue import LogQueue
from mgw.links.rabbitmq.logged_destination import LoggedDestination
from mgw.links.rabbitmq.logged_source import LoggedSource
from mgw.links.rabbitmq.preparation import prepare
from mgw.links.rabbitmq.probe import run_checks
from mgw.links.rabbitmq.settings import Settings
from mgw.links.rabbitmq.source import RabbitSource
from mgw.links.rabbitmq.source_plan import SourcePlan
from mgw.links.rabbitmq.spec import SPEC
from mgw.links.reading_back import HeldQueue, KeptLog
from mgw.transforms.amqp import Rules
from mgw.transforms.errors import AdminError, ConfigInvalid, LinkError, LinkRefused, QueueMissing
from mgw.transforms.message import Message

__all__ = ["SPEC", "RabbitLink", "open_link", "prefetch"]


#: Options of every job that this link acts on.
_JOB_OPTIONS = (
    Field("PreserveMessageID", "Send the hub's message id as header MGW_AQ_messageID too.", bool, False),
    Field("AQ_MsgProperties", "AQ properties travel as MGW_AQ_* headers.", bool, False),
    *SPEC.job_options,
)
_DELIVERY_MODES = {"PERSISTENT": 2, "NON_PERSISTENT": 1, "PRESERVE_MSG": 0}


def open_link(config: LinkConfig) -> RabbitLink:
    """A RabbitMQ link; raises ConfigInvalid for a bad attribute or option."""
    return RabbitLink(config)


class RabbitLink:
    """See :class:`mgw.links.contract.Link`."""

    def __init__(self, config: LinkConfig) -> None:
        self.config = config
        owner = f"link {config.name}"
        attributes = parse(SPEC.attributes, config.attributes, owner)
        options = parse(SPEC.options, config.options, owner)
        address = options["amqp_managementurl"]
        if address and not address.lower().startswith(("http://", "https://")):
            raise ConfigInvalid(
                f"{owner}: AMQP_ManagementURL cannot be {address!r}",
                cause="it is not an HTTP address",
                cure="write for example http://broker:15672",
            )
        if address and "@" in urlsplit(address).netloc:  # it would be stored and shown as it is
            raise ConfigInvalid(
                f"{owner}: AMQP_ManagementURL names a user",
                cause="the link's own user and password are used",
                cure="remove the part before the @",
            )
        self._documented = is_documented(attributes)
        self._settings = Settings.of(config, attributes, options)
        self._knowledge = Knowledge()

    def share_knowledge(self, links: Iterable[Link]) -> None:
        """See :class:`mgw.links.pool.SharesKnowledge`."""
        for link in links:
            if isinstance(link, RabbitLink) and link._settings.place == self._settings.place:
                self._knowledge = link._knowledge

    def test(self) -> Sequence[Check]:
        """See :meth:`mgw.links.contract.Link.test`."""
        return run_checks(self._settings)

    def listening(self) -> frozenset[str]:
        """See :meth:`mgw.links.contract.Link.listening`."""
        return listening(self._settings.nodes.all)

    @property
    def node(self) -> str:
        """See :class:`mgw.links.nodes.HasNodes`."""
        return self._settings.nodes.last

    def certificates(self) -> Sequence[Certificate]:
        """See :class:`mgw.links.certificates.ShowsCertificates`."""
        return certificates_of(self._settings.tls, self._settings.nodes.all)

    def verify(self, use: JobUse, direction: Direction) -> GuaranteeReport:
        """See :meth:`mgw.links.contract.Link.verify`."""
        session = Session(self._settings, f"{use.agent} {use.job} verify")
        try:
            answers = use.attempt.of(self, Answers)
            answers.cluster = session.cluster
            if direction is Direction.OUTBOUND:
                plan, template = self._destination_plan(use), self.config.outbound_log_queue
                return report_destination(session, use, plan, template, answers=answers, knowledge=self._knowledge)
            source, template = self._source_plan(use), self.config.inbound_log_queue
            return report_source(session, use, source, template, answers=answers, knowledge=self._knowledge)
        except QueueMissing as error:
            raise missing(use, error) from error
        finally:
            session.close()

    def place(self, use: JobUse, direction: Direction) -> Place:
        """See :class:`mgw.links.place.KnowsPlace`."""
        answers, settings = use.attempt.of(self, Answers), self._settings
        if answers.cluster is None:
            session = Session(settings, f"{use.agent} {use.job} place")
            answers.cluster = session.cluster
            session.close()
        where = f"virtual host {settings.virtual_host}"
        system = f"cluster {answers.cluster}, {where}" if answers.cluster else ""
        log = self._log_queue(use, direction, answers)
        return Place(f"{settings.hostname}:{settings.port}, {where}", system, log and f"log queue {log}")

    def _log_queue(self, use: JobUse, direction: Direction, answers: Answers) -> str:
        """The log queue that the job keeps, "" where it keeps none."""
        if direction is Direction.OUTBOUND:
            template = self.config.outbound_log_queue if use.logged and not answers.untransacted else None
        else:
            plan, template = self._source_plan(use), self.config.inbound_log_queue
            stream = plan.queue_type == "stream" or answers.streams.get(plan.queue)
            if stream or not plan.needs_log:
                template = None
        return "" if template is None else LogQueue(template, use, self._knowledge).name

    def check_endpoint(self, endpoint: Endpoint, direction: Direction | None) -> None:
        """See :meth:`mgw.links.contract.Link.check_endpoint`."""
        try:
            options = parse(SPEC.queue_options, endpoint.options, f"foreign queue {endpoint.full_name}")
        except ConfigInvalid as error:
            raise AdminError(error.what, cause=error.cause, cure=error.cure) from error
        exchange, key = _target(endpoint)
        refusal = _refusal(endpoint, direction, exchange, key)
        if options["amqp_queuetype"] == "stream" and exchange is not None:
            refusal = ("AMQP_QueueType is stream", "the queue of a topic job is classic or quorum")
        if refusal is not None:
            raise AdminError(
                f"foreign queue {endpoint.full_name} cannot be used: {endpoint.provider_queue!r}",
                cause=refusal[0],
                cure=refusal[1],
            )

    def source(self, use: JobUse) -> Source:
        """See :meth:`mgw.links.contract.Link.source`."""
        plan, template = self._source_plan(use), self.config.inbound_log_queue
        if template is None or not plan.needs_log:
            return RabbitSource(self._settings, use, plan, self._knowledge)
        return LoggedSource(self._settings, use, replace(plan, exclusive=True), template, self._knowledge)

    def destination(self, use: JobUse) -> Destination:
        """See :meth:`mgw.links.contract.Link.destination`."""
        plan, template = self._destination_plan(use), self.config.outbound_log_queue
        answers = use.attempt.of(self, Answers)
        if template is None or not use.logged or answers.untransacted:
            return RabbitDestination(self._settings, use, plan)
        return LoggedDestination(self._settings, use, plan, template, knowledge=self._knowledge, answers=answers)

    def forget(self, use: JobUse, direction: Direction) -> None:
        """Remove the queue of a topic job, and the record in the job's log queue."""
        config = self.config
        inbound = direction is Direction.INBOUND
        template = config.inbound_log_queue if inbound else config.outbound_log_queue
        own_queue = inbound and use.endpoint.domain is Domain.TOPIC
        if template is None and not own_queue:
            return
        session = Session(self._settings, f"{use.agent} {use.job} forget")
        try:
            if own_queue:
                forget_job_queue(session, use)
            if template is not None:
                LogQueue(template, use, self._knowledge).forget_own(session)
        finally:
            session.close()

    def prepare_logs(self, uses: Sequence[tuple[JobUse, Direction]], *, dry_run: bool) -> Sequence[LogStep]:
        """See :class:`mgw.links.log_preparation.PreparesLogs`."""
        logs = []
        for use, direction in uses:
            inbound = direction is Direction.INBOUND
            plan = self._source_plan(use) if inbound else self._destination_plan(use)
            template = self.config.inbound_log_queue if inbound else self.config.outbound_log_queue
            if template is not None and (isinstance(plan, DestinationPlan) or plan.needs_log):
                logs.append((LogQueue(template, use, self._knowledge), use, plan))
        return prepare(self._settings, logs, self._knowledge, dry_run=dry_run)

    def collected(self, use: JobUse) -> int:
        """See :class:`mgw.links.contract.Collects`; what the job has read and not acknowledged is not counted."""
        session = Session(self._settings, f"{use.agent} {use.job} removal")
        try:
            with session.calling("backlog"):
                return int(session.channel.queue_declare(job_queue(use), passive=True).method.message_count)
        except QueueMissing:
            return 0
        finally:
            session.close()

    def clean_logs(
        self,
        hub_id: str,
        uses: Sequence[tuple[JobUse, Direction]],
        broken: Collection[str],
        lives: Callable[[str], bool],
    ) -> Sequence[str]:
        """See :class:`mgw.links.log_cleaning.KeepsLogs`. What a job left in a queue that no job has is not found."""
        removed = []
        for use, direction in uses:
            config = self.config
            template = config.inbound_log_queue if direction is Direction.INBOUND else config.outbound_log_queue
            if template is None:
                continue
            queue = LogQueue(template, use, self._knowledge)
            session = Session(self._settings, f"{use.agent} {use.job} clean")
            try:
                owner = queue.owner(session)
                if owner is None:
                    continue
                obsolete = owner[0] == hub_id and not lives(owner[1])
                if obsolete or (owner == ("", "") and use.job in broken):
                    queue.forget(session)
                    what = f"of job {owner[1]}, which no longer exists" if obsolete else "that cannot be read"
                    removed.append(f"removed the record {what} from log queue {queue.name}")
            except QueueMissing:
                continue  # the job itself says so
            finally:
                session.close()
        return removed

    # -- the exception desk -------------------------------------------------------------------------------------------

    def exceptions_reader(self, use: JobUse) -> HeldQueue | KeptLog:
        """See :class:`mgw.links.reading_back.ReadsBack`."""
        if use.endpoint.domain is Domain.TOPIC:
            raise LinkRefused(
                f"foreign queue {use.endpoint.full_name} cannot be read back",
                link=self.config.name,
                operation="read",
                cause="it is an exchange, which keeps no messages",
                cure="make the job's exception queue a queue that is bound to it",
            )
        _, rules = self._options(use)
        return open_queue(self._settings, use, rules, self._knowledge, use.attempt.of(self, Answers))

    def exceptions_writer(self, use: JobUse, to: JobUse | None = None) -> Destination:
        """See :class:`mgw.links.reading_back.ReadsBack`."""
        if to is not None:
            return self.destination(to)
        options, rules = self._options(use)
        queue = self._source_plan(use).queue
        plan = DestinationPlan("", queue, queue, True, options["amqp_maxmessagesize"], rules)
        return RabbitDestination(self._settings, use, plan)

    # -- set-up -------------------------------------------------------------------------------------------------------

    def find_queue(self, endpoint: Endpoint) -> Existence:
        """See :class:`mgw.links.inspection.FindsQueues`."""
        exchange, key = _target(endpoint)
        if exchange:
            return found_exchange(self._settings, exchange)
        options = parse(SPEC.queue_options, endpoint.options, f"foreign queue {endpoint.full_name}")
        queue = endpoint.provider_queue if exchange is None else key or ""
        if not queue:
            return Existence(True, "the default exchange is always there; each message names the queue it goes to")
        return found_queue(self._settings, queue, options["amqp_queuetype"])

    def first_message(self, use: JobUse) -> Delivery | None:
        """See :class:`mgw.links.inspection.ShowsMessages`."""
        plan = self._source_plan(use)
        queue = plan.queue if plan.exchange is None else None
        try:
            return first_of(self._settings, use, queue, plan.rules)
        except QueueMissing as error:
            raise missing(use, error) from error

    def came_from(self, use: JobUse, origin: str) -> bool:
        """See :class:`mgw.links.reading_back.ReadsBack`."""
        queue = self._source_plan(use).queue
        return any(origin.rpartition(mark)[0] == queue for mark in "#@")

    def sent_again(self, message: Message) -> Message:
        """See :class:`mgw.links.reading_back.ReadsBack`."""
        return without_hops(message)

    # -- plans --------------------------------------------------------------------------------------------------------

    def _options(self, use: JobUse) -> tuple[dict[str, Any], Rules]:
        owner = f"foreign queue {use.endpoint.full_name}"
        try:
            queue = parse(SPEC.queue_options, use.endpoint.options, owner)
            job = parse(_JOB_OPTIONS, use.options, f"job {use.job}", foreign=True)
        except ConfigInvalid as error:
            raise LinkError(error.what, link=self.config.name, cause=error.cause, cure=error.cure) from error
        rules = Rules(
            max_priority=queue["amqp_maxpriority"],
            user=self._settings.username,
            aq_properties=job["aq_msgproperties"],
            preserve_id=job["preservemessageid"],
            delivery_mode=_DELIVERY_MODES[job["jms_deliverymode"]] if use.logged else 2,
            original=not use.logged,
            documented=self._documented,
        )
        return queue, rules

    def _source_plan(self, use: JobUse) -> SourcePlan:
        options, rules = self._options(use)
        exchange, key = _target(use.endpoint)
        return SourcePlan(
            queue=use.endpoint.provider_queue if exchange is None else job_queue(use),
            exchange=exchange,
            routing_key=key or "",
            queue_type=options["amqp_queuetype"],
            prefetch=min(65535, options["amqp_prefetch"] or prefetch(use)),
            exclusive=options["amqp_exclusive"] or exchange is not None,  # nobody else reads the job's own queue
            stream_offset=options["amqp_streamoffset"],
            priority=options["amqp_consumerpriority"],
            rules=rules,
            unique_ids=options["amqp_uniqueids"],
            dead_letters=options["amqp_deadletters"],
        )

    def _destination_plan(self, use: JobUse) -> DestinationPlan:
        options, rules = self._options(use)
        exchange, key = _target(use.endpoint)
        queue = use.endpoint.provider_queue if exchange is None else (key if exchange == "" else None)
        return DestinationPlan(
            exchange=exchange or "",
            routing_key=queue if exchange is None else key,
            queue=queue,
            mandatory=options["amqp_mandatory"],
            max_message_size=options["amqp_maxmessagesize"],
            rules=rules,
            queue_type=options["amqp_queuetype"],
        )


def prefetch(use: JobUse) -> int:
    """Messages that the broker may send ahead: while a link has not confirmed one part, another one is read."""
    most = max(1000, 2 * use.largest_batch)
    return 2 * most if use.through else most


def _target(endpoint: Endpoint) -> tuple[str | None, str | None]:
    """Exchange and routing key of a TOPIC endpoint (key None: left open); exchange None for a queue."""
    if endpoint.domain is not Domain.TOPIC:
        return None, None
    exchange, slash, key = endpoint.provider_queue.partition("/")
    return exchange, key if slash else None


def _refusal(
    endpoint: Endpoint, direction: Direction | None, exchange: str | None, key: str | None
) -> tuple[str, str] | None:
    """Cause and cure when an endpoint can never be used that way."""
    for name in (endpoint.provider_queue,) if exchange is None else (exchange, key or ""):
        if len(name.encode(errors="replace")) > 255 or not name.isprintable():
            return "names and routing keys have at most 255 bytes of printable text", "correct it"
    if exchange is None:
        return None if endpoint.provider_queue else ("the name is empty", "name the queue")
    if direction is Direction.OUTBOUND and key and not {"*", "#"}.isdisjoint(key.split(".")):
        return "a destination cannot have wildcards", "register the one routing key to send to"
    if direction is Direction.INBOUND and not exchange:
        return "nothing can be bound to the default exchange", "register the queue itself with domain QUEUE"
    return None
