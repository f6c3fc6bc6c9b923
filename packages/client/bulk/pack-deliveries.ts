/**
 * Packs that are full, on their way to the server: opened, sent, judged. Each holds its memory here only until the server has taken
 * it; the server judges it while the next are sent.
 */
import type {
  Hash,
  PackBuilder,
  PackInstruction,
  PackLeaseResponse,
  PackLeaseResult,
  ReadyLease,
  Rejection,
  ValidatedAwaitingChildren,
} from '@holdfast/protocol';
import type { Clock } from '../deadline.ts';
import { CasError } from '../errors.ts';
import { PUT_ROUNDS_MAX } from '../limits.ts';
import { Semaphore } from '../semaphore.ts';
import type { Bulk } from './bulk.ts';
import { isBulkUnavailable, type SendRequest } from './send-request.ts';

/** `unsettled`: only another lease tells. `alone`: the node cannot travel in a pack; send it by itself. */
export type PackOutcome =
  | {
      readonly kind: 'leased';
      readonly lease: ReadyLease | ValidatedAwaitingChildren;
      /** canonical bytes that were accepted from us; undefined when the server had them meanwhile */
      readonly uploadedBytes: number | undefined;
    }
  | { readonly kind: 'rejected'; readonly rejection: Rejection }
  | { readonly kind: 'unsettled' | 'alone' };

/** Hears how a node that was put into a pack ended. */
export interface PackedNodeEnd {
  readonly settle: (outcome: PackOutcome) => void;
  readonly fail: (error: unknown) => void;
}

/** A node in a pack. */
interface Passenger {
  readonly hash: Hash;
  readonly end: PackedNodeEnd;
  readonly canonicalLength: number;
}

export interface PackDeliveriesOptions<Node extends Passenger> {
  readonly bulk: Pick<Bulk, 'leaseNodes' | 'uploadPack' | 'leasePack'>;
  readonly send: SendRequest;
  readonly signal: AbortSignal | undefined;
  readonly clock: Clock;
  /** The lease of every node of a pack. */
  readonly leaseDurationMs: number;
  /** The server has taken a pack of `bytes`. */
  readonly onSent: (packBytes: number) => void;
  /** How long the server took to take a pack, ms. */
  readonly onSpeed: (sendingMs: number) => void;
  /** The memory of a pack is no longer looked at. */
  readonly onFree: (memory: ArrayBuffer) => void;
  /** The server has judged a pack and said nothing of these nodes. */
  readonly onLeft: (nodes: readonly Node[]) => void;
  /** A pack has its end. */
  readonly onEnd: () => void;
  /** How many nodes of the Space the server knows to be damaged, with each opening of a pack. */
  readonly onRot?: ((rottenNodes: number) => void) | undefined;
}

/** Packs that are sent at once. Beside them one is made, and one is opened and waits for its place: each holds memory. */
const SENT_MAX = 2;
/** Packs that are judged at once. Others keep their memory and their place until their turn. */
const JUDGED_MAX = 3;
/** An instruction is not used so shortly before it expires, ms. */
const EXPIRY_MARGIN_MS = 30_000;

export class PackDeliveries<Node extends Passenger> {
  readonly #options: PackDeliveriesOptions<Node>;
  readonly #places = new Semaphore(SENT_MAX);
  readonly #judgements = new Semaphore(JUDGED_MAX);
  readonly #underWay = new Set<Promise<void>>();
  /** The upload of the next pack, if a lease of nodes has given it. */
  #instruction: PackInstruction | undefined;

  constructor(options: PackDeliveriesOptions<Node>) {
    this.#options = options;
  }

  get wantsInstruction(): boolean {
    return this.#instruction === undefined;
  }

  takeInstruction(instruction: PackInstruction): void {
    this.#instruction = instruction;
  }

  /** Packs that have no end yet. */
  get count(): number {
    return this.#underWay.size;
  }

  async settled(): Promise<void> {
    await Promise.all(this.#underWay);
  }

  /** Resolves when there is a place for the pack; then it goes on by itself. */
  async start(pack: PackBuilder, nodes: readonly Node[]): Promise<void> {
    const place = this.#places.take();
    const delivering = this.#deliver(pack, new Map(nodes.map((node) => [node.hash, node])), place);
    this.#underWay.add(delivering);
    void delivering.finally(() => {
      this.#underWay.delete(delivering);
      this.#options.onEnd();
    });
    await place;
  }

  async #deliver(pack: PackBuilder, left: Map<Hash, Node>, place: Promise<() => void>): Promise<void> {
    try {
      const judged = await this.#sendUntilTaken(pack, left, place);
      if (judged === undefined) return;
      const answer = await this.#judge(judged.id, left.size).finally(judged.done);
      this.#takeResults(answer?.results ?? [], left);
    } catch (error) {
      for (const { end } of left.values()) end.fail(error);
    }
  }

