"""Files below a folder that all executors reach, wherever it is: Spark's own file systems (local, HDFS, S3, ...).

A file is as durable as its file system makes it; on a local disk that is what Spark's own checkpoints have, too.
"""

from __future__ import annotations

import posixpath
import uuid
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

__all__ = ["File", "Folder"]


@dataclass(frozen=True, slots=True)
class File:
    """A file or folder. ``path`` is relative to the folder asked, ``changed`` in epoch seconds."""

    path: str
    size: int
    changed: float
    is_folder: bool


class Folder:
    """Everything below one folder; all paths are relative to it, with slashes."""

    def __init__(self, spark: SparkSession, root: str) -> None:
        session: Any = spark
        self._jvm = session._jvm  # Hadoop's file systems are in Java only
        self.root = root.rstrip("/")
        self._fs = self._path("").getFileSystem(session._jsc.hadoopConfiguration())

    def uri(self, path: str) -> str:
        """What Spark is given to read or write it."""
        return f"{self.root}/{path}" if path else self.root

    def entries(self, path: str) -> list[File]:
        """What is directly in a folder, sorted by name; nothing where there is no such folder."""
        place = self._path(path)
        if not self._fs.exists(place):
            return []
        found = []
        for status in self._fs.listStatus(place):
            name = posixpath.join(path, status.getPath().getName())
            changed = status.getModificationTime() / 1000
            found.append(File(name, status.getLen(), changed, bool(status.isDirectory())))
        return sorted(found, key=lambda each: each.path)

    def walk(self, path: str) -> Iterator[File]:
        """All files below a folder, however deep; not what begins with a dot or, below it, with an underscore."""
        for each in self.entries(path):
            if posixpath.basename(each.path).startswith((".", "_")):
                continue
            if each.is_folder:
                yield from self.walk(each.path)
            else:
                yield each

    def read(self, path: str) -> str:
        """Text of a small file, UTF-8."""
        stream = self._fs.open(self._path(path))
        try:
            return bytes(stream.readAllBytes()).decode()
        finally:
            stream.close()

    def write(self, path: str, text: str) -> None:
        """Make a small file; it is there as a whole or not at all.

        Raises:
            FileExistsError: somebody made it before.
        """
        target = self._path(path)
        scratch = self._path(f"{posixpath.dirname(path)}/.{uuid.uuid4().hex}")
        stream = self._fs.create(scratch, True)
        try:
            stream.write(text.encode())
        finally:
            stream.close()
        if self._fs.exists(target) or not self._fs.rename(scratch, target):
            self._fs.delete(scratch, False)
            raise FileExistsError(path)

    def move(self, source: str, target: str) -> None:
        """Rename a file into a folder that is made if it is not there.

        Raises:
            OSError: it cannot be moved.
        """
        place = self._path(target)
        self._fs.mkdirs(place.getParent())
        if not self._fs.rename(self._path(source), place):
            raise OSError(f"{self.uri(source)} cannot be moved to {self.uri(target)}")

    def delete(self, path: str) -> None:
        """Remove a file or folder; nothing where there is none."""
        self._fs.delete(self._path(path), True)

    def _path(self, path: str) -> Any:
        return self._jvm.org.apache.hadoop.fs.Path(self.uri(path))
