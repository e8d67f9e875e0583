/**
 * Takes SIGINT away from Node's listeners on the main thread. Around every script that `breakOnSigint` watches, Node removes all
 * SIGINT listeners and adds them again, and each time there is a moment in which a signal ends the process. Here the handler of
 * the start stays installed in libuv, below the sentinel's, and listeners that user code adds are kept but hear nothing.
 */
type SignalHook = (event: string | symbol, ...rest: unknown[]) => void

/** Must run before anything else, so that a signal while starting is harmless. */
export function takeInterruptSignal(): void {
  const ignore = (): void => {}
  process.on('SIGINT', ignore)
  for (const name of ['newListener', 'removeListener'] as const) {
    for (const hook of process.rawListeners(name) as SignalHook[]) {
      process.removeListener(name, hook)
      const others: SignalHook = (event, ...rest) => {
        if (event !== 'SIGINT') Reflect.apply(hook, process, [event, ...rest])
      }
      process.on(name, others)
    }
  }
  // The listener goes, its libuv handle stays.
  process.removeListener('SIGINT', ignore)
}
