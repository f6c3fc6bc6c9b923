/** Between a registered App and its row, which both engines keep in a table `apps` with the same columns. */
import { type Algorithm, isAlgorithm } from '@holdfast/protocol';
import type { AppRecord, AppStatus } from '../auth/registry-store.ts';

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
