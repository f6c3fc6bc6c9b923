/** A small terminal. */

/** The final text of a terminal, without colours: lines, cursor up, clear below. */
export function screenAfter(text: string): string[] {
  const lines: string[] = [];
  let row = 0;
  // biome-ignore lint/suspicious/noControlCharactersInRegex: a small terminal reads escape sequences
  for (const [part, count, letter] of text.matchAll(/\u001b\[\??([0-9]*)([A-Za-z])|\r|[^\u001b\r]+/g)) {
    if (letter === 'A') row -= Number(count);
    else if (letter === 'J') lines.length = row;
    else if (letter === undefined && part !== '\r') {
      for (const line of part.split(/(?<=\n)/)) {
        lines[row] = (lines[row] ?? '') + line.replace('\n', '');
        if (line.endsWith('\n')) row += 1;
      }
    }
  }
  return lines.filter((line) => line !== '');
}
