"""The tests that repeat a proof and take seconds each: see :mod:`tests.support.combinations` for what is listed."""

from __future__ import annotations

__all__ = ["LISTED"]

#: By file: name, name[case], Class::name or Class::name[case] of a test.
LISTED: dict[str, str] = {
    "tests/cli/test_agent_life.py": """
        test_a_standby_waits_and_respects_what_the_operator_wants
    """,
    "tests/cli/test_apply.py": """
        test_killed_apply_leaves_whole_objects_and_the_next_run_does_the_rest[hub]
        test_killed_apply_leaves_whole_objects_and_the_next_run_does_the_rest[link]
        test_killed_apply_leaves_whole_objects_and_the_next_run_does_the_rest[transformation]
        test_killed_apply_leaves_whole_objects_and_the_next_run_does_the_rest[start]
        test_killed_apply_leaves_whole_objects_and_the_next_run_does_the_rest[job news_out]
        test_killed_apply_leaves_whole_objects_and_the_next_run_does_the_rest[queue NEWS]
        test_killed_apply_leaves_whole_objects_and_the_next_run_does_the_rest[queue table]
    """,
    "tests/cli/test_aq_payloads.py": "test_queues_of_declared_types",
    "tests/cli/test_functions.py": """
        test_what_lies_in_the_current_directory_is_not_imported[None]
        test_what_lies_in_the_current_directory_is_not_imported[.]
        test_what_lies_in_the_current_directory_is_not_imported[relative]
        test_a_module_that_cannot_be_imported_stops_its_own_job_alone_and_is_named
        test_programs_of_others_have_them_too[pipeline]
        test_run_without_a_file_transforms_with_them
        test_what_apply_stored_routes_messages_of_other_processes
        test_linting_registers_nothing_in_the_process
    """,
    "tests/cli/test_link_of_another_package.py": """
        test_gateway_killed_while_files_move_loses_and_repeats_nothing
    """,
    "tests/cli/test_lint.py": "test_hostile_yaml_is_refused_at_once_and_briefly[brackets]",
    "tests/cli/test_removal.py": "test_subscriber_that_leaves_the_file",
    "tests/cli/test_run_with_refusals.py": """
        test_what_cannot_be_altered_stays_and_the_rest_is_altered_and_runs
    """,
    "tests/cli/test_warnings.py": "test_a_warning_of_each_package_is_in_the_log_of_a_run[json]",
    "tests/conformance/test_altered_links.py": """
        test_another_address_of_the_same_broker_loses_and_repeats_nothing[kafka]
        test_another_log_loses_and_repeats_nothing[rabbitmq]
        test_another_log_loses_and_repeats_nothing[mosquitto]
        test_another_log_loses_and_repeats_nothing[kafka]
        test_another_address_of_the_same_broker_loses_and_repeats_nothing[rabbitmq]
    """,
    "tests/conformance/test_bad_input.py": """
        test_bad_configuration_is_named_with_its_place_and_leaves_the_hub_as_it_was[two jobs on one queue]
        test_bad_configuration_is_named_with_its_place_and_leaves_the_hub_as_it_was[wildcard in a destination]
        test_wrong_port_is_named_and_the_messages_wait_in_the_hub[rabbit]
        test_full_disk_is_named_and_every_message_arrives_once_there_is_room
        test_same_agent_started_twice_is_refused_and_the_first_carries_on
        test_wrong_port_is_named_and_the_messages_wait_in_the_hub[kafka]
        test_queues_that_do_not_exist_are_named_and_used_once_they_are_made
        test_header_name_of_300_characters_goes_to_the_exception_queue_or_stays_at_its_source
    """,
    "tests/conformance/test_engine.py": """
        test_when_a_commit_fails_nothing_read_ahead_is_lost_or_stored_twice[4]
        test_when_a_commit_fails_nothing_read_ahead_is_lost_or_stored_twice[3]
        test_poison_without_exception_queue_blocks_what_is_behind_it_but_not_what_is_before
    """,
    "tests/conformance/test_engine_failures.py": """
        test_batches_before_one_that_cannot_be_converted_are_sent_again_once_only
    """,
    "tests/conformance/test_foreign_clients.py": """
        test_console_consumer_sees_the_keys_nulls_and_headers_of_the_console_producer[rabbitmq-False]
        test_console_consumer_sees_the_keys_nulls_and_headers_of_the_console_producer[kafka-False]
        test_console_consumer_sees_the_keys_nulls_and_headers_of_the_console_producer[mosquitto-False]
        test_java_client_reads_what_it_sent_over_every_broker[rabbitmq-False]
        test_java_client_reads_what_it_sent_over_every_broker[kafka-False]
        test_java_client_reads_what_it_sent_over_every_broker[mosquitto-False]
        test_java_client_reads_what_amqp_publish_sent_over_every_broker[rabbitmq-False]
        test_java_client_reads_what_amqp_publish_sent_over_every_broker[kafka-False]
        test_java_client_reads_what_amqp_publish_sent_over_every_broker[mosquitto-False]
    """,
    "tests/conformance/test_gaps.py": """
        test_a_stream_deleted_and_made_again_is_read_from_its_beginning[empty-stop]
    """,
    "tests/conformance/test_guarantee_watch.py": """
        test_the_view_follows_a_topic_setting_that_nobody_requires
        test_the_view_follows_a_level_that_nobody_requires
        test_a_topic_setting_that_is_changed_stops_a_job_that_requires_exact[OUTBOUND-topic-config2-at-least-once]
        test_a_topic_setting_that_is_changed_stops_a_job_that_requires_exact[OUTBOUND-log-config1-at-least-once]
        test_a_policy_that_takes_messages_away_stops_a_reading_job_that_requires_more
    """,
    "tests/conformance/test_health.py": "test_check_fails_while_the_disk_of_the_hub_is_full",
    "tests/conformance/test_http.py": """
        test_a_hub_that_does_not_answer_is_told_within_two_seconds_and_kills_nobody
        test_a_main_loop_that_hangs_is_not_live
        test_a_port_that_is_taken_is_told_and_messages_move_all_the_same
        test_the_health_check_of_the_image_asks_the_port
    """,
    "tests/conformance/test_hub_postgresql.py": """
        TestAttempt::test_program_ends[closed]
        TestAttempt::test_program_ends[own]
        TestAttempt::test_program_ends[forgotten]
        TestAttempt::test_program_ends[exit]
    """,
    "tests/conformance/test_kafka_exact.py": """
        TestFaults::test_a_coordinator_lost_for_longer_than_a_transaction_may_take[kafka-python-kill]
        TestFaults::test_a_coordinator_lost_for_longer_than_a_transaction_may_take[kafka-python-pause and kill]
        TestFaults::test_a_coordinator_lost_for_longer_than_a_transaction_may_take[confluent-kill]
        TestFaults::test_a_coordinator_lost_for_longer_than_a_transaction_may_take[confluent-pause and kill]
        TestFaults::test_a_coordinator_lost_for_longer_than_a_transaction_may_take[confluent-pause]
        test_they_are_not_confirmed_and_there_once_after_the_next_connect[log]
        test_they_are_not_confirmed_and_there_once_after_the_next_connect[target]
        test_a_broker_frozen_at_any_moment_leads_to_each_message_once
        test_a_wire_cut_and_refused_at_any_moment_leads_to_each_message_once
        TestFaults::test_a_broker_killed_at_any_moment_leads_to_each_message_once
        TestExactKafkaLink::test_wrong_port_is_unavailable
        TestExactKafkaLink::test_thousands_published_in_a_window_keep_their_order
        TestSettings::test_a_cluster_that_does_not_answer_says_nothing_of_its_transactions
        TestFaults::test_an_unanswered_commit_ends_in_time_and_the_log_decides
    """,
    "tests/conformance/test_kafka_kills.py": """
        test_a_batch_is_sent_again_exactly_when_the_log_has_it_not[confluent-_finish-False]
        test_a_batch_is_sent_again_exactly_when_the_log_has_it_not[kafka-python-_check_epoch-False]
        test_inbound_messages_arrive_once_however_often_the_agent_is_killed[confluent]
        test_a_batch_is_sent_again_exactly_when_the_log_has_it_not[_finish-False]
        test_a_batch_is_sent_again_exactly_when_the_log_has_it_not[_commit-True]
    """,
    "tests/conformance/test_kafka_link.py": """
        TestReading::test_a_partition_without_messages_does_not_hold_up_the_others[confluent]
        test_connect_to_a_silent_broker_ends_soon
        test_restart_of_the_broker_loses_nothing_and_keeps_the_order
        test_stalled_wire_is_noticed_by_a_destination_that_has_nothing_to_send
        TestKafkaLink::test_refused_connection_is_unavailable_and_comes_back
        TestReading::test_silent_broker_is_an_error
        TestKafkaLink::test_wrong_port_is_unavailable
        TestPublishing::test_records_under_way_are_bounded_while_the_broker_is_silent
        TestKafkaLink::test_thousands_published_in_a_window_keep_their_order
        TestPublishing::test_killed_broker_is_an_error_and_nothing_confirmed_is_missing
        TestPublishing::test_topic_deleted_while_nothing_is_sent_is_told
        TestKafkaLink::test_stalled_wire_ends_a_publish_with_an_error
    """,
    "tests/conformance/test_kafka_oauth.py": """
        test_messages_go_on_when_tokens_end[confluent]
    """,
    "tests/conformance/test_ledger_upkeep.py": """
        test_a_process_killed_while_it_merges_leaves_the_records_as_they_were[sqlite-before]
        test_a_process_killed_while_it_merges_leaves_the_records_as_they_were[postgresql-after]
        test_a_process_killed_while_it_merges_leaves_the_records_as_they_were[postgresql-before]
        test_a_message_of_a_small_batch_takes_as_little_room_as_one_of_a_large_batch[postgresql]
        test_the_answers_are_the_same_before_merging_and_after[postgresql]
        test_the_agents_upkeep_merges[postgresql]
        test_records_are_merged_while_a_job_runs_and_every_message_stays_in_them[postgresql]
    """,
    "tests/conformance/test_moved_links.py": """
        test_another_broker_and_back_loses_and_repeats_nothing[rabbitmq]
        test_another_broker_and_back_loses_and_repeats_nothing[kafka]
        test_what_was_not_confirmed_is_sent_to_the_new_broker_and_told[rabbitmq]
        test_what_was_not_confirmed_is_sent_to_the_new_broker_and_told[mosquitto]
        test_what_was_stored_and_not_acknowledged_is_recognised_when_the_link_comes_back[kafka]
        test_another_broker_and_back_loses_and_repeats_nothing[mosquitto]
        test_a_stream_goes_on_where_the_job_left_it_at_that_broker
        test_what_was_not_confirmed_is_sent_to_the_new_broker_and_told[kafka]
        test_a_moved_job_begins_at_the_first_record_of_a_cluster_where_it_never_was
    """,
    "tests/conformance/test_mqtt_echo.py": """
        test_more_than_the_echo_takes_waits_until_there_is_room
        test_record_survives_as_many_messages_of_others_as_there_are_packet_ids
    """,
    "tests/conformance/test_mqtt_echo_kills.py": """
        test_messages_arrive_exactly_once_however_often_the_agent_is_killed
    """,
    "tests/conformance/test_mqtt_exactly_once.py": """
        test_packet_ids_are_cyclic_and_an_equal_message_one_round_later_is_stored[3.1.1]
    """,
    "tests/conformance/test_mqtt_link.py": """
        TestMqtt5WithASendingLog::test_stalled_wire_is_noticed_by_a_destination_that_has_nothing_to_send
        TestMqtt5WithASendingLog::test_close_on_a_stalled_wire_returns_soon
        TestMqtt5WithASendingLog::test_stalled_wire_ends_a_read_with_an_error
        TestMqtt311Envelope::test_stalled_wire_ends_a_read_with_an_error
        TestMqtt311::test_stalled_wire_ends_a_read_with_an_error
        TestMqtt311::test_stalled_wire_ends_a_publish_with_an_error
        TestMqtt311::test_stalled_wire_is_noticed_by_a_destination_that_has_nothing_to_send
        TestMqtt311Envelope::test_stalled_wire_is_noticed_by_a_destination_that_has_nothing_to_send
        TestMqtt311Envelope::test_stalled_wire_ends_a_publish_with_an_error
        TestMqtt311::test_close_on_a_stalled_wire_returns_soon
        TestMqtt311Envelope::test_close_on_a_stalled_wire_returns_soon
        TestMqtt5::test_stalled_wire_ends_a_publish_with_an_error
    """,
    "tests/conformance/test_mqtt_zombies.py": """
        test_messages_taken_behind_the_agents_back_are_told
        test_second_process_with_the_same_publisher_id_neither_loses_nor_doubles
    """,
    "tests/conformance/test_open_files.py": """
        test_every_link_names_the_limit_where_nothing_can_be_opened[kafka]
        test_every_link_names_the_limit_where_nothing_can_be_opened[mqtt]
        test_an_agent_raises_its_limit_and_tells_what_it_needs
    """,
    "tests/conformance/test_rabbitmq_conditions.py": """
        test_a_message_that_expires_does_not_suppress_an_equal_one
        test_a_dead_connection_is_closed_over_the_management_api
        test_a_limit_of_connections_is_no_refusal
        test_a_message_that_left_the_queue_does_not_suppress_an_equal_one
    """,
    "tests/conformance/test_rabbitmq_exact.py": """
        test_crash_of_the_broker_loses_nothing[OUTBOUND-short]
    """,
    "tests/conformance/test_rabbitmq_fence.py": """
        test_newer_messages_do_not_pass_those_that_a_dead_connection_keeps[log-queue]
    """,
    "tests/conformance/test_rabbitmq_link.py": """
        test_stalled_wire_is_noticed_by_a_destination_that_has_nothing_to_send
        TestRabbitLink::test_stalled_wire_ends_a_read_with_an_error
        TestRabbitLink::test_close_on_a_stalled_wire_returns_soon
    """,
    "tests/conformance/test_rabbitmq_logs.py": """
        test_messages_gone_behind_the_gateways_back_are_noticed[read by somebody else]
        test_messages_gone_behind_the_gateways_back_are_noticed[re-created]
    """,
    "tests/conformance/test_rabbitmq_specifics.py": """
        test_broker_killed_while_messages_move_loses_nothing[quorum]
        test_missed_heartbeats_bring_the_messages_back
        test_broker_killed_while_messages_move_loses_nothing[classic]
        test_stream_that_hands_out_no_more_is_noticed
    """,
    "tests/conformance/test_refused_messages.py": """
        test_a_record_that_is_refused_for_another_reason_is_set_aside[exact-a code that nobody knows]
        TestKafka::test_a_record_that_is_refused_for_another_reason_is_set_aside[at-least-once-a code that nobody knows]
        TestKafka::test_a_record_that_is_refused_for_another_reason_is_set_aside[at-least-once-invalid record]
        TestKafka::test_limits_that_change_while_the_job_runs_are_learnt_from_the_refusal[at-least-once]
    """,
    "tests/conformance/test_removal.py": """
        test_messages_in_a_sessions_hands_are_not_moved[postgresql]
        test_running_job_is_disabled_before_its_messages_are_moved[postgresql]
    """,
    "tests/conformance/test_rest_description.py": """
        test_every_route_answers_as_described_whatever_is_sent
    """,
    "tests/conformance/test_supervisor.py": """
        test_a_killed_agent_that_its_parent_has_not_reaped_is_replaced_at_once
        test_agent_ends_when_the_file_of_its_hub_is_moved[False]
    """,
    "tests/conformance/test_through_pairs.py": """
        test_every_pair_of_systems_carries_bodies_properties_and_order[rabbitmq-mqtt]
        test_with_its_logs_a_job_promises_what_the_weaker_end_does[mqtt-kafka]
        test_with_its_logs_a_job_promises_what_the_weaker_end_does[kafka-kafka]
    """,
    "tests/conformance/test_upgrade.py": """
        test_everything_refuses_an_older_hub_and_names_the_command[postgresql]
        test_command_checks_lists_upgrades_and_says_so[sqlite]
        test_no_upgrade_while_another_program_has_the_file_open[idle]
        test_no_upgrade_while_another_program_has_the_file_open[reading]
        test_command_checks_lists_upgrades_and_says_so[postgresql]
        test_no_upgrade_while_another_program_has_the_file_open[writing]
        test_others_are_held_off_while_it_runs_and_find_the_new_hub[sqlite]
    """,
    "tests/conformance/test_web_load.py": """
        test_many_callers_get_answers_and_leave_nothing_behind
    """,
    "tests/docs/test_add_a_link.py": "test_page_does_what_it_says",
    "tests/docs/test_application_examples.py": """
        test_commit_makes_both_rollback_makes_neither_and_the_message_arrives[django-sqlite]
        test_commit_makes_both_rollback_makes_neither_and_the_message_arrives[django-postgresql]
        test_commit_makes_both_rollback_makes_neither_and_the_message_arrives[sqlalchemy-postgresql]
        test_commit_makes_both_rollback_makes_neither_and_the_message_arrives[sqlalchemy-schema]
    """,
    "tests/docs/test_documentation.py": """
        test_jobs_of_the_documented_gateway_are_migrated_as_the_page_says
        test_hub_is_used_from_sql_as_the_page_says
        test_examples_in_python_run_in_their_order[administer-queues.md]
        test_examples_in_python_run_in_their_order[payloads-and-transformations.md]
        test_examples_in_python_run_in_their_order[read-the-queues-with-sql.md]
        test_examples_in_python_run_in_their_order[rules.md]
    """,
    "tests/faults/test_faults_of_the_hub.py": """
        test_killing_the_agent_of_a_postgresql_hub_loses_nothing[postgresql-kill-agent-ids-to-kafkalog]
        test_a_second_process_of_the_agent_is_refused_and_the_first_is_unharmed
        test_killing_the_agent_of_a_postgresql_hub_loses_nothing[postgresql-kill-agent-kafka-to-kafkalog]
        test_a_hub_file_that_may_not_grow_is_reported_and_nothing_is_lost
        test_killing_the_agent_of_a_postgresql_hub_loses_nothing[postgresql-kill-agent-mqtt-to-logged]
    """,
    "tests/faults/test_faults_of_time.py": """
        test_a_stalled_agent_that_wakes_up_behind_its_successor_does_no_harm[stalled-logged-to-logged]
        test_a_clock_that_jumps_by_an_hour_loses_and_doubles_nothing[clock-mqtt-to-logged]
        test_a_stalled_agent_that_wakes_up_behind_its_successor_does_no_harm[stalled-kafka-to-kafkalog]
    """,
    "tests/faults/test_faults_on_the_way.py": """
        test_a_wire_open_in_one_direction_only_loses_nothing[half-wire-logged-to-logged]
        test_a_wire_open_in_one_direction_only_loses_nothing[half-wire-mqtt-to-mqtt]
        test_restarting_the_broker_loses_nothing[restart-broker-kafka-to-kafka]
        test_killing_the_broker_of_a_job_from_link_to_link_loses_nothing[kill-broker-kafka-through-kafkalog]
        test_cutting_the_wire_of_a_job_from_link_to_link_loses_nothing[wire-classic-through-mqtt]
        test_cutting_and_stalling_the_wire_loses_nothing[wire-kafka-to-kafka]
        test_restarting_the_broker_loses_nothing[restart-broker-classic-to-quorum]
        test_killing_the_broker_of_a_job_from_link_to_link_loses_nothing[kill-broker-classic-through-mqtt]
        test_a_wire_open_in_one_direction_only_loses_nothing[half-wire-kafka-to-kafkalog]
        test_killing_the_agent_of_a_job_from_link_to_link_loses_nothing[kill-agent-kafka-through-kafkalog]
        test_cutting_the_wire_of_a_job_from_link_to_link_loses_nothing[wire-kafka-through-kafkalog]
        test_killing_the_agent_loses_nothing[kill-agent-kafka-to-kafkalog]
        test_a_job_from_link_to_link_that_was_asked_to_end_leaves_nothing_to_repeat[drain-agent-classic-through-mqtt]
        test_an_agent_that_was_asked_to_end_leaves_nothing_to_repeat[drain-agent-classic-to-quorum]
        test_an_agent_that_was_asked_to_end_leaves_nothing_to_repeat[drain-agent-mqtt-to-mqtt]
        test_killing_the_agent_loses_nothing[kill-agent-kafka-to-mqtt]
        test_killing_the_broker_of_a_job_from_link_to_link_loses_nothing[kill-broker-stream-through-kafkalog]
        test_killing_the_broker_of_a_job_from_link_to_link_loses_nothing[kill-broker-ids-through-kafkalog]
        test_killing_the_broker_of_a_job_from_link_to_link_loses_nothing[kill-broker-mqtt-through-quorum]
    """,
    "tests/faults/test_killed_at_every_step.py": """
        test_killed_at_any_step_from_link_to_link_nothing_is_lost[steps-logged-through-logged]
        test_killed_at_any_step_outbound_nothing_is_lost[steps-kafkalog-out]
        test_killed_at_any_step_from_link_to_link_nothing_is_lost[steps-kafka-through-kafkalog]
        test_killed_at_any_step_inbound_nothing_is_lost[steps-ids-in]
        test_killed_at_any_step_inbound_nothing_is_lost[steps-stream-in]
    """,
    "tests/faults/test_outages.py": """
        test_all_jobs_of_a_link_go_on_soon_after_their_broker_is_back[kafka]
        test_all_jobs_of_a_link_go_on_soon_after_their_broker_is_back[mqtt]
    """,
    "tests/faults/test_standby.py": """
        test_the_standby_takes_over_and_nothing_is_lost_or_doubled[standby-stream-to-kafkalog]
    """,
    "tests/page/test_pages.py": """
        test_every_page_of_an_empty_hub_tells_the_next_step[dark]
    """,
    "tests/pipelines/test_archive.py": "test_history_of_a_queue_is_archived_once",
    "tests/pipelines/test_archive_kills.py": """
        test_a_query_that_is_killed_loses_and_doubles_nothing[postgresql]
    """,
    "tests/pipelines/test_batch_read.py": """
        test_each_kind_of_reading_finds_its_messages[postgresql]
        test_large_bodies_come_in_small_pieces[sqlite]
    """,
    "tests/pipelines/test_demo_spark.py": "test_damage_to_the_archive_is_found",
    "tests/pipelines/test_enrich.py": "test_a_stream_is_joined_and_published",
    "tests/pipelines/test_reconcile.py": "test_an_audit_of_nothing_proves_nothing",
    "tests/pipelines/test_reconcile_bridged.py": "test_a_bridged_topic_is_audited_from_end_to_end",
    "tests/pipelines/test_reconcile_compare.py": """
        test_without_digests_nothing_is_altered
        test_order_is_compared_within_pairs_of_parts_only
        test_without_ids_equal_contents_are_counted
    """,
    "tests/pipelines/test_replay.py": """
        test_exception_messages_leave_their_queue_as_they_are_replayed
        test_an_archive_comes_back_once_as_it_was
    """,
    "tests/pipelines/test_spark_pages.py": "test_the_examples_run_in_their_order",
    "tests/pipelines/test_stream_read.py": """
        test_a_batch_that_failed_comes_again_exactly_and_every_message_once[postgresql]
        test_the_next_batch_is_asked_for_when_the_last_one_is_in_the_commit_log[sqlite]
        test_the_next_batch_is_asked_for_when_the_last_one_is_in_the_commit_log[postgresql]
    """,
    "tests/pipelines/test_write_back.py": "test_a_stream_that_is_killed[sqlite]",
    "tests/property/test_group_model.py": "test_groups_on_postgresql_are_those_of_the_model",
    "tests/property/test_mqtt_receiving_log.py": "test_equal_message_one_round_later_is_stored_after_a_crash",
}
