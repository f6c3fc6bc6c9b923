/**
 * A real S3: Ceph's object gateway from Debian with its monitor and object daemon, on loopback. `openCeph` gives a test
 * file buckets of its own on the store that `npm test` shares, or on one started for this file alone; `startCeph` starts a
 * private one that may be killed. tools/debian-programs.mjs installs it where it is missing.
 */
import { randomBytes, randomUUID } from 'node:crypto';
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { makeCephConfig } from './ceph-config.ts';
import {
  type EngineProcess,
  findFreePorts,
  ownEngineFolder,
  runEngineCommand,
  startEngineProcess,
  untilReady,
} from './engine-process.ts';
import { createBucket, type TestBucket } from './s3-request.ts';
import { ROOT } from './server-process.ts';

/** Where `npm test` names the store it shares: the URL of its gateway. */
export const SHARED_CEPH_VARIABLE = 'HOLDFAST_TEST_CEPH_URL';

export interface TestBuckets {
  /** a new, empty bucket */
  createBucket(): Promise<TestBucket>;
  /** ends a store started here */
  close(): Promise<void>;
}

export interface CephServer extends TestBuckets {
  readonly endpoint: string;
  /** kill -9 of the gateway alone; `restart` brings it back */
  killGateway(): Promise<void>;
  /** kill -9 of all three daemons */
  kill(): Promise<void>;
  /** starts again whatever was killed, on the same data and ports; resolves when the gateway answers */
  restart(): Promise<void>;
  log(): string;
}

const REGION = 'us-east-1';
const ACCESS_KEY_ID = 'testaccesskey';
const SECRET_ACCESS_KEY = 'testsecretkey0123456789';
/** Only ends what hangs. */
const START_MS_MAX = 120_000;
const START_ATTEMPTS = 3;
const OSD_PORTS = 20;
/** Unix socket names are limited to 107 bytes, so the path is short. */
const FOLDER_PREFIX = '/tmp/hf-';

export async function openCeph(): Promise<TestBuckets> {
  const shared = process.env[SHARED_CEPH_VARIABLE];
  if (shared === undefined) return startCeph();
  // Its buckets go with the store, at the end of the run.
  return { createBucket: () => makeBucket(shared), close: async () => {} };
}

async function makeBucket(endpoint: string): Promise<TestBucket> {
  const bucket: TestBucket = {
    endpoint,
    name: `test-${randomBytes(6).toString('hex')}`,
    region: REGION,
    accessKeyId: ACCESS_KEY_ID,
    secretAccessKey: SECRET_ACCESS_KEY,
  };
  await createBucket(bucket);
  return bucket;
}

export async function startCeph(): Promise<CephServer> {
  await runEngineCommand(['node', join(ROOT, 'tools', 'debian-programs.mjs'), 'ceph']);
  for (let attempt = 1; ; attempt += 1) {
    const store = new CephStore(await findFreePorts(OSD_PORTS + 2));
    try {
      await store.bootstrap();
      return store;
    } catch (error) {
      await store.close();
      if (attempt === START_ATTEMPTS) throw error;
    }
  }
}

type Daemon = 'monitor' | 'osd' | 'gateway';

class CephStore implements CephServer {
  readonly endpoint: string;
  readonly #folder = mkdtempSync(FOLDER_PREFIX);
  readonly #config = join(this.#folder, 'ceph.conf');
  readonly #fsid = randomUUID();
  readonly #monitorPort: number;
  readonly #daemons = new Map<Daemon, EngineProcess>();

  constructor(firstPort: number) {
    const gatewayPort = firstPort + 1;
    this.#monitorPort = firstPort;
    ownEngineFolder(this.#folder, FOLDER_PREFIX);
    this.endpoint = `http://127.0.0.1:${gatewayPort}`;
    for (const name of ['mon', 'osd', 'rgw', 'log', 'out']) mkdirSync(join(this.#folder, name));
    const ports = {
      monitor: firstPort,
      gateway: gatewayPort,
      osdFirst: firstPort + 2,
      osdLast: firstPort + OSD_PORTS + 1,
    };
    writeFileSync(this.#config, makeCephConfig(this.#folder, this.#fsid, ports));
  }

  async bootstrap(): Promise<void> {
    const map = join(this.#folder, 'monmap');
    const address = `[v2:127.0.0.1:${this.#monitorPort}]`;
    await this.#run('monmaptool', '--create', '--clobber', '--fsid', this.#fsid, '--addv', 'a', address, map);
    await this.#run('ceph-mon', '--mkfs', '-i', 'a', '--monmap', map);
    await this.#startMonitor();
    const osd = randomUUID();
    await this.#run('ceph', 'osd', 'new', osd);
    await this.#run('ceph-osd', '--mkfs', '-i', '0', '--osd-uuid', osd);
    await this.#startOsd();
    await this.#startGateway();
    await this.#run(
      ...(['radosgw-admin', '-n', 'client.rgw', 'user', 'create'] as const),
      ...['--uid=test', '--display-name=test'],
      ...[`--access-key=${ACCESS_KEY_ID}`, `--secret-key=${SECRET_ACCESS_KEY}`],
    );
  }

  createBucket(): Promise<TestBucket> {
    return makeBucket(this.endpoint);
  }

  async killGateway(): Promise<void> {
    await this.#daemons.get('gateway')?.kill();
  }

  async kill(): Promise<void> {
    await Promise.all([...this.#daemons.values()].map((daemon) => daemon.kill()));
  }

  async restart(): Promise<void> {
    if (!this.#isRunning('monitor')) await this.#startMonitor();
    if (!this.#isRunning('osd')) {
      // Otherwise clients wait for the dead daemon until the monitor has noticed.
      await this.#run('ceph', 'osd', 'down', 'osd.0');
      await this.#startOsd();
    }
    if (!this.#isRunning('gateway')) await this.#startGateway();
  }

  log(): string {
    return [...this.#daemons].map(([name, daemon]) => `${name}: ${daemon.log()}`).join('\n');
  }

  async close(): Promise<void> {
    await this.kill();
    rmSync(this.#folder, { recursive: true, force: true });
  }

  #isRunning(name: Daemon): boolean {
    return this.#daemons.get(name)?.isRunning() === true;
  }

  async #startMonitor(): Promise<void> {
    await this.#start('monitor', ['ceph-mon', '-f', '-i', 'a'], () =>
      this.#succeeds('ceph', '--connect-timeout', '5', 'mon', 'stat'),
    );
  }

  async #startOsd(): Promise<void> {
    await this.#start('osd', ['ceph-osd', '-f', '-i', '0'], async () =>
      /\b1 up\b/.test(await this.#run('ceph', 'osd', 'stat')),
    );
  }

  async #startGateway(): Promise<void> {
    await this.#start('gateway', ['radosgw', '-f', '-n', 'client.rgw'], async () => {
      const answer = await fetch(this.endpoint, { keepalive: false }).catch(() => undefined);
      return answer?.status === 200;
    });
  }

  async #start(name: Daemon, command: readonly string[], isReady: () => Promise<boolean>): Promise<void> {
    const daemon = startEngineProcess({
      command: [...command, '-c', this.#config],
      logPath: join(this.#folder, `${name}.out`),
    });
    this.#daemons.set(name, daemon);
    await untilReady(`Ceph's ${name}`, daemon, isReady, START_MS_MAX);
  }

  #run(...command: readonly string[]): Promise<string> {
    return runEngineCommand([...command, '-c', this.#config]);
  }

  async #succeeds(...command: readonly string[]): Promise<boolean> {
    try {
      await this.#run(...command);
      return true;
    } catch {
      return false;
    }
  }
}
