/**
 * The runtime's router sees a request's path as it was sent, but the URL it gives has dot segments resolved and backslashes
 * turned: sent `/v1/apps/x\..\app/…` matches a pattern with `x\..\app` as the App, while its URL says `/v1/apps/app/…`.
 */
import { type Handler, ROUTE_PATTERNS } from './http/handler.ts';
import { splitUrl } from './http/request-url.ts';

type Route = (request: Bun.BunRequest, server: Bun.Server<undefined>) => Response | Promise<Response>;

/** What the runtime's router is given: every served path, answered only as it was sent. */
export function routesOf({ handle, refuse }: Handler): Readonly<Record<string, Route>> {
  const routes = ROUTE_PATTERNS.map((pattern): [string, Route] => [
    pattern,
    (request, server) => {
      const isAsSent = isPathAsSent(pattern, request.params, splitUrl(request.url).path);
      return isAsSent ? handle(request, server) : refuse(request, server);
    },
  ]);
  return Object.fromEntries(routes);
}

/** Whether the URL's `path` is `pattern` filled with the router's own decoded `params`; `*` stands for any rest. */
export function isPathAsSent(
  pattern: string,
  params: Readonly<Record<string, string>>,
  path: string,
): boolean {
  if (pattern.endsWith('/*')) return path.startsWith(pattern.slice(0, -1));
  let filled = pattern;
  for (const name in params) filled = filled.replace(`:${name}`, () => params[name] as string);
  // Nearly every id is written plainly: then this is the path, letter for letter.
  if (filled === path) return true;
  const parts = pattern.split('/');
  const segments = path.split('/');
  if (segments.length !== parts.length) return false;
  return parts.every((part, index) => {
    const segment = segments[index] as string;
    if (!part.startsWith(':')) return part === segment;
    const decoded = decode(segment);
    // What cannot be decoded is no id; the handler says so.
    return decoded === undefined || decoded === params[part.slice(1)];
  });
}

function decode(segment: string): string | undefined {
  try {
    return decodeURIComponent(segment);
  } catch {
    return undefined;
  }
}
