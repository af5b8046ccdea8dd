-- The hub from SQL, PostgreSQL: the functions of schema aq (docs/how-to/use-the-hub-from-sql.md).
--
-- mgw.gateway.aq.functions.functions_sql puts the names in for the words between @, the schema before aq_..., and runs this text.
-- Functions that begin with _ are internal: they run with the rights of their caller, and callers have none on the
-- hub's tables. The others are SECURITY DEFINER with a fixed search_path, and check what they are given.
-- What they do is what session.py, transfer.py, codec.py and statements_time.py do in an application's transaction.

CREATE OR REPLACE FUNCTION @aq@.version() RETURNS integer LANGUAGE sql IMMUTABLE PARALLEL SAFE AS 'SELECT @version@';

-- ------------------------------------------------------------------------------------------------------------ errors

CREATE OR REPLACE FUNCTION @aq@._refuse(p_number integer, p_what text, p_cause text, p_cure text) RETURNS void
LANGUAGE plpgsql AS $$
BEGIN
    RAISE EXCEPTION USING
        ERRCODE = 'MG' || lpad((p_number % 1000)::text, 3, '0'),
        MESSAGE = CASE WHEN p_number > 0 THEN format('ORA-%s: %s', lpad(p_number::text, 5, '0'), p_what) ELSE p_what END,
        DETAIL = 'cause: ' || p_cause,
        HINT = p_cure;
END $$;

-- ------------------------------------------------------------------------------------------------------ upper case

-- Keys are made by Python. Letters of ASCII get the same upper case in every database, whatever its locale does with an i;
-- what becomes of others, only the locale can say: nothing at all (C), or less than Python does (ß).
CREATE OR REPLACE FUNCTION @aq@._upper(p_name text) RETURNS text LANGUAGE sql IMMUTABLE PARALLEL SAFE AS $$
    SELECT upper(upper(p_name COLLATE "C") COLLATE "default")
$$;

-- The name of an agent as names.py reads it: without blanks around it (those of Python), then without quotes.
CREATE OR REPLACE FUNCTION @aq@._agent(p_name text) RETURNS text LANGUAGE sql IMMUTABLE PARALLEL SAFE AS $$
    SELECT regexp_replace(substring(p_name,
        '^[\t-\r\u001c- \u0085\u00a0\u1680\u2000-\u200a\u2028\u2029\u202f\u205f\u3000]*'
        '(.*?)'
        '[\t-\r\u001c- \u0085\u00a0\u1680\u2000-\u200a\u2028\u2029\u202f\u205f\u3000]*$'), '^"(.+)"$', '\1')
$$;

-- ------------------------------------------------------------------------------------------------------------ rights

-- Whether whoever logged in has the rights of the hub's owner: nothing is checked then.
CREATE OR REPLACE FUNCTION @aq@._is_owner() RETURNS boolean LANGUAGE plpgsql STABLE AS $$
BEGIN
    RETURN (SELECT pg_has_role(session_user, c.relowner, 'USAGE') FROM pg_class c WHERE c.oid = 'aq_hub'::regclass);
END $$;

-- A queue that is not there, or not for this user: the same words.
CREATE OR REPLACE FUNCTION @aq@._refuse_unknown(p_name text, p_need text, p_schema text) RETURNS void
LANGUAGE plpgsql AS $$
BEGIN
    IF @aq@._is_owner() THEN
        PERFORM @aq@._refuse(25205, format('queue %L does not exist', p_name), 'no queue of that name is in the hub',
            'create it (create_queue), or list those that exist: mgw aq queues');
    END IF;
    PERFORM @aq@._refuse(25205, format('queue %L does not exist for user %s', p_name, session_user),
        'no queue of that name is in the hub, or the user has no privilege on it',
        format('correct the name, or have %s or an administrator grant %s privilege %s', p_schema, session_user, p_need));
END $$;

-- What privileges.py checks for a session with a user (ENQUEUE or DEQUEUE). p_agent: sender, or consumer.
-- False: the user holds nothing, and is not to know of the queue; its caller refuses it as one that is not there.
CREATE OR REPLACE FUNCTION @aq@._authorize(
    p_queue bigint, p_shown text, p_schema text, p_need text, p_secure boolean, p_agent text, p_needs_consumer boolean)
RETURNS boolean LANGUAGE plpgsql AS $$
DECLARE
    v_user text := session_user;
    v_key text := @aq@._upper(session_user::text);  -- in the collation of type name, ASCII alone has an upper case
    v_names text[];
    v_system text[];
    v_queue text[];
    v_agents text[];
    v_agent text := @aq@._agent(p_agent);
