-- What takes messages out of the hub: session.py and consume of work.py; failed attempts: statements_time.py.

-- Internal number of a message id; NULL when it is none of this hub.
CREATE OR REPLACE FUNCTION @aq@._number(p_hub bytea, p_msgid bytea) RETURNS bigint
LANGUAGE sql IMMUTABLE AS $$
    SELECT CASE WHEN octet_length(p_msgid) = 16 AND substr(p_msgid, 1, 8) = p_hub
                THEN ('x' || encode(substr(p_msgid, 9), 'hex'))::bit(64)::bigint END
$$;

-- One attempt: what is found is handed out, and consumed in the modes that do so.
CREATE OR REPLACE FUNCTION @aq@._take(
    p_queue text, p_consumer text, p_mode text, p_correlation text, p_msgid bytea, p_navigation text, p_limit integer)
RETURNS SETOF @aq@.message LANGUAGE plpgsql AS $$
#variable_conflict use_column
DECLARE
    q record;
    r record;
    o @aq@.message;
    a text := 'm';
    v_exceptions boolean;
    v_grouped boolean;
    v_chosen bigint[];
    v_consumer bigint := 0;
    v_number bigint;
    v_states text;
    v_sql text;
    v_ids bigint[] := '{}';
    v_rows bigint;
    v_now double precision := extract(epoch FROM clock_timestamp());
    v_user text := session_user;
    v_txn text;
