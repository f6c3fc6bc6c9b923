/** JSON of RFC 8259 and stricter: no byte order mark, no name twice, no lone surrogates, bounded depth. Objects become Maps. */
import { JSON_BODY_BYTES_MAX, JSON_DEPTH_MAX } from './limits.ts';

/** An exact safe integer is that integer (`1.0`, `1e2`, `-0` is 0). `Number.isSafeInteger` is false for every other number. */
export type JsonValue = null | boolean | number | string | readonly JsonValue[] | JsonObject;
export type JsonObject = ReadonlyMap<string, JsonValue>;

export interface StrictJsonOptions {
  /** Nesting of arrays and objects. */
  readonly depthMax?: number;
  readonly bytesMax?: number;
  /** Values, those within others included. */
  readonly valuesMax?: number;
}

export class StrictJsonError extends Error {
  override readonly name = 'StrictJsonError';
  readonly reason: string;
  /** UTF-16 units from the start of the text; 0 when the bytes are no text */
  readonly position: number;

  constructor(reason: string, position: number) {
    super(`${reason} at position ${position}`);
    this.reason = reason;
    this.position = position;
  }
}

const decoder = new TextDecoder('utf-8', { fatal: true, ignoreBOM: true });

/** The end of the number's digits, point and exponent; anything after it is for the caller to judge. */
const NUMBER = /-?(?:0|[1-9][0-9]*)(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?/y;
/** Native where a loop is not: a body may be a MiB of white space. */
const NOT_SPACE = /[^ \n\r\t]/g;

// biome-ignore lint/suspicious/noControlCharactersInRegex: control characters are what it looks for
const NOT_PLAIN = /[\\\u0000-\u001f]/;
/** Digits that always make a safe integer. */
export const SAFE_DIGITS = 15;

const ESCAPES: ReadonlySet<number> = new Set([...'"\\/bfnrt'].map((letter) => letter.charCodeAt(0)));

/** Throws StrictJsonError on anything that is not exactly one strict JSON value. */
export function parseStrictJson(bytes: Uint8Array, options: StrictJsonOptions = {}): JsonValue {
  const bytesMax = options.bytesMax ?? JSON_BODY_BYTES_MAX;
  if (bytes.length > bytesMax) throw new StrictJsonError(`the text is longer than ${bytesMax} bytes`, 0);
  let text: string;
  try {
    text = decoder.decode(bytes);
  } catch {
    throw new StrictJsonError('the bytes are not UTF-8', 0);
  }
  const { depthMax = JSON_DEPTH_MAX, valuesMax = Number.POSITIVE_INFINITY } = options;
  return new StrictJsonParser(text, depthMax, valuesMax).parse();
}

export function isJsonObject(value: JsonValue | undefined): value is JsonObject {
  return value instanceof Map;
}

class StrictJsonParser {
  readonly #text: string;
  readonly #depthMax: number;
  readonly #valuesMax: number;
  #values = 0;
  #at = 0;
  #depth = 0;

  constructor(text: string, depthMax: number, valuesMax: number) {
    this.#text = text;
    this.#depthMax = depthMax;
    this.#valuesMax = valuesMax;
  }

  parse(): JsonValue {
    const value = this.#parseValue();
    this.#skipSpace();
    if (this.#at !== this.#text.length) throw this.#error('something follows the value');
    return value;
  }

  #parseValue(): JsonValue {
    const code = this.#skipSpace();
    if (this.#values === this.#valuesMax)
      throw this.#error(`more than ${this.#valuesMax} values stand in it`);
    this.#values++;
    switch (code) {
      case 0x7b: // {
        return this.#parseObject();
      case 0x5b: // [
        return this.#parseArray();
      case 0x22: // "
        return this.#parseString();
      case 0x74: // t
        return this.#parseWord('true', true);
      case 0x66: // f
        return this.#parseWord('false', false);
      case 0x6e: // n
        return this.#parseWord('null', null);
      default:
        return this.#parseNumber();
    }
  }

  #parseObject(): JsonObject {
    const object = new Map<string, JsonValue>();
    this.#enter();
    if (this.#skipSpace() === 0x7d /* } */) {
      this.#leave();
      return object;
    }
    for (;;) {
      if (this.#skipSpace() !== 0x22 /* " */) throw this.#error('a name in double quotes is missing');
      const nameAt = this.#at;
      const name = this.#parseString();
      if (object.has(name))
        throw new StrictJsonError(`the name ${quoted(name)} occurs twice in one object`, nameAt);
      if (this.#skipSpace() !== 0x3a /* : */) throw this.#error('a colon is missing');
      this.#at++;
      object.set(name, this.#parseValue());
      const code = this.#skipSpace();
      if (code === 0x7d /* } */) {
        this.#leave();
        return object;
      }
      if (code !== 0x2c /* , */) throw this.#error('a comma or closing brace is missing');
      this.#at++;
    }
  }

  #parseArray(): readonly JsonValue[] {
    const array: JsonValue[] = [];
    this.#enter();
    if (this.#skipSpace() === 0x5d /* ] */) {
      this.#leave();
      return array;
    }
    for (;;) {
      array.push(this.#parseValue());
      const code = this.#skipSpace();
      if (code === 0x5d /* ] */) {
        this.#leave();
        return array;
      }
      if (code !== 0x2c /* , */) throw this.#error('a comma or closing bracket is missing');
      this.#at++;
    }
  }

  #parseString(): string {
    const text = this.#text;
    const start = this.#at + 1;
    const end = text.indexOf('"', start);
    const plain = text.slice(start, end < 0 ? text.length : end);
    const oddAt = plain.search(NOT_PLAIN);
    if (oddAt >= 0) return this.#parseEscapedString(start, start + oddAt);
    if (end < 0) throw new StrictJsonError('a string has no end', text.length);
    this.#at = end + 1;
    return plain;
  }

  /** Looks at each escape, from `at` on; the text is made at once, because a piece for each escape takes 50 times its memory. */
  #parseEscapedString(start: number, oddAt: number): string {
    const text = this.#text;
    let at = oddAt;
    while (at < text.length) {
      const code = text.charCodeAt(at);
      if (code === 0x22 /* " */) {
        const value: string = JSON.parse(text.slice(start - 1, at + 1));
        if (!value.isWellFormed()) throw new StrictJsonError('a string has a lone surrogate', start - 1);
        this.#at = at + 1;
        return value;
      }
      if (code < 0x20) throw new StrictJsonError('a control character stands unescaped in a string', at);
      at += code === 0x5c /* \ */ ? this.#readEscape(at) : 1;
    }
    throw new StrictJsonError('a string has no end', text.length);
  }

  #readEscape(at: number): number {
    const text = this.#text;
    const letter = text.charCodeAt(at + 1);
    if (letter === 0x75 /* u */) {
      for (let digit = at + 2; digit < at + 6; digit++) {
        if (!isHexDigit(text.charCodeAt(digit)))
          throw new StrictJsonError('\\u needs four hexadecimal digits', at);
      }
      return 6;
    }
    if (!ESCAPES.has(letter)) throw new StrictJsonError('an unknown escape stands in a string', at);
    return 2;
  }

  #parseNumber(): number {
    const plain = this.#findPlainInteger();
    if (plain !== undefined) return plain;
    NUMBER.lastIndex = this.#at;
    const match = NUMBER.exec(this.#text);
    if (match === null)
      throw this.#error(this.#at < this.#text.length ? 'no value starts' : 'a value is missing');
    const lexeme = match[0];
    this.#at += lexeme.length;
    return toNumber(lexeme);
  }

  /** Most numbers: few digits, no leading zero, no point, no exponent. `undefined` means only: look closer. */
  #findPlainInteger(): number | undefined {
    const text = this.#text;
    const negative = text.charCodeAt(this.#at) === 0x2d /* - */;
    const start = negative ? this.#at + 1 : this.#at;
    if (text.charCodeAt(start) === 0x30 /* 0 */) return undefined;
    let value = 0;
    let at = start;
    for (; at - start < SAFE_DIGITS; at++) {
      const code = text.charCodeAt(at);
      if (!isDigit(code)) break;
      value = value * 10 + code - 0x30;
    }
    const next = text.charCodeAt(at);
    if (at === start || isDigit(next)) return undefined;
    // A point, an e or an E.
    if (next === 0x2e || next === 0x65 || next === 0x45) return undefined;
    this.#at = at;
    return negative ? -value : value;
  }

  #parseWord<T>(word: string, value: T): T {
    if (!this.#text.startsWith(word, this.#at)) throw this.#error('no value starts');
    this.#at += word.length;
    return value;
  }

  /** Moves to the next character that is not white space; its code, NaN at the end. */
  #skipSpace(): number {
    const text = this.#text;
    const code = text.charCodeAt(this.#at);
    if (code !== 0x20 && code !== 0x0a && code !== 0x0d && code !== 0x09) return code;
    NOT_SPACE.lastIndex = this.#at;
    this.#at = NOT_SPACE.test(text) ? NOT_SPACE.lastIndex - 1 : text.length;
    return text.charCodeAt(this.#at);
  }

  #enter(): void {
    if (this.#depth === this.#depthMax) throw this.#error(`more than ${this.#depthMax} levels are nested`);
    this.#depth++;
    this.#at++;
  }

  #leave(): void {
    this.#depth--;
    this.#at++;
  }

  #error(reason: string): StrictJsonError {
    return new StrictJsonError(reason, this.#at);
  }
}

function isDigit(code: number): boolean {
  return code >= 0x30 && code <= 0x39;
}

function isHexDigit(code: number): boolean {
  return isDigit(code) || ((code | 0x20) >= 0x61 && (code | 0x20) <= 0x66);
}

function toNumber(lexeme: string): number {
  const value = Number(lexeme);
  if (!Number.isSafeInteger(value)) return value;
  if (!isExactInteger(lexeme)) return Number.NaN;
  return value === 0 ? 0 : value;
}

/** Whether the decimal value of a JSON number is an integer, without the rounding of a double. */
function isExactInteger(lexeme: string): boolean {
  const exponentAt = lexeme.search(/[eE]/);
  const mantissa = exponentAt < 0 ? lexeme : lexeme.slice(0, exponentAt);
  const pointAt = mantissa.indexOf('.');
  if (pointAt < 0 && exponentAt < 0) return true;
  const exponent = exponentAt < 0 ? 0 : Number(lexeme.slice(exponentAt + 1));
  const fractionDigits = pointAt < 0 ? 0 : mantissa.length - pointAt - 1;
  let trailingZeros = 0;
  for (let at = mantissa.length - 1; at >= 0; at--) {
    const character = mantissa.charAt(at);
    if (character === '.') continue;
    if (character === '-') return true;
    if (character !== '0') return exponent - fractionDigits + trailingZeros >= 0;
    trailingZeros++;
  }
  return true;
}

/** A name as it may stand in a message: escaped, and not longer than a reader needs. */
export function quoted(name: string): string {
  return JSON.stringify(name.length > 64 ? `${name.slice(0, 64)}…` : name);
}

/** Texts of JSON that would fill the memory of a reader: another program at an address may send anything. */
const LEVELS_MAX = 32;
const [QUOTE, BACKSLASH] = [0x22, 0x5c];
const [ARRAY, ARRAY_END, OBJECT, OBJECT_END] = [0x5b, 0x5d, 0x7b, 0x7d];

/** Whether the text has more arrays and objects than `partsMax`, or more than 32 levels: each takes up to ninety times its text. Pure. */
export function isHeavyJson(text: string, partsMax: number): boolean {
  let parts = 0;
  let levels = 0;
  let isInString = false;
  for (let at = 0; at < text.length; at += 1) {
    const mark = text.charCodeAt(at);
    if (mark === QUOTE) isInString = !isInString;
    else if (isInString) at += mark === BACKSLASH ? 1 : 0;
    else if (mark === ARRAY_END || mark === OBJECT_END) levels -= 1;
    else if (mark === ARRAY || mark === OBJECT) {
      levels += 1;
      parts += 1;
      if (levels > LEVELS_MAX || parts > partsMax) return true;
    }
  }
  return false;
}
