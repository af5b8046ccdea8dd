"""What a job does to each message, made from its definitions."""

from __future__ import annotations

from mgw.gateway.aq import Hub, PayloadType, Rule, compile_rule, moved, transfer
from mgw.gateway.aq import bound_functions as bound
from mgw.gateway.aq import payload_forms as payloads
from mgw.gateway.definitions.job_options import max_passes, no_local, preserves_id
from mgw.gateway.runtime.job_setup import JobSetup
from mgw.gateway.runtime.job_steps import Conversion, Fit, Transform
from mgw.transforms.clock import Clock
from mgw.transforms.language.expression import Functions
from mgw.transforms.message import find_header
from mgw.transforms.no_local import NoLocal
from mgw.transforms.payloads.convert import fit_into, fit_out_of
from mgw.transforms.payloads.jms import JMS_ANY, KIND_HEADER
from mgw.transforms.steps.registry import compile_transformation
from mgw.transforms.trail import Trail

__all__ = ["conversion_of", "functions_of", "into_queue", "rule_of"]


def conversion_of(hub: Hub, clock: Clock, setup: JobSetup) -> Conversion:
    """Rule, conversion and transformation of a job. The rule of one that reads a queue of the hub is the hub's.

    Raises:
        GatewayError: a definition does not hold any more.
    """
    job, transform, trail = setup.job, _transform(hub, setup), _trail(hub, setup)
    if setup.source is not None:
        into = None if setup.target is not None else into_queue(hub, job.destination, preserve=preserves_id(job))
        local = NoLocal(hub.hub_id) if no_local(job) else None
        return Conversion(into, rule_of(setup), transform, inbound=setup.target is None, trail=trail, local=local)
    if setup.target is None:
        fit = into_queue(hub, job.destination)
        return Conversion(lambda message: fit(moved(message, clock.now())), None, transform, inbound=True, trail=trail)
    with hub.read() as conn:
        queue = transfer.resolve(conn, job.source)
    fit = fit_out_of(
        payloads.jms_type_of(queue) or queue.payload_type, typed=transform is not None, preserve=preserves_id(job)
    )
    return Conversion(fit, None, transform, inbound=False, trail=trail)


def rule_of(setup: JobSetup) -> Rule | None:
    """The rule of a job."""
    return compile_rule(setup.job.rule, bindings=_bindings(setup)) if setup.job.rule else None


def into_queue(hub: Hub, name: str, *, preserve: bool = False) -> Fit:
    """Makes a message fit the payload type of a queue of the hub; ``preserve``: a JMS message keeps the id it had."""
    with hub.read() as conn:
        queue = transfer.resolve(conn, name)
        declared = payloads.object_type_of(conn, queue)
    holds = payloads.jms_type_of(queue) or queue.payload_type
    fit = fit_into(holds, max_payload=queue.max_payload, declared=declared, preserve=preserve)
    if holds != PayloadType.ANYDATA or not queue.jms_types:
        return fit
    jms = fit_into(JMS_ANY, preserve=preserve)
    return lambda message: (fit if find_header(message.headers, KIND_HEADER) is None else jms)(message)


def _transform(hub: Hub, setup: JobSetup) -> Transform | None:
    if setup.transformation is None:
        return None
    modules, functions = (*hub.transform_modules, *setup.modules), functions_of(setup)
    return compile_transformation(setup.transformation, job=setup.job.name, modules=modules, functions=functions)


def _trail(hub: Hub, setup: JobSetup) -> Trail | None:
    passes = max_passes(setup.job)
    return Trail(setup.job.name, hub.hub_id.hex(), passes) if passes else None


def functions_of(setup: JobSetup) -> Functions:
    """What expressions of the job may call in addition to the functions of the language."""
    return bound(_bindings(setup))


def _bindings(setup: JobSetup) -> tuple[tuple[str, str], ...]:
    """The functions that rules and transformations may call, by name."""
    return tuple((each.name.upper(), each.function) for each in setup.functions)
