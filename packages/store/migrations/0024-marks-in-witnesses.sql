-- The marks that the helper knew when it wrote its row, by epoch and level. Its service may have
-- published them. A survivor that has the row shows them when the service is gone.
ALTER TABLE highwater.witness ADD COLUMN marks jsonb NOT NULL DEFAULT '{}';
