"""What RabbitMQ, pika and the network say, as our errors in plain words: the one place where it is translated."""

from __future__ import annotations

import re
import socket
import ssl
from typing import Any

from pika import exceptions
from pika.adapters.utils import connection_workflow as workflow

from mgw.links.contract import JobUse
from mgw.links.rabbitmq.settings import Settings
from mgw.links.tls import alert_in, cause_of, cure_for
from mgw.transforms.errors import (
    Blame,
    DeliveryRejected,
    LinkError,
    LinkRefused,
    LinkTimeout,
    LinkUnavailable,
    QueueMissing,
)
from mgw.transforms.open_files import shortage

__all__ = ["NO_TLS", "missing", "translate"]

NO_TLS = "check port and tls: this port speaks TLS only if the broker has it among listeners.ssl (5671)"

#: Precondition failed, frame and syntax errors, not implemented: what the same request meets again.
_FOR_EVER = frozenset({406, 501, 502, 503, 504, 505, 540})
_PRECONDITION_FAILED = 406
#: Reply codes about what was sent: precondition failed, frame and syntax errors, not allowed or implemented, internal.
_ABOUT_WHAT_WAS_SENT = frozenset((_PRECONDITION_FAILED, 501, 502, 503, 505, 540, 541))
_LIMIT = re.compile(r"(?:user )?connection limit \(\d+\) is reached")


def missing(use: JobUse, error: QueueMissing) -> QueueMissing:
    """The same error, about the foreign queue of a job; one about another queue stays as it is."""
    if type(error) is not QueueMissing:
        return error
    endpoint = use.endpoint
    return QueueMissing(
        f"foreign queue {endpoint.full_name}: {endpoint.provider_queue!r} does not exist in RabbitMQ",
        link=endpoint.link,
        operation=error.operation,
        cause=error.cause,
        cure=error.cure,
        number=error.number,
    )


def alarm(blocked: str) -> str:
    """The limit of a broker that says connection.blocked with this reason; empty: it does not."""
    return f"alarm of RabbitMQ: {blocked}" if blocked else ""


def translate(  # noqa: C901, PLR0912 - one branch per kind of failure
    error: BaseException, operation: str, settings: Settings, blocked: str = ""
) -> LinkError:
    """An error of pika or the system as a LinkError that names the broker, the cause and the cure."""
    cause = _root(error)
    kind: type[LinkError] = LinkUnavailable
    what = f"link {settings.link}: RabbitMQ at {settings.place} cannot be reached"
    reason, cure = str(cause) or type(cause).__name__, "check hostname, port and that the broker runs"
    if isinstance(cause, exceptions.ChannelClosedByBroker | exceptions.ConnectionClosedByBroker):
        kind, what, cure = _closed_by_broker(cause.reply_code, cause.reply_text, settings, operation)
        reason = cause.reply_text or f"reply code {cause.reply_code}"
    elif isinstance(cause, exceptions.AuthenticationError | exceptions.ProbableAuthenticationError):
        kind, what = (
            LinkRefused,
            f"link {settings.link}: RabbitMQ at {settings.place} refused user {settings.username!r}",
        )
        reason, cure = "user name or password is wrong", "set the link's username and password"
    elif isinstance(cause, exceptions.ProbableAccessDeniedError):
        kind, what = LinkRefused, _no_access(settings)
        reason, cure = "it does not exist, or the user has no permission there", "check virtual_host and permissions"
        if (full := _LIMIT.search(str(cause))) is not None:
            kind, what = LinkUnavailable, f"link {settings.link}: RabbitMQ at {settings.place} has no free connection"
            reason, cure = full[0], "raise that limit; each running job needs a second connection from time to time"
    elif isinstance(cause, exceptions.ConnectionBlockedTimeout):
        kind, what = LinkTimeout, f"link {settings.link}: RabbitMQ at {settings.place} accepts no messages"
        reason = f"blocked for {settings.blocked_timeout:g} s by an alarm ({blocked or 'memory or disk'})"
        cure = "free memory or disk space at the broker"
    elif isinstance(cause, exceptions.AMQPHeartbeatTimeout | workflow.AMQPConnectorStackTimeout | TimeoutError):
        kind, what = LinkTimeout, f"link {settings.link}: RabbitMQ at {settings.place} does not respond"
        reason, cure = reason or "timed out", "check the network and the broker"
    elif isinstance(cause, ssl.SSLError) or alert_in(str(cause)):
        kind, what = LinkRefused, f"link {settings.link}: no TLS connection to RabbitMQ at {settings.place}"
        reason = alert_in(str(cause)) or cause_of(cause)
        cure = cure_for(reason, host="hostname", no_tls=NO_TLS)
    elif isinstance(cause, socket.gaierror):
        reason, cure = f"the name {settings.hostname!r} is unknown", "correct hostname"
    elif isinstance(cause, ConnectionRefusedError):
        reason = "nothing listens there (connection refused)"
    elif isinstance(cause, exceptions.IncompatibleProtocolError):
        reason, cure = "what answers there does not speak AMQP 0-9-1", "check port and tls (5672 plain, 5671 TLS)"
        if settings.tls.on:
            cure += ", and whether the broker requires another client certificate (tls_cert_file)"
    elif operation != "connect":
        what = f"link {settings.link}: the connection to RabbitMQ at {settings.place} was lost"
    if found := _no_file(error, cause, kind):
        kind, what = (
            LinkUnavailable,
            f"link {settings.link}: no connection to RabbitMQ at {settings.place} can be opened",
        )
        reason, cure = found
    failed = kind(what, link=settings.link, operation=operation, cause=reason, cure=cure)
    if isinstance(failed, LinkTimeout) and isinstance(cause, exceptions.ConnectionBlockedTimeout):
        failed.limited(alarm(blocked or "memory or disk"))
    if isinstance(failed, DeliveryRejected) and "partial tx" not in reason:
        failed.number = 805
        failed.blame = Blame.MESSAGE if getattr(cause, "reply_code", 0) == _PRECONDITION_FAILED else Blame.UNKNOWN
    elif isinstance(failed, QueueMissing):
        failed.number = 434
    return failed


