"""Which room of the house imports from which: read from the imports of a tree, judged by a list of rooms in order.

A room is a package with everything in it (``gateway/aq/store/``), or a module that stands for itself
(``transforms/errors.py``). A line of the list holds rooms side by side, that know nothing of each other; the lines go
from the ground up. An import is seen wherever it is: at the top, in a function, under TYPE_CHECKING,
or as ``import_module`` of a name that stands there.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

__all__ = ["Arrow", "House", "ordered"]

PACKAGES = ("transforms", "links", "gateway", "pipelines")


@dataclass(frozen=True)
class Arrow:
    """One module imports another.

    Attributes:
        source: the module that imports, as a path below the root.
        target: the module that is imported, likewise.
        line: where, in ``source``.
    """

    source: str
    target: str
    line: int

    def __str__(self) -> str:
        return f"{self.source} -> {self.target}"


def ordered(text: str) -> tuple[tuple[str, ...], ...]:
    """Rooms from a text: a line holds those side by side, the first line those above which all others stand."""
    return tuple(tuple(line.split()) for line in text.splitlines() if line.strip())


class House:
    """The modules of a tree and the arrows between them.

    Args:
        root: folder of the packages.
        prefix: import name above the packages, with its dot; "" for a tree in which they have none.
        packages: folders with the product's code.
    """

    def __init__(self, root: Path, *, prefix: str = "mgw.", packages: Sequence[str] = PACKAGES) -> None:
        self._root = root
        self.modules: dict[str, str] = {}  # dotted name -> path
        for package in packages:
            for path in sorted((root / package).rglob("*.py")):
                place = path.relative_to(root)
                parts = place.with_suffix("").parts
                self.modules[prefix + ".".join(parts[:-1] if parts[-1] == "__init__" else parts)] = place.as_posix()
        self.arrows = tuple(arrow for name in self.modules for arrow in self._arrows(name))

    def _arrows(self, name: str) -> Iterator[Arrow]:
        place = self.modules[name]
        seen = {name}
        for line, target in self._imports(name, place):
            if target in self.modules and target not in seen:
                seen.add(target)
                yield Arrow(place, self.modules[target], line)

    def _imports(self, name: str, place: str) -> Iterator[tuple[int, str]]:
        package = name.split(".") if place.endswith("__init__.py") else name.split(".")[:-1]
        for node in ast.walk(ast.parse((self._root / place).read_text(), place)):
            if isinstance(node, ast.Call) and _called(node) in {"import_module", "__import__"}:
                yield from ((node.lineno, str(each.value)) for each in node.args[:1] if isinstance(each, ast.Constant))
            elif isinstance(node, ast.Import):
                yield from ((node.lineno, alias.name) for alias in node.names)
            elif isinstance(node, ast.ImportFrom):
                base = node.module or ""
                if node.level:
                    base = ".".join([*package[: len(package) - node.level + 1], *filter(None, [node.module])])
                for alias in node.names:
                    inner = f"{base}.{alias.name}"
                    yield node.lineno, inner if inner in self.modules else base

    def circles(self) -> list[list[str]]:
        """Every largest set of modules that import each other, maybe by way of others of the set."""
        arrows: dict[str, set[str]] = {place: set() for place in self.modules.values()}
        for arrow in self.arrows:
            arrows[arrow.source].add(arrow.target)
        return _circles(arrows)

    def arrows_in_circles(self) -> list[Arrow]:
        """The arrows that are part of a circle."""
        circle = {place: number for number, circle in enumerate(self.circles()) for place in circle}
        return [a for a in self.arrows if a.source in circle and circle[a.source] == circle.get(a.target)]

    def arrows_that_run_up(self, rooms: Sequence[Sequence[str]]) -> list[Arrow]:
        """The arrows to a room above, or to one side by side with the own."""
        height = {room: number for number, line in enumerate(rooms) for room in line}
        home = {place: room_of(place, height) for place in self.modules.values()}
        found = []
        for arrow in self.arrows:
            own, other = home[arrow.source], home[arrow.target]
            if own is not None and other is not None and own != other and height[own] <= height[other]:
                found.append(arrow)
        return found

    def arrows_past_the_door(self, package: str, allowed: Sequence[str] = ()) -> list[Arrow]:
        """The arrows from outside of a package (``gateway/aq/``) to something in it that is not its ``__init__``.

        Args:
            allowed: other modules in it that may be imported, as paths.
        """
        open_to_all = {f"{package}__init__.py", *allowed}
        return [
            arrow
            for arrow in self.arrows
            if arrow.target.startswith(package)
            and not arrow.source.startswith(package)
            and arrow.target not in open_to_all
        ]

    def homeless(self, rooms: Sequence[Sequence[str]]) -> list[str]:
        """The modules that are in no room."""
        known = {room: 0 for line in rooms for room in line}
        return [place for place in self.modules.values() if room_of(place, known) is None]


def room_of(place: str, rooms: Mapping[str, int]) -> str | None:
    """The innermost room a module is in."""
    if place in rooms:
        return place
    parts = place.split("/")[:-1]
    for length in range(len(parts), 0, -1):
        room = "/".join(parts[:length]) + "/"
        if room in rooms:
            return room
    return None


def _called(node: ast.Call) -> str:
    """Name of a function that is called, without that of its module."""
    function = node.func
    return (
        function.attr if isinstance(function, ast.Attribute) else function.id if isinstance(function, ast.Name) else ""
    )


def _circles(arrows: Mapping[str, set[str]]) -> list[list[str]]:
    """Strongly connected components of more than one node (Tarjan), without recursion."""
    number: dict[str, int] = {}
    lowest: dict[str, int] = {}
    path: list[str] = []
    on_path: set[str] = set()
    found: list[list[str]] = []
    for start in arrows:
        if start in number:
            continue
        work: list[tuple[str, Iterator[str]]] = []
        _enter(start, arrows, number, lowest, path, on_path, work)
        while work:
            node, targets = work[-1]
            for target in targets:
                if target not in number:
                    _enter(target, arrows, number, lowest, path, on_path, work)
                    break
                if target in on_path:
                    lowest[node] = min(lowest[node], number[target])
            else:
                work.pop()
                if work:
                    lowest[work[-1][0]] = min(lowest[work[-1][0]], lowest[node])
                if lowest[node] == number[node]:
                    members = path[path.index(node) :]
                    del path[-len(members) :]
                    on_path.difference_update(members)
                    if len(members) > 1:
                        found.append(sorted(members))
    return found


def _enter(  # noqa: PLR0917
    node: str,
    arrows: Mapping[str, set[str]],
    number: dict[str, int],
    lowest: dict[str, int],
    path: list[str],
    on_path: set[str],
    work: list[tuple[str, Iterator[str]]],
) -> None:
    number[node] = lowest[node] = len(number)
    path.append(node)
    on_path.add(node)
    work.append((node, iter(sorted(arrows.get(node, ())))))
