/**
 * Migrations of the store, in order; `PRAGMA user_version` is the number applied. Never edited once released: only added to.
 * Times are epoch milliseconds; `*_seq` are per-room counters that are never reused.
 */
export const migrations: readonly string[] = [
  `
  CREATE TABLE rooms (
    notebook_id   TEXT PRIMARY KEY,
    path          TEXT UNIQUE,              -- canonical; NULL: untitled
    kind          TEXT NOT NULL,            -- standalone | in-place | project
    title         TEXT NOT NULL,
    working_dir   TEXT NOT NULL,
    kernel_name   TEXT,                     -- asked for; NULL: by the notebook's metadata
    ephemeral     INTEGER NOT NULL DEFAULT 0,
    -- Rises with every change. A unit that does not find the number it expects sets NULL and so fails: what builds on a failed
    -- change cannot be stored without it.
    commit_seq    INTEGER NOT NULL DEFAULT 0,
    doc_seq       INTEGER NOT NULL DEFAULT 0,
    event_seq     INTEGER NOT NULL DEFAULT 0,
    saved_doc_seq INTEGER NOT NULL DEFAULT 0,
    saved_event_seq INTEGER NOT NULL DEFAULT 0,
    source        BLOB,                     -- MessagePack {state, reason?, hash?, nbformat?, nbformat_minor?}
    keep_alive_ms INTEGER,                  -- NULL: default; -1: pinned
    created_at    INTEGER NOT NULL,
    touched_at    INTEGER NOT NULL
  ) STRICT;

  -- The file's own text as last read or written: the base of splicing and merging.
  CREATE TABLE sources (
    notebook_id TEXT PRIMARY KEY REFERENCES rooms ON DELETE CASCADE,
    hash        TEXT NOT NULL,
    text        BLOB NOT NULL
  ) STRICT;

  CREATE TABLE doc_updates (
    notebook_id TEXT NOT NULL REFERENCES rooms ON DELETE CASCADE,
    doc_seq     INTEGER NOT NULL,
    body        BLOB NOT NULL,              -- Yjs update
    origin      TEXT NOT NULL,              -- label of who made it
    at          INTEGER NOT NULL,
    PRIMARY KEY (notebook_id, doc_seq)
  ) STRICT, WITHOUT ROWID;

  CREATE TABLE doc_snapshots (
    notebook_id TEXT PRIMARY KEY REFERENCES rooms ON DELETE CASCADE,
    doc_seq     INTEGER NOT NULL,           -- covers all updates up to it
    body        BLOB NOT NULL
  ) STRICT;

  CREATE TABLE events (
    notebook_id TEXT NOT NULL REFERENCES rooms ON DELETE CASCADE,
    event_seq   INTEGER NOT NULL,
    at          INTEGER NOT NULL,
    body        BLOB NOT NULL,              -- MessagePack EventEnvelope, exactly as sent
    PRIMARY KEY (notebook_id, event_seq)
  ) STRICT, WITHOUT ROWID;

  CREATE TABLE instances (
    client_instance       TEXT PRIMARY KEY,
    activation_generation INTEGER NOT NULL DEFAULT 0,
    watermark             INTEGER NOT NULL DEFAULT 0,
    seen_at               INTEGER NOT NULL
  ) STRICT;

  CREATE TABLE mutations (
    client_instance TEXT NOT NULL,
    mutation_id     INTEGER NOT NULL,
    method          TEXT NOT NULL,
    notebook_id     TEXT,
    result          BLOB,                   -- MessagePack {ok, value | error}; NULL: begun, outcome not recorded
    at              INTEGER NOT NULL,
    PRIMARY KEY (client_instance, mutation_id)
  ) STRICT, WITHOUT ROWID;

  CREATE TABLE executions (
    execution_id    TEXT PRIMARY KEY,
    notebook_id     TEXT NOT NULL REFERENCES rooms ON DELETE CASCADE,
    queue_seq       INTEGER NOT NULL,       -- order within the room
    cell_id         TEXT,
    batch           TEXT,                   -- one run_all
    status          TEXT NOT NULL,
    execution_count INTEGER,
    origin          TEXT NOT NULL,          -- peer | file
    asked_by        TEXT NOT NULL,
    source          TEXT NOT NULL,          -- what was (to be) run
    source_hash     TEXT NOT NULL,
    on_error        TEXT NOT NULL,
    allow_stdin     INTEGER NOT NULL,
    kernel_id       TEXT,                   -- set when handed to a kernel
    queued_at       INTEGER NOT NULL,
    started_at      INTEGER,
    finished_at     INTEGER,
    detail          BLOB                    -- MessagePack {reason?, prompt?, password?, truncated?, …}
  ) STRICT;
  CREATE INDEX executions_by_room ON executions (notebook_id, queue_seq);

  -- Which execution a cell shows.
  CREATE TABLE cell_executions (
    notebook_id  TEXT NOT NULL REFERENCES rooms ON DELETE CASCADE,
    cell_id      TEXT NOT NULL,
    execution_id TEXT NOT NULL REFERENCES executions ON DELETE CASCADE,
    PRIMARY KEY (notebook_id, cell_id)
  ) STRICT, WITHOUT ROWID;

  -- One row an output. A stream's text is in output_pieces while its execution runs and may stay there.
  CREATE TABLE outputs (
    execution_id TEXT NOT NULL REFERENCES executions ON DELETE CASCADE,
    output_index INTEGER NOT NULL,
    body         BLOB NOT NULL,             -- MessagePack Output; stream text empty when it has pieces
    PRIMARY KEY (execution_id, output_index)
  ) STRICT, WITHOUT ROWID;

  -- Pieces of a stream's text: piece at UTF-16 offset char_offset. Splicing at n deletes pieces at or beyond n and trims one.
  CREATE TABLE output_pieces (
    execution_id TEXT NOT NULL REFERENCES executions ON DELETE CASCADE,
    output_index INTEGER NOT NULL,
    char_offset  INTEGER NOT NULL,
    text         TEXT NOT NULL,
    PRIMARY KEY (execution_id, output_index, char_offset)
  ) STRICT, WITHOUT ROWID;

  CREATE TABLE kernels (
    kernel_id     TEXT PRIMARY KEY,
    notebook_id   TEXT NOT NULL,
    name          TEXT NOT NULL,
    language      TEXT NOT NULL,
    nonce         TEXT NOT NULL,
    socket        TEXT NOT NULL,
    host_pid      INTEGER,
    pid           INTEGER,
    pid_started   INTEGER,
    machine_boot  TEXT NOT NULL,
    consumed_seq  INTEGER NOT NULL DEFAULT 0, -- host events durable here; written with their outputs
    launch        BLOB NOT NULL,              -- MessagePack HostLaunch and language info
    started_at    INTEGER NOT NULL
  ) STRICT;
  `,
  `
  -- Comms that are open, of the room's kernel; see executions/comms.
  CREATE TABLE comms (
    notebook_id TEXT NOT NULL REFERENCES rooms ON DELETE CASCADE,
    comm_id     TEXT NOT NULL,
    kernel_id   TEXT NOT NULL,
    opened      INTEGER NOT NULL,           -- order of opening
    body        BLOB NOT NULL,              -- MessagePack: all but the state
    PRIMARY KEY (notebook_id, comm_id)
  ) STRICT;

  -- Newest value of each name of a comm's state.
  CREATE TABLE comm_state (
    notebook_id TEXT NOT NULL REFERENCES rooms ON DELETE CASCADE,
    comm_id     TEXT NOT NULL,
    name        TEXT NOT NULL,
    value       BLOB NOT NULL,              -- MessagePack, binary values in their places
    PRIMARY KEY (notebook_id, comm_id, name)
  ) STRICT;

  -- Comm messages to the kernel that it has not taken up yet: sent (again, under the same id) by whichever daemon lives.
  CREATE TABLE comm_sends (
    notebook_id TEXT NOT NULL REFERENCES rooms ON DELETE CASCADE,
    message_id  TEXT NOT NULL,
    send_seq    INTEGER NOT NULL,           -- order
    kernel_id   TEXT NOT NULL,
    comm_id     TEXT NOT NULL,
    names       TEXT NOT NULL,              -- JSON list: values of the state that it sets
    body        BLOB NOT NULL,              -- MessagePack {msg_type, content, metadata, buffers}
    PRIMARY KEY (notebook_id, message_id)
  ) STRICT;
  `,
  `
  -- What the room calls the cells of the text, in order (MessagePack); NULL: what reading it gives.
  ALTER TABLE sources ADD COLUMN cell_ids BLOB;
  ALTER TABLE rooms ADD COLUMN autosave TEXT NOT NULL DEFAULT 'on'; -- on | off | paused
  `,
]
