/** Turns `--metadata` and `--content` into typed addresses. An error quotes nothing of a URL, because it may hold a password. */
import { ConfigError } from '../errors.ts';

/** A PostgreSQL database, and how much of it one process may use. */
export interface PostgresAddress {
  /** each new connection tries these in order and uses the first that takes writes */
  readonly hosts: readonly PostgresHost[];
  readonly database: string;
  readonly user: string;
  readonly password: string | undefined;
  /** looked at for a password when a connection is opened, if none was given */
  readonly passFile: string | undefined;
  /**
   * `prefer`: encrypted if the server can; `require`: always; `verify-ca`: and by a certificate of an authority that we trust;
   * `verify-full`: and it must be the host's
   */
  readonly tls: PostgresTls;
  /** file of the certificates that are trusted; undefined: the runtime's */
  readonly tlsRootFile: string | undefined;
  /** files of our own certificate and its key, PEM */
  readonly tlsOwn: { readonly certificateFile: string; readonly keyFile: string } | undefined;
  /** whether the proof of the password must also prove the server's certificate */
  readonly channelBinding: ChannelBinding;
  /** ms until a connection must be open; undefined: the engine's limit */
  readonly connectMs: number | undefined;
  /** connections that one process may open */
  readonly connectionsMax: number;
  /** what the server calls our sessions */
  readonly applicationName: string;
}

export interface PostgresHost {
  /** name or address, without brackets; a path: the folder of a socket of this machine */
  readonly host: string;
  readonly port: number;
}

/** A bucket, or a part of one, in a store that speaks S3. */
export interface S3Address {
  readonly bucket: string;
  /** the start of every key: empty, or a path that ends in `/` */
  readonly prefix: string;
  /** origin that servers send requests to; undefined: the one of AWS in `region` */
  readonly endpoint: string | undefined;
  /** origin of upload URLs, if clients reach the store by another name than servers; undefined: `endpoint` */
  readonly publicEndpoint: string | undefined;
  readonly region: string;
  /** where an address names the bucket: at the start of the path, or before the host */
  readonly style: S3Style;
}

export const POSTGRES_TLS = ['disable', 'prefer', 'require', 'verify-ca', 'verify-full'] as const;
export type PostgresTls = (typeof POSTGRES_TLS)[number];
export const CHANNEL_BINDINGS = ['disable', 'prefer', 'require'] as const;
type ChannelBinding = (typeof CHANNEL_BINDINGS)[number];
const S3_STYLES = ['path', 'virtual'] as const;
type S3Style = (typeof S3_STYLES)[number];

const S3_REGION_DEFAULT = 'us-east-1';
const S3_PREFIX_LENGTH_MAX = 256;

const PARAMETER_NAME = /^[A-Za-z]+(?:[_-][A-Za-z]+)*$/;
const BUCKET_NAME = /^[A-Za-z0-9][A-Za-z0-9._-]{1,61}[A-Za-z0-9]$/;
const S3_EXAMPLE = 's3://BUCKET?endpoint=http://HOST:PORT&region=REGION';

type Environment = Readonly<Record<string, string | undefined>>;

/** The URL holds no credentials: they come from the usual AWS variables and files. Throws ConfigError. */
export function parseS3Url(text: string, env: Environment, flag = '--content'): S3Address {
  const url = parseUrl(flag, text, ['s3:'], S3_EXAMPLE);
  const parameters = readParameters(flag, url, ['endpoint', 'public-endpoint', 'region', 'style']);
  if (url.username !== '' || url.password !== '') {
    throw new ConfigError(
      `${flag} holds credentials; leave them out and give AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, a profile or a role`,
    );
  }
  const bucket = url.hostname;
  if (bucket === '') throw new ConfigError(`${flag} names no bucket; give ${S3_EXAMPLE}`);
  if (!BUCKET_NAME.test(bucket) || url.port !== '') {
    throw new ConfigError(
      `${flag} names a bucket that cannot be: a name has 3 to 63 letters, digits, dots, hyphens or underscores, and no port; give ${S3_EXAMPLE}`,
    );
  }
  const region = parameters.get('region') ?? (env.AWS_REGION || env.AWS_DEFAULT_REGION || S3_REGION_DEFAULT);
  if (!/^[A-Za-z0-9][A-Za-z0-9-]{0,62}$/.test(region)) {
    throw new ConfigError(`the region of ${flag} is not one; give one such as ${S3_REGION_DEFAULT}`);
  }
  const endpoint = parseEndpoint(flag, 'endpoint', parameters.get('endpoint'));
  // A certificate for *.s3.amazonaws.com does not cover a bucket with dots in its name.
  const isPathUsual = endpoint !== undefined || bucket.includes('.');
  return {
    bucket,
    prefix: parsePrefix(flag, url.pathname),
    endpoint,
    publicEndpoint: parseEndpoint(flag, 'public-endpoint', parameters.get('public-endpoint')),
    region,
    style: choose(flag, 'style', parameters.get('style') ?? (isPathUsual ? 'path' : 'virtual'), S3_STYLES),
  };
}

