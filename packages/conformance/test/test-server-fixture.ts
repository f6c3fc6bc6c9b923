/** A whole server in this process, on a temporary data folder, with a clock the tests move and limits they can reach. */
import { generateKeyPairSync, randomUUID } from 'node:crypto';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { sweep } from '../../server/core/collect/sweep.ts';
import { openRegistry, parseServeConfig } from '../../server/index.ts';
import { openLog } from '../../server/log.ts';
import { listen } from '../../server/serve/listener.ts';
import { openServer } from '../../server/serve/server.ts';
import type { ConformanceOptions, Identity } from '../index.ts';

const NODE_BYTES_MAX = 6_000_000;
const ACTIVE_UPLOADS_MAX = 24;
const SWEEP_STEPS_MAX = 1000;

export interface TestServer {
  /** the server as a function */
  readonly answer: (url: string, init: RequestInit) => Promise<Response>;
  /** answers without a socket */
  readonly inProcess: ConformanceOptions;
  /** the same server over a real port */
  readonly overSocket: ConformanceOptions;
  close(): Promise<void>;
}

interface RegisteredKey {
  readonly identity: Identity;
  readonly jwks: string;
}

function makeIdentity(appId: string): RegisteredKey {
  const pair = generateKeyPairSync('ec', { namedCurve: 'P-256' });
  const names = { kid: randomUUID(), alg: 'ES256' };
  return {
    identity: {
      appId,
      issuer: `https://issuer.example/${appId}`,
      audience: 'https://cas.example',
      key: { ...pair.privateKey.export({ format: 'jwk' }), ...names },
    },
    jwks: JSON.stringify({ keys: [{ ...pair.publicKey.export({ format: 'jwk' }), ...names, use: 'sig' }] }),
  };
}

async function register(
  dataDir: string,
  keys: readonly RegisteredKey[],
  suspendedAppId: string,
): Promise<void> {
  const registry = await openRegistry({ kind: 'folder', dataDir });
  for (const { identity, jwks } of keys) {
    const { appId, issuer, audience } = identity;
    await registry.addApp({ appId, issuer, audience, keys: { kind: 'static', jwks } });
  }
  await registry.setAppStatus(suspendedAppId, 'suspended');
  await registry.close();
}

export async function openTestServer(): Promise<TestServer> {
  const dataDir = await mkdtemp(join(tmpdir(), 'holdfast-conformance-'));
  const main = makeIdentity('main app/é');
  const second = makeIdentity('second');
  const suspended = makeIdentity('suspended');
  await register(dataDir, [main, second, suspended], suspended.identity.appId);

  const config = await parseServeConfig(
    {
      data: dataDir,
      listen: '127.0.0.1:0',
      maxNodeBytes: String(NODE_BYTES_MAX),
      maxActiveUploads: String(ACTIVE_UPLOADS_MAX),
    },
    { HOLDFAST_LOG_LEVEL: 'silent' },
  );
  let offsetMs = 0;
  const now = () => Date.now() + offsetMs;
  const log = openLog('silent');
  const onFatal = (error: Error) => {
    throw error;
  };
  const server = await openServer({
    config,
    log,
    onFatal,
    worker: 0,
    isAlone: true,
    clock: { now, elapsed: now },
  });
  const listener = listen(config, 0, server);
  const settle = async () => {
    for (let steps = 0; steps < SWEEP_STEPS_MAX; steps++) {
      if (!(await sweep(server.core)).moreToDo) return;
    }
    throw new Error(`the sweep has more to do after ${SWEEP_STEPS_MAX} steps`);
  };
  const shared = {
    identity: main.identity,
    secondIdentity: second.identity,
    suspendedIdentity: suspended.identity,
    hasSingleKey: true,
    nodeBytesMax: NODE_BYTES_MAX,
    activeUploadsMax: ACTIVE_UPLOADS_MAX,
    now,
    settle,
    advanceClock: (ms: number) => {
      offsetMs += ms;
    },
  };
  const answer = async (url: string, init: RequestInit) => server.handle(new Request(url, init));
  return {
    answer,
    inProcess: { ...shared, baseUrl: 'http://holdfast.test', fetch: answer },
    overSocket: { ...shared, baseUrl: `http://127.0.0.1:${listener.port}` },
    async close() {
      await listener.drain();
      await server.close();
      await rm(dataDir, { recursive: true, force: true });
    },
  };
}
