/**
 * The daemon process. Takes the home's lock, opens the store, listens, adopts the kernels that outlived the last daemon, and
 * stays until it is told to stop. Whoever started it may go away, with its terminal and pipes.
 *
 * What is not needed to answer a first client comes after it: the rest is loaded once the socket answers, and the HTTP side, the
 * ledger and the environment of kernels a moment after the rooms are there, or when somebody asks for them.
 */
import { randomUUID } from 'node:crypto'
import { join } from 'node:path'
import type { Logger } from 'pino'
import { systemClock } from '../protocol/clock.ts'
import { readSettings, type Settings } from '../protocol/config.ts'
import { RoomdError } from '../protocol/errors.ts'
import { BootId } from '../protocol/ids.ts'
import { type Environment, type Places, resolvePlaces } from '../protocol/places.ts'
import { VERSION } from '../protocol/version.ts'
import { socketTransport } from '../protocol/wire/socket-transport.ts'
import type { DocumentWorker } from './documents/document-worker.ts'
import { type Blobs, openBlobs } from './executions/blobs.ts'
import type { HttpService } from './http/service.ts'
import type { IdleMemory } from './idle-memory.ts'
import type { KernelProvider } from './kernels/kernel.ts'
import { LatePart } from './late-part.ts'
import type { Ledger } from './ledger/ledger.ts'
import type { Projects } from './projects/projects.ts'
import { Mutations } from './rooms/mutations.ts'
import { removeDaemonJson, writeDaemonJson } from './server/daemon-json.ts'
import { type Listener, listenUnix } from './server/listener.ts'
import type { Lock } from './server/lock.ts'
import { logLevels, openLog } from './server/log.ts'
import { prepareFolders } from './server/runtime-folder.ts'
import { Server } from './server/server.ts'
import { DRAIN_MS, Stopping } from './server/stop.ts'
import { takeTurn } from './server/turn.ts'
import { openStore } from './store/open.ts'
import type { ProcedureStore, Store } from './store/store.ts'

/** Closing takes at most draining and a checkpoint; a process that hangs in it holds the home's lock for nothing. */
const LEAVE_MS = DRAIN_MS + 15_000
/** Long enough for a client that waited for the rooms to greet and to be answered. */
const MOMENT_MS = 50

/** What is open, in the order in which it was opened; closed the other way round. */
interface Open {
  lock: Lock
  store?: ProcedureStore
  listener?: Listener
  server?: Server
  http?: LatePart<HttpService>
  kernels?: KernelProvider
  projects?: Projects
  worker?: DocumentWorker
  ledger?: LatePart<Ledger>
  idleMemory?: IdleMemory
  /** Everything is being closed: a start that is still under way opens nothing more and tells of nothing. */
  leaving?: boolean
}

let tellReady: () => void = () => undefined
/** Resolves once the rooms are served. */
export const ready = new Promise<void>((resolve) => {
  tellReady = resolve
})

const startedAt = systemClock.now()
const bootId = BootId.parse(randomUUID())

// A pipe whose reader is gone reports it here; the daemon outlives whoever started it.
process.stdout.on('error', () => undefined)
process.stderr.on('error', () => undefined)
process.on('SIGHUP', () => undefined)

run().catch((error: unknown) => {
  complain(error)
  process.exit(error instanceof RoomdError && error.code === 'invalid_argument' ? 2 : 1)
})

async function run(): Promise<void> {
  const level = logLevel(process.env)
  const places = resolvePlaces(process.env)
  prepareFolders(places, process.env)
  const settings = readSettings(places)
  const turn = await takeTurn(places, systemClock)
  if (turn.kind === 'served') {
    say(`a daemon serves ${places.home} already: pid ${turn.by.pid}, version ${turn.by.version}`)
    process.exit(0)
  }
  const { logger } = openLog(join(places.logs, 'daemon.log'), level)
  endOnDefect(logger)
  leaveStartingFolder(places)
  logger.info(
    { boot_id: bootId, version: VERSION, node: process.version, home: places.home, settings },
    'starting',
  )
  const open: Open = { lock: turn.lock }
  try {
    await serve(places, settings, open, logger)
  } catch (error) {
    logger.fatal({ err: error }, 'could not start')
    removeDaemonJson(places.daemonJson, bootId)
    await open.listener?.close()
    throw error
  }
}

