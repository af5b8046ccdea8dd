"""Statements on the certificates of links, as their agents last saw them."""

from __future__ import annotations

from collections.abc import Sequence

import sqlalchemy as sa

from mgw.gateway.definitions.objects import key
from mgw.gateway.state import tables as t
from mgw.links.certificates import Certificate

__all__ = ["put_certificates"]


def put_certificates(conn: sa.Connection, link: str, found: Sequence[Certificate], now: float, *, anew: bool) -> None:
    """What a link has now, also where it names a server twice. Those of brokers that do not answer stay as they were
    seen, unless ``anew``."""
    c = t.certificate.c
    of_brokers = anew or any(each.owner == "BROKER" for each in found)
    gone = sa.true() if of_brokers else c.owner == "LINK"
    conn.execute(sa.delete(t.certificate).where((c.link_key == key(link)) & gone))
    for each in {(each.owner, each.place): each for each in found}.values():
        conn.execute(sa.insert(t.certificate).values(link_key=key(link), seen=now, **each._asdict()))
