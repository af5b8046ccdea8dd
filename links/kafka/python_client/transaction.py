"""Transactions of one job, with guards against what the client (kafka-python 3.0) does wrong there.

* ``commit_transaction`` may report success after records of the transaction were lost. Here every record's outcome is
  looked at before the commit, and that the producer's epoch is the one the transaction began with: after a new epoch
  the client takes a commit for done that it never sent.
* ``commit_transaction`` and ``flush`` may wait forever. Here every wait has an end.
* ``close`` leaves a transaction open, which holds readers back. Here it is aborted first.
* After a failed batch the object cannot be used any more. Here it refuses to be: its owner makes a new one.
* A server answers a commit before it has marked the records, and one that dies then may forget to mark them in all
  partitions or in some: readers wait for them, the next abort takes them away, the next commit lets them stand. Here a
  transaction counts when it is open in none of its partitions and its last record, which is in a partition that nobody
  else writes to, is there for readers of what is committed. What is found open later is ended as the server decided.
* When it was shut out in the middle of a transaction it asks for a new epoch, which, where the server grants one, would
  shut out the producer that came after it. Here it ends.

The transactional id is the job's own, so a new producer ends what an earlier one left open and shuts that one out.
"""

from __future__ import annotations

import contextlib
import threading
import time
from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from kafka import KafkaAdminClient, TopicPartition, errors
from kafka.admin import TransactionState
from kafka.protocol.admin import DescribeProducersRequest
from kafka.protocol.consumer import ListOffsetsRequest
from kafka.protocol.consumer.offsets import IsolationLevel, OffsetSpec

from mgw.links.contract import JobUse
from mgw.links.kafka.client import Asked, Flight, LogReader, LogRecord, Place, Sendable
from mgw.links.kafka.errors import translate
from mgw.links.kafka.python_client.connection import build, close_producer, quietly
from mgw.links.kafka.python_client.consumer import PythonLogReader
from mgw.links.kafka.python_client.errors import FENCED
from mgw.links.kafka.python_client.producer import Producer, PythonFlight, producer_of, telling
from mgw.links.kafka.python_client.sent import Sent
from mgw.links.kafka.settings import Settings
from mgw.links.kafka.transactional import MAY_ASK_FOR_ID, closed, silent, transaction_timeout, transactional_id
from mgw.transforms.clock import Clock
from mgw.transforms.errors import LinkError, LinkTimeout, LinkUnavailable
from mgw.transforms.kafka import Record

__all__ = ["MAY_NOT_ASK", "Transactions", "open_transactions"]

_SLICE = 0.25  # seconds; a wait looks so often whether it should end
_ABORT = 2.0  # seconds an abort may take; the next producer of this job aborts, too
_PAUSE = 0.05  # seconds at most between two looks whether a transaction can be read
_MANY = 200  # producers that a partition remembers, at which it is no longer asked for them after each transaction
_BACKOFF = 10  # milliseconds; a server asks for patience while it ends the transaction before


#: What a server answers that is too old to describe transactions and producers, or does not do it for this user.
MAY_NOT_ASK = (errors.AuthorizationError, errors.UnsupportedVersionError)


def open_transactions(settings: Settings, use: JobUse, max_request_size: int) -> Transactions:
    """Make the only producer of the job: earlier ones are shut out and what they left open is ended.

    Raises:
        LinkError: the cluster cannot be reached, knows no transactions, or does not let this user have that id.
    """
    identity = transactional_id(settings, use)
    committed = _was_committed(settings, use.clock, identity)
    producer = producer_of(
        settings,
        use,
        max_request_size,
        max_request_size=max_request_size,
        transactional_id=identity,
        transaction_timeout_ms=transaction_timeout(settings),
        retry_backoff_ms=_BACKOFF,
    )
    try:
        producer.init_transactions()
    except Exception as error:
        close_producer(producer)
        failed = translate(error, settings, "connect", f"the transactional id {identity}")
        if isinstance(error, errors.TransactionalIdAuthorizationFailedError):
            failed.cure = MAY_ASK_FOR_ID
        raise failed from error
    return Transactions(producer, settings, use.clock, identity, committed)


