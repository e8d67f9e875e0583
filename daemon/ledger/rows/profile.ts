/** The searched text of what a session is: names, tags, how it began, and its summaries. Made anew whenever one of them changes. */
import type { Transaction } from '../../store/transaction.ts'
import { setDoc } from './docs.ts'
import { tagsOfSession } from './session-tags.ts'
import { must, sessionByKey } from './sessions.ts'

export function indexProfile(transaction: Transaction, key: number): void {
  const row = must(sessionByKey(transaction, key))
  const tags = tagsOfSession(transaction, key)
  setDoc(
    transaction,
    key,
    { source: 'profile' },
    [row.last_prompt, tags.join(', '), row.task_type, row.skill, row.project, row.session_id]
      .filter((part) => part !== '')
      .join('\n'),
  )
  setDoc(
    transaction,
    key,
    { source: 'summary' },
    [row.user_summary, row.auto_summary].filter((part) => part !== '').join('\n'),
  )
}