BEGIN
    IF v_key = @aq@._upper(p_schema) THEN
        RETURN true;
    END IF;
    WITH RECURSIVE known(name) AS (
        SELECT v_key UNION SELECT 'PUBLIC'
         UNION SELECT r.role_key FROM aq_role r JOIN known ON known.name = r.grantee_key)
    SELECT array_agg(k.name) INTO v_names FROM known k
     WHERE k.name <> v_key OR v_key <> 'AQ_ADMINISTRATOR_ROLE';  -- a login of that name does not hold the role
    SELECT coalesce(array_agg(p.privilege) FILTER (WHERE p.queue_id = 0), '{}'),
           coalesce(array_agg(p.privilege) FILTER (WHERE p.queue_id = p_queue), '{}')
      INTO v_system, v_queue FROM aq_privilege p
     WHERE p.grantee_key = ANY (v_names) AND p.queue_id IN (0, p_queue);
    IF NOT ('AQ_ADMINISTRATOR_ROLE' = ANY (v_names) OR p_need || '_ANY' = ANY (v_system) OR p_need = ANY (v_queue)) THEN
        IF v_system = '{}' AND v_queue = '{}' THEN
            RETURN false;
        END IF;
        PERFORM @aq@._refuse(1031, format('user %s may not %s on queue %s', v_user, lower(p_need), p_shown),
            format('the user holds neither %s on it nor %s_ANY', p_need, p_need),
            format('have %s or an administrator do: grant_queue_privilege(%L, %L, %L)', p_schema, p_need, p_shown, v_user));
    ELSIF NOT p_secure THEN
        RETURN true;
    END IF;
    SELECT coalesce(array_agg(a.agent_key), '{}') INTO v_agents FROM aq_agent_user a WHERE a.user_key = v_key;
    v_agent := coalesce(CASE WHEN p_need = 'DEQUEUE' THEN (SELECT n.name_key FROM @aq@._named(p_queue, v_agent) n) END,
        (SELECT a.name_key FROM aq_agent a WHERE a.name = v_agent), @aq@._upper(v_agent));
    IF v_agent = ANY (v_agents) THEN
        RETURN true;
    ELSIF p_need = 'ENQUEUE' AND coalesce(p_agent, '') = '' THEN
        PERFORM @aq@._refuse(25224, format('message 0 for secure queue %s has no sender', p_shown),
            format('only its owner, user %s, may enqueue without', p_schema),
            format('give sender_name, an AQ agent of user %s', v_user));
    ELSIF p_need = 'ENQUEUE' THEN
        PERFORM @aq@._refuse(24093, format('message 0 for secure queue %s has sender %s', p_shown, p_agent),
            format('no AQ agent of that name has the privileges of user %s', v_user),
            format('have an administrator map it: enable_db_access(%L, %L)', p_agent, v_user));
    ELSIF p_agent IS NOT NULL THEN
        PERFORM @aq@._refuse(24093,
            format('user %s may not dequeue from secure queue %s as consumer %s', v_user, p_shown, p_agent),
            format('no AQ agent of that name has the privileges of user %s', v_user),
            format('have an administrator map it: enable_db_access(%L, %L)', p_agent, v_user));
    ELSIF v_agents = '{}' AND NOT p_needs_consumer THEN
        PERFORM @aq@._refuse(24093, format('user %s may not dequeue from secure queue %s', v_user, p_shown),
            'no AQ agent has the privileges of the user',
            format('have an administrator map one: enable_db_access(agent, %L)', v_user));
    END IF;
    RETURN true;
END $$;

-- ------------------------------------------------------------------------------------------------------------- names

-- Schema and name of [schema.]name, or NULL if its form is wrong.
CREATE OR REPLACE FUNCTION @aq@._parts(p_name text, p_schema text) RETURNS text[]
LANGUAGE plpgsql IMMUTABLE AS $$
DECLARE
    parts text[] := regexp_match(p_name, '^\s*(?:(?:"([^"]+)"|([[:alnum:]][[:alnum:]_$#/+-]*))\.)?'
                                         '(?:"([^"]+)"|([[:alnum:]][[:alnum:]_$#/+-]*))\s*$');
BEGIN
    RETURN CASE WHEN parts IS NOT NULL
                THEN ARRAY[coalesce(parts[1], parts[2], p_schema), coalesce(parts[3], parts[4])] END;
