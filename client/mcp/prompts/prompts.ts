/**
 * Prompts that a user of the client can choose: to go on where a session ended, and to sum one up. Their text holds what the ledger
 * knows at that moment, so that the model can begin at once.
 */
import { RoomdError } from '../../../protocol/errors.ts'
import type { Client } from '../../sdk/client.ts'
import type { DaemonLink } from '../daemon-link.ts'
import { asciiJson } from '../tools/ledger/define.ts'

export interface ListedPrompt {
  readonly name: string
  readonly title: string
  readonly description: string
  readonly arguments: ReadonlyArray<{ name: string; description: string; required: boolean }>
}

const session = {
  name: 'session_id',
  description: 'Id of the session; empty: the last one.',
  required: false,
}

export const prompts: readonly ListedPrompt[] = [
  {
    name: 'resume-session',
    title: 'Resume a session',
    description:
      'Goes on where a session ended: what was done, what is to do, and the notebooks to go back to.',
    arguments: [session],
  },
  {
    name: 'summarize-session',
    title: 'Summarize a session',
    description: 'Sums up what was done in a session and keeps the summary.',
    arguments: [session],
  },
]

export interface PromptResult {
  readonly description: string
  readonly messages: Array<{ role: 'user'; content: { type: 'text'; text: string } }>
}

/** Rejects with `not_found` for a prompt or session that is not there. */
export async function getPrompt(
  daemon: DaemonLink,
  name: string,
  args: Readonly<Record<string, string>>,
): Promise<PromptResult> {
  const prompt = prompts.find((known) => known.name === name)
  if (!prompt) {
    throw new RoomdError(
      'not_found',
      `there is no prompt "${name}"; there are ${prompts.map((known) => known.name).join(' and ')}`,
    )
  }
  const client = await daemon.local()
  const id = await sessionNamed(client, args.session_id ?? '')
  const text = name === 'resume-session' ? await resumeText(client, id) : await summaryText(client, id)
  return { description: prompt.description, messages: [{ role: 'user', content: { type: 'text', text } }] }
}

async function sessionNamed(client: Client, id: string): Promise<string> {
  if (id !== '') return id
  const { sessions = [] } = await client.call('session_list', { limit: 1 })
  const [last] = sessions
  if (last) return last.session_id
  throw new RoomdError('not_found', 'the ledger has no session yet; session_create begins one')
}

async function resumeText(client: Client, id: string): Promise<string> {
  const context = await client.call('session_get_context', { session_id: id })
  mustBeKnown(context, id)
  const calls = (context.rooms ?? []).map(
    (room) => `connect_notebook ${JSON.stringify(room.connect.arguments)}`,
  )
  return [
    `Go on with the work of session ${id}. Everything the ledger knows of it:`,
    asciiJson(context),
    ...(calls.length > 0
      ? [
          `First go back to the notebook it worked in, with this call: ${calls[0]}. Its variables are still there if its kernel still runs.`,
        ]
      : []),
    'Then say in a few sentences where the work stands and what comes next, and go on with the open work items.',
  ].join('\n\n')
}

async function summaryText(client: Client, id: string): Promise<string> {
  const shown = await client.call('session_show', { session_id: id })
  mustBeKnown(shown, id)
  return [
    `Sum up session ${id}. What the ledger has recorded of it:`,
    shown.markdown ?? '',
    asciiJson({ requests: shown.requests, work_items: shown.work_items, rooms: shown.rooms }),
    `Write a summary of at most 300 words in markdown: what was asked for, what was done and decided, which files and notebooks changed, what is open. Keep it with session_save {"session_id": ${JSON.stringify(id)}, "data_type": "summary", "project": ${JSON.stringify(shown.session?.project ?? 'default')}, "content": …}, then finish with session_finalize {"session_id": ${JSON.stringify(id)}}.`,
  ].join('\n\n')
}

function mustBeKnown(
  result: { success: boolean; error?: string | undefined; message?: string | undefined },
  id: string,
): void {
  if (result.success && !('message' in result && result.message !== undefined)) return
  throw new RoomdError('not_found', result.error ?? result.message ?? `there is no session ${id}`)
}
