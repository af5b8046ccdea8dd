"""Procedures on privileges and roles (AQ guide 12.2 §8.5)."""

from __future__ import annotations

from typing import Any

from mgw.gateway.aq.admin.base import Administration
from mgw.gateway.aq.errors import PrivilegeInvalid, PrivilegeMissing, QueueMissing
from mgw.gateway.aq.grants import (
    ADMINISTRATOR,
    OWNERS,
    PUBLIC,
    QueuePrivilege,
    QueueRight,
    RoleMember,
    SystemPrivilege,
    SystemRight,
    unfounded,
)
from mgw.gateway.aq.model import QueueRef
from mgw.gateway.aq.names import user_name
from mgw.gateway.aq.security import security_sql
from mgw.gateway.aq.store.statements import Db

__all__ = ["PrivilegeProcedures"]

_OWNER = "SYS"  # who granted what the hub's owner granted on no queue


class PrivilegeProcedures(Administration):
    """Grant and revoke. What the hub's owner and administrators grant on a queue counts as granted by its owner."""

    # -- privileges on queues --------------------------------------------------------------------------------------

    def grant_queue_privilege(self, privilege: str, queue_name: str, grantee: str, grant_option: bool = False) -> None:
        """Let a user or role use a queue (AQ guide 12.2 §8.5.3).

        A grant that is there already keeps its grant option.

        Args:
            privilege: ENQUEUE, DEQUEUE or ALL.
            grantee: a user, a role, or PUBLIC.
            grant_option: the grantee may grant it to others; not for roles and PUBLIC.

        Raises:
            AqError: 24066 no such privilege, or a grant option for a role; 24010 unknown queue; 1031 the user of this
                administration neither owns the queue nor administers the hub nor holds the privilege with grant option.
        """
        rights = _queue_rights(privilege)
        name = user_name(grantee, what="grantee")
        with self.change() as conn:
            db = Db(conn)
            security_sql.changed(db)
            queue = self._grantable_queue(db, queue_name)
            grantor = self._grantor(db, queue, rights)
            if grant_option:
                _refuse_option_for_role(db, name)
            now = self.hub.clock.now()
            before = _held(db, queue, name, grantor)
            for right in rights:
                security_sql.upsert_grant(db, queue.id, right.value, name, grantor, grant_option, now)
            after = _held(db, queue, name, grantor)
            self._note(conn, "grant", "queue privilege", queue.full_name, before, after)

    def revoke_queue_privilege(self, privilege: str, queue_name: str, grantee: str) -> None:
        """Revoke what was granted, and what the grantee passed on (AQ guide 12.2 §8.5.4).

        Only the grantor may. Of ALL, whatever was granted is taken back.

        Raises:
            AqError: 24066 no such privilege, or this grantor did not grant it; 24010 unknown queue.
        """
        rights = _queue_rights(privilege)
        name = user_name(grantee, what="grantee")
        with self.change() as conn:
            db = Db(conn)
            security_sql.changed(db)
            queue = self._grantable_queue(db, queue_name)
            grantors = self._grantors(db, queue)
            owner = queue.schema.upper()
            before = _all_held(db, queue)
            found = False
            for right in rights:
                grants = security_sql.grants_on(db, queue.id, right.value)
                gone = {
                    grant.id for grant in grants if grant.grantee_key == name.upper() and grant.grantor_key in grantors
                }
                if gone:
                    found = True
                    left = [grant for grant in grants if grant.id not in gone]
                    security_sql.delete_grants(db, [*gone, *unfounded(owner, left)])
            if not found:
                raise PrivilegeInvalid(
                    f"privilege {privilege.upper()} on queue {queue.full_name} was not granted to {name}"
                    f" by {self.rights.user if self.rights else queue.schema}",
                    cause="only the user who granted a privilege can revoke it",
                    cure="have the grantor revoke it, or revoke the grant from which it was passed on",
                )
            after = _all_held(db, queue)
            for each in sorted(before):  # those included who had it from this grantee
                self._note(conn, "revoke", "queue privilege", queue.full_name, before[each], after.get(each))

    def queue_privileges(self, queue_name: str | None = None) -> list[QueuePrivilege]:
        """Grants on one queue, or on all; a user sees those on queues of the user, and those the user gave or got.

        Raises:
            AqError: 24010 unknown queue.
        """
        with self.look() as db:
            only = None if queue_name is None else self._grantable_queue(db, queue_name).id
            found = security_sql.list_queue_privileges(db, only)
            rights = self.rights
            if rights is None:
                return found
            names = rights.held(db).names
            return [
                each
                for each in found
                if rights.manages(db, each.owner) or each.grantee.upper() in names or each.grantor.upper() == rights.key
            ]

    def _grantable_queue(self, db: Db, queue_name: str) -> QueueRef:
        if self.rights is None:
            return self.need_queue(db, queue_name)
        return self.rights.visible_target(db, queue_name, self.schema, error=QueueMissing)

    def _grantors(self, db: Db, queue: QueueRef) -> set[str]:
        """Names under which the user of this administration may have granted privileges on the queue."""
        if self.rights is None:
            return {queue.schema.upper()}
        own = {self.rights.key}
        return own | {queue.schema.upper()} if self.rights.manages(db, queue.schema) else own

    def _grantor(self, db: Db, queue: QueueRef, rights: tuple[QueueRight, ...]) -> str:
        """In whose name a grant is made."""
        user = self.rights
        if user is None or user.manages(db, queue.schema):
            return queue.schema
        for right in rights:
            grants = security_sql.grants_on(db, queue.id, right.value)
            if not any(grant.grantee_key == user.key and grant.grantable for grant in grants):
                raise PrivilegeMissing(
                    f"user {user.user} may not grant {right.value} on queue {queue.full_name}",
                    cause="the user does not hold it with grant option",
                    cure=f"have {queue.schema} grant it, or grant it to {user.user} with grant_option",
                )
        return user.user

    # -- privileges on everything ----------------------------------------------------------------------------------

    def grant_system_privilege(self, privilege: str, grantee: str, admin_option: bool = False) -> None:
        """Let a user or role enqueue to, dequeue from or administer any queue (AQ guide 12.2 §8.5.1).

        A grant that is there already keeps its admin option.

        Args:
            privilege: ENQUEUE_ANY, DEQUEUE_ANY or MANAGE_ANY.
            grantee: a user, a role, or PUBLIC.
            admin_option: the grantee may grant it to others, and revoke it.

        Raises:
            AqError: 24066 no such privilege; 1031 the user of this administration neither administers the hub nor holds
                the privilege with admin option.
        """
        right = _system_right(privilege)
        name = user_name(grantee, what="grantee")
        with self.change() as conn:
            db = Db(conn)
            security_sql.changed(db)
            self._require_admin_option(db, right, "grant")
            held = security_sql.system_grant(db, right.value, name.upper())
            if held is not None and (held.grantable or not admin_option):
                return
            if held is not None:
                security_sql.delete_grants(db, [held.id])
            grantor = self.rights.user if self.rights else _OWNER
            security_sql.upsert_grant(db, 0, right.value, name, grantor, admin_option, self.hub.clock.now())
            before = None if held is None else _of_everything(name, option=held.grantable)
            given = _of_everything(name, option=admin_option)
            self._note(conn, "grant", "system privilege", right.value, before, given)

    def revoke_system_privilege(self, privilege: str, grantee: str) -> None:
        """Take a system privilege back, its admin option with it (AQ guide 12.2 §8.5.2).

        The admin option cannot be revoked alone. Those who got the privilege from the grantee keep it.

        Raises:
            AqError: 24066 no such privilege, or the grantee does not hold it; 1031 as for granting.
        """
        right = _system_right(privilege)
        name = user_name(grantee, what="grantee")
        with self.change() as conn:
            db = Db(conn)
            security_sql.changed(db)
            self._require_admin_option(db, right, "revoke")
            held = security_sql.system_grant(db, right.value, name.upper())
            if held is None:
                raise PrivilegeInvalid(
                    f"system privilege {right.value} was not granted to {name}",
                    cure="list what is granted: mgw aq privileges",
                )
            security_sql.delete_grants(db, [held.id])
            taken = _of_everything(name, option=held.grantable)
            self._note(conn, "revoke", "system privilege", right.value, taken)

    def system_privileges(self) -> list[SystemPrivilege]:
        """Every grant of a system privilege; a user who does not administer the hub sees only the user's own."""
        with self.look() as db:
            found = security_sql.list_system_privileges(db)
            if self.rights is None:
                return found
            held = self.rights.held(db)
            if ADMINISTRATOR in held.names:
                return found
            return [each for each in found if each.grantee.upper() in held.names]

    def _require_admin_option(self, db: Db, right: SystemRight, verb: str) -> None:
        user = self.rights
        if user is None or ADMINISTRATOR in user.held(db).names:
            return
        held = security_sql.system_grant(db, right.value, user.key)
        if held is None or not held.grantable:
            raise PrivilegeMissing(
                f"user {user.user} may not {verb} system privilege {right.value}",
                cause=f"the user holds neither the privilege with admin option nor {ADMINISTRATOR}",
                cure=f"ask the hub's owner or a holder of {ADMINISTRATOR} to do it",
            )

    # -- roles -----------------------------------------------------------------------------------------------------

    def grant_role(self, role: str, grantee: str) -> None:
        """Give a user, or another role, all that is granted to a role (AQ guide 12.2 §4.2.1).

        A role is a name that others hold; it need not be made first. AQ_ADMINISTRATOR_ROLE may do everything.

        Raises:
            AqError: 1031 the user of this administration does not hold AQ_ADMINISTRATOR_ROLE; 24066 PUBLIC, SYS and
                SYSTEM are not roles to grant, and no role holds itself.
        """
        name, holder = user_name(role, what="role"), user_name(grantee, what="grantee")
        with self.change() as conn:
            db = Db(conn)
            security_sql.changed(db)
            self._require_role_administrator(db, "grant a role")
            if name.upper() in OWNERS | {PUBLIC, holder.upper()}:
                raise PrivilegeInvalid(
                    f"role {name} cannot be granted to {holder}",
                    cause="everybody has PUBLIC, SYS and SYSTEM are not roles, and a role cannot hold itself",
                )
            grantor = self.rights.user if self.rights else _OWNER
            if security_sql.insert_role(db, name, holder, grantor, self.hub.clock.now()):
                self._note(conn, "grant", "role", name, None, {"grantee": holder})

    def revoke_role(self, role: str, grantee: str) -> None:
        """Take a role back.

        Raises:
            AqError: 1031 the user of this administration does not hold AQ_ADMINISTRATOR_ROLE; 24066 the grantee does
                not hold the role.
        """
        name, holder = user_name(role, what="role"), user_name(grantee, what="grantee")
        with self.change() as conn:
            db = Db(conn)
            security_sql.changed(db)
            self._require_role_administrator(db, "revoke a role")
            if not security_sql.delete_role(db, name, holder):
                raise PrivilegeInvalid(
                    f"role {name} was not granted to {holder}", cure="list what is granted: mgw aq privileges"
                )
            self._note(conn, "revoke", "role", name, {"grantee": holder})

    def roles(self) -> list[RoleMember]:
        """Every role with those who hold it; a user who does not administer the hub sees only the user's own."""
        with self.look() as db:
            found = security_sql.list_roles(db)
            if self.rights is None:
                return found
            names = self.rights.held(db).names
            return found if ADMINISTRATOR in names else [each for each in found if each.grantee.upper() in names]

    def _require_role_administrator(self, db: Db, what: str) -> None:
        if self.rights is not None:
            self.rights.require_administrator(db, what, manage_any=False)


