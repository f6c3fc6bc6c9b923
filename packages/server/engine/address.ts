/**
 * Turns `--metadata` and `--content` into typed addresses of engines. An error says what is wrong with a URL without
 * quoting any of it, because it may hold a password.
 */
import { ConfigError } from '../errors.ts';

/** A PostgreSQL database, and how much of it one process may use. */
export interface PostgresAddress {
  /** each new connection tries these in order and uses the first that takes writes */
  readonly hosts: readonly PostgresHost[];
  readonly database: string;
  readonly user: string;
  readonly password: string | undefined;
  /** `prefer`: encrypted if the server can; `require`: always; `verify-full`: and the certificate must be the host's */
  readonly tls: PostgresTls;
  /** file of the certificates that `verify-full` trusts; undefined: the system's */
  readonly tlsRootFile: string | undefined;
  /** connections that one process may open */
  readonly connectionsMax: number;
  /** what the server calls our sessions */
  readonly applicationName: string;
}

export interface PostgresHost {
  /** name or address, without brackets */
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
  /** where the bucket stands in an address: before its path, or before its host */
  readonly style: S3Style;
}

const POSTGRES_TLS = ['disable', 'prefer', 'require', 'verify-full'] as const;
type PostgresTls = (typeof POSTGRES_TLS)[number];
const S3_STYLES = ['path', 'virtual'] as const;
type S3Style = (typeof S3_STYLES)[number];

const POSTGRES_PORT_DEFAULT = 5432;
/** A bound, because each host that does not answer delays every new connection. */
const POSTGRES_HOSTS_MAX = 8;
const POSTGRES_CONNECTIONS_DEFAULT = 16;
const POSTGRES_CONNECTIONS_MAX = 500;
const APPLICATION_NAME_DEFAULT = 'holdfast';
const S3_REGION_DEFAULT = 'us-east-1';
const S3_PREFIX_LENGTH_MAX = 256;

const POSTGRES_EXAMPLE = 'postgres://USER:PASSWORD@HOST:5432/DATABASE';
const BUCKET_NAME = /^[A-Za-z0-9][A-Za-z0-9._-]{1,61}[A-Za-z0-9]$/;
const S3_EXAMPLE = 's3://BUCKET?endpoint=http://HOST:PORT&region=REGION';

type Environment = Readonly<Record<string, string | undefined>>;

/** User and password may come from PGUSER and PGPASSWORD instead. Messages name `flag`. Throws ConfigError. */
export function parsePostgresUrl(text: string, env: Environment, flag = '--metadata'): PostgresAddress {
  const [url, ...others] = splitHosts(text).map((each) =>
    parseUrl(flag, each, ['postgres:', 'postgresql:'], POSTGRES_EXAMPLE),
  ) as [URL, ...URL[]];
  if (others.length >= POSTGRES_HOSTS_MAX) {
    throw new ConfigError(`${flag} names more than ${POSTGRES_HOSTS_MAX} hosts; leave some out`);
  }
  const parameters = readParameters(flag, url, ['sslmode', 'sslrootcert', 'connections', 'application_name']);
  const hosts = [url, ...others].map((each) => parseHost(flag, each));
  const database = decode(flag, url.pathname.slice(1), POSTGRES_EXAMPLE);
  const user = decode(flag, url.username, POSTGRES_EXAMPLE) || env.PGUSER || '';
  const password = decode(flag, url.password, POSTGRES_EXAMPLE) || env.PGPASSWORD || undefined;
  if (database === '' || database.includes('/') || hasControls(database)) {
    throw new ConfigError(`${flag} names no database; give ${POSTGRES_EXAMPLE}`);
  }
  if (user === '' || hasControls(user) || hasControls(password ?? '')) {
    throw new ConfigError(`${flag} names no user; give ${POSTGRES_EXAMPLE}, or the variable PGUSER`);
  }
  return {
    hosts,
    database,
    user,
    password,
    tls: choose(flag, 'sslmode', parameters.get('sslmode') ?? 'prefer', POSTGRES_TLS),
    tlsRootFile: parameters.get('sslrootcert'),
    connectionsMax: parseConnections(flag, parameters.get('connections')),
    applicationName: parameters.get('application_name') ?? APPLICATION_NAME_DEFAULT,
  };
}

