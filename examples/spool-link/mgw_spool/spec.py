"""What the link type is called, takes and can do.

This is the only description: the configuration file, ``mgw lint``, the JSON Schema, the command line, the procedures
of Python and the reference page are made from it.
"""

from __future__ import annotations

from mgw.links.contract import Capability, Domain, Field, LinkSpec

__all__ = ["SPEC"]

SPEC = LinkSpec(
    type="SPOOL",
    title="Spool",
    description="Folders of files on a local disk. A queue is a folder of the spool, a message is a file in it.",
    attributes=(
        Field(
            "directory",
            "Folder of the spool, absolute. The operator makes it, with an empty file `.spool` and a folder per queue.",
            required=True,
            alterable=False,
        ),
        Field(
            "timeout",
            "Seconds after which a file system that does not answer counts as unreachable.",
            float,
            30.0,
            minimum=0.1,
            maximum=600,
        ),
        Field(
            "durable",
            "FALSE: files are not flushed to the disk. Faster, but a power failure may lose messages.",
            bool,
            True,
        ),
    ),
    queue_options=(
        Field(
            "SPOOL_Format",
            "What an outbound job writes. envelope: JSON with properties, headers and body, in files `*.mgw`. "
            "plain: the body and nothing else, in files `*.msg`.",
            default="envelope",
            choices=("envelope", "plain"),
        ),
    ),
    domains=(None, Domain.QUEUE),
    capabilities=frozenset(Capability) - {Capability.POSITIONS, Capability.WILDCARD_SOURCE, Capability.TOPIC_DOMAIN},
    mapping="mgw_spool.envelope",
)
