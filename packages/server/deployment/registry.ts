/** Administration of the registry of Apps: what `holdfast app` and `serve --dev` do to it. Works while servers run. */
import { readdirSync } from 'node:fs';
import { CLOCK_TOLERANCE_MS } from '@holdfast/protocol';
import {
  type AppRegistration,
  checkQuotas,
  checkRevocation,
  parseAppRegistration,
  RegistrationError,
} from '../auth/app-registration.ts';
import {
  type AppRecord,
  type AppStatus,
  type QuotaChange,
  REVOCATIONS_MAX,
  type RegistryStore,
  type Revocation,
  type RevokedClaim,
  SPACE_QUOTAS_MAX,
} from '../auth/registry-store.ts';
import { orIfDamaged, StoreUnavailable } from '../core/store-failure.ts';
import { NotFoundError, ServeError } from '../errors.ts';
import { type DescribedApp, describeApp } from './describe-app.ts';
import { markDataFolder } from './folder-marks.ts';
import { hasApps, type OpenApps, openApps } from './open.ts';
import type { RowsPlace } from './place.ts';

/** Every verb rejects with ServeError if it fails. A change holds in every process within 5 s. */
export interface Registry {
  listApps(): Promise<readonly AppRecord[]>;
  describeApps(): Promise<readonly DescribedApp[]>;
  describeApp(app: AppRecord): Promise<DescribedApp>;
  /** `replace`: the App exists; its issuer, audience, keys, algorithms and lifetime are replaced, its status stays. */
  addApp(registration: AppRegistration, options?: { readonly replace?: boolean }): Promise<AppRecord>;
  setAppStatus(appId: string, status: AppStatus): Promise<AppRecord>;
  /** Removes the App from the registry. Its data, its quotas and its revocations are kept. */
  removeApp(appId: string): Promise<void>;
  setQuotas(appId: string, spaceId: string | undefined, change: QuotaChange): Promise<AppRecord>;
  /** `until` left out: as long as a token can live that was made before now. */
  revoke(
    appId: string,
    revoked: { readonly claim: RevokedClaim; readonly value: string; readonly until?: number | undefined },
  ): Promise<Revocation>;
  liftRevocation(appId: string, claim: RevokedClaim, value: string): Promise<void>;
  close(): Promise<void>;
}

/** Opens an existing registry; `undefined`: none. Makes nothing, so a mistyped place stays as it is. Rejects with ServeError. */
export async function findRegistry(place: RowsPlace): Promise<Registry | undefined> {
  if (await hasApps(place)) return makeRegistry(place);
  if (place.kind === 'folder') isEmptyFolder(place.dataDir);
  return undefined;
}

/** Opens the registry, or makes it in a database or an empty folder. Rejects with ServeError: no server serves an App of a wrong folder. */
export async function openRegistry(place: RowsPlace): Promise<Registry> {
  if (place.kind === 'folder' && !(await hasApps(place)) && !isEmptyFolder(place.dataDir)) {
    throw new ServeError(
      `${place.dataDir} is no data folder of holdfast: name the one that the server serves with --data`,
    );
  }
  return makeRegistry(place);
}

/** As `openRegistry`, for the server itself: makes the folder, and makes a registry also beside other files. */
export async function makeRegistry(place: RowsPlace): Promise<Registry> {
  const apps = await openApps(place);
  if (place.kind === 'folder') markDataFolder(place.dataDir);
  return administer(apps);
}

/** Folders that a new file system may contain. */
const FILE_SYSTEM_FOLDERS: readonly string[] = ['lost+found'];

/** Throws ServeError when the folder is missing or cannot be read. */
function isEmptyFolder(dataDir: string): boolean {
  try {
    return readdirSync(dataDir).every((name) => FILE_SYSTEM_FOLDERS.includes(name));
  } catch (error) {
    const { code } = error as NodeJS.ErrnoException;
    throw new ServeError(
      code === 'ENOENT'
        ? `the data folder ${dataDir} does not exist: name the one that the server serves with --data, or start the server first`
        : `the data folder ${dataDir} cannot be opened (${code}): check --data and its rights`,
      { cause: error },
    );
  }
}