async function serve(places: Places, settings: Settings, open: Open, log: Logger): Promise<void> {
  const storeFile = join(places.data, 'roomd.db')
  const store = await openStore({ file: storeFile, log })
  open.store = store
  // Answers for the rooms while they are not ready: no mutation is accepted before, so what is stored is all there is.
  const stored = new Mutations(store, systemClock)
  const blobs = openBlobs(join(places.data, 'blobs'))

  const http = new LatePart(() => startHttp(places, settings, open, { store, server, blobs }, log))
  open.http = http
  const server: Server = new Server({
    clock: systemClock,
    log,
    process: {
      bootId,
      startedAt,
      socket: places.socket,
      http: () => http.wish(),
      storeHealth: () => store.health(),
      instance: (clientInstance) => (server.rooms ?? stored).instance(clientInstance),
      ledger: async (method, args, context) => {
        if (!open.ledger) throw new RoomdError('shutting_down', 'the daemon is not ready')
        return (await open.ledger.wish()).request(method, args, context)
      },
      readBlob: (hash) => blobs.read(hash),
      stop: (request) => stopping.stop(request),
    },
  })
  open.server = server
  const stopping: Stopping = new Stopping({ server, store, log, leave: () => leave(places, open, log) })
  stopOnSignals(stopping, log)

  open.listener = await listenUnix(places.socket, (socket) => server.accept(socketTransport(socket), 'owner'))
  tellProcess(places, open, log)
  log.info({ socket: places.socket, ms: systemClock.now() - startedAt }, 'listening')

  const [{ DocumentWorker }, { createKernelProvider }, { createRooms }, { Projects }] = await Promise.all([
    import('./documents/document-worker.ts'),
    import('./kernels/provider.ts'),
    import('./rooms/recovery.ts'),
    import('./projects/projects.ts'),
  ])
  if (open.leaving) return
  const kernels = createKernelProvider({
    store,
    places,
    log,
    clock: systemClock,
    bootId,
    gateways: settings.kernels.gateways,
  })
  open.kernels = kernels
  const worker = new DocumentWorker(storeFile)
  open.worker = worker
  const projects = new Projects({
    store,
    places,
    clock: systemClock,
    log,
    kernels,
    settings: settings.pool,
    tell: (event) => server.tell(event),
  })
  open.projects = projects
  const rooms = await createRooms({
    store,
    blobs,
    kernels,
    places,
    clock: systemClock,
    log,
    worker,
    bootId,
    hooks: projects.hooks,
  })
  if (open.leaving) return
  open.ledger = new LatePart(async () => {
    const { openLedger } = await import('./ledger/open.ts')
    if (open.leaving) throw goes()
    return openLedger({
      store,
      storeFile,
      mutations: rooms.mutations,
      clock: systemClock,
      log,
      settings,
      places,
    })
  })
  server.ready(rooms)
  log.info({ ...rooms.counts(), ms: systemClock.now() - startedAt }, 'ready')
  await new Promise((resolve) => setTimeout(resolve, MOMENT_MS))
  await finish(places, open, http, open.ledger, kernels)
}

/** What the first answer did not need. One thing a turn: clients are served in between. */
async function finish(
  places: Places,
  open: Open,
  http: LatePart<HttpService>,
  ledger: LatePart<Ledger>,
  kernels: KernelProvider,
): Promise<void> {
  for (const part of [http, ledger]) {
    if (open.leaving) return
    await part.wish().catch((error: unknown) => {
      if (!open.leaving) throw error
    })
    await new Promise((resolve) => setImmediate(resolve))
  }
  if (open.leaving) return
  // The first start of a kernel shall not wait for a slow profile.
  kernels.environment().catch(() => undefined) // told in the log, and to whoever starts a kernel
  const { IdleMemory } = await import('./idle-memory.ts')
  open.idleMemory = new IdleMemory(systemClock)
  say(`ready: pid ${process.pid}, version ${VERSION}, socket ${places.socket}`)
  tellReady()
}

/** Listens, and tells where in `daemon.json`. */
async function startHttp(
  places: Places,
  settings: Settings,
  open: Open,
  { store, server, blobs }: { store: Store; server: Server; blobs: Blobs },
  log: Logger,
): Promise<HttpService> {
  const { HttpService } = await import('./http/service.ts')
  const service = await HttpService.start({
    settings: settings.http,
    places,
    server,
    bootId,
    clock: systemClock,
    log,
    blobFile: (hash) => blobs.file(hash),
    changed: () => {
      if (open.http?.part) tellProcess(places, open, log)
    },
    metrics: {
      startedAt,
      version: VERSION,
      counts: () => ({
        ...(server.rooms?.counts() ?? { rooms: 0, peers: 0, kernels: 0 }),
        ...(server.rooms?.executions() ?? { running: 0, queued: 0 }),
      }),
      connections: () => ({ frames: server.connections, websocket: open.http?.part?.open ?? 0 }),
      store: () => store.health(),
    },
  })
  if (open.leaving) service.close()
  else tellProcess(places, open, log, service)
  return service
}

