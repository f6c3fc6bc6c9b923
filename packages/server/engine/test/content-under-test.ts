import type { Generation } from '../../core/model.ts';
import type { ContentStore } from '../../core/ports.ts';

export interface OpenedContentStore {
  readonly store: ContentStore;
  /** Makes `bytes` the complete object of a generation, as an upload would. */
  put(generation: Generation, bytes: Uint8Array): Promise<void>;
  /** From now on the generation's PUT counts as recorded. */
  finish(generation: Generation): void;
  destroy(): Promise<void>;
}

/** The subject of the parts of the suite: a fresh store for each test. */
export interface ContentUnderTest {
  opened: OpenedContentStore;
}