END $$;

-- What names.py compares: a schema with a dot in it stands in quotes, so that no two objects have one key.
CREATE OR REPLACE FUNCTION @aq@._key_of(p_schema text, p_name text) RETURNS text LANGUAGE sql IMMUTABLE AS $$
    SELECT @aq@._upper(CASE WHEN strpos(p_schema, '.') > 0 THEN '"' || p_schema || '"' ELSE p_schema END
                       || '.' || p_name)
$$;

-- A name as names.py shows it: in quotes where it needs them, and without the default schema.
CREATE OR REPLACE FUNCTION @aq@._quoted(p_part text) RETURNS text LANGUAGE sql IMMUTABLE AS $$
    SELECT CASE WHEN p_part ~ '^[[:alnum:]][[:alnum:]_$#/+-]*$' THEN p_part ELSE '"' || p_part || '"' END
$$;

CREATE OR REPLACE FUNCTION @aq@._shown(p_schema text, p_name text) RETURNS text LANGUAGE sql IMMUTABLE AS $$
    SELECT CASE WHEN @aq@._upper(p_schema) = 'MGW' THEN '' ELSE @aq@._quoted(p_schema) || '.' END || @aq@._quoted(p_name)
$$;

-- Key of [schema.]name, or NULL if its form is wrong.
CREATE OR REPLACE FUNCTION @aq@._key(p_name text, p_schema text) RETURNS text LANGUAGE sql IMMUTABLE AS $$
    SELECT @aq@._key_of(o.parts[1], o.parts[2]) FROM @aq@._parts(p_name, p_schema) o(parts)
$$;

-- A queue, as it is now. p_hold, enqueue or dequeue, is what the transaction is going to do if the queue is enabled for
-- it: the queue cannot be stopped then before the transaction ends (a shared lock). p_need is the privilege asked for,
-- p_agent the sender or consumer.
CREATE OR REPLACE FUNCTION @aq@._queue(
    p_name text, p_hold text, p_need text, p_agent text,
    OUT id bigint, OUT shown text, OUT schema text, OUT queue_type text, OUT payload_type text, OUT sort_list text,
    OUT multiple boolean, OUT max_payload bigint, OUT message_grouping text, OUT secure boolean,
    OUT enqueue_enabled boolean, OUT dequeue_enabled boolean, OUT max_retries bigint, OUT retry_delay double precision,
    OUT retention double precision, OUT exceptions_key text, OUT table_id bigint, OUT hub_id bytea)
LANGUAGE plpgsql AS $$
#variable_conflict use_column
DECLARE
    v_parts text[] := @aq@._parts(p_name, 'MGW');
    v_key text := @aq@._key_of(v_parts[1], v_parts[2]);
    v_allowed boolean := p_need IS NULL OR @aq@._is_owner();
    v_held boolean;
    v_class integer;
BEGIN
    IF v_key IS NULL THEN
        PERFORM @aq@._refuse(25200, format('queue name %L is not valid', p_name),
            'a name is [schema.]name: letters, digits and _ $ # - / +, beginning with a letter or a digit',
            'put any other name in double quotes');
    ELSIF octet_length(v_parts[1]) > 128 OR octet_length(v_parts[2]) > 128 THEN
        PERFORM @aq@._refuse(24019, format('queue name %L... is too long', left(p_name, 40)),
            'at most 128 bytes are allowed', 'use a shorter name');
    END IF;
    LOOP
        SELECT q.id, @aq@._shown(q.schema, q.name), q.schema,
               q.queue_type, t.payload_type, t.sort_list, t.multiple_consumers <> 0, t.max_payload, t.message_grouping,
               t.secure <> 0, q.enqueue_enabled = @STARTED@, q.dequeue_enabled = @STARTED@, coalesce(q.max_retries, 5), q.retry_delay,
               q.retention_time, @aq@._key_of(t.schema, 'AQ$_' || t.name || '_E'), t.id, h.hub_id, q.tableoid::integer,
               CASE WHEN CASE p_hold WHEN 'enqueue' THEN q.enqueue_enabled WHEN 'dequeue' THEN q.dequeue_enabled END = @STARTED@
                    THEN pg_try_advisory_xact_lock_shared(q.tableoid::integer, (q.id % 2147483647)::integer) END
          INTO id, shown, schema, queue_type, payload_type, sort_list, multiple, max_payload, message_grouping,
               secure, enqueue_enabled, dequeue_enabled, max_retries, retry_delay, retention, exceptions_key, table_id,
               hub_id, v_class, v_held
          FROM aq_queue q JOIN aq_queue_table t ON t.id = q.queue_table_id CROSS JOIN aq_hub h
         WHERE q.name_key = v_key;
        IF FOUND AND NOT v_allowed THEN
            v_allowed := @aq@._authorize(id, shown, schema, p_need, secure, p_agent,
                multiple AND queue_type = 'NORMAL_QUEUE');
        ELSIF NOT FOUND THEN
            v_allowed := false;
        END IF;
        IF NOT v_allowed THEN  -- in one place for both: the context of an error is shown, too
            PERFORM @aq@._refuse_unknown(p_name, p_need, @aq@._upper(v_parts[1]));
        END IF;
        EXIT WHEN v_held IS NOT FALSE;
        PERFORM pg_advisory_xact_lock_shared(v_class, (id % 2147483647)::integer);  -- it is being stopped or purged
    END LOOP;
