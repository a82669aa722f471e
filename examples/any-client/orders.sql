CREATE TABLE IF NOT EXISTS purchase (buyer text NOT NULL, item text NOT NULL);

-- Answered when another region has it on disk.
INSERT INTO purchase VALUES ('Ada', 'a lamp');

-- For one transaction, against more failures.
BEGIN;
SET LOCAL highwater.level = 'global';
INSERT INTO purchase VALUES ('Bob', 'a chair');
COMMIT;

-- Answered when everything that this session can see is durable: what others wrote as well.
SET highwater.read_ack = 'durable';
SELECT buyer, item FROM purchase ORDER BY buyer;
