/** Checks whether the engines of a server can be used now. Creates nothing in them, and describes the findings. */
import { MIB_BYTES } from '@holdfast/protocol';
import { explainBehind, isBehind } from '../core/store-epoch.ts';
import { StoreUnavailable } from '../core/store-failure.ts';
import { tryDataFolder } from '../deployment/data-folder.ts';
import { tryBytes, tryRows } from '../deployment/open.ts';
import {
  type DeploymentPlace,
  nameBucket,
  nameRows,
  type RowsPlace,
  type S3Place,
} from '../deployment/place.ts';
import { describeChecksums, type RowsTrial } from '../engine/store-trial.ts';
import { ServeError } from '../errors.ts';

export interface EngineFindings {
  /** one line each: the problem and its remedy */
  readonly problems: readonly string[];
  readonly found: readonly string[];
  /** whether a server uses these engines now */
  readonly isServed: boolean;
}

export async function tryEngines(place: DeploymentPlace): Promise<EngineFindings> {
  const { rows: rowsPlace, bytes: bytesPlace } = place;
  const folder = tryFolder(rowsPlace);
  const problems = [...folder.problems];
  const found = [...folder.found];
  const attempt = async <T>(look: () => Promise<T> | T): Promise<T | undefined> => {
    try {
      return await look();
    } catch (error) {
      if (!(error instanceof ServeError) && !(error instanceof StoreUnavailable)) throw error;
      problems.push(error.message);
      return undefined;
    }
  };
  const rows = problems.length === 0 ? await attempt(() => tryRows(place)) : undefined;
  if (rows !== undefined) {
    found.push(describeRows(nameRows(rowsPlace), rows));
    if (rows.pageChecksums !== undefined) {
      found.push(`${nameRows(rowsPlace)}: ${describeChecksums(rows.pageChecksums)}`);
    }
    judgeClock(nameRows(rowsPlace), rows.clockAheadMs, problems);
  }
  if (bytesPlace.kind === 's3') {
    const bytes = await attempt(() => tryBytes(bytesPlace));
    if (bytes !== undefined) {
      judgeClock(nameBucket(bytesPlace), bytes.clockAheadMs, problems);
      if (rows !== undefined) judgeMarker(bytesPlace, rowsPlace, rows, bytes.storeId, { problems, found });
      if (rows !== undefined) judgeEpoch(nameRows(rowsPlace), rows, bytes.epoch, problems);
    }
  }
  return { problems, found, isServed: rows?.isServed ?? false };
}

/** Whether the data folder, if any, exists or can be created. Creates nothing. */
export function tryFolder(rows: RowsPlace): Pick<EngineFindings, 'problems' | 'found'> {
  if (rows.kind !== 'folder') return { problems: [], found: [] };
  try {
    return { problems: [], found: [describeFolder(rows.dataDir)] };
  } catch (error) {
    if (!(error instanceof ServeError)) throw error;
    return { problems: [error.message], found: [] };
  }
}

function describeFolder(dataDir: string): string {
  const { madeIn, freeBytes } = tryDataFolder(dataDir);
  const free = `${Math.floor(freeBytes / MIB_BYTES)} MiB are free`;
  return madeIn === undefined
    ? `--data ${dataDir}: can be written, ${free}`
    : `--data ${dataDir}: does not exist yet and can be made in ${madeIn}, ${free}`;
}

function describeRows(name: string, { isServed, version }: RowsTrial): string {
  // The schema version of a new database file is 0 until its first checkpoint.
  const known = version === 0 ? 'a database' : `schema version ${version}`;
  const schema = version === undefined ? 'empty, a start makes the tables' : known;
  return `${name}: ${schema}${isServed ? ', a server works on it right now' : ''}`;
}

function judgeClock(name: string, aheadMs: number | undefined, problems: string[]): void {
  // Tokens, upload URLs and requests to S3 need clocks that differ by less than this.
  if (aheadMs === undefined || Math.abs(aheadMs) <= 60_000) return;
  const seconds = Math.round(Math.abs(aheadMs) / 1000);
  const direction = aheadMs > 0 ? 'ahead of' : 'behind';
  problems.push(`${name}: its clock is ${seconds} s ${direction} this machine's; set both by NTP`);
}

/** Judges nothing while a server runs: it moves both on, perhaps between the two reads. */
function judgeEpoch(name: string, rows: RowsTrial, store: number | undefined, problems: string[]): void {
  if (rows.isServed || rows.epoch === undefined || store === undefined) return;
  const epochs = { rows: rows.epoch, store };
  if (isBehind(epochs)) problems.push(`--metadata, ${name}: ${explainBehind(epochs)}`);
}

function judgeMarker(
  place: S3Place,
  rowsPlace: RowsPlace,
  rows: RowsTrial,
  bucketId: string | undefined,
  { problems, found }: { readonly problems: string[]; readonly found: string[] },
): void {
  const name = nameBucket(place);
  if (bucketId !== undefined && bucketId === rows.storeId)
    found.push(`${name}: its marker is that of these rows`);
  else if (bucketId === undefined && rows.isMarked) {
    problems.push(
      `--content, ${name}: the bucket has lost its marker object, or is not the one these rows belong to; correct --content, or restore the bucket`,
    );
  } else if (bucketId === undefined) found.push(`${name}: has no marker yet, a first start writes it`);
  else if (rows.storeId === undefined && rows.version !== undefined && rowsPlace.kind === 'folder') {
    found.push(`${name}: has a marker; a start checks whether it belongs to these rows`);
  } else {
    problems.push(
      `--content, ${name}: the bucket belongs to other rows than those of --metadata or --data; name the right one, or give --content a prefix of its own: s3://BUCKET/PREFIX`,
    );
  }
}
