-- A transaction of the PostgreSQL wire writes its receipt by a function: an INSERT statement fails
-- in a transaction that is READ ONLY even where it would insert nothing, and a SELECT that does not
-- call the function does not. As the caller: the policy of the receipts holds it to the current
-- epoch. In any other epoch the NULL is refused.
CREATE FUNCTION highwater.write_receipt(id uuid, tag uuid, epoch uuid, digest bigint) RETURNS boolean LANGUAGE plpgsql VOLATILE
AS $$
BEGIN
  INSERT INTO highwater.receipt (id, tag, epoch, digest)
  SELECT CASE WHEN s.ids_from OPERATOR(pg_catalog.>) write_receipt.id THEN NULL ELSE write_receipt.id END, write_receipt.tag, s.id,
    write_receipt.digest
  FROM (VALUES (write_receipt.epoch)) asked (epoch)
  LEFT JOIN highwater.current_epoch s ON s.id OPERATOR(pg_catalog.=) asked.epoch;
  RETURN true;
END
$$;

REVOKE EXECUTE ON FUNCTION highwater.write_receipt(uuid, uuid, uuid, bigint) FROM PUBLIC;
GRANT EXECUTE ON FUNCTION highwater.write_receipt(uuid, uuid, uuid, bigint) TO highwater_app;
