"""Settings of links, foreign queues, jobs and agents; the initialization file (AQ guide 12.2 §18.6, §19.3, §19.7)."""

from __future__ import annotations

from mgw.gateway.config.guide.model import Row

__all__ = [
    "AGENT_PROPERTIES",
    "FOREIGN_QUEUE_OPTIONS",
    "INIT_FILE",
    "JOB_OPTIONS",
    "MQ_LINK",
    "MQ_LINK_OPTIONS",
    "SYSTEMS",
    "TIBRV_LINK",
]

_JAVA = "there is no Java: "
_EXIT = "no code of yours runs in the connection; a [transformation](how-to/transformations.md) changes messages"
_LOG = (
    "a RabbitMQ queue, a compacted Kafka topic, or an MQTT topic; `mgw links prepare` makes and names it. Without one "
)

MQ_LINK = (
    Row("queue_manager", "differs", "`hostname` and `virtual_host` (RabbitMQ), `bootstrap_servers` (Kafka)"),
    Row("hostname", "differs", "`hostname`, required: there are no bindings connections; it may change"),
    Row("port", "differs", "`port`, with a default for each protocol; it may change"),
    Row("channel", "no", "these brokers have none; a user and a virtual host keep applications apart"),
    Row("interface_type", "no", "a link has one interface, the protocol of its broker"),
    Row(
        "max_connections",
        "differs",
        "`max_connections`; NULL there is 1, here as many as the jobs need; 421 when all are taken",
    ),
    Row("username, password", "yes", "`username`, `password`, or `password_file`, which is read again when it changes"),
    Row("inbound_log_queue", "differs", _LOG + "the job is not refused: `GUARANTEE` says what it gives"),
    Row("outbound_log_queue", "differs", _LOG + "the job is not refused: `require_guarantee` refuses it"),
    Row(
        "log queues change only while no job uses them",
        "differs",
        "at any time, and it is used as it is: [another log](how-to/move-a-link.md#another-log-queue-or-log-topic)",
    ),
)

MQ_LINK_OPTIONS = (
    Row("an unknown option", "differs", "refused (ORA-32801), with the nearest name: there it is ignored"),
    Row(
        "MQ_BrokerControlQueue, MQ_BrokerPubQueue, MQ_BrokerQueueManager, MQ_BrokerVersion",
        "no",
        "topics are the broker's own",
    ),
    Row(
        "MQ_ccdtUrl",
        "differs",
        "several hosts: `hosts` of RabbitMQ and MQTT links, `bootstrap_servers` of Kafka links",
    ),
    Row("MQ_ccsid", "differs", "headers are UTF-8"),
    Row(
        "MQ_JmsDurSubQueue",
        "differs",
        "RabbitMQ: the job's own queue `MGW_JOB` of a topic; `AMQP_QueueType` is its type",
    ),
    Row(
        "MQ_PubAckInterval",
        "no",
        "every batch waits for the confirmation of all its messages: `MsgBatchSize`, `max_batch_size`",
    ),
    Row("MQ_ReceiveExit, MQ_SendExit, MQ_SecurityExit", "no", _EXIT),
    Row("MQ_ReceiveExitInit, MQ_SendExitInit, MQ_SecurityExitInit", "no", _EXIT),
    Row("MQ_SSLCipherSuite", "differs", "`tls`; the ciphers are OpenSSL's, which its configuration file limits"),
    Row("MQ_SSLPeerName", "differs", "`tls_server_name`: the certificate must be for that name"),
    Row("MQ_SSLResetCount", "no", "left to the TLS library"),
    Row("MQ_SSLFipsRequired", "no", "a property of the OpenSSL that Python uses"),
    Row(
        "MQ_SSLCrl",
        "no",
        "short-lived certificates: files are read again at every connect, `MGW_CERTIFICATES` shows their end",
    ),
)

TIBRV_LINK = (
    Row(
        "service, daemon",
        "differs",
        "`hostname` and `port` of an MQTT broker: there is a broker, not a daemon on each host",
    ),
    Row("network", "no", "routing of the network decides; `hosts` names the nodes of one cluster"),
    Row("cm_name", "differs", "`client_id_prefix` and the job's name identify a persistent session"),
    Row("cm_ledger", "differs", "`outbound_log_queue`, and the receiving log in the hub"),
    Row("no attribute may change", "differs", "all may, at the next connect"),
)

