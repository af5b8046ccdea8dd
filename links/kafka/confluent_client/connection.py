"""Instances of librdkafka, and answers that are waited for.

librdkafka connects in the background, tries again on its own account and says why only to a callback. :class:`Watch`
keeps the last reason, and a wait ends at once where trying again cannot help (password, certificate). Its log goes to
the logger ``confluent_kafka``, as notes: the job says itself what fails.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import Future
from concurrent.futures import wait as wait_for
from typing import Any, Final, TypeVar

from confluent_kafka import IsolationLevel, KafkaError, KafkaException, TopicPartition
from confluent_kafka.admin import AdminClient, ClusterMetadata, OffsetSpec

from mgw.links.client_logging import note_only
from mgw.links.kafka.client import Kind, Place
from mgw.links.kafka.confluent_client.errors import code_of, failure_of
from mgw.links.kafka.errors import translate, unreachable
from mgw.links.kafka.oauth import Tokens
from mgw.links.kafka.settings import Settings

__all__ = ["Admin", "Watch", "configuration"]

_T = TypeVar("_T")
_LOG: Final = logging.getLogger("confluent_kafka")
_SLICE: Final = 0.02  # seconds
_SOON: Final = 0.25  # seconds until a question for offsets is asked again, and twice as long each time
#: Answers about offsets that another server may give, or the same one a moment later.
_AGAIN: Final = frozenset(
    {
        KafkaError._TIMED_OUT,
        KafkaError._NOENT,  # no server leads one of the partitions, as far as the library knows
        KafkaError.NOT_LEADER_FOR_PARTITION,
        KafkaError.LEADER_NOT_AVAILABLE,
        KafkaError.UNKNOWN_LEADER_EPOCH,
        KafkaError.FENCED_LEADER_EPOCH,
        KafkaError.OFFSET_NOT_AVAILABLE,
    }
)
_WARNING: Final = 4  # level of syslog
_UNREACHED: Final = (Kind.TIMEOUT, Kind.UNREACHABLE)
_HOPELESS: Final = (Kind.LOGIN, Kind.MECHANISM, Kind.TLS)
note_only(_LOG.name)


class Watch:
    """Remembers why the last connection failed."""

    def __init__(self) -> None:
        self.last: KafkaException | None = None

    def __call__(self, error: KafkaError) -> None:
        """What librdkafka calls; that no server is left says less than why the last one went."""
        if error.code() != KafkaError._ALL_BROKERS_DOWN or self.last is None:
            self.last = KafkaException(error)

    @property
    def hopeless(self) -> bool:
        """Whether the next attempt will meet it again."""
        return self.last is not None and failure_of(self.last).kind in _HOPELESS


def configuration(settings: Settings, watch: Watch, client_id: str = "", **more: Any) -> dict[str, Any]:
    """What every instance is made with."""
    common = settings.common
    config: dict[str, Any] = {
        "bootstrap.servers": ",".join(settings.servers),
        "client.id": client_id or common["client_id"],
        "security.protocol": common["security_protocol"],
        "socket.timeout.ms": common["request_timeout_ms"],
        "socket.connection.setup.timeout.ms": max(1000, common["bootstrap_timeout_ms"]),
        "socket.nagle.disable": True,
        "topic.metadata.refresh.interval.ms": common["metadata_max_age_ms"],
        "reconnect.backoff.ms": 50,
        "reconnect.backoff.max.ms": common["reconnect_backoff_max_ms"],
        "retry.backoff.ms": 50,
        "allow.auto.create.topics": False,
        "enable.metrics.push": False,
        "log_level": _WARNING,
        "logger": _LOG,
        "error_cb": watch,
    }
    tls = settings.tls
    if common["security_protocol"].endswith("SSL"):
        config["ssl.ca.location"] = tls.ca_file or "probe"
        if not tls.verify:
            config["enable.ssl.certificate.verification"] = False
            config["ssl.endpoint.identification.algorithm"] = "none"
        if tls.cert_file:
            config["ssl.certificate.location"] = tls.cert_file
            config["ssl.key.location"] = tls.key_file or tls.cert_file
            config["ssl.key.password"] = tls.key_password or ""
    if settings.tokens is not None:
        config["sasl.mechanisms"] = common["sasl_mechanism"]
        config["oauth_cb"] = _Asked(settings.tokens)
        settings.tokens.token()  # what is wrong is told here; the library would go on asking
    elif common["security_protocol"].startswith("SASL"):
        config["sasl.mechanisms"] = common["sasl_mechanism"]
        config["sasl.username"] = common["sasl_plain_username"]
        config["sasl.password"] = str(common["sasl_plain_password"])
    return {**config, **{name.replace("_", "."): value for name, value in more.items()}}


class _Asked:
    """What the library calls when it needs a token; it asks again at four fifths of the time that it is told."""

    def __init__(self, tokens: Tokens) -> None:
        self._tokens = tokens

    def __call__(self, _config: str) -> tuple[str, float, str, dict[str, str]]:
        found = self._tokens.token()
        return found.value, found.expires, found.subject, dict(self._tokens.extensions)


class Admin:
    """Asks the cluster, and waits for the answer.

    librdkafka gives up all servers where one lists none: so answers the only one of a cluster at its start, and after a
    pause. Mostly it begins again at the bootstrap servers; now and then it asks nobody any more. So a question that
    stays without an answer is asked again by a new instance.
    """

    def __init__(self, settings: Settings, operation: str) -> None:
        self._settings = settings
        self._operation = operation
        self._begin()
        self._met = False
        self._seconds = settings.common["bootstrap_timeout_ms"] / 1000

    def _begin(self) -> None:
        self._watch = Watch()
        try:
            self.client = AdminClient(configuration(self._settings, self._watch))
        except Exception as error:
            raise translate(error, self._settings, self._operation, "the cluster") from error

    def _begin_again(self) -> None:
        if self._met:  # else it connects still, and the reason why it cannot is worth more than another attempt
            self._begin()

    @property
    def seconds(self) -> float:
        """How long an answer is waited for: the first one includes the connection."""
        return self._settings.timeout if self._met else self._seconds

    def ask(self, question: Callable[..., Mapping[Any, Future[_T]] | Future[_T]], *arguments: Any, **more: Any) -> _T:
        """The answer to one question.

        Raises:
            LinkError: no server answers, or one refused the login.
            KafkaException: what a server answered.
        """
        asked = question(*arguments, request_timeout=self.seconds, **more)
        future = asked if isinstance(asked, Future) else next(iter(asked.values()))
        try:
            return self._result(future)
        except KafkaException as error:
            raise self._meant(error) from error

    def offsets(self, places: Iterable[Place], spec: OffsetSpec, level: IsolationLevel) -> dict[Place, int]:
        """Where partitions begin or end for such readers.

        The library looks for the servers that lead them once, and says nothing for the whole time where it is not known
        yet, as for a topic that was just created. So a question that is not answered soon is asked again.

        Raises:
            LinkError, KafkaException: see :meth:`ask`.
        """
        wanted = {TopicPartition(*place): spec for place in places}
        if not wanted:
            return {}
        deadline = time.monotonic() + self.seconds
        patience = _SOON
        while True:
            left = deadline - time.monotonic()
            asked = self.client.list_offsets(
                wanted, isolation_level=level, request_timeout=max(_SOON, min(patience, left))
            )
            try:
                return {Place(each.topic, each.partition): int(self._result(of).offset) for each, of in asked.items()}
            except KafkaException as error:
                found = code_of(error)
                if found is None or not (found.retriable() or found.code() in _AGAIN) or time.monotonic() >= deadline:
                    raise self._meant(error) from error
                if failure_of(error).kind in _UNREACHED:
                    self._begin_again()
            time.sleep(_SLICE)
            patience *= 2

    def metadata(self, topic: str) -> ClusterMetadata:
        """What a server knows of the cluster and of this topic, whether that exists or not.

        ``describe_cluster`` of librdkafka is no way to ask: an assertion in it ends the whole process when the answer
        lists no server. So answers the only server of a cluster until the controller lets it in (again): at its start,
        and after it was paused for longer than ``broker.session.timeout.ms``.

        Raises:
            LinkError: no server answers, or one refused the login.
        """
        deadline = time.monotonic() + self.seconds
        patience = _SOON
        while True:
            left = deadline - time.monotonic()
            try:
                found = self.client.list_topics(topic, timeout=max(_SLICE, min(patience, left)))
            except KafkaException as error:
                self._check_hope()
                if failure_of(error).kind not in _UNREACHED or time.monotonic() >= deadline:
                    raise self._meant(error) from error
                self._begin_again()
            else:
                self._met = True
                return found
            time.sleep(_SLICE)
            patience *= 2

    def _check_hope(self) -> None:
        self.client.poll(0)
        if not self._met and self._watch.hopeless:
            assert self._watch.last is not None  # noqa: S101 - hopeless
            raise unreachable(self._settings, self._operation, self._watch.last)

    def _result(self, future: Future[_T]) -> _T:
        deadline = time.monotonic() + self.seconds + 1.0
        while True:
            wait_for([future], _SLICE)
            if future.done():
                break
            self._check_hope()
            if time.monotonic() > deadline:
                raise KafkaException(KafkaError(KafkaError._TIMED_OUT))
        answer = future.result()
        self._met = True
        return answer

    def _meant(self, error: BaseException) -> BaseException:
        found = code_of(error)
        if found is not None and found.code() in (KafkaError._TIMED_OUT, KafkaError._TRANSPORT):
            self.client.poll(0)
            return self._silent(error)
        return error

    def _silent(self, error: BaseException) -> BaseException:
        if self._met:
            return error
        return unreachable(self._settings, self._operation, self._watch.last or error, slow=self._watch.last is None)

    def close(self) -> None:
        """Give the instance up."""
        del self.client
