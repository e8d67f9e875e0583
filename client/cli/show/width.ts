/** How many terminal columns a text takes: control sequences none, East Asian wide characters and emoji two. */
import { stripVTControlCharacters } from 'node:util'

const wide =
  /[\p{Script=Han}\p{Script=Hangul}\p{Script=Hiragana}\p{Script=Katakana}\p{Emoji_Presentation}\uff01-\uff60]/u
const none = /^[\p{Mark}\p{Cf}\p{Cc}]$/u

export function widthOf(text: string): number {
  let width = 0
  for (const character of stripVTControlCharacters(text)) width += widthOfCharacter(character)
  return width
}

/** Cuts plain text to `columns`, the cut marked by `…`, at the end or at the start. */
export function cutTo(text: string, columns: number, cut: 'end' | 'start' = 'end'): string {
  if (widthOf(text) <= columns) return text
  if (columns <= 1) return columns === 1 ? '…' : ''
  const characters = [...text]
  if (cut === 'start') characters.reverse()
  const kept: string[] = []
  let width = 1
  for (const character of characters) {
    width += widthOfCharacter(character)
    if (width > columns) break
    kept.push(character)
  }
  return cut === 'start' ? `…${kept.reverse().join('')}` : `${kept.join('')}…`
}

function widthOfCharacter(character: string): number {
  if (none.test(character)) return 0
  return wide.test(character) ? 2 : 1
}
