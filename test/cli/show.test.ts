import { Writable } from 'node:stream'
import { expect, test } from 'vitest'
import { LiveScreen } from '../../client/cli/show/live-screen.ts'
import { showBundle } from '../../client/cli/show/mime.ts'
import { ago, duration, mebibytes, shortPath } from '../../client/cli/show/readable.ts'
import { StreamText } from '../../client/cli/show/stream-text.ts'
import { printTable } from '../../client/cli/show/table.ts'
import { cutTo, widthOf } from '../../client/cli/show/width.ts'
import { openTerminal } from '../../client/cli/terminal.ts'

function capture(options: { tty: boolean; columns?: number; env?: Record<string, string> }) {
  let text = ''
  const stream = Object.assign(
    new Writable({
      write(piece, _encoding, done) {
        text += piece.toString()
        done()
      },
    }),
    { isTTY: options.tty, columns: options.columns ?? 80 },
  )
  const streams = { stdout: stream, stderr: stream, env: options.env ?? {} }
  return { terminal: openTerminal(false, streams), text: () => text }
}

test('times are told in the two units that matter', () => {
  expect([400, 12_000, 185_000, 7_980_000, 352_800_000].map(duration)).toEqual([
    '0.4 s',
    '12 s',
    '3m 05s',
    '2h 13m',
    '4d 2h',
  ])
  expect([0, 30_000, 300_000, 7_200_000, 259_200_000].map((ms) => ago(0, ms))).toEqual([
    'just now',
    '30s ago',
    '5m ago',
    '2h ago',
    '3d ago',
  ])
})

test('memory is told in MiB, and as unknown where it is', () => {
  expect(mebibytes(88_289_280)).toBe('84.2 MiB')
  expect(mebibytes(null)).toBe('-')
})

test('the home folder is shortened, a folder that only begins like it is not', () => {
  expect(shortPath('/home/ada/a.ipynb', '/home/ada')).toBe('~/a.ipynb')
  expect(shortPath('/home/adam/a.ipynb', '/home/ada')).toBe('/home/adam/a.ipynb')
})

test('wide characters take two columns and control sequences none', () => {
  expect(widthOf('数据')).toBe(4)
  expect(widthOf('\x1b[31mred\x1b[0m')).toBe(3)
  expect(cutTo('/a/long/path/to/notebook.ipynb', 15, 'start')).toBe('…notebook.ipynb')
  expect(cutTo('数据数据', 5)).toBe('数据…')
})

test('columns of a table are aligned, and the flexible one gives way on a narrow terminal', () => {
  const rows = [
    { id: 'a', size: '1.0', path: '/some/rather/long/folder/one.ipynb' },
    { id: 'bcd', size: '10.5', path: '/two.ipynb\nnot a new row' },
  ]
  const columns = [
    { title: 'ID', value: (row: (typeof rows)[0]) => row.id },
    { title: 'SIZE', value: (row: (typeof rows)[0]) => row.size, align: 'right' as const },
    { title: 'PATH', value: (row: (typeof rows)[0]) => row.path, flexible: 'start' as const },
  ]
  const pipe = capture({ tty: false })
  printTable(pipe.terminal, rows, columns)
  expect(pipe.text().split('\n').slice(0, 2)).toEqual([
    'ID   SIZE  PATH',
    'a     1.0  /some/rather/long/folder/one.ipynb',
  ])
  const narrow = capture({ tty: true, columns: 30, env: { NO_COLOR: '1' } })
  printTable(narrow.terminal, rows, columns)
  for (const line of narrow.text().split('\n')) expect(widthOf(line)).toBeLessThanOrEqual(30)
  expect(narrow.text()).toContain('…')
})

test('colours go to a terminal only, and not where NO_COLOR is set', () => {
  expect(capture({ tty: true }).terminal.paint('red', 'x')).toBe('\x1b[31mx\x1b[39m')
  expect(capture({ tty: true, env: { NO_COLOR: '1' } }).terminal.paint('red', 'x')).toBe('x')
  expect(capture({ tty: false }).terminal.paint('red', 'x')).toBe('x')
})

test('without a terminal a progress bar leaves its last state, and ANSI is removed', () => {
  const { terminal, text } = capture({ tty: false })
  const stream = new StreamText(new LiveScreen(terminal))
  stream.add('begin\n 10%')
  stream.add('\r\x1b[J 50%')
  stream.add('\r\x1b[J\x1b[32m100%\x1b[0m\nend')
  expect(text()).toBe('begin\n100%\n')
  stream.finish()
  expect(text()).toBe('begin\n100%\nend')
})

test('on a terminal a rewritten line is drawn over', () => {
  const { terminal, text } = capture({ tty: true })
  const stream = new StreamText(new LiveScreen(terminal))
  stream.add('a\n 10%')
  stream.add('\r\x1b[J100%')
  expect(text()).toBe('a\n 10%\r\x1b[J100%')
})

test('the progress line is taken away before output and drawn again below it', () => {
  const { terminal, text } = capture({ tty: true, env: { NO_COLOR: '1' } })
  const screen = new LiveScreen(terminal)
  screen.progress('working')
  screen.write('whole line\n')
  screen.write('half')
  screen.progress(null)
  screen.write(' line\n')
  expect(text()).toBe(
    [
      '\rworking',
      '\r\x1b[2K',
      'whole line\n',
      '\rworking',
      '\r\x1b[2K',
      'half',
      '\nworking',
      '\r\x1b[2K\x1b[A\x1b[5G',
      ' line\n',
    ].join(''),
  )
})

test('of a mime bundle the best text is shown, and what cannot be shown is named', () => {
  expect(showBundle({ 'text/html': '<b>x</b>', 'text/plain': 'x' })).toEqual({
    shown: 'x',
    blob: null,
    besides: [],
  })
  expect(showBundle({ 'image/png': 'A'.repeat(4096), 'text/plain': '<Figure>' }).besides).toEqual([
    'image/png 3.0 KiB',
  ])
  const blob = { blob: 'f'.repeat(64), size: 2048 }
  expect(showBundle({ 'application/pdf': blob })).toEqual({
    shown: '',
    blob: null,
    besides: ['application/pdf 2.0 KiB'],
  })
  expect(showBundle({ 'text/plain': blob })).toEqual({ shown: '', blob: blob.blob, besides: [] })
})
