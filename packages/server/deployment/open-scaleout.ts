/** Composition of the scale-out engines: rows in PostgreSQL, bytes in S3. Nothing is kept on this machine. */
import { randomBytes, randomUUID } from 'node:crypto';
import { accessSync, constants, mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { type Clock, StoreUnavailable } from '../core/ports.ts';
import { formatDatabase, type PostgresAddress, type S3Address } from '../engine/address.ts';
import { PostgresTurns } from '../engine/postgres/background-turns.ts';
import { beginServing } from '../engine/postgres/deployment-lock.ts';
import { PostgresMetadataStore } from '../engine/postgres/metadata-store.ts';
import { openPostgres } from '../engine/postgres/open-postgres.ts';
import { PostgresRegistryStore } from '../engine/postgres/registry-store.ts';
import { findOrCreateSecret, findSecret } from '../engine/postgres/secrets.ts';
import { PostgresPool } from '../engine/postgres/wire/connection-pool.ts';
import { POSTGRES_LIMITS, type PostgresLimits } from '../engine/postgres/wire/limits.ts';
import { EngineRefused } from '../engine/refused.ts';
import type { StoreIdentity } from '../engine/s3/open-s3-content-store.ts';
import { ServeError } from '../errors.ts';
import type { Log } from '../log.ts';
import { type Engines, Opened } from './engines.ts';
import { openBucket } from './open-bucket.ts';
import { nameRows } from './place.ts';
import { createSigner, SECRET_BYTES } from './signer.ts';
import { attemptStart } from './start-attempts.ts';

interface ScaleoutOptions {
  readonly metadata: PostgresAddress;
  readonly content: S3Address;
  readonly uploadTtlMs: number;
  /** tests move it; left out, the database's clock decides */
  readonly clock: Clock | undefined;
  readonly log: Log;
  readonly onFatal: (error: Error) => void;
}

/** Beside those of requests: however many of these wait, the registry is read in time and background work has its turn. */
const CONTROL_CONNECTIONS = 2;
/** What they are asked is small: a server that takes longer is away, and is soon asked again. */
const CONTROL_LIMITS: PostgresLimits = {
  ...POSTGRES_LIMITS,
  connectMs: 3000,
  statementMs: 4000,
  silenceMs: 1000,
};
/** Of the values that all processes of a database share. */
export const SECRET_NAMES = {
  signer: 'signer',
  storeId: 'content-store-id',
  storeMarked: 'content-store-marked',
};

/** Rejects with ServeError. */
export async function openScaleout(options: ScaleoutOptions): Promise<Engines> {
  const { metadata: address, content: bucket, uploadTtlMs, clock, log, onFatal } = options;
  const opened = new Opened();
  try {
    const pool = await openRows(address, log);
    const control = new PostgresPool({ ...address, connectionsMax: CONTROL_CONNECTIONS }, CONTROL_LIMITS);
    // Together: each may have to wait for a server that does not answer.
    opened.add(() => Promise.all([pool.close(), control.close()]).then(() => undefined));
    await beginServing(control);
    const secret = await findOrCreateSecret(control, SECRET_NAMES.signer, () => randomBytes(SECRET_BYTES));
    const metadata = await PostgresMetadataStore.open({
      pool,
      onFatal,
      ...(clock === undefined ? {} : { clock }),
    });
    opened.add(() => metadata.close());
    const readIdentity = () => readStoreIdentity(control);
    const content = await openBucket({ address: bucket, uploadTtlMs, log, readIdentity });
    opened.add(() => content.close());
    return {
      metadata,
      content,
      registryStore: new PostgresRegistryStore(control),
      signer: createSigner(secret),
      turns: new PostgresTurns(control, randomUUID()),
      spoolFolder: makeSpoolFolder(opened),
      close: () => opened.close(),
    };
  } catch (error) {
    await opened.close().catch(() => undefined);
    throw explain(address, error);
  }
}

async function openRows(address: PostgresAddress, log: Log): Promise<PostgresPool> {
  if (address.tlsRootFile !== undefined) assertReadable(address.tlsRootFile);
  return attemptStart({
    name: `PostgreSQL (${formatDatabase(address)})`,
    open: () => openPostgres(address),
    isPassing: (error) => error instanceof StoreUnavailable && !isLasting(error),
    log,
  });
}

/** SQL states that only a person can change: wrong password or user, no such database, no rights, a schema that does not fit. */
const LASTING_STATES = /^(?:28|3D|42|0A|22|23)/;

function isLasting(error: StoreUnavailable): boolean {
  return LASTING_STATES.test(stateOf(error));
}

function stateOf({ cause }: Error): string {
  const code = (cause as { code?: unknown } | undefined)?.code;
  return typeof code === 'string' ? code : '';
}

function assertReadable(path: string): void {
  try {
    accessSync(path, constants.R_OK);
  } catch {
    throw new ServeError(
      `the certificates ${path} of --metadata cannot be read: correct sslrootcert, or its mode`,
    );
  }
}

export async function readStoreIdentity(pool: PostgresPool): Promise<StoreIdentity> {
  const { storeId, storeMarked } = SECRET_NAMES;
  const id = await findOrCreateSecret(pool, storeId, () => Buffer.from(randomUUID()));
  return {
    storeId: Buffer.from(id).toString(),
    isMarked: (await findSecret(pool, storeMarked)) !== undefined,
    async noteMarked() {
      await findOrCreateSecret(pool, storeMarked, () => new Uint8Array([1]));
    },
  };
}

/** Private, and gone with the process: what a `kill -9` leaves is an empty folder, for its files have no names. */
function makeSpoolFolder(opened: Opened): string {
  const parent = tmpdir();
  let folder: string;
  try {
    folder = mkdtempSync(join(parent, 'holdfast-spool-'));
  } catch {
    throw new ServeError(
      `the temporary folder ${parent} cannot be written: make it writable, or set TMPDIR to one with room for large answers`,
    );
  }
  const remove = (): void => rmSync(folder, { recursive: true, force: true });
  process.once('exit', remove);
  opened.add(() => {
    process.off('exit', remove);
    remove();
  });
  return folder;
}

function explain(address: PostgresAddress, error: unknown): unknown {
  if (!(error instanceof StoreUnavailable) && !(error instanceof EngineRefused)) return error;
  // One without TLS hangs up, and we hang up on one that cannot prove who it is.
  const isTlsAskedFor = address.tls === 'require' || address.tls === 'verify-full';
  const advice =
    isTlsAskedFor && stateOf(error) === 'CONNECTION_CLOSED'
      ? '; perhaps it has no TLS, or no certificate that is trusted: check sslmode and sslrootcert'
      : '';
  return new EngineRefused(
    `--metadata, ${nameRows({ kind: 'postgres', address })}: ${error.message}${advice}`,
    { cause: error },
  );
}
