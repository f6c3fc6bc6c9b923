/** Checks the bytes of every row of a Space: presence and length, or with `isRead` the bytes themselves. */
import { bytesToHash, type Hash } from '@holdfast/protocol';
import { PAGE_ROWS } from '../core/batches.ts';
import { compareRow, headLength, RowContradicted } from '../core/collect/repair-counts.ts';
import { findContentOf, isProofOfRot, markRotten, markSound, verifyInlineNode } from '../core/contents.ts';
import type { Core } from '../core/core.ts';
import type { ContentFacts, FinishedUpload, InspectedNode, NodesAround } from '../core/inspection-ports.ts';
import type { NodeRow, NodeStorage, Space } from '../core/model.ts';
import { CONTENT_PIECE_BYTES, type StoredObject } from '../core/ports.ts';
import { sha256 } from '../core/signer.ts';
import { ContentDamaged, ContentLost, isDamage, StoreUnavailable } from '../core/store-failure.ts';

export interface Fault {
  readonly kind: FindingKind;
  /** undefined for a fault of the whole Space */
  readonly hash: Hash | undefined;
  readonly message: string;
}

export const FINDING_KINDS = [
  'edges',
  'missing-child',
  'root-refs',
  'history',
  'usage',
  'content-record',
  'lost',
  'damaged',
  'row',
  'rotten',
  'unreadable',
] as const;
export type FindingKind = (typeof FINDING_KINDS)[number];

export interface ContentCheck {
  /** whether to read the bytes of the node */
  readonly isRead: (hash: Hash) => boolean;
  /** corrects rows to match the bytes */
  readonly isRepaired: boolean;
  /** Repairs a row from the bytes of its node. */
  readonly mend: (hash: Hash) => Promise<boolean>;
  readonly signal: AbortSignal;
  /** called with the number of nodes checked so far */
  readonly onChecked: (count: number) => void;
}

export interface FoundFault extends Fault {
  readonly repaired: boolean;
}

/** Each page is of one instant; a suspected fault is checked once more. */
export async function checkContents(
  core: Core,
  space: Space,
  check: ContentCheck,
): Promise<{ readonly checked: number; readonly faults: readonly FoundFault[] }> {
  const faults: FoundFault[] = [];
  let checked = 0;
  for (let after: Hash | undefined; !check.signal.aborted; ) {
    const from = after;
    const page = await core.metadata.inspect(space, (snapshot) => snapshot.readNodesAround(from, 500));
    faults.push(...page.unreadable.map(toFault));
    const left = [...page.nodes];
    const work = async (): Promise<void> => {
      for (let node = left.pop(); node !== undefined && !check.signal.aborted; node = left.pop()) {
        const fault = await checkNode(core, space, node, check);
        checked += 1;
        check.onChecked(checked);
        if (fault !== undefined) faults.push(fault);
      }
    };
    await Promise.all(Array.from({ length: 16 }, work));
    after = page.next;
    if (after === undefined) break;
  }
  return {
    checked,
    faults: faults.toSorted((left, right) => (String(left.hash) < String(right.hash) ? -1 : 1)),
  };
}

function toFault({ hash, reason }: NodesAround['unreadable'][number]): FoundFault {
  return { kind: 'unreadable', hash, message: `its row cannot be read: ${reason}`, repaired: false };
}

async function checkNode(
  core: Core,
  space: Space,
  node: InspectedNode,
  check: ContentCheck,
): Promise<FoundFault | undefined> {
  const { row } = node;
  // The collection that claimed it deletes its bytes.
  if (row.state === 'claimed') return undefined;
  const problem = await proveBytes(core, space, node, check);
  if (problem === undefined) {
    if (row.state !== 'rotten') return undefined;
    const isSound = check.isRepaired && (await markSound(core, space, row));
    const message = isSound
      ? 'its bytes are right after all: it is ready again'
      : 'its bytes are right after all: --repair makes it ready again';
    return { kind: 'rotten', hash: row.hash, message, repaired: isSound };
  }
  if (!(await isStill(core, space, row))) return undefined;
  // Bytes that are right make the row anew, whichever of them the problem was found by.
  const isMended = check.isRepaired && isProof(problem) && (await check.mend(row.hash));
  if (isMended || problem instanceof RowContradicted) {
    const advice = isMended
      ? 'it is made anew of its bytes'
      : 'check with --repair makes it anew of its bytes';
    return { kind: 'row', hash: row.hash, message: `${problem.message}; ${advice}`, repaired: isMended };
  }
  if (!isProofOfRot(problem)) {
    const message = `it cannot be read (${messageOf(problem)}): check the disk or the store, and check again`;
    return { kind: 'unreadable', hash: row.hash, message, repaired: false };
  }
  const kind = row.state === 'rotten' ? 'rotten' : problem instanceof ContentLost ? 'lost' : 'damaged';
  const isMarked =
    check.isRepaired &&
    row.state === 'ready' &&
    (await markRotten(core, space, row, problem, node.content?.packed)) !== 'changed';
  // A lease asks for bytes only if the server knows that they are bad.
  const advice =
    isMarked || row.state === 'rotten'
      ? 'it is marked as rotten: push what it belongs to once more, which uploads it again'
      : 'check with --repair marks it as rotten, and then a push of what it belongs to uploads it again';
  const message = `${problem.message}; ${advice}`;
  return { kind, hash: row.hash, message, repaired: false };
}

