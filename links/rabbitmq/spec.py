"""The settings of RabbitMQ links, and what RabbitMQ can do."""

from __future__ import annotations

from mgw.links.contract import Capability, Domain, Field, Guarantee, LinkSpec
from mgw.links.header_names import HEADER_NAMES
from mgw.links.nodes import hosts_field
from mgw.links.patterns import amqp_covers
from mgw.links.skeleton import Skeleton
from mgw.links.tls import tls_fields

__all__ = ["SPEC"]

_RIGHTS = r"rabbitmqctl set_permissions -p / gateway '^(mgw\.|orders)' '^amq\.default$' '^(mgw\.|orders)'"

SPEC = LinkSpec(
    type="RABBITMQ",
    title="RabbitMQ",
    description="RabbitMQ 3.10 or later over AMQP 0-9-1: queues, exchanges and streams. A stream cannot say how many "
    "messages wait. A job that reads a queue declares an exclusive queue mgw.lock.<hub>.<job>.inbound while it is "
    "connected, if the link's user has the permission.",
    attributes=(
        Field(
            "hostname",
            "Name or address of the broker.",
            required=True,
            default="localhost",
            shown=True,
            instead="hosts",
        ),
        Field(
            "port",
            "TCP port; default 5672, with TLS 5671.",
            int,
            None,
            minimum=1,
            maximum=65535,
            shown=True,
        ),
        hosts_field(),
        Field("virtual_host", "Virtual host.", default="/", shown=True),
        *tls_fields(Field("tls", "Encrypt the connection.", bool, False), "the host"),
        Field(
            "connection_name",
            "Prefix of the name under which the broker shows the link's connections; agent and job follow. Default "
            "mgw.",
        ),
        HEADER_NAMES,
    ),
    options=(
        Field(
            "AMQP_Heartbeat",
            "Seconds of silence that count as a missed heartbeat. The broker closes a dead connection of the gateway "
            "after two to three times as long. The gateway declares a broker dead after 5 s more than this at the "
            "earliest and after twice that at the latest: 10 to 20 s by default.",
            int,
            5,
            minimum=2,
            maximum=3600,
        ),
        Field("AMQP_ConnectTimeout", "Seconds to wait for a connection.", float, 10.0, minimum=0.1, maximum=600),
        Field("AMQP_AnswerTimeout", "Seconds to wait for an answer.", float, 15.0, minimum=0.1, maximum=600),
        Field(
            "AMQP_BlockedTimeout",
            "Seconds to tolerate an alarm of the broker, during which it accepts no messages.",
            float,
            60.0,
            minimum=0.1,
            maximum=3600,
        ),
        Field(
            "AMQP_ConfirmTimeout",
            "Seconds without any confirmation after which publishing fails.",
            float,
            60.0,
            minimum=0.1,
            maximum=3600,
        ),
        Field(
            "AMQP_ManagementURL",
            "Address of the management API, for example http://broker:15672, used with the link's user (tag "
            "management) to read policies that lower the guarantee of a job, which AMQP does not show, and to close "
            "the dead connection of a job that reconnects.",
        ),
    ),
    queue_options=(
        Field(
            "AMQP_QueueType",
            "Type of the queue; auto detects streams. Also the type of a topic job's own queue. For a job that writes "
            "to an exchange, classic declares that no quorum queue gets its messages, as a sending log demands.",
            default="auto",
            choices=("auto", "classic", "quorum", "stream"),
        ),
        Field(
            "AMQP_MaxPriority",
            "Highest priority of the queue (its argument x-max-priority).",
            int,
            9,
            minimum=0,
            maximum=255,
        ),
        Field("AMQP_Mandatory", "Refuse messages the exchange cannot route.", bool, True),
        Field(
            "AMQP_Prefetch",
            "Messages the broker may send ahead; default the larger of 1000 and twice max_batch_size, doubled for a "
            "job of type THROUGH.",
            int,
            None,
            minimum=1,
            maximum=65535,
        ),
        Field(
            "AMQP_ConsumerPriority",
            "Priority of the job among the consumers of the queue: consumers with a lower priority get messages only "
            "while its prefetch is exhausted. Not for streams.",
            int,
            0,
            minimum=-100,
            maximum=100,
        ),
        Field(
            "AMQP_Exclusive",
            "Be the only reader of the queue: other consumers are refused, and so is the job while they exist. An "
            "inbound log "
            "queue implies it. Quorum queues of RabbitMQ 3.10 do not refuse consumers; declare them with "
            "x-single-active-consumer.",
            bool,
            False,
        ),
        Field(
            "AMQP_UniqueIds",
            "Declares that every publisher gives each message a unique message-id: a message whose id was seen "
            "before in this queue is not stored again.",
            bool,
            False,
        ),
        Field(
            "AMQP_DeadLetters",
            "Messages may leave this queue by expiry, a length limit, dead-lettering or a shovel before they are "
            "acknowledged; then the inbound log queue is not used.",
            bool,
            False,
        ),
        Field(
            "AMQP_StreamOffset",
            "Where a job without stored position starts to read a stream.",
            default="first",
            choices=("first", "next", "last"),
        ),
        Field(
            "AMQP_MaxMessageSize",
            "Largest body in bytes; larger messages are conversion failures.",
            int,
            128 * 1024 * 1024,
            minimum=1,
        ),
    ),
    job_options=(
        Field(
            "JMS_DeliveryMode",
            "Outbound: the delivery-mode of what is sent. PERSISTENT is 2. NON_PERSISTENT is 1: a restart of the "
            "broker loses messages, which is at most once. PRESERVE_MSG takes that of the message (header "
            "JMSDeliveryMode or MGW_AMQP_deliveryMode; 2 where it has none), which is at most once, too.",
            default="PERSISTENT",
            choices=("PERSISTENT", "NON_PERSISTENT", "PRESERVE_MSG"),
            dynamic=True,
        ),
    ),
    domains=(None, Domain.QUEUE, Domain.TOPIC),
    capabilities=frozenset(Capability),
    extra="rabbitmq",
    mapping="mgw.transforms.amqp",
    inbound_log="mgw.acks.{job}",
    outbound_log="mgw.sent.{job}",
    skeleton=Skeleton(
        settings={
            "hostname": "${END_HOST:-127.0.0.1}",
            "port": "${END_PORT:-5672}",
            "virtual_host": "${END_VHOST:-/}",
            "username": "${END_USER:-guest}",
            "password": "${END_PASSWORD:-guest}",
        },
        secure={
            "hostname": "${END_HOST:-localhost}",
            "port": "${END_PORT:-5671}",
            "virtual_host": "${END_VHOST:-/}",
            "tls": "true",
            "tls_ca_file": "${END_CA_FILE:-/etc/mgw/ca.pem}",
            "username": "${END_USER:-gateway}",
            "password": "${END_PASSWORD}",
        },
        rights="What the user has to be allowed",
        may_read=(_RIGHTS,),
        may_write=(_RIGHTS,),
        reads=Guarantee.EXACT_UNLESS_BROKER_CRASH,
        writes=Guarantee.EXACT_UNLESS_BROKER_CRASH,
        source="orders",
        target="orders.copy",
        domain="queue",
        create={name: f"amqp-declare-queue -d -q {name}" for name in ("orders", "orders.copy")},
    ),
    covers=amqp_covers,
)
