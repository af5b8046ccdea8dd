-- ------------------------------------------------------------------------------------------------------------ agents

CREATE OR REPLACE FUNCTION @adm@._bad_agent(p_agent text, p_cause text, p_cure text) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    PERFORM @adm@._refuse(32801, format('agent %s cannot be stored so', p_agent), p_cause, p_cure);
END $$;

CREATE OR REPLACE FUNCTION @adm@._range(p_agent text, p_what text, p_value integer, p_low integer, p_high integer) RETURNS void
LANGUAGE plpgsql AS $$
BEGIN
    IF p_value IS NULL OR NOT p_value BETWEEN p_low AND p_high THEN
        PERFORM @adm@._refuse(32843, format('agent %s: %s cannot be %s', p_agent, p_what, coalesce(p_value::text, 'None')),
            format('it is a whole number from %s to %s', p_low, p_high), 'choose one in that range');
    END IF;
END $$;

CREATE OR REPLACE FUNCTION @adm@._check_agent(p_agent gw_agent) RETURNS void LANGUAGE plpgsql AS $$
DECLARE
    v_described jsonb := @adm@._described() -> 'agent';
    v_choices jsonb := v_described -> 'conntype' -> 'choices';
BEGIN
    PERFORM @adm@._range(p_agent.name, 'max_threads', p_agent.max_threads,
        (v_described #>> '{max_threads,minimum}')::integer, (v_described #>> '{max_threads,maximum}')::integer);
    PERFORM @adm@._range(p_agent.name, 'max_memory', p_agent.max_memory,
        (v_described #>> '{max_memory,minimum}')::integer, (v_described #>> '{max_memory,maximum}')::integer);
    IF p_agent.conntype IS NULL OR NOT v_choices ? p_agent.conntype THEN
        PERFORM @adm@._refuse(32802, format('agent %s: connection type %s is unknown', p_agent.name, @adm@._repr(p_agent.conntype)),
            'it is one of ' || (SELECT string_agg(c.value, ', ') FROM jsonb_array_elements_text(v_choices) c), 'correct it or leave it out');
    ELSIF p_agent.database IS NOT NULL AND p_agent.username IS NULL THEN
        PERFORM @adm@._bad_agent(p_agent.name, 'a database needs a user name', 'give user name and password, or no database');
    END IF;
    PERFORM @adm@._text('comment of agent ' || p_agent.name, p_agent.comments);
END $$;

CREATE OR REPLACE FUNCTION @adm@._no_password(p_agent text) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    PERFORM @adm@._refuse(32801, format('agent %s: a password cannot be given in SQL', p_agent),
        'it is encrypted with a key that the database does not have, and a statement may be logged',
        format('leave user name and password out: they have no effect; or mgw agents alter %s --username USER --password-file FILE', p_agent));
END $$;

CREATE OR REPLACE FUNCTION @adm@._create_agent(
    p_name text, p_username text, p_password text, p_database text, p_conntype text, p_max_memory integer, p_max_threads integer,
    p_service text, p_initfile text, p_comment text)
RETURNS void LANGUAGE plpgsql AS $$
DECLARE
    v_agent gw_agent;
    v_described jsonb := @adm@._described() -> 'agent';
BEGIN
    PERFORM @adm@._identifier('agent', p_name);
    v_agent.name := p_name;
    v_agent.max_memory := coalesce(p_max_memory, (v_described #>> '{max_memory,default}')::integer);
    v_agent.max_threads := coalesce(p_max_threads, (v_described #>> '{max_threads,default}')::integer);
    v_agent.username := p_username;
    v_agent.database := p_database;
    v_agent.conntype := p_conntype;
    v_agent.comments := p_comment;
    PERFORM @adm@._check_agent(v_agent);
    IF (p_username IS NULL) <> (p_password IS NULL) THEN
        PERFORM @adm@._bad_agent(p_name, 'user name and password go together', 'give both or none');
    ELSIF p_password IS NOT NULL THEN
        PERFORM @adm@._no_password(p_name);
    ELSIF EXISTS (SELECT FROM gw_agent a WHERE a.name_key = @aq@._upper(p_name)) THEN
        PERFORM @adm@._refuse(32851, format('agent %s already exists', p_name), 'an agent has that name', 'alter it, or choose another name');
    END IF;
    INSERT INTO gw_agent (name_key, name, max_memory, max_threads, conntype, service, initfile, comments, status)
    VALUES (@aq@._upper(p_name), p_name, v_agent.max_memory, v_agent.max_threads, p_conntype, p_service, p_initfile, p_comment, 'NOT_STARTED');
END $$;

CREATE OR REPLACE FUNCTION @adm@._alter_agent(
    p_name text, p_username text, p_password text, p_database text, p_conntype text, p_max_memory integer, p_max_threads integer,
    p_service text, p_initfile text, p_comment text)
RETURNS void LANGUAGE plpgsql AS $$
DECLARE
    v_agent gw_agent;
BEGIN
    IF p_username IS NULL OR p_password IS NULL THEN
        PERFORM @adm@._bad_agent(p_name, 'altering an agent cannot remove user name or password', 'mgw agents remove-login (remove_agent_login)');
    END IF;
    v_agent := @adm@._agent(p_name);
    IF p_username <> 'NO_CHANGE' THEN v_agent.username := p_username; END IF;
    IF p_database IS DISTINCT FROM 'NO_CHANGE' THEN v_agent.database := p_database; END IF;
    IF p_conntype IS DISTINCT FROM 'NO_CHANGE' THEN v_agent.conntype := p_conntype; END IF;
    IF p_service IS DISTINCT FROM 'NO_CHANGE' THEN v_agent.service := p_service; END IF;
    IF p_initfile IS DISTINCT FROM 'NO_CHANGE' THEN v_agent.initfile := p_initfile; END IF;
    IF p_comment IS DISTINCT FROM 'NO_CHANGE' THEN v_agent.comments := p_comment; END IF;
    v_agent.max_memory := coalesce(p_max_memory, v_agent.max_memory);
    v_agent.max_threads := coalesce(p_max_threads, v_agent.max_threads);
    PERFORM @adm@._check_agent(v_agent);
    IF p_password <> 'NO_CHANGE' THEN
        PERFORM @adm@._no_password(v_agent.name);
    END IF;
    UPDATE gw_agent a SET username = v_agent.username, database = v_agent.database, conntype = v_agent.conntype,
           max_memory = v_agent.max_memory, max_threads = v_agent.max_threads, service = v_agent.service,
           initfile = v_agent.initfile, comments = v_agent.comments WHERE a.name_key = v_agent.name_key;
END $$;

CREATE OR REPLACE FUNCTION @adm@._db_connect_info(p_username text, p_password text, p_database text) RETURNS void LANGUAGE sql AS $$
    SELECT @adm@._alter_agent('DEFAULT_AGENT', p_username, p_password, p_database, 'NO_CHANGE', NULL, NULL, 'NO_CHANGE', 'NO_CHANGE', 'NO_CHANGE')
$$;

CREATE OR REPLACE FUNCTION @adm@._remove_agent_login(p_name text) RETURNS void LANGUAGE plpgsql AS $$
DECLARE
    v_agent gw_agent := @adm@._agent(p_name);
BEGIN
    UPDATE gw_agent a SET username = NULL, password = NULL, database = NULL WHERE a.name_key = v_agent.name_key;
END $$;

CREATE OR REPLACE FUNCTION @adm@._remove_agent(p_name text) RETURNS void LANGUAGE plpgsql AS $$
DECLARE
    v_agent gw_agent := @adm@._agent(p_name);
    v_what text := format('agent %s cannot be removed', v_agent.name);
    v_links text := (SELECT string_agg(l.name, ', ' ORDER BY l.name_key) FROM gw_link l WHERE l.agent_key = v_agent.name_key);
BEGIN
    IF v_agent.name_key = 'DEFAULT_AGENT' THEN
        PERFORM @adm@._refuse(32852, 'agent DEFAULT_AGENT cannot be removed', 'every gateway needs it', 'shut it down instead');
    ELSIF v_agent.status <> 'NOT_STARTED' THEN
        PERFORM @adm@._refuse(32827, v_what, 'its status is ' || v_agent.status, 'shut it down first');
    ELSIF v_links IS NOT NULL THEN
        PERFORM @adm@._refuse(32853, v_what, 'it runs the links ' || v_links, 'remove those links first');
    END IF;
    DELETE FROM gw_agent_option o WHERE o.agent_key = v_agent.name_key;
    DELETE FROM gw_worker w WHERE w.agent_key = v_agent.name_key;
    DELETE FROM gw_agent a WHERE a.name_key = v_agent.name_key;
END $$;

CREATE OR REPLACE FUNCTION @adm@._startup(p_name text) RETURNS void LANGUAGE plpgsql AS $$
DECLARE
    v_agent gw_agent := @adm@._agent(p_name);
BEGIN
    IF v_agent.status IN ('STARTING', 'INITIALIZING', 'RUNNING', 'START_SCHEDULED') THEN
        PERFORM @adm@._refuse(32845, format('agent %s is started already', v_agent.name), 'its status is ' || v_agent.status, 'nothing to do');
    ELSIF v_agent.status <> 'NOT_STARTED' THEN
        PERFORM @adm@._refuse(32846, format('agent %s cannot be started', v_agent.name), 'its status is ' || v_agent.status,
            CASE v_agent.status WHEN 'BROKEN'
                 THEN format('end any leftover process, then run: mgw agents clean %s (CLEAN_STARTUP_STATE)', p_name)
                 ELSE 'wait until it is NOT_STARTED' END);
    END IF;
    UPDATE gw_agent a SET status = 'START_SCHEDULED', last_error_msg = NULL, last_error_time = NULL WHERE a.name_key = v_agent.name_key;
END $$;

CREATE OR REPLACE FUNCTION @adm@._shutdown(p_name text, p_mode text) RETURNS void LANGUAGE plpgsql AS $$
DECLARE
    v_agent gw_agent;
BEGIN
    IF p_mode IS DISTINCT FROM 'SHUTDOWN_NORMAL' THEN
        PERFORM @adm@._refuse(32802, format('agent %s cannot be shut down with mode %s', p_name, @adm@._repr(p_mode)),
            'the only mode is SHUTDOWN_NORMAL', 'leave the mode out');
    END IF;
    v_agent := @adm@._agent(p_name);
    IF v_agent.status IN ('NOT_STARTED', 'BROKEN') THEN
        PERFORM @adm@._refuse(32825, format('agent %s is not started', v_agent.name), 'its status is ' || v_agent.status,
            CASE v_agent.status WHEN 'NOT_STARTED' THEN 'nothing to do' ELSE format('mgw agents clean %s (CLEAN_STARTUP_STATE)', v_agent.name) END);
    ELSIF v_agent.status = 'STARTING' THEN
        PERFORM @adm@._refuse(32829, format('agent %s cannot be shut down now', v_agent.name), 'it is still starting', 'try again in a few seconds');
    END IF;
    UPDATE gw_agent a SET status = CASE v_agent.status WHEN 'START_SCHEDULED' THEN 'NOT_STARTED' ELSE 'SHUTTING_DOWN' END
     WHERE a.name_key = v_agent.name_key;
END $$;

CREATE OR REPLACE FUNCTION @adm@._running(p_name text) RETURNS gw_agent LANGUAGE plpgsql AS $$
DECLARE
    v_agent gw_agent := @adm@._agent(p_name);
    v_alive boolean := @adm@._alive(v_agent);
BEGIN
    IF v_agent.status <> 'RUNNING' OR NOT v_alive THEN
        PERFORM @adm@._refuse(32828, format('agent %s is not running', v_agent.name),
            'its status is ' || v_agent.status || CASE WHEN v_alive THEN '' ELSE ' and no process answers' END, 'start it first');
    END IF;
    RETURN v_agent;
END $$;

CREATE OR REPLACE FUNCTION @adm@._set_log_level(p_level integer, p_name text) RETURNS void LANGUAGE plpgsql AS $$
DECLARE
    v_agent gw_agent;
BEGIN
    PERFORM @adm@._range(p_name, 'log level', p_level, 0, 4);
    v_agent := @adm@._running(p_name);
    UPDATE gw_agent a SET log_level = p_level WHERE a.name_key = v_agent.name_key;
END $$;

-- ------------------------------------------------------------------------------------------------------ single options

CREATE OR REPLACE FUNCTION @adm@._option_target(p_type text, p_target text, p_option text) RETURNS text LANGUAGE plpgsql AS $$
BEGIN
    IF coalesce(p_target, '') = '' OR coalesce(p_option, '') = '' THEN
        PERFORM @adm@._refuse(32801, CASE WHEN coalesce(p_target, '') = '' THEN 'target' ELSE 'option' END || ' name is missing',
            'it is empty', 'give a name');
    ELSIF upper(p_type) IS NULL OR upper(p_type) NOT IN ('AGENT_JAVA_PROP', 'MSGLINK_OPTION', 'JOB_OPTION') THEN
        PERFORM @adm@._refuse(32802, format('option target %s is unknown', @adm@._repr(p_type)),
            'it is one of AGENT_JAVA_PROP, MSGLINK_OPTION, JOB_OPTION', 'use one of them');
    END IF;
    RETURN upper(p_type);
END $$;

CREATE OR REPLACE FUNCTION @adm@._set_agent_option(p_agent text, p_name text, p_value text, p_encrypted boolean) RETURNS void
LANGUAGE plpgsql AS $$
DECLARE
    v_fields jsonb := @adm@._described() -> 'agent_options';
    v_field jsonb := @adm@._field(v_fields, p_name);
    v_foreign jsonb;
    v_agent gw_agent;
    v_seconds double precision;
BEGIN
    PERFORM @adm@._text(format('option %s of agent %s', p_name, p_agent), p_value);
    IF v_field IS NULL THEN
        SELECT f.value INTO v_foreign FROM jsonb_array_elements(@adm@._described() -> 'foreign_options') f
         WHERE starts_with(lower(p_name), f.value ->> 0) LIMIT 1;
        PERFORM @adm@._refuse(32840, format('agent %s: option %s is unknown', p_agent, @adm@._repr(p_name)),
            coalesce(v_foreign ->> 1, 'agents have no such option'),
            CASE WHEN v_foreign IS NULL THEN 'use one of ' || @adm@._names(v_fields) ELSE 'leave it out' END);
    ELSIF p_value IS NULL THEN
        PERFORM @adm@._refuse(32841, format('option %s has no value', v_field ->> 'name'), 'it is empty', 'give one or remove it');
    ELSIF v_field ->> 'name' = 'ledger_retention' THEN
        v_seconds := CASE WHEN btrim(p_value) ~ '^[+]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]{1,2})?$' THEN p_value::double precision END;
        IF v_seconds IS NULL THEN
            PERFORM @adm@._refuse(32841, format('agent option %s cannot be %s', v_field ->> 'name', @adm@._repr(p_value)),
                'it is a number of seconds, 0 for no ledger', format('set it to %s for a week, or remove it', round((v_field ->> 'default')::numeric)));
        END IF;
    ELSE
        PERFORM @adm@._value(v_field, to_jsonb(p_value), 'agent ' || p_agent, 32841);
    END IF;
    v_agent := @adm@._agent(p_agent);
    IF p_encrypted THEN
        PERFORM @adm@._refuse(32801, format('option %s of agent %s cannot be encrypted from SQL', p_name, v_agent.name),
            'the database does not have the key', 'set it in Python: set_option(..., encrypted=True)');
    END IF;
    DELETE FROM gw_agent_option o WHERE o.agent_key = v_agent.name_key AND lower(o.name) = lower(p_name);
    INSERT INTO gw_agent_option (agent_key, name, value, encrypted) VALUES (v_agent.name_key, p_name, p_value, false);
END $$;

CREATE OR REPLACE FUNCTION @adm@._set_option(p_type text, p_target text, p_option text, p_value text, p_encrypted boolean) RETURNS void
LANGUAGE plpgsql AS $$
DECLARE
    v_type text := @adm@._option_target(p_type, p_target, p_option);
BEGIN
    IF v_type = 'AGENT_JAVA_PROP' THEN
        PERFORM @adm@._set_agent_option(p_target, p_option, p_value, p_encrypted);
        RETURN;
    ELSIF p_encrypted THEN
        PERFORM @adm@._refuse(32801, format('option %s of %s cannot be encrypted', p_option, p_target),
            'only agent options have that choice; secret options of links are always encrypted', 'leave encrypted out');
    ELSIF v_type = 'MSGLINK_OPTION' THEN
        PERFORM @adm@._alter_msgsystem_link(p_target, NULL, jsonb_build_object(p_option, p_value), 'NO_CHANGE');
    ELSE
        PERFORM @adm@._alter_job(p_target, 'NO_CHANGE', 'NO_CHANGE', 'NO_CHANGE', 0, jsonb_build_object(p_option, p_value), 'NO_CHANGE', 'NO_CHANGE');
    END IF;
END $$;

CREATE OR REPLACE FUNCTION @adm@._remove_option(p_type text, p_target text, p_option text) RETURNS void LANGUAGE plpgsql AS $$
DECLARE
    v_agent gw_agent;
BEGIN
    IF @adm@._option_target(p_type, p_target, p_option) <> 'AGENT_JAVA_PROP' THEN
        PERFORM @adm@._set_option(p_type, p_target, p_option, NULL, false);
        RETURN;
    END IF;
    v_agent := @adm@._agent(p_target);
    DELETE FROM gw_agent_option o WHERE o.agent_key = v_agent.name_key AND lower(o.name) = lower(p_option);
    IF NOT FOUND THEN
        PERFORM @adm@._refuse(32840, format('agent %s has no option %s', p_target, @adm@._repr(p_option)), 'it is not set',
            format('mgw agents show %s lists those that are (view MGW_AGENT_OPTIONS)', p_target));
    END IF;
END $$;

-- ---------------------------------------------------------------------------------------------------------- cleaning

-- Whether the process of an agent renews its lease: waited for, at most 5 seconds.
CREATE OR REPLACE FUNCTION @adm@._answers(p_key text) RETURNS boolean LANGUAGE plpgsql AS $$
DECLARE
    v_until timestamptz := clock_timestamp() + interval '5 seconds';
    v_first record;
    v_sign record;
BEGIN
    SELECT a.token, a.heartbeat INTO v_first FROM gw_agent a WHERE a.name_key = p_key;
    LOOP
        SELECT a.token, a.heartbeat INTO v_sign FROM gw_agent a WHERE a.name_key = p_key;
        IF v_sign IS DISTINCT FROM v_first THEN
            RETURN true;
        ELSIF clock_timestamp() > v_until THEN
            RETURN false;
        END IF;
        PERFORM pg_sleep(0.1);
    END LOOP;
END $$;

-- Whether this transaction wrote a row that it sees: it is the only one that is under way and can be seen. p_row: xmin.
CREATE OR REPLACE FUNCTION @adm@._own(p_row xid) RETURNS boolean LANGUAGE sql AS $$
    SELECT coalesce((
        SELECT CASE WHEN age(p_row) <= age(c.id::xid)
                    THEN pg_xact_status((c.id::text::numeric + age(c.id::xid) - age(p_row))::text::xid8) = 'in progress' END
          FROM (SELECT pg_current_xact_id_if_assigned() AS id) c WHERE c.id IS NOT NULL), false)
$$;

CREATE OR REPLACE FUNCTION @adm@._clean_startup_state(p_name text) RETURNS void LANGUAGE plpgsql AS $$
DECLARE
    v_agent gw_agent := @adm@._agent(p_name);
    v_answers boolean := false;
    v_cure text;
    v_before jsonb;
BEGIN
    IF (SELECT @adm@._own(a.xmin) FROM gw_agent a WHERE a.name_key = v_agent.name_key) THEN
        PERFORM @adm@._refuse(32801, format('startup state of agent %s is not cleaned', v_agent.name),
            'this transaction has changed the agent, which cannot act on that, nor answer, before it ends',
            'commit it, then call this in a transaction of its own');
    END IF;
    IF @adm@._alive(v_agent) AND v_agent.status NOT IN ('NOT_STARTED', 'START_SCHEDULED') THEN
        IF current_setting('transaction_isolation') <> 'read committed' THEN
            PERFORM @adm@._refuse(32801, format('startup state of agent %s is not cleaned', v_agent.name),
                'at this isolation level the transaction cannot see whether the agent lives', 'use READ COMMITTED');
        END IF;
        v_answers := @adm@._answers(v_agent.name_key);
    END IF;
    PERFORM @adm@._begin();
    v_before := @adm@._seen('agent', p_name);
    SELECT * INTO v_agent FROM gw_agent a WHERE a.name_key = v_agent.name_key FOR UPDATE;
    v_cure := CASE WHEN v_agent.status IN ('NOT_STARTED', 'START_SCHEDULED') THEN 'nothing to clean up'
                   WHEN v_answers THEN 'the agent responds: shut it down'
                   WHEN v_agent.status IN ('INITIALIZING', 'RUNNING') THEN 'shut it down first; clean up if that does not end' END;
    IF v_cure IS NOT NULL THEN
        PERFORM @adm@._refuse(32802, format('startup state of agent %s is not cleaned', v_agent.name), 'its status is ' || v_agent.status, v_cure);
    END IF;
    UPDATE gw_agent a SET status = 'NOT_STARTED', token = a.token + 1, start_time = NULL, heartbeat = NULL, lease_expires = NULL,
           host = NULL, pid = NULL, process_key = NULL WHERE a.name_key = v_agent.name_key;
    UPDATE gw_worker w SET token = w.token + 1 WHERE w.agent_key = v_agent.name_key;
    PERFORM @adm@._end();
    PERFORM @adm@._keep('agent', p_name, 'clean', true, v_before);
END $$;

CREATE OR REPLACE FUNCTION @adm@._cleanup_gateway(p_action text, p_argument text, p_agent text) RETURNS void LANGUAGE plpgsql AS $$
DECLARE
    v_action text := upper(p_action);
    v_agent gw_agent;
    v_job gw_job;
BEGIN
    IF v_action = 'CLEAN_STARTUP_STATE' THEN
        PERFORM @adm@._clean_startup_state(p_agent);
        RETURN;
    ELSIF v_action IS NULL OR v_action NOT IN ('CLEAN_LOG_QUEUES', 'RESET_SUB_MISSING_LOG_REC', 'RESET_SUB_MISSING_MESSAGE') THEN
        PERFORM @adm@._refuse(32802, format('cleanup action %s is unknown', @adm@._repr(p_action)),
            'the actions are CLEAN_STARTUP_STATE, CLEAN_LOG_QUEUES, RESET_SUB_MISSING_LOG_REC, RESET_SUB_MISSING_MESSAGE', 'use one of them');
    END IF;
    PERFORM @adm@._begin();
    v_agent := @adm@._running(p_agent);
    IF v_action <> 'CLEAN_LOG_QUEUES' THEN
        v_job := @adm@._job(coalesce(p_argument, ''));
        IF (SELECT s.status FROM gw_job_state s WHERE s.job_id = v_job.id) <> 'FAILED' THEN
            PERFORM @adm@._end();  -- a job that is not FAILED is left alone
            PERFORM @adm@._keep('job', p_argument, replace(lower(v_action), '_', ' ') || ' of', true, @adm@._seen('job', p_argument));
            RETURN;
        END IF;
    END IF;
    PERFORM @adm@._refuse_python(format('%s cannot be done from SQL', v_action),
        CASE v_action WHEN 'CLEAN_LOG_QUEUES' THEN 'the logs are in the messaging systems'
             ELSE 'the ledger of the job records it, and only Python writes there' END,
        format('mgw agents cleanup %s%s --agent %s', v_action, coalesce(' ' || v_job.name, ''), v_agent.name));
END $$;
