/** A ContentStore whose verbs, and those of its upload target, become steps of one request's timing. */
import type { Hash } from '@holdfast/protocol';
import type { ContentRow, Generation, Space, UploadEvidence } from '../core/model.ts';
import type {
  ContentCaller,
  ContentDamaged,
  ContentLost,
  ContentStore,
  ContentUploads,
  DeletedObjects,
  InspectedObject,
  NodeLimits,
  OpenContent,
  StagedUpload,
  StoredObject,
  UploadBody,
  UploadReceiver,
} from '../core/ports.ts';
import type { RequestTiming } from './request-timing.ts';

export class TimedContentStore implements ContentStore {
  private readonly inner: ContentStore;
  private readonly timing: RequestTiming;

  constructor(inner: ContentStore, timing: RequestTiming) {
    this.inner = inner;
    this.timing = timing;
  }

  get upload(): ContentUploads {
    const { upload } = this.inner;
    if (upload.kind === 'server') {
      return { kind: 'server', receiver: new TimedUploadReceiver(upload.receiver, this.timing) };
    }
    const { timing } = this;
    return {
      kind: 'direct',
      signUpload: (space, generation, life) =>
        timing.watch(
          'cas_content_sign_upload',
          performance.now(),
          upload.signUpload(space, generation, life),
        ),
    };
  }

  inspect(space: Space, generation: Generation, hash: Hash, limits: NodeLimits): Promise<InspectedObject> {
    const startedAt = performance.now();
    const inspected = this.inner.inspect(space, generation, hash, limits);
    return this.timing.watch('cas_content_inspect', startedAt, inspected);
  }

  open(
    object: StoredObject,
    start: number,
    end: number,
    onBroken: (proof: ContentDamaged | ContentLost) => void,
    caller: ContentCaller | undefined,
  ): Promise<OpenContent> {
    const startedAt = performance.now();
    const opened = this.inner.open(object, start, end, onBroken, caller);
    return this.timing.watch('cas_content_open', startedAt, opened);
  }

  verify(object: StoredObject, hash: Hash): Promise<void> {
    return this.timing.watch('cas_content_verify', performance.now(), this.inner.verify(object, hash));
  }

  verifyInline(content: ContentRow): void {
    const startedAt = performance.now();
    this.inner.verifyInline(content);
    this.timing.record('cas_content_verify_inline', startedAt);
  }

  delete(space: Space, generations: readonly Generation[]): Promise<DeletedObjects> {
    const startedAt = performance.now();
    return this.timing.watch('cas_content_delete', startedAt, this.inner.delete(space, generations));
  }

  sweep(findKnown: Parameters<ContentStore['sweep']>[0], now: number): Promise<void> {
    return this.inner.sweep(findKnown, now);
  }

  close(): Promise<void> {
    return this.inner.close();
  }
}

class TimedUploadReceiver implements UploadReceiver {
  private readonly inner: UploadReceiver;
  private readonly timing: RequestTiming;

  constructor(inner: UploadReceiver, timing: RequestTiming) {
    this.inner = inner;
    this.timing = timing;
  }

  async receive(
    target: Parameters<UploadReceiver['receive']>[0],
    body: UploadBody,
    declaredLength: number | undefined,
    limits: NodeLimits,
  ): Promise<StagedUpload> {
    const startedAt = performance.now();
    const received = this.inner.receive(target, body, declaredLength, limits);
    const staged = await this.timing.watch('cas_content_receive', startedAt, received);
    return new TimedStagedUpload(staged, this.timing);
  }

  isReceiving(generation: Generation): ReturnType<UploadReceiver['isReceiving']> {
    return this.inner.isReceiving(generation);
  }

  reservedBytes(space: Space): ReturnType<UploadReceiver['reservedBytes']> {
    return this.inner.reservedBytes(space);
  }
}

class TimedStagedUpload implements StagedUpload {
  readonly evidence: UploadEvidence;
  readonly inlineBytes: Uint8Array | undefined;
  private readonly inner: StagedUpload;
  private readonly timing: RequestTiming;

  constructor(inner: StagedUpload, timing: RequestTiming) {
    this.evidence = inner.evidence;
    this.inlineBytes = inner.inlineBytes;
    this.inner = inner;
    this.timing = timing;
  }

  seal(): Promise<boolean> {
    return this.timing.watch('cas_content_seal', performance.now(), this.inner.seal());
  }

  release(): Promise<void> {
    return this.inner.release();
  }
}
