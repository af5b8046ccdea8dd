"""A hub of an older release is brought forward whole, with nothing lost, or not at all."""

from __future__ import annotations

import json
import os
import re
import resource
import signal
import sqlite3
import subprocess
import sys
import threading
import time
import uuid
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any

import psycopg
import pytest
import sqlalchemy as sa

from mgw.gateway.aq.admin import QueueAdmin
from mgw.gateway.aq.hub import Hub
from mgw.gateway.aq.model import NO_WAIT, DequeueMode, DequeueOptions
from mgw.gateway.aq.schema.schema_sql import QUEUES_PART
from mgw.gateway.aq.schema.sqlite import COPY
from mgw.gateway.aq.store.schema_part import Step
from mgw.gateway.aq.views import create_queue_views, create_table_views, drop_queue_views, drop_table_views
from mgw.gateway.services import upgrade as service
from mgw.gateway.services.admin import GatewayAdmin
from mgw.gateway.services.upgrade import look, parts, upgrade
from mgw.gateway.state.gateway_hub import GATEWAY_PART, open_hub
from mgw.gateway.state.secrets import Secrets
from mgw.pipelines.hub import PARTS
from mgw.pipelines.hub import open_hub as open_for_pipelines
from mgw.transforms.errors import ConfigInvalid, HubError, HubUnavailable, HubVersionMismatch
from mgw.transforms.message import Message
from tests.support import old_hubs, schemas
from tests.support.brokers import PostgreSQL
from tests.support.examples import some_of
from tests.support.kept_totals import differences
from tests.support.waiting import eventually

ROOT = Path(__file__).resolve().parents[2]
BOTH = ["sqlite", pytest.param("postgresql", marks=pytest.mark.postgresql)]
#: Columns that an upgrade changes, by table.
VERSIONS = {"aq_hub": "schema_version", "aq_part": "version"}
KEEPS_HEADER_NAMES = 10  # version of the gateway's tables that says so in each link


class Old:
    """The hub of the first release on one database, not upgraded yet."""

    def __init__(self, kind: str, url: str, path: Path | None) -> None:
        self.kind = kind
        self.url = url
        self.path = path
        self.plain = url.replace("postgresql+psycopg://", "postgresql://")

    def tables(self) -> Any:
        """What the tables held, but for the versions."""
        found = old_hubs.manifest(self.kind)["tables"]
        for table, column in VERSIONS.items():
            place = found[table]["columns"].index(column)
            kept = [row for row in found[table]["rows"] if not str(row[0]).startswith("functions")]
            for row in [found[table]["columns"], *kept]:
                del row[place]
            found[table]["rows"] = sorted(kept, key=repr)
        if self.version("gateway") >= KEEPS_HEADER_NAMES:
            links = found["gw_link"]
            kind, attributes = (links["columns"].index(name) for name in ("type", "attributes"))
            for row in links["rows"]:
                if row[kind] in ("RABBITMQ", "KAFKA", "MQTT"):
                    row[attributes] = '{"header_names":"documented",' + row[attributes].removeprefix("{")
            links["rows"].sort(key=repr)
        return found

    def lost(self) -> list[str]:
        """What is not as it was, but for the versions."""
        engine = sa.create_engine(self.url)
        try:
            with engine.connect() as conn:
                found = old_hubs.differences(conn, self.tables())
                return [
                    each
                    for each in found
                    if not re.match(r"aq_part: lost \[\], more \[(\['functions\w*'\](, )?)+\]$", each)
                ]
        finally:
            engine.dispose()

    def run(self, sql: str) -> None:
        """Change the hub behind its back."""
        engine = sa.create_engine(self.url)
        try:
            with engine.begin() as conn:
                conn.exec_driver_sql(sql)
        finally:
            engine.dispose()

    def version(self, part: str = "aq") -> int:
        """As it is stored."""
        sql = "SELECT schema_version FROM aq_hub"
        if part != "aq":
            sql = f"SELECT version FROM aq_part WHERE name = '{part}'"
        engine = sa.create_engine(self.url)
        try:
            with engine.connect() as conn:
                return int(conn.exec_driver_sql(sql).scalar_one())
        finally:
            engine.dispose()

    def new(self) -> str:
        """Address of an empty database next to it."""
        if self.path is not None:
            return f"sqlite:///{self.path.parent}/new.db"
        with psycopg.connect(self.plain, autocommit=True) as connection:
            name = f"new_{uuid.uuid4().hex[:12]}"
            connection.execute(f"CREATE DATABASE {name}")
        return self.url.rpartition("/")[0] + f"/{name}"


@pytest.fixture(params=BOTH)
def old(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Old]:
    key = tmp_path / "hub.db.key"
    monkeypatch.setenv("MGW_SECRET_KEY_FILE", str(key))
    if request.param == "sqlite":
        yield Old("sqlite", old_hubs.load_sqlite(tmp_path / "hub.db"), tmp_path / "hub.db")
        return
    key.write_bytes((old_hubs.FOLDER / f"{old_hubs.FIRST}.key").read_bytes())
    server: PostgreSQL = request.getfixturevalue("postgresql")
    name = f"old_{uuid.uuid4().hex[:12]}"
    yield Old("postgresql", old_hubs.load_postgresql(server, name), None)
    server.drop_database(name)


@pytest.fixture
def sqlite_hub(tmp_path: Path) -> Old:
    return Old("sqlite", old_hubs.load_sqlite(tmp_path / "hub.db"), tmp_path / "hub.db")


@pytest.fixture
def postgresql_hub(postgresql: PostgreSQL) -> Iterator[Old]:
    name = f"old_{uuid.uuid4().hex[:12]}"
    yield Old("postgresql", old_hubs.load_postgresql(postgresql, name), None)
    postgresql.drop_database(name)


def mgw(*words: str, url: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "mgw.gateway", "--hub", url, *words],
        cwd=ROOT,
        text=True,
        capture_output=True,
        check=False,
    )


# -- what it holds ---------------------------------------------------------------------------------------------------


