"""Administration of the gateway: the procedures of DBMS_MGWADM (AQ guide 12.2 §19), and DBMS_HQADM, as in Python.

Every call is one transaction; all calls, of all processes, run one after another, and each raises the change counter,
by which running agents notice it. A refused call raises :class:`~mgw.transforms.errors.AdminError` with its documented
number and changes nothing.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from mgw.gateway.aq import QueueAdmin
from mgw.gateway.definitions.job_options import JOB_OPTIONS
from mgw.gateway.definitions.objects import DEFAULT_AGENT
from mgw.gateway.definitions.outbound import KAFKA_OUTBOUND, MQSERIES_OUTBOUND, MQTT_OUTBOUND, RABBITMQ_OUTBOUND
from mgw.gateway.runtime.recovery import reset_log_records, reset_missing_messages
from mgw.gateway.services.admin.agents import AgentProcedures
from mgw.gateway.services.admin.base import NO_CHANGE, Administration, NoChange, Ora, Overtaken
from mgw.gateway.services.admin.job_removal import FORCE, NO_FORCE
from mgw.gateway.services.admin.log_preparation import Preparation, PreparationProcedures
from mgw.gateway.services.admin.outbound_procedures import OutboundProcedures
from mgw.gateway.services.admin.queues import QueueProcedures
from mgw.gateway.services.admin.schedule_procedures import ScheduleProcedures
from mgw.gateway.services.admin.subscriber_procedures import SubscriberProcedures
from mgw.gateway.services.admin.transformations import TransformationProcedures
from mgw.gateway.state import catalog
from mgw.links.pool import LinkPool
from mgw.transforms.errors import AdminError

__all__ = [
    "AGENT_JAVA_PROP",
    "CLEAN_LOG_QUEUES",
    "CLEAN_STARTUP_STATE",
    "FORCE",
    "JOB_OPTION",
    "JOB_OPTIONS",
    "KAFKA_OUTBOUND",
    "MQSERIES_OUTBOUND",
    "MQTT_OUTBOUND",
    "MSGLINK_OPTION",
    "NO_CHANGE",
    "NO_FORCE",
    "RABBITMQ_OUTBOUND",
    "RESET_SUB_MISSING_LOG_REC",
    "RESET_SUB_MISSING_MESSAGE",
    "Administration",
    "GatewayAdmin",
    "NoChange",
    "Ora",
    "Overtaken",
    "Preparation",
]

AGENT_JAVA_PROP = "AGENT_JAVA_PROP"
MSGLINK_OPTION = "MSGLINK_OPTION"
JOB_OPTION = "JOB_OPTION"

CLEAN_STARTUP_STATE = "CLEAN_STARTUP_STATE"
CLEAN_LOG_QUEUES = "CLEAN_LOG_QUEUES"
RESET_SUB_MISSING_LOG_REC = "RESET_SUB_MISSING_LOG_REC"
RESET_SUB_MISSING_MESSAGE = "RESET_SUB_MISSING_MESSAGE"


class GatewayAdmin(
    AgentProcedures,
    PreparationProcedures,
    QueueProcedures,
    TransformationProcedures,
    SubscriberProcedures,
    ScheduleProcedures,
    OutboundProcedures,
):
    """All procedures on one hub; may be used by several threads."""

    @property
    def aq(self) -> QueueAdmin:
        """The administration of the hub's own queues."""
        return QueueAdmin(self.hub)

    def set_option(
        self,
        target_type: str,
        target_name: str,
        option_name: str,
        option_value: str | None,
        *,
        encrypted: bool = False,
    ) -> None:
        """Set one option of an agent, a link or a job.

        Raises:
            AdminError: ORA-32801 a name is missing, or ``encrypted`` for a link or job; ORA-32802 unknown target type;
                as the alter procedure of the target.
        """
        self._option(target_type, target_name, option_name)(option_value, encrypted)

    def remove_option(self, target_type: str, target_name: str, option_name: str) -> None:
        """Remove one option of an agent (effective at its next start), a link or a job.

        Raises:
            AdminError: as :meth:`set_option`.
        """
        setter = self._option(target_type, target_name, option_name)
        if target_type.upper() == AGENT_JAVA_PROP:
            self.remove_agent_option(target_name, option_name)
        else:
            setter(None, False)

    def cleanup_gateway(self, action: str, sarg: str | None = None, *, agent_name: str = DEFAULT_AGENT) -> None:
        """Clean up after an error (AQ guide 12.2 §19.2.3).

        ``CLEAN_STARTUP_STATE`` sets an agent that left its status behind back to NOT_STARTED. ``CLEAN_LOG_QUEUES`` and
        the two resets need a running agent. CLEAN_LOG_QUEUES removes obsolete records from the log queues of the
        agent's links, as every agent does when it starts, and unreadable ones of FAILED jobs.
        ``RESET_SUB_MISSING_LOG_REC`` lets a job continue that ended with [416] or [417] (its last batches may arrive
        twice), ``RESET_SUB_MISSING_MESSAGE`` one that ended with [415] (the missing messages are accepted as lost);
        ``sarg`` names the job or subscriber, and one that is not FAILED is left alone.

        Raises:
            AdminError: ORA-32802 unknown action; ORA-32850; ORA-32855; ORA-32828 not running; the startup state cannot
                be cleaned.
            LinkError: CLEAN_LOG_QUEUES did not reach a messaging system; the other links were cleaned.
        """
        name = action.upper()
        if name == CLEAN_STARTUP_STATE:
            self.clean_startup_state(agent_name)
            return
        if name not in (CLEAN_LOG_QUEUES, RESET_SUB_MISSING_LOG_REC, RESET_SUB_MISSING_MESSAGE):
            raise AdminError(
                f"cleanup action {action!r} is unknown",
                number=Ora.VALUE_MUST_BE,
                cause=f"the actions are {CLEAN_STARTUP_STATE}, {CLEAN_LOG_QUEUES}, {RESET_SUB_MISSING_LOG_REC}, "
                f"{RESET_SUB_MISSING_MESSAGE}",
                cure="use one of them",
            )
        kind, target = ("agent", agent_name) if name == CLEAN_LOG_QUEUES else ("job", sarg or "")
        with self.change(kind, target, name.lower().replace("_", " ") + " of", deed=True) as conn:
            self._need_running(conn, agent_name)
            if name != CLEAN_LOG_QUEUES:
                job = catalog.get_subscriber(conn, sarg or "") or self.need_job(conn, sarg or "")
                reset = reset_log_records if name == RESET_SUB_MISSING_LOG_REC else reset_missing_messages
                reset(conn, job, now=self.clock.now())
                return
        from mgw.gateway.runtime.log_cleaning import clean_logs  # it needs what this package offers

        for problem in clean_logs(self.hub, self.secrets, agent_name, self.clock, LinkPool(), unreadable=True):
            raise problem

    def snapshot_version(self) -> int:
        """Version of the definitions; grows with every change."""
        with self.hub.read() as conn:
            return catalog.change_version(conn)

    def _option(self, target_type: str, target_name: str, option_name: str) -> Callable[[str | None, bool], None]:
        kind = target_type.upper()
        for what, value in (("target", target_name), ("option", option_name)):
            if not value:
                raise AdminError(
                    f"{what} name is missing", number=Ora.INVALID_VALUE, cause="it is empty", cure="give a name"
                )
        if kind == AGENT_JAVA_PROP:
            return lambda value, encrypted: self.set_agent_option(target_name, option_name, value, encrypted=encrypted)
        alter: dict[str, Callable[..., Any]] = {MSGLINK_OPTION: self.alter_msgsystem_link, JOB_OPTION: self.alter_job}
        if kind not in alter:
            raise AdminError(
                f"option target {target_type!r} is unknown",
                number=Ora.VALUE_MUST_BE,
                cause=f"it is one of {AGENT_JAVA_PROP}, {MSGLINK_OPTION}, {JOB_OPTION}",
                cure="use one of them",
            )

        def set_one(value: str | None, encrypted: bool) -> None:
            if encrypted:
                raise AdminError(
                    f"option {option_name} of {target_name} cannot be encrypted",
                    number=Ora.INVALID_VALUE,
                    cause="only agent options have that choice; secret options of links are always encrypted",
                    cure="leave encrypted out",
                )
            alter[kind](target_name, options={option_name: value})

        return set_one
