"""Tables of the store: documents, streams and edges as of each log entry."""

from __future__ import annotations

from typing import Final

from holdfast.tenants.process.store.database import Database

_TABLES: Final = """
CREATE TABLE IF NOT EXISTS tenants (
    name TEXT PRIMARY KEY, token TEXT NOT NULL, quotas TEXT NOT NULL);
CREATE UNIQUE INDEX IF NOT EXISTS tenants_token ON tenants (token);
CREATE TABLE IF NOT EXISTS old_tokens (
    token TEXT PRIMARY KEY, name TEXT NOT NULL, until BIGINT NOT NULL);
CREATE TABLE IF NOT EXISTS log (
    position BIGINT PRIMARY KEY, kind TEXT NOT NULL, path TEXT NOT NULL, number BIGINT NOT NULL,
    timestamp BIGINT NOT NULL, partition_key TEXT NOT NULL, body TEXT NOT NULL);
CREATE UNIQUE INDEX IF NOT EXISTS log_path ON log (path, number);
CREATE INDEX IF NOT EXISTS log_changes ON log (position) WHERE kind = 'change';
CREATE TABLE IF NOT EXISTS objects (
    tenant TEXT NOT NULL, name TEXT NOT NULL, version BIGINT NOT NULL, since BIGINT NOT NULL,
    until BIGINT NOT NULL, body TEXT NOT NULL, PRIMARY KEY (tenant, name, version));
CREATE TABLE IF NOT EXISTS streams (
    path TEXT NOT NULL, owner TEXT NOT NULL, since BIGINT NOT NULL, until BIGINT NOT NULL,
    body TEXT NOT NULL, PRIMARY KEY (path, since));
CREATE INDEX IF NOT EXISTS streams_owner ON streams (owner);
CREATE INDEX IF NOT EXISTS streams_now ON streams (path, until);
CREATE INDEX IF NOT EXISTS streams_since ON streams (since);
CREATE INDEX IF NOT EXISTS streams_until ON streams (until);
CREATE TABLE IF NOT EXISTS edges (
    source TEXT NOT NULL, target TEXT NOT NULL, alias TEXT NOT NULL, since BIGINT NOT NULL,
    until BIGINT NOT NULL, PRIMARY KEY (source, target, alias, since));
DROP INDEX IF EXISTS edges_target;
CREATE INDEX IF NOT EXISTS edges_into ON edges (target, until);
CREATE INDEX IF NOT EXISTS edges_from ON edges (source, until);
CREATE INDEX IF NOT EXISTS edges_since ON edges (since);
CREATE INDEX IF NOT EXISTS edges_until ON edges (until);
CREATE TABLE IF NOT EXISTS lineage (
    target TEXT NOT NULL, source TEXT NOT NULL, since BIGINT NOT NULL,
    PRIMARY KEY (target, source));
CREATE TABLE IF NOT EXISTS tags (
    path TEXT NOT NULL, tag TEXT NOT NULL, value TEXT NOT NULL, PRIMARY KEY (path, tag));
CREATE INDEX IF NOT EXISTS tags_value ON tags (tag, value);
CREATE TABLE IF NOT EXISTS wants (
    target TEXT NOT NULL, alias TEXT NOT NULL, tag TEXT NOT NULL, value TEXT NOT NULL,
    PRIMARY KEY (target, alias));
CREATE INDEX IF NOT EXISTS wants_value ON wants (tag, value);
CREATE TABLE IF NOT EXISTS updates (
    path TEXT NOT NULL, number BIGINT NOT NULL, position BIGINT NOT NULL, timestamp BIGINT NOT NULL,
    partition_key TEXT NOT NULL, late INTEGER NOT NULL, body TEXT NOT NULL, words TEXT NOT NULL,
    latitude DOUBLE PRECISION, longitude DOUBLE PRECISION, PRIMARY KEY (path, number));
CREATE INDEX IF NOT EXISTS updates_time ON updates (path, timestamp);
CREATE INDEX IF NOT EXISTS updates_key ON updates (path, partition_key, number);
CREATE INDEX IF NOT EXISTS updates_place ON updates (path, latitude);
CREATE INDEX IF NOT EXISTS updates_position ON updates (position);
CREATE TABLE IF NOT EXISTS pages (
    path TEXT NOT NULL, number BIGINT NOT NULL, last BIGINT NOT NULL, count BIGINT NOT NULL,
    position BIGINT NOT NULL, last_position BIGINT NOT NULL, since BIGINT NOT NULL,
    until BIGINT NOT NULL, body TEXT NOT NULL, PRIMARY KEY (path, number));
CREATE INDEX IF NOT EXISTS pages_position ON pages (last_position);
CREATE TABLE IF NOT EXISTS latest (
    path TEXT NOT NULL, partition_key TEXT NOT NULL, body TEXT NOT NULL,
    PRIMARY KEY (path, partition_key));
CREATE TABLE IF NOT EXISTS windows (
    path TEXT NOT NULL, scope TEXT NOT NULL, oldest BIGINT NOT NULL, levels BIGINT NOT NULL,
    root TEXT NOT NULL, PRIMARY KEY (path, scope));
CREATE TABLE IF NOT EXISTS pairs (
    path TEXT NOT NULL, scope TEXT NOT NULL, level BIGINT NOT NULL, position BIGINT NOT NULL,
    body TEXT NOT NULL, PRIMARY KEY (path, scope, level, position));
CREATE TABLE IF NOT EXISTS numbers (path TEXT PRIMARY KEY, following BIGINT NOT NULL);
CREATE TABLE IF NOT EXISTS failures (
    path TEXT NOT NULL, position BIGINT NOT NULL, number BIGINT NOT NULL, timestamp BIGINT NOT NULL,
    kind TEXT NOT NULL, message TEXT NOT NULL, PRIMARY KEY (path, position, number));
CREATE INDEX IF NOT EXISTS failures_position ON failures (position);
CREATE TABLE IF NOT EXISTS dropped (
    path TEXT PRIMARY KEY, count BIGINT NOT NULL, before BIGINT NOT NULL);
CREATE TABLE IF NOT EXISTS lags (
    path TEXT NOT NULL, source TEXT NOT NULL, body TEXT NOT NULL, PRIMARY KEY (path, source));
CREATE TABLE IF NOT EXISTS calls (
    id BIGINT PRIMARY KEY, tenant TEXT NOT NULL, action TEXT NOT NULL, origin TEXT NOT NULL,
    body TEXT NOT NULL, state TEXT NOT NULL, tries BIGINT NOT NULL, due BIGINT NOT NULL,
    said TEXT NOT NULL);
CREATE UNIQUE INDEX IF NOT EXISTS calls_origin ON calls (action, origin);
CREATE INDEX IF NOT EXISTS calls_due ON calls (state, tenant, due);
CREATE INDEX IF NOT EXISTS calls_tenant ON calls (tenant, id);
CREATE TABLE IF NOT EXISTS progress (name TEXT PRIMARY KEY, position BIGINT NOT NULL);
CREATE TABLE IF NOT EXISTS plans (batch BIGINT PRIMARY KEY, body TEXT NOT NULL);
CREATE TABLE IF NOT EXISTS cursors (tenant TEXT PRIMARY KEY, position BIGINT NOT NULL);
CREATE TABLE IF NOT EXISTS audit (
    id BIGINT PRIMARY KEY, at BIGINT NOT NULL, tenant TEXT NOT NULL, action TEXT NOT NULL,
    target TEXT NOT NULL, outcome TEXT NOT NULL);
CREATE INDEX IF NOT EXISTS audit_tenant ON audit (tenant, id);
"""


def create_tables(database: Database) -> None:
    """Where they are missing."""
    with database.transaction() as work:
        for statement in _TABLES.split(";"):
            if statement.strip():
                work.run(statement)
        if not work.rows("SELECT 1 FROM lineage LIMIT 1"):
            # A store of an earlier version: its edges say the same.
            work.run(
                "INSERT INTO lineage (target, source, since) "
                "SELECT target, source, min(since) FROM edges GROUP BY target, source"
            )
        for name in ("engine", "batch"):
            work.run(
                "INSERT INTO progress (name, position) VALUES (?, 0) ON CONFLICT DO NOTHING",
                (name,),
            )