def test_nothing_of_the_old_hub_is_lost(old: Old) -> None:
    upgrade(old.url)
    assert old.lost() == []
    with open_hub(old.url) as hub, hub.read() as conn:
        assert not differences(conn)  # what was there is counted


def test_what_is_compared_is_what_the_old_release_could_have(old: Old) -> None:
    """Messages in every state, plans, logs, and all that the other tests rely on."""
    tables = old.tables()

    def values(table: str, column: str) -> set[Any]:
        place = tables[table]["columns"].index(column)
        return {row[place] for row in tables[table]["rows"]}

    assert values("aq_message", "state") == {0, 1, 2, 3, 8, 9}
    assert values("aq_entry", "state") == {0, 1, 2, 3, 4, 8}
    assert values("aq_message", "kind") == {"RAW", "BASIC", "OBJECT", "ANYDATA"}
    assert values("gw_link", "type") == {"RABBITMQ", "KAFKA", "MQTT"}
    assert values("gw_ledger", "kind") == {"RECEIVED", "COMPLETED"}
    assert values("gw_sink_batch", "state") == {"SEALED", "DONE"}
    assert values("gw_job_state", "status") == {"READY", "FAILED"}
    merged = [value for value in values_of(tables, "gw_ledger", "detail") if value and value["hex"].startswith("4d")]
    assert merged
    empty = {name for name, table in tables.items() if not table["rows"]}
    assert empty <= {"aq_dequeue_log", "aq_unplaced", "aq_reopened", "aq_session"}


def values_of(tables: Any, table: str, column: str) -> list[Any]:
    place = tables[table]["columns"].index(column)
    return [row[place] for row in tables[table]["rows"]]


def test_programs_read_the_same_messages_and_secrets(old: Old) -> None:
    upgrade(old.url)
    known = old_hubs.manifest(old.kind)
    with open_hub(old.url) as hub:
        found = {}
        with hub.session() as session:
            for name in known["queues"]:
                queue, _, consumer = name.partition("/")
                options = DequeueOptions(consumer or None, dequeue_mode=DequeueMode.BROWSE, wait=NO_WAIT)
                found[name] = [
                    {
                        "msgid": each.msgid.hex(),
                        "body": repr(each.message.body),
                        "headers": repr(each.message.headers),
                        "priority": each.message.priority,
                        "correlation": each.message.correlation,
                        "attempts": each.message.attempts,
                    }
                    for each in session.dequeue_array(queue, options, 1000)
                ]
        assert found == known["queues"]
        admin = GatewayAdmin(hub, Secrets.for_hub(old.url))
        secrets = {f"agent {each.name}": admin.agent_password(each.name) for each in admin.list_agents()}
        secrets |= {f"link {each.name}": each.password for each in admin.list_links()}
        assert secrets == {name: text for name, text in known["secrets"].items() if not name.startswith("option")}
        with hub.read() as conn:
            there = {name.upper(): name for name in sa.inspect(conn).get_view_names()}
            for name, view in known["views"].items():
                rows = conn.exec_driver_sql(f'SELECT * FROM "{there[name.upper()]}"').all()
                width = max((len(row) for row in view["rows"]), default=0)  # later columns are at the end
                found_rows = ([old_hubs.shown(value) for value in row[:width]] for row in rows)
                assert sorted(found_rows, key=repr) == view["rows"], name


def test_numbers_that_were_given_are_not_given_again(old: Old) -> None:
    tables = old.tables()
    upgrade(old.url)
    with open_hub(old.url) as hub:
        admin = QueueAdmin(hub)
        admin.create_queue_table("LATER_QT", "BASIC")
        admin.create_queue("LATER", "LATER_QT")
        admin.start_queue("LATER")
        with hub.session() as session:
            msgid = session.enqueue("LATER", Message("new"))
            session.commit()
        number = int.from_bytes(msgid[8:], "big")
        assert number > max(values_of(tables, "aq_message", "id"))
        with hub.read() as conn:
            assert conn.exec_driver_sql("SELECT id FROM aq_queue WHERE name = 'LATER'").scalar_one() > max(
                values_of(tables, "aq_queue", "id")
            )


def test_highest_number_of_a_table_is_kept_where_its_row_is_gone(sqlite_hub: Old) -> None:
    sqlite_hub.run("UPDATE sqlite_sequence SET seq = 5000 WHERE name = 'aq_consumer'")
    sqlite_hub.run("DELETE FROM gw_event")  # all of them: the sequence alone knows
    with closing(sqlite3.connect(sqlite_hub.path or "")) as connection:
        before = dict(connection.execute("SELECT name, seq FROM sqlite_sequence"))
    upgrade(sqlite_hub.url)
    with closing(sqlite3.connect(sqlite_hub.path or "")) as connection:
        assert dict(connection.execute("SELECT name, seq FROM sqlite_sequence")) == before
    assert before["aq_consumer"] == 5000
    assert before["gw_event"] > 0


def test_an_upgraded_hub_goes_on_where_the_old_one_stopped(old: Old) -> None:
    upgrade(old.url)
    with open_hub(old.url) as hub:
        with hub.session() as session:
            first = session.dequeue("GROUPS", DequeueOptions(wait=NO_WAIT))
            session.commit()
        assert first.message.body == "a0"
        admin = GatewayAdmin(hub, Secrets.for_hub(old.url))
        with hub.read() as conn:
            [(plan,)] = conn.exec_driver_sql(
                "SELECT count(*) FROM gw_plan p JOIN gw_job j ON j.id = p.job_id WHERE j.name = 'mqtt_out'"
            ).all()
        assert plan == 2
        before = admin.snapshot_version()
        QueueAdmin(hub).create_transformation("LATER", "JSON", "JSON", {"set": {"body.x": "1"}})
        assert admin.snapshot_version() > before  # triggers tell running jobs of it
        with hub.write() as conn:
            conn.exec_driver_sql("DELETE FROM aq_queue WHERE name = 'H'")
            streams = conn.exec_driver_sql("SELECT name FROM pl_stream ORDER BY name").scalars().all()
        assert streams == ["cities"]  # the queue took its stream along
    open_for_pipelines(old.url).close()


