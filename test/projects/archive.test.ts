/** Archiving gives the workspace of a room back: the notebook can be read, what somebody made is kept, and a daemon's death in between costs nothing. */
import { existsSync, mkdirSync, readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { expect, test } from 'vitest'
import { archiveRoom } from '../../daemon/projects/archive.ts'
import { recentRecords } from '../../daemon/rooms/room-record.ts'
import { isListed } from '../../daemon/rooms/room-state.ts'
import { NotebookId } from '../../protocol/ids.ts'
import { alive, gone } from '../support/processes.ts'
import { type Bench, withProjects } from './fixture.ts'
import { Repository } from './repository.ts'

const archive = (bench: Bench, id: string, force = false) =>
  archiveRoom(bench.projects.context, bench.projects.tier, NotebookId.parse(id), force)

const stateOf = (bench: Bench, id: string) =>
  bench.store.get<{ state: string }>('SELECT state FROM rooms WHERE notebook_id = ?', id)?.state

test('an archived room is in no list, can be read, runs and takes nothing; files and commits are kept', () =>
  withProjects(async (bench) => {
    const repository = bench.repository({ 'a.txt': 'a\n' })
    const project = await bench.add(repository)
    const claim = await bench.claim(project)
    const { room, leave } = await bench.attach(claim.notebook_id)
    // A draft goes by itself.
    await expect(archive(bench, claim.notebook_id)).rejects.toMatchObject({ code: 'conflict' })
    await bench.edit(room, '6 * 7')
    expect(await bench.run(room, '6 * 7')).toBe('done 42')
    const pid = room.presentKernel?.summary().pid ?? 0
    writeFileSync(join(claim.workspace, 'result.csv'), '42\n')
    const work = new Repository(claim.workspace)
    const made = work.commit({ 'a.txt': 'better\n' }, 'work')
    work.git('checkout', '--quiet', '-b', 'aside', 'HEAD^')
    const aside = work.commit({ 'b.txt': 'aside\n' }, 'aside')
    work.git('checkout', '--quiet', '--detach', made)
    work.write('a.txt', 'stashed\n')
    work.git('stash', '--quiet')
    const stashed = work.git('rev-parse', 'refs/stash').trim()
    await expect(archive(bench, claim.notebook_id)).rejects.toThrow(/somebody is in room .*Tester.*--force/)
    expect(existsSync(claim.workspace)).toBe(true)
    leave()

    const kept = await archive(bench, claim.notebook_id)
    expect(kept).toBe(join(bench.home.places.state, 'kept', claim.notebook_id))
    expect(readFileSync(join(kept ?? '', 'result.csv'), 'utf8')).toBe('42\n')
    repository.git('fetch', '--quiet', join(kept ?? '', 'branch.bundle'), `${claim.branch}:${claim.branch}`)
    expect(repository.git('rev-parse', claim.branch).trim()).toBe(made)
    // On whatever branch they are.
    const bundled = repository.git('bundle', 'list-heads', join(kept ?? '', 'branch.bundle'))
    expect(bundled).toContain(`${aside} refs/heads/aside`)
    expect(bundled).toContain(`${stashed} refs/stash`)
    expect(bench.workspaces()).toEqual([])
    await gone(pid)
    expect(bench.projects.tier.keptOf(project.record.id)).toEqual([
      { notebook_id: claim.notebook_id, path: kept },
    ])
    expect(stateOf(bench, claim.notebook_id)).toBe('archived')
    // Once more changes nothing.
    expect(await archive(bench, claim.notebook_id)).toBe(kept)

    await bench.restart()
    const again = await bench.attach(claim.notebook_id)
    expect(again.room.document.cells(0, 9).map(({ source }) => source)).toEqual(['6 * 7'])
    expect(() => again.room.mustMutate()).toThrow(/archived and takes no edits/)
    await expect(again.room.terms.mustHaveKernelspec()).rejects.toThrow(/archived and runs nothing/)
    await expect(again.room.slot.want()).rejects.toThrow(/archived and runs nothing/)
    expect(recentRecords(bench.store, 100)).toEqual([])
    expect(isListed(again.room.record.state)).toBe(false)
  }))

test('while something runs nothing is archived; by force who is in the room is sent away', () =>
  withProjects(async (bench) => {
    const project = await bench.add(bench.repository())
    const claim = await bench.claim(project)
    const { room, channel } = await bench.attach(claim.notebook_id)
    await bench.run(room, '1')
    const queued = room.executions.execute({
      code: 'for (;;) {}',
      on_error: 'stop',
      allow_stdin: false,
      by: 'Tester',
    })
    const { execution_id } = queued.execution
    await room.commit({ statements: queued.statements, events: queued.events, code: 'x' }, () =>
      room.executions.admitted([execution_id]),
    )
    await expect(archive(bench, claim.notebook_id, true)).rejects.toThrow(/something runs in room/)
    expect(stateOf(bench, claim.notebook_id)).toBe('active')
    const pid = room.presentKernel?.summary().pid ?? 0
    expect(alive(pid)).toBe(true)
    await room.slot.end('shutdown', 'the test ends it', 100)
    // Asked for twice at once: done once.
    const both = [archive(bench, claim.notebook_id, true), archive(bench, claim.notebook_id, true)]
    expect(await Promise.all(both)).toEqual([null, null])
    expect(channel.closed).toBe('closed')
    expect(bench.workspaces()).toEqual([])
    const other = await bench.create({ kernel: 'javascript' })
    await expect(archive(bench, other.room.id)).rejects.toMatchObject({ code: 'invalid_argument' })
  }))

test('a daemon that dies behind the row goes on with the folder when it is back', () =>
  withProjects(async (bench) => {
    const project = await bench.add(bench.repository())
    const claim = await bench.claim(project)
    const { room, leave } = await bench.attach(claim.notebook_id)
    await bench.edit(room, '1')
    leave()
    mkdirSync(join(claim.workspace, 'mine'))
    writeFileSync(join(claim.workspace, 'mine', 'notes.txt'), 'keep me\n')
    await bench.store.write([
      {
        sql: "UPDATE rooms SET state = 'archived', generation = generation + 1 WHERE notebook_id = ?",
        values: [claim.notebook_id],
      },
    ])
    await bench.restart()
    expect(bench.workspaces()).toEqual([])
    const [kept] = bench.projects.tier.keptOf(project.record.id)
    expect(readFileSync(join(kept?.path ?? '', 'mine', 'notes.txt'), 'utf8')).toBe('keep me\n')
    // Or while it removed the folder, of which half is no repository any more.
    mkdirSync(join(`${claim.workspace}.gone`, '.git'), { recursive: true })
    await bench.restart()
    expect(bench.workspaces()).toEqual([])
  }))
