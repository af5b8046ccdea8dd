"""Which tests ``make test``, for which somebody waits, leaves to ``make test-all``.

What :mod:`tests.support.slow_repetitions` lists repeats a proof on another broker, another database or under another
fault, and costs seconds. What ``costly.txt`` lists need not repeat anything: it costs nearly a second of the
processor or more (0.8, or 0.2 for one of several cases), as ``MGW_COSTS`` measures it. Of killed agents, killed
brokers and cut connections one each stays on each broker. On PostgreSQL, a third of what both databases have to pass
is enough; SQLite passes nearly all of it in every run. The same holds for the second client of Kafka, and for the
suite of the links where one broker passes it with several settings. Short ones say ``pytest.mark.matrix`` where they
stand.
"""

from __future__ import annotations

import re
import zlib
from pathlib import Path

from tests.support.slow_repetitions import LISTED

__all__ = ["COSTLY", "FIRST", "begins_first", "is_left", "is_long", "is_one_more"]

#: What takes minutes in a row begins: at the end, one process would work on it while the others have nothing to do.
FIRST = (
    "tests/containers/",
    "tests/conformance/test_kafka_exact.py",
    "tests/conformance/test_kafka_link.py",
    "tests/conformance/test_hub_postgresql.py",
    "tests/conformance/test_upgrade.py",
    "tests/conformance/test_gaps.py",
    "tests/conformance/test_rest_description.py",
    "tests/conformance/test_moved_links.py",
    "tests/conformance/test_http.py",
    "tests/faults/test_cluster_nodes.py",
)

#: Every test of these modules or classes stands in another one as well, on another database or link.
REPEATED = (
    "tests/conformance/test_hub_postgresql.py",
    "tests/conformance/test_admin_postgresql.py",
    "tests/conformance/test_kafka_exact.py::TestExactKafkaLink",
    "tests/conformance/test_mqtt_link.py::TestMqtt311",
    "tests/conformance/test_mqtt_link.py::TestMqtt5WithASendingLog",
)
#: Suites of which no third would be left, or that a server can only pass as a whole.
WHOLE = ("TestClosed", "TestCommitConcurrency", "TestGroupConcurrency", "TestImmediate")
_OF = 3  # of so many tests one stays
#: A test that runs on both databases, or with both clients of Kafka: the case that make test may leave out.
_SECOND = re.compile(r"^tests/conformance/.*\[(.*-)?(postgresql|confluent)(-.*)?\]$")
#: These have no case on SQLite.
ONLY_THERE = (
    "tests/conformance/test_hub_dropped.py::test_hub_is_not_dropped_under_a_program_that_has_it_open",
    "tests/conformance/test_rest_events.py::test_an_event_that_is_committed_late_is_told_in_its_place",
    "tests/conformance/test_rest_events.py::test_a_gap_that_stays_holds_the_events_behind_it_for_a_moment_only",
)
#: Pages and files of which each is an example: a third of them stays, by their names.
EXAMPLES = (
    "tests/cli/test_examples.py::test_the_example_carries_messages_as_it_promises",
    "tests/conformance/test_through_pairs.py::test_every_pair_of_systems_carries_bodies_properties_and_order",
    "tests/docs/test_configurations.py::test_configuration_is_applied_once_and_travels",
)
#: Tests of what only the tests use: brokers that are started, cut off and killed. make test-faults has them.
OF_THE_SUPPORT = ("tests/conformance/test_support_brokers.py",)

_LISTED = {file: frozenset(map(str.strip, names.strip().splitlines())) for file, names in LISTED.items()}

#: The tests of costly.txt, by their ids; without a case: all cases.
COSTLY = frozenset(Path(__file__).with_name("costly.txt").read_text("utf-8").splitlines())


def is_left(nodeid: str) -> bool:
    """Whether a test, by its id, is left to ``make test-all``."""
    return nodeid in COSTLY or nodeid.partition("[")[0] in COSTLY or is_one_more(nodeid)


def is_one_more(nodeid: str) -> bool:
    """Whether a test, by its id, proves again what another one of ``make test`` proves."""
    file, _, rest = nodeid.partition("::")
    name = re.sub(r"^(\w+::)*", "", rest)
    if {each for full in (rest, name) for each in (full, full.partition("[")[0])} & _LISTED.get(file, frozenset()):
        return True
    if rest.partition("::")[0] in WHOLE or nodeid.startswith(ONLY_THERE):
        return False
    if nodeid.startswith(EXAMPLES):
        return zlib.crc32(nodeid.encode()) % _OF != 0
    repeats = nodeid.startswith(REPEATED) or _SECOND.match(nodeid) is not None
    return repeats and zlib.crc32(nodeid.partition("[")[0].encode()) % _OF != 0


def is_long(nodeid: str) -> bool:
    """Whether a test, by its id, is left to ``make test-faults``, as are faults that are listed as one more."""
    file = nodeid.partition("::")[0]
    return file in OF_THE_SUPPORT or (file.startswith("tests/faults/") and is_one_more(nodeid))


def begins_first(nodeid: str) -> int:
    """By what tests are sorted, each file as a whole: those of :data:`FIRST` in its order, and all others behind."""
    return next((rank for rank, name in enumerate(FIRST) if nodeid.startswith(name)), len(FIRST))
