"""Connections to PostgreSQL: pools, roles, types, locks, errors, migrations."""
