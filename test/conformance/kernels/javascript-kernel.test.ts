import { kernelBehaviour } from './behaviour.ts'
import { javascript } from './javascript.ts'

kernelBehaviour({
  title: 'JavaScript kernel',
  spec: 'javascript',
  needs: [],
  language: javascript,
  local: true,
})
