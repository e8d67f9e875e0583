/**
 * stdout carries JSON-RPC and nothing else. Taking it over is the first thing the server does, before any dependency is loaded: from
 * then on whatever prints (console, process.stdout.write, a library's notice) goes to stderr, and only the returned stream
 * writes to stdout.
 */
import { Writable } from 'node:stream'

let taken: Writable | null = null

/** The one way to the real stdout; its `error` tells of a reader that is gone. Idempotent. */
export function takeOverStdout(): Writable {
  if (taken) return taken
  const { stdout, stderr } = process
  const write = stdout.write.bind(stdout)
  const protocol = new Writable({
    decodeStrings: false,
    write(chunk, encoding, done) {
      write(chunk, encoding, (error) => done(error ?? null))
    },
  })
  stdout.on('error', (error) => protocol.destroy(error))
  // The console looks `write` up with every line, so it goes the same way.
  stdout.write = ((...args: Parameters<typeof stderr.write>) => stderr.write(...args)) as typeof stdout.write
  taken = protocol
  return protocol
}
