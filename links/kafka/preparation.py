"""Creates the log topic of a link at a Kafka cluster, when an operator asks for it."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from mgw.links.contract import JobUse
from mgw.links.kafka.client import Kind, Topic
from mgw.links.kafka.errors import translate
from mgw.links.kafka.guarantee import not_compacted, unsafe
from mgw.links.kafka.sending_log import SendingLog, describe_log
from mgw.links.kafka.settings import Settings
from mgw.links.log_preparation import LogStep, LogVerb
from mgw.transforms.errors import LinkError, LinkRefused, QueueMissing

__all__ = ["prepare"]

_PARTITIONS = 12  # at first: each job that writes needs one of its own, and more can be added
_REPLICAS = 3


def prepare(settings: Settings, writers: Sequence[JobUse], *, dry_run: bool) -> Sequence[LogStep]:
    """See :class:`mgw.links.log_preparation.PreparesLogs`; ``writers`` are the jobs that write to the link."""
    jobs = [use.job for use in writers]
    topic = f"topic {settings.log_topic}"
    try:
        log = describe_log(settings, "prepare")
    except QueueMissing:
        partitions, replicas = max(_PARTITIONS, len(jobs)), min(_REPLICAS, _servers(settings))
        config = _config(replicas)
        if not dry_run:
            name = settings.log_topic or ""
            _ask(settings, lambda: settings.client.create_topic(settings, name, partitions, replicas, config))
        return [LogStep(LogVerb.CREATE, topic, _form(partitions, replicas, config), jobs)]
    _check(settings, log)
    held, wanted_partitions = len(log.partitions), _needed(settings, writers)
    config = {name: value for name, value in (log.config or {}).items() if name in _config(log.replicas)}
    if held >= wanted_partitions:
        return [LogStep(LogVerb.NONE, topic, _form(held, log.replicas, config), jobs)]
    if not dry_run:
        _ask(settings, lambda: settings.client.extend_topic(settings, log.name, wanted_partitions))
    return [LogStep(LogVerb.EXTEND, topic, f"from {held} to {wanted_partitions} partitions", jobs)]


def _config(replicas: int) -> dict[str, str]:
    safe = {"min.insync.replicas": "2"} if replicas > 1 else {}
    return {"cleanup.policy": "compact", "unclean.leader.election.enable": "false", **safe}


def _form(partitions: int, replicas: int, config: dict[str, str]) -> str:
    counts = [f"{partitions} partitions", f"{replicas} replica{'s' if replicas > 1 else ''}"]
    return ", ".join([*counts, *(f"{name}={value}" for name, value in config.items())])


def _needed(settings: Settings, writers: Sequence[JobUse]) -> int:
    """Partitions for these jobs, and for the others whose records live in the topic."""
    if not writers:
        return 0
    living = set(SendingLog(settings, writers[0]).owners())
    return len(living | {SendingLog(settings, use).key for use in writers})


def _check(settings: Settings, log: Topic) -> None:
    """Refuse a topic that cannot keep the log."""
    problem = not_compacted(log) or unsafe(log)
    if problem and log.config is not None:
        raise LinkRefused(
            f"link {settings.link}: topic {log.name} cannot be its sending log (outbound_log_queue)",
            link=settings.link,
            operation="prepare",
            cause=problem,
            cure=f"kafka-configs.sh --alter --entity-type topics --entity-name {log.name} --add-config "
            f"{','.join(f'{name}={value}' for name, value in _config(log.replicas).items())} (and --bootstrap-server); "
            "or name another topic in the link",
        )


def _servers(settings: Settings) -> int:
    return len(settings.client.cluster(settings, "prepare").servers)


def _ask(settings: Settings, change: Callable[[], None]) -> None:
    """Change something at the cluster; a topic that somebody else has just created is fine."""
    try:
        change()
    except LinkError:
        raise
    except Exception as error:
        if settings.client.failure(error).kind is not Kind.EXISTS:
            raise translate(error, settings, "prepare", f"topic {settings.log_topic}") from error
