/** Spans in OTLP's JSON. */

export type AttributeValue = string | number | undefined;
export type Attributes = Readonly<Record<string, AttributeValue>>;

type OtlpValue = { readonly stringValue: string } | { readonly intValue: string };

export interface OtlpSpan {
  readonly traceId: string;
  readonly spanId: string;
  readonly parentSpanId?: string;
  readonly flags: number;
  readonly name: string;
  readonly kind: number;
  readonly startTimeUnixNano: string;
  readonly endTimeUnixNano: string;
  readonly attributes: readonly { readonly key: string; readonly value: OtlpValue }[];
  readonly status: { readonly code?: number };
}

/** Numbers of OTLP. `local` and `remote` say where the parent of a sampled span is. */
export const OTLP = { internal: 1, server: 2, error: 2, local: 0x101, remote: 0x301 } as const;

/** Undefined attributes are omitted. Numbers are integers. */
export function encodeAttributes(attributes: Attributes): OtlpSpan['attributes'] {
  return Object.entries(attributes).flatMap(([key, value]) => {
    if (value === undefined) return [];
    return [{ key, value: typeof value === 'number' ? { intValue: String(value) } : { stringValue: value } }];
  });
}

/** Whole microseconds: a float of milliseconds since the epoch holds no more. */
export const encodeTime = (atMs: number): string => `${Math.round(atMs * 1000)}000`;

export function encodeExport(resource: Attributes, version: string, spans: readonly OtlpSpan[]): string {
  const scopeSpans = [{ scope: { name: 'holdfast', version }, spans }];
  return JSON.stringify({
    resourceSpans: [{ resource: { attributes: encodeAttributes(resource) }, scopeSpans }],
  });
}
