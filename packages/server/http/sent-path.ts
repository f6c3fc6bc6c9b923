/**
 * The runtime's router sees a request's path as it was sent, but the URL it gives has dot segments resolved and backslashes
 * turned: sent `/v1/apps/x\..\app/…` matches a pattern with `x\..\app` as the App, while its URL says `/v1/apps/app/…`.
 */
import { type Handler, ROUTES, type Route } from './handler.ts';
import { splitUrl } from './request-url.ts';

type Params = Readonly<Record<string, string>>;
type Routed = (request: Bun.BunRequest, server: Bun.Server<undefined>) => Response | Promise<Response>;

const HASH_CHARACTERS = 64;

/** What the runtime's router is given: every served path, answered only as it was sent. */
export function routesOf(handler: Handler): Readonly<Record<string, Routed>> {
  return Object.fromEntries(ROUTES.map((route) => [route.pattern, routeTo(handler, route)]));
}

function routeTo(handler: Handler, route: Route): Routed {
  const parts = splitPattern(route.pattern);
  const isSpaceRoute = route.get !== undefined || route.post !== undefined;
  return (request, server) => {
    const { url } = request;
    const params: Params = request.params;
    if (isSpaceRoute && isPlain(url, params)) {
      const { appId = '', spaceId = '', hash } = params;
      const queryAt = url.indexOf('?');
      const query = queryAt < 0 ? undefined : url.slice(queryAt + 1);
      const match = { appId, spaceId, hash, get: route.get, post: route.post };
      return handler.handleSpace(match, query, request, server);
    }
    const isAsSent = isPathAsSent(parts, params, splitUrl(url).path);
    return isAsSent ? handler.handle(request, server) : handler.refuse(request, server);
  };
}

/**
 * Nearly every request: nothing in it is encoded and nothing can have been tidied, so that `params` are the segments as they
 * were sent. Ids of dots are left: the handler knows that they make no route.
 */
function isPlain(url: string, { appId, spaceId, hash }: Params): boolean {
  if (url.includes('%') || appId?.includes('\\') || spaceId?.includes('\\')) return false;
  return hash === undefined || hash.length === HASH_CHARACTERS;
}

/** A pattern taken apart once, for every request is held against it. */
interface PatternParts {
  readonly segments: readonly string[];
  /** what stands between the ids: one more than there are names */
  readonly literals: readonly string[];
  readonly names: readonly string[];
  /** the pattern ends in `*`, which stands for any rest */
  readonly isOpen: boolean;
}

export function splitPattern(pattern: string): PatternParts {
  const isOpen = pattern.endsWith('/*');
  const fixed = isOpen ? pattern.slice(0, -1) : pattern;
  const pieces = fixed.split(/:(\w+)/);
  return {
    segments: fixed.split('/'),
    literals: pieces.filter((_, index) => index % 2 === 0),
    names: pieces.filter((_, index) => index % 2 === 1),
    isOpen,
  };
}

/** Whether the URL's `path` is the pattern filled with the router's own decoded `params`. */
export function isPathAsSent(parts: PatternParts, params: Params, path: string): boolean {
  // Nearly every id is written plainly: then this is the path, letter for letter.
  if (isFilledPlainly(parts, params, path)) return true;
  const segments = path.split('/');
  if (parts.isOpen || segments.length !== parts.segments.length) return false;
  return parts.segments.every((part, index) => {
    const segment = segments[index] as string;
    if (!part.startsWith(':')) return part === segment;
    const decoded = decode(segment);
    // What cannot be decoded is no id; the handler says so.
    return decoded === undefined || decoded === params[part.slice(1)];
  });
}

/** Walks along the path and builds nothing. */
function isFilledPlainly({ literals, names, isOpen }: PatternParts, params: Params, path: string): boolean {
  let at = 0;
  for (let index = 0; index < literals.length; index += 1) {
    const literal = literals[index] as string;
    if (!path.startsWith(literal, at)) return false;
    at += literal.length;
    const name = names[index];
    if (name === undefined) continue;
    const id = params[name] as string;
    if (!path.startsWith(id, at)) return false;
    at += id.length;
  }
  return isOpen || at === path.length;
}

function decode(segment: string): string | undefined {
  try {
    return decodeURIComponent(segment);
  } catch {
    return undefined;
  }
}
