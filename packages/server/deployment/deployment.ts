/** A deployment that is open, whichever stores are behind it (open.ts). */
import type { RegistryStore } from '../auth/registry-store.ts';
import type { BackgroundTurns } from '../background/turns.ts';
import type { ContentStore, MetadataStore } from '../core/ports.ts';
import type { SigningSecrets } from '../core/signing-secrets.ts';
import type { ContentIntake, DeploymentWriter } from '../engine/transfer-ports.ts';

interface Deployment {
  readonly bytes: ContentStore;
  readonly apps: RegistryStore;
  readonly secret: SharedSecret;
  /** Closes everything, in reverse order of opening. Do not use the deployment afterwards. */
  close(): Promise<void>;
}

/** The parts of a deployment that a serving process uses. */
export interface ServedDeployment extends Deployment {
  readonly rows: MetadataStore;
  readonly turns: BackgroundTurns;
  /** the rows' clock goes by the monotonic clock of this machine: it cannot be set, and no other can tell that it is wrong */
  readonly isClockSteady: boolean;
  /** Rejects with EngineRefused if another build has changed the schema so that this one cannot use it. */
  assertSchema(): Promise<void>;
  /** a folder of this process alone, for answers too large for memory */
  readonly spoolFolder: string;
}

/** The source or the target of a copy; no other process writes to it meanwhile. */
export interface CopiedDeployment extends Deployment {
  readonly rows: DeploymentWriter;
  /** takes the bytes of a copy; `bytes` gives them */
  readonly intake: ContentIntake;
  /** Throws EngineRefused if another process has the deployment open. */
  assertAlone(): Promise<void>;
}

/** The secrets that sign upload URLs and cursors in every process of a deployment (core/signer.ts). */
export interface SharedSecret {
  /** Makes a secret the first time; it is durable before it is used. */
  read(): Promise<SigningSecrets>;
  /** Makes nothing. */
  find(): Promise<SigningSecrets | undefined>;
  /** Drops all others at once: call only while no server runs. Durable when it resolves. */
  replace(secrets: SigningSecrets): Promise<void>;
  /** Returns false and changes nothing if the secrets are no longer `from`. Durable when it resolves. */
  exchange(from: SigningSecrets, to: SigningSecrets): Promise<boolean>;
}

/** Parts that were opened one after another; a part may need the earlier ones. */
export class Opened {
  readonly #closers: (() => Promise<void> | void)[] = [];

  /** `close` is called before those of all earlier parts. */
  add(close: () => Promise<void> | void): void {
    this.#closers.push(close);
  }

  async close(): Promise<void> {
    for (const close of this.#closers.splice(0).reverse()) await close();
  }
}
