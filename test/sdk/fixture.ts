/** A folder with a socket path, and an end for every client and daemon a test makes in it. */
import { mkdirSync, mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import type { Client } from '../../client/sdk/client.ts'
import { type ConnectOptions, connect } from '../../client/sdk/connect.ts'
import type { ExecutionId, NotebookId } from '../../protocol/ids.ts'
import type { Cell, ExecutionSummary } from '../../protocol/notebook.ts'
import { notebookId, type Script, ScriptedDaemon } from './scripted-daemon.ts'

export class Fixture {
  readonly folder = mkdtempSync(join(tmpdir(), 'roomd-sdk-'))
  readonly socket = join(this.folder, 'run', 's')
  readonly #clients: Client[] = []
  readonly #daemons: ScriptedDaemon[] = []

  constructor() {
    this.makeRuntime()
  }

  makeRuntime(): void {
    mkdirSync(join(this.folder, 'run'), { recursive: true })
  }

  async daemon(script: Script = {}): Promise<ScriptedDaemon> {
    const daemon = await ScriptedDaemon.start(this.socket, script)
    this.#daemons.push(daemon)
    return daemon
  }

  async connect(options: ConnectOptions = {}): Promise<Client> {
    const client = await connect({ socket: this.socket, env: {}, ...options })
    this.#clients.push(client)
    return client
  }

  async dispose(): Promise<void> {
    await Promise.allSettled(this.#clients.map((client) => client.close()))
    await Promise.all(this.#daemons.map((daemon) => daemon.kill()))
    rmSync(this.folder, { recursive: true, force: true })
  }
}

export const executionId = (n: number) =>
  `22222222-2222-4222-8222-${String(n).padStart(12, '0')}` as ExecutionId

export function execution(n: number, more: Partial<ExecutionSummary> = {}): ExecutionSummary {
  return {
    execution_id: executionId(n),
    notebook_id: notebookId as NotebookId,
    cell_id: null,
    status: 'queued',
    execution_count: null,
    origin: 'peer',
    by: 'test',
    source_hash: '0'.repeat(16),
    queued_at: n,
    started_at: null,
    finished_at: null,
    truncated: false,
    ...more,
  }
}

export function cell(id: string, source = '', more: Partial<Cell> = {}): Cell {
  return {
    cell_id: id as Cell['cell_id'],
    cell_type: 'code',
    source,
    source_hash: '',
    metadata: {},
    outputs: [],
    ...more,
  }
}
