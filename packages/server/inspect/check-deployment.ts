/** Checks a serving deployment: recounts each Space at one instant, then checks all bytes. Repairs what is proven. Deletes only what a newer row of the node replaced. */
import { formatCount, type Hash } from '@holdfast/protocol';
import { PAGE_ROWS, ROWS_PER_TRANSACTION_MAX } from '../core/batches.ts';
import { type CountRepairs, headLength, parseHead, repairCounts } from '../core/collect/repair-counts.ts';
import {
  dropRecord,
  findContentOf,
  findStanding,
  isProofOfRot,
  storedObject,
  verifyInlineNode,
} from '../core/contents.ts';
import type { Core } from '../core/core.ts';
import type { PageDamage, RowDamage, RowLook } from '../core/inspection-ports.ts';
import { mendRow } from '../core/lease/mend-node.ts';
import type { NewContent } from '../core/lease/publication.ts';
import type { Space } from '../core/model.ts';
import { isDamage, orIfDamaged } from '../core/store-failure.ts';
import type { Fault, FindingKind } from './check-contents.ts';
import { checkContents, checkUploads, type FoundFault } from './check-contents.ts';
import { onlyRising, type Recount, type RecountOptions, recountSpace } from './recount-space.ts';

interface Finding {
  readonly kind: FindingKind;
  readonly app: string;
  readonly space: string;
  /** null for a finding about the whole Space */
  readonly hash: Hash | null;
  readonly message: string;
  readonly repaired: boolean;
}

export interface CheckResult {
  readonly ok: boolean;
  readonly checked: number;
  /** rows written before sums existed that have none yet */
  readonly unsummed: number;
  readonly findings: readonly Finding[];
}

export interface CheckWanted {
  readonly isRepaired: boolean;
  /** percentage of nodes to read, chosen from a random offset */
  readonly rehashPercent: number;
  readonly signal: AbortSignal;
  /** called with the progress of the check */
  readonly report: (progress: string) => void;
}

/** The Space of a finding about the list of Spaces. */
const NO_SPACE: Space = { appId: '', spaceId: '' };
const SAMPLE_DIGITS = 6;

export async function checkDeployment(core: Core, wanted: CheckWanted): Promise<CheckResult> {
  const isRead = chooseSample(wanted.rehashPercent);
  const firstPages = await findPageDamage(core, wanted);
  let unsummed = 0;
  const onUnsummed = (rows: number): void => {
    unsummed += rows;
  };
  const damage = await findRowDamage(core, { ...wanted, onUnsummed });
  const pages = await lookAgain(core, wanted, firstPages, damage);
  // A row without a sum may have another key than it had.
  const isUnproven =
    unsummed > 0 || [...pages, ...damage].some(({ isProtecting, repaired }) => isProtecting && !repaired);
  const findings: Finding[] = damage.map(({ space = NO_SPACE, table: _, ...fault }) =>
    toFinding(space, { kind: 'row', ...fault }),
  );
  let checked = 0;
  for (let after: string | undefined; !wanted.signal.aborted; ) {
    const from = after;
    const listed = await orDamage(
      async () => core.metadata.page('spaces', { after: from, limit: PAGE_ROWS }),
      'so the other Spaces were not looked at',
    );
    if (listed.fault !== undefined) findings.push(toFinding(NO_SPACE, listed.fault));
    const page = listed.value ?? [];
    for (const { space } of page) {
      if (wanted.signal.aborted) break;
      const { nodes, faults } = await checkSpace(core, space, { ...wanted, isRead, isUnproven });
      checked += nodes;
      findings.push(...faults.map((fault) => toFinding(space, fault)));
    }
    after = page.at(-1)?.position;
    if (page.length < PAGE_ROWS) break;
  }
  findings.push(
    ...pages.map((page) => toFinding(NO_SPACE, { ...page, kind: 'unreadable', hash: undefined })),
  );
  return { ok: findings.length === 0, checked, unsummed, findings };
}

async function findRowDamage(
  core: Core,
  { signal, report, isRepaired, onUnsummed }: CheckWanted & Pick<RowLook, 'onUnsummed'>,
): Promise<readonly RowDamage[]> {
  const onTable = (table: string): void => report(`checking the sums of ${table}`);
  const damage = (await core.metadata.findRowDamage?.({ signal, onTable, isRepaired, onUnsummed })) ?? [];
  for (const { space, hash, freed: generation } of damage) {
    if (space === undefined || hash === undefined || generation === undefined) continue;
    // A record that is damaged too stays.
    await orIfDamaged(
      () => core.metadata.transact(space, dropRecord, { hash, generation }),
      () => undefined,
    );
  }
  return isRepaired ? mendRows(core, damage, signal) : damage;
}

