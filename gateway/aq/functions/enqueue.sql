-- What puts messages into the hub: prepare and store of transfer.py, encode of codec.py.

CREATE OR REPLACE FUNCTION @aq@._is_json(p_body bytea) RETURNS boolean
LANGUAGE plpgsql IMMUTABLE AS $$
BEGIN
    PERFORM convert_from(p_body, 'UTF8')::json;
    RETURN true;
EXCEPTION WHEN invalid_text_representation OR untranslatable_character THEN
    RETURN false;
END $$;

-- Who gets which message: pairs of ids. p_rules has the rule of each consumer in SQL (mgw.gateway.aq.conditions.routing_sql) or NULL, p_tests
-- each of them once. Where a rule gives NULL only Python can tell; the first such message is named, and the consumer.
CREATE OR REPLACE FUNCTION @aq@._route(
    p_ids bigint[], p_delays double precision[], p_consumers bigint[], p_rules text[], p_tests text[],
    OUT message_ids bigint[], OUT consumer_ids bigint[], OUT undecided_message bigint, OUT undecided_consumer text)
LANGUAGE plpgsql AS $$
BEGIN
    EXECUTE 'WITH tested AS MATERIALIZED ('
        ' SELECT d.id, d.number, ARRAY[' || array_to_string(p_tests, ', ') || '] AS results'
        ' FROM unnest($1, $2) WITH ORDINALITY d(id, delay, number) JOIN aq_message m ON m.id = d.id),'
        ' routed AS MATERIALIZED ('
        ' SELECT t.id, t.number, c.id AS consumer, c.rule IS NULL OR t.results[array_position($5, c.rule)] AS holds'
        ' FROM tested t CROSS JOIN unnest($3, $4) c(id, rule))'
        ' SELECT array_agg(r.id ORDER BY r.number, r.consumer) FILTER (WHERE r.holds),'
        ' array_agg(r.consumer ORDER BY r.number, r.consumer) FILTER (WHERE r.holds),'
        ' (array_agg(r.id ORDER BY r.number, r.consumer) FILTER (WHERE r.holds IS NULL))[1],'
        ' (array_agg((SELECT c.name FROM aq_consumer c WHERE c.id = r.consumer) ORDER BY r.number, r.consumer)'
        ' FILTER (WHERE r.holds IS NULL))[1] FROM routed r'
       INTO message_ids, consumer_ids, undecided_message, undecided_consumer
      USING p_ids, p_delays, p_consumers, p_rules, p_tests;
END $$;

-- Whether a row that is seen, with this xmin, was written by the present transaction: what others wrote is seen when they
-- have ended. Subtransactions have numbers of their own, after the transaction's.
CREATE OR REPLACE FUNCTION @aq@._own(p_xmin xid) RETURNS boolean LANGUAGE plpgsql AS $$
DECLARE
    v_begin bigint := pg_current_xact_id()::text::bigint;
    v_later bigint := (p_xmin::text::bigint - v_begin % 4294967296 + 4294967296) % 4294967296;
BEGIN
    RETURN v_later < 2147483648 AND pg_xact_status((v_begin + v_later)::text::xid8) = 'in progress';
END $$;

-- Make stored messages members of the transaction's group in their queue (mgw.gateway.aq.queues.grouping): its first message decides.
-- It is remembered in a setting that is local to the transaction, in the form that sessions use. Anybody may set that:
-- only the number is read, and only a message of this transaction counts. Returns whether the group waits.
CREATE OR REPLACE FUNCTION @aq@._group(
    p_queue bigint, p_hub bytea, p_multiple boolean, p_by_commit boolean, p_ids bigint[])
RETURNS boolean LANGUAGE plpgsql AS $$
DECLARE
    v_name text := format('mgw.group_%s_%s', encode(p_hub, 'hex'), p_queue);
    v_text text := nullif(current_setting(v_name, true), '');
    v_group bigint;
    v_delayed boolean;
    v_new boolean := false;
