-- ------------------------------------------------------------------------------------------------------------- links

-- Typed values of settings, under their names in lower case, defaults filled in; those without a value are left out.
CREATE OR REPLACE FUNCTION @adm@._parsed(p_fields jsonb, p_given jsonb, p_owner text) RETURNS jsonb LANGUAGE plpgsql AS $$
DECLARE
    v_result jsonb;
    v_given record;
    v_field jsonb;
    v_value jsonb;
BEGIN
    SELECT coalesce(jsonb_object_agg(lower(f.value ->> 'name'), f.value -> 'default'), '{}') INTO v_result FROM jsonb_array_elements(p_fields) f;
    FOR v_given IN SELECT o.key, o.value FROM jsonb_each(p_given) o LOOP
        v_field := @adm@._field(p_fields, v_given.key);
        IF v_field IS NULL THEN
            PERFORM @adm@._refuse(32801, format('%s: option %s is unknown', p_owner, @adm@._repr(v_given.key)),
                'no setting has that name', 'use one of ' || coalesce(@adm@._names(p_fields), '(none)'));
        ELSIF v_given.value #>> '{}' = '<<ENCRYPTED>>' THEN
            v_result := v_result || jsonb_build_object(lower(v_field ->> 'name'), v_given.value);
        ELSIF jsonb_typeof(v_given.value) <> 'null' THEN
            v_value := @adm@._value(v_field, v_given.value, p_owner, 32801);
            v_result := v_result || jsonb_build_object(lower(v_field ->> 'name'),
                CASE v_field ->> 'type' WHEN 'float' THEN to_jsonb(@adm@._stored(v_field, v_value)::numeric) ELSE v_value END);
        END IF;
    END LOOP;
    FOR v_field IN SELECT f.value FROM jsonb_array_elements(p_fields) f WHERE (f.value ->> 'required')::boolean LOOP
        IF coalesce(v_result ->> lower(v_field ->> 'name'), '') = '' THEN
            PERFORM @adm@._refuse(32801, format('%s: %s is missing', p_owner, v_field ->> 'name'), 'it has no default',
                'set ' || (v_field ->> 'name'));
        END IF;
    END LOOP;
    RETURN jsonb_strip_nulls(v_result);
END $$;

-- Secrets are encrypted with a key that the database does not have.
CREATE OR REPLACE FUNCTION @adm@._no_secrets(p_link text, p_type jsonb, p_given jsonb, p_creates boolean) RETURNS void
LANGUAGE plpgsql AS $$
DECLARE
    v_name text;
BEGIN
    SELECT o.key INTO v_name FROM jsonb_each(p_given) o
     WHERE jsonb_typeof(o.value) <> 'null' AND (lower(o.key) = 'password' OR EXISTS (
           SELECT FROM jsonb_array_elements((p_type -> 'attributes') || (p_type -> 'options')) f
            WHERE lower(f.value ->> 'name') = lower(o.key) AND (f.value ->> 'secret')::boolean))
     ORDER BY o.key LIMIT 1;
    IF p_given ? 'hosts' AND jsonb_typeof(p_given -> 'hosts') <> 'null' THEN
        PERFORM @adm@._refuse_python(format('link %s: hosts cannot be given in SQL', p_link),
            'the nodes of a cluster are checked in Python', format('mgw links create %s ..., mgw apply', p_link));
    ELSIF v_name IS NOT NULL THEN
        PERFORM @adm@._refuse_python(format('link %s: %s cannot be given in SQL', p_link, lower(v_name)),
            'secrets are encrypted with a key that the database does not have, and a statement may be logged',
            CASE WHEN lower(v_name) <> 'password' THEN format('mgw apply, with %s in the file', lower(v_name))
                 WHEN p_creates THEN format('mgw links create %s ... --password-file FILE', p_link)
                 ELSE format('mgw links alter %s --password-file FILE', p_link) END);
    END IF;
END $$;

