"""Folders of files as a messaging system, for the messaging gateway: link type ``spool``.

A queue is a folder, a message is a file in it, and a program that sends or takes messages needs nothing but ``mv``.
The gateway finds this package through the entry point ``spool`` of the group ``mgw.links``, and asks it for
:data:`SPEC` and :func:`open_link`.
"""

from __future__ import annotations

from mgw.links.contract import LinkConfig
from mgw_spool.link import SpoolLink
from mgw_spool.spec import SPEC

__all__ = ["SPEC", "open_link"]


def open_link(config: LinkConfig) -> SpoolLink:
    """A link from its configuration; touches no file.

    Raises:
        ConfigInvalid: an attribute that can never work.
    """
    return SpoolLink(config)
