/** What a kernel host is told when it starts: by a daemon that starts a kernel, and by one whose host died. */
import { createHash, randomUUID } from 'node:crypto'
import { userInfo } from 'node:os'
import type { KernelId } from '../../protocol/ids.ts'
import type { HostLaunch, RemoteLaunch } from '../../protocol/kernel-host.ts'
import type { Places } from '../../protocol/places.ts'
import { kernelFolder } from '../kernel-host/folder.ts'
import type { Variables } from './environment.ts'
import type { GatewaySpec } from './gateways.ts'
import type { HostRecord } from './host-records.ts'
import type { StartRequest } from './kernel.ts'
import { kernelPlaces } from './kernel-places.ts'
import type { KernelSpec } from './kernelspecs.ts'

/** What is to be started: a spec of this machine, or one of a gateway. */
export type Chosen = { readonly name: string; readonly language: string } & (
  | { readonly kind: 'local'; readonly spec: KernelSpec }
  | { readonly kind: 'gateway'; readonly at: GatewaySpec }
)

export interface FirstLaunch {
  readonly places: Places
  readonly id: KernelId
  readonly chosen: Chosen
  readonly request: StartRequest
  /** What the kernel gets, its own variables included. */
  readonly environment: Variables
  /** Default: ipc where the system has it. */
  readonly transport: 'ipc' | 'tcp' | undefined
}

/** The launch of a kernel that never ran. */
export function firstLaunch({
  places,
  id,
  chosen,
  request,
  environment,
  transport,
}: FirstLaunch): HostLaunch {
  const { folder, socket, ipc } = kernelPlaces(places, id)
  const { connection } = kernelFolder(folder)
  const local = chosen.kind === 'local' ? chosen.spec : null
  const windows = process.platform === 'win32'
  return {
    kernel_id: id,
    nonce: randomUUID(),
    socket,
    ipc_dir: windows ? '' : ipc,
    argv: local
      ? [request.interpreter ?? local.argv[0] ?? '', ...local.argv.slice(1)].map((argument) =>
          argument.replaceAll('{connection_file}', connection),
        )
      : [],
    cwd: request.cwd,
    interrupt_mode: local?.interruptMode ?? 'message',
    transport: transport ?? (windows ? 'tcp' : 'ipc'),
    spec: chosen.name,
    environment: fingerprint(environment),
    orphan_grace_ms: request.orphanGraceMs,
    first_seq: 1,
    ...(chosen.kind === 'gateway' ? { remote: remoteLaunch(chosen.at, request) } : {}),
  }
}

/** How a new host takes over what the record tells of; null: there was nothing yet to take over. */
export function adoption(
  launch: HostLaunch,
  record: HostRecord,
): Pick<HostLaunch, 'adopt' | 'remote'> | null {
  const { kernel, remote } = record
  if (launch.remote !== undefined) {
    if (remote === undefined || remote.kernel_id === null) return null
    return { remote: { ...launch.remote, kernel_id: remote.kernel_id, kernel_session: remote.session } }
  }
  return kernel === null ? null : { adopt: { pid: kernel.pid, pid_started: kernel.started } }
}

/** Tells environments apart without telling what is in them. */
function fingerprint(env: Variables): string {
  const sorted = Object.entries(env).sort(([a], [b]) => (a < b ? -1 : 1))
  return createHash('sha256').update(JSON.stringify(sorted)).digest('hex').slice(0, 16)
}

function remoteLaunch({ settings, spec }: GatewaySpec, { env }: StartRequest): RemoteLaunch {
  const passed = Object.entries(env ?? {}).filter(([name]) => name.startsWith('KERNEL_'))
  return {
    gateway: settings.name,
    url: settings.url,
    token_env: settings.token_env ?? null,
    spec: spec.name,
    // What Enterprise Gateway wants to know, as Jupyter's own client tells it; other servers take no notice.
    env: { KERNEL_USERNAME: userInfo().username, ...Object.fromEntries(passed) },
    kernel_id: null,
    kernel_session: null,
  }
}