BEGIN
    SELECT m.id, m.ready_at > m.enq_time INTO v_group, v_delayed FROM aq_message m
     WHERE m.id = (replace(v_text, 'Infinity', '"Infinity"')::jsonb ->> 0)::bigint AND m.queue_id = p_queue
       AND m.group_id = m.id AND @aq@._own(m.xmin);
    IF v_group IS NULL THEN
        SELECT format('[%s, %s, %s, %s, %s, %s, %s, %s, %s]', m.id, (m.ready_at > m.enq_time)::text, m.k1,
                      CASE WHEN p_by_commit THEN 'Infinity' ELSE m.k2::text END, m.k3, m.priority, m.ready_at,
                      coalesce(m.expires_at::text, 'null'), coalesce(m.expiration::text, 'null')),
               m.ready_at > m.enq_time
          INTO v_text, v_delayed FROM aq_message m WHERE m.id = p_ids[1];
        PERFORM set_config(v_name, v_text, true);
        v_group := p_ids[1];
        v_new := true;
    END IF;
    UPDATE aq_message m SET state = CASE WHEN p_multiple THEN @SPLIT@ WHEN v_delayed THEN @WAITING@ ELSE @READY@ END,
           k1 = h.k1, k2 = CASE WHEN v_new AND p_by_commit THEN 'Infinity' ELSE h.k2 END, k3 = h.k3,
           priority = h.priority, ready_at = h.ready_at, expires_at = h.expires_at, expiration = h.expiration,
           group_id = v_group
      FROM aq_message h WHERE h.id = v_group AND m.id = ANY (p_ids);
    IF p_by_commit THEN
        INSERT INTO aq_unplaced (queue_id, group_id) VALUES (p_queue, v_group);
    END IF;
    RETURN v_delayed;
END $$;

-- Bodies as bytes; p_given says what they are: raw bytes, text, or JSON. NULL arrays of properties: their defaults.
CREATE OR REPLACE FUNCTION @aq@._enqueue(
    p_queue text, p_given text, p_bodies bytea[], p_priorities bigint[], p_delays double precision[],
    p_expirations double precision[], p_correlations text[], p_headers jsonb[], p_recipients text[],
    p_exception_queue text, p_sender_name text, p_sender_address text, p_sender_protocol integer,
    p_user_properties text[], p_kind text)
RETURNS bytea[] LANGUAGE plpgsql AS $$
#variable_conflict use_column
DECLARE
    q record;
    r record;
    v_now double precision := extract(epoch FROM clock_timestamp());
    v_count integer := cardinality(p_bodies);
    v_body_type smallint := CASE p_given WHEN 'raw bytes' THEN @BODYRAW@ ELSE @BODYTEXT@ END;
    v_bodies bytea[] := p_bodies;
    v_kind text := @aq@._upper(p_kind);
    v_by_priority boolean;
    v_by_second boolean;
    v_ids bigint[];
    v_consumers bigint[];
    v_targets bigint[];
    v_rules text[];
    v_tests text[];
    v_name text;
    v_open bigint;
    v_ready boolean := false;
    v_delayed boolean;  -- of the whole transaction group
