import { kernelBehaviour } from './behaviour.ts'
import { r } from './r.ts'

kernelBehaviour({ title: 'IRkernel', spec: 'ir', needs: ['R kernel'], language: r, local: true })
