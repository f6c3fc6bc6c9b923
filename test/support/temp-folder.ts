import { existsSync, mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';

const MEMORY_FOLDER = '/dev/shm';

/** A fresh folder under the system's temporary one; `remove` takes it and all inside away. */
export function makeTempFolder(
  purpose: string,
  options: {
    /** in memory where the machine offers it: many short runs, no power loss in sight */ fast?: boolean;
  } = {},
): { readonly path: string; remove(): void } {
  const parent = options.fast === true && existsSync(MEMORY_FOLDER) ? MEMORY_FOLDER : tmpdir();
  const path = mkdtempSync(join(parent, `holdfast-${purpose}-`));
  return { path, remove: () => rmSync(path, { recursive: true, force: true }) };
}
