/** Options that several commands share, and how their values are read. Bad values throw InvalidArgumentError (exit 2). */
import {
  DATA_DIR_DEFAULT,
  formatDuration,
  type Hash,
  isHash,
  isPathId,
  isRefDomain,
  LEASE_DURATION_MS_MAX,
  LEASE_DURATION_MS_MIN,
  PATH_ID_CHARACTERS_MAX,
  parseDuration,
  parseInstant,
  parseSize,
} from '@holdfast/protocol';
import { type Command, InvalidArgumentError, Option } from 'commander';
import { restating } from './cli-error.ts';

/** Without a default: whether it was given decides between the folder and a database. */
export function dataOption(): Option {
  const description = `data folder of the embedded engine (or HOLDFAST_DATA; default: ${DATA_DIR_DEFAULT})`;
  return new Option('--data <dir>', description);
}

/** A permission of the process: those that it starts have it too. */
export function withForeignOwner(command: Command): Command {
  return command
    .option(
      '--allow-foreign-owner',
      'work on a data folder that belongs to another user (or HOLDFAST_ALLOW_FOREIGN_OWNER=1)',
    )
    .on('option:allow-foreign-owner', () => {
      process.env.HOLDFAST_ALLOW_FOREIGN_OWNER = '1';
    });
}

export function metadataOption(): Option {
  const description = 'database of servers that share one, postgres://… (or HOLDFAST_METADATA)';
  return new Option('--metadata <url>', description);
}

export function jsonOption(): Option {
  return new Option('--json', 'print the result as JSON');
}

/** `--quiet` of a job that shows its progress. */
export function quietOption(description = 'show warnings and errors only'): Option {
  return new Option('--quiet', description);
}

/** Any text but none. */
export function parseGivenValue(text: string): string {
  if (text === '') throw new InvalidArgumentError('It is empty.');
  return text;
}

/** The parser of what may be given several times. More than `max` values are refused with `advice`. */
export function repeated<T>(parse: (text: string) => T, max = Number.POSITIVE_INFINITY, advice = '') {
  return (text: string, previous: readonly T[] = []): readonly T[] => {
    const all = [...previous, parse(text)];
    if (all.length > max) throw new InvalidArgumentError(advice);
    return all;
  };
}

/** Milliseconds, more than 0. */
export function parseDurationValue(text: string): number {
  const durationMs = restating(() => parseDuration(text), RangeError, InvalidArgumentError);
  if (durationMs === 0) throw new InvalidArgumentError('It must be more than 0.');
  return durationMs;
}

/** Bytes within both bounds. */
export function parseSizeValue(min: number, max: number): (text: string) => number {
  return (text) => {
    const bytes = restating(() => parseSize(text), RangeError, InvalidArgumentError);
    if (bytes < min || bytes > max) {
      throw new InvalidArgumentError(`It must be a size from ${min} to ${max} bytes, such as 64MiB.`);
    }
    return bytes;
  };
}

/** `none` lifts a limit. */
export function orNone(parse: (text: string) => number): (text: string) => number | 'none' {
  return (text) => (text === 'none' ? text : parse(text));
}

/** A whole number from 1 on. */
export function parsePositiveValue(max = Number.POSITIVE_INFINITY): (text: string) => number {
  return (text) => {
    const count = /^\d{1,9}$/.test(text) ? Number(text) : 0;
    if (count >= 1 && count <= max) return count;
    throw new InvalidArgumentError(
      max === Number.POSITIVE_INFINITY
        ? 'It must be an integer of 1 or more.'
        : `It must be an integer from 1 to ${max}.`,
    );
  };
}

export function parseHashValue(text: string): Hash {
  if (isHash(text)) return text;
  throw new InvalidArgumentError('A hash is 64 lowercase hexadecimal characters.');
}

/** A whole number from `min` on. */
export function parseCountValue(min: number): (text: string) => number {
  return (text) => {
    const count = /^(?:0|[1-9]\d{0,15})$/.test(text) ? Number(text) : Number.NaN;
    if (Number.isSafeInteger(count) && count >= min) return count;
    throw new InvalidArgumentError(`It must be a whole number from ${min} on.`);
  };
}

/** An instant in RFC 3339; ms since the epoch. */
export function parseTimeValue(text: string): number {
  const at = parseInstant(text);
  if (at !== undefined) return at;
  throw new InvalidArgumentError('It must be a time in RFC 3339, such as 2026-12-31T23:59:59Z.');
}

/** How long the server protects what a command stores. */
export function leaseOption(flag: string, defaultMs: number): Option {
  return new Option(flag, 'how long to protect it; the server keeps it within 1m to 24h')
    .argParser(parseDurationValue)
    .default(defaultMs, formatDuration(defaultMs));
}

/** The warning where the service protects for another time than was asked for; undefined: none. */
export function findLeaseWarning(flag: string, durationMs: number): string | undefined {
  const given = Math.min(LEASE_DURATION_MS_MAX, Math.max(LEASE_DURATION_MS_MIN, durationMs));
  if (given === durationMs) return undefined;
  const bound = given < durationMs ? 'the longest' : 'the shortest';
  return `${flag} ${formatDuration(durationMs)}: the server protects for ${formatDuration(given)}, ${bound} time a lease may have; a name or a root ref keeps it without an end`;
}

export function parsePathIdValue(text: string): string {
  if (!isPathId(text)) {
    throw new InvalidArgumentError(
      `Choose 1 to ${PATH_ID_CHARACTERS_MAX} characters without control characters, other than . and ..`,
    );
  }
  return text;
}

export function parseRefDomainValue(text: string): string {
  if (!isRefDomain(text)) {
    throw new InvalidArgumentError(
      'It must be lower-case letters and digits in parts joined by ":", at most 64 characters, such as app:drafts',
    );
  }
  return text;
}

/** Collects the values of an option that may be repeated, each perhaps several names joined by commas or spaces. */
function collectNames(text: string, previous: readonly string[] | undefined): readonly string[] {
  const names = text.split(/[\s,]+/).filter((name) => name !== '');
  if (names.length === 0) throw new InvalidArgumentError('It is empty.');
  return [...new Set([...(previous ?? []), ...names])];
}

/** By the parsers that `collectKnownNames` made. */
const knownNames = new WeakMap<object, readonly string[]>();

/** The values that a parser accepts, if that is a closed set. */
export function findKnownNames(parse: object | undefined): readonly string[] | undefined {
  return parse === undefined ? undefined : knownNames.get(parse);
}

/** As `collectNames`, for a closed set of names. */
export function collectKnownNames(
  known: readonly string[],
): (text: string, previous: readonly string[] | undefined) => readonly string[] {
  const parse = (text: string, previous: readonly string[] | undefined): readonly string[] => {
    const names = collectNames(text, previous);
    const unknown = names.find((name) => !known.includes(name));
    if (unknown !== undefined) {
      throw new InvalidArgumentError(`${JSON.stringify(unknown)} is not one of ${known.join(', ')}.`);
    }
    return names;
  };
  knownNames.set(parse, known);
  return parse;
}
