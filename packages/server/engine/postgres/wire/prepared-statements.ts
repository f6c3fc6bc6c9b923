/** The statements that one session has prepared. */
import { createHash } from 'node:crypto';
import type { Column, MessageWriter } from './wire-messages.ts';

/** A statement as the server knows it: by name, from its first flight on. */
export interface Prepared {
  readonly name: string;
  isKnown: boolean;
  columns: readonly Column[];
}

export class PreparedStatements {
  readonly #byText = new Map<string, Prepared>();

  /** Writes what prepares the statement, if this session has not prepared it. */
  prepare(text: string, writer: MessageWriter): Prepared {
    const known = this.#byText.get(text);
    if (known !== undefined) return known;
    const made: Prepared = { name: nameOf(text), isKnown: false, columns: [] };
    this.#byText.set(text, made);
    writer.parse(made.name, text).describe(made.name);
    return made;
  }

  /** Call after a failure: the server has skipped what it had not yet described. */
  forgetUnknown(): void {
    for (const [text, { isKnown }] of this.#byText) if (!isKnown) this.#byText.delete(text);
  }
}

/** By its text, so that a session which another process has used never runs another statement of the same name. */
function nameOf(text: string): string {
  // PostgreSQL tells names apart by their first 63 bytes.
  return `h${createHash('sha256').update(text).digest('hex').slice(0, 40)}`;
}
