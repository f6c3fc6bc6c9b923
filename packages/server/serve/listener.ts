/** The socket: binds the handler to a port, and closes it without breaking requests. */

import { formatAuthority } from '../engine/address.ts';
import { ServeError } from '../errors.ts';
import type { Handler } from '../http/handler.ts';
import { routesOf } from '../http/routes.ts';
import { AcceptThrottle } from '../runtime/accept-throttle.ts';
import { widenBacklog } from '../runtime/widen-backlog.ts';
import type { ServeConfig } from './config.ts';

export interface Listener {
  readonly port: number;
  /** Accepts no more connections, closes idle ones at once, waits for requests in progress, then closes the rest. */
  drain(): Promise<void>;
}

/** `port` replaces the configured one, because workers share the port of the first. Throws ServeError. */
export function listen(config: ServeConfig, port: number, handler: Handler): Listener {
  let server: Bun.Server<undefined>;
  let throttle: AcceptThrottle | undefined;
  const counted = noting(handler, () => throttle?.note());
  try {
    server = Bun.serve({
      hostname: config.host,
      port,
      reusePort: config.workers > 1,
      idleTimeout: config.idleSeconds,
      // The code that reads a body enforces its limit: that of JSON, or that of nodes at the upload target.
      maxRequestBodySize: Number.MAX_SAFE_INTEGER,
      development: false,
      routes: routesOf(counted),
      fetch: counted.refuse,
      error: handler.replaceUnsent,
    });
  } catch (error) {
    throw explainListenError(config.host, port, error);
  }
  const bound = server.port ?? port;
  widenBacklog(bound);
  throttle = AcceptThrottle.open(bound);
  return {
    port: bound,
    drain: () => {
      throttle?.end();
      return drain(server);
    },
  };
}

/** The same handler, with `note` called for each request. */
function noting(handler: Handler, note: () => void): Handler {
  return {
    ...handler,
    handle(request, connections) {
      note();
      return handler.handle(request, connections);
    },
    handleSpace(match, query, request, connections) {
      note();
      return handler.handleSpace(match, query, request, connections);
    },
    refuse(request, connections) {
      note();
      return handler.refuse(request, connections);
    },
  };
}

async function drain(server: Bun.Server<undefined>): Promise<void> {
  // docs/operations.md promises 10 s.
  const endsAt = performance.now() + 12_000;
  // Stops listening now. Resolves when every connection is closed; the loop below closes them.
  void server.stop();
  while (server.pendingRequests > 0 && performance.now() < endsAt) {
    closeIdleConnections(server);
    await Bun.sleep(25);
  }
  await server.stop(true);
}

/** The runtime has this function since 1.3; its types do not. */
function closeIdleConnections(server: Bun.Server<undefined> & { closeIdleConnections?: () => void }): void {
  server.closeIdleConnections?.();
}

/** Throws ServeError if a process already listens on the port. The kernel does not check that for a shared port. */
export function assertPortIsFree(host: string, port: number): void {
  if (port === 0) return;
  try {
    Bun.listen({ hostname: host, port, exclusive: true, socket: { data: () => undefined } }).stop(true);
  } catch (error) {
    throw explainListenError(host, port, error);
  }
}

function explainListenError(host: string, port: number, error: unknown): unknown {
  const address = formatAuthority(host, port);
  const code = (error as { code?: unknown } | null)?.code;
  switch (code) {
    case 'EADDRINUSE':
      return new ServeError(
        `${address} is in use: stop what listens there, or choose another --listen HOST:PORT`,
      );
    case 'EACCES':
    case 'EPERM':
      return new ServeError(
        `no right to listen on ${address}: choose a port from 1024 up in --listen HOST:PORT`,
      );
    default:
      return new ServeError(
        `cannot listen on ${address} (${typeof code === 'string' ? code : String(error)}): check the host of --listen HOST:PORT`,
      );
  }
}
