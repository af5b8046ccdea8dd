"""Canonical messages as AMQP 0-9-1 content, and back: pure functions on bytes, no connection.

Properties are handled in their wire form (the property flags and values of a content header frame), because that is
what both ends need and because client libraries lose types on the way (floats arrive as integers, or cannot be sent).

=====================  ==========================================  ==================================================
AMQP                   outbound                                    inbound
=====================  ==========================================  ==================================================
priority               AQ p: < 0 -> P, > P -> 0, else P - p        P - min(v, P), absent: P. P is AMQP_MaxPriority
expiration             ms left, and MGW_AQ_expires_at              ms, or what MGW_AQ_expires_at leaves; >= 1 s
                                                                   one that is not a number: MGW_AMQP_expiration
correlation-id         MGW_AMQP_correlationId, else correlation    correlation; over 128 characters: the header
message-id             MGW_AMQP_messageId, else AQMSGID: + hex     MGW_AMQP_messageId
timestamp              MGW_AMQP_timestamp, else enqueue time       MGW_AMQP_timestamp
app-id                 MGW_AMQP_appId, else sender name            MGW_AMQP_appId
type, reply-to         MGW_AMQP_type, MGW_AMQP_replyTo             the same
user-id                MGW_AMQP_userId, must be the link's user    MGW_AMQP_userId
cluster-id             MGW_AMQP_clusterId                          MGW_AMQP_clusterId
content-type           MGW_AMQP_contentType, else text/plain or    MGW_AMQP_contentType
                       application/octet-stream; none: no body
content-encoding       MGW_AMQP_contentEncoding, else utf-8        MGW_AMQP_contentEncoding
delivery-mode          2                                           MGW_AMQP_deliveryMode
exchange, routing key  MGW_AMQP_routingKey where it is left open   MGW_AMQP_exchange (not the default), _routingKey
redelivered            --                                          MGW_AMQP_redelivered, when true
header x               x, or MGW_AMQP_H_x                          MGW_AMQP_H_x
header MGW_y           MGW_y                                       MGW_y
=====================  ==========================================  ==================================================

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
from mgw.transforms.amqp.outbound import encode

__all__ = ["HEADER_PREFIX", "PREFIX", "Content", "Rules", "decode", "decode_table", "encode"]
