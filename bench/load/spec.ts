/** The task of a load generator and its answer; both travel as JSON files between processes. */

/**
 * One request as it goes over the wire, Latin-1. When `after` is there, a 12-digit counter unique to the run is sent
 * between the two (a fresh `requestId`, say); the length headers already count it.
 */
export interface RequestTemplate {
  readonly before: string;
  readonly after?: string;
}

/** Where one PUT goes and what it has to send along. */
export interface PutTarget {
  readonly url: string;
  readonly headers: Readonly<Record<string, string>>;
}

/** A Space that the load may enter. */
export interface LoadSpace {
  readonly token: string;
  /** `/v1/apps/…/spaces/SPACE` */
  readonly spacePath: string;
}

export type Flow =
  /** every connection walks the requests round robin; every answer must have the status */
  | { readonly kind: 'fixed'; readonly requests: readonly RequestTemplate[]; readonly status: number }
  /** lease, PUT where the lease says, lease of a node nobody has seen: `contentBytes` of content each */
  | {
      readonly kind: 'put-nodes';
      /** one after the other */
      readonly spaces: readonly LoadSpace[];
      readonly contentBytes: number;
    }
  /** leases, PUT and pack lease of `nodesPerPack` nodes nobody has seen, in one pack */
  | {
      readonly kind: 'put-packs';
      /** one after the other */
      readonly spaces: readonly LoadSpace[];
      readonly contentBytes: number;
      readonly nodesPerPack: number;
    }
  /** POST an upload, PUT the blob with its digest: the same canonical bytes as put-nodes */
  | { readonly kind: 'push-blobs'; readonly repository: string; readonly contentBytes: number }
  /** PUT the canonical bytes of a node nobody has seen to the next of `targets`: the same bytes as put-nodes */
  | { readonly kind: 'put-objects'; readonly targets: readonly PutTarget[]; readonly contentBytes: number }
  /** every connection puts one node of `canonicalBytes`; nobody sends its second half before all have sent their first */
  | {
      readonly kind: 'put-large';
      readonly space: LoadSpace;
      readonly canonicalBytes: number;
    };

export interface LoadSpec {
  readonly port: number;
  readonly connections: number;
  /** stop starting new work after this; `put-large` ignores it */
  readonly seconds: number;
  /** and after this many steps in all */
  readonly stepsMax?: number;
  /** makes the content of this run differ from any other run's */
  readonly seed: string;
  readonly flow: Flow;
}

export interface LoadResult {
  /** whole flows done: one request for `fixed`, one pack for `put-packs`, one node for the others */
  readonly done: number;
  readonly elapsedMs: number;
  /** body bytes received */
  readonly bytes: number;
  /** message → how often; a load with any is no measurement */
  readonly errors: Record<string, number>;
  readonly latencyMs: {
    readonly p50: number;
    readonly p90: number;
    readonly p99: number;
    readonly max: number;
  };
  /** share of one core that the generator itself used, 0…1 */
  readonly loaderCpu: number;
  /** `put-large`: how many had sent half before anyone sent more */
  readonly togetherAtHalf?: number;
}

export const COUNTER_DIGITS = 12;

/** A request with the usual headers. `body` may contain the marker once, where the counter goes. */
export function formatRequest(request: {
  readonly method: string;
  readonly path: string;
  /** where it is signed; default: the address alone */
  readonly host?: string;
  readonly headers?: Readonly<Record<string, string>>;
  readonly body?: string;
}): RequestTemplate {
  const [before = '', after] = (request.body ?? '').split(COUNTER_MARKER);
  const length = before.length + (after === undefined ? 0 : COUNTER_DIGITS + after.length);
  const lines = [`${request.method} ${request.path} HTTP/1.1`, `host: ${request.host ?? '127.0.0.1'}`];
  for (const [name, value] of Object.entries(request.headers ?? {})) lines.push(`${name}: ${value}`);
  if (request.body !== undefined) lines.push(`content-length: ${length}`);
  const head = `${lines.join('\r\n')}\r\n\r\n`;
  return after === undefined ? { before: head + before } : { before: head + before, after };
}

/** Stands for the counter in a request body. */
export const COUNTER_MARKER = '{counter}';
