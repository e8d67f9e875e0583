/** A tree as the reference and the programs around it leave it: good files, variants of older programs, and broken ones. */
import { mkdirSync, readdirSync, readFileSync, statSync, utimesSync, writeFileSync } from 'node:fs'
import { dirname, join } from 'node:path'

export interface TreeFile {
  readonly content: string | Buffer
  /** Seconds since 1970. */
  readonly mtime?: number
}

export const MTIME = 1_773_000_000.123456

const A = 'SESSION-20260301-100000-AAAA'
const B = 'SESSION-20260301-110000-BBBB'
export const ids = {
  A,
  B,
  hookEra: 'SESSION-0d9f6f1e-2c0e-4b59-9f3c-8a3f2f8f5a11',
  stub: 'SESSION-20260228-090000-STUB',
}

const chain = `{
  "version": "1.0.0",
  "sessions": {
    "${ids.stub}": {
      "parent": null,
      "children": [
        "${A}"
      ],
      "related": [],
      "tags": [],
      "project": "",
      "skill": "",
      "task_type": "",
      "summary": "",
      "created_at": "",
      "last_prompt": ""
    },
    "${A}": {
      "parent": "${ids.stub}",
      "children": [
        "${B}",
        "not-mine"
      ],
      "related": [
        "${B}"
      ],
      "tags": [
        "React",
        "redis"
      ],
      "project": "shop",
      "skill": "py",
      "task_type": "Fix",
      "summary": "2 requests, py, complexity avg 8.5",
      "created_at": "2026-03-01T10:00:00.000001",
      "last_prompt": "Half a pair \\ud83d and \\u00e9",
      "work_items": [
        {
          "work_id": "BUG-20260301-100100-W1W1",
          "type": "BUG",
          "description": "broken",
          "started_at": "2026-03-01T10:01:00",
          "completed_at": null,
          "status": "PAUSED",
          "metadata": {
            "score": NaN,
            "limit": -Infinity
          },
          "owner": "somebody"
        }
      ]
    },
    "${B}": {
      "parent": "${A}",
      "children": [],
      "related": [],
      "tags": [
        "redis"
      ],
      "project": "old",
      "project": "shop",
      "skill": null,
      "task_type": "",
      "summary": "mine",
      "created_at": "2026-03-01T11:00:00.000002",
      "last_prompt": "go on",
      "unknown_member": {
        "kept": true
      }
    }
  },
  "tag_index": {
    "redis": [
      "${A}",
      "${B}"
    ],
    "React": [
      "${A}"
    ],
    "late": [
      "${B}"
    ]
  }
}`

const summaryA = `{
  "session_id": "${A}",
  "created_at": "2026-03-01T10:00:05.000000",
  "requests": [
    {
      "timestamp": "2026-03-01T10:00:05.000000",
      "prompt": "first \\ud800 half",
      "prompt_char_count": 12,
      "task_type": "Fix",
      "skill": "py",
      "complexity": 14,
      "model": "SONNET",
      "cwd": "/x",
      "plan_mode": true,
      "context_pct": 22,
      "supplementary_skills": [
        "perf"
      ],
      "decision_rationale": "Complexity 14 -> Model SONNET, Skill py"
    },
    {
      "timestamp": "2026-03-01T10:20:05.000000",
      "prompt": "second",
      "prompt_char_count": 6,
      "task_type": "Fix",
      "skill": "py",
      "complexity": 3,
      "model": "SONNET",
      "cwd": "/x",
      "plan_mode": false,
      "context_pct": 40,
      "supplementary_skills": [],
      "decision_rationale": "Complexity 3 -> Model SONNET, Skill py"
    }
  ],
  "request_count": 2,
  "skills_used": [
    "py"
  ],
  "task_types": [
    "Fix"
  ],
  "models_used": [
    "SONNET"
  ],
  "all_supplementary_skills": [
    "perf"
  ],
  "plan_mode_count": 1,
  "context_history": [
    22,
    40
  ],
  "peak_context_pct": 40,
  "total_complexity": 17,
  "max_complexity": 14,
  "status": "COMPLETED",
  "last_updated": "2026-03-01T10:20:05.000000",
  "duration_human": "20m 0s",
  "duration_seconds": 1200,
  "avg_complexity": 8.5,
  "files_modified": [
    "src/a.ts"
  ],
  "files_read": [],
  "total_tool_calls": 2,
  "error_count": 0,
  "success_rate_pct": 100.0,
  "source_warnings": []
}`

