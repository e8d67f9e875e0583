/** The one hidden global name through which rewritten cells reach the kernel. */
export const hidden = '__cell__'

/** Comments around what the rewriting adds inside functions, so that their source text can be shown without it. */
export const open = '/*⟦*/'
export const close = '/*⟧*/'

/** Source text of a function as the user wrote it. */
export function withoutMarks(text: string): string {
  return text.includes(open) ? text.replace(/\/\*⟦\*\/.*?\/\*⟧\*\//gs, '') : text
}
