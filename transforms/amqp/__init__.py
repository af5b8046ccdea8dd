"""Canonical messages as AMQP 0-9-1 content, and back: pure functions on bytes, no connection.

Properties are handled in their wire form (the property flags and values of a content header frame), because that is
what both ends need and because client libraries lose types on the way (floats arrive as integers, or cannot be sent).

Names, fields and what is lost: :mod:`mgw.transforms.amqp.table`.

Header types map one to one; arrays, tables and void are JSON (:mod:`mgw.transforms.amqp.nested`), and what of it other
systems get is this text; text that is not UTF-8 becomes RAW. What the broker itself
writes about one hop (``x-death``, ``x-delivery-count`` and the like) is shown inbound and not sent on. AMQP times have
whole seconds.

A timestamp is the application's and says nothing of how long a message lay in its queue. The broker does not count the
expiration down either, so one from an application starts again in the hub. A gateway tells the moment of expiry in
``MGW_AQ_expires_at`` (epoch milliseconds), which the next one believes as far as it shortens the expiration.
"""

from __future__ import annotations

from mgw.transforms.amqp.common import HEADER_PREFIX, PREFIX, Content, Rules
from mgw.transforms.amqp.inbound import decode, decode_table
from mgw.transforms.amqp.known import encode_known
from mgw.transforms.amqp.outbound import encode

__all__ = ["HEADER_PREFIX", "PREFIX", "Content", "Rules", "decode", "decode_table", "encode", "encode_known"]
