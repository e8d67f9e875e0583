/**
 * Schemas that are built when something is first parsed by them. The tables of the protocol have some hundred, a process uses a few,
 * and building all of them would be a fifth of a daemon's start.
 *
 * Until then the schema is an object without properties, whose prototype makes it what it stands for at the first look at any
 * property. From then on it is such a schema itself, as if zod's constructor had made it: who compares schemas by identity (JSON
 * schemas, registries) finds it, and parsing by it costs what it always costs.
 */
import { z } from 'zod'

/** What zod's own `clone` uses of a schema. */
interface Internals {
  readonly def: object
  readonly constr: { init(schema: object, def: object): void }
  deferred?: (() => void)[] | undefined
  parent?: unknown
}

/** `make` is called once, at the first use, and not before the module that calls `lazily` is evaluated. */
export function lazily<Schema extends z.ZodType>(make: () => Schema): Schema {
  const become = (): void => {
    const made = make()
    const { constr, def, parent } = internals(made)
    Object.setPrototypeOf(schema, Object.getPrototypeOf(made))
    constr.init(schema, def)
    const own = internals(schema)
    for (const finish of own.deferred ?? []) finish()
    own.deferred = undefined
    if (parent !== undefined) own.parent = parent
    const said = z.globalRegistry.get(made)
    if (said) z.globalRegistry.add(schema as Schema, said)
  }
  const schema: object = Object.create(
    new Proxy(Object.prototype, {
      get(_, key, receiver) {
        become()
        return Reflect.get(schema, key, receiver)
      },
      has(_, key) {
        become()
        return Reflect.has(schema, key)
      },
    }),
  )
  return schema as Schema
}

function internals(schema: object): Internals {
  return (schema as { readonly _zod: Internals })._zod
}
