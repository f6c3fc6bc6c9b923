/** The session of a Space. The token is kept with the tab and goes with it. */
import { findJson, isRecord } from '@holdfast/protocol';
import { signal } from '@preact/signals';
import { keep, readKept } from './parts/kept.ts';

export interface SpaceAccess {
  readonly url: string;
  readonly app: string;
  readonly space: string;
  readonly token: string;
}

const KEPT_NAME = 'holdfast-space';

export const spaceAccess = signal(readKept<SpaceAccess>(KEPT_NAME));

/** undefined: the Space is left */
export function enterSpace(access: SpaceAccess | undefined): void {
  keep(KEPT_NAME, access);
  spaceAccess.value = access;
}

export const signInFailure = signal<unknown>(undefined);
/** a one-time link is being exchanged */
export const isSigningIn = signal(false);

/** The address of the Space API as the server told it in the page. */
export function offeredSpaceUrl(): string {
  return document.querySelector('meta[name="holdfast-space-url"]')?.getAttribute('content') ?? '';
}

/** The claims of a token. They are not verified here: the server does that at every request. */
export interface TokenClaims {
  readonly permissions: readonly string[];
  readonly refDomain: string | undefined;
  /** ms since the epoch */
  readonly expiresAt: number | undefined;
  readonly space: string | undefined;
}

export function readClaims(token: string): TokenClaims | undefined {
  try {
    const [, payload = ''] = token.split('.');
    const bytes = Uint8Array.from(atob(payload.replaceAll('-', '+').replaceAll('_', '/')), (c) =>
      c.charCodeAt(0),
    );
    const claims = JSON.parse(new TextDecoder().decode(bytes)) as Record<string, unknown>;
    const { permissions, refDomain, exp, spaceId } = claims;
    return {
      permissions: Array.isArray(permissions) ? permissions.filter((each) => typeof each === 'string') : [],
      refDomain: typeof refDomain === 'string' ? refDomain : undefined,
      expiresAt: typeof exp === 'number' ? exp * 1000 : undefined,
      space: typeof spaceId === 'string' ? spaceId : undefined,
    };
  } catch {
    // It is no token that can be read here; the server says what is wrong with it.
    return undefined;
  }
}

const ASSIGNMENT = /(?:^|\s)HOLDFAST_(URL|APP|SPACE|TOKEN)=(?:'([^']*)'|"([^"]*)"|(\S+))/g;

/** Reads pasted text: the lines that `serve --dev` prints, or a profile of the command line. */
export function parsePasted(text: string): Partial<SpaceAccess> {
  const found: Record<string, string> = {};
  for (const [, name = '', single, double, bare] of text.matchAll(ASSIGNMENT)) {
    found[name.toLowerCase()] = single ?? double ?? bare ?? '';
  }
  if (Object.keys(found).length > 0) return found;
  return parseProfile(text) ?? (/^\s*[\w-]+\.[\w-]+\.[\w-]+\s*$/.test(text) ? { token: text.trim() } : {});
}

function parseProfile(text: string): Partial<SpaceAccess> | undefined {
  const value = findJson(text);
  if (!isRecord(value)) return undefined;
  const names = ['url', 'app', 'space', 'token'].filter((name) => typeof value[name] === 'string');
  return Object.fromEntries(names.map((name) => [name, value[name] as string]));
}
