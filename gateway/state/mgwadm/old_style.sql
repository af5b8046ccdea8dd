-- ---------------------------------------------------------------------- subscribers and schedules of the old style

-- Ends a call with the refusal of what is checked for jobs, told of the subscriber or schedule that was given.
CREATE OR REPLACE FUNCTION @adm@._told_of(p_kind text, p_name text, p_state text, p_text text, p_detail text, p_hint text) RETURNS void
LANGUAGE plpgsql AS $$
DECLARE
    v_job text := 'job ' || p_name;
    v_place integer := strpos(p_text, v_job);
BEGIN
    RAISE EXCEPTION USING ERRCODE = p_state, DETAIL = p_detail, HINT = p_hint,
        MESSAGE = CASE WHEN v_place = 0 THEN p_text
                       ELSE overlay(p_text PLACING p_kind || ' ' || p_name FROM v_place FOR length(v_job)) END;
END $$;

-- An object as the audit shows it.
CREATE OR REPLACE FUNCTION @adm@._seen_old_style(p_kind text, p_key text) RETURNS jsonb LANGUAGE sql AS $$
    SELECT CASE WHEN p_kind = 'subscriber' THEN
        (SELECT jsonb_build_object('name', j.name, 'propagation_type', j.propagation_type, 'source', j.source,
                    'destination', j.destination, 'rule', j.rule, 'transformation', j.transformation,
                    'exception_queue', j.exception_queue, 'options', nullif(j.options::jsonb, '{}'))
           FROM gw_job j JOIN gw_job_state s ON s.job_id = j.id
          WHERE j.name_key = p_key AND s.status NOT IN @leaving@)
    ELSE
        (SELECT jsonb_build_object('name', c.name, 'link', l.name, 'propagation_type', c.propagation_type, 'source', c.source,
                    'destination', c.destination, 'latency', c.latency, 'enabled', c.enabled)
           FROM (SELECT x.name_key, x.name, x.link_key, x.propagation_type, x.source, x.destination, x.latency, x.enabled = 1 AS enabled
                   FROM gw_schedule x
                 UNION ALL SELECT j.schedule_key, j.schedule, j.link_key, j.propagation_type, j.source, j.destination, j.poll_interval, j.enabled
                   FROM gw_job j) c LEFT JOIN gw_link l ON l.name_key = c.link_key WHERE c.name_key = p_key)
    END
$$;

CREATE OR REPLACE FUNCTION @adm@._old_style_type(p_kind text, p_name text, p_type text) RETURNS text LANGUAGE plpgsql AS $$
DECLARE
    v_type text := regexp_replace(upper(p_type), '_PROPAGATION$', '');
BEGIN
    IF v_type IS NULL OR v_type NOT IN ('INBOUND', 'OUTBOUND') THEN
        PERFORM @adm@._refuse(32802, format('%s %s: propagation type %s cannot be used', p_kind, p_name, @adm@._repr(p_type)),
            'that of subscribers and schedules is INBOUND or OUTBOUND', 'correct it; for THROUGH and LOCAL create a job');
    END IF;
    RETURN v_type;
END $$;

-- Subscriber and schedule of a new-style job belong to it; after remove_job both go together.
CREATE OR REPLACE FUNCTION @adm@._check_old_style(p_kind text, p_name text, p_shown text, p_job gw_job) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    IF p_job.old_style = 0 AND EXISTS (SELECT FROM gw_outbound_schedule o WHERE o.job_id = p_job.id) THEN
        PERFORM @adm@._refuse(32856, format('%s %s belongs to job %s', p_kind, p_name, p_job.name),
            'a schedule of DBMS_HQADM made the job', 'use mgw outbound-schedules, or the procedures on jobs (mgw jobs)');
    ELSIF p_job.old_style = 0 THEN
        PERFORM @adm@._refuse(32856, format('%s %s belongs to job %s', p_kind, p_name, p_job.name),
            'the job was made by create_job, and only the procedures on jobs may be used for it',
            'use those: alter_job, enable_job, disable_job, reset_job, remove_job (mgw jobs)');
    ELSIF (SELECT s.status FROM gw_job_state s WHERE s.job_id = p_job.id) = 'DELETE_PENDING' THEN
        PERFORM @adm@._refuse(32822, format('%s %s is marked for removal', p_kind, p_shown),
            format('remove_job was called for its job %s and the cleanup is not complete', p_job.name),
            format('start the agent, which completes it, or: mgw jobs remove %s --force', p_job.name));
    END IF;