BEGIN
    q := @aq@._queue(p_queue, 'enqueue', 'ENQUEUE', p_sender_name);
    IF q.queue_type <> 'NORMAL_QUEUE' THEN
        PERFORM @aq@._refuse(25206, format('enqueue to exception queue %s', q.shown),
            'only the hub moves messages into an exception queue', 'enqueue to a normal queue');
    ELSIF NOT q.enqueue_enabled THEN
        PERFORM @aq@._refuse(25207, format('queue %s is not enabled for enqueue', q.shown),
            'it was not started, or stopped', 'start it: start_queue');
    ELSIF coalesce(v_count, 0) = 0 THEN
        RETURN '{}';
    END IF;

    -- what belongs to all messages
    IF q.payload_type NOT IN ('RAW', 'BASIC', 'FIELDS', 'TEXT', 'JSON') THEN
        PERFORM @aq@._refuse(25215, format('queue %s cannot be written by SQL', q.shown),
            format('its payload type is %s, which is checked in Python', q.payload_type), 'use a session in Python');
    ELSIF array_remove(p_bodies, NULL) <> '{}' AND NOT (CASE q.payload_type
            WHEN 'RAW' THEN p_given = 'raw bytes'
            WHEN 'BASIC' THEN true
            WHEN 'FIELDS' THEN p_given = 'JSON'
            ELSE p_given <> 'raw bytes' END) THEN
        PERFORM @aq@._refuse(25215, format('the message does not fit queue %s', q.shown),
            format('its body is %s, the queue holds %s', p_given, q.payload_type),
            'convert it: payload => convert_to(text, ''UTF8'') for RAW, convert_from(bytes, ''UTF8'') for text, '
            'jsonb for FIELDS');
    ELSIF v_kind NOT IN ('RAW', 'BASIC', 'FIELDS') THEN
        PERFORM @aq@._refuse(0, format('kind %L is not known', p_kind), 'the kinds are RAW, BASIC and FIELDS',
            'leave it out');
    ELSIF length(p_exception_queue) > 259 OR length(p_sender_name) > 128 OR length(p_sender_address) > 1024 THEN
        PERFORM @aq@._refuse(0, 'exception queue, sender name or sender address is too long',
            'at most 259, 128 and 1024 characters are allowed', 'correct the message');
    ELSIF NOT p_sender_protocol BETWEEN 0 AND 255 THEN
        PERFORM @aq@._refuse(0, format('sender protocol %s is not valid', p_sender_protocol), '0 to 255',
            'correct the message');
    END IF;
    IF coalesce(cardinality(p_priorities), v_count) <> v_count OR coalesce(cardinality(p_delays), v_count) <> v_count
       OR coalesce(cardinality(p_expirations), v_count) <> v_count
       OR coalesce(cardinality(p_correlations), v_count) <> v_count
       OR coalesce(cardinality(p_headers), v_count) <> v_count
       OR coalesce(cardinality(p_user_properties), v_count) <> v_count THEN
        PERFORM @aq@._refuse(25287, format('%s payloads given, and another number of properties', v_count),
            'arrays of properties have one element for each payload', 'give one of each for every message, or no array');
    END IF;

    -- what belongs to each
    FOR r IN SELECT u.body, u.delay, u.expiration, u.correlation, u.user_property, u.number - 1 AS number
               FROM unnest(p_bodies, p_delays, p_expirations, p_correlations, p_user_properties)
                    WITH ORDINALITY u(body, delay, expiration, correlation, user_property, number) LOOP
        IF q.payload_type = 'JSON' AND p_given = 'text' AND NOT @aq@._is_json(r.body) THEN
            PERFORM @aq@._refuse(25215, format('message %s for queue %s cannot be stored', r.number, q.shown),
                'its body is not JSON text', 'correct the message');
        ELSIF q.payload_type = 'FIELDS' AND r.body IS NOT NULL THEN
            v_body_type := @BODYFIELDS@;
            r.body := convert_to(coalesce(@aq@._headers(convert_from(r.body, 'UTF8')::jsonb, false), '[]'), 'UTF8');
            v_bodies[array_lower(v_bodies, 1) + r.number::integer] := r.body;
        END IF;
        IF octet_length(r.body) > q.max_payload THEN
            PERFORM @aq@._refuse(25215, format('message %s is too large for queue %s', r.number, q.shown),
                format('its body has %s bytes, the queue takes at most %s', octet_length(r.body), q.max_payload),
                'send a smaller body, or create the queue table with a larger max_payload');
        ELSIF NOT coalesce(r.delay >= 0 AND r.delay < 1099511627776, true) THEN
            PERFORM @aq@._refuse(25203, format('delay %s of message %s is not valid', r.delay, r.number),
                '0 or more seconds', 'correct the message');
        ELSIF NOT coalesce(r.expiration >= 0 AND r.expiration < 1099511627776, true) THEN
            PERFORM @aq@._refuse(25209, format('expiration %s of message %s is not valid', r.expiration, r.number),
                '0 or more seconds', 'correct the message');
        ELSIF length(r.correlation) > 128 THEN
            PERFORM @aq@._refuse(0, format('correlation of message %s has %s characters', r.number,
                length(r.correlation)), 'at most 128 are allowed', 'correct the message');
        ELSIF length(r.user_property) > 4000 THEN
            PERFORM @aq@._refuse(0, format('user property of message %s has %s characters', r.number,
                length(r.user_property)), 'at most 4000 are allowed', 'correct the message');
        END IF;
        v_ready := v_ready OR coalesce(r.delay, 0) = 0;
    END LOOP;

    IF NOT q.multiple AND cardinality(p_recipients) > 0 THEN
        PERFORM @aq@._refuse(25216, format('recipients given for queue %s', q.shown),
            'the queue is a single-consumer queue', 'leave the recipient list out');
    ELSIF q.multiple THEN
        IF cardinality(p_recipients) > 0 THEN
            v_consumers := @aq@._recipients(q.id, q.shown, p_recipients, v_now);
        ELSE
            SELECT array_agg(c.id ORDER BY c.id), array_agg(c.rule_sql ORDER BY c.id),
                   min(c.name) FILTER (WHERE c.rule IS NOT NULL AND c.rule_sql IS NULL)
              INTO v_consumers, v_rules, v_name FROM aq_consumer c
             WHERE c.queue_id = q.id AND c.is_subscriber = 1 AND c.delivery_mode <> 'BUFFERED';
            IF v_name IS NOT NULL THEN
                PERFORM @aq@._refuse(25449, format('queue %s cannot be written by SQL', q.shown),
                    format('the rule of subscriber %s can only be evaluated in Python', v_name),
                    'use a session in Python, or name recipients');
            END IF;
            v_tests := ARRAY(SELECT DISTINCT u.rule FROM unnest(v_rules) u(rule) WHERE u.rule IS NOT NULL);
        END IF;
    END IF;

    v_by_priority := q.sort_list LIKE 'PRIORITY%';
    v_by_second := q.sort_list = 'ENQ_TIME,PRIORITY';
    SELECT array_agg(nextval('aq_message_id')) INTO v_ids FROM generate_series(1, v_count);
    INSERT INTO aq_message (
           id, queue_id, state, k1, k2, k3, priority, ready_at, expires_at, expiration, correlation, enq_time, enq_user,
           enq_txn, attempts, exception_queue, sender_name, sender_address, sender_protocol, user_property, kind, headers,
           body_type, body)
    SELECT n.id, q.id, CASE WHEN q.multiple THEN @SPLIT@ WHEN n.delay > 0 THEN @WAITING@ ELSE @READY@ END,
           CASE WHEN v_by_priority THEN n.priority WHEN v_by_second THEN floor(v_now) ELSE 0 END,
           CASE WHEN v_by_second THEN n.priority ELSE 0 END, n.id,
           n.priority, v_now + n.delay, v_now + n.delay + n.expiration, n.expiration, n.correlation, v_now,
           session_user, 'pg.' || pg_current_xact_id()::text, 0, p_exception_queue, p_sender_name, p_sender_address,
           nullif(p_sender_protocol, 0), n.user_property,
           coalesce(v_kind, CASE WHEN q.payload_type IN ('RAW', 'FIELDS') THEN q.payload_type ELSE 'BASIC' END),
           @aq@._headers(n.headers, true), CASE WHEN n.body IS NULL THEN @BODYNONE@ ELSE v_body_type END, n.body
      FROM (SELECT u.id, u.body, coalesce(u.priority, 1) AS priority, coalesce(u.delay, 0) AS delay, u.expiration,
                   u.correlation, u.headers, u.user_property
              FROM unnest(v_ids, v_bodies, p_priorities, p_delays, p_expirations, p_correlations, p_headers,
                          p_user_properties)
                   u(id, body, priority, delay, expiration, correlation, headers, user_property)) n;
    IF q.multiple THEN
        v_targets := v_ids;
        IF cardinality(v_tests) > 0 THEN
            SELECT t.message_ids, t.consumer_ids, t.undecided_message, t.undecided_consumer
              INTO v_targets, v_consumers, v_open, v_name
              FROM @aq@._route(v_ids, p_delays, v_consumers, v_rules, v_tests) t;
            IF v_open IS NOT NULL THEN
                PERFORM @aq@._refuse(25449, format('message %s for queue %s cannot be routed by SQL',
                    array_position(v_ids, v_open) - 1, q.shown),
                    format('only Python can tell whether the rule of subscriber %s holds for it', v_name),
                    'use a session in Python, or name recipients');
            END IF;
        ELSE
            SELECT array_agg(u.id), array_agg(c.id) INTO v_targets, v_consumers
              FROM unnest(v_ids) u(id) CROSS JOIN unnest(v_consumers) c(id);
        END IF;
        SELECT u.number - 1 INTO v_open FROM unnest(v_ids) WITH ORDINALITY u(id, number)
         WHERE u.id NOT IN (SELECT t.id FROM unnest(v_targets) t(id)) ORDER BY u.number LIMIT 1;
        IF FOUND THEN
            PERFORM @aq@._refuse(24033, format('message %s for queue %s has no recipient', v_open, q.shown),
                'no subscriber of the queue has a rule that is true for it', 'add a subscriber, or name recipients');
        END IF;
    END IF;
    IF q.message_grouping = 'TRANSACTIONAL' THEN
        v_delayed := @aq@._group(q.id, q.hub_id, q.multiple, q.sort_list LIKE '%COMMIT_TIME', v_ids);
    END IF;
    IF q.multiple THEN
        INSERT INTO aq_entry (message_id, consumer_id, queue_id, state, k1, k2, k3, ready_at, expires_at, attempts,
                              group_id)
        SELECT m.id, t.consumer, q.id, CASE WHEN coalesce(v_delayed, u.delay > 0) THEN @WAITING@ ELSE @READY@ END, m.k1, m.k2, m.k3,
               m.ready_at, m.expires_at, 0, m.group_id
          FROM unnest(v_targets, v_consumers) t(id, consumer) JOIN unnest(v_ids, p_delays) u(id, delay) ON u.id = t.id
          JOIN aq_message m ON m.id = t.id;
    END IF;
    IF v_ready THEN
        PERFORM pg_notify(@channel@, q.id::text);
    END IF;
    RETURN (SELECT array_agg(q.hub_id || int8send(u.id) ORDER BY u.number) FROM unnest(v_ids) WITH ORDINALITY u(id, number));
