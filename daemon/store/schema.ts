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
    source          TEXT NOT NULL,          -- what was (to be) run; empty when it came with a file
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
  // --- the ledger of agent sessions (daemon/ledger/). Times `*_us` are UTC microseconds; `*_text` is how a time was written.
  `
  CREATE TABLE ledger_sessions (
    session_key   INTEGER PRIMARY KEY,      -- order of creation
    session_id    TEXT NOT NULL UNIQUE,     -- as outsiders name it
    project       TEXT NOT NULL,
    parent        TEXT,                     -- session_id of the session before; an imported one may not be here
    chained       INTEGER NOT NULL,         -- has a record of its own; 0: known by its requests or files only
    synthetic     INTEGER NOT NULL,         -- made because something named it
    origin        TEXT NOT NULL,            -- tool | hook | import
    skill         TEXT NOT NULL DEFAULT '',
    task_type     TEXT NOT NULL DEFAULT '',
    last_prompt   TEXT NOT NULL DEFAULT '', -- first 200 code points
    cwd           TEXT NOT NULL DEFAULT '',
    user_summary  TEXT NOT NULL DEFAULT '', -- by session_tag
    auto_summary  TEXT NOT NULL DEFAULT '', -- by finalizing
    status        TEXT NOT NULL DEFAULT 'IN_PROGRESS',
    created_us    INTEGER NOT NULL,
    created_text  TEXT NOT NULL,            -- empty: a stub made by a link
    updated_us    INTEGER NOT NULL,
    finalized_us  INTEGER,
    archived_us   INTEGER,
    rev           INTEGER NOT NULL DEFAULT 1,
    imported_rev  INTEGER,                  -- rev after the last import; equal to rev: nobody changed it here
    extra         TEXT                      -- JSON (ASCII) of what an imported record has besides
  ) STRICT;
  CREATE INDEX ledger_sessions_by_project ON ledger_sessions (project, updated_us);
  CREATE INDEX ledger_sessions_by_update ON ledger_sessions (updated_us);
  CREATE INDEX ledger_sessions_archived ON ledger_sessions (archived_us) WHERE archived_us IS NOT NULL;
  CREATE INDEX ledger_sessions_by_parent ON ledger_sessions (parent) WHERE parent IS NOT NULL;

  -- What session_accumulate adds up; one row once a session has requests (or an imported summary).
  CREATE TABLE ledger_totals (
    session_key      INTEGER PRIMARY KEY REFERENCES ledger_sessions ON DELETE CASCADE,
    created_us       INTEGER,               -- of the first request; NULL: not written or not readable
    created_text     TEXT NOT NULL,
    updated_us       INTEGER,
    updated_text     TEXT NOT NULL,
    requests         INTEGER NOT NULL DEFAULT 0,
    total_complexity INTEGER NOT NULL DEFAULT 0,
    max_complexity   INTEGER NOT NULL DEFAULT 0,
    peak_context     INTEGER NOT NULL DEFAULT 0,
    plan_mode        INTEGER NOT NULL DEFAULT 0,
    derived          TEXT,                  -- JSON of what finalizing found
    stale            INTEGER NOT NULL DEFAULT 0, -- requests came after it
    extra            TEXT
  ) STRICT;

  CREATE TABLE ledger_requests (
    session_key   INTEGER NOT NULL REFERENCES ledger_sessions ON DELETE CASCADE,
    n             INTEGER NOT NULL,         -- from 1
    at_us         INTEGER,
    at_text       TEXT NOT NULL,
    prompt        TEXT NOT NULL,            -- first 500 code points
    prompt_chars  INTEGER NOT NULL,
    task_type     TEXT NOT NULL,
    skill         TEXT NOT NULL,
    complexity    INTEGER NOT NULL,
    model         TEXT NOT NULL,
    cwd           TEXT NOT NULL,
    plan_mode     INTEGER NOT NULL,
    context_pct   INTEGER NOT NULL,
    standards     INTEGER NOT NULL DEFAULT 0,
    rules         INTEGER NOT NULL DEFAULT 0,
    supplementary TEXT NOT NULL,            -- JSON array
    extra         TEXT,
    PRIMARY KEY (session_key, n)
  ) STRICT, WITHOUT ROWID;

  -- Skills, task types, models and supplementary skills of a session, in the order in which they first came.
  CREATE TABLE ledger_seen (
    session_key INTEGER NOT NULL REFERENCES ledger_sessions ON DELETE CASCADE,
    kind        TEXT NOT NULL,              -- skill | task_type | model | supplementary
    value       TEXT NOT NULL,
    position    INTEGER NOT NULL,
    PRIMARY KEY (session_key, kind, value)
  ) STRICT, WITHOUT ROWID;

  CREATE TABLE ledger_tags (
    tag_key  INTEGER PRIMARY KEY,
    name     TEXT NOT NULL,
    folded   TEXT NOT NULL UNIQUE,
    sessions INTEGER NOT NULL DEFAULT 0     -- how many have it
  ) STRICT;

  CREATE TABLE ledger_session_tags (
    session_key INTEGER NOT NULL REFERENCES ledger_sessions ON DELETE CASCADE,
    tag_key     INTEGER NOT NULL REFERENCES ledger_tags,
    name        TEXT NOT NULL,              -- as this session spells it
    source      TEXT NOT NULL,              -- task_type | skill | project | prompt | manual | import
    span        TEXT,                       -- what of the prompt it was found in
    position    INTEGER NOT NULL,           -- order of tagging, over all sessions
    PRIMARY KEY (session_key, tag_key)
  ) STRICT, WITHOUT ROWID;
  CREATE INDEX ledger_sessions_by_tag ON ledger_session_tags (tag_key, session_key);

  -- Relations that were written down; those by shared tags are found when they are asked for.
  CREATE TABLE ledger_relations (
    session_key INTEGER NOT NULL REFERENCES ledger_sessions ON DELETE CASCADE,
    other       TEXT NOT NULL,              -- session_id; may not be here
    kind        TEXT NOT NULL,
    position    INTEGER NOT NULL,
    PRIMARY KEY (session_key, other)
  ) STRICT, WITHOUT ROWID;
  CREATE INDEX ledger_relations_by_other ON ledger_relations (other);

  CREATE TABLE ledger_work_items (
    work_key       INTEGER PRIMARY KEY,
    session_key    INTEGER NOT NULL REFERENCES ledger_sessions ON DELETE CASCADE,
    work_id        TEXT NOT NULL,
    type           TEXT NOT NULL,
    description    TEXT NOT NULL,
    status         TEXT NOT NULL,
    started_text   TEXT NOT NULL,
    completed_text TEXT,
    metadata       TEXT NOT NULL,           -- JSON (ASCII)
    extra          TEXT,
    UNIQUE (session_key, work_id)
  ) STRICT;

  CREATE TABLE ledger_tool_events (
    session_key INTEGER NOT NULL REFERENCES ledger_sessions ON DELETE CASCADE,
    n           INTEGER NOT NULL,
    at_text     TEXT NOT NULL,
    tool        TEXT,                       -- NULL: a line that cannot be read
    failed      INTEGER NOT NULL,
    file        TEXT,
    source      TEXT NOT NULL,              -- mcp | hook | file
    event_id    TEXT,                       -- told twice, it is one
    notebook_id TEXT,
    line        TEXT,                       -- as the tracker file has it
    PRIMARY KEY (session_key, n),
    UNIQUE (session_key, event_id)
  ) STRICT;

  -- Rooms in which a session's MCP child worked.
  CREATE TABLE ledger_rooms (
    session_key INTEGER NOT NULL REFERENCES ledger_sessions ON DELETE CASCADE,
    notebook_id TEXT NOT NULL,
    path        TEXT,
    calls       INTEGER NOT NULL DEFAULT 0,
    first_us    INTEGER NOT NULL,
    last_us     INTEGER NOT NULL,
    PRIMARY KEY (session_key, notebook_id)
  ) STRICT, WITHOUT ROWID;

  CREATE TABLE ledger_executions (
    session_key  INTEGER NOT NULL REFERENCES ledger_sessions ON DELETE CASCADE,
    execution_id TEXT NOT NULL,
    notebook_id  TEXT NOT NULL,
    status       TEXT NOT NULL,             -- as last told; the execution's own row is newer while it is kept
    PRIMARY KEY (session_key, execution_id)
  ) STRICT, WITHOUT ROWID;

  -- What session_save keeps, and files of an imported tree that are kept as they are.
  CREATE TABLE ledger_artifacts (
    artifact_key INTEGER PRIMARY KEY,
    kind         TEXT NOT NULL,             -- state | summary | context | finalized | flow_trace
    project      TEXT NOT NULL,
    name         TEXT NOT NULL,             -- session_id; empty for a state
    session_key  INTEGER REFERENCES ledger_sessions ON DELETE CASCADE,
    body         BLOB NOT NULL,
    modified_us  INTEGER NOT NULL,
    recovered    TEXT,                      -- why a backup stands here
    rev          INTEGER NOT NULL DEFAULT 1,
    UNIQUE (kind, project, name)
  ) STRICT;
  CREATE INDEX ledger_artifacts_by_session ON ledger_artifacts (session_key, kind);

  -- Earlier versions: the newest few, and all that were archived.
  CREATE TABLE ledger_artifact_history (
    artifact_key INTEGER NOT NULL REFERENCES ledger_artifacts ON DELETE CASCADE,
    rev          INTEGER NOT NULL,
    body         BLOB NOT NULL,
    modified_us  INTEGER NOT NULL,
    archived     INTEGER NOT NULL,
    PRIMARY KEY (artifact_key, rev)
  ) STRICT, WITHOUT ROWID;

  -- The session that is under way: per client instance and project, and per working folder for hooks.
  CREATE TABLE ledger_pointers (
    scope       TEXT PRIMARY KEY,
    session_key INTEGER NOT NULL REFERENCES ledger_sessions ON DELETE CASCADE,
    generation  INTEGER NOT NULL,
    set_us      INTEGER NOT NULL
  ) STRICT;

  -- First answers of calls that named an idempotency_key.
  CREATE TABLE ledger_keys (
    scope  TEXT NOT NULL,
    key    TEXT NOT NULL,
    result TEXT NOT NULL,
    at_us  INTEGER NOT NULL,
    PRIMARY KEY (scope, key)
  ) STRICT, WITHOUT ROWID;

  CREATE TABLE ledger_hook_events (
    event_id   TEXT PRIMARY KEY,
    event      TEXT NOT NULL,
    session_id TEXT NOT NULL,
    at_us      INTEGER NOT NULL,
    input      TEXT NOT NULL                -- JSON; long texts cut
  ) STRICT;
  CREATE INDEX ledger_hook_events_by_session ON ledger_hook_events (session_id, at_us);

  CREATE TABLE ledger_imports (
    path     TEXT PRIMARY KEY,
    sha256   TEXT NOT NULL,
    at_us    INTEGER NOT NULL,
    outcome  TEXT NOT NULL,                 -- imported | quarantined
    detail   TEXT NOT NULL                  -- JSON array of warnings, or the reason
  ) STRICT;

  -- Texts that are searched. doc_key = session_key * 1048576 + a number within the session, so that a hit names its session.
  CREATE TABLE ledger_docs (
    doc_key INTEGER PRIMARY KEY,
    source  TEXT NOT NULL,                  -- profile | summary | files | request | work_item | decisions | artifact kinds
    ref     TEXT NOT NULL,
    body    TEXT NOT NULL
  ) STRICT;
  CREATE VIRTUAL TABLE ledger_words USING fts5 (body, content = 'ledger_docs', content_rowid = 'doc_key', tokenize = 'unicode61');
  CREATE VIRTUAL TABLE ledger_trigrams USING fts5 (body, content = 'ledger_docs', content_rowid = 'doc_key', tokenize = 'trigram');
  CREATE TRIGGER ledger_docs_added AFTER INSERT ON ledger_docs BEGIN
    INSERT INTO ledger_words (rowid, body) VALUES (new.doc_key, new.body);
    INSERT INTO ledger_trigrams (rowid, body) VALUES (new.doc_key, new.body);
  END;
  CREATE TRIGGER ledger_docs_removed AFTER DELETE ON ledger_docs BEGIN
    INSERT INTO ledger_words (ledger_words, rowid, body) VALUES ('delete', old.doc_key, old.body);
    INSERT INTO ledger_trigrams (ledger_trigrams, rowid, body) VALUES ('delete', old.doc_key, old.body);
  END;
  CREATE TRIGGER ledger_docs_changed AFTER UPDATE ON ledger_docs BEGIN
    INSERT INTO ledger_words (ledger_words, rowid, body) VALUES ('delete', old.doc_key, old.body);
    INSERT INTO ledger_trigrams (ledger_trigrams, rowid, body) VALUES ('delete', old.doc_key, old.body);
    INSERT INTO ledger_words (rowid, body) VALUES (new.doc_key, new.body);
    INSERT INTO ledger_trigrams (rowid, body) VALUES (new.doc_key, new.body);
  END;
  `,
  // Projects, workspaces and the warm pool.
  `
  ALTER TABLE rooms ADD COLUMN state TEXT NOT NULL DEFAULT 'active'
    CHECK (state IN ('warming', 'pooled', 'draft', 'active', 'evicted', 'archived', 'discarded'));
  ALTER TABLE rooms ADD COLUMN generation INTEGER NOT NULL DEFAULT 0; -- rises with each step of state
  ALTER TABLE kernels ADD COLUMN born_standby INTEGER NOT NULL DEFAULT 0;

  CREATE TABLE projects (
    project_id TEXT PRIMARY KEY,
    key        TEXT NOT NULL UNIQUE,        -- canonical place, without credentials
    name       TEXT NOT NULL,
    source     BLOB NOT NULL,               -- MessagePack {kind: local | remote, …}
    status     TEXT NOT NULL CHECK (status IN ('cloning', 'ready', 'error')),
    reason     TEXT,
    trusted    INTEGER NOT NULL DEFAULT 0,
    settings   BLOB NOT NULL,               -- MessagePack of what was said when it was added
    created_at INTEGER NOT NULL,
    used_at    INTEGER NOT NULL
  ) STRICT;

  -- Where a room of a project, or a room kept ready, works.
  CREATE TABLE workspaces (
    notebook_id TEXT PRIMARY KEY REFERENCES rooms ON DELETE CASCADE,
    project_id  TEXT REFERENCES projects ON DELETE SET NULL, -- NULL: of no project, or it was removed
    slot        TEXT UNIQUE,                -- place in the pool, while warming or pooled: at most one room in each
    folder      TEXT NOT NULL,
    branch      TEXT,
    base        TEXT,                       -- commit that the branch began at
    owner       TEXT,                       -- client instance that claimed it
    interactive INTEGER NOT NULL DEFAULT 0,
    lease_until INTEGER,                    -- of a draft without peers
    trusted     INTEGER NOT NULL DEFAULT 0, -- of a project that was removed
    detail      BLOB NOT NULL               -- MessagePack {fingerprint, settings, files}
  ) STRICT;
  CREATE INDEX workspaces_by_project ON workspaces (project_id);

  -- Kernelspecs that new notebooks used: those of the last day are kept ready.
  CREATE TABLE kernel_use (name TEXT PRIMARY KEY, used_at INTEGER NOT NULL) STRICT;

  -- The table of steps (rooms/room-state.ts). Nothing else can be committed.
  CREATE TRIGGER room_state_steps BEFORE UPDATE OF state ON rooms
  WHEN NEW.state IS NOT NULL AND NEW.state IS NOT OLD.state AND (
    NEW.generation IS NOT OLD.generation + 1
    OR OLD.state || ' ' || NEW.state NOT IN (
      'warming pooled', 'warming discarded', 'pooled draft', 'pooled discarded', 'draft active', 'draft pooled',
      'draft discarded', 'active evicted', 'active archived', 'evicted active', 'evicted archived'))
  BEGIN SELECT RAISE(ABORT, 'a room cannot take this step'); END;

  -- A standby exists for no other rooms than those in warming or pooled: those that have a place in the pool.
  CREATE TRIGGER room_state_slots BEFORE UPDATE OF state ON rooms
  WHEN (NEW.state IN ('warming', 'pooled')) IS NOT
    EXISTS (SELECT 1 FROM workspaces WHERE notebook_id = NEW.notebook_id AND slot IS NOT NULL)
  BEGIN SELECT RAISE(ABORT, 'a room has a place in the pool exactly while it is warming or pooled'); END;

  -- Rooms that nobody works in yet hold no user change: the first one makes them active in the same transaction.
  CREATE TRIGGER no_edit_before_active BEFORE INSERT ON doc_updates
  WHEN (SELECT state FROM rooms WHERE notebook_id = NEW.notebook_id) IN ('warming', 'pooled', 'draft', 'discarded')
  BEGIN SELECT RAISE(ABORT, 'a room is edited that is not active'); END;
  CREATE TRIGGER no_execution_before_active BEFORE INSERT ON executions
  WHEN (SELECT state FROM rooms WHERE notebook_id = NEW.notebook_id) IN ('warming', 'pooled', 'draft', 'discarded')
  BEGIN SELECT RAISE(ABORT, 'something runs in a room that is not active'); END;

  -- One kernel belongs to one room for life.
  CREATE TRIGGER kernels_stay BEFORE UPDATE OF notebook_id ON kernels
  WHEN NEW.notebook_id IS NOT OLD.notebook_id
  BEGIN SELECT RAISE(ABORT, 'a kernel cannot move to another room'); END;
  `,
  `
  -- JSON {at, tripped, last} of kernels that ran out of memory; NULL: none since the last reset.
  ALTER TABLE rooms ADD COLUMN memory_deaths TEXT;
  -- Kernelspec of the last kernel that came up, for when neither anybody nor the notebook asks for one.
  ALTER TABLE rooms ADD COLUMN launched_kernel TEXT;
  `,
  `
  -- Ids of many sessions, without reading their rows.
  CREATE INDEX ledger_session_ids ON ledger_sessions (session_key, session_id);
  -- JSON: what tool events that are too old came to ({told, tracked}); NULL: none was forgotten.
  ALTER TABLE ledger_sessions ADD COLUMN forgotten_events TEXT;
  `,
  `
  -- JSON {kernel_id, text} while a room is evicted: which kernel was ended, and what went with it, in words.
  ALTER TABLE rooms ADD COLUMN lost TEXT;
  `,
  `
  -- Nor is a room worked in that was archived.
  CREATE TRIGGER no_edit_in_archive BEFORE INSERT ON doc_updates
  WHEN (SELECT state FROM rooms WHERE notebook_id = NEW.notebook_id) = 'archived'
  BEGIN SELECT RAISE(ABORT, 'a room is edited that is archived'); END;
  CREATE TRIGGER no_execution_in_archive BEFORE INSERT ON executions
  WHEN (SELECT state FROM rooms WHERE notebook_id = NEW.notebook_id) = 'archived'
  BEGIN SELECT RAISE(ABORT, 'something runs in a room that is archived'); END;
  `,
  `
  -- The snapshot of a large document in slices that are applied one after another; doc_snapshots.body is then empty.
  CREATE TABLE doc_slices (
    notebook_id TEXT NOT NULL REFERENCES rooms ON DELETE CASCADE,
    slice       INTEGER NOT NULL,
    body        BLOB NOT NULL,              -- Yjs update that builds on the slices before it
    PRIMARY KEY (notebook_id, slice)
  ) STRICT;
  -- MessagePack {metadata, total, cells}: how the document of the snapshot begins; NULL: it is small.
  ALTER TABLE doc_snapshots ADD COLUMN head BLOB;
  `,
  `
  -- Executions that are not terminal: few, among any number that are over.
  CREATE INDEX executions_open ON executions (notebook_id, queue_seq)
  WHERE status IN ('queued', 'running', 'waiting_for_input');
  `,
  `
  -- Mutations mutation_id..last_id that came together: result is MessagePack {ok, values}, one value each. NULL: one mutation.
  -- Rows of one client instance never overlap.
  ALTER TABLE mutations ADD COLUMN last_id INTEGER;
  `,
  `
  -- The text of a large file in pieces, so that nobody's commit waits for all of it; sources.text is then empty.
  CREATE TABLE source_pieces (
    notebook_id TEXT NOT NULL REFERENCES rooms ON DELETE CASCADE,
    piece       INTEGER NOT NULL,
    text        BLOB NOT NULL,
    PRIMARY KEY (notebook_id, piece)
  ) STRICT;
  -- Bytes of all pieces together; NULL: the text is in its own row.
  ALTER TABLE sources ADD COLUMN pieces_size INTEGER;
  `,
]
