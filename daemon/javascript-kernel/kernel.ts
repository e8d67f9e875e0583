/**
 * The main thread of the kernel: takes requests one after the other, runs cells, answers. Around each request: busy, its outputs,
 * its reply, idle, in this order.
 */
import type { MessagePort } from 'node:worker_threads'
import { attempt, type Failure, shownError } from './attempt.ts'
import { captureOutput } from './capture.ts'
import { installCellRuntime } from './cell-runtime.ts'
import { isComplete } from './completeness.ts'
import { complete } from './completion.ts'
import { createClearOutput, createDisplay, DisplayHandle } from './display.ts'
import { Execution, type Outcome } from './execution.ts'
import { defineGlobals } from './globals.ts'
import { acceptInterrupt, announceGuards, guardContinuations, guardTimers, isInterrupt } from './guard.ts'
import { History } from './history.ts'
import { inspectCode } from './inspection.ts'
import { kernelInfo } from './kernel-info.ts'
import { toMimeBundle } from './mime-bundle.ts'
import { Outlet } from './outlet.ts'
import { RingWriter, type SharedMemory, word } from './ring.ts'
import { createScope, currentScope, hideAsyncIds, KeyboardInterrupt } from './scope.ts'
import { installStackTraces } from './stack-trace.ts'
import { createStdin } from './stdin.ts'
import type { Request, ToMain } from './threads.ts'
import { evaluateExpressions } from './user-expressions.ts'
import type { Json } from './wire.ts'

/** How long the exit of the process waits for the last messages to leave. */
const flushMs = 2000
/** Kept from before user code can replace them. */
const exitProcess = process.exit.bind(process)
const nextTurn = setImmediate

interface Queued {
  readonly request: Request
  aborted: boolean
}

export interface KernelPorts {
  readonly requests: MessagePort
  readonly stdin: MessagePort
  readonly sentinel: MessagePort
}

export class Kernel {
  readonly #memory: SharedMemory
  readonly #requests: MessagePort
  readonly #sentinel: MessagePort
  readonly #stdin: MessagePort
  readonly #outlet: Outlet
  readonly #history = new History()
  readonly #queue: Queued[] = []
  #busy = false
  #count = 0
  #execution: Execution | undefined
  #barriers = 0
  readonly #afterBarrier = new Map<number, () => void>()
  /** Scopes that code still holds; when one is collected the channels thread may forget its request. */
  readonly #scopes = new FinalizationRegistry<number>((ref) => this.#outlet.release(ref))

  constructor(memory: SharedMemory, ports: KernelPorts) {
    this.#memory = memory
    this.#requests = ports.requests
    this.#stdin = ports.stdin
    this.#sentinel = ports.sentinel
    this.#outlet = new Outlet(new RingWriter(memory))
  }

