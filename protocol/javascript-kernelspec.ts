/**
 * The kernelspec by which Jupyter finds the kernel that comes with roomd. Pure: the command line writes it where Jupyter looks; the
 * daemon knows it again and goes on using the kernel it has itself, so that an installed one of an older roomd is in nobody's way.
 */

export interface KernelSpecFile {
  readonly argv: string[]
  readonly display_name: string
  readonly language: string
  readonly interrupt_mode: 'signal' | 'message'
  readonly metadata: Readonly<Record<string, unknown>>
}

/** Of the folder that holds it, and of the kernelspec as Jupyter and roomd call it. */
export const JAVASCRIPT = 'javascript'

/**
 * The content of `kernel.json`.
 * @param node absolute path of the Node executable
 * @param program absolute path of the kernel's bundle
 */
export function javascriptKernelspec(node: string, program: string): KernelSpecFile {
  return {
    argv: [node, program, '{connection_file}'],
    display_name: 'JavaScript / TypeScript (roomd)',
    language: 'javascript',
    // The channels thread answers while a cell computes, and a message works from other machines and on Windows too.
    interrupt_mode: 'message',
    metadata: { debugger: false, roomd: JAVASCRIPT },
  }
}

/** Whether a parsed kernel.json is one that roomd wrote. */
export function isOurKernelspec(spec: unknown): boolean {
  if (typeof spec !== 'object' || spec === null || !('metadata' in spec)) return false
  const { metadata } = spec
  return typeof metadata === 'object' && metadata !== null && 'roomd' in metadata
}
