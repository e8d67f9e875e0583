/**
 * Preload: code that a kernel runs when it has started, so that imports are done before anybody waits for them. It runs silently: no
 * execution, no count, no outputs. Afterwards the kernel is asked which of the project's own files it has loaded, since a standby is
 * of no use any more when one of those changes.
 */
import { RoomdError } from '../../protocol/errors.ts'
import type { Kernel } from '../kernels/kernel.ts'

export interface Preloaded {
  /** Paths of the project's own files, relative to the workspace; null: not known, any file may be among them. */
  readonly files: readonly string[] | null
  /** What went wrong, for people; the kernel works all the same. */
  readonly notes: readonly string[]
}

/** Rejects `kernel_died` and when aborted; a failing line of code is a note. */
export async function preload(
  kernel: Kernel,
  code: readonly string[],
  signal: AbortSignal,
): Promise<Preloaded> {
  if (code.length === 0) return { files: [], notes: [] }
  const notes: string[] = []
  for (const piece of code) {
    const reply = await silently(kernel, piece, {}, signal)
    if (reply.status === 'ok') continue
    const why = `${String(reply.ename ?? reply.status)}: ${String(reply.evalue ?? '')}`.slice(0, 500)
    notes.push(`preload "${piece.split('\n')[0]?.slice(0, 80)}" failed: ${why}`)
  }
  return { files: await loadedFiles(kernel, code, signal), notes }
}

/**
 * Has a Python kernel run nothing once: what IPython loads for its first execution (some tens of milliseconds) is loaded before
 * somebody waits for it. Leaves no trace. Other kernels have nothing of the kind. Rejects `kernel_died` and when aborted.
 */
export async function limber(kernel: Kernel, signal: AbortSignal): Promise<void> {
  if (kernel.language.toLowerCase() === 'python') await silently(kernel, 'pass', { nothing: 'None' }, signal)
}

async function loadedFiles(
  kernel: Kernel,
  code: readonly string[],
  signal: AbortSignal,
): Promise<readonly string[] | null> {
  if (kernel.language.toLowerCase() === 'python') {
    const reply = await silently(kernel, '', { files: PYTHON_FILES }, signal)
    return readFiles(reply)
  }
  // Other languages cannot tell. Code that names no path loads packages only.
  return code.some((piece) => /['"`]\.{1,2}\/|\b(?:source|include|load)\s*\(/.test(piece)) ? null : []
}

/** An expression, so that it leaves no name behind. */
const PYTHON_FILES = `'\\n'.join(sorted({f[len(__import__('os').getcwd())+1:] for m in list(__import__('sys').modules.values()) for f in [getattr(m, '__file__', None)] if isinstance(f, str) and f.startswith(__import__('os').getcwd() + '/')}))`

function readFiles(reply: Record<string, unknown>): readonly string[] | null {
  const expressions = reply.user_expressions as
    | Record<string, { status?: unknown; data?: Record<string, unknown> }>
    | undefined
  const answer = expressions?.files
  const text = answer?.data?.['text/plain']
  if (answer?.status !== 'ok' || typeof text !== 'string') return null
  const quoted = /^(['"])([\s\S]*)\1$/.exec(text)
  if (quoted === null) return null
  return (quoted[2] ?? '').split('\\n').filter((path) => path !== '')
}

/** Runs code without a trace; the reply's content. */
export async function silently(
  kernel: Kernel,
  code: string,
  expressions: Record<string, string>,
  signal: AbortSignal,
): Promise<Record<string, unknown>> {
  try {
    return await kernel.ask(
      'execute_request',
      {
        code,
        silent: true,
        store_history: false,
        user_expressions: expressions,
        allow_stdin: false,
        stop_on_error: false,
      },
      signal,
    )
  } catch (error) {
    signal.throwIfAborted()
    throw error instanceof RoomdError
      ? error
      : new RoomdError('kernel_start_failed', `preload could not be run: ${String(error)}`)
  }
}
