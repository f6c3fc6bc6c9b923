/** Answers of the operator API, as far as the console shows them (`/operator/v1/openapi.json` says all). */
import type { GcResult, SpaceUsage } from '@holdfast/protocol';
import type { Held } from '../parts/bar.tsx';

/** An App or a Space without its usage, which may be missing. */
type Holdings = Omit<Held, 'usage'>;

interface Revocation {
  readonly jti?: string | null;
  readonly sub?: string | null;
  readonly until?: number | string;
}

export interface App extends Holdings {
  readonly appId: string;
  readonly issuer: string;
  readonly audience: string;
  readonly status: 'active' | 'suspended' | 'damaged';
  readonly jwksUrl?: string | null;
  readonly maxTokenLifetimeMs?: number;
  readonly usage?: SpaceUsage | null;
  readonly revocations?: readonly Revocation[];
}

export interface ListedSpace extends Holdings {
  readonly app: string;
  readonly space: string;
  /** null: it cannot be read, and `damage` says why */
  readonly usage: SpaceUsage | null;
  readonly damage?: string | null;
}

export interface SpacePage {
  readonly spaces: readonly ListedSpace[];
  readonly next: string | null;
}

export interface GcPlan extends GcResult {
  readonly nodes: readonly { readonly hash: string; readonly contentBytes: number }[];
  /** why nodes are left out that cannot be read */
  readonly damage: string | null;
}

interface Finding {
  readonly kind: string;
  readonly app: string;
  readonly space: string;
  /** null: it is about the whole Space */
  readonly hash: string | null;
  readonly message: string;
  readonly repaired: boolean;
}

export interface CheckReport {
  readonly ok: boolean;
  /** nodes */
  readonly checked: number;
  readonly findings: readonly Finding[];
}

export interface RottenNode {
  readonly app: string;
  readonly space: string;
  readonly hash: string;
}

export interface BackupStatus {
  readonly running: { readonly folder: string; readonly startedAt: number; readonly progress: string } | null;
  /** ms since the epoch; null: never */
  readonly lastSuccessAt: number | null;
}

export interface BackupOutcome {
  readonly nodes: number;
  readonly bytes: number;
  readonly copiedBytes: number;
}

/** The increase since the point before. */
export interface LoadPoint {
  /** ms since the epoch */
  readonly at: number;
  readonly requests: number;
  /** answers of 500 and more */
  readonly errors: number;
  readonly receivedBytes: number;
  readonly sentBytes: number;
  readonly apps: readonly { readonly app: string; readonly requests: number; readonly errors: number }[];
}

export interface LoadHistory {
  readonly points: readonly LoadPoint[];
}

export interface Status {
  /** on the machine of the server; null: the rows are in PostgreSQL */
  readonly dataDir: string | null;
  readonly messages: readonly {
    readonly severity: 'error' | 'warning';
    readonly name: string;
    readonly message: string;
  }[];
  /** null if an engine is unavailable */
  readonly apps: { readonly active: number; readonly suspended: number } | null;
}

export type AuditLine = Readonly<Record<string, unknown>>;
