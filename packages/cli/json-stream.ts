/** One JSON object of any length on stdout: a list whose items are printed as they come, then the other fields. */
import { writeSlowly } from './progress/waits.ts';

export class JsonListWriter {
  #isFirst = true;

  /** Begins the object with the list `key`. */
  constructor(key: string) {
    process.stdout.write(`{\n  ${JSON.stringify(key)}: [`);
  }

  async add(item: unknown): Promise<void> {
    await writeSlowly(`${this.#isFirst ? '' : ','}\n    ${JSON.stringify(item)}`);
    this.#isFirst = false;
  }

  end(fields: Readonly<Record<string, unknown>> = {}): void {
    const rest = Object.entries(fields).map(
      ([key, value]) => `,\n  ${JSON.stringify(key)}: ${JSON.stringify(value)}`,
    );
    process.stdout.write(`${this.#isFirst ? '' : '\n  '}]${rest.join('')}\n}\n`);
  }
}

/** One line on stdout, no faster than it is read: a listing may be longer than memory. */
export async function writeLineSlowly(line: string): Promise<void> {
  await writeSlowly(`${line}\n`);
}
