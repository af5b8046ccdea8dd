"""Finds what lives as long as the process: module-level names, and attributes of classes, that functions change."""

from __future__ import annotations

import ast
import functools
from collections.abc import Iterator, Sequence
from pathlib import Path

__all__ = ["kept_by_modules"]

#: Methods that change a container, and the fewest arguments that they take: ``insert()`` is one of a SQLAlchemy table.
_CHANGING = {
    **dict.fromkeys(("clear", "pop", "popitem", "popleft", "sort", "reverse"), 0),
    **dict.fromkeys(("add", "append", "appendleft", "discard", "extend", "extendleft", "remove", "setdefault"), 1),
    **dict.fromkeys(("move_to_end", "subtract", "update", "difference_update", "intersection_update"), 1),
    "insert": 2,
}
_Function = ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda
_FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)
_MAKING = {"__init__", "__new__", "__post_init__"}


class _Module:
    """One module: what it assigns, defines and imports at its top level."""

    def __init__(self, path: str, name: str, tree: ast.Module) -> None:
        self.path = path
        self.tree = tree
        self.assigned = {each.id: value for each, value in _assignments(tree.body)}
        self.classes = {node.name: node for node in tree.body if isinstance(node, ast.ClassDef)}
        self.imported: dict[str, tuple[str, str]] = {}  # name here -> module, and name there or ""
        for node in ast.walk(tree):
            if isinstance(node, ast.ImportFrom) and not node.level:
                for alias in node.names:
                    self.imported[alias.asname or alias.name] = (node.module or "", alias.name)
            elif isinstance(node, ast.Import):
                for alias in node.names:
                    if alias.asname:
                        self.imported[alias.asname] = (alias.name, "")
        self.name = name


def kept_by_modules(root: Path, packages: Sequence[str], top: str = "mgw") -> dict[str, set[int]]:
    """What functions change and lives as long as the process, as ``path name``, and the lines where that happens.

    Found are containers and objects at module level, ``global`` names, attributes of classes, and objects at module
    level of a class that changes itself.
    """
    modules = {}
    for path in sorted(path for package in packages for path in (root / package).rglob("*.py")):
        inner = path.relative_to(root)
        name = ".".join((top, *inner.with_suffix("").parts)).removesuffix(".__init__")
        modules[name] = _Module(str(inner), name, ast.parse(path.read_text(), str(path)))
    found: dict[str, set[int]] = {}
    for module in modules.values():
        for where, line in (*_changed(module, modules), *_living(module, modules)):
            found.setdefault(where, set()).add(line)
    return found


def _assignments(body: Sequence[ast.stmt]) -> Iterator[tuple[ast.Name, ast.expr | None]]:
    for node in body:
        targets = node.targets if isinstance(node, ast.Assign) else [getattr(node, "target", None)]
        if isinstance(node, ast.Assign | ast.AnnAssign):
            yield from ((target, node.value) for target in targets if isinstance(target, ast.Name))


def _changed(module: _Module, modules: dict[str, _Module]) -> Iterator[tuple[str, int]]:
    """Places outside functions that functions of a module write to."""

    def look(node: ast.AST, local: frozenset[str], inside: ast.ClassDef | None, *, running: bool) -> Iterator[_Found]:
        if isinstance(node, ast.ClassDef):
            inside = node
        if isinstance(node, _FUNCTIONS):
            names, shared = _names_of(node)
            yield from ((f"{module.path} {name}", node.lineno) for name in shared)
            local, running = (local | names) - shared, True
        elif running and (target := _target(node)) is not None:
            where = _place(target, local, module, modules, inside)
            if where is not None:
                yield where, getattr(node, "lineno", 0)
        for child in ast.iter_child_nodes(node):
            yield from look(child, local, inside, running=running)

    return look(module.tree, frozenset(), None, running=False)


_Found = tuple[str, int]


