/** Our server as a user runs it: the command line makes the key, registers the App, mints the token and serves. */
import { existsSync, mkdirSync, readFileSync, rmSync } from 'node:fs';
import { join } from 'node:path';
import { AUTHORITIES, LEASE_DURATION_MS_MAX, NODE_MEDIA_TYPE } from '@holdfast/protocol';
import { importJWK, type JWK, SignJWT } from 'jose';
import type { Bench } from './bench.ts';
import { type ServerProcess, startServer } from './child-process.ts';
import type { LoadSpace } from './load/spec.ts';

export const ROOT = join(import.meta.dir, '..');
/** As bin/holdfast starts it, without its shell: a profile flag must be able to go in between. */
const bunFlags = (root: string): readonly string[] => [
  '--no-env-file',
  '--no-install',
  `--config=${join(root, 'bin', 'bunfig.toml')}`,
  `--tsconfig-override=${join(root, 'bin', 'tsconfig.json')}`,
];
const ISSUER = 'https://bench.example';
const AUDIENCE = 'holdfast-bench';

export const APP = 'bench';
export const REF_DOMAIN = 'bench';

/** A Space one may enter, and where it is. */
export interface EnteredSpace extends LoadSpace {
  readonly port: number;
}

/** The server, entered at its first Space. */
export interface Holdfast extends EnteredSpace {
  readonly process: ServerProcess;
  readonly dataFolder: string;
  /** one per name in `HoldfastOptions.spaces`, in order */
  readonly spaces: readonly EnteredSpace[];
  readonly close: () => Promise<void>;
}

export interface HoldfastOptions {
  /** names the data folder; two servers of one row differ in it */
  readonly name: string;
  /** fills the data folder before the server starts */
  readonly fill?: (dataFolder: string) => Promise<void>;
  /** default: one */
  readonly spaces?: readonly string[];
  /** how many share the port; default: one */
  readonly processes?: number;
  /** the environment that names engines of their own (HOLDFAST_METADATA …); left out, everything is in the data folder */
  readonly engines?: Readonly<Record<string, string>>;
  /** the checkout that the server runs from; default: this one */
  readonly sources?: string;
  /** a built executable that serves instead of the sources */
  readonly program?: string | undefined;
  /** more of the server's environment */
  readonly environment?: Readonly<Record<string, string>>;
}

export async function startHoldfast(bench: Bench, options: HoldfastOptions): Promise<Holdfast> {
  const folder = join(bench.folder, `holdfast-${options.name}`);
  rmSync(folder, { recursive: true, force: true });
  const dataFolder = join(folder, 'data');
  const key = join(bench.folder, 'private.jwk');
  const jwks = join(bench.folder, 'public.json');
  mkdirSync(dataFolder, { recursive: true });
  if (!existsSync(key)) runCli(['key', 'new', '--out', key, '--jwks', jwks]);
  const app = ['app', 'add', APP, '--issuer', ISSUER, '--audience', AUDIENCE, '--jwks-file', jwks];
  const environment = { ...process.env, ...options.engines };
  runCli([...app, ...(options.engines === undefined ? ['--data', dataFolder] : ['--replace'])], environment);
  await options.fill?.(dataFolder);
  const profile = bench.profileFolder;
  const flags =
    profile === undefined
      ? []
      : ['--cpu-prof', '--cpu-prof-dir', profile, '--cpu-prof-name', `${options.name}.cpuprofile`];
  const processes = String(options.processes ?? 1);
  const serve = ['serve', '--listen', '127.0.0.1:0', '--data', dataFolder, '--workers', processes];
  const command =
    options.program === undefined ? cliCommand(serve, flags, options.sources) : [options.program, ...serve];
  const server = await startServer(command, {
    core: bench.cores?.server,
    env: { ...options.engines, ...options.environment },
    logFile: join(folder, 'server.log'),
    ready: { line: /^holdfast listening on / },
  });
  const port = Number(/:(\d+)\s*$/.exec(server.lines[0] ?? '')?.[1]);
  const tokens = await mintTokens(key, options.spaces ?? ['bench']);
  const spaces = [...tokens].map(([space, token]) => ({
    port,
    token,
    spacePath: `/v1/apps/${APP}/spaces/${space}`,
  }));
  return {
    ...(spaces[0] as EnteredSpace),
    process: server,
    dataFolder,
    spaces,
    close: async () => {
      await server.stop();
      rmSync(folder, { recursive: true, force: true });
    },
  };
}

