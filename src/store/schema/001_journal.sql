-- Changes that file tools made, one row an intended change. A row is written
-- before its file changes. Nothing here is ever rewritten but the last four
-- columns; `seal` covers all before them (the bytes by their hash).
CREATE TABLE mutation (
    seq             INTEGER PRIMARY KEY AUTOINCREMENT,
    id              TEXT    NOT NULL UNIQUE,
    at_ms           INTEGER NOT NULL,
    run             TEXT    NOT NULL,
    tool            TEXT    NOT NULL,
    workspace       TEXT    NOT NULL,   -- filesystem:<dev>:<ino>
    born            TEXT,               -- birth time of the workspace folder, where known
    path            TEXT    NOT NULL,   -- relative to the workspace
    sha_before      TEXT,               -- NULL: there was no file
    sha_after       TEXT,               -- NULL: there is no file
    mode            INTEGER,            -- permission bits before the change
    temp            TEXT,               -- name under which the new bytes may lie, relative
    pre_kind        TEXT    NOT NULL,   -- absent | inline | file | not_kept
    pre_bytes       BLOB,               -- inline: the bytes
    pre_hash        TEXT,               -- inline, file: blake3; the name of the blob
    pre_size        INTEGER,            -- inline, file: length in bytes
    pre_note        TEXT,               -- not_kept: why
    seal            BLOB    NOT NULL,
    state           TEXT    NOT NULL,   -- open | committed | aborted
    warning         TEXT,
    acknowledged_ms INTEGER,
    evicted_ms      INTEGER             -- when the blob was dropped to make room
) STRICT;

CREATE INDEX mutation_of_workspace ON mutation (workspace, seq);
CREATE INDEX mutation_of_run ON mutation (run, seq);
CREATE INDEX mutation_of_blob ON mutation (pre_hash) WHERE pre_kind = 'file';
