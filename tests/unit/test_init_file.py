"""The initialization file of an agent: where it is looked for, what it may say, and how it is refused."""

from __future__ import annotations

from pathlib import Path

import pytest

from mgw.gateway.definitions.agent_options import AgentSettings
from mgw.gateway.definitions.init_file import FOLDER_VARIABLE, find, read
from mgw.gateway.runtime.endings import ending_of
from mgw.transforms.errors import GatewayError, HubUnavailable

COMPLETE = """\
# comment
   # one that does not begin at the margin
log_directory = /var/log/mgw
  log_level=2
set  RABBIT_HOST = rabbit.example.org
SetEnv CLASSPATH=/opt/mq/lib:/opt/jms
setJavaProp oracle.mgw.batch_size=40
setJavaProp Oracle.mgw.polling_interval=250
setJavaProp oracle.mgw.tibrv.encoding=ISO8859_1
heap = 64
"""


def test_each_entity_means_what_the_documentation_says(tmp_path: Path) -> None:
    path = tmp_path / "own.ora"
    path.write_text(COMPLETE)
    said = read("night", str(path), {})
    assert (said.path, said.log_directory, said.log_level) == (path, Path("/var/log/mgw"), 2)
    assert said.variables == {"RABBIT_HOST": "rabbit.example.org"}
    assert said.properties == {"oracle.mgw.batch_size": "40", "oracle.mgw.polling_interval": "250"}
    assert [line.partition(" (line ")[0] for line in said.without_effect] == [
        "CLASSPATH",
        "oracle.mgw.tibrv.encoding",
        "heap",
    ]
    settings = AgentSettings.read({"ORACLE.mgw.batch_size": "7"}, said.properties)
    assert (settings.batch_size, settings.poll_seconds) == (7, 0.25), "an option in the hub comes first"


def test_the_file_is_that_of_the_agent_or_the_one_for_all(tmp_path: Path) -> None:
    environ = {FOLDER_VARIABLE: str(tmp_path)}
    assert find("night", None, environ) is None
    assert read("night", None, environ).path is None
    (tmp_path / "mgw.ora").write_text("")
    assert find("night", None, environ) == tmp_path / "mgw.ora"
    (tmp_path / "mgw_NIGHT.ora").write_text("")
    assert find("night", None, environ) == tmp_path / "mgw_NIGHT.ora"
    assert find("Default_Agent", None, environ) == tmp_path / "mgw.ora"
    with pytest.raises(GatewayError, match="does not exist") as missing:
        find("night", str(tmp_path / "nowhere.ora"), environ)
    assert missing.value.number == -19


@pytest.mark.parametrize(
    ("text", "cause", "cure"),
    [
        (b"log_level = 5\n", "line 1: log_level cannot be '5'", "give one in that range"),
        (b"\nlog_directory\n", "line 2: it is no entity", "write a line as name = value"),
        (b"log_directory =\n", "log_directory has no value", "name a folder"),
        (b"setJavaProp oracle.mgw.batch_size=many\n", "line 1: .*batch_size", "give a whole number from 1 to 10000"),
        (b"setJavaProp oracle.mgw.batch_size=99999\n", "line 1: .*batch_size", "give a whole number from 1 to 10000"),
        (b"setJavaProp oracle.mgw.polling_interval=50\n", "line 1: .*polling_interval", "number from 100 to 60000"),
        (b"setJavaProp ledger_retention=-1\n", "line 1: .*ledger_retention", "604800 for a week"),
        (b"\xff\xfe\n", "not text in UTF-8", "make it a text file"),
    ],
)
def test_a_file_that_cannot_be_used_is_result_2_and_the_agent_stays_stopped(
    tmp_path: Path, text: bytes, cause: str, cure: str
) -> None:
    path = tmp_path / "mgw.ora"
    path.write_bytes(text)
    with pytest.raises(GatewayError, match=cause) as refused:
        read("night", None, {FOLDER_VARIABLE: str(tmp_path)})
    assert refused.value.number == -2
    assert cure in refused.value.cure
    ending = ending_of(refused.value)
    assert (ending.status, ending.restarts) == ("NOT_STARTED", False)
    assert str(ending.error).startswith("ORA-32830: result code -2 returned by the agent: initialization file")


def test_what_may_pass_keeps_the_scheduler_job() -> None:
    away, crash = ending_of(HubUnavailable("the hub is away")), ending_of(KeyError("x"))
    assert (away.status, crash.status) == ("START_SCHEDULED", "START_SCHEDULED")
    assert str(away.error).startswith("ORA-32830: result code -103 ")
    assert str(crash.error).startswith("ORA-28576: ")
    assert ending_of(GatewayError("no", number=-3)).error == "ORA-32830: result code -3 returned by the agent: no"
    assert str(ending_of(GatewayError("no", number=703)).error).startswith("ORA-32830: result code -101 ")
