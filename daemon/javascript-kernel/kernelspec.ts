/** The kernelspec of the embedded kernel. Pure: the caller writes it where Jupyter looks. */

export interface KernelSpecFile {
  readonly argv: string[]
  readonly display_name: string
  readonly language: string
  readonly interrupt_mode: 'signal' | 'message'
  readonly metadata: Readonly<Record<string, unknown>>
}

/**
 * The content of `kernel.json`.
 * @param node absolute path of the Node executable
 * @param program absolute path of the kernel's bundle
 */
export function kernelspec(node: string, program: string): KernelSpecFile {
  return {
    argv: [node, program, '{connection_file}'],
    display_name: 'JavaScript / TypeScript (roomd)',
    language: 'javascript',
    // The channels thread answers while a cell computes, and a message works from other machines and on Windows too.
    interrupt_mode: 'message',
    metadata: { debugger: false },
  }
}
