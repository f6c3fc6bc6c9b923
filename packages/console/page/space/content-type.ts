/** Content types in a word. */
import { printable } from '../parts/format.ts';

const WORDS: Readonly<Record<string, string>> = {
  'application/vnd.holdfast.tree.file.v1': 'file',
  'application/vnd.holdfast.tree.file-index.v1': 'large file',
  'application/vnd.holdfast.tree.chunk.v1': 'chunk',
  'application/vnd.holdfast.tree.directory.v1': 'directory',
  'application/vnd.holdfast.tree.directory-index.v1': 'wide directory',
  'application/vnd.holdfast.tree.symlink.v1': 'link',
  'application/vnd.holdfast.catalog.v1+json': 'catalog',
  'application/vnd.holdfast.catalog-index.v1': 'catalog index',
};
const NO_ROOT = 'application/vnd.holdfast.tree.chunk.v1';

export function describeType(contentType: string): string {
  return WORDS[contentType] ?? printable(contentType);
}

export function isTreeRoot(contentType: string): boolean {
  return contentType.startsWith('application/vnd.holdfast.tree.') && contentType !== NO_ROOT;
}