const isProof = (problem: Error): boolean => problem instanceof RowContradicted || isProofOfRot(problem);

/** Resolves with the fault, or undefined. */
async function proveBytes(
  core: Core,
  space: Space,
  { row, content }: InspectedNode,
  check: ContentCheck,
): Promise<Error | undefined> {
  // A node marked rotten is read again, because it may have been repaired.
  const isRead = row.state === 'rotten' || check.isRead(row.hash);
  try {
    if (content === undefined) throw new ContentLost('its content record is gone');
    const { generation, canonicalSize, integrity, inlineLength, packed } = content;
    if (inlineLength !== undefined && row.storage !== 'inline')
      throw new RowContradicted('its content record has bytes that are none of its node');
    if (canonicalSize !== row.canonicalSize || storageOf(content) !== row.storage) {
      throw new ContentDamaged('its content record is of another length or kind');
    }
    if (inlineLength === undefined) {
      const object = { space, generation, canonicalSize, integrity, packed };
      if (!isRead) await core.content.prove(object, canonicalSize - 1, canonicalSize);
      else await proveObject(core, object, row);
      return undefined;
    }
    if (inlineLength !== canonicalSize) throw new ContentDamaged('its inline bytes are of another length');
    if (!isRead) return undefined;
    const inline = await core.metadata.transact(space, findContentOf, generation);
    if (inline === undefined) throw new ContentLost('its content record is gone');
    verifyInlineNode(core, inline, row.hash);
    compareRow(row, inline.inlineBytes as Uint8Array);
    return undefined;
  } catch (error) {
    if (isProofOfRot(error) || isDamage(error)) return error as Error;
    // An unavailable store is not a fault of one node.
    if (error instanceof StoreUnavailable) throw error;
    return error instanceof Error ? error : new Error(String(error));
  }
}

/** An object that fits in one piece is read once, because in S3 each read is a request. The store judges a wrong digest. */
async function proveObject({ content }: Core, object: StoredObject, row: NodeRow): Promise<void> {
  const { canonicalSize } = object;
  if (canonicalSize <= CONTENT_PIECE_BYTES) {
    const bytes = await content.read(object, 0, canonicalSize);
    if (bytesToHash(sha256(bytes)) === row.hash) return compareRow(row, bytes);
  }
  await content.verify(object, row.hash);
  compareRow(row, await content.read(object, 0, headLength(row)));
}

/** Whether the row still refers to the same bytes: it may have been collected or repaired meanwhile. */
async function isStill(core: Core, space: Space, { hash, generation }: NodeRow): Promise<boolean> {
  const found = await core.metadata.findNode(space, hash);
  return found !== undefined && found.generation === generation && found.state !== 'claimed';
}

function storageOf({ inlineLength, packed }: ContentFacts): NodeStorage {
  if (inlineLength !== undefined) return 'inline';
  return packed === undefined ? 'object' : 'packed';
}

const messageOf = (error: Error): string => error.message;

/** Checks the bytes of finished uploads that are not published yet: presence and length, or with `isRead` the bytes. */
export async function checkUploads(
  core: Core,
  space: Space,
  check: Pick<ContentCheck, 'isRead' | 'signal'>,
): Promise<readonly FoundFault[]> {
  const faults: FoundFault[] = [];
  for (let after: Hash | undefined; !check.signal.aborted; ) {
    const page = await readPage(core, space, after);
    for (const upload of page) {
      if (check.signal.aborted) break;
      const problem = await proveUpload(core, space, upload, check.isRead(upload.hash));
      // A lease that publishes it or another upload may have removed the row meanwhile.
      if (problem === undefined || !(await readPage(core, space, after)).some(isSame(upload))) continue;
      faults.push({
        kind: problem instanceof ContentLost ? 'lost' : 'damaged',
        hash: upload.hash,
        message: `of its open upload: ${problem.message}: lease the node and upload its bytes again`,
        repaired: false,
      });
    }
    after = page.at(-1)?.hash;
    if (page.length < PAGE_ROWS) break;
  }
  return faults;
}

function readPage(core: Core, space: Space, after: Hash | undefined): Promise<readonly FinishedUpload[]> {
  return core.metadata.inspect(space, async (snapshot) => snapshot.readUploads(after, PAGE_ROWS));
}

const isSame =
  ({ generation }: FinishedUpload) =>
  (other: FinishedUpload): boolean =>
    other.generation === generation;

/** Resolves with the fault, or undefined. Rejects if the store is unavailable. */
async function proveUpload(
  core: Core,
  space: Space,
  { hash, generation, canonicalSize, inline, integrity }: FinishedUpload,
  isRead: boolean,
): Promise<Error | undefined> {
  try {
    if (inline) {
      const content = await core.metadata.transact(space, findContentOf, generation);
      if (content === undefined) throw new ContentLost('its content record is gone');
      if (isRead) verifyInlineNode(core, content, hash);
      return undefined;
    }
    const object = { space, generation, canonicalSize, integrity };
    if (isRead) await core.content.verify(object, hash);
    else await core.content.prove(object, canonicalSize - 1, canonicalSize);
    return undefined;
  } catch (error) {
    if (isProofOfRot(error)) return error as Error;
    throw error;
  }
}