END $$;

CREATE OR REPLACE FUNCTION @adm@._subscriber(p_name text) RETURNS gw_job LANGUAGE plpgsql AS $$
DECLARE
    v_job gw_job;
BEGIN
    SELECT * INTO v_job FROM gw_job j WHERE j.name_key = @aq@._upper(p_name);
    IF NOT FOUND THEN
        PERFORM @adm@._refuse(32812, format('subscriber %s does not exist', p_name), 'no subscriber has that name',
            'mgw subscribers list shows the names (view MGW_SUBSCRIBERS)');
    END IF;
    PERFORM @adm@._check_old_style('subscriber', p_name, v_job.name, v_job);
    RETURN v_job;
END $$;

CREATE OR REPLACE FUNCTION @adm@._usable_subscriber(p_name text) RETURNS gw_job LANGUAGE plpgsql AS $$
DECLARE
    v_job gw_job := @adm@._subscriber(p_name);
BEGIN
    IF (SELECT s.status FROM gw_job_state s WHERE s.job_id = v_job.id) = 'SUBSCRIBER_DELETE_PENDING' THEN
        PERFORM @adm@._refuse(32822, format('subscriber %s is marked for removal', v_job.name),
            'remove_subscriber was called and its cleanup is not complete',
            format('start the agent, which completes it, or: mgw subscribers remove %s --force', v_job.name));
    END IF;
    RETURN v_job;
END $$;

CREATE OR REPLACE FUNCTION @adm@._check_shared(p_job gw_job, p_source jsonb, p_destination jsonb) RETURNS void LANGUAGE plpgsql AS $$
DECLARE
    v_other record;
BEGIN
    FOR v_other IN SELECT j.name, j.destination_key FROM gw_job j WHERE j.source_key = p_source ->> 'key' ORDER BY j.name_key LOOP
        IF NOT (p_source ->> 'topic')::boolean THEN
            PERFORM @adm@._refuse(32823, format('job %s: source %s is taken', p_job.name, p_job.source),
                format('job %s reads it, and only one job may read from a queue', v_other.name),
                format('remove job %s, or read from a topic or multi-consumer queue', v_other.name));
        ELSIF v_other.destination_key = p_destination ->> 'key' THEN
            PERFORM @adm@._refuse(32823, format('job %s: %s is already carried to %s', p_job.name, p_job.source, p_job.destination),
                format('job %s has the same propagation type, source and destination', v_other.name),
                format('alter job %s, or remove it first', v_other.name));
        END IF;
    END LOOP;
END $$;

CREATE OR REPLACE FUNCTION @adm@._add_subscriber_as_job(p_job gw_job, p_options jsonb) RETURNS void LANGUAGE plpgsql AS $$
DECLARE
    v_job gw_job := p_job;
    v_none gw_job;
    v_ends record;
    v_link jsonb;
    v_found gw_schedule;
    v_local boolean;
BEGIN
    v_ends := @adm@._ends(v_job);
    v_local := NOT (v_ends.source ->> 'foreign')::boolean;
    v_link := CASE WHEN v_local THEN v_ends.destination ELSE v_ends.source END;
    v_job.options := @adm@._compact(@adm@._job_options(v_job, ARRAY[v_ends.source, v_ends.destination],
        @adm@._mapping('options of subscriber ' || v_job.name, p_options)));
    PERFORM @adm@._check_shared(v_job, v_ends.source, v_ends.destination);
    PERFORM @adm@._check_job(v_job, v_ends.source, v_ends.destination, v_none);
    IF v_local AND NOT (v_ends.source ->> 'topic')::boolean THEN
        PERFORM @adm@._refuse(32801, format('subscriber %s: source %s cannot be used', v_job.name, v_job.source),
            'it is a single-consumer queue, which has no subscribers',
            'use a multi-consumer queue, or create a job (create_job, mgw jobs create)');
    END IF;
    DELETE FROM gw_schedule s WHERE s.propagation_type = v_job.propagation_type AND s.source_key = v_ends.source ->> 'key'
       AND s.destination_key = v_ends.destination ->> 'key' RETURNING * INTO v_found;
    INSERT INTO gw_job (name_key, name, agent_key, link_key, propagation_type, source, destination, source_key, destination_key,
                        prop_style, created, rule, transformation, exception_queue, poll_interval, options, enabled, old_style,
                        schedule, schedule_key)
    VALUES (@aq@._upper(v_job.name), v_job.name, v_link ->> 'agent_key', v_link ->> 'link_key', v_job.propagation_type,
            v_job.source, v_job.destination, v_ends.source ->> 'key', v_ends.destination ->> 'key', 'NATIVE', @adm@._now(),
            v_job.rule, v_job.transformation, v_job.exception_queue, v_found.latency, v_job.options,
            coalesce(v_found.enabled = 1, false), 1, v_found.name, v_found.name_key)
    RETURNING id INTO v_job.id;
    INSERT INTO gw_job_state (job_id, status) VALUES (v_job.id, 'READY');
    IF v_local THEN
        PERFORM @adm@._subscribe(v_job.name, (v_ends.source ->> 'id')::bigint, v_ends.source ->> 'full');
    END IF;
