-- The table of all recipes. The application makes the ids: UUIDs of version 7, which rise.
CREATE TABLE IF NOT EXISTS recipe_order (id uuid PRIMARY KEY, item text NOT NULL)
