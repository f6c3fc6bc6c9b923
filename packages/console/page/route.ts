/** Where the page is: the part of the address after `#`. It never holds a secret, so it can be shared. */
import { signal } from '@preact/signals';

export interface Route {
  /** decoded but for the segments of paths in trees, which are bytes; the first is the view */
  readonly segments: readonly string[];
  readonly query: URLSearchParams;
}

export const route = signal<Route>(parseRoute(location.hash));

export function parseRoute(hash: string): Route {
  const [path = '', query = ''] = hash.replace(/^#?\/?/, '').split('?', 2);
  return { segments: path.split('/').filter((segment) => segment !== ''), query: new URLSearchParams(query) };
}

/** `#/spaces?app=demo` */
export function hrefTo(path: string, query: Readonly<Record<string, string | undefined>> = {}): string {
  const given = Object.entries(query).filter(
    (entry): entry is [string, string] => entry[1] !== undefined && entry[1] !== '',
  );
  const search = new URLSearchParams(given).toString();
  return `#/${path}${search === '' ? '' : `?${search}`}`;
}

export function goTo(href: string): void {
  location.hash = href;
}

/** `onCode` is given the code of a one-time link that is opened where the page is shown already. */
export function watchRoute(onCode: (code: string) => void): void {
  addEventListener('hashchange', () => {
    const code = takeSignInCode();
    if (code === undefined) route.value = parseRoute(location.hash);
    else onCode(code);
  });
}

const SIGN_IN = /^#signin=([A-Za-z0-9_-]{1,512})$/;

/** The code of a one-time link, which leaves the address and the history before anything else happens. */
export function takeSignInCode(): string | undefined {
  const code = SIGN_IN.exec(location.hash)?.[1];
  if (code === undefined) return undefined;
  history.replaceState(null, '', `${location.pathname}${location.search}#/space`);
  route.value = parseRoute(location.hash);
  return code;
}
