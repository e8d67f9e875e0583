/**
 * `/metrics`: what the daemon counts, as Prometheus text. Loaded with the first request for it. The loop's delay is measured
 * from then on: measuring it wakes the process many times a second, which one that nobody watches should not do.
 */
import { Counter, collectDefaultMetrics, Gauge, Registry } from 'prom-client'
import { LATENCY_BOUNDS_MS, measures, type Tally } from '../measures.ts'

/** What is looked up at the moment of asking. */
export interface MetricSources {
  counts(): { rooms: number; peers: number; kernels: number; running: number; queued: number }
  /** Open connections by transport. */
  connections(): Readonly<Record<string, number>>
  store(): { size: number; pending: number; state: string }
  /** Epoch ms. */
  readonly startedAt: number
  readonly version: string
}

export class Metrics {
  readonly #registry = new Registry()

  constructor(sources: MetricSources) {
    const registers = [this.#registry]
    collectDefaultMetrics({ register: this.#registry, eventLoopMonitoringPrecision: 20 })
    const gauge = (name: string, help: string, read: () => number): void => {
      new Gauge({
        name,
        help,
        registers,
        collect() {
          this.set(read())
        },
      })
    }
    gauge('roomd_rooms', 'Rooms in memory.', () => sources.counts().rooms)
    gauge('roomd_peers', 'Attached peers.', () => sources.counts().peers)
    gauge('roomd_kernels', 'Kernels that run.', () => sources.counts().kernels)
    gauge('roomd_executions_running', 'Executions that run.', () => sources.counts().running)
    gauge('roomd_executions_queued', 'Executions that wait.', () => sources.counts().queued)
    gauge('roomd_store_bytes', 'Size of the store with its write-ahead log.', () => sources.store().size)
    gauge(
      'roomd_store_pending_units',
      'Changes handed to the store and not yet committed.',
      () => sources.store().pending,
    )
    gauge('roomd_store_ok', '1 while the store is whole and takes writes.', () =>
      sources.store().state === 'read_only' ? 0 : 1,
    )
    gauge('roomd_start_time_seconds', 'When the daemon started.', () => sources.startedAt / 1000)
    new Gauge({ name: 'roomd_info', help: 'Version.', labelNames: ['version'], registers }).set(
      { version: sources.version },
      1,
    )
    new Gauge({
      name: 'roomd_connections',
      help: 'Open connections by transport.',
      labelNames: ['transport'],
      registers,
      collect() {
        for (const [transport, count] of Object.entries(sources.connections())) this.set({ transport }, count)
      },
    })
    const tally = (name: string, help: string, label: string, from: Tally): void => {
      new Counter({
        name,
        help,
        labelNames: [label],
        registers,
        collect() {
          this.reset()
          for (const [value, count] of from.values) this.inc({ [label]: value }, count)
        },
      })
    }
    tally('roomd_executions_finished_total', 'Executions that ended.', 'status', measures.finishedExecutions)
    tally(
      'roomd_requests_refused_total',
      'Requests answered with an error.',
      'code',
      measures.refusedRequests,
    )
    tally('roomd_http_requests_total', 'HTTP requests.', 'status', measures.httpAnswers)
    tally('roomd_connections_accepted_total', 'Connections accepted.', 'transport', measures.accepted)
    new Counter({
      name: 'roomd_bytes_total',
      help: 'Bytes of frames and Yjs messages.',
      labelNames: ['transport', 'direction'],
      registers,
      collect() {
        this.reset()
        for (const [key, count] of measures.bytes.values) {
          const [transport = '', direction = ''] = key.split(' ')
          this.inc({ transport, direction }, count)
        }
      },
    })
    const counter = (name: string, help: string, read: () => number): void => {
      new Counter({
        name,
        help,
        registers,
        collect() {
          this.reset()
          this.inc(read())
        },
      })
    }
    counter('roomd_document_updates_total', 'Document updates committed.', () => measures.documentUpdates)
    counter('roomd_commit_failures_total', 'Changes that could not be committed.', () => measures.failedUnits)
  }

  readonly contentType = this.#registry.contentType

  async text(): Promise<string> {
    return `${(await this.#registry.metrics()).trimEnd()}\n${commitLatency()}`
  }
}

/** The library's histograms cannot be filled from counts that are there already; the text form is simple. */
function commitLatency(): string {
  const name = 'roomd_commit_latency_seconds'
  const { counts, count, sumMs } = measures.commits
  let under = 0
  const buckets = LATENCY_BOUNDS_MS.map((bound, at) => {
    under += counts[at] ?? 0
    return `${name}_bucket{le="${bound / 1000}"} ${under}`
  })
  return [
    `# HELP ${name} From handing changes to the store until they are on disk.`,
    `# TYPE ${name} histogram`,
    ...buckets,
    `${name}_bucket{le="+Inf"} ${count}`,
    `${name}_sum ${sumMs / 1000}`,
    `${name}_count ${count}`,
    '',
  ].join('\n')
}
