/**
 * Who is the active session: the one place that decides it. Knows nothing of rooms; a session is whatever `attach` makes.
 *
 * - The newest intent wins. Each explicit call (`activate`, `deactivate`, `intend`) advances the intent epoch and makes every
 *   flight before it a loser. A loser's session is discarded when it arrives and nothing else is touched.
 * - One flight per target: calls for a target that is being attached share that flight and its result. A target has keys (path, id);
 *   keys found on the way (`aliases`, `flight.alias`) count as soon as they are known. A call for another key that turns out to be
 *   the same target joins the flight that was there, which therefore waits with its end until that is known.
 * - A failed flight leaves the active session as it was. Flights always settle, and wake all that wait for them.
 * - A background flight (rejoin) is published only if the slot is empty, no intent came since, and its own condition still holds.
 *
 * Everything that changes the slot happens synchronously in one turn; what was awaited before is looked at again there.
 */
import { RoomdError } from '../../../protocol/errors.ts'

/** What an attach is given of its flight. */
export interface Flight {
  /** Aborted when nobody waits for the flight any more. */
  readonly signal: AbortSignal
  /** Another key of the same target became known. */
  alias(key: string): void
  /** The number of this activation, to be told to the daemon; throws `session_superseded` once a newer intent won. */
  takeGeneration(): number
  /** Whether it is still the newest intent. */
  current(): boolean
}

export interface ActivationRequest<S> {
  readonly key: string
  /** Finds other keys of the target. Failing finds none. */
  readonly aliases?: (() => Promise<readonly string[]>) | undefined
  readonly attach: (flight: Flight) => Promise<S>
}

export interface Activated<S> {
  readonly session: S
  readonly how: 'installed' | 'joined' | 'already'
}

export interface ActivationHooks<S> {
  /** All keys of a session that is being installed. */
  keys(session: S): readonly string[]
  /** Whether the active session may be handed out again instead of attaching anew. */
  reusable(session: S): boolean
  /** A loser: drop its peer. Returns what the losing caller is told. */
  discard(session: S): RoomdError
  /** A newer session took its place. */
  displaced(session: S): void
}

interface FlightState<S> {
  readonly request: ActivationRequest<S>
  readonly keys: Set<string>
  readonly controller: AbortController
  background: { readonly epoch: number; readonly wanted: () => boolean } | null
  waiters: number
  /** Resolves with the session once it is installed. */
  readonly done: Promise<S>
  /** While it looks whether it is the same target as the flight before it. */
  deciding: Promise<void> | null
  /** It was: that one carries it on. */
  joined: FlightState<S> | null
  aliased: Promise<void>
  settled: boolean
}

export class Activations<S extends object> {
  readonly #hooks: ActivationHooks<S>
  #generation = 0
  #taken = 0
  #epoch = 0
  #active: { readonly session: S; readonly keys: Set<string> } | null = null
  #current: FlightState<S> | null = null

  constructor(hooks: ActivationHooks<S>) {
    this.#hooks = hooks
  }

  get active(): S | null {
    return this.#active?.session ?? null
  }

  /** Advanced by every explicit intent. */
  get epoch(): number {
    return this.#epoch
  }

  /** The newest generation that was taken here; what others of this client instance took does not count. */
  get taken(): number {
    return this.#taken
  }

  /** The daemon knows generations of this client instance up to here. */
  raise(generation: number): void {
    this.#generation = Math.max(this.#generation, generation)
  }

  /** The flight of the newest intent, for those who want to wait for its end; never rejects. */
  get pending(): Promise<void> | null {
    const current = this.#current
    return current
      ? current.done.then(
          () => {},
          () => {},
        )
      : null
  }

  /** Whether the pending flight is a background one. */
  get pendingInBackground(): boolean {
    return this.#current?.background != null
  }