END $$;

CREATE OR REPLACE FUNCTION @adm@._add_subscriber(
    p_name text, p_type text, p_source text, p_destination text, p_rule text, p_transformation text, p_exception_queue text,
    p_options jsonb)
RETURNS void LANGUAGE plpgsql AS $$
DECLARE
    v_job gw_job;
    v_state text;
    v_text text;
    v_detail text;
    v_hint text;
BEGIN
    PERFORM @adm@._identifier('subscriber', p_name);
    IF octet_length(p_name) > 124 THEN
        PERFORM @adm@._refuse(32805, format('subscriber name %s... has %s bytes', @adm@._repr(left(p_name, 40)), octet_length(p_name)),
            'its subscriber MGW_<subscriber> holds at most 124 of them', 'choose a shorter name');
    END IF;
    v_job.propagation_type := @adm@._old_style_type('subscriber', p_name, p_type);
    v_job.name := p_name;
    v_job.source := p_source;
    v_job.destination := p_destination;
    v_job.rule := nullif(p_rule, '');
    v_job.transformation := nullif(p_transformation, '');
    v_job.exception_queue := nullif(p_exception_queue, '');
    IF EXISTS (SELECT FROM gw_job j WHERE j.name_key = @aq@._upper(p_name)) THEN
        PERFORM @adm@._refuse(32811, format('subscriber %s already exists', p_name), 'a subscriber or a job has that name',
            'alter it, or choose another name');
    END IF;
    PERFORM @adm@._add_subscriber_as_job(v_job, p_options);
EXCEPTION WHEN OTHERS THEN
    GET STACKED DIAGNOSTICS v_state = RETURNED_SQLSTATE, v_text = MESSAGE_TEXT, v_detail = PG_EXCEPTION_DETAIL, v_hint = PG_EXCEPTION_HINT;
    PERFORM @adm@._told_of('subscriber', p_name, v_state, v_text, v_detail, v_hint);
END $$;

CREATE OR REPLACE FUNCTION @adm@._alter_subscriber(
    p_name text, p_rule text, p_transformation text, p_exception_queue text, p_options jsonb)
RETURNS void LANGUAGE plpgsql AS $$
DECLARE
    v_old gw_job := @adm@._usable_subscriber(p_name);
    v_job gw_job := @adm@._with_texts(v_old, p_rule, p_transformation, p_exception_queue);
    v_ends record;
    v_state text;
    v_text text;
    v_detail text;
    v_hint text;
BEGIN
    v_ends := @adm@._ends(v_job);
    v_job.options := @adm@._compact(@adm@._job_options(v_job, ARRAY[v_ends.source, v_ends.destination],
        @adm@._mapping('options of subscriber ' || v_job.name, p_options)));
    PERFORM @adm@._check_job(v_job, v_ends.source, v_ends.destination, v_old);
    UPDATE gw_job j SET rule = v_job.rule, transformation = v_job.transformation, exception_queue = v_job.exception_queue,
           options = v_job.options WHERE j.id = v_job.id;
    IF NOT @adm@._subscribed_again(v_job, 'subscriber') THEN
        PERFORM @adm@._forget_rule(v_old, v_job, v_ends.source);
    END IF;
