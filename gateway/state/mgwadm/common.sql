-- The administration from SQL, PostgreSQL: the functions of schema mgwadm (docs/how-to/administer-with-sql.md).
--
-- mgw.gateway.state.mgwadm.mgwadm_sql puts the names in for the words between @, the schema before aq_... and gw_..., and
-- runs this text. Functions that begin with _ are internal: they run with the rights of their caller, and callers have
-- none on the gateway's tables. The others are made from mgw.gateway.state.mgwadm.procedures: SECURITY DEFINER with a fixed
-- search_path. What they do is what mgw.gateway.services.admin does; tests/conformance/test_mgwadm.py compares both.

CREATE OR REPLACE FUNCTION @adm@.version() RETURNS integer LANGUAGE sql IMMUTABLE PARALLEL SAFE AS 'SELECT @version@';

-- What the gateway knows of its options and link types: made from the descriptions in Python.
CREATE OR REPLACE FUNCTION @adm@._described() RETURNS jsonb LANGUAGE sql IMMUTABLE PARALLEL SAFE AS $$ SELECT @described@::jsonb $$;

-- ------------------------------------------------------------------------------------------------------------ errors

CREATE OR REPLACE FUNCTION @adm@._refuse(p_number integer, p_what text, p_cause text, p_cure text) RETURNS void
LANGUAGE plpgsql AS $$
BEGIN
    RAISE EXCEPTION USING
        ERRCODE = CASE WHEN p_number BETWEEN 32800 AND 32899 THEN 'MA' ELSE 'MG' END || lpad((p_number % 1000)::text, 3, '0'),
        MESSAGE = format('ORA-%s: %s', lpad(p_number::text, 5, '0'), p_what),
        DETAIL = 'cause: ' || p_cause,
        HINT = p_cure;
END $$;