async function mintTokens(keyPath: string, spaces: readonly string[]): Promise<Map<string, string>> {
  const jwk = JSON.parse(readFileSync(keyPath, 'utf8')) as JWK & { readonly alg: string };
  const key = await importJWK(jwk);
  const tokens = spaces.map(async (spaceId): Promise<[string, string]> => {
    const claims = { ver: 1, spaceId, refDomain: REF_DOMAIN, permissions: AUTHORITIES };
    const token = new SignJWT(claims).setProtectedHeader({
      alg: jwk.alg,
      ...(jwk.kid === undefined ? {} : { kid: jwk.kid }),
    });
    const dated = token.setIssuer(ISSUER).setAudience(AUDIENCE).setIssuedAt().setExpirationTime('12h');
    return [spaceId, await dated.sign(key)];
  });
  return new Map(await Promise.all(tokens));
}

function runCli(args: readonly string[], env: Record<string, string | undefined> = process.env): string {
  const done = Bun.spawnSync(cliCommand(args), { stdin: 'ignore', env });
  if (done.exitCode !== 0) throw new Error(`holdfast ${args[0]} failed: ${done.stderr.toString().trim()}`);
  return done.stdout.toString();
}

/** The command line as bin/holdfast starts it; `flags` are the runtime's. */
export function cliCommand(args: readonly string[], flags: readonly string[] = [], root = ROOT): string[] {
  return [process.execPath, ...bunFlags(root), ...flags, join(root, 'packages', 'cli', 'start.ts'), ...args];
}

/** One authorised call; returns the parsed JSON answer, throws on any status but 200. */
export async function call<T>(
  server: EnteredSpace,
  method: 'GET' | 'POST',
  path: string,
  body?: unknown,
): Promise<T> {
  const response = await fetch(`http://127.0.0.1:${server.port}${server.spacePath}${path}`, {
    method,
    headers: { authorization: `Bearer ${server.token}`, 'content-type': 'application/json' },
    ...(body === undefined ? {} : { body: JSON.stringify(body) }),
  });
  const text = await response.text();
  if (response.status !== 200) throw new Error(`${method} ${path} answered ${response.status}: ${text}`);
  return JSON.parse(text) as T;
}

/** One authorised call of Bulk; throws on any status but 200. */
export function callBulk<T>(server: EnteredSpace, path: string, body: unknown): Promise<T> {
  return call({ ...server, spacePath: `/bulk${server.spacePath}` }, 'POST', path, body);
}

interface LeaseAnswer {
  readonly state: string;
  readonly upload?: { readonly url: string; readonly headers: Record<string, string> };
}

/** Lease, PUT, lease: the way every node gets in. Throws unless the node is ready afterwards. */
async function putNode(
  server: EnteredSpace,
  node: { readonly hash: string; readonly bytes: Uint8Array },
): Promise<void> {
  const path = `/cas/nodes/${node.hash}/lease`;
  const lease = { leaseDurationMs: LEASE_DURATION_MS_MAX };
  const first = await call<LeaseAnswer>(server, 'POST', path, lease);
  if (first.upload === undefined) throw new Error(`The first lease answered ${first.state}.`);
  const put = await fetch(first.upload.url, {
    method: 'PUT',
    headers: first.upload.headers,
    body: node.bytes as BodyInit,
  });
  if (put.status !== 200)
    throw new Error(`The upload of a ${NODE_MEDIA_TYPE} answered ${put.status}: ${await put.text()}`);
  const last = await call<LeaseAnswer>(server, 'POST', path, lease);
  if (last.state !== 'ready') throw new Error(`The last lease answered ${last.state}.`);
}

/** Puts `count` distinct nodes, eight at a time, and returns their hashes. */
export async function putNodes(
  server: EnteredSpace,
  next: () => { hash: string; bytes: Uint8Array },
  count: number,
): Promise<string[]> {
  const hashes: string[] = [];
  const drive = async (): Promise<void> => {
    while (hashes.length < count) {
      const node = next();
      hashes.push(node.hash);
      await putNode(server, { hash: node.hash, bytes: node.bytes.slice() });
    }
  };
  await Promise.all(Array.from({ length: 8 }, drive));
  return hashes;
}
