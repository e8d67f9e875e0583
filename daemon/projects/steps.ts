/**
 * Every wait of a claim and of warming has a name and goes through here, so that a test can hold, order and cancel each one. Here it
 * is just done.
 */
export interface Steps {
  wait<T>(name: string, work: () => Promise<T>): Promise<T>
}

export const plainSteps: Steps = { wait: (_name, work) => work() }
