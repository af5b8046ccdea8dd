"""The jobs as a picture: brokers left and right, queues of the hub in the middle, a line per job.

Pure: jobs in, places out. The template draws what is laid out here.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal

from mgw.gateway.http.web.words import number, rate
from mgw.gateway.services.board import JobLine, Mood, Picture

__all__ = ["Edge", "Graph", "Node", "drawn", "grouped"]

Side = Literal["left", "middle", "right"]

WIDTH = 1240
_NODE = 176  # width of a node
_PORT = 24  # between two lines that end at a node
_HEAD = 30  # of a node, above its first line
_GAP = 18  # between two nodes
_STRAIGHT = 190  # of a line, below its label
_LETTERS = 21  # of a name that fit into a node
_X: Mapping[Side, int] = {"left": 0, "middle": (WIDTH - _NODE) // 2, "right": WIDTH - _NODE}
_WORST: tuple[Mood, ...] = ("need", "trying", "paused", "fine")


@dataclass(slots=True)
class Node:
    """A link at one side, or a queue of the hub."""

    key: str
    side: Side
    name: str
    note: str
    address: str
    state: str = ""
    mood: str = ""
    left: list[Edge] = field(default_factory=list)  # lines that end at its left side
    right: list[Edge] = field(default_factory=list)
    x: int = 0
    y: int = 0

    @property
    def height(self) -> int:
        """With room for its lines."""
        return _HEAD + 8 + max(1, len(self.left), len(self.right)) * _PORT

    @property
    def width(self) -> int:
        """The same for all."""
        return _NODE

    @property
    def label(self) -> str:
        """As much of its name as fits."""
        return self.name if len(self.name) <= _LETTERS else f"{self.name[: _LETTERS - 1]}…"

    def port(self, edge: Edge, side: Literal["left", "right"]) -> tuple[int, int]:
        """Where a line ends."""
        lines = self.left if side == "left" else self.right
        return self.x + (0 if side == "left" else _NODE), self.y + _HEAD + _PORT // 2 + lines.index(edge) * _PORT


@dataclass(eq=False, slots=True)
class Edge:
    """A job, or several between the same places."""

    name: str
    state: str
    mood: Mood
    moves: bool
    label: str
    title: str
    address: str
    start: Node
    end: Node
    path: str = ""
    label_x: int = 0
    label_y: int = 0
    anchor: Literal["start", "end"] = "start"


@dataclass(frozen=True, slots=True)
class Graph:
    """The picture."""

    nodes: Sequence[Node]
    edges: Sequence[Edge]
    height: int
    width: int = WIDTH


class _Builder:
    def __init__(self, seen: Picture) -> None:
        self._seen = seen
        self.nodes: dict[tuple[Side, str], Node] = {}
        self.edges: list[Edge] = []

    def link(self, side: Side, name: str) -> Node:
        """A broker at one side."""
        line = self._seen.link(name)
        if line is None:
            return self._node(side, name, "", f"/links/{_quoted(name)}")
        return self._node(side, name, line.row.link_type, f"/links/{_quoted(name)}", line.entry.state, line.mood)

    def queue(self, name: str) -> Node:
        """A queue of the hub."""
        load = self._seen.loads.get(name)
        waits = "" if load is None else f"{number(load.ready + load.waiting + load.expired)} waiting"
        schema, _, own = name.partition(".")
        shown = own if schema == "MGW" else name
        return self._node("middle", shown, waits, f"/queues/{_quoted(shown)}")

    def hub(self, queues: int) -> Node:
        """The hub as one place."""
        return self._node("middle", "hub", f"{number(queues)} queue{'' if queues == 1 else 's'}", "/queues")

    def _node(self, side: Side, name: str, note: str, address: str, state: str = "", mood: str = "") -> Node:  # noqa: PLR0917
        return self.nodes.setdefault((side, name), Node(f"{side}-{name}", side, name, note, address, state, mood))

    def finished(self) -> Graph:
        """Everything in its place."""
        for edge in self.edges:
            edge.start.right.append(edge)
            (edge.end.right if _is_local(edge) else edge.end.left).append(edge)
        columns = {side: [node for node in self.nodes.values() if node.side == side] for side in _X}
        _order(columns)
        height = max((_stack_height(nodes) for nodes in columns.values()), default=0)
        for side, nodes in columns.items():
            y = (height - _stack_height(nodes)) // 2
            for node in nodes:
                node.x, node.y = _X[side], y
                y += node.height + _GAP
        for node in self.nodes.values():
            node.left.sort(key=lambda edge: edge.start.y)
            node.right.sort(key=lambda edge: (edge.end.y, edge.name))
        for edge in self.edges:
            _route(edge)
        return Graph(list(self.nodes.values()), self.edges, max(height, 60))


def _is_local(edge: Edge) -> bool:
    return edge.start.side == edge.end.side == "middle"


def _stack_height(nodes: Sequence[Node]) -> int:
    return sum(node.height + _GAP for node in nodes) - (_GAP if nodes else 0)


def _order(columns: Mapping[Side, list[Node]]) -> None:
    """Nodes stand near those that they are joined to, so that few lines cross."""
    for nodes in columns.values():
        nodes.sort(key=lambda node: node.name)
    for side in ("middle", "left", "right", "middle", "left", "right"):
        places = {id(node): at for nodes in columns.values() for at, node in enumerate(nodes)}

        def middle(node: Node, places: Mapping[int, int] = places) -> float:
            others = [edge.start for edge in node.left] + [edge.end for edge in node.right]
            known = [places[id(each)] for each in others if each is not node]
            return sum(known) / len(known) if known else float(places[id(node)])

        columns[side].sort(key=middle)


def _route(edge: Edge) -> None:
    x1, y1 = edge.start.port(edge, "right")
    if _is_local(edge):
        x2, y2 = edge.end.port(edge, "right")
        if edge.start is edge.end:
            y2 += _PORT // 2
        bend = min(150, 60 + abs(y2 - y1) // 3)
        edge.path = f"M{x1} {y1}C{x1 + bend} {y1} {x2 + bend} {y2} {x2} {y2}"
        edge.label_x, edge.label_y = x1 + 12, y1 - 5
        return
    x2, y2 = edge.end.port(edge, "left")
    if edge.start.side == "left":
        edge.label_x, edge.label_y = x1 + 12, y1 - 5
        x1 += _STRAIGHT
        edge.path = f"M{x1 - _STRAIGHT} {y1}H{x1}{_curve(x1, y1, x2, y2)}"
    else:
        edge.label_x, edge.label_y, edge.anchor = x2 - 12, y2 - 5, "end"
        x2 -= _STRAIGHT
        edge.path = f"M{x1} {y1}{_curve(x1, y1, x2, y2)}H{x2 + _STRAIGHT}"


def _curve(x1: int, y1: int, x2: int, y2: int) -> str:
    bend = (x2 - x1) // 2
    return f"C{x1 + bend} {y1} {x2 - bend} {y2} {x2} {y2}"


def _quoted(name: str) -> str:
    from mgw.gateway.http.web.rendering import name_in_path

    return name_in_path(name)


def _ends(builder: _Builder, job: JobLine) -> tuple[Node, Node]:
    start = builder.link("left", job.source_link) if job.source_link else builder.queue(job.row.source)
    end = builder.link("right", job.target_link) if job.target_link else builder.queue(job.row.destination)
    return start, end


def _numbers(job: JobLine) -> str:
    waits = job.row.backlog
    parts = [rate(job.rate)] if job.rate else []
    parts += [f"{number(waits)} waiting"] if waits else []
    return " · ".join(parts)


def drawn(seen: Picture, jobs: Iterable[JobLine]) -> Graph:
    """A line per job."""
    builder = _Builder(seen)
    for job in jobs:
        start, end = _ends(builder, job)
        told = f"{job.name}: {job.state}, {job.row.source} to {job.row.destination}"
        title = f"{told}; {job.reason}" if job.reason else told
        edge = Edge(
            job.name,
            job.state,
            job.mood,
            job.moves,
            _numbers(job),
            title,
            f"/jobs/{_quoted(job.name)}",
            start,
            end,
        )
        builder.edges.append(edge)
    return builder.finished()


def grouped(seen: Picture, jobs: Iterable[JobLine]) -> Graph:
    """A line for all jobs between the same links; the hub is one place."""
    builder = _Builder(seen)
    groups: dict[tuple[str, str], list[JobLine]] = {}
    for job in jobs:
        groups.setdefault((job.source_link, job.target_link), []).append(job)
    queues = {end for job in jobs for end, link in _hub_ends(job) if not link}
    for (source, target), found in sorted(groups.items()):
        start = builder.link("left", source) if source else builder.hub(len(queues))
        end = builder.link("right", target) if target else builder.hub(len(queues))
        mood = min((job.mood for job in found), key=_WORST.index)
        state = next(job.state for job in found if job.mood == mood)
        rates = [job.rate for job in found if job.rate is not None]
        waits = sum(job.row.backlog or 0 for job in found)
        need = sum(job.mood == "need" for job in found)
        parts = [f"{number(len(found))} job{'' if len(found) == 1 else 's'}"]
        parts += [f"{need} need you"] if need else []
        parts += [rate(sum(rates))] if any(rates) else []
        parts += [f"{number(waits)} waiting"] if waits else []
        link = source or target
        address = f"/?link={_quoted(link)}" if link else "/"
        builder.edges.append(
            Edge(
                parts[0],
                state,
                mood,
                any(job.moves for job in found),
                " · ".join(parts[1:]),
                f"{parts[0]} from {source or 'the hub'} to {target or 'the hub'}",
                address,
                start,
                end,
            )
        )
    return builder.finished()


def _hub_ends(job: JobLine) -> tuple[tuple[str, str], tuple[str, str]]:
    return (job.row.source, job.source_link), (job.row.destination, job.target_link)
