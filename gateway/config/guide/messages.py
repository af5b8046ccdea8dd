"""DBMS_MGWMSG and the types of messages (AQ guide 12.2 §20, PL/SQL packages reference)."""

from __future__ import annotations

from mgw.gateway.config.guide.model import Row

__all__ = ["CONSTANTS", "CONVERSION", "MGWMSG", "MQ_HEADERS", "TIBRV_FIELDS", "TYPES"]

_TYPED = ("BOOLEAN", "BYTE", "SHORT", "INTEGER", "LONG", "FLOAT", "DOUBLE", "TEXT", "RAW", "DATE")

MGWMSG = (
    Row("NVARRAY_ADD", "yes", "`nvarray_add`; it returns the array, which cannot be changed"),
    Row("NVARRAY_FIND_NAME", "yes", "`nvarray_find_name`"),
    Row("NVARRAY_FIND_NAME_TYPE", "yes", "`nvarray_find_name_type`"),
    Row("NVARRAY_GET", "yes", "`nvarray_get`"),
    *(Row(f"NVARRAY_GET_{kind}", "yes", f"`nvarray_get_{kind.lower()}`") for kind in _TYPED),
    Row("LCR_TO_XML", "yes", "the transformation `lcr_to_xml`, of that name in `mgw.transforms.lcr`, too"),
    Row("XML_TO_LCR", "yes", "the transformation `xml_to_lcr`, of that name in `mgw.transforms.lcr`, too"),
    *(Row(f"{kind}_VALUE", "yes", f"`ValueType.{kind}`, the same number") for kind in _TYPED),
    Row("CASE_SENSITIVE, CASE_INSENSITIVE", "yes", "`CASE_SENSITIVE`, `CASE_INSENSITIVE`"),
    Row(
        "TIBRVMSG_BOOL, F32, F64, I8, I16, I32, I64, IPADDR32, IPPORT16, DATETIME, arrays, OPAQUE, STRING, XML",
        "no",
        "there is no TIB/Rendezvous link: fields have the types of `ValueType`; arrays are JSON in a JSON body",
    ),
)

TYPES = (
    Row("SYS.MGW_PROPERTY, SYS.MGW_PROPERTIES", "differs", "a mapping of name to value; None as value removes one"),
    Row(
        "SYS.MGW_MQSERIES_PROPERTIES, SYS.MGW_TIBRV_PROPERTIES",
        "differs",
        "`properties` of `create_msgsystem_link`, or keys of the link in YAML; a key that is left out keeps its "
        "value, as "
        "after ALTER_CONSTRUCT",
    ),
    Row("SYS.MGW_NAME_VALUE_T", "yes", "`Header`, made and checked by `name_value`: the same types and limits"),
    Row("SYS.MGW_NAME_VALUE_ARRAY_T", "yes", "`headers` of a `Message`, at most 1024"),
    Row("SYS.MGW_NUMBER_ARRAY_T", "differs", "an array in a JSON body, or an object type `VARRAY(n) OF NUMBER`"),
    Row(
        "SYS.MGW_TEXT_VALUE_T, SYS.MGW_RAW_VALUE_T",
        "differs",
        "text or bytes of any size: no small and large value",
    ),
    Row("SYS.MGW_BASIC_MSG_T", "yes", "payload type `BASIC`: headers, and a body of text, bytes or nothing"),
    Row("SYS.MGW_TIBRV_MSG_T", "differs", "payload type `FIELDS`: typed fields in order, names may repeat; no subject"),
    Row("SYS.MGW_TIBRV_FIELD_T", "differs", "a field of `FIELDS`: name, type, value; no field id"),
    Row("RAW", "yes", "payload type `RAW`; 32,512 bytes with `compatible` 12.2, else no such limit"),
    Row(
        "AQ$_JMS_TEXT_MESSAGE, BYTES, MAP, STREAM, OBJECT, AQ$_JMS_MESSAGE",
        "yes",
        "payload types of those names; [JMS messages](how-to/payloads-and-transformations.md#jms-messages)",
    ),
    Row("ANYDATA", "yes", "payload type `ANYDATA`"),
)

