-- --------------------------------------------------------------------------------------------------- foreign queues

-- Why a text cannot be in a topic of MQTT, or NULL.
CREATE OR REPLACE FUNCTION @adm@._mqtt_text(p_topic text) RETURNS text LANGUAGE sql IMMUTABLE AS $$
    SELECT CASE WHEN f.found IS NOT NULL
                THEN format('it holds the character U+%s, which brokers refuse in topics', lpad(upper(to_hex(ascii(f.found))), 4, '0'))
                WHEN octet_length(p_topic) > 65535 THEN 'it is longer than 65535 bytes' END
      FROM (SELECT substring(p_topic, '[\u0001-\u001f\u007f-\u009f\ufdd0-\ufdef\ufffe\uffff]') AS found) f
$$;

-- Why a text cannot be the topic of a destination, which may have placeholders, or NULL. fixed: it has none.
CREATE OR REPLACE FUNCTION @adm@._mqtt_template(p_text text, OUT reason text, OUT fixed boolean) LANGUAGE plpgsql IMMUTABLE AS $$
DECLARE
    v_piece text;
    v_topic text := '';
BEGIN
    fixed := true;
    FOR v_piece IN SELECT m.found[1] FROM regexp_matches(p_text, '(\{\{|\}\}|\{[^{}]*\}|[{}]|[^{}]+)', 'g') m(found) LOOP
        IF v_piece = '{}' THEN
            reason := '{} names no header';
            RETURN;
        ELSIF v_piece IN ('{', '}') THEN
            reason := format('a single %s is neither a placeholder nor, doubled, a brace', v_piece);
            RETURN;
        ELSIF v_piece IN ('{{', '}}') THEN
            v_topic := v_topic || left(v_piece, 1);
        ELSIF v_piece LIKE '{%' THEN
            fixed := false;
            v_topic := v_topic || 'x';
        ELSE
            v_topic := v_topic || v_piece;
        END IF;
    END LOOP;
    reason := CASE WHEN v_topic = '' THEN 'it is empty'
                   WHEN v_topic ~ '[+#]' THEN 'it holds a wildcard (+ or #); only a source may be a pattern'
                   WHEN v_topic LIKE '$%' THEN 'topics that begin with $ belong to the broker'
                   ELSE @adm@._mqtt_text(v_topic) END;
END $$;

-- Why a text cannot be a topic filter, or NULL.
CREATE OR REPLACE FUNCTION @adm@._mqtt_filter(p_filter text) RETURNS text LANGUAGE plpgsql IMMUTABLE AS $$
DECLARE
    v_levels text[] := string_to_array(p_filter, '/');
BEGIN
    IF p_filter = '' THEN
        RETURN 'it is empty';
    END IF;
    FOR v_place IN 1 .. cardinality(v_levels) LOOP
        IF v_levels[v_place] LIKE '%#%' AND (v_levels[v_place] <> '#' OR v_place < cardinality(v_levels)) THEN
            RETURN 'the wildcard # must be alone, and in the last level';
        ELSIF v_levels[v_place] LIKE '%+%' AND v_levels[v_place] <> '+' THEN
            RETURN 'the wildcard + must be a whole level';
        END IF;
    END LOOP;
    RETURN @adm@._mqtt_text(p_filter);
END $$;

