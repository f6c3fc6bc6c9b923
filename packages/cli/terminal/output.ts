/** What the command line prints. stdout carries results only; everything said to a person goes to stderr. */

/** One line of result on stdout. */
export function printLine(line: string): void {
  process.stdout.write(`${line}\n`);
}

/** The machine-readable result of a command: one JSON value, indented, on stdout. */
export function printJson(value: unknown): void {
  printLine(JSON.stringify(value, undefined, 2));
}

/** One line to the person on stderr. */
export function printNote(line: string): void {
  process.stderr.write(`${line}\n`);
}

/** Columns padded to their widest cell, header first, on stdout. */
export function printTable(header: readonly string[], rows: readonly (readonly string[])[]): void {
  const lines = [header, ...rows].map((cells) => cells.map(printable));
  const widths = header.map((_, column) => Math.max(...lines.map((cells) => cells[column]?.length ?? 0)));
  for (const cells of lines) {
    printLine(
      cells
        .map((cell, column) => cell.padEnd(widths[column] ?? 0))
        .join('  ')
        .trimEnd(),
    );
  }
}

/**
 * Makes text safe to show on one line of a terminal: control characters (a remote name or message may hold escape
 * sequences) become `\xNN`-style escapes.
 */
export function printable(text: string): string {
  // biome-ignore lint/suspicious/noControlCharactersInRegex: control characters are what is being removed
  return text.replace(/[\u0000-\u001f\u007f-\u009f\u2028\u2029]/g, (character) => {
    return `\\u${character.charCodeAt(0).toString(16).padStart(4, '0')}`;
  });
}
