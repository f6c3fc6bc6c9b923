-- What all Spaces of an App hold together, exact at every commit. `app_totals` has a row for each App that was ever asked for, `app_changes`
-- what was committed since, a row for each change: so those who write at once never wait for each other. Triggers write the changes, so that
-- older builds beside this one, copies and repairs count too. Counted once for each App when it is first asked for (app-totals.ts).

CREATE TABLE app_totals (
  app_id text COLLATE "C" NOT NULL PRIMARY KEY,
  -- 0: it is counted; else since when somebody counts
  counting_since bigint NOT NULL,
  space_count bigint NOT NULL,
  node_count bigint NOT NULL,
  ready_content_bytes bigint NOT NULL,
  ready_stored_bytes bigint NOT NULL,
  waiting_bytes bigint NOT NULL,
  not_ready_node_count bigint NOT NULL,
  pending_bytes bigint NOT NULL,
  commit_rows bigint NOT NULL,
  row_sum bigint NOT NULL
) WITH (fillfactor = 50);

CREATE TABLE app_changes (
  app_id text COLLATE "C" NOT NULL,
  space_count bigint NOT NULL,
  node_count bigint NOT NULL,
  ready_content_bytes bigint NOT NULL,
  ready_stored_bytes bigint NOT NULL,
  waiting_bytes bigint NOT NULL,
  not_ready_node_count bigint NOT NULL,
  pending_bytes bigint NOT NULL,
  commit_rows bigint NOT NULL,
  row_sum bigint NOT NULL
) WITH (autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 5000);
CREATE INDEX app_changes_by_app ON app_changes (app_id);

-- The sum of a row of either. No value, however wrong, overflows it.
CREATE FUNCTION holdfast_app_sum(app_id text, counting_since bigint,
  space_count bigint, node_count bigint, ready_content_bytes bigint, ready_stored_bytes bigint,
  waiting_bytes bigint, not_ready_node_count bigint, pending_bytes bigint, commit_rows bigint) RETURNS numeric LANGUAGE sql IMMUTABLE
  RETURN (hashtextextended(app_id COLLATE "C", 0) & 35184372088831)
    + 3 * counting_since::numeric + 5 * space_count::numeric + 7 * node_count::numeric + 11 * ready_content_bytes::numeric + 13 *
      ready_stored_bytes::numeric
    + 17 * waiting_bytes::numeric + 19 * not_ready_node_count::numeric + 23 * pending_bytes::numeric + 29 * commit_rows::numeric;

-- One for each table. A value that no row has by right, or a row that goes to another Space, is damage or its repair: all Apps are counted anew.

CREATE FUNCTION holdfast_note_counters() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  IF TG_OP = 'UPDATE' AND OLD.space <> NEW.space OR greatest(OLD.node_count, NEW.node_count, OLD.ready_content_bytes,
    NEW.ready_content_bytes, OLD.ready_stored_bytes, NEW.ready_stored_bytes, OLD.waiting_bytes, NEW.waiting_bytes,
    OLD.not_ready_node_count, NEW.not_ready_node_count) > 9007199254740991
      OR least(OLD.node_count, NEW.node_count, OLD.ready_content_bytes, NEW.ready_content_bytes, OLD.ready_stored_bytes,
        NEW.ready_stored_bytes, OLD.waiting_bytes, NEW.waiting_bytes, OLD.not_ready_node_count, NEW.not_ready_node_count) <
        -9007199254740991 THEN
    DELETE FROM app_totals
  ; ELSE
    INSERT INTO app_changes SELECT app_id, 0, changed.node_count, changed.ready_content_bytes, changed.ready_stored_bytes,
      changed.waiting_bytes, changed.not_ready_node_count, 0, 0,
      (hashtextextended(app_id, 0) & 35184372088831) + 7 * changed.node_count + 11 * changed.ready_content_bytes + 13 *
        changed.ready_stored_bytes + 17 * changed.waiting_bytes + 19 * changed.not_ready_node_count
      FROM spaces CROSS JOIN (SELECT coalesce(NEW.node_count, 0) - coalesce(OLD.node_count, 0) AS node_count,
        coalesce(NEW.ready_content_bytes, 0) - coalesce(OLD.ready_content_bytes, 0) AS ready_content_bytes,
        coalesce(NEW.ready_stored_bytes, 0) - coalesce(OLD.ready_stored_bytes, 0) AS ready_stored_bytes, coalesce(NEW.waiting_bytes,
        0) - coalesce(OLD.waiting_bytes, 0) AS waiting_bytes, coalesce(NEW.not_ready_node_count, 0) -
        coalesce(OLD.not_ready_node_count, 0) AS not_ready_node_count) AS changed
      WHERE space = coalesce(NEW.space, OLD.space)
  ; END IF
  ; RETURN NULL
