/** Writes and reads the messages of PostgreSQL's protocol 3.0. Values travel as text. Pure. */
import { SWITCHED } from '../failure.ts';

export type SqlValue = string | number | boolean | null | readonly (string | number | null)[];
/** One row: column → number, string, boolean, null; bytes as `\x…` text. */
export type SqlRow = Readonly<Record<string, unknown>>;

export interface SqlResult {
  readonly rows: readonly SqlRow[];
  /** how many rows the statement changed or returned */
  readonly count: number;
  /** what the server did, such as COMMIT, or ROLLBACK when it was asked to commit a failed transaction */
  readonly command: string;
}

const encoder = new TextEncoder();
/** An id may begin with what looks like a byte order mark. */
const decoder = new TextDecoder('utf-8', { ignoreBOM: true });

export const hexToBytea = (hex: string): string => `\\x${hex}`;
export const bytesToBytea = (bytes: Uint8Array): string => `\\x${bytes.toHex()}`;
export const byteaToHex = (bytea: unknown): string => (bytea as string).slice(2);
export const textToBytea = (text: string): string => bytesToBytea(encoder.encode(text));
export const byteaToText = (bytea: unknown): string => decoder.decode(byteaToBytes(bytea));
export const byteaToBytes = (bytea: unknown): Uint8Array => Uint8Array.fromHex((bytea as string).slice(2));

const PROTOCOL_VERSION = 196_608;
const SSL_REQUEST_CODE = 80_877_103;
const HEAD_BYTES = 5;

/** Gathers messages that are sent together. */
export class MessageWriter {
  #bytes = Buffer.allocUnsafe(4_096);
  #length = 0;

  startup(parameters: Readonly<Record<string, string>>): this {
    return this.#message(undefined, () => {
      this.#int32(PROTOCOL_VERSION);
      for (const [name, value] of Object.entries(parameters)) {
        this.#text(name);
        this.#text(value);
      }
      this.#byte(0);
    });
  }

  sslRequest(): this {
    return this.#message(undefined, () => this.#int32(SSL_REQUEST_CODE));
  }

  password(answer: string): this {
    return this.#message('p', () => this.#text(answer));
  }

  saslInitial(mechanism: string, answer: string): this {
    return this.#message('p', () => {
      this.#text(mechanism);
      this.#value(answer);
    });
  }

  saslResponse(answer: string): this {
    return this.#message('p', () => this.#raw(answer));
  }

  parse(name: string, sql: string): this {
    return this.#message('P', () => {
      this.#text(name);
      this.#text(sql);
      this.#int16(0);
    });
  }

  describe(name: string): this {
    return this.#message('D', () => {
      this.#raw('S');
      this.#text(name);
    });
  }

  bind(name: string, parameters: readonly SqlValue[]): this {
    return this.#message('B', () => {
      this.#byte(0);
      this.#text(name);
      this.#int16(0);
      this.#int16(parameters.length);
      for (const value of parameters) {
        if (value === null) this.#int32(-1);
        else this.#value(textOf(value));
      }
      this.#int16(0);
    });
  }

  execute(): this {
    return this.#message('E', () => {
      this.#byte(0);
      this.#int32(0);
    });
  }

  sync(): this {
    return this.#message('S', () => undefined);
  }

  /** Several statements in one text, without parameters */
  script(sql: string): this {
    return this.#message('Q', () => this.#text(sql));
  }

  terminate(): this {
    return this.#message('X', () => undefined);
  }

  /** Returns the gathered bytes and empties the writer. */
  take(): Uint8Array {
    const taken = Buffer.from(this.#bytes.subarray(0, this.#length));
    this.#length = 0;
    return taken;
  }

  #message(type: string | undefined, body: () => void): this {
    if (type !== undefined) this.#byte(type.charCodeAt(0));
    const start = this.#length;
    this.#int32(0);
    body();
    this.#bytes.writeInt32BE(this.#length - start, start);
    return this;
  }

  #reserve(count: number): void {
    if (this.#length + count <= this.#bytes.length) return;
    const grown = Buffer.allocUnsafe(Math.max(this.#bytes.length * 2, this.#length + count));
    this.#bytes.copy(grown, 0, 0, this.#length);
    this.#bytes = grown;
  }

  #byte(value: number): void {
    this.#reserve(1);
    this.#bytes[this.#length++] = value;
  }

  #int16(value: number): void {
    this.#reserve(2);
    this.#length = this.#bytes.writeInt16BE(value, this.#length);
  }

  #int32(value: number): void {
    this.#reserve(4);
    this.#length = this.#bytes.writeInt32BE(value, this.#length);
  }

  /** UTF-8 takes at most 3 bytes for one unit of a string. */
  #raw(text: string): void {
    this.#reserve(text.length * 3);
    this.#length += this.#bytes.write(text, this.#length);
  }

  /** The text ends with a zero byte, so it cannot contain one. */
  #text(text: string): void {
    if (text.includes('\0')) throw new Error('PostgreSQL takes no text with U+0000');
    this.#raw(text);
    this.#byte(0);
  }

  #value(text: string): void {
    this.#reserve(4 + text.length * 3);
    const at = this.#length;
    this.#length += 4;
    this.#length += this.#bytes.write(text, this.#length);
    this.#bytes.writeInt32BE(this.#length - at - 4, at);
  }
}