  /**
   * Sends the pack of the nodes in `left`. Resolves with the pack that the server took and is to judge, or with nothing when all of
   * them have an outcome.
   */
  async #sendUntilTaken(
    pack: PackBuilder,
    left: Map<Hash, Node>,
    place: Promise<() => void>,
  ): Promise<PackJudgement | undefined> {
    // The pack is opened while it waits for its place.
    const opening = this.#findInstruction(left);
    opening.catch(() => undefined);
    const done = await place;
    try {
      for (let round = 1; round <= PUT_ROUNDS_MAX; round += 1) {
        let instruction = await (round === 1 ? opening : this.#findInstruction(left));
        // The place may have come so late that the instruction is over.
        if (instruction !== undefined && !this.#isUsable(instruction)) {
          instruction = await this.#findInstruction(left);
        }
        if (left.size === 0) return undefined;
        if (instruction === undefined) return settleAlone(left);
        // The server has some of the nodes meanwhile: the pack goes on without them.
        if (left.size < pack.recordCount) pack.retain((hash) => left.has(hash));
        const bytes = pack.toBytes();
        if (bytes.length > instruction.bytesMax || left.size > instruction.recordsMax) {
          return settleAlone(left);
        }
        const sent = await this.#upload(bytes, instruction, left.size);
        if (sent === undefined) continue;
        const judgement = { id: instruction.id, done: await this.#judgements.take() };
        if (sent === 'accepted') return judgement;
        // An earlier attempt may have brought the pack. Only its lease tells, so its memory is kept until then.
        const answer = await this.#judge(judgement.id, left.size).finally(judgement.done);
        if (answer !== undefined) return this.#takeResults(answer.results, left);
      }
      // The target takes no pack. A node by itself tells why, and packs may be refused alone.
      return settleAlone(left);
    } finally {
      this.#options.onFree(pack.toBytes().buffer);
      done();
    }
  }

  #isUsable({ expiresAt }: PackInstruction): boolean {
    return expiresAt - this.#options.clock.now() > EXPIRY_MARGIN_MS;
  }

  #takeResults(results: readonly PackLeaseResult[], left: Map<Hash, Node>): undefined {
    for (const result of results) {
      const node = left.get(result.hash);
      left.delete(result.hash);
      node?.end.settle(outcomeOf(result, node.canonicalLength));
    }
    if (left.size > 0) this.#options.onLeft([...left.values()]);
  }

  /** The upload for the pack of these nodes. Those that the server has meanwhile leave `left`. Undefined when there is no Bulk any more. */
  async #findInstruction(left: Map<Hash, Node>): Promise<PackInstruction | undefined> {
    const { bulk, send, signal, leaseDurationMs, onRot } = this.#options;
    const spare = this.#instruction;
    this.#instruction = undefined;
    if (spare !== undefined && this.#isUsable(spare)) return spare;
    const hashes = [...left.keys()];
    try {
      const {
        results,
        pack,
        rottenNodes = 0,
      } = await send('the opening of a pack', () =>
        bulk.leaseNodes(hashes, { leaseDurationMs, pack: true }, { signal }),
      );
      onRot?.(rottenNodes);
      for (const result of results) {
        if (result.state === 'absent') continue;
        left.get(result.hash)?.end.settle({ kind: 'leased', lease: result, uploadedBytes: undefined });
        left.delete(result.hash);
      }
      return pack;
    } catch (error) {
      if (isBulkUnavailable(error)) return undefined;
      throw error;
    }
  }

  /** Undefined when the instruction is over. */
  async #upload(
    bytes: Uint8Array,
    instruction: PackInstruction,
    nodeCount: number,
  ): Promise<'accepted' | 'superseded' | undefined> {
    const { bulk, send, signal, clock, onSent, onSpeed } = this.#options;
    const sentAt = clock.now();
    const sent = await unlessOver(
      send(`the upload of a pack of ${nodeCount} nodes`, () =>
        bulk.uploadPack(instruction, bytes, { signal }),
      ),
    );
    if (sent === 'accepted') onSent(bytes.length);
    if (sent !== undefined) onSpeed(clock.now() - sentAt);
    return sent;
  }

  /** The fate of the pack; undefined when only other leases tell: its instruction was over, or nothing is known of it. */
  #judge(id: PackInstruction['id'], nodeCount: number): Promise<PackLeaseResponse | undefined> {
    const { bulk, send, signal, leaseDurationMs } = this.#options;
    return unlessOver(
      send(`the lease of a pack of ${nodeCount} nodes`, () =>
        bulk.leasePack(id, { leaseDurationMs }, { signal }),
      ),
    );
  }
}

/** A pack that has its turn to be judged. */
interface PackJudgement {
  readonly id: PackInstruction['id'];
  readonly done: () => void;
}

function outcomeOf(result: PackLeaseResult, canonicalLength: number): PackOutcome {
  switch (result.state) {
    case 'rejected':
      return { kind: 'rejected', rejection: result.rejection };
    case 'absent':
      return { kind: 'unsettled' };
    default:
      return { kind: 'leased', lease: result, uploadedBytes: canonicalLength };
  }
}

function settleAlone(left: ReadonlyMap<Hash, Passenger>): undefined {
  for (const { end } of left.values()) end.settle({ kind: 'alone' });
}

/** Statuses after which leases of the nodes tell how it stands with them, and open another pack. */
const OVER_STATUSES: ReadonlySet<number> = new Set([
  404, // the pack is forgotten, or Bulk is no longer offered
  409, // nothing was uploaded: the instruction had expired
]);

async function unlessOver<T>(answer: Promise<T>): Promise<T | undefined> {
  try {
    return await answer;
  } catch (error) {
    const status = error instanceof CasError ? error.status : undefined;
    if (status !== undefined && OVER_STATUSES.has(status)) return undefined;
    throw error;
  }
}
