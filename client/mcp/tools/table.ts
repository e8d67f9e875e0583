/** All tools, in the order in which they are listed. */
import * as cells from './cells.ts'
import * as daemon from './daemon.ts'
import * as execution from './execution.ts'
import * as kernel from './kernel.ts'
import * as keeping from './ledger/keeping.ts'
import * as lifecycle from './ledger/lifecycle.ts'
import * as work from './ledger/work.ts'
import * as lists from './lists.ts'
import * as projects from './projects.ts'
import * as replace from './replace.ts'
import * as sessions from './sessions.ts'
import * as show from './show.ts'
import * as source from './source.ts'
import type { Tool } from './tool.ts'

export const tools: readonly Tool[] = [
  lists.listActiveNotebooks,
  lists.listNotebooks,
  sessions.connectNotebook,
  sessions.createNotebook,
  sessions.disconnectNotebook,
  sessions.saveNotebook,
  show.showNotebook,
  cells.getCell,
  cells.getAllCells,
  cells.createCell,
  cells.setCell,
  cells.deleteCell,
  cells.moveCell,
  replace.replaceMatch,
  replace.replaceRegex,
  cells.clearOutputs,
  cells.setCellMetadata,
  execution.executeCell,
  execution.runAllCells,
  execution.getResults,
  execution.listExecutions,
  execution.cancelExecution,
  execution.sendInput,
  kernel.interruptKernel,
  kernel.restartKernel,
  kernel.inspect,
  kernel.complete,
  source.getSourceStatus,
  source.reconcileSource,
  projects.listProjects,
  projects.claimRoom,
  projects.poolStatus,
  lifecycle.sessionCreate,
  lifecycle.sessionAccumulate,
  lifecycle.sessionFinalize,
  keeping.sessionSave,
  keeping.sessionLoad,
  lifecycle.sessionList,
  lifecycle.sessionArchive,
  lifecycle.sessionUnarchive,
  keeping.sessionQuery,
  lifecycle.sessionLink,
  keeping.sessionTag,
  keeping.sessionUntag,
  lifecycle.sessionGetContext,
  keeping.sessionSearchTags,
  work.sessionAddWorkItem,
  work.sessionCompleteWorkItem,
  work.sessionGetWorkItems,
  daemon.daemonStatus,
  daemon.reconnect,
]

/** By name; names that older clients may have kept mean the tool they became. */
export function findTool(name: string): Tool | undefined {
  const present = renamed[name] ?? name
  return tools.find((tool) => tool.name === present)
}

const renamed: Readonly<Record<string, string>> = { open_notebook: 'connect_notebook' }
