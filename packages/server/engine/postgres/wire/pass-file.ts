/** A password from a file as PostgreSQL's own tools read it: lines of `HOST:PORT:DATABASE:USER:PASSWORD`. */
import { constants, type Stats } from 'node:fs';
import { type FileHandle, open } from 'node:fs/promises';
import { describeExposure, findExposure } from '@holdfast/protocol';
import { codeOf } from '../../../error-code.ts';
import type { PostgresAddress, PostgresHost } from '../../address.ts';
import { unusableFile } from '../failure.ts';

/** So the file calls the folders of sockets where PostgreSQL's own tools look by themselves. */
const LOCAL = 'localhost';
const USUAL_FOLDERS: ReadonlySet<string> = new Set(['/var/run/postgresql', '/run/postgresql', '/tmp']);

/** Rejects if the file is open to others, or cannot be read. */
export async function findPassword(
  { passFile, database, user }: PostgresAddress,
  { host, port }: PostgresHost,
): Promise<string | undefined> {
  if (passFile === undefined) return undefined;
  const text = await readPassFile(passFile);
  const wanted = [USUAL_FOLDERS.has(host) ? LOCAL : host, String(port), database, user];
  for (const line of (text ?? '').split(/\r?\n/)) {
    if (line.startsWith('#')) continue;
    const fields = fieldsOf(line);
    const password = fields.splice(wanted.length).join(':');
    const isMeant =
      fields.length === wanted.length && fields.every((each, at) => each === '*' || each === wanted[at]);
    if (isMeant && password !== '') return password;
  }
  return undefined;
}

async function readPassFile(path: string): Promise<string | undefined> {
  try {
    return await readSecret('the password file', path);
  } catch (error) {
    const isExposed = codeOf(error) === undefined;
    throw unusableFile(
      isExposed ? (error as Error).message : `the password file ${path} cannot be read: check its rights`,
    );
  }
}

/** A colon or a backslash of a field has a backslash before it. */
function fieldsOf(line: string): string[] {
  return (line.match(/(?:^|:)(?:\\.|[^:\\])*/g) ?? []).map((field, at) =>
    (at === 0 ? field : field.slice(1)).replace(/\\(.)/g, '$1'),
  );
}

/** As `readPlainFile`; rejects too if others can use the file. */
export function readSecret(what: string, path: string): Promise<string | undefined> {
  return readPlainFile(what, path, (stats) => {
    const mode = findExposure(path, stats, process.getuid?.());
    if (mode !== undefined) throw new Error(describeExposure(what, path, mode));
  });
}

/**
 * `undefined`: there is no such file. Rejects if it cannot be read. Each connection reads it anew, so a pipe is refused, as libpq does:
 * it gives its bytes once, or never.
 */
export async function readPlainFile(
  what: string,
  path: string,
  check: (stats: Stats) => void = () => undefined,
): Promise<string | undefined> {
  let file: FileHandle;
  try {
    // A pipe that nobody writes to would hold up the opening.
    file = await open(path, constants.O_RDONLY | constants.O_NONBLOCK);
  } catch (error) {
    if (codeOf(error) === 'ENOENT') return undefined;
    throw error;
  }
  try {
    const stats = await file.stat();
    check(stats);
    if (!stats.isFile()) throw new Error(`${what} ${path} is no file: each connection reads it anew`);
    return await file.readFile('utf8');
  } finally {
    await file.close();
  }
}
