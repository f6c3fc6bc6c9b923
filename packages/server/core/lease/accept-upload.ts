/** How an upload with good bytes changes the rows of its hash: it publishes, heals or revives the node. */
import { closeContent, closeContentOf, type ReplacementRules, urlExpiryOf } from '../contents.ts';
import { findChildren } from '../edges.ts';
import type { NodeRow, UploadEvidence, UploadRow } from '../model.ts';
import type { SpaceTransaction } from '../ports.ts';
import { judgeQuotas, type QuotaInput, type QuotaRefusal, type Stored } from '../quotas.ts';
import type { UploadKind } from '../upload-ports.ts';
import { type NewContent, type Publication, publishNode, restoreNode } from './publication.ts';

export interface GoodUpload {
  readonly upload: UploadRow;
  readonly evidence: Extract<UploadEvidence, { verdict: 'good' }>;
}

interface AcceptInput extends ReplacementRules {
  /** ms, clamped; of the lease */
  readonly durationMs: number;
  readonly quotas: QuotaInput | undefined;
}

/** `heals`: the row was rotten; `more`: what is stored now and was not before. After a refusal by a full quota the upload is gone. */
type Acceptance = (Publication & { readonly heals?: true; readonly more: Stored }) | QuotaRefusal;

/** `node`: the row of the hash, which is rotten or claimed; undefined: there is none. */
export function acceptUpload(
  tx: SpaceTransaction,
  node: NodeRow | undefined,
  good: GoodUpload,
  input: AcceptInput,
): Promise<Acceptance> {
  return node === undefined ? publish(tx, good, input) : restoreContent(tx, node, good, input);
}

export function contentOf({ upload, evidence }: GoodUpload): NewContent {
  const { hash, generation } = upload;
  const { size, canonicalSize, contentType, refs, inline } = evidence;
  const storage = inline ? 'inline' : 'object';
  return { hash, size, canonicalSize, contentType, refs, generation, storage, storedSize: canonicalSize };
}

/** Heals a rotten row or revives a claimed one with the bytes of the upload. */
async function restoreContent(
  tx: SpaceTransaction,
  node: NodeRow,
  good: GoodUpload,
  input: AcceptInput,
): Promise<Acceptance> {
  const { durationMs, uploads, quotas } = input;
  // A claimed row's bytes count no more: to store them again is a publication. Healing is never refused.
  const more = { bytes: node.state === 'claimed' ? node.canonicalSize : 0, nodes: 0 };
  const refusal = await refuseByQuota(tx, { quotas, uploads }, good, more);
  if (refusal !== undefined) return refusal;
  await closeContentOf(tx, node, input);
  await acceptContent(tx, good, uploads);
  const lease = await restoreNode(tx, node, contentOf(good), durationMs);
  const ready = { kind: 'ready', hash: node.hash, ...lease, more } as const;
  return node.state === 'rotten' ? { ...ready, heals: true } : ready;
}

/** The first good upload of a hash without a row: row, edges, counts and lease in one transaction. */
async function publish(
  tx: SpaceTransaction,
  good: GoodUpload,
  { durationMs, uploads, quotas }: AcceptInput,
): Promise<Acceptance> {
  const { evidence } = good;
  const children = await findChildren(tx, [evidence.refs]);
  const more: Stored = { bytes: evidence.canonicalSize, nodes: 1 };
  const refusal = await refuseByQuota(tx, { quotas, uploads }, good, more);
  if (refusal !== undefined) return refusal;
  await acceptContent(tx, good, uploads);
  const published = await publishNode(tx, contentOf(good), children, durationMs);
  return { ...published, more };
}

/** A refused upload does not stay: it is closed with its bytes, and the next lease opens a new one. */
async function refuseByQuota(
  tx: SpaceTransaction,
  { quotas, uploads }: Pick<AcceptInput, 'quotas' | 'uploads'>,
  { upload, evidence }: GoodUpload,
  more: Stored,
): Promise<QuotaRefusal | undefined> {
  // Both are asked in one turn, in this order: nothing is locked after what is stored.
  const readStored = async (): Promise<Stored> => {
    const edges = tx.findLooseEdges([upload.hash]);
    const [stored] = await Promise.all([tx.lockStored(), edges]);
    return stored;
  };
  const refusal = await judgeQuotas(quotas, more, readStored);
  if (refusal?.kind === 'full') {
    const { generation } = upload;
    const storage = evidence.inline ? 'inline' : 'object';
    await tx.delete('upload', upload);
    await closeContent(tx, { generation, storage, urlExpiresAt: urlExpiryOf(uploads, upload) });
  }
  return refusal;
}

/** Ends a generation that is judged good: its upload row goes, its content row stays or, for a direct upload, is made. */
export async function acceptContent(
  tx: SpaceTransaction,
  { upload, evidence }: GoodUpload,
  uploads: UploadKind,
): Promise<void> {
  await tx.delete('upload', upload);
  if (upload.evidence !== undefined) return;
  await tx.insert('content', {
    generation: upload.generation,
    canonicalSize: evidence.canonicalSize,
    integrity: evidence.integrity,
    inlineBytes: undefined,
    urlExpiresAt: urlExpiryOf(uploads, upload),
  });
}
