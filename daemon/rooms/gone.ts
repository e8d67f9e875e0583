/** What is said of a room that is not there, or not there for the asker. */
import { RoomdError } from '../../protocol/errors.ts'
import type { NotebookId } from '../../protocol/ids.ts'
import type { RoomsContext } from './rooms-context.ts'

export function goneRoom({ hooks }: Pick<RoomsContext, 'hooks'>, notebookId: NotebookId): RoomdError {
  const why = hooks?.whyGone(notebookId)
  return new RoomdError(
    'notebook_unavailable',
    why ?? `there is no room ${notebookId} any more; connect by path, or list_notebooks shows what there is`,
    { next: why ? { tool: 'list_projects', arguments: {} } : { tool: 'list_notebooks', arguments: {} } },
  )
}

/** `what` it does not do any more, such as "takes no edits". */
export function archivedRoom(notebookId: NotebookId, what: string): RoomdError {
  return new RoomdError(
    'notebook_unavailable',
    `room ${notebookId} is archived and ${what}: its workspace was given back. It can be read; claim another room of the project to go on`,
    { next: { tool: 'list_projects', arguments: {} } },
  )
}
