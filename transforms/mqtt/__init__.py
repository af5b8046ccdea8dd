"""The canonical message as an MQTT PUBLISH and back: pure maps, no network.

===============================  =============================================  =====================================
canonical                        MQTT 5                                         MQTT 3.1.1
===============================  =============================================  =====================================
``MGW_MQTT_topic`` TEXT          topic; out: by the registration                the same
``MGW_MQTT_qos`` INTEGER         in only; out: by option ``MQTT_Qos``           the same
``MGW_MQTT_retain`` BOOLEAN      retain; out: header, else ``MQTT_Retain``      the same
``MGW_MQTT_dup`` BOOLEAN         in only                                        the same
expiration                       message expiry interval (seconds left)         lost
correlation                      correlation data, raw copy in                  lost
                                 ``MGW_MQTT_correlationData`` RAW
``MGW_MQTT_responseTopic``       response topic                                 lost
``MGW_MQTT_contentType``         content type                                   lost
``MGW_MQTT_payloadFormat``       payload format indicator: text 1, raw 0        option ``MQTT_PayloadType`` (in)
``MGW_MQTT_U_x``                 user property ``x``                            lost
every other header               user property of its own name                  lost
msgid                            user property ``MGW_AQ_messageID``             lost
AQ properties                    user properties ``MGW_AQ_*`` (job option       lost
                                 ``AQ_MsgProperties``)
===============================  =============================================  =====================================

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
