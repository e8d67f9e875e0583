/**
 * Node warns once in a process that `import()` in a script is experimental, at the first one. That is our choice, not the user's, so the
 * first one is ours, and its warning goes nowhere. What user code does that is experimental is told as ever.
 */
import vm from 'node:vm'

let done = false

/** Before the first cell. Node warns while it takes the call, not later: nothing else can be hushed meanwhile. */
export function quietImports(): void {
  if (done) return
  done = true
  const { emitWarning } = process
  process.emitWarning = () => {}
  try {
    const script = new vm.Script("import('node:vm')", {
      importModuleDynamically: vm.constants.USE_MAIN_CONTEXT_DEFAULT_LOADER,
    })
    script.runInThisContext()
  } finally {
    process.emitWarning = emitWarning
  }
}
