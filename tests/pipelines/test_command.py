"""``mgw pipeline`` before Spark starts: what a configuration may say, and what is refused, with the exit code."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import pytest

from mgw.gateway.cli.main import execute
from mgw.pipelines.config import PipelineInvalid, SparkModel, read_pipeline
from mgw.pipelines.registry import BUILT_IN
from mgw.pipelines.session import needed_packages

_JOB = '''
"""A job of a user's own."""

from mgw.pipelines.registry import JobSettings

class Settings(JobSettings):
    rows: int = 5
    password: str = ""

def run(spark, settings, context):
    return 1
'''


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with a job of a user's own, which can be imported; it is the current one."""
    (tmp_path / "company").mkdir()
    (tmp_path / "company" / "counting.py").write_text(_JOB)
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("MGW_HUB", raising=False)
    monkeypatch.delitem(sys.modules, "company", raising=False)
    return tmp_path


def _write(place: Path, text: str) -> Path:
    path = place / "mine.yaml"
    path.write_text(text)
    return path


def test_a_pipeline_is_read_with_its_variables(place: Path) -> None:
    (place / "secret").write_text("s3cret\n")
    path = _write(
        place,
        "version: 1\njob: company.counting\nhub: ${MGW_HUB}\n"
        "spark: {master: 'local[1]', conf: {spark.x: 4, spark.y: true}}\n"
        "settings: {rows: 7, password: '${WORD}'}\n",
    )
    pipeline = read_pipeline("mine", path, {"MGW_HUB": "sqlite:///h.db", "WORD_FILE": str(place / "secret")})
    assert pipeline.settings.model_dump() == {"rows": 7, "password": "s3cret"}
    assert pipeline.file.hub == "sqlite:///h.db"
    assert pipeline.file.spark.conf == {"spark.x": "4", "spark.y": "true"}


@pytest.mark.parametrize(
    ("text", "line", "said"),
    [
        ("version: 1\njob: company.counting\nsetings: {}\n", 3, "did you mean settings?"),
        ("version: 1\njob: company.counting\nsettings:\n  rows: 1\n  rowz: 2\n", 5, "did you mean rows?"),
        ("version: 1\njob: company.counting\nsettings:\n  rows: many\n", 4, "settings.rows: Input should be"),
        ("version: 1\njob: company.counting\nspark:\n  log_level: LOUD\n", 4, "spark.log_level: Input should be"),
        ("version: 2\njob: company.counting\n", 1, "version"),
        ("job: company.counting\n", 0, "version is missing"),
        ("version: 1\njob: company.nothing\n", 2, "cannot be found"),
        ("version: 1\njob: arhive\n", 2, "did you mean 'archive'?"),
        ("version: 1\njob: xml.dom\n", 2, "is not a job"),
        ("version: 1\nhub: ${NOT_SET}\n", 2, "variable NOT_SET is not set"),
        ("version: 1\n job: [\n", 2, "bad-yaml"),
    ],
)
def test_a_bad_configuration_is_refused_with_its_line(place: Path, text: str, line: int, said: str) -> None:
    with pytest.raises(PipelineInvalid) as refused:
        read_pipeline("mine", _write(place, text), {})
    (finding,) = refused.value.findings
    assert finding.mark.line == line
    assert said in str(finding)


@pytest.mark.parametrize(
    ("text", "arguments", "code", "said"),
    [
        ("version: 1\njob: company.counting\n", ["--dry-run"], 0, ""),
        ("version: 1\njob: company.counting\nx: 1\n", [], 78, "mine.yaml:3:1: error unknown-key: x is unknown"),
        ("version: 1\njob: company.counting\nspark: {master: 'yarn'}\n", [], 78, "cannot use a SQLite hub on yarn"),
        (
            "version: 1\njob: company.counting\nhub: postgresql://h/x\nspark: {master: 'spark://127.0.0.1:1'}\n",
            [],
            1,
            "the Spark master spark://127.0.0.1:1 cannot be reached",
        ),
        ("version: 1\njob: company.counting\nspark: {jars: [none.jar]}\n", [], 1, "jar none.jar does not exist"),
        ("version: 1\njob: company.counting\n", ["--hurry"], 2, "No such option"),
    ],
)
def test_exit_codes(  # noqa: PLR0917  a parameter per column
    place: Path,
    capfd: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    text: str,
    arguments: list[str],
    code: int,
    said: str,
) -> None:
    monkeypatch.setattr("mgw.pipelines.session.SUBMITTED", "NO_SUCH_VARIABLE")  # another test's Spark may run here
    path = _write(place, text)
    assert execute(["pipeline", "run", "mine", "--config", str(path), *arguments]) == code
    out = capfd.readouterr()
    assert said in out.err
    assert "Traceback" not in out.err


def test_a_dry_run_tells_what_would_be_done(place: Path, capfd: pytest.CaptureFixture[str]) -> None:
    path = _write(place, "version: 1\njob: company.counting\nsettings: {rows: 3, password: s3cret}\n")
    hub = "postgresql://gw:pw@db/hub"
    assert execute(["pipeline", "run", "mine", "--dry-run", "-c", str(path), "--hub", hub]) == 0
    out = capfd.readouterr().out
    assert "company.counting" in out
    assert "rows: 3" in out
    assert str(place / "mgw-pipelines" / "mine") in out
    assert "pw" not in out.replace("mgw-pipelines", "")
    assert "s3cret" not in out


def test_no_java_is_said_in_a_line(
    place: Path, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("mgw.pipelines.session.SUBMITTED", "NO_SUCH_VARIABLE")
    monkeypatch.setenv("JAVA_HOME", str(place))
    path = _write(place, "version: 1\njob: company.counting\n")
    assert execute(["pipeline", "run", "mine", "-c", str(path)]) == 1
    assert "has no bin/java" in capfd.readouterr().err


def test_without_the_extra_one_line_says_how_to_get_it(place: Path) -> None:
    path = _write(place, "version: 1\njob: company.counting\n")
    program = (
        "import sys; sys.modules['pyspark'] = None; from mgw.gateway.cli.main import execute; "
        f"sys.exit(execute(['pipeline', 'run', 'mine', '-c', {str(path)!r}]))"
    )
    ended = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert ended.returncode == 1
    assert ended.stderr == (
        "mgw: error: pipelines need Spark, which is not installed; cause: there is no module pyspark; "
        "cure: pip install 'messaging-gateway[spark]'\n"
    )


def test_the_gateway_starts_without_what_others_add() -> None:
    program = (
        "import sys; from mgw.gateway.cli.main import execute; code = execute(['--version']); "
        "sys.exit(code or any(name.split('.')[0] in {'pipelines', 'pyspark'} for name in sys.modules))"
    )
    assert subprocess.run([sys.executable, "-c", program], check=False).returncode == 0


def test_listing_the_jobs_imports_no_spark() -> None:
    program = (
        "import sys; from mgw.gateway.cli.main import execute; code = execute(['pipeline', 'list']); "
        "sys.exit(code or any(name.split('.')[0] in {'pyarrow', 'pyspark'} for name in sys.modules))"
    )
    ended = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert ended.returncode == 0
    assert [line.split()[0] for line in ended.stdout.splitlines()[1:]] == list(BUILT_IN)


@pytest.mark.parametrize(
    ("spark", "wanted"),
    [
        ({}, ["org.apache.spark:spark-sql-kafka-0-10_2.13:4.2.0"]),
        ({"packages": ["a:b:1"]}, ["a:b:1", "org.apache.spark:spark-sql-kafka-0-10_2.13:4.2.0"]),
        ({"packages": ["x:spark-sql-kafka-0-10_2.13:9"]}, ["x:spark-sql-kafka-0-10_2.13:9"]),
        ({"jars": ["jars"]}, []),
    ],
)
def test_connectors_are_fetched_unless_their_jar_is_given(
    place: Path, spark: Mapping[str, list[str]], wanted: list[str]
) -> None:
    (place / "jars").mkdir()
    (place / "jars" / "spark-sql-kafka-0-10_2.13-4.3.0.jar").touch()
    assert needed_packages(SparkModel.model_validate(spark), ["kafka"], "4.2.0") == wanted
    instead = needed_packages(SparkModel.model_validate(spark), ["kafka"], "4.3.0")
    assert instead == wanted  # there is none of 4.3.0


@pytest.mark.parametrize(
    "path", sorted(Path(__file__).resolve().parents[2].glob("conf/pipelines/*.yaml")), ids=lambda path: path.stem
)
def test_the_examples_can_be_read(path: Path) -> None:
    pipeline = read_pipeline(path.stem, path, {})
    assert pipeline.job.module.__doc__
