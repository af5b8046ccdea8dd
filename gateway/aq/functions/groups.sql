-- Transaction groups: who takes a message of one has all of it (group_search.py, statements_groups.py).
--
-- A transaction has one position per queue and consumer, in a setting that goes with it, and back with its savepoints. Whoever
-- forges one reads what he may take anyway, and by itself.

CREATE OR REPLACE FUNCTION @aq@._position(p_hub bytea, p_queue bigint, p_consumer bigint) RETURNS text
LANGUAGE sql IMMUTABLE AS $$
    SELECT format('mgw.at_%s_%s_%s', encode(p_hub, 'hex'), p_queue, p_consumer)
$$;

-- Whether the transaction has a group of this queue.
CREATE OR REPLACE FUNCTION @aq@._in_group(p_queue text, p_consumer text) RETURNS boolean
LANGUAGE plpgsql AS $$
DECLARE
    q record;
BEGIN
    q := @aq@._queue(p_queue, NULL, NULL, NULL);
    IF q.message_grouping = 'NONE' OR q.queue_type <> 'NORMAL_QUEUE' THEN
        RETURN false;
    END IF;
    RETURN coalesce(current_setting(@aq@._position(q.hub_id, q.id,
        @aq@._consumer(q.id, q.shown, q.multiple, p_consumer)), true), '') <> '';
END $$;

-- The first group that is free, with all its messages locked; NULL where there is none. A group is free when none of its
-- messages waits or is in somebody's hands. Locks on groups that turn out not to be free are given back.
CREATE OR REPLACE FUNCTION @aq@._lock_group(
    p_owner bigint, p_entries boolean, p_k1 double precision, p_k2 double precision, p_k3 double precision,
    OUT id bigint, OUT members bigint[], OUT k1 double precision, OUT k2 double precision, OUT k3 double precision)
LANGUAGE plpgsql AS $$
#variable_conflict use_column
DECLARE
    v_side text := CASE WHEN p_entries THEN 'aq_entry' ELSE 'aq_message' END;
    v_number text := CASE WHEN p_entries THEN 'message_id' ELSE 'id' END;
    v_owner text := CASE WHEN p_entries THEN 'consumer_id' ELSE 'queue_id' END;
    v_same text := format('FROM %s h WHERE h.group_id = a.group_id AND h.%s = a.%2$s AND h.state', v_side, v_owner);
    v_head text := format(
        'SELECT a.group_id, a.k1, a.k2, a.k3 FROM %1$s a'
        ' WHERE a.%3$s = $1 AND a.state = @READY@ AND a.group_id IS NOT NULL AND a.k2 < 1e300'
        '   AND CASE WHEN (SELECT h.%2$s %4$s < @WAITING@ ORDER BY h.state, h.%2$s LIMIT 1) <> a.%2$s THEN FALSE'
        '            WHEN (SELECT 1 %4$s > @READY@ AND h.state < @PROCESSED@ LIMIT 1) IS NOT NULL THEN FALSE'
        '            ELSE (SELECT 1 %4$s > @BELOWCLAIMED@ AND h.state < @SPLIT@ LIMIT 1) IS NULL END'
        '   AND NOT (a.group_id = ANY ($2))'
        '   AND %5$s ORDER BY a.k1, a.k2, a.k3, a.%2$s LIMIT 1 FOR UPDATE SKIP LOCKED',
        v_side, v_number, v_owner, v_same,
        CASE WHEN p_k1 IS NULL THEN 'TRUE' ELSE format('(a.k1, a.k2, a.k3, a.%s) > ($3, $4, $5, $6)', v_number) END);
    v_lock text := format(
        'SELECT array_agg(x.number ORDER BY x.number) FROM (SELECT a.%2$s AS number FROM %1$s a'
        ' WHERE a.%3$s = $1 AND a.group_id = $2 AND a.state < @WAITING@ ORDER BY a.%2$s FOR UPDATE SKIP LOCKED) x',
        v_side, v_number, v_owner);
    v_count text := format(
        'SELECT count(*) FROM %1$s a WHERE a.%2$s = $1 AND a.group_id = $2 AND a.state IN @PENDING@', v_side, v_owner);
    v_busy bigint[] := '{}';
    v_there bigint;
BEGIN
    LOOP
        BEGIN
            members := NULL;
            EXECUTE v_head INTO id, k1, k2, k3 USING p_owner, v_busy, p_k1, p_k2, p_k3, 4611686018427387904;
            EXIT WHEN id IS NULL;
            EXECUTE v_lock INTO members USING p_owner, id;
            EXECUTE v_count INTO v_there USING p_owner, id;
            EXIT WHEN cardinality(members) = v_there;
            RAISE EXCEPTION USING ERRCODE = 'MGRUP', MESSAGE = 'a message of the group is in other hands';
        EXCEPTION WHEN SQLSTATE 'MGRUP' THEN
            v_busy := v_busy || id;
        END;
    END LOOP;
END $$;

-- The next messages for a transaction, of one group, locked: what is left of its own, or of the next one that is free.
CREATE OR REPLACE FUNCTION @aq@._of_group(
    p_hub bytea, p_queue bigint, p_consumer bigint, p_navigation text, p_limit integer)
RETURNS bigint[] LANGUAGE plpgsql AS $$
DECLARE
    v_setting text := @aq@._position(p_hub, p_queue, p_consumer);
    v_place text[] := string_to_array(nullif(current_setting(v_setting, true), ''), ' ');  -- group, last, k1, k2, k3
    v_entries boolean := p_consumer <> 0;
    v_owner bigint := CASE WHEN p_consumer <> 0 THEN p_consumer ELSE p_queue END;
    v_ids bigint[];
    g record;
BEGIN
    IF v_place IS NOT NULL AND p_navigation = 'NEXT_MESSAGE' THEN
        EXECUTE format(
            'SELECT array_agg(x.number ORDER BY x.number) FROM (SELECT a.%2$s AS number FROM %1$s a'
            ' WHERE a.%3$s = $1 AND a.group_id = $2 AND a.%2$s > $3 AND a.state < @WAITING@'
            ' ORDER BY a.%2$s LIMIT $4 FOR UPDATE SKIP LOCKED) x',
            CASE WHEN v_entries THEN 'aq_entry' ELSE 'aq_message' END,
            CASE WHEN v_entries THEN 'message_id' ELSE 'id' END,
            CASE WHEN v_entries THEN 'consumer_id' ELSE 'queue_id' END)
        INTO v_ids USING v_owner, v_place[1]::bigint, v_place[2]::bigint, p_limit;
    ELSE
        IF p_navigation <> 'NEXT_TRANSACTION' THEN
            v_place := NULL;
        END IF;
        g := @aq@._lock_group(v_owner, v_entries, v_place[3]::double precision, v_place[4]::double precision,
            v_place[5]::double precision);
        v_ids := g.members[1:p_limit];
        v_place := ARRAY[g.id::text, NULL, g.k1::text, g.k2::text, g.k3::text];
    END IF;
    IF v_ids IS NULL THEN
        RETURN '{}';
    END IF;
    v_place[2] := v_ids[cardinality(v_ids)]::text;
    PERFORM set_config(v_setting, array_to_string(v_place, ' '), true);
    RETURN v_ids;
END $$;

