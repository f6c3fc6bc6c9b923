/** Verifies every node of a folder restored from a backup: the database as a whole, then the bytes of each node by hash. */
import { formatCount, type Hash } from '@holdfast/protocol';
import { verifyStored } from '../core/collect/scrub.ts';
import { isProofOfRot, setRotten } from '../core/contents.ts';
import type { RowDamage } from '../core/inspection-ports.ts';
import type { Space } from '../core/model.ts';
import type { ContentStore, MetadataStore } from '../core/ports.ts';
import { isDamage, orIfDamaged } from '../core/store-failure.ts';
import type { ScrubItem, ScrubPosition } from '../core/upkeep-ports.ts';
import type { ServedDeployment } from '../deployment/deployment.ts';

export interface DamagedNode {
  readonly space: Space;
  readonly hash: Hash;
  readonly reason: string;
}

export interface VerifiedNodes {
  readonly nodes: number;
  readonly damaged: readonly DamagedNode[];
  /** whether damaged database pages make rows unreadable: their nodes cannot be named */
  readonly hasUnreadableRows: boolean;
}

interface Verification {
  readonly metadata: MetadataStore;
  readonly content: ContentStore;
  readonly onProgress: (nodes: number) => void;
  readonly onDamaged?: (item: ScrubItem) => Promise<void>;
}

/** A node that was rotten when the backup was made is not damage of the backup. */
export async function verifyNodes({
  metadata,
  content,
  onProgress,
  onDamaged,
}: Verification): Promise<VerifiedNodes> {
  const damaged: DamagedNode[] = [];
  let nodes = 0;
  let hasUnreadableRows = false;
  for (let after: ScrubPosition | undefined; ; ) {
    const page = await readPage(metadata, after);
    // Reads of rows and small nodes are synchronous, so signals and timers run here.
    await new Promise((resolve) => setImmediate(resolve));
    if (page === undefined) {
      hasUnreadableRows = true;
      continue;
    }
    for (const item of page.items) {
      nodes += 1;
      const damage = item.node.state === 'ready' ? await findDamage(content, item) : undefined;
      if (damage === undefined) continue;
      damaged.push({ space: item.space, hash: item.node.hash, reason: damage.message });
      await onDamaged?.(item);
    }
    onProgress(nodes);
    if (page.next === undefined) return { nodes, damaged, hasUnreadableRows };
    after = page.next;
  }
}

/** undefined if these rows cannot be read; the next call for the same position continues after them. */
const readPage = (metadata: MetadataStore, after: ScrubPosition | undefined) =>
  orIfDamaged(
    () => metadata.page('nodesToScrub', { after, limit: 64 }),
    () => undefined,
  );

async function findDamage(content: ContentStore, item: ScrubItem): Promise<Error | undefined> {
  try {
    await verifyStored({ content }, item);
    return undefined;
  } catch (error) {
    if (!isProofOfRot(error) && !isDamage(error)) throw error;
    return error as Error;
  }
}

/** Marks a damaged node's row rotten, so that its next lease asks for the bytes. */
export function makeRotten(metadata: MetadataStore): NonNullable<Verification['onDamaged']> {
  return async ({ space, node: { hash, generation }, content }) => {
    const packed = content?.packed;
    await orIfDamaged(
      () => metadata.transact(space, setRotten, { hash, generation, packed }),
      () => undefined,
    );
  };
}

/** Names every row and App without its sum, because the source was damaged before it was backed up. */
export async function nameDamagedRows(
  { rows, apps }: Pick<ServedDeployment, 'rows' | 'apps'>,
  mended: readonly RowDamage[],
): Promise<readonly string[]> {
  const look = { signal: new AbortController().signal, onTable: () => undefined, isRepaired: false };
  const damaged = (await rows.findRowDamage?.(look)) ?? [];
  const registered = (await apps.readAll()).filter(({ status }) => status === 'damaged');
  return [
    ...[...mended, ...damaged].map(({ message }) => message),
    ...registered.map(
      ({ appId }) => `the App ${JSON.stringify(appId)}: holdfast app add --replace writes it anew`,
    ),
  ];
}

/** `checking nodes: 6,336 of 70,533` */
export const describeVerified = (count: number, nodes: number): string =>
  `checking nodes: ${formatCount(count)} of ${formatCount(nodes)}`;
