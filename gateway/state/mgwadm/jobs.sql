-- ------------------------------------------------------------------------------------------------------ ends of jobs

CREATE OR REPLACE FUNCTION @adm@._agent(p_name text) RETURNS gw_agent LANGUAGE plpgsql AS $$
DECLARE
    v_agent gw_agent;
BEGIN
    SELECT * INTO v_agent FROM gw_agent a WHERE a.name_key = @aq@._upper(p_name);
    IF NOT FOUND THEN
        PERFORM @adm@._refuse(32850, format('agent %s does not exist', p_name),
            'the agents are ' || (SELECT string_agg(a.name, ', ' ORDER BY a.name_key) FROM gw_agent a),
            'create it first, or correct the name');
    END IF;
    RETURN v_agent;
END $$;

CREATE OR REPLACE FUNCTION @adm@._link(p_name text) RETURNS gw_link LANGUAGE plpgsql AS $$
DECLARE
    v_link gw_link;
BEGIN
    SELECT * INTO v_link FROM gw_link l WHERE l.name_key = @aq@._upper(p_name);
    IF NOT FOUND THEN
        PERFORM @adm@._refuse(32808, format('link %s does not exist', p_name),
            'the links are: ' || coalesce((SELECT string_agg(l.name, ', ' ORDER BY l.name_key) FROM gw_link l), 'none'),
            'create it first, or correct the name');
    END IF;
    RETURN v_link;
END $$;

-- A registered foreign queue with its link.
CREATE OR REPLACE FUNCTION @adm@._foreign(p_name text) RETURNS jsonb LANGUAGE plpgsql AS $$
DECLARE
    v_parts text[] := regexp_match(p_name, '^(.+)@([^@]+)$');
    v_found jsonb;
BEGIN
    IF v_parts IS NULL THEN
        PERFORM @adm@._refuse(32804, @adm@._repr(p_name) || ' is not a foreign queue',
            'a registered foreign queue is written queue@link', 'correct the name');
    END IF;
    SELECT jsonb_build_object('foreign', true, 'name', q.name, 'link', l.name, 'link_key', l.name_key, 'type', l.type,
               'agent', a.name, 'agent_key', l.agent_key, 'max_connections', l.max_connections, 'provider', q.provider_queue,
               'domain', q.domain, 'options', q.options::jsonb, 'attributes', l.attributes::jsonb,
               'log', l.outbound_log_queue, 'full', q.name || '@' || l.name, 'key', @aq@._upper(q.name || '@' || l.name),
               'topic', coalesce(q.domain, @adm@._described() -> 'types' -> l.type ->> 'domain') = 'TOPIC')
      INTO v_found
      FROM gw_foreign_queue q JOIN gw_link l ON l.name_key = q.link_key JOIN gw_agent a ON a.name_key = l.agent_key
     WHERE q.name_key = @aq@._upper(v_parts[1]) AND q.link_key = @aq@._upper(v_parts[2]);
    IF NOT FOUND THEN
        PERFORM @adm@._refuse(32810, format('foreign queue %s does not exist', p_name),
            format('link %s has no registered queue %s', v_parts[2], v_parts[1]),
            'register it (foreign_queues in the file, register_foreign_queue in Python), or correct the name');
    END IF;
    RETURN v_found;
END $$;

-- A queue of the hub, or NULL.
CREATE OR REPLACE FUNCTION @adm@._queue(p_name text) RETURNS jsonb LANGUAGE sql AS $$
    SELECT jsonb_build_object('foreign', false, 'id', q.id, 'full', @aq@._shown(q.schema, q.name), 'type', q.queue_type,
               'key', CASE WHEN strpos(q.schema, '.') = 0 THEN q.name_key ELSE @aq@._upper(q.schema || '.' || q.name) END, 'topic', t.multiple_consumers <> 0,
               'payload', coalesce(t.object_type, t.payload_type), 'jms', t.jms_types <> 0,
               'table', @aq@._shown(t.schema, t.name))
      FROM aq_queue q JOIN aq_queue_table t ON t.id = q.queue_table_id WHERE q.name_key = @aq@._key(p_name, 'MGW')
$$;

CREATE OR REPLACE FUNCTION @adm@._hub_queue(p_job text, p_name text) RETURNS jsonb LANGUAGE plpgsql AS $$
DECLARE
    v_queue jsonb := @adm@._queue(p_name);
BEGIN
    IF v_queue IS NULL THEN
        PERFORM @adm@._refuse(32818, format('job %s: queue %s does not exist', p_job, p_name),
            CASE WHEN @aq@._key(p_name, 'MGW') IS NULL THEN 'a name is [schema.]name: letters, digits and _ $ # - / +, beginning with a letter or a digit'
                 ELSE 'no queue of that name is in the hub' END, 'create the queue first, or correct the name');
    ELSIF v_queue ->> 'type' <> 'NORMAL_QUEUE' THEN
        PERFORM @adm@._refuse(32819, format('job %s: queue %s cannot be used', p_job, p_name),
            'it is an exception queue of the hub', 'use a normal queue');
    END IF;
    RETURN v_queue;
END $$;

CREATE OR REPLACE FUNCTION @adm@._article(p_type text) RETURNS text LANGUAGE sql IMMUTABLE AS $$
    SELECT CASE WHEN p_type IN ('THROUGH', 'LOCAL') THEN 'a ' ELSE 'an ' END || lower(p_type)
$$;

-- Whether a pattern of words takes in words: p_rest takes in any number of them, p_one one.
CREATE OR REPLACE FUNCTION @adm@._words_match(p_pattern text[], p_words text[], p_one text) RETURNS boolean
LANGUAGE plpgsql IMMUTABLE AS $$
BEGIN
    IF cardinality(p_pattern) = 0 THEN
        RETURN cardinality(p_words) = 0;
    ELSIF p_pattern[1] = '#' THEN
        FOR v_start IN 1 .. cardinality(p_words) + 1 LOOP
            IF @adm@._words_match(p_pattern[2:], p_words[v_start:], p_one) THEN
                RETURN true;
            END IF;
        END LOOP;
        RETURN false;
    END IF;
    RETURN cardinality(p_words) > 0 AND p_pattern[1] IN (p_one, p_words[1])
        AND @adm@._words_match(p_pattern[2:], p_words[2:], p_one);
END $$;

-- Whether a source reads what is written to a destination, at the same system.
CREATE OR REPLACE FUNCTION @adm@._covers(p_type text, p_source text, p_target text) RETURNS boolean
LANGUAGE plpgsql IMMUTABLE AS $$
DECLARE
    v_source text[] := regexp_match(p_source, '^([^/]*)/(.*)$');
    v_target text[] := regexp_match(p_target, '^([^/]*)/(.*)$');
