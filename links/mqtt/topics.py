"""What a foreign queue of an MQTT link says by itself: its topic or filter, and its options. Nobody is asked."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from mgw.links.contract import Direction, Domain, Endpoint
from mgw.links.mqtt.spec import SPEC
from mgw.links.options import parse
from mgw.transforms.errors import AdminError, ConfigInvalid
from mgw.transforms.mqtt.topic import TopicTemplate, check_filter, split_shared

__all__ = ["check", "options_of", "refusal", "template_of"]


def check(endpoint: Endpoint, direction: Direction | None) -> None:
    """Whether it can be used so; see :meth:`mgw.links.contract.Link.check_endpoint`."""
    options = options_of(endpoint)
    group, topic_filter = split_shared(endpoint.provider_queue)
    if group is not None:
        if not group or not topic_filter or "+" in group or "#" in group:
            raise refusal(endpoint, "it is not a shared subscription", "write $share/<group>/<topic filter>")
        if direction is Direction.OUTBOUND:
            raise refusal(endpoint, "a shared subscription cannot be written to", "register the topic itself")
    elif endpoint.domain is Domain.QUEUE and direction is not Direction.OUTBOUND:
        raise refusal(
            endpoint,
            "a topic delivers every message to every subscriber; only a shared subscription acts as a queue",
            "register it as $share/<group>/<topic filter>, or with domain TOPIC",
        )
    if direction is Direction.OUTBOUND:
        template_of(endpoint, options)
        return
    reason = check_filter(topic_filter)
    if reason:
        raise refusal(endpoint, reason, "correct the topic filter")


def options_of(endpoint: Endpoint) -> dict[str, Any]:
    """Its options, with defaults; ``mqtt_qos`` is a number.

    Raises:
        AdminError: one of them cannot be used.
    """
    try:
        options = parse(SPEC.queue_options, endpoint.options, f"foreign queue {endpoint.full_name}")
    except ConfigInvalid as error:
        raise AdminError(error.what, cause=error.cause, cure=error.cure) from error
    qos = str(options["mqtt_qos"]).strip()
    if qos == "2":
        raise refusal(
            endpoint,
            "MQTT_Qos = 2 loses messages when a client dies between its two acknowledgements",
            "use MQTT_Qos = 1; messages published at QoS 2 arrive all the same",
        )
    if qos not in ("0", "1"):
        raise refusal(endpoint, f"MQTT_Qos cannot be {qos!r}", "use 1, or 0 to accept at-most-once")
    options["mqtt_qos"] = int(qos)
    return options


def template_of(endpoint: Endpoint, options: Mapping[str, Any]) -> TopicTemplate:
    """The topic that a destination publishes to.

    Raises:
        AdminError: nothing can be published to it.
    """
    try:
        template = TopicTemplate(endpoint.provider_queue)
    except ValueError as error:
        raise refusal(endpoint, f"as destination, {error}", "register the topic to publish to") from error
    if options["mqtt_topicfrom"] == "HEADER" and template.fixed is None:
        raise refusal(
            endpoint,
            "MQTT_TopicFrom = HEADER needs a fixed topic; the header may choose one below it",
            "remove the placeholders, or the option",
        )
    return template


def refusal(endpoint: Endpoint, cause: str, cure: str) -> AdminError:
    """Why a foreign queue cannot be used."""
    return AdminError(
        f"foreign queue {endpoint.full_name} ({endpoint.provider_queue!r}) cannot be used", cause=cause, cure=cure
    )
