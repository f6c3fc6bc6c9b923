/** The paths of bytes in the embedded engine: tests know it on purpose, to spoil them behind the engine's back. */
import { Database } from 'bun:sqlite';
import { cpSync, readFileSync, renameSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';

export function databasePath(data: string): string {
  return join(data, 'holdfast.db');
}

export function objectPath(data: string, generation: string): string {
  return join(data, 'content', 'objects', generation.slice(-2), generation);
}

export function incomingFolder(data: string): string {
  return join(data, 'content', 'incoming');
}

export function objectsFolder(data: string): string {
  return join(data, 'content', 'objects');
}

/**
 * Another hand than the engine's writes between its turns: what the engine reads in one turn of the event loop it reads at
 * one instant. To be awaited before a process spoils or restores the bytes of an engine that runs in it.
 */
export function nextTurn(): Promise<void> {
  return new Promise((resolve) => setImmediate(resolve));
}

export interface Place {
  readonly generation: string;
  readonly isInline: boolean;
  /** The node is a record of this pack. */
  readonly record?: { readonly pack: string; readonly hash: string };
}

type Spoiled = 'flipped' | 'lost';

/** Spoils and restores the stored bytes of generations; remembers what they were. */
export class ByteSpoiler {
  readonly #data: string;
  readonly #inline = new Map<string, Uint8Array>();

  constructor(data: string) {
    this.#data = data;
  }

  /** `offset` counts from the end for negative numbers; only for 'flipped' */
  spoil(place: Place, how: Spoiled, offset = -1): void {
    if (place.isInline) this.#spoilInline(place.generation, how, offset);
    else if (place.record !== undefined) this.#spoilRecord(place.record, how, offset);
    else this.#spoilFile(place.generation, how, offset);
  }

  restore(place: Place): void {
    const path = objectPath(this.#data, place.record?.pack ?? place.generation);
    if (place.isInline) this.#writeInline(place.generation, this.#inline.get(place.generation));
    else renameSync(`${path}.kept`, path);
  }

  #spoilFile(generation: string, how: Spoiled, offset: number): void {
    const path = objectPath(this.#data, generation);
    if (how === 'lost') {
      renameSync(path, `${path}.kept`);
      return;
    }
    cpSync(path, `${path}.kept`);
    const bytes = readFileSync(path);
    flip(bytes, offset);
    writeFileSync(path, bytes);
  }

  /** Its neighbours in the pack stay as they are: 'lost' are its bytes, not the pack. */
  #spoilRecord({ pack, hash }: NonNullable<Place['record']>, how: Spoiled, offset: number): void {
    const path = objectPath(this.#data, pack);
    cpSync(path, `${path}.kept`);
    const bytes = readFileSync(path);
    let start = 8;
    while (bytes.toString('hex', start, start + 32) !== hash) start += 44 + bytes.readUInt32LE(start + 36);
    const stored = bytes.subarray(start + 44, start + 44 + bytes.readUInt32LE(start + 36));
    if (how === 'lost') stored.fill(0);
    else flip(stored, offset);
    writeFileSync(path, bytes);
  }

  #spoilInline(generation: string, how: Spoiled, offset: number): void {
    const bytes = this.#readInline(generation);
    this.#inline.set(generation, bytes.slice());
    flip(bytes, offset);
    this.#writeInline(generation, how === 'lost' ? undefined : bytes);
  }

  #readInline(generation: string): Uint8Array {
    return this.#withDatabase((database) => {
      const row = database
        .query<{ inline_bytes: Uint8Array }, [Uint8Array]>(
          'SELECT inline_bytes FROM contents WHERE generation = ?',
        )
        .get(Buffer.from(generation, 'hex'));
      if (row === null) throw new Error(`generation ${generation} has no content record`);
      return row.inline_bytes;
    });
  }

  #writeInline(generation: string, bytes: Uint8Array | undefined): void {
    this.#withDatabase((database) => {
      const { changes } = database.run('UPDATE contents SET inline_bytes = ? WHERE generation = ?', [
        bytes ?? null,
        Buffer.from(generation, 'hex'),
      ]);
      if (changes !== 1) throw new Error(`generation ${generation} has no content record`);
    });
  }

  #withDatabase<T>(work: (database: Database) => T): T {
    const database = new Database(databasePath(this.#data));
    try {
      database.run('PRAGMA busy_timeout = 5000');
      return work(database);
    } finally {
      database.close();
    }
  }
}

function flip(bytes: Uint8Array, offset: number): void {
  const index = offset < 0 ? bytes.length + offset : offset;
  bytes[index] = (bytes[index] as number) ^ 0xff;
}