def _was_committed(settings: Settings, clock: Clock, identity: str) -> bool | None:
    """Whether the server has decided to commit the last transaction under that id; None where it does not say."""
    admin = build(KafkaAdminClient, settings, "connect")
    deadline = clock.monotonic() + settings.timeout
    try:
        while True:
            try:
                state = admin.describe_transactions([identity])[identity].state
            except errors.RetriableError as error:
                if clock.monotonic() >= deadline:
                    raise translate(error, settings, "connect", f"the transactional id {identity}") from error
                time.sleep(_PAUSE)
            else:
                break
    except (errors.TransactionalIdNotFoundError, *MAY_NOT_ASK):
        return None
    except LinkError:
        raise
    except Exception as error:
        raise translate(error, settings, "connect", f"the transactional id {identity}") from error
    finally:
        quietly(admin.close)
    if state in {TransactionState.PREPARE_COMMIT, TransactionState.COMPLETE_COMMIT}:
        return True
    return None if state in {TransactionState.EMPTY, TransactionState.UNKNOWN} else False


class Transactions:
    """One producer; one thread runs transactions, any thread may call :meth:`stop`.

    Attributes:
        producer: the client's producer.
        committed: whether the last transaction of the producer before was to be committed; None: nobody knows.
    """

    def __init__(
        self, producer: Producer, settings: Settings, clock: Clock, identity: str, committed: bool | None
    ) -> None:
        self.producer = producer
        self.committed = committed
        self._settings = settings
        self._clock = clock
        self._identity = identity
        self._manager: Any = producer._transaction_manager
        self._client: Any = producer._sender._client._manager
        self._manager._supports_epoch_bump = _never
        self._epoch = self._manager.producer_id_and_epoch
        self._stopped = threading.Event()
        self._broken = False
        self._flight: PythonFlight | None = None
        self._asks_producers = True

    @property
    def producer_id(self) -> int:
        """What the server calls the producers of this id."""
        return int(self._epoch.producer_id)

    @property
    def flight(self) -> Flight | None:
        """See :meth:`mgw.links.kafka.client.Transactions.flight`."""
        return self._flight

    def partitions(self, topic: str) -> set[int] | None:
        """See :meth:`mgw.links.kafka.client.Transactions.partitions`."""
        return self.producer.partitions(topic)

    def ask(self, topic: str) -> Asked:
        """See :meth:`mgw.links.kafka.client.Transactions.ask`."""
        return self.producer.ask(topic)

    def throttled(self) -> bool:
        """See :meth:`mgw.links.kafka.client.Producer.throttled`."""
        return self.producer.throttled()

    def heard(self) -> float | None:
        """See :meth:`mgw.links.kafka.client.Transactions.heard`."""
        return self.producer.heard()

    def run(self, topic: str, messages: Iterable[Sendable], record: LogRecord, what: str) -> None:
        """See :meth:`mgw.links.kafka.client.Transactions.run`."""
        if self._broken or self._stopped.is_set():
            raise self._unavailable()
        self._broken = True
        try:
            self.producer.begin_transaction()
            self._flight = flight = PythonFlight(0, 0, 0)
            futures = flight.futures
            count = self.producer.hand_over(flight, topic, messages)
            logged = Record(record.value, record.key, [], record.place.partition, None)
            self.producer.send_all(record.place.topic, [logged], futures, count)
            self._finish(futures, what)
            self._check_epoch()
            result = self._manager.begin_commit()
        except LinkError:
            self._abort()
            raise
        except Exception as error:
            self._abort()
            raise self._translated(error, "publish", what) from self._first(error)
        self._commit(result, what)
        self._see([future.value for future in futures], what)
        self._broken = False

    def end_open(
        self,
        reader: LogReader,
        log: Sequence[Place],
        others: Sequence[Place],
        key: bytes,  # noqa: ARG002
        what: str,
    ) -> None:
        """See :meth:`mgw.links.kafka.client.Transactions.end_open`."""
        assert isinstance(reader, PythonLogReader)  # noqa: S101 - both come from one client
        inside, outside = ([TopicPartition(*each) for each in places] for places in (log, others))
        hung = self._hung(reader.admin, inside, outside)
        if hung:
            commit = self.committed if self.committed is not None else not {*hung} & {*inside}
            self.clear(hung, what, commit=commit)

    def _hung(self, admin: Any, log: list[TopicPartition], others: list[TopicPartition]) -> list[TopicPartition]:
        """Partitions with records of ours that no marker has ended.

        Where we may not ask for producers, those of the log that have anybody's, and all others then.
        """
        try:
            found = admin.describe_producers([*log, *others])
        except MAY_NOT_ASK:
            stable, last = (
                admin.list_partition_offsets(dict.fromkeys(log, OffsetSpec.LATEST), isolation_level=level)
                for level in (IsolationLevel.READ_COMMITTED, IsolationLevel.READ_UNCOMMITTED)
            )
            held = [place for place in log if stable[place].offset < last[place].offset]
            return [*held, *others] if held else []
        return [
            place
            for place in (*log, *others)
            if any(
                each.producer_id == self.producer_id and each.current_transaction_start_offset >= 0
                for each in found[place].active_producers
            )
        ]

    def clear(self, places: Iterable[TopicPartition], what: str, *, commit: bool) -> None:
        """End what an earlier producer of the job has left in these partitions and no server has marked.

        Only what no marker has ended is concerned. ``commit``: it stands; else it is taken away.

        Raises:
            LinkError: it is not sure that it was done. This object is of no use any more.
        """
        if self._broken or self._stopped.is_set():
            raise self._unavailable()
        self._broken = True
        wanted = list(places)
        deadline = self._clock.monotonic() + self._settings.timeout
        try:
            self.producer.begin_transaction()
            for place in wanted:
                self._manager.maybe_add_partition_to_transaction(place)
            while not all(self._manager.is_partition_added(place) for place in wanted):
                self.producer._sender.wakeup()
                if self._manager.has_error() or self._stopped.wait(0.005):
                    raise self._manager.last_error or self._unavailable()
                if self._clock.monotonic() >= deadline:
                    raise self._timeout(what, "its partitions could not be added to a transaction")
            result = self._manager.begin_commit() if commit else self._manager.begin_abort()
            self.producer._sender.wakeup()
            if not result.wait(timeout_ms=self._settings.timeout * 1000):
                raise self._timeout(what, "the request to end a transaction was not answered")
        except Exception as error:
            if commit:  # of what was taken in: an abort would take away what stands
                self._end(self._manager.begin_commit)
            else:
                self._abort()
            raise self._translated(error, "clear", what) from self._first(error)
        self._broken = False

    def _see(self, records: Sequence[Any], what: str) -> None:
        """Wait until the last record of a committed transaction can be read, and it is open in no partition.

        Raises:
            LinkTimeout: the server has said that it is committed, and does not show it.
            LinkError: the server cannot be asked; whether the transaction stands, only the sending log can tell.
        """
        clock = self._clock
        deadline = clock.monotonic() + self._settings.timeout
        pause = 0.001
        places = {record.topic_partition for record in records[:-1]}
        while True:
            answer = self._client.call_soon(self._seen, records[-1], places)
            self.producer._sender.wakeup()
            seen = threading.Event()
            answer.add_both(lambda _, seen=seen: seen.set())
            while not seen.wait(_SLICE):
                deadline = self._in_time(deadline, what)
            if answer.exception is None:
                if answer.value:
                    return
            elif self._asks_producers and isinstance(answer.exception, MAY_NOT_ASK):
                self._asks_producers = False  # the log alone is asked, as everybody may who writes there
                continue
            elif not isinstance(answer.exception, errors.RetriableError):
                raise self._translated(answer.exception, "commit", what) from answer.exception
            else:  # the server asks for patience, or another one leads the partition now
                self._client.cluster.request_update()
            deadline = self._in_time(deadline, what)
            time.sleep(pause)
            pause = min(2 * pause, _PAUSE)

    def _in_time(self, deadline: float, what: str) -> float:
        """The deadline, or a sooner one where the transactions are to stop."""
        now = self._clock.monotonic()
        if now >= deadline:
            raise self._timeout(what, "a committed transaction cannot be read; its outcome is unknown")
        return min(deadline, now + _ABORT) if self._stopped.is_set() else deadline

    async def _seen(self, last: Any, places: Iterable[TopicPartition]) -> bool:
        """Whether readers of what is committed get the record, and the transaction is open in no partition."""
        place = last.topic_partition
        topic = ListOffsetsRequest.ListOffsetsTopic
        wanted = topic.ListOffsetsPartition(partition_index=place.partition, timestamp=-1)
        request = ListOffsetsRequest(
            isolation_level=1, topics=[topic(name=place.topic, partitions=[wanted])], min_version=2
        )
        answer = self._client.send(request, node_id=self._leader(place))
        still_open = await self._open_in(places) if self._asks_producers else False
        part = (await answer).topics[0].partitions[0]
        if part.error_code:
            raise errors.for_code(part.error_code)(f"the end of {place.topic}, partition {place.partition}")
        return not still_open and int(part.offset) > last.offset

    async def _open_in(self, places: Iterable[TopicPartition]) -> bool:
        """Whether a transaction of this producer is open in one of the partitions."""
        asked: dict[int, dict[str, list[int]]] = defaultdict(lambda: defaultdict(list))
        for place in places:
            asked[self._leader(place)][place.topic].append(place.partition)
        topic = DescribeProducersRequest.TopicRequest
        answers = [
            self._client.send(
                DescribeProducersRequest(
                    topics=[topic(name=name, partition_indexes=of) for name, of in topics.items()]
                ),
                node_id=node,
            )
            for node, topics in asked.items()
        ]
        found = False
        for answer in answers:
            for part in [part for each in (await answer).topics for part in each.partitions]:
                if part.error_code:
                    raise errors.for_code(part.error_code)(f"the producers of partition {part.partition_index}")
                self._asks_producers &= len(part.active_producers) < _MANY
                found |= any(
                    each.producer_id == self.producer_id and each.current_txn_start_offset >= 0
                    for each in part.active_producers
                )
        return found

    def _leader(self, place: TopicPartition) -> int:
        leader = self._client.cluster.leader_for_partition(place)
        if leader is None or leader < 0:  # one is being elected; to ask nobody is no error that passes
            raise errors.LeaderNotAvailableError(f"{place.topic}, partition {place.partition}")
        return int(leader)

    def _finish(self, futures: list[Sent], what: str) -> None:
        """Wait for the outcome of every record.

        Raises:
            LinkTimeout: nothing moved for KAFKA_Delivery_timeout_ms.
            Exception: of the first record that failed.
        """
        done, moved_at = 0, self._clock.monotonic()
        while done < len(futures):
            with contextlib.suppress(errors.KafkaTimeoutError, errors.UnknownError):
                self.producer.flush(timeout=_SLICE)
            before = done
            while done < len(futures) and futures[done].is_done:
                failure = futures[done].exception
                if failure is not None:
                    raise telling(futures, failure)
                done += 1
            now = self._clock.monotonic()
            if done > before:
                moved_at = now
            elif now - moved_at >= self._settings.delivery_timeout:
                raise self._timeout(what, f"{sum(each.count for each in futures[done:])} records are in flight")
            else:
                self._stopped.wait(0.001)
            if self._stopped.is_set():
                raise self._unavailable()

    def _check_epoch(self) -> None:
        manager = self._manager
        if manager.producer_id_and_epoch is not self._epoch or not manager._transaction_started:
            raise LinkError(
                f"link {self._settings.link}: the transaction of {self._identity} was interrupted",
                link=self._settings.link,
                operation="publish",
                cause="the client started a new epoch in the middle of it; the server has aborted what was sent before",
                cure="nothing: what was not committed is sent again",
            )

    def _commit(self, result: Any, what: str) -> None:
        self.producer._sender.wakeup()
        clock = self._clock
        deadline = clock.monotonic() + self._settings.timeout
        try:
            while not result.wait(timeout_ms=_SLICE * 1000):
                if self._stopped.is_set():
                    deadline = min(deadline, clock.monotonic() + _ABORT)
                if clock.monotonic() >= deadline:
                    raise self._timeout(what, "the commit of a transaction was not answered; its outcome is unknown")
        except LinkError:
            raise
        except Exception as error:
            raise self._translated(error, "commit", what) from self._first(error)
        if self._manager.producer_id_and_epoch is not self._epoch:
            raise self._timeout(what, "the producer's epoch changed during a commit; its outcome is unknown")

    def _first(self, error: Exception) -> Exception:
        """What the client failed on first, where that is why it fails now: it was shut out."""
        last = self._manager.last_error
        return last if isinstance(last, FENCED) else error

    def _translated(self, error: Exception, operation: str, what: str) -> LinkError:
        return translate(self._first(error), self._settings, operation, what)

    def _abort(self) -> None:
        self._end(self._manager.begin_abort)

    def _end(self, begin: Callable[[], Any]) -> None:
        with contextlib.suppress(Exception):
            result = begin()
            self.producer._sender.wakeup()
            result.wait(timeout_ms=_ABORT * 1000)

    def _timeout(self, what: str, cause: str) -> LinkTimeout:
        return silent(self._settings, what, cause)

    def _unavailable(self) -> LinkUnavailable:
        return closed(self._settings, self._identity)

    def stop(self) -> None:
        """From any thread: let a running transaction end soon, aborted unless its commit was under way."""
        self._stopped.set()

    def close(self) -> None:
        """Give the producer up; no transaction may be running in another thread."""
        self.stop()
        close_producer(self.producer)


def _never() -> bool:
    return False