function textOf(value: Exclude<SqlValue, null>): string {
  if (typeof value === 'string') return value;
  if (typeof value === 'boolean') return value ? 't' : 'f';
  if (typeof value === 'number') return String(value);
  let text = '{';
  for (const element of value) {
    if (text.length > 1) text += ',';
    text += element === null ? 'NULL' : quoteElement(element);
  }
  return `${text}}`;
}

const BYTEA = /^\\x[0-9a-f]*$/;

function quoteElement(value: string | number): string {
  if (typeof value === 'number') return String(value);
  // Most values are bytes, in which only the leading backslash needs an escape.
  if (BYTEA.test(value)) return `\\${value}`;
  return `"${value.replace(/[\\"]/g, '\\$&')}"`;
}

/** One message: its type, and its body within `bytes`. */
export interface Message {
  readonly type: string;
  readonly bytes: Buffer;
  readonly start: number;
  readonly end: number;
}

/** Splits the arriving bytes into messages, however the network split them. */
export class MessageReader {
  #parts: Uint8Array[] = [];
  #length = 0;
  #needed = HEAD_BYTES;

  /** @throws when the bytes are not a valid message */
  *read(arrived: Uint8Array): Generator<Message> {
    this.#parts.push(arrived);
    this.#length += arrived.length;
    if (this.#length < this.#needed) return;
    const [only] = this.#parts;
    // A socket gives a Buffer already: another view of it would cost more than parsing it.
    const bytes = this.#parts.length === 1 && Buffer.isBuffer(only) ? only : Buffer.concat(this.#parts);
    let at = 0;
    this.#needed = HEAD_BYTES;
    while (bytes.length - at >= HEAD_BYTES) {
      const length = bytes.readInt32BE(at + 1);
      // More than a row of ours can have; a greater length is not a valid message.
      if (length < 4 || length > 256 * 1024 * 1024) throw new Error('not a message of PostgreSQL');
      if (bytes.length - at < length + 1) {
        this.#needed = length + 1;
        break;
      }
      yield {
        type: String.fromCharCode(bytes[at] as number),
        bytes,
        start: at + HEAD_BYTES,
        end: at + 1 + length,
      };
      at += length + 1;
    }
    this.#parts = at < bytes.length ? [bytes.subarray(at)] : [];
    this.#length = bytes.length - at;
  }
}

export interface Column {
  readonly name: string;
  /** the type's number in PostgreSQL */
  readonly type: number;
}

const COLUMN_TAIL_BYTES = 18;
const TYPE_OFFSET = 6;

/** @throws when the message is cut short */
export function parseColumns({ bytes, start, end }: Message): Column[] {
  const columns: Column[] = [];
  let at = start + 2;
  for (let left = bytes.readInt16BE(start); left > 0; left -= 1) {
    const nameEnd = findZero(bytes, at, end);
    if (nameEnd + 1 + COLUMN_TAIL_BYTES > end) throw new Error('a description that is cut short');
    columns.push({
      name: bytes.toString('utf8', at, nameEnd),
      type: bytes.readInt32BE(nameEnd + 1 + TYPE_OFFSET),
    });
    at = nameEnd + 1 + COLUMN_TAIL_BYTES;
  }
  return columns;
}

/** Column → number, string, boolean, null; bytes as `\x…` text. @throws when the message is cut short */
export function parseRow(
  { bytes, start, end }: Message,
  columns: readonly Column[],
): Record<string, unknown> {
  if (bytes.readInt16BE(start) !== columns.length) throw new Error('a row that is not as described');
  const row: Record<string, unknown> = {};
  let at = start + 2;
  for (const { name, type } of columns) {
    const length = bytes.readInt32BE(at);
    at += 4;
    if (length < -1 || at + length > end) throw new Error('a row that is cut short');
    if (length === -1) {
      row[name] = null;
      continue;
    }
    row[name] = parseValue(bytes, at, at + length, type);
    at += length;
  }
  return row;
}

/** By the number of its type. Most columns are integers and truth values: a text made of each would cost most of the row. */
function parseValue(bytes: Buffer, start: number, end: number, type: number): unknown {
  switch (type) {
    case 16:
      return bytes[start] === 't'.charCodeAt(0);
    case 20:
    case 21:
    case 23:
    case 26:
      return parseInteger(bytes, start, end);
    case 114:
      return JSON.parse(bytes.toString('utf8', start, end));
    case 17:
      if (bytes[start] !== 0x5c || bytes[start + 1] !== 0x78) throw notHex();
      return bytes.toString('latin1', start, end);
    case 2950:
      return bytes.toString('latin1', start, end);
    default:
      return bytes.toString('utf8', start, end);
  }
}

/** The setting `bytea_output` is not ours: the session is another one. The other form never begins with these two. */
const notHex = (): Error =>
  Object.assign(new Error('bytes in a form that was not asked for'), { code: SWITCHED });

function parseInteger(bytes: Buffer, start: number, end: number): number {
  // Sums of more digits would not be exact.
  if (end - start > 15) return Number(bytes.toString('latin1', start, end));
  const isNegative = bytes[start] === '-'.charCodeAt(0);
  let value = 0;
  for (let at = isNegative ? start + 1 : start; at < end; at += 1)
    value = value * 10 + (bytes[at] as number) - '0'.charCodeAt(0);
  return isNegative ? -value : value;
}

/** `SELECT 3` → the command and its number of rows, which only commands of one word have */
export function parseCompletion({ bytes, start, end }: Message): { command: string; count: number } {
  const text = bytes.toString('latin1', start, end - 1);
  const count = Number(text.slice(text.lastIndexOf(' ') + 1));
  if (Number.isNaN(count)) return { command: text, count: 0 };
  return { command: text.slice(0, text.indexOf(' ')), count };
}

/** An error of the server; `code` is the SQLSTATE. It holds neither statement nor parameters. */
export class ServerFailure extends Error {
  override readonly name = 'ServerFailure';
  readonly code: string;
  readonly constraint: string | undefined;

  constructor(message: string, code: string, constraint: string | undefined) {
    super(message);
    this.code = code;
    this.constraint = constraint;
  }
}

export function parseFailure({ bytes, start, end }: Message): ServerFailure {
  const fields = new Map<string, string>();
  for (let at = start; at < end && bytes[at] !== 0; ) {
    const zero = findZero(bytes, at + 1, end);
    fields.set(String.fromCharCode(bytes[at] as number), bytes.toString('utf8', at + 1, zero));
    at = zero + 1;
  }
  return new ServerFailure(fields.get('M') ?? 'no message', fields.get('C') ?? 'XX000', fields.get('n'));
}

function findZero(bytes: Buffer, from: number, end: number): number {
  const zero = bytes.indexOf(0, from);
  if (zero === -1 || zero >= end) throw new Error('a text without an end');
  return zero;
}
