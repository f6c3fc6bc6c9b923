/** The socket of the listener for operators. */
import { formatAuthority } from '../engine/address.ts';
import { ServeError } from '../errors.ts';

/** s; a silent connection is closed after this time */
const IDLE_SECONDS_MAX = 60;

export interface OperatorListener {
  readonly port: number;
  pending(): number;
  close(): Promise<void>;
}

interface OperatorListenerOptions {
  readonly host: string;
  /** 0: any free one */
  readonly port: number;
  /** whether to take any free port if the given one is in use */
  readonly mayMove: boolean;
  readonly handle: (request: Request, peer?: string) => Promise<Response>;
}

/** @throws ServeError */
export function listenForOperators({
  host,
  port,
  mayMove,
  handle,
}: OperatorListenerOptions): OperatorListener {
  try {
    return bind(host, port, handle);
  } catch (error) {
    const { code } = error as { code?: unknown };
    if (code === 'EADDRINUSE' && mayMove)
      return listenForOperators({ host, port: 0, mayMove: false, handle });
    throw new ServeError(
      `cannot listen for operators on ${formatAuthority(host, port)} (${typeof code === 'string' ? code : String(error)}): choose another --operator-listen HOST:PORT`,
    );
  }
}

function bind(
  host: string,
  port: number,
  handle: (request: Request, peer?: string) => Promise<Response>,
): OperatorListener {
  const server = Bun.serve({
    hostname: host,
    port,
    // Otherwise two servers could share one address and answer in turn.
    reusePort: false,
    idleTimeout: IDLE_SECONDS_MAX,
    // The code that reads a body bounds it, and says so: the runtime's own 413 would name no request.
    maxRequestBodySize: Number.MAX_SAFE_INTEGER,
    development: false,
    fetch: (request, connections) => {
      // Long work, such as a check, sends nothing meanwhile.
      connections.timeout(request, request.method === 'POST' ? 0 : IDLE_SECONDS_MAX);
      return handle(request, connections.requestIP(request)?.address);
    },
  });
  return {
    port: server.port ?? port,
    pending: () => server.pendingRequests,
    close: () => server.stop(true),
  };
}