-- Refuse a foreign queue that cannot be used in a direction (NULL: at all), as the link types do (check_endpoint).
CREATE OR REPLACE FUNCTION @adm@._endpoint(p_queue jsonb, p_direction text, p_prefix text, p_number integer) RETURNS void
LANGUAGE plpgsql AS $$
DECLARE
    v_type text := p_queue ->> 'type';
    v_name text := p_queue ->> 'provider';
    v_domain text := p_queue ->> 'domain';
    v_outbound boolean := coalesce(p_direction = 'OUTBOUND', false);
    v_inbound boolean := coalesce(p_direction = 'INBOUND', false);
    v_what text := format('foreign queue %s', p_queue ->> 'full');
    v_parts text[];
    v_qos text := btrim(coalesce(p_queue #>> '{options,MQTT_Qos}', '1'));
    v_template record;
    v_cause text;
    v_cure text;
BEGIN
    IF v_type = 'RABBITMQ' THEN
        v_what := format('%s cannot be used: %s', v_what, @adm@._repr(v_name));
        v_parts := CASE WHEN v_domain = 'TOPIC' THEN regexp_match(v_name, '^([^/]*)(?:/(.*))?$') END;
        IF v_parts IS NOT NULL AND p_queue #>> '{options,AMQP_QueueType}' = 'stream' THEN
            v_cause := 'AMQP_QueueType is stream';
            v_cure := 'the queue of a topic job is classic or quorum';
        ELSIF (v_parts IS NULL AND octet_length(v_name) > 255) OR octet_length(v_parts[1]) > 255 OR octet_length(v_parts[2]) > 255
              OR v_name ~ '[\u0001-\u001f\u007f-\u00a0\u00ad\u1680\u2000-\u200f\u2028-\u202f\u205f-\u206f\u3000\ue000-\uf8ff\ufeff]' THEN
            v_cause := 'names and routing keys have at most 255 bytes of printable text';
            v_cure := 'correct it';
        ELSIF v_parts IS NULL AND v_name = '' THEN
            v_cause := 'the name is empty';
            v_cure := 'name the queue';
        ELSIF v_outbound AND v_parts[2] <> '' AND string_to_array(v_parts[2], '.') && ARRAY['*', '#'] THEN
            v_cause := 'a destination cannot have wildcards';
            v_cure := 'register the one routing key to send to';
        ELSIF v_inbound AND v_parts[1] = '' THEN
            v_cause := 'nothing can be bound to the default exchange';
            v_cure := 'register the queue itself with domain QUEUE';
        END IF;
    ELSIF v_type = 'KAFKA' THEN
        v_what := v_what || ' is refused';
        IF v_name !~ '^[a-zA-Z0-9._-]{1,249}$' OR v_name IN ('.', '..') THEN
            v_cause := format('%s is not the name of a topic: letters, digits, ''.'', ''_'', ''-'', at most 249; no patterns', @adm@._repr(v_name));
            v_cure := 'register one foreign queue for each topic';
        ELSIF v_outbound AND v_name = p_queue ->> 'log' THEN
            v_cause := format('topic %s is the link''s sending log (outbound_log_queue)', v_name);
            v_cure := 'write to another topic';
        END IF;
    ELSIF v_type = 'MQTT' THEN
        v_what := format('%s (%s) cannot be used', v_what, @adm@._repr(v_name));
        v_parts := regexp_match(v_name, '^\$share/([^/]*)(?:/(.*))?$');
        v_template := @adm@._mqtt_template(v_name);
        IF v_qos = '2' THEN
            v_cause := 'MQTT_Qos = 2 loses messages when a client dies between its two acknowledgements';
            v_cure := 'use MQTT_Qos = 1; messages published at QoS 2 arrive all the same';
        ELSIF v_qos NOT IN ('0', '1') THEN
            v_cause := format('MQTT_Qos cannot be %s', @adm@._repr(v_qos));
            v_cure := 'use 1, or 0 to accept at-most-once';
        ELSIF v_parts IS NOT NULL AND (v_parts[1] = '' OR coalesce(v_parts[2], '') = '' OR v_parts[1] ~ '[+#]') THEN
            v_cause := 'it is not a shared subscription';
            v_cure := 'write $share/<group>/<topic filter>';
        ELSIF v_parts IS NOT NULL AND v_outbound THEN
            v_cause := 'a shared subscription cannot be written to';
            v_cure := 'register the topic itself';
        ELSIF v_parts IS NULL AND v_domain = 'QUEUE' AND NOT v_outbound THEN
            v_cause := 'a topic delivers every message to every subscriber; only a shared subscription acts as a queue';
            v_cure := 'register it as $share/<group>/<topic filter>, or with domain TOPIC';
        ELSIF v_outbound AND v_template.reason IS NOT NULL THEN
            v_cause := 'as destination, ' || v_template.reason;
            v_cure := 'register the topic to publish to';
        ELSIF v_outbound AND p_queue #>> '{options,MQTT_TopicFrom}' = 'HEADER' AND NOT v_template.fixed THEN
            v_cause := 'MQTT_TopicFrom = HEADER needs a fixed topic; the header may choose one below it';
            v_cure := 'remove the placeholders, or the option';
        ELSIF NOT v_outbound THEN
            v_cause := @adm@._mqtt_filter(coalesce(v_parts[2], v_name));
            v_cure := 'correct the topic filter';
        END IF;
    ELSIF v_type = 'MEMORY' THEN
        v_what := v_what || ' cannot be a destination';
        IF v_outbound AND v_name ~ '[*?[]' THEN
            v_cause := format('%s is a pattern', @adm@._repr(v_name));
            v_cure := 'register the one topic to send to';
        END IF;
    ELSE
        PERFORM @adm@._refuse_python(format('%sforeign queue %s cannot be used from SQL', p_prefix, p_queue ->> 'full'),
            format('links of type %s come with another package, and the database cannot check their queues', v_type),
            'mgw queues register, mgw jobs create');
    END IF;
    IF v_cause IS NOT NULL THEN
        PERFORM @adm@._refuse(p_number, p_prefix || v_what, v_cause, v_cure);
    END IF;
END $$;

-- Options as they are stored, under their documented names; NULL values are left out.
CREATE OR REPLACE FUNCTION @adm@._checked_options(p_fields jsonb, p_given jsonb, p_owner text) RETURNS jsonb LANGUAGE plpgsql AS $$
DECLARE
    v_result jsonb := '{}';
    v_option record;
    v_field jsonb;
BEGIN
    FOR v_option IN SELECT o.key, o.value FROM jsonb_each(p_given) o WHERE jsonb_typeof(o.value) <> 'null' LOOP
        v_field := @adm@._field(p_fields, v_option.key);
        IF v_field IS NULL THEN
            PERFORM @adm@._refuse(32801, format('%s: option %s is unknown', p_owner, @adm@._repr(v_option.key)),
                'no setting has that name', 'use one of ' || coalesce(@adm@._names(p_fields), '(none)'));
        END IF;
        v_result := v_result || jsonb_build_object(v_field ->> 'name',
            @adm@._stored(v_field, @adm@._value(v_field, v_option.value, p_owner, 32801)));
    END LOOP;
    RETURN v_result;
END $$;

CREATE OR REPLACE FUNCTION @adm@._register_foreign_queue(
    p_name text, p_linkname text, p_provider text, p_domain text, p_options jsonb, p_comment text)
RETURNS void LANGUAGE plpgsql AS $$
DECLARE
    v_link gw_link;
    v_type jsonb;
    v_full text;
    v_options jsonb;
BEGIN
    PERFORM @adm@._identifier('foreign queue', p_name, true);
    PERFORM @adm@._text(format('comment of foreign queue %s@%s', p_name, p_linkname), p_comment);
    v_link := @adm@._link(p_linkname);
    v_type := @adm@._described() -> 'types' -> v_link.type;
    v_full := p_name || '@' || v_link.name;
    p_domain := regexp_replace(p_domain, '^DOMAIN_', '', 'i');
    IF upper(p_domain) NOT IN ('QUEUE', 'TOPIC') THEN
        PERFORM @adm@._refuse(32802, format('foreign queue %s: domain %s is unknown', v_full, @adm@._repr(p_domain)),
            'a domain is QUEUE or TOPIC', 'correct it, or leave it out');
    ELSIF NOT v_type -> 'domains' @> to_jsonb(ARRAY[upper(p_domain)]) THEN
        PERFORM @adm@._refuse(32848, format('foreign queue %s: domain %s is not possible', v_full, coalesce(upper(p_domain), 'none')),
            'the messaging system has: ' || (SELECT string_agg(coalesce(d.value, 'none'), ', ') FROM jsonb_array_elements_text(v_type -> 'domains') d),
            'choose one of those');
    END IF;
    v_options := @adm@._checked_options(coalesce(v_type -> 'queue_options', '[]'),
        @adm@._mapping('options of foreign queue ' || v_full, p_options), 'foreign queue ' || v_full);
    IF EXISTS (SELECT FROM gw_foreign_queue q WHERE q.name_key = @aq@._upper(p_name) AND q.link_key = v_link.name_key) THEN
        PERFORM @adm@._refuse(32809, format('foreign queue %s already exists', v_full), 'it is registered',
            'unregister it first: a registration cannot be altered');
    END IF;
    PERFORM @adm@._endpoint(jsonb_build_object('type', v_link.type, 'provider', coalesce(p_provider, p_name), 'domain', upper(p_domain),
        'options', v_options, 'full', v_full, 'log', v_link.outbound_log_queue), NULL, '', 32801);
    INSERT INTO gw_foreign_queue (name_key, link_key, name, domain, provider_queue, options, comments)
    VALUES (@aq@._upper(p_name), v_link.name_key, p_name, upper(p_domain), coalesce(p_provider, p_name), @adm@._compact(v_options), p_comment);
END $$;

CREATE OR REPLACE FUNCTION @adm@._unregister_foreign_queue(p_name text, p_linkname text) RETURNS void LANGUAGE plpgsql AS $$
DECLARE
    v_link gw_link := @adm@._link(p_linkname);
    v_queue jsonb := @adm@._foreign(p_name || '@' || p_linkname);
    v_staying text;
    v_pending text;
    v_who text;
BEGIN
    SELECT string_agg(j.name, ', ' ORDER BY j.name_key) FILTER (WHERE s.status NOT IN @leaving@),
           (array_agg(j.name ORDER BY j.name_key) FILTER (WHERE s.status IN @leaving@))[1],
           concat_ws(' and ', CASE WHEN bool_or(j.schedule IS NOT NULL) THEN 'jobs' END,
                     CASE WHEN bool_or(j.schedule IS NULL) THEN 'subscribers' END) INTO v_staying, v_pending, v_who
      FROM gw_job j JOIN gw_job_state s ON s.job_id = j.id
     WHERE v_queue ->> 'key' IN (@aq@._upper(j.source), @aq@._upper(j.destination), @aq@._upper(j.exception_queue));
    IF v_staying IS NOT NULL THEN
        PERFORM @adm@._refuse(32816, format('foreign queue %s cannot be unregistered', v_queue ->> 'full'),
            format('%s use it: %s', v_who, v_staying), format('remove those %s first', v_who));
    ELSIF v_pending IS NOT NULL THEN
        PERFORM @adm@._refuse(32816, format('foreign queue %s cannot be unregistered', v_queue ->> 'full'),
            format('job %s uses it, which is marked for removal and which its agent has not removed yet', v_pending),
            format('read the log of the agent, then repeat this; or: mgw jobs remove %s --force', v_pending));
    END IF;
    SELECT string_agg(s.name, ', ' ORDER BY s.name_key) INTO v_staying FROM gw_schedule s
     WHERE v_queue ->> 'key' IN (@aq@._upper(s.source), @aq@._upper(s.destination));
    IF v_staying IS NOT NULL THEN
        PERFORM @adm@._refuse(32816, format('foreign queue %s cannot be unregistered', v_queue ->> 'full'),
            'schedules use it: ' || v_staying, 'remove those schedules first (mgw schedules remove)');
    END IF;
    DELETE FROM gw_foreign_queue q WHERE q.name_key = @aq@._upper(p_name) AND q.link_key = v_link.name_key;
END $$;