CONSTANTS = (
    Row(
        "DBMS_HQADM.MQSERIES_OUTBOUND",
        "yes",
        "`MQSERIES_OUTBOUND`, 128; with it `RABBITMQ_OUTBOUND`, `KAFKA_OUTBOUND`, `MQTT_OUTBOUND`",
    ),
    Row("OUTBOUND_PROPAGATION, INBOUND_PROPAGATION", "yes", "`OUTBOUND`, `INBOUND`; Python takes the long names, too"),
    Row(
        "DOMAIN_QUEUE, DOMAIN_TOPIC",
        "yes",
        "`QUEUE`, `TOPIC`, none: the messaging system decides; Python takes the long names, too",
    ),
    Row(
        "MQSERIES_BASE_JAVA_INTERFACE, JMS_CONNECTION, JMS_QUEUE_CONNECTION, JMS_TOPIC_CONNECTION",
        "no",
        "a link has one interface, the protocol of its broker",
    ),
    Row("JDBC_OCI, JDBC_THIN", "differs", "taken for `conntype`, no effect"),
    Row(
        "BASIC_LOGGING, TRACE_LITE_LOGGING, TRACE_HIGH_LOGGING, TRACE_DEBUG_LOGGING, TRACE_DEBUG_HIGH_LOGGING",
        "yes",
        "0 to 4 of `mgw agents log-level`",
    ),
    Row("NO_FORCE, FORCE", "yes", "`--force` of `mgw jobs remove`; False and True in Python"),
    Row("SHUTDOWN_NORMAL", "yes", "`SHUTDOWN_NORMAL`, and no other"),
    Row(
        "CLEAN_STARTUP_STATE, CLEAN_LOG_QUEUES, RESET_SUB_MISSING_LOG_REC, RESET_SUB_MISSING_MESSAGE",
        "yes",
        "`mgw agents clean`, and `mgw agents cleanup CLEAN_LOG_QUEUES` and so on",
    ),
    Row("AGENT_JAVA_PROP, MSGLINK_OPTION, JOB_OPTION", "yes", "targets of `set_option` and `remove_option`"),
    Row("NO_CHANGE", "yes", "`NO_CHANGE` in Python; an option that is left out on the command line"),
    Row("DEFAULT_AGENT", "yes", "`DEFAULT_AGENT`, and it cannot be removed"),
)

CONVERSION = (
    Row(
        "priority 0..9 becomes 9..0; below 0 is 9, above 9 is 0",
        "yes",
        "RabbitMQ, with `AMQP_MaxPriority` in place of 9; Kafka and MQTT have none: header `MGW_AQ_priority` with "
        "`AQ_MsgProperties`",
    ),
    Row(
        "expiration is what is left since the message became available, in tenths of a second",
        "yes",
        "RabbitMQ in milliseconds, MQTT 5 in seconds, rounded up; Kafka in the header `MGW_AQ_expiration`",
    ),
    Row(
        "PreserveMessageID: AQMSGID: and the id in the correlation of MQ",
        "differs",
        "in `message-id` of RabbitMQ always, as `AQMSGID:` and 32 hex digits; the correlation stays the application's",
    ),
    Row(
        "headers MGW_MQ_ (27 names)",
        "differs",
        "headers `MGW_AMQP_`, `MGW_KAFKA_`, `MGW_MQTT_`: [headers](reference/headers.md)",
    ),
    Row("fields MGW_AQ_ (8 names)", "yes", "the same eight names as headers or user properties"),
    Row("field MGW_RAW_MSG for RAW", "no", "a RAW message is the payload itself"),
    Row(
        "text and bytes in one message, small and large value in one body: refused",
        "yes",
        "a body is one of them by its type",
    ),
    Row("neither text nor bytes: a message without body", "yes", "the same"),
    Row(
        "RAW is sent as bytes, format MGW_Byte; text as MQFMT_STRING",
        "differs",
        "content type `application/octet-stream` for bytes, `text/plain` for text, where the message gives none",
    ),
    Row("inbound: text is text, anything else bytes", "yes", "by the content type; Kafka and MQTT 3.1.1: an option"),
    Row("LCR as XML in the field ORACLE_LCR", "yes", "the option `field` of `lcr_to_xml` and `xml_to_lcr`"),
    Row("text for a RAW payload [725], over 32,512 bytes [726]", "yes", "725; 726 over the limit of the queue table"),
    Row("at most 3 large text and 3 large byte fields [728] [729]", "differs", "no such limit"),
    Row(
        "U8 to U64, nested messages and custom types are refused",
        "differs",
        "RabbitMQ: unsigned numbers keep their type",
    ),
    Row(
        "a transformation makes the canonical type [721] [724]",
        "differs",
        "`from_type` and `to_type` may be any payload type; what does not fit the queue fails with 724",
    ),
    Row(
        "LCRs with JMS are not supported",
        "yes",
        "an LCR travels as XML: [change records](how-to/payloads-and-transformations.md)",
    ),
    Row("text without character set is MQ_ccsid, MQ_CharacterSet", "differs", "UTF-8; `decode_text` reads another one"),
)

