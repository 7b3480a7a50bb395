-- Anchors that are read from the text of what agents write, and how their code read then.
-- docs/schema-postgres.md says what is kept, docs/recall.md how it is checked.

-- `[[path, symbol, hash, gist], …]`, at most 8: a place in the code as the index has it, the start of the
-- hash of vector/anchored.py in hex, and of plait/reading/gist.py's ("": not told, as of a whole file). A
-- hash "" is of a file that the item's own run changed. NULL: no anchor was found.
ALTER TABLE item ADD COLUMN anchors jsonb;
-- Statistics keep values of columns: none of what may be forgotten.
ALTER TABLE item ALTER COLUMN anchors SET STATISTICS 0;
