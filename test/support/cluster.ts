/**
 * Several real `holdfast serve` processes over one PostgreSQL and one bucket: each may reach them through proxies of its
 * own, and have a clock of its own that is wrong.
 */
import { mkdirSync } from 'node:fs';
import { join } from 'node:path';
import { openCeph, type TestBuckets } from './ceph-server.ts';
import { type Issuer, makeIssuer } from './issuer.ts';
import { openPostgres, type TestDatabases } from './postgres-server.ts';
import { APP, SPACE } from './running-server.ts';
import type { TestBucket } from './s3-request.ts';
import { addApp, ROOT, type ServerProcess, startServer } from './server-process.ts';
import { makeSpaceClient, type SpaceClient } from './space-client.ts';
import { startTcpProxy, type TcpProxy } from './tcp-proxy.ts';
import { makeTempFolder } from './temp-folder.ts';

/** The addresses of rows and bytes as the tests reach them: never through a proxy. */
export interface ClusterEngines {
  readonly metadataUrl: string;
  readonly bucket: TestBucket;
}

export interface ClusterOptions {
  readonly processes?: number;
  /** the App it registers and its clients speak as */
  readonly appId?: string;
  /** those of `openEngines` by default */
  readonly engines?: ClusterEngines;
  /** further arguments of `holdfast serve` */
  readonly arguments?: readonly string[];
  /** further parameters of the URL of `--metadata`, such as `connections=4` */
  readonly metadataParameters?: Readonly<Record<string, string>>;
  /** servers reach the engines through proxies, each server through its own */
  readonly isProxied?: boolean;
  /** how far clocks may differ before nothing is collected; by default a year, because most tests move one clock alone */
  readonly maxClockSkew?: string;
  /** by default nothing is kept, because most tests look at what is left in the bucket; `default`: as a server does by itself */
  readonly keepReplaced?: string;
  /** how far the clock of each process is off, ms */
  readonly clockOffsetsMs?: readonly number[];
}

export interface ClusterServer {
  readonly index: number;
  /** the one that runs, or ran last */
  readonly process: ServerProcess;
  /** between this server and the engines; undefined unless the cluster is proxied */
  readonly postgresProxy: TcpProxy | undefined;
  readonly s3Proxy: TcpProxy | undefined;
  kill(): Promise<void>;
  /** drains; resolves with the exit code */
  terminate(): Promise<number | string>;
  start(): Promise<void>;
}

export interface Cluster extends ClusterEngines {
  readonly servers: readonly ClusterServer[];
  readonly issuer: Issuer;
  /** each request goes to the next server that runs */
  client(spaceId?: string): SpaceClient;
  clientOf(index: number, spaceId?: string): SpaceClient;
  logs(): string;
  /** ends all servers; the engines stay */
  remove(): Promise<void>;
}

const PROCESSES = 3;
const SHIFTED_CLOCK = join(ROOT, 'test', 'support', 'shifted-clock.ts');
const TOKEN_SECONDS = 3600;
const TOKEN_AGE_SECONDS = 60;
const LOG_CHARS_SHOWN = 3000;

export interface OpenEngines extends ClusterEngines {
  close(): Promise<void>;
}

/** A fresh database and a fresh bucket on the engines that test files share. */
export async function openEngines(): Promise<OpenEngines> {
  const opened: (TestDatabases | TestBuckets)[] = [];
  const close = async (): Promise<void> => {
    for (const each of opened.splice(0)) await each.close();
  };
  try {
    const postgres = await openPostgres();
    opened.push(postgres);
    const ceph = await openCeph();
    opened.push(ceph);
    return {
      metadataUrl: await postgres.createDatabase(),
      bucket: await ceph.createBucket(),
      close,
    };
  } catch (error) {
    await close();
    throw error;
  }
}

/** `--content` for a bucket, reached at `endpoint`. */
export function formatContentUrl(bucket: TestBucket, endpoint = bucket.endpoint): string {
  const parameters = new URLSearchParams({ endpoint, region: bucket.region });
  return `s3://${bucket.name}?${parameters}`;
}

/** The usual AWS variables. */
export function makeS3Environment(bucket: TestBucket): Record<string, string> {
  return { AWS_ACCESS_KEY_ID: bucket.accessKeyId, AWS_SECRET_ACCESS_KEY: bucket.secretAccessKey };
}

