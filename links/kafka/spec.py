"""The settings of Kafka links, and what Kafka can do."""

from __future__ import annotations

from mgw.links.contract import Capability, Domain, Field, Guarantee, LinkSpec
from mgw.links.header_names import HEADER_NAMES
from mgw.links.skeleton import Skeleton
from mgw.links.tls import tls_fields
from mgw.transforms.kafka import KeyFrom

__all__ = ["CLIENTS", "DEFAULT_CLIENT", "SPEC"]

_MILLISECONDS = 3_600_000
CLIENTS = ("kafka-python", "confluent")
DEFAULT_CLIENT = "kafka-python"

SPEC = LinkSpec(
    type="KAFKA",
    title="Apache Kafka",
    description="Topics of a Kafka cluster, with keys, partitions and headers.",
    attributes=(
        Field(
            "bootstrap_servers",
            "Servers to contact first, host:port, separated by commas.",
            required=True,
            shown=True,
        ),
        Field(
            "security_protocol",
            "Protocol of the listener: plain or TLS (SSL), with or without login (SASL).",
            default="PLAINTEXT",
            choices=("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL"),
            shown=True,
        ),
        Field(
            "sasl_mechanism",
            "How the link authenticates with its user name and password (with SASL). OAUTHBEARER: with a token, for "
            "which oauth_token_url or oauth_token_file is set.",
            default="SCRAM-SHA-512",
            choices=("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512", "OAUTHBEARER"),
            shown=True,
        ),
        Field(
            "oauth_token_url",
            "OAUTHBEARER: token endpoint, https://host/path. Username and password of the link are client id and "
            "secret there (client credentials, RFC 6749 §4.4). A token is fetched again before it ends.",
        ),
        Field("oauth_scope", "OAUTHBEARER: scope to ask for; default: none."),
        Field(
            "oauth_ca_file",
            "OAUTHBEARER: PEM file of the certificate authorities to trust at the token endpoint; default: the "
            "system's.",
        ),
        Field(
            "oauth_token_file",
            "OAUTHBEARER: file that holds a token, in place of oauth_token_url. It is read again before that ends.",
        ),
        Field(
            "oauth_extensions",
            "OAUTHBEARER: SASL extensions that the cluster wants, name=value, separated by commas.",
        ),
        *tls_fields(
            Field(
                "tls",
                "Encrypt the connection: TRUE makes PLAINTEXT of security_protocol SSL, and SASL_PLAINTEXT SASL_SSL. "
                "Default: as security_protocol says.",
                bool,
            ),
            "the server of the cluster",
        ),
        Field(
            "client",
            "Client library: kafka-python, or confluent, which is librdkafka (extra confluent).",
            default=DEFAULT_CLIENT,
            choices=CLIENTS,
        ),
        HEADER_NAMES,
    ),
    options=(
        Field(
            "KAFKA_Linger_ms",
            "Milliseconds to wait for more records before a request. With the client kafka-python, "
            "records that come while none is under way are sent at once.",
            int,
            1,
            minimum=0,
            maximum=1000,
        ),
        Field("KAFKA_Batch_size", "Bytes of one record batch.", int, 262_144, minimum=1024, maximum=16_777_216),
        Field(
            "KAFKA_Compression_type",
            "Compression of record batches.",
            default="none",
            choices=("none", "gzip", "lz4", "snappy", "zstd"),
        ),
        Field(
            "KAFKA_Max_request_size",
            "Largest message in bytes; default: the topic's limit (max.message.bytes).",
            int,
            minimum=1024,
            maximum=134_217_728,
        ),
        Field(
            "KAFKA_Request_timeout_ms",
            "Milliseconds to wait for the answer to one request.",
            int,
            10_000,
            minimum=1000,
            maximum=_MILLISECONDS,
        ),
        Field(
            "KAFKA_Delivery_timeout_ms",
            "Milliseconds without any confirmation after which a destination gives up and reconnects.",
            int,
            30_000,
            minimum=1000,
            maximum=_MILLISECONDS,
        ),
        Field(
            "KAFKA_Bootstrap_timeout_ms",
            "Milliseconds to wait for the connection to a server of the cluster.",
            int,
            10_000,
            minimum=500,
            maximum=_MILLISECONDS,
        ),
        Field(
            "KAFKA_Metadata_max_age_ms",
            "Milliseconds after which topics and partitions are looked up again.",
            int,
            15_000,
            minimum=100,
            maximum=_MILLISECONDS,
        ),
        Field(
            "KAFKA_Fetch_max_bytes",
            "Maximum bytes of one response.",
            int,
            52_428_800,
            minimum=1024,
            maximum=536_870_912,
        ),
        Field(
            "KAFKA_Max_partition_fetch_bytes",
            "Maximum bytes of one partition in one response.",
            int,
            1_048_576,
            minimum=1024,
            maximum=134_217_728,
        ),
    ),
    queue_options=(
        Field(
            "KAFKA_Key",
            "What becomes the record's key (header MGW_KAFKA_key takes precedence).",
            default="CORRELATION",
            choices=tuple(KeyFrom),
            alterable=False,
        ),
        Field(
            "KAFKA_ValueType",
            "Body of messages read: bytes (RAW) or UTF-8 text.",
            default="RAW",
            choices=("RAW", "TEXT"),
            alterable=False,
        ),
        Field(
            "KAFKA_HeaderType",
            "Headers of messages read whose type no gateway told: text if they are UTF-8 without control characters, "
            "else bytes (AUTO; with header_names: documented always bytes), always bytes (RAW), or any UTF-8 as text "
            "(TEXT).",
            default="AUTO",
            choices=("AUTO", "RAW", "TEXT"),
            alterable=False,
        ),
        Field(
            "KAFKA_Partition",
            "Partition of messages sent: from header MGW_KAFKA_partition if there is one, or always from the key.",
            default="HEADER",
            choices=("HEADER", "KEY"),
            alterable=False,
        ),
        Field(
            "KAFKA_StartAt",
            "Where a new job starts to read: after the last message (latest) or at the first (earliest).",
            default="latest",
            choices=("latest", "earliest"),
            alterable=False,
        ),
    ),
    job_options=(
        Field(
            "AQ_MsgProperties",
            "Carry priority, delay, expiration, exception queue, original id and sender as headers MGW_AQ_*.",
            bool,
            False,
            dynamic=True,
        ),
        Field(
            "PreserveMessageID",
            "Carry the message id; a Kafka record always has it, in header MGW_AQ_messageID.",
            bool,
            False,
            dynamic=True,
        ),
        Field(
            "JMS_DeliveryMode",
            "A topic keeps each record, so there is no other mode.",
            default="PERSISTENT",
            choices=("PERSISTENT",),
            dynamic=True,
        ),
    ),
    domains=(None, Domain.TOPIC),
    capabilities=frozenset(
        (
            Capability.REDELIVERY,
            Capability.PUSH,
            Capability.TYPED_HEADERS,
            Capability.TEXT_HEADERS,
            Capability.RAW_HEADERS,
            Capability.REPEATED_HEADERS,
            Capability.CORRELATION,
            Capability.NULL_BODY,
            Capability.POSITIONS,
            Capability.BACKLOG,
            Capability.TOPIC_DOMAIN,
        )
    ),
    extra="kafka",
    mapping="mgw.transforms.kafka",
    outbound_log="mgw.sent",
    skeleton=Skeleton(
        settings={"bootstrap_servers": "${END_SERVERS:-127.0.0.1:9092}"},
        secure={
            "bootstrap_servers": "${END_SERVERS:-localhost:9093}",
            "security_protocol": "SASL_SSL",
            "sasl_mechanism": "SCRAM-SHA-512  # or SCRAM-SHA-256, or PLAIN",
            "tls_ca_file": "${END_CA_FILE:-/etc/mgw/ca.pem}",
            "username": "${END_USER:-gateway}",
            "password": "${END_PASSWORD}",
        },
        rights="With ACLs: kafka-acls.sh --add --allow-principal User:gateway, with each of these lines",
        may_read=("--topic orders --operation Read --operation DescribeConfigs",),
        may_write=(
            "--topic orders.copy --operation Write --operation DescribeConfigs",
            "--topic mgw.sent --operation Create --operation Read --operation Write --operation DescribeConfigs",
            "--topic __transaction_state --operation Describe --operation DescribeConfigs",
            "--transactional-id mgw- --resource-pattern-type prefixed --operation Write",
        ),
        reads=Guarantee.EXACT,
        writes=Guarantee.EXACT,
        source="orders",
        target="orders.copy",
        options="{KAFKA_StartAt: earliest, KAFKA_HeaderType: TEXT}  # from the first record; headers are text",
        create={
            name: f"kafka-topics.sh --bootstrap-server 127.0.0.1:9092 --create --topic {name}"
            for name in ("orders", "orders.copy")
        },
    ),
)
