/** The suite's cells in Python, for ipykernel. */
import type { Language } from './kernel-under-test.ts'

export const python: Language = {
  name: 'python',
  value: { code: '6 * 7', shows: /^42$/ },
  print: (text) => `print(${JSON.stringify(text)})`,
  assign: (name, value) => `${name} = ${value}`,
  tell: (name) => `print(${name})`,
  mixed: [
    'import sys',
    'print("one", flush=True)',
    'print("two", file=sys.stderr, flush=True)',
    'print("three", flush=True)',
  ].join('\n'),
  fail: { code: 'raise ValueError("on purpose")', ename: /^ValueError$/, evalue: /^on purpose$/ },
  compute: 'print("begun", flush=True)\nwhile True: pass',
  sleep: 'import time\nprint("begun", flush=True)\ntime.sleep(600)',
  ask: (prompt) => `print("got", input(${JSON.stringify(prompt)}))`,
  askSecret: (prompt) => `import getpass\nprint("got", getpass.getpass(${JSON.stringify(prompt)}))`,
  refusedInput: /^StdinNotImplementedError$/,
  displays: {
    show: (id, text) =>
      `from IPython.display import display\ndisplay({"text/plain": ${JSON.stringify(text)}}, raw=True, display_id=${JSON.stringify(id)});`,
    update: (id, text) =>
      `from IPython.display import update_display\nupdate_display({"text/plain": ${JSON.stringify(text)}}, raw=True, display_id=${JSON.stringify(id)})`,
  },
  clears: (wait, second) =>
    [
      'from IPython.display import clear_output',
      'print("first", flush=True)',
      `clear_output(wait=${wait ? 'True' : 'False'})`,
      ...(second ? ['print("second", flush=True)'] : []),
    ].join('\n'),
  html: 'from IPython.display import HTML\nHTML("<b>bold</b>")',
  flood: (lines, width) => `for i in range(${lines}): print(i, "x" * ${width})`,
  slowLines: (lines) => `import time\nfor i in range(${lines}):\n  print(i, flush=True)\n  time.sleep(0.004)`,
  crash: {
    // The process's own stderr, behind the one that ipykernel sends to the room.
    code: 'import ctypes, os, sys\nprint("before", flush=True)\ninput("now? ")\nos.write(sys.stderr._original_stdstream_copy, b"last words\\n")\nctypes.string_at(0)',
    signal: /SIGSEGV/,
    stderr: /last words/,
  },
  complete: { before: 'suite_completed = 1', code: 'suite_comp', match: 'suite_completed' },
  inspect: {
    before: 'def suite_inspected():\n  "told by inspection"',
    code: 'suite_inspected',
    shows: /told by inspection/,
  },
}