-- The text that stands for a secret that is stored is not given: it would be stored as if it were one.
CREATE OR REPLACE FUNCTION @adm@._no_marker(p_link text, p_given jsonb) RETURNS void LANGUAGE plpgsql AS $$
DECLARE
    v_name text := (SELECT o.key FROM jsonb_each(p_given) o WHERE jsonb_typeof(o.value) = 'string'
                       AND btrim(o.value #>> '{}', E' \t\n\r\f\v') = '<<ENCRYPTED>>' ORDER BY o.key LIMIT 1);
BEGIN
    IF v_name IS NOT NULL THEN
        PERFORM @adm@._refuse(32801, format('link %s: %s cannot be ''<<ENCRYPTED>>''', p_link, v_name),
            'that text stands for a secret that is stored and not shown', 'give another value, or leave it out, which keeps a secret');
    END IF;
END $$;

-- What can never work, as the link types know it; the files of a link are looked at by the agent that runs it.
CREATE OR REPLACE FUNCTION @adm@._check_link(p_link gw_link) RETURNS void LANGUAGE plpgsql AS $$
DECLARE
    v_owner text := 'link ' || p_link.name;
    v_values jsonb := p_link.attributes::jsonb;
    v_url text := (SELECT o.value #>> '{}' FROM jsonb_each(p_link.options::jsonb) o WHERE lower(o.key) = 'amqp_managementurl');
    v_protocol text := v_values ->> 'security_protocol';
    v_server text;
    v_reason text;
    v_what text;
    v_cause text;
    v_cure text;
BEGIN
    PERFORM @adm@._text('comment of ' || v_owner, p_link.comments);
    IF p_link.max_connections < 1 THEN
        PERFORM @adm@._refuse(32801, format('%s: max_connections cannot be %s', v_owner, p_link.max_connections),
            'it must be a whole number, at least 1', 'correct it, or leave it out');
    END IF;
    IF p_link.type = 'RABBITMQ' THEN
        IF v_url !~* '^https?://' AND v_url <> '' THEN
            v_what := format('AMQP_ManagementURL cannot be %s', @adm@._repr(v_url));
            v_cause := 'it is not an HTTP address';
            v_cure := 'write for example http://broker:15672';
        ELSIF v_url ~ '^[^:]+://[^/?#]*@' THEN
            v_what := 'AMQP_ManagementURL names a user';
            v_cause := 'the link''s own user and password are used';
            v_cure := 'remove the part before the @';
        END IF;
    ELSIF p_link.type = 'KAFKA' THEN
        SELECT btrim(s.value) INTO v_server FROM unnest(string_to_array(v_values ->> 'bootstrap_servers', ',')) WITH ORDINALITY s(value, place)
         WHERE btrim(s.value) !~ '^([^:,\s]+(:[0-9]{1,5})?|\[[0-9a-fA-F:]+\]:[0-9]{1,5})$' ORDER BY s.place LIMIT 1;
        IF v_values ->> 'tls' = 'true' AND v_protocol NOT LIKE '%SSL' THEN
            v_protocol := CASE WHEN v_protocol LIKE 'SASL%' THEN 'SASL_SSL' ELSE 'SSL' END;
        END IF;
        IF v_values ->> 'sasl_mechanism' = 'OAUTHBEARER' THEN
            PERFORM @adm@._refuse_python(format('%s: OAUTHBEARER cannot be set from SQL', v_owner),
                'it needs a secret or a file of the agent, and a token would go wherever the link leads',
                format('mgw links create %s, mgw apply', p_link.name));
        ELSIF v_server IS NOT NULL THEN
            v_what := format('bootstrap_servers cannot have %s', @adm@._repr(v_server));
            v_cause := 'a server is host:port';
            v_cure := 'write for example kafka1.example:9092,kafka2.example:9092';
        ELSIF p_link.inbound_log_queue IS NOT NULL THEN
            v_what := 'inbound_log_queue is refused';
            v_cause := 'a Kafka link does not need it: the positions of jobs that read from it are kept in the hub';
            v_cure := 'remove inbound_log_queue; such jobs are exactly once without it';
        ELSIF p_link.outbound_log_queue !~ '^[a-zA-Z0-9._-]{1,249}$' OR p_link.outbound_log_queue IN ('.', '..') THEN
            v_what := format('outbound_log_queue cannot be %s', @adm@._repr(p_link.outbound_log_queue));
            v_cause := 'it is the name of a topic: letters, digits, ''.'', ''_'', ''-'', at most 249';
            v_cure := 'name a compacted topic with a partition for every job that writes to the link';
        ELSIF v_values ->> 'tls' = 'false' AND v_protocol LIKE '%SSL' THEN
            v_what := format('tls is FALSE, and security_protocol is %s', v_protocol);
            v_cause := 'that protocol is encrypted';
            v_cure := 'leave tls out, or set security_protocol to PLAINTEXT or SASL_PLAINTEXT';
        ELSIF v_values ? 'tls_key_file' AND NOT v_values ? 'tls_cert_file' THEN
            NULL;  -- below
        ELSIF v_protocol LIKE '%SSL' AND v_values ->> 'tls_verify' = 'true' AND coalesce(v_values ->> 'tls_server_name', '') <> ''
              AND v_values ->> 'client' = 'confluent' THEN
            v_what := 'tls_server_name is refused';
            v_cause := 'librdkafka compares the certificate with the host that it connects to, and with no other name';
            v_cure := 'use client kafka-python, or a certificate with the host names that the servers advertise';
        ELSIF v_protocol LIKE 'SASL%' AND (coalesce(p_link.username, '') = '' OR p_link.password IS NULL) THEN
            v_what := 'username or password is missing';
            v_cause := format('security_protocol %s needs them to log in', v_protocol);
            v_cure := 'set username and password of the link';
        END IF;
    ELSIF p_link.type = 'MQTT' THEN
        IF p_link.inbound_log_queue IS NOT NULL THEN
            v_what := 'inbound_log_queue is refused';
            v_cause := 'an MQTT link does not need it: the state of jobs that read from it is kept in the hub';
            v_cure := 'remove inbound_log_queue';
        ELSE
            v_reason := CASE WHEN p_link.outbound_log_queue = '' THEN 'it is empty'
                WHEN p_link.outbound_log_queue ~ '[+#]' THEN 'it holds a wildcard (+ or #); only a source may be a pattern'
                WHEN p_link.outbound_log_queue LIKE '$%' THEN 'topics that begin with $ belong to the broker'
                ELSE coalesce(@adm@._mqtt_text(p_link.outbound_log_queue),
                    CASE WHEN strpos(p_link.outbound_log_queue, '{job}') = 0 THEN 'every job needs a topic of its own' END) END;
            IF v_reason IS NOT NULL THEN
                v_what := format('outbound_log_queue cannot be %s', @adm@._repr(p_link.outbound_log_queue));
                v_cause := v_reason;
                v_cure := 'name a topic for the records of each job, for example mgw/sent/{job}';
            ELSIF v_values ?| ARRAY['tls_ca_file', 'tls_cert_file', 'tls_key_file'] AND v_values ->> 'tls' = 'false' THEN
                v_what := 'TLS files are given, but tls is off';
                v_cause := 'the connection would not be encrypted';
                v_cure := 'set tls to TRUE, or leave the files out';
            END IF;
        END IF;
    END IF;
    IF v_what IS NULL AND coalesce(v_values ->> 'tls_key_file', '') <> '' AND coalesce(v_values ->> 'tls_cert_file', '') = '' THEN
        v_what := 'tls_key_file is given without tls_cert_file';
        v_cause := 'a key alone proves nothing';
        v_cure := 'set tls_cert_file to the certificate of this key, or leave both out';
    END IF;
    IF v_what IS NOT NULL THEN
        PERFORM @adm@._refuse(32801, v_owner || ': ' || v_what, v_cause, v_cure);
    END IF;
END $$;

-- What every link has, as columns of its row, taken out of the properties.
CREATE OR REPLACE FUNCTION @adm@._common(p_link gw_link, p_given jsonb) RETURNS gw_link LANGUAGE plpgsql AS $$
DECLARE
    v_link gw_link := p_link;
    v_connections text := p_given ->> 'max_connections';
BEGIN
    IF p_given ? 'max_connections' THEN
        IF v_connections IS NOT NULL AND (jsonb_typeof(p_given -> 'max_connections') <> 'number' OR v_connections !~ '^-?[0-9]{1,9}$') THEN
            PERFORM @adm@._refuse(32801, format('link %s: max_connections cannot be %s', p_link.name,
                CASE jsonb_typeof(p_given -> 'max_connections') WHEN 'string' THEN @adm@._repr(v_connections) ELSE v_connections END),
                'it must be a whole number, at least 1', 'correct it, or leave it out');
        END IF;
        v_link.max_connections := v_connections::integer;
    END IF;
    IF p_given ? 'username' THEN v_link.username := p_given ->> 'username'; END IF;
    IF p_given ? 'inbound_log_queue' THEN v_link.inbound_log_queue := p_given ->> 'inbound_log_queue'; END IF;
    IF p_given ? 'outbound_log_queue' THEN v_link.outbound_log_queue := p_given ->> 'outbound_log_queue'; END IF;
    RETURN v_link;
END $$;

CREATE OR REPLACE FUNCTION @adm@._create_msgsystem_link(
    p_name text, p_type text, p_properties jsonb, p_agent text, p_options jsonb, p_comment text, p_username text, p_password text,
    p_max_connections integer, p_inbound_log_queue text, p_outbound_log_queue text)
RETURNS void LANGUAGE plpgsql AS $$
DECLARE
    v_link gw_link;
    v_agent gw_agent;
    v_described jsonb := @adm@._described() -> 'types';
    v_type jsonb := v_described -> upper(p_type);
    v_given jsonb;
BEGIN
    PERFORM @adm@._identifier('link', p_name);
    IF v_type IS NULL THEN
        PERFORM @adm@._refuse(32802, format('link type %s is unknown', @adm@._repr(p_type)), 'the gateway has no driver of that name',
            'use one of ' || (SELECT string_agg(n.value, ', ') FROM jsonb_array_elements_text(@adm@._described() -> 'names') n));
    END IF;
    SELECT coalesce(jsonb_object_agg(lower(o.key), o.value), '{}') INTO v_given
      FROM jsonb_each(@adm@._mapping('properties of link ' || p_name, p_properties)) o;
    v_given := v_given || jsonb_strip_nulls(jsonb_build_object('username', p_username, 'password', p_password,
        'max_connections', p_max_connections, 'inbound_log_queue', p_inbound_log_queue, 'outbound_log_queue', p_outbound_log_queue));
    PERFORM @adm@._no_secrets(p_name, v_type, v_given || @adm@._mapping('options of link ' || p_name, p_options), true);
    PERFORM @adm@._no_marker(p_name, v_given || @adm@._mapping('options of link ' || p_name, p_options));
    v_link.name := p_name;
    v_link.type := upper(p_type);
    v_link := @adm@._common(v_link, v_given);
    v_link.comments := p_comment;
    v_link.attributes := @adm@._compact(@adm@._parsed(v_type -> 'attributes',
        v_given - ARRAY['username', 'password', 'max_connections', 'inbound_log_queue', 'outbound_log_queue'], 'link ' || p_name));
    v_link.options := @adm@._compact(@adm@._checked_options(v_type -> 'options',
        @adm@._mapping('options of link ' || p_name, p_options), 'link ' || p_name));
    PERFORM @adm@._check_link(v_link);
    v_agent := @adm@._agent(p_agent);
    IF EXISTS (SELECT FROM gw_link l WHERE l.name_key = @aq@._upper(p_name)) THEN
        PERFORM @adm@._refuse(32807, format('link %s already exists', p_name), 'a link has that name', 'alter it, or choose another name');
    END IF;
    INSERT INTO gw_link (name_key, name, type, agent_key, attributes, options, username, max_connections, inbound_log_queue,
                         outbound_log_queue, comments)
    VALUES (@aq@._upper(p_name), p_name, v_link.type, v_agent.name_key, v_link.attributes, v_link.options, v_link.username,
            v_link.max_connections, v_link.inbound_log_queue, v_link.outbound_log_queue, p_comment);
END $$;

-- Refuse another value of what is fixed.
CREATE OR REPLACE FUNCTION @adm@._check_alterable(p_fields jsonb, p_old jsonb, p_new jsonb, p_link text, p_number integer) RETURNS void
LANGUAGE plpgsql AS $$
DECLARE
    v_field jsonb;
BEGIN
    FOR v_field IN SELECT f.value FROM jsonb_array_elements(p_fields) f WHERE NOT (f.value ->> 'alterable')::boolean LOOP
        IF coalesce((SELECT o.value FROM jsonb_each(p_old) o WHERE lower(o.key) = lower(v_field ->> 'name')), v_field -> 'default')
           <> coalesce((SELECT o.value FROM jsonb_each(p_new) o WHERE lower(o.key) = lower(v_field ->> 'name')), v_field -> 'default') THEN
            PERFORM @adm@._refuse(p_number, format('%s of link %s cannot be altered', v_field ->> 'name', p_link),
                'it is fixed when the link is created', 'remove the link and create it again');
        END IF;
    END LOOP;
END $$;

-- Who cannot read the secrets of a link does not decide where they are sent, nor how they are protected on the way.
CREATE OR REPLACE FUNCTION @adm@._check_way(p_fields jsonb, p_old jsonb, p_new jsonb, p_link gw_link, p_flag text) RETURNS void
LANGUAGE plpgsql AS $$
DECLARE
    v_name text;
BEGIN
    SELECT f.value ->> 'name' INTO v_name FROM jsonb_array_elements(p_fields) WITH ORDINALITY f
     WHERE p_link.password IS NOT NULL AND (f.value ->> 'way')::boolean
       AND coalesce((SELECT o.value FROM jsonb_each(p_old) o WHERE lower(o.key) = lower(f.value ->> 'name')), f.value -> 'default')
           <> coalesce((SELECT o.value FROM jsonb_each(p_new) o WHERE lower(o.key) = lower(f.value ->> 'name')), f.value -> 'default')
     ORDER BY f.ordinality LIMIT 1;
    IF FOUND THEN
        PERFORM @adm@._refuse_python(format('%s of link %s cannot be changed from SQL', v_name, p_link.name),
            'the link has stored secrets, which might be sent to another server, or less protected',
            format('mgw links alter %s %s %s=VALUE', p_link.name, p_flag, v_name));
    END IF;
END $$;

CREATE OR REPLACE FUNCTION @adm@._alter_msgsystem_link(p_name text, p_properties jsonb, p_options jsonb, p_comment text) RETURNS void
LANGUAGE plpgsql AS $$
DECLARE
    v_old gw_link := @adm@._link(p_name);
    v_link gw_link := v_old;
    v_type jsonb := @adm@._described() -> 'types' -> v_old.type;
    v_given jsonb;
    v_options jsonb;
    v_secrets boolean := v_old.attributes LIKE '%<<ENCRYPTED>>%' OR v_old.options LIKE '%<<ENCRYPTED>>%';
    v_job gw_job;
BEGIN
    IF v_type IS NULL OR v_old.attributes::jsonb ? 'hosts' OR v_old.attributes::jsonb ->> 'sasl_mechanism' = 'OAUTHBEARER' THEN
        PERFORM @adm@._refuse_python(format('link %s cannot be altered from SQL', v_old.name),
            CASE WHEN v_type IS NULL THEN format('links of type %s come with another package', v_old.type)
                 WHEN v_old.attributes::jsonb ->> 'sasl_mechanism' = 'OAUTHBEARER'
                 THEN 'it logs in with a token (OAUTHBEARER), which would go wherever the link leads'
                 ELSE 'it names the nodes of a cluster, which are checked in Python' END, format('mgw links alter %s', v_old.name));
    END IF;
    SELECT coalesce(jsonb_object_agg(lower(o.key), o.value), '{}') INTO v_given
      FROM jsonb_each(@adm@._mapping('properties of link ' || v_old.name, p_properties)) o;
    PERFORM @adm@._no_secrets(v_old.name, v_type, v_given || @adm@._mapping('options of link ' || v_old.name, p_options), false);
    PERFORM @adm@._no_marker(v_old.name, v_given || @adm@._mapping('options of link ' || v_old.name, p_options));
    v_link := @adm@._common(v_link, v_given);
    IF v_given ? 'password' OR (v_link.username IS NULL AND v_old.username IS NOT NULL AND v_old.password IS NOT NULL) THEN
        IF v_secrets OR NOT v_given ? 'password' THEN
            PERFORM @adm@._refuse_python(format('link %s: its login cannot be removed from SQL', v_old.name),
                'its secrets are encrypted together, with a key that the database does not have',
                format('mgw apply, without username and password of link %s', v_old.name));
        END IF;
        v_link.password := NULL;
    END IF;
    v_link.attributes := @adm@._compact(@adm@._parsed(v_type -> 'attributes', v_old.attributes::jsonb
        || (v_given - ARRAY['username', 'password', 'max_connections', 'inbound_log_queue', 'outbound_log_queue']), 'link ' || v_old.name));
    PERFORM @adm@._check_alterable(v_type -> 'attributes', v_old.attributes::jsonb, v_link.attributes::jsonb, v_old.name, 32803);
    PERFORM @adm@._check_way(v_type -> 'attributes', v_old.attributes::jsonb, v_link.attributes::jsonb, v_old, '--set');
    IF p_options IS NOT NULL THEN
        SELECT coalesce(jsonb_object_agg(o.key, o.value) FILTER (WHERE NOT EXISTS (
                   SELECT FROM jsonb_each(p_options) g WHERE lower(g.key) = lower(o.key))), '{}') INTO v_options
          FROM jsonb_each(v_old.options::jsonb) o WHERE NOT p_options ? '*';
        v_options := @adm@._checked_options(v_type -> 'options', coalesce(v_options, '{}') || jsonb_strip_nulls(p_options - '*'), 'link ' || v_old.name);
        PERFORM @adm@._check_alterable(v_type -> 'options', v_old.options::jsonb, v_options, v_old.name, 32842);
        PERFORM @adm@._check_way(v_type -> 'options', v_old.options::jsonb, v_options, v_old, '--option');
        v_link.options := @adm@._compact(v_options);
    END IF;
    IF p_comment IS DISTINCT FROM 'NO_CHANGE' THEN
        v_link.comments := p_comment;
    END IF;
    PERFORM @adm@._check_link(v_link);
    IF v_link.max_connections = 1 THEN
        SELECT * INTO v_job FROM gw_job j WHERE j.link_key = v_old.name_key AND j.exception_queue IS NOT NULL
           AND j.propagation_type IN ('INBOUND', 'THROUGH') ORDER BY j.name_key LIMIT 1;
        IF FOUND THEN
            PERFORM @adm@._refuse(32801, format('link %s: max_connections cannot be 1', v_old.name),
                format('job %s reads from it and writes to exception queue %s: that is two', v_job.name, v_job.exception_queue),
                'leave it at 2 or more, or remove the exception queue from the job first');
        END IF;
    END IF;
    UPDATE gw_link l SET attributes = v_link.attributes, options = v_link.options, username = v_link.username,
           password = v_link.password, max_connections = v_link.max_connections, inbound_log_queue = v_link.inbound_log_queue,
           outbound_log_queue = v_link.outbound_log_queue, comments = v_link.comments WHERE l.name_key = v_old.name_key;
END $$;

CREATE OR REPLACE FUNCTION @adm@._remove_msgsystem_link(p_name text) RETURNS void LANGUAGE plpgsql AS $$
DECLARE
    v_link gw_link := @adm@._link(p_name);
    v_queues text := (SELECT string_agg(q.name, ', ' ORDER BY q.name_key) FROM gw_foreign_queue q WHERE q.link_key = v_link.name_key);
BEGIN
    IF v_queues IS NOT NULL THEN
        PERFORM @adm@._refuse(32815, format('link %s cannot be removed', v_link.name),
            'foreign queues are registered on it: ' || v_queues, 'unregister them first');
    END IF;
    DELETE FROM gw_link l WHERE l.name_key = v_link.name_key;
END $$;
