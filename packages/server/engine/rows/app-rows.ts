/** Between a registered App and its row, which both engines keep in a table `apps` with the same columns. */
import { type Algorithm, isAlgorithm } from '@holdfast/protocol';
import type {
  AppRecord,
  AppStatus,
  QuotaChange,
  Quotas,
  Revocation,
  RevokedClaim,
  SpaceQuotas,
} from '../../auth/registry-store.ts';

/** The column `space_id` of quotas that hold for all Spaces of an App together: no Space has this id. */
export const WHOLE_APP = '';

export type AppLimits = Pick<AppRecord, 'quotas' | 'spaceQuotas' | 'revocations'>;
type Row = Readonly<Record<string, unknown>>;
type FailureClass = new (message: string) => Error;

/** The rows of one App, each kind in the order of its key. A damaged row fails the reading, as in `appFromSql`. */
export function limitsFromSql(
  quotaRows: readonly Row[],
  revocationRows: readonly Row[],
  Failure: FailureClass,
): AppLimits {
  const quotas = quotaRows.map((row): SpaceQuotas => {
    const limits = [row.max_bytes, row.max_nodes, row.max_commits];
    const isSound = typeof row.space_id === 'string' && limits.every(isLimit);
    if (!isSound) throw new Failure('a quota of an App has a damaged row: restore a backup');
    return { spaceId: row.space_id as string, ...quotasFromSql(row) };
  });
  const whole = quotas.find(({ spaceId }) => spaceId === WHOLE_APP);
  return {
    quotas: { maxBytes: whole?.maxBytes, maxNodes: whole?.maxNodes, maxCommits: whole?.maxCommits },
    spaceQuotas: quotas.filter((each) => each !== whole),
    revocations: revocationRows.map((row): Revocation => {
      const { claim, value, until } = row;
      const isSound =
        (claim === 'jti' || claim === 'sub') && typeof value === 'string' && Number.isSafeInteger(until);
      if (!isSound) throw new Failure('a revocation of an App has a damaged row: restore a backup');
      return { claim: claim as RevokedClaim, value, until: until as number };
    }),
  };
}

const isLimit = (value: unknown): boolean => value === null || Number.isSafeInteger(value);

/** No row: no limits. */
export function quotasFromSql(row: Row | null | undefined): Quotas {
  return {
    maxBytes: (row?.max_bytes as number | null | undefined) ?? undefined,
    maxNodes: (row?.max_nodes as number | null | undefined) ?? undefined,
    maxCommits: (row?.max_commits as number | null | undefined) ?? undefined,
  };
}

/** The quotas of an App as rows: only limits that are set. */
export function quotaRowsOf({
  quotas,
  spaceQuotas,
}: Pick<AppRecord, 'quotas' | 'spaceQuotas'>): SpaceQuotas[] {
  const isSet = quotaValues(quotas).some((limit) => limit !== null);
  return isSet ? [{ spaceId: WHOLE_APP, ...quotas }, ...spaceQuotas] : [...spaceQuotas];
}

/** Values for the columns max_bytes, max_nodes and max_commits. */
export function quotaValues({ maxBytes, maxNodes, maxCommits }: QuotaChange): QuotaValues {
  return [maxBytes ?? null, maxNodes ?? null, maxCommits ?? null];
}

type QuotaValues = [number | null, number | null, number | null];

/** The same after a change. */
export function changeQuotas(before: Quotas, change: QuotaChange): QuotaValues {
  const { maxBytes = before.maxBytes, maxNodes = before.maxNodes, maxCommits = before.maxCommits } = change;
  return quotaValues({ maxBytes, maxNodes, maxCommits });
}

/** Values for the columns jwks, jwks_url, algorithms. */
export function appKeysToSql({ keys, algorithms }: AppRecord): [string | null, string | null, string | null] {
  return [
    keys.kind === 'static' ? keys.jwks : null,
    keys.kind === 'url' ? keys.url : null,
    algorithms === undefined ? null : algorithms.join(','),
  ];
}

/**
 * Whatever damage makes of a row: a field that is not there must not turn a check off. `Failure` is what the engine throws for
 * a row that no App can have.
 */
export function appFromSql(
  row: Readonly<Record<string, unknown>>,
  limits: AppLimits,
  Failure: new (message: string) => Error,
): AppRecord {
  const { jwks, algorithms } = row;
  const isSound =
    [row.app_id, row.issuer, row.audience, jwks ?? row.jwks_url].every(isText) &&
    (jwks === null || row.jwks_url === null) &&
    (algorithms === null || isText(algorithms)) &&
    (row.status === 'active' || row.status === 'suspended') &&
    [row.token_lifetime_ms_max, row.created_at, row.updated_at].every(Number.isSafeInteger);
  if (!isSound) throw new Failure('a registered App has a damaged row: restore a backup');
  return {
    appId: row.app_id as string,
    issuer: row.issuer as string,
    audience: row.audience as string,
    status: row.status as AppStatus,
    keys: isText(jwks) ? { kind: 'static', jwks } : { kind: 'url', url: row.jwks_url as string },
    algorithms: isText(algorithms) ? toAlgorithms(algorithms, Failure) : undefined,
    tokenLifetimeMsMax: row.token_lifetime_ms_max as number,
    ...limits,
    createdAt: row.created_at as number,
    updatedAt: row.updated_at as number,
  };
}

const isText = (value: unknown): value is string => typeof value === 'string';

/** An unknown name fails the reading: leaving it out could widen what an App allows. */
function toAlgorithms(text: string, Failure: new (message: string) => Error): readonly Algorithm[] {
  return text.split(',').map((name) => {
    if (!isAlgorithm(name)) throw new Failure('a registered App names an unknown signature algorithm');
    return name;
  });
}
