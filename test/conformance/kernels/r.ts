/** The suite's cells in R, for IRkernel. What IRkernel lacks is said here, each with a cell that shows it. */
import type { Language } from './kernel-under-test.ts'

export const r: Language = {
  name: 'R',
  value: { code: '6 * 7', shows: /42/ },
  print: (text) => `cat(${JSON.stringify(text)}, "\\n", sep = "")`,
  assign: (name, value) => `${name} <- ${value}`,
  tell: (name) => `cat(${name}, "\\n", sep = "")`,
  mixed: 'cat("one\\n")\nmessage("two", appendLF = FALSE)\ncat("three\\n")',
  fail: { code: 'stop("on purpose")', ename: /./, evalue: /on purpose/ },
  // IRkernel sends what was printed when a top-level expression is over.
  compute: 'cat("begun\\n")\nwhile (TRUE) NULL',
  sleep: 'cat("begun\\n")\nSys.sleep(600)',
  ask: (prompt) => `cat("got", readline(${JSON.stringify(prompt)}), "\\n")`,
  askSecret: (prompt) => `cat("got", getPass(${JSON.stringify(prompt)}), "\\n")`,
  refusedInput: {
    lacks: 'IRkernel does not look at allow_stdin: readline() asks also where nobody can answer',
    proof:
      'cat(if (any(grepl("allow_stdin", deparse(IRkernel:::Executor$def@refMethods$readline)))) "no" else "yes")',
  },
  displays: {
    lacks: 'IRdisplay has no display ids, so that nothing shown can be updated',
    proof:
      'cat(if (any(grepl("display_id", unlist(lapply(ls(getNamespace("IRdisplay")), function(n) deparse(get(n, getNamespace("IRdisplay")))))))) "no" else "yes")',
  },
  clears: (wait, second) =>
    [
      'cat("first\\n")',
      `IRdisplay::clear_output(wait = ${wait ? 'TRUE' : 'FALSE'})`,
      ...(second ? ['cat("second\\n")'] : []),
    ].join('\n'),
  // IRkernel takes seconds for what the others print at once.
  floodLines: 4_000,
  html: 'IRdisplay::display_html("<b>bold</b>")',
  flood: (lines, width) =>
    `for (suite_from in seq(0, ${lines - 1}, by = 1000)) cat(paste0(suite_from:min(suite_from + 999, ${lines - 1}), " ", strrep("x", ${width}), "\\n"), sep = "")`,
  slowLines: (lines) =>
    `for (suite_i in 0:${lines - 1}) { cat(suite_i, "\\n", sep = ""); flush.console(); Sys.sleep(0.004) }`,
  crash: {
    code: 'cat("before\\n")\nsuite_now <- readline("now? ")\ntools::pskill(Sys.getpid(), 11)\nSys.sleep(60)',
    signal: /SIGSEGV/,
    stderr: /caught segfault/,
  },
  complete: { before: 'suite_completed <- 1', code: 'suite_comp', match: 'suite_completed' },
  inspect: { before: 'NULL', code: 'mean', shows: /Arithmetic Mean/i },
}