@pytest.mark.parametrize(("before", "after"), [("TRUE", None), ("FALSE", "error"), (None, None)])
def test_jobs_keep_what_they_do_with_messages_nobody_wants(old: Old, before: str | None, after: str | None) -> None:
    options = {"msgbatchsize": "7"} | ({"discard_unrouted": before} if before else {})
    old.run(f"UPDATE gw_job SET options = '{json.dumps(options)}' WHERE name = 'mqtt_out'")
    upgrade(old.url)
    with open_hub(old.url) as hub:
        job = GatewayAdmin(hub, Secrets.for_hub(old.url)).get_job("mqtt_out")
    assert job is not None
    assert job.options == {"msgbatchsize": "7"} | ({"unrouted": after} if after else {})


def test_links_keep_the_names_of_headers_that_rules_and_transformations_read(old: Old) -> None:
    upgrade(old.url)
    with open_hub(old.url) as hub:
        links = GatewayAdmin(hub, Secrets.for_hub(old.url)).list_links()
    names = {(link.type, link.attributes.get("header_names")) for link in links}
    assert names >= {(each, "documented") for each in ("RABBITMQ", "KAFKA", "MQTT")}
    assert {name for kind, name in names if kind not in ("RABBITMQ", "KAFKA", "MQTT")} <= {None}


# -- what it looks like ----------------------------------------------------------------------------------------------


def shape_of(url: str) -> dict[str, Any]:
    engine = sa.create_engine(url)
    try:
        with engine.connect() as conn:
            return schemas.shape(conn)
    finally:
        engine.dispose()


def test_an_upgraded_hub_is_the_same_as_a_new_one(old: Old) -> None:
    upgrade(old.url)
    new = old.new()
    Hub.open(new, create=True, schemas=[GATEWAY_PART, *PARTS]).close()
    upgraded, made = shape_of(old.url), shape_of(new)
    with open_hub(old.url) as hub, hub.read() as conn:
        objects = {str(name) for (name,) in conn.exec_driver_sql("SELECT name FROM aq_view")}
    theirs = {name for name in upgraded if name.partition(" ")[2].split(".")[-1].strip('"') in objects}
    assert len(objects) > 20
    found = {name: value for name, value in upgraded.items() if name not in theirs}
    for name, value in found.items():
        if name.startswith("grants "):
            found[name] = [each for each in value if not each.startswith(f"{old_hubs.ROLE} ")]
    assert found.keys() == made.keys()
    assert {name: (value, made[name]) for name, value in found.items() if value != made[name]} == {}


def test_views_of_queues_are_those_of_this_release(old: Old) -> None:
    upgrade(old.url)
    upgraded = shape_of(old.url)
    with open_hub(old.url) as hub, hub.write() as conn:
        admin = QueueAdmin(hub)
        for table in admin.queue_tables():
            drop_table_views(conn, table)
            create_table_views(conn, table)
        for table in admin.queue_tables():
            for queue in admin.queues(table.full_name):
                drop_queue_views(conn, queue.id)
                create_queue_views(conn, queue)
    made = shape_of(old.url)
    views = {name: value for name, value in made.items() if name.startswith("view ")}
    assert {name: value for name, value in upgraded.items() if name.startswith("view ")} == views


def test_every_state_and_flag_is_held_by_the_database(old: Old) -> None:
    upgrade(old.url)
    wrong = [
        ("aq_hub", "durability", "'slow'"),
        ("aq_queue_table", "message_grouping", "'SOME'"),
        ("aq_queue_table", "multiple_consumers", "2"),
        ("aq_queue", "queue_type", "'QUEUE'"),
        ("aq_queue", "enqueue_enabled", "3"),
        ("aq_queue", "dequeue_enabled", "-1"),
        ("aq_consumer", "is_subscriber", "2"),
        ("aq_consumer", "delivery_mode", "'OFTEN'"),
        ("aq_message", "state", "4"),
        ("aq_message", "state", "77"),
        ("aq_message", "body_type", "5"),
        ("aq_entry", "state", "9"),
        ("aq_total", "state", "8"),
        ("aq_view", "kind", "'_T'"),
        ("aq_activity", "kind", "'NONE'"),
        ("aq_privilege", "privilege", "'READ'"),
        ("aq_privilege", "grantable", "2"),
        ("aq_agent", "enable_http", "2"),
        ("gw_agent", "status", "'ASLEEP'"),
        ("gw_job_state", "status", "'FINE'"),
        ("gw_job_state", "activity", "'NONE'"),
        ("gw_ledger", "kind", "'SENT'"),
        ("gw_event", "level", "'LOUD'"),
        ("gw_flow_window", "direction", "'UP'"),
        ("gw_sink_batch", "state", "'OPEN'"),
        ("gw_sink_query", "unnamed", "2"),
        ("pl_stream", "settled", "allocated + 1"),
    ]
    if old.kind == "sqlite":
        wrong += [("gw_job", "enabled", "2"), ("gw_agent_option", "encrypted", "2")]
    for table, column, value in wrong:
        with pytest.raises(sa.exc.IntegrityError, match=f"{table}_(status|activity|{column})"):
            old.run(f"UPDATE {table} SET {column} = {value}")


def test_no_state_or_flag_is_without_a_check() -> None:
    """A column that is added later, too."""
    told = re.compile(
        r"(status|state|activity|kind|level|direction|\w+_enabled|enabled|enable_\w+|is_\w+|unnamed|encrypted)"
    )
    free = {"aq_message.kind", "aq_audit.kind", "gw_agent.log_level"}  # the name of any type, of any object; a number
    missing = []
    for metadata in metadatas():
        for table in metadata.tables.values():
            checks = " ".join(str(each.sqltext) for each in table.constraints if isinstance(each, sa.CheckConstraint))
            missing += [
                f"{table.name}.{column.name}"
                for column in table.columns
                if told.fullmatch(column.name) and not re.search(rf"\b{column.name}\b", checks)
            ]
    assert set(missing) <= free