  /** An explicit activation. Rejects with what the attach failed with, or `session_superseded`. */
  async activate(request: ActivationRequest<S>, signal?: AbortSignal): Promise<Activated<S>> {
    this.#epoch++
    const { key } = request
    const current = this.#current
    if (!current && this.#active?.keys.has(key) && this.#hooks.reusable(this.#active.session))
      return { session: this.#active.session, how: 'already' }
    if (current?.keys.has(key)) {
      current.background = null
      return { session: await this.#follow(current, signal), how: 'joined' }
    }
    const flight = this.#begin(request, null, current)
    return { session: await this.#follow(flight, signal), how: 'installed' }
  }

  /**
   * A background activation: begins only while the slot is empty and nothing else is under way (else null), and is published only
   * if no intent came meanwhile and `wanted` holds.
   */
  async rejoin(request: ActivationRequest<S>, wanted: () => boolean): Promise<S | null> {
    if (this.#active || this.#current) return null
    return this.#begin(request, { epoch: this.#epoch, wanted }, null).done
  }

  /** An explicit intent that concerns the slot in another way: flights under way lose. Returns whether one was. */
  intend(): boolean {
    this.#epoch++
    const was = this.#current !== null
    this.#current = null
    return was
  }

  /** Empties the slot on purpose; flights under way lose. */
  deactivate(): S | null {
    this.intend()
    const session = this.active
    this.#active = null
    return session
  }

  /** Empties the slot if this session is in it: it was lost. No intent. */
  drop(session: S): boolean {
    if (this.#active?.session !== session) return false
    this.#active = null
    return true
  }

  /** A key of the active session became known (it was saved to a path). */
  alias(session: S, key: string): void {
    if (this.#active?.session === session) this.#active.keys.add(key)
  }

  #begin(
    request: ActivationRequest<S>,
    background: FlightState<S>['background'],
    rival: FlightState<S> | null,
  ): FlightState<S> {
    let settle: (outcome: Promise<S>) => void = () => {}
    const done = new Promise<S>((resolve) => {
      settle = resolve
    })
    // Whoever waits gets the rejection.
    done.catch(() => {})
    const flight: FlightState<S> = {
      request,
      keys: new Set([request.key]),
      controller: new AbortController(),
      background,
      waiters: 0,
      done,
      deciding: null,
      joined: null,
      aliased: Promise.resolve(),
      settled: false,
    }
    this.#current = flight
    flight.aliased = this.#findAliases(flight)
    settle(
      this.#fly(flight, rival).finally(() => {
        flight.settled = true
        if (this.#current === flight) this.#current = null
      }),
    )
    return flight
  }

  async #findAliases(flight: FlightState<S>): Promise<void> {
    const { aliases } = flight.request
    if (!aliases) return
    const found = await aliases().catch(() => [])
    for (const key of found) flight.keys.add(key)
  }

  async #fly(flight: FlightState<S>, rival: FlightState<S> | null): Promise<S> {
    if (rival && !rival.settled && flight.request.aliases) {
      const same = this.#sameTarget(flight, rival)
      flight.deciding = same.then(() => {})
      if (await same) {
        const leader = leaderOf(rival)
        flight.joined = leader
        for (const key of flight.keys) leader.keys.add(key)
        leader.background = null
        // Still the newest intent: the flight that was there carries it on.
        if (this.#current === flight) this.#current = leader
        flight.deciding = null
        return this.#follow(leader, flight.controller.signal)
      }
      flight.deciding = null
    }
    const session = await flight.request.attach(this.#faceOf(flight))
    // A newer call may be about to find out that it wants this very target.
    for (let newer = this.#current; newer && newer !== flight && newer.deciding; newer = this.#current)
      await newer.deciding
    if (!this.#mayInstall(flight)) throw this.#hooks.discard(session)
    const previous = this.#active
    this.#active = { session, keys: new Set([...flight.keys, ...this.#hooks.keys(session)]) }
    if (this.#current === flight) this.#current = null
    if (previous) this.#hooks.displaced(previous.session)
    return session
  }

  async #sameTarget(flight: FlightState<S>, rival: FlightState<S>): Promise<boolean> {
    await Promise.race([
      Promise.all([flight.aliased, rival.aliased]),
      rival.done.then(
        () => {},
        () => {},
      ),
    ])
    if (rival.settled) return false
    const known = leaderOf(rival).keys
    for (const key of flight.keys) if (rival.keys.has(key) || known.has(key)) return true
    return false
  }

  #mayInstall(flight: FlightState<S>): boolean {
    if (this.#current !== flight || flight.controller.signal.aborted) return false
    const { background } = flight
    if (!background) return true
    return background.epoch === this.#epoch && this.#active === null && background.wanted()
  }

  #faceOf(flight: FlightState<S>): Flight {
    return {
      signal: flight.controller.signal,
      alias: (key) => flight.keys.add(key),
      current: () => this.#current === flight,
      takeGeneration: () => {
        // One that a newer call may still join keeps its place.
        if (this.#current !== flight && !this.#current?.deciding) throw supersededError()
        this.#taken = ++this.#generation
        return this.#taken
      },
    }
  }

  /** The flight's result; leaving ends the flight when nobody else waits for it. */
  async #follow(flight: FlightState<S>, signal?: AbortSignal): Promise<S> {
    flight.waiters++
    let leave = (): void => {}
    const left = new Promise<never>((_resolve, reject) => {
      leave = () => reject(new RoomdError('client_aborted', 'the call was cancelled by its caller'))
    })
    try {
      if (!signal) return await flight.done
      if (signal.aborted) leave()
      else signal.addEventListener('abort', leave, { once: true })
      return await Promise.race([flight.done, left])
    } finally {
      signal?.removeEventListener('abort', leave)
      flight.waiters--
      if (flight.waiters === 0 && !flight.settled && !flight.background) flight.controller.abort()
    }
  }
}

function leaderOf<S>(flight: FlightState<S>): FlightState<S> {
  let leader = flight
  while (leader.joined) leader = leader.joined
  return leader
}

export function supersededError(detail: { cause?: unknown; next?: RoomdError['next'] } = {}): RoomdError {
  return new RoomdError(
    'session_superseded',
    'a later connect or disconnect of this client won; nothing was changed by this call',
    detail,
  )
}
