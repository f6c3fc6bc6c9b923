/** Files that a setting of an engine names: keys, certificates, passwords. */
import { constants, type Stats } from 'node:fs';
import { open } from 'node:fs/promises';
import { describeExposure, findExposure, TEXT_FILE_BYTES_MAX } from '@holdfast/protocol';
import { codeOf } from '../error-code.ts';

/** As `readPlainFile`; rejects too if others can use the file. */
export function readSecret(what: string, path: string): Promise<string | undefined> {
  return readPlainFile(what, path, (stats) => {
    const mode = findExposure(path, stats, process.getuid?.());
    if (mode !== undefined) throw new Error(describeExposure(what, path, mode));
  });
}

/** undefined: no such file. Read again for each connection, so pipes and devices are refused. Rejects with a message for the operator. */
export async function readPlainFile(
  what: string,
  path: string,
  check: (stats: Stats) => void = () => undefined,
): Promise<string | undefined> {
  // Opening a pipe without a writer would block.
  const file = await open(path, constants.O_RDONLY | constants.O_NONBLOCK).catch((error: unknown) => {
    if (codeOf(error) === 'ENOENT') return undefined;
    throw error;
  });
  if (file === undefined) return undefined;
  try {
    const stats = await file.stat();
    check(stats);
    if (!stats.isFile())
      throw new Error(`${what} ${path} is no file, and is read more than once: check the path`);
    if (stats.size > TEXT_FILE_BYTES_MAX)
      throw new Error(`${what} ${path} has more than ${TEXT_FILE_BYTES_MAX} bytes: check the path`);
    return await file.readFile('utf8');
  } finally {
    await file.close();
  }
}
