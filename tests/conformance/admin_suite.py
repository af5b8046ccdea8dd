"""What every hub database must give the administration: imported by one test module per database."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
import sqlalchemy as sa

from mgw.gateway.aq.admin import QueueAdmin
from mgw.gateway.aq.hub import Hub
from mgw.gateway.aq.queues import transfer
from mgw.gateway.definitions.objects import AgentDef, AgentStatus, JobStatus
from mgw.gateway.services.admin import (
    AGENT_JAVA_PROP,
    CLEAN_LOG_QUEUES,
    CLEAN_STARTUP_STATE,
    JOB_OPTION,
    MSGLINK_OPTION,
    NO_CHANGE,
    RESET_SUB_MISSING_MESSAGE,
    GatewayAdmin,
)
from mgw.gateway.state import catalog, lease, run_state, status, tables
from mgw.gateway.state.gateway_hub import open_hub
from mgw.gateway.state.secrets import Secrets
from mgw.gateway.state.views import COLUMNS
from mgw.links.contract import Domain, Guarantee
from mgw.links.memory.broker import MemoryBroker
from mgw.transforms.errors import AdminError, AqError, ConfigInvalid
from mgw.transforms.message import Message
from tests.support.children import CHILDREN

KEY = "MDEyMzQ1Njc4OTAxMjM0NTY3ODkwMTIzNDU2Nzg5MDE="
PASSWORD = "correct-horse-battery-staple"

DOCUMENTED = {
    "MGW_GATEWAY": (
        "AGENT_DATABASE AGENT_INSTANCE AGENT_JOB AGENT_NAME AGENT_PING AGENT_START_TIME AGENT_STATUS "
        "AGENT_USER COMMENTS CONNTYPE INITFILE LAST_ERROR_DATE LAST_ERROR_MSG LAST_ERROR_TIME MAX_CONNECTIONS "
        "MAX_MEMORY MAX_THREADS SERVICE"
    ),
    "MGW_AGENT_OPTIONS": "AGENT_NAME ENCRYPTED NAME TYPE VALUE",
    "MGW_LINKS": "AGENT_NAME LINK_COMMENT LINK_NAME LINK_TYPE",
    "MGW_RABBITMQ_LINKS": (
        "AGENT_NAME HOSTNAME HOSTS INBOUND_LOG_QUEUE LINK_COMMENT LINK_NAME MAX_CONNECTIONS OPTIONS "
        "OUTBOUND_LOG_QUEUE PORT TLS_SERVER_NAME TLS_VERIFY VIRTUAL_HOST"
    ),
    "MGW_KAFKA_LINKS": (
        "AGENT_NAME BOOTSTRAP_SERVERS INBOUND_LOG_QUEUE LINK_COMMENT LINK_NAME MAX_CONNECTIONS OPTIONS "
        "OUTBOUND_LOG_QUEUE SASL_MECHANISM SECURITY_PROTOCOL TLS_SERVER_NAME TLS_VERIFY"
    ),
    "MGW_MQTT_LINKS": (
        "AGENT_NAME CLIENT_ID_PREFIX HOSTNAME HOSTS INBOUND_LOG_QUEUE KEEPALIVE LINK_COMMENT LINK_NAME "
        "MAX_CONNECTIONS OPTIONS OUTBOUND_LOG_QUEUE PORT PROTOCOL_VERSION SESSION_EXPIRY TLS_SERVER_NAME "
        "TLS_VERIFY"
    ),
    "MGW_FOREIGN_QUEUES": "DOMAIN LINK_NAME NAME OPTIONS PROVIDER_QUEUE QUEUE_COMMENT",
    "MGW_JOBS": (
        "AGENT_NAME COMMENTS DESTINATION ENABLED EXCEPTION_QUEUE EXCEPTIONQ_MSGS FAILURES JOB_NAME "
        "LAST_ERROR_MSG LAST_ERROR_DATE LAST_ERROR_TIME LINK_NAME OPTIONS POLL_INTERVAL PROPAGATED_MSGS "
        "PROP_STYLE PROPAGATION_TYPE RULE SOURCE STATUS TRANSFORMATION"
    ),
    "MGW_SUBSCRIBERS": (
        "DESTINATION EXCEPTIONQ_MSGS EXCEPTION_QUEUE FAILURES LAST_ERROR_DATE LAST_ERROR_MSG LAST_ERROR_TIME OPTIONS "
        "PROP_STYLE PROPAGATED_MSGS PROPAGATION_TYPE QUEUE_NAME RULE STATUS SUBSCRIBER_ID TRANSFORMATION"
    ),
    "MGW_SCHEDULES": (
        "DESTINATION LATENCY NEXT_TIME PROPAGATION_TYPE PROPAGATION_WINDOW SCHEDULE_DISABLED SCHEDULE_ID SOURCE "
        "START_DATE START_TIME"
    ),
    "DBA_OUTBOUND_SCHEDULES": "DISABLED ERROR ERROR_MSG ERROR_TIME EXCEPTION_QUEUE TRANSMIT_QUEUE",
}
OURS = {
    "MGW_JOBS": (
        "GUARANTEE GUARANTEE_NOTE ACTIVITY ACTIVITY_REASON NODES LAST_PROGRESS OLDEST_MESSAGE_AGE BACKLOG "
        "FILTERED_MSGS DISCARDED_MSGS NEXT_ATTEMPT"
    ),
    "MGW_SUBSCRIBERS": "SCHEDULE_ID OLD_STYLE BACKLOG",
    "MGW_SCHEDULES": "SUBSCRIBER_ID OLD_STYLE",
    "DBA_OUTBOUND_SCHEDULES": (
        "JOB_NAME QUEUE_NAME PROTOCOL DESTINATION START_TIME DURATION NEXT_TIME LATENCY WINDOW_BEGIN WINDOW_END "
        "WINDOW_OPEN STATUS TRANSMIT_MSGS EXCEPTION_MSGS PROPAGATED_MSGS FAILURES ACTIVITY LAST_PROGRESS PROTOCOL_NAME "
        "TRANSMIT_CONSUMER"
    ),
}


@pytest.fixture
def secrets() -> Secrets:
    return Secrets(environ={"MGW_SECRET_KEY": KEY})


@pytest.fixture
def hub(hub_url: str) -> Iterator[Hub]:
    with open_hub(hub_url, create=True) as opened:
        yield opened


@pytest.fixture
def admin(hub: Hub, secrets: Secrets, request: pytest.FixtureRequest) -> GatewayAdmin:
    """A link, foreign queues (a queue, two topics), and hub queues: orders, bad (single), events (multi-consumer)."""
    admin = GatewayAdmin(hub, secrets)
    admin.create_msgsystem_link("Plant", "memory", {"broker": request.node.nodeid}, username="u", password=PASSWORD)
    admin.register_foreign_queue("q1", "plant")
    admin.register_foreign_queue("q2", "plant")
    admin.register_foreign_queue("news", "plant", "news.raw", Domain.TOPIC)
    for name, multiple in (("orders", False), ("bad", False), ("events", True)):
        admin.aq.create_queue_table(f"{name}_t", "BASIC", multiple_consumers=multiple)
        admin.aq.create_queue(name, f"{name}_t")
        admin.aq.start_queue(name)
    return admin


@contextmanager
def refused(number: int) -> Iterator[pytest.ExceptionInfo[AdminError]]:
    """The call is refused with this ORA number, and the error says what, why, and what to do."""
    with pytest.raises(AdminError) as caught:
        yield caught
    error = caught.value
    assert error.number == number, str(error)
    assert error.what, error
    assert error.cause, error
    assert error.cure, error


def view(hub: Hub, name: str) -> list[dict[str, Any]]:
    with hub.read() as conn:
        rows = conn.execute(sa.text(f"SELECT * FROM {name}")).mappings()
        return [{column.upper(): value for column, value in row.items()} for row in rows]


def job_row(hub: Hub, name: str) -> dict[str, Any]:
    return next(row for row in view(hub, "MGW_JOBS") if row["JOB_NAME"] == name.upper())


def put(hub: Hub, queue: str, *messages: Message) -> None:
    with hub.write() as conn:
        transfer.put(conn, transfer.resolve(conn, queue), messages)


def start_agent(hub: Hub, status: AgentStatus = AgentStatus.RUNNING, *, ttl: float = 3600) -> int:
    """Take the lease of the default agent, as its process does."""
    now = hub.clock.now()
    with hub.write() as conn:
        token, _ = lease.acquire_lease(conn, "DEFAULT_AGENT", lease.Owner.this_process(), ttl=ttl, now=now)
        lease.set_agent_status(conn, "DEFAULT_AGENT", token, status)
    return token


@contextmanager
def renewing(hub: Hub, token: int) -> Iterator[None]:
    """Renew the lease of the default agent again and again, as a process does that lives."""
    over = threading.Event()

    def renew() -> None:
        while not over.wait(0.05):
            with hub.write() as conn:
                lease.renew_lease(conn, "DEFAULT_AGENT", token, ttl=3600, now=hub.clock.now())

    thread = threading.Thread(target=renew)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()


# ---- agents ----------------------------------------------------------------------------------------------------------


def test_a_new_hub_has_the_default_agent(hub: Hub) -> None:
    (row,) = view(hub, "MGW_GATEWAY")
    assert (row["AGENT_NAME"], row["AGENT_STATUS"], row["AGENT_PING"]) == ("DEFAULT_AGENT", "NOT_STARTED", None)


def test_agents_are_created_altered_and_removed(admin: GatewayAdmin) -> None:
    admin.create_agent("Night", "mgw", PASSWORD, max_threads=4, comment="second shift")
    with refused(32851):
        admin.create_agent("NIGHT")
    admin.alter_agent("night", max_memory=128)
    agent = admin.get_agent("nIGHT")
    assert agent is not None
    assert (agent.name, agent.max_threads, agent.max_memory, agent.comments) == ("Night", 4, 128, "second shift")
    admin.alter_agent("night", comment=None)
    assert (agent := admin.get_agent("night")) is not None
    assert agent.comments is None
    with admin.hub.read() as conn:
        assert catalog.agent_password(conn, "night", admin.secrets) == PASSWORD
    admin.remove_agent("night")
    with refused(32850):
        admin.remove_agent("night")


@pytest.mark.parametrize(
    ("number", "arguments"),
    [
        (32805, {"agent_name": "a" * 129}),
        (32804, {"agent_name": "two words"}),
        (32801, {"agent_name": " "}),
        (32801, {"agent_name": "a", "password": "x"}),
        (32801, {"agent_name": "a", "database": "x"}),
        (32843, {"agent_name": "a", "max_threads": 129}),
        (32843, {"agent_name": "a", "max_threads": 0}),
        (32843, {"agent_name": "a", "max_memory": 0}),
        (32802, {"agent_name": "a", "conntype": "ODBC"}),
    ],
)
def test_agents_that_cannot_be_are_refused(admin: GatewayAdmin, number: int, arguments: dict[str, Any]) -> None:
    with refused(number):
        admin.create_agent(**arguments)
    assert [agent.name for agent in admin.list_agents()] == ["DEFAULT_AGENT"]


def test_agents_in_use_are_not_removed(admin: GatewayAdmin) -> None:
    with refused(32852):
        admin.remove_agent("default_agent")
    admin.create_agent("second")
    admin.create_msgsystem_link("other", "MEMORY", agent_name="second")
    with refused(32853):
        admin.remove_agent("second")
    admin.remove_msgsystem_link("other")
    admin.startup("second")
    with refused(32827):
        admin.remove_agent("second")


def test_startup_and_shutdown_walk_through_the_documented_statuses(admin: GatewayAdmin) -> None:
    with refused(32825):
        admin.shutdown()
    admin.startup()
    assert admin.agent_state().status is AgentStatus.START_SCHEDULED
    with refused(32845):
        admin.startup()
    admin.shutdown()
    assert admin.agent_state().status is AgentStatus.NOT_STARTED
    with refused(32828):
        admin.set_log_level(2)
    token = start_agent(admin.hub, AgentStatus.STARTING)
    with refused(32829):
        admin.shutdown()
    with admin.hub.write() as conn:
        lease.set_agent_status(conn, "DEFAULT_AGENT", token, AgentStatus.RUNNING)
    with refused(32845):
        admin.startup()
    with refused(32843):
        admin.set_log_level(5)
    admin.set_log_level(2)
    with refused(32802):
        admin.shutdown(sdmode="SHUTDOWN_ABORT")
    admin.shutdown()
    assert admin.agent_state().status is AgentStatus.SHUTTING_DOWN
    with refused(32846):
        admin.startup()


def test_startup_clears_the_last_error(admin: GatewayAdmin) -> None:
    with admin.hub.write() as conn:
        catalog.update_agent(conn, "DEFAULT_AGENT", last_error_msg="it broke", last_error_time=1_700_000_000.0)
    (row,) = view(admin.hub, "MGW_GATEWAY")
    assert (row["LAST_ERROR_MSG"], row["LAST_ERROR_DATE"], row["LAST_ERROR_TIME"]) == (
        "it broke",
        "2023-11-14",
        "22:13:20",
    )
    admin.startup()
    assert view(admin.hub, "MGW_GATEWAY")[0]["LAST_ERROR_MSG"] is None


def test_ping_tells_a_living_agent_from_a_dead_one(admin: GatewayAdmin) -> None:
    token = start_agent(admin.hub)
    (row,) = view(admin.hub, "MGW_GATEWAY")
    assert (row["AGENT_PING"], row["AGENT_INSTANCE"]) == ("REACHABLE", 1)
    assert row["AGENT_START_TIME"].startswith("20")
    now = admin.hub.clock.now()
    with admin.hub.write() as conn:
        lease.renew_lease(conn, "DEFAULT_AGENT", token, ttl=-5, now=now)
    assert view(admin.hub, "MGW_GATEWAY")[0]["AGENT_PING"] == "UNREACHABLE"


def test_startup_state_is_cleaned_only_after_a_run_that_is_gone(admin: GatewayAdmin) -> None:
    for status_now in (AgentStatus.NOT_STARTED, AgentStatus.START_SCHEDULED):
        with admin.hub.write() as conn:
            catalog.set_agent_state(conn, "DEFAULT_AGENT", status_now)
        with refused(32802):
            admin.cleanup_gateway(CLEAN_STARTUP_STATE)
    token = start_agent(admin.hub)
    admin.shutdown()
    with renewing(admin.hub, token), refused(32802) as caught:
        admin.cleanup_gateway(CLEAN_STARTUP_STATE)
    assert "the agent responds" in str(caught.value)
    now = admin.hub.clock.now()
    with admin.hub.write() as conn:
        lease.renew_lease(conn, "DEFAULT_AGENT", token, ttl=-5, now=now)
    admin.cleanup_gateway(CLEAN_STARTUP_STATE)
    assert admin.agent_state().status is AgentStatus.NOT_STARTED
    with pytest.raises(Exception, match="belongs to another process"), admin.hub.write() as conn:
        lease.check_owner(conn, "DEFAULT_AGENT", token)


def test_a_ping_asks_the_process_and_is_not_attempted_where_none_is_expected(admin: GatewayAdmin) -> None:
    assert admin.ping_agent() is None
    admin.startup()
    assert (admin.agent_state().status, admin.ping_agent()) == (AgentStatus.START_SCHEDULED, None)
    token = start_agent(admin.hub)
    with renewing(admin.hub, token):
        assert admin.ping_agent() == "REACHABLE"
    began = time.monotonic()
    assert admin.ping_agent() == "UNREACHABLE", "its lease is in force, but it says nothing"
    assert time.monotonic() - began >= 5
    with refused(32850):
        admin.ping_agent("nosuch")


def test_db_connect_info_alters_the_default_agent(admin: GatewayAdmin) -> None:
    admin.create_agent("night", username="n", password=PASSWORD)
    admin.db_connect_info("scott", PASSWORD, "plant")
    agent = admin.get_agent("DEFAULT_AGENT")
    assert agent is not None
    assert (agent.username, agent.database, admin.agent_password("DEFAULT_AGENT")) == ("scott", "plant", PASSWORD)
    for username, password in ((None, "other"), ("other", None)):
        with refused(32801):
            admin.db_connect_info(username, password)  # type: ignore[arg-type]
    assert admin.get_agent("DEFAULT_AGENT") == agent
    admin.db_connect_info("mary", "new")
    agent = admin.get_agent("DEFAULT_AGENT")
    assert agent is not None
    assert (agent.username, agent.database, admin.agent_password("DEFAULT_AGENT")) == ("mary", None, "new")
    assert admin.agent_password("night") == PASSWORD


def test_broken_agents_start_again_after_cleanup(admin: GatewayAdmin) -> None:
    with admin.hub.write() as conn:
        catalog.set_agent_state(conn, "DEFAULT_AGENT", AgentStatus.BROKEN)
    with refused(32846):
        admin.startup()
    admin.cleanup_gateway(CLEAN_STARTUP_STATE)
    admin.startup()


def test_other_cleanups_need_a_running_agent(admin: GatewayAdmin) -> None:
    with refused(32802):
        admin.cleanup_gateway("SWEEP")
    with refused(32828):
        admin.cleanup_gateway(CLEAN_LOG_QUEUES)
    start_agent(admin.hub)
    admin.cleanup_gateway(CLEAN_LOG_QUEUES)
    with refused(32855):
        admin.cleanup_gateway(RESET_SUB_MISSING_MESSAGE, "nosuch")


def test_agent_options_hide_what_is_encrypted(admin: GatewayAdmin) -> None:
    admin.set_option(AGENT_JAVA_PROP, "default_agent", "oracle.mgw.batch_size", "7654", encrypted=True)
    admin.set_option(AGENT_JAVA_PROP, "default_agent", "ledger_retention", "60")
    rows = {row["NAME"]: (row["VALUE"], row["ENCRYPTED"]) for row in view(admin.hub, "MGW_AGENT_OPTIONS")}
    assert rows == {"oracle.mgw.batch_size": ("<<ENCRYPTED>>", "TRUE"), "ledger_retention": ("60", "FALSE")}
    with admin.hub.read() as conn:
        options = catalog.load_snapshot(conn, "DEFAULT_AGENT", admin.secrets).agent_options
    assert options == {"oracle.mgw.batch_size": "7654", "ledger_retention": "60"}
    assert "7654" not in repr(admin.list_agent_options())
    admin.remove_option(AGENT_JAVA_PROP, "default_agent", "ORACLE.MGW.BATCH_SIZE")
    with refused(32840):
        admin.remove_option(AGENT_JAVA_PROP, "default_agent", "oracle.mgw.batch_size")


def test_an_agent_is_altered_with_all_its_options_or_not_at_all(admin: GatewayAdmin) -> None:
    def options() -> dict[str, tuple[str, bool]]:
        with admin.hub.read() as conn:
            found = catalog.list_agent_options(conn, "night", admin.secrets)
        return {each.name: (each.value, each.encrypted) for each in found}

    admin.create_agent("night", options={"workers": 2}, encrypted_options={"oracle.mgw.batch_size": "50"})
    before = {"workers": ("2", False), "oracle.mgw.batch_size": ("50", True)}
    assert options() == before
    given: dict[str, Any] = {"comment": "changed", "options": {"ledger_retention": 60}}
    for refusal, more in (
        (32840, {"options": {"ledger_retention": 60, "oracle.mgw.polling_interval": None}}),
        (32841, {"encrypted_options": {"workers": "many"}}),
        (32801, {"encrypted_options": {"Ledger_Retention": "70"}}),
        (32843, {"max_threads": 129}),
    ):
        with refused(refusal):
            admin.alter_agent("night", **(given | more))
        assert options() == before
        assert admin.get_agent("night") == AgentDef("night")
    admin.alter_agent("night", **given, encrypted_options={"workers": "3"})
    admin.alter_agent("night", options={"oracle.mgw.batch_size": None})
    assert options() == {"workers": ("3", True), "ledger_retention": ("60", False)}


@pytest.mark.parametrize(
    ("number", "name", "value", "hint"),
    [
        (32840, "oracle.mgw.batchsize", "30", "did you mean oracle.mgw.batch_size?"),
        (
            32840,
            "color",
            "red",
            "ledger_retention, event_retention, oracle.mgw.batch_size, oracle.mgw.polling_interval",
        ),
        (32840, "oracle.mgw.tibrv.encoding", "ISO 8859-1", "TIB/Rendezvous"),
        (32841, "oracle.mgw.polling_interval", "50", "100"),
        (32841, "oracle.mgw.polling_interval", "60001", "60000"),
        (32841, "oracle.mgw.batch_size", "many", "whole number"),
        (32841, "oracle.mgw.batch_size", None, "no value"),
        (32841, "ledger_retention", "-1", "seconds"),
    ],
)
def test_agent_options_that_mean_nothing_are_refused(
    admin: GatewayAdmin, number: int, name: str, value: str | None, hint: str
) -> None:
    with refused(number) as caught:
        admin.set_agent_option("DEFAULT_AGENT", name, value)
    assert hint in str(caught.value)
    assert admin.list_agent_options() == []


def test_what_has_no_effect_is_said_when_it_is_stored(admin: GatewayAdmin, caplog: pytest.LogCaptureFixture) -> None:
    admin.create_agent("Night", "mgw", PASSWORD, max_threads=4, comment="second shift")
    admin.alter_agent("night", max_memory=128, initfile="/etc/mgw.ora", service="batch", conntype="JDBC_THIN")
    admin.alter_agent("night", password=PASSWORD)
    admin.alter_agent("night", max_threads=5, comment="late")
    assert [record.getMessage() for record in caplog.records] == [
        "agent Night: username, password stored, has no effect",
        "agent Night: conntype, service stored, has no effect",
        "agent Night: initialization file /etc/mgw.ora does not exist on this host; "
        "the agent does not start without it",
        "agent Night: password stored, has no effect",
    ]


def test_the_agents_poll_interval_shows_where_the_job_has_none(admin: GatewayAdmin) -> None:
    admin.create_job("j", "OUTBOUND", "orders", "q1@plant")
    admin.set_agent_option("DEFAULT_AGENT", "Oracle.mgw.polling_interval", "250")
    (row,) = view(admin.hub, "MGW_JOBS")
    assert row["POLL_INTERVAL"] == 0.25
    admin.alter_job("j", poll_interval=7)
    (row,) = view(admin.hub, "MGW_JOBS")
    assert row["POLL_INTERVAL"] == 7


# ---- links and foreign queues ----------------------------------------------------------------------------------------


def test_link_names_compare_case_insensitively_and_keep_their_case(admin: GatewayAdmin) -> None:
    with refused(32807):
        admin.create_msgsystem_link("PLANT", "MEMORY")
    assert (link := admin.get_link("pLANT")) is not None
    assert link.name == "Plant"
    assert view(admin.hub, "MGW_LINKS")[0]["LINK_NAME"] == "PLANT"
    with refused(32808):
        admin.remove_msgsystem_link("nosuch")


@pytest.mark.parametrize(
    ("number", "arguments"),
    [
        (32802, {"link_type": "TIBRV"}),
        (32801, {"link_type": "MEMORY", "properties": {"nosuch": 1}}),
        (32801, {"link_type": "MEMORY", "properties": {"timeout": "soon"}}),
        (32801, {"link_type": "MEMORY", "options": {"nosuch": 1}}),
        (32801, {"link_type": "MEMORY", "max_connections": 0}),
        (32801, {"link_type": "MEMORY", "password": "x"}),
        (32801, {"link_type": "MQTT"}),
        (32850, {"link_type": "MEMORY", "agent_name": "nosuch"}),
    ],
)
def test_links_that_cannot_work_are_refused(admin: GatewayAdmin, number: int, arguments: dict[str, Any]) -> None:
    with refused(number):
        admin.create_msgsystem_link("other", **arguments)
    assert [link.name for link in admin.list_links()] == ["Plant"]


def test_altering_a_link_keeps_what_is_not_named(admin: GatewayAdmin) -> None:
    admin.alter_msgsystem_link("plant", {"timeout": 7, "max_connections": 3, "username": NO_CHANGE}, comment="north")
    assert (link := admin.get_link("plant")) is not None
    assert (link.attributes["timeout"], link.max_connections, link.comments) == (7.0, 3, "north")
    assert (link.username, link.password) == ("u", PASSWORD)
    admin.alter_msgsystem_link("plant", {"timeout": None, "password": "other-password"})
    assert (link := admin.get_link("plant")) is not None
    assert (link.attributes["timeout"], link.password, link.comments) == (5.0, "other-password", "north")


def test_every_attribute_of_a_link_can_be_altered(admin: GatewayAdmin) -> None:
    admin.create_msgsystem_link("rabbit", "RABBITMQ", {"hostname": "one"}, username="u", password=PASSWORD)
    altered = {"hostname": "two", "port": 5999, "virtual_host": "v", "tls": True, "tls_verify": False}
    admin.alter_msgsystem_link("rabbit", altered)
    admin.create_msgsystem_link("kafka", "KAFKA", {"bootstrap_servers": "one:9092"})
    servers = {"bootstrap_servers": "two:9092", "security_protocol": "SASL_PLAINTEXT", "sasl_mechanism": "PLAIN"}
    admin.alter_msgsystem_link("kafka", servers | {"username": "u", "password": PASSWORD})
    for name, values in (("rabbit", altered), ("kafka", servers)):
        assert (link := admin.get_link(name)) is not None
        assert {each: link.attributes[each] for each in values} == values
        assert (link.username, link.password) == ("u", PASSWORD)


def test_log_queues_change_while_jobs_use_them(admin: GatewayAdmin) -> None:
    admin.create_job("j", "INBOUND", "q1@plant", "orders")
    for log in ("log", "other", None):
        admin.alter_msgsystem_link("plant", {"inbound_log_queue": log, "outbound_log_queue": log})
        assert (link := admin.get_link("plant")) is not None
        assert (link.inbound_log_queue, link.outbound_log_queue) == (log, log)


def test_links_with_registered_queues_are_not_removed(admin: GatewayAdmin) -> None:
    with refused(32815):
        admin.remove_msgsystem_link("plant")
    for name in ("q1", "q2", "news"):
        admin.unregister_foreign_queue(name, "plant")
    admin.remove_msgsystem_link("plant")
    assert admin.list_links() == []


def test_foreign_queues_are_registered_once_and_removed_only_when_unused(admin: GatewayAdmin) -> None:
    with refused(32809):
        admin.register_foreign_queue("Q1", "PLANT")
    with refused(32808):
        admin.register_foreign_queue("q", "nosuch")
    with refused(32804):
        admin.register_foreign_queue("a@b", "plant")
    with refused(32802):
        admin.register_foreign_queue("q3", "plant", domain="EXCHANGE")
    with refused(32801):
        admin.register_foreign_queue("q3", "plant", options={"nosuch": "1"})
    with refused(32810):
        admin.unregister_foreign_queue("nosuch", "plant")
    admin.create_job("j", "INBOUND", "news@plant", "orders", exception_queue="q2@plant")
    for used in ("news", "q2"):
        with refused(32816):
            admin.unregister_foreign_queue(used, "plant")
    admin.register_foreign_queue("long", "plant", domain="DOMAIN_QUEUE")
    rows = {row["NAME"]: row for row in view(admin.hub, "MGW_FOREIGN_QUEUES")}
    assert rows["LONG"]["DOMAIN"] == "QUEUE"
    assert (rows["NEWS"]["PROVIDER_QUEUE"], rows["NEWS"]["DOMAIN"], rows["Q1"]["DOMAIN"]) == ("news.raw", "TOPIC", None)


def test_a_domain_the_system_does_not_have_is_refused(admin: GatewayAdmin) -> None:
    admin.create_msgsystem_link("log", "KAFKA", {"bootstrap_servers": "localhost:9092"})
    with refused(32848):
        admin.register_foreign_queue("t", "log", domain=Domain.QUEUE)


# ---- transformations -------------------------------------------------------------------------------------------------


def test_transformations_are_checked_when_they_are_made(admin: GatewayAdmin) -> None:
    admin.create_transformation("calm", "BASIC", "BASIC", {"set": {"priority": "9"}})
    with refused(32801):
        admin.create_transformation("CALM", "BASIC", "BASIC", {"set": {"priority": "9"}})
    for wrong in ({}, {"nosuch": 1}, {"set": {"priority": "1 +"}}):
        with refused(32801):
            admin.create_transformation("other", "BASIC", "BASIC", wrong)
    admin.create_job("j", "OUTBOUND", "orders", "q1@plant", transformation="Calm")
    with refused(32801):
        admin.drop_transformation("calm")
    with refused(32801):
        admin.alter_job("j", transformation="nosuch")
    admin.alter_transformation("calm", definition={"set": {"priority": "8"}})
    (row,) = view(admin.hub, "MGW_TRANSFORMATIONS")
    assert json.loads(row["DEFINITION"]) == {"set": {"priority": "8"}}
    admin.alter_job("j", transformation=None)
    admin.drop_transformation("calm")


def test_jobs_and_queues_share_one_catalogue_of_transformations(admin: GatewayAdmin) -> None:
    queues = QueueAdmin(admin.hub)
    queues.create_type("oe.point", {"x": "NUMBER", "y": "NUMBER"})
    queues.create_transformation("oe.to_point", "JSON", "OE.POINT", "oe.point(source.user_data.a, user_data.b)")
    queues.modify_transformation("oe.to_point", 2, "0")
    admin.create_transformation("shout", "basic", "BASIC", {"set": {"body": "UPPER(tab.user_data)"}})
    found = {each.name: each for each in admin.list_transformations()}
    assert found["oe.to_point"].definition == {"set": {"body": "'{}'", "body.x": "source.user_data.a", "body.y": "0"}}
    assert [each.full_name for each in queues.transformations()] == ["shout", "oe.to_point"]
    rows = {row["NAME"]: row for row in view(admin.hub, "MGW_TRANSFORMATIONS")}
    assert sorted(rows) == ["OE.TO_POINT", "SHOUT"]
    assert rows["OE.TO_POINT"]["TO_TYPE"] == "OE.POINT"
    assert rows["OE.TO_POINT"]["DEFINITION"] == "oe.point(source.user_data.a, user_data.b)"
    with refused(32801):
        admin.create_transformation("OE.TO_POINT", "BASIC", "BASIC", {"set": {"priority": "9"}})
    with refused(32801):
        admin.create_transformation("other", "BASIC", "NOSUCH", {"set": {"priority": "9"}})
    with refused(32804):
        admin.create_transformation("a.b.c", "BASIC", "BASIC", {"set": {"priority": "9"}})
    admin.create_job("j", "OUTBOUND", "orders", "q1@plant", transformation="MGW.Shout")
    with refused(32801):
        admin.drop_transformation("shout")
    admin.alter_job("j", transformation=None)
    admin.alter_transformation("oe.to_point", comment="kept as it was written")
    assert queues.transformations()[1].expressions[2] == "0"
    queues.create_queue_table("news_t", multiple_consumers=True)
    queues.create_queue("news", "news_t")
    queues.add_subscriber("news", "loud", transformation="shout")
    with refused(32801):
        admin.drop_transformation("shout")


# ---- jobs ------------------------------------------------------------------------------------------------------------


def test_a_queue_source_has_one_job(admin: GatewayAdmin) -> None:
    admin.create_job("j1", "OUTBOUND", "orders", "q1@plant")
    with refused(32854):
        admin.create_job("J1", "INBOUND", "q2@plant", "bad")
    with refused(32823):
        admin.create_job("j2", "OUTBOUND", "MGW.Orders", "q2@plant")
    admin.create_job("j3", "INBOUND", "q1@plant", "bad")
    with refused(32823):
        admin.create_job("j4", "INBOUND", "Q1@PLANT", "events")


def test_a_topic_source_has_any_number_of_jobs_but_each_destination_once(admin: GatewayAdmin) -> None:
    admin.create_job("j1", "OUTBOUND", "events", "q1@plant")
    admin.create_job("j2", "OUTBOUND", "events", "q2@plant")
    with refused(32823):
        admin.create_job("j3", "OUTBOUND", "mgw.events", "Q1@plant")
    admin.create_job("i1", "INBOUND", "news@plant", "orders")
    admin.create_job("i2", "INBOUND", "news@plant", "bad")
    with refused(32823):
        admin.create_job("i3", "INBOUND", "news@plant", "ORDERS")


@pytest.mark.parametrize(
    ("number", "arguments"),
    [
        (32802, {"propagation_type": "SIDEWAYS"}),
        (32804, {"source": "q1@plant"}),
        (32804, {"destination": "orders"}),
        (32818, {"source": "nosuch"}),
        (32819, {"source": "AQ$_orders_t_E"}),
        (32810, {"destination": "nosuch@plant"}),
        (32801, {"rule": "priority < 3"}),
        (32801, {"transformation": "nosuch"}),
        (32801, {"exception_queue": "Orders"}),
        (32820, {"exception_queue": "q2@plant"}),
        (32818, {"exception_queue": "nosuch"}),
        (32819, {"exception_queue": "AQ$_orders_t_E"}),
        (32821, {"exception_queue": "raw"}),
        (32843, {"poll_interval": 0.05}),
        (32843, {"poll_interval": 61}),
        (32840, {"options": {"MsgBatchSiz": 5}}),
        (32841, {"options": {"MsgBatchSize": 0}}),
        (32841, {"options": {"MsgBatchSize": 10001}}),
        (32841, {"options": {"retry_forever": "maybe"}}),
        (32802, {"require_guarantee": "twice"}),
        (32805, {"job_name": "j" * 125}),
        (32806, {"comments": "x" * 4001}),
    ],
)
def test_jobs_that_cannot_work_are_refused(admin: GatewayAdmin, number: int, arguments: dict[str, Any]) -> None:
    admin.aq.create_queue_table("raw_t", "RAW")
    admin.aq.create_queue("raw", "raw_t")
    given = {"job_name": "j", "propagation_type": "OUTBOUND", "source": "orders", "destination": "q1@plant"} | arguments
    with refused(number):
        admin.create_job(**given)
    assert admin.list_jobs() == []


def test_an_inbound_exception_queue_is_another_queue_of_the_same_link(admin: GatewayAdmin) -> None:
    admin.create_msgsystem_link("other", "MEMORY")
    admin.register_foreign_queue("q9", "other")
    admin.register_foreign_queue("alias", "plant", "q1")
    for number, name in ((32820, "q9@other"), (32820, "bad"), (32801, "Q1@plant"), (32801, "alias@plant")):
        with refused(number):
            admin.create_job("j", "INBOUND", "q1@plant", "orders", exception_queue=name)
    admin.create_job("j", "INBOUND", "q1@plant", "orders", exception_queue="q2@plant")


def test_the_nearest_option_name_is_named(admin: GatewayAdmin) -> None:
    with pytest.raises(AdminError, match="did you mean MsgBatchSize"):
        admin.create_job("j", "OUTBOUND", "orders", "q1@plant", options={"msg_batch_size": 5})


def test_a_multi_consumer_source_gets_its_subscriber_with_the_job(admin: GatewayAdmin) -> None:
    put_before = Message(b"before")
    with pytest.raises(AqError):
        put(admin.hub, "events", put_before)  # nobody wants it
    admin.create_job("Carry", "OUTBOUND", "events", "q1@plant", rule="priority < 3")
    (subscriber,) = admin.aq.queue_subscribers("events")
    assert (subscriber.name, subscriber.rule) == ("MGW_Carry", "priority < 3")
    put(admin.hub, "events", Message(b"wanted", priority=1))
    assert job_row(admin.hub, "carry")["BACKLOG"] == 1
    admin.alter_job("carry", rule="priority < 5")
    assert admin.aq.queue_subscribers("events")[0].rule == "priority < 5"
    admin.alter_job("carry", rule=None)
    assert admin.aq.queue_subscribers("events")[0].rule is None
    with refused(32801):
        admin.remove_job("carry")
    assert admin.remove_job("carry", drop_messages=True)
    assert admin.aq.queue_subscribers("events") == []


def test_topic_jobs_collect_from_their_creation_even_disabled(admin: GatewayAdmin) -> None:
    admin.aq.add_subscriber("events", "other")
    put(admin.hub, "events", Message(b"before"), Message(b"before"), Message(b"before"))
    admin.create_job("topic", "OUTBOUND", "events", "q1@plant", enabled=False)
    put(admin.hub, "events", Message(b"after"), Message(b"after"))
    assert job_row(admin.hub, "topic")["BACKLOG"] == 2
    put(admin.hub, "orders", Message(b"before"), Message(b"before"), Message(b"before"))
    admin.create_job("queue", "OUTBOUND", "orders", "q2@plant", enabled=False)
    put(admin.hub, "orders", Message(b"after"), Message(b"after"))
    assert job_row(admin.hub, "queue")["BACKLOG"] == 5


def test_wildcards_are_sources_never_destinations(admin: GatewayAdmin) -> None:
    admin.create_msgsystem_link("field", "MQTT", {"hostname": "localhost"})
    admin.register_foreign_queue("all", "field", "plant/+/telemetry")
    admin.create_job("in", "INBOUND", "all@field", "orders")
    with refused(32801):
        admin.create_job("out", "OUTBOUND", "bad", "all@field")
    with refused(32801):
        admin.create_job("in2", "INBOUND", "all@field", "bad", exception_queue="all@field")


def test_a_refused_job_leaves_no_subscriber(admin: GatewayAdmin) -> None:
    with refused(32801):
        admin.create_job("j", "OUTBOUND", "events", "q1@plant", rule="priority <")
    admin.aq.add_subscriber("events", "MGW_J")
    with refused(24034):
        admin.create_job("j", "OUTBOUND", "events", "q1@plant")
    assert admin.list_jobs() == []


def test_altering_a_job_keeps_what_is_not_named(admin: GatewayAdmin) -> None:
    admin.create_job(
        "j",
        "OUTBOUND",
        "orders",
        "q1@plant",
        exception_queue="bad",
        poll_interval=2,
        options={"MsgBatchSize": 5, "RETRY_FOREVER": True},
        comments="c",
    )
    before = admin.get_job("j")
    assert admin.alter_job("j") == before
    assert before is not None
    assert before.options == {"msgbatchsize": "5", "retry_forever": "TRUE"}
    altered = admin.alter_job("j", poll_interval=None, options={"msgbatchsize": 7, "retry_forever": None})
    assert (altered.poll_interval, altered.options) == (None, {"msgbatchsize": "7"})
    assert (altered.exception_queue, altered.comments, altered.batch_size) == ("bad", "c", 7)
    altered = admin.alter_job("j", exception_queue=None, comments=None)
    assert (altered.exception_queue, altered.comments) == (None, None)
    assert admin.get_job("J") == altered
    with refused(32801):
        admin.alter_job("j", rule="priority < 3")
    with refused(32855):
        admin.alter_job("nosuch")


def test_options_are_set_one_by_one(admin: GatewayAdmin) -> None:
    admin.create_job("j", "OUTBOUND", "orders", "q1@plant")
    admin.set_option(JOB_OPTION, "j", "MsgBatchSize", "9")
    assert job_row(admin.hub, "j")["OPTIONS"] == '{"msgbatchsize":"9"}'
    admin.remove_option(JOB_OPTION, "j", "MsgBatchSize")
    assert job_row(admin.hub, "j")["OPTIONS"] == "{}"
    with refused(32801):
        admin.set_option(JOB_OPTION, "j", "MsgBatchSize", "9", encrypted=True)
    with refused(32801):
        admin.set_option(MSGLINK_OPTION, "plant", "nosuch", "9")
    with refused(32802):
        admin.set_option("DATABASE", "plant", "a", "b")
    with refused(32801):
        admin.set_option(JOB_OPTION, "", "a", "b")


def test_enable_disable_and_reset(admin: GatewayAdmin) -> None:
    job = admin.create_job("j", "OUTBOUND", "orders", "q1@plant", enabled=False)
    assert job_row(admin.hub, "j")["ENABLED"] == "FALSE"
    admin.enable_job("j")
    admin.enable_job("j")
    assert job_row(admin.hub, "j")["ENABLED"] == "TRUE"
    admin.disable_job("j")
    with admin.hub.write() as conn:
        conn.execute(
            sa.update(tables.job_state)
            .where(tables.job_state.c.job_id == job.id)
            .values(status="FAILED", failures=16, next_attempt=5.0, last_error_msg="no")
        )
    admin.reset_job("j")
    row = job_row(admin.hub, "j")
    assert (row["STATUS"], row["FAILURES"], row["NEXT_ATTEMPT"], row["ENABLED"]) == ("READY", 0, None, "FALSE")


def test_removal_waits_for_a_running_agent(admin: GatewayAdmin) -> None:
    admin.create_job("j", "OUTBOUND", "events", "q1@plant")
    start_agent(admin.hub)
    assert not admin.remove_job("j")
    assert job_row(admin.hub, "j")["STATUS"] == "DELETE_PENDING"
    for call in (admin.enable_job, admin.disable_job, admin.reset_job, admin.alter_job):
        with refused(32822):
            call("j")
    assert not admin.remove_job("j")
    admin.finish_remove_job("j")
    assert admin.list_jobs() == []
    assert admin.aq.queue_subscribers("events") == []
    admin.finish_remove_job("j")  # gone already


def test_finishing_a_removal_leaves_other_jobs_alone(admin: GatewayAdmin) -> None:
    admin.create_job("j", "OUTBOUND", "orders", "q1@plant")
    admin.finish_remove_job("j")
    assert [job.name for job in admin.list_jobs()] == ["j"]


def test_removal_of_a_topic_job_waits_while_its_system_is_down(
    admin: GatewayAdmin, request: pytest.FixtureRequest
) -> None:
    admin.create_job("j", "INBOUND", "news@plant", "orders")
    broker = MemoryBroker.get(request.node.nodeid)
    broker.refuse_connections = True
    assert not admin.remove_job("j")
    assert [job.status for job in admin.list_jobs()] == [JobStatus.DELETE_PENDING]
    broker.refuse_connections = False
    assert admin.remove_job("j")
    assert admin.list_jobs() == []


def test_one_connection_is_too_few_for_a_job_with_an_exception_queue(admin: GatewayAdmin) -> None:
    admin.alter_msgsystem_link("plant", {"max_connections": 1})
    with refused(32801):
        admin.create_job("j", "INBOUND", "q1@plant", "orders", exception_queue="q2@plant")
    admin.create_job("j", "INBOUND", "q1@plant", "orders")
    with refused(32801):
        admin.alter_job("j", exception_queue="q2@plant")
    admin.alter_msgsystem_link("plant", {"max_connections": 2})
    admin.alter_job("j", exception_queue="q2@plant")
    with refused(32801):
        admin.alter_msgsystem_link("plant", {"max_connections": 1})
    admin.alter_msgsystem_link("plant", {"max_connections": 2})
    admin.create_job("back", "OUTBOUND", "bad", "q2@plant", exception_queue="orders")
    admin.alter_job("j", exception_queue=None)
    admin.alter_msgsystem_link("plant", {"max_connections": 1})


def test_forced_removal_asks_nobody(admin: GatewayAdmin, request: pytest.FixtureRequest) -> None:
    admin.create_job("j", "INBOUND", "news@plant", "orders")
    MemoryBroker.get(request.node.nodeid).refuse_connections = True
    start_agent(admin.hub)
    assert admin.remove_job("j", force=True)
    assert admin.list_jobs() == []
    with refused(32855):
        admin.remove_job("j", force=True)


@pytest.mark.parametrize("source", ["orders", "events"])
def test_messages_in_plans_are_ready_again_after_removal(admin: GatewayAdmin, source: str) -> None:
    job = admin.create_job("j", "OUTBOUND", source, "q1@plant")
    if source == "events":
        admin.aq.add_subscriber("events", "other")
    put(admin.hub, source, Message(b"1"), Message(b"2"), Message(b"3"))
    consumer = job.subscriber if source == "events" else None
    with admin.hub.write() as conn:
        queue = transfer.resolve(conn, source)
        taken = [item.id for item in transfer.claim(conn, queue, consumer, 2)]
        run_state.add_plans(conn, job.id, [run_state.Plan(1, tuple(taken))], token=1, now=admin.hub.clock.now())
    assert job_row(admin.hub, "j")["BACKLOG"] == 3
    assert admin.remove_job("j", drop_messages=source == "events")
    with admin.hub.write() as conn:
        kept = transfer.claim(conn, queue, None if consumer is None else "other", 10)
    assert [item.message.body for item in kept] == [b"1", b"2", b"3"]


def test_a_guarantee_the_ends_cannot_give_is_refused(admin: GatewayAdmin, request: pytest.FixtureRequest) -> None:
    broker = MemoryBroker.get(request.node.nodeid)
    broker.queue("q1")
    with refused(32801):
        admin.create_job("j", "OUTBOUND", "orders", "q1@plant", require_guarantee="exact")
    broker.refuse_connections = True  # nobody can tell now: activation will
    job = admin.create_job("j", "OUTBOUND", "orders", "q1@plant", require_guarantee="exact")
    assert job.require_guarantee is Guarantee.EXACT
    assert admin.alter_job("j", require_guarantee=None).require_guarantee is None


def test_inbound_rules_are_accepted_and_checked(admin: GatewayAdmin) -> None:
    with refused(32801):
        admin.create_job("j", "INBOUND", "q1@plant", "orders", rule="priority = = 1")
    assert admin.create_job("j", "INBOUND", "q1@plant", "orders", rule="priority = 1").rule == "priority = 1"


# ---- views and secrets -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", sorted(DOCUMENTED))
def test_views_have_every_documented_column(hub: Hub, name: str) -> None:
    with hub.read() as conn:
        found = tuple(column.upper() for column in conn.execute(sa.text(f"SELECT * FROM {name}")).mappings().keys())  # noqa: SIM118
    assert found == COLUMNS[name]
    assert set(DOCUMENTED[name].split()) <= set(found)
    assert set(OURS.get(name, "").split()) <= set(found)
    if name not in ("MGW_JOBS", "MGW_GATEWAY"):
        assert set(found) == set(DOCUMENTED[name].split()) | set(OURS.get(name, "").split())


def test_jobs_show_resolved_upper_case_names(admin: GatewayAdmin) -> None:
    admin.create_job("Carry", "outbound", "orders", "q1@plant", exception_queue="bad", poll_interval=0.5)
    row = job_row(admin.hub, "carry")
    assert (row["SOURCE"], row["DESTINATION"], row["EXCEPTION_QUEUE"]) == ("MGW.ORDERS", "Q1@PLANT", "BAD")
    assert (row["LINK_NAME"], row["PROPAGATION_TYPE"], row["PROP_STYLE"]) == ("PLANT", "OUTBOUND", "NATIVE")
    assert (row["STATUS"], row["ACTIVITY"], row["POLL_INTERVAL"]) == ("READY", "STOPPED", 0.5)


def test_backlog_and_age_of_an_outbound_job_are_live(admin: GatewayAdmin) -> None:
    admin.create_job("single", "OUTBOUND", "orders", "q1@plant")
    admin.create_job("multi", "OUTBOUND", "events", "q1@plant")
    for name in ("single", "multi"):
        row = job_row(admin.hub, name)
        assert (row["BACKLOG"], row["OLDEST_MESSAGE_AGE"]) == (0, None)
    past = admin.hub.clock.now() - 100
    for queue in ("orders", "events"):
        with admin.hub.write() as conn:
            transfer.put(conn, transfer.resolve(conn, queue), [Message(b"old")], now=past)
        put(admin.hub, queue, Message(b"new"))
    for name in ("single", "multi"):
        row = job_row(admin.hub, name)
        assert row["BACKLOG"] == 2
        assert 100 <= row["OLDEST_MESSAGE_AGE"] < 160
    with admin.hub.read() as conn:
        assert [row.backlog for row in status.jobs(conn)] == [2, 2]


def test_the_oldest_message_counts_whatever_the_order_of_the_queue(admin: GatewayAdmin) -> None:
    admin.aq.create_queue_table("urgent_t", sort_list="PRIORITY,ENQ_TIME")
    admin.aq.create_queue("urgent", "urgent_t")
    admin.aq.start_queue("urgent")
    admin.create_job("j", "OUTBOUND", "urgent", "q1@plant")
    now = admin.hub.clock.now()
    with admin.hub.write() as conn:
        queue = transfer.resolve(conn, "urgent")
        transfer.put(conn, queue, [Message(b"old", priority=9)], now=now - 100)
        transfer.put(conn, queue, [Message(b"new", priority=1)], now=now - 10)
    assert 100 <= job_row(admin.hub, "j")["OLDEST_MESSAGE_AGE"] < 160


def test_messages_in_plans_belong_to_the_backlog(admin: GatewayAdmin) -> None:
    job = admin.create_job("j", "OUTBOUND", "orders", "q1@plant")
    now = admin.hub.clock.now()
    with admin.hub.write() as conn:
        queue = transfer.resolve(conn, "orders")
        transfer.put(conn, queue, [Message(b"1"), Message(b"2")], now=now - 100)
        ids = tuple(item.id for item in transfer.claim(conn, queue, None, 2))
        run_state.add_plans(conn, job.id, [run_state.Plan(1, ids)], token=1, now=now - 50)
    row = job_row(admin.hub, "j")
    assert row["BACKLOG"] == 2
    assert 50 <= row["OLDEST_MESSAGE_AGE"] < 110


def test_a_job_is_removed_although_its_hub_queue_was_dropped(admin: GatewayAdmin) -> None:
    admin.create_job("in", "INBOUND", "news@plant", "orders")
    admin.create_job("out", "OUTBOUND", "bad", "q1@plant")
    for queue in ("orders", "bad"):
        admin.aq.stop_queue(queue)
        admin.aq.drop_queue(queue)
    assert job_row(admin.hub, "out")["BACKLOG"] == 0
    with refused(32818):
        admin.alter_job("out", comments="x")
    assert admin.remove_job("in")
    assert admin.remove_job("out")


def test_link_views_show_attributes_without_user_or_password(admin: GatewayAdmin) -> None:
    admin.create_msgsystem_link(
        "field", "MQTT", {"hostname": "broker.example", "keepalive": 30}, username="u", password=PASSWORD
    )
    (row,) = view(admin.hub, "MGW_MQTT_LINKS")
    assert (row["HOSTNAME"], row["KEEPALIVE"], row["PROTOCOL_VERSION"]) == ("broker.example", 30, 5)
    for name in COLUMNS:
        assert PASSWORD not in str(view(admin.hub, name))


def test_typed_link_views_show_their_own_links(admin: GatewayAdmin) -> None:
    admin.create_msgsystem_link("rabbit", "RABBITMQ", {"hostname": "r.example", "port": 5671, "max_connections": 2})
    admin.create_msgsystem_link("log", "kafka", {"bootstrap_servers": "k:9092"}, options={"kafka_linger_ms": 7})
    (rabbit,) = view(admin.hub, "MGW_RABBITMQ_LINKS")
    (kafka,) = view(admin.hub, "MGW_KAFKA_LINKS")
    assert (rabbit["LINK_NAME"], rabbit["HOSTNAME"], rabbit["PORT"], rabbit["VIRTUAL_HOST"]) == (
        "RABBIT",
        "r.example",
        5671,
        "/",
    )
    assert rabbit["MAX_CONNECTIONS"] == 2
    assert (kafka["BOOTSTRAP_SERVERS"], kafka["SECURITY_PROTOCOL"]) == ("k:9092", "PLAINTEXT")
    assert json.loads(kafka["OPTIONS"]) == {"KAFKA_Linger_ms": "7"}
    assert {row["LINK_TYPE"] for row in view(admin.hub, "MGW_LINKS")} == {"RABBITMQ", "KAFKA", "MEMORY"}


def test_link_views_show_the_nodes_of_a_cluster(admin: GatewayAdmin) -> None:
    nodes = "one.example, two.example:5673"
    given: dict[str, dict[str, Any]] = {
        "alone": {"hostname": "one.example"},
        "first": {"hostname": "one.example", "hosts": "three.example"},
        "nodes": {"hosts": nodes},
    }
    for kind in ("RABBITMQ", "MQTT"):
        for name, attributes in given.items():
            admin.create_msgsystem_link(f"{kind}_{name}", kind, attributes)
        admin.alter_msgsystem_link(f"{kind}_first", {"hosts": "two.example:5673"})
        rows = {row["LINK_NAME"]: (row["HOSTNAME"], row["HOSTS"]) for row in view(admin.hub, f"MGW_{kind}_LINKS")}
        assert rows == {
            f"{kind}_ALONE": ("one.example", None),
            f"{kind}_FIRST": ("one.example", "two.example:5673"),
            f"{kind}_NODES": (None, nodes),
        }


def test_status_gives_the_views_as_values(admin: GatewayAdmin) -> None:
    admin.create_job("j", "OUTBOUND", "orders", "q1@plant")
    admin.set_agent_option("DEFAULT_AGENT", "ledger_retention", "60")
    with admin.hub.write() as conn:
        for number in range(5):
            conn.execute(
                sa.insert(tables.event).values(
                    time=1_700_000_000.0 + number, level="INFO", name="JobActivated", object="J", text=f"event {number}"
                )
            )
    with admin.hub.read() as conn:
        assert [row.agent_name for row in status.gateway(conn)] == ["DEFAULT_AGENT"]
        assert [row.value for row in status.agent_options(conn)] == ["60"]
        assert [(row.link_name, row.link_type) for row in status.links(conn)] == [("PLANT", "MEMORY")]
        assert [row.name for row in status.foreign_queues(conn)] == ["NEWS", "Q1", "Q2"]
        (job,) = status.jobs(conn)
        assert (job.job_name, job.status, job.backlog, job.poll_interval) == ("J", "READY", 0, 5.0)
        events = status.events(conn, limit=3)
        assert [row.event_text for row in events] == ["event 2", "event 3", "event 4"]
        assert events[0].event_time == "2023-11-14 22:13:22"
        assert status.events(conn, after=events[-1].event_id) == []


def test_passwords_are_not_readable_in_the_database(admin: GatewayAdmin) -> None:
    with admin.hub.read() as conn:
        stored = conn.execute(sa.select(tables.link.c.password)).scalar_one()
    assert stored
    assert PASSWORD not in stored
    assert PASSWORD not in repr(admin.list_links())


def test_a_wrong_key_is_named_with_its_cure(admin: GatewayAdmin) -> None:
    other = GatewayAdmin(admin.hub, Secrets(environ={"MGW_SECRET_KEY": KEY.replace("M", "N", 1)}))
    with pytest.raises(ConfigInvalid) as caught:
        other.list_links()
    assert "link Plant" in str(caught.value)
    assert "MGW_SECRET_KEY" in str(caught.value)
    assert PASSWORD not in str(caught.value)


def test_the_snapshot_is_what_the_agent_runs_by(admin: GatewayAdmin) -> None:
    admin.create_agent("second")
    admin.create_msgsystem_link("other", "MEMORY", agent_name="second")
    admin.register_foreign_queue("q9", "other")
    job = admin.create_job("j", "OUTBOUND", "orders", "q1@plant", options={"MsgBatchSize": 50})
    with admin.hub.read() as conn:
        snapshot = catalog.load_snapshot(conn, "default_agent", admin.secrets)
        assert snapshot.version == catalog.change_version(conn)
        second = catalog.load_snapshot(conn, "second", admin.secrets)
    assert set(snapshot.links) == {"PLANT"}
    assert snapshot.links["PLANT"].password == PASSWORD
    assert snapshot.jobs == {job.id: job}
    assert snapshot.foreign_queue("Q1@plant") is not None
    assert (set(second.links), set(second.queues), second.jobs) == ({"OTHER"}, {("Q9", "OTHER")}, {})
    with admin.hub.read() as conn, pytest.raises(AdminError, match="ORA-32850"):
        catalog.load_snapshot(conn, "nosuch", admin.secrets)


def test_only_accepted_changes_raise_the_version(admin: GatewayAdmin) -> None:
    before = admin.snapshot_version()
    with refused(32808):
        admin.alter_msgsystem_link("nosuch")
    assert admin.snapshot_version() == before
    admin.alter_msgsystem_link("plant", comment="x")
    assert admin.snapshot_version() == before + 1


# ---- serialized administration ---------------------------------------------------------------------------------------


def _alter_often(url: str, who: str, times: int) -> None:
    with open_hub(url) as hub:
        admin = GatewayAdmin(hub, Secrets(environ={"MGW_SECRET_KEY": KEY}))
        for number in range(times):
            admin.alter_job("j", comments=f"{who} {number}", options={"msgbatchsize": number + 1})


def test_concurrent_changes_of_two_processes_are_serialized(admin: GatewayAdmin, hub_url: str) -> None:
    """50 calls by two processes: none is lost, and comment and option always come from one call."""
    admin.create_job("j", "OUTBOUND", "orders", "q1@plant")
    before = admin.snapshot_version()
    workers = [CHILDREN.Process(target=_alter_often, args=(hub_url, who, 25)) for who in ("a", "b")]
    for worker in workers:
        worker.start()
    seen = set()
    while any(worker.is_alive() for worker in workers):
        if (job := admin.get_job("j")) is not None and job.comments:
            seen.add(int(job.comments.split()[1]) + 1 == job.batch_size)
        workers[0].join(0.01)
    for worker in workers:
        worker.join(60)
        assert worker.exitcode == 0
    assert admin.snapshot_version() == before + 50
    final = admin.get_job("j")
    assert final is not None
    assert final.comments in ("a 24", "b 24")
    assert final.batch_size == 25
    assert seen <= {True}
