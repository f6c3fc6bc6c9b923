/** engine/backup-ports.ts ObjectFiles: the content folder as files, without its records. */
import { readdirSync, readFileSync } from 'node:fs';
import { join, relative } from 'node:path';
import { isGeneration } from '../../core/generation.ts';
import { codeOf } from '../../error-code.ts';
import type { ObjectFiles } from '../backup-ports.ts';
import { ObjectLayout } from './object-layout.ts';
import { CONTENT_FOLDER } from './open-disk-content-store.ts';

export function findObjectFiles(dataDir: string): ObjectFiles {
  return makeObjectFiles(join(dataDir, CONTENT_FOLDER));
}

/** The id that the marker of the content folder holds; undefined if there is none. */
export function findContentMarker(dataDir: string): string | undefined {
  try {
    return readFileSync(new ObjectLayout(join(dataDir, CONTENT_FOLDER)).marker, 'utf8').trim();
  } catch (error) {
    if (codeOf(error) === 'ENOENT') return undefined;
    throw error;
  }
}

/** The objects below `root`, laid out as in a content folder. */
export function makeObjectFiles(root: string): ObjectFiles {
  const layout = new ObjectLayout(root);
  const folders = layout.shards();
  return {
    folderNames: folders.map((folder) => relative(root, folder)),
    list: () => folders.flatMap((folder) => listFolder(folder).filter(isGeneration)),
    pathOf: (generation) => layout.objectOf(generation),
    nameOf: (generation) => relative(root, layout.objectOf(generation)),
  };
}

function listFolder(folder: string): string[] {
  try {
    return readdirSync(folder);
  } catch (error) {
    if (codeOf(error) === 'ENOENT') return [];
    throw error;
  }
}
