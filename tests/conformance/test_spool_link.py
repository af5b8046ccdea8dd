"""The link of the example package passes the suite of every link, and keeps its promises when processes are killed."""

from __future__ import annotations

import base64
import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from mgw.links.contract import Direction, Endpoint, Link, LinkConfig, LinkSpec
from mgw.links.registry import open_link, spec
from mgw.transforms.errors import AdminError, ConfigInvalid, LinkError
from mgw.transforms.message import Header, Message, ValueType
from tests.conformance.link_suite import (
    LinkSuite,
    LinkTemplate,
    Pair,
    Reader,
    Wire,
    numbered,
    numbers,
    reading,
    unique,
    use_of,
    writing,
)
from tests.support.spool import install_spool

if TYPE_CHECKING:
    from typing import ClassVar


@pytest.fixture(scope="module", autouse=True)
def installed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    site = install_spool(tmp_path_factory.mktemp("spool_package"))
    sys.path.insert(0, str(site))
    yield site
    sys.path.remove(str(site))


class SpoolWire:
    """Disturbs the file system through the one file that every call looks at."""

    def __init__(self, root: Path) -> None:
        self._marker = root / ".spool"
        self._hidden = root / ".spool.hidden"

    def cut(self) -> None:
        """The spool was mounted anew: another file of the same name."""
        other = self._marker.with_name(".spool.other")
        other.touch()
        other.rename(self._marker)

    def stall(self) -> None:
        """Whoever opens the file waits, as on a file server that does not answer."""
        self._marker.rename(self._hidden)
        os.mkfifo(self._marker)

    def refuse(self) -> None:
        self._marker.rename(self._hidden)

    def resume(self) -> None:
        fifo = self._marker.with_name(".spool.fifo")
        if self._marker.is_fifo():
            self._marker.rename(fifo)
        self._hidden.rename(self._marker)
        if fifo.exists():
            os.close(os.open(fifo, os.O_RDWR | os.O_NONBLOCK))  # lets those go who wait
            fifo.unlink()


class SpoolTemplate(LinkTemplate):
    message_id_header = "MGW_SPOOL_messageId"
    patience = 3.0
    if TYPE_CHECKING:
        spec: ClassVar[LinkSpec]

    def __init__(self, folder: Path) -> None:
        self.root = folder / "spool"
        self.root.mkdir()
        (self.root / ".spool").touch()

    def link(self) -> Link:
        return self.configured()

    def configured(self, **settings: object) -> Link:
        return open_link(LinkConfig("files", "spool", {"directory": str(self.root), **settings}))

    def pair(self) -> Pair:
        name = unique("q")
        (self.root / name).mkdir()
        return Pair(Endpoint("src", "files", name), Endpoint("dst", "files", name))

    def missing(self) -> Pair:
        name = unique("nowhere")
        return Pair(Endpoint("src", "files", name), Endpoint("dst", "files", name))

    @contextmanager
    def disturbed(self) -> Iterator[tuple[Link, Wire]]:
        yield self.configured(timeout=0.5), SpoolWire(self.root)

    def wrong_port(self) -> Link:
        return open_link(LinkConfig("files", "spool", {"directory": str(self.root / "not mounted")}))

    def foreign_publish(self, pair: Pair, bodies: Sequence[bytes]) -> None:
        queue = self.root / pair.destination.provider_queue
        for body in bodies:
            name = unique("foreign").replace("_", "-")
            (queue / f".{name}").write_bytes(body)
            (queue / f".{name}").rename(queue / f"{time.time_ns():020d}-{name}.txt")

    def foreign_read(self, pair: Pair, count: int) -> list[bytes]:
        found = sorted((self.root / pair.source.provider_queue).glob("*.mgw"))[:count]
        documents = [json.loads(path.read_text()) for path in found]
        return [
            each["body"].encode() if each["body_type"] == "text" else base64.b64decode(each["body"])
            for each in documents
        ]

    def foreign_long_header(self, pair: Pair, name: str, body: bytes) -> bool:
        envelope = {
            "spool": 1,
            "headers": [[name, 1, "v"]],
            "body_type": "raw",
            "body": base64.b64encode(body).decode(),
        }
        file = self.root / pair.destination.provider_queue / f"{time.time_ns():020d}-foreign.mgw"
        file.write_text(json.dumps(envelope))
        return True