/** Hosts and name of a database, without secrets */
export function formatDatabase({ hosts, database }: PostgresAddress): string {
  return `${formatHosts(hosts)}/${database}`;
}

export function formatHosts(hosts: PostgresAddress['hosts']): string {
  return hosts.map(({ host, port }) => formatAuthority(host, port)).join(',');
}

/** `HOST:PORT` as people write it: IPv6 addresses in brackets. For a folder, the path of its socket. */
export function formatAuthority(host: string, port: number): string {
  if (host.startsWith('/')) return `${host}/.s.PGSQL.${port}`;
  return host.includes(':') ? `[${host}]:${port}` : `${host}:${port}`;
}

/** Whether only this machine reaches what listens there. `host` as in a configuration, without brackets. */
export function isLoopbackHost(host: string): boolean {
  const name = host.toLowerCase();
  return name === 'localhost' || name === '::1' || /^127(?:\.(?:25[0-5]|2[0-4]\d|1?\d?\d)){3}$/.test(name);
}

export function parseUrl(flag: string, text: string, schemes: readonly string[], example: string): URL {
  const url = URL.canParse(text) && text === text.trim() ? new URL(text) : undefined;
  if (url === undefined || !schemes.includes(url.protocol) || url.hash !== '') {
    throw new ConfigError(
      `${flag} cannot be understood; give ${example}, special characters of its parts percent-encoded`,
    );
  }
  return url;
}

/** A text with a password may have a part of it where a name should be. So an error quotes only what has the form of a name. */
export function assertParameter(
  flag: string,
  {
    name,
    value,
    isRepeated,
  }: { readonly name: string; readonly value: string; readonly isRepeated: boolean },
  known: readonly string[],
): void {
  const isKnown = known.includes(name);
  if (isKnown && !isRepeated && value !== '' && !hasControls(value)) return;
  const told = PARAMETER_NAME.test(name) ? `the parameter ${name}` : 'a parameter';
  const why = !isKnown ? 'unknown' : isRepeated ? 'repeated' : value === '' ? 'empty' : 'not plain text';
  throw new ConfigError(
    `${flag} has ${told}, which is ${why}; after the ? it takes ${known.join(', ')}, each once and not empty`,
  );
}

function readParameters(flag: string, url: URL, known: readonly string[]): ReadonlyMap<string, string> {
  const parameters = new Map<string, string>();
  for (const [name, value] of url.searchParams) {
    assertParameter(flag, { name, value, isRepeated: parameters.has(name) }, known);
    parameters.set(name, value);
  }
  return parameters;
}

export function choose<T extends string>(flag: string, name: string, value: string, known: readonly T[]): T {
  const choice = known.find((each) => each === value);
  if (choice === undefined) {
    throw new ConfigError(`the parameter ${name} of ${flag} must be one of ${known.join(', ')}`);
  }
  return choice;
}

/** An origin as it is written into addresses: no path, query or credentials. */
function parseEndpoint(flag: string, name: string, text: string | undefined): string | undefined {
  if (text === undefined) return undefined;
  const url = URL.canParse(text) ? new URL(text) : undefined;
  const isOrigin = url !== undefined && /^https?:$/.test(url.protocol) && url.href === `${url.origin}/`;
  if (!isOrigin) {
    throw new ConfigError(
      `the parameter ${name} of ${flag} is not a plain http or https address; give one such as http://127.0.0.1:7480`,
    );
  }
  return url.origin;
}

function parsePrefix(flag: string, pathname: string): string {
  const path = pathname.replace(/^\/|\/$/g, '');
  if (path === '') return '';
  const isPlain = path.split('/').every((part) => /^[A-Za-z0-9_.-]+$/.test(part) && !/^\.+$/.test(part));
  if (!isPlain || path.length > S3_PREFIX_LENGTH_MAX) {
    throw new ConfigError(
      `the path of ${flag} is no usable prefix; give letters, digits, ., _ and -, joined by single /, at most ${S3_PREFIX_LENGTH_MAX} characters`,
    );
  }
  return `${path}/`;
}

export function hasControls(text: string): boolean {
  return /\p{Cc}/u.test(text);
}

/** An origin, with a path if a proxy adds one, no slash at its end. The message quotes nothing. Throws ConfigError. */
export function parseWebAddress(flag: string, text: string, example: string): string {
  const url = URL.parse(text);
  const isPlain =
    url !== null &&
    /^https?:$/.test(url.protocol) &&
    url.search === '' &&
    url.hash === '' &&
    url.username === '' &&
    url.password === '';
  if (isPlain) return url.href.replace(/\/+$/, '');
  throw new ConfigError(`${flag} is not a plain http or https address; give one such as ${example}`);
}
