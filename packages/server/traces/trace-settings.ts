/** The settings in OpenTelemetry's variables. Loaded only if traces are configured. */
import { ConfigError } from '../errors.ts';
import { DEFAULT_SAMPLER, SAMPLERS, type Sampler } from './trace-context.ts';

type Environment = Readonly<Record<string, string | undefined>>;

export interface TraceSettings {
  readonly url: string;
  /** they may hold a secret: for the receiver alone */
  readonly headers: Readonly<Record<string, string>>;
  readonly resource: Readonly<Record<string, string>>;
  readonly sampler: Sampler;
  readonly batchMs: number;
  readonly timeoutMs: number;
  readonly compression: Compression;
}

const COMPRESSIONS = ['none', 'gzip'] as const;
type Compression = (typeof COMPRESSIONS)[number];

const DURATION_MS_MAX = 600_000;

/** Throws ConfigError, which never quotes a value that may be secret. */
export function parseTraceSettings(env: Environment): TraceSettings {
  const own = (name: string): string | undefined =>
    env[`OTEL_EXPORTER_OTLP_TRACES_${name}`] || env[`OTEL_EXPORTER_OTLP_${name}`] || undefined;
  const resource = parsePairs('OTEL_RESOURCE_ATTRIBUTES', env.OTEL_RESOURCE_ATTRIBUTES);
  return {
    url: parseEndpoint(env),
    headers: parsePairs('OTEL_EXPORTER_OTLP_HEADERS', own('HEADERS')),
    resource: {
      ...resource,
      'service.name': env.OTEL_SERVICE_NAME || resource['service.name'] || 'holdfast',
    },
    sampler: parseSampler(env),
    batchMs: parseMs('OTEL_BSP_SCHEDULE_DELAY', env.OTEL_BSP_SCHEDULE_DELAY, 5000),
    timeoutMs: parseMs('OTEL_EXPORTER_OTLP_TIMEOUT', own('TIMEOUT'), 10_000),
    compression: parseCompression(own('COMPRESSION')),
  };
}

function parseCompression(text: string = COMPRESSIONS[0]): Compression {
  const found = COMPRESSIONS.find((each) => each === text);
  if (found !== undefined) return found;
  throw new ConfigError(`OTEL_EXPORTER_OTLP_COMPRESSION must be one of ${COMPRESSIONS.join(', ')}`);
}

/** The variable for traces is used as it is; the one for all signals is a base URL. */
function parseEndpoint(env: Environment): string {
  const exact = env.OTEL_EXPORTER_OTLP_TRACES_ENDPOINT || undefined;
  const name = exact === undefined ? 'OTEL_EXPORTER_OTLP_ENDPOINT' : 'OTEL_EXPORTER_OTLP_TRACES_ENDPOINT';
  const text = exact ?? `${env.OTEL_EXPORTER_OTLP_ENDPOINT?.replace(/\/+$/, '')}/v1/traces`;
  const url = URL.parse(text);
  if (url === null || !/^https?:$/.test(url.protocol))
    throw new ConfigError(`${name} is no http or https URL: give one such as http://127.0.0.1:4318`);
  if (url.username !== '' || url.password !== '')
    throw new ConfigError(`${name} holds a user or password: give them in OTEL_EXPORTER_OTLP_HEADERS`);
  return url.href;
}

/** `name=value,…`, the values percent-encoded. */
function parsePairs(variable: string, text: string | undefined): Record<string, string> {
  const pairs: Record<string, string> = {};
  for (const part of (text ?? '').split(',')) {
    if (part.trim() === '') continue;
    const [, name, value] = /^\s*([A-Za-z0-9!#$%&'*+.^_`|~/-]+)\s*=\s*([\x20-\x7e]*?)\s*$/.exec(part) ?? [];
    const decoded = value === undefined ? undefined : decode(value);
    // The value may be a secret.
    if (name === undefined || decoded === undefined)
      throw new ConfigError(`${variable} must be pairs such as name=value,other=value, percent-encoded`);
    pairs[name] = decoded;
  }
  return pairs;
}

function decode(text: string): string | undefined {
  try {
    const decoded = decodeURIComponent(text);
    return /^[^\r\n\0]*$/.test(decoded) ? decoded : undefined;
  } catch {
    return undefined;
  }
}

function parseSampler({ OTEL_TRACES_SAMPLER, OTEL_TRACES_SAMPLER_ARG }: Environment): Sampler {
  const kind = SAMPLERS.find((each) => each === (OTEL_TRACES_SAMPLER || DEFAULT_SAMPLER));
  if (kind === undefined) throw new ConfigError(`OTEL_TRACES_SAMPLER must be one of ${SAMPLERS.join(', ')}`);
  const ratio = Number(OTEL_TRACES_SAMPLER_ARG || 1);
  if (kind.endsWith('traceidratio') && !(ratio >= 0 && ratio <= 1))
    throw new ConfigError('OTEL_TRACES_SAMPLER_ARG must be a share from 0 to 1, such as 0.1');
  return { kind, ratio };
}

function parseMs(name: string, text: string | undefined, otherwise: number): number {
  if (text === undefined || text === '') return otherwise;
  const value = /^[0-9]{1,9}$/.test(text) ? Number(text) : Number.NaN;
  if (!(value >= 1 && value <= DURATION_MS_MAX))
    throw new ConfigError(`${name} must be milliseconds from 1 to ${DURATION_MS_MAX}`);
  return value;
}