def metadatas() -> list[sa.MetaData]:
    from mgw.gateway.aq.store import tables as queues
    from mgw.gateway.state.tables import metadata as gateway
    from mgw.pipelines.tables.flow import metadata as flow
    from mgw.pipelines.tables.sink import metadata as sink
    from mgw.pipelines.tables.stream import metadata as stream

    return [queues.metadata, gateway, flow, sink, stream]


@pytest.mark.postgresql
def test_rights_on_views_and_functions_survive(postgresql_hub: Old) -> None:
    before = grants(postgresql_hub)
    assert {"mgw_jobs", "mgw_ledger", "AQ$ORDERS_QT"} <= {name for name, _ in before}
    postgresql_hub.run(
        "CREATE FUNCTION theirs() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN RETURN NULL; END';"
        "CREATE TRIGGER theirs INSTEAD OF DELETE ON mgw_jobs FOR EACH ROW EXECUTE FUNCTION theirs()"
    )
    postgresql_hub.run(f"GRANT SELECT (event_text) ON mgw_events TO {old_hubs.ROLE} WITH GRANT OPTION")
    upgrade(postgresql_hub.url)
    assert grants(postgresql_hub) == before
    with psycopg.connect(postgresql_hub.plain) as connection:
        [(text,)] = connection.execute(
            "SELECT attacl::text FROM pg_attribute WHERE attrelid = 'mgw_events'::regclass AND attname = 'event_text'"
        ).fetchall()
        [(there,)] = connection.execute(
            "SELECT count(*) FROM pg_trigger WHERE tgname = 'theirs' AND tgrelid = 'mgw_jobs'::regclass"
        ).fetchall()
    assert f"{old_hubs.ROLE}=r*/" in text
    assert there == 1


@pytest.mark.postgresql
def test_who_reads_the_queues_with_a_login_of_its_own_reads_what_is_new_of_them(postgresql_hub: Old) -> None:
    postgresql_hub.run(f"GRANT SELECT ON aq_queue, aq_message TO {old_hubs.ROLE}")
    upgrade(postgresql_hub.url)
    assert ("aq_total", "SELECT") in grants(postgresql_hub)


def grants(old: Old) -> set[tuple[str, str]]:
    with psycopg.connect(old.plain) as connection:
        return set(
            connection.execute(
                """SELECT c.relname, a.privilege_type FROM pg_class c CROSS JOIN aclexplode(c.relacl) a
                    WHERE a.grantee = %s::regrole
                   UNION ALL SELECT p.proname, a.privilege_type FROM pg_proc p CROSS JOIN aclexplode(p.proacl) a
                    WHERE a.grantee = %s::regrole""",
                (old_hubs.ROLE, old_hubs.ROLE),
            ).fetchall()
        )


# -- who is refused --------------------------------------------------------------------------------------------------


def test_everything_refuses_an_older_hub_and_names_the_command(old: Old) -> None:
    words = r"was written by an older release.*aq tables have version 1.*mgw upgrade"
    for opened in (
        lambda: Hub.open(old.url),
        lambda: Hub.open(old.url, create=True),
        lambda: open_hub(old.url, create=True),
        lambda: open_for_pipelines(old.url),
    ):
        with pytest.raises(HubVersionMismatch, match=words):
            opened()
    configuration = old.path.parent if old.path else ROOT
    for command in (
        ["run"],
        ["jobs", "list"],
        ["aq", "browse", "PLAIN"],
        ["status"],
        ["export"],
        ["pipeline", "streams"],
    ):
        done = mgw(*command, url=old.url)
        assert done.returncode == 1, (configuration, command, done.stdout)
        assert re.search(words, done.stderr), command
        assert "Traceback" not in done.stderr
    assert old.version() == 1


def test_a_hub_whose_other_parts_alone_are_older_is_refused_too(old: Old) -> None:
    upgrade(old.url)
    old.run("UPDATE aq_part SET version = 1 WHERE name = 'gateway'")
    with pytest.raises(HubVersionMismatch, match=r"gateway tables have version 1.*mgw upgrade"):
        open_hub(old.url)


def test_a_newer_hub_is_refused_with_the_release_to_use(old: Old) -> None:
    upgrade(old.url)
    old.run("UPDATE aq_hub SET schema_version = 999, written_by = '77.5'")
    for opened in (lambda: Hub.open(old.url), lambda: look(old.url), lambda: upgrade(old.url)):
        with pytest.raises(HubVersionMismatch, match=r"newer release.*version 999.*77\.5.*install .*77\.5"):
            opened()


def test_a_part_that_nobody_knows_is_left_alone(old: Old) -> None:
    old.run("INSERT INTO aq_part (name, version) VALUES ('somebodys', 1)")
    with pytest.raises(HubError, match="tables of somebodys, which no installed package knows"):
        upgrade(old.url)
    assert old.version() == 1


def test_a_row_that_breaks_a_rule_is_named_and_nothing_is_changed(old: Old) -> None:
    old.run("UPDATE aq_message SET state = 77 WHERE id = (SELECT max(id) FROM aq_message)")
    number = max(values_of(old.tables(), "aq_message", "id"))
    before = shape_of(old.url)
    with pytest.raises(HubError, match=rf"a row of aq_message breaks a rule.*id = {number}, state = 77.*state IN \(0"):
        upgrade(old.url)
    assert shape_of(old.url) == before
    assert old.version() == 1
    old.run("UPDATE aq_message SET state = 0 WHERE state = 77")
    upgrade(old.url)


def test_no_upgrade_while_an_agent_has_its_lease(old: Old) -> None:
    old.run(f"UPDATE gw_agent SET lease_expires = {time.time() + 100} WHERE name_key = 'DEFAULT_AGENT'")
    with pytest.raises(HubUnavailable, match=r"in use.*agent DEFAULT_AGENT \(process \d+ on old-host\).*ends in \d+ s"):
        upgrade(old.url)
    assert old.version() == 1
    old.run("UPDATE gw_agent SET lease_expires = 1 WHERE name_key = 'DEFAULT_AGENT'")
    upgrade(old.url)