END $$;

CREATE OR REPLACE FUNCTION @aq@.enqueue(
    queue text, payload text DEFAULT NULL, priority bigint DEFAULT 1, delay double precision DEFAULT 0,
    expiration double precision DEFAULT NULL, correlation text DEFAULT NULL, headers jsonb DEFAULT NULL,
    recipients text[] DEFAULT NULL, exception_queue text DEFAULT NULL, sender_name text DEFAULT NULL,
    sender_address text DEFAULT NULL, sender_protocol integer DEFAULT 0, user_property text DEFAULT NULL,
    kind text DEFAULT NULL)
RETURNS bytea LANGUAGE plpgsql SECURITY DEFINER @settings@ AS $$
BEGIN
    RETURN (@aq@._enqueue(queue, 'text', ARRAY[convert_to(payload, 'UTF8')], ARRAY[priority], ARRAY[delay],
        ARRAY[expiration], ARRAY[correlation], ARRAY[headers], recipients, exception_queue, sender_name, sender_address,
        sender_protocol, ARRAY[user_property], kind))[1];
END $$;

CREATE OR REPLACE FUNCTION @aq@.enqueue(
    queue text, payload bytea, priority bigint DEFAULT 1, delay double precision DEFAULT 0,
    expiration double precision DEFAULT NULL, correlation text DEFAULT NULL, headers jsonb DEFAULT NULL,
    recipients text[] DEFAULT NULL, exception_queue text DEFAULT NULL, sender_name text DEFAULT NULL,
    sender_address text DEFAULT NULL, sender_protocol integer DEFAULT 0, user_property text DEFAULT NULL,
    kind text DEFAULT NULL)
