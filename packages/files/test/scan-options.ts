/** How tests scan a folder: everything is stored as it is, and nobody watches. */
import { SILENT_PROGRESS } from '@holdfast/client/internal';
import { toByteString } from '../byte-names.ts';
import type { FolderState } from '../push/folder-state.ts';
import { IgnoreRules } from '../push/ignore-rules.ts';
import type { ScanOptions } from '../push/scan-tree.ts';

/** `folder`: an absolute path */
export function scanOptions(folder: string, state: FolderState): ScanOptions {
  return {
    root: toByteString(folder),
    state,
    rules: IgnoreRules.from([]),
    ignoreFileNames: [],
    recordsMtime: false,
    skipsSpecial: false,
    isStrict: true,
    distrusted: new Set(),
    progress: SILENT_PROGRESS,
    signal: undefined,
  };
}
