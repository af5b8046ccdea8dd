"""The tests' own tools: they judge everything else, so they are judged first."""

from __future__ import annotations

import contextlib
import itertools
import os
import signal
import socket
import ssl
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from tests.support.brokers.server import Server, ServerFailed, connect, receive_exactly
from tests.support.certificates import Certificates
from tests.support.ports import LOOPBACK, free_port
from tests.support.proxy import TcpProxy
from tests.support.waiting import NotInTime, eventually


@pytest.fixture
def echo_port() -> Iterator[int]:
    """Port of a server that sends everything back."""
    with socket.create_server((LOOPBACK, 0)) as listener:
        ended = threading.Event()

        def serve(connection: socket.socket) -> None:
            with connection:
                try:
                    while chunk := connection.recv(65536):
                        connection.sendall(chunk)
                except OSError:
                    return

        def accept() -> None:
            while not ended.is_set():
                try:
                    connection, _ = listener.accept()
                except OSError:
                    return
                threading.Thread(target=serve, args=(connection,), daemon=True).start()

        thread = threading.Thread(target=accept, daemon=True)
        thread.start()
        yield listener.getsockname()[1]
        ended.set()
        listener.shutdown(socket.SHUT_RDWR)
    thread.join()


def _echoes(connection: socket.socket, data: bytes) -> bool:
    connection.sendall(data)
    return receive_exactly(connection, len(data)) == data


def test_proxy_forwards_both_ways(echo_port: int) -> None:
    with TcpProxy(LOOPBACK, echo_port) as proxy, connect(proxy.port) as connection:
        assert _echoes(connection, b"x" * 1_000)
        eventually(lambda: proxy.forwarded_bytes == 2_000, what="both ways counted")


def test_proxy_forwards_the_end_of_one_direction(echo_port: int) -> None:
    with TcpProxy(LOOPBACK, echo_port) as proxy, connect(proxy.port) as connection:
        connection.sendall(b"last words")
        connection.shutdown(socket.SHUT_WR)
        assert receive_exactly(connection, 10) == b"last words"
        assert connection.recv(1) == b""
        eventually(lambda: proxy.connections == 0, what="the connection is forgotten")


def test_cut_resets_open_connections_and_takes_new_ones(echo_port: int) -> None:
    with TcpProxy(LOOPBACK, echo_port) as proxy:
        with connect(proxy.port) as connection:
            assert _echoes(connection, b"before")
            proxy.cut()
            with pytest.raises(ConnectionResetError):
                connection.recv(1)
        with connect(proxy.port) as connection:
            assert _echoes(connection, b"after")


def test_forsaken_target_is_told_nothing(echo_port: int) -> None:
    with TcpProxy(LOOPBACK, echo_port) as middle, TcpProxy(middle.host, middle.port) as proxy:
        with connect(proxy.port) as connection:
            assert _echoes(connection, b"before")
            proxy.forsake()
            with pytest.raises(ConnectionResetError):
                connection.recv(1)
        with connect(proxy.port) as connection:
            assert _echoes(connection, b"after")
            assert (proxy.connections, middle.connections) == (1, 2)


def test_stalled_proxy_keeps_the_connection_and_delivers_after_resume(echo_port: int) -> None:
    with TcpProxy(LOOPBACK, echo_port) as proxy, connect(proxy.port) as connection:
        assert _echoes(connection, b"before")
        proxy.stall()
        connection.sendall(b"held back")
        connection.settimeout(0.2)
        with pytest.raises(TimeoutError):
            connection.recv(1)
        proxy.resume()
        connection.settimeout(5)
        assert receive_exactly(connection, 9) == b"held back"


def test_refusing_proxy_keeps_open_connections_and_comes_back_on_its_port(echo_port: int) -> None:
    with TcpProxy(LOOPBACK, echo_port) as proxy, connect(proxy.port) as connection:
        assert _echoes(connection, b"before")
        proxy.refuse()
        with pytest.raises(ConnectionRefusedError):
            connect(proxy.port)
        assert _echoes(connection, b"still there")
        proxy.accept()
        with connect(proxy.port) as another:
            assert _echoes(another, b"again")


