/** `input()` with a real kernel and a real daemon: every peer is asked, the first answer wins, and a password is nowhere to be found. */
import { expect, test } from 'vitest'
import { connect } from '../../client/sdk/connect.ts'
import type { Room } from '../../client/sdk/room.ts'
import { startDaemon } from '../support/daemon.ts'
import { filesHolding } from '../support/files.ts'
import { withHome } from '../support/home.ts'
import { needs } from '../support/machine.ts'
import { until, within } from '../support/until.ts'

const asked = (room: Room, id: string) =>
  until('the question', () => {
    const { running } = room.state
    return running?.execution_id === id && running.status === 'waiting_for_input' && running
  })

const textOf = (room: Room, id: string): string =>
  (room.state.execution(id)?.outputs ?? [])
    .map((output) => (output.output_type === 'stream' ? String(output.text) : output.output_type))
    .join('')

test('every peer is asked, late ones too; the first answer wins; a daemon that is killed asks on', (context) =>
  withHome(async (home) => {
    needs(context, 'Python kernel')
    const daemon = await startDaemon(home)
    const one = await connect({ env: home.env, label: 'one' })
    const two = await connect({ env: home.env, label: 'two' })
    try {
      const a = await one.openRoom({ create: { kernel: 'python3', working_dir: home.work } })
      const b = await two.openRoom({ notebook_id: a.id })
      const told: string[] = []
      for (const [name, room] of [
        ['a', a],
        ['b', b],
      ] as const)
        room.on('input_answered', ({ by }) => told.push(`${name}: ${by}`))
      const run = await a.execute({
        code: `x = 41
print('printed before')
name = input('name? ')
print('hello', name, x)`,
      })
      for (const room of [a, b])
        expect(await asked(room, run.id)).toMatchObject({ prompt: 'name? ', password: false })
      // What was printed before the question is there when it is asked.
      expect(textOf(b, run.id)).toBe('printed before\n')
      const late = await two.openRoom({ notebook_id: a.id })
      expect(late.state.running).toMatchObject({ status: 'waiting_for_input', prompt: 'name? ' })

      await daemon.kill9()
      const second = await startDaemon(home)
      await until(
        'both to be back',
        () => a.state.attachment === 'attached' && b.state.attachment === 'attached',
      )
      expect(await asked(b, run.id)).toMatchObject({ prompt: 'name? ' })
      const answers = await Promise.allSettled([b.sendInput(run.id, 'Ann'), a.sendInput(run.id, 'Bob')])
      expect(answers.map((answer) => answer.status).sort()).toEqual(['fulfilled', 'rejected'])
      const refused = answers.find((answer) => answer.status === 'rejected')
      expect(refused?.reason).toMatchObject({ code: 'conflict' })
      const winner = answers[0]?.status === 'fulfilled' ? ['Ann', 'two'] : ['Bob', 'one']
      expect((await within('the end', run.done)).status).toBe('done')
      expect(textOf(a, run.id)).toBe(`printed before\nhello ${winner[0]} 41\n`)
      await until('both to be told', () => told.length === 2)
      expect(told.sort()).toEqual([`a: ${winner[1]}`, `b: ${winner[1]}`])
      await second.stop()
    } finally {
      await Promise.allSettled([one.close(), two.close()])
    }
  }))

test('a password is asked for as one, reaches the kernel, and is in no event, row, file or log', (context) =>
  withHome(async (home) => {
    needs(context, 'Python kernel')
    const daemon = await startDaemon(home, { ROOMD_LOG_LEVEL: 'trace' })
    const client = await connect({ env: home.env })
    try {
      const secret = 'correct-horse-battery-staple'
      const room = await client.openRoom({ create: { kernel: 'python3', working_dir: home.work } })
      const seen: unknown[] = []
      room.on('event', (event) => seen.push(event))
      const run = await room.execute({
        code: `import getpass, hashlib
p = getpass.getpass('secret: ')
print(hashlib.sha256(p.encode()).hexdigest()[:8], len(p))`,
      })
      expect(await asked(room, run.id)).toMatchObject({ prompt: 'secret: ', password: true })
      await room.sendInput(run.id, secret)
      expect((await within('the end', run.done)).status).toBe('done')
      expect(textOf(room, run.id)).toMatch(new RegExp(`^[0-9a-f]{8} ${secret.length}\n$`))
      expect(JSON.stringify(seen)).not.toContain(secret)
      expect(daemon.output.stdout.text + daemon.output.stderr.text).not.toContain(secret)
      expect(filesHolding(home.path, 'secret: ').length).toBeGreaterThan(0) // it looks at the right files
      expect(filesHolding(home.path, secret)).toEqual([])
      await daemon.stop()
      expect(filesHolding(home.path, secret)).toEqual([])
    } finally {
      await client.close()
    }
  }))

test('a question can be refused: beforehand by allow_stdin, and by an interrupt', (context) =>
  withHome(async (home) => {
    needs(context, 'Python kernel')
    await startDaemon(home)
    const client = await connect({ env: home.env })
    try {
      const room = await client.openRoom({ create: { kernel: 'python3', working_dir: home.work } })
      const refused = await room.execute({ code: `input('? ')` }, { allowStdin: false })
      expect((await within('the refusal', refused.done)).status).toBe('error')
      expect(room.state.execution(refused.id)?.outputs).toMatchObject([{ ename: 'StdinNotImplementedError' }])
      const run = await room.execute({ code: `input('? ')` })
      await asked(room, run.id)
      expect(await within('the interrupt', room.interrupt())).toEqual({ interrupted: run.id, cancelled: [] })
      await expect(room.sendInput(run.id, 'late')).rejects.toMatchObject({ code: 'conflict' })
      const after = await room.execute({ code: 'print(1 + 1)' })
      expect((await within('the next', after.done)).status).toBe('done')
      expect(textOf(room, after.id)).toBe('2\n')
    } finally {
      await client.close()
    }
  }))