export async function startCluster(engines: ClusterEngines, options: ClusterOptions = {}): Promise<Cluster> {
  const folder = makeTempFolder('cluster');
  const appId = options.appId ?? APP;
  const issuer = makeIssuer(`https://issuer.test/${appId}`);
  const servers: RealClusterServer[] = [];
  const remove = async (): Promise<void> => {
    await Promise.all(servers.map((server) => server.remove()));
    folder.remove();
  };
  try {
    await addApp(join(folder.path, 'data'), appId, issuer, engines.metadataUrl);
    for (let index = 0; index < (options.processes ?? PROCESSES); index += 1) {
      servers.push(new RealClusterServer(index, join(folder.path, `data-${index}`), engines, options));
    }
    await Promise.all(servers.map((server) => server.start()));
  } catch (error) {
    await remove();
    throw error;
  }
  const makeToken = (spaceId: string): string => {
    // Early enough for a server whose clock is behind.
    const iat = Math.floor(Date.now() / 1000) - TOKEN_AGE_SECONDS;
    return issuer.token(spaceId, { iat, exp: iat + TOKEN_SECONDS });
  };
  return {
    ...engines,
    servers,
    issuer,
    client(spaceId = SPACE) {
      let turn = 0;
      const findUrl = (): string => {
        const running = servers.filter((server) => server.process.isRunning());
        turn += 1;
        const server = running[turn % running.length];
        if (server === undefined) throw new Error('no server of the cluster runs');
        return server.process.url;
      };
      return makeSpaceClient(findUrl, appId, spaceId, makeToken(spaceId), false);
    },
    clientOf(index, spaceId = SPACE) {
      const server = servers[index];
      if (server === undefined) throw new Error(`the cluster has no server ${index}`);
      return makeSpaceClient(() => server.process.url, appId, spaceId, makeToken(spaceId), false);
    },
    logs: () =>
      servers
        .map(({ index, process }) => `server ${index}: ${process.log().slice(-LOG_CHARS_SHOWN)}`)
        .join('\n'),
    remove,
  };
}

class RealClusterServer implements ClusterServer {
  readonly index: number;
  readonly #data: string;
  readonly #engines: ClusterEngines;
  readonly #options: ClusterOptions;
  #process: ServerProcess | undefined;
  postgresProxy: TcpProxy | undefined;
  s3Proxy: TcpProxy | undefined;

  constructor(index: number, data: string, engines: ClusterEngines, options: ClusterOptions) {
    this.index = index;
    this.#data = data;
    this.#engines = engines;
    this.#options = options;
    mkdirSync(data);
  }

  get process(): ServerProcess {
    if (this.#process === undefined) throw new Error(`server ${this.index} was never started`);
    return this.#process;
  }

  async start(): Promise<void> {
    const { bucket } = this.#engines;
    const metadata = new URL(this.#engines.metadataUrl);
    if (this.#options.isProxied === true) {
      this.postgresProxy ??= await startTcpProxy({ port: Number(metadata.port) });
      this.s3Proxy ??= await startTcpProxy({ port: Number(new URL(bucket.endpoint).port) });
      metadata.port = String(this.postgresProxy.port);
    }
    for (const [name, value] of Object.entries(this.#options.metadataParameters ?? {})) {
      metadata.searchParams.set(name, value);
    }
    const endpoint = this.s3Proxy === undefined ? bucket.endpoint : `http://${this.s3Proxy.address}`;
    const offsetMs = this.#options.clockOffsetsMs?.[this.index];
    const { keepReplaced = '0s' } = this.#options;
    this.#process = await startServer({
      data: this.#data,
      arguments: [
        ...['--metadata', metadata.href, '--content', formatContentUrl(bucket, endpoint)],
        ...['--max-clock-skew', this.#options.maxClockSkew ?? '365d'],
        ...(keepReplaced === 'default' ? [] : ['--keep-replaced', keepReplaced]),
        ...(this.#options.arguments ?? []),
      ],
      environment: {
        ...makeS3Environment(bucket),
        ...(offsetMs === undefined ? {} : shiftClock(offsetMs)),
      },
    });
  }

  async kill(): Promise<void> {
    await this.process.end('SIGKILL');
  }

  terminate(): Promise<number | string> {
    return this.process.end('SIGTERM');
  }

  async remove(): Promise<void> {
    if (this.#process?.isRunning() === true) await this.kill();
    await this.postgresProxy?.close();
    await this.s3Proxy?.close();
  }
}

function shiftClock(offsetMs: number): Record<string, string> {
  return {
    BUN_OPTIONS: `--preload=${SHIFTED_CLOCK}`,
    HOLDFAST_TEST_CLOCK_OFFSET_MS: String(offsetMs),
  };
}