BEGIN
    IF p_type = 'MQTT' THEN
        RETURN @adm@._words_match(string_to_array(regexp_replace(p_source, '^\$share/[^/]*/', ''), '/'),
                                  string_to_array(p_target, '/'), '+');
    ELSIF p_type <> 'RABBITMQ' OR v_source IS NULL THEN
        RETURN p_source = p_target;
    ELSIF v_source[1] <> coalesce(v_target[1], p_target) THEN
        RETURN false;
    ELSIF v_target IS NULL THEN
        RETURN v_source[2] = '#';
    END IF;
    RETURN @adm@._words_match(string_to_array(v_source[2], '.'), string_to_array(v_target[2], '.'), '*');
END $$;

-- Source and destination of a job, resolved; refused where they cannot be a pair.
CREATE OR REPLACE FUNCTION @adm@._ends(p_job gw_job, OUT source jsonb, OUT destination jsonb) LANGUAGE plpgsql AS $$
DECLARE
    v_type text := p_job.propagation_type;
    v_from boolean := v_type IN ('INBOUND', 'THROUGH');
    v_to boolean := v_type IN ('OUTBOUND', 'THROUGH');
    v_loop boolean;
BEGIN
    FOR v_end IN 1 .. 2 LOOP
        DECLARE
            v_which text := CASE v_end WHEN 1 THEN 'source' ELSE 'destination' END;
            v_name text := CASE v_end WHEN 1 THEN p_job.source ELSE p_job.destination END;
            v_foreign boolean := CASE v_end WHEN 1 THEN v_from ELSE v_to END;
        BEGIN
            IF v_name IS NULL OR (v_name ~ '^.+@[^@]+$') <> v_foreign THEN
                PERFORM @adm@._refuse(32804, format('job %s: %s %s cannot be used', p_job.name, v_which, @adm@._repr(v_name)),
                    format('the %s of %s job is %s', v_which, @adm@._article(v_type),
                        CASE WHEN v_foreign THEN 'a registered foreign queue, queue@link' ELSE 'a queue of the hub, [schema.]queue' END),
                    CASE WHEN v_from <> v_to THEN 'correct it, or exchange source and destination' ELSE 'correct it' END);
            END IF;
        END;
    END LOOP;
    IF v_from THEN
        source := @adm@._foreign(p_job.source);
        PERFORM @adm@._endpoint(source, 'INBOUND', 'job ' || p_job.name || ': ', 32801);
    ELSE
        source := @adm@._hub_queue(p_job.name, p_job.source);
    END IF;
    IF v_to THEN
        destination := @adm@._foreign(p_job.destination);
        PERFORM @adm@._endpoint(destination, 'OUTBOUND', 'job ' || p_job.name || ': ', 32801);
    ELSE
        destination := @adm@._hub_queue(p_job.name, p_job.destination);
    END IF;
    IF v_from AND v_to THEN
        IF source ->> 'agent_key' <> destination ->> 'agent_key' THEN
            PERFORM @adm@._refuse(32801, format('job %s: its links belong to different agents', p_job.name),
                format('agent %s runs link %s, agent %s runs link %s, and one agent runs a job', source ->> 'agent', source ->> 'link',
                    destination ->> 'agent', destination ->> 'link'), 'create one of the links for the agent of the other');
        END IF;
        v_loop := (source ->> 'link_key' = destination ->> 'link_key'
                   OR (source ->> 'type' = destination ->> 'type' AND source -> 'attributes' = destination -> 'attributes'))
            AND @adm@._covers(source ->> 'type', source ->> 'provider', destination ->> 'provider');
    ELSE
        v_loop := source ->> 'key' = destination ->> 'key';
    END IF;
    IF v_loop THEN
        PERFORM @adm@._refuse(32801, format('job %s: source %s and destination %s are the same place', p_job.name, p_job.source, p_job.destination),
            'the job would read what it writes, again and again', 'use another destination');
    END IF;
END $$;

-- -------------------------------------------------------------------------------------------------- options of jobs

-- The options to store, names in lower case: what is given merged into what was.
CREATE OR REPLACE FUNCTION @adm@._job_options(p_job gw_job, p_ends jsonb[], p_given jsonb) RETURNS jsonb LANGUAGE plpgsql AS $$
DECLARE
    v_described jsonb := @adm@._described();
    v_fields jsonb := v_described -> 'job_options';
    v_before jsonb := coalesce(p_job.options::jsonb, '{}');
    v_result jsonb := v_before;
    v_titles text;
    v_field jsonb;
    v_option record;
BEGIN
    SELECT v_fields || coalesce(jsonb_agg(f.value ORDER BY e.ordinality, f.ordinality), '[]') INTO v_fields
      FROM unnest(p_ends) WITH ORDINALITY e(which, ordinality)
     CROSS JOIN jsonb_array_elements(v_described -> 'types' -> (e.which ->> 'type') -> 'job_options') WITH ORDINALITY f
     WHERE (e.which ->> 'foreign')::boolean;
    SELECT string_agg(t.title, ' or ' ORDER BY t.place) INTO v_titles
      FROM (SELECT v_described -> 'types' -> (e.which ->> 'type') ->> 'title' AS title, min(e.ordinality) AS place
              FROM unnest(p_ends) WITH ORDINALITY e(which, ordinality) WHERE (e.which ->> 'foreign')::boolean GROUP BY 1) t;
    IF p_given ? '*' AND jsonb_typeof(p_given -> '*') = 'null' THEN
        v_result := '{}';
    END IF;
    FOR v_option IN SELECT o.key, o.value FROM jsonb_each(p_given) o WHERE NOT (o.key = '*' AND jsonb_typeof(o.value) = 'null') LOOP
        v_field := @adm@._field(v_fields, v_option.key);
        IF v_field IS NULL THEN
            PERFORM @adm@._refuse(32840, format('job %s: option %s is unknown', p_job.name, @adm@._repr(v_option.key)),
                CASE WHEN v_titles IS NULL THEN 'jobs have no such option' ELSE format('jobs on a %s link have no such option', v_titles) END,
                'use one of ' || @adm@._names(v_fields));
        ELSIF jsonb_typeof(v_option.value) = 'null' THEN
            v_result := v_result - lower(v_field ->> 'name');
        ELSE
            v_result := v_result || jsonb_build_object(lower(v_field ->> 'name'),
                @adm@._stored(v_field, @adm@._value(v_field, v_option.value, 'job ' || p_job.name, 32841)));
        END IF;
    END LOOP;
    IF (v_result ->> 'max_batch_size')::bigint < (v_result ->> 'msgbatchsize')::bigint THEN
        PERFORM @adm@._refuse(32841, format('job %s: max_batch_size cannot be %s', p_job.name, v_result ->> 'max_batch_size'),
            format('MsgBatchSize is %s, and batches grow from there to max_batch_size', v_result ->> 'msgbatchsize'),
            format('set max_batch_size to at least %s, or lower MsgBatchSize', v_result ->> 'msgbatchsize'));
    END IF;
    IF p_job.id IS NOT NULL THEN
        FOR v_field IN SELECT f.value FROM jsonb_array_elements(v_fields) f WHERE NOT (f.value ->> 'alterable')::boolean LOOP
            IF (v_result ->> lower(v_field ->> 'name')) IS DISTINCT FROM (v_before ->> lower(v_field ->> 'name')) THEN
                PERFORM @adm@._refuse(32842, format('job %s: option %s cannot be altered', p_job.name, v_field ->> 'name'),
                    'it is fixed when the job is created', 'remove the job and create it again');
            END IF;
        END LOOP;
    END IF;
    RETURN v_result;
