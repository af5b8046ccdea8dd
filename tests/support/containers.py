"""Containers of Debian's podman and runc, with images of our own making: no image registry is asked.

The base image is a Debian made by debootstrap, with the certificates and the pip settings of this machine, as the base
image of a company would have its own. Images are kept in the cache folder, containers and volumes go with the test.
"""

from __future__ import annotations

import fcntl
import functools
import json
import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from tests.support.waiting import eventually

__all__ = ["BASE", "Container", "ContainersFailed", "base_image", "build", "environment", "missing", "podman", "run"]

ROOT = Path(__file__).resolve().parents[2]
BASE = "localhost/mgw-base:bookworm"
_PACKAGES = "ca-certificates,python3,python3-venv,python3-pip"
_CERTIFICATES = Path("/etc/ssl/certs/ca-certificates.crt")
_BUILD = 600.0

_CONTAINERS = """\
[engine]
runtime = "runc"
cgroup_manager = "cgroupfs"
events_logger = "file"
lock_type = "file"

[containers]
default_ulimits = ["nofile=4096:4096", "nproc=4096:4096"]
"""
_STORAGE = """\
[storage]
driver = "overlay"
graphroot = "{folder}/storage"
runroot = "{folder}/run"
"""


class ContainersFailed(AssertionError):
    """A command of podman failed; the text holds what it printed."""


def _folder() -> Path:
    return Path(os.environ.get("MGW_CACHE") or ROOT / ".cache").resolve() / "containers"


@functools.cache
def environment() -> Mapping[str, str]:
    """The variables with which podman, and what calls it, keeps everything in the cache folder."""
    folder = _folder()
    folder.mkdir(parents=True, exist_ok=True)
    for name, text in (("containers.conf", _CONTAINERS), ("storage.conf", _STORAGE.format(folder=folder))):
        path = folder / name
        if not path.exists() or path.read_text() != text:
            path.write_text(text)
    return os.environ | {
        "CONTAINERS_CONF": str(folder / "containers.conf"),
        "CONTAINERS_STORAGE_CONF": str(folder / "storage.conf"),
    }


@functools.cache
def missing() -> str | None:
    """Why this machine runs no containers; None where it does."""
    if os.geteuid() != 0:
        return "containers are started as root here"
    for command in ("podman", "runc", "debootstrap"):
        if shutil.which(command, path=f"{os.environ['PATH']}:/usr/sbin") is None:
            return f"there is no {command}. Run: tests/support/packages containers"
    return None


def podman(*words: str, deadline: float = 120.0, check: bool = True) -> str:
    """What ``podman WORDS`` prints.

    Raises:
        ContainersFailed: it ended with another code than 0, and ``check`` was asked for.
    """
    done = subprocess.run(
        ["podman", *words], capture_output=True, text=True, env=environment(), timeout=deadline, check=False
    )
    if check and done.returncode != 0:
        raise ContainersFailed(f"podman {' '.join(words)}: exit {done.returncode}\n{done.stdout}{done.stderr}")
    return done.stdout


@contextmanager
def _alone() -> Iterator[None]:
    environment()
    with (_folder() / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def base_image(name: str = BASE, more: Sequence[str] = ()) -> str:
    """The name of a base image with ``more`` packages of Debian, which is made where it is missing (about a minute)."""
    with _alone():
        if podman("images", "--quiet", name).strip():
            return name
        with tempfile.TemporaryDirectory(dir=_folder()) as scratch:
            root = Path(scratch) / "root"
            packages = ",".join((_PACKAGES, *more))
            command = ["debootstrap", "--variant=minbase", f"--include={packages}", "bookworm", str(root)]
            path = f"{os.environ['PATH']}:/usr/sbin:/sbin"
            made = subprocess.run(
                command, capture_output=True, text=True, env=os.environ | {"PATH": path}, timeout=_BUILD, check=False
            )
            if made.returncode != 0:
                raise ContainersFailed(
                    f"{' '.join(command)}: exit {made.returncode}\n{made.stdout[-3000:]}{made.stderr}"
                )
            for waste in ("var/cache/apt/archives", "var/lib/apt/lists"):
                shutil.rmtree(root / waste)
            shutil.copyfile(_CERTIFICATES, root / _CERTIFICATES.relative_to("/"))
            (root / "etc/pip.conf").write_text(f"[global]\ncert = {_CERTIFICATES}\n")
            archive = Path(scratch) / "base.tar"
            subprocess.run(["tar", "--create", f"--file={archive}", f"--directory={root}", "."], check=True)
            podman("import", str(archive), name, deadline=_BUILD)
    return name


def build(tag: str, folder: Path, *, file: str = "Dockerfile", arguments: Mapping[str, str] | None = None) -> str:
    """Build the image ``tag`` from ``folder``; returns what the engine printed."""
    words = ["build", "--format=docker", "--network=host", f"--tag={tag}", f"--file={folder / file}"]
    for name, value in (arguments or {}).items():
        words.append(f"--build-arg={name}={value}")
    with _alone():
        return podman(*words, str(folder), deadline=_BUILD)


@dataclass(frozen=True, slots=True)
class Container:
    """A container that runs, or ran."""

    id: str

    def log(self) -> str:
        """What its process has printed so far, on both outputs."""
        done = subprocess.run(
            ["podman", "logs", self.id],
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            env=environment(),
            timeout=60,
            check=False,
        )
        return done.stdout

    def exists(self) -> bool:
        """Whether there is such a container, running or not."""
        done = subprocess.run(["podman", "container", "exists", self.id], env=environment(), timeout=60, check=False)
        return done.returncode == 0

    def state(self) -> Mapping[str, object]:
        """``State`` of ``podman inspect``: Running, ExitCode, OOMKilled, ..."""
        found: Mapping[str, object] = json.loads(podman("inspect", "--type=container", self.id))[0]["State"]
        return found

    def exec(self, *words: str, check: bool = True) -> str:
        """What a command prints that is run in the container."""
        return podman("exec", self.id, *words, check=check)

    def healthy(self) -> bool:
        """Whether the image's HEALTHCHECK, run now, is content."""
        done = subprocess.run(
            ["podman", "healthcheck", "run", self.id], capture_output=True, env=environment(), timeout=60, check=False
        )
        return done.returncode == 0

    def says(self, text: str, *, deadline: float = 60.0) -> None:
        """Wait until its log holds ``text``."""
        eventually(lambda: text in self.log(), what=f"{text!r} in the log of the container", deadline=deadline)

    def kill(self) -> None:
        """SIGKILL to its first process."""
        podman("kill", "--signal=KILL", self.id)
        podman("wait", self.id)

    def stop(self, *, deadline: int = 30) -> int:
        """SIGTERM, and SIGKILL after ``deadline`` seconds; returns the exit code."""
        podman("stop", f"--time={deadline}", self.id)
        return int(str(self.state()["ExitCode"]))


@contextmanager
def run(image: str, *words: str, options: Sequence[str] = ()) -> Iterator[Container]:
    """A container of ``image`` in the background with ``podman run OPTIONS IMAGE WORDS``, removed at the end."""
    container = Container(podman("run", "--detach", "--pull=never", *options, image, *words).strip())
    try:
        yield container
    finally:
        podman("rm", "--force", "--time=0", container.id, check=False)
