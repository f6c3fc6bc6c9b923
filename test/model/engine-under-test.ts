/**
 * The engine as the model test needs it. A new engine joins by implementing this in a few lines and calling
 * `describeModel`; everything else speaks to core through its ports.
 */
import type { NodeRow, PackPlace, Space } from '../../packages/server/core/model.ts';
import type { Clock, ContentStore, MetadataStore } from '../../packages/server/core/ports.ts';

export interface EngineUnderTest {
  /** Present if the store takes the PUT itself, by the URLs of its instructions; absent: the server does. */
  readonly direct?: {
    /** the instant a run begins at, ms: such a store judges URLs by the real time, and lets those of the future pass */
    startsAt(): number;
    /** Names of objects that neither `generations` nor their records speak of; empty when the store is tidy. */
    findOrphans(generations: ReadonlySet<string>): Promise<readonly string[]>;
  };
  /** Opens the engine over its own fresh data; called again after `close` it finds the data it left. */
  open(world: { readonly clock: Clock }): Promise<{
    readonly metadata: MetadataStore;
    readonly content: ContentStore;
    /** of other servers over the same data: they take turns */
    readonly others?: readonly MetadataStore[];
  }>;
  close(): Promise<void>;
  /** Spoils the stored bytes behind the engine's back: the last canonical byte flipped, or all of them gone. */
  damage(space: Space, node: NodeRow, how: 'flipped' | 'lost', packed?: PackPlace): Promise<void>;
  /** Puts back what `damage` took from this generation. */
  mend(space: Space, node: NodeRow, packed?: PackPlace): Promise<void>;
  /** The differences between a recount of the rows and the kept counts. */
  findProblems?(): readonly string[];
  /** Removes all data. */
  destroy(): Promise<void>;
}
