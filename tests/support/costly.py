"""The tests of which each costs seconds: see :mod:`tests.support.combinations` for what is listed.

Measured with ``MGW_COSTS``: more than 0.8 seconds of the processor, or one of several cases of 0.2 seconds. To be
measured again when ``make test`` takes more than twelve minutes on two cores.
"""

from __future__ import annotations

__all__ = ["LISTED"]

#: By file: name, name[case], Class::name or Class::name[case] of a test.
LISTED: dict[str, str] = {
    "tests/cli/test_agent_life.py": """
        test_a_start_that_cannot_succeed_leaves_the_agent_stopped_with_the_reason[log_directory = /dev/null/logs--3]
        test_a_start_that_cannot_succeed_leaves_the_agent_stopped_with_the_reason[log_level = high--2]
        test_agents_end_with_the_process_that_started_them
        test_all_agents_of_the_hub_run_under_one_command
    """,
    "tests/cli/test_apply.py": """
        test_a_subscriber_with_a_transformation_comes_and_goes
        test_another_queue_in_the_queue_table_of_a_queue_changes_nothing_for_it
        test_apply_creates_everything_and_says_so
        test_object_types_are_made_first_and_removed_last
        test_pruning_leaves_the_queue_table_of_its_last_queue_that_the_file_describes
        test_secret_is_nowhere_to_be_seen
    """,
    "tests/cli/test_aq_payloads.py": """
        test_every_kind_of_payload_goes_in_and_out
        test_wrong_bodies_and_names_are_explained
    """,
    "tests/cli/test_aq_security.py": "test_names_that_need_quotes_work_from_files_and_commands",
    "tests/cli/test_chains.py": "test_a_step_becomes_a_chain_while_its_chain_drops_it[wrap]",
    "tests/cli/test_commands.py": """
        test_headings_are_whole_at_80_columns_and_rows_where_there_is_no_terminal
        test_help_is_quick_and_loads_no_client_and_no_database
        test_long_names_and_errors_still_fit_into_80_columns
        test_messages_go_in_and_come_out_byte_for_byte
        test_refusals_name_object_cause_and_cure[words16-1-belongs to a job]
        test_refusals_name_object_cause_and_cure[words4-1-agent DEFAULT_AGENT cannot be removed]
        test_run_applies_its_files_carries_on_and_stops_cleanly
        test_top_in_a_terminal_shows_the_jobs_and_leaves_with_q
    """,
    "tests/cli/test_create_commands.py": """
        test_commands_make_what_a_file_makes
        test_subscribers_and_schedules_are_made_altered_and_removed
        test_what_is_refused_leaves_nothing_behind
    """,
    "tests/cli/test_described_once.py": "test_file_plan_export_and_commands_know_it",
    "tests/cli/test_distribution.py": """
        test_a_link_without_its_client_names_the_extra
        test_a_wheel_made_of_the_source_archive_is_the_same
        test_the_base_has_no_client_and_works_with_hub_queues
        test_the_base_prints_the_schema_with_every_link_type
    """,
    "tests/cli/test_examples.py": "test_a_topic_whose_configuration_may_not_be_seen_is_not_called_exact",
    "tests/cli/test_exceptions.py": """
        test_a_replay_that_is_killed_loses_and_doubles_nothing
        test_an_edit_that_cannot_be_stored_is_refused[words0-1-has 251 characters]
        test_an_edit_that_cannot_be_stored_is_refused[words1-1-is 4001 long; a header value holds at most 4000]
        test_parked_keys_are_shown_tried_and_given_up
        test_times_are_utc_unless_they_name_a_zone
    """,
    "tests/cli/test_functions.py": """
        test_a_running_agent_takes_another_function_without_a_restart
        test_commands_set_and_show_them
        test_plan_apply_and_export_show_them
        test_programs_of_others_have_them_too
    """,
    "tests/cli/test_generations.py": "test_a_rollback_shows_its_plan_and_leads_to_what_was_there",
    "tests/cli/test_init.py": """
        test_the_file_carries_messages
        test_the_file_for_brokers_with_tls_and_a_login_asks_for_the_passwords
        test_the_file_of_each_pair_is_right_as_it_is[kafka-to-kafka]
        test_the_file_of_each_pair_is_right_as_it_is[kafka-to-mqtt]
        test_the_file_of_each_pair_is_right_as_it_is[kafka-to-rabbitmq]
        test_the_file_of_each_pair_is_right_as_it_is[mqtt-to-kafka]
        test_the_file_of_each_pair_is_right_as_it_is[mqtt-to-mqtt]
        test_the_file_of_each_pair_is_right_as_it_is[mqtt-to-rabbitmq]
        test_the_file_of_each_pair_is_right_as_it_is[rabbitmq-to-mqtt]
        test_the_file_of_each_pair_is_right_as_it_is[rabbitmq-to-rabbitmq]
    """,
    "tests/cli/test_job_verbs.py": """
        test_each_verb_says_what_it_did
        test_reset_wants_a_job_or_all[words0]
        test_what_is_not_there_is_named[words1]
        test_what_is_not_there_is_named[words2]
        test_what_is_not_there_is_named[words3]
    """,
    "tests/cli/test_json_output.py": """
        test_followed_events_are_an_object_a_line
        test_values_have_the_types_of_json[agents list]
        test_values_have_the_types_of_json[agents ping]
        test_values_have_the_types_of_json[agents show]
        test_values_have_the_types_of_json[aq agents list]
        test_values_have_the_types_of_json[aq browse]
        test_values_have_the_types_of_json[aq dequeue]
        test_values_have_the_types_of_json[aq privileges]
        test_values_have_the_types_of_json[aq queues]
        test_values_have_the_types_of_json[aq subscribers list]
        test_values_have_the_types_of_json[aq tables list]
        test_values_have_the_types_of_json[aq time-manager]
        test_values_have_the_types_of_json[aq types list]
        test_values_have_the_types_of_json[audit]
        test_values_have_the_types_of_json[events]
        test_values_have_the_types_of_json[exceptions discard]
        test_values_have_the_types_of_json[exceptions list]
        test_values_have_the_types_of_json[exceptions parked]
        test_values_have_the_types_of_json[exceptions replay]
        test_values_have_the_types_of_json[exceptions show]
        test_values_have_the_types_of_json[functions list]
        test_values_have_the_types_of_json[generations list]
        test_values_have_the_types_of_json[jobs history]
        test_values_have_the_types_of_json[jobs list]
        test_values_have_the_types_of_json[jobs show]
        test_values_have_the_types_of_json[links list]
        test_values_have_the_types_of_json[links prepare]
        test_values_have_the_types_of_json[links show]
        test_values_have_the_types_of_json[links test]
        test_values_have_the_types_of_json[lint]
        test_values_have_the_types_of_json[modules list]
        test_values_have_the_types_of_json[pipeline list]
        test_values_have_the_types_of_json[pipeline streams]
        test_values_have_the_types_of_json[plan]
        test_values_have_the_types_of_json[prove]
        test_values_have_the_types_of_json[queues list]
        test_values_have_the_types_of_json[queues show]
        test_values_have_the_types_of_json[schedules list]
        test_values_have_the_types_of_json[status]
        test_values_have_the_types_of_json[subscribers list]
        test_values_have_the_types_of_json[tap]
        test_values_have_the_types_of_json[transform]
        test_values_have_the_types_of_json[transformations list]
        test_values_have_the_types_of_json[transformations show]
        test_values_have_the_types_of_json[upgrade]
        test_values_have_the_types_of_json[users list]
        test_values_have_the_types_of_json[users tokens]
    """,
    "tests/cli/test_link_of_another_package.py": "test_jobs_carry_messages_in_and_out_exactly_once",
    "tests/cli/test_lint.py": """
        test_effort_grows_with_the_file_and_not_faster
        test_files_that_we_ship_have_no_findings[gateway.example.yaml]
        test_hostile_yaml_is_refused_at_once_and_briefly[bomb of lists]
        test_hostile_yaml_is_refused_at_once_and_briefly[number of a million digits]
        test_hostile_yaml_is_refused_at_once_and_briefly[variables without end]
    """,
    "tests/cli/test_prepare.py": """
        test_a_broker_that_is_away_fails_apply_but_not_the_start
        test_a_gateway_that_starts_before_its_broker_prepares_its_link_later
        test_apply_prepares_a_link_that_asks_for_it
    """,
    "tests/cli/test_queue_options.py": "test_options_travel_through_file_plan_export_views_and_commands",
    "tests/cli/test_queues.py": "test_a_queue_is_made_changed_stopped_and_dropped",
    "tests/cli/test_removal.py": """
        test_file_may_say_it
        test_job
        test_plan_counts_and_apply_refuses_all_of_it
        test_queue_and_queue_table
        test_subscriber
        test_what_a_running_agent_works_on_goes_in_one_run
        test_what_is_empty_goes_without_force
    """,
    "tests/cli/test_run_with_refusals.py": """
        test_a_new_hub_gets_everything_but_what_is_refused_and_what_needs_it
        test_a_variable_that_is_not_set_leaves_its_link_as_the_hub_has_it
        test_what_is_said_of_a_file_is_in_the_log_of_the_agent
    """,
    "tests/cli/test_servers.py": """
        test_configuration_and_status_are_the_same_on_postgresql
        test_hub_has_a_schema_of_its_own_where_there_are_tables_already
        test_link_test_says_what_works_and_that_a_password_is_wrong
    """,
    "tests/cli/test_service_manager.py": """
        test_the_daemon_tells_of_its_life
        test_the_log_is_rotated_while_the_agent_writes_it_and_no_line_is_lost
    """,
    "tests/cli/test_sources_of_configuration.py": """
        test_a_file_of_a_folder_is_left_out_only_if_it_holds_tests[empty]
        test_a_file_of_a_folder_is_left_out_only_if_it_holds_tests[no YAML]
        test_the_daemon_reads_folder_and_values_again
    """,
    "tests/cli/test_tap.py": "test_live_messages_are_printed",
    "tests/cli/test_top.py": """
        test_each_cause_is_one_line_and_nothing_is_fine_when_the_agent_is_dead
        test_filter_and_order_are_options_and_without_a_terminal_nothing_is_cut
        test_status_says_since_when_a_link_is_down_and_when_the_next_attempt_is
    """,
    "tests/cli/test_users.py": """
        test_every_change_is_an_event
        test_names_and_passwords_that_cannot_be_used[ada-too short-it must have 12 to 1024 characters]
        test_names_and_passwords_that_cannot_be_used[administrator-ADMINISTRATOR-and not be the name]
        test_the_first_user_is_an_administrator_and_the_last_one_stays
    """,
    "tests/cli/test_warnings.py": """
        test_a_program_that_opens_a_hub_has_no_handler_and_no_level_more
        test_a_warning_of_each_package_is_in_the_log_of_a_run
    """,
    "tests/conformance/test_admin_sqlite.py": """
        test_concurrent_changes_of_two_processes_are_serialized
        test_jobs_that_cannot_work_are_refused[32818-arguments3]
    """,
    "tests/conformance/test_age_warning.py": """
        test_queue_is_warned_of_once_until_it_is_read[postgresql]
        test_subscriber_has_a_limit_of_its_own_or_that_of_the_queue_table[postgresql]
    """,
    "tests/conformance/test_agent_settings.py": "test_events_are_kept_as_long_as_the_agent_says[None-kept1]",
    "tests/conformance/test_altered_links.py": """
        test_another_address_of_the_same_broker_loses_and_repeats_nothing
    """,
    "tests/conformance/test_audit.py": """
        test_a_change_that_does_not_happen_is_not_kept[postgresql]
        test_an_apply_is_one_generation_and_the_way_back_is_another[postgresql]
    """,
    "tests/conformance/test_bad_input.py": """
        test_bad_configuration_is_named_with_its_place_and_leaves_the_hub_as_it_was
        test_hub_of_a_newer_version_is_refused_by_every_command_and_left_untouched
        test_inbound_body_that_the_transformation_does_not_expect_goes_to_the_exception_queue_untouched
        test_message_of_20_mb_arrives_whole_or_is_put_aside_whole_with_the_limit_it_broke
        test_mqtt_payload_with_nul_bytes_arrives_byte_for_byte
        test_outbound_body_that_the_transformation_does_not_expect_waits_or_goes_to_a_queue_of_the_hub
        test_source_that_lost_messages_stops_the_job_until_a_person_gives_them_up
        test_wrong_password_and_port_of_mqtt_are_named_and_cured_while_the_agent_runs
        test_wrong_password_of_rabbitmq_is_named_and_cured_while_the_agent_runs
    """,
    "tests/conformance/test_batch_sizing.py": """
        test_a_limit_that_is_the_batch_size_keeps_batches_as_they_are
        test_heavy_messages_do_not_make_batches_that_fill_the_memory
        test_into_the_hub_batches_grow_to_the_limit
        test_out_of_a_full_queue_batches_grow_to_the_limit[kafka]
        test_out_of_a_full_queue_batches_grow_to_the_limit[rabbitmq]
        test_single_messages_are_carried_in_batches_of_one
        test_what_is_planned_as_it_comes_counts_too
    """,
    "tests/conformance/test_engine.py": """
        test_a_failing_destination_gets_the_same_batches_again_in_order[publish]
        test_a_second_process_of_the_agent_is_refused_and_the_first_goes_on
        test_messages_for_jobs_that_wait_are_planned_by_the_transaction_that_brings_them[True]
        test_what_waits_for_a_commit_is_stored_together_unless_its_log_forbids_it[True]
        test_when_a_commit_fails_nothing_read_ahead_is_lost_or_stored_twice[2]
    """,
    "tests/conformance/test_engine_failures.py": """
        test_a_job_whose_kafka_topic_is_read_and_whose_hub_queue_is_stopped_fails_for_good
    """,
    "tests/conformance/test_exception_desk.py": """
        test_a_dry_run_changes_nothing[postgresql-one-consumer]
        test_a_dry_run_changes_nothing[postgresql-subscribers]
        test_a_dry_run_changes_nothing[sqlite-one-consumer]
        test_a_job_without_an_exception_queue_says_so[postgresql-one-consumer]
        test_a_job_without_an_exception_queue_says_so[postgresql-subscribers]
        test_a_job_without_an_exception_queue_says_so[sqlite-one-consumer]
        test_a_rate_is_kept[postgresql-one-consumer]
        test_a_rate_is_kept[postgresql-subscribers]
        test_a_source_that_takes_nothing_leaves_all_where_it_is[postgresql-one-consumer]
        test_a_source_that_takes_nothing_leaves_all_where_it_is[postgresql-subscribers]
        test_an_entry_tells_reason_and_identity[postgresql-one-consumer]
        test_an_entry_tells_reason_and_identity[postgresql-subscribers]
        test_an_entry_tells_reason_and_identity[sqlite-one-consumer]
        test_discard_removes_and_tells[sqlite-one-consumer]
        test_filters_choose[postgresql-one-consumer-which0-3]
        test_filters_choose[postgresql-one-consumer-which1-0]
        test_filters_choose[postgresql-one-consumer-which2-3]
        test_filters_choose[postgresql-one-consumer-which3-0]
        test_filters_choose[postgresql-one-consumer-which4-3]
        test_filters_choose[postgresql-one-consumer-which5-0]
        test_filters_choose[postgresql-one-consumer-which6-3]
        test_filters_choose[postgresql-one-consumer-which7-0]
        test_filters_choose[postgresql-subscribers-which0-3]
        test_filters_choose[postgresql-subscribers-which1-0]
        test_filters_choose[postgresql-subscribers-which2-3]
        test_filters_choose[postgresql-subscribers-which3-0]
        test_filters_choose[postgresql-subscribers-which4-3]
        test_filters_choose[postgresql-subscribers-which5-0]
        test_filters_choose[postgresql-subscribers-which6-3]
        test_filters_choose[postgresql-subscribers-which7-0]
        test_filters_choose[sqlite-one-consumer-which0-3]
        test_filters_choose[sqlite-one-consumer-which2-3]
        test_filters_choose[sqlite-one-consumer-which3-0]
        test_filters_choose[sqlite-one-consumer-which4-3]
        test_filters_choose[sqlite-one-consumer-which5-0]
        test_filters_choose[sqlite-one-consumer-which7-0]
        test_filters_choose[sqlite-subscribers-which0-3]
        test_filters_choose[sqlite-subscribers-which1-0]
        test_filters_choose[sqlite-subscribers-which2-3]
        test_filters_choose[sqlite-subscribers-which7-0]
        test_other_subscribers_get_no_second_copy[sqlite-subscribers]
        test_replay_puts_messages_back_as_they_were_and_in_order[postgresql-one-consumer]
        test_replay_puts_messages_back_as_they_were_and_in_order[postgresql-subscribers]
        test_replay_puts_messages_back_as_they_were_and_in_order[sqlite-one-consumer]
        test_the_job_delivers_what_is_replayed_once_the_cause_is_gone[sqlite-subscribers]
        test_what_is_no_edit_is_refused[postgresql-one-consumer]
        test_what_is_no_edit_is_refused[postgresql-subscribers]
        test_what_is_no_edit_is_refused[sqlite-one-consumer]
    """,
    "tests/conformance/test_exception_desk_logs.py": """
        test_a_discard_takes_what_is_meant[kafka-python]
        test_a_hub_that_fails_after_the_replay_doubles_and_does_not_lose[kafka-python]
        test_a_log_that_was_made_again_hides_nothing[kafka-python]
        test_a_replay_brings_the_originals_back_once
        test_a_replay_that_is_killed_loses_nothing_and_repeats_at_most_a_batch
        test_an_edited_message_is_the_last_one_and_the_old_one_is_done[kafka-python]
        test_two_desks_at_once_see_what_the_other_one_has_done[confluent]
        test_two_desks_at_once_see_what_the_other_one_has_done[kafka-python]
    """,
    "tests/conformance/test_exception_desk_quorum.py": """
        test_a_policy_limits_as_well
        test_looking_ends_before_the_limit_does_harm
        test_looking_keeps_the_order_and_a_replay_brings_the_originals_back
        test_more_messages_than_are_held_at_once_are_replayed_in_order
        test_what_others_brought_to_the_limit_is_kept
    """,
    "tests/conformance/test_exception_desk_rabbitmq.py": """
        test_a_replay_that_is_killed_loses_nothing_and_repeats_at_most_a_batch
    """,
    "tests/conformance/test_exception_desks.py": """
        test_a_desk_and_a_program_take_each_message_once[postgresql]
        test_a_message_that_the_source_refuses_stays_and_the_others_go[postgresql]
        test_an_exception_queue_on_a_link_is_refused_with_cause_and_cure[postgresql]
        test_an_exception_queue_that_groups_by_transaction_is_a_desk_like_others[postgresql]
        test_an_exception_queue_with_subscribers_wants_one_named_and_replays_for_one_only[postgresql]
        test_two_desks_at_once_take_each_message_once[sqlite-discard]
    """,
    "tests/conformance/test_exception_messages.py": """
        test_kafka_has_every_header_in_order[aq]
        test_kafka_has_every_header_in_order[long-key]
        test_mqtt_has_every_property_in_order[no-text]
        test_mqtt_has_every_property_in_order[types-of-another]
        test_rabbitmq_has_what_a_header_array_cannot_hold[plain]
    """,
    "tests/conformance/test_foreign_clients.py": """
        test_java_client_reads_every_type_of_header_as_it_sent_it_over_kafka
    """,
    "tests/conformance/test_gaps.py": """
        test_a_log_that_lost_its_end_is_read_from_its_beginning[THROUGH]
        test_a_stream_deleted_and_made_again_is_read_from_its_beginning
        test_a_stream_that_grows_below_the_stored_offset_is_not_taken_for_a_new_one_at_once
        test_a_stream_that_is_idle_or_whose_broker_was_away_lacks_nothing
        test_only_the_partition_with_a_gap_is_moved_and_a_restart_forgets_nothing
        test_what_is_cut_after_the_operator_was_told_is_told_as_well
    """,
    "tests/conformance/test_guarantee_watch.py": """
        test_a_log_queue_that_is_deleted_ends_the_job[OUTBOUND]
        test_a_policy_that_drops_messages_stops_a_writing_job_that_requires_more
        test_a_refused_question_stops_only_a_job_that_requires_the_answer[exact]
        test_a_topic_setting_that_is_changed_stops_a_job_that_requires_exact[OUTBOUND-log-config0-at-least-once]
    """,
    "tests/conformance/test_health.py": "test_check_says_why_while_brokers_are_down_or_refuse_the_login",
    "tests/conformance/test_http.py": """
        test_a_full_disk_makes_the_agent_unready_and_unhealthy
        test_an_address_that_is_no_address_or_is_open_to_others_is_refused[words2-environ2--it is not HOST:PORT]
        test_an_address_that_is_no_address_or_is_open_to_others_is_refused[words3-environ3--it is not HOST:PORT]
        test_an_agent_that_was_shut_down_is_live_and_not_ready
        test_every_metric_is_described_and_every_description_is_met
        test_probes_tell_an_outage_of_the_broker_from_a_process_that_is_ill
    """,
    "tests/conformance/test_hub_beside_postgresql.py": """
        TestApplication::test_prepared_statement_follows_its_hub
        TestPlace::test_login_without_the_right_to_make_a_schema_is_told_who_can
        test_older_hub_in_a_schema_is_upgraded_next_to_the_applications_tables
    """,
    "tests/conformance/test_hub_dropped.py": """
        test_command[schema]
        test_hub_is_not_dropped_while_an_agent_runs[postgresql]
        test_hub_is_not_dropped_while_an_agent_runs[schema]
        test_messages_that_wait_are_not_dropped_without_force[schema]
        test_nothing_of_the_hub_is_left_and_everything_of_the_application[schema]
        test_what_the_application_made_of_the_hub_is_named_and_kept[schema]
    """,
    "tests/conformance/test_hub_functions.py": """
        TestGroups::test_whole_groups_go_to_one_consumer_each[table1]
        TestNamesBeyondAscii::test_logins_hold_what_they_were_granted_where_the_locale_knows_their_letters[C]
        TestNamesBeyondAscii::test_messages_go_to_the_consumer_of_that_name_or_are_refused[C]
        TestNamesBeyondAscii::test_recipients_that_python_made_are_found[C]
    """,
    "tests/conformance/test_hub_heads.py": """
        TestHeads::test_who_ends_some_does_not_read_all_that_is_in_hand[RED]
        TestViewOnPostgreSQL::test_the_messages_of_other_queue_tables_are_not_looked_through
    """,
    "tests/conformance/test_hub_logins.py": "TestLogins::test_the_command_prints_the_statements_or_runs_them",
    "tests/conformance/test_hub_postgresql.py": """
        TestAttempt::test_program_ends[raises]
        TestCommitConcurrency::test_later_commit_never_appears_before_one_already_seen
        TestCrowd::test_threads_take_every_message_once
        TestDeviation::test_any_mixture_comes_out_as_a_list_would[False-2]
        TestDeviation::test_any_mixture_comes_out_as_a_list_would[True-1]
        TestDeviation::test_any_mixture_comes_out_as_a_list_would[True-2]
        TestDeviation::test_every_consumer_sees_the_deviation
        TestGroupConcurrency::test_processes_take_whole_groups_and_a_killed_one_gives_its_own_back[None]
        TestGroupConcurrency::test_threads_take_whole_groups[RED]
        TestHands::test_call_in_a_long_transaction_costs_no_more_than_in_a_short_one
        TestHands::test_killed_process_leaves_a_blocked_recipient_blocked[REMOVE]
        TestNavigation::test_session_finds_what_it_has_locked_and_others_do_not[pattern-RED]
        TestTransfer::test_a_plan_leaves_what_has_expired_to_the_time_manager[RED]
    """,
    "tests/conformance/test_hub_restored.py": "test_a_hub_is_dumped_and_restored_with_its_messages",
    "tests/conformance/test_hub_sqlite.py": """
        TestAttempt::test_program_ends[closed]
        TestAttempt::test_program_ends[exit]
        TestAttempt::test_program_ends[forgotten]
        TestAttempt::test_program_ends[own]
        TestAttempt::test_program_ends[raises]
        TestCommitConcurrency::test_later_commit_never_appears_before_one_already_seen
        TestDeviation::test_any_mixture_comes_out_as_a_list_would[True-2]
        TestForeignFiles::test_opening_a_hub_again_keeps_the_locks_of_the_process
        TestGroup::test_first_message_decides_delay_and_expiration_of_its_group[RED]
        TestGroupConcurrency::test_processes_take_whole_groups_and_a_killed_one_gives_its_own_back[RED]
        TestLongCondition::test_dequeue_conditions_of_any_shape_find_what_python_finds
        TestSubscriber::test_a_queue_takes_a_thousand_local_subscribers
        TestTrap::test_t08_killed_process_gives_its_message_back_before_its_parent_has_reaped_it
    """,
    "tests/conformance/test_isolation.py": """
        test_a_connection_that_is_lost_over_each_message_is_no_fault_of_any[None]
        test_a_destination_that_takes_nothing_is_waited_for[logged-Blame.UNKNOWN]
        test_a_destination_that_takes_nothing_is_waited_for[plain-Blame.DESTINATION]
        test_a_destination_that_takes_nothing_is_waited_for[plain-Blame.UNKNOWN]
        test_a_message_over_which_the_connection_is_lost_each_time_is_set_aside[logged-(0,)]
        test_a_message_over_which_the_connection_is_lost_each_time_is_set_aside[logged-(3, 13, 38)]
        test_a_message_over_which_the_connection_is_lost_each_time_is_set_aside[plain-(3, 13, 38)]
        test_an_exception_queue_that_takes_nothing_keeps_it_in_its_plan[logged]
        test_the_form_is_corrected_before_anything_is_divided[logged]
        test_the_ledger_says_where_nobody_knows_whether_it_was_stored[plain]
        test_the_one_is_set_aside_and_the_others_arrive[logged-(19, 20)-Blame.MESSAGE]
        test_the_one_is_set_aside_and_the_others_arrive[logged-(19, 20)-Blame.UNKNOWN]
        test_the_one_is_set_aside_and_the_others_arrive[logged-(3, 13, 14, 38)-Blame.MESSAGE]
        test_the_one_is_set_aside_and_the_others_arrive[logged-(3, 13, 14, 38)-Blame.UNKNOWN]
        test_the_one_is_set_aside_and_the_others_arrive[plain-(19, 20)-Blame.MESSAGE]
        test_the_one_is_set_aside_and_the_others_arrive[plain-(3, 13, 14, 38)-Blame.UNKNOWN]
        test_the_one_is_set_aside_and_the_others_arrive[plain-(7,)-Blame.MESSAGE]
        test_without_an_exception_queue_it_is_a_failure_of_the_message[logged]
    """,
    "tests/conformance/test_jms_options.py": """
        test_mqtt_gets_the_mode_as_quality_of_service_and_the_id[PERSISTENT-1]
        test_rabbitmq_gets_the_delivery_mode[NON_PERSISTENT-1]
        test_what_this_hub_published_is_skipped_and_what_another_did_is_not[rabbitmq]
    """,
    "tests/conformance/test_jms_queues.py": "test_every_kind_comes_back_from_a_broker_in_order[rabbitmq]",
    "tests/conformance/test_job_history.py": """
        test_failures_and_their_state_are_seen_at_a_point[postgresql]
        test_points_share_a_row_by_time[postgresql]
        test_the_history_is_asked_for_over_http_and_in_sql
        test_what_moves_is_written_and_what_rests_costs_a_row_in_minutes[postgresql]
    """,
    "tests/conformance/test_kafka_batches.py": """
        test_a_batch_that_the_server_finds_too_large_is_divided[True]
        test_kafkas_own_consumer_reads_what_was_written
    """,
    "tests/conformance/test_kafka_confluent.py": """
        test_every_message_is_there_once_and_earlier_producers_are_shut_out
        test_only_the_client_of_the_link_is_imported
        test_what_kafka_does_not_write_any_more_is_read_by_both_clients
    """,
    "tests/conformance/test_kafka_exact.py": """
        TestForgottenMarkers::test_librdkafka_lets_what_was_committed_stand_too
        TestForgottenMarkers::test_they_are_not_confirmed_and_there_once_after_the_next_connect
        TestLog::test_each_job_gets_a_partition_and_one_too_many_is_refused_with_the_cure
        TestLog::test_what_is_left_of_jobs_that_do_not_exist_is_removed_and_nothing_else
        TestTransactions::test_close_aborts_and_holds_no_reader_back
    """,
    "tests/conformance/test_kafka_kills.py": """
        test_a_batch_is_sent_again_exactly_when_the_log_has_it_not
        test_a_log_that_was_purged_stops_the_job_before_anything_is_sent
        test_a_restored_hub_behind_its_log_stops_the_job_before_anything_is_sent
    """,
    "tests/conformance/test_kafka_link.py": """
        TestChecks::test_impossible_link_is_refused[attributes5-options5-KAFKA_Linger_ms]
        TestKafkaLink::test_foreign_client_reads_what_was_sent
        TestKafkaLink::test_foreign_header_name_of_300_characters_is_delivered_as_failure
        TestKafkaLink::test_foreign_message_arrives_with_its_body
        TestKafkaLink::test_raw_body_comes_back[kafka-python-bytes]
        TestReading::test_a_partition_without_messages_does_not_hold_up_the_others
        test_a_batch_that_is_alone_does_not_wait_for_more
    """,
    "tests/conformance/test_kafka_oauth.py": """
        test_a_token_from_a_file_that_is_renewed[confluent]
        test_impossible_settings_are_refused[changes4-oauth_extensions]
        test_messages_go_on_when_tokens_end
    """,
    "tests/conformance/test_kept_certificates.py": """
        test_a_server_that_is_named_twice_has_one_row_and_one_that_is_silent_keeps_its_own[postgresql]
    """,
    "tests/conformance/test_key_rotation.py": """
        test_a_key_file_that_does_not_answer_does_not_cost_the_agent_its_lease
        test_an_agent_that_does_not_know_the_new_key_is_waited_for[postgresql]
        test_every_secret_is_encrypted_again_and_nothing_is_shown[postgresql]
        test_the_command_changes_the_key_and_says_how_to_forget_the_former
        test_while_an_agent_runs[postgresql]
    """,
    "tests/conformance/test_lcr.py": """
        test_records_travel_as_xml_and_come_back[postgresql-ORACLE_LCR]
        test_records_travel_as_xml_and_come_back[postgresql-]
        test_records_travel_as_xml_and_come_back[sqlite-]
    """,
    "tests/conformance/test_ledger.py": """
        test_a_changed_record_is_noticed[detail = :empty-into]
        test_a_changed_record_is_noticed[detail = :empty-out]
        test_a_changed_record_is_noticed[detail = :positions-into]
        test_a_changed_record_is_noticed[detail = :times-into]
        test_a_changed_record_is_noticed[detail = :times-out]
        test_a_changed_record_is_noticed[detail = x'00'-into]
        test_a_changed_record_is_noticed[detail = x'00'-out]
        test_a_changed_record_is_noticed[sequence = coalesce(sequence, 0) + 70-into]
        test_a_hub_on_postgresql_proves_and_prunes_alike
        test_a_record_that_was_taken_out_is_noticed[2-into]
        test_bad_input_is_refused_with_a_reason[words0-1-has no record of message LOG@5000]
        test_bad_input_is_refused_with_a_reason[words1-1-is not from this hub]
        test_bad_input_is_refused_with_a_reason[words4-2-give one of them]
    """,
    "tests/conformance/test_ledger_kafka.py": """
        test_a_foreign_reader_finds_every_message_where_the_ledger_says
    """,
    "tests/conformance/test_ledger_upkeep.py": """
        test_a_changed_row_of_several_records_is_noticed[messages = messages + 1-out-sqlite]
        test_a_message_of_a_small_batch_takes_as_little_room_as_one_of_a_large_batch
        test_a_process_killed_while_it_merges_leaves_the_records_as_they_were
        test_records_are_merged_while_a_job_runs_and_every_message_stays_in_them
        test_the_view_adds_up_to_the_same[postgresql]
        test_what_is_dense_or_of_another_kind_stays_alone_and_a_row_ends_there
    """,
    "tests/conformance/test_left_out.py": """
        test_the_rule_of_a_job_counts_whichever_way_it_carries[sqlite-LOCAL-H-M]
        test_the_rule_of_a_job_counts_whichever_way_it_carries[sqlite-OUTBOUND-H-DST@mem]
        test_the_rule_of_a_job_counts_whichever_way_it_carries[sqlite-THROUGH-SRC@mem-DST@mem]
        test_what_a_job_filters_is_an_event_at_once_and_then_a_sum[postgresql-INBOUND-SRC@mem-M]
        test_what_a_job_filters_is_an_event_at_once_and_then_a_sum[postgresql-LOCAL-L-M]
        test_what_a_job_filters_is_an_event_at_once_and_then_a_sum[postgresql-OUTBOUND-L-DST@mem]
        test_what_a_job_filters_is_an_event_at_once_and_then_a_sum[postgresql-THROUGH-SRC@mem-DST@mem]
        test_what_a_job_filters_is_an_event_at_once_and_then_a_sum[sqlite-LOCAL-L-M]
    """,
    "tests/conformance/test_link_tls.py": """
        test_renewed_files_are_used_at_the_next_connect[kafka-python]
        test_renewed_files_are_used_at_the_next_connect[rabbitmq]
        test_verification_that_is_off_is_told_at_every_connect[kafka-python]
        test_verification_that_is_off_is_told_at_every_connect[rabbitmq]
        test_verified_with_a_client_certificate_and_told[kafka-python]
        test_verified_with_a_client_certificate_and_told[rabbitmq]
        test_what_is_wrong_has_its_cure[confluent]
    """,
    "tests/conformance/test_log_preparation.py": """
        test_a_job_that_comes_later_gets_its_log_from_another_call
        test_the_log_topic_of_kafka_is_made_and_grows
    """,
    "tests/conformance/test_lookup.py": """
        test_what_is_not_there_is_refused_with_the_name_that_was_meant[object type]
    """,
    "tests/conformance/test_loops.py": "test_a_loop_over_a_real_broker_is_stopped[rabbitmq]",
    "tests/conformance/test_lost_commits.py": """
        test_what_a_lost_commit_stored_is_neither_repeated_nor_missing
    """,
    "tests/conformance/test_metrics.py": """
        test_promtool_finds_nothing_wrong_with_what_an_agent_answers
        test_what_lies_in_queues_is_told_without_counting_it[postgresql]
    """,
    "tests/conformance/test_mgwadm.py": """
        TestAgents::test_what_python_refuses_sql_refuses
        TestJobs::test_a_job_is_created_altered_and_removed
        TestJobs::test_a_job_that_is_not_there_or_not_usable
        TestJobs::test_planned_messages_wait_again_when_their_job_is_gone[many]
    """,
    "tests/conformance/test_moved_links.py": """
        test_another_virtual_host_and_back_loses_and_repeats_nothing
        test_what_was_stored_and_not_acknowledged_is_recognised_when_the_link_comes_back
    """,
    "tests/conformance/test_mqtt_exactly_once.py": """
        test_packet_ids_are_cyclic_and_an_equal_message_one_round_later_is_stored
        test_session_lost_while_the_process_was_down_is_told[3.1.1]
    """,
    "tests/conformance/test_mqtt_traps.py": """
        test_body_of_20_megabytes_passes_both_ways[5]
        test_broker_killed_during_traffic_loses_nothing_and_keeps_order[5]
        test_tls_is_verified[3.1.1]
    """,
    "tests/conformance/test_open_files.py": """
        test_every_link_names_the_limit_where_nothing_can_be_opened
        test_messages_move_over_connections_beyond_the_1024th
        test_the_hub_names_the_limit_where_it_cannot_be_opened_once_more
    """,
    "tests/conformance/test_outbound_exceptions.py": """
        test_what_has_arrived_is_complete_although_the_exception_queue_takes_nothing[closed-25207]
    """,
    "tests/conformance/test_parking.py": """
        test_a_job_that_parks_no_more_gives_back_what_it_parked[sqlite-one-consumer]
        test_a_key_that_no_job_can_have_is_refused[postgresql-one-consumer-OUTBOUND-ends1-no such(-expression]
        test_a_key_that_no_job_can_have_is_refused[postgresql-subscribers-INBOUND-ends0-correlation-INBOUND]
        test_a_key_that_no_job_can_have_is_refused[postgresql-subscribers-OUTBOUND-ends1-no such(-expression]
        test_a_message_that_fails_again_stays_the_first[sqlite-one-consumer]
        test_a_message_that_is_given_up_goes_to_the_exception_queue_and_the_others_follow[sqlite-subscribers]
        test_a_message_without_a_key_goes_the_way_of_all_others[sqlite-subscribers]
        test_after_so_many_attempts_the_exception_queue_gets_it[sqlite-subscribers]
        test_no_more_are_parked_than_may_be[postgresql-one-consumer]
        test_no_more_are_parked_than_may_be[postgresql-subscribers]
        test_no_more_are_parked_than_may_be[sqlite-subscribers]
        test_the_messages_of_a_key_wait_and_all_others_pass[sqlite-subscribers]
        test_what_goes_before_a_parked_message_and_fails_is_the_first_one_then[sqlite-subscribers]
        test_what_is_parked_survives_a_restart[postgresql-one-consumer]
        test_what_is_parked_survives_a_restart[postgresql-subscribers]
        test_what_is_parked_survives_a_restart[sqlite-one-consumer]
        test_what_was_planned_before_a_message_that_is_parked_goes_before_it[postgresql-one-consumer-0]
        test_what_was_planned_before_a_message_that_is_parked_goes_before_it[postgresql-one-consumer-1]
        test_what_was_planned_before_a_message_that_is_parked_goes_before_it[postgresql-subscribers-0]
        test_what_was_planned_before_a_message_that_is_parked_goes_before_it[postgresql-subscribers-1]
        test_what_was_planned_before_a_message_that_is_parked_goes_before_it[sqlite-one-consumer-1]
        test_what_was_planned_before_a_message_that_is_parked_goes_before_it[sqlite-subscribers-0]
        test_what_was_planned_before_a_message_that_is_parked_goes_before_it[sqlite-subscribers-1]
    """,
    "tests/conformance/test_parking_kills.py": """
        test_parked_messages_arrive_once_and_in_order_however_often_the_agent_is_killed
    """,
    "tests/conformance/test_parking_refusals.py": """
        test_those_of_its_key_wait_and_follow_when_it_is_taken[logged-Blame.UNKNOWN]
        test_those_of_its_key_wait_and_follow_when_it_is_taken[plain-Blame.MESSAGE]
        test_those_of_its_key_wait_and_follow_when_it_is_taken[plain-Blame.UNKNOWN]
    """,
    "tests/conformance/test_postgresql_reading_on.py": """
        test_an_inbound_job_at_defaults_reads_on_while_postgresql_stores
    """,
    "tests/conformance/test_postgresql_round_trips.py": """
        test_a_failure_where_statements_are_prepared_is_forgotten[5]
        test_a_failure_where_statements_are_prepared_is_forgotten[6]
        test_a_failure_where_statements_are_prepared_is_forgotten[7]
        test_plans_are_compressed_with_lz4_where_the_server_has_it
    """,
    "tests/conformance/test_progress_truth.py": """
        test_a_broker_and_a_wire_that_stand_still_are_seen_and_heal[rabbitmq]
        test_a_quota_of_kafka_blocks_a_job_and_is_named
        test_limits_of_rabbitmq_block_a_job_and_are_named
    """,
    "tests/conformance/test_rabbitmq_conditions.py": """
        test_arguments_that_may_not_be_read_are_named
        test_policies_count_like_arguments[policy-definition3-at-least-once-at-least-once-max-length (by policy ]
        test_policies_that_cannot_be_seen_are_named
        test_the_type_is_found_out_where_the_virtual_host_has_a_default_type
    """,
    "tests/conformance/test_rabbitmq_fence.py": """
        test_a_user_who_may_not_declare_the_lock_reads_and_the_note_says_what_it_costs
        test_newer_messages_do_not_pass_those_that_a_dead_connection_keeps
        test_no_lock_is_left_behind
    """,
    "tests/conformance/test_rabbitmq_logs.py": """
        test_record_is_whole_for_a_job_while_the_logs_are_cleaned
        test_stored_and_unacknowledged_messages_are_not_stored_again[classic]
        test_stored_and_unacknowledged_messages_are_not_stored_again[quorum]
    """,
    "tests/conformance/test_rabbitmq_specifics.py": """
        test_alarm_ends_in_a_timeout_that_names_it
        test_message_of_20_megabytes_makes_the_round[classic]
        test_message_published_while_the_silence_is_looked_into_is_no_stuck_subscription
        test_thousands_make_the_round[classic]
        test_user_without_permission_is_refused
    """,
    "tests/conformance/test_recovery.py": """
        test_a_hub_put_back_from_a_backup_is_behind_its_log
        test_a_log_queue_that_was_made_anew_lacks_records[OUTBOUND]
        test_a_log_queue_that_was_purged_lacks_records
        test_a_record_that_cannot_be_read_ends_the_job_until_it_is_cleaned[OUTBOUND]
        test_the_record_of_a_job_that_does_not_exist_any_more_is_removed_at_the_start[OUTBOUND]
        test_the_record_of_another_hub_is_left_alone[INBOUND]
    """,
    "tests/conformance/test_refused_messages.py": """
        TestKafka::test_a_record_that_is_refused_for_another_reason_is_set_aside
        TestKafka::test_a_timestamp_that_lies_ahead_is_moved_and_kept[at-least-once-None]
        TestKafka::test_a_timestamp_that_lies_ahead_is_moved_and_kept[exact-BAD]
        TestKafka::test_a_timestamp_that_lies_ahead_is_moved_and_kept[exact-None]
        TestKafka::test_a_topic_that_writes_its_own_timestamps_takes_any[exact]
        TestKafka::test_limits_that_change_while_the_job_runs_are_learnt_from_the_refusal
        TestKafka::test_limits_that_may_not_be_read_are_learnt_from_the_refusal[exact]
        TestMqtt::test_a_message_over_which_the_broker_ends_the_connection_without_a_word_is_set_aside
        TestMqtt::test_messages_that_the_broker_answers_with_an_error_are_set_aside
        TestRabbitMQ::test_a_full_queue_is_waited_for
        TestRabbitMQ::test_a_message_for_which_the_channel_is_closed_is_set_aside[logged]
        TestRabbitMQ::test_an_expiry_that_rabbitmq_cannot_count_travels_in_a_header[logged]
    """,
    "tests/conformance/test_removal.py": """
        test_job_for_which_messages_wait[postgresql]
        test_messages_of_a_dropped_queue_are_moved_once_and_as_they_were[postgresql]
        test_nothing_is_dropped_where_the_other_queue_does_not_take_the_messages[postgresql]
        test_nothing_is_lost_when_a_move_is_killed
        test_nothing_is_lost_when_the_removal_of_a_job_is_killed
        test_queue_with_messages_is_dropped_with_force_alone[postgresql]
    """,
    "tests/conformance/test_renewed_secrets.py": """
        test_a_renewed_password_file_is_used_without_a_restart
        test_the_end_of_certificates_is_shown_and_warned_of
    """,
    "tests/conformance/test_rest_definitions.py": """
        test_a_changed_job_is_in_effect_in_a_running_agent
        test_a_drain_answers_when_the_job_is_empty_or_soon_and_goes_on
        test_a_job_is_configured_and_checked_under_the_addresses_of_kafka_connect
        test_a_whole_configuration_is_planned_and_applied
        test_an_error_is_told_in_the_words_of_the_linter_with_its_place[0]
        test_an_error_is_told_in_the_words_of_the_linter_with_its_place[10]
        test_an_error_is_told_in_the_words_of_the_linter_with_its_place[1]
        test_an_error_is_told_in_the_words_of_the_linter_with_its_place[2]
        test_an_error_is_told_in_the_words_of_the_linter_with_its_place[3]
        test_an_error_is_told_in_the_words_of_the_linter_with_its_place[4]
        test_an_error_is_told_in_the_words_of_the_linter_with_its_place[5]
        test_an_error_is_told_in_the_words_of_the_linter_with_its_place[6]
        test_an_error_is_told_in_the_words_of_the_linter_with_its_place[7]
        test_an_error_is_told_in_the_words_of_the_linter_with_its_place[9]
        test_every_kind_of_object_is_made_read_back_equal_changed_and_removed
        test_jobs_are_paused_resumed_reset_and_restarted_as_in_kafka_connect[POST]
        test_links_are_tested_reconnected_and_prepared
        test_of_two_processes_that_change_one_object_none_loses_its_change
        test_of_two_writers_who_saw_the_same_one_is_refused
        test_the_description_derives_from_the_one_of_files
        test_what_does_not_exist_is_told_with_what_was_meant[queue-tables-"-queue table-known: shared]
        test_what_is_used_or_fixed_is_refused_as_a_conflict
    """,
    "tests/conformance/test_rest_dequeue.py": """
        test_a_request_waits_for_its_message_and_holds_no_thread
        test_a_token_is_used_once[postgresql-acknowledge]
        test_a_token_is_used_once[postgresql-release]
        test_a_token_is_used_once[sqlite-release]
        test_a_token_that_is_too_late_by_a_moment_is_refused[postgresql]
        test_acknowledged_by_the_same_request_and_browsed[sqlite]
        test_messages_come_back_when_the_process_is_killed
        test_there_is_an_end_to_what_is_taken_and_not_acknowledged
        test_what_nobody_acknowledges_is_given_back_after_a_minute
    """,
    "tests/conformance/test_rest_events.py": """
        test_a_slow_reader_is_let_go_and_holds_nobody
        test_an_agent_that_stops_lets_those_who_listen_go_without_a_word
        test_as_many_streams_as_may_and_not_one_more
        test_generations_are_listed_and_lead_back
        test_nobody_looks_while_nobody_listens[postgresql]
        test_the_audit_says_who_removed_what
        test_thousands_that_were_missed_are_read_page_by_page[postgresql]
        test_what_cannot_be_asked_is_refused[postgresql]
        test_who_comes_back_while_others_listen_misses_nothing
    """,
    "tests/conformance/test_rest_exceptions.py": """
        test_a_job_without_a_desk_says_so[postgresql]
        test_a_replay_is_tried_first_and_then_done_in_order[postgresql]
        test_a_replay_with_a_rate_is_a_task_that_can_be_stopped[postgresql]
        test_a_task_that_is_not_slow_ends_by_itself
        test_an_edit_that_cannot_be_is_refused_and_nothing_is_changed[postgresql]
        test_parked_keys_are_shown_tried_and_given_up
        test_tasks_are_bounded_and_those_that_are_not_known_are_told[postgresql]
        test_the_desk_is_that_of_the_command_line
    """,
    "tests/conformance/test_rest_messages.py": """
        test_a_body_comes_back_in_the_form_in_which_it_was_sent[postgresql-bytes]
        test_a_body_comes_back_in_the_form_in_which_it_was_sent[postgresql-empty-text]
        test_a_body_comes_back_in_the_form_in_which_it_was_sent[postgresql-fields]
        test_a_body_comes_back_in_the_form_in_which_it_was_sent[postgresql-nothing]
        test_a_body_comes_back_in_the_form_in_which_it_was_sent[postgresql-raw]
        test_a_body_comes_back_in_the_form_in_which_it_was_sent[postgresql-text]
        test_a_body_comes_back_in_the_form_in_which_it_was_sent[sqlite-bytes]
        test_a_body_comes_back_in_the_form_in_which_it_was_sent[sqlite-fields]
        test_a_body_comes_back_in_the_form_in_which_it_was_sent[sqlite-nothing]
        test_a_body_comes_back_in_the_form_in_which_it_was_sent[sqlite-raw]
        test_a_body_comes_back_in_the_form_in_which_it_was_sent[sqlite-text]
        test_a_cursor_of_another_queue_shows_nothing_that_is_not_there[sqlite]
        test_a_long_body_is_cut_and_says_so[postgresql]
        test_a_message_of_kind_raw_keeps_its_kind[postgresql]
        test_a_number_that_is_none_is_shown_as_text[sqlite]
        test_json_becomes_what_the_queue_holds[postgresql]
        test_json_is_stored_as_text_with_all_its_digits[sqlite-"text"-"text"]
        test_json_is_stored_as_text_with_all_its_digits[sqlite-1e999-1E+999]
        test_json_is_stored_as_text_with_all_its_digits[sqlite-null-null]
        test_messages_are_enqueued_all_or_none[sqlite]
        test_messages_of_subscribers_have_a_state_for_each[postgresql]
        test_plain_values_names_that_repeat_and_dates_of_any_precision[sqlite]
        test_what_cannot_be_a_message_is_refused_and_the_reason_told[[]]
        test_what_cannot_be_a_message_is_refused_and_the_reason_told[text]
        test_what_cannot_be_a_message_is_refused_and_the_reason_told[{'base64': '!'}]
        test_what_cannot_be_a_message_is_refused_and_the_reason_told[{'body': 'x'}]
        test_what_cannot_be_a_message_is_refused_and_the_reason_told[{'correlation': 'xxxxxxxxxxxxxxxxxxxxxxx]
        test_what_cannot_be_a_message_is_refused_and_the_reason_told[{'delay': -1}]
        test_what_cannot_be_a_message_is_refused_and_the_reason_told[{'fields': {'a': 1}}]
        test_what_cannot_be_a_message_is_refused_and_the_reason_told[{'headers': 7}]
        test_what_cannot_be_a_message_is_refused_and_the_reason_told[{'headers': [{'name': 1, 'value': 1}]}]
        test_what_cannot_be_a_message_is_refused_and_the_reason_told[{'headers': {'h': 18446744073709551616}}]
        test_what_cannot_be_a_message_is_refused_and_the_reason_told[{'headers': {'h': None}}]
        test_what_cannot_be_a_message_is_refused_and_the_reason_told[{'headers': {'h': {'type': 'byte', 'valu]
        test_what_cannot_be_a_message_is_refused_and_the_reason_told[{'headers': {'h': {'type': 'date', 'valu]
        test_what_cannot_be_a_message_is_refused_and_the_reason_told[{'headers': {'h': {'type': 'decimal', 'v]
        test_what_cannot_be_a_message_is_refused_and_the_reason_told[{'headers': {'h': {'type': 'double', 'va0]
        test_what_cannot_be_a_message_is_refused_and_the_reason_told[{'headers': {'h': {'type': 'double', 'va1]
        test_what_cannot_be_a_message_is_refused_and_the_reason_told[{'headers': {'h': {'type': 'int', 'value]
        test_what_cannot_be_a_message_is_refused_and_the_reason_told[{'headers': {'h': {'type': 'json', 'valu]
        test_what_cannot_be_a_message_is_refused_and_the_reason_told[{'headers': {'h': {'type': 'number', 'va]
        test_what_cannot_be_a_message_is_refused_and_the_reason_told[{'headers': {'h': {'type': 'raw', 'value]
        test_what_cannot_be_a_message_is_refused_and_the_reason_told[{'headers': {'h': {'type': 'text', 'valu]
        test_what_cannot_be_a_message_is_refused_and_the_reason_told[{'headers': {'h': {'value': 1, 'kind': ']
        test_what_cannot_be_a_message_is_refused_and_the_reason_told[{'headers': {'hhhhhhhhhhhhhhhhhhhhhhhhhh]
        test_what_cannot_be_a_message_is_refused_and_the_reason_told[{'priority': 9223372036854775808}]
        test_what_cannot_be_a_message_is_refused_and_the_reason_told[{'recipients': ['A']}]
        test_what_cannot_be_a_message_is_refused_and_the_reason_told[{'text': 'x', 'base64': ''}]
        test_what_is_not_json_is_not_read[postgresql--Infinity]
        test_what_is_not_json_is_not_read[postgresql-Infinity]
        test_what_is_not_json_is_not_read[postgresql-NaN]
        test_what_is_not_json_is_not_read[sqlite--Infinity]
        test_what_is_not_json_is_not_read[sqlite-Infinity]
    """,
    "tests/conformance/test_rest_queue_work.py": """
        test_every_route_parameter_and_field_of_messages_is_described
        test_messages_made_of_the_same_one_are_copies[postgresql]
        test_subscribers_are_shown_with_their_rules_and_what_waits_for_them[postgresql]
        test_the_life_of_a_message_is_what_the_ledger_knows[postgresql]
        test_what_the_ledger_does_not_know_is_told[postgresql]
    """,
    "tests/conformance/test_resting_queues.py": "test_who_waits_for_a_look_that_hangs_looks_by_itself",
    "tests/conformance/test_spool_link.py": """
        TestSpoolLink::test_thousands_published_in_a_window_keep_their_order
        test_numbered_bodies_are_in_order_whoever_wrote
        test_writer_killed_at_any_moment_leaves_whole_batches
    """,
    "tests/conformance/test_suites.py": "test_two_suites_of_one_name_are_refused",
    "tests/conformance/test_supervisor.py": """
        test_a_daemon_that_does_not_start_says_so_in_json
        test_a_daemon_without_hub_says_what_to_do
        test_a_killed_agent_is_replaced_at_once_on_the_same_host
        test_a_second_process_of_one_agent_ends_with_a_reason_and_the_first_goes_on
        test_a_signal_that_ends_it_while_it_starts_ends_it_with_0[15]
        test_a_signal_that_ends_it_while_it_starts_ends_it_with_0[2]
        test_agent_ends_when_the_file_of_its_hub_is_moved
        test_every_line_is_json_from_the_first_to_the_last
        test_no_log_file_is_written_where_it_is_off
        test_shutdown_stops_the_jobs_and_startup_brings_them_back_in_the_same_process
        test_sighup_takes_over_a_changed_configuration_file
        test_signals_that_come_while_it_starts_do_not_end_it
        test_sigquit_drains
        test_sigterm_drains_and_leaves_the_agent_not_started
        test_sigusr1_opens_the_log_file_again_and_no_line_is_lost
        test_sigusr2_shows_threads_links_and_jobs_and_no_secret
        test_the_agent_writes_a_log_file_of_its_own
        test_what_is_loaded_at_the_start_is_left_out_of_garbage_collection
    """,
    "tests/conformance/test_tap.py": """
        test_json_that_cannot_be_written_again_is_shown_as_text_and_the_tap_goes_on[sqlite-surrogate]
        test_messages_are_seen_before_and_after_and_delivered[sqlite-as it came-inbound]
        test_messages_are_seen_before_and_after_and_delivered[sqlite-as it came-local]
        test_messages_are_seen_before_and_after_and_delivered[sqlite-as it came-outbound]
        test_messages_are_seen_before_and_after_and_delivered[sqlite-as it came-through]
        test_messages_are_seen_before_and_after_and_delivered[sqlite-transformed-local]
        test_messages_are_seen_before_and_after_and_delivered[sqlite-transformed-outbound]
        test_messages_are_seen_before_and_after_and_delivered[sqlite-transformed-through]
        test_numbers_out_of_range_are_refused[sqlite-given2]
        test_small_messages_that_wait_to_be_written_are_bounded_too
    """,
    "tests/conformance/test_through.py": """
        test_a_job_promises_what_the_weaker_end_does[sqlite-queue-SENT-at-least-once]
        test_a_message_that_the_destination_refuses_is_found_and_set_aside[sqlite-logged-log]
        test_a_message_that_the_destination_refuses_is_found_and_set_aside[sqlite-logged-queue]
        test_a_message_that_the_destination_refuses_is_found_and_set_aside[sqlite-plain-queue]
        test_messages_go_from_link_to_link_in_order_and_no_queue_of_the_hub_sees_them[sqlite-logged-log]
        test_messages_go_from_link_to_link_in_order_and_no_queue_of_the_hub_sees_them[sqlite-logged-queue]
        test_messages_go_from_link_to_link_in_order_and_no_queue_of_the_hub_sees_them[sqlite-plain-ids]
        test_messages_go_from_link_to_link_in_order_and_no_queue_of_the_hub_sees_them[sqlite-plain-log]
        test_messages_go_from_link_to_link_in_order_and_no_queue_of_the_hub_sees_them[sqlite-plain-queue]
        test_what_the_sending_log_does_not_have_comes_again_from_the_source[sqlite-log]
        test_what_the_sending_log_proves_is_completed_and_not_sent_again[sqlite-log]
    """,
    "tests/conformance/test_traces.py": """
        test_nothing_is_imported_and_nothing_changed_where_nobody_asks
        test_the_trace_of_a_message_goes_on_from_broker_to_queue
    """,
    "tests/conformance/test_unforeseen.py": """
        TestMaps::test_mqtt
        test_the_message_is_set_aside_and_the_others_arrive_in_order[conversion-INBOUND-SRC@mem-H-BAD@mem]
        test_the_message_is_set_aside_and_the_others_arrive_in_order[conversion-OUTBOUND-H-DST@mem-HBAD]
        test_the_message_is_set_aside_and_the_others_arrive_in_order[encoding-OUTBOUND-H-DST@mem-HBAD]
    """,
    "tests/conformance/test_unrouted.py": """
        test_error_of_a_local_job_names_the_message[postgresql]
        test_exception_queue_gets_what_every_rule_refuses[sqlite-2-inbound]
        test_exception_queue_gets_what_every_rule_refuses[sqlite-2-local]
        test_exception_queue_gets_what_every_rule_refuses[sqlite-200-inbound]
        test_exception_queue_is_needed_where_it_is_named[postgresql]
        test_queue_without_any_subscriber_is_waited_for[sqlite-error]
        test_queue_without_any_subscriber_is_waited_for[sqlite-exception_queue]
    """,
    "tests/conformance/test_upgrade.py": """
        test_a_changed_schema_has_a_version_of_its_own
        test_a_kill_at_any_moment_leaves_the_old_or_the_new_hub_on_postgresql
        test_a_newer_hub_is_refused_with_the_release_to_use[postgresql]
        test_a_part_that_nobody_knows_is_left_alone[postgresql]
        test_a_program_that_comes_back_after_an_upgrade_is_refused
        test_a_row_that_breaks_a_rule_is_named_and_nothing_is_changed[postgresql]
        test_an_upgraded_hub_goes_on_where_the_old_one_stopped[postgresql]
        test_an_upgraded_hub_is_the_same_as_a_new_one[postgresql]
        test_command_refuses_what_is_no_hub
        test_every_state_and_flag_is_held_by_the_database
        test_jobs_keep_what_they_do_with_messages_nobody_wants[sqlite-FALSE-error]
        test_jobs_keep_what_they_do_with_messages_nobody_wants[sqlite-TRUE-None]
        test_links_keep_the_names_of_headers_that_rules_and_transformations_read[postgresql]
        test_no_upgrade_while_another_program_has_the_hub_open
        test_nothing_of_the_old_hub_is_lost[postgresql]
        test_numbers_that_were_given_are_not_given_again[postgresql]
        test_only_the_owner_upgrades
        test_rights_on_views_and_functions_survive
        test_steps_never_look_at_the_tables_of_today
        test_views_of_others_are_named_and_nothing_is_changed
        test_who_reads_the_queues_with_a_login_of_its_own_reads_what_is_new_of_them
    """,
    "tests/conformance/test_web_face.py": """
        test_a_log_in_makes_a_new_session_and_ends_the_one_before
        test_a_session_has_a_cookie_that_no_script_reads_and_a_word_that_no_other_page_knows
        test_an_address_for_other_machines_needs_tls_and_users
        test_answers_say_what_browsers_must_not_do
        test_behind_a_proxy_the_page_is_the_one_that_the_browser_sees
        test_bodies_of_any_kind_are_refused_as_problems
        test_every_route_asks_for_a_role_and_refuses_those_with_less
        test_passwords_cannot_be_guessed_at_any_speed
        test_sessions_end_with_the_password_the_user_and_the_time
    """,
    "tests/conformance/test_web_fuzz.py": "test_damaged_requests_are_answered_and_nothing_breaks",
    "tests/conformance/test_wire.py": "test_a_lost_connection_is_told_at_the_commit",
    "tests/conformance/test_worker_pool.py": "test_a_worker_is_answered_while_another_one_waits_to_be_fenced",
    "tests/conformance/test_workers.py": """
        test_a_job_that_cannot_start_is_shown_as_without_workers
        test_jobs_in_two_processes_carry_messages_and_look_like_one_agent
        test_sighup_gives_the_workers_what_the_file_says_now
        test_what_workers_measure_is_added_up_and_does_not_go_back_when_one_is_replaced
        test_workers_end_when_their_supervisor_is_killed_and_another_one_goes_on
        test_workers_on_postgresql
    """,
    "tests/docs/test_application_examples.py": """
        test_commit_makes_both_rollback_makes_neither_and_the_message_arrives
    """,
    "tests/docs/test_architecture.py": "test_every_room_of_the_gateway_is_in_the_picture",
    "tests/docs/test_compatibility.py": "test_numbers_that_are_said_to_be_the_same_are_in_the_code",
    "tests/docs/test_configurations.py": "test_secret_that_an_export_needs_elsewhere_is_named",
    "tests/docs/test_deployment_files.py": "test_the_page_shows_the_unit_that_is_shipped",
    "tests/docs/test_documentation.py": """
        test_commands_in_place_of_procedures_make_what_the_file_makes
        test_every_command_that_is_named_exists[CHANGELOG.md]
        test_every_configuration_that_is_shown_has_no_findings[docs/how-to/coming-from-mosquitto-bridges.md:68]
        test_every_configuration_that_is_shown_has_no_findings[docs/how-to/secure-links.md:5]
        test_every_configuration_that_is_shown_has_no_findings[docs/quickstart.md:43]
        test_examples_in_python_run_in_their_order
        test_messages_go_over_http_as_the_page_says
        test_quickstart_does_what_it_says
        test_the_gateway_is_administered_from_sql_as_the_page_says
    """,
    "tests/docs/test_kubernetes_files.py": "test_the_pod_runs_as_the_user_of_the_image",
    "tests/docs/test_lcr_example.py": "test_changes_are_made_in_the_copy",
    "tests/docs/test_metrics_files.py": "test_the_dashboard_can_be_imported_and_shows_every_metric",
    "tests/docs/test_monitor.py": "test_the_limit_is_the_one_in_force",
    "tests/docs/test_reference.py": "test_no_option_of_a_foreign_queue_is_said_to_change",
    "tests/docs/test_reference_snippets.py": """
        test_snippet_has_no_error_of_its_own[README.md 1-text0]
        test_snippet_has_no_error_of_its_own[docs/how-to/coming-from-kafka-connect.md 1-text2]
        test_snippet_has_no_error_of_its_own[docs/how-to/coming-from-mosquitto-bridges.md 2-text4]
        test_snippet_has_no_error_of_its_own[docs/how-to/secure-links.md 2-text16]
        test_snippet_has_no_error_of_its_own[docs/troubleshooting.md 1-text25]
    """,
    "tests/docs/test_transformation_examples.py": "test_the_page_lists_all_functions_and_properties",
    "tests/faults/test_faults_of_the_hub.py": """
        test_a_full_disk_is_reported_and_nothing_is_lost
        test_a_hub_locked_by_somebody_else_delays_and_loses_nothing
    """,
    "tests/faults/test_faults_of_time.py": """
        test_a_clock_that_jumps_by_an_hour_loses_and_doubles_nothing
        test_a_stalled_agent_that_wakes_up_behind_its_successor_does_no_harm
    """,
    "tests/faults/test_faults_on_the_way.py": """
        test_an_agent_that_was_asked_to_end_leaves_nothing_to_repeat
        test_killing_the_agent_loses_nothing[kill-agent-classic-to-kafka]
        test_killing_the_agent_loses_nothing[kill-agent-confluent-to-confluentlog]
        test_killing_the_agent_loses_nothing[kill-agent-ids-to-logged]
        test_killing_the_broker_loses_nothing[kill-broker-logged-to-logged]
    """,
    "tests/faults/test_killed_at_every_step.py": """
        test_killed_at_any_step_inbound_nothing_is_lost[steps-kafka-in]
        test_killed_at_any_step_inbound_nothing_is_lost[steps-logged-in]
        test_killed_at_any_step_outbound_nothing_is_lost[steps-mqtt-out]
    """,
    "tests/faults/test_killed_workers.py": "test_killed_workers_lose_and_double_nothing",
    "tests/faults/test_narrow_window.py": """
        test_from_rabbitmq_to_rabbitmq
        test_into_the_hub_from_a_queue_without_a_log
        test_out_to_mqtt
        test_out_to_rabbitmq
    """,
    "tests/faults/test_outages.py": """
        test_a_job_that_waits_for_confirmations_does_not_work_since_nothing_moves
        test_a_transaction_goes_on_soon_after_what_accepted_and_closed_is_a_broker_again
        test_all_jobs_go_on_soon_after_the_hub_is_back
        test_all_jobs_of_a_link_go_on_soon_after_their_broker_is_back
    """,
    "tests/faults/test_reconnecting.py": """
        test_messages_right_behind_the_answer_to_subscribe_are_read_on_the_same_connection
    """,
    "tests/faults/test_standby.py": "test_the_standby_takes_over_and_nothing_is_lost_or_doubled",
    "tests/page/test_deeds.py": """
        test_a_job_is_paused_after_a_word_about_what_happens_and_resumed
        test_a_job_page_says_why_it_does_not_work_and_what_its_settings_mean
        test_a_link_is_tested_against_its_broker
        test_a_message_is_edited_with_its_difference_replayed_and_arrives
        test_a_test_message_is_enqueued_and_its_life_is_told
        test_a_viewer_sees_no_button_and_can_do_nothing
        test_messages_are_found_by_condition_and_a_wrong_one_is_explained
        test_messages_of_a_reason_are_discarded_in_pieces_and_can_be_seen_to
        test_the_history_of_a_job_is_drawn_and_told_in_numbers
    """,
    "tests/page/test_many_jobs.py": """
        test_a_look_at_five_hundred_jobs_takes_milliseconds
        test_the_graph_groups_what_would_be_too_much_and_the_table_has_pages
        test_the_page_of_five_hundred_jobs_is_quick_and_its_refresh_does_not_hold_the_browser_up
    """,
    "tests/page/test_map.py": """
        test_a_log_in_leads_to_pages_of_this_address_alone[//evil.example]
        test_a_log_in_leads_to_pages_of_this_address_alone[https://evil.example/]
        test_a_log_in_leads_to_pages_of_this_address_alone[javascript:1]
        test_a_page_that_listens_asks_again_as_soon_as_it_is_told
        test_a_page_without_a_stream_asks_every_other_second
        test_an_empty_hub_tells_the_next_step
        test_every_page_asks_for_a_role_and_sends_whoever_is_unknown_to_the_log_in
        test_files_of_the_page_are_small_kept_by_browsers_and_no_others_are_given
        test_the_map_says_how_many_need_somebody_and_shows_trouble_with_its_cure_first
        test_the_table_is_filtered_while_somebody_types
        test_what_moves_is_shown_without_a_reload_and_focus_and_typed_text_stay
    """,
    "tests/page/test_setup.py": """
        test_a_removal_says_first_what_uses_the_object_and_what_would_be_lost
        test_a_typed_password_is_used_once_and_by_its_session_alone
        test_only_an_administrator_sets_up_and_who_was_slower_is_told
        test_the_form_of_each_link_type_has_every_setting_with_its_meaning
    """,
    "tests/pipelines/test_archive.py": """
        test_a_queue_is_consumed_into_the_archive
        test_history_is_archived_as_it_grows_until_the_pipeline_is_stopped
        test_messages_of_a_hub_that_was_made_anew_are_not_taken_for_those_archived
        test_topics_are_archived_once_compacted_and_take_new_columns
    """,
    "tests/pipelines/test_batch_read.py": """
        test_a_reader_waits_for_who_has_the_file_for_himself
        test_each_kind_of_reading_finds_its_messages
        test_every_column_says_what_the_hub_has
        test_large_bodies_come_in_small_pieces
        test_of_many_ids_some_are_looked_at[postgresql-None]
        test_of_many_ids_some_are_looked_at[postgresql-RED]
        test_ranges_cover_every_id_and_hold_as_many_messages_each[postgresql]
    """,
    "tests/pipelines/test_enrich.py": """
        test_bodies_of_bytes_are_read_as_text_and_kept_where_they_are_none
        test_every_message_goes_on_with_what_is_known_of_it
        test_windows_count_what_cannot_be_read_too
    """,
    "tests/pipelines/test_flow.py": """
        test_windows_are_replaced_in_the_hub[postgresql]
        test_windows_of_arrivals
    """,
    "tests/pipelines/test_installed.py": "test_a_built_in_job_runs_with_the_configuration_that_came_with_it",
    "tests/pipelines/test_kafka.py": """
        test_every_record_becomes_what_the_gateway_makes_of_it
        test_what_a_gateway_carried_is_read_in_batches_and_as_a_stream
    """,
    "tests/pipelines/test_reconcile.py": """
        test_equal_archives_have_no_findings_and_a_changed_one_has_them
        test_the_digest_of_one_value_is_its_sha256
    """,
    "tests/pipelines/test_reconcile_compare.py": """
        test_a_finding_says_where_and_what
        test_any_mixture_of_faults_is_found_exactly
        test_each_fault_is_found_and_named
        test_ids_that_repeat_are_counted_with_their_contents
    """,
    "tests/pipelines/test_sink.py": """
        test_a_frame_becomes_messages_once
        test_a_stream_is_written_once_by_query_and_checkpoint
    """,
    "tests/pipelines/test_sink_commits.py": """
        test_a_name_belongs_to_one_queue_and_one_checkpoint[postgresql]
        test_a_queue_stopped_in_the_middle[sqlite]
        test_a_seal_without_its_rows_is_refused[postgresql]
        test_a_stream_writes_its_last_batch_again_or_the_next_one
        test_a_user_needs_the_privilege_and_is_recorded[postgresql]
        test_exception_messages_are_moved[postgresql]
        test_killed_between_seal_and_publish[postgresql]
        test_only_the_attempts_that_spark_committed_count[postgresql]
        test_records_of_old_batches_are_pruned_and_stay_done[postgresql]
        test_subscribers_get_what_their_rules_say[postgresql]
        test_the_order_is_that_of_partitions_then_rows[postgresql]
        test_two_publishers_of_one_batch[postgresql]
        test_writes_without_a_name_are_forgotten_after_a_week[postgresql]
    """,
    "tests/pipelines/test_sink_rows.py": """
        test_a_message_read_and_written_is_the_same[BASIC]
        test_a_message_read_and_written_is_the_same[RAW]
    """,
    "tests/pipelines/test_spark_pages.py": "test_a_job_of_ones_own_runs",
    "tests/pipelines/test_stream_read.py": """
        test_a_batch_that_failed_comes_again_exactly_and_every_message_once
        test_a_plan_that_nothing_is_known_of_is_read_by_message_ids[postgresql-RED]
    """,
    "tests/pipelines/test_streams.py": """
        test_a_commit_log_proves_what_may_be_settled[postgresql]
        test_checkpoints_that_do_not_fit_are_refused[postgresql]
        test_messages_whose_ids_follow_each_other_share_a_row_of_the_plan[postgresql]
        test_the_next_task_of_a_process_reads_on_the_same_connection[postgresql]
    """,
    "tests/property/test_amqp_codec.py": "test_every_field_type_survives_the_hub_bit_for_bit",
    "tests/property/test_amqp_known.py": "test_messages_with_one_header_array_are_encoded_as_each_by_itself",
    "tests/property/test_expression_properties.py": """
        test_expressions_have_the_values_that_sqlite_gives_them
        test_whatever_is_written_either_compiles_or_is_refused_with_a_position
    """,
    "tests/property/test_group_model.py": "test_groups_on_sqlite_are_those_of_the_model",
    "tests/property/test_hub_functions.py": """
        test_python_gets_what_sql_sent
        test_sql_gets_what_python_sent
        test_sql_routes_as_python_does_or_not_at_all
    """,
    "tests/property/test_hub_model.py": """
        test_hub_on_postgresql_does_what_the_model_does
        test_hub_on_sqlite_does_what_the_model_does
    """,
    "tests/property/test_kafka_fetched.py": "test_fetched_records_are_those_that_the_client_reads",
    "tests/property/test_lcr_documents.py": "test_record_comes_back",
    "tests/property/test_ledger_merged.py": """
        test_no_byte_of_a_merged_row_can_be_another
        test_rows_come_back_as_they_were
    """,
    "tests/property/test_message_properties.py": """
        test_any_json_becomes_fields_without_loss_or_is_refused
        test_fields_survive_the_way_over_a_broker_without_fields
        test_headers_survive_storage
        test_json_survives_and_is_utf_8
    """,
    "tests/property/test_mqtt_maps.py": """
        test_message_survives_mqtt_5
        test_the_short_way_leads_to_the_frame_of_the_long_way
    """,
    "tests/property/test_mqtt_receiving_log.py": """
        test_no_message_is_lost_or_doubled_wherever_the_gateway_is_killed
    """,
    "tests/property/test_parsers_fuzzed.py": """
        test_damaged_input_is_read_or_refused[amqp-headers]
        test_damaged_input_is_read_or_refused[avro]
        test_damaged_input_is_read_or_refused[cloudevents-binary]
        test_damaged_input_is_read_or_refused[cloudevents]
        test_damaged_input_is_read_or_refused[decompress]
        test_damaged_input_is_read_or_refused[http-configuration]
        test_damaged_input_is_read_or_refused[http-cursor]
        test_damaged_input_is_read_or_refused[http-json]
        test_damaged_input_is_read_or_refused[http-message]
        test_damaged_input_is_read_or_refused[json]
        test_damaged_input_is_read_or_refused[kafka-batches]
        test_damaged_input_is_read_or_refused[kafka-records]
        test_damaged_input_is_read_or_refused[lcr]
        test_damaged_input_is_read_or_refused[mqtt-envelope]
        test_damaged_input_is_read_or_refused[mqtt-publish]
        test_damaged_input_is_read_or_refused[mqtt-stream]
        test_damaged_input_is_read_or_refused[protobuf]
    """,
    "tests/property/test_rabbitmq_receiving_log.py": """
        test_every_message_is_stored_once_whenever_the_gateway_dies
    """,
    "tests/property/test_round_trips.py": """
        test_what_the_tables_say_is_kept_is_kept_and_nothing_else[mqtt5-envelope-mqtt5-envelope-hub]
    """,
    "tests/property/test_rules_in_sql.py": """
        test_databases_answer_as_python_does
        test_databases_answer_for_fields_as_python_does
        test_databases_answer_simple_conditions_as_python_does[plain]
        test_databases_answer_telling_conditions_as_python_does[plain]
    """,
    "tests/property/test_typed_payloads.py": "test_an_object_of_any_type_survives_storage",
}
