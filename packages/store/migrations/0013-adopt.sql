-- Of a command that adopts a database without its earlier epochs (docs/decisions/0097-adopt.md).
-- Transactions that committed in those have no receipt here. So in the epoch that the command
-- begins, and in later ones, no transaction commits under an id below this one. NULL: another kind
-- of command.
ALTER TABLE highwater.authority_command ADD COLUMN ids_from uuid;
