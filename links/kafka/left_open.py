"""What a server that crashed left open of a job's transactions, ended as it had decided.

A server that crashes while it marks a transaction may report it as complete afterwards, with markers in some of its
partitions only. librdkafka can ask for neither transactions nor producers, and the next producer of the job makes the
server forget what it had decided. So where something is open, kafka-python asks before that.
"""

from __future__ import annotations

from dataclasses import replace

from mgw.links.contract import JobUse
from mgw.links.kafka.client import Topic
from mgw.links.kafka.sending_log import SendingLog, describe_log
from mgw.links.kafka.settings import Settings

__all__ = ["end_as_decided"]


def end_as_decided(settings: Settings, use: JobUse, target: Topic, limit: int) -> None:
    """End what is open in the target and in the link's log, where the client of the link could not.

    Call it before the client makes the producer of the job. ``limit``: bytes that a request may have.

    Raises:
        LinkError: it is not sure that it was done.
    """
    topics = [target, describe_log(settings, "connect")]
    if not settings.client.may_be_left_open(settings, topics):
        return
    from mgw.links.kafka.python_client.client import CLIENT  # hardly ever needed

    asking = replace(settings, client=CLIENT, producer={**settings.producer, "compression_type": None})
    transactions = CLIENT.transactions(asking, use, limit)
    try:
        SendingLog(asking, use).find(transactions, target)
    finally:
        transactions.close()
