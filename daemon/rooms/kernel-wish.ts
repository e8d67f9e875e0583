/** Which kernel a notebook's own metadata asks for: nbformat's `kernelspec` and `language_info`. */
export function kernelOfMetadata(metadata: Record<string, unknown>): { name?: string; language?: string } {
  const spec = metadata.kernelspec
  const info = metadata.language_info
  const name = isRecord(spec) && typeof spec.name === 'string' ? spec.name : undefined
  const ofSpec = isRecord(spec) && typeof spec.language === 'string' ? spec.language : undefined
  const language = ofSpec ?? (isRecord(info) && typeof info.name === 'string' ? info.name : undefined)
  return { ...(name ? { name } : {}), ...(language ? { language } : {}) }
}

function isRecord(value: unknown): value is Record<string, unknown> {
  return typeof value === 'object' && value !== null
}