EXCEPTION WHEN OTHERS THEN
    GET STACKED DIAGNOSTICS v_state = RETURNED_SQLSTATE, v_text = MESSAGE_TEXT, v_detail = PG_EXCEPTION_DETAIL, v_hint = PG_EXCEPTION_HINT;
    PERFORM @adm@._told_of('subscriber', p_name, v_state, v_text, v_detail, v_hint);
END $$;

CREATE OR REPLACE FUNCTION @adm@._reset_subscriber(p_name text) RETURNS void LANGUAGE plpgsql AS $$
DECLARE
    v_job gw_job := @adm@._usable_subscriber(p_name);
BEGIN
    IF NOT @adm@._subscribed_again(v_job, 'subscriber') THEN
        PERFORM @adm@._ready_again(v_job.id);
    END IF;
END $$;

-- The subscription ends at once; what is left in a messaging system only the agent can remove. The schedule stays.
CREATE OR REPLACE FUNCTION @adm@._remove_subscriber(p_name text, p_force boolean) RETURNS boolean LANGUAGE plpgsql AS $$
DECLARE
    v_job gw_job := @adm@._subscriber(p_name);
    v_force boolean := coalesce(p_force, false);
    v_queue jsonb;
    v_messages bigint := 0;
    v_oldest double precision;
    v_alive boolean;
    v_state text;
    v_text text;
    v_detail text;
    v_hint text;
BEGIN
    IF v_job.propagation_type = 'OUTBOUND' THEN
        v_queue := @adm@._queue(v_job.source);
    ELSIF NOT v_force THEN
        PERFORM @adm@._refuse_python(format('subscriber %s cannot be removed from SQL', v_job.name),
            format('what it left in the messaging system of %s has to be removed there', v_job.source),
            format('mgw subscribers remove %s; or force => true, which leaves it there', v_job.name));
    END IF;
    IF (SELECT s.status FROM gw_job_state s WHERE s.job_id = v_job.id) NOT IN @leaving@ OR v_force THEN
        IF (v_queue ->> 'topic')::boolean THEN
            SELECT u.messages, u.oldest INTO v_messages, v_oldest FROM @adm@._unsubscribe(v_job.name, v_queue, v_force) u;
        END IF;
        PERFORM @adm@._record_removal('subscriber', v_job, v_queue, v_messages, v_oldest, true);
    END IF;
    SELECT @adm@._alive(a) INTO v_alive FROM gw_agent a WHERE a.name_key = v_job.agent_key;
    IF NOT v_force AND (v_alive OR EXISTS (SELECT FROM gw_link l
           WHERE l.name_key = substring(v_job.destination_key FROM '@([^@]+)$')
             AND (l.outbound_log_queue IS NOT NULL OR NOT @adm@._described() -> 'types' ? l.type))) THEN
        UPDATE gw_job_state s SET status = 'SUBSCRIBER_DELETE_PENDING' WHERE s.job_id = v_job.id;
        RETURN false;
    END IF;
    IF v_job.schedule IS NOT NULL THEN
        INSERT INTO gw_schedule (name_key, name, link_key, propagation_type, source, destination, source_key, destination_key, latency, enabled)
        VALUES (v_job.schedule_key, v_job.schedule, v_job.link_key, v_job.propagation_type, v_job.source, v_job.destination,
                v_job.source_key, v_job.destination_key, v_job.poll_interval, v_job.enabled::integer);
    END IF;
    PERFORM @adm@._delete_job(v_job, v_queue);
    RETURN true;
EXCEPTION WHEN OTHERS THEN
    GET STACKED DIAGNOSTICS v_state = RETURNED_SQLSTATE, v_text = MESSAGE_TEXT, v_detail = PG_EXCEPTION_DETAIL, v_hint = PG_EXCEPTION_HINT;
    PERFORM @adm@._told_of('subscriber', v_job.name, v_state, v_text, v_detail, v_hint);
END $$;

-- The job of a schedule that may be used; NULL: it has no subscriber.
CREATE OR REPLACE FUNCTION @adm@._job_of_schedule(p_name text) RETURNS gw_job LANGUAGE plpgsql AS $$
DECLARE
    v_job gw_job;
