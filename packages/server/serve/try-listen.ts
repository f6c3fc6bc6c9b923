/** Whether the server's port is free right now. */
import { createServer } from 'node:net';
import { HEALTH_PATH } from '@holdfast/protocol';
import { formatAuthority } from '../engine/address.ts';
import type { ServeConfig } from './config.ts';
import { nameLocalUrl } from './local-address.ts';

interface ListenFindings {
  readonly problems: readonly string[];
  readonly found: readonly string[];
}

/** Identifies a Holdfast server on either listener. */
const SIGNS = {
  '--listen': { path: HEALTH_PATH, answer: '{"status":"ok"}' },
  '--operator-listen': { path: '/livez', answer: 'ok' },
} as const;

/** `isServed`: a server already uses these engines, so it may hold the ports. */
export async function tryAddresses(
  { host, port, operators }: ServeConfig,
  isServed: boolean,
): Promise<ListenFindings> {
  const own = await tryListen('--listen', { host, port }, isServed);
  // Without a flag, the operator listener takes another port.
  if (operators === undefined || operators.mayMove) return own;
  const others = await tryListen('--operator-listen', operators, isServed);
  return { problems: [...own.problems, ...others.problems], found: [...own.found, ...others.found] };
}

async function tryListen(
  flag: keyof typeof SIGNS,
  { host, port }: Pick<ServeConfig, 'host' | 'port'>,
  isServed: boolean,
): Promise<ListenFindings> {
  if (port === 0) return { problems: [], found: [`${flag}: the system will choose a free port`] };
  const where = formatAuthority(host, port);
  const code = await findListenError(host, port);
  if (code === undefined) return { problems: [], found: [`${flag}: ${where} is free`] };
  // If engines are shared, the running server may be on another machine, and the port another program's.
  if (code === 'EADDRINUSE' && isServed && (await isHoldfast(flag, host, port))) {
    return { problems: [], found: [`${flag}: ${where} is taken by a Holdfast server that runs`] };
  }
  return { problems: [`${flag} ${where}: ${adviseOn(code)}`], found: [] };
}

async function isHoldfast(flag: keyof typeof SIGNS, host: string, port: number): Promise<boolean> {
  const { path, answer } = SIGNS[flag];
  try {
    const response = await fetch(`${nameLocalUrl(host, port)}${path}`, {
      signal: AbortSignal.timeout(2_000),
      redirect: 'manual',
    });
    return (await response.text()).trim() === answer;
  } catch {
    return false;
  }
}

function adviseOn(code: string): string {
  if (code === 'EADDRINUSE') return 'the port is taken; stop what listens there, or choose another';
  if (code === 'EACCES') return 'this user may not listen on that port; choose one from 1024 on';
  return `cannot listen there (${code}); give an address of this machine`;
}

function findListenError(host: string, port: number): Promise<string | undefined> {
  const { promise, resolve } = Promise.withResolvers<string | undefined>();
  const server = createServer();
  server.once('error', (error: NodeJS.ErrnoException) => resolve(error.code ?? error.message));
  server.listen({ host, port, exclusive: true }, () => server.close(() => resolve(undefined)));
  return promise;
}
