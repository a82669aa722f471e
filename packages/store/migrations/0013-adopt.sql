-- A command that adopts a database without the epochs that reigned (docs/decisions/0097-adopt.md): what may have committed in
-- those has no receipt here, so in the epoch that the command begins, and later ones, no transaction commits under an id below
-- this one. NULL: another kind of command.
ALTER TABLE highwater.authority_command ADD COLUMN ids_from uuid;
