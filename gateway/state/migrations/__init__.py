"""Upgrades of the gateway's tables: their steps (see :mod:`mgw.gateway.aq.store.migrations`)."""

from __future__ import annotations

import json

from mgw.gateway.aq import Changes, Step

__all__ = ["STEPS"]


def _checks(changes: Changes) -> None:
    if not changes.postgresql:  # which has a type for them
        changes.add_checks("gw_agent_option", {"encrypted": "encrypted IN (0, 1)"})
        changes.add_checks("gw_job", {"enabled": "enabled IN (0, 1)"})
    changes.add_checks("gw_ledger", {"kind": "kind IN ('RECEIVED', 'COMPLETED', 'RETURNED', 'BREAK')"})
    changes.add_checks("gw_event", {"level": "level IN ('DEBUG', 'INFO', 'WARNING', 'ERROR', 'CRITICAL')"})


def _pairs(changes: Changes) -> None:
    types = "propagation_type IN ('INBOUND','OUTBOUND','THROUGH','LOCAL')"
    changes.replace_check("gw_job", "gw_job_type", types)
    changes.allow_null("gw_job", "link_key")
    kinds = "kind IN ('RECEIVED', 'CARRIED', 'COMPLETED', 'RETURNED', 'BREAK')"
    changes.replace_check("gw_ledger", "gw_ledger_kind", kinds)
    changes.add_column("gw_plan", "detail BYTEA" if changes.postgresql else "detail BLOB")


def _unrouted(changes: Changes) -> None:
    for number, text in changes.db.rows("SELECT id, options FROM gw_job"):
        options = json.loads(text)
        discards = options.pop("discard_unrouted", None)
        if discards is None:
            continue
        if discards.upper() != "TRUE":
            options["unrouted"] = "error"
        changes.db.run("UPDATE gw_job SET options = ? WHERE id = ?", (json.dumps(options), number))


def _since(changes: Changes) -> None:
    moment = "DOUBLE PRECISION" if changes.postgresql else "DOUBLE"
    changes.add_column("gw_agent", f"stopped {moment}")
    changes.add_column("gw_job_state", f"not_working_since {moment}")


def _left_out(changes: Changes) -> None:
    changes.add_column(
        "gw_job_state", f"unrouted_total {'BIGINT' if changes.postgresql else 'INTEGER'} DEFAULT '0' NOT NULL"
    )


def _workers(changes: Changes) -> None:
    changes.db.run(
        f"""CREATE TABLE gw_worker (
        worker_key TEXT NOT NULL,
        agent_key TEXT NOT NULL,
        token {"BIGINT" if changes.postgresql else "INTEGER"} NOT NULL,
        PRIMARY KEY (worker_key),
        FOREIGN KEY(agent_key) REFERENCES gw_agent (name_key) ON DELETE CASCADE
    )"""
    )


def _views(changes: Changes) -> None:
    """Every upgrade creates the views again."""


def _taps(changes: Changes) -> None:
    whole = "BIGINT" if changes.postgresql else "INTEGER"
    moment = "DOUBLE PRECISION" if changes.postgresql else "DOUBLE"
    number = "BIGSERIAL NOT NULL" if changes.postgresql else "INTEGER NOT NULL PRIMARY KEY AUTOINCREMENT"
    key = ", PRIMARY KEY (id)" if changes.postgresql else ""
    changes.db.run(
        f"""CREATE TABLE gw_tap (
        id {number},
        job_id {whole} NOT NULL,
        until {moment} NOT NULL,
        per_second INTEGER NOT NULL,
        remaining {whole} NOT NULL,
        size {whole} NOT NULL,
        began {moment},
        missed {whole} DEFAULT '0' NOT NULL{key},
        FOREIGN KEY(job_id) REFERENCES gw_job (id) ON DELETE CASCADE
    )"""
    )
    changes.db.run(
        f"""CREATE TABLE gw_tapped (
        id {number},
        tap_id {whole} NOT NULL,
        seen TEXT NOT NULL{key},
        FOREIGN KEY(tap_id) REFERENCES gw_tap (id) ON DELETE CASCADE
    )"""
    )
    changes.db.run("CREATE INDEX gw_tapped_tap ON gw_tapped (tap_id)")