@pytest.fixture
def template(tmp_path: Path) -> SpoolTemplate:
    SpoolTemplate.spec = spec("spool")
    return SpoolTemplate(tmp_path)


class TestSpoolLink(LinkSuite):
    def test_jobs_are_exactly_once_on_both_sides(self, template: SpoolTemplate) -> None:
        pair = template.pair()
        for endpoint, direction in ((pair.source, Direction.INBOUND), (pair.destination, Direction.OUTBOUND)):
            assert template.link().verify(use_of(endpoint), direction).level == "exact"
        weaker = template.configured(durable=False).verify(use_of(pair.destination), Direction.OUTBOUND)
        assert weaker.level == "exact-unless-broker-crash"
        assert "durable" in weaker.note

    def test_file_that_the_hub_has_is_not_read_again(self, template: SpoolTemplate) -> None:
        """Killed between the commit of the hub and the removal of the file."""
        pair = template.pair()
        link, folder = template.link(), template.root / pair.source.provider_queue
        template.foreign_publish(pair, [b"one", b"two"])
        (first, second) = sorted(folder.glob("*.txt"))
        reader = Reader(link, use_of(pair.source)).connect()
        batch = reader.source.read(1, 1)
        reader.source.close()  # instead of settle
        stored = {mark.partition: mark.value or "" for mark in batch.marks}
        assert set(stored) == {first.name}
        again = link.source(use_of(pair.source))
        again.connect(stored)
        assert not first.exists()
        batch = again.read(10, 1)
        assert [each.message.body for each in batch.deliveries] == [b"two"]
        assert {mark.partition: mark.value is None for mark in batch.marks} == {first.name: True, second.name: False}
        again.close()

    def test_later_file_of_the_same_name_is_another_message(self, template: SpoolTemplate) -> None:
        pair = template.pair()
        file = template.root / pair.source.provider_queue / "order.txt"
        file.write_bytes(b"first")
        link = template.link()
        source = link.source(use_of(pair.source))
        source.connect({})
        batch = source.read(1, 1)
        source.settle(batch)
        source.close()
        file.write_bytes(b"other")
        source = link.source(use_of(pair.source))
        source.connect({mark.partition: mark.value or "" for mark in batch.marks})
        batch = source.read(1, 1)
        assert [each.message.body for each in batch.deliveries] == [b"other"]
        source.close()

    def test_file_that_calls_itself_an_envelope_and_is_none_fails_alone(self, template: SpoolTemplate) -> None:
        pair = template.pair()
        queue = template.root / pair.source.provider_queue
        for number, content in enumerate((b"{", b"[]", b'{"spool": 2}', b'{"spool": 1}', b"\xff")):
            (queue / f"{number}.mgw").write_bytes(content)
        with reading(template.link(), pair) as reader:
            found = reader.collect(5)
            template.foreign_publish(pair, [b"next"])
            assert reader.bodies(1) == [b"next"]
        assert all(each.failure is not None and "is not an envelope" in str(each.failure) for each in found)
        assert found[0].message.body == b"{"

    def test_second_reader_and_second_writer_wait_for_the_first(self, template: SpoolTemplate) -> None:
        pair, link = template.pair(), template.link()
        with reading(link, pair), writing(link, pair, job="ONE"):
            with pytest.raises(LinkError, match="has a reader"):
                link.source(use_of(pair.source)).connect({})
            with pytest.raises(LinkError, match="has another writer"):
                link.destination(use_of(pair.destination, job="ONE")).connect()

    def test_writer_that_hangs_keeps_its_lock_until_its_call_has_ended(self, template: SpoolTemplate) -> None:
        """What hangs may still write: the next one must not believe the log before."""
        pair = template.pair()
        with template.disturbed() as (link, wire), writing(link, pair, job="ONE") as writer:
            writer.deliver(Message(b"a"))
            wire.stall()
            with pytest.raises(LinkError, match="did not answer"):
                writer.destination.confirmed(0)
            wire.resume()
            again = link.destination(use_of(pair.destination, job="ONE"))
            deadline = time.monotonic() + 10
            while True:
                try:
                    again.connect()
                except LinkError:
                    assert time.monotonic() < deadline
                else:
                    break
            recovered = again.recovered()
            assert recovered is not None
            assert recovered.sequence == 1
            again.close()

    def test_plain_files_hold_the_body_alone(self, template: SpoolTemplate) -> None:
        pair = template.pair()
        there = pair.destination
        plain = Endpoint(there.name, there.link, there.provider_queue, None, {"SPOOL_Format": "plain"})
        fields = (Header("x", ValueType.INTEGER, 1),)
        with writing(template.link(), Pair(pair.source, plain)) as writer:
            writer.deliver(Message("text", headers=fields), Message(b"\x00"), Message(None), Message(fields))
        found = sorted((template.root / there.provider_queue).glob("*.msg"))
        assert [path.read_bytes() for path in found] == [b"text", b"\x00", b"", b'{"x":1}']

    @pytest.mark.parametrize("name", ["../other", "a/b", ".hidden", ""])
    def test_name_that_is_no_folder_of_the_spool_is_refused(self, name: str, template: SpoolTemplate) -> None:
        with pytest.raises(AdminError, match="cannot be a queue"):
            template.link().check_endpoint(Endpoint("q", "files", name), None)

    def test_attributes_that_can_never_work_are_refused(self) -> None:
        for config in (
            LinkConfig("files", "spool", {"directory": "spool"}),
            LinkConfig("files", "spool", {"directory": "/spool"}, outbound_log_queue="x"),
        ):
            with pytest.raises(ConfigInvalid, match="link files: "):
                open_link(config)


