"""A message run through the mapping of a job, or through a transformation, by hand: nothing is stored or sent."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from io import StringIO
from typing import Any

from mgw.gateway.aq import Db, Hub, bound_functions, list_functions, list_modules, shown_key
from mgw.gateway.definitions.objects import TransformationDef
from mgw.gateway.runtime.conversions import conversion_of, into_queue, rule_of
from mgw.gateway.runtime.job_setup import LinkEnd, setup_of
from mgw.gateway.runtime.job_steps import Conversion
from mgw.gateway.services import lookup
from mgw.gateway.services.admin import GatewayAdmin
from mgw.gateway.state import catalog
from mgw.transforms.errors import ConfigInvalid, ConversionFailure, unforeseen
from mgw.transforms.message import Message
from mgw.transforms.payloads.written import message_of, written
from mgw.transforms.steps.registry import TransformationDefinition, compile_transformation, with_steps

__all__ = ["Outcome", "Trial", "of_job", "of_transformation", "read_message", "shown"]

_FORM = "write body: TEXT, headers: {NAME: VALUE}, ..."


@dataclass(frozen=True, slots=True)
class Outcome:
    """What became of one message.

    Attributes:
        given: the message as the job reads it; a queue of the hub may hold it in another form than it was given in.
        messages: what would be written, in order.
        filtered: what filtered it, empty where nothing did: ``the rule``, ``the transformation``.
        failure: why it would go to the exception queue, or None.
    """

    given: Message
    messages: Sequence[Message] = ()
    filtered: str = ""
    failure: ConversionFailure | None = None


@dataclass(frozen=True, slots=True)
class Trial:
    """A mapping; ``name`` is ``job J`` or ``transformation T``. ``source`` and ``target`` are the foreign ends of a
    job."""

    name: str
    stored: Callable[[Message], Message] | None
    rule: Conversion | None
    change: Conversion
    source: LinkEnd | None = None
    target: LinkEnd | None = None

    def run(self, message: Message) -> Outcome:
        """What becomes of a message. Never raises for what the message or the mapping is."""
        given = message
        try:
            if self.stored is not None:
                given = self.stored(message)
            if self.rule is not None and not self.rule.apply(given):
                return Outcome(given, filtered="the rule")
            results = self.change.apply(given)
        except Exception as error:  # as in a job: of whatever kind, it is the failure of this message
            return Outcome(given, failure=unforeseen(error))
        return Outcome(given, tuple(results), "" if results else "the transformation")


def of_job(hub: Hub, name: str) -> Trial:
    """Rule, conversion and transformation of a job.

    The message is given in canonical form: what the source's link makes of a message of its broker, or what an
    application puts into the queue of the hub that the job reads.

    Raises:
        NotFound: there is no job of that name.
        GatewayError: a definition that it needs is missing or does not hold any more.
    """
    job = lookup.job(GatewayAdmin(hub), name)
    with hub.read() as conn:
        snapshot = catalog.load_snapshot(conn, job.agent, None)
    setup = setup_of(snapshot, snapshot.jobs[job.id], hub.hub_id, hub.clock)
    change = conversion_of(hub, hub.clock, setup)
    rule = rule_of(setup)
    stored = into_queue(hub, job.source) if setup.source is None else None
    only_rule = None if rule is None else Conversion(None, rule, None, inbound=True)
    return Trial(f"job {job.name}", stored, only_rule, replace(change, rule=None), setup.source, setup.target)


def of_transformation(hub: Hub, name: str) -> Trial:
    """A transformation as a job applies it.

    Raises:
        NotFound: there is none of that name.
        GatewayError: it cannot be compiled.
    """
    found = lookup.transformation(GatewayAdmin(hub), name)
    with hub.read() as conn:
        every = {shown_key(each.name): each for each in catalog.list_transformations(conn)}
        modules = (*hub.transform_modules, *list_modules(Db(conn)))
        functions = bound_functions(tuple((each.name.upper(), each.function) for each in list_functions(Db(conn))))

    def step(step_name: str) -> TransformationDefinition | None:
        known = every.get(shown_key(step_name))
        return None if known is None else _definition(known)

    definition = with_steps(_definition(found), step)
    transform = compile_transformation(definition, modules=modules, functions=functions)
    return Trial(f"transformation {found.name}", None, None, Conversion(None, None, transform, inbound=True))


def _definition(found: TransformationDef) -> TransformationDefinition:
    return TransformationDefinition.from_mapping(found.name, found.definition)


def read_message(text: str) -> Message:
    """A message in YAML or JSON, as in tests of mappings.

    Raises:
        ConfigInvalid: it is not one.
    """
    from pydantic import ValidationError
    from ruamel.yaml import YAML
    from ruamel.yaml.error import YAMLError

    from mgw.gateway.config.mapping_tests import MessageForm

    try:
        values = YAML(typ="safe", pure=True).load(StringIO(text))
        return message_of(MessageForm.model_validate(values).values())
    except YAMLError as error:
        raise ConfigInvalid("the message is not YAML", cause=str(error), cure=_FORM) from error
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        where = ".".join(map(str, first["loc"]))
        raise ConfigInvalid(f"{where or 'the message'}: {first['msg']}", cure=_FORM) from error
    except ConversionFailure as error:
        raise ConfigInvalid(error.what, cause=error.cause, cure=error.cure) from error


def shown(outcome: Outcome) -> dict[str, Any]:
    """An outcome for people and machines: ``before``, and one of ``after``, ``filtered`` and ``failure``."""
    result: dict[str, Any] = {"before": written(outcome.given)}
    if outcome.failure is not None:
        return result | {"failure": str(outcome.failure)}
    if outcome.filtered:
        return result | {"filtered": outcome.filtered}
    return result | {"after": [written(message) for message in outcome.messages]}
