/** What is kept for a session or a project, and how it is found again. */
import { reads, settles } from '../tool.ts'
import { commaTags, expectRev, includeArchived, project, sessionId } from './arguments.ts'
import { ledgerTool } from './define.ts'

export const sessionSave = ledgerTool('session_save', {
  title: 'Save text for a session or project',
  description:
    'Keeps a text: the summary (markdown) or the context (JSON) of a session, or the state (any JSON) of a project. The one before stays in the history.',
  annotations: settles,
  arguments: {
    session_id: sessionId,
    data_type: 'summary, state or context.',
    content: 'The text.',
    project,
  },
})

export const sessionLoad = ledgerTool('session_load', {
  title: 'Load what was saved',
  description:
    "A project's state, or a session's context or summary. Without session_id the newest summary of the project; of a session that was finalized also its summary.",
  annotations: reads,
  arguments: {
    session_id: 'Id of the session; not needed for a state.',
    data_type: 'state, summary or context.',
    project,
    include_archived: includeArchived,
  },
})

export const sessionQuery = ledgerTool('session_query', {
  title: 'Search sessions',
  description:
    'Sessions by project, dates and keyword. The keyword is looked for in prompts, summaries, files, decisions, work items and saved texts, and results are ranked.',
  annotations: reads,
  arguments: {
    filters:
      'A JSON object as text: {"project", "date_from", "date_to" (ISO; a date alone means the whole day), "keyword", "limit" (50)}.',
    include_archived: includeArchived,
  },
})

export const sessionTag = ledgerTool('session_tag', {
  title: 'Tag a session',
  description:
    'Adds tags, and optionally a summary of your own. auto_related names all sessions that share two tags with it.',
  annotations: settles,
  arguments: {
    session_id: sessionId,
    tags: commaTags,
    summary: 'Summary of the session; empty: as it was.',
    expect_rev: expectRev,
  },
})

export const sessionUntag = ledgerTool('session_untag', {
  title: 'Take tags from a session',
  description: 'Removes tags.',
  annotations: settles,
  arguments: { session_id: sessionId, tags: commaTags, expect_rev: expectRev },
})

export const sessionSearchTags = ledgerTool('session_search_tags', {
  title: 'Find sessions by tags',
  description: 'Sessions with any of the tags, those with most of them first.',
  annotations: reads,
  arguments: { tags: commaTags, limit: 'At most so many.', include_archived: includeArchived },
})
