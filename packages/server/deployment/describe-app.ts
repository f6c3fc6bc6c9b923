/** An App as operators see it. */
import { ALGORITHMS } from '@holdfast/protocol';
import type { AppKeys, AppRecord, AppState, Quotas } from '../auth/registry-store.ts';
import type { AppTotals } from '../core/tenancy-ports.ts';

/** Public facts only: of keys their names or their address, never the keys themselves. */
export interface DescribedApp {
  readonly appId: string;
  readonly issuer: string;
  readonly audience: string;
  readonly status: AppState;
  readonly keys: DescribedKeys;
  readonly jwksUrl: string | null;
  readonly algorithms: readonly string[];
  readonly maxTokenLifetimeMs: number;
  /** of all Spaces of the App together */
  readonly quotas: DescribedQuotas;
  /** Spaces that have a quota of their own */
  readonly spaceQuotas: readonly ({ readonly space: string } & DescribedQuotas)[];
  /** null: a page with counts of one of its Spaces is damaged */
  readonly usage: AppUsage | null;
  /** received in its Spaces and not judged yet; null as usage is */
  readonly pendingBytes: number | null;
  /** commits of root refs that its Spaces keep */
  readonly commitRows: number | null;
  readonly revocations: readonly DescribedRevocation[];
  readonly createdAt: number;
  readonly updatedAt: number;
}

/** null: no limit */
export interface DescribedQuotas {
  readonly maxBytes: number | null;
  readonly maxNodes: number | null;
  readonly maxCommits: number | null;
}

type DescribedKeys =
  | { readonly kind: 'static'; readonly kids: readonly string[] }
  | { readonly kind: 'url'; readonly url: string };

type DescribedRevocation =
  | { readonly jti: string; readonly until: number }
  | { readonly sub: string; readonly until: number };

/** In the words of getUsage, over all Spaces of the App. */
interface AppUsage {
  readonly spaces: number;
  readonly nodeCount: number;
  readonly readyContentBytes: number;
  readonly readyStoredBytes: number;
  readonly reservedBytes: number;
  readonly notReadyNodeCount: number;
}

/** `now`: ms since the epoch; revocations that have expired by then are left out. */
export function describeApp(app: AppRecord, totals: AppTotals | undefined, now: number): DescribedApp {
  return {
    appId: app.appId,
    issuer: app.issuer,
    audience: app.audience,
    status: app.status,
    keys: describeKeys(app.keys),
    jwksUrl: app.keys.kind === 'url' ? app.keys.url : null,
    algorithms: app.algorithms ?? ALGORITHMS,
    maxTokenLifetimeMs: app.tokenLifetimeMsMax,
    quotas: describeQuotas(app.quotas),
    spaceQuotas: app.spaceQuotas.map((each) => ({ space: each.spaceId, ...describeQuotas(each) })),
    usage: totals === undefined ? null : usageOf(totals),
    pendingBytes: totals?.pendingBytes ?? null,
    commitRows: totals?.commitRows ?? null,
    revocations: app.revocations
      .filter(({ until }) => until > now)
      .map(({ claim, value, until }) => (claim === 'jti' ? { jti: value, until } : { sub: value, until })),
    createdAt: app.createdAt,
    updatedAt: app.updatedAt,
  };
}

function usageOf(totals: AppTotals): AppUsage {
  return {
    spaces: totals.spaces,
    nodeCount: totals.nodeCount,
    readyContentBytes: totals.readyContentBytes,
    readyStoredBytes: totals.readyStoredBytes,
    reservedBytes: totals.waitingBytes,
    notReadyNodeCount: totals.notReadyNodeCount,
  };
}

export function describeQuotas(quotas: Partial<Quotas> = {}): DescribedQuotas {
  const { maxBytes = null, maxNodes = null, maxCommits = null } = quotas;
  return { maxBytes, maxNodes, maxCommits };
}

/** The names of the keys in a set; keys without a name have none to show. */
function describeKeys(keys: AppKeys): DescribedKeys {
  if (keys.kind === 'url') return { kind: 'url', url: keys.url };
  const { keys: list = [] } = JSON.parse(keys.jwks) as { keys?: readonly { kid?: unknown }[] };
  return { kind: 'static', kids: list.flatMap(({ kid }) => (typeof kid === 'string' ? [kid] : [])) };
}
