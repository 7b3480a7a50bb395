"""One table a language of which the definitions are read, see `etl.languages.tables.rules`."""
