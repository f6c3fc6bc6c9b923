/** Connections kept under a name, in one file that its owner alone can read. */
import { createHash, randomUUID } from 'node:crypto';
import { mkdirSync, renameSync, writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { findJson, isRecord, PRIVATE_FILE_MODE, PRIVATE_FOLDER_MODE } from '@holdfast/protocol';
import { InvalidArgumentError } from 'commander';
import { CliError } from '../cli-error.ts';
import { createFile, describeFileError, readSecretNow, removeFile } from '../files.ts';

/** Either the token itself, or the file that others keep it in. */
export interface Profile {
  readonly url: string;
  readonly app: string;
  readonly space: string;
  readonly token?: string;
  /** absolute */
  readonly tokenFile?: string;
}

export interface Profiles {
  /** used where none is named */
  readonly default: string | undefined;
  readonly byName: ReadonlyMap<string, Profile>;
}

type Environment = Readonly<Record<string, string | undefined>>;

const VERSION = 1;
const NAME = /^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$/;
const FIELDS: ReadonlySet<string> = new Set(['version', 'default', 'profiles', 'sum']);
const NONE: Profiles = { default: undefined, byName: new Map() };

export function parseProfileName(text: string): string {
  if (NAME.test(text)) return text;
  throw new InvalidArgumentError(
    'A profile has a name of 1 to 64 letters, digits, ".", "_" and "-", and begins with a letter or digit.',
  );
}

/** Whether there is a place for profiles at all: a service may run without HOME. */
function findPath({ XDG_CONFIG_HOME: config, HOME: home }: Environment): string | undefined {
  // A relative XDG_CONFIG_HOME counts as unset, as its specification says.
  if (config?.startsWith('/')) return join(config, 'holdfast', 'profiles.json');
  return home?.startsWith('/') ? join(home, '.config', 'holdfast', 'profiles.json') : undefined;
}

/** None where there is no file, or no place for one. Throws CliError when it is not as it must be. */
export function readProfiles(environment: Environment = process.env): Profiles {
  const path = findPath(environment);
  if (path === undefined) return NONE;
  let text: string | undefined;
  try {
    text = readSecretNow(path, 'the file of profiles');
  } catch (error) {
    if (error instanceof CliError) throw error;
    if (error instanceof Error && 'code' in error && error.code === 'ENOENT') return NONE;
    throw new CliError(`the profiles in ${path} cannot be read: ${describeFileError(error)}`);
  }
  if (text === undefined)
    throw new CliError(`${path} is no file: move it away and log in again: holdfast login`);
  return parseProfiles(text, path);
}

function parseProfiles(text: string, path: string): Profiles {
  const damaged = new CliError(
    `${path} is no file of profiles as holdfast login writes it; move it away and log in again: holdfast login`,
  );
  const value = findJson(text);
  if (!isRecord(value) || value.version !== VERSION || !isRecord(value.profiles)) throw damaged;
  if (Object.keys(value).some((name) => !FIELDS.has(name))) throw damaged;
  // A file of an older build has no sum.
  if (value.sum !== undefined && value.sum !== sumOf(value.default, value.profiles)) throw damaged;
  const entries = Object.entries(value.profiles).map(([name, profile]) => {
    if (!NAME.test(name) || !isProfile(profile)) throw damaged;
    return [name, profile] as const;
  });
  return { default: typeof value.default === 'string' ? value.default : undefined, byName: new Map(entries) };
}

function isProfile(value: unknown): value is Profile {
  if (!isRecord(value)) return false;
  const isText = (name: string): boolean => typeof value[name] === 'string' && value[name] !== '';
  return ['url', 'app', 'space'].every(isText) && isText('token') !== isText('tokenFile');
}

/** With a wrong bit in an address the token would go to another server. */
function sumOf(byDefault: unknown, profiles: Record<string, unknown>): string {
  return createHash('sha256')
    .update(JSON.stringify([byDefault, profiles]))
    .digest('hex');
}

/** All or nothing: another process sees the file from before or the one from after. Throws CliError. */
export function writeProfiles(profiles: Profiles, environment: Environment = process.env): void {
  const path = findPath(environment);
  if (path === undefined) {
    throw new CliError(
      'there is no place to keep profiles; set HOME, or XDG_CONFIG_HOME to an absolute path',
    );
  }
  const partial = `${path}.${randomUUID()}.part`;
  const [byDefault, byName] = [profiles.default ?? null, Object.fromEntries(profiles.byName)];
  const value = { version: VERSION, default: byDefault, profiles: byName, sum: sumOf(byDefault, byName) };
  try {
    mkdirSync(dirname(path), { recursive: true, mode: PRIVATE_FOLDER_MODE });
    leaveOut(dirname(path));
    const text = `${JSON.stringify(value, undefined, 2)}\n`;
    writeFileSync(partial, text, { flag: 'wx', mode: PRIVATE_FILE_MODE, flush: true });
    renameSync(partial, path);
  } catch (error) {
    removeFile(partial);
    throw new CliError(`the profiles in ${path} cannot be written: ${describeFileError(error)}`);
  }
}

/** Neither a push of the home folder nor git takes tokens along. */
function leaveOut(folder: string): void {
  for (const name of ['.holdfastignore', '.gitignore']) {
    try {
      createFile(join(folder, name), '*\n', PRIVATE_FILE_MODE);
    } catch {
      // It stands there, or cannot be written: it only helps.
    }
  }
}

/** Throws CliError that names those there are. */
export function getProfile({ byName }: Profiles, name: string): Profile {
  const profile = byName.get(name);
  if (profile !== undefined) return profile;
  const known = byName.size === 0 ? 'there are none yet' : `kept are ${[...byName.keys()].join(', ')}`;
  throw new CliError(
    `there is no profile ${JSON.stringify(name)}: ${known}; make it with: holdfast login ${name}`,
  );
}
