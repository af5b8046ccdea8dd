"""Several addresses of one messaging system: the nodes of a cluster, tried in turn until one answers.

The node that answered last is tried first by the next connection of the link, whichever job makes it: the time-out of a
node that is down is paid once. A node that answered and then failed is tried last. Who has something at a node, such as
an MQTT session, tries that node first after a loss, and goes to another one if it fails or the loss repeats.
"""

from __future__ import annotations

import ipaddress
import threading
import time
from collections.abc import Callable, Sequence
from typing import NamedTuple, Protocol, TypeVar, runtime_checkable

from mgw.links.contract import Check, Field
from mgw.links.listening import address, listening
from mgw.transforms.errors import ConfigInvalid, LinkError, LinkTimeout, LinkUnavailable

__all__ = ["HasNodes", "Node", "Nodes", "hosts_field", "node_of", "nodes_of"]

T = TypeVar("T")
_HIGHEST_PORT = 65535
_SHORT = 60.0  # seconds; a node that loses a connection so soon after the last loss has failed


class Node(NamedTuple):
    """An address of a messaging system."""

    host: str
    port: int

    def __str__(self) -> str:
        return f"{self.host}:{self.port}"


@runtime_checkable
class HasNodes(Protocol):
    """A link that may name several nodes."""

    @property
    def node(self) -> str:
        """The node that the last connection of this thread is at, as ``host:port``, or else the one that answered last;
        "" where the link names one only, or none answered yet."""
        ...


def node_of(link: object) -> str:
    """See :attr:`HasNodes.node`; "" for a link of one address."""
    return link.node if isinstance(link, HasNodes) else ""


def hosts_field(more: str = "") -> Field:
    """The attribute that names the nodes; ``more`` is what the messaging system asks of them."""
    return Field(
        "hosts",
        "Nodes of a cluster, host or host:port, separated by commas; port holds where one names none. A connection "
        "tries them in turn, each with the connect time-out, and begins with the one that answered last. hostname, if "
        f"set, is the first of them.{more}",
        shown=True,
    )


def nodes_of(owner: str, hostname: str | None, hosts: str | None, port: int) -> list[Node]:
    """The nodes that a link names, each once.

    Args:
        owner: of the attributes, for error texts.
        hostname: the first node; None: the first of hosts is.
        hosts: see :func:`hosts_field`.
        port: of those without one.

    Raises:
        ConfigInvalid: there is none, or an address cannot be.
    """
    nodes = [_first(owner, hostname, port)] if hostname else []
    nodes += [_node(owner, each.strip(), port) for each in (hosts or "").split(",") if each.strip()]
    if not nodes:
        raise ConfigInvalid(f"{owner}: hostname is missing", cause="it has no default", cure="set hostname or hosts")
    return list(dict.fromkeys(nodes))


def _first(owner: str, hostname: str, port: int) -> Node:
    if not _is_host(hostname) or "," in hostname:
        several = "," in hostname
        raise ConfigInvalid(
            f"{owner}: hostname cannot be {hostname.rpartition('@')[2]!r}",  # a URI may have a password
            cause="it is the name or address of one broker, and nothing else",
            cure="name several nodes in hosts"
            if several
            else "write for example hostname: rabbit-1.example; port, login and TLS are attributes of their own",
        )
    return Node(hostname, port)


def _node(owner: str, text: str, port: int) -> Node:
    node = Node(*address(text, port))
    if not node.host or not 0 < node.port <= _HIGHEST_PORT or not _is_host(node.host):
        raise ConfigInvalid(
            f"{owner}: hosts cannot have {text!r}",
            cause="a node is host or host:port, with a port from 1 to 65535",
            cure="write for example rabbit-1.example,rabbit-2.example:5673",
        )
    return node


def _is_host(host: str) -> bool:
    if ":" not in host:
        return host.isprintable() and not set(host) & set(" /@[]")
    try:
        ipaddress.IPv6Address(host.partition("%")[0])
    except ValueError:
        return False
    return True


class Nodes:
    """The nodes of a link, and which of them answered last: at all, and to the thread that asks."""

    def __init__(self, nodes: Sequence[Node]) -> None:
        self.all = tuple(nodes)
        self._lock = threading.Lock()
        self._first = 0
        self._answered = False
        self._mine = threading.local()
        self._lost: dict[str, tuple[Node, float]] = {}  # where and when somebody lost a connection last

    @property
    def several(self) -> bool:
        """Whether there is more than one."""
        return len(self.all) > 1

    @property
    def last(self) -> str:
        """See :attr:`HasNodes.node`."""
        if len(self.all) == 1:
            return ""
        mine: Node | None = getattr(self._mine, "node", None)
        if mine is not None:
            return str(mine)
        with self._lock:
            return str(self.all[self._first]) if self._answered else ""

    @property
    def in_turn(self) -> Sequence[Node]:
        """In the order in which a connection tries them now."""
        with self._lock:
            return (*self.all[self._first :], *self.all[: self._first])

    def failed(self, node: Node) -> None:
        """A connection to the node ended by itself: the next one begins with the node behind it."""
        with self._lock:
            if self.all[self._first] == node:
                self._first = (self._first + 1) % len(self.all)

    def lost(self, node: Node, who: str) -> None:
        """A connection was lost, which the network may have done: the next one of ``who`` begins with the same node,
        unless this one was soon after the last loss there."""
        now = time.monotonic()
        with self._lock:
            before, when = self._lost.pop(who, (None, 0.0))
            again = before == node and now - when < _SHORT
            if not again:
                self._lost[who] = node, now
        if again:
            self.failed(node)

    def answering(self) -> tuple[Sequence[Check], Node]:
        """For ``mgw links test``: a line for each of several nodes, and the first that accepts connections, or the
        first of all if none does. Takes about a second where there are several."""
        if len(self.all) == 1:
            return (), self.all[0]
        answer = listening(self.all)
        chosen = next((node for node in self.all if str(node) in answer), self.all[0])
        lines = []
        for node in self.all:
            word = "accepts connections" if str(node) in answer else "does not answer"
            end = "; it is tested" if node == chosen else "" if str(node) in answer else "; jobs pass it over"
            lines.append(Check("node", True, f"{node} {word}{end}"))
        return lines, chosen

    def connect(self, attempt: Callable[[Node], T], who: str = "") -> T:
        """What ``attempt`` returns for the first node that answers.

        Args:
            who: connects, see :meth:`lost`.

        Raises:
            LinkError: none did. A refusal tells more than silence, so it is raised first; the cause names the others.
        """
        refusals: list[tuple[Node, LinkError]] = []
        with self._lock:
            home, _ = self._lost.get(who, (None, 0.0))
        for node in sorted(self.in_turn, key=lambda each: each != home):
            try:
                made = attempt(node)
            except LinkError as error:
                refusals.append((node, error))
                continue
            with self._lock:
                self._first, self._answered = self.all.index(node), True
                if node != home:
                    self._lost.pop(who, None)
            self._mine.node = node
            return made
        raise _worst(refusals)


def _worst(refusals: Sequence[tuple[Node, LinkError]]) -> LinkError:
    silent = LinkUnavailable | LinkTimeout
    node, worst = next(((at, each) for at, each in refusals if not isinstance(each, silent)), refusals[0])
    if others := [f"{at}: {each.cause}" for at, each in refusals if at != node]:
        worst.cause = f"{worst.cause}; the other nodes: {', '.join(others)}"
    return worst
