"""The Spark session of a pipeline, made from its configuration."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Final

from mgw.pipelines.config import SparkModel
from mgw.pipelines.errors import PipelineFailed
from mgw.pipelines.reach import check_reachable
from mgw.pipelines.workers import SUBMITTED, is_local, prepare_workers

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

__all__ = ["CONNECTORS", "chosen_master", "make_session", "needed_packages"]

#: What a job may need besides Spark: name -> (beginning of its jar's file name, Maven coordinates for the Scala
#: and Spark that run). ``{spark}`` is the version of pyspark. Without
#: coordinates the configuration has to name a package, because versions do not follow Spark's.
CONNECTORS: Final = {
    "kafka": ("spark-sql-kafka-0-10_", "org.apache.spark:spark-sql-kafka-0-10_2.13:{spark}"),
    "delta": ("delta-spark_", ""),
}
#: Versions of Spark whose connectors are not in Maven Central, and the version that the tests run with them.
_INSTEAD: Final = {"4.3.0": "4.2.0"}
#: What connectors ask for and Spark has itself: 50 MB that need not be fetched, and cannot be where the local Maven
#: repository has their poms alone.
_IN_SPARK: Final = (
    "at.yawk.lz4:lz4-java",
    "com.google.code.findbugs:jsr305",
    "org.apache.hadoop:hadoop-client-api",
    "org.apache.hadoop:hadoop-client-runtime",
    "org.scala-lang:scala-library",
    "org.scala-lang.modules:scala-parallel-collections_2.13",
    "org.slf4j:slf4j-api",
    "org.xerial.snappy:snappy-java",
)
_DELTA: Final = {
    "spark.sql.extensions": "io.delta.sql.DeltaSparkSessionExtension",
    "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.delta.catalog.DeltaCatalog",
}
_PACKAGE: Final = Path(__file__).resolve().parent


def chosen_master(model: SparkModel) -> str:
    """The master that counts: the one spark-submit was given, otherwise the configuration's.

    Raises:
        ModuleNotFoundError: pyspark is not installed.
    """
    if SUBMITTED not in os.environ:
        return model.master
    from pyspark import SparkConf, SparkContext

    SparkContext._ensure_initialized()
    return SparkConf().get("spark.master") or model.master


def jar_files(places: Sequence[str]) -> list[str]:
    """The jars of a configuration: files as they are, folders as all jars in them.

    Raises:
        PipelineFailed: one is not there.
    """
    found: list[str] = []
    for place in places:
        path = Path(place)
        if "://" in place:
            found.append(place)
        elif path.is_dir():
            found += sorted(str(jar) for jar in path.glob("*.jar"))
        elif path.is_file():
            found.append(place)
        else:
            raise PipelineFailed(f"jar {place} does not exist", cure="correct spark.jars in the configuration")
    return found


def needed_packages(model: SparkModel, needs: Sequence[str], version: str) -> list[str]:
    """Maven coordinates that Spark has to fetch: those configured, and connectors that no configured jar is.

    Raises:
        PipelineFailed: a connector is not configured, and there is no saying which one fits.
    """
    names = [Path(jar).name for jar in jar_files(model.jars)]
    wanted = list(model.packages)
    for need in needs:
        beginning, coordinates = CONNECTORS[need]
        given = any(name.startswith(beginning) for name in names)
        given = given or any(beginning in package for package in model.packages)
        if not given and not coordinates:
            raise PipelineFailed(
                f"the pipeline needs {beginning.rstrip('_-')}, which is not configured",
                cause="its versions do not follow those of Spark, so none is chosen for you",
                cure=f"name the one made for Spark {version} in spark.packages, or its jar in spark.jars",
            )
        if not given:
            wanted.append(coordinates.format(spark=_INSTEAD.get(version, version)))
    return wanted


def make_session(name: str, model: SparkModel, needs: Sequence[str] = ()) -> SparkSession:
    """Start Spark, or take the session that spark-submit has prepared.

    Raises:
        PipelineFailed: no Java, an unreachable master, a jar that is not there.
        ModuleNotFoundError: pyspark is not installed.
    """
    import pyspark
    from pyspark.sql import SparkSession

    submitted = SUBMITTED in os.environ
    if not submitted:
        _check_java()
        _check_master(model.master)
        prepare_workers(model.conf)
    builder = SparkSession.builder.appName(f"mgw {name}")
    for option, value in _options(model, needs, pyspark.__version__, submitted=submitted).items():
        builder = builder.config(option, value)
    try:
        session = builder.getOrCreate()
    except Exception as error:
        raise _not_started(model.master, error) from error
    session.sparkContext.setLogLevel(model.log_level)
    return session


def _options(model: SparkModel, needs: Sequence[str], version: str, *, submitted: bool) -> dict[str, str]:
    options = {
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.sql.session.timeZone": "UTC",
        "spark.sql.execution.arrow.pyspark.enabled": "true",
        "spark.sql.python.filterPushdown.enabled": "true",
    }
    if "delta" in needs:
        options |= _DELTA
    if submitted:  # the session's process is there already: only settings of SQL still count
        return options | model.conf
    options |= {"spark.master": model.master, "spark.submit.deployMode": "client"}
    if is_local(model.master):
        options |= {
            "spark.driver.bindAddress": "127.0.0.1",
            "spark.driver.host": "127.0.0.1",
            "spark.driver.memory": "1g",
            "spark.sql.shuffle.partitions": str(min(8, os.cpu_count() or 2)),
            "spark.sql.warehouse.dir": str(Path(tempfile.gettempdir()) / f"mgw-warehouse-{os.getpid()}"),
        }
    jars, packages = jar_files(model.jars), needed_packages(model, needs, version)
    if jars:
        options["spark.jars"] = ",".join(jars)
    if packages:
        options["spark.jars.packages"] = ",".join(packages)
        options["spark.jars.excludes"] = ",".join(_IN_SPARK)
    logging = f"-Dlog4j2.configurationFile={(_PACKAGE / 'log4j2.properties').as_uri()}"
    own = model.conf.get("spark.driver.extraJavaOptions", "")
    return options | model.conf | {"spark.driver.extraJavaOptions": f"{logging} {own}".strip()}


def _check_java() -> None:
    home = os.environ.get("JAVA_HOME")
    cure = "install Java 17 or 21 (Debian: apt install openjdk-17-jre-headless), or set JAVA_HOME"
    if home:
        if not os.access(Path(home) / "bin/java", os.X_OK):
            raise PipelineFailed("Spark cannot start", cause=f"JAVA_HOME is {home}, which has no bin/java", cure=cure)
    elif shutil.which("java") is None:
        raise PipelineFailed("Spark cannot start", cause="Java is not installed", cure=cure)


def _check_master(master: str) -> None:
    """Spark itself takes a minute to give up on a master that is not there."""
    if master.startswith("spark://"):
        check_reachable(
            f"the Spark master {master}",
            master.removeprefix("spark://"),
            "correct spark.master in the configuration, or start the master",
        )


def _not_started(master: str, error: Exception) -> PipelineFailed:
    text = str(error)
    what = f"Spark did not start on {master}"
    if "JAVA_GATEWAY_EXITED" in text:
        return PipelineFailed(
            what,
            cause="its Java process ended at once",
            cure="read its output above: Java older than 17, packages that cannot be fetched, a wrong setting",
        )
    first = next((line for line in text.splitlines() if "Exception" in line or "rror" in line), text)
    return PipelineFailed(
        what, cause=" ".join(first.split())[:500], cure="correct the section spark of the configuration"
    )