def _all_held(db: Db, queue: QueueRef) -> dict[tuple[str, str], dict[str, Any]]:
    """What everybody may do with a queue, by grantee and grantor, as the audit has it."""
    return {
        (each.grantee.upper(), each.grantor.upper()): {
            "grantee": each.grantee,
            "enqueue": each.enqueue,
            "dequeue": each.dequeue,
            "grantor": each.grantor,
        }
        for each in security_sql.list_queue_privileges(db, queue.id)
    }


def _held(db: Db, queue: QueueRef, grantee: str, grantor: str) -> dict[str, Any] | None:
    return _all_held(db, queue).get((grantee.upper(), grantor.upper()))


def _of_everything(grantee: str, *, option: bool) -> dict[str, Any]:
    """A system privilege as the audit has it."""
    return {"grantee": grantee, "admin_option": option}


def _queue_rights(privilege: str) -> tuple[QueueRight, ...]:
    name = str(privilege).strip().upper()
    if name == "ALL":
        return (QueueRight.ENQUEUE, QueueRight.DEQUEUE)
    try:
        return (QueueRight(name),)
    except ValueError:
        raise PrivilegeInvalid(
            f"queue privilege {privilege!r} does not exist", cure="use ENQUEUE, DEQUEUE or ALL"
        ) from None


def _system_right(privilege: str) -> SystemRight:
    try:
        return SystemRight(str(privilege).strip().upper().replace(" ", "_"))
    except ValueError:
        raise PrivilegeInvalid(
            f"system privilege {privilege!r} does not exist",
            cause="it is none of ENQUEUE_ANY, DEQUEUE_ANY, MANAGE_ANY",
            cure="name one of them",
        ) from None


def _refuse_option_for_role(db: Db, grantee: str) -> None:
    if grantee.upper() in (PUBLIC, ADMINISTRATOR) or security_sql.is_role(db, grantee):
        raise PrivilegeInvalid(
            f"{grantee} cannot get a privilege with grant option",
            cause="it is a role, and a privilege that can be passed on needs one grantor",
            cure="leave the grant option out, or grant it to a user",
        )
