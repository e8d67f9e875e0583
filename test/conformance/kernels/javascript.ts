/** The suite's cells in JavaScript, for the kernel that comes with roomd. */
import type { Language } from './kernel-under-test.ts'

export const javascript: Language = {
  name: 'javascript',
  value: { code: '6 * 7', shows: /^42$/ },
  print: (text) => `console.log(${JSON.stringify(text)})`,
  assign: (name, value) => `let ${name} = ${value}`,
  tell: (name) => `console.log(${name})`,
  mixed: 'console.log("one")\nconsole.error("two")\nconsole.log("three")',
  fail: { code: 'throw new RangeError("on purpose")', ename: /^RangeError$/, evalue: /^on purpose$/ },
  compute: 'console.log("begun")\nfor (;;) {}',
  sleep: 'console.log("begun")\nawait new Promise((resolve) => setTimeout(resolve, 600_000))',
  ask: (prompt) => `console.log("got", input(${JSON.stringify(prompt)}))`,
  askSecret: (prompt) => `console.log("got", input(${JSON.stringify(prompt)}, { password: true }))`,
  refusedInput: /^StdinNotImplementedError$/,
  displays: {
    show: (id, text) =>
      `void display({ "text/plain": ${JSON.stringify(text)} }, { raw: true, display_id: ${JSON.stringify(id)} })`,
    update: (id, text) =>
      `display({ "text/plain": ${JSON.stringify(text)} }, { raw: true, display_id: ${JSON.stringify(id)}, update: true }); undefined`,
  },
  clears: (wait, second) =>
    [
      'console.log("first")',
      `clearOutput({ wait: ${wait} })`,
      ...(second ? ['console.log("second")'] : []),
      'undefined',
    ].join('\n'),
  html: 'display.html("<b>bold</b>"); undefined',
  flood: (lines, width) => `for (let i = 0; i < ${lines}; i++) console.log(i, "x".repeat(${width}))`,
  slowLines: (lines) =>
    `for (let i = 0; i < ${lines}; i++) { console.log(i); await new Promise((resolve) => setTimeout(resolve, 4)) }`,
  crash: {
    code: 'console.log("before")\ninput("now? ")\nrequire("node:fs").writeSync(2, "last words\\n")\nprocess.kill(process.pid, "SIGKILL")\nfor (;;) {}',
    signal: /SIGKILL/,
    stderr: /last words/,
  },
  complete: { before: 'let suite_completed = 1', code: 'suite_comp', match: 'suite_completed' },
  inspect: {
    before: 'function suite_inspected(someArgument) {}',
    code: 'suite_inspected',
    shows: /suite_inspected/,
  },
}
