/** Every response header the interface promises. */
import type { JsonSchema } from './schemas.ts';

interface HeaderModel {
  readonly description: string;
  /** false when a rule or the configuration decides whether it is there */
  readonly required: boolean;
  readonly schema: JsonSchema;
  readonly example?: string | number;
}

function always(description: string, schema: JsonSchema, example?: string | number): HeaderModel {
  return { description, required: true, schema, ...(example === undefined ? {} : { example }) };
}

function sometimes(description: string, schema: JsonSchema, example?: string | number): HeaderModel {
  return { ...always(description, schema, example), required: false };
}

export const HEADER_MODELS = {
  'Server-Timing': always(
    'Aggregated metrics of this answer, each name once with its duration in milliseconds, with a call count when above one: cas_edge, cas_auth, cas_schema, cas_dispatch, cas_meta_*, cas_content_*.',
    { type: 'string', minLength: 1 },
    'cas_edge;dur=0.31, cas_auth;dur=0.02, cas_dispatch;dur=0.18, cas_meta_read;dur=0.05;desc="2 calls"',
  ),
  'Timing-Allow-Origin': always('Any page may read the timing.', { const: '*', type: 'string' }),
  'Access-Control-Allow-Origin': sometimes(
    'Which origins may read the answer; `*` by default, configurable.',
    {
      type: 'string',
      default: '*',
    },
  ),
  'Access-Control-Expose-Headers': sometimes(
    'Which headers pages of another origin may read.',
    { type: 'string' },
    'Accept-Ranges, Content-Length, Content-Range, Holdfast-Rotten-Nodes, Retry-After, Server-Timing, WWW-Authenticate, X-Request-Id',
  ),
  'Accept-Ranges': always('Byte ranges are served.', { const: 'bytes', type: 'string' }),
  'Content-Length': always('Bytes of this body.', { type: 'integer', minimum: 0 }),
  'Content-Range': always(
    'Which bytes of how many: `bytes {start}-{end}/{size}`, both ends included.',
    { type: 'string', pattern: '^bytes [0-9]+-[0-9]+/[0-9]+$' },
    'bytes 0-4/11',
  ),
  'Content-Range-Unsatisfied': always(
    'How many bytes there are: `bytes */{size}`.',
    { type: 'string', pattern: '^bytes \\*/[0-9]+$' },
    'bytes */11',
  ),
  'Cache-Control-Immutable': always('Content never changes; only the holder of the capability may keep it.', {
    const: 'private, max-age=31536000, immutable',
    type: 'string',
  }),
  'Cache-Control-No-Store': always('Not to be kept.', { const: 'no-store', type: 'string' }),
  Vary: always('Another capability may see another answer.', { type: 'string' }, 'Authorization'),
  'X-Content-Type-Options': always('The content type is not to be guessed.', {
    const: 'nosniff',
    type: 'string',
  }),
  'Content-Security-Policy': always('Content never runs as a page.', {
    const: "sandbox; default-src 'none'",
    type: 'string',
  }),
  'WWW-Authenticate': always(
    'The scheme to authenticate with and the RFC 6750 error.',
    { type: 'string', pattern: '^Bearer' },
    'Bearer error="invalid_token"',
  ),
  'Holdfast-Rotten-Nodes': sometimes(
    'How many nodes of the Space the server knows to be lost or damaged, counted no further than 1000; absent when it knows of none. A ready node says nothing about the nodes below it: lease each of them to learn which to upload again.',
    { type: 'integer', minimum: 1 },
    1,
  ),
  'X-Request-Id': always(
    "Names this answer in the server's log and audit log: give it to the operator with a question.",
    { type: 'string', minLength: 1 },
    '6f1c1a0e-7f0b-4c53-9c0e-1f2d3a4b5c6d',
  ),
  'Retry-After': sometimes(
    'Seconds to wait before the same request is sent again, wherever waiting can help.',
    { type: 'integer', minimum: 0 },
    1,
  ),
} as const satisfies Record<string, HeaderModel>;

export type HeaderModelName = keyof typeof HEADER_MODELS;

/** Models of one header under different rules go by different names. */
const WIRE_NAMES: Partial<Record<HeaderModelName, string>> = {
  'Content-Range-Unsatisfied': 'Content-Range',
  'Cache-Control-Immutable': 'Cache-Control',
  'Cache-Control-No-Store': 'Cache-Control',
};

const TENANT_HEADERS: readonly HeaderModelName[] = [
  'Server-Timing',
  'Timing-Allow-Origin',
  'Access-Control-Allow-Origin',
  'Access-Control-Expose-Headers',
];

/** Headers of a tenant-plane answer: those all have, and `names`. */
export function tenantHeaders(...names: readonly HeaderModelName[]): Readonly<Record<string, JsonSchema>> {
  const entries = [...names, ...TENANT_HEADERS].map((name) => [
    WIRE_NAMES[name] ?? name,
    { $ref: `#/components/headers/${name}` },
  ]);
  return Object.fromEntries(entries) as Record<string, JsonSchema>;
}