/** `h1:1,h2:2` is not a valid host of a URL, so this makes one URL for each host, alike in everything else. */
function splitHosts(text: string): string[] {
  const [, start = '', hosts = '', rest = ''] = /^(\w+:\/\/(?:[^/?#]*@)?)([^/?#@]*)(.*)$/s.exec(text) ?? [];
  return start === '' ? [text] : hosts.split(',').map((host) => `${start}${host}${rest}`);
}

function parseHost(flag: string, { hostname, port }: URL): PostgresHost {
  const host = decode(flag, hostname, POSTGRES_EXAMPLE).replace(/^\[(.*)\]$/, '$1');
  if (host === '' || /[\s,/]/.test(host))
    throw new ConfigError(`${flag} names no host; give ${POSTGRES_EXAMPLE}`);
  return { host, port: port === '' ? POSTGRES_PORT_DEFAULT : Number(port) };
}

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

/** `HOST:PORT` as people write it: IPv6 addresses in brackets. */
export function formatAuthority(host: string, port: number): string {
  return host.includes(':') ? `[${host}]:${port}` : `${host}:${port}`;
}

/** Whether only this machine reaches what listens there. `host` as in a configuration, without brackets. */
export function isLoopbackHost(host: string): boolean {
  const name = host.toLowerCase();
  return name === 'localhost' || name === '::1' || /^127(?:\.(?:25[0-5]|2[0-4]\d|1?\d?\d)){3}$/.test(name);
}

function parseUrl(flag: string, text: string, schemes: readonly string[], example: string): URL {
  const url = URL.canParse(text) && text === text.trim() ? new URL(text) : undefined;
  if (url === undefined || !schemes.includes(url.protocol) || url.hash !== '') {
    throw new ConfigError(
      `${flag} cannot be understood; give ${example}, special characters of its parts percent-encoded`,
    );
  }
  return url;
}

function readParameters(flag: string, url: URL, known: readonly string[]): ReadonlyMap<string, string> {
  const parameters = new Map<string, string>();
  for (const [name, value] of url.searchParams) {
    if (!known.includes(name) || parameters.has(name) || value === '' || hasControls(value)) {
      throw new ConfigError(
        `${flag} has a parameter that is unknown, repeated or empty; after the ? it takes ${known.join(', ')}`,
      );
    }
    parameters.set(name, value);
  }
  return parameters;
}

function decode(flag: string, part: string, example: string): string {
  try {
    return decodeURIComponent(part);
  } catch {
    throw new ConfigError(`${flag} is not percent-encoded correctly; give ${example}`);
  }
}

function choose<T extends string>(flag: string, name: string, value: string, known: readonly T[]): T {
  const choice = known.find((each) => each === value);
  if (choice === undefined) {
    throw new ConfigError(`the parameter ${name} of ${flag} must be one of ${known.join(', ')}`);
  }
  return choice;
}

function parseConnections(flag: string, text: string | undefined): number {
  if (text === undefined) return POSTGRES_CONNECTIONS_DEFAULT;
  const count = /^[0-9]{1,4}$/.test(text) ? Number(text) : 0;
  if (count >= 1 && count <= POSTGRES_CONNECTIONS_MAX) return count;
  throw new ConfigError(
    `the parameter connections of ${flag} must be an integer from 1 to ${POSTGRES_CONNECTIONS_MAX}`,
  );
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

function hasControls(text: string): boolean {
  return /\p{Cc}/u.test(text);
}

/**
 * An origin, and a path if a proxy adds one; without a slash at its end. The message names `flag` and quotes nothing, because the
 * address may hold a password. Throws ConfigError.
 */
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