/** Reads of rows do not touch a damaged index page; only requests that need the index do. */
async function findPageDamage(
  { metadata }: Core,
  { signal, report, isRepaired }: CheckWanted,
): Promise<readonly PageDamage[]> {
  const onTable = (table: string): void => report(`checking the pages of ${table}`);
  return (await metadata.findPageDamage?.({ signal, onTable, isRepaired })) ?? [];
}

/** To mend a row that its index knew by another key leaves a wrong index. */
async function lookAgain(
  core: Core,
  wanted: CheckWanted,
  before: readonly PageDamage[],
  rows: readonly RowDamage[],
): Promise<readonly PageDamage[]> {
  if (wanted.signal.aborted || !rows.some(({ repaired }) => repaired)) return before;
  const after = await findPageDamage(core, wanted);
  if (wanted.signal.aborted) return before;
  const left = new Set(after.filter(({ repaired }) => !repaired).map(({ message }) => message));
  const known = new Set(before.map(({ message }) => message));
  return [
    ...before.map((page) => ({ ...page, repaired: !left.has(page.message) })),
    ...after.filter(({ message }) => !known.has(message)),
  ];
}

function toFinding({ appId, spaceId }: Space, { kind, hash, message, repaired }: FoundFault): Finding {
  return { kind, app: appId, space: spaceId, hash: hash ?? null, message, repaired };
}

/** Hashes are random, so a range of them is a fair sample. It starts at a random place in every check. */
function chooseSample(percent: number): (hash: Hash) => boolean {
  if (percent >= 100) return () => true;
  const values = 16 ** SAMPLE_DIGITS;
  const start = Math.floor(Math.random() * values);
  const width = (values * percent) / 100;
  return (hash) => (parseInt(hash.slice(0, SAMPLE_DIGITS), 16) - start + values) % values < width;
}

async function checkSpace(
  core: Core,
  space: Space,
  wanted: CheckWanted & { readonly isRead: (hash: Hash) => boolean; readonly isUnproven: boolean },
): Promise<{ readonly nodes: number; readonly faults: readonly FoundFault[] }> {
  const name = `Space ${JSON.stringify(space.spaceId)} of App ${JSON.stringify(space.appId)}`;
  wanted.report(`counting in ${name}`);
  const onCounted = (rows: number, of: number): void =>
    wanted.report(`counting in ${name}: ${formatCount(rows)} of ${formatCount(of)} nodes`);
  const counted = await orDamage(
    () => recount(core, space, { ...wanted, onCounted }),
    'so its counts were not compared',
  );
  const all = counted.value === undefined ? '' : ` of ${formatCount(counted.value.nodes)}`;
  const onChecked = (count: number): void =>
    wanted.report(`checking the bytes of ${name}: ${formatCount(count)}${all} nodes`);
  const contents = await orDamage(
    () =>
      checkContents(core, space, { ...wanted, onChecked, mend: (hash) => isMended(core, { space, hash }) }),
    'so not all of its nodes were looked at',
  );
  const uploads = await orDamage(
    () => checkUploads(core, space, wanted),
    'so its uploads were not looked at',
  );
  return {
    nodes: counted.value?.nodes ?? contents.value?.checked ?? 0,
    faults: [
      ...(counted.value?.faults ?? []),
      ...(contents.value?.faults ?? []),
      ...(uploads.value ?? []),
      ...[counted.value ?? {}, counted, contents, uploads].flatMap(({ fault }) =>
        fault === undefined ? [] : [fault],
      ),
    ],
  };
}

const toUnreadable = (message: string): FoundFault => ({
  ...{ kind: 'unreadable', hash: undefined, message, repaired: false },
});

/** Reports damage as a finding of the Space, so that the rest of the check goes on. */
function orDamage<T>(
  work: () => Promise<T>,
  consequence: string,
): Promise<{ readonly value?: T; readonly fault?: FoundFault }> {
  return orIfDamaged(
    async () => ({ value: await work() }),
    (damage) => {
      return { fault: toUnreadable(`rows cannot be read, ${consequence}: ${(damage as Error).message}`) };
    },
  );
}

interface Recounted extends Pick<CheckWanted, 'isRepaired'> {
  /** whether a row that may hold an edge or a balance is damaged */
  readonly isUnproven: boolean;
}

