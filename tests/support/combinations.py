"""Which tests ``make test`` leaves to ``make test-all``: facts in one more combination that take seconds each.

A test stays in ``make test`` where it is the only proof of a promise on real brokers or on a database. What is listed
here repeats a proof on another broker, another database or under another fault, and costs more than three seconds. On
PostgreSQL, a third of each suite that both databases have to pass is enough; SQLite passes all of it in every run.
Short ones say ``pytest.mark.matrix`` where they stand.
"""

from __future__ import annotations

import re
import zlib

__all__ = ["LISTED", "is_one_more"]

#: Every test of these modules or classes stands in another one as well, on another database or link.
REPEATED = (
    "tests/conformance/test_hub_postgresql.py",
    "tests/conformance/test_admin_postgresql.py",
    "tests/conformance/test_kafka_exact.py::TestExactKafkaLink",
)
#: Suites of which no third would be left, or that a server can only pass as a whole.
WHOLE = ("TestClosed", "TestCommitConcurrency", "TestGroupConcurrency", "TestImmediate")
_OF = 3  # of so many tests one stays

#: By file: name, or name[case], of a test.
LISTED: dict[str, str] = {
    "tests/cli/test_apply.py": """
        test_killed_apply_leaves_whole_objects_and_the_next_run_does_the_rest[hub]
        test_killed_apply_leaves_whole_objects_and_the_next_run_does_the_rest[link]
        test_killed_apply_leaves_whole_objects_and_the_next_run_does_the_rest[transformation]
    """,
    "tests/cli/test_functions.py": """
        test_what_lies_in_the_current_directory_is_not_imported[None]
        test_what_lies_in_the_current_directory_is_not_imported[.]
        test_what_lies_in_the_current_directory_is_not_imported[relative]
    """,
    "tests/cli/test_warnings.py": "test_a_warning_of_each_package_is_in_the_log_of_a_run[json]",
    "tests/docs/test_application_examples.py": """
        test_commit_makes_both_rollback_makes_neither_and_the_message_arrives[django-sqlite]
        test_commit_makes_both_rollback_makes_neither_and_the_message_arrives[django-postgresql]
        test_commit_makes_both_rollback_makes_neither_and_the_message_arrives[sqlalchemy-postgresql]
        test_commit_makes_both_rollback_makes_neither_and_the_message_arrives[sqlalchemy-schema]
    """,
    "tests/conformance/test_altered_links.py": """
        test_another_address_of_the_same_broker_loses_and_repeats_nothing[kafka]
        test_another_log_loses_and_repeats_nothing[rabbitmq]
        test_another_log_loses_and_repeats_nothing[mosquitto]
    """,
    "tests/conformance/test_bad_input.py": "test_wrong_port_is_named_and_the_messages_wait_in_the_hub[rabbit]",
    "tests/conformance/test_guarantee_watch.py": """
        test_the_view_follows_a_topic_setting_that_nobody_requires
        test_the_view_follows_a_level_that_nobody_requires
    """,
    "tests/conformance/test_health.py": "test_check_fails_while_the_disk_of_the_hub_is_full",
    "tests/conformance/test_http.py": "test_a_hub_that_does_not_answer_is_told_within_two_seconds_and_kills_nobody",
    "tests/conformance/test_kafka_exact.py": """
        test_they_are_not_confirmed_and_there_once_after_the_next_connect[log]
        test_they_are_not_confirmed_and_there_once_after_the_next_connect[target]
        test_a_broker_frozen_at_any_moment_leads_to_each_message_once
        test_a_wire_cut_and_refused_at_any_moment_leads_to_each_message_once
    """,
    "tests/conformance/test_kafka_link.py": """
        test_connect_to_a_silent_broker_ends_soon
        test_restart_of_the_broker_loses_nothing_and_keeps_the_order
        test_stalled_wire_is_noticed_by_a_destination_that_has_nothing_to_send
    """,
    "tests/conformance/test_ledger_upkeep.py": """
        test_a_process_killed_while_it_merges_leaves_the_records_as_they_were[sqlite-before]
        test_a_process_killed_while_it_merges_leaves_the_records_as_they_were[postgresql-after]
    """,
    "tests/conformance/test_moved_links.py": """
        test_another_broker_and_back_loses_and_repeats_nothing[rabbitmq]
        test_another_broker_and_back_loses_and_repeats_nothing[kafka]
        test_what_was_not_confirmed_is_sent_to_the_new_broker_and_told[rabbitmq]
        test_what_was_not_confirmed_is_sent_to_the_new_broker_and_told[mosquitto]
        test_what_was_stored_and_not_acknowledged_is_recognised_when_the_link_comes_back[kafka]
    """,
    "tests/conformance/test_mqtt_zombies.py": "test_messages_taken_behind_the_agents_back_are_told",
    "tests/conformance/test_open_files.py": """
        test_every_link_names_the_limit_where_nothing_can_be_opened[kafka]
        test_every_link_names_the_limit_where_nothing_can_be_opened[mqtt]
    """,
    "tests/conformance/test_rabbitmq_fence.py": """
        test_newer_messages_do_not_pass_those_that_a_dead_connection_keeps[log-queue]
    """,
    "tests/conformance/test_rabbitmq_link.py": """
        test_stalled_wire_is_noticed_by_a_destination_that_has_nothing_to_send
    """,
    "tests/conformance/test_rabbitmq_specifics.py": """
        test_broker_killed_while_messages_move_loses_nothing[quorum]
        test_missed_heartbeats_bring_the_messages_back
    """,
    "tests/conformance/test_refused_messages.py": """
        test_a_record_that_is_refused_for_another_reason_is_set_aside[exact-a code that nobody knows]
    """,
    "tests/conformance/test_support_brokers.py": """
        test_confirmed_messages_survive[quorum-killed]
        test_confirmed_messages_survive[stream-killed]
    """,
    "tests/conformance/test_through_pairs.py": """
        test_every_pair_of_systems_carries_bodies_properties_and_order[rabbitmq-mqtt]
    """,
    "tests/conformance/test_upgrade.py": """
        test_everything_refuses_an_older_hub_and_names_the_command[postgresql]
        test_command_checks_lists_upgrades_and_says_so[sqlite]
        test_no_upgrade_while_another_program_has_the_file_open[idle]
        test_no_upgrade_while_another_program_has_the_file_open[reading]
    """,
    "tests/faults/test_faults_of_the_hub.py": """
        test_killing_the_agent_of_a_postgresql_hub_loses_nothing[postgresql-kill-agent-ids-to-kafkalog]
    """,
    "tests/faults/test_faults_of_time.py": """
        test_a_stalled_agent_that_wakes_up_behind_its_successor_does_no_harm[stalled-logged-to-logged]
        test_a_clock_that_jumps_by_an_hour_loses_and_doubles_nothing[clock-mqtt-to-logged]
    """,
    "tests/faults/test_faults_on_the_way.py": """
        test_a_wire_open_in_one_direction_only_loses_nothing[half-wire-logged-to-logged]
        test_a_wire_open_in_one_direction_only_loses_nothing[half-wire-mqtt-to-mqtt]
        test_restarting_the_broker_loses_nothing[restart-broker-kafka-to-kafka]
        test_killing_the_broker_of_a_job_from_link_to_link_loses_nothing[kill-broker-kafka-through-kafkalog]
        test_cutting_the_wire_of_a_job_from_link_to_link_loses_nothing[wire-classic-through-mqtt]
        test_cutting_and_stalling_the_wire_loses_nothing[wire-kafka-to-kafka]
    """,
    "tests/faults/test_killed_at_every_step.py": """
        test_killed_at_any_step_from_link_to_link_nothing_is_lost[steps-logged-through-logged]
        test_killed_at_any_step_outbound_nothing_is_lost[steps-kafkalog-out]
    """,
    "tests/pipelines/test_archive_kills.py": "test_a_query_that_is_killed_loses_and_doubles_nothing[postgresql]",
    "tests/pipelines/test_demo_spark.py": "test_damage_to_the_archive_is_found",
    "tests/pipelines/test_reconcile_bridged.py": "test_a_bridged_topic_is_audited_from_end_to_end",
    "tests/pipelines/test_stream_read.py": """
        test_a_batch_that_failed_comes_again_exactly_and_every_message_once[postgresql]
        test_the_next_batch_is_asked_for_when_the_last_one_is_in_the_commit_log[sqlite]
    """,
}
_LISTED = {file: frozenset(map(str.strip, names.strip().splitlines())) for file, names in LISTED.items()}


def is_one_more(nodeid: str) -> bool:
    """Whether a test, by its id, proves again what another one of ``make test`` proves."""
    file, _, rest = nodeid.partition("::")
    name = rest.rpartition("::")[2] if "[" not in rest else re.sub(r"^(\w+::)*", "", rest)
    if {name, name.partition("[")[0]} & _LISTED.get(file, frozenset()):
        return True
    if rest.partition("::")[0] in WHOLE:
        return False
    return nodeid.startswith(REPEATED) and zlib.crc32(nodeid.partition("[")[0].encode()) % _OF != 0
