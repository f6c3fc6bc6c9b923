/** The console: files that are the same for everyone and hold no data, so nobody proves anything to see them. */
import type { DeploymentPlace } from '../deployment/place.ts';

/** Where the page may ask for something beside this listener. */
export interface ConsoleReach {
  /** the address of the Space API, as clients are told; called once it listens */
  readonly spaceUrl: () => string;
  readonly place: DeploymentPlace;
}

const LOOPBACK_HOSTS = ['127.0.0.1', 'localhost'];
/** Such a host name can stand in a policy: nothing in it ends a directive. */
const HOST = /^[a-z0-9.-]+$/i;
const GZIP = /\bgzip\b/i;

/** undefined: the console has nothing at the path. */
export async function findConsoleAnswer(
  reach: ConsoleReach,
  request: Request,
  url: URL,
): Promise<Response | undefined> {
  if (url.pathname !== '/' && !url.pathname.startsWith('/console/')) return undefined;
  // It is loaded, and in a checkout built, for the first browser that comes.
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

/** The same server by the other names that a person may type, or has typed for this page. */
function listSpaceUrls(spaceUrl: string, { hostname }: URL): readonly string[] {
  const { hostname: own, protocol, port } = new URL(spaceUrl);
  const names = LOOPBACK_HOSTS.includes(own) ? LOOPBACK_HOSTS : [];
  const here = HOST.test(hostname) ? [hostname] : [];
  const suffix = port === '' ? '' : `:${port}`;
  return [spaceUrl, ...[...names, ...here].map((name) => `${protocol}//${name}${suffix}`)];
}

/** With bytes in S3 uploads go to the store. AWS is reached by the names of buckets and regions. */
function listUploadOrigins({ bytes }: DeploymentPlace): readonly string[] {
  if (bytes.kind !== 's3') return [];
  const { bucket, endpoint, publicEndpoint, region, style } = bytes.address;
  const origin = new URL(publicEndpoint ?? endpoint ?? `https://s3.${region}.amazonaws.com`);
  if (style === 'path') return [origin.origin];
  return [`${origin.protocol}//${bucket}.${origin.host}`];
}
