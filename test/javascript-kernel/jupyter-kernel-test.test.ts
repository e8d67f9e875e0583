/** Runs Jupyter's own conformance suite (`jupyter_kernel_test`) on the kernel, where it is installed. */
import { spawn, spawnSync } from 'node:child_process'
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { javascriptKernelspec } from '../../protocol/javascript-kernelspec.ts'
import { programFile } from '../../protocol/programs.ts'

const python = '/usr/bin/python3'
const present = spawnSync(python, ['-c', 'import jupyter_kernel_test']).status === 0
const suite = `
import unittest
import jupyter_kernel_test

class JavaScriptKernelTests(jupyter_kernel_test.KernelTests):
    kernel_name = "roomd-javascript-under-test"
    language_name = "javascript"
    file_extension = ".js"
    code_hello_world = "console.log('hello, world')"
    code_stderr = "console.error('oops')"
    completion_samples = [
        {"text": "JSON.str", "matches": {"stringify"}},
        {"text": "Object.fromE", "matches": {"fromEntries"}},
    ]
    complete_code_samples = ["1", "const f = (x) => x * 2", "let t: number = 4", "for (const x of []) {}"]
    incomplete_code_samples = ["function f() {", "const s = \`open", "[1, 2"]
    invalid_code_samples = ["import 7q", "let = = 2", ")"]
    code_generate_error = "throw new Error('boom')"
    code_execute_result = [
        {"code": "1+2+3", "result": "6"},
        {"code": "[1, 2].map((x) => x * 2)", "result": "[ 2, 4 ]"},
        {"code": "await Promise.resolve('a')", "result": "'a'"},
        {"code": "let n: number = 4; n as number", "result": "4"},
    ]
    code_display_data = [
        {"code": "display({'text/html': '<b>x</b>'})", "mime": "text/html"},
        {"code": "display.svg('<svg/>')", "mime": "image/svg+xml"},
    ]
    code_history_pattern = "1?2*"
    supported_history_operations = ("tail", "range", "search")
    code_inspect_sample = "JSON.stringify"
    code_clear_output = "clearOutput()"

if __name__ == "__main__":
    unittest.main(verbosity=2)
`

let folder: string
beforeAll(() => {
  folder = mkdtempSync(join(tmpdir(), 'jsk-suite-'))
  const spec = join(folder, 'kernels', 'roomd-javascript-under-test')
  mkdirSync(spec, { recursive: true })
  const content = javascriptKernelspec(process.execPath, programFile('javascript-kernel'))
  writeFileSync(join(spec, 'kernel.json'), JSON.stringify(content))
  writeFileSync(join(folder, 'suite.py'), suite)
})
afterAll(() => rmSync(folder, { recursive: true, force: true }))

test.skipIf(!present)(
  'jupyter_kernel_test passes (needs /usr/bin/python3 with jupyter_kernel_test)',
  async () => {
    const child = spawn(python, [join(folder, 'suite.py')], {
      env: { ...process.env, JUPYTER_PATH: folder, JUPYTER_RUNTIME_DIR: join(folder, 'runtime') },
    })
    let text = ''
    for (const stream of [child.stdout, child.stderr]) {
      stream.on('data', (chunk) => {
        text += chunk
      })
    }
    const code = await new Promise((resolve) => child.on('close', resolve))
    expect(code, text).toBe(0)
    // Only the pager, which Jupyter has given up, is not offered.
    expect(text.match(/\.\.\. skipped/g)).toHaveLength(1)
  },
)