RETURNS bytea LANGUAGE plpgsql SECURITY DEFINER @settings@ AS $$
BEGIN
    RETURN (@aq@._enqueue(queue, 'raw bytes', ARRAY[payload], ARRAY[priority], ARRAY[delay], ARRAY[expiration],
        ARRAY[correlation], ARRAY[headers], recipients, exception_queue, sender_name, sender_address,
        sender_protocol, ARRAY[user_property], kind))[1];
END $$;

CREATE OR REPLACE FUNCTION @aq@.enqueue(
    queue text, payload jsonb, priority bigint DEFAULT 1, delay double precision DEFAULT 0,
    expiration double precision DEFAULT NULL, correlation text DEFAULT NULL, headers jsonb DEFAULT NULL,
    recipients text[] DEFAULT NULL, exception_queue text DEFAULT NULL, sender_name text DEFAULT NULL,
    sender_address text DEFAULT NULL, sender_protocol integer DEFAULT 0, user_property text DEFAULT NULL,
    kind text DEFAULT NULL)
RETURNS bytea LANGUAGE plpgsql SECURITY DEFINER @settings@ AS $$
BEGIN
    RETURN (@aq@._enqueue(queue, 'JSON', ARRAY[convert_to(payload::text, 'UTF8')], ARRAY[priority], ARRAY[delay],
        ARRAY[expiration], ARRAY[correlation], ARRAY[headers], recipients, exception_queue, sender_name, sender_address,
        sender_protocol, ARRAY[user_property], kind))[1];
