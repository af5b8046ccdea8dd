"""Whether what a foreign queue names exists at its messaging system, asked of it in this process."""

from __future__ import annotations

from dataclasses import dataclass

from mgw.gateway.config.forms import endpoint
from mgw.gateway.config.models import Document
from mgw.gateway.services import lookup
from mgw.gateway.services.admin import GatewayAdmin
from mgw.links import registry
from mgw.links.contract import Endpoint
from mgw.links.inspection import FindsQueues
from mgw.transforms.errors import LinkError

__all__ = ["QueueCheck", "check_queue", "check_queue_before"]


@dataclass(frozen=True, slots=True)
class QueueCheck:
    """What the messaging system said; the texts hold no secret.

    Attributes:
        name: of the foreign queue.
        exists: None: it could not be found out.
        detail: what is there, what is missing, or why nobody knows.
        made_by: command that makes it, where it is missing.
        cure: what to do.
        needs_none: nothing of that name has to be there.
    """

    name: str
    exists: bool | None
    detail: str
    made_by: str = ""
    cure: str = ""
    needs_none: bool = False


def check_queue(admin: GatewayAdmin, name: str) -> QueueCheck:
    """Ask for a foreign queue as it is registered.

    Raises:
        NotFound: there is none of that name.
        GatewayError: its link cannot be used with these settings.
    """
    return _asked(admin, lookup.foreign_queue(admin, name).endpoint())


def check_queue_before(admin: GatewayAdmin, name: str, document: Document) -> QueueCheck:
    """The same for one that is not registered yet: with the settings that a document has for it.

    Raises:
        NotFound: there is no such link.
        GatewayError: as for :func:`check_queue`.
    """
    return _asked(admin, endpoint(name, document.foreign_queues[name]))


def _asked(admin: GatewayAdmin, asked: Endpoint) -> QueueCheck:
    defined = lookup.link(admin, asked.link)
    link = registry.open_link(defined.config())
    link.check_endpoint(asked, None)
    hidden = admin.secrets.redact
    if not isinstance(link, FindsQueues):
        untold = f"links of type {defined.type} do not tell whether a queue exists"
        return QueueCheck(asked.full_name, None, untold, cure="look at the messaging system itself")
    try:
        found = link.find_queue(asked)
    except LinkError as error:
        detail = hidden("; ".join(filter(None, (error.what, error.cause))))
        return QueueCheck(asked.full_name, None, detail, cure=hidden(error.cure))
    cure = "" if found.exists else "correct provider_queue, or create it there: the gateway does not"
    return QueueCheck(asked.full_name, found.exists, found.detail, found.made_by, cure, found.needs_none)
