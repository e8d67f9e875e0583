import { kernelBehaviour } from './behaviour.ts'
import { python } from './python.ts'

kernelBehaviour({
  title: 'ipykernel',
  spec: 'python3',
  needs: ['Python kernel'],
  language: python,
  local: true,
})