END $$;

CREATE OR REPLACE FUNCTION @adm@._poll_interval(p_job text, p_seconds double precision) RETURNS void LANGUAGE plpgsql AS $$
DECLARE
    v_field jsonb := @adm@._described() -> 'poll_interval';
BEGIN
    IF NOT p_seconds BETWEEN (v_field ->> 'minimum')::double precision AND (v_field ->> 'maximum')::double precision THEN
        PERFORM @adm@._refuse(32843, format('job %s: poll_interval cannot be %s', p_job, p_seconds),
            format('it is %s to %s seconds', v_field ->> 'smallest', v_field ->> 'largest'), 'choose a value in that range');
    END IF;
END $$;

CREATE OR REPLACE FUNCTION @adm@._guarantee(p_job text, p_given text) RETURNS text LANGUAGE plpgsql AS $$
DECLARE
    v_known jsonb := @adm@._described() -> 'guarantees';
BEGIN
    IF p_given IS NOT NULL AND NOT v_known ? lower(p_given) THEN
        PERFORM @adm@._refuse(32802, format('job %s: guarantee %s is unknown', p_job, @adm@._repr(p_given)),
            'it is one of ' || (SELECT string_agg(g.value, ', ') FROM jsonb_array_elements_text(v_known) g),
            'correct it, or leave it out');
    END IF;
    RETURN lower(p_given);
END $$;

-- ----------------------------------------------------------------------------------------- what must be true of a job

CREATE OR REPLACE FUNCTION @adm@._bad_exception_queue(p_job gw_job, p_number integer, p_cause text, p_cure text) RETURNS void
LANGUAGE plpgsql AS $$
BEGIN
    PERFORM @adm@._refuse(p_number, format('job %s: exception queue %s cannot be used', p_job.name, p_job.exception_queue), p_cause, p_cure);
END $$;

CREATE OR REPLACE FUNCTION @adm@._check_exception_queue(p_job gw_job, p_source jsonb, p_destination jsonb) RETURNS void
LANGUAGE plpgsql AS $$
DECLARE
    v_unrouted text := coalesce(p_job.options::jsonb ->> 'unrouted', 'discard');
    v_name text := p_job.exception_queue;
    v_foreign boolean := (p_source ->> 'foreign')::boolean;
    v_queue jsonb;
    v_needed integer;
    v_limit integer := (p_source ->> 'max_connections')::integer;
BEGIN
    IF v_name IS NULL THEN
        IF v_unrouted = 'exception_queue' THEN
            PERFORM @adm@._refuse(32801, format('job %s cannot have unrouted=%s', p_job.name, v_unrouted),
                'it has no exception queue', 'give it one (--exception-queue), or choose another value');
        END IF;
        RETURN;
    ELSIF (v_name ~ '^.+@[^@]+$') <> v_foreign THEN
        PERFORM @adm@._bad_exception_queue(p_job, 32820, 'it is on the side of the source, here '
            || CASE WHEN v_foreign THEN 'a registered queue of link ' || (p_source ->> 'link') ELSE 'a queue of the hub' END,
            'name such a queue');
    ELSIF v_foreign THEN
        v_queue := @adm@._foreign(v_name);
        IF v_queue ->> 'link_key' <> p_source ->> 'link_key' THEN
            PERFORM @adm@._bad_exception_queue(p_job, 32820, format('it is on link %s, the source on link %s', v_queue ->> 'link', p_source ->> 'link'),
                'register a queue of the source''s link');
        END IF;
        PERFORM @adm@._endpoint(v_queue, 'OUTBOUND', 'job ' || p_job.name || ': ', 32801);
        v_needed := 2 + CASE WHEN p_destination ->> 'link_key' = p_source ->> 'link_key' THEN 1 ELSE 0 END;
        IF v_limit < v_needed THEN
            PERFORM @adm@._bad_exception_queue(p_job, 32801,
                format('the job needs %s connection for it, and link %s may hold %s (max_connections)',
                    CASE v_needed WHEN 2 THEN 'a second' ELSE 'another' END, v_queue ->> 'link',
                    CASE v_needed WHEN 2 THEN 'one' ELSE v_limit::text END),
                format('raise max_connections of the link to %s or more', v_needed));
        END IF;
    ELSE
        v_queue := @adm@._hub_queue(p_job.name, v_name);
        IF v_queue ->> 'payload' <> p_source ->> 'payload' THEN
            PERFORM @adm@._bad_exception_queue(p_job, 32821, format('it holds %s, the source holds %s', v_queue ->> 'payload', p_source ->> 'payload'),
                'use a queue of the same payload type');
        ELSIF (p_source ->> 'jms')::boolean AND NOT (v_queue ->> 'jms')::boolean THEN
            PERFORM @adm@._bad_exception_queue(p_job, 32821,
                format('queue table %s does not accept JMS and XML types, that of the source does', v_queue ->> 'table'),
                format('enable_jms_types for queue table %s', v_queue ->> 'table'));
        END IF;
    END IF;
    IF v_queue ->> 'key' = p_source ->> 'key' OR (v_foreign AND v_queue ->> 'provider' = p_source ->> 'provider') THEN
        PERFORM @adm@._bad_exception_queue(p_job, 32801, 'it is the source: the message would be read again forever', 'use another queue');
    END IF;
END $$;

-- What create_job and alter_job check alike. p_old: what a job was.
CREATE OR REPLACE FUNCTION @adm@._check_job(p_job gw_job, p_source jsonb, p_destination jsonb, p_old gw_job) RETURNS void
LANGUAGE plpgsql AS $$
DECLARE
    v_key text := coalesce(p_job.options::jsonb ->> 'park_key', '');
    v_before text := coalesce(p_old.options::jsonb ->> 'park_key', '');