/** The verbs over a store that is open; `close` closes it. */
export function administer({ apps: store, readTotals, close }: OpenApps): Registry {
  /** An App is shown, and changed, also where what it stores cannot be counted. */
  const describe = async (app: AppRecord): Promise<DescribedApp> => {
    const totals = await orIfDamaged(
      () => readTotals(app.appId),
      () => undefined,
    );
    return describeApp(app, totals, Date.now());
  };
  return {
    listApps: () => explain(async () => store.readAll()),
    describeApps: () =>
      explain(async () => {
        const described: DescribedApp[] = [];
        for (const app of await store.readAll()) described.push(await describe(app));
        return described;
      }),
    describeApp: (app) => explain(() => describe(app)),
    addApp: (registration, { replace = false } = {}) =>
      explain(async () => {
        const record = await parseAppRegistration(registration, Date.now());
        return replace ? await replaceApp(store, record) : await insertApp(store, record);
      }),
    setAppStatus: (appId, status) =>
      explain(async () => {
        if (!(await store.setStatus(appId, status, Date.now()))) throw unknownApp(appId);
        return await readApp(store, appId);
      }),
    removeApp: (appId) =>
      explain(async () => {
        if (!(await store.remove(appId))) throw unknownApp(appId);
      }),
    setQuotas: (appId, spaceId, change) =>
      explain(async () => {
        checkQuotas(spaceId, change);
        const outcome = await store.setQuotas(appId, spaceId, change);
        if (outcome === 'app-unknown') throw unknownApp(appId);
        if (outcome === 'too-many')
          throw tooMany(
            appId,
            `${SPACE_QUOTAS_MAX} Spaces with a quota`,
            '--max-bytes none --max-nodes none --max-commits none',
          );
        return await readApp(store, appId);
      }),
    revoke: (appId, { claim, value, until }) => explain(() => revoke(store, appId, claim, value, until)),
    liftRevocation: (appId, claim, value) =>
      explain(async () => {
        await readApp(store, appId);
        if (await store.liftRevocation(appId, claim, value)) return;
        throw new ServeError(
          `the App ${quote(appId)} has no such revocation; see those it has with: holdfast app list --json`,
        );
      }),
    close,
  };
}

async function revoke(
  store: RegistryStore,
  appId: string,
  claim: RevokedClaim,
  value: string,
  until: number | undefined,
): Promise<Revocation> {
  const now = Date.now();
  const { tokenLifetimeMsMax } = await readApp(store, appId);
  const longest = Math.min(now + tokenLifetimeMsMax, Number.MAX_SAFE_INTEGER);
  const revocation = { claim, value, until: until ?? longest };
  checkRevocation(revocation, now);
  const outcome = await store.revoke(appId, revocation, now - CLOCK_TOLERANCE_MS);
  if (outcome === 'app-unknown') throw unknownApp(appId);
  if (outcome === 'too-many') throw tooMany(appId, `${REVOCATIONS_MAX} revocations`, '--lift');
  return revocation;
}

function tooMany(appId: string, what: string, remedy: string): ServeError {
  return new ServeError(
    `the App ${quote(appId)} has ${what} already, the most there may be: lift some with ${remedy}, or suspend the App`,
  );
}

async function insertApp(store: RegistryStore, record: AppRecord): Promise<AppRecord> {
  const outcome = await store.insert(record);
  if (outcome === 'issuer-taken') throw issuerTaken(record);
  if (outcome === 'app-exists') {
    throw new ServeError(
      `the App ${quote(record.appId)} exists; use --replace to swap its issuer, audience and keys`,
    );
  }
  return readApp(store, record.appId);
}

async function replaceApp(store: RegistryStore, record: AppRecord): Promise<AppRecord> {
  const outcome = await store.replace(record);
  if (outcome === 'issuer-taken') throw issuerTaken(record);
  return outcome === 'app-unknown' ? await insertApp(store, record) : await readApp(store, record.appId);
}

async function readApp(store: RegistryStore, appId: string): Promise<AppRecord> {
  const record = (await store.readAll()).find((each) => each.appId === appId);
  if (record === undefined) throw unknownApp(appId);
  return record;
}

function unknownApp(appId: string): ServeError {
  return new NotFoundError(
    `there is no App ${quote(appId)}; see the registered ones with: holdfast app list`,
  );
}

function issuerTaken(record: AppRecord): ServeError {
  return new ServeError(
    `the issuer ${quote(record.issuer)} belongs to another App; an issuer belongs to exactly one`,
  );
}

async function explain<T>(work: () => Promise<T>): Promise<T> {
  try {
    return await work();
  } catch (error) {
    if (!(error instanceof RegistrationError) && !(error instanceof StoreUnavailable)) throw error;
    throw new ServeError(error.message, { cause: error });
  }
}

function quote(text: string): string {
  return JSON.stringify(text);
}
