"""The canonical message as an MQTT PUBLISH and back: pure maps, no network.

Names, fields and what is lost: :mod:`mgw.transforms.mqtt.table`. MQTT 3.1.1 has topic, QoS, retain, dup and payload
only.

With the option ``MQTT_Envelope = JSON`` everything that is lost under 3.1.1 travels inside the payload
(:mod:`mgw.transforms.mqtt.envelope`); both sides must agree on it. How typed headers become user properties is
described in :mod:`mgw.transforms.mqtt.user_properties`. The fields of a message with the canonical payload FIELDS
travel as JSON (:data:`FIELDS_CONTENT_TYPE`).

An id that an earlier hop gave (``MGW_AQ_messageID``) goes on as ``MGW_AQ_original_msgid``. ``MGW_MQTT_qos`` of an
earlier hop does not weaken the next one: the option decides.
"""

from __future__ import annotations

from mgw.transforms.mqtt.common import FIELDS_CONTENT_TYPE, NO_PROPERTIES, Inbound, Outbound, Properties, Publish
from mgw.transforms.mqtt.from_publish import inbound
from mgw.transforms.mqtt.to_publish import outbound

__all__ = [
    "FIELDS_CONTENT_TYPE",
    "NO_PROPERTIES",
    "Inbound",
    "Outbound",
    "Properties",
    "Publish",
    "inbound",
    "outbound",
]
