/** A MetadataStore whose verbs become steps of one request's timing. One small object per request: prototype methods only. */
import type { Hash } from '@holdfast/protocol';
import type { Generation, ObjectKey, Space } from '../core/model.ts';
import type {
  Awaitable,
  MetadataStore,
  RootRefReads,
  ScrubPosition,
  SweepCutoffs,
  TransactionBody,
} from '../core/ports.ts';
import type { RequestTiming } from './request-timing.ts';

type Answer<
  Verb extends 'findNode' | 'findNodeWithContent' | 'findUpload' | 'readCounters' | 'findBalancesAt',
> = ReturnType<MetadataStore[Verb]>;

export class TimedMetadataStore implements MetadataStore {
  private readonly inner: MetadataStore;
  private readonly timing: RequestTiming;
  /** There only where the inner store has it: the rules ask. */
  readonly renewReadyLease?: NonNullable<MetadataStore['renewReadyLease']>;

  constructor(inner: MetadataStore, timing: RequestTiming) {
    this.inner = inner;
    this.timing = timing;
    if (inner.renewReadyLease === undefined) return;
    this.renewReadyLease = (space, hash, durationMs) => {
      const startedAt = performance.now();
      const renewed = this.inner.renewReadyLease?.(space, hash, durationMs);
      return timing.watch('cas_meta_renew_ready_lease', startedAt, renewed ?? Promise.resolve(undefined));
    };
  }

  get inlineBytesMax(): number {
    return this.inner.inlineBytesMax;
  }

  readClock(): Awaitable<number> {
    const startedAt = performance.now();
    return this.timing.watch('cas_meta_read_clock', startedAt, this.inner.readClock());
  }

  transact<T, I = undefined>(
    space: Space,
    body: TransactionBody<T, I>,
    input?: I,
    reads?: RootRefReads,
  ): Promise<T> {
    const startedAt = performance.now();
    return this.timing.watch('cas_meta_transact', startedAt, this.inner.transact(space, body, input, reads));
  }

  findNode(space: Space, hash: Hash): Answer<'findNode'> {
    const startedAt = performance.now();
    return this.timing.watch('cas_meta_find_node', startedAt, this.inner.findNode(space, hash));
  }

  findNodeWithContent(space: Space, hash: Hash): Answer<'findNodeWithContent'> {
    const startedAt = performance.now();
    const found = this.inner.findNodeWithContent(space, hash);
    return this.timing.watch('cas_meta_find_node_with_content', startedAt, found);
  }

  findUpload(space: Space, hash: Hash): Answer<'findUpload'> {
    const startedAt = performance.now();
    return this.timing.watch('cas_meta_find_upload', startedAt, this.inner.findUpload(space, hash));
  }

  readCounters(space: Space): Answer<'readCounters'> {
    const startedAt = performance.now();
    return this.timing.watch('cas_meta_read_counters', startedAt, this.inner.readCounters(space));
  }

  findBalancesAt(
    space: Space,
    domain: string,
    page: Parameters<MetadataStore['findBalancesAt']>[2],
  ): Answer<'findBalancesAt'> {
    const startedAt = performance.now();
    const found = this.inner.findBalancesAt(space, domain, page);
    return this.timing.watch('cas_meta_find_balances', startedAt, found);
  }

  findSpacesToSweep(cutoffs: SweepCutoffs, limit: number): Awaitable<readonly Space[]> {
    return this.inner.findSpacesToSweep(cutoffs, limit);
  }

  maintain(cutoffs: SweepCutoffs): Promise<boolean> {
    return this.inner.maintain(cutoffs);
  }

  findNodesToScrub(
    after: ScrubPosition | undefined,
    limit: number,
  ): ReturnType<MetadataStore['findNodesToScrub']> {
    return this.inner.findNodesToScrub(after, limit);
  }

  findRottenSpaces(after: string | undefined, limit: number): ReturnType<MetadataStore['findRottenSpaces']> {
    return this.inner.findRottenSpaces(after, limit);
  }

  findKnownGenerations(keys: readonly ObjectKey[]): Awaitable<ReadonlySet<Generation>> {
    return this.inner.findKnownGenerations(keys);
  }

  close(): Promise<void> {
    return this.inner.close();
  }
}