def _header_names(changes: Changes) -> None:
    links = "SELECT name_key, attributes FROM gw_link WHERE type IN ('RABBITMQ', 'KAFKA', 'MQTT')"
    for name, text in changes.db.rows(links):
        attributes = {"header_names": "documented"} | json.loads(text)
        stored = json.dumps(attributes, separators=(",", ":"))
        changes.db.run("UPDATE gw_link SET attributes = ? WHERE name_key = ?", (stored, name))


def _parked(changes: Changes) -> None:
    whole = "BIGINT" if changes.postgresql else "INTEGER"
    moment = "DOUBLE PRECISION" if changes.postgresql else "DOUBLE"
    changes.db.run(
        f"""CREATE TABLE gw_parked (
        job_id {whole} NOT NULL,
        number {whole} NOT NULL,
        message_key TEXT NOT NULL,
        state TEXT NOT NULL,
        head {whole} NOT NULL,
        sequence {whole} NOT NULL,
        attempts {whole} NOT NULL,
        give_up INTEGER NOT NULL,
        reason TEXT NOT NULL,
        error_number {whole},
        since {moment} NOT NULL,
        next_attempt {moment} NOT NULL,
        PRIMARY KEY (job_id, number),
        CONSTRAINT gw_parked_key UNIQUE (job_id, message_key),
        CONSTRAINT gw_parked_state CHECK (state IN ('PARKED', 'TRYING', 'PASSED')),
        CONSTRAINT gw_parked_give_up CHECK (give_up IN (0, 1)),
        FOREIGN KEY(job_id) REFERENCES gw_job (id) ON DELETE CASCADE
    )"""
    )


def _users(changes: Changes) -> None:
    moment = "DOUBLE PRECISION" if changes.postgresql else "DOUBLE"
    roles = "role IN ('VIEWER', 'OPERATOR', 'ADMINISTRATOR')"
    changes.db.run(
        f"""CREATE TABLE gw_user (
        name_key TEXT NOT NULL,
        name TEXT NOT NULL,
        role TEXT NOT NULL,
        password TEXT,
        created {moment} NOT NULL,
        PRIMARY KEY (name_key),
        CONSTRAINT gw_user_role CHECK ({roles})
    )"""
    )
    changes.db.run(
        f"""CREATE TABLE gw_token (
        id TEXT NOT NULL,
        user_key TEXT NOT NULL,
        digest TEXT NOT NULL,
        role TEXT NOT NULL,
        comments TEXT,
        created {moment} NOT NULL,
        expires {moment},
        used {moment},
        PRIMARY KEY (id),
        CONSTRAINT gw_token_role CHECK ({roles}),
        FOREIGN KEY(user_key) REFERENCES gw_user (name_key) ON DELETE CASCADE
    )"""
    )
    changes.db.run("CREATE INDEX gw_token_user ON gw_token (user_key)")
    changes.db.run(
        f"""CREATE TABLE gw_session (
        digest TEXT NOT NULL,
        user_key TEXT NOT NULL,
        created {moment} NOT NULL,
        seen {moment} NOT NULL,
        PRIMARY KEY (digest),
        FOREIGN KEY(user_key) REFERENCES gw_user (name_key) ON DELETE CASCADE
    )"""
    )
    changes.db.run("CREATE INDEX gw_session_user ON gw_session (user_key)")


def _desk(changes: Changes) -> None:
    whole = "BIGINT" if changes.postgresql else "INTEGER"
    number = "BIGSERIAL NOT NULL" if changes.postgresql else "INTEGER NOT NULL PRIMARY KEY AUTOINCREMENT"
    key = ", PRIMARY KEY (id)" if changes.postgresql else ""
    changes.db.run(
        f"""CREATE TABLE gw_desk_queue (
        id {number},
        place TEXT NOT NULL,
        queue TEXT NOT NULL,
        identity TEXT NOT NULL,
        deliveries {whole} DEFAULT '0' NOT NULL{key},
        CONSTRAINT gw_desk_queue_name UNIQUE (place, queue)
    )"""
    )
    changes.db.run(
        f"""CREATE TABLE gw_desk_done (
        desk_queue_id {whole} NOT NULL,
        part {whole} NOT NULL,
        position {whole} NOT NULL,
        digest TEXT NOT NULL,
        PRIMARY KEY (desk_queue_id, part, position),
        FOREIGN KEY(desk_queue_id) REFERENCES gw_desk_queue (id) ON DELETE CASCADE
    )"""
    )


