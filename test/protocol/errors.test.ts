import { expect, test } from 'vitest'
import { toWireError } from '../../protocol/errors.ts'

test('a full disk is told as such, whatever met it; what nobody expected keeps its message', () => {
  const full = Object.assign(new Error('ENOSPC: no space left on device, copyfile'), { code: 'ENOSPC' })
  expect(toWireError(full)).toMatchObject({ code: 'storage_full' })
  expect(toWireError(full).message).toMatch(/free some space.*copyfile/)
  expect(toWireError(new Error('odd'))).toMatchObject({
    code: 'internal',
    message: 'unexpected failure: odd',
  })
})
