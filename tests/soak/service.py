"""The gateway as a service of a real systemd: the unit file as it is shipped, in a container in which systemd is PID 1.

The container shares the network of this machine, so that the brokers of the tests are where they are. Folders of this
machine are its /etc/mgw and /var/lib/mgw.
"""

from __future__ import annotations

import os
import uuid
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path

from cryptography.fernet import Fernet

from tests.support import containers
from tests.support.containers import Container
from tests.support.waiting import eventually

__all__ = ["LONGEST_START", "Service", "booted", "image"]

IMAGE = "localhost/mgw-under-systemd"
USER = 10001  # mgw, in the image
LONGEST_START = 60.0
_BASE = "localhost/mgw-systemd:bookworm"
_PACKAGES = ("systemd", "systemd-sysv", "dbus")
_FIRST = "/lib/systemd/systemd"
_UNIT = "/etc/systemd/system/mgw.service"
#: Units of Debian that would change the machine around the container, or work for nobody there.
_MASKED = (
    "systemd-sysctl.service",
    "systemd-modules-load.service",
    "systemd-logind.service",
    "systemd-remount-fs.service",
    "systemd-binfmt.service",
    "sys-kernel-config.mount",
    "sys-kernel-debug.mount",
    "sys-kernel-tracing.mount",
    "sys-fs-fuse-connections.mount",
    "dev-hugepages.mount",
    "dev-mqueue.mount",
    "proc-sys-fs-binfmt_misc.automount",
    "getty.target",
    "console-getty.service",
    "timers.target",
)


def image() -> str:
    """The name of the image: Debian with systemd, and the gateway in /opt/mgw as the Dockerfile installs it."""
    base = containers.base_image(_BASE, _PACKAGES)
    containers.build(IMAGE, containers.ROOT, arguments={"BASE": base})
    return IMAGE


class Service:
    """mgw.service in a container; ``etc`` and ``state`` are its folders on this machine."""

    def __init__(self, container: Container, etc: Path, state: Path) -> None:
        self.container = container
        self.etc = etc
        self.state = state

    def systemctl(self, *words: str, check: bool = True) -> str:
        """What ``systemctl WORDS`` prints."""
        return self.container.exec("systemctl", *words, check=check)

    def properties(self, *names: str) -> Mapping[str, str]:
        """Properties of the unit."""
        shown = self.systemctl("show", "mgw", f"--property={','.join(names)}")
        return dict(line.split("=", 1) for line in shown.splitlines() if "=" in line)

    def start(self) -> None:
        """``systemctl start mgw``, which returns when the gateway says that it is ready."""
        self.systemctl("start", "mgw")

    def kill(self) -> None:
        """SIGKILL of the gateway; systemd starts it again."""
        self.systemctl("kill", "--signal=KILL", "mgw")

    def freeze(self) -> None:
        """The gateway goes to sleep, as a process that hangs; the watchdog of systemd has to notice."""
        self.systemctl("kill", "--signal=STOP", "mgw")

    @property
    def pid(self) -> int:
        """Process id of the gateway on this machine; 0 while there is none."""
        for process in Path("/proc").glob("[0-9]*"):
            with suppress(OSError):
                group, name = (process / "cgroup").read_text(), (process / "comm").read_text().strip()
                if self.container.id in group and "mgw.service" in group and name == "mgw":
                    return int(process.name)
        return 0

    def journal(self, lines: int = 40) -> str:
        """The end of its journal."""
        return self.container.exec("journalctl", "--unit=mgw", "--no-pager", f"--lines={lines}", check=False)

    def write(self, name: str, text: str) -> None:
        """A file in /etc/mgw that the service may read, replaced at once."""
        fresh = self.etc / f".{name}"
        fresh.write_text(text)
        os.chown(fresh, USER, USER)
        fresh.chmod(0o400)
        fresh.replace(self.etc / name)


@contextmanager
def booted(folder: Path, state: Path) -> Iterator[Service]:
    """systemd with the unit installed and not started. ``state`` becomes /var/lib/mgw."""
    etc = folder / "etc"
    etc.mkdir()
    options = [
        "--systemd=always",
        "--network=host",
        "--privileged",
        f"--name=mgw-soak-{uuid.uuid4().hex[:8]}",
        "--user=0:0",
        f"--entrypoint={_FIRST}",
        "--tmpfs=/tmp",
        f"--volume={etc}:/etc/mgw:ro",
        f"--volume={state}:/var/lib/mgw",
        "--env=container=podman",
        *(f"--volume=/dev/null:/etc/systemd/system/{unit}:ro" for unit in _MASKED),
    ]
    with containers.run(IMAGE, "--log-target=console", options=options) as container:
        service = Service(container, etc, state)

        def up() -> bool:
            said = service.systemctl("is-system-running", check=False).strip()
            assert said in ("running", "degraded"), f"systemd says {said!r}:\n{container.log()[-2000:]}"
            return True

        eventually(up, deadline=LONGEST_START, what="systemd in the container", tolerate=(AssertionError,))
        shipped = container.exec("/opt/mgw/bin/python", "-c", "import mgw; print(*mgw.__path__)").strip()
        container.exec("cp", f"{shipped}/conf/mgw.service", _UNIT)
        service.systemctl("daemon-reload")
        service.write("secret_key", Fernet.generate_key().decode())
        yield service
