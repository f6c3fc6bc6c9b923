/** The SDK for the Space that is signed in to. */

import {
  type Client,
  createClient,
  createNodeSource,
  type NodeSource,
  openTree,
  type TreeReader,
} from '@holdfast/client/internal';
import { computed } from '@preact/signals';
import { readClaims, type SpaceAccess, spaceAccess, type TokenClaims } from '../space-session.ts';

export interface Connection extends SpaceAccess {
  readonly client: Client;
  /** for long jobs, which try again by themselves */
  readonly jobClient: Client;
  readonly source: NodeSource;
  readonly tree: TreeReader;
  readonly claims: TokenClaims | undefined;
}

export const connection = computed<Connection | undefined>(() => {
  const access = spaceAccess.value;
  return access === undefined ? undefined : connect(access);
});

/** Throws CasError for an address or name that cannot be one. Sends nothing. */
export function connect(access: SpaceAccess): Connection {
  const { url: baseUrl, app: appId, space: spaceId, token } = access;
  const target = { baseUrl, appId, spaceId, token };
  const client = createClient(target);
  const source = createNodeSource(client);
  return {
    ...access,
    client,
    jobClient: createClient({ ...target, retry: { attemptsMax: 1 } }),
    source,
    tree: openTree(source),
    claims: readClaims(token),
  };
}
