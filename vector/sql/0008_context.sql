-- What of its run is indexed and embedded before an item's own text (plait/memory/context.py); '' for all
-- that was stored before this was there, whose vectors and words stay as they are.
-- docs/schema-postgres.md says what is kept.
ALTER TABLE item ADD COLUMN context text NOT NULL DEFAULT '';
-- Statistics keep values of columns: none of what may be forgotten.
ALTER TABLE item ALTER COLUMN context SET STATISTICS 0;
