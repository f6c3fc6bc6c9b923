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
import { mixValues } from '../../core/rows/row-sums.ts';
import { EngineRefused } from '../refused.ts';

/** The column `space_id` of quotas that hold for all Spaces of an App together: no Space has this id. */
export const WHOLE_APP = '';

type AppLimits = Pick<AppRecord, 'quotas' | 'spaceQuotas' | 'revocations'>;
type Row = Readonly<Record<string, unknown>>;

/** The rows of one App, each kind in the order of its key. `undefined`: a row that no App can have */
function limitsFromSql(quotaRows: readonly Row[], revocationRows: readonly Row[]): AppLimits | undefined {
  if (!quotaRows.every(isQuota) || !revocationRows.every(isRevocation)) return undefined;
  const quotas = quotaRows.map(
    (row): SpaceQuotas => ({ spaceId: row.space_id as string, ...quotasFromSql(row) }),
  );
  const whole = quotas.find(({ spaceId }) => spaceId === WHOLE_APP);
  return {
    quotas: { maxBytes: whole?.maxBytes, maxNodes: whole?.maxNodes, maxCommits: whole?.maxCommits },
    spaceQuotas: quotas.filter((each) => each !== whole),
    revocations: revocationRows.map(({ claim, value, until }): Revocation => {
      return { claim: claim as RevokedClaim, value: value as string, until: until as number };
    }),
  };
}

const isQuota = (row: Row): boolean =>
  isText(row.space_id) && [row.max_bytes, row.max_nodes, row.max_commits].every(isLimit);

const isRevocation = ({ claim, value, until }: Row): boolean =>
  (claim === 'jti' || claim === 'sub') && isText(value) && Number.isSafeInteger(until);

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

/** The rows of an App, `row` with the sum over all of them; null: older than sums. */
export function appFromSql(row: Row, quotaRows: readonly Row[], revocationRows: readonly Row[]): AppRecord {
  const limits = limitsFromSql(quotaRows, revocationRows);
  const record = limits && isApp(row) ? soundApp(row, limits) : undefined;
  if (record === undefined) return damagedApp(row);
  const isProven = row.record_sum === null || row.record_sum === appSum(record);
  return isProven ? record : { ...record, status: 'damaged' };
}

/** A field that is not there must not turn a check off. */
const isApp = (row: Row): boolean =>
  [row.app_id, row.issuer, row.audience, row.jwks ?? row.jwks_url].every(isText) &&
  (row.jwks === null || row.jwks_url === null) &&
  (row.algorithms === null || (isText(row.algorithms) && row.algorithms.split(',').every(isAlgorithm))) &&
  (row.status === 'active' || row.status === 'suspended') &&
  [row.token_lifetime_ms_max, row.created_at, row.updated_at].every(Number.isSafeInteger);

function soundApp(row: Row, limits: AppLimits): AppRecord {
  const { jwks, algorithms } = row;
  return {
    appId: row.app_id as string,
    issuer: row.issuer as string,
    audience: row.audience as string,
    status: row.status as AppStatus,
    keys: isText(jwks) ? { kind: 'static', jwks } : { kind: 'url', url: row.jwks_url as string },
    algorithms: isText(algorithms) ? (algorithms.split(',') as Algorithm[]) : undefined,
    tokenLifetimeMsMax: row.token_lifetime_ms_max as number,
    ...limits,
    createdAt: row.created_at as number,
    updatedAt: row.updated_at as number,
  };
}

/** The names in a row that cannot be read as an App. */
function damagedApp(row: Row): AppRecord {
  const textOf = (value: unknown): string => (isText(value) ? value : '');
  return {
    ...{ appId: textOf(row.app_id), issuer: textOf(row.issuer), audience: textOf(row.audience) },
    ...{ status: 'damaged', keys: { kind: 'static', jwks: '{"keys":[]}' }, algorithms: undefined },
    ...{ tokenLifetimeMsMax: 0, createdAt: 0, updatedAt: 0 },
    ...{ quotas: NO_QUOTAS, spaceQuotas: [], revocations: [] },
  };
}

const NO_QUOTAS: Quotas = { maxBytes: undefined, maxNodes: undefined, maxCommits: undefined };

/** Over the App, its quotas and its revocations: one that is lost is noticed too. */
export function appSum(app: AppRecord): number {
  const { appId, issuer, audience, status, tokenLifetimeMsMax, createdAt, updatedAt } = app;
  const quotas = quotaRowsOf(app).flatMap((each) => [each.spaceId, ...quotaValues(each)]);
  const revocations = app.revocations.flatMap(({ claim, value, until }) => [claim, value, until]);
  return mixValues([
    ...[appId, issuer, audience, status, ...appKeysToSql(app), tokenLifetimeMsMax, createdAt, updatedAt],
    ...[...quotas, ...revocations],
  ]);
}

/** Before a change: it would give rows that are not proven the sum of right ones. @throws EngineRefused */
export function assertProven({ status, appId }: AppRecord): void {
  if (status !== 'damaged') return;
  throw new EngineRefused(
    `a row of the App ${JSON.stringify(appId)}, of its quotas or of its revocations is damaged: see them with holdfast app list --json; holdfast app add --replace writes the App anew, suspended and without quotas and revocations, which to set again before it is resumed; or restore a backup`,
  );
}

const isText = (value: unknown): value is string => typeof value === 'string';
