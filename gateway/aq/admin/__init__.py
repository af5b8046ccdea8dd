"""Administration of queue tables, queues, subscribers and what they hold: DBMS_AQADM (AQ guide 12.2 §8)."""

from __future__ import annotations

from mgw.gateway.aq.admin.agents import AgentProcedures
from mgw.gateway.aq.admin.anydata import AnyDataProcedures
from mgw.gateway.aq.admin.functions import FunctionProcedures
from mgw.gateway.aq.admin.privileges import PrivilegeProcedures
from mgw.gateway.aq.admin.purge import Purged, PurgeProcedures
from mgw.gateway.aq.admin.queue_tables import COMPATIBLE, MAX_PAYLOAD, QueueTableProcedures
from mgw.gateway.aq.admin.subscribers import SubscriberProcedures
from mgw.gateway.aq.admin.transformations import TransformationProcedures
from mgw.gateway.aq.admin.types import TypeProcedures

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
    FunctionProcedures,
):
    """Every call is a transaction of its own, or part of the one of ``connection`` when that is given.

    A call that is part of an application's transaction commits nothing by itself: what it did is in force when the
    application commits. Calls on queues have ``auto_commit`` for those who want it committed at once.
    """
