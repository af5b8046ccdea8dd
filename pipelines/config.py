"""The configuration of a pipeline: a YAML file, read as the gateway reads its own (variables, secrets from files).

::

    version: 1
    job: archive                  # a built-in job, or the module of your own; default: the pipeline's name
    hub: ${MGW_HUB}               # --hub and the variable MGW_HUB win
    checkpoints: /var/lib/mgw     # what pipelines remember between two runs, a folder for each
    spark: {master: local[*], conf: {spark.driver.memory: 2g}}
    settings: {...}               # of the job
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Literal, TypeVar

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, ValidationError

from mgw.gateway.config.findings import Finding, errors, nearest
from mgw.gateway.config.load import Source, load
from mgw.pipelines.registry import Job, find_job
from mgw.transforms.errors import ConfigInvalid

__all__ = ["Pipeline", "PipelineFile", "PipelineInvalid", "SparkModel", "default_file", "read_pipeline"]

Model = TypeVar("Model", bound=BaseModel)


_SHIPPED = Path(__file__).resolve().parent / "conf"


class PipelineInvalid(ConfigInvalid):
    """The configuration of a pipeline cannot be used; ``findings`` says what is wrong and where."""

    def __init__(self, findings: Sequence[Finding]) -> None:
        super().__init__("; ".join(str(finding) for finding in findings))
        self.findings = tuple(findings)


def _conf_text(value: object) -> object:
    """Spark takes text; YAML's true and 4 mean ``true`` and ``4``."""
    if isinstance(value, bool):
        return "true" if value else "false"
    return str(value) if isinstance(value, int | float) else value


class _Strict(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class SparkModel(_Strict):
    """How the Spark session is made; spark-submit's own options win over ``master`` and over packages."""

    master: str = Field(default="local[*]", min_length=1, description="Where Spark runs.")
    conf: dict[str, Annotated[str, BeforeValidator(_conf_text)]] = Field(
        default_factory=dict, description="Settings of Spark; they take precedence over the defaults."
    )
    packages: list[str] = Field(
        default_factory=list, description="Maven coordinates in addition to those of the connectors that the job needs."
    )
    jars: list[str] = Field(
        default_factory=list,
        description="Jar files, or folders of them; a connector that is among them is not fetched from Maven.",
    )
    log_level: Literal["OFF", "FATAL", "ERROR", "WARN", "INFO", "DEBUG"] = Field(
        default="FATAL",
        description="What Spark itself logs, to standard error; errors that end a pipeline are always printed.",
    )


class PipelineFile(_Strict):
    """The file."""

    version: Literal[1]
    job: str | None = Field(default=None, min_length=1, description="Default: the name of the pipeline.")
    hub: str | None = Field(default=None, description="Hub database, an SQLAlchemy URL.")
    checkpoints: str = Field(
        default="mgw-pipelines",
        min_length=1,
        description="Folder (path or URI that all executors can reach) with a folder for each pipeline.",
    )
    spark: SparkModel = Field(default_factory=SparkModel)
    settings: dict[str, Any] = Field(default_factory=dict, description="Settings of the job.")


@dataclass(frozen=True, slots=True)
class Pipeline:
    """A pipeline, checked: the file, its job and the job's settings."""

    name: str
    file: PipelineFile
    job: Job
    settings: BaseModel


def default_file(name: str) -> Path:
    """The configuration of a pipeline unless one is given: ``conf/pipelines/NAME.yaml``, or what came with mgw."""
    own, shipped = Path("conf/pipelines") / f"{name}.yaml", _SHIPPED / f"{name}.yaml"
    return shipped if shipped.is_file() and not own.is_file() else own


def read_pipeline(name: str, path: str | Path, environ: Mapping[str, str]) -> Pipeline:
    """The pipeline of a configuration file, in which ``${CONFIG_FOLDER}`` is the folder it is in.

    Raises:
        PipelineInvalid: the file cannot be used.
        ModuleNotFoundError: the job's module needs a package that is not installed.
    """
    source = load([path], {"CONFIG_FOLDER": str(Path(path).absolute().parent), **environ})
    found = _checked(PipelineFile, source.tree, source, ())
    if found is None:
        raise _refusal(source)
    try:
        job = find_job(found.job or name)
    except ConfigInvalid as problem:
        if found.job is None:
            raise
        cause = f" ({problem.cause})" if problem.cause else ""
        source.error("unknown-job", ("job",), f"{problem.what}{cause}", problem.cure)
        raise _refusal(source) from problem
    settings = _checked(job.settings, found.settings, source, ("settings",))
    if settings is None:
        raise _refusal(source)
    return Pipeline(name, found, job, settings)


def _checked(model: type[Model], tree: Any, source: Source, above: tuple[str | int, ...]) -> Model | None:
    """The model of a part of the file; None when something is wrong, which ``source`` then knows."""
    result: Model | None = None
    if not errors(source.findings):
        try:
            result = model.model_validate(tree)
        except ValidationError as error:
            for each in error.errors(include_url=False):
                _add(source, above, model, each)
    return result


def _add(source: Source, above: tuple[str | int, ...], model: type[BaseModel], error: Any) -> None:
    path = (*above, *error["loc"])
    place = path
    while place and place not in source.marks:  # names of union members and validators are no keys of the file
        place = place[:-1]
    shown = ".".join(str(part) for part in path)
    if error["type"] == "extra_forbidden":
        guess = nearest(str(path[-1]), _keys(model, error["loc"][:-1]))
        source.error("unknown-key", place, f"{shown} is unknown", f"did you mean {guess}?" if guess else "remove it")
    elif error["type"] == "missing":
        source.error("missing-key", place, f"{shown} is missing", "give it")
    else:
        message = str(error["msg"]).removeprefix("Value error, ")
        source.error("bad-value", place, f"{shown}: {message}" if shown else message)


def _keys(model: type[BaseModel], path: Sequence[str | int]) -> Sequence[str]:
    """Keys that are allowed at a place of a model, as far as plain nesting tells."""
    here: Any = model
    for part in path:
        field = here.model_fields.get(str(part)) if isinstance(here, type) and issubclass(here, BaseModel) else None
        if field is None:
            return ()
        here = field.annotation
    return tuple(here.model_fields) if isinstance(here, type) and issubclass(here, BaseModel) else ()


def _refusal(source: Source) -> PipelineInvalid:
    return PipelineInvalid(errors(source.findings))
