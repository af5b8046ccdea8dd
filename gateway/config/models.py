"""The shape of a configuration file.

One model per kind of object. They hold what is common to every messaging system; the settings of a link type, of its
foreign queues and of its jobs are described once, by the type's :class:`~mgw.links.contract.LinkSpec`, and are checked
against it in :mod:`mgw.gateway.config.lint`. A key that no model and no specification knows is an error.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, ConfigDict, Field, model_validator

from mgw.gateway.aq import QUEUE_ATTRIBUTES, QUEUE_TABLE_ATTRIBUTES, SUBSCRIBER_ATTRIBUTES
from mgw.gateway.config.fields import (
    ONE_OR_MANY,
    Options,
    PayloadType,
    QueueGrant,
    SortList,
    Strict,
    SystemGrant,
    Text,
    as_in_its_table,
    described,
    lower,
    one_or_many,
    upper,
)
from mgw.gateway.definitions.attributes import (
    AGENT_ATTRIBUTES,
    FOREIGN_QUEUE_ATTRIBUTES,
    JOB_ATTRIBUTES,
    LINK_ATTRIBUTES,
)
from mgw.gateway.definitions.http_address import DEFAULT_HTTP

__all__ = [
    "NOUNS",
    "SECTIONS",
    "AgentModel",
    "AqAgentModel",
    "Document",
    "ForeignQueueModel",
    "GrantModel",
    "HttpModel",
    "JobModel",
    "LinkModel",
    "LogModel",
    "ObjectTypeModel",
    "QueueModel",
    "QueueTableModel",
    "SettingsModel",
    "SubscriberModel",
    "TransformationModel",
]


class LogModel(Strict):
    """What the gateway writes about itself."""

    format: Annotated[Literal["text", "json"], BeforeValidator(lower)] = Field(
        default="text", description="Format of the lines on standard output."
    )
    directory: str | None = Field(
        default=None,
        description="Folder for one log file per agent run, in addition to standard output; `off`: none. "
        "Default: `log` next to an SQLite hub.",
    )
    level: int | None = Field(
        default=None,
        ge=0,
        le=4,
        description="Log level of an agent when it starts, 0 (basic) to 4 (everything). "
        "Default: `log_level` of its initialization file, else 0.",
    )


class HttpModel(Strict):
    """Where a running agent answers over HTTP: health, metrics and, with the extra `http`, the REST interface."""

    listen: str = Field(
        default=DEFAULT_HTTP,
        description="`HOST:PORT`; `auto`: the next free port from 8787; `off`. `MGW_HTTP` and `--http` take "
        "precedence.",
    )
    behind_proxy: bool = Field(
        default=False,
        description="true: other machines may be able to reach the address, because a proxy or a container network "
        "protects it. Without users (`mgw users`) they get health and metrics alone, which show names and errors, no "
        "messages and no secrets. `MGW_HTTP_BEHIND_PROXY` takes precedence.",
    )
    certificate_file: str | None = Field(
        default=None,
        description="PEM file of a certificate with its chain, for TLS; read again when it changes. Needs the extra "
        "`http`. `MGW_HTTP_CERTIFICATE_FILE` takes precedence.",
    )
    key_file: str | None = Field(
        default=None, description="PEM file of its key, without a passphrase. `MGW_HTTP_KEY_FILE` takes precedence."
    )


class SettingsModel(Strict):
    """Settings of the gateway as a whole; environment variables and command line options win over them."""

    hub: str | None = Field(
        default=None,
        description="Hub database, an SQLAlchemy URL (`sqlite:///hub.db`, `postgresql+psycopg://user@host/db`, with "
        "`?schema=NAME` where the hub is in a schema of its own). `MGW_HUB` and `--hub` take precedence.",
    )
    secret_key_file: str | None = Field(
        default=None,
        description="Key file for stored passwords; default: one next to the hub, created on first use. Commands "
        "without a configuration file find it by `MGW_SECRET_KEY_FILE`, which takes precedence.",
    )
    transform_modules: list[str] = Field(
        default_factory=list,
        description="Python modules whose functions transformations and rules may call; kept in the hub, for every "
        "process that opens it.",
    )
    rule_functions: dict[str, str] = Field(
        default_factory=dict,
        description="Functions that rules may call: `name` or `schema.name` as rules write it, and "
        "`package.module:function`, of a module in transform_modules; kept in the hub.",
    )
    prune: Literal["refuse", "force"] = Field(
        default="refuse",
        description="What `mgw apply` does when messages would be deleted with what it removes: refuse, or delete them "
        "(force, like `--force`).",
    )
    log: LogModel = Field(default=LogModel(), description="Logging; for `mgw run FILE`, the hub does not keep it.")
    http: HttpModel = Field(
        default=HttpModel(),
        description="Health, metrics and REST over HTTP; for `mgw run FILE`, the hub does not keep it.",
    )


#: Settings that the hub does not keep, since each process on each machine has its own.
OF_THE_PROCESS = ("secret_key_file", "http", "log")


class AgentModel(Strict):
    """An agent: one process that runs jobs. `DEFAULT_AGENT` always exists."""

    max_threads: int = described(AGENT_ATTRIBUTES["max_threads"])
    max_memory: int = described(AGENT_ATTRIBUTES["max_memory"])
    username: str | None = described(AGENT_ATTRIBUTES["username"])
    password: str | None = described(AGENT_ATTRIBUTES["password"])
    password_file: str | None = Field(default=None, description="File that holds the password.")
    database: str | None = described(AGENT_ATTRIBUTES["database"])
    conntype: Annotated[Literal["JDBC_OCI", "JDBC_THIN"], BeforeValidator(upper)] = described(
        AGENT_ATTRIBUTES["conntype"]
    )
    service: str | None = described(AGENT_ATTRIBUTES["service"])
    initfile: str | None = described(AGENT_ATTRIBUTES["initfile"])
    comment: str | None = described(AGENT_ATTRIBUTES["comment"])
    options: Options = Field(default_factory=dict, description="Agent options.")


class LinkModel(Strict):
    """A named set of connections to one messaging system; its other attributes depend on its `type`."""

    type: Annotated[str, BeforeValidator(upper)] = described(LINK_ATTRIBUTES["type"])
    agent: str = described(LINK_ATTRIBUTES["agent"])
    username: str | None = described(LINK_ATTRIBUTES["username"])
    password: str | None = described(LINK_ATTRIBUTES["password"])
    password_file: str | None = Field(default=None, description="File that holds the password.")
    max_connections: int | None = described(LINK_ATTRIBUTES["max_connections"])
    inbound_log_queue: str | None = described(LINK_ATTRIBUTES["inbound_log_queue"])
    outbound_log_queue: str | None = described(LINK_ATTRIBUTES["outbound_log_queue"])
    prepare: bool = Field(
        default=False,
        description="Create the log queues or log topic of its jobs at the messaging system when the file is applied, "
        "as `mgw links prepare` does; a log queue that is not named gets the name that the command gives it.",
    )
    options: Options = Field(default_factory=dict, description="Options of the link type.")
    comment: str | None = described(LINK_ATTRIBUTES["comment"])
    attributes: dict[str, Any] = Field(
        default_factory=dict, description="Filled from the keys that the link type defines (see the link types)."
    )


class ForeignQueueModel(Strict):
    """A queue, exchange or topic of a messaging system, registered as `name@link`. It is never created there."""

    provider_queue: Text | None = described(FOREIGN_QUEUE_ATTRIBUTES["provider_queue"])
    domain: Annotated[Literal["QUEUE", "TOPIC"], BeforeValidator(upper)] | None = described(
        FOREIGN_QUEUE_ATTRIBUTES["domain"]
    )
    options: Options = Field(default_factory=dict, description="Options of the link type for foreign queues.")
    comment: str | None = described(FOREIGN_QUEUE_ATTRIBUTES["comment"])


class ObjectTypeModel(Strict):
    """A type that queue tables, transformations, ANYDATA and other types can be made of, `[SCHEMA.]NAME`.

    It has attributes, or is an array; see
    [payloads](../how-to/payloads-and-transformations.md#object-types). It cannot be changed later.
    """

    model_config = ConfigDict(
        extra="forbid",
        frozen=True,
        json_schema_extra={"oneOf": [{"required": ["attributes"]}, {"required": ["array"]}]},
    )

    attributes: dict[str, str] = Field(
        default_factory=dict,
        description="Declared type by name, in order: `VARCHAR2(40)`, `NUMBER(9,2)`, `OE.ADDRESS`.",
    )
    array: str | None = Field(default=None, description="`VARRAY(n) OF type` instead of attributes.")

    @model_validator(mode="after")
    def _one_of_both(self) -> ObjectTypeModel:
        if bool(self.attributes) is (self.array is not None):
            raise ValueError("either attributes or array")
        return self


class QueueTableModel(Strict):
    """Storage shared by hub queues of the same shape.

    What can be changed later: `compatible`, `jms_types` to true, the instances and the comment.
    """

    payload_type: PayloadType = described(QUEUE_TABLE_ATTRIBUTES["payload_type"])
    multiple_consumers: bool = described(QUEUE_TABLE_ATTRIBUTES["multiple_consumers"])
    sort_list: SortList | None = described(QUEUE_TABLE_ATTRIBUTES["sort_list"])
    message_grouping: Annotated[Literal["NONE", "TRANSACTIONAL"], BeforeValidator(upper)] = described(
        QUEUE_TABLE_ATTRIBUTES["message_grouping"]
    )
    compatible: Text | None = described(QUEUE_TABLE_ATTRIBUTES["compatible"])
    secure: bool = described(QUEUE_TABLE_ATTRIBUTES["secure"])
    max_payload: int | None = described(QUEUE_TABLE_ATTRIBUTES["max_payload"])
    jms_types: bool | None = described(QUEUE_TABLE_ATTRIBUTES["jms_types"])
    storage_clause: str | None = described(QUEUE_TABLE_ATTRIBUTES["storage_clause"])
    primary_instance: int = described(QUEUE_TABLE_ATTRIBUTES["primary_instance"])
    secondary_instance: int = described(QUEUE_TABLE_ATTRIBUTES["secondary_instance"])
    options: Options = Field(default_factory=dict, description="Options of queue tables.")
    comment: str | None = described(QUEUE_TABLE_ATTRIBUTES["comment"])


class SubscriberModel(Strict):
    """A consumer of a multi-consumer queue, under its name. Jobs create and remove their own."""

    rule: str | None = described(SUBSCRIBER_ATTRIBUTES["rule"])
    transformation: str | None = described(SUBSCRIBER_ATTRIBUTES["transformation"])
    delivery_mode: Annotated[Literal["PERSISTENT", "PERSISTENT_OR_BUFFERED"], BeforeValidator(upper)] = described(
        SUBSCRIBER_ATTRIBUTES["delivery_mode"]
    )
    options: Options = Field(default_factory=dict, description="Options of subscribers.")


Subscribers = dict[str, Annotated[SubscriberModel, BeforeValidator(lambda value: {} if value is None else value)]]


class QueueModel(Strict):
    """A durable queue of the hub. The attributes of its queue table may be given in place."""

    queue_table: str | None = Field(
        default=None, description="Queue table that stores it; none: one of its own, named after the queue."
    )
    type: Annotated[Literal["NORMAL", "EXCEPTION"], BeforeValidator(upper)] = described(QUEUE_ATTRIBUTES["type"])
    max_retries: int | None = described(QUEUE_ATTRIBUTES["max_retries"])
    retry_delay: float = described(QUEUE_ATTRIBUTES["retry_delay"])
    retention_time: (
        Annotated[float, Field(allow_inf_nan=False)] | Annotated[Literal["INFINITE"], BeforeValidator(upper)]
    ) = described(QUEUE_ATTRIBUTES["retention_time"])
    enqueue: bool = described(QUEUE_ATTRIBUTES["enqueue"])
    dequeue: bool = described(QUEUE_ATTRIBUTES["dequeue"])
    subscribers: Subscribers | None = Field(
        default=None,
        description="Subscribers by name, of a multi-consumer queue; all others are removed. A missing key changes "
        "none.",
    )
    comment: str | None = described(QUEUE_ATTRIBUTES["comment"])
    payload_type: PayloadType | None = as_in_its_table("payload_type")
    multiple_consumers: bool | None = as_in_its_table("multiple_consumers")
    sort_list: SortList | None = as_in_its_table("sort_list")
    message_grouping: Annotated[Literal["NONE", "TRANSACTIONAL"], BeforeValidator(upper)] | None = as_in_its_table(
        "message_grouping"
    )
    compatible: Text | None = as_in_its_table("compatible")
    secure: bool | None = as_in_its_table("secure")
    max_payload: int | None = as_in_its_table("max_payload")
    jms_types: bool | None = as_in_its_table("jms_types")
    storage_clause: str | None = as_in_its_table("storage_clause")
    options: Options | None = Field(default=None, description="As in a queue table.")
    primary_instance: int | None = as_in_its_table("primary_instance")
    secondary_instance: int | None = as_in_its_table("secondary_instance")


class TransformationModel(Strict):
    """A named change of messages in transit, written as expressions or as a Python function."""

    from_type: PayloadType = Field(default="BASIC", description="Payload type it takes.")
    to_type: PayloadType = Field(default="BASIC", description="Payload type it gives.")
    comment: str | None = Field(default=None, description="Free text.")
    definition: dict[str, Any] = Field(default_factory=dict, description="What it does.")


class JobModel(Strict):
    """Moves messages from one source to one destination."""

    type: Annotated[Literal["INBOUND", "OUTBOUND", "THROUGH", "LOCAL"], BeforeValidator(upper)] = described(
        JOB_ATTRIBUTES["type"]
    )
    source: str = described(JOB_ATTRIBUTES["source"])
    destination: str = described(JOB_ATTRIBUTES["destination"])
    rule: str | None = described(JOB_ATTRIBUTES["rule"])
    transformation: str | None = described(JOB_ATTRIBUTES["transformation"])
    exception_queue: str | None = described(JOB_ATTRIBUTES["exception_queue"])
    poll_interval: float | None = described(JOB_ATTRIBUTES["poll_interval"])
    batch_size: int | None = described(JOB_ATTRIBUTES["batch_size"])
    options: Options = Field(default_factory=dict, description="Job options.")
    require_guarantee: (
        Annotated[
            Literal["exact", "exact-unless-broker-crash", "at-least-once", "at-most-once"], BeforeValidator(lower)
        ]
        | None
    ) = described(JOB_ATTRIBUTES["require_guarantee"])
    enabled: bool = described(JOB_ATTRIBUTES["enabled"])
    comment: str | None = described(JOB_ATTRIBUTES["comment"])


class AqAgentModel(Strict):
    """An AQ agent: the identity under which users work with secure queues."""

    users: Annotated[list[str], BeforeValidator(one_or_many), ONE_OR_MANY] = Field(
        default_factory=list, description="Database users whose privileges it has."
    )
    certificate_location: str | None = Field(
        default=None, description="Where its certificate is; needs `enable_http` or `enable_anyp`."
    )
    enable_http: bool = Field(default=False, description="It may use HTTP.")
    enable_anyp: bool = Field(default=False, description="It may use any protocol.")


class GrantModel(Strict):
    """Everything that a user or role was granted; what is left out is revoked. Grants by other users stay."""

    roles: Annotated[list[str], BeforeValidator(one_or_many), ONE_OR_MANY] = Field(
        default_factory=list, description="Roles it holds; `AQ_ADMINISTRATOR_ROLE` may do everything."
    )
    system_privileges: Annotated[list[SystemGrant], BeforeValidator(one_or_many), ONE_OR_MANY] = Field(
        default_factory=list,
        description="`ENQUEUE_ANY`, `DEQUEUE_ANY`, `MANAGE_ANY`; each may be followed by `with admin option`.",
    )
    queues: dict[str, Annotated[list[QueueGrant], BeforeValidator(one_or_many), ONE_OR_MANY]] = Field(
        default_factory=dict,
        description="By queue: `ENQUEUE`, `DEQUEUE`, `ALL`; each may be followed by `with grant option`.",
    )
    object_types: Annotated[list[str], BeforeValidator(one_or_many), ONE_OR_MANY] = Field(
        default_factory=list, description="Object types of other users that it may use (EXECUTE)."
    )


class ModuleModel(Strict):
    """A module that functions may come from; an entry of `settings.transform_modules`."""


class RuleFunctionModel(Strict):
    """A function that rules may call; an entry of `settings.rule_functions`."""

    function: str


class Document(Strict):
    """A whole configuration: every file of one call merged. Sections map names to objects; names ignore case."""

    version: Literal[1] = Field(default=1, description="Version of this format.")
    settings: SettingsModel = Field(default=SettingsModel(), description="The gateway as a whole.")
    agents: dict[str, AgentModel] = Field(default_factory=dict, description="Agents.")
    links: dict[str, LinkModel] = Field(default_factory=dict, description="Links.")
    foreign_queues: dict[str, ForeignQueueModel] = Field(default_factory=dict, description="Foreign queues.")
    object_types: dict[str, ObjectTypeModel] = Field(default_factory=dict, description="Object types of the hub.")
    queue_tables: dict[str, QueueTableModel] = Field(default_factory=dict, description="Queue tables of the hub.")
    queues: dict[str, QueueModel] = Field(default_factory=dict, description="Queues of the hub.")
    transformations: dict[str, TransformationModel] = Field(default_factory=dict, description="Transformations.")
    jobs: dict[str, JobModel] = Field(default_factory=dict, description="Propagation jobs.")
    aq_agents: dict[str, AqAgentModel] = Field(default_factory=dict, description="AQ agents of secure queues.")
    grants: dict[str, GrantModel] = Field(
        default_factory=dict, description="What users and roles may do; `PUBLIC` is everybody."
    )

    @property
    def modules(self) -> dict[str, ModuleModel]:
        """The modules of the settings, as objects of the hub."""
        return {name: ModuleModel() for name in self.settings.transform_modules}

    @property
    def rule_functions(self) -> dict[str, RuleFunctionModel]:
        """The rule functions of the settings, as objects of the hub."""
        return {name: RuleFunctionModel(function=path) for name, path in self.settings.rule_functions.items()}


#: Section to the word for one of its objects.
NOUNS = {
    "modules": "module",
    "rule_functions": "rule function",
    "agents": "agent",
    "links": "link",
    "foreign_queues": "foreign queue",
    "object_types": "object type",
    "queue_tables": "queue table",
    "transformations": "transformation",
    "queues": "queue",
    "jobs": "job",
    "aq_agents": "AQ agent",
    "grants": "grantee",
}

#: Section name to the model of its objects, in the order in which objects depend on each other.
SECTIONS: dict[str, type[Strict]] = {
    "agents": AgentModel,
    "links": LinkModel,
    "foreign_queues": ForeignQueueModel,
    "object_types": ObjectTypeModel,
    "queue_tables": QueueTableModel,
    "transformations": TransformationModel,
    "queues": QueueModel,
    "jobs": JobModel,
    "aq_agents": AqAgentModel,
    "grants": GrantModel,
}

#: What a plan is made of, in the order in which objects depend on each other: settings in the hub, then the sections.
PLANNED = ("modules", "rule_functions", *SECTIONS)