-- A text as Python shows it in an error.
CREATE OR REPLACE FUNCTION @adm@._repr(p_text text) RETURNS text LANGUAGE sql IMMUTABLE AS $$
    SELECT CASE WHEN p_text IS NULL THEN 'None'
                WHEN strpos(p_text, '''') > 0 AND strpos(p_text, '"') = 0 THEN '"' || e.escaped || '"'
                ELSE '''' || replace(e.escaped, '''', '\''') || '''' END
      FROM (SELECT replace(replace(replace(replace(p_text, '\', '\\'), E'\n', '\n'), E'\t', '\t'), E'\r', '\r') AS escaped) e
$$;

-- What only Python can check.
CREATE OR REPLACE FUNCTION @adm@._refuse_python(p_what text, p_cause text, p_command text) RETURNS void
LANGUAGE plpgsql AS $$
BEGIN
    PERFORM @adm@._refuse(32801, p_what, p_cause, 'use the command instead: ' || p_command);
END $$;

-- ------------------------------------------------------------------------------------------------------- the call

CREATE OR REPLACE FUNCTION @adm@._now() RETURNS double precision LANGUAGE sql VOLATILE AS $$
    SELECT extract(epoch FROM clock_timestamp())::double precision
$$;

-- One call of the administration at a time, whoever makes it; until the end of the caller's transaction. Everybody else
-- waits for that, so the transaction may not lie idle for long: a longer limit of the caller counts for others of his.
CREATE OR REPLACE FUNCTION @adm@._begin() RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    PERFORM pg_advisory_xact_lock('gw_change'::regclass::oid::integer, 0);
    PERFORM set_config(s.name, '@idle@', true) FROM pg_settings s
      WHERE s.name = 'idle_in_transaction_session_timeout' AND NOT s.setting::bigint BETWEEN 1 AND @idle@;
EXCEPTION WHEN lock_not_available THEN
    PERFORM @adm@._refuse(32800, 'the definitions cannot be changed now',
        'another transaction has been changing them for 30 seconds', 'end that transaction, or try again');
END $$;

-- The version of the definitions is raised, and running agents hear of it when the transaction commits.
CREATE OR REPLACE FUNCTION @adm@._end() RETURNS void LANGUAGE plpgsql AS $$
DECLARE
    v_version bigint;
BEGIN
    UPDATE gw_change SET version = version + 1 WHERE id = 1 RETURNING version INTO v_version;
    PERFORM pg_notify(@channel@, v_version::text);
END $$;

-- An object as the audit shows it: its settings, and which secrets it has.
CREATE OR REPLACE FUNCTION @adm@._seen(p_kind text, p_name text) RETURNS jsonb LANGUAGE plpgsql AS $$
DECLARE
    v_key text := @aq@._upper(p_name);
    v_seen jsonb;
    v_secrets text[];
BEGIN
    IF p_kind = 'agent' THEN
        SELECT jsonb_build_object('name', a.name, 'max_memory', a.max_memory, 'max_threads', a.max_threads, 'username', a.username,
                   'database', a.database, 'conntype', a.conntype, 'service', a.service, 'initfile', a.initfile,
                   'comments', a.comments, 'options', (SELECT jsonb_object_agg(o.name, coalesce(o.value, '')) FROM gw_agent_option o
                                                        WHERE o.agent_key = a.name_key AND NOT o.encrypted)),
               CASE WHEN a.password IS NULL THEN '{}' ELSE '{password}'::text[] END
               || coalesce((SELECT array_agg('options.' || o.name ORDER BY o.name) FROM gw_agent_option o
                             WHERE o.agent_key = a.name_key AND o.encrypted), '{}')
          INTO v_seen, v_secrets FROM gw_agent a WHERE a.name_key = v_key;
    ELSIF p_kind = 'link' THEN
        SELECT jsonb_build_object('name', l.name, 'type', l.type, 'agent', a.name, 'username', l.username,
                   'max_connections', l.max_connections, 'inbound_log_queue', l.inbound_log_queue,
                   'outbound_log_queue', l.outbound_log_queue, 'comments', l.comments,
                   'attributes', (SELECT jsonb_object_agg(o.key, o.value) FROM jsonb_each(l.attributes::jsonb) o WHERE o.value #>> '{}' <> '<<ENCRYPTED>>'),
                   'options', (SELECT jsonb_object_agg(o.key, o.value) FROM jsonb_each(l.options::jsonb) o WHERE o.value #>> '{}' <> '<<ENCRYPTED>>')),
               (SELECT coalesce(array_agg(s.name ORDER BY s.name), '{}') FROM (
                    SELECT 'attributes.' || o.key AS name FROM jsonb_each(l.attributes::jsonb) o WHERE o.value #>> '{}' = '<<ENCRYPTED>>'
                    UNION ALL SELECT 'options.' || o.key FROM jsonb_each(l.options::jsonb) o WHERE o.value #>> '{}' = '<<ENCRYPTED>>'
                    UNION ALL SELECT 'password' WHERE l.password IS NOT NULL AND l.username IS NOT NULL) s)
          INTO v_seen, v_secrets FROM gw_link l JOIN gw_agent a ON a.name_key = l.agent_key WHERE l.name_key = v_key;
    ELSIF p_kind = 'foreign queue' THEN
        SELECT jsonb_build_object('name', q.name || '@' || l.name, 'link', l.name, 'provider_queue', q.provider_queue, 'domain', q.domain,
                   'options', nullif(q.options::jsonb, '{}'), 'comments', q.comments)
          INTO v_seen FROM gw_foreign_queue q JOIN gw_link l ON l.name_key = q.link_key WHERE q.name_key || '@' || q.link_key = v_key;
    ELSIF p_kind = 'job' THEN
        SELECT jsonb_build_object('name', j.name, 'propagation_type', j.propagation_type, 'source', j.source, 'destination', j.destination,
                   'rule', j.rule, 'transformation', j.transformation, 'exception_queue', j.exception_queue,
                   'poll_interval', j.poll_interval, 'options', nullif(j.options::jsonb, '{}'),
                   'require_guarantee', j.require_guarantee, 'enabled', j.enabled, 'comments', j.comments, 'of_a_schedule',
                   CASE WHEN EXISTS (SELECT FROM gw_outbound_schedule o WHERE o.job_id = j.id) THEN true END)
          INTO v_seen FROM gw_job j JOIN gw_job_state s ON s.job_id = j.id
         WHERE j.name_key = v_key AND j.schedule IS NOT NULL AND s.status NOT IN @leaving@;
    END IF;
    IF p_kind IN ('subscriber', 'schedule') THEN
        v_seen := @adm@._seen_old_style(p_kind, v_key);
    END IF;
    v_seen := jsonb_strip_nulls(v_seen);
    RETURN CASE WHEN cardinality(v_secrets) > 0 THEN v_seen || jsonb_build_object('secrets', to_jsonb(v_secrets)) ELSE v_seen END;
END $$;

-- Write into the audit what was changed; nothing, where everything is as it was, unless it is a deed.
CREATE OR REPLACE FUNCTION @adm@._keep(p_kind text, p_name text, p_verb text, p_deed boolean, p_before jsonb) RETURNS void
LANGUAGE plpgsql AS $$
DECLARE
    v_after jsonb := @adm@._seen(p_kind, p_name);
    v_same boolean := p_before IS NOT DISTINCT FROM v_after;
BEGIN
    IF v_same AND NOT p_deed THEN
        RETURN;
    END IF;
    INSERT INTO aq_audit (time, actor, through, action, object, messages, kind, before_change, after_change, version)
    SELECT @adm@._now(), session_user, 'sql', coalesce(p_verb, CASE WHEN p_before IS NULL THEN 'create' WHEN v_after IS NULL THEN 'remove' ELSE 'alter' END)
           || ' ' || p_kind, coalesce(v_after ->> 'name', p_before ->> 'name', p_name), 0, p_kind,
           CASE WHEN NOT v_same THEN p_before::text END, CASE WHEN NOT v_same THEN v_after::text END, c.version
      FROM gw_change c WHERE c.id = 1;
END $$;

-- ------------------------------------------------------------------------------------------------------------- names

CREATE OR REPLACE FUNCTION @adm@._identifier(p_kind text, p_name text, p_queue boolean DEFAULT false) RETURNS void
LANGUAGE plpgsql AS $$
BEGIN
    IF p_name IS NULL OR p_name ~ '^\s*$' THEN
        PERFORM @adm@._refuse(32801, p_kind || ' name is missing', @adm@._repr(p_name) || ' names nothing',
            format('give the %s a name', p_kind));
    ELSIF octet_length(p_name) > 128 THEN
        PERFORM @adm@._refuse(32805,
            format('%s name %s... has %s bytes', p_kind, @adm@._repr(left(p_name, 40)), octet_length(p_name)),
            'a name holds at most 128 bytes', 'choose a shorter name');
    ELSIF NOT (p_name COLLATE "C") ~ (CASE WHEN p_queue THEN '^[!-?A-~]+$' ELSE '^[A-Za-z][A-Za-z0-9_$#.-]*$' END) THEN
        PERFORM @adm@._refuse(32804, format('%s name %s cannot be used', p_kind, @adm@._repr(p_name)),
            'a name is ' || CASE WHEN p_queue THEN 'printable ASCII characters without blanks and @'
                                 ELSE 'a letter first, then letters, digits and _ $ # . -' END, 'rename it');
    END IF;
END $$;

CREATE OR REPLACE FUNCTION @adm@._text(p_what text, p_text text) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    IF length(p_text) > 4000 THEN
        PERFORM @adm@._refuse(32806, format('%s has %s characters', p_what, length(p_text)),
            'it holds at most 4000', 'shorten it');
    END IF;
END $$;

-- ----------------------------------------------------------------------------------------------------------- options

-- A mapping as the gateway stores it: names in order, and no blanks.
CREATE OR REPLACE FUNCTION @adm@._compact(p_values jsonb) RETURNS text LANGUAGE sql IMMUTABLE AS $$
    SELECT '{' || coalesce(string_agg(to_json(o.key)::text || ':' || o.value::text, ',' ORDER BY o.key COLLATE "C"), '') || '}'
      FROM jsonb_each(p_values) o
$$;

CREATE OR REPLACE FUNCTION @adm@._mapping(p_what text, p_given jsonb) RETURNS jsonb LANGUAGE plpgsql AS $$
BEGIN
    IF p_given IS NULL OR jsonb_typeof(p_given) = 'null' THEN
        RETURN '{}';
    ELSIF jsonb_typeof(p_given) <> 'object' THEN
        PERFORM @adm@._refuse(32804, p_what || ' cannot be read', 'they are no JSON object', 'write {"name": value, ...}');
    END IF;
    RETURN p_given;
END $$;

-- One value as the type of its option has it; the refusal has the number of the caller.
CREATE OR REPLACE FUNCTION @adm@._value(p_field jsonb, p_value jsonb, p_owner text, p_number integer) RETURNS jsonb
LANGUAGE plpgsql AS $$
DECLARE
    v_given text := p_value #>> '{}';
    v_text text;
    v_type text := p_field ->> 'type';
    v_cause text;
    v_found jsonb;
    v_choice text;
    v_number double precision;
BEGIN
    IF jsonb_typeof(p_value) = 'boolean' THEN
        v_given := initcap(v_given);
    ELSIF jsonb_typeof(p_value) = 'number' AND v_given::numeric % 1 = 0 AND v_type IN ('int', 'bool') THEN
        v_given := trunc(v_given::numeric)::text;
    END IF;
    v_text := btrim(v_given, E' \t\n\r\f\v');
    IF jsonb_typeof(p_value) IN ('object', 'array') THEN
        v_cause := (p_field ->> 'kind') || ' is expected';
    ELSIF v_type = 'bool' THEN
        v_found := CASE WHEN lower(v_text) IN ('true', 'yes', 'on', '1') THEN to_jsonb(true)
                        WHEN lower(v_text) IN ('false', 'no', 'off', '0') THEN to_jsonb(false) END;
    ELSIF v_type = 'int' THEN
        v_found := CASE WHEN v_text ~ '^[+-]?[0-9]+(_[0-9]+)*$' THEN to_jsonb(replace(v_text, '_', '')::numeric) END;
    ELSIF v_type = 'float' THEN
        v_found := CASE WHEN v_text ~ '^[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]{1,3})?$'
                        THEN to_jsonb(v_text::double precision) END;
    ELSE
        v_found := to_jsonb(v_given);
    END IF;
    IF v_found IS NULL THEN
        v_cause := (p_field ->> 'kind') || ' is expected';
    ELSIF jsonb_array_length(p_field -> 'choices') > 0 THEN
        SELECT c.value INTO v_choice FROM jsonb_array_elements_text(p_field -> 'choices') c WHERE lower(c.value) = lower(v_found #>> '{}');
        IF FOUND THEN
            RETURN to_jsonb(v_choice);
        END IF;
        v_cause := 'one of ' || (SELECT string_agg(c.value, ', ') FROM jsonb_array_elements_text(p_field -> 'choices') c) || ' is expected';
    ELSIF v_type IN ('int', 'float') THEN
        v_number := (v_found #>> '{}')::double precision;
        IF v_number < (p_field ->> 'minimum')::double precision THEN
            v_cause := 'the smallest value is ' || (p_field ->> 'smallest');
        ELSIF v_number > (p_field ->> 'maximum')::double precision THEN
            v_cause := 'the largest value is ' || (p_field ->> 'largest');
        END IF;
    END IF;
    IF v_cause IS NOT NULL THEN
        PERFORM @adm@._refuse(p_number, format('%s: %s cannot be %s', p_owner, p_field ->> 'name',
            CASE WHEN (p_field ->> 'secret')::boolean THEN '***' ELSE @adm@._repr(v_text) END), v_cause, p_field ->> 'cure');
    END IF;
    RETURN v_found;
END $$;

-- A value of an option as the text that is stored.
CREATE OR REPLACE FUNCTION @adm@._stored(p_field jsonb, p_value jsonb) RETURNS text LANGUAGE sql IMMUTABLE AS $$
    SELECT CASE p_field ->> 'type'
           WHEN 'bool' THEN upper(p_value #>> '{}')
           WHEN 'float' THEN regexp_replace((p_value #>> '{}')::double precision::text, '^(-?[0-9]+)$', '\1.0')
           ELSE p_value #>> '{}' END
$$;

CREATE OR REPLACE FUNCTION @adm@._field(p_fields jsonb, p_name text) RETURNS jsonb LANGUAGE sql IMMUTABLE AS $$
    SELECT f.value FROM jsonb_array_elements(p_fields) WITH ORDINALITY f WHERE lower(f.value ->> 'name') = lower(p_name)
     ORDER BY f.ordinality DESC LIMIT 1
$$;

CREATE OR REPLACE FUNCTION @adm@._names(p_fields jsonb) RETURNS text LANGUAGE sql IMMUTABLE AS $$
    SELECT string_agg(n.name, ', ' ORDER BY n.place)
      FROM (SELECT (array_agg(f.value ->> 'name' ORDER BY f.ordinality DESC))[1] AS name, min(f.ordinality) AS place
              FROM jsonb_array_elements(p_fields) WITH ORDINALITY f GROUP BY lower(f.value ->> 'name')) n
$$;
