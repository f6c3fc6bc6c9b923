/** A password from a file as PostgreSQL's own tools read it: lines of `HOST:PORT:DATABASE:USER:PASSWORD`. */
import { codeOf } from '../../../error-code.ts';
import type { PostgresAddress, PostgresHost } from '../../address.ts';
import { readSecret } from '../../given-file.ts';
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
