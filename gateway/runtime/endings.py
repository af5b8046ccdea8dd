"""How a run of an agent ended, and whether it is started again without an operator (AQ guide 12.2 §21.2).

A run that ends on an error that can pass keeps its scheduler job: START_SCHEDULED. One that would end the same way
again does not: NOT_STARTED, with the result code in LAST_ERROR_MSG.
"""

from __future__ import annotations

from dataclasses import dataclass

from mgw.gateway.definitions.objects import AgentStatus
from mgw.transforms.errors import GatewayError, HubError

__all__ = ["IRRECOVERABLE", "RESULT_CODES", "Ending", "ending_of"]

IRRECOVERABLE = -101  # an error without a result code of its own; the log has it
HUB_GONE = -103  # the database instance goes down

#: Result codes that an error may carry, with whether the agent is started again by itself.
RESULT_CODES = {-2: False, -3: False, -19: False, IRRECOVERABLE: False, HUB_GONE: True, -105: False, -106: False}


@dataclass(frozen=True, slots=True)
class Ending:
    """What is stored of a run that is over."""

    status: AgentStatus
    error: str | None = None

    @property
    def restarts(self) -> bool:
        """Whether a supervisor starts the agent again."""
        return self.status is AgentStatus.START_SCHEDULED


def ending_of(error: BaseException) -> Ending:
    """The ending of a run that this error ended.

    An error of the hub passes, and so may one that nobody foresaw (ORA-28576: the process ended prematurely); any
    other is in the definitions, and stays until somebody corrects them.
    """
    if isinstance(error, GatewayError):
        own = HUB_GONE if isinstance(error, HubError) else IRRECOVERABLE
        code = error.number if error.number in RESULT_CODES else own
        status = AgentStatus.START_SCHEDULED if RESULT_CODES[code] else AgentStatus.NOT_STARTED
        return Ending(status, f"ORA-32830: result code {code} returned by the agent: {error.text()}")
    return Ending(
        AgentStatus.START_SCHEDULED,
        f"ORA-28576: the process of the agent ended prematurely: {type(error).__name__}: {error}",
    )
