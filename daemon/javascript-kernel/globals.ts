/** The names that cells find beside JavaScript's and Node's own. */
import { createRequire } from 'node:module'
import { join } from 'node:path'

/** Not enumerable, so that listings of globals show the user's own names. */
export function defineGlobals(values: Record<string, unknown>): void {
  for (const [name, value] of Object.entries(values)) {
    Object.defineProperty(globalThis, name, { value, writable: true, configurable: true, enumerable: false })
  }
  defineModuleGlobals()
}

/** `require` and its kin, from the working directory as it is when they are used. */
function defineModuleGlobals(): void {
  const from = (): NodeJS.Require => createRequire(join(process.cwd(), 'cell.js'))
  let folder = process.cwd()
  let current = from()
  const now = (): NodeJS.Require => {
    if (folder !== process.cwd()) {
      folder = process.cwd()
      current = from()
    }
    return current
  }
  const require = Object.assign((id: string): unknown => now()(id), {
    resolve: Object.assign(
      (id: string, options?: NodeJS.RequireResolveOptions) => now().resolve(id, options),
      {
        paths: (id: string) => now().resolve.paths(id),
      },
    ),
    cache: current.cache,
    main: undefined,
  })
  const module = { exports: {}, id: 'cell', children: [], paths: current.resolve.paths('x') ?? [], require }
  const constants: Record<string, unknown> = { require, module, exports: module.exports }
  for (const [name, value] of Object.entries(constants)) {
    Object.defineProperty(globalThis, name, { value, writable: true, configurable: true, enumerable: false })
  }
  Object.defineProperty(globalThis, '__dirname', {
    get: () => process.cwd(),
    configurable: true,
    enumerable: false,
  })
}
