/** What a process serves with, whichever engines are behind it. */
import type { RegistryStore } from '../auth/registry-store.ts';
import type { BackgroundTurns } from '../background/turns.ts';
import type { ContentStore, MetadataStore, Signer } from '../core/ports.ts';

export interface Engines {
  readonly metadata: MetadataStore;
  readonly content: ContentStore;
  readonly registryStore: RegistryStore;
  readonly signer: Signer;
  readonly turns: BackgroundTurns;
  /** a folder of this process alone, for answers too large for memory */
  readonly spoolFolder: string;
  /** Closes everything, what was opened last first. Nothing is asked of it any more. */
  close(): Promise<void>;
}

/** Things that were opened one after another, each of which may need what came before it. */
export class Opened {
  private readonly closers: (() => Promise<void> | void)[] = [];

  /** `close` is called before those of all earlier ones. */
  add(close: () => Promise<void> | void): void {
    this.closers.push(close);
  }

  async close(): Promise<void> {
    for (const close of this.closers.splice(0).reverse()) await close();
  }
}
