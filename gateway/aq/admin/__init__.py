"""Administration of queue tables, queues, subscribers and what they hold: DBMS_AQADM (AQ guide 12.2 §8)."""

from __future__ import annotations

from gateway.aq.admin.agents import AgentProcedures
from gateway.aq.admin.anydata import AnyDataProcedures
from gateway.aq.admin.privileges import PrivilegeProcedures
from gateway.aq.admin.purge import Purged, PurgeProcedures
from gateway.aq.admin.queue_tables import COMPATIBLE, MAX_PAYLOAD, QueueTableProcedures
from gateway.aq.admin.subscribers import SubscriberProcedures
from gateway.aq.admin.transformations import TransformationProcedures
from gateway.aq.admin.types import TypeProcedures

__all__ = ["COMPATIBLE", "MAX_PAYLOAD", "Purged", "QueueAdmin"]


class QueueAdmin(
    AnyDataProcedures,
    QueueTableProcedures,
    PurgeProcedures,
    SubscriberProcedures,
    PrivilegeProcedures,
    AgentProcedures,
    TypeProcedures,
    TransformationProcedures,
):
    """Every call is a transaction of its own, or part of the one of ``connection`` when that is given.

    A call that is part of an application's transaction commits nothing by itself: what it did is in force when the
    application commits. Calls on queues have ``auto_commit`` for those who want it committed at once.
    """