SYSTEMS = (
    Row("MQ queue, DOMAIN_QUEUE or NULL", "yes", "RabbitMQ queue or stream, MQTT shared subscription: `QUEUE`"),
    Row(
        "MQ JMS topic, DOMAIN_TOPIC",
        "yes",
        "RabbitMQ `exchange/pattern`, MQTT topic filter, Kafka topic: `TOPIC` or none",
    ),
    Row(
        "TIB/RV subject, DOMAIN_TOPIC or NULL",
        "yes",
        "MQTT topic: levels are divided by `/`, wildcards are `+` and `#`, not `*` and `>`",
    ),
    Row("wildcards as a source", "yes", "RabbitMQ and MQTT; Kafka: one registered queue for each topic"),
    Row("wildcards as a destination, discouraged", "differs", "refused when the job is created"),
    Row(
        "unified JMS link: the domain is required (ORA-32848)", "differs", "ORA-32848 where a broker has no such domain"
    ),
)

FOREIGN_QUEUE_OPTIONS = (
    Row("MQ_openOptions", "no", "`AMQP_Exclusive`, `AMQP_ConsumerPriority`, `AMQP_Prefetch` are what may be chosen"),
    Row("MQ_CharacterSet", "differs", "text is UTF-8; `decode_text` changes it"),
    Row("MQ_JmsDurSubQueue", "differs", "the job's own queue, see the option of the link"),
    Row(
        "MQ_JmsTargetClient",
        "differs",
        "always readable by any program: a JMS message has its body and its properties as headers",
    ),
)

JOB_OPTIONS = (
    Row(
        "MsgBatchSize, 30, 1 to 100",
        "differs",
        "`MsgBatchSize`, 30, 1 to 10,000; under load a batch grows to `max_batch_size`",
    ),
    Row("PreserveMessageID", "yes", "`PreserveMessageID`"),
    Row("AQ_MsgProperties", "yes", "`AQ_MsgProperties`, for all link types"),
    Row(
        "JMS_DeliveryMode, PRESERVE_MSG",
        "differs",
        "`JMS_DeliveryMode`; the default is PERSISTENT, so that nothing is lost",
    ),
    Row("JMS_NoLocal", "yes", "`JMS_NoLocal`, for all link types"),
    Row(
        "RV_discardAmount, RV_limitPolicy, RV_maxEvents",
        "no",
        "nothing is discarded: the broker keeps what the job has not read",
    ),
)

AGENT_PROPERTIES = (
    Row("oracle.mgw.batch_size", "yes", "`oracle.mgw.batch_size`; 1 to 10,000"),
    Row("oracle.mgw.polling_interval", "yes", "`oracle.mgw.polling_interval`, milliseconds"),
    Row(
        "oracle.mgw.tibrv.encoding, intraProcAdvSubjects, advMsgCallback",
        "no",
        "there is no TIB/Rendezvous link; refused as option, named in a warning in the file",
    ),
    Row("oracle.net.tns_admin", "no", "the hub is SQLite or PostgreSQL: `--hub`, `MGW_HUB`"),
    Row(
        "javax.net.ssl.keyStore, keyStorePassword",
        "differs",
        _JAVA + "`tls_cert_file`, `tls_key_file`, `tls_key_password` of each link",
    ),
    Row("javax.net.ssl.trustStore, trustStorePassword", "differs", _JAVA + "`tls_ca_file` of each link"),
)

INIT_FILE = (
    Row("file: initfile, mgw_<AGENT>.ora, mgw.ora", "yes", "the same, in `/etc/mgw` or the folder of `MGW_ADMIN`"),
    Row("comment, name = value, set, setenv, setJavaProp", "yes", "the same"),
    Row("an entry that is unknown", "differs", "named in a warning with its line"),
    Row("log_directory", "yes", "`log_directory`; `--log-dir` and `settings.log` come first"),
    Row("log_level", "yes", "`log_level`; `MGW_LOG_LEVEL` comes first"),
    Row("CLASSPATH, MGW_PRE_PATH", "no", _JAVA + "`mgw modules allow` admits Python modules"),
    Row("ORACLE_SID", "no", "`MGW_HUB` names the hub"),
    Row("setJavaProp", "yes", "the agent options; one in the hub wins"),
)
