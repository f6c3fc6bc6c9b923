/** A registered App in a world of its own, and requests on it. */
import { ApiError, type OperationName } from '@holdfast/protocol';
import { type Authorizer, authorize, openAuthorizer } from '../authorize.ts';
import type { Capability } from '../capability.ts';
import type { AppRecord } from '../registry-store.ts';
import {
  APP_ID,
  appRecord,
  keySetText,
  MemoryRegistryStore,
  mint,
  SPACE_ID,
  type TokenParts,
  testKey,
} from './auth-fixture.ts';
import { FakeWorld } from './fake-world-fixture.ts';

export const key = await testKey('ES256');

export interface Scene {
  readonly world: FakeWorld;
  readonly store: MemoryRegistryStore;
  readonly authorizer: Authorizer;
}

export async function openScene(change: Partial<AppRecord> = {}, keyMembers: object = {}): Promise<Scene> {
  const world = new FakeWorld();
  const jwks = keySetText({ ...key.publicJwk, ...keyMembers });
  const store = new MemoryRegistryStore(appRecord({ keys: { kind: 'static', jwks }, ...change }));
  const authorizer = await openAuthorizer(store, world);
  return { world, store, authorizer };
}

export interface Ask {
  readonly appId?: string | undefined;
  readonly spaceId?: string | undefined;
  readonly operation?: OperationName;
}

export async function ask(scene: Scene, authorization: string | null, target: Ask = {}): Promise<Capability> {
  const { appId, spaceId, operation } = {
    appId: APP_ID,
    spaceId: SPACE_ID,
    operation: 'readMetadata' as const,
    ...target,
  };
  return await authorize(scene.authorizer, authorization, appId, spaceId, operation);
}

/** The code of the refusal, or "granted". */
export async function outcome(scene: Scene, authorization: string | null, target: Ask = {}): Promise<string> {
  return await ask(scene, authorization, target).then(
    () => 'granted',
    (error: unknown) => (error instanceof ApiError ? error.code : `not an ApiError: ${error}`),
  );
}

export async function outcomeOf(parts: TokenParts, scene?: Scene): Promise<string> {
  const where = scene ?? (await openScene());
  return await outcome(where, `Bearer ${await mint(key, where.world.now(), parts)}`);
}

export async function refusal(
  scene: Scene,
  authorization: string | null,
  target: Ask = {},
): Promise<ApiError> {
  const error = await ask(scene, authorization, target).then(
    () => undefined,
    (reason: unknown) => reason,
  );
  if (!(error instanceof ApiError)) throw new Error(`no ApiError: ${error}`);
  return error;
}
