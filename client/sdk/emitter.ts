/**
 * Typed events. Listeners are called in the order they were added, at once. A listener that throws stops nobody: neither the
 * other listeners nor the connection that reported; its error surfaces as an uncaught one, because it is a defect of the caller.
 */
export class Emitter<Events extends object> {
  readonly #listeners = new Map<keyof Events, Set<(value: never) => void>>()

  /** Returns the function that removes the listener again. */
  on<Name extends keyof Events>(name: Name, listener: (value: Events[Name]) => void): () => void {
    const known = this.#listeners.get(name) ?? new Set()
    this.#listeners.set(name, known)
    known.add(listener)
    return () => this.off(name, listener)
  }

  off<Name extends keyof Events>(name: Name, listener: (value: Events[Name]) => void): void {
    this.#listeners.get(name)?.delete(listener)
  }

  /** As `on`, for the next event only. */
  once<Name extends keyof Events>(name: Name, listener: (value: Events[Name]) => void): () => void {
    const remove = this.on(name, (value) => {
      remove()
      listener(value)
    })
    return remove
  }

  /** Whether anybody would be told. */
  protected listens(name: keyof Events): boolean {
    return (this.#listeners.get(name)?.size ?? 0) > 0
  }

  /** For the owner of the events. */
  emit<Name extends keyof Events>(name: Name, value: Events[Name]): void {
    const listeners = this.#listeners.get(name)
    if (!listeners) return
    for (const listener of [...listeners]) {
      try {
        ;(listener as (value: Events[Name]) => void)(value)
      } catch (error) {
        queueMicrotask(() => {
          throw error
        })
      }
    }
  }
}
