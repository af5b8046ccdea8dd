"""Modules and functions of Python that a hub may call: the list that its owner keeps."""

from __future__ import annotations

import re

from mgw.gateway.aq.admin.base import Administration
from mgw.gateway.aq.model import RuleFunction
from mgw.gateway.aq.payloads import transformations_sql
from mgw.gateway.aq.python_code import functions_sql
from mgw.gateway.aq.store.statements import Db
from mgw.transforms.errors import AqError, ConfigInvalid
from mgw.transforms.language.functions import check_name
from mgw.transforms.steps.registry import BUILTIN_MODULE, load_rule_function

__all__ = ["FunctionProcedures"]

_MODULE = re.compile(r"[A-Za-z_]\w*(?:\.[A-Za-z_]\w*)*")


class FunctionProcedures(Administration):
    """Allow modules, name functions for rules; part of :class:`mgw.gateway.aq.admin.QueueAdmin`.

    What is allowed here runs in every process that opens the hub, so only the hub's owner and holders of
    AQ_ADMINISTRATOR_ROLE may change it.
    """

    def allow_module(self, name: str) -> None:
        """Let transformations and rule functions call functions of a module, and of those below it.

        The module is not imported now, but by each process where something calls a function of it. Does nothing where
        it is allowed already.

        Args:
            name: ``module`` or ``package.module``; letter case matters.

        Raises:
            AqError: it is not the name of a module; 1031 the user may not.
        """
        if not isinstance(name, str) or not _MODULE.fullmatch(name):
            raise AqError(
                f"module {name!r} cannot be allowed",
                cause="it is not of the form package.module",
                cure="give the name under which Python imports the module",
            )
        with self.change() as conn:
            db = self._administer(Db(conn), f"allow module {name}")
            if name not in functions_sql.list_modules(db):
                functions_sql.insert_module(db, name, self.hub.clock.now())
                functions_sql.recompile(db)
                self._note(conn, "allow", "module", name, None, {"name": name})

    def forbid_module(self, name: str) -> None:
        """Take a module off the list. A process that has imported it keeps it loaded, and calls it no longer.

        Raises:
            AqError: it is not on the list, or a rule function or a transformation of the hub uses it; 1031 the user may
                not.
        """
        with self.change() as conn:
            db = self._administer(Db(conn), f"forbid module {name}")
            allowed = functions_sql.list_modules(db)
            if name not in allowed:
                raise AqError(
                    f"module {name} is not allowed",
                    cause=f"the allowed modules are: {', '.join(allowed) or 'none'}",
                    cure="correct the name",
                )
            self._refuse_module_in_use(db, name, [each for each in allowed if each != name])
            functions_sql.delete_module(db, name)
            functions_sql.recompile(db)
            self._note(conn, "forbid", "module", name, {"name": name})

    def modules(self) -> list[str]:
        """The allowed modules, by name; none for a user who is not an administrator."""
        with self.look() as db:
            return functions_sql.list_modules(db) if self._administers(db) else []

    def set_rule_function(self, name: str, function: str) -> RuleFunction:
        """Let rules and expressions of the hub call a Python function by a name; it replaces one of that name.

        The function is imported now, to see that it is there, and then by each process where something calls it.
        Its arguments and results are those of :func:`gateway.aq.conditions.rules.register_function`.
        A function that a process registers under the same name itself wins there.

        Args:
            name: ``name`` or ``schema.name`` as rules write it; letter case does not matter.
            function: ``package.module:function``, of a module that is allowed.

        Raises:
            AqError: the name cannot be used, the module is not allowed or cannot be imported, or it lacks the function;
                1031 the user may not.
        """
        item = RuleFunction(name, function)
        with self.change() as conn:
            db = self._administer(Db(conn), f"name function {name}")
            allowed = (*functions_sql.list_modules(db), *self.hub.transform_modules)
        try:
            check_name(name)
            load_rule_function(name, function, allowed)
        except ConfigInvalid as error:
            raise AqError(error.what, cause=error.cause, cure=error.cure) from error
        with self.change() as conn:
            db = Db(conn)
            before = _named(db, name)
            functions_sql.put_function(db, item, self.hub.clock.now())
            functions_sql.recompile(db)
            self._note(conn, "set", "rule function", name, before, _named(db, name))
        return item

    def drop_rule_function(self, name: str) -> None:
        """Remove a rule function. Rules that call it are refused from now on, with the name.

        Raises:
            AqError: there is none of that name; 1031 the user may not.
        """
        with self.change() as conn:
            db = self._administer(Db(conn), f"drop function {name}")
            before = _named(db, name)
            if not functions_sql.delete_function(db, name):
                known = ", ".join(each.name for each in functions_sql.list_functions(db))
                raise AqError(
                    f"rule function {name} does not exist",
                    cause=f"the functions are: {known or 'none'}",
                    cure="correct the name",
                )
            functions_sql.recompile(db)
            self._note(conn, "drop", "rule function", name, before)

    def rule_functions(self) -> list[RuleFunction]:
        """The functions that rules may call, by name; none for a user who is not an administrator."""
        with self.look() as db:
            return functions_sql.list_functions(db) if self._administers(db) else []

    def _administers(self, db: Db) -> bool:
        return self.rights is None or self.rights.administers(db)

    def _administer(self, db: Db, what: str) -> Db:
        if self.rights is not None:
            self.rights.require_administrator(db, what, manage_any=False)
        return db

    def _refuse_module_in_use(self, db: Db, name: str, others: list[str]) -> None:
        users = [f"function {each.name}" for each in functions_sql.list_functions(db) if _needs(each.function, name)]
        for item in transformations_sql.list_transformations(db):
            texts = [str((item.definition or {}).get("function") or ""), *item.expressions.values()]
            if any(_needs(text, name) for text in texts):
                users.append(f"transformation {item.full_name}")
        users = [] if any(name == each or name.startswith(f"{each}.") for each in others) else users
        if users:
            raise AqError(
                f"module {name} cannot be forbidden",
                cause=f"it is used by {', '.join(users[:5])}",
                cure="drop or alter those first",
            )


def _named(db: Db, name: str) -> dict[str, str] | None:
    """The function of a name as the audit has it."""
    found = functions_sql.functions_called(db, [name.upper()])
    return {"function": found[0][1]} if found else None


def _needs(function: str, module: str) -> bool:
    path = function.strip().partition(":")[0]
    return path != BUILTIN_MODULE and (path == module or path.startswith(f"{module}."))
