/** The digests that an ActionResult of the Remote Execution API names, and its Tree and Directory messages. */
import { isSha256 } from './keys.ts';
import { ProtobufError, readFields } from './protobuf.ts';

export interface Digest {
  readonly sha256: string;
  readonly bytes: number;
}

export interface ActionOutputs {
  /** files, stdout and stderr */
  readonly files: readonly Digest[];
  /** Tree messages */
  readonly trees: readonly Digest[];
  /** Directory messages of outputs that have no Tree */
  readonly directories: readonly Digest[];
}

export type DirectoryOutputs = Omit<ActionOutputs, 'trees'>;

type FieldKind = 'number' | 'bytes';
/** Of ActionResult, by their numbers. */
const ACTION_FIELDS: Readonly<Record<number, FieldKind>> = {
  2: 'bytes',
  3: 'bytes',
  4: 'number',
  5: 'bytes',
  6: 'bytes',
  7: 'bytes',
  8: 'bytes',
  9: 'bytes',
  10: 'bytes',
  11: 'bytes',
  12: 'bytes',
};

/** Throws ProtobufError. */
export function parseActionResult(message: Uint8Array): ActionOutputs {
  const files: Digest[] = [];
  const trees: Digest[] = [];
  const directories: Digest[] = [];
  for (const { number, value, bytes } of readFields(message)) {
    const kind = ACTION_FIELDS[number];
    if (kind !== undefined && (kind === 'number' ? value : bytes) === undefined)
      throw new ProtobufError('a field is of another kind');
    if (bytes === undefined) continue;
    if (number === 2) files.push(requireDigest(bytes, 2));
    else if (number === 6 || number === 8) files.push(parseDigest(bytes));
    else if (number === 3) {
      const [tree, directory] = [findDigest(bytes, 3), findDigest(bytes, 5)];
      if (tree !== undefined) trees.push(tree);
      else if (directory !== undefined) directories.push(directory);
      else throw new ProtobufError('an output folder has no digest');
    }
  }
  return { files, trees, directories };
}

/** The files of all directories in a Tree. Throws ProtobufError. */
export function parseTree(message: Uint8Array): readonly Digest[] {
  const files: Digest[] = [];
  for (const { number, bytes } of readFields(message)) {
    if (bytes !== undefined && (number === 1 || number === 2)) files.push(...parseDirectory(bytes).files);
  }
  return files;
}

/** Throws ProtobufError. */
export function parseDirectory(message: Uint8Array): DirectoryOutputs {
  const files: Digest[] = [];
  const directories: Digest[] = [];
  for (const { number, bytes } of readFields(message)) {
    if (bytes === undefined) continue;
    if (number === 1) files.push(requireDigest(bytes, 2));
    else if (number === 2) directories.push(requireDigest(bytes, 2));
  }
  return { files, directories };
}

function requireDigest(message: Uint8Array, wanted: number): Digest {
  const digest = findDigest(message, wanted);
  if (digest === undefined) throw new ProtobufError('an output has no digest');
  return digest;
}

function findDigest(message: Uint8Array, wanted: number): Digest | undefined {
  let found: Digest | undefined;
  for (const { number, bytes } of readFields(message)) {
    if (number === wanted && bytes !== undefined) found = parseDigest(bytes);
  }
  return found;
}

function parseDigest(message: Uint8Array): Digest {
  let sha256 = '';
  let size = 0n;
  for (const { number, value, bytes } of readFields(message)) {
    if (number === 1 && bytes !== undefined) sha256 = Buffer.from(bytes).toString('latin1');
    else if (number === 2 && value !== undefined) size = value;
  }
  if (!isSha256(sha256) || size > BigInt(Number.MAX_SAFE_INTEGER))
    throw new ProtobufError('a digest is no SHA-256 with a size');
  return { sha256, bytes: Number(size) };
}
