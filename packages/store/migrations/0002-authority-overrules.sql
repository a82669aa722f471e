-- What an operator's command was given against: a command that waited while the world went on is
-- not carried out.
CREATE FUNCTION highwater.newest_epoch_seq() RETURNS bigint LANGUAGE sql STABLE
  RETURN (SELECT coalesce(max(seq), 0) FROM highwater.epoch WHERE start_offset IS NOT NULL);

-- `overrules`: epochs outside this history that the operator knows of and gives up.
-- `after_seq`: the newest epoch of this history when the command was given.
ALTER TABLE highwater.authority_command
  ADD COLUMN overrules uuid[] NOT NULL DEFAULT '{}',
  ADD COLUMN after_seq bigint NOT NULL DEFAULT highwater.newest_epoch_seq();
