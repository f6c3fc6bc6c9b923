-- PostgreSQL makes the WHEN of a trigger ready anew for each statement, which costs 20 µs where its function looks in 8. So these three look
-- by themselves whether a total has changed.

CREATE OR REPLACE FUNCTION holdfast_note_counters() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  IF coalesce(OLD.space = NEW.space, true) AND coalesce(OLD.node_count, 0) = coalesce(NEW.node_count, 0)
      AND coalesce(OLD.ready_content_bytes, 0) = coalesce(NEW.ready_content_bytes, 0)
      AND coalesce(OLD.ready_stored_bytes, 0) = coalesce(NEW.ready_stored_bytes, 0)
      AND coalesce(OLD.waiting_bytes, 0) = coalesce(NEW.waiting_bytes, 0)
      AND coalesce(OLD.not_ready_node_count, 0) = coalesce(NEW.not_ready_node_count, 0) THEN
    RETURN NULL
  ; END IF
  ; IF OLD.space <> NEW.space OR greatest(OLD.node_count, NEW.node_count, OLD.ready_content_bytes,
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
CREATE OR REPLACE FUNCTION holdfast_note_uploads() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  IF coalesce(OLD.space = NEW.space, true) AND coalesce(OLD.canonical_size, 0) = coalesce(NEW.canonical_size, 0) THEN
    RETURN NULL
  ; END IF
  ; IF OLD.space <> NEW.space OR greatest(OLD.canonical_size, NEW.canonical_size) > 9007199254740991
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
CREATE OR REPLACE FUNCTION holdfast_note_commits() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  IF coalesce(OLD.space = NEW.space, true) AND coalesce(OLD.commit_count, 0) = coalesce(NEW.commit_count, 0) THEN
    RETURN NULL
  ; END IF
  ; IF OLD.space <> NEW.space OR greatest(OLD.commit_count, NEW.commit_count) > 9007199254740991
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

CREATE OR REPLACE TRIGGER usage_counters_app_insert AFTER INSERT ON usage_counters FOR EACH ROW EXECUTE FUNCTION holdfast_note_counters();
CREATE OR REPLACE TRIGGER usage_counters_app_update AFTER UPDATE ON usage_counters FOR EACH ROW EXECUTE FUNCTION holdfast_note_counters();
CREATE OR REPLACE TRIGGER usage_counters_app_delete AFTER DELETE ON usage_counters FOR EACH ROW EXECUTE FUNCTION holdfast_note_counters();
CREATE OR REPLACE TRIGGER uploads_app_insert AFTER INSERT ON uploads FOR EACH ROW EXECUTE FUNCTION holdfast_note_uploads();
CREATE OR REPLACE TRIGGER uploads_app_update AFTER UPDATE ON uploads FOR EACH ROW EXECUTE FUNCTION holdfast_note_uploads();
CREATE OR REPLACE TRIGGER uploads_app_delete AFTER DELETE ON uploads FOR EACH ROW EXECUTE FUNCTION holdfast_note_uploads();
CREATE OR REPLACE TRIGGER domains_app_insert AFTER INSERT ON domains FOR EACH ROW EXECUTE FUNCTION holdfast_note_commits();
CREATE OR REPLACE TRIGGER domains_app_update AFTER UPDATE ON domains FOR EACH ROW EXECUTE FUNCTION holdfast_note_commits();
CREATE OR REPLACE TRIGGER domains_app_delete AFTER DELETE ON domains FOR EACH ROW EXECUTE FUNCTION holdfast_note_commits();
