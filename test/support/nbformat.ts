/** Python's nbformat as the judge of notebook files. Where it is missing, `needs(context, 'Python nbformat')` skips. */
import { spawnSync } from 'node:child_process'
import { pythonFile } from './machine.ts'

const program = `
import json, sys, nbformat
said = []
for path in json.load(sys.stdin):
    try:
        nbformat.validate(nbformat.read(path, as_version=nbformat.NO_CONVERT))
        said.append("")
    except Exception as error:
        said.append(type(error).__name__ + ": " + str(error))
json.dump(said, sys.stdout)
`

/** What nbformat says against each file, by path; empty: nothing. One process for all of them. */
export function complaints(paths: readonly string[]): Map<string, string> {
  const { status, stdout, stderr } = spawnSync(pythonFile, ['-W', 'ignore', '-c', program], {
    input: JSON.stringify(paths),
    encoding: 'utf8',
  })
  if (status !== 0) throw new Error(`nbformat could not be asked: ${stderr}`)
  const said = JSON.parse(stdout) as string[]
  return new Map(paths.map((path, i) => [path, said[i] ?? 'not judged']))
}
