/** Whether a file is this daemon's to write, or another home's daemon has it. */
import { join } from 'node:path'
import { RoomdError } from '../../protocol/errors.ts'
import { type Environment, sharedRuntimeFolder } from '../../protocol/places.ts'
import { type Scope, scopeAllows } from '../../protocol/scopes.ts'
import type { Claim } from '../documents/file-claims.ts'
import type { Room } from './room.ts'

/** Beside the user's runtime folder, whatever the home is. */
export function claimsFolder(env: Environment = process.env): string {
  return join(sharedRuntimeFolder(env), 'roomd-claims')
}

/** Takes (back) the file of a room for who is about to attach. Throws `file_active_elsewhere` to who wants more than to look. */
export async function mayUseFile(room: Room, scope: Scope): Promise<void> {
  const other = await room.source.acquire()
  if (other !== null && scopeAllows(scope, 'editor')) throw activeElsewhere(room.record.path ?? '', other)
}

export function activeElsewhere(path: string, { pid, home }: Claim): RoomdError {
  return new RoomdError(
    'file_active_elsewhere',
    `${path} is open in another daemon (pid ${pid}, home ${home}), which writes it: use that one, close the notebook there, or open it read-only (scope viewer)`,
    {
      cause: { path, pid, home },
      next: { tool: 'connect_notebook', arguments: { path, scope: 'viewer' } },
    },
  )
}

/** Converting writes over a file. */
export function mustBeOwner(scope: Scope): void {
  if (scopeAllows(scope, 'owner')) return
  throw new RoomdError(
    'forbidden',
    `a ${scope} may not convert a file; open it with scope owner, or without convert`,
  )
}
