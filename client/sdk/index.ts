/**
 * `roomd/client`: speaks to a roomd daemon from Node (Unix socket, WebSocket) and from browsers (WebSocket). Redials by itself;
 * rooms, calls and runs survive the loss of the connection and of the daemon.
 *
 * ```ts
 * const client = await connect()
 * const room = await client.openRoom({ path: 'analysis.ipynb' })
 * const run = await room.execute(cellId)
 * for await (const output of run.outputs()) show(output)
 * const { status } = await run.done
 * await client.close()
 * ```
 */

export type { CommContent } from '../../protocol/comms.ts'
export { type ErrorCode, RoomdError } from '../../protocol/errors.ts'
export type {
  Cell,
  Execution,
  ExecutionStatus,
  ExecutionSummary,
  KernelSummary,
  LongText,
  Output,
  PeerSummary,
  Readiness,
  RoomSummary,
  TerminalStatus,
} from '../../protocol/notebook.ts'
export { isTerminal } from '../../protocol/notebook.ts'
export type { PresenceState } from '../../protocol/presence.ts'
export type { CallOptions } from './calls.ts'
export type { Client, OpenRoomOptions, RoomTarget } from './client.ts'
export type { Comm, CommEvents, CommMessageOptions, Comms, CommsEvents, CommUpdate } from './comms.ts'
export { type ConnectOptions, connect, DEFAULT_WAIT_MS } from './connect.ts'
export type { DaemonEvent, Incarnation } from './connection.ts'
export type { EditOperation, ExecuteOptions, NewCell, Room } from './room.ts'
export type { Resumed, RoomEvents } from './room-events.ts'
export type { Attachment, RoomState, SourceInfo } from './room-state.ts'
export type { Run, RunResult } from './run.ts'