def test_delay_holds_chunks_back(echo_port: int) -> None:
    with TcpProxy(LOOPBACK, echo_port) as proxy, connect(proxy.port) as connection:
        proxy.delay(0.1)
        started = time.monotonic()
        assert _echoes(connection, b"slow")
        assert time.monotonic() - started >= 0.2


def test_client_of_a_dead_target_is_reset() -> None:
    with (
        TcpProxy(LOOPBACK, free_port()) as proxy,
        pytest.raises(ConnectionResetError),  # it may come as soon as the connection is there
        connect(proxy.port) as connection,
    ):
        connection.recv(1)


def test_eventually_returns_the_first_true_value() -> None:
    values = iter((0, None, 7, 8))
    assert eventually(lambda: next(values), deadline=5) == 7


def test_eventually_asks_less_often_what_takes_long() -> None:
    asked: list[tuple[float, float]] = []

    def takes_long() -> bool:
        began = time.monotonic()
        time.sleep(0.02)
        asked.append((began, time.monotonic()))
        return len(asked) == 3

    eventually(takes_long, deadline=60)
    for (began, ended), (again, _) in itertools.pairwise(asked):
        assert again - ended >= min(ended - began, 0.5)


def test_eventually_tells_what_it_waited_for_and_what_it_saw() -> None:
    with pytest.raises(NotInTime, match=r"the queue is empty: not within 0.01 s; last value: 0"):
        eventually(lambda: 0, deadline=0.01, what="the queue is empty")


def test_eventually_raises_errors_it_was_not_told_to_tolerate() -> None:
    def fails() -> bool:
        raise KeyError("wrong")

    with pytest.raises(KeyError):
        eventually(fails, deadline=5)
    with pytest.raises(NotInTime, match="KeyError"):
        eventually(fails, deadline=0.01, tolerate=(KeyError,))


def test_free_ports_are_never_given_twice() -> None:
    ports = [free_port() for _ in range(50)]
    assert len(set(ports)) == len(ports)


def test_port_given_to_another_process_is_not_given_while_it_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    script = "import sys; from tests.support import ports; print(ports.free_port(), flush=True); sys.stdin.read()"
    command = [sys.executable, "-c", script]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as other:
        assert other.stdout is not None
        given = int(other.stdout.readline())
        monkeypatch.setattr("tests.support.ports._PORTS", range(given, given + 1))
        with pytest.raises(RuntimeError, match="no free TCP port"):
            free_port()
        other.communicate()
        assert free_port() == given


def test_certificates_are_accepted_by_those_who_trust_the_authority_only(tmp_path: Path) -> None:
    certificates = Certificates(tmp_path / "tls")
    server_side = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    server_side.load_cert_chain(certificates.server, certificates.server_key)

    def handshake(authority: Path, name: str) -> None:
        client_side = ssl.create_default_context(cafile=authority)
        incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
        client = client_side.wrap_bio(incoming, outgoing, server_hostname=name)
        server = server_side.wrap_bio(outgoing, incoming, server_side=True)
        for side in (client, server, client):
            try:
                side.do_handshake()
            except ssl.SSLWantReadError:
                continue

    handshake(certificates.ca, "localhost")
    handshake(certificates.ca, "127.0.0.1")
    with pytest.raises(ssl.SSLCertVerificationError):
        handshake(certificates.other_ca, "localhost")
    with pytest.raises(ssl.SSLCertVerificationError):
        handshake(certificates.ca, "example.org")


