/** Help in the width of the terminal. The library wraps the lists of options; what is written by hand is wrapped here. Pure. */

const CONTINUATION = ' \\';

export function findColumns(stream: { readonly columns?: number; readonly isTTY?: boolean }): number {
  const columns = stream.isTTY === true ? stream.columns : undefined;
  // A file or a pipe has no width. A text of fewer than 40 columns is not readable.
  return Math.max(columns || 80, 40);
}

/** `text` with no line over `columns`, except for words that are longer. A paragraph that does not fit is filled anew. */
export function wrapHelp(text: string, columns: number): string {
  return joinParagraphs(text.split('\n'), columns)
    .map((line) => (line.length <= columns ? line : wrapLine(line, columns)))
    .join('\n');
}

function joinParagraphs(lines: readonly string[], columns: number): string[] {
  const joined: string[] = [];
  let paragraph: string[] = [];
  const end = (): void => {
    if (paragraph.some((line) => line.length > columns)) joined.push(paragraph.join(' '));
    else joined.push(...paragraph);
    paragraph = [];
  };
  for (const line of lines) {
    const isProse = /^\S/.test(line) && !line.endsWith(':');
    if (isProse) paragraph.push(line);
    else {
      end();
      joined.push(line);
    }
  }
  end();
  return joined;
}

function wrapLine(line: string, columns: number): string {
  const indent = /^ */.exec(line)?.[0] ?? '';
  const column = /^ *\S.*? {2,}/.exec(line)?.[0].length ?? 0;
  // An example can still be pasted, and the second column of a list stays one.
  if (/^ *holdfast /.test(line) && column === 0) return fill(line, columns, `${indent}    `, CONTINUATION);
  // Beside a list's first column there must be room for words.
  const isList = column > 0 && column <= columns - 24;
  return fill(line, columns, isList ? ' '.repeat(column) : indent, '');
}

/** Breaks at spaces; each line but the last ends with `ending`, each but the first begins with `hanging`. */
function fill(line: string, columns: number, hanging: string, ending: string): string {
  const lines: string[] = [];
  let rest = line;
  for (;;) {
    const room = columns - ending.length;
    if (rest.length <= columns) break;
    const first = hanging.length + 1;
    const before = rest.lastIndexOf(' ', room);
    const at = before >= first ? before : rest.indexOf(' ', first);
    if (at === -1) break;
    lines.push(`${rest.slice(0, at).trimEnd()}${ending}`);
    rest = `${hanging}${rest.slice(at + 1).replace(/^\\?\s*/, '')}`;
  }
  return [...lines, rest].join('\n');
}
