/** The two sides of a copy. */
import type { AppRecord } from '../auth/registry-store.ts';
import type { ContentStore } from '../core/ports.ts';
import type { ContentIntake, DeploymentReader, DeploymentWriter } from '../engine/transfer-ports.ts';

/** A whole deployment, opened to be copied; nobody else writes to it meanwhile. */
interface Deployment {
  readApps(): Promise<readonly AppRecord[]>;
  /** the signer's */
  readSecret(): Promise<Uint8Array>;
}

export interface SourceDeployment extends Deployment {
  readonly rows: DeploymentReader;
  readonly content: ContentStore;
  /** Throws ServeError when somebody else has it open. */
  assertAlone(): Promise<void>;
}

export interface TargetDeployment extends Deployment {
  readonly rows: DeploymentWriter;
  readonly content: ContentIntake;
  assertAlone(): Promise<void>;
  /** Makes the registry hold exactly these. */
  replaceApps(apps: readonly AppRecord[]): Promise<void>;
  replaceSecret(secret: Uint8Array): Promise<void>;
}
