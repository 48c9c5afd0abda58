"""Defaults of MySQL's variables that a session can also set for itself.

``performance_schema.variables_info`` does not tell a session's ``SET`` from a global one (measured with 8.0.15 and 9.7.4): a dump program
that sets its own ``time_zone`` marks the variable. So one that still has its default counts as not set.
"""

#: ``value: names``. The defaults of 8.0.15 and 9.7.4 are equal, except for ``optimizer_switch`` and ``group_replication_consistency``.
_TABLE = """\
OFF: big_tables binlog_direct_non_transactional_updates binlog_rows_query_log_events binlog_transaction_compression
    default_table_encryption enable_cascade_triggers end_markers_in_json global_connection_memory_tracking keep_files_on_create
    low_priority_updates new old_alter_table print_identified_with_as_hex profiling select_into_disk_sync session_track_gtids
    session_track_state_change session_track_transaction_info show_create_table_verbosity show_old_temporals sql_auto_is_null
    sql_buffer_result sql_generate_invisible_primary_key sql_log_off sql_require_primary_key sql_safe_updates sql_warnings
    transaction_read_only
ON: autocommit enable_secondary_engine_statistics explicit_defaults_for_timestamp foreign_key_checks innodb_ft_enable_stopword
    innodb_strict_mode innodb_table_locks restrict_fk_on_non_standard_key session_track_schema
    show_gipk_in_create_table_and_information_schema sql_big_selects sql_notes sql_quote_show_create unique_checks
    windowing_use_high_precision xa_detach_on_prepare
1: auto_increment_increment auto_increment_offset myisam_repair_threads optimizer_prune_level optimizer_trace_limit
: binlog_row_value_options external_table_secondary_storage_engine external_table_storage_engine innodb_ft_user_stopword_table
    innodb_tmpdir
utf8mb4: character_set_client character_set_connection character_set_database character_set_results character_set_server
18446744073709551615: connection_memory_limit max_join_size max_seeks_for_key parser_max_mem_size sql_select_limit
0: default_week_format max_execution_time max_sp_recursion_depth min_examined_row_limit select_into_disk_sync_delay
utf8mb4_0900_ai_ci: collation_connection collation_database collation_server default_collation_for_utf8mb4
8192: connection_memory_chunk_size query_alloc_block_size query_prealloc_size transaction_alloc_block_size
262144: join_buffer_size read_rnd_buffer_size set_operations_buffer_size sort_buffer_size
8388608: bulk_insert_buffer_size myisam_sort_buffer_size range_optimizer_max_mem_size
4: div_precision_increment innodb_ddl_threads innodb_parallel_read_threads
20: generated_random_password_length max_delayed_threads max_insert_delayed_threads
1024: group_concat_max_len max_error_count max_sort_length
4096: max_length_for_sort_data range_alloc_block_size transaction_prealloc_size
InnoDB: default_storage_engine default_tmp_storage_engine
1048576: innodb_ddl_buffer_size optimizer_trace_max_mem_size
28800: interactive_timeout wait_timeout
en_US: lc_messages lc_time_names
16777216: max_heap_table_size tmp_table_size
131072: read_buffer_size select_into_buffer_size
ROW: binlog_format
FULL: binlog_row_image
3: binlog_transaction_compression_level_zstd
aes-128-ecb: block_encryption_mode
binary: character_set_filesystem
NO_CHAIN: completion_type
1000: cte_max_recursion_depth
200: eq_range_index_dive_limit
TREE: explain_format
2: explain_json_format_version
20000000: histogram_generation_max_mem_size
86400: information_schema_stats_expiry
50: innodb_lock_wait_timeout
TempTable: internal_tmp_mem_storage_engine
31536000: lock_wait_timeout
10.000000: long_query_time
65536: max_points_in_geometry
nulls_unequal: myisam_stats_method
30: net_read_timeout
10: net_retry_count
60: net_write_timeout
100000: optimizer_max_subgraph_pairs
62: optimizer_search_depth
enabled=off,one_line=off: optimizer_trace
greedy_search=on,range_optimizer=on,dynamic_range=on,repeated_subselect=on: optimizer_trace_features
-1: optimizer_trace_offset
32768: preload_buffer_size
15: profiling_history_size
STRICT: rbr_exec_mode
100000.000000: secondary_engine_cost_threshold
time_zone,autocommit,character_set_client,character_set_results,character_set_connection: session_track_system_variables
ONLY_FULL_GROUP_BY,STRICT_TRANS_TABLES,NO_ZERO_IN_DATE,NO_ZERO_DATE,ERROR_FOR_DIVISION_BY_ZERO,NO_ENGINE_SUBSTITUTION: sql_mode
NONE: terminology_use_previous
SYSTEM: time_zone
REPEATABLE-READ: transaction_isolation
XXHASH64: transaction_write_set_extraction
YES: updatable_views_with_limit
"""

#: By name.
OF_SESSIONS = {
    name: value
    for line in _TABLE.replace("\n    ", " ").splitlines()
    for value, _, names in [line.partition(": ")]
    for name in names.split()
}
