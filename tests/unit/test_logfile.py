"""The log file has the documented name and record format."""

from __future__ import annotations

import json
import logging
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from mgw.gateway.observe.events import AgentRunning, JobRetrying, Journalist
from mgw.gateway.observe.log_file import AgentLogFormatter, JsonFormatter, configure, end, log_file_name
from mgw.gateway.observe.relayed import RelayHandler, say_again
from mgw.transforms.errors import GatewayError, LinkUnavailable


def _record(error: BaseException | None = None, **extra: object) -> logging.LogRecord:
    info = (type(error), error, None) if error else None
    record = logging.LogRecord("mgw.engine", logging.WARNING, __file__, 1, "job x failed", (), info)  # type: ignore[arg-type]
    record.__dict__.update(extra)
    return record


def test_name_of_the_default_agents_file_has_no_agent_in_it() -> None:
    assert log_file_name("DEFAULT_AGENT", host="h", pid=7, now=0) == "oramgw-h-19700101000000-7.log"
    assert log_file_name("PLANT", host="h", pid=7, now=0) == "oramgw-PLANT-h-19700101000000-7.log"


def test_a_record_starts_with_the_documented_line() -> None:
    head, text = AgentLogFormatter().format(_record(mgw_id=19)).splitlines()
    assert re.fullmatch(r">>\d{4}-\d\d-\d\d \d\d:\d\d:\d\d  MGW  Engine  WARNING  19  \S+", head)
    assert text == "job x failed"


def test_causes_are_chained_and_own_errors_show_no_traceback() -> None:
    try:
        try:
            raise ConnectionRefusedError("port 1")
        except OSError as cause:
            raise LinkUnavailable("link a is away", cause="nobody listens", cure="start the broker") from cause
    except GatewayError as error:
        lines = AgentLogFormatter().format(_record(error)).splitlines()
    assert "[Linked-exception]" in lines
    assert lines[-1] == "ConnectionRefusedError: port 1"
    assert not any("Traceback" in line for line in lines)


def test_json_lines_carry_event_and_object() -> None:
    entry = json.loads(JsonFormatter().format(_record(event="JobRetrying", object="orders_in")))
    assert (entry["event"], entry["object"], entry["level"]) == ("JobRetrying", "orders_in", "WARNING")


def test_each_run_writes_its_own_file_and_stdout(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = configure("PLANT", directory=tmp_path / "log", log_format="json")
    try:
        Journalist().tell(AgentRunning("PLANT", 3))
        assert path is not None
        assert "agent PLANT is up and running, 3 jobs" in path.read_text()
        assert json.loads(capsys.readouterr().out)["message"].startswith("agent PLANT is up")
    finally:
        end()


def test_a_directory_that_cannot_be_made_is_named_with_a_cure(tmp_path: Path) -> None:
    blocked = tmp_path / "file"
    blocked.write_text("")
    try:
        with pytest.raises(GatewayError) as caught:
            configure("A", directory=blocked / "log")
    finally:
        end()
    assert caught.value.number == -3
    assert str(blocked) in str(caught.value)
    assert "cure" in str(caught.value)


def test_an_event_that_cannot_be_stored_is_logged_all_the_same(caplog: pytest.LogCaptureFixture) -> None:
    def broken(*_: str) -> None:
        raise OSError("hub away")

    with caplog.at_level(logging.INFO, logger="mgw.engine"):
        Journalist(broken).tell(JobRetrying("j", 1, 2.0, "boom"))
    assert "failure 1, next attempt in 2.0 s: boom" in caplog.text
    assert "not stored: hub away" in caplog.text


def test_a_log_file_on_a_full_disk_is_reported_once_and_without_traceback(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    try:
        configure("a", directory=tmp_path)
        logger = logging.getLogger("mgw.engine")
        (file,) = (
            each for each in logging.getLogger().handlers if getattr(each, "baseFilename", "").startswith(str(tmp_path))
        )
        assert isinstance(file, logging.FileHandler)
        writable, file.stream = file.stream, open("/dev/full", "w", encoding="utf-8", buffering=1)  # noqa: SIM115
        logger.info("one")
        logger.info("two")
        full, file.stream = file.stream, writable
        with pytest.raises(OSError, match="No space left"):
            full.close()
        logger.info("three")
        shown = capsys.readouterr()
        lines = [line.partition("Engine: ")[2] for line in shown.out.splitlines()]
        assert (lines[0], lines[2:]) == ("one", ["two", "three"])
        assert "cause: No space left on device; cure: free space there" in lines[1]
        assert shown.err == ""
        assert "three" in next(tmp_path.iterdir()).read_text()
    finally:
        end()


def test_warnings_of_the_hub_are_in_the_log_in_its_form(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    try:
        path = configure("A", directory=tmp_path, log_format="json")
        logging.getLogger("mgw.gateway.aq.store.wal").warning("the log grows")
        logging.getLogger("mgw.pipelines.sink").warning("a sink")
        logging.getLogger("library.of_others").warning("password=secret")
        logging.getLogger("library.of_others").info("not wanted")
    finally:
        end()
    shown = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    ours = {"AQN", "mgw.pipelines.sink", "library.of_others"}  # threads of other tests may still have something to say
    assert [(each["component"], each["message"]) for each in shown if each["component"] in ours] == [
        ("AQN", "the log grows"),
        ("mgw.pipelines.sink", "a sink"),
        ("library.of_others", "password=***"),
    ]
    assert path is not None
    assert "  MGW  AQN  WARNING  LOG  " in path.read_text()


def test_a_record_of_a_worker_is_written_by_its_supervisor_with_its_number() -> None:
    said: list[Mapping[str, Any]] = []
    handler, written = RelayHandler(said.append), list[logging.LogRecord]()
    logger, error = logging.getLogger("mgw.engine"), LinkUnavailable("broker away", link="L", operation="connect")
    record = _record(error, mgw_id=19, event="JobActivated", threadName="job-IN")
    handler.handle(record)
    sink = logging.Handler()
    sink.emit = written.append  # type: ignore[method-assign]
    logger.addHandler(sink)
    try:
        say_again(2, json.loads(json.dumps(said[0])))
    finally:
        logger.removeHandler(sink)
    entry = json.loads(JsonFormatter().format(written[0]))
    assert (entry["worker"], entry["id"], entry["event"], entry["level"]) == (2, 19, "JobActivated", "WARNING")
    assert entry["message"] == f"job x failed (LinkUnavailable: {error})"
    assert entry["thread"] == "worker-2/job-IN"
    assert "  WARNING  19  worker-2/job-IN\njob x failed" in AgentLogFormatter().format(written[0])
