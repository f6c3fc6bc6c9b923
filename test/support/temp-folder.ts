import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';

/** A fresh folder under the system's temporary one; `remove` takes it and all inside away. */
export function makeTempFolder(purpose: string): { readonly path: string; remove(): void } {
  const path = mkdtempSync(join(tmpdir(), `holdfast-${purpose}-`));
  return { path, remove: () => rmSync(path, { recursive: true, force: true }) };
}
