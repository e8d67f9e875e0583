/** The methods of comms. A peer's message is one transaction: what it changes, its way to the kernel, and its answer. */
import { randomUUID } from 'node:crypto'
import { CommId } from '../../protocol/comms.ts'
import { Change } from '../executions/change.ts'
import type { CommChange } from '../executions/comms/room-comms.ts'
import type { RoomCall, RoomHandler } from './room-requests.ts'
import { resultOf } from './whole-change.ts'

type CommMethod = 'list_comms' | 'get_comm' | 'read_comm_message' | 'open_comm' | 'send_comm' | 'close_comm'

export const commHandlers: { readonly [M in CommMethod]: RoomHandler<M> } = {
  async list_comms({ room }, { target_name }) {
    const value = { comms: room.executions.comms.list(target_name) }
    await room.settled()
    return value
  },

  async get_comm({ room }, { comm_id, names }) {
    const value = { comm: room.executions.comms.get(comm_id, names) }
    await room.settled()
    return value
  },

  async read_comm_message({ room }, { message_id }) {
    return { content: room.executions.comms.largeMessage(message_id) }
  },

  open_comm: (call, { comm_id, ...opening }) => {
    const id = comm_id ?? CommId.parse(randomUUID())
    return carryOut(
      call,
      (change) => call.room.executions.comms.open({ comm_id: id, ...opening }, label(call), change),
      (_made, event_seq) => ({ comm_id: id, event_seq }),
    )
  },

  send_comm: (call, { comm_id, ...message }) =>
    carryOut(
      call,
      (change) => call.room.executions.comms.message(comm_id, message, label(call), change),
      (made, event_seq) => ({ message_id: made.messageId, event_seq }),
    ),

  close_comm: (call, { comm_id, data }) =>
    carryOut(
      call,
      (change) => call.room.executions.comms.close(comm_id, data, label(call), change),
      (_made, event_seq) => ({ comm_id, event_seq }),
    ),
}

async function carryOut<T>(
  { room, mutation }: RoomCall,
  make: (change: Change) => CommChange,
  answer: (made: CommChange, eventSeq: number) => T,
): Promise<T> {
  if (room.fault) throw room.fault
  const made = make(new Change())
  const value = answer(made, room.events.last + made.events.length)
  await room.commit(
    {
      statements: made.statements,
      events: made.events,
      ...resultOf(mutation, value),
    },
    () => room.executions.comms.committed([made.messageId]),
  )
  return value
}

const label = (call: RoomCall): string => call.peer.identity.label