const seeder = `\ufeff{"session_id": "seeded", "timestamp": "2026-02-01T08:00:00", "task_type": "Docs", "model": "HAIKU", "agent": "x", "status": "completed", "policies_passed": 3, "success_rate": 99.5}`
const hookManager = JSON.stringify({
  session_id: ids.hookEra,
  version: '2.1',
  created_at: '2026-01-05T07:00:00+01:00',
  requests: [
    { timestamp: '2026-01-05T07:00:00+01:00', prompt: 'hook era kumquat', complexity: 30, extra_field: 1 },
  ],
  request_count: 5,
  status: 'ACTIVE',
  projects_touched: ['shop'],
  total_prompt_chars: 16,
  last_updated: '2026-01-05T07:10:00+01:00',
})

/** Files that are good, or can be read with care. */
export const goodFiles: Readonly<Record<string, TreeFile>> = {
  '.chain-index.json': { content: chain },
  '.current-session.json': {
    content: `{"current_session_id": "${B}", "project": "shop", "created_at": "2026-03-01T11:00:00"}`,
  },
  '.state/shop.json': { content: '{\n  "step": 3,\n  "rate": NaN\n}', mtime: MTIME },
  '.state/list.json': { content: '[1, 2]' },
  [`logs/sessions/${A}/session-summary.json`]: { content: summaryA },
  [`logs/sessions/${A}/session-summary.md`]: { content: '# Session Summary: its own text\n', mtime: MTIME },
  [`logs/sessions/${A}/flow-trace.json`]: {
    content:
      '{"all_policies_executed": [{"policy_name": "p", "duration_ms": 4}], "decisions_timeline": [{"policy": "p", "decision": "go"}]}',
  },
  [`logs/sessions/${A}/tool-tracker.jsonl`]: {
    content:
      '{"ts": "2026-03-01T10:05:00", "tool": "Write", "status": "success", "file": "src/a.ts"}\nbroken line\n{"tool": "Bash", "x": "a\u2028b"}\n',
  },
  'logs/sessions/seeded/session-summary.json': { content: seeder },
  [`logs/sessions/${ids.hookEra}/session-summary.json`]: { content: hookManager },
  [`logs/sessions/${ids.hookEra}/session.json`]: { content: 'ignored' },
  'logs/sessions/empty/session-summary.json': { content: '{}' },
  'sessions/shop/session-my-session-1.md': { content: '# Saved words of quince', mtime: MTIME },
  [`sessions/shop/context-${B}.json`]: { content: '{"open": ["a.ts"]}', mtime: MTIME },
  'sessions/_archived/shop/session-old-one.md': { content: 'archived medlar', mtime: MTIME - 1000 },
  'sessions/chain-index.json': {
    content: `{"last_updated": "2026-01-05", "sessions": {"${ids.hookEra}": {"parent": null, "project": null, "tags": ["z", "a"], "created_at": "2026-01-05T07:00:00"}}}`,
  },
  '.chain-index.json.123.deadbeef.tmp': { content: 'ignored' },
  'logs/sessions/flags/ignored.json': { content: '{' },
}

/** Files that cannot be read; two of them have a backup that can. */
export const brokenFiles: Readonly<Record<string, TreeFile>> = {
  '.state/broken.json': { content: '{"a": ' },
  '.state/saved.json': { content: 'not json' },
  '.state/saved.json.bak': { content: '{"from": "backup"}' },
  'logs/sessions/torn/session-summary.json': { content: '{"session_id": "torn", "reques' },
  'logs/sessions/torn/session-summary.json.bak': {
    content:
      '{"session_id": "torn", "created_at": "2026-02-02T02:02:02", "requests": [{"prompt": "from the backup", "complexity": 1}], "status": "IN_PROGRESS"}',
  },
  'logs/sessions/list/session-summary.json': { content: '[1]' },
  [`logs/sessions/${B}/flow-trace.json`]: { content: '{"cut' },
  'sessions/shop/context-bytes.json': { content: Buffer.from([0x7b, 0xff, 0x7d]) },
}

export function writeTree(root: string, files: Readonly<Record<string, TreeFile>>): void {
  for (const [path, { content, mtime }] of Object.entries(files)) {
    const file = join(root, path)
    mkdirSync(dirname(file), { recursive: true })
    writeFileSync(file, content)
    utimesSync(file, mtime ?? 1_772_000_000, mtime ?? 1_772_000_000)
  }
}

/** Every file of a tree with its content. */
export function readFolder(root: string, under = ''): Record<string, string> {
  const found: Record<string, string> = {}
  for (const entry of readdirSync(join(root, under), { withFileTypes: true })) {
    const path = under === '' ? entry.name : `${under}/${entry.name}`
    if (entry.isDirectory()) Object.assign(found, readFolder(root, path))
    else found[path] = readFileSync(join(root, path), 'latin1')
  }
  return found
}

export function timesOf(root: string, paths: readonly string[]): number[] {
  return paths.map((path) => Math.round(statSync(join(root, path)).mtimeMs))
}
