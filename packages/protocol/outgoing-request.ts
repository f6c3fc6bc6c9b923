/** Explains a failed request to another host if a proxy or a certificate is the reason. Pure. */

type Variables = Readonly<Record<string, string | undefined>>;

interface OutgoingProxy {
  /** its host and port, without the user and password that the variable may hold */
  readonly host: string;
  readonly variable: string;
}

/** The proxy that the runtime sends a request for `url` through, as the variables say. */
function findProxy(url: string, variables: Variables): OutgoingProxy | undefined {
  const { protocol, hostname, port } = new URL(url);
  const name = protocol === 'https:' ? 'https_proxy' : 'http_proxy';
  const names = [name, name.toUpperCase(), 'all_proxy', 'ALL_PROXY'];
  const variable = names.find((each) => variables[each]);
  if (variable === undefined || isExcepted(hostname, port, variables.no_proxy || variables.NO_PROXY)) {
    return undefined;
  }
  const given = variables[variable] ?? '';
  const proxy = given.includes('://') ? given : `http://${given}`;
  return { host: URL.canParse(proxy) ? new URL(proxy).host : 'that is no URL', variable };
}

function isExcepted(hostname: string, port: string, list = ''): boolean {
  const host = hostname.replace(/^\[|\]$/g, '');
  return list.split(',').some((entry) => {
    const name = entry.trim().replace(/^\*?\./, '');
    if (name === '*' || name === host || name === `${hostname}:${port}`) return true;
    return name !== '' && host.endsWith(`.${name}`);
  });
}

/** The code of an error whose message is what `describeProxyAnswer` or `describeProxyFailure` says. */
export const PROXY_FAILED = 'ERR_PROXY_FAILED';

interface ProxyAnswer {
  readonly status: number;
  readonly headers: { get(name: string): string | null };
}

/** Explains a proxy's answer to a request by http; undefined: the host's, which is JSON, XML, or without a type, as a HEAD's of MinIO. */
export function describeProxyAnswer(
  url: string,
  variables: Variables,
  { status, headers }: ProxyAnswer,
): string | undefined {
  const type = headers.get('content-type') ?? '';
  const isOfHost = type === '' ? status < 500 && status !== 407 : /json|xml/.test(type);
  const isFailure = status >= 400 && !isOfHost;
  const proxy = isFailure && url.startsWith('http:') ? findProxy(url, variables) : undefined;
  return proxy && `${nameOf(proxy)} answered ${status}: ${adviseOn(status, proxy)}`;
}

/** Explains a request that met this error on its way to the proxy, or in it; undefined if there is none. */
export function describeProxyFailure(url: string, variables: Variables, error: unknown): string | undefined {
  const proxy = findProxy(url, variables);
  if (proxy === undefined || findCertificateFailure(error) !== undefined) return undefined;
  const { code, message } = causeOf(error);
  const status = code === 'ERR_PROXY_TUNNEL' ? /\b[1-5]\d\d\b/.exec(String(message))?.[0] : undefined;
  if (status !== undefined) return `${nameOf(proxy)} answered ${status}: ${adviseOn(Number(status), proxy)}`;
  return `${nameOf(proxy)} cannot be reached, or broke off (${String(code)}): ${adviseOn(undefined, proxy)}`;
}

const nameOf = ({ host, variable }: OutgoingProxy): string => `the proxy ${host} (${variable})`;

function adviseOn(status: number | undefined, { variable }: OutgoingProxy): string {
  if (status === 407) return `it wants a user and a password, which stand in ${variable}`;
  return 'check it, or name the host in NO_PROXY';
}

/** Codes of Node and Bun, whose names are OpenSSL's. */
const CERTIFICATE_CODE = /CERT|^INVALID_(?:CA|PURPOSE)$|^UNABLE_TO_VERIFY_LEAF|^HOSTNAME_MISMATCH$/;

/** Explains what is wrong with the certificate of the other side, and what to do besides trusting its authority; undefined: nothing is. */
export function findCertificateFailure(error: unknown): { code: string; isUntrusted: boolean } | undefined {
  const { code } = causeOf(error);
  if (typeof code !== 'string' || !CERTIFICATE_CODE.test(code)) return undefined;
  return { code, isUntrusted: !/EXPIRED|NOT_YET|ALTNAME|HOSTNAME|REVOKED/.test(code) };
}

/** Node keeps what happened in the cause. */
function causeOf(error: unknown): { readonly code?: unknown; readonly message?: unknown } {
  const { cause } = (error ?? {}) as { readonly cause?: unknown };
  return (cause instanceof Error ? cause : error) ?? {};
}