BEGIN
    IF NOT (p_source ->> 'foreign')::boolean AND p_job.options::jsonb ->> 'jms_nolocal' = 'TRUE' THEN
        PERFORM @adm@._refuse(32841, format('job %s cannot have JMS_NoLocal', p_job.name),
            format('it reads %s, a queue of the hub, where nothing is published over a link', p_job.source),
            'leave the option out, or use a rule on a queue with subscribers');
    END IF;
    PERFORM @adm@._check_at_end(p_job, p_source, 'jms_nolocal', 'JMS_NoLocal');
    PERFORM @adm@._check_at_end(p_job, p_destination, 'preservemessageid', 'PreserveMessageID');
    IF p_job.rule IS NOT NULL THEN
        IF NOT (p_source ->> 'foreign')::boolean AND NOT (p_source ->> 'topic')::boolean THEN
            PERFORM @adm@._refuse(32801, format('job %s cannot have a rule', p_job.name),
                format('source %s is a single-consumer queue: every message in it is moved', p_job.source),
                'leave the rule out, or use a multi-consumer queue');
        ELSIF p_job.rule IS DISTINCT FROM p_old.rule THEN
            PERFORM @adm@._refuse_python(format('job %s: its rule cannot be stored from SQL', p_job.name),
                'rules are compiled in Python, and the database cannot check them',
                CASE WHEN p_job.id IS NULL THEN format('mgw jobs create %s ... --rule RULE', p_job.name)
                     ELSE format('mgw jobs alter %s --rule RULE', p_job.name) END);
        END IF;
    END IF;
    IF v_key <> '' THEN
        IF p_old.id IS NOT NULL AND v_key <> v_before AND EXISTS (SELECT FROM gw_parked p WHERE p.job_id = p_job.id) THEN
            PERFORM @adm@._refuse(32801, format('job %s cannot get another park_key', p_job.name),
                format('messages are parked by %s, and others may not find the key they have to wait for',
                    @adm@._repr(nullif(v_before, ''))),
                format('see mgw exceptions parked %s; or remove the option first, which gives the messages back', p_job.name));
        ELSIF p_job.propagation_type <> 'OUTBOUND' THEN
            PERFORM @adm@._refuse(32801, format('job %s cannot have park_key', p_job.name),
                format('it is %s, and parked messages wait in a queue of the hub that the job reads', p_job.propagation_type),
                'leave the option out; or carry the messages into a queue of the hub first, and park on the way out');
        ELSIF v_key <> v_before AND lower(btrim(v_key)) NOT IN ('correlation', 'partition_key') THEN
            PERFORM @adm@._refuse_python(format('job %s: its park_key cannot be stored from SQL', p_job.name),
                'it is an expression, expressions are compiled in Python, and the database cannot check them',
                format('mgw jobs alter %s --option park_key=EXPRESSION', p_job.name));
        END IF;
    END IF;
    IF p_job.transformation IS NOT NULL AND NOT EXISTS (
           SELECT FROM aq_transformation x WHERE x.name_key = @aq@._key(p_job.transformation, 'MGW')) THEN
        PERFORM @adm@._refuse(32801, format('job %s: transformation %s does not exist', p_job.name, p_job.transformation),
            'the transformations are: ' || coalesce((SELECT string_agg(@aq@._shown(x.schema, x.name), ', ' ORDER BY x.name_key)
                                                       FROM aq_transformation x), 'none'),
            'create it first, or correct the name');
    END IF;
    PERFORM @adm@._check_exception_queue(p_job, p_source, p_destination);
END $$;

