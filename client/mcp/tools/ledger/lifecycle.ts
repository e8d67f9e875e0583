/** A session from its beginning to its summary. */
import { changes, reads, settles } from '../tool.ts'
import { expectRev, idempotencyKey, includeArchived, project, sessionId } from './arguments.ts'
import { ledgerTool } from './define.ts'

export const sessionCreate = ledgerTool('session_create', {
  title: 'Begin a session',
  description:
    'Records that a piece of work begins, and gives it an id. Tags are found in task type, skill, folder and prompt. What you do in notebooks from now on is counted for it by itself.',
  annotations: changes,
  arguments: {
    project,
    task_type: 'Kind of work, such as "Bug Fix".',
    skill: 'Skill or role that does it.',
    prompt: 'What was asked for. Its first 200 characters are kept.',
    project_cwd: 'Folder of the project; its name becomes a tag.',
    idempotency_key: idempotencyKey,
  },
})

export const sessionAccumulate = ledgerTool('session_accumulate', {
  title: 'Add a request to a session',
  description:
    'Records one request of the user within a session and adds it up. A session id that is new is registered.',
  annotations: changes,
  arguments: {
    session_id: sessionId,
    prompt: 'What was asked for. Its first 500 characters are kept.',
    task_type: 'Kind of work.',
    skill: 'Skill that was used.',
    complexity: 'From 0 to 25.',
    model: 'Model that worked on it.',
    cwd: 'Folder it was in.',
    plan_mode: 'Whether it was only planned.',
    context_pct: 'How full the context was, in percent.',
    supplementary_skills: 'Further skills, separated by commas.',
    standards_count: 'How many standards applied.',
    rules_count: 'How many rules applied.',
    idempotency_key: idempotencyKey,
    expect_rev: expectRev,
  },
})

export const sessionFinalize = ledgerTool('session_finalize', {
  title: 'Sum up a session',
  description:
    'Sums a session up: duration, requests, tools, files, notebooks and cells that ran; its summary can be loaded and searched from then on. Can be done again.',
  annotations: settles,
  arguments: { session_id: sessionId, expect_rev: expectRev },
})

export const sessionLink = ledgerTool('session_link', {
  title: 'Link a session to the one before',
  description: 'Says that a session goes on where another ended, for example after /clear. No cycles.',
  annotations: settles,
  arguments: {
    child_id: 'Session that goes on.',
    parent_id: 'Session before it.',
    expect_rev: expectRev,
  },
})

export const sessionGetContext = ledgerTool('session_get_context', {
  title: 'What a session goes on from',
  description:
    'The sessions before this one, sessions that are like it, open work items, and the notebooks to go back to, each with the exact connect_notebook call. Call it when you begin with an empty context.',
  annotations: reads,
  arguments: {
    session_id: sessionId,
    max_ancestors: 'At most so many sessions before it, nearest first.',
    max_related: 'At most so many sessions that share tags with it, the most alike first.',
  },
})

export const sessionList = ledgerTool('session_list', {
  title: 'List sessions',
  description: 'Sessions, the last changed first.',
  annotations: reads,
  arguments: {
    project: `${project} Empty: all.`,
    limit: 'At most so many.',
    include_archived: includeArchived,
  },
})

export const sessionArchive = ledgerTool('session_archive', {
  title: 'Archive old sessions',
  description:
    'Archives sessions that did not change for so many days. They are left out of lists from then on, and come back with session_unarchive or when they are worked on.',
  annotations: { ...changes, destructiveHint: true },
  arguments: { days_old: 'Days without a change.' },
})

export const sessionUnarchive = ledgerTool('session_unarchive', {
  title: 'Bring back an archived session',
  description: 'Takes a session out of the archive.',
  annotations: settles,
  arguments: { session_id: sessionId },
})
