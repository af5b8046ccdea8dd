"""ANYDATA queues: set up, and opened for JMS and XML types (AQ guide 12.2 §22.1)."""

from __future__ import annotations

from mgw.gateway.aq.admin.agents import AgentProcedures
from mgw.gateway.aq.admin.privileges import PrivilegeProcedures
from mgw.gateway.aq.admin.queue_tables import QueueTableProcedures
from mgw.gateway.aq.admin.queues import QueueProcedures
from mgw.gateway.aq.errors import PayloadTypeForbidden
from mgw.gateway.aq.model import PayloadType, QueueInfo
from mgw.gateway.aq.names import agent_name, qualified
from mgw.gateway.aq.queues import catalog_sql as catalog
from mgw.gateway.aq.store.statements import Db

__all__ = ["AnyDataProcedures"]


class AnyDataProcedures(QueueTableProcedures, QueueProcedures, PrivilegeProcedures, AgentProcedures):
    """Set up an ANYDATA queue, and let it take JMS and XML types."""

    def set_up_queue(self, queue_table: str, queue_name: str, queue_user: str | None = None) -> QueueInfo:
        """Make a started, secure, multi-consumer ANYDATA queue (DBMS_STREAMS_ADM.SET_UP_QUEUE, AQ guide 12.2 §22.1).

        Args:
            queue_table, queue_name: both are made.
            queue_user: user who may enqueue and dequeue from now on, through an AQ agent of the same name, which is
                made if there is none: messages are enqueued with it as ``sender_name``, and taken by it as consumer.

        Raises:
            AqError: as :meth:`create_queue_table`, :meth:`create_queue` and :meth:`create_aq_agent`; nothing is made.
        """
        user = self.rights.user if self.rights is not None else None
        agent = agent_name(queue_user)
        with self.change() as conn, Db(conn).all_or_nothing():
            inner = type(self)(self.hub, conn, schema=self.schema, user=user)
            inner.create_queue_table(queue_table, PayloadType.ANYDATA, multiple_consumers=True, secure=True)
            made = inner.create_queue(queue_name, queue_table)
            inner.start_queue(queue_name)
            if queue_user is not None and agent is not None:
                inner.grant_queue_privilege("ALL", queue_name, queue_user)
                if agent.upper() not in {each.name.upper() for each in inner.aq_agents()}:
                    inner.create_aq_agent(agent)
                inner.enable_db_access(agent, queue_user)
            return inner.queue(queue_name) or made

    def enable_jms_types(self, queue_table: str) -> None:
        """Let the queues of an ANYDATA queue table take JMS and XML types (AQ guide 12.2 §22.1.2.2). Idempotent.

        Raises:
            AqError: 24002 no such queue table, 24016 it does not hold ANYDATA.
        """
        name = qualified(queue_table, self.schema, what="queue table")
        with self.change() as conn:
            db = Db(conn)
            found = self.need_queue_table(db, name)
            if found.payload_type is not PayloadType.ANYDATA:
                raise PayloadTypeForbidden(
                    f"JMS types cannot be enabled for queue table {found.full_name}",
                    cause=f"its payload type is {found.payload_type}, not ANYDATA",
                    cure="use an ANYDATA queue table",
                )
            catalog.enable_jms_types(db, found.id)
