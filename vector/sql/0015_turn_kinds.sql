-- What a turn is, decided by its writer (plait/text/turn_kinds.py). Older rows are filled in the same transaction
-- by vector/connection/turn_kinds.py: what words tell is no business of SQL.
ALTER TABLE item ADD COLUMN is_question boolean NOT NULL DEFAULT false;
ALTER TABLE item ADD COLUMN announces_step boolean NOT NULL DEFAULT false;
-- Statistics keep values of columns: nobody asks for rows by these.
ALTER TABLE item ALTER COLUMN is_question SET STATISTICS 0, ALTER COLUMN announces_step SET STATISTICS 0;