def _history(changes: Changes) -> None:
    whole = "BIGINT" if changes.postgresql else "INTEGER"
    moment = "DOUBLE PRECISION" if changes.postgresql else "DOUBLE"
    changes.db.run(
        f"""CREATE TABLE gw_job_history (
        job_id {whole} NOT NULL,
        begun {moment} NOT NULL,
        ended {moment} NOT NULL,
        grain INTEGER NOT NULL,
        moved {whole} NOT NULL,
        exceptioned {whole} NOT NULL,
        filtered {whole} NOT NULL,
        discarded {whole} NOT NULL,
        failures {whole} NOT NULL,
        batches {whole} NOT NULL,
        bytes {whole} NOT NULL,
        stored {moment},
        confirmed {moment},
        origin {moment},
        backlog {whole},
        oldest {moment},
        enabled INTEGER NOT NULL,
        status TEXT NOT NULL,
        activity TEXT NOT NULL,
        PRIMARY KEY (job_id, begun),
        CONSTRAINT gw_job_history_enabled CHECK (enabled IN (0, 1)),
        CONSTRAINT gw_job_history_status CHECK (status IN ('READY','RETRY','FAILED','DELETE_PENDING')),
        CONSTRAINT gw_job_history_activity CHECK (activity IN
            ('STOPPED','CONNECTING','RUNNING','IDLE','BACKOFF','STUCK')),
        FOREIGN KEY(job_id) REFERENCES gw_job (id) ON DELETE CASCADE
    )"""
    )


def _security(changes: Changes) -> None:
    moment = "DOUBLE PRECISION" if changes.postgresql else "DOUBLE"
    changes.add_column("gw_agent", "secret_keys TEXT")
    changes.db.run(
        f"""CREATE TABLE gw_certificate (
        link_key TEXT NOT NULL,
        owner TEXT NOT NULL,
        place TEXT NOT NULL,
        subject TEXT NOT NULL,
        expires {moment} NOT NULL,
        seen {moment} NOT NULL,
        PRIMARY KEY (link_key, owner, place),
        CONSTRAINT gw_certificate_owner CHECK (owner IN ('LINK', 'BROKER')),
        FOREIGN KEY(link_key) REFERENCES gw_link (name_key) ON DELETE CASCADE
    )"""
    )


def _schedules(changes: Changes) -> None:
    changes.add_column("gw_job", "old_style INTEGER DEFAULT '0' NOT NULL")
    changes.add_column("gw_job", "schedule TEXT")
    changes.add_column("gw_job", "schedule_key TEXT")
    changes.add_checks("gw_job", {"old_style": "old_style IN (0, 1)"})
    changes.db.run("UPDATE gw_job SET schedule = name, schedule_key = name_key")
    changes.db.run("CREATE UNIQUE INDEX gw_job_schedule ON gw_job (schedule_key)")
    states = "status IN ('READY','RETRY','FAILED','DELETE_PENDING','SUBSCRIBER_DELETE_PENDING')"
    changes.replace_check("gw_job_state", "gw_job_state_status", states)
    changes.replace_check("gw_job_history", "gw_job_history_status", states)
    changes.db.run(
        f"""CREATE TABLE gw_schedule (
        name_key TEXT NOT NULL,
        name TEXT NOT NULL,
        link_key TEXT NOT NULL,
        propagation_type TEXT NOT NULL,
        source TEXT NOT NULL,
        destination TEXT NOT NULL,
        source_key TEXT NOT NULL,
        destination_key TEXT NOT NULL,
        latency {"DOUBLE PRECISION" if changes.postgresql else "DOUBLE"},
        enabled INTEGER NOT NULL,
        PRIMARY KEY (name_key),
        CONSTRAINT gw_schedule_triplet UNIQUE (propagation_type, source_key, destination_key),
        CONSTRAINT gw_schedule_enabled CHECK (enabled IN (0, 1)),
        CONSTRAINT gw_schedule_propagation_type CHECK (propagation_type IN ('INBOUND', 'OUTBOUND')),
        FOREIGN KEY(link_key) REFERENCES gw_link (name_key)
    )"""
    )


