"""Whether a messaging system can be reached and used, asked of it in this process."""

from __future__ import annotations

import time
from dataclasses import dataclass

from mgw.gateway.config.apply import scratch_hub
from mgw.gateway.config.models import Document
from mgw.gateway.definitions.objects import DEFAULT_AGENT
from mgw.gateway.services import lookup
from mgw.gateway.services.admin import GatewayAdmin
from mgw.gateway.services.verdict import moment
from mgw.links import registry
from mgw.links.certificates import WARNING_SECONDS, Certificate, ShowsCertificates

__all__ = ["Check", "test_before", "test_link"]


@dataclass(frozen=True, slots=True)
class Check:
    """One thing that was tried; the texts hold no secret. ``cure`` is empty where nothing is wrong."""

    name: str
    ok: bool
    detail: str
    cure: str = ""


def test_link(admin: GatewayAdmin, name: str) -> list[Check]:
    """Connect with the settings of a link and try what jobs need.

    Raises:
        NotFound: there is no link of that name.
        ConfigInvalid: its type is unknown, its client is not installed, or its secrets cannot be decrypted.
    """
    link = registry.open_link(lookup.link(admin, name).config())
    hidden = admin.secrets.redact
    checks = [Check(hidden(each.name), each.ok, hidden(each.detail), hidden(each.cure)) for each in link.test()]
    if isinstance(link, ShowsCertificates) and checks and checks[-1].ok:
        checks += [_certificate(each, time.time()) for each in link.certificates()]
    return checks


def test_before(name: str, document: Document) -> list[Check]:
    """The same for a link that is not in the hub yet: with the settings that a document has for it.

    Raises:
        GatewayError: as for :func:`test_link`.
    """
    link = document.links[name].model_copy(update={"agent": DEFAULT_AGENT})
    with scratch_hub(Document(links={name: link})) as (hub, refused):
        if refused is not None:
            raise refused[1]
        return test_link(GatewayAdmin(hub), name)


def _certificate(found: Certificate, now: float) -> Check:
    left = found.expires - now
    soon = "; renew it" if left < WARNING_SECONDS else ""
    when = f"{moment(found.expires)}, in {left / 86_400:.1f} days"
    return Check("certificate", left > 0, f"{found.place} ({found.subject}) ends {when}{soon}", "renew the certificate")