; END
$$;
CREATE FUNCTION holdfast_note_uploads() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  IF TG_OP = 'UPDATE' AND OLD.space <> NEW.space OR greatest(OLD.canonical_size, NEW.canonical_size) > 9007199254740991
      OR least(OLD.canonical_size, NEW.canonical_size) < -9007199254740991 THEN
    DELETE FROM app_totals
  ; ELSE
    INSERT INTO app_changes SELECT app_id, 0, 0, 0, 0, 0, 0, changed.pending_bytes, 0,
      (hashtextextended(app_id, 0) & 35184372088831) + 23 * changed.pending_bytes
      FROM spaces CROSS JOIN (SELECT greatest(NEW.canonical_size, 0) - greatest(OLD.canonical_size, 0) AS pending_bytes) AS changed
      WHERE space = coalesce(NEW.space, OLD.space)
  ; END IF
  ; RETURN NULL
; END
$$;
CREATE FUNCTION holdfast_note_packs() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  IF TG_OP = 'UPDATE' AND OLD.space <> NEW.space OR greatest(OLD.bytes, NEW.bytes, OLD.reserved_bytes, NEW.reserved_bytes) >
    9007199254740991
      OR least(OLD.bytes, NEW.bytes, OLD.reserved_bytes, NEW.reserved_bytes) < -9007199254740991 THEN
    DELETE FROM app_totals
  ; ELSE
    INSERT INTO app_changes SELECT app_id, 0, 0, 0, 0, 0, 0, changed.pending_bytes, 0,
      (hashtextextended(app_id, 0) & 35184372088831) + 23 * changed.pending_bytes
      FROM spaces CROSS JOIN (SELECT coalesce(NEW.reserved_bytes, 0) - coalesce(OLD.reserved_bytes, 0)
        + CASE WHEN NEW.state = 0 AND NOT NEW.discarded THEN greatest(NEW.bytes, 0) ELSE 0 END
        - CASE WHEN OLD.state = 0 AND NOT OLD.discarded THEN greatest(OLD.bytes, 0) ELSE 0 END AS pending_bytes) AS changed
      WHERE space = coalesce(NEW.space, OLD.space)
  ; END IF
  ; RETURN NULL
; END
$$;
CREATE FUNCTION holdfast_note_commits() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  IF TG_OP = 'UPDATE' AND OLD.space <> NEW.space OR greatest(OLD.commit_count, NEW.commit_count) > 9007199254740991
      OR least(OLD.commit_count, NEW.commit_count) < -9007199254740991 THEN
    DELETE FROM app_totals
  ; ELSE
    INSERT INTO app_changes SELECT app_id, 0, 0, 0, 0, 0, 0, 0, changed.commit_rows,
      (hashtextextended(app_id, 0) & 35184372088831) + 29 * changed.commit_rows
      FROM spaces CROSS JOIN (SELECT coalesce(NEW.commit_count, 0) - coalesce(OLD.commit_count, 0) AS commit_rows) AS changed
      WHERE space = coalesce(NEW.space, OLD.space)
  ; END IF
  ; RETURN NULL
; END
$$;
CREATE FUNCTION holdfast_note_space() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  IF TG_OP = 'INSERT' THEN
    INSERT INTO app_changes SELECT NEW.app_id, 1, 0, 0, 0, 0, 0, 0, 0, (hashtextextended(NEW.app_id, 0) & 35184372088831) + 5
  ; ELSE
    DELETE FROM app_totals
  ; END IF
  ; RETURN NULL
; END
$$;

