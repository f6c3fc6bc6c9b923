/**
 * Why: the runtime's router sees a request's path as it was sent, but the URL it gives has dot segments resolved and backslashes turned:
 * sent `/v1/apps/x\..\app/…` matches a pattern with `x\..\app` as the App, while its URL says `/v1/apps/app/…`.
 * Since: Bun 1.4.5 or earlier.
 * Without it: a path reaches a Space that it does not name to a proxy before this server.
 * Goes when: the runtime hands out the path as it was sent.
 */
import { findDecoded } from '@holdfast/protocol';

/** The parameters of a route, decoded by the router. */
export type Params = Readonly<Record<string, string>>;

/**
 * Nearly every request: nothing in it is encoded and nothing can have been tidied, so that `params` are the segments as they
 * were sent. Ids of dots are left: the handler knows that they make no route.
 */
export function isPlain(url: string, { appId, spaceId, hash }: Params): boolean {
  if (url.includes('%') || appId?.includes('\\') || spaceId?.includes('\\')) return false;
  return hash === undefined || hash.length === 64;
}

/** Whether the encoded `segments` of the URL are the ones that the router saw. */
export function isAsSent(segments: Readonly<Record<string, string | undefined>>, params: Params): boolean {
  return Object.entries(segments).every(([name, segment]) => {
    const decoded = findDecoded(segment ?? '');
    // A text that cannot be decoded is no id; the handler says so.
    return decoded === undefined || decoded === (params[name] ?? '');
  });
}
