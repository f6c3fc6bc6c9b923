/** Parses the lines of `/readyz?verbose`. */

const LINE = /^\[([+!-])\](\S+) (.*)$/;
const KINDS = { '+': 'ok', '!': 'warn', '-': 'bad' } as const;

export interface CheckLine {
  readonly kind: (typeof KINDS)[keyof typeof KINDS];
  readonly name: string;
  /** empty where all is well */
  readonly message: string;
}

export function parseChecks(text: string): readonly CheckLine[] {
  return text.split('\n').flatMap((line) => {
    const [, mark = '', name = '', rest = ''] = LINE.exec(line) ?? [];
    const kind = KINDS[mark as keyof typeof KINDS];
    if (kind === undefined) return [];
    return [{ kind, name, message: rest.replace(/^(?:ok|warning|failed):? ?/, '') }];
  });
}