-- An option of a job that the link of one of its ends cannot follow.
CREATE OR REPLACE FUNCTION @adm@._check_at_end(p_job gw_job, p_end jsonb, p_option text, p_shown text) RETURNS void
LANGUAGE plpgsql AS $$
BEGIN
    IF p_end ->> 'type' = 'MQTT' AND coalesce((p_end #>> '{attributes,protocol_version}')::integer, 5) < 5
       AND coalesce(p_end #>> '{options,MQTT_Envelope}', '') <> 'JSON' AND p_job.options::jsonb ->> p_option = 'TRUE' THEN
        PERFORM @adm@._refuse(32841, format('job %s: foreign queue %s (%s) cannot be used', p_job.name, p_end ->> 'full', @adm@._repr(p_end ->> 'provider')),
            format('MQTT 3.1.1 carries no message ids, which the job option needs (%s)', p_shown),
            'set protocol_version of the link to 5, register the queue with MQTT_Envelope = JSON, or leave out the option');
    END IF;
END $$;

-- ------------------------------------------------------------------------------------------- the subscription of a job

-- What is enqueued from now on waits for the job, whether it runs or not. There is no rule.
CREATE OR REPLACE FUNCTION @adm@._subscribe(p_job text, p_queue bigint, p_shown text) RETURNS void LANGUAGE plpgsql AS $$
DECLARE
    v_name text := 'MGW_' || p_job;
    v_now double precision := @adm@._now();
    v_consumer aq_consumer;
    v_number bigint;
    v_left_out bigint;
    v_limit record;
BEGIN
    SELECT * INTO v_consumer FROM aq_consumer c
     WHERE c.queue_id = p_queue AND c.name_key = @aq@._upper(v_name) AND c.address = '' AND c.protocol = 0;
    IF v_consumer.is_subscriber = 1 THEN
        PERFORM @adm@._refuse(24034, format('job %s: subscriber %s of queue %s already exists', p_job, v_name, p_shown),
            'somebody else created it', format('remove subscriber %s, or give the job another name', v_name));
    ELSIF v_consumer.id IS NOT NULL THEN
        WITH free AS MATERIALIZED (
                 SELECT e.message_id FROM aq_entry e WHERE e.consumer_id = v_consumer.id AND e.message_id <= v_consumer.removed_upto
                    AND e.state IN (@READY@, @WAITING@, @UNDELIVERABLE@) FOR UPDATE SKIP LOCKED),
             gone AS (DELETE FROM aq_entry e USING free
                       WHERE e.consumer_id = v_consumer.id AND e.message_id = free.message_id RETURNING e.message_id)
        INSERT INTO aq_dequeue_log (message_id) SELECT g.message_id FROM gone g;
        SELECT sum(a.left_out) INTO v_left_out FROM aq_activity a WHERE a.kind = 'CONSUMER' AND a.object_id = v_consumer.id;
        IF v_left_out <> 0 THEN  -- what its rule refuses is counted from zero
            INSERT INTO aq_activity AS a
            SELECT r.* FROM jsonb_populate_record(NULL::aq_activity,
                       (SELECT jsonb_object_agg(t.attname, 0) FROM pg_attribute t WHERE t.attrelid = 'aq_activity'::regclass
                           AND t.attnotnull AND t.attnum > 0 AND NOT t.attisdropped)
                       || jsonb_build_object('kind', 'CONSUMER', 'object_id', v_consumer.id, 'name', '', 'address', '',
                                             'first_time', v_now, 'left_out', -v_left_out)) r
                ON CONFLICT (process_id, kind, object_id, name, address, protocol)
                DO UPDATE SET left_out = a.left_out + excluded.left_out;
        END IF;
    END IF;
    FOR v_limit IN SELECT * FROM (VALUES (1024, ''), (1000, 'local ')) l(most, kind) LOOP
        SELECT count(*) INTO v_number FROM aq_consumer c
         WHERE c.queue_id = p_queue AND c.is_subscriber = 1 AND (v_limit.kind = '' OR c.address = '');
        IF v_number >= v_limit.most THEN
            PERFORM @adm@._refuse(24067, format('job %s: queue %s has %s %ssubscribers', p_job, p_shown, v_number, v_limit.kind),
                format('at most %s are allowed', v_limit.most), 'remove subscribers that are no longer used');
        END IF;
    END LOOP;
    INSERT INTO aq_agent (name_key, name, enable_http, enable_anyp, automatic, created)
    VALUES (@aq@._upper(v_name), v_name, 0, 0, 1, v_now) ON CONFLICT DO NOTHING;
    INSERT INTO aq_consumer AS c (queue_id, name, name_key, address, protocol, is_subscriber, rule, rule_sql, transformation,
                                  delivery_mode, queue_to_queue, options, created)
    VALUES (p_queue, v_name, @aq@._upper(v_name), '', 0, 1, NULL, NULL, NULL, 'PERSISTENT', 0, '{}', v_now)
    ON CONFLICT (queue_id, name_key, address, protocol) DO UPDATE SET name = excluded.name, is_subscriber = 1, rule = NULL,
        rule_sql = NULL, transformation = NULL, delivery_mode = 'PERSISTENT', queue_to_queue = 0, options = '{}';
END $$;

CREATE OR REPLACE FUNCTION @adm@._held(p_messages bigint, p_oldest double precision) RETURNS text LANGUAGE sql AS $$
    SELECT format('%s message%s', p_messages, CASE p_messages WHEN 1 THEN '' ELSE 's' END)
        || CASE WHEN p_oldest IS NULL THEN '' ELSE format(', the oldest is %s s old', round(greatest(0, @adm@._now() - p_oldest))) END
$$;

-- The subscription of a job ends with its backlog; how many messages waited, and since when.
CREATE OR REPLACE FUNCTION @adm@._unsubscribe(
    p_job text, p_queue jsonb, p_force boolean, OUT messages bigint, OUT oldest double precision) LANGUAGE plpgsql AS $$
DECLARE
    v_consumer bigint;
    v_queue bigint := (p_queue ->> 'id')::bigint;
    v_until timestamptz := clock_timestamp() + interval '5 seconds';
BEGIN
    messages := 0;
    SELECT c.id INTO v_consumer FROM aq_consumer c WHERE c.queue_id = v_queue AND c.is_subscriber = 1
       AND c.name_key = @aq@._upper('MGW_' || p_job) AND c.address = '' AND c.protocol = 0;
    IF NOT FOUND THEN
        RETURN;
    END IF;
    WHILE NOT p_force AND NOT (SELECT pg_try_advisory_xact_lock(q.tableoid::integer, (q.id % 2147483647)::integer)
                                 FROM aq_queue q WHERE q.id = v_queue) LOOP
        IF clock_timestamp() > v_until THEN
            PERFORM @adm@._refuse(24018, format('job %s cannot be removed: the messages of queue %s cannot be counted now', p_job, p_queue ->> 'full'),
                'transactions work on it', 'try again when they have ended');
        END IF;
        PERFORM pg_sleep(0.02);
    END LOOP;
    SELECT count(*), min(m.enq_time) INTO messages, oldest FROM aq_entry e JOIN aq_message m ON m.id = e.message_id
     WHERE e.consumer_id = v_consumer AND e.state IN (@READY@, @WAITING@, @UNDELIVERABLE@, @CLAIMED@);
    IF messages > 0 AND NOT p_force THEN
        PERFORM @adm@._refuse(32801, format('job %s cannot be removed', p_job),
            format('its subscription to queue %s holds %s; they would be deleted with it', p_queue ->> 'full', @adm@._held(messages, oldest)),
            'let the job carry them, move them to another queue (--move-to QUEUE, in Python move_to), or delete '
            'them with it (--force, in Python force)');
    END IF;
    UPDATE aq_consumer c SET is_subscriber = 0, rule = NULL, rule_sql = NULL, transformation = NULL,
           removed_upto = (SELECT s.last_value FROM aq_message_id s) WHERE c.id = v_consumer;
    WITH free AS MATERIALIZED (
             SELECT e.message_id FROM aq_entry e WHERE e.consumer_id = v_consumer
                AND e.state IN (@READY@, @WAITING@, @UNDELIVERABLE@) FOR UPDATE SKIP LOCKED),
         gone AS (DELETE FROM aq_entry e USING free
                   WHERE e.consumer_id = v_consumer AND e.message_id = free.message_id RETURNING e.message_id)
    INSERT INTO aq_dequeue_log (message_id) SELECT g.message_id FROM gone g;
END $$;

-- ------------------------------------------------------------------------------------------------------- procedures

CREATE OR REPLACE FUNCTION @adm@._job(p_name text) RETURNS gw_job LANGUAGE plpgsql AS $$
DECLARE
    v_job gw_job;
BEGIN
    SELECT * INTO v_job FROM gw_job j WHERE j.name_key = @aq@._upper(p_name) AND j.schedule IS NOT NULL;
    IF v_job.old_style = 1 THEN
        PERFORM @adm@._refuse_python(format('job %s cannot be changed from SQL', v_job.name),
            'it is a subscriber with a schedule (ADD_SUBSCRIBER, SCHEDULE_PROPAGATION)', 'mgw jobs');
    ELSIF EXISTS (SELECT FROM gw_job j WHERE j.name_key = @aq@._upper(p_name) AND j.schedule IS NULL) THEN
        PERFORM @adm@._refuse(32855, format('job %s does not exist', p_name),
            'subscriber and schedule together are a job, and the subscriber of that name has no schedule',
            'give it a schedule (mgw schedules create), or use mgw subscribers');
    ELSIF v_job.id IS NULL THEN
        PERFORM @adm@._refuse(32855, format('job %s does not exist', p_name), 'no job has that name',
            'mgw jobs list shows the names (view MGW_JOBS)');
    END IF;
    RETURN v_job;
END $$;

CREATE OR REPLACE FUNCTION @adm@._usable(p_name text) RETURNS gw_job LANGUAGE plpgsql AS $$
DECLARE
    v_job gw_job := @adm@._job(p_name);
    v_status text := (SELECT s.status FROM gw_job_state s WHERE s.job_id = v_job.id);
BEGIN
    IF v_status IN @leaving@ THEN
        PERFORM @adm@._refuse(32822, format('job %s is marked for removal', v_job.name),
            format('%s was called and its cleanup is not complete', CASE v_status WHEN 'DELETE_PENDING' THEN 'remove_job' ELSE 'remove_subscriber' END),
            format('start the agent, which completes it, or: mgw jobs remove %s --force', v_job.name));
    END IF;
    RETURN v_job;
END $$;

CREATE OR REPLACE FUNCTION @adm@._create_job(
    p_name text, p_type text, p_source text, p_destination text, p_rule text, p_transformation text, p_exception_queue text,
    p_poll_interval double precision, p_options jsonb, p_enabled boolean, p_comments text, p_guarantee text)
RETURNS void LANGUAGE plpgsql AS $$
DECLARE
    v_job gw_job;
    v_none gw_job;
    v_ends record;
    v_link jsonb;
    v_other record;
    v_schedule text;
    v_taken text;
BEGIN
    PERFORM @adm@._identifier('job', p_name);
    IF octet_length(p_name) > 124 THEN
        PERFORM @adm@._refuse(32805, format('job name %s... has %s bytes', @adm@._repr(left(p_name, 40)), octet_length(p_name)),
            'its subscriber MGW_<job> holds at most 124 of them', 'choose a shorter name');
    END IF;
    v_job.propagation_type := regexp_replace(upper(p_type), '_PROPAGATION$', '');
    IF v_job.propagation_type IS NULL OR v_job.propagation_type NOT IN ('INBOUND', 'OUTBOUND', 'THROUGH', 'LOCAL') THEN
        PERFORM @adm@._refuse(32802, format('job %s: propagation type %s is unknown', p_name, @adm@._repr(p_type)),
            'it is INBOUND, OUTBOUND, THROUGH or LOCAL', 'correct it');
    END IF;
    PERFORM @adm@._poll_interval(p_name, p_poll_interval);
    v_job.require_guarantee := @adm@._guarantee(p_name, p_guarantee);
    PERFORM @adm@._text('comment of job ' || p_name, p_comments);
    v_job.name := p_name;
    v_job.source := p_source;
    v_job.destination := p_destination;
    v_job.rule := nullif(p_rule, '');
    v_job.transformation := nullif(p_transformation, '');
    v_job.exception_queue := nullif(p_exception_queue, '');
    -- The name of a job is that of its subscriber and of its schedule.
    SELECT t.cause INTO v_taken
      FROM (SELECT CASE WHEN j.schedule IS NULL THEN 'a subscriber has that name' ELSE 'a job has that name' END AS cause, 1 AS place
              FROM gw_job j WHERE j.name_key = @aq@._upper(p_name)
            UNION ALL SELECT 'a schedule has that name', 2 FROM gw_schedule s WHERE s.name_key = @aq@._upper(p_name)
            UNION ALL SELECT 'a schedule has that name', 2 FROM gw_job j WHERE j.schedule_key = @aq@._upper(p_name)) t
     ORDER BY t.place LIMIT 1;
    IF FOUND THEN
        PERFORM @adm@._refuse(32854, format('job %s already exists', p_name), v_taken, 'alter it, or choose another name');
    END IF;
    v_ends := @adm@._ends(v_job);
    v_link := CASE WHEN (v_ends.source ->> 'foreign')::boolean THEN v_ends.source
                   WHEN (v_ends.destination ->> 'foreign')::boolean THEN v_ends.destination END;
    v_job.options := @adm@._compact(@adm@._job_options(v_job, ARRAY[v_ends.source, v_ends.destination], @adm@._mapping('options of job ' || p_name, p_options)));
    FOR v_other IN SELECT j.name, j.destination_key FROM gw_job j WHERE j.source_key = v_ends.source ->> 'key' ORDER BY j.name_key LOOP
        IF NOT (v_ends.source ->> 'topic')::boolean THEN
            PERFORM @adm@._refuse(32823, format('job %s: source %s is taken', p_name, p_source),
                format('job %s reads it, and only one job may read from a queue', v_other.name),
                format('remove job %s, or read from a topic or multi-consumer queue', v_other.name));
        ELSIF v_other.destination_key = v_ends.destination ->> 'key' THEN
            PERFORM @adm@._refuse(32823, format('job %s: %s is already carried to %s', p_name, p_source, p_destination),
                format('job %s has the same propagation type, source and destination', v_other.name),
                format('alter job %s, or remove it first', v_other.name));
        END IF;
    END LOOP;
    IF v_ends.source ->> 'link_key' = v_ends.destination ->> 'link_key' AND (v_ends.source ->> 'max_connections')::integer < 2 THEN
        PERFORM @adm@._refuse(32801, format('job %s: link %s may not hold enough connections', p_name, v_ends.source ->> 'link'),
            format('the job reads from it and writes to it, which takes 2, and max_connections is %s', v_ends.source ->> 'max_connections'),
            'raise max_connections of the link to 2 or more');
    END IF;
    PERFORM @adm@._check_job(v_job, v_ends.source, v_ends.destination, v_none);
    SELECT s.name INTO v_schedule FROM gw_schedule s WHERE s.propagation_type = v_job.propagation_type
       AND s.source_key = v_ends.source ->> 'key' AND s.destination_key = v_ends.destination ->> 'key';
    IF FOUND THEN
        PERFORM @adm@._refuse(32824, format('job %s: %s is already scheduled to %s', p_name, p_source, p_destination),
            format('schedule %s has the same propagation type, source and destination', v_schedule),
            format('remove the schedule (mgw schedules remove %s), or add its subscriber (mgw subscribers create)', v_schedule));
    END IF;
    INSERT INTO gw_job (name_key, name, agent_key, link_key, propagation_type, source, destination, source_key, destination_key,
                        prop_style, created, rule, transformation, exception_queue, poll_interval, options, require_guarantee,
                        enabled, comments, schedule, schedule_key)
    VALUES (@aq@._upper(p_name), p_name, coalesce(v_link ->> 'agent_key', 'DEFAULT_AGENT'), v_link ->> 'link_key',
            v_job.propagation_type, p_source, p_destination, v_ends.source ->> 'key', v_ends.destination ->> 'key', 'NATIVE',
            @adm@._now(), v_job.rule, v_job.transformation, v_job.exception_queue, p_poll_interval, v_job.options,
            v_job.require_guarantee, coalesce(p_enabled, false), p_comments, p_name, @aq@._upper(p_name))
    RETURNING id INTO v_job.id;
    INSERT INTO gw_job_state (job_id, status) VALUES (v_job.id, 'READY');
    IF NOT (v_ends.source ->> 'foreign')::boolean AND (v_ends.source ->> 'topic')::boolean THEN
        PERFORM @adm@._subscribe(p_name, (v_ends.source ->> 'id')::bigint, v_ends.source ->> 'full');
    END IF;
END $$;

-- A job with the texts that an alter procedure was given for it, or for its subscriber; NO_CHANGE keeps one.
CREATE OR REPLACE FUNCTION @adm@._with_texts(p_job gw_job, p_rule text, p_transformation text, p_exception_queue text) RETURNS gw_job
LANGUAGE plpgsql AS $$
BEGIN
    IF p_rule IS DISTINCT FROM 'NO_CHANGE' THEN p_job.rule := nullif(p_rule, ''); END IF;
    IF p_transformation IS DISTINCT FROM 'NO_CHANGE' THEN p_job.transformation := nullif(p_transformation, ''); END IF;
    IF p_exception_queue IS DISTINCT FROM 'NO_CHANGE' THEN p_job.exception_queue := nullif(p_exception_queue, ''); END IF;
    RETURN p_job;
END $$;

-- A job whose rule was taken away gets everything from its queue of the hub.
CREATE OR REPLACE FUNCTION @adm@._forget_rule(p_old gw_job, p_new gw_job, p_source jsonb) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    IF p_old.rule IS NOT NULL AND p_new.rule IS NULL AND NOT (p_source ->> 'foreign')::boolean THEN
        UPDATE aq_consumer c SET rule = NULL, rule_sql = NULL, transformation = NULL
         WHERE c.queue_id = (p_source ->> 'id')::bigint AND c.name_key = @aq@._upper('MGW_' || p_new.name)
           AND c.address = '' AND c.protocol = 0 AND c.is_subscriber = 1;
    END IF;
END $$;

-- No failures, tried again at once.
CREATE OR REPLACE FUNCTION @adm@._ready_again(p_job bigint) RETURNS void LANGUAGE sql AS $$
    UPDATE gw_job_state s SET status = 'READY', failures = 0, next_attempt = NULL, resets = s.resets + 1 WHERE s.job_id = p_job
$$;

-- Whether a job or subscriber had lost its subscription to its queue of the hub, and has it again: from now on it collects, and
-- the job is tried again. An event says what it means.
CREATE OR REPLACE FUNCTION @adm@._subscribed_again(p_job gw_job, p_kind text) RETURNS boolean LANGUAGE plpgsql AS $$
DECLARE
    v_queue jsonb;
BEGIN
    IF p_job.propagation_type NOT IN ('INBOUND', 'THROUGH') THEN
        v_queue := @adm@._queue(p_job.source);
    END IF;
    IF NOT coalesce((v_queue ->> 'topic')::boolean, false) OR EXISTS (
        SELECT FROM aq_consumer c WHERE c.queue_id = (v_queue ->> 'id')::bigint AND c.is_subscriber = 1
           AND c.name_key = @aq@._upper('MGW_' || p_job.name)) THEN
        RETURN false;
    ELSIF p_job.rule IS NOT NULL THEN
        PERFORM @adm@._refuse_python(format('%s %s cannot be subscribed again from SQL', p_kind, p_job.name),
            format('its subscription to queue %s is gone, and its rule is compiled in Python', v_queue ->> 'full'),
            format('mgw %ss reset %s', p_kind, p_job.name));
    END IF;
    PERFORM @adm@._subscribe(p_job.name, (v_queue ->> 'id')::bigint, v_queue ->> 'full');
    PERFORM @adm@._ready_again(p_job.id);
    INSERT INTO gw_event (time, level, name, agent, object, text)
    VALUES (@adm@._now(), 'WARNING', 'SubscribedAgain', (SELECT a.name FROM gw_agent a WHERE a.name_key = p_job.agent_key), p_job.name,
            format('job %s is subscribed to queue %s again as MGW_%s: that subscription was gone; the job does not get messages '
                'that were enqueued meanwhile, or went with the queue', p_job.name, v_queue ->> 'full', p_job.name));
    RETURN true;
END $$;

CREATE OR REPLACE FUNCTION @adm@._alter_job(
    p_name text, p_rule text, p_transformation text, p_exception_queue text, p_poll_interval double precision, p_options jsonb,
    p_comments text, p_guarantee text)
RETURNS void LANGUAGE plpgsql AS $$
DECLARE
    v_old gw_job;
    v_job gw_job;
    v_ends record;
BEGIN
    PERFORM @adm@._text('comment of job ' || p_name, p_comments);
    IF p_poll_interval <> 0 THEN
        PERFORM @adm@._poll_interval(p_name, p_poll_interval);
    END IF;
    IF p_guarantee <> 'NO_CHANGE' THEN
        PERFORM @adm@._guarantee(p_name, p_guarantee);
    END IF;
    v_old := @adm@._usable(p_name);
    v_job := @adm@._with_texts(v_old, p_rule, p_transformation, p_exception_queue);
    IF p_comments IS DISTINCT FROM 'NO_CHANGE' THEN v_job.comments := p_comments; END IF;
    IF p_guarantee IS DISTINCT FROM 'NO_CHANGE' THEN v_job.require_guarantee := lower(p_guarantee); END IF;
    IF p_poll_interval IS DISTINCT FROM 0 THEN v_job.poll_interval := p_poll_interval; END IF;
    v_ends := @adm@._ends(v_job);
    v_job.options := @adm@._compact(@adm@._job_options(v_job, ARRAY[v_ends.source, v_ends.destination], @adm@._mapping('options of job ' || p_name, p_options)));
    PERFORM @adm@._check_job(v_job, v_ends.source, v_ends.destination, v_old);
    PERFORM @adm@._check_outbound(v_old, v_job);
    UPDATE gw_job j SET rule = v_job.rule, transformation = v_job.transformation, exception_queue = v_job.exception_queue,
           poll_interval = v_job.poll_interval, options = v_job.options, require_guarantee = v_job.require_guarantee,
           comments = v_job.comments WHERE j.id = v_job.id;
    IF NOT @adm@._subscribed_again(v_job, 'job') THEN
        PERFORM @adm@._forget_rule(v_old, v_job, v_ends.source);
    END IF;
END $$;

CREATE OR REPLACE FUNCTION @adm@._set_enabled(p_name text, p_enabled boolean) RETURNS void LANGUAGE plpgsql AS $$
DECLARE
    v_job gw_job := @adm@._usable(p_name);
BEGIN
    IF v_job.enabled <> p_enabled THEN
        UPDATE gw_job_state s SET not_working_since = NULL WHERE s.job_id = v_job.id;
        UPDATE gw_job j SET enabled = p_enabled WHERE j.id = v_job.id;
    END IF;
    IF p_enabled THEN
        PERFORM @adm@._subscribed_again(v_job, 'job');
    END IF;
END $$;

CREATE OR REPLACE FUNCTION @adm@._enable_job(p_name text) RETURNS void LANGUAGE sql AS $$ SELECT @adm@._set_enabled(p_name, true) $$;

CREATE OR REPLACE FUNCTION @adm@._disable_job(p_name text) RETURNS void LANGUAGE sql AS $$ SELECT @adm@._set_enabled(p_name, false) $$;

CREATE OR REPLACE FUNCTION @adm@._reset_job(p_name text) RETURNS void LANGUAGE plpgsql AS $$
DECLARE
    v_job gw_job := @adm@._usable(p_name);
BEGIN
    IF NOT @adm@._subscribed_again(v_job, 'job') THEN
        PERFORM @adm@._ready_again(v_job.id);
    END IF;
END $$;

-- Whether a process holds the lease of an agent.
CREATE OR REPLACE FUNCTION @adm@._alive(p_agent gw_agent) RETURNS boolean LANGUAGE sql AS $$
    SELECT coalesce((p_agent).lease_expires > @adm@._now(), false)
$$;

-- The audit and an event of a removal, with what became of messages. p_kind: job, or the subscriber alone. p_asked: it is
-- the removal itself, not its end.
CREATE OR REPLACE FUNCTION @adm@._record_removal(
    p_kind text, p_job gw_job, p_queue jsonb, p_messages bigint, p_oldest double precision, p_asked boolean)
RETURNS void LANGUAGE plpgsql AS $$
DECLARE
    v_object text := format('%s, which reads %s', p_job.name, coalesce(p_queue ->> 'full', p_job.source));
BEGIN
    INSERT INTO aq_audit (time, actor, through, action, object, kind, before_change, version, messages, oldest)
    VALUES (@adm@._now(), session_user, 'sql', 'remove ' || p_kind, v_object, CASE WHEN p_asked THEN p_kind END,
            CASE WHEN p_asked THEN @adm@._seen(p_kind, p_job.name)::text END,
            CASE WHEN p_asked THEN (SELECT c.version + 1 FROM gw_change c WHERE c.id = 1) END, p_messages, p_oldest);
    INSERT INTO gw_event (time, level, name, object, text)
    VALUES (@adm@._now(), CASE WHEN p_messages > 0 THEN 'WARNING' ELSE 'INFO' END, 'Removal', v_object,
            format('remove %s %s, by %s: %s', p_kind, v_object, session_user,
                CASE WHEN p_messages = 0 THEN 'no message was in it' ELSE @adm@._held(p_messages, p_oldest) || '; deleted with it' END));
END $$;

-- Whether a job that reads it leaves a subscription in the messaging system; nobody knows it of types of other packages.
CREATE OR REPLACE FUNCTION @adm@._subscribes(p_queue jsonb) RETURNS boolean LANGUAGE sql AS $$
    SELECT coalesce(t.described -> 'subscribes' ? CASE WHEN (p_queue ->> 'topic')::boolean THEN 'TOPIC' ELSE 'QUEUE' END, true)
      FROM (SELECT @adm@._described() -> 'types' -> (p_queue ->> 'type') AS described) t
$$;

-- Whether that subscription holds messages that the gateway can count.
CREATE OR REPLACE FUNCTION @adm@._collects(p_queue jsonb) RETURNS boolean LANGUAGE sql AS $$
    SELECT CASE WHEN t.described IS NULL THEN true ELSE (t.described ->> 'collects')::boolean AND (p_queue ->> 'topic')::boolean END
      FROM (SELECT @adm@._described() -> 'types' -> (p_queue ->> 'type') AS described) t
$$;

CREATE OR REPLACE FUNCTION @adm@._remove_job(p_name text, p_force boolean) RETURNS boolean LANGUAGE plpgsql AS $$
DECLARE
    v_job gw_job := @adm@._job(p_name);
    v_force boolean := coalesce(p_force, false);
    v_from boolean := v_job.propagation_type IN ('INBOUND', 'THROUGH');
    v_state gw_job_state;
    v_agent gw_agent;
    v_types jsonb := @adm@._described() -> 'types';
    v_foreign jsonb;
    v_queue jsonb;
    v_messages bigint := 0;
    v_oldest double precision;
BEGIN
    PERFORM @adm@._check_outbound(v_job, NULL);
    SELECT * INTO v_state FROM gw_job_state s WHERE s.job_id = v_job.id;
    IF v_from THEN
        v_foreign := @adm@._foreign(v_job.source);
    ELSE
        v_queue := @adm@._queue(v_job.source);
    END IF;
    IF v_state.status NOT IN @leaving@ AND NOT v_force AND v_from AND @adm@._collects(v_foreign) THEN
        IF v_state.backlog > 0 THEN
            PERFORM @adm@._refuse(32801, format('job %s cannot be removed', v_job.name),
                format('its subscription to %s holds %s; they would be deleted with it', v_job.source, @adm@._held(v_state.backlog, v_state.oldest)),
                'let the job carry them; or --drop-messages (in Python drop_messages), which deletes them; or --force (in Python force), which removes the job and leaves the subscription there');
        END IF;
        PERFORM @adm@._refuse_python(format('job %s cannot be removed from SQL', v_job.name),
            format('its subscription to %s may hold messages, and the database cannot ask the messaging system', v_job.source),
            format('mgw jobs remove %s; or force => true, which removes the job and leaves the subscription there', v_job.name));
    END IF;
    IF v_state.status NOT IN @leaving@ OR v_force THEN
        IF (v_queue ->> 'topic')::boolean THEN
            SELECT u.messages, u.oldest INTO v_messages, v_oldest FROM @adm@._unsubscribe(v_job.name, v_queue, v_force) u;
        END IF;
        PERFORM @adm@._record_removal('job', v_job, v_queue, v_messages, v_oldest, true);
    END IF;
    SELECT * INTO v_agent FROM gw_agent a WHERE a.name_key = v_job.agent_key;
    -- What is left there only the agent can remove: a subscription, records in a log queue.
    IF NOT v_force AND (@adm@._alive(v_agent) OR (v_from AND @adm@._subscribes(v_foreign)) OR EXISTS (
           SELECT FROM gw_link l
            WHERE (l.name_key = substring(v_job.source_key FROM '@([^@]+)$')
                   AND (l.inbound_log_queue IS NOT NULL OR NOT v_types ? l.type))
               OR (l.name_key = substring(v_job.destination_key FROM '@([^@]+)$')
                   AND (l.outbound_log_queue IS NOT NULL OR NOT v_types ? l.type)))) THEN
        UPDATE gw_job_state s SET status = 'DELETE_PENDING' WHERE s.job_id = v_job.id;
        RETURN false;
    END IF;
    PERFORM @adm@._delete_job(v_job, v_queue);
    RETURN true;
END $$;

-- A job goes, with a subscription that is left in the hub; the messages of its plans are READY again where they were.
CREATE OR REPLACE FUNCTION @adm@._delete_job(p_job gw_job, p_queue jsonb) RETURNS void LANGUAGE plpgsql AS $$
DECLARE
    v_numbers bigint[];
    v_left record;
BEGIN
    SELECT array_agg(('x' || encode(substring(p.message_ids FROM n.place FOR 8), 'hex'))::bit(64)::bigint) INTO v_numbers
      FROM gw_plan p CROSS JOIN LATERAL generate_series(1, octet_length(p.message_ids), 8) n(place) WHERE p.job_id = p_job.id;
    DELETE FROM gw_plan p WHERE p.job_id = p_job.id;
    IF v_numbers IS NOT NULL AND (p_queue ->> 'topic')::boolean THEN
        UPDATE aq_entry e SET state = @READY@, claim = NULL
         WHERE e.message_id = ANY (v_numbers) AND e.state = @CLAIMED@ AND e.claim IS NULL AND e.consumer_id = (
               SELECT c.id FROM aq_consumer c WHERE c.queue_id = (p_queue ->> 'id')::bigint
                  AND c.name_key = @aq@._upper('MGW_' || p_job.name) AND c.address = '' AND c.protocol = 0);
    ELSIF v_numbers IS NOT NULL THEN
        UPDATE aq_message m SET state = @READY@, claim = NULL
         WHERE m.queue_id = (p_queue ->> 'id')::bigint AND m.id = ANY (v_numbers) AND m.state = @CLAIMED@ AND m.claim IS NULL;
    END IF;
    IF v_numbers IS NOT NULL THEN
        PERFORM pg_notify(@hub_channel@, p_queue ->> 'id');
    END IF;
    IF (p_queue ->> 'topic')::boolean THEN  -- it was marked for removal by an earlier release
        SELECT u.messages, u.oldest INTO v_left FROM @adm@._unsubscribe(p_job.name, p_queue, true) u;
        IF v_left.messages > 0 THEN
            PERFORM @adm@._record_removal('job', p_job, p_queue, v_left.messages, v_left.oldest, false);
        END IF;
    END IF;
    DELETE FROM gw_position p WHERE p.job_id = p_job.id;
    DELETE FROM gw_job_state s WHERE s.job_id = p_job.id;
    DELETE FROM gw_job j WHERE j.id = p_job.id;
END $$;