async function recount(
  core: Core,
  space: Space,
  { isRepaired, isUnproven, onCounted }: RecountOptions & Recounted,
): Promise<{ readonly nodes: number; readonly faults: readonly FoundFault[]; readonly fault?: FoundFault }> {
  const look = async (): Promise<Recount> => {
    const found = await core.metadata.inspect(space, (snapshot) => recountSpace(snapshot, { onCounted }));
    return isUnproven ? { ...found, repairs: onlyRising(found.repairs) } : found;
  };
  const first = await look();
  let left: readonly Fault[] = first.faults;
  if (isRepaired) {
    let last = first;
    // A later round corrects a count that writers change meanwhile.
    for (let round = 0; round < 5 && isWrong(last.repairs); round += 1) {
      await applyRepairs(core, space, last.repairs);
      last = await look();
    }
    left = last.faults;
  }
  const { unreadable } = first;
  const remains = new Set(left.map(keyOf));
  const known = new Set(first.faults.map(keyOf));
  return {
    ...(unreadable !== undefined && {
      fault: toUnreadable(`rows cannot be read, so its counts are only raised: ${unreadable}`),
    }),
    nodes: first.nodes,
    faults: [
      ...first.faults.map((fault) => ({ ...fault, repaired: isRepaired && !remains.has(keyOf(fault)) })),
      ...left.filter((fault) => !known.has(keyOf(fault))).map((fault) => ({ ...fault, repaired: false })),
    ],
  };
}

const isWrong = ({ nodes, looseEdges, counters }: CountRepairs): boolean =>
  nodes.length > 0 || looseEdges.length > 0 || counters !== undefined;

/** Identifies a fault without the numbers in its message, because they change while others write. */
function keyOf({ kind, hash, message }: Fault): string {
  return kind === 'usage' || kind === 'history'
    ? `${kind} ${hash} ${message.split(' is ')[0]}`
    : `${kind} ${hash}`;
}

async function applyRepairs(
  core: Core,
  space: Space,
  { nodes, looseEdges, counters }: CountRepairs,
): Promise<void> {
  const most = Math.max(nodes.length, looseEdges.length, 1);
  for (let start = 0; start < most; start += ROWS_PER_TRANSACTION_MAX) {
    const end = start + ROWS_PER_TRANSACTION_MAX;
    await core.metadata.transact(space, repairCounts, {
      nodes: nodes.slice(start, end),
      looseEdges: looseEdges.slice(start, end),
      counters: start === 0 ? counters : undefined,
    });
  }
}

/** Repairs damaged rows of nodes from their bytes. Those that cannot be repaired now stay: an upload of the node repairs them. */
async function mendRows(
  core: Core,
  damage: readonly RowDamage[],
  signal: AbortSignal,
): Promise<readonly RowDamage[]> {
  const mended = new Set<RowDamage>();
  // A row needs the rows of its children, which may come after it.
  for (let before = -1; before < mended.size; ) {
    before = mended.size;
    for (const each of damage) {
      if (signal.aborted) break;
      const isOpen = each.table === 'nodes' && !each.repaired && !mended.has(each);
      if (isOpen && (await isMended(core, each))) mended.add(each);
    }
  }
  return damage.map((each) => (mended.has(each) ? { ...each, repaired: true } : each));
}

async function isMended(core: Core, { space, hash }: Pick<RowDamage, 'space' | 'hash'>): Promise<boolean> {
  if (space === undefined || hash === undefined) return false;
  try {
    const proven = await readProven(core, space, hash);
    return proven !== undefined && (await core.metadata.transact(space, mendRow, proven));
  } catch (error) {
    if (isProofOfRot(error) || isDamage(error)) return false;
    throw error;
  }
}

/** The proven bytes that the row refers to; undefined if it refers to none. */
async function readProven(core: Core, space: Space, hash: Hash): Promise<NewContent | undefined> {
  const stands = await core.metadata.transact(space, findStanding, hash);
  if (stands === undefined) return undefined;
  const { generation } = stands;
  const content = await core.metadata.transact(space, findContentOf, generation);
  if (content === undefined) return undefined;
  const { canonicalSize, inlineBytes, packed } = content;
  const placed = { hash, canonicalSize, generation, storedSize: packed?.storedLength ?? canonicalSize };
  if (inlineBytes !== undefined) {
    verifyInlineNode(core, content, hash);
    return { ...placed, ...parseHead(inlineBytes, canonicalSize), storage: 'inline' };
  }
  const object = storedObject(space, content);
  await core.content.verify(object, hash);
  const head = await core.content.read(object, 0, headLength(content));
  const storage = packed === undefined ? 'object' : 'packed';
  return { ...placed, ...parseHead(head, canonicalSize), storage };
}
