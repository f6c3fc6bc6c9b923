/** A deployment that is open, whichever stores are behind it (open.ts). */
import type { RegistryStore } from '../auth/registry-store.ts';
import type { BackgroundTurns } from '../background/turns.ts';
import type { ContentStore, MetadataStore } from '../core/ports.ts';
import type { ContentIntake, DeploymentWriter } from '../engine/transfer-ports.ts';

interface Deployment {
  readonly bytes: ContentStore;
  readonly apps: RegistryStore;
  readonly secret: SharedSecret;
  /** Closes everything, what was opened last first. Nothing is asked of it any more. */
  close(): Promise<void>;
}

/** What a process serves with. */
export interface ServedDeployment extends Deployment {
  readonly rows: MetadataStore;
  readonly turns: BackgroundTurns;
  /** a folder of this process alone, for answers too large for memory */
  readonly spoolFolder: string;
}

/** What a copy reads, or writes; nobody else writes to it meanwhile. */
export interface CopiedDeployment extends Deployment {
  readonly rows: DeploymentWriter;
  /** takes bytes where `bytes` gives them */
  readonly intake: ContentIntake;
  /** Throws EngineRefused when somebody else has it open. */
  assertAlone(): Promise<void>;
}

/** What every process of a deployment signs upload URLs and cursors with (signer.ts). */
export interface SharedSecret {
  /** Made the first time, durable before it is used. */
  read(): Promise<Uint8Array>;
  /** Only where no server runs: each keeps what it has read. Durable when it resolves. */
  replace(secret: Uint8Array): Promise<void>;
}

/** Things that were opened one after another, each of which may need what came before it. */
export class Opened {
  readonly #closers: (() => Promise<void> | void)[] = [];

  /** `close` is called before those of all earlier ones. */
  add(close: () => Promise<void> | void): void {
    this.#closers.push(close);
  }

  async close(): Promise<void> {
    for (const close of this.#closers.splice(0).reverse()) await close();
  }
}