@pytest.mark.parametrize("busy", ["idle", "reading", "writing"])
def test_no_upgrade_while_another_program_has_the_file_open(sqlite_hub: Old, busy: str) -> None:
    script = (
        "import sqlite3, sys; c = sqlite3.connect(sys.argv[1], isolation_level=None);"
        "c.execute('PRAGMA journal_mode=WAL');"
        "c.execute('SELECT count(*) FROM aq_message').fetchall();"
        + {
            "idle": "",
            "reading": "c.execute('BEGIN'); c.execute('SELECT count(*) FROM aq_message').fetchall();",
            "writing": "c.execute('BEGIN IMMEDIATE'); c.execute('UPDATE aq_queue SET comment = 1');",
        }[busy]
        + "print('open', flush=True); sys.stdin.read()"
    )
    with subprocess.Popen(
        [sys.executable, "-c", script, str(sqlite_hub.path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as process:
        assert process.stdout is not None
        process.stdout.readline()
        with pytest.raises(HubUnavailable, match=rf"is in use.*process {process.pid} "):
            upgrade(sqlite_hub.url)
        process.kill()
    assert sqlite_hub.version() == 1
    upgrade(sqlite_hub.url)
    assert sqlite_hub.lost() == []


def test_what_is_in_the_write_ahead_log_only_comes_along(sqlite_hub: Old) -> None:
    script = (
        "import os, sqlite3, sys; c = sqlite3.connect(sys.argv[1]); c.execute('PRAGMA journal_mode=WAL');"
        "c.execute('PRAGMA wal_autocheckpoint=0'); c.execute(\"UPDATE aq_queue SET comment = 'in the log'\");"
        "c.commit(); os.kill(os.getpid(), 9)"
    )
    subprocess.run([sys.executable, "-c", script, str(sqlite_hub.path)], check=False)
    assert Path(f"{sqlite_hub.path}-wal").stat().st_size > 0
    upgrade(sqlite_hub.url)
    with open_hub(sqlite_hub.url) as hub, hub.read() as conn:
        assert conn.exec_driver_sql("SELECT DISTINCT comment FROM aq_queue").scalars().all() == ["in the log"]


@pytest.mark.postgresql
def test_no_upgrade_while_another_program_has_the_hub_open(
    postgresql_hub: Old, monkeypatch: pytest.MonkeyPatch
) -> None:
    with psycopg.connect(postgresql_hub.plain, application_name="mgw-0123") as connection:
        connection.execute("SELECT 1")
        connection.commit()
        with pytest.raises(HubUnavailable, match=r"in use.*server process \d+ of mgw-0123"):
            upgrade(postgresql_hub.url)
    with psycopg.connect(postgresql_hub.plain, autocommit=True) as connection:  # a hub without the gateway listens
        connection.execute('LISTEN "mgw_hub"')
        with pytest.raises(HubUnavailable, match="in use"):
            upgrade(postgresql_hub.url)
    eventually(lambda: gone(postgresql_hub), what="its backend has ended")
    upgrade(postgresql_hub.url)
    with Hub.open(postgresql_hub.url), pytest.raises(HubUnavailable, match=r"in use.*server process \d+"):
        upgrade_again(postgresql_hub, monkeypatch)  # connections of this release share a lock of the hub
    upgrade_again(postgresql_hub, monkeypatch)


def gone(old: Old) -> bool:
    """Whether nobody but the caller is connected to the database."""
    with psycopg.connect(old.plain) as connection:
        found = connection.execute(
            "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid()"
        ).fetchone()
    return found == (0,)


def upgrade_again(old: Old, monkeypatch: pytest.MonkeyPatch, run: Callable[[Any], None] = lambda _: None) -> None:
    """Upgrade the gateway's tables to a version after this release's."""
    later = GATEWAY_PART.version + 1
    part = replace(GATEWAY_PART, steps=(*GATEWAY_PART.steps, Step(later, "of a later release", run)))
    with monkeypatch.context() as patch:
        patch.setattr(service, "parts", lambda: [part, *PARTS])
        service.upgrade(old.url)


@pytest.mark.postgresql
def test_a_program_that_comes_back_after_an_upgrade_is_refused(
    postgresql_hub: Old, monkeypatch: pytest.MonkeyPatch
) -> None:
    upgrade(postgresql_hub.url)
    with Hub.open(postgresql_hub.url) as hub:
        with psycopg.connect(postgresql_hub.plain, autocommit=True) as connection:
            connection.execute(
                "SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
                " WHERE datname = current_database() AND pid <> pg_backend_pid()"
            )
        eventually(lambda: gone(postgresql_hub), what="connections cut")
        upgrade_again(postgresql_hub, monkeypatch)

        def refused() -> bool:
            try:
                with hub.read() as conn:
                    conn.exec_driver_sql("SELECT 1")
            except HubVersionMismatch as error:
                return "was upgraded while this program had it open" in str(error)
            except HubUnavailable:  # a lost connection is noticed first
                return False
            return False

        eventually(refused, what="refused")


@pytest.mark.postgresql
def test_no_upgrade_while_a_transaction_is_in_the_tables(postgresql_hub: Old, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("mgw.gateway.aq.schema.postgresql._PATIENCE", 300)
    with psycopg.connect(postgresql_hub.plain, application_name="shop") as connection:
        connection.execute("SELECT count(*) FROM aq_message")
        with pytest.raises(HubUnavailable, match=r"in use.*server process \d+ of shop"):
            upgrade(postgresql_hub.url)
    assert postgresql_hub.version() == 1


@pytest.mark.postgresql
def test_views_of_others_are_named_and_nothing_is_changed(postgresql_hub: Old) -> None:
    postgresql_hub.run("CREATE VIEW theirs AS SELECT job_name FROM mgw_jobs")
    with pytest.raises(HubError, match=r"view theirs depends on view mgw_jobs.*recreate it afterwards"):
        upgrade(postgresql_hub.url)
    assert postgresql_hub.version() == 1
    postgresql_hub.run("DROP VIEW theirs")
    upgrade(postgresql_hub.url)


@pytest.mark.postgresql
def test_only_the_owner_upgrades(postgresql_hub: Old, postgresql: PostgreSQL) -> None:
    name = f"clerk_{uuid.uuid4().hex[:8]}"
    postgresql_hub.run(f"CREATE ROLE {name} LOGIN")
    postgresql_hub.run(f"GRANT SELECT ON aq_hub, aq_part TO {name}")
    url = postgresql_hub.url.replace("mgw@", f"{name}@")
    with pytest.raises(HubError, match=f"cannot be upgraded by {name}.*log in as the owner"):
        upgrade(url)
    assert postgresql_hub.version() == 1


# -- while it runs ---------------------------------------------------------------------------------------------------


def test_others_are_held_off_while_it_runs_and_find_the_new_hub(old: Old) -> None:
    running, go_on = threading.Event(), threading.Event()
    ended: list[BaseException | None] = []

    def told(part: str, step: Step) -> None:
        running.set()
        assert go_on.wait(60)

    def work() -> None:
        try:
            upgrade(old.url, told=told)
            ended.append(None)
        except BaseException as error:
            ended.append(error)

    thread = threading.Thread(target=work)
    thread.start()
    assert running.wait(60)
    script = (
        "import sys; sys.argv[0] = 'x'\nfrom mgw.gateway.aq.hub import Hub\nprint('begun', flush=True)\n"
        f"Hub.open({old.url!r}).close(); print('opened')"
    )
    with subprocess.Popen(
        [sys.executable, "-c", script], cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "begun\n"
        with pytest.raises(subprocess.TimeoutExpired):
            process.wait(2)
        go_on.set()
        said, complaint = process.communicate(timeout=60)
    thread.join(60)
    assert ended == [None]
    refused = "was written by an older release" in complaint  # it had begun to read the old file
    assert said == "opened\n" or refused, complaint
    assert old.lost() == []
    Hub.open(old.url).close()


def test_a_program_that_waited_for_the_old_file_never_works_on_it(sqlite_hub: Old) -> None:
    """One that looked at the file before the upgrade, and opens it in the middle, as an older release would."""
    running, go_on = threading.Event(), threading.Event()

    def told(part: str, step: Step) -> None:
        running.set()
        assert go_on.wait(60)

    thread = threading.Thread(target=lambda: upgrade(sqlite_hub.url, told=told))
    thread.start()
    assert running.wait(60)
    script = (
        "import sqlite3, sys; c = sqlite3.connect(sys.argv[1], timeout=60, isolation_level=None)\n"
        "print('begun', flush=True)\n"
        "try:\n c.execute('PRAGMA journal_mode=WAL').fetchall(); c.execute('BEGIN IMMEDIATE');"
        " c.execute('UPDATE aq_queue SET comment = 7'); c.execute('COMMIT'); print('changed')\n"
        "except sqlite3.Error as error: print(error)"
    )
    with subprocess.Popen(
        [sys.executable, "-c", script, str(sqlite_hub.path)], stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "begun\n"
        with pytest.raises(subprocess.TimeoutExpired):
            process.wait(1)
        go_on.set()
        said, _ = process.communicate(timeout=90)
    thread.join(60)
    assert "changed" not in said
    assert not Path(f"{sqlite_hub.path}-wal").exists()
    assert sqlite_hub.lost() == []


EVENTS = ("execute", "executemany", "backup", "rename", "fsync", "unlink", "open", "close", "chmod", "commit")


def upgrade_and_die(url: str, moment: int) -> int:
    """Upgrade in a process of its own, which kills itself at the given event; how many there were; -1: it died."""
    read, write = os.pipe()
    pid = os.fork()
    if not pid:
        count = 0

        def profile(frame: Any, event: str, function: Any) -> None:
            nonlocal count
            if event == "c_call" and getattr(function, "__name__", "") in EVENTS:
                count += 1
                if count == moment:
                    os.kill(os.getpid(), signal.SIGKILL)

        code = 1
        try:
            sys.setprofile(profile)
            upgrade(url)
            sys.setprofile(None)
            os.write(write, str(count).encode())
            code = 0
        finally:
            os._exit(code)
    os.close(write)
    _, status = os.waitpid(pid, 0)
    text = os.read(read, 100)
    os.close(read)
    if os.WIFSIGNALED(status):
        assert os.WTERMSIG(status) == signal.SIGKILL
        return -1
    assert os.WEXITSTATUS(status) == 0
    return int(text)


@pytest.mark.timeout(600)  # some thirty upgrades
@pytest.mark.examples
def test_a_kill_at_any_moment_leaves_the_old_or_the_new_hub_on_sqlite(tmp_path: Path) -> None:
    look(old_hubs.load_sqlite(tmp_path / "warm.db"))  # everything is imported
    path = tmp_path / "hub.db"
    total = upgrade_and_die(old_hubs.load_sqlite(path), 0)
    assert total > 60
    moments = some_of(sorted({*range(1, 12, 3), *range(1, total, total // 12), *range(total - 14, total + 1)}))
    results = []
    for moment in moments:
        for each in tmp_path.glob("hub.db*"):
            each.unlink()
        old = Old("sqlite", old_hubs.load_sqlite(path), path)
        assert upgrade_and_die(old.url, moment) == -1, moment
        version = old.version()
        assert version in (1, QUEUES_PART.version)
        assert old.lost() == [], moment
        if version == 1:
            with pytest.raises(HubVersionMismatch, match="mgw upgrade"):
                Hub.open(old.url)
            upgrade(old.url)
            assert old.lost() == [], moment
        with open_hub(old.url) as hub, hub.read() as conn:
            assert conn.exec_driver_sql("PRAGMA integrity_check").scalar_one() == "ok"
        assert not Path(f"{path}{COPY}").exists()
        results.append(version)
    assert results == sorted(results)  # first the old one, from some moment on the new one
    assert set(results) == {1, QUEUES_PART.version}


@pytest.mark.timeout(600)
@pytest.mark.examples
@pytest.mark.postgresql
def test_a_kill_at_any_moment_leaves_the_old_or_the_new_hub_on_postgresql(postgresql: PostgreSQL) -> None:
    original = f"kill_{uuid.uuid4().hex[:8]}"
    old_hubs.load_postgresql(postgresql, original)
    with psycopg.connect(postgresql.url.replace("+psycopg", ""), autocommit=True) as connection:

        def copy(number: int) -> Old:
            name = f"{original}_{number}"
            connection.execute(f"CREATE DATABASE {name} TEMPLATE {original}")
            return Old("postgresql", postgresql.url_of(name), None)

        whole = copy(0)
        total = upgrade_and_die(whole.url, 0)
        assert total > 60
        moments = [total * number // 18 for number in range(1, 18)] + [total - number for number in range(8)]
        hubs = {moment: copy(moment) for moment in some_of(sorted({max(1, moment) for moment in moments}))}
    for moment, old in hubs.items():
        upgrade_and_die(old.url, moment)
        eventually(lambda old=old: gone(old), what="its backend has ended")
        version = old.version()
        assert version in (1, QUEUES_PART.version)
        assert old.lost() == [], moment
        upgrade(old.url)
        assert old.lost() == []
    for name in (original, *(f"{original}_{number}" for number in (0, *hubs))):
        postgresql.drop_database(name)


# -- the file ----------------------------------------------------------------------------------------------------------


def test_permissions_links_and_the_key_stay(tmp_path: Path) -> None:
    folder = tmp_path / "data"
    folder.mkdir()
    path = folder / "real.db"
    old_hubs.load_sqlite(path)
    path.chmod(0o640)
    link = tmp_path / "hub.db"
    link.symlink_to(path)
    upgrade(f"sqlite:///{link}")
    assert link.is_symlink()
    assert path.stat().st_mode & 0o777 == 0o640
    assert {each.name for each in folder.iterdir()} == {"real.db", "real.db.key"}
    with open_hub(f"sqlite:///{path}") as hub:
        assert GatewayAdmin(hub, Secrets.for_hub(f"sqlite:///{path}")).agent_password("NIGHT") == "night password"


def test_a_file_with_two_names_is_refused(sqlite_hub: Old, tmp_path: Path) -> None:
    os.link(sqlite_hub.path or "", tmp_path / "other.db")
    with pytest.raises(HubError, match="second name"):
        upgrade(sqlite_hub.url)
    assert sqlite_hub.version() == 1


def test_a_copy_that_a_killed_upgrade_left_is_no_obstacle(sqlite_hub: Old) -> None:
    Path(f"{sqlite_hub.path}{COPY}").write_text("half")
    upgrade(sqlite_hub.url)
    assert sqlite_hub.lost() == []
    assert not Path(f"{sqlite_hub.path}{COPY}").exists()


def test_an_application_in_the_same_file_keeps_what_is_its_own(sqlite_hub: Old) -> None:
    """Tables whose rows are known by their rowid, a broken reference, triggers on tables and views of the hub."""
    for statement in (
        "CREATE TABLE shop (name TEXT)",
        "INSERT INTO shop (rowid, name) VALUES (7, 'seven'), (1000, 'thousand')",
        "CREATE TABLE sold (id INTEGER PRIMARY KEY, shop INTEGER REFERENCES nowhere (id))",
        "INSERT INTO sold VALUES (1, 5)",
        "CREATE VIEW waiting AS SELECT q.name FROM aq_queue q JOIN MGW_JOBS",
        "CREATE TRIGGER shop_hears AFTER DELETE ON aq_consumer BEGIN DELETE FROM shop WHERE rowid = 7; END",
        "CREATE TRIGGER shop_jobs INSTEAD OF DELETE ON MGW_JOBS BEGIN DELETE FROM shop; END",
        "CREATE INDEX shop_looks ON aq_message (correlation)",
    ):
        sqlite_hub.run(statement)

    def theirs() -> list[Any]:
        with closing(sqlite3.connect(sqlite_hub.path or "")) as connection:
            query = "SELECT type, name, sql FROM sqlite_master WHERE name LIKE 'shop%' OR name IN ('sold', 'waiting')"
            rows = connection.execute("SELECT rowid, name FROM shop").fetchall()
            assert connection.execute("SELECT count(*) FROM waiting").fetchone()[0] > 0
            return [*sorted(connection.execute(query).fetchall()), *rows]

    before = theirs()
    assert len(before) == 8
    upgrade(sqlite_hub.url)
    assert theirs() == before
    with closing(sqlite3.connect(sqlite_hub.path or "")) as connection:
        assert connection.execute("PRAGMA journal_mode").fetchone() == ("wal",)
        connection.execute("DELETE FROM MGW_JOBS")
        assert connection.execute("SELECT count(*) FROM shop").fetchone() == (0,)


def test_an_upgraded_file_is_not_larger_than_it_must_be(sqlite_hub: Old, tmp_path: Path) -> None:
    assert sqlite_hub.path is not None
    upgrade(sqlite_hub.url)
    smallest = tmp_path / "smallest.db"
    with closing(sqlite3.connect(sqlite_hub.path)) as connection:
        connection.execute("VACUUM INTO ?", (str(smallest),))
    assert sqlite_hub.path.stat().st_size < 1.1 * smallest.stat().st_size


def test_a_backup_is_the_old_hub(sqlite_hub: Old, tmp_path: Path) -> None:
    backup = tmp_path / "kept.db"
    upgrade(sqlite_hub.url, backup=str(backup))
    kept = Old("sqlite", f"sqlite:///{backup}", backup)
    assert kept.version() == 1
    assert kept.lost() == []
    assert sqlite_hub.version() == QUEUES_PART.version
    upgrade(kept.url)


def test_a_backup_never_replaces_a_file(sqlite_hub: Old, tmp_path: Path) -> None:
    backup = tmp_path / "kept.db"
    backup.write_text("precious")
    with pytest.raises(HubError, match="already exists"):
        upgrade(sqlite_hub.url, backup=str(backup))
    with pytest.raises(HubError, match="cannot be created"):
        upgrade(sqlite_hub.url, backup=str(tmp_path / "no" / "such" / "folder.db"))
    assert backup.read_text() == "precious"
    assert sqlite_hub.version() == 1


def test_a_backup_that_is_not_whole_does_not_stay(sqlite_hub: Old, tmp_path: Path) -> None:
    kept = tmp_path / "backups"
    kept.mkdir()
    (kept / "kept.db-part").write_text("what a killed upgrade left")
    soft, most = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (20_000, most))
    try:
        with pytest.raises(HubError, match="cannot be created") as refused:
            upgrade(sqlite_hub.url, backup=str(kept / "kept.db"))
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, most))
    assert "room" in refused.value.cure
    assert list(kept.iterdir()) == []
    assert sqlite_hub.version() == 1
    upgrade(sqlite_hub.url, backup=str(kept / "kept.db"))
    assert [file.name for file in kept.iterdir()] == ["kept.db"]


@pytest.mark.postgresql
def test_a_backup_of_postgresql_is_made_by_its_own_tools(postgresql_hub: Old, tmp_path: Path) -> None:
    with pytest.raises(ConfigInvalid, match="pg_dump"):
        upgrade(postgresql_hub.url, backup=str(tmp_path / "kept"))


# -- the command -------------------------------------------------------------------------------------------------------


def test_command_checks_lists_upgrades_and_says_so(old: Old) -> None:
    done = mgw("upgrade", "--check", url=old.url)
    assert done.returncode == 1
    assert f"needs an upgrade: aq 1 -> {QUEUES_PART.version}" in done.stdout
    done = mgw("upgrade", "--dry-run", "--json", url=old.url)
    assert done.returncode == 0
    told = json.loads(done.stdout)
    assert (told["upgrade_needed"], told["upgraded"], told["seconds"]) == (True, False, None)
    assert [step["version"] for step in told["parts"][0]["steps"]] == list(range(2, QUEUES_PART.version + 1))
    assert old.version() == 1
    done = mgw("upgrade", url=old.url)
    assert (done.returncode, done.stderr) == (0, "")
    for part in (QUEUES_PART, *parts()):
        for step in part.steps:
            assert f"  {part.name} {step.version}: {step.title}\n" in done.stdout
    assert "upgraded in " in done.stdout
    for words in (["upgrade"], ["upgrade", "--check"]):
        done = mgw(*words, url=old.url)
        assert done.returncode == 0
        assert f"is up to date: aq {QUEUES_PART.version}" in done.stdout
    told = json.loads(mgw("upgrade", "--json", url=old.url).stdout)
    assert (told["upgrade_needed"], told["upgraded"]) == (False, False)


def test_command_refuses_what_is_no_hub(tmp_path: Path) -> None:
    file = tmp_path / "text.db"
    file.write_text("no database at all, but long enough to be looked at " * 20)
    for name, said in (("text.db", "is not a hub"), ("missing.db", "does not exist")):
        done = mgw("upgrade", url=f"sqlite:///{tmp_path}/{name}")
        assert done.returncode == 1
        assert said in done.stderr
        assert "Traceback" not in done.stderr
    assert not (tmp_path / "missing.db").exists()


# -- the rule for what comes -------------------------------------------------------------------------------------------


def test_every_version_has_a_step() -> None:
    for part in (QUEUES_PART, *parts()):
        assert [step.version for step in part.steps] == list(range(2, part.version + 1)), part.name
        assert all(step.title for step in part.steps)


@pytest.mark.postgresql
def test_a_changed_schema_has_a_version_of_its_own(postgresql: PostgreSQL) -> None:
    known, found = schemas.recorded(), schemas.digests(postgresql)
    for name, version in schemas.versions().items():
        shapes = known["shapes"][name]
        assert shapes.get(str(version)) == found[name], (
            f"tables, views, triggers or functions of part {name} have changed: "
            + (
                f"version {version} was released, so raise it, add a step, and "
                if version <= known["released"][name]
                else "add what changed to the step of this version, and "
            )
            + "run: python -m tests.support.schemas"
        )


def test_steps_never_look_at_the_tables_of_today() -> None:
    """A step is history: what it made of a hub in its time it makes for ever."""
    folders = ["gateway/aq/store/migrations/queues.py", "gateway/state/migrations", "pipelines/migrations"]
    files = [
        file for name in folders for file in ([ROOT / name] if name.endswith(".py") else (ROOT / name).glob("*.py"))
    ]
    assert len(files) >= 3
    for file in files:
        assert not re.search(
            r"^\s*(from|import) .*\b(tables\w*|views|triggers\w*)\b", file.read_text(), re.MULTILINE
        ), file


# -- many messages -----------------------------------------------------------------------------------------------------


@pytest.mark.long
def test_many_messages_are_upgraded_in_a_time_a_person_can_wait_for(old: Old) -> None:
    number = "x" if old.kind == "postgresql" else "value"
    series = f"generate_series(1, 1000000) {number}"
    columns = [name for name in old.tables()["aq_message"]["columns"] if name not in ("id", "k3")]
    listed = ", ".join(columns)
    if old.kind == "sqlite":
        numbers = "WITH RECURSIVE s(value) AS (SELECT 1 UNION ALL SELECT value + 1 FROM s LIMIT 1000000)"
        series = f"({numbers} SELECT value FROM s)"
    old.run(
        f"INSERT INTO aq_message (id, k3, {listed}) SELECT 1000000 + {number}, 1000000 + {number}, {listed}"
        f" FROM aq_message, {series} WHERE id = (SELECT min(id) FROM aq_message WHERE state = 0)"
    )
    began = time.monotonic()
    upgrade(old.url)
    seconds = time.monotonic() - began
    print(f"{old.kind}: 1,000,000 messages in {seconds:.1f} s")
    with Hub.open(old.url) as hub, hub.read() as conn:
        assert conn.exec_driver_sql("SELECT count(*) FROM aq_message WHERE id > 1000000").scalar_one() == 1_000_000
    assert seconds < 300