/** `daemon.json` is information: a disk that has no room for it keeps nobody from working. */
function tellProcess(places: Places, open: Open, log: Logger, http = open.http?.part): void {
  if (open.leaving) return
  try {
    writeDaemonJson(places.daemonJson, {
      pid: process.pid,
      boot_id: bootId,
      version: VERSION,
      socket: places.socket,
      http: http?.url ?? null,
      http_port: http?.port ?? null,
      started_at: startedAt,
    })
  } catch (error) {
    log.error({ err: error }, 'daemon.json could not be written; the daemon serves without it')
  }
}

/** SIGTERM and SIGINT stop in order; when that is refused the next one ends the process as it is. */
function stopOnSignals(stopping: Stopping, log: Logger): void {
  let refused = false
  const stop = (signal: NodeJS.Signals): void => {
    if (refused) {
      log.fatal({ signal }, 'ended by a second signal after a stop was refused')
      process.exit(1)
    }
    if (stopping.inProgress) return
    log.info({ signal }, 'asked to stop')
    stopping.stop({ reason: 'stop', kernels: false }).catch((error: unknown) => {
      refused = true
      complain(error)
      say('the daemon goes on; the same signal again ends it as it is')
    })
  }
  process.on('SIGTERM', stop)
  process.on('SIGINT', stop)
}

/** Closes everything and ends the process: 0 when all of it worked. */
function leave(places: Places, open: Open, log: Logger): void {
  open.leaving = true
  open.http?.refuse(goes())
  open.ledger?.refuse(goes())
  setTimeout(() => {
    log.fatal(`closing took more than ${LEAVE_MS} ms`)
    process.exit(1)
  }, LEAVE_MS)
  close(places, open).then(
    () => {
      log.info('stopped')
      process.exit(0)
    },
    (error: unknown) => {
      log.fatal({ err: error }, 'could not close')
      process.exit(1)
    },
  )
}

function goes(): RoomdError {
  return new RoomdError('shutting_down', 'the daemon is shutting down; connect again to the next one')
}

async function close(places: Places, open: Open): Promise<void> {
  await open.listener?.close()
  open.http?.part?.close()
  removeDaemonJson(places.daemonJson, bootId)
  await open.server?.close(DRAIN_MS)
  open.idleMemory?.dispose()
  open.projects?.dispose()
  open.kernels?.dispose()
  await open.ledger?.part?.dispose()
  await open.worker?.dispose()
  await open.store?.close()
  open.lock.release()
}

/** A defect that nobody caught: state in memory cannot be trusted any more, what is stored can. Kernel hosts live on. */
function endOnDefect(log: Logger): void {
  const end = (error: unknown): void => {
    log.fatal({ err: error }, 'ended by a defect')
    complain(error)
    process.exit(1)
  }
  process.on('uncaughtException', end)
  process.on('unhandledRejection', end)
}

/** A daemon must not hold (or lose) the folder it happened to be started in; children resolve the same home as we did. */
function leaveStartingFolder(places: Places): void {
  if (process.env.ROOMD_HOME) process.env.ROOMD_HOME = places.home
  if (process.env.ROOMD_SOCKET) process.env.ROOMD_SOCKET = places.socket
  process.chdir('/')
}

function logLevel(env: Environment): string {
  const level = env.ROOMD_LOG_LEVEL || 'info'
  if (logLevels.includes(level)) return level
  throw new RoomdError(
    'invalid_argument',
    `ROOMD_LOG_LEVEL is "${level}"; use one of ${logLevels.join(', ')}`,
  )
}

function complain(error: unknown): void {
  say(
    error instanceof RoomdError
      ? error.message
      : error instanceof Error
        ? (error.stack ?? error.message)
        : String(error),
  )
}

function say(line: string): void {
  try {
    process.stderr.write(`roomd daemon: ${line}\n`)
  } catch {
    // A file on a full disk throws at once; the log tells the same.
  }
}
