/** The console's door for the server: its responses to browsers on the operator listener. */
import { type BuiltFile, readBuiltPage } from './built-page.ts';

export interface ConsoleOptions {
  /** Where this page may ask the Space API for something. The first is what the page offers for signing in. */
  readonly spaceUrls: readonly string[];
  /** Further origins that uploads go to, such as a store's. */
  readonly uploadOrigins?: readonly string[] | undefined;
}

export interface ConsoleAsset {
  readonly body: Uint8Array<ArrayBuffer>;
  /** its type, how long it may be kept, and what it may do; the server adds what all its answers have */
  readonly headers: Readonly<Record<string, string>>;
}

const PARTS_PATH = '/console/';
const ICON_PATH = '/console/icon.svg';
/** The names of parts say what is in them. */
const PART_CACHING = 'public, max-age=31536000, immutable';

const ICON = `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 16 16"><rect width="16" height="16" rx="3" fill="#0b57c4"/><path d="M5 3.5v9M11 3.5v9M5 8h6" stroke="#fff" stroke-width="2" fill="none"/></svg>`;

let building: Promise<Site> | undefined;

interface Site {
  readonly mainName: string;
  readonly styleName: string;
  readonly parts: ReadonlyMap<string, ConsoleAsset>;
}

/** The file at `path`; undefined: none of the console. The page is built, or unpacked, when it is first asked for. */
export async function consoleAsset(path: string, options: ConsoleOptions): Promise<ConsoleAsset | undefined> {
  if (path !== '/' && !path.startsWith(PARTS_PATH)) return undefined;
  building ??= openSite();
  const site = await building.catch((error: unknown) => {
    building = undefined;
    throw error;
  });
  return path === '/' ? describePage(site, options) : site.parts.get(path);
}

async function openSite(): Promise<Site> {
  const { main, style, parts } = await readBuiltPage();
  const scripts = [main, ...parts].map((file) => describePart(file, 'text/javascript; charset=utf-8'));
  const styles = describePart(style, 'text/css; charset=utf-8');
  const icon = describePart({ name: 'icon.svg', text: ICON }, 'image/svg+xml');
  return { mainName: main.name, styleName: style.name, parts: new Map([...scripts, styles, icon]) };
}

function describePart({ name, text }: BuiltFile, contentType: string): [path: string, asset: ConsoleAsset] {
  const headers = { 'content-type': contentType, 'cache-control': PART_CACHING };
  // An image that is opened by itself is a page of its own.
  const own = name.endsWith('.svg') ? { 'content-security-policy': "default-src 'none'" } : {};
  return [`${PARTS_PATH}${name}`, { body: new TextEncoder().encode(text), headers: { ...headers, ...own } }];
}

function describePage({ mainName, styleName }: Site, options: ConsoleOptions): ConsoleAsset {
  const { spaceUrls, uploadOrigins = [] } = options;
  const [spaceUrl = ''] = spaceUrls;
  const origins = [...spaceUrls, ...uploadOrigins].map(describeOrigin);
  const text = `<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="robots" content="noindex">
<meta name="color-scheme" content="light dark">
<meta name="holdfast-space-url" content="${escapeAttribute(spaceUrl)}">
<title>Holdfast console</title>
<link rel="icon" href="${ICON_PATH}" type="image/svg+xml">
<link rel="stylesheet" href="${PARTS_PATH}${styleName}">
<script type="module" src="${PARTS_PATH}${mainName}"></script>
</head>
<body>
<noscript>The console needs JavaScript. The same is there for the command line: holdfast --help</noscript>
<div id="console"></div>
</body>
</html>
`;
  return {
    body: new TextEncoder().encode(text),
    headers: {
      'content-type': 'text/html; charset=utf-8',
      'cache-control': 'no-store',
      'content-security-policy': describePolicy([...new Set(origins)]),
    },
  };
}

/** A policy has no words for an IPv6 address: then every host of that port may be asked. */
function describeOrigin(address: string): string {
  const { origin, hostname, protocol, port } = new URL(address);
  return hostname.startsWith('[') ? `${protocol}//*${port === '' ? '' : `:${port}`}` : origin;
}

/** Only scripts of this listener run. Previews come from memory (`blob:`) in sandboxed frames. No code turns text into markup. */
function describePolicy(origins: readonly string[]): string {
  return [
    "default-src 'none'",
    "script-src 'self'",
    "style-src 'self'",
    "img-src 'self' blob:",
    'frame-src blob:',
    `connect-src 'self' ${origins.join(' ')}`.trim(),
    "base-uri 'none'",
    "form-action 'none'",
    "frame-ancestors 'none'",
    "require-trusted-types-for 'script'",
    "trusted-types 'none'",
  ].join('; ');
}

function escapeAttribute(text: string): string {
  return text.replaceAll('&', '&amp;').replaceAll('"', '&quot;').replaceAll('<', '&lt;');
}
