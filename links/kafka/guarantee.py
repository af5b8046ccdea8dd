"""What a job that reads or writes a Kafka topic can promise, and which condition it lacks."""

from __future__ import annotations

from mgw.links.contract import Guarantee, GuaranteeReport
from mgw.links.kafka.client import Topic
from mgw.links.kafka.connection import describe
from mgw.links.kafka.settings import Settings
from mgw.links.log_preparation import prepared_by
from mgw.transforms.errors import LinkError, LinkTimeout, LinkUnavailable

__all__ = ["not_compacted", "report_inbound", "report_outbound", "report_without_log", "transaction_state", "unsafe"]


_TRANSACTION_STATE = "__transaction_state"


def transaction_state(settings: Settings) -> Topic | None:
    """The topic in which the cluster keeps transactions, or None where it may not be seen or is not there yet.

    Raises:
        LinkUnavailable, LinkTimeout: nobody answered, which says nothing of the topic.
    """
    try:
        return describe(settings, _TRANSACTION_STATE, "verify", None)
    except (LinkUnavailable, LinkTimeout):
        raise
    except LinkError:
        return None


def report_without_log(link: str) -> GuaranteeReport:
    """What a job that writes to a link without a log topic can promise."""
    return GuaranteeReport(
        Guarantee.AT_LEAST_ONCE,
        "the link has no outbound_log_queue, so a restart may repeat a batch "
        f"(header MGW_AQ_messageID is the same in the copies){prepared_by(link)}",
    )


def report_outbound(
    topic: Topic, log: Topic, state: Topic | None = None, *, asks_for_transactions: bool = True
) -> GuaranteeReport:
    """What a job that writes to this topic can promise, with the link's log topic and the cluster's transactions.

    ``asks_for_transactions``: the client can ask a server what it knows of a transaction, which a server that crashes
    may have ended in a part of the partitions only.
    """
    failed = _unreadable(log) or not_compacted(log)
    for each in (log, topic):
        failed = failed or _unreadable(each) or unsafe(each)
    if state is not None:
        failed = failed or _unreadable(state) or unsafe(state)
        if not failed and state.replicas < min(topic.replicas, 2):
            failed = f"topic {state.name} has one replica: if its server is lost, so is the outcome of transactions"
    if failed:
        return GuaranteeReport(Guarantee.AT_LEAST_ONCE, failed)
    if not asks_for_transactions:
        return GuaranteeReport(
            Guarantee.EXACT_UNLESS_BROKER_CRASH,
            "for read_committed readers; librdkafka cannot ask a server whether it has marked all records of a commit "
            "(kafka-python can)",
        )
    return GuaranteeReport(Guarantee.EXACT, "for read_committed readers")


def _unreadable(topic: Topic) -> str:
    if topic.config is not None:
        return ""
    return f"the configuration of topic {topic.name} cannot be read (grant DescribeConfigs)"


def not_compacted(log: Topic) -> str:
    """Why the records of a log topic may be removed; empty if they may not."""
    policy = (log.config or {}).get("cleanup.policy", "delete")
    if policy == "compact":
        return ""
    return (
        f"cleanup.policy of the log topic {log.name} is {policy}: its records are removed after a while without "
        "traffic (set cleanup.policy=compact)"
    )


def unsafe(topic: Topic) -> str:
    """Why an acknowledged record may be lost when a server fails."""
    config = topic.config or {}
    if config.get("unclean.leader.election.enable") == "true":
        return (
            f"unclean.leader.election.enable is on for topic {topic.name}: after a crash the log may lose its latest "
            "records"
        )
    in_sync = int(config.get("min.insync.replicas", 1))
    if topic.replicas > 1 and in_sync < 2:
        return (
            f"min.insync.replicas of topic {topic.name} is {in_sync} with {topic.replicas} replicas: "
            "confirmed records may be on a single server (set it to 2)"
        )
    return ""


def report_inbound(topic: Topic) -> GuaranteeReport:
    """What a job that reads from this topic can promise."""
    if topic.config is None:
        return GuaranteeReport(
            Guarantee.EXACT_UNLESS_BROKER_CRASH,
            f"the configuration of topic {topic.name} cannot be read (grant DescribeConfigs), so unclean leader "
            "election may be on",
        )
    if topic.config.get("unclean.leader.election.enable") == "true":
        return GuaranteeReport(
            Guarantee.AT_MOST_ONCE,
            f"unclean.leader.election.enable is on for topic {topic.name}: after a crash the log may lose its latest "
            "records, and others may be in their places that are not read",
        )
    if not topic.topic_id:
        return GuaranteeReport(
            Guarantee.EXACT_UNLESS_BROKER_CRASH,
            "the cluster has no topic ids, so a topic that was deleted and re-created under its name goes unnoticed",
        )
    return GuaranteeReport(Guarantee.EXACT)