  /** Prepares the realm for user code and begins to take requests. */
  open(): void {
    const outlet = this.#outlet
    installStackTraces()
    installCellRuntime()
    hideAsyncIds()
    const clearOutput = createClearOutput(outlet)
    captureOutput(outlet, () => clearOutput())
    defineGlobals({
      display: createDisplay(outlet),
      clearOutput,
      ...createStdin(this.#memory, this.#stdin, outlet),
    })
    announceGuards(this.#memory)
    guardContinuations()
    guardTimers()
    process.on('uncaughtException', (error) => this.#onUncaught(error, 'Uncaught error'))
    process.on('unhandledRejection', (error) => this.#onUncaught(error, 'Unhandled promise rejection'))
    process.on('exit', () => this.#flush())
    // A guard is safe only beside the sentinel.
    while (Atomics.load(this.#memory.words, word.sentinel) === 0)
      Atomics.wait(this.#memory.words, word.sentinel, 0)
    this.#sentinel.on('message', (message: ToMain) => this.#receive(message))
    this.#requests.on('message', (message: ToMain) => this.#receive(message))
  }

  #receive(message: ToMain): void {
    switch (message.type) {
      case 'request':
        this.#queue.push({ request: message, aborted: false })
        this.#next()
        return
      case 'barrier': {
        const after = this.#afterBarrier.get(message.token)
        this.#afterBarrier.delete(message.token)
        after?.()
        return
      }
      case 'interrupt':
        if (acceptInterrupt()) this.#interrupt()
        return
      case 'exit':
        exitProcess(0)
    }
  }

  #next(): void {
    if (this.#busy) return
    const queued = this.#queue.shift()
    if (!queued) return
    this.#busy = true
    const { request } = queued
    this.#outlet.lastRef = request.ref
    this.#outlet.iopub('status', { execution_state: 'busy' }, {}, request.ref)
    if (request.msgType === 'execute_request' && queued.aborted) {
      this.#outlet.reply(request.ref, 'execute_reply', { status: 'aborted', execution_count: this.#count })
      this.#done(request)
    } else if (request.msgType === 'execute_request') this.#execute(request)
    else {
      try {
        this.#answer(request)
      } finally {
        this.#done(request)
      }
    }
  }

  #done(request: Request): void {
    this.#outlet.iopub('status', { execution_state: 'idle' }, {}, request.ref)
    // Executions are released with their scope.
    if (request.msgType !== 'execute_request') this.#outlet.release(request.ref)
    this.#busy = false
    // In a turn of its own: microtasks run in a guard, where an interrupt could cut the kernel's own work.
    if (this.#queue.length > 0) nextTurn(() => this.#next())
  }

  #answer(request: Request): void {
    const { content } = request
    const code = String(content.code ?? '')
    const cursor = typeof content.cursor_pos === 'number' ? content.cursor_pos : code.length
    switch (request.msgType) {
      case 'kernel_info_request':
        this.#reply(request, 'kernel_info_reply', kernelInfo)
        break
      case 'complete_request':
        this.#reply(request, 'complete_reply', () => complete(code, cursor))
        break
      case 'inspect_request':
        this.#reply(request, 'inspect_reply', () =>
          inspectCode(code, cursor, Number(content.detail_level ?? 0)),
        )
        break
      case 'is_complete_request':
        this.#reply(request, 'is_complete_reply', () => isComplete(code))
        break
      case 'history_request':
        this.#reply(request, 'history_reply', () => this.#history.reply(content))
        break
      case 'comm_info_request':
        this.#reply(request, 'comm_info_reply', () => ({ status: 'ok', comms: {} }))
        break
      case 'comm_open':
        // No targets are registered here; the protocol wants an unknown one closed.
        this.#outlet.iopub('comm_close', { comm_id: content.comm_id, data: {} }, {}, request.ref)
        break
      default:
      // comm_msg and comm_close for comms that do not exist, and messages of later protocols: the protocol says to ignore them.
    }
  }

  /**
   * `content` may look at user objects, which may run user code: it is guarded, and always answered. Throws the interrupt after
   * the answer.
   */
  #reply(request: Request, type: string, content: () => Json): void {
    let result: Json | undefined
    const failure = attempt(() => {
      result = content()
    })
    if (failure) result = { status: 'error', ...shownError(failure.error) }
    this.#outlet.reply(request.ref, type, result ?? {})
    if (failure?.interrupt) throw failure.interrupt
  }

  #execute(request: Request): void {
    const { content, ref } = request
    const source = String(content.code ?? '')
    const silent = content.silent === true
    const store = !silent && content.store_history !== false
    if (store) {
      this.#count += 1
      this.#history.add(this.#count, source)
    }
    const count = this.#count
    const scope = createScope(ref, content.allow_stdin !== false)
    this.#scopes.register(scope, ref)
    if (!silent) this.#outlet.iopub('execute_input', { code: source, execution_count: count }, {}, ref)
    const name = store ? `Cell In[${count}]` : 'Cell In[*]'
    const execution = new Execution(source, name, scope, (outcome) => {
      this.#finish(request, execution, count, outcome)
    })
    this.#execution = execution
    execution.start()
  }

  #finish(request: Request, execution: Execution, count: number, outcome: Outcome): void {
    const silent = request.content.silent === true
    let failure: Failure | undefined
    let expressions: Json = {}
    if (outcome.type === 'error') failure = { error: outcome.error }
    else {
      failure = attempt(() => {
        if (outcome.shown && !silent) this.#showResult(outcome.value, count, request)
        expressions = evaluateExpressions(request.content.user_expressions)
      })
    }
    execution.scope.running = false
    this.#execution = undefined
    const base = { execution_count: count, payload: [] }
    if (!failure) {
      this.#outlet.reply(request.ref, 'execute_reply', {
        status: 'ok',
        ...base,
        user_expressions: expressions,
      })
      this.#done(request)
      return
    }
    const fields = shownError(failure.error, execution)
    this.#outlet.iopub('error', { ...fields }, {}, request.ref)
    const answer = (): void => {
      this.#outlet.reply(request.ref, 'execute_reply', {
        status: 'error',
        ...base,
        ...fields,
        user_expressions: {},
      })
      this.#done(request)
    }
    if (request.content.stop_on_error === false) answer()
    else this.#abortQueued(answer)
    if (failure.interrupt) throw failure.interrupt
  }

  /**
   * Everything that clients sent before they could know of the error is aborted: the channels thread forwards what has arrived, then
   * the reply leaves.
   */
  #abortQueued(then: () => void): void {
    this.#barriers += 1
    const token = this.#barriers
    this.#afterBarrier.set(token, () => {
      for (const queued of this.#queue) queued.aborted = true
      then()
    })
    this.#outlet.barrier(token)
  }

  #showResult(value: unknown, count: number, request: Request): void {
    if (value === undefined || value instanceof DisplayHandle) return
    const { data, metadata } = toMimeBundle(value)
    this.#outlet.iopub('execute_result', { execution_count: count, data, metadata }, {}, request.ref)
    if (request.content.store_history !== false)
      this.#history.setOutput(count, String(data['text/plain'] ?? ''))
  }

  #interrupt(): void {
    this.#execution?.interrupt()
  }

  #onUncaught(error: unknown, what: string): void {
    if (isInterrupt(error)) {
      this.#interrupt()
      return
    }
    const scope = currentScope.getStore()
    // What an interrupted execution left behind has ended as it should.
    if (error instanceof KeyboardInterrupt && scope?.interrupted !== false) return
    const { traceback } = shownError(error)
    this.#outlet.stream('stderr', `${what}:\n${traceback.join('\n')}\n`)
  }

  #flush(): void {
    this.#outlet.exit()
    Atomics.wait(this.#memory.words, word.exited, 0, flushMs)
  }
}
