/** Work items: what is to be done within a session. */
import { changes, reads, settles } from '../tool.ts'
import { expectRev, idempotencyKey, sessionId } from './arguments.ts'
import { ledgerTool } from './define.ts'

export const sessionAddWorkItem = ledgerTool('session_add_work_item', {
  title: 'Add a work item',
  description:
    'Adds something to be done to a session; sessions that go on from it are told of it until it is completed.',
  annotations: changes,
  arguments: {
    session_id: sessionId,
    description: 'What is to be done.',
    work_type: 'Kind of item; its id begins with it, such as BUG.',
    metadata: 'Anything else, as JSON text.',
    idempotency_key: idempotencyKey,
    expect_rev: expectRev,
  },
})

export const sessionCompleteWorkItem = ledgerTool('session_complete_work_item', {
  title: 'Complete a work item',
  description: 'Says how a work item ended. An item ends once; the first result stays.',
  annotations: settles,
  arguments: {
    session_id: sessionId,
    work_id: 'Id of the item.',
    status: 'COMPLETED, FAILED or SKIPPED.',
    expect_rev: expectRev,
  },
})

export const sessionGetWorkItems = ledgerTool('session_get_work_items', {
  title: 'List work items',
  description: 'Work items of a session, in the order in which they were added.',
  annotations: reads,
  arguments: { session_id: sessionId, status: 'Only those: IN_PROGRESS, COMPLETED, FAILED or SKIPPED.' },
})
