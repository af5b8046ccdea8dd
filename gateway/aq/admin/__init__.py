"""Administration of queue tables, queues, subscribers and what they hold: DBMS_AQADM (AQ guide 12.2 §8)."""

from __future__ import annotations

from gateway.aq.admin.agents import AgentProcedures
from gateway.aq.admin.anydata import AnyDataProcedures
from gateway.aq.admin.privileges import PrivilegeProcedures
from gateway.aq.admin.queue_tables import MAX_PAYLOAD, QueueTableProcedures
from gateway.aq.admin.queues import QueueProcedures
from gateway.aq.admin.subscribers import SubscriberProcedures
from gateway.aq.admin.transformations import TransformationProcedures
from gateway.aq.admin.types import TypeProcedures

__all__ = ["MAX_PAYLOAD", "QueueAdmin"]


class QueueAdmin(
    AnyDataProcedures,
    QueueTableProcedures,
    QueueProcedures,
    SubscriberProcedures,
    PrivilegeProcedures,
    AgentProcedures,
    TypeProcedures,
    TransformationProcedures,
):
    """Every call is a transaction of its own, or part of the one of ``connection`` when that is given."""