END $$;

CREATE OR REPLACE FUNCTION @aq@.enqueue_array(
    queue text, payloads text[], priorities bigint[] DEFAULT NULL, delays double precision[] DEFAULT NULL,
    expirations double precision[] DEFAULT NULL, correlations text[] DEFAULT NULL, headers jsonb[] DEFAULT NULL,
    recipients text[] DEFAULT NULL, exception_queue text DEFAULT NULL, sender_name text DEFAULT NULL,
    sender_address text DEFAULT NULL, sender_protocol integer DEFAULT 0, user_properties text[] DEFAULT NULL,
    kind text DEFAULT NULL)
RETURNS bytea[] LANGUAGE plpgsql SECURITY DEFINER @settings@ AS $$
BEGIN
    RETURN @aq@._enqueue(queue, 'text', (SELECT array_agg(convert_to(u.body, 'UTF8') ORDER BY u.ordinality)
        FROM unnest(payloads) WITH ORDINALITY u(body)), priorities, delays, expirations, correlations, headers,
        recipients, exception_queue, sender_name, sender_address, sender_protocol, user_properties, kind);
END $$;

CREATE OR REPLACE FUNCTION @aq@.enqueue_array(
    queue text, payloads bytea[], priorities bigint[] DEFAULT NULL, delays double precision[] DEFAULT NULL,
    expirations double precision[] DEFAULT NULL, correlations text[] DEFAULT NULL, headers jsonb[] DEFAULT NULL,
    recipients text[] DEFAULT NULL, exception_queue text DEFAULT NULL, sender_name text DEFAULT NULL,
    sender_address text DEFAULT NULL, sender_protocol integer DEFAULT 0, user_properties text[] DEFAULT NULL,
    kind text DEFAULT NULL)
RETURNS bytea[] LANGUAGE plpgsql SECURITY DEFINER @settings@ AS $$
BEGIN
    RETURN @aq@._enqueue(queue, 'raw bytes', payloads, priorities, delays, expirations, correlations, headers,
        recipients, exception_queue, sender_name, sender_address, sender_protocol, user_properties, kind);
END $$;

CREATE OR REPLACE FUNCTION @aq@.enqueue_array(
    queue text, payloads jsonb[], priorities bigint[] DEFAULT NULL, delays double precision[] DEFAULT NULL,
    expirations double precision[] DEFAULT NULL, correlations text[] DEFAULT NULL, headers jsonb[] DEFAULT NULL,
    recipients text[] DEFAULT NULL, exception_queue text DEFAULT NULL, sender_name text DEFAULT NULL,
    sender_address text DEFAULT NULL, sender_protocol integer DEFAULT 0, user_properties text[] DEFAULT NULL,
    kind text DEFAULT NULL)
RETURNS bytea[] LANGUAGE plpgsql SECURITY DEFINER @settings@ AS $$
BEGIN
    RETURN @aq@._enqueue(queue, 'JSON', (SELECT array_agg(convert_to(u.body::text, 'UTF8') ORDER BY u.ordinality)
        FROM unnest(payloads) WITH ORDINALITY u(body)), priorities, delays, expirations, correlations, headers,
        recipients, exception_queue, sender_name, sender_address, sender_protocol, user_properties, kind);
END $$;
