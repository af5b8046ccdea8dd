"""What a guarantee rests on at RabbitMQ: properties of a queue or an exchange, as the broker has them now.

AMQP tells nobody the properties of a queue. But declaring one that exists compares them, and the refusal names the
first that differs, with its value; so they are found out one by one. Each question carries an argument that none can
have (``_IMPOSSIBLE``, ``_NO_EXCHANGE``): should the queue or exchange be gone meanwhile, the broker refuses to create
it.

Policies are not part of that comparison. They are read from the management API where the link names it.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from pika import exceptions

from mgw.links.rabbitmq.connection import Session
from mgw.links.rabbitmq.management import Policies

__all__ = ["Answers", "ExchangeFacts", "QueueFacts", "difference_of_queue", "look_at_exchange", "look_at_queue"]

_TYPE, _QUORUM = "x-queue-type", "quorum"
_RELAXED_SINCE = (3, 11)  # brokers that may take a quorum queue for equal to a classic one
_IMPOSSIBLE = {"x-queue-leader-locator": "mgw-question"}
_NO_EXCHANGE = {"alternate-exchange": 0}
_QUESTIONS = 30  # a queue has fewer properties
_DIFFERS = re.compile(r"inequivalent arg '([^']+)' for (?:queue|exchange) ")
_IS_VALUE = re.compile(r"current is the value '(.*)' of type '([a-z]+)'$")
_IS = re.compile(r"current is '([^']*)'$")
_QUORUM_LIMIT_SINCE = (4, 0)  # from then on quorum queues drop a message after 20 deliveries unless told otherwise

#: Arguments that let a message leave a queue before it is acknowledged.
_LEAVING = ("message-ttl", "expires", "dead-letter-exchange", "max-length", "max-length-bytes", "delivery-limit")


@dataclass(frozen=True, slots=True)
class QueueFacts:
    """A queue as the broker has it. ``settings``: argument without ``x-`` -> value and where it comes from."""

    name: str
    known: bool = True  # False: the user has no permission to ask (configure)
    type: str = "classic"
    durable: bool = True
    auto_delete: bool = False
    settings: Mapping[str, tuple[str, str]] = field(default_factory=dict)
    policies: Policies = field(default_factory=Policies)
    version: tuple[int, ...] = ()  # of the broker

    def _named(self, setting: str) -> str:
        value, origin = self.settings[setting]
        return f"{origin.format(setting=setting)} of queue {self.name} is {value}"

    @property
    def transient(self) -> str:
        """Why a restart of the broker, or a quiet time, takes the messages with the queue; "" if it does not."""
        if not self.durable:
            return f"queue {self.name} is not durable: a restart of the broker loses what is in it"
        if self.auto_delete:
            return f"queue {self.name} is auto-delete: it is removed with its messages when its last reader leaves"
        if "expires" in self.settings:
            return f"{self._named('expires')}: an unused queue is removed with its messages"
        return ""

    @property
    def leaves(self) -> str:
        """Why a message may leave the queue before it is acknowledged; "" if nothing says so."""
        if self.type == "stream":
            return ""
        for setting in _LEAVING:
            if setting in self.settings and not (setting == "delivery-limit" and self.settings[setting][0] == "-1"):
                return f"{self._named(setting)}: messages may leave it unacknowledged"
        if self.type == "quorum" and self.version >= _QUORUM_LIMIT_SINCE and "delivery-limit" not in self.settings:
            return f"quorum queue {self.name} drops a message after 20 deliveries (set x-delivery-limit to -1)"
        return ""

    @property
    def gives_up(self) -> str:
        """Why the queue drops messages that the job could not carry for a while; "" if it does not."""
        limit = self.delivery_limit if self.type == "quorum" else None
        if limit is None or "dead-letter-exchange" in self.settings:
            return ""
        return (
            f"quorum queue {self.name} drops a message after {limit} deliveries, and each connection that ends counts "
            "as one (x-delivery-limit -1 ends that; delivery-limit of a policy, too)"
        )

    @property
    def delivery_limit(self) -> int | None:
        """How often a quorum queue hands a message out before it drops the one that comes back; None: for ever."""
        default = "20" if self.version >= _QUORUM_LIMIT_SINCE else "-1"
        value = self.settings.get("delivery-limit", (default, ""))[0]
        return int(value) if value.isdecimal() else None

    @property
    def drops(self) -> str:
        """Why the queue may drop what it confirmed; "" if it does not."""
        limit = self._limit
        if limit and not self._overflow.startswith("reject-publish"):
            return f"{self._named(limit)}: a full queue drops its oldest messages"
        return ""

    @property
    def refuses(self) -> str:
        """Why the queue may refuse a part of a transaction; "" if it does not."""
        limit = self._limit
        if limit and self._overflow.startswith("reject-publish"):
            return f"{self._named(limit)} with overflow {self._overflow}: a full queue accepts only part of a batch"
        return ""

    @property
    def _limit(self) -> str:
        if self.type == "stream":
            return ""  # a stream keeps what is confirmed as long as its retention says, like any log
        return next((name for name in ("max-length", "max-length-bytes") if name in self.settings), "")

    @property
    def _overflow(self) -> str:
        return self.settings.get("overflow", ("drop-head", ""))[0]

    @property
    def single_active_consumer(self) -> bool:
        """Whether the broker gives messages to one consumer only, and to the next when that one is gone."""
        return self.settings.get("single-active-consumer", ("", ""))[0].lower() == "true"

    @property
    def unseen(self) -> str:
        """What could not be found out, for a note; "" if nothing."""
        if not self.known:
            return f"the arguments of queue {self.name} cannot be read (the user needs the configure permission)"
        return self.policies.unseen


@dataclass(frozen=True, slots=True)
class ExchangeFacts:
    """An exchange as the broker has it. ``alternate``: the exchange that takes what this one cannot route."""

    name: str
    alternate: str = ""
    origin: str = ""
    unseen: str = ""


class Answers:
    """What was found out before in an attempt of a job. Questions begin with it, because the broker logs an error for
    each that it refuses."""

    def __init__(self) -> None:
        self.streams: dict[str, bool] = {}
        self.queues: dict[str, tuple[bool, bool, dict[str, Any]]] = {}  # durable, auto-delete, arguments
        self.fenced: bool | None = None  # whether the job may declare its lock
        self.cluster: str | None = None  # the name that the broker gives its cluster
        self.untransacted: str | None = None  # why the job may not send in transactions, "" if it may


def look_at_queue(session: Session, name: str, policies: Policies, answers: Answers | None = None) -> QueueFacts:
    """Ask for a queue that exists.

    Raises:
        LinkError: the connection ended.
    """
    version = _version(session)
    answers = answers or Answers()
    # The type is named from the start: where the virtual host has a default one, the broker would compare that instead.
    # It is quorum, because a broker may be told to take a quorum queue for equal to a classic one (relaxed checks).
    durable, auto_delete, before = answers.queues.get(name, (True, False, {_TYPE: _QUORUM}))
    owner, arguments = {"auto_delete": auto_delete}, dict(before)
    told: set[str] = set()
    for _ in range(_QUESTIONS):
        text = _question(session, "queue", name, durable=durable, arguments={**arguments, **_IMPOSSIBLE}, **owner)
        if text is None:
            return QueueFacts(name, known=False, policies=policies, version=version)
        found = _DIFFERS.search(text)
        if found is None or found[1] in _IMPOSSIBLE or found[1] in told:
            break
        what = found[1]
        told.add(what)
        if what == _TYPE and answers.queues.pop(name, None):  # another queue by now; other types have other arguments
            return look_at_queue(session, name, policies, answers)
        if what == "durable":
            durable = not durable
        elif what in owner:
            owner[what] = not owner[what]
        elif not _learnt(arguments, what, text):
            return QueueFacts(name, known=False, policies=policies, version=version)
    answers.queues[name] = durable, owner["auto_delete"], dict(arguments)
    type_ = str(arguments.pop(_TYPE, "classic"))
    settings = {key.removeprefix("x-"): (str(value), "{setting}") for key, value in arguments.items()}
    narrowed = _with_policies(settings, policies, name, type_)
    return QueueFacts(name, True, type_, durable, owner["auto_delete"], narrowed, policies, version)


def _learnt(arguments: dict[str, Any], what: str, text: str) -> bool:
    """Note what the broker says of an argument; False: it says no value."""
    if what in arguments and text.endswith(" is none"):
        del arguments[what]
        if what == _TYPE:
            arguments[_TYPE] = "classic"
        return True
    value = _value(text)
    if value is not None:
        arguments[what] = value
    return value is not None


def difference_of_queue(session: Session, name: str, arguments: Mapping[str, Any]) -> str | None:
    """What the broker finds different in a durable queue with ``arguments``, "" if nothing, None if there is no queue.

    Never creates it, nor does it create again what somebody deletes meanwhile.

    Raises:
        LinkError: the user may not ask, or the connection ended.
    """
    with session.calling("connect"):
        channel = session.fresh_channel()
        try:
            channel.queue_declare(name, durable=True, arguments={**arguments, **_IMPOSSIBLE})
            channel.close()
        except exceptions.ChannelClosedByBroker as error:
            if error.reply_code != 406:
                raise
            text = error.reply_text or ""
            found = _DIFFERS.search(text)
            if found is None:
                return None
            if found[1] not in _IMPOSSIBLE:
                return text
        if _version(session) < _RELAXED_SINCE:
            return ""
        told = _question(session, "queue", name, durable=True, arguments={**arguments, _TYPE: _QUORUM, **_IMPOSSIBLE})
        found = _DIFFERS.search(told or "")
        return "" if found is None or found[1] not in _IMPOSSIBLE else "it is a quorum queue"


def look_at_exchange(session: Session, name: str, policies: Policies) -> ExchangeFacts:
    """Ask for an exchange that exists.

    Raises:
        LinkError: the connection ended.
    """
    alternate, origin = policies.of_exchange(name)
    facts = ExchangeFacts(name, alternate, origin, policies.unseen)
    kind, flags = "topic", {"durable": True, "auto_delete": False, "internal": False}
    for _ in range(_QUESTIONS):
        text = _question(session, "exchange", name, exchange_type=kind, arguments=_NO_EXCHANGE, **flags)
        if text is None:
            return replace(facts, unseen=f"the arguments of exchange {name} cannot be read (configure permission)")
        found = _DIFFERS.search(text)
        value = _value(text)
        if found is None:
            return facts
        if found[1] == "type" and value is not None:
            kind = str(value)
        elif found[1] in flags:
            flags[found[1]] = not flags[found[1]]
        elif found[1] == "alternate-exchange" and value is not None:
            return replace(facts, alternate=str(value), origin="its argument alternate-exchange")
        else:
            return facts
    return facts


def _question(session: Session, kind: str, name: str, **properties: Any) -> str | None:
    """What the broker finds different, "" if nothing, None if it does not let this user ask."""
    with session.calling("verify"):
        channel = session.fresh_channel()
        try:
            (channel.queue_declare if kind == "queue" else channel.exchange_declare)(name, **properties)
            channel.close()
        except exceptions.ChannelClosedByBroker as error:
            return (error.reply_text or "") if error.reply_code == 406 else None
        return ""


def _value(text: str) -> Any:
    """The value that the broker has, or None where it has none or the text was cut off."""
    if (found := _IS_VALUE.search(text)) is not None:
        if found[2] in {"longstr", "shortstr"}:
            return found[1]
        if found[2] in {"bool", "boolean"}:
            return found[1] == "true"
        return int(found[1]) if found[1].lstrip("-").isdecimal() else None
    found = _IS.search(text)
    return None if found is None else found[1]


def _with_policies(
    settings: Mapping[str, tuple[str, str]], policies: Policies, name: str, type_: str
) -> dict[str, tuple[str, str]]:
    """Arguments, and what policies add or narrow: of two limits the smaller one is in force."""
    result = dict(settings)
    for setting, (value, origin) in policies.of_queue(name, type_).items():
        held = result.get(setting, ("", ""))[0]
        if not held or (held.isdecimal() and value.isdecimal() and int(value) < int(held)):
            result[setting] = (value, origin)
    return result


def _version(session: Session) -> tuple[int, ...]:
    found = re.search(r"(\d+)\.(\d+)", session.server)
    return (int(found[1]), int(found[2])) if found else ()
