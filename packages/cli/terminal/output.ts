/** Output of the command line. stdout carries results only; everything said to a person goes to stderr. */
import { spellUnsafe } from '@holdfast/protocol';
import { hideSecrets } from './hide-secrets.ts';

/** Text of others, safe to show on one line of a terminal. */
export { spellUnsafe as printable };

let lastLine = '';
let lineCount = 0;

export function printLine(line: string): void {
  lastLine = line;
  lineCount += line.split('\n').length;
  process.stdout.write(`${line}\n`);
}

/** The last line of result, such as the hash of a tree: what a person needs most where stdout could not be written. */
export function lastPrintedLine(): string {
  return lastLine;
}

export function isOneLinePrinted(): boolean {
  return lineCount === 1;
}

/** The machine-readable result of a command: one JSON value, indented, on stdout. */
export function printJson(value: unknown): void {
  printLine(JSON.stringify(value, undefined, 2));
}

export function printFailure(message: string): void {
  printNote(`holdfast: ${hideSecrets(spellUnsafe(message))}`);
}

export function printNote(line: string): void {
  process.stderr.write(`${line}\n`);
}

/** Columns padded to their widest cell as a terminal shows it, header first, on stdout. */
export function printTable(header: readonly string[], rows: readonly (readonly string[])[]): void {
  const lines = [header, ...rows].map((cells) => cells.map(spellUnsafe));
  const widths = header.map((_, column) =>
    Math.max(...lines.map((cells) => Bun.stringWidth(cells[column] ?? ''))),
  );
  for (const cells of lines) {
    printLine(
      cells
        .map((cell, column) => cell + ' '.repeat((widths[column] ?? 0) - Bun.stringWidth(cell)))
        .join('  ')
        .trimEnd(),
    );
  }
}