BEGIN
    q := @aq@._queue(p_queue, CASE WHEN p_mode <> 'BROWSE' THEN 'dequeue' END, 'DEQUEUE', p_consumer);
    v_exceptions := q.queue_type <> 'NORMAL_QUEUE';
    v_grouped := q.message_grouping <> 'NONE' AND NOT v_exceptions;
    IF NOT q.dequeue_enabled THEN
        PERFORM @aq@._refuse(25226, format('queue %s is not enabled for dequeue', q.shown),
            'it was not started, or stopped', 'start it: start_queue');
    ELSIF p_navigation = 'NEXT_TRANSACTION' AND NOT v_grouped THEN
        PERFORM @aq@._refuse(25234, format('NEXT_TRANSACTION cannot be used on queue %s', q.shown),
            'its messages are not grouped by transaction',
            'use NEXT_MESSAGE, or a queue table with message_grouping TRANSACTIONAL');
    END IF;
    IF p_msgid IS NOT NULL THEN
        v_number := coalesce(@aq@._number(q.hub_id, p_msgid), -1);
    END IF;
    IF NOT v_exceptions THEN
        v_consumer := @aq@._consumer(q.id, q.shown, q.multiple, p_consumer);
    ELSIF p_consumer IS NOT NULL THEN
        PERFORM @aq@._refuse(25243, format('consumer %L given for exception queue %s', p_consumer, q.shown),
            'each message of an exception queue is taken once, not per consumer', 'leave the consumer name out');
    ELSIF p_msgid IS NULL AND NOT q.multiple AND p_mode <> 'BROWSE' THEN
        PERFORM @aq@._refuse(25239, format('no message id given for exception queue %s', q.shown),
            'its messages can only be dequeued by message id', 'browse it, then dequeue by msgid');
    END IF;

    -- a search by id or correlation, and a look, take no groups
    IF v_grouped AND p_mode <> 'BROWSE' AND p_msgid IS NULL AND p_correlation IS NULL THEN
        v_chosen := @aq@._of_group(q.hub_id, q.id, v_consumer, p_navigation, p_limit);
        IF v_chosen = '{}' THEN
            RETURN;
        END IF;
    END IF;

    -- the states stand in the text: the indexes are partial
    v_states := CASE WHEN v_exceptions THEN '= @EXPIRED@' ELSE '= @READY@' END;
    IF p_msgid IS NOT NULL THEN
        v_states := CASE WHEN v_exceptions THEN 'IN (@EXPIRED@' ELSE 'IN (@READY@, @WAITING@'
                || CASE WHEN v_consumer <> 0 THEN ', @UNDELIVERABLE@' ELSE '' END END
            || CASE WHEN p_mode = 'BROWSE' THEN ', @PROCESSED@, @CLAIMED@)' ELSE ')' END;
    END IF;
    a := CASE WHEN v_consumer <> 0 THEN 'e' ELSE 'm' END;
    v_sql := 'SELECT m.id, m.body, m.body_type, m.headers, m.kind, m.priority, m.correlation, m.expiration,'
        ' m.expires_at, m.enq_time, m.exception_queue, m.sender_name, m.sender_address, m.original_msgid,'
        ' m.user_property, m.sender_protocol, '
        || a || '.attempts, ' || a || '.state FROM '
        || CASE a WHEN 'e' THEN 'aq_entry e JOIN aq_message m ON m.id = e.message_id WHERE e.consumer_id = $1'
                  ELSE 'aq_message m WHERE m.queue_id = $1' END
        || ' AND ' || a || '.state ' || v_states
        || CASE WHEN p_msgid IS NULL THEN '' WHEN a = 'e' THEN ' AND e.message_id = $2' ELSE ' AND m.id = $2' END
        || CASE WHEN p_correlation IS NULL THEN '' WHEN p_correlation ~ '[%_]' THEN ' AND m.correlation LIKE $3 ESCAPE '''''
                ELSE ' AND m.correlation = $3' END
        || CASE WHEN v_chosen IS NULL THEN '' WHEN a = 'e' THEN ' AND e.message_id = ANY ($5)' ELSE ' AND m.id = ANY ($5)' END
        || CASE WHEN v_grouped AND p_msgid IS NULL THEN format(' AND %s.k2 < 1e300', a) ELSE '' END
        || format(' ORDER BY %1$s.k1, %1$s.k2, %1$s.k3', a) || CASE WHEN v_grouped THEN ', m.id' ELSE '' END || ' LIMIT $4'
        || CASE WHEN p_mode = 'BROWSE' THEN '' ELSE ' FOR UPDATE OF ' || a || ' SKIP LOCKED' END;
    FOR r IN EXECUTE v_sql USING CASE a WHEN 'e' THEN v_consumer ELSE q.id END, v_number, p_correlation, p_limit,
        v_chosen LOOP
        v_ids := v_ids || r.id;
        o.msgid := q.hub_id || int8send(r.id);
        o.body_type := CASE WHEN p_mode <> 'REMOVE_NODATA' THEN (ARRAY['RAW', 'TEXT', 'FIELDS', 'VALUE'])[r.body_type] END;
        o.payload := CASE WHEN p_mode <> 'REMOVE_NODATA' THEN r.body END;
        o.payload_text := NULL;
        IF r.body_type >= @BODYTEXT@ AND position('\x00'::bytea IN o.payload) = 0 THEN
            o.payload_text := convert_from(o.payload, 'UTF8');
        END IF;
        o.headers := r.headers;
        o.kind := r.kind;
        o.priority := r.priority;
        o.correlation := r.correlation;
        o.enqueue_time := to_timestamp(r.enq_time);
        o.expiration := r.expiration;
        o.expires_at := CASE WHEN r.expires_at > 253402214400 THEN to_timestamp(253402214400)  -- what drivers can read
                             ELSE to_timestamp(r.expires_at) END;
        o.attempts := r.attempts;
        o.state := CASE r.state WHEN @WAITING@ THEN 'WAITING' WHEN @PROCESSED@ THEN 'PROCESSED' WHEN @EXPIRED@ THEN 'EXPIRED'
            WHEN @UNDELIVERABLE@ THEN 'UNDELIVERABLE' ELSE 'READY' END;
        o.exception_queue := r.exception_queue;
        o.sender_name := r.sender_name;
        o.sender_address := r.sender_address;
        o.original_msgid := r.original_msgid;
        o.user_property := r.user_property;
        o.sender_protocol := coalesce(r.sender_protocol, 0);
        RETURN NEXT o;
    END LOOP;
    IF p_msgid IS NOT NULL AND v_ids = '{}' THEN
        PERFORM @aq@._refuse(25263, format('message %s is not in queue %s', upper(encode(p_msgid, 'hex')), q.shown),
            'it was taken, is in another session''s hands, or never was in this queue',
            'browse the queue for the messages that are there');
    ELSIF v_ids = '{}' OR p_mode IN ('BROWSE', 'LOCKED') THEN
        RETURN;
    END IF;

    v_txn := 'pg.' || pg_current_xact_id()::text;
    IF v_exceptions THEN
        DELETE FROM aq_message m WHERE m.queue_id = q.id AND m.id = ANY (v_ids) AND m.state IN @LOCKABLE@;
        GET DIAGNOSTICS v_rows = ROW_COUNT;
        IF q.multiple THEN
            DELETE FROM aq_entry e WHERE e.message_id = ANY (v_ids);
        END IF;
    ELSIF v_consumer <> 0 THEN
        UPDATE aq_entry e SET state = @PROCESSED@, claim = NULL, deq_time = v_now, deq_user = v_user, deq_txn = v_txn
         WHERE e.consumer_id = v_consumer AND e.message_id = ANY (v_ids) AND e.state IN @LOCKABLE@;
        GET DIAGNOSTICS v_rows = ROW_COUNT;
        INSERT INTO aq_dequeue_log (message_id) SELECT u.id FROM unnest(v_ids) u(id);
    ELSIF q.retention <> 0 THEN
        UPDATE aq_message m
           SET state = @PROCESSED@, claim = NULL, expires_at = NULL, deq_time = v_now, deq_user = v_user, deq_txn = v_txn
         WHERE m.queue_id = q.id AND m.id = ANY (v_ids) AND m.state IN @LOCKABLE@;
        GET DIAGNOSTICS v_rows = ROW_COUNT;
    ELSE
        DELETE FROM aq_message m WHERE m.queue_id = q.id AND m.id = ANY (v_ids) AND m.state IN @LOCKABLE@;
        GET DIAGNOSTICS v_rows = ROW_COUNT;
    END IF;
    IF v_rows <> cardinality(v_ids) THEN
        RAISE EXCEPTION USING ERRCODE = 'serialization_failure',
            MESSAGE = format('a message of queue %s was taken by another process', q.shown),
            HINT = 'repeat the transaction';
    END IF;
END $$;

CREATE OR REPLACE FUNCTION @aq@._dequeue(
    p_queue text, p_consumer text, p_mode text, p_wait double precision, p_correlation text, p_msgid bytea,
    p_navigation text, p_limit integer)
RETURNS SETOF @aq@.message LANGUAGE plpgsql AS $$
#variable_conflict use_column
DECLARE
    v_mode text := @aq@._upper(coalesce(p_mode, 'REMOVE'));
    v_navigation text := @aq@._upper(coalesce(p_navigation, 'NEXT_MESSAGE'));
    v_wait double precision := coalesce(p_wait, 0);
    v_deadline timestamptz := clock_timestamp();
    v_pause double precision := 0.01;
BEGIN
    IF v_mode NOT IN ('REMOVE', 'BROWSE', 'LOCKED', 'REMOVE_NODATA') THEN
        PERFORM @aq@._refuse(25225, format('dequeue mode %L is not known', p_mode),
            'the modes are REMOVE, BROWSE, LOCKED and REMOVE_NODATA', 'use one of them');
    ELSIF v_navigation NOT IN ('NEXT_MESSAGE', 'FIRST_MESSAGE', 'NEXT_TRANSACTION') THEN
        PERFORM @aq@._refuse(25233, format('navigation %L is not known to SQL', p_navigation),
            'it knows NEXT_MESSAGE, FIRST_MESSAGE and NEXT_TRANSACTION', 'use one of them');
    ELSIF v_navigation = 'NEXT_TRANSACTION'
          AND (v_mode = 'BROWSE' OR p_msgid IS NOT NULL OR p_correlation IS NOT NULL) THEN
        PERFORM @aq@._refuse(25233, 'NEXT_TRANSACTION given for a search that takes no groups',
            'a message id, a correlation and BROWSE look at single messages', 'leave the navigation out');
    ELSIF NOT (v_wait >= 0 AND v_wait <= 60) THEN
        PERFORM @aq@._refuse(25230, format('wait is %s', v_wait),
            'a call from SQL waits for 0 to 60 seconds: it keeps its transaction open', 'call again, or LISTEN ' || quote_ident(@channel@));
    ELSIF v_wait > 0 AND current_setting('transaction_isolation') <> 'read committed' THEN
        PERFORM @aq@._refuse(25230, format('wait is %s', v_wait),
            format('this transaction is %s: it cannot see what others commit while it waits',
                   current_setting('transaction_isolation')), 'do not wait, or use READ COMMITTED');
    ELSIF coalesce(p_limit, 0) < 1 THEN
        PERFORM @aq@._refuse(25286, format('array size is %s', p_limit), 'it must be at least 1',
            'correct the array size');
    ELSIF p_msgid IS NOT NULL AND p_correlation IS NOT NULL THEN
        PERFORM @aq@._refuse(25240, 'msgid given together with a correlation', 'a message id already selects one message',
            'leave the others out');
    END IF;
    v_deadline := v_deadline + make_interval(secs => v_wait);
    LOOP
        RETURN QUERY SELECT t.* FROM @aq@._take(
            p_queue, p_consumer, v_mode, p_correlation, p_msgid, v_navigation, p_limit) t;
        EXIT WHEN FOUND OR clock_timestamp() >= v_deadline;
        EXIT WHEN v_navigation = 'NEXT_MESSAGE' AND p_msgid IS NULL AND p_correlation IS NULL
              AND v_mode <> 'BROWSE' AND @aq@._in_group(p_queue, p_consumer);  -- nothing comes to a group that is used up
        PERFORM pg_sleep(least(v_pause, extract(epoch FROM v_deadline - clock_timestamp())));
        v_pause := least(v_pause * 1.5, 0.25);
    END LOOP;
END $$;

CREATE OR REPLACE FUNCTION @aq@.dequeue(
    queue text, consumer text DEFAULT NULL, dequeue_mode text DEFAULT 'REMOVE', wait double precision DEFAULT 0,
    correlation text DEFAULT NULL, msgid bytea DEFAULT NULL, navigation text DEFAULT 'NEXT_MESSAGE')
RETURNS SETOF @aq@.message LANGUAGE plpgsql SECURITY DEFINER @settings@ AS $$
BEGIN
    RETURN QUERY SELECT t.* FROM @aq@._dequeue($1, $2, $3, $4, $5, $6, $7, 1) t;
END $$;

CREATE OR REPLACE FUNCTION @aq@.dequeue_array(
    queue text, consumer text DEFAULT NULL, array_size integer DEFAULT 100, dequeue_mode text DEFAULT 'REMOVE',
    wait double precision DEFAULT 0, correlation text DEFAULT NULL, navigation text DEFAULT 'NEXT_MESSAGE')
RETURNS SETOF @aq@.message LANGUAGE plpgsql SECURITY DEFINER @settings@ AS $$
BEGIN
    RETURN QUERY SELECT t.* FROM @aq@._dequeue($1, $2, $4, $5, $6, NULL, $7, $3) t;
END $$;

CREATE OR REPLACE FUNCTION @aq@.browse(
    queue text, consumer text DEFAULT NULL, array_size integer DEFAULT 100, correlation text DEFAULT NULL,
    msgid bytea DEFAULT NULL)
RETURNS SETOF @aq@.message LANGUAGE plpgsql SECURITY DEFINER @settings@ AS $$
BEGIN
    RETURN QUERY SELECT t.* FROM @aq@._dequeue($1, $2, 'BROWSE', 0, $4, $5, NULL, $3) t;
END $$;

-- ---------------------------------------------------------------------------------------------------- failed attempts

-- The exception queue that takes a message: the one it names if that can take it, else the default one.
CREATE OR REPLACE FUNCTION @aq@._exceptions(p_queue text, p_named text, OUT id bigint, OUT named boolean)
LANGUAGE plpgsql AS $$
#variable_conflict use_column
DECLARE
    q record;
BEGIN
    q := @aq@._queue(p_queue, NULL, NULL, NULL);
    SELECT x.id, true INTO id, named
      FROM aq_queue x JOIN aq_queue_table t ON t.id = x.queue_table_id JOIN aq_queue_table s ON s.id = q.table_id
     WHERE x.name_key = @aq@._key(p_named, q.schema) AND x.queue_type = 'EXCEPTION_QUEUE'
       AND (t.multiple_consumers <> 0) = q.multiple
       AND t.payload_type = s.payload_type AND t.type_id IS NOT DISTINCT FROM s.type_id;
    IF NOT FOUND THEN
        IF p_named IS NOT NULL THEN
            RAISE WARNING 'exception queue % does not exist or is of another kind; the default one takes the message',
                p_named;
        END IF;
        SELECT x.id, false INTO id, named FROM aq_queue x
         WHERE x.queue_table_id = q.table_id AND x.name_key = q.exceptions_key;
    END IF;
END $$;

-- Count a failed attempt of a message that a rollback gave back, as a session's own rollback does; returns its state.
CREATE OR REPLACE FUNCTION @aq@.fail(queue text, msgid bytea, consumer text DEFAULT NULL)
RETURNS text LANGUAGE plpgsql SECURITY DEFINER @settings@ AS $$
#variable_conflict use_column
DECLARE
    q record;
    x record;
    v_consumer bigint;
    v_number bigint;
    v_attempts integer;
    v_state smallint;
    v_now double precision := extract(epoch FROM clock_timestamp());
BEGIN
    q := @aq@._queue($1, 'dequeue', 'DEQUEUE', $3);
    IF q.queue_type <> 'NORMAL_QUEUE' THEN
        PERFORM @aq@._refuse(25263, format('a failed attempt cannot be counted in exception queue %s', q.shown),
            'attempts count in normal queues only', 'leave it out');
    ELSIF NOT q.dequeue_enabled THEN
        PERFORM @aq@._refuse(25226, format('queue %s is not enabled for dequeue', q.shown),
            'it was not started, or stopped', 'start it: start_queue');
    END IF;
    v_consumer := @aq@._consumer(q.id, q.shown, q.multiple, $3);
    v_number := @aq@._number(q.hub_id, $2);
    IF q.multiple THEN
        SELECT e.attempts + 1 INTO v_attempts FROM aq_entry e
         WHERE e.consumer_id = v_consumer AND e.message_id = v_number AND e.state IN @OPEN@ FOR UPDATE SKIP LOCKED;
    ELSE
        SELECT m.attempts + 1 INTO v_attempts FROM aq_message m
         WHERE m.queue_id = q.id AND m.id = v_number AND m.state IN (@READY@, @WAITING@) FOR UPDATE SKIP LOCKED;
    END IF;
    IF v_attempts IS NULL THEN
        PERFORM @aq@._refuse(25263, format('message %s is not in queue %s', upper(encode($2, 'hex')), q.shown),
            'it was taken, is in another session''s hands, or never was in this queue',
            'call aq.fail after the rollback that gives the message back');
    END IF;
    v_state := CASE WHEN v_attempts > q.max_retries THEN CASE WHEN q.multiple THEN @UNDELIVERABLE@ ELSE @READY@ END
                    WHEN q.retry_delay > 0 THEN @WAITING@ ELSE @READY@ END;
    IF q.multiple THEN
        UPDATE aq_entry e SET attempts = v_attempts, claim = NULL, state = v_state,
               ready_at = CASE WHEN v_attempts > q.max_retries THEN e.ready_at ELSE v_now + q.retry_delay END
         WHERE e.consumer_id = v_consumer AND e.message_id = v_number;
    ELSE
        UPDATE aq_message m SET attempts = v_attempts, claim = NULL, state = v_state,
               ready_at = CASE WHEN v_attempts > q.max_retries THEN m.ready_at ELSE v_now + q.retry_delay END
         WHERE m.id = v_number;
    END IF;
    IF v_attempts <= q.max_retries THEN
        PERFORM pg_notify(@channel@, q.id::text);
        RETURN CASE v_state WHEN @WAITING@ THEN 'WAITING' ELSE 'READY' END;
    END IF;
    IF q.multiple THEN  -- another recipient may fail or consume at this moment; the time manager looks again
        INSERT INTO aq_dequeue_log (message_id) VALUES (v_number);
        PERFORM FROM aq_entry e WHERE e.message_id = v_number AND e.state IN @PENDING@;
        IF FOUND THEN
            RETURN 'UNDELIVERABLE';
        END IF;
        IF (SELECT count(*) FROM aq_entry e WHERE e.message_id = v_number AND e.state = @UNDELIVERABLE@) >
           (SELECT count(*) FROM (SELECT 1 FROM aq_entry e WHERE e.message_id = v_number AND e.state = @UNDELIVERABLE@
                                     FOR UPDATE SKIP LOCKED) AS free) THEN
            RETURN 'UNDELIVERABLE';  -- who has it in hand is not waited for
        END IF;
    END IF;
    SELECT t.* INTO x FROM aq_message m, @aq@._exceptions($1, m.exception_queue) t WHERE m.id = v_number;
    UPDATE aq_message m SET queue_id = x.id, state = @EXPIRED@, original_queue_id = q.id,
           expiration_reason = 'MAX_RETRY_EXCEEDED', claim = NULL, expires_at = NULL,
           exception_queue = CASE WHEN x.named THEN m.exception_queue END
     WHERE m.id = v_number;
    UPDATE aq_entry e SET state = @EXPIRED@, claim = NULL WHERE e.message_id = v_number AND e.state IN @OPEN@;
    PERFORM pg_notify(@channel@, x.id::text);
    RETURN 'EXPIRED';
END $$;