_PUBLISH = """
import sys
from mgw.links.contract import Endpoint, JobUse, LinkConfig
from mgw.links.registry import open_link
from mgw.transforms.message import Message
link = open_link(LinkConfig("files", "spool", {"directory": sys.argv[1]}))
use = JobUse(Endpoint("dst", "files", "q"), "J", hub_id="00" * 8)
destination = link.destination(use)
destination.connect()
sequence = destination.recovered().sequence or 0
while True:
    sequence += 1
    destination.publish(sequence, [destination.encode(Message(f"{sequence}.{n}")) for n in range(5)])
    print(sequence, flush=True)
"""


def test_writer_killed_at_any_moment_leaves_whole_batches(
    template: SpoolTemplate, installed: Path, tmp_path: Path
) -> None:
    """After every kill the log says exactly which batches are there, and all their messages are, once."""
    (template.root / "q").mkdir()
    environment = os.environ | {"PYTHONPATH": os.pathsep.join([str(installed), str(Path.cwd())])}
    sequences = []
    for kill_after in (1, 2, 3, 5, 8):
        process = subprocess.Popen(
            [sys.executable, "-c", _PUBLISH, str(template.root)], env=environment, stdout=subprocess.PIPE, text=True
        )
        assert process.stdout is not None
        told = 0
        for _ in range(kill_after):
            told = int(process.stdout.readline())
        threading.Event().wait(0.0007 * kill_after)  # somewhere within a batch
        process.send_signal(signal.SIGKILL)
        told = max([told, *(int(line) for line in process.stdout.read().split())])
        process.wait()
        process.stdout.close()
        destination = template.link().destination(use_of(Endpoint("dst", "files", "q"), job="J", hub_id="00" * 8))
        destination.connect()
        recovered = destination.recovered()
        destination.close()
        assert recovered is not None
        assert recovered.sequence is not None
        assert recovered.sequence in (told, told + 1), "a batch that was confirmed is in the log"
        sequences.append(recovered.sequence)
        wanted = [f"{sequence}.{n}" for sequence in range(1, recovered.sequence + 1) for n in range(5)]
        found = [json.loads(path.read_text())["body"] for path in sorted((template.root / "q").glob("*.mgw"))]
        assert found == wanted
    assert sequences == sorted(set(sequences))


def test_numbered_bodies_are_in_order_whoever_wrote(template: SpoolTemplate) -> None:
    pair, link = template.pair(), template.link()
    for start in (0, 3):
        with writing(link, pair, job="SAME") as writer:
            writer.deliver(*numbered(3, start))
    with reading(link, pair) as reader:
        assert reader.bodies(6) == numbers(6)
