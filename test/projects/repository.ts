/**
 * Git repositories for tests, each in a folder of its own with its own configuration: nothing global is read or needed. And a picture
 * of a folder, bit for bit, to tell that nobody touched it.
 */
import { execFileSync } from 'node:child_process'
import { createHash } from 'node:crypto'
import { lstatSync, mkdirSync, readdirSync, readFileSync, readlinkSync, rmSync, writeFileSync } from 'node:fs'
import { dirname, join } from 'node:path'

const env = {
  PATH: process.env.PATH ?? '/usr/bin:/bin',
  HOME: '/nonexistent',
  LC_ALL: 'C',
  GIT_CONFIG_NOSYSTEM: '1',
  GIT_CONFIG_GLOBAL: '/dev/null',
  GIT_AUTHOR_NAME: 'Tester',
  GIT_AUTHOR_EMAIL: 'tester@example.org',
  GIT_COMMITTER_NAME: 'Tester',
  GIT_COMMITTER_EMAIL: 'tester@example.org',
}

export class Repository {
  readonly folder: string

  /** Makes an empty repository there; `init`: more options of `git init`. */
  constructor(folder: string, init: readonly string[] = []) {
    this.folder = folder
    mkdirSync(folder, { recursive: true })
    this.git('init', '--quiet', '--initial-branch=main', ...init)
    this.git('config', 'user.name', 'Tester')
    this.git('config', 'user.email', 'tester@example.org')
  }

  git(...args: string[]): string {
    return execFileSync('git', args, {
      cwd: this.folder,
      env,
      encoding: 'utf8',
      stdio: ['ignore', 'pipe', 'pipe'],
    })
  }

  write(path: string, text: string): void {
    mkdirSync(dirname(join(this.folder, path)), { recursive: true })
    writeFileSync(join(this.folder, path), text)
  }

  remove(path: string): void {
    rmSync(join(this.folder, path), { recursive: true, force: true })
  }

  /** Writes the files, commits everything, and returns the commit. */
  commit(files: Readonly<Record<string, string>> = {}, message = 'change'): string {
    for (const [path, text] of Object.entries(files)) this.write(path, text)
    this.git('add', '--all')
    this.git('commit', '--quiet', '--allow-empty', '-m', message)
    return this.head()
  }

  head(): string {
    return this.git('rev-parse', 'HEAD').trim()
  }
}

/** Every file with its mode, time and content: two equal pictures mean that nothing was written. */
export function picture(folder: string): Record<string, string> {
  const found: Record<string, string> = {}
  const visit = (path: string): void => {
    const place = join(folder, path)
    const info = lstatSync(place)
    const mark = `${info.mode.toString(8)} ${info.mtimeMs} ${info.ino}`
    if (info.isDirectory()) {
      found[`${path}/`] = mark
      for (const name of readdirSync(place)) visit(join(path, name))
    } else if (info.isSymbolicLink()) found[path] = `${mark} -> ${readlinkSync(place)}`
    else found[path] = `${mark} ${createHash('sha256').update(readFileSync(place)).digest('hex')}`
  }
  visit('.')
  return found
}
