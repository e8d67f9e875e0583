/** The resume conformance suite over the Unix socket and over WebSockets. */
import { afterAll, beforeAll } from 'vitest'
import { connect } from '../../client/sdk/connect.ts'
import { type ResumeGround, resumeConformance } from '../conformance/resume.ts'
import { HttpFixture } from './support.ts'

let http: HttpFixture
let count = 0
beforeAll(async () => {
  http = await HttpFixture.start()
})
afterAll(() => http.dispose())

const ground = (name: string, way: ResumeGround['connect']): ResumeGround => ({
  name,
  connect: way,
  room: () => http.room(`resume-${++count}.ipynb`, ['1', '2']),
  killAndStart: () => http.killAndStart(),
})

resumeConformance(
  () => ground('a Unix socket', () => connect({ env: http.home.env, waitMs: 30_000 })),
  'a Unix socket',
)
resumeConformance(() => ground('a WebSocket', () => http.connect({ token: http.ownerToken })), 'a WebSocket')
