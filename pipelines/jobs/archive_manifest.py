"""What belongs to an archive: a manifest per source says which files, so that what readers see changes all at once.

::

    PATH/source=orders/day=2026-11-22/12-0-5f3a.parquet     rows; the columns source and day are in the path
    PATH/_manifest/orders/000000000012.json                 the highest number counts
    PATH/_staging/...                                       what is being written

A manifest names all live files of its source, the schema of all of them together, and the last batch of the query that
writes it. A batch is written to ``_staging``, moved into place, and is there for readers when the next manifest is.
A crash before that leaves files that no manifest names; the next run removes them and writes the batch again. A crash
after it, before Spark notes the batch as done, lets Spark repeat the batch, which is known and skipped.
"""

from __future__ import annotations

import json
import posixpath
import time
import uuid
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Final

from mgw.pipelines.errors import PipelineFailed

if TYPE_CHECKING:
    from pyspark.sql import DataFrame
    from pyspark.sql.types import DataType, StructType

    from mgw.pipelines.files import Folder

__all__ = ["MANIFESTS", "Manifest", "commit", "latest", "merged", "remove_leftovers", "sources", "write_files"]

MANIFESTS: Final = "_manifest"
_STAGING: Final = "_staging"
_KEPT: Final = 10  # manifests that are not removed; a reader that began with one of them can still be understood


@dataclass(frozen=True, slots=True)
class Manifest:
    """State of one source of an archive.

    Attributes:
        source: its name.
        number: of this manifest, from 1; 0: there is none yet.
        query: id of the streaming query that writes it; empty for what is not a stream.
        batch: last batch of that query that is in it; -1: none.
        schema: of all files together, as Spark's JSON; empty: none was written yet.
        files: relative path -> bytes, of all that readers are to read.
        replaced: relative path -> epoch seconds since which nobody is to read it; removed later.
    """

    source: str
    number: int = 0
    query: str = ""
    batch: int = -1
    schema: str = ""
    files: dict[str, int] = field(default_factory=dict)
    replaced: dict[str, float] = field(default_factory=dict)


def sources(folder: Folder) -> list[str]:
    """Names of the sources that have a manifest."""
    return [posixpath.basename(each.path) for each in folder.entries(MANIFESTS) if each.is_folder]


def latest(folder: Folder, source: str) -> Manifest:
    """The manifest that counts; an empty one, number 0, for a source that was never written."""
    names = [each.path for each in folder.entries(f"{MANIFESTS}/{source}") if each.path.endswith(".json")]
    if not names:
        return Manifest(source)
    try:
        return Manifest(**json.loads(folder.read(names[-1])))
    except (ValueError, TypeError) as error:
        raise PipelineFailed(
            f"manifest {folder.uri(names[-1])} cannot be read",
            cause=f"{type(error).__name__}: {error}",
            cure="restore it; the one before it lacks the last batch",
        ) from error


def commit(folder: Folder, manifest: Manifest) -> Manifest:
    """Make it count, and forget old ones; the manifest with its number.

    Raises:
        PipelineFailed: somebody else writes the same source.
    """
    made = replace(manifest, number=manifest.number + 1)
    text = json.dumps({name: getattr(made, name) for name in Manifest.__slots__})
    place = f"{MANIFESTS}/{made.source}"
    try:
        folder.write(f"{place}/{made.number:012d}.json", text)
    except FileExistsError as error:
        raise PipelineFailed(
            f"source {made.source} of the archive {folder.root} was written by another program",
            cause=f"manifest {made.number} already exists",
            cure="let only one pipeline write a source",
        ) from error
    for each in folder.entries(place)[:-_KEPT]:
        folder.delete(each.path)
    return made


def write_files(folder: Folder, frame: DataFrame, source: str, name: str) -> dict[str, int]:
    """Write rows with a column ``day`` as files of a source; relative path -> bytes. No manifest names them yet."""
    attempt = uuid.uuid4().hex[:8]
    staging = f"{_STAGING}/{source}-{attempt}"
    frame.write.mode("error").partitionBy("day").parquet(folder.uri(staging))
    found = {}
    for number, each in enumerate(folder.walk(staging)):
        day = posixpath.basename(posixpath.dirname(each.path))
        target = f"source={source}/{day}/{name}-{number}-{attempt}.parquet"
        folder.move(each.path, target)
        found[target] = each.size
    folder.delete(staging)
    return found


def remove_leftovers(folder: Folder, manifest: Manifest, keep: float) -> Manifest:
    """Remove what a crash left behind, and what was replaced more than ``keep`` seconds ago; the manifest after that.

    Only for the one who writes the source, and not while a batch is being written.
    """
    for each in folder.entries(_STAGING):
        if posixpath.basename(each.path).rpartition("-")[0] == manifest.source:
            folder.delete(each.path)
    due = {path for path, moment in manifest.replaced.items() if time.time() - moment >= keep}
    known = manifest.files.keys() | manifest.replaced.keys()
    for each in folder.walk(f"source={manifest.source}"):
        if each.path not in known:
            folder.delete(each.path)
    for path in due:
        folder.delete(path)
    if not due:
        return manifest
    waiting = {path: moment for path, moment in manifest.replaced.items() if path not in due}
    return commit(folder, replace(manifest, replaced=waiting))


def merged(known: str, new: StructType, source: str) -> StructType:
    """The schema that holds both: columns that are new are added, none is taken away.

    Raises:
        PipelineFailed: a column has another type than before.
    """
    from pyspark.sql.types import StructType

    if not known:
        return new
    return _both(StructType.fromJson(json.loads(known)), new, source, "")


def _both(old: StructType, new: StructType, source: str, above: str) -> StructType:
    from pyspark.sql.types import StructField, StructType

    fields = {each.name: each.dataType for each in old.fields}
    for each in new.fields:
        before = fields.get(each.name)
        name = f"{above}{each.name}"
        fields[each.name] = each.dataType if before is None else _one(before, each.dataType, source, name)
    return StructType([StructField(name, kind) for name, kind in fields.items()])


def _one(old: DataType, new: DataType, source: str, name: str) -> DataType:
    from pyspark.sql.types import ArrayType, StructType

    if isinstance(old, StructType) and isinstance(new, StructType):
        return _both(old, new, source, f"{name}.")
    if isinstance(old, ArrayType) and isinstance(new, ArrayType):
        return ArrayType(_one(old.elementType, new.elementType, source, f"{name}[]"))
    if old.simpleString() != new.simpleString():
        raise PipelineFailed(
            f"column {name} of source {source} cannot become {new.simpleString()}",
            cause=f"the archive has it as {old.simpleString()}, and its files cannot be read as both",
            cure="give the new column another name, or archive into another folder",
        )
    return old


def union(folder: Folder, manifests: Sequence[Manifest]) -> tuple[Any, list[str]]:
    """Schema and files of several sources together.

    Raises:
        PipelineFailed: the same column has different types.
    """
    schema = ""
    files: list[str] = []
    for each in manifests:
        if each.schema:
            from pyspark.sql.types import StructType

            schema = merged(schema, StructType.fromJson(json.loads(each.schema)), each.source).json()
        files += [folder.uri(path) for path in each.files]
    return schema, files
