-- Services of one deployment share a schedule of keys. The table keeps a check value of each key,
-- an HMAC by the key itself. A service compares it to find out whether its schedule is that of the
-- others. The first service writes it.
CREATE TABLE highwater.deployment_key (
  kid        smallint PRIMARY KEY CHECK (kid BETWEEN 1 AND 255),
  valid_from timestamptz NOT NULL,
  check_value bytea NOT NULL CHECK (octet_length(check_value) = 16)
);

-- Neither by a grant nor by a database's default privileges.
REVOKE ALL ON highwater.deployment_key FROM PUBLIC, highwater_app, highwater_read;