def _progress(changes: Changes) -> None:
    changes.add_column("gw_job_state", "activity_reason TEXT")
    known = "'BACKOFF', 'BLOCKED', 'CONNECTING', 'DRAINING', 'IDLE', 'RUNNING', 'STOPPED', 'STUCK'"
    changes.replace_check("gw_job_state", "gw_job_state_activity", f"activity IN ({known})")
    changes.replace_check("gw_job_history", "gw_job_history_activity", f"activity IN ({known})")


def _outbound_schedules(changes: Changes) -> None:
    moment = "DOUBLE PRECISION" if changes.postgresql else "DOUBLE"
    changes.db.run(
        f"""CREATE TABLE gw_outbound_schedule (
        job_id {"BIGINT" if changes.postgresql else "INTEGER"} NOT NULL,
        protocol INTEGER NOT NULL,
        latency {moment} NOT NULL,
        start_time {moment} NOT NULL,
        duration {moment},
        next_time TEXT,
        exception_queue TEXT NOT NULL,
        window_begin {moment} NOT NULL,
        PRIMARY KEY (job_id),
        CONSTRAINT gw_outbound_schedule_protocol CHECK (protocol BETWEEN 128 AND 255),
        CONSTRAINT gw_outbound_schedule_latency CHECK (latency >= 0),
        CONSTRAINT gw_outbound_schedule_duration CHECK (duration IS NULL OR duration > 0),
        FOREIGN KEY(job_id) REFERENCES gw_job (id) ON DELETE CASCADE
    )"""
    )


def _nodes(changes: Changes) -> None:
    changes.add_column("gw_job_state", "nodes TEXT")


STEPS = (
    Step(2, "the database refuses states and flags that have no meaning", _checks),
    Step(3, "jobs have two links, or none", _pairs),
    Step(4, "job option unrouted takes the place of discard_unrouted", _unrouted),
    Step(5, "the hub keeps since when an agent is stopped and a job does not work", _since),
    Step(6, "jobs count what no subscriber of their destination wants; MGW_JOBS has LEFT_OUT_TOTAL", _left_out),
    Step(7, "an agent may spread its jobs over worker processes; each has a fencing token", _workers),
    Step(8, "MGW_JOBS takes its BACKLOG from the numbers that the hub keeps", _views),
    Step(9, "mgw tap shows the messages of a job while it carries them", _taps),
    Step(10, "links keep the header names they had (header_names: documented)", _header_names),
    Step(11, "jobs may park the messages of one key; MGW_PARKED shows them", _parked),
    Step(12, "the web face has users, tokens and sessions; MGW_USERS shows them", _users),
    Step(13, "the exception desk keeps which messages of streams and Kafka topics are done", _desk),
    Step(14, "the hub keeps what each job did, interval by interval; MGW_JOB_HISTORY shows it", _history),
    Step(15, "agents tell which keys they read secrets with; MGW_CERTIFICATES shows when certificates end", _security),
    Step(16, "MGW_AUDIT shows every change of administration, and the generation that it belongs to", _views),
    Step(17, "subscribers and schedules of the old style; MGW_SUBSCRIBERS, MGW_SCHEDULES", _schedules),
    Step(18, "jobs tell that a limit blocks them, or that they drain; MGW_JOBS has ACTIVITY_REASON", _progress),
    Step(19, "schedules of the older gateway (DBMS_HQADM); DBA_OUTBOUND_SCHEDULES shows them", _outbound_schedules),
    Step(20, "jobs tell to which nodes of their links they are connected; MGW_JOBS has NODES", _nodes),
    Step(21, "MGW_RABBITMQ_LINKS and MGW_MQTT_LINKS have HOSTS, the nodes that a link names", _views),
)