BEGIN
    SELECT * INTO v_job FROM gw_job j WHERE j.schedule_key = @aq@._upper(p_name);
    IF FOUND THEN
        PERFORM @adm@._check_old_style('schedule', p_name, p_name, v_job);
    ELSIF NOT EXISTS (SELECT FROM gw_schedule s WHERE s.name_key = @aq@._upper(p_name)) THEN
        PERFORM @adm@._refuse(32814, format('schedule %s does not exist', p_name), 'no schedule has that name',
            'mgw schedules list shows the names (view MGW_SCHEDULES)');
    END IF;
    RETURN v_job;
END $$;

CREATE OR REPLACE FUNCTION @adm@._latency(p_name text, p_latency double precision) RETURNS void LANGUAGE plpgsql AS $$
DECLARE
    v_state text;
    v_text text;
    v_detail text;
    v_hint text;
BEGIN
    PERFORM @adm@._poll_interval(p_name, p_latency);
EXCEPTION WHEN OTHERS THEN
    GET STACKED DIAGNOSTICS v_state = RETURNED_SQLSTATE, v_text = MESSAGE_TEXT, v_detail = PG_EXCEPTION_DETAIL, v_hint = PG_EXCEPTION_HINT;
    PERFORM @adm@._told_of('schedule', p_name, v_state, v_text, v_detail, v_hint);
END $$;

CREATE OR REPLACE FUNCTION @adm@._schedule_ends(p_draft gw_job, OUT source jsonb, OUT destination jsonb) LANGUAGE plpgsql AS $$
DECLARE
    v_state text;
    v_text text;
    v_detail text;
    v_hint text;
BEGIN
    SELECT e.source, e.destination INTO source, destination FROM @adm@._ends(p_draft) e;
EXCEPTION WHEN OTHERS THEN
    GET STACKED DIAGNOSTICS v_state = RETURNED_SQLSTATE, v_text = MESSAGE_TEXT, v_detail = PG_EXCEPTION_DETAIL, v_hint = PG_EXCEPTION_HINT;
    PERFORM @adm@._told_of('schedule', p_draft.name, v_state, v_text, v_detail, v_hint);
END $$;

CREATE OR REPLACE FUNCTION @adm@._schedule_propagation(
    p_name text, p_type text, p_source text, p_destination text, p_start_time text, p_duration double precision, p_next_time text,
    p_latency double precision)
RETURNS void LANGUAGE plpgsql AS $$
DECLARE
    v_draft gw_job;
    v_job gw_job;
    v_other text;
    v_ends record;
    v_link jsonb;
BEGIN
    PERFORM @adm@._identifier('schedule', p_name);
    v_draft.name := p_name;
    v_draft.propagation_type := @adm@._old_style_type('schedule', p_name, p_type);
    v_draft.source := p_source;
    v_draft.destination := p_destination;
    PERFORM @adm@._latency(p_name, p_latency);
    IF EXISTS (SELECT FROM gw_schedule s WHERE s.name_key = @aq@._upper(p_name))
       OR EXISTS (SELECT FROM gw_job j WHERE j.schedule_key = @aq@._upper(p_name)) THEN
        PERFORM @adm@._refuse(32813, format('schedule %s already exists', p_name), 'a schedule or a job has that name',
            'alter it, or choose another name');
    END IF;
    v_ends := @adm@._schedule_ends(v_draft);
    SELECT * INTO v_job FROM gw_job j WHERE j.propagation_type = v_draft.propagation_type
       AND j.source_key = v_ends.source ->> 'key' AND j.destination_key = v_ends.destination ->> 'key';
    SELECT s.name INTO v_other FROM gw_schedule s WHERE s.propagation_type = v_draft.propagation_type
       AND s.source_key = v_ends.source ->> 'key' AND s.destination_key = v_ends.destination ->> 'key';
    v_other := coalesce(v_other, v_job.schedule);
    IF v_other IS NOT NULL THEN
        PERFORM @adm@._refuse(32824, format('schedule %s: %s is already scheduled to %s', p_name, p_source, p_destination),
            format('schedule %s has the same propagation type, source and destination', v_other),
            'alter that schedule, or remove it first');
    END IF;
    IF v_job.id IS NULL THEN
        v_link := CASE WHEN (v_ends.source ->> 'foreign')::boolean THEN v_ends.source ELSE v_ends.destination END;
        INSERT INTO gw_schedule (name_key, name, link_key, propagation_type, source, destination, source_key, destination_key, latency, enabled)
        VALUES (@aq@._upper(p_name), p_name, v_link ->> 'link_key', v_draft.propagation_type, p_source, p_destination,
                v_ends.source ->> 'key', v_ends.destination ->> 'key', p_latency, 1);
    ELSE
        UPDATE gw_job_state s SET not_working_since = NULL WHERE s.job_id = v_job.id AND NOT v_job.enabled;
        UPDATE gw_job j SET schedule = p_name, schedule_key = @aq@._upper(p_name), poll_interval = p_latency, enabled = true
         WHERE j.id = v_job.id;
    END IF;
