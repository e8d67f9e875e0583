/**
 * Tags that a session gets from how it begins: task type, skill, folder, and words of its prompt. A word counts only where it stands
 * as a word ("java" is not in "JavaScript"); some have other spellings. `compat` gives the reference's list: any substring counts,
 * and the empty tag too.
 */
import { byCodePoint } from './numbers.ts'

export type TagSource = 'task_type' | 'skill' | 'project' | 'prompt' | 'manual' | 'import'

export interface FoundTag {
  readonly name: string
  readonly source: TagSource
  /** What of the prompt it was found in. */
  readonly span: string | null
}

/** The router's own skill says nothing about the work. */
const ROUTER_SKILL = 'adaptive-skill-intelligence'

/** The reference's 31 words, with other spellings of each. */
const keywords: Readonly<Record<string, readonly string[]>> = {
  'spring-boot': ['spring boot', 'springboot'],
  docker: ['dockerfile', 'docker-compose'],
  kubernetes: ['k8s', 'kube', 'kubectl'],
  jenkins: ['jenkinsfile'],
  angular: ['angularjs'],
  react: ['reactjs', 'react.js'],
  mongodb: ['mongo', 'mongo db'],
  postgresql: ['postgres', 'pg', 'psql', 'pgsql'],
  redis: [],
  elasticsearch: ['elastic search', 'elastic-search'],
  eureka: [],
  'config-server': ['config server'],
  gateway: ['gateways'],
  auth: ['authentication', 'authorization', 'oauth', 'oauth2'],
  blog: ['blogs'],
  scheduler: ['schedulers'],
  sitemap: ['sitemaps'],
  python: ['python3'],
  java: [],
  kotlin: [],
  swift: ['swiftui'],
  css: ['css3'],
  seo: [],
  mcp: [],
  langgraph: ['lang graph'],
  flask: [],
  fastapi: ['fast api'],
  django: [],
  terraform: [],
  'github-actions': ['github actions', 'github action', 'gh actions'],
  kafka: [],
}

const byForm = new Map(
  Object.entries(keywords).flatMap(([tag, forms]) => [tag, ...forms].map((form) => [form, tag] as const)),
)

/** All forms, longest first, as whole words; the spaces of a phrase may be any white space. */
const form = new RegExp(
  `(?<![\\p{L}\\p{N}_])(?:${[...byForm.keys()]
    .sort((a, b) => b.length - a.length)
    .map((text) => text.replace(/[.]/g, '\\.').replace(/ /g, '\\s+'))
    .join('|')})(?![\\p{L}\\p{N}_])`,
  'giu',
)

export interface Beginning {
  readonly taskType: string
  readonly skill: string
  readonly cwd: string
  readonly prompt: string
}

/** Sorted by code point; no two that differ only in case. */
export function tagsOf(begun: Beginning, options: { compat: boolean }): FoundTag[] {
  const found: FoundTag[] = []
  if (begun.taskType !== '')
    found.push({ name: begun.taskType.toLowerCase().replaceAll(' ', '-'), source: 'task_type', span: null })
  if (begun.skill !== '' && begun.skill !== ROUTER_SKILL)
    found.push({ name: begun.skill, source: 'skill', span: null })
  if (begun.cwd !== '') {
    const folder = begun.cwd.replaceAll('\\', '/').replace(/\/+$/, '')
    found.push({ name: folder.slice(folder.lastIndexOf('/') + 1), source: 'project', span: null })
  }
  found.push(...(options.compat ? substringTags(begun.prompt) : promptTags(begun.prompt)))
  const unique = new Map<string, FoundTag>()
  for (const tag of found) {
    if (tag.name.trim() === '') continue
    if (!unique.has(fold(tag.name))) unique.set(fold(tag.name), tag)
  }
  return [...unique.values()].sort((a, b) => byCodePoint(a.name, b.name))
}

/** Words of a prompt, each once, with the first place it was found in. */
export function promptTags(prompt: string): FoundTag[] {
  const found = new Map<string, FoundTag>()
  for (const [span] of prompt.matchAll(form)) {
    const name = byForm.get(span.toLowerCase().replace(/\s+/g, ' '))
    if (name !== undefined && !found.has(name)) found.set(name, { name, source: 'prompt', span })
  }
  return [...found.values()]
}

function substringTags(prompt: string): FoundTag[] {
  const lower = prompt.toLowerCase()
  return Object.keys(keywords)
    .filter((word) => lower.includes(word))
    .map((name) => ({ name, source: 'prompt', span: name }))
}

/** The key under which tags are the same. */
export function fold(tag: string): string {
  return tag.normalize('NFC').toLowerCase()
}

/** A comma list: trimmed, empties dropped, in order; duplicates stay. */
export function commaList(text: string): string[] {
  return text
    .split(',')
    .map((part) => part.trim())
    .filter((part) => part !== '')
}