END $$;

-- ----------------------------------------------------------------------------------------------------------- headers

-- The stored form of a header array, [[name, type, value], ...], or NULL for none. An object gives types by its values.
CREATE OR REPLACE FUNCTION @aq@._headers(p_given jsonb, p_limits boolean) RETURNS text
LANGUAGE plpgsql IMMUTABLE AS $$
DECLARE
    v_given jsonb := p_given;
    v_header jsonb;
    v_name text;
    v_code integer;
    v_type text;
    v_value jsonb;
    v_parts text[] := '{}';
BEGIN
    IF jsonb_typeof(v_given) = 'object' THEN
        SELECT jsonb_agg(jsonb_build_array(o.key, CASE jsonb_typeof(o.value)
                   WHEN 'string' THEN 1 WHEN 'boolean' THEN 3 WHEN 'number' THEN
                   CASE WHEN (o.value)::numeric % 1 <> 0 OR abs((o.value)::numeric) > 9223372036854775807 THEN 9
                        WHEN abs((o.value)::numeric) <= 2147483647 THEN 6 ELSE 7 END
                   ELSE 0 END, o.value))
          INTO v_given FROM jsonb_each(v_given) o;
    END IF;
    IF v_given IS NULL OR jsonb_typeof(v_given) = 'null' THEN
        RETURN NULL;
    ELSIF jsonb_typeof(v_given) <> 'array' THEN
        PERFORM @aq@._refuse(0, 'headers cannot be stored', 'they are neither a JSON object nor an array',
            'give {"name": value, ...} or [["name", type, value], ...]');
    ELSIF p_limits AND jsonb_array_length(v_given) > 1024 THEN
        PERFORM @aq@._refuse(0, format('message has %s headers', jsonb_array_length(v_given)),
            'a header array holds at most 1024', 'put fewer headers on the message');
    END IF;
    FOR v_header IN SELECT e.value FROM jsonb_array_elements(v_given) WITH ORDINALITY e ORDER BY e.ordinality LOOP
        v_name := v_header ->> 0;
        v_value := v_header -> 2;
        v_type := jsonb_typeof(v_value);
        v_code := CASE jsonb_typeof(v_header -> 1)
            WHEN 'number' THEN array_position('{1,2,3,4,5,6,7,8,9,10,11,12,13,14,15}'::numeric[], (v_header -> 1)::numeric)
            ELSE array_position('{TEXT,RAW,BOOLEAN,BYTE,SHORT,INTEGER,LONG,FLOAT,DOUBLE,DATE,JSON,DECIMAL,UBYTE,USHORT,UINT}'::text[],
                                @aq@._upper(v_header ->> 1)) END;
        IF jsonb_typeof(v_header) <> 'array' OR jsonb_array_length(v_header) <> 3
           OR jsonb_typeof(v_header -> 0) <> 'string' OR v_code IS NULL THEN
            PERFORM @aq@._refuse(0, format('header %s cannot be stored', left(v_header::text, 100)),
                'it is not [name, type, value], with a type of 1 to 15 or TEXT, RAW, BOOLEAN, BYTE, SHORT, INTEGER, '
                'LONG, FLOAT, DOUBLE, DATE, JSON, DECIMAL, UBYTE, USHORT, UINT', 'correct the header');
        ELSIF p_limits AND length(v_name) > 250 THEN
            PERFORM @aq@._refuse(0, format('header name %L... has %s characters', left(v_name, 40), length(v_name)),
                'a header name holds at most 250', 'shorten the name');
        ELSIF p_limits AND ((v_code IN (1, 11, 12) AND length(v_value #>> '{}') > 4000)
                            OR (v_code = 2 AND length(v_value #>> '{}') > 4 * 2000)) THEN
            PERFORM @aq@._refuse(0, format('value of header %L is %s long', v_name, length(v_value #>> '{}')),
                'a header value holds at most 4000 characters or 2000 bytes', 'carry large values in the body');
        END IF;
        IF v_code IN (1, 11, 12) AND v_type = 'string' OR v_code = 3 AND v_type = 'boolean' THEN
            NULL;
        ELSIF v_code = 2 AND v_type = 'string' THEN
            BEGIN
                v_value := to_jsonb(translate(encode(decode(v_value #>> '{}', 'base64'), 'base64'), E'\n', ''));
            EXCEPTION WHEN invalid_parameter_value THEN
                PERFORM @aq@._refuse(0, format('header %L cannot be stored', v_name), 'its raw value is no base64 text',
                    'give encode(value, ''base64'')');
            END;
            IF p_limits AND octet_length(decode(v_value #>> '{}', 'base64')) > 2000 THEN
                PERFORM @aq@._refuse(0, format('value of header %L is too long', v_name),
                    'a header value holds at most 2000 bytes', 'carry large values in the body');
            END IF;
        ELSIF (v_code BETWEEN 4 AND 7 OR v_code > 12) AND v_type = 'number' AND v_value::numeric % 1 = 0
              AND v_value::numeric BETWEEN -9223372036854775808 AND 9223372036854775807 THEN
            v_value := to_jsonb(trunc(v_value::numeric));
        ELSIF v_code BETWEEN 8 AND 10 AND v_type = 'number' AND abs(v_value::numeric) <= 1.7976931348623157e308::numeric THEN
            NULL;
        ELSIF v_code BETWEEN 8 AND 10 AND v_type = 'string' AND v_value #>> '{}' IN ('nan', 'inf', '-inf') THEN
            NULL;
        ELSE
            PERFORM @aq@._refuse(0, format('header %L cannot be stored', v_name),
                format('its value %s does not have its type, %s', left(v_value::text, 100), v_header ->> 1),
                'correct type or value');
        END IF;
        v_parts := v_parts || jsonb_build_array(v_name, v_code, v_value)::text;
    END LOOP;
    RETURN CASE WHEN cardinality(v_parts) > 0 THEN '[' || array_to_string(v_parts, ',') || ']' END;
END $$;

-- Value of the first header of that name, as text; raw values in base64. One with a NUL character does not exist for SQL.
CREATE OR REPLACE FUNCTION @aq@.header(headers json, name text) RETURNS text
LANGUAGE sql IMMUTABLE PARALLEL SAFE AS $$
    SELECT h.value ->> 2 FROM json_array_elements(headers) WITH ORDINALITY h
     WHERE CASE WHEN h.value::text !~ E'(^|[^\\\\])(\\\\\\\\)*\\\\u0000' THEN h.value ->> 0 END = name
     ORDER BY h.ordinality LIMIT 1
$$;

-- ------------------------------------------------------------------------------------------------------------ agents

-- The consumer of that name; NULL if there is none. Beyond ASCII the name as it was given is found, too.
CREATE OR REPLACE FUNCTION @aq@._named(p_queue bigint, p_name text, OUT id bigint, OUT transformation text, OUT name_key text)
LANGUAGE plpgsql AS $$
#variable_conflict use_column
BEGIN
    SELECT c.id, c.transformation, c.name_key INTO id, transformation, name_key FROM aq_consumer c
     WHERE c.queue_id = p_queue AND c.name_key = @aq@._upper(p_name) AND c.address = '' AND c.protocol = 0;
    IF NOT FOUND AND p_name ~ '[^\x01-\x7f]' THEN
        SELECT c.id, c.transformation, c.name_key INTO id, transformation, name_key FROM aq_consumer c
         WHERE c.queue_id = p_queue AND c.name = p_name AND c.address = '' AND c.protocol = 0;
    END IF;
END $$;

-- The consumers of a recipient list; names that are new are stored as mere recipients, if their key is beyond doubt.
CREATE OR REPLACE FUNCTION @aq@._recipients(p_queue bigint, p_shown text, p_names text[], p_now double precision)
RETURNS bigint[] LANGUAGE plpgsql AS $$
DECLARE
    v_given text;
    v_name text;
    v_id bigint;
    v_found bigint[] := '{}';
BEGIN
    IF cardinality(p_names) > 1024 THEN
        PERFORM @aq@._refuse(25251, format('%s recipients given', cardinality(p_names)), 'at most 1024 are allowed',
            'name fewer, or subscribe them');
    END IF;
    FOREACH v_given IN ARRAY p_names LOOP
        v_name := @aq@._agent(v_given);
        IF v_name IS NULL THEN
            PERFORM @aq@._refuse(25216, 'a recipient has neither name nor address', 'its name is NULL',
                'name the recipient');
        ELSIF length(v_name) > 128 THEN
            PERFORM @aq@._refuse(24019, format('recipient name %L is too long', left(v_given, 40)),
                format('%s characters, at most 128 are allowed', length(v_name)), 'use a shorter name');
        ELSIF v_name = '' OR v_name ~ '[[:cntrl:]]' THEN
            PERFORM @aq@._refuse(24047, format('recipient name %L is not valid', left(v_given, 40)),
                'a name has 1 to 128 printable characters', 'use another name');
        ELSIF @aq@._upper(v_name) LIKE 'AQ$\_%' THEN
            PERFORM @aq@._refuse(24049, format('recipient name %L is reserved', v_name),
                'names that begin with AQ$_ belong to the hub', 'use another name');
        END IF;
        SELECT n.id INTO v_id FROM @aq@._named(p_queue, v_name) n;
        IF v_id IS NULL AND v_name ~ '[^\x01-\x7f]' THEN
            PERFORM @aq@._refuse(24035, format('consumer %L of queue %s does not exist', v_name, p_shown),
                'SQL makes no recipients with letters beyond ASCII: their upper case may be another one in Python',
                'write the name as the subscriber''s, add it with add_subscriber, or name it in Python first');
        ELSIF v_id IS NULL THEN
            INSERT INTO aq_consumer (queue_id, name, name_key, address, protocol, is_subscriber, delivery_mode,
                                     queue_to_queue, created)
            VALUES (p_queue, v_name, @aq@._upper(v_name), '', 0, 0, 'PERSISTENT', 0, p_now) ON CONFLICT DO NOTHING;
            SELECT n.id INTO v_id FROM @aq@._named(p_queue, v_name) n;
            IF v_id IS NULL THEN
                PERFORM @aq@._refuse(24035, format('consumer %L of queue %s could not be stored', v_name, p_shown),
                    'another transaction stored it meanwhile, and this one must not see it', 'repeat the transaction');
            END IF;
        END IF;
        IF v_id = ANY (v_found) THEN
            PERFORM @aq@._refuse(25232, format('recipient %L is listed twice', v_name), 'each gets a message once',
                'list every recipient once');
        END IF;
        v_found := v_found || v_id;
    END LOOP;
    RETURN v_found;
END $$;

-- The consumer that dequeues; 0 on a single-consumer queue.
CREATE OR REPLACE FUNCTION @aq@._consumer(p_queue bigint, p_shown text, p_multiple boolean, p_name text) RETURNS bigint
LANGUAGE plpgsql AS $$
DECLARE
    v_id bigint;
    v_transformation text;
BEGIN
    IF NOT p_multiple AND p_name IS NOT NULL THEN
        PERFORM @aq@._refuse(25256, format('consumer %L given for queue %s', p_name, p_shown),
            'the queue is a single-consumer queue', 'leave the consumer name out');
    ELSIF NOT p_multiple THEN
        RETURN 0;
    ELSIF p_name IS NULL THEN
        PERFORM @aq@._refuse(25231, format('no consumer given for queue %s', p_shown),
            'the queue is a multi-consumer queue', 'name one of its subscribers as consumer');
    END IF;
    SELECT n.id, n.transformation INTO v_id, v_transformation
      FROM @aq@._named(p_queue, @aq@._agent(p_name)) n;
    IF v_id IS NULL THEN
        PERFORM @aq@._refuse(24035, format('consumer %L of queue %s does not exist', p_name, p_shown),
            'it is not a subscriber, and no message ever named it as a recipient', 'add it with add_subscriber');
    ELSIF v_transformation IS NOT NULL THEN
        PERFORM @aq@._refuse(25229, format('consumer %L of queue %s cannot be served by SQL', p_name, p_shown),
            format('its messages go through transformation %s, which runs in Python', v_transformation),
            'dequeue with a session in Python');
    END IF;
    RETURN v_id;
END $$;