CREATE TRIGGER spaces_app_insert AFTER INSERT ON spaces FOR EACH ROW EXECUTE FUNCTION holdfast_note_space();
CREATE TRIGGER spaces_app_update AFTER UPDATE ON spaces
  FOR EACH ROW WHEN ((OLD.space, OLD.app_id) IS DISTINCT FROM (NEW.space, NEW.app_id)) EXECUTE FUNCTION holdfast_note_space();
CREATE TRIGGER spaces_app_delete AFTER DELETE ON spaces FOR EACH ROW EXECUTE FUNCTION holdfast_note_space();
CREATE TRIGGER usage_counters_app_insert AFTER INSERT ON usage_counters
  FOR EACH ROW WHEN (NEW.node_count <> 0 OR NEW.ready_content_bytes <> 0 OR NEW.ready_stored_bytes <> 0 OR NEW.waiting_bytes <> 0 OR
    NEW.not_ready_node_count <> 0) EXECUTE FUNCTION holdfast_note_counters();
CREATE TRIGGER usage_counters_app_update AFTER UPDATE ON usage_counters
  FOR EACH ROW WHEN ((OLD.space, OLD.node_count, OLD.ready_content_bytes, OLD.ready_stored_bytes, OLD.waiting_bytes,
    OLD.not_ready_node_count) IS DISTINCT FROM (NEW.space, NEW.node_count, NEW.ready_content_bytes, NEW.ready_stored_bytes,
    NEW.waiting_bytes, NEW.not_ready_node_count)) EXECUTE FUNCTION holdfast_note_counters();
CREATE TRIGGER usage_counters_app_delete AFTER DELETE ON usage_counters
  FOR EACH ROW WHEN (OLD.node_count <> 0 OR OLD.ready_content_bytes <> 0 OR OLD.ready_stored_bytes <> 0 OR OLD.waiting_bytes <> 0 OR
    OLD.not_ready_node_count <> 0) EXECUTE FUNCTION holdfast_note_counters();
CREATE TRIGGER uploads_app_insert AFTER INSERT ON uploads
  FOR EACH ROW WHEN (NEW.canonical_size <> 0) EXECUTE FUNCTION holdfast_note_uploads();
CREATE TRIGGER uploads_app_update AFTER UPDATE ON uploads
  FOR EACH ROW WHEN ((OLD.space, OLD.canonical_size) IS DISTINCT FROM (NEW.space, NEW.canonical_size)) EXECUTE FUNCTION
    holdfast_note_uploads();
CREATE TRIGGER uploads_app_delete AFTER DELETE ON uploads
  FOR EACH ROW WHEN (OLD.canonical_size <> 0) EXECUTE FUNCTION holdfast_note_uploads();
CREATE TRIGGER packs_app_insert AFTER INSERT ON packs
  FOR EACH ROW WHEN (NEW.bytes <> 0 OR NEW.reserved_bytes <> 0) EXECUTE FUNCTION holdfast_note_packs();
CREATE TRIGGER packs_app_update AFTER UPDATE ON packs
  FOR EACH ROW WHEN ((OLD.space, OLD.state, OLD.discarded, OLD.bytes, OLD.reserved_bytes) IS DISTINCT FROM (NEW.space, NEW.state,
    NEW.discarded, NEW.bytes, NEW.reserved_bytes)) EXECUTE FUNCTION holdfast_note_packs();
CREATE TRIGGER packs_app_delete AFTER DELETE ON packs
  FOR EACH ROW WHEN (OLD.bytes <> 0 OR OLD.reserved_bytes <> 0) EXECUTE FUNCTION holdfast_note_packs();
CREATE TRIGGER domains_app_insert AFTER INSERT ON domains
  FOR EACH ROW WHEN (NEW.commit_count <> 0) EXECUTE FUNCTION holdfast_note_commits();
CREATE TRIGGER domains_app_update AFTER UPDATE ON domains
  FOR EACH ROW WHEN ((OLD.space, OLD.commit_count) IS DISTINCT FROM (NEW.space, NEW.commit_count)) EXECUTE FUNCTION holdfast_note_commits();
CREATE TRIGGER domains_app_delete AFTER DELETE ON domains
  FOR EACH ROW WHEN (OLD.commit_count <> 0) EXECUTE FUNCTION holdfast_note_commits();