def _names_of(function: _Function) -> tuple[set[str], set[str]]:
    """Names local to a function, and those that it declares global and assigns."""
    arguments = function.args
    every = (*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs, arguments.vararg, arguments.kwarg)
    names = {each.arg for each in every if each is not None}
    shared: set[str] = set()
    rest: list[ast.AST] = list(function.body) if isinstance(function.body, list) else [function.body]
    while rest:
        node = rest.pop()
        if isinstance(node, ast.Global):
            shared.update(node.names)
        elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            names.add(node.id)
        elif isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            names.add(node.name)
            continue
        if not isinstance(node, ast.Lambda):
            rest += ast.iter_child_nodes(node)
    return names, shared


def _target(node: ast.AST) -> ast.expr | None:
    """What a statement or call changes in place."""
    if isinstance(node, ast.Subscript | ast.Attribute) and isinstance(node.ctx, ast.Store | ast.Del):
        return node if isinstance(node, ast.Attribute) else node.value
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
        fewest = _CHANGING.get(node.func.attr)
        if fewest is not None and len(node.args) + len(node.keywords) >= fewest:
            return node.func.value
    return None


def _place(
    target: ast.expr, local: frozenset[str], module: _Module, modules: dict[str, _Module], inside: ast.ClassDef | None
) -> str | None:
    """The module-level name or class attribute that a change reaches; None: it reaches none."""
    chain: list[str] = []
    while isinstance(target, ast.Attribute | ast.Subscript):
        if isinstance(target, ast.Attribute):
            chain.append(target.attr)
        target = target.value
    if not isinstance(target, ast.Name):
        return None
    name, chain = target.id, chain[::-1]
    if name in {"cls", "self"} and inside is not None and chain:
        reached = name == "cls" or chain[0] in _shared_attributes(inside) - _own_attributes(inside)
        return f"{module.path} {inside.name}.{chain[0]}" if reached else None
    if name in local:
        return None
    if name in module.imported:
        source, there = module.imported[name]
        whole = modules.get(f"{source}.{there}".rstrip("."))
        if whole is not None and chain:
            return f"{whole.path} {chain[0]}" if chain[0] in whole.assigned else None
        owner = modules.get(source)
        return _name_in(owner, there, chain) if owner is not None else None
    return _name_in(module, name, chain)


def _name_in(module: _Module, name: str, chain: list[str]) -> str | None:
    if name in module.assigned:
        return f"{module.path} {name}"
    if name in module.classes and chain:
        return f"{module.path} {name}.{chain[0]}"
    return None


def _of_the_class(node: ast.stmt) -> bool:
    """Whether an assignment in the body of a class is one for all its objects, not a field of each."""
    return not isinstance(node, ast.AnnAssign) or "ClassVar" in ast.unparse(node.annotation)


@functools.cache
def _shared_attributes(node: ast.ClassDef) -> set[str]:
    """Attributes that the body of a class gives all its objects."""
    return {each.id for each, _ in _assignments([each for each in node.body if _of_the_class(each)])}


@functools.cache
def _own_attributes(node: ast.ClassDef) -> set[str]:
    """Attributes that the methods of a class give each object."""
    return {
        each.attr
        for each in ast.walk(node)
        if isinstance(each, ast.Attribute)
        and isinstance(each.ctx, ast.Store)
        and isinstance(each.value, ast.Name)
        and each.value.id == "self"
    }


def _living(module: _Module, modules: dict[str, _Module]) -> Iterator[_Found]:
    """Objects at module level of a class that changes itself after it was made."""
    for name, value in module.assigned.items():
        if not isinstance(value, ast.Call) or not isinstance(value.func, ast.Name):
            continue
        source, there = module.imported.get(value.func.id, (module.name, value.func.id))
        owner = modules.get(source)
        made = owner.classes.get(there) if owner is not None else None
        if made is not None and any(_changes_itself(method) for method in made.body):
            yield f"{module.path} {name}", value.lineno


def _changes_itself(method: ast.stmt) -> bool:
    if not isinstance(method, ast.FunctionDef | ast.AsyncFunctionDef) or method.name in _MAKING:
        return False
    for node in ast.walk(method):
        target = _target(node)
        while isinstance(target, ast.Attribute | ast.Subscript):
            target = target.value
        if isinstance(target, ast.Name) and target.id == "self":
            return True
    return False
