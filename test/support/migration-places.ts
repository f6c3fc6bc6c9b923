/** Deployments of either engine as the sides of copies: made, served, copied by the real command, spoiled. */
import { mkdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { openCeph } from './ceph-server.ts';
import { formatContentUrl, makeS3Environment, type OpenEngines, openEngines } from './cluster.ts';
import type { CommandResult } from './command-result.ts';
import type { ClientOf } from './deployment-zoo.ts';
import { type Issuer, makeIssuer } from './issuer.ts';
import type { TestBucket } from './s3-request.ts';
import {
  addApp,
  ROOT,
  runHoldfast,
  type ServerProcess,
  startServer,
  tryStartServer,
} from './server-process.ts';
import { makeSpaceClient } from './space-client.ts';
import { makeTempFolder } from './temp-folder.ts';

const SHIFTED_CLOCK = join(ROOT, 'test', 'support', 'shifted-clock.ts');

/** Without engines everything is in the folder, but for bytes in a bucket where there is one. */
export interface Place {
  readonly data: string;
  readonly engines?: OpenEngines;
  readonly bucket?: TestBucket;
}

export interface MigrationPlaces {
  readonly issuer: Issuer;
  /** a folder that is not there yet */
  makeFolder(): Place;
  /** a fresh database and a fresh bucket */
  makeEngines(): Promise<Place>;
  /** a folder that is not there yet, for rows, and a fresh bucket for bytes */
  makeFolderAndBucket(): Promise<Place>;
  /** arguments and environment of `holdfast migrate`: no URL is an argument */
  command(from: Place, to: Place): { readonly args: string[]; readonly environment: Record<string, string> };
  migrate(from: Place, to: Place, ...flags: readonly string[]): Promise<CommandResult>;
  close(): Promise<void>;
}

export const MIGRATED_APP = 'app';

export function openMigrationPlaces(purpose: string): MigrationPlaces {
  const folder = makeTempFolder(purpose);
  const opened: { close(): Promise<void> }[] = [];
  let made = 0;
  const nextPath = (name: string): string => join(folder.path, `${name}-${made++}`);
  const command: MigrationPlaces['command'] = (from, to) => {
    const file = nextPath('to');
    writeFileSync(file, `${placeText(to)}\n`, { mode: 0o600 });
    return {
      args: ['migrate', '--to-file', file],
      environment: { ...environmentOf(from, to), HOLDFAST_MIGRATE_FROM: placeText(from) },
    };
  };
  return {
    issuer: makeIssuer(),
    makeFolder: () => ({ data: nextPath('data') }),
    async makeEngines() {
      const engines = await openEngines();
      opened.push(engines);
      const data = nextPath('unused');
      mkdirSync(data);
      return { data, engines };
    },
    async makeFolderAndBucket() {
      const ceph = await openCeph();
      opened.push(ceph);
      return { data: nextPath('data'), bucket: await ceph.createBucket() };
    },
    command,
    migrate(from, to, ...flags) {
      const { args, environment } = command(from, to);
      return runHoldfast([...args, ...flags], { environment });
    },
    async close() {
      for (const engines of opened) await engines.close();
      folder.remove();
    },
  };
}

export function placeText({ data, engines, bucket }: Place): string {
  if (engines !== undefined) return `${engines.metadataUrl},${formatContentUrl(engines.bucket)}`;
  return bucket === undefined ? data : `${data},${formatContentUrl(bucket)}`;
}

function environmentOf(...places: readonly Place[]): Record<string, string> {
  return Object.assign(
    {},
    ...places.map(({ engines, bucket = engines?.bucket }) =>
      bucket === undefined ? {} : makeS3Environment(bucket),
    ),
  );
}

export async function registerApp(place: Place, appId: string, issuer: Issuer): Promise<void> {
  mkdirSync(place.data, { recursive: true });
  await addApp(place.data, appId, issuer, place.engines?.metadataUrl);
}

/** `clockOffsetMs`: how far the server's clock is off. */
function serveOptions(place: Place, clockOffsetMs?: number) {
  const { engines, data, bucket = engines?.bucket } = place;
  const urls = [
    ...(engines === undefined ? [] : ['--metadata', engines.metadataUrl]),
    ...(bucket === undefined ? [] : ['--content', formatContentUrl(bucket)]),
  ];
  const shift = {
    BUN_OPTIONS: `--preload=${SHIFTED_CLOCK}`,
    HOLDFAST_TEST_CLOCK_OFFSET_MS: String(clockOffsetMs),
  };
  const environment = { ...environmentOf(place), ...(clockOffsetMs === undefined ? {} : shift) };
  return { data, arguments: urls, environment };
}

/** The message of a server that must not start. */
export async function failToServe(place: Place): Promise<string> {
  const outcome = await tryStartServer(serveOptions(place));
  if (!('url' in outcome)) return `${outcome.exitCode}: ${outcome.stderr}`;
  await outcome.end('SIGKILL');
  throw new Error('the server started');
}

export async function withServer<T>(
  place: Place,
  issuer: Issuer,
  work: (clientOf: ClientOf, server: ServerProcess) => Promise<T>,
  clockOffsetMs?: number,
): Promise<T> {
  const server = await startServer(serveOptions(place, clockOffsetMs));
  try {
    return await work(clientsOf(server, issuer, clockOffsetMs), server);
  } finally {
    await server.end('SIGTERM');
  }
}

const clientsOf =
  (server: ServerProcess, issuer: Issuer, clockOffsetMs = 0): ClientOf =>
  (spaceId, refDomain = 'test') => {
    const iat = Math.floor((Date.now() + clockOffsetMs) / 1000);
    const token = issuer.token(spaceId, { refDomain, iat, exp: iat + 3600 });
    return makeSpaceClient(server.url, MIGRATED_APP, spaceId, token);
  };