END $$;

CREATE OR REPLACE FUNCTION @adm@._alter_propagation_schedule(
    p_name text, p_duration double precision, p_next_time text, p_latency double precision)
RETURNS void LANGUAGE plpgsql AS $$
DECLARE
    v_job gw_job;
BEGIN
    PERFORM @adm@._latency(p_name, p_latency);
    v_job := @adm@._job_of_schedule(p_name);
    UPDATE gw_job j SET poll_interval = p_latency WHERE j.id = v_job.id;
    UPDATE gw_schedule s SET latency = p_latency WHERE s.name_key = @aq@._upper(p_name);
END $$;

CREATE OR REPLACE FUNCTION @adm@._set_schedule(p_name text, p_enabled boolean) RETURNS void LANGUAGE plpgsql AS $$
DECLARE
    v_job gw_job := @adm@._job_of_schedule(p_name);
BEGIN
    UPDATE gw_job_state s SET not_working_since = NULL WHERE s.job_id = v_job.id AND v_job.enabled <> p_enabled;
    UPDATE gw_job j SET enabled = p_enabled WHERE j.id = v_job.id;
    UPDATE gw_schedule s SET enabled = p_enabled::integer WHERE s.name_key = @aq@._upper(p_name);
END $$;

CREATE OR REPLACE FUNCTION @adm@._enable_propagation_schedule(p_name text) RETURNS void LANGUAGE sql AS $$
    SELECT @adm@._set_schedule(p_name, true)
$$;

CREATE OR REPLACE FUNCTION @adm@._disable_propagation_schedule(p_name text) RETURNS void LANGUAGE sql AS $$
    SELECT @adm@._set_schedule(p_name, false)
$$;

CREATE OR REPLACE FUNCTION @adm@._unschedule_propagation(p_name text) RETURNS void LANGUAGE plpgsql AS $$
DECLARE
    v_job gw_job := @adm@._job_of_schedule(p_name);
BEGIN
    UPDATE gw_job_state s SET not_working_since = NULL WHERE s.job_id = v_job.id AND v_job.enabled;
    UPDATE gw_job j SET schedule = NULL, schedule_key = NULL, poll_interval = NULL, enabled = false WHERE j.id = v_job.id;
    DELETE FROM gw_schedule s WHERE s.name_key = @aq@._upper(p_name);
END $$;

-- ----------------------------------------------------------------------------------------- schedules of DBMS_HQADM

-- The job of a schedule of DBMS_HQADM is removed with it, and what belongs to the schedule is not altered.
CREATE OR REPLACE FUNCTION @adm@._check_outbound(p_job gw_job, p_new gw_job) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    IF NOT EXISTS (SELECT FROM gw_outbound_schedule o WHERE o.job_id = p_job.id) THEN
        RETURN;
    ELSIF p_new.id IS NULL THEN
        PERFORM @adm@._refuse(32801, format('job %s cannot be removed', p_job.name), 'a schedule of DBMS_HQADM made it, and removes it',
            format('mgw outbound-schedules remove %s %s (hq_unschedule_propagation)', p_job.source, p_job.destination));
    ELSIF p_job.exception_queue IS DISTINCT FROM p_new.exception_queue OR p_job.poll_interval IS DISTINCT FROM p_new.poll_interval THEN
        PERFORM @adm@._refuse(32803, format('job %s: %s cannot be altered', p_job.name,
                CASE WHEN p_job.exception_queue IS DISTINCT FROM p_new.exception_queue THEN 'exception_queue' ELSE 'poll_interval' END),
            'a schedule of DBMS_HQADM made the job, and it belongs to the schedule',
            'remove the schedule (mgw outbound-schedules remove), and create it again');
    END IF;
END $$;