class _Listener(Server):
    """A server of a few lines: it counts its starts in its folder, and may ignore SIGTERM or fail."""

    name = "listener"
    start_deadline = 20.0
    stop_deadline = 0.5
    program = """
import signal, socket, sys, pathlib
starts = pathlib.Path("starts"); starts.write_text((starts.read_text() if starts.exists() else "") + "x")
if "stubborn" in sys.argv: signal.signal(signal.SIGTERM, signal.SIG_IGN)
if "broken" in sys.argv: sys.exit("the disk is on fire")
listener = socket.create_server(("127.0.0.1", int(sys.argv[1])))
while True: listener.accept()[0].close()
"""

    def __init__(self, *arguments: str) -> None:
        super().__init__()
        self.port = free_port()
        self._arguments = arguments

    def command(self) -> Sequence[str]:
        return [sys.executable, "-c", self.program, str(self.port), *self._arguments]

    def ready(self) -> bool:
        connect(self.port).close()
        return True


def test_server_restarts_on_its_port_with_its_data() -> None:
    with _Listener() as server:
        first = server.pid
        server.restart()
        assert server.pid != first
        server.kill()
        assert not server.running
        server.start()
        assert (server.folder / "starts").read_text() == "xxx"
        connect(server.port).close()
    assert not server.folder.exists()


def test_server_that_does_not_start_shows_its_log() -> None:
    server = _Listener("broken")
    with pytest.raises(ServerFailed, match=r"listener: ended with exit code 1 while starting.*\nthe disk is on fire"):
        server.start()
    server.close()
    assert not server.folder.exists()


def test_server_that_ignores_the_signal_is_killed_and_reported() -> None:
    server = _Listener("stubborn").start()
    pid = server.pid
    with pytest.raises(ServerFailed, match=r"did not end within 0\.5 s of SIGTERM"):
        server.close()
    assert not Path(f"/proc/{pid}").exists()
    assert not server.folder.exists()


def test_missing_program_is_an_error_that_names_the_cure() -> None:
    class Missing(_Listener):
        def command(self) -> Sequence[str]:
            return ["/nonexistent/program"]

    with pytest.raises(ServerFailed, match=r"/nonexistent/program can not be started.*make setup"), Missing():
        pass


def test_server_dies_with_the_process_that_started_it() -> None:
    program = (
        "import sys, time\n"
        "from tests.unit.test_support import _Listener\n"
        "server = _Listener().start()\n"
        "print(server.pid, server.folder, flush=True)\n"
        "time.sleep(60)\n"
    )
    with subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE, text=True) as parent:
        assert parent.stdout is not None
        pid, folder = parent.stdout.readline().split()
        assert Path(f"/proc/{pid}").exists()
        os.kill(parent.pid, signal.SIGKILL)
        parent.wait()
    eventually(lambda: not _alive(int(pid)), what="the server is gone")
    eventually(lambda: not Path(folder).exists(), what="its folder is gone")


def _alive(pid: int) -> bool:
    try:
        return ") Z " not in Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return False


@pytest.mark.parametrize("client", ["KafkaAdminClient", "KafkaConsumer", "KafkaProducer"])
def test_kafka_client_that_reaches_no_broker_leaves_nothing_open(client: str) -> None:
    # In a process of its own: the threads of tests before this one open and close files whenever they like.
    program = (
        "import sys\n"
        "from kafka.errors import KafkaError\n"
        "from tests.support import kafka_clients\n"
        "from tests.support.waiting import eventually\n"
        "from tests.unit.test_support import open_files\n"
        "before = open_files()\n"
        "try:\n"
        "    getattr(kafka_clients, sys.argv[1])(bootstrap_servers=sys.argv[2], bootstrap_timeout_ms=200)\n"
        "except KafkaError:\n"
        "    eventually(lambda: open_files() <= before, what='everything closed that was opened')\n"
        "else:\n"
        "    sys.exit('a client was made')\n"
    )
    servers = f"{LOOPBACK}:{free_port()}"
    command = [sys.executable, "-c", program, client, servers]
    ended = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert ended.returncode == 0, ended.stderr


def open_files() -> set[str]:
    """What this process has open; sockets and pipes have names of their own."""
    found = set[str]()
    for number in os.listdir("/proc/self/fd"):
        with contextlib.suppress(FileNotFoundError):  # the one that listed them
            found.add(os.readlink(f"/proc/self/fd/{number}"))
    return found