_HUB = "only inside MQSeries; a header of your own where a receiver needs it"
MQ_HEADERS = (
    Row("accountingToken", "no", _HUB),
    Row("correlationId", "differs", "the correlation; `MGW_AMQP_correlationId` where it is longer than 128 characters"),
    Row(
        "groupId", "differs", "the transaction group in the hub (`message_grouping`); at a broker a header of your own"
    ),
    Row("messageId", "differs", "`MGW_AMQP_messageId`; MQTT 5 and Kafka: header `message-id`"),
    Row("applicationIdData", "no", _HUB),
    Row("applicationOriginData", "no", _HUB),
    Row("format", "differs", "`MGW_AMQP_contentType`, `MGW_MQTT_contentType`; Kafka: header `content-type`"),
    Row("putApplicationName", "differs", "`MGW_AMQP_appId`; the sender's name fills it"),
    Row("replyToQueueManagerName", "no", "`MGW_AMQP_replyTo` is one name"),
    Row("replyToQueueName", "differs", "`MGW_AMQP_replyTo`, `MGW_MQTT_responseTopic`; Kafka: header `reply-to`"),
    Row("userId", "differs", "`MGW_AMQP_userId`, which must be the user of the link"),
    Row("characterSet", "differs", "text is UTF-8; `MGW_AMQP_contentEncoding`"),
    Row("encoding", "no", "bodies are bytes or UTF-8 text: there is no order of bytes to tell"),
    Row("expiry", "differs", "the property expiration"),
    Row("feedback", "no", "there are no report messages"),
    Row("messageFlags", "no", "messages are not cut into segments"),
    Row("messageSequenceNumber", "no", "the order in the transaction group"),
    Row("offset", "differs", "`MGW_KAFKA_offset` is the place in a partition; there are no segments"),
    Row("originalLength", "no", "messages are not cut into segments"),
    Row("priority", "differs", "the property priority"),
    Row("messageType", "differs", "`MGW_AMQP_type`"),
    Row("putApplicationType", "no", _HUB),
    Row("report", "no", "there are no report messages; `mgw prove` tells what became of a message"),
    Row("backoutCount", "differs", "`MGW_AMQP_redelivered`, and header `x-delivery-count` of quorum queues"),
    Row("persistence", "differs", "`MGW_AMQP_deliveryMode`; `MGW_MQTT_qos`"),
    Row("putDateTime", "differs", "`MGW_AMQP_timestamp`, `MGW_KAFKA_timestamp`"),
    Row("putMessageOptions", "no", "options of the foreign queue; a message cannot ask for other ones"),
)

TIBRV_FIELDS = (
    Row("Bool, F32, F64, I8, I16, I32, I64", "yes", "BOOLEAN, FLOAT, DOUBLE, BYTE, SHORT, INTEGER, LONG of `FIELDS`"),
    Row("STRING, IPADDR32", "yes", "TEXT"),
    Row("IPPORT16", "differs", "INTEGER"),
    Row("DATETIME", "yes", "DATE"),
    Row("OPAQUE, XML", "differs", "RAW; XML may be a payload of type XMLTYPE"),
    Row("arrays of numbers", "differs", "arrays of a JSON body (payload type `JSON`), or a VARRAY of an object type"),
    Row("MGW_AQ_priority, _expiration, _delay, _correlation", "yes", "the same names"),
    Row("MGW_AQ_exception_queue, _enqueue_time, _original_msgid, _messageID", "yes", "the same names"),
    Row("send_subject", "differs", "`MGW_MQTT_topic`, `MGW_AMQP_routingKey`, `MGW_KAFKA_topic`"),
    Row("reply_subject", "differs", "`MGW_MQTT_responseTopic`, `MGW_AMQP_replyTo`"),
)