def _no_file(error: BaseException, cause: BaseException, kind: type[LinkError]) -> tuple[str, str] | None:
    """Cause and cure where no more files could be opened; what the broker said itself has another reason."""
    told = exceptions.ChannelClosedByBroker | exceptions.ConnectionClosedByBroker | exceptions.ConnectionBlockedTimeout
    if isinstance(cause, told | exceptions.ProbableAccessDeniedError):
        return None
    return shortage(error, guess=kind in {LinkUnavailable, LinkTimeout})


def _root(error: BaseException) -> BaseException:
    """The error inside pika's wrappings."""
    for _ in range(10):
        inner: Any = None
        if isinstance(error, workflow.AMQPConnectionWorkflowFailed):
            inner = error.exceptions[-1]
        elif isinstance(error, workflow.AMQPConnectorPhaseErrorBase):
            inner = error.exception
        elif type(error) is exceptions.AMQPConnectionError and error.args:
            inner = error.args[0]
        elif isinstance(error, exceptions.StreamLostError) and len(error.args) > 1:
            inner = error.args[1]
        if not isinstance(inner, BaseException):
            return error
        error = inner
    return error


def _no_access(settings: Settings) -> str:
    return f"link {settings.link}: RabbitMQ at {settings.place} denies access to virtual host {settings.virtual_host!r}"


def _closed_by_broker(  # noqa: C901, PLR0911 - one return per reply code
    code: int, text: str, settings: Settings, operation: str
) -> tuple[type[LinkError], str, str]:
    where = f"link {settings.link}: RabbitMQ at {settings.place}"
    if code == 403 and "Login was refused" in text:
        return LinkRefused, f"{where} refused user {settings.username!r}", "set the link's username and password"
    if code == 405 or (code == 403 and "exclusive" in text):
        return (
            LinkUnavailable,
            f"{where} reports that the queue is locked",
            ("end the other connection that uses it exclusively"),
        )
    if code == 403:
        return LinkRefused, f"{where} denied access to user {settings.username!r}", "give the user the permission"
    if code == 530:
        return LinkRefused, _no_access(settings), "check virtual_host and the user's permissions"
    if code == 404 and "down or inaccessible" in text:
        return LinkUnavailable, f"{where} reports that the queue is on a node that is down", "start that node again"
    if code == 404:
        return QueueMissing, f"{where} has no such queue or exchange", "create it or correct the registration"
    if code == 406 and "acknowledgement" in text:
        cure = "make batches smaller or faster, or raise the broker's consumer_timeout"
        return LinkTimeout, f"{where} waited too long for an acknowledgement", cure
    if code == 406 and "partial tx" in text:
        return DeliveryRejected, f"{where} stored only part of a transaction", "check the queue and its limits"
    if code == 406 and "larger than" in text:
        return DeliveryRejected, f"{where} refused a message", "set AMQP_MaxMessageSize to the broker's limit"
    if operation == "publish" and code in _ABOUT_WHAT_WAS_SENT:
        return DeliveryRejected, f"{where} refused a message", "correct it at the sender or in a transformation"
    if code in _FOR_EVER:
        return LinkError, f"{where} refused a request (code {code})", "correct the queue or its registration"
    if code == 320:
        return LinkUnavailable, f"{where} closed the connection", "wait for the broker or start it again"
    return LinkUnavailable, f"{where} ended the connection (code {code})", "check the broker's log"
