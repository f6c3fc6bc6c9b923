/** The page for a person who opens the server's address in a browser. Its status is still 404, because the API has no such path. */
import type { HeaderFields } from './cors.ts';
import { type Exchange, requestIdOf, textAnswer } from './exchange.ts';

const STYLE = `
:root { color-scheme: light dark; --ink: #1d2530; --soft: #5b6675; --paper: #f6f4ef; --card: #fffdf9; --line: #ddd7ca; --mark: #0f6b5c; }
@media (prefers-color-scheme: dark) {
  :root { --ink: #e7e9ec; --soft: #9aa5b3; --paper: #14181d; --card: #1b2128; --line: #2e3741; --mark: #5fd0b8; }
}
* { box-sizing: border-box; }
body { margin: 0; background: var(--paper); color: var(--ink); font: 1rem/1.6 system-ui, sans-serif; }
main { max-width: 42rem; margin: 12vh auto 4rem; padding: 0 1.5rem; }
h1 { margin: 0; font-size: 2.2rem; letter-spacing: -0.02em; }
h1 + p { margin: 0.2rem 0 2rem; color: var(--soft); font-size: 1.15rem; }
h2 { margin: 2rem 0 0.5rem; font-size: 0.85rem; letter-spacing: 0.08em; text-transform: uppercase; color: var(--mark); }
pre, code { font-family: ui-monospace, monospace; font-size: 0.92em; }
pre { margin: 0.8rem 0; padding: 0.9rem 1.1rem; overflow-x: auto; background: var(--card); border: 1px solid var(--line); border-radius: 8px; }
dl { display: grid; grid-template-columns: max-content 1fr; gap: 0.35rem 1.2rem; margin: 0; }
dt { font-family: ui-monospace, monospace; font-size: 0.92em; }
dd { margin: 0; color: var(--soft); }
`;

const PAGE = `<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="robots" content="noindex">
<title>Holdfast</title>
<style>${STYLE}</style>
</head>
<body>
<main>
<h1>Holdfast</h1>
<p>Content-addressed storage for many tenants, over an HTTP API.</p>
<p>The server is up. There is nothing to browse here: programs talk to this address, with a capability that an App has signed for
them.</p>
<h2>Store a folder and get it back</h2>
<pre>holdfast push ./folder   # prints one hash
holdfast pull HASH ./copy</pre>
<p>The command needs <code>HOLDFAST_URL</code> (this address), <code>HOLDFAST_APP</code>, <code>HOLDFAST_SPACE</code> and
<code>HOLDFAST_TOKEN</code>. A server that was started with <code>--dev</code> prints all four on its terminal.</p>
<h2>For programs</h2>
<dl>
<dt>/health</dt><dd>whether the server answers</dd>
<dt>/v1/apps/…/spaces/…</dt><dd>the seven operations of the API</dd>
</dl>
<h2>Documentation</h2>
<p>It comes with the program, in its folder <code>docs</code>, after <code>README.md</code>:</p>
<dl>
<dt>docs/api.md</dt><dd>every request and every answer</dd>
<dt>docs/trees.md</dt><dd>folders in and out, by <code>push</code> and <code>pull</code></dd>
<dt>docs/operations.md</dt><dd>running a server</dd>
<dt>holdfast --help</dt><dd>every command and its flags</dd>
</dl>
</main>
</body>
</html>
`;

const STYLE_DIGEST = new Bun.CryptoHasher('sha256').update(STYLE).digest('base64');
const HEADERS: Readonly<HeaderFields> = {
  'content-type': 'text/html; charset=utf-8',
  'cache-control': 'no-store',
  'content-security-policy': `default-src 'none'; style-src 'sha256-${STYLE_DIGEST}'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'`,
  'x-content-type-options': 'nosniff',
  'referrer-policy': 'no-referrer',
};

export const FRONT_PATH = '/';
const UNWANTED = /^q=0(?:\.0*)?$/i;

/** Whether the request comes from a browser: browsers ask for HTML, programs for anything or JSON. */
export function acceptsHtml(request: Request): boolean {
  const ranges = (request.headers.get('accept') ?? '').split(',');
  return ranges.some((range) => {
    const [type, ...parameters] = range.split(';').map((part) => part.trim());
    return type?.toLowerCase() === 'text/html' && !parameters.some((part) => UNWANTED.test(part));
  });
}

export function frontPageAnswer(exchange: Exchange): Response {
  const headers = { ...HEADERS, 'x-request-id': requestIdOf(exchange) };
  return textAnswer(exchange, 404, PAGE, headers);
}
