/** Serves the console's files. They are public and hold no data, so no token is needed. */
import type { DeploymentPlace } from '../deployment/place.ts';

/** The origins that the page may contact besides this listener. */
export interface ConsoleReach {
  /** the public address of the Space API; called once it listens */
  readonly spaceUrl: () => string;
  readonly place: DeploymentPlace;
}

const LOOPBACK_HOSTS = ['127.0.0.1', 'localhost'];
/** Host names safe in a Content-Security-Policy: no character ends a directive. */
const HOST = /^[a-z0-9.-]+$/i;
const GZIP = /\bgzip\b/i;

/** undefined if the console has no file at the path */
export async function findConsoleAnswer(
  reach: ConsoleReach,
  request: Request,
  url: URL,
): Promise<Response | undefined> {
  if (url.pathname !== '/' && !url.pathname.startsWith('/console/')) return undefined;
  // Loaded, and in a checkout built, when the first browser asks.
  const { consoleAsset } = await import('@holdfast/console');
  const asset = await consoleAsset(url.pathname, {
    spaceUrls: listSpaceUrls(reach.spaceUrl(), url),
    uploadOrigins: listUploadOrigins(reach.place),
  });
  if (asset === undefined) return undefined;
  const headers = { ...asset.headers, vary: 'accept-encoding' };
  if (!GZIP.test(request.headers.get('accept-encoding') ?? '')) return new Response(asset.body, { headers });
  return new Response(Bun.gzipSync(asset.body), { headers: { ...headers, 'content-encoding': 'gzip' } });
}

/** The server's other names that a person may type. */
function listSpaceUrls(spaceUrl: string, { hostname }: URL): readonly string[] {
  const { hostname: own, protocol, port } = new URL(spaceUrl);
  const names = LOOPBACK_HOSTS.includes(own) ? LOOPBACK_HOSTS : [];
  const here = HOST.test(hostname) ? [hostname] : [];
  const suffix = port === '' ? '' : `:${port}`;
  return [spaceUrl, ...[...names, ...here].map((name) => `${protocol}//${name}${suffix}`)];
}

/** With bytes in S3, uploads go to the store. AWS uses host names of buckets and regions. */
function listUploadOrigins({ bytes }: DeploymentPlace): readonly string[] {
  if (bytes.kind !== 's3') return [];
  const { bucket, endpoint, publicEndpoint, region, style } = bytes.address;
  const origin = new URL(publicEndpoint ?? endpoint ?? `https://s3.${region}.amazonaws.com`);
  if (style === 'path') return [origin.origin];
  return [`${origin.protocol}//${bucket}.${origin.host}`];
}
