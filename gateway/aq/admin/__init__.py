"""Administration of queue tables, queues and subscribers: the procedures of DBMS_AQADM (AQ guide 12.2 §8)."""

from __future__ import annotations

from gateway.aq.admin.agents import AgentProcedures
from gateway.aq.admin.privileges import PrivilegeProcedures
from gateway.aq.admin.queue_tables import MAX_PAYLOAD, QueueTableProcedures
from gateway.aq.admin.queues import QueueProcedures
from gateway.aq.admin.subscribers import SubscriberProcedures

__all__ = ["MAX_PAYLOAD", "QueueAdmin"]


class QueueAdmin(QueueTableProcedures, QueueProcedures, SubscriberProcedures, PrivilegeProcedures, AgentProcedures):
    """Every call is a transaction of its own, or part of the one of ``connection`` when that is given."""
