/** The trace of a request, and whether it is sampled. */

export const SAMPLERS = [
  'always_on',
  'always_off',
  'traceidratio',
  'parentbased_always_on',
  'parentbased_always_off',
  'parentbased_traceidratio',
] as const;
export const DEFAULT_SAMPLER = 'parentbased_always_on';

export interface Sampler {
  readonly kind: (typeof SAMPLERS)[number];
  /** 0 to 1; for the kinds that keep a share */
  readonly ratio: number;
}

interface TraceParent {
  readonly traceId: string;
  readonly spanId: string;
  readonly isSampled: boolean;
}

const TRACE_PARENT = /^([0-9a-f]{2})-([0-9a-f]{32})-([0-9a-f]{16})-([0-9a-f]{2})(-.*)?$/;
const NO_ID = /^0+$/;

/** The `traceparent` of W3C Trace Context; undefined if malformed. */
export function parseTraceParent(header: string | null): TraceParent | undefined {
  const [, version, traceId = '', spanId = '', flags = '', more] = TRACE_PARENT.exec(header ?? '') ?? [];
  if (version === undefined || version === 'ff' || (version === '00' && more !== undefined)) return undefined;
  if (NO_ID.test(traceId) || NO_ID.test(spanId)) return undefined;
  return { traceId, spanId, isSampled: (Number.parseInt(flags, 16) & 1) === 1 };
}

export function isKept({ kind, ratio }: Sampler, traceId: string, parent: TraceParent | undefined): boolean {
  if (parent !== undefined && kind.startsWith('parentbased_')) return parent.isSampled;
  if (kind.endsWith('always_on')) return true;
  if (kind.endsWith('always_off')) return false;
  // The last 56 bits of a trace id are random.
  return Number.parseInt(traceId.slice(-14), 16) < ratio * 2 ** 56;
}
