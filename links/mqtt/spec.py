"""The settings of MQTT links, and what MQTT can do.

Capabilities that MQTT does not have: positions (a session has no history), backlog (a client cannot ask how much its
session holds), priority in a field of the protocol (job option ``AQ_MsgProperties`` carries it as a user property).
Under MQTT 3.1.1 there are no headers, correlation, expiration and message id either, unless the queue is registered
with ``MQTT_Envelope = JSON`` on both sides. There a broker also sends only so many unacknowledged messages as it is
configured for (Mosquitto: ``max_inflight_messages``, 20 by default), which is the largest batch.
"""

from __future__ import annotations

from mgw.links.contract import Capability, Domain, Field, Guarantee, LinkSpec
from mgw.links.header_names import HEADER_NAMES
from mgw.links.nodes import hosts_field
from mgw.links.patterns import mqtt_covers
from mgw.links.skeleton import Skeleton
from mgw.links.tls import tls_fields

__all__ = ["SPEC"]

SPEC = LinkSpec(
    type="MQTT",
    title="MQTT",
    description="An MQTT 3.1.1 or 5 broker: topics with wildcards, shared subscriptions, retained messages. "
    "outbound_log_queue (MQTT 5) names the topic of the records of a sending log, such as mgw/sent/{job}: jobs that "
    "write to the link are then exactly once except after a crash of the broker. The link's user must be allowed to "
    "read and write it, all topics below it, and the output topics. inbound_log_queue is refused: it is not needed. "
    "Under MQTT 3.1.1 headers, correlation, expiration and message ids travel only with MQTT_Envelope=JSON.",
    attributes=(
        Field("hostname", "Host name or address of the broker.", required=True, shown=True, instead="hosts"),
        Field("port", "TCP port; by default 1883, with TLS 8883.", int, minimum=1, maximum=65535, shown=True),
        hosts_field(
            " The nodes should share sessions (declared with MQTT_SharedSessions): otherwise messages wait in the "
            "session at one node while the job is connected to another. outbound_log_queue is refused with several "
            "nodes."
        ),
        Field("protocol_version", "5, or 4 for MQTT 3.1.1.", int, 5, minimum=4, maximum=5, shown=True),
        Field(
            "client_id_prefix",
            "Prefix of the client id of every job. Changing it abandons the sessions of inbound jobs.",
            default="MGW_",
            shown=True,
        ),
        Field(
            "keepalive",
            "Seconds without traffic after which a connection counts as lost; a ping is sent at 0.6 of it.",
            int,
            30,
            minimum=1,
            maximum=65535,
            shown=True,
        ),
        Field(
            "session_expiry",
            "Seconds the broker keeps the session of an inbound job, and the echo of an outbound job with a sending "
            "log, while nobody is connected; 4294967295 is forever. MQTT 3.1.1 has no such limit.",
            int,
            2_592_000,
            minimum=60,
            maximum=4_294_967_295,
            shown=True,
        ),
        Field(
            "max_packet_size",
            "Largest packet in bytes that the broker accepts, where it does not announce it (MQTT 3.1.1); 0 is no "
            "limit.",
            int,
            0,
            minimum=0,
            maximum=268_435_460,
        ),
        Field(
            "connect_timeout",
            "Seconds to wait for the connection, the login and the subscription.",
            float,
            10.0,
            minimum=0.1,
            maximum=600,
        ),
        *tls_fields(Field("tls", "Encrypt the connection.", bool, False), "the host"),
        HEADER_NAMES,
    ),
    options=(
        Field(
            "MQTT_CyclicPacketIds",
            "TRUE declares that a broker other than Mosquitto assigns packet ids in order, 1 to 65535 and again from "
            "1, keeps them across its restarts, and sends messages again only after a reconnect. If declared wrongly, "
            "messages are lost.",
            bool,
            False,
        ),
        Field(
            "MQTT_SharedSessions",
            "TRUE declares that all nodes of hosts share sessions: a job finds the same session, with its packet ids, "
            "at each of them. Without it jobs that read over several nodes are at-least-once. If declared wrongly, "
            "messages are lost or arrive twice.",
            bool,
            False,
        ),
        Field(
            "MQTT_SingleNode",
            "TRUE declares that a broker other than Mosquitto is one node that delivers a publisher's messages to a "
            "session in their order, and ends a connection before it answers the next one with the same client id. "
            "For the sending log (outbound_log_queue). If declared wrongly, messages may arrive twice.",
            bool,
            False,
        ),
    ),
    queue_options=(
        Field(
            "MQTT_Qos",
            "1: at least once, inbound exactly once where the broker allows it. 0: at most once, messages may be lost. "
            "2 is refused.",
            default="1",
            alterable=False,
        ),
        Field(
            "MQTT_PayloadType",
            "Type of inbound payloads that do not declare one: RAW or TEXT (UTF-8).",
            default="RAW",
            choices=("RAW", "TEXT"),
            alterable=False,
        ),
        Field(
            "MQTT_Envelope",
            "JSON: headers, properties and body travel as one JSON document in the payload, for MQTT 3.1.1. Both sides "
            "must agree.",
            default="NONE",
            choices=("NONE", "JSON"),
            alterable=False,
        ),
        Field("MQTT_Retain", "Outbound: publish as retained message.", bool, False, alterable=False),
        Field(
            "MQTT_Retained",
            "Inbound: skip or deliver the retained messages that exist when the job first subscribes. Under MQTT "
            "3.1.1 deliver repeats them at every reconnect.",
            default="skip",
            choices=("skip", "deliver"),
            alterable=False,
        ),
        Field(
            "MQTT_TopicFrom",
            "HEADER: header MGW_MQTT_topic may choose the topic, at or below the registered one.",
            default="REGISTRATION",
            choices=("REGISTRATION", "HEADER"),
            alterable=False,
        ),
    ),
    job_options=(
        Field(
            "PreserveMessageID",
            "Carry the message id; MQTT 5 always has it, in user property MGW_AQ_messageID, and so has MQTT_Envelope. "
            "TRUE is refused where nothing can carry it: MQTT 3.1.1 without MQTT_Envelope.",
            bool,
            False,
            dynamic=True,
        ),
        Field(
            "JMS_DeliveryMode",
            "Outbound: PERSISTENT publishes at QoS 1, NON_PERSISTENT at QoS 0, which is at most once. If it is not "
            "set, MQTT_Qos of the foreign queue counts.",
            default=None,
            choices=("PERSISTENT", "NON_PERSISTENT"),
            dynamic=True,
        ),
        Field(
            "AQ_MsgProperties",
            "Carry priority, delay, expiration, correlation, exception queue, enqueue time and original id as user "
            "properties MGW_AQ_*, and read them.",
            bool,
            False,
            dynamic=True,
        ),
    ),
    domains=(None, Domain.TOPIC, Domain.QUEUE),
    capabilities=frozenset(
        (
            Capability.REDELIVERY,
            Capability.PUSH,
            Capability.TYPED_HEADERS,
            Capability.TEXT_HEADERS,
            Capability.RAW_HEADERS,
            Capability.REPEATED_HEADERS,
            Capability.CORRELATION,
            Capability.EXPIRATION,
            Capability.MESSAGE_ID,
            Capability.TEXT_BODY,
            Capability.NULL_BODY,
            Capability.WILDCARD_SOURCE,
            Capability.TOPIC_DOMAIN,
            Capability.QUEUE_DOMAIN,
        )
    ),
    mapping="mgw.transforms.mqtt",
    outbound_log="mgw/sent/{job}",
    skeleton=Skeleton(
        settings={"hostname": "${END_HOST:-127.0.0.1}", "port": "${END_PORT:-1883}"},
        secure={
            "hostname": "${END_HOST:-localhost}",
            "port": "${END_PORT:-8883}",
            "tls": "true",
            "tls_ca_file": "${END_CA_FILE:-/etc/mgw/ca.pem}",
            "username": "${END_USER:-gateway}",
            "password": "${END_PASSWORD}",
        },
        rights="With an acl_file in mosquitto.conf",
        may_read=("user gateway", "topic read orders/#", "topic read $SYS/broker/version"),
        may_write=(
            "user gateway",
            "topic readwrite copy/orders",
            "topic readwrite mgw/sent/#",
            "topic read $SYS/broker/version",
        ),
        reads=Guarantee.EXACT_UNLESS_BROKER_CRASH,
        writes=Guarantee.EXACT_UNLESS_BROKER_CRASH,
        through=Guarantee.AT_LEAST_ONCE,
        source="orders/#",
        target="copy/orders",
        domain="topic",
    ),
    covers=mqtt_covers,
)
