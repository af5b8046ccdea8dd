"""Grants and AQ agents, as configurations describe them.

What users passed on by themselves, through a grant option, is theirs: it is neither shown in a configuration nor
touched by one, but falls with the grant it came from.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from mgw.gateway.aq import AqAgent, QueueAdmin, qualified
from mgw.gateway.config.fields import QueueGrant, SystemGrant
from mgw.gateway.config.forms import user_key
from mgw.gateway.config.models import AqAgentModel, GrantModel
from mgw.gateway.definitions.objects import key
from mgw.transforms.errors import AqError

__all__ = ["agent_settings", "grant_settings", "read_agents", "read_grants", "set_agent", "set_grants"]

_GRANT_OPTION, _ADMIN_OPTION = " WITH GRANT OPTION", " WITH ADMIN OPTION"


class _Privilege(NamedTuple):
    """One thing that is granted: a role, a privilege on everything, one on a queue, or EXECUTE on an object type."""

    role: str = ""
    name: str = ""
    queue: str = ""
    object_type: str = ""

    def __str__(self) -> str:
        if self.role:
            return f"role {self.role}"
        if self.object_type:
            return f"EXECUTE on {self.object_type}"
        return f"{self.name} on {self.queue}" if self.queue else self.name


def grant_settings(model: GrantModel) -> dict[str, str]:
    """What a grantee holds, one setting per privilege."""
    return {str(each): "with option" if option else "granted" for each, option in _flat(model).items()}


def agent_settings(model: AqAgentModel) -> dict[str, object]:
    """Attributes of an AQ agent, its users in a form that compares."""
    return model.model_dump() | {"users": sorted({user_key(user) for user in model.users})}


def _flat(model: GrantModel) -> dict[_Privilege, bool]:
    """Every privilege, and whether it comes with its option."""
    found = {_Privilege(role=user_key(role)): False for role in model.roles}
    for privilege in model.system_privileges:
        found[_Privilege(name=privilege.removesuffix(_ADMIN_OPTION))] = privilege.endswith(_ADMIN_OPTION)
    for queue, privileges in model.queues.items():
        for each in privileges:
            word, option = each.removesuffix(_GRANT_OPTION), each.endswith(_GRANT_OPTION)
            for name in ("ENQUEUE", "DEQUEUE") if word == "ALL" else (word,):
                one = _Privilege(name=name, queue=_comparable(queue))
                found[one] = option or found.get(one, False)
    return found | {_Privilege(object_type=_comparable(each)): False for each in model.object_types}


def _comparable(name: str) -> str:
    """The name of a queue or type in a form that compares, and is a name."""
    try:
        return qualified(name).shown.upper()
    except AqError:
        return key(name)


def read_grants(admin: QueueAdmin, only: str | None = None) -> dict[str, GrantModel]:
    """What the owners of queues and the owner of the hub granted, by grantee; ``only``: to one of them."""
    names: dict[str, str] = {}
    roles: dict[str, list[str]] = {}
    system: dict[str, list[SystemGrant]] = {}
    queues: dict[str, dict[str, list[QueueGrant]]] = {}
    for member in admin.roles():
        roles.setdefault(_remember(names, member.grantee), []).append(member.role)
    for one in admin.system_privileges():
        text: SystemGrant = f"{one.privilege}{_ADMIN_OPTION if one.admin_option else ''}"  # type: ignore[assignment]
        system.setdefault(_remember(names, one.grantee), []).append(text)
    for each in admin.queue_privileges():
        if key(each.grantor) != key(each.owner):
            continue
        held = queues.setdefault(_remember(names, each.grantee), {}).setdefault(each.queue, [])
        for word, level in (("ENQUEUE", each.enqueue), ("DEQUEUE", each.dequeue)):
            if level:
                held.append(f"{word}{_GRANT_OPTION if level == 2 else ''}")  # type: ignore[arg-type]
    types: dict[str, list[str]] = {}
    for grant in admin.type_privileges():
        types.setdefault(_remember(names, grant.grantee), []).append(grant.type)
    return {
        name: GrantModel(
            roles=roles.get(folded, []),
            system_privileges=system.get(folded, []),
            queues=queues.get(folded, {}),
            object_types=types.get(folded, []),
        )
        for folded, name in sorted(names.items())
        if only is None or folded == user_key(only)
    }


def _remember(names: dict[str, str], name: str) -> str:
    names.setdefault(key(name), name)
    return key(name)


def set_grants(admin: QueueAdmin, name: str, wanted: GrantModel, *, new: bool = False) -> None:
    """Grant and revoke until a grantee holds exactly this; ``new``: the grantee holds nothing yet.

    Raises:
        AqError: refused.
    """
    held = GrantModel() if new else next(iter(read_grants(admin, name).values()), GrantModel())
    before, after = _flat(held), _flat(wanted)
    for each, option in before.items():
        if each not in after or (option and not after[each]):  # an option goes with its privilege only
            _revoke(admin, each, name)
    for each, option in after.items():
        if before.get(each) is not option:
            _grant(admin, each, name, option)


def _grant(admin: QueueAdmin, privilege: _Privilege, grantee: str, option: bool) -> None:
    if privilege.role:
        admin.grant_role(privilege.role, grantee)
    elif privilege.object_type:
        admin.grant_type_privilege(privilege.object_type, grantee)
    elif privilege.queue:
        admin.grant_queue_privilege(privilege.name, privilege.queue, grantee, option)
    else:
        admin.grant_system_privilege(privilege.name, grantee, option)


def _revoke(admin: QueueAdmin, privilege: _Privilege, grantee: str) -> None:
    if privilege.role:
        admin.revoke_role(privilege.role, grantee)
    elif privilege.object_type:
        admin.revoke_type_privilege(privilege.object_type, grantee)
    elif privilege.queue:
        admin.revoke_queue_privilege(privilege.name, privilege.queue, grantee)
    else:
        admin.revoke_system_privilege(privilege.name, grantee)


# -- agents ----------------------------------------------------------------------------------------------------------


def read_agents(admin: QueueAdmin) -> dict[str, AqAgentModel]:
    """AQ agents, without those that were only made for subscribers."""
    return {
        agent.name: AqAgentModel(
            users=list(agent.users),
            certificate_location=agent.certificate_location,
            enable_http=agent.enable_http,
            enable_anyp=agent.enable_anyp,
        )
        for agent in admin.aq_agents()
        if agent.users or not agent.automatic
    }


def set_agent(admin: QueueAdmin, name: str, wanted: AqAgentModel) -> None:
    """Make an AQ agent, or alter it, and map it to exactly these users.

    Raises:
        AqError: refused.
    """
    known = _find(admin.aq_agents(), name)
    save = admin.create_aq_agent if known is None else admin.alter_aq_agent
    save(name, wanted.certificate_location, wanted.enable_http, wanted.enable_anyp)
    held = {user_key(user): user for user in (known.users if known else ())}
    asked = {user_key(user): user for user in wanted.users}
    for user in held.keys() - asked.keys():
        admin.disable_db_access(name, held[user])
    for user in asked.keys() - held.keys():
        admin.enable_db_access(name, asked[user])


def _find(agents: Iterable[AqAgent], name: str) -> AqAgent | None:
    return next((agent for agent in agents if key(agent.name) == user_key(name)), None)
