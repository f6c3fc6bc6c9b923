/** Text of others on one line for people: what a terminal would obey, turn around or hide is spelt out. */

/** Controls, formats (marks of direction, characters without width), separators of lines, and halves of a surrogate pair. */
const UNSAFE = /[\p{Cc}\p{Cf}\p{Zl}\p{Zp}\p{Cs}]/gu;

/** Each such character as `\uNNNN`, or `\u{NNNNN}` beyond the first 65,536. */
export function spellUnsafe(text: string): string {
  return text.replace(UNSAFE, (character) => {
    const digits = (character.codePointAt(0) as number).toString(16);
    return digits.length > 4 ? `\\u{${digits}}` : `\\u${digits.padStart(4, '0')}`;
  });
}
