/** The built SDK in real headless Chromium: a page pushes a tree and reads it back, with WebCrypto and without. */
import { afterAll, beforeAll, describe, expect, test } from 'bun:test';
import { lstatSync, readdirSync, readlinkSync } from 'node:fs';
import { join } from 'node:path';
import {
  buildFile,
  createClient,
  createNodeSource,
  openTree,
  type TreeItem,
} from '../packages/client/index.ts';
import { ensureChromium, openPage } from './support/headless-chromium.ts';
import { type InstalledSdk, installSdk } from './support/installed-sdk.ts';
import { APP, type RunningServer, startFreshServer } from './support/running-server.ts';
import { runHoldfast } from './support/server-process.ts';
import { makeTempFolder } from './support/temp-folder.ts';

const MINUTE_MS = 60_000;
const SHAPE = { largeBytes: 4 * 1024 * 1024, entryCount: 280 };

/** A real folder that no test made, which the page and the command line both push. */
const FOLDER = '/usr/share/doc/git';

interface Listed {
  readonly name: string;
  readonly path: string;
  readonly kind: 'directory' | 'file' | 'symlink';
  readonly isExecutable: boolean;
  readonly target?: string;
  readonly entries?: readonly Listed[];
}

/** All below FOLDER, in the order of the bytes of names. */
function listFolder(path = ''): Listed[] {
  const names = readdirSync(join(FOLDER, path)).sort((a, b) =>
    Buffer.compare(Buffer.from(a), Buffer.from(b)),
  );
  return names.map((name) => {
    const below = path === '' ? name : `${path}/${name}`;
    const absolute = join(FOLDER, below);
    const stats = lstatSync(absolute);
    const entry = { name, path: below, isExecutable: stats.isFile() && (stats.mode & 0o111) !== 0 };
    if (stats.isDirectory()) return { ...entry, kind: 'directory', entries: listFolder(below) };
    if (stats.isSymbolicLink()) return { ...entry, kind: 'symlink', target: readlinkSync(absolute) };
    return { ...entry, kind: 'file' };
  });
}

/** Without a bundler the page itself maps the names of packages. */
const PAGE = `<!doctype html><title>SDK</title>
<script type="importmap">
{ "imports": { "@holdfast/client": "/@holdfast/client/index.js", "@holdfast/protocol": "/@holdfast/protocol/index.js" } }
</script>
<script type="module" src="/browser-page.mjs"></script>`;

let running: RunningServer;
let sdk: InstalledSdk;
const folder = makeTempFolder('browser');

beforeAll(
  async () => {
    await ensureChromium();
    sdk = await installSdk(folder.path);
    running = await startFreshServer('browser');
  },
  { timeout: 12 * MINUTE_MS },
);
afterAll(async () => {
  await running?.remove();
  folder.remove();
});

interface Report {
  readonly failure?: string;
  readonly root: string;
  readonly folderRoot: string;
  readonly longestStillMs?: number;
}

function describeConnection(spaceId: string): {
  baseUrl: string;
  appId: string;
  spaceId: string;
  token: string;
} {
  return { baseUrl: running.server.url, appId: APP, spaceId, token: running.issuer.token(spaceId) };
}

/** Serves the page and what it asks for on any host name, until its report has come. */
async function runPage(host: string, spaceId: string): Promise<Report> {
  const report = Promise.withResolvers<Report>();
  const site = Bun.serve({
    hostname: '127.0.0.1',
    port: 0,
    async fetch(request) {
      const { pathname } = new URL(request.url);
      if (pathname === '/report') {
        report.resolve((await request.json()) as Report);
        return new Response();
      }
      if (pathname === '/config.json') {
        const listed = listFolder();
        return Response.json({ connection: describeConnection(spaceId), listed, ...SHAPE });
      }
      if (pathname.startsWith('/@holdfast/')) return new Response(Bun.file(join(sdk.modules, pathname)));
      if (pathname.startsWith('/folder/')) {
        return new Response(Bun.file(join(FOLDER, decodeURIComponent(pathname.slice('/folder/'.length)))));
      }
      if (/^\/browser-\w+\.mjs$/.test(pathname)) {
        return new Response(Bun.file(join(import.meta.dir, 'support', pathname)));
      }
      return new Response(PAGE, { headers: { 'content-type': 'text/html' } });
    },
  });
  const browser = openPage(`http://${host}:${site.port}/`);
  try {
    const ended = browser.ended.then((output) => ({
      failure: `the browser ended: ${output}`,
      root: '',
      folderRoot: '',
    }));
    return await Promise.race([report.promise, ended]);
  } finally {
    await browser.close();
    await site.stop(true);
  }
}

/** The bytes of `large`, as the page makes them. */
function makeNoise(): Uint8Array {
  const words = new Int32Array(SHAPE.largeBytes / 4);
  let x = 7;
  for (let index = 0; index < words.length; index += 1) {
    x ^= x << 13;
    x ^= x >>> 17;
    x ^= x << 5;
    words[index] = x;
  }
  return new Uint8Array(words.buffer);
}

describe('a page with the SDK', () => {
  const roots: string[] = [];
  const folderRoots: string[] = [];
  const pages = [
    { host: '127.0.0.1', isSecure: true, name: 'pushes and reads verified' },
    {
      host: 'page.test',
      isSecure: false,
      name: 'does so without a secure context, where WebCrypto is missing',
    },
  ];
  for (const { host, isSecure, name } of pages) {
    test(
      name,
      async () => {
        const report = await runPage(host, `space of ${host}`);
        expect(report).toEqual({
          root: expect.stringMatching(/^[0-9a-f]{64}$/),
          uploadedNodes: expect.any(Number),
          again: { requests: 1, uploadedNodes: 0 },
          readBytes: SHAPE.largeBytes,
          isExecutable: true,
          linkTarget: 'large',
          damageCode: 'VERIFICATION_FAILED',
          // The browser copies bytes on the page's thread, which blocks it meanwhile.
          uploadBodies: ['[object Blob]'],
          longestStillMs: expect.any(Number),
          fileHash: (await buildFile({ emit: () => undefined }, [makeNoise()])).hash,
          fileBytes: [SHAPE.largeBytes, SHAPE.largeBytes, SHAPE.largeBytes],
          filePhases: ['hashing', 'sending'],
          folderRoot: expect.stringMatching(/^[0-9a-f]{64}$/),
          folderFaults: 0,
          isSecureContext: isSecure,
          hasWebCrypto: isSecure,
        } as never);
        // Shown, not compared: a busy machine stops a page too.
        console.log(
          `${host}: the page stood still for ${report.longestStillMs} ms at most while it sent bodies`,
        );
        roots.push(report.root);
        folderRoots.push(report.folderRoot);
      },
      5 * MINUTE_MS,
    );
  }

  test('makes the tree of a real folder that the command line makes', async () => {
    const { baseUrl, appId, spaceId, token } = describeConnection('by the command line');
    const environment = {
      HOLDFAST_URL: baseUrl,
      HOLDFAST_APP: appId,
      HOLDFAST_SPACE: spaceId,
      HOLDFAST_TOKEN: token,
      XDG_CACHE_HOME: folder.path,
    };
    const { stdout } = await runHoldfast(['push', FOLDER, '--quiet'], { environment });
    expect(folderRoots).toEqual(Array(pages.length).fill(stdout.trim()));
  });

  test('makes the same tree in every browser, and others read what it pushed', async () => {
    expect(new Set(roots).size).toBe(1);
    const [root = ''] = roots;
    const tree = openTree(createNodeSource(createClient(describeConnection('space of 127.0.0.1'))));
    const names: string[] = [];
    let large: TreeItem | undefined;
    for await (const entry of tree.readDirectory(root)) {
      names.push(Buffer.from(entry.name).toString('latin1'));
      if (names.at(-1) === 'large') large = entry;
    }
    expect(names).toEqual(['large', 'link', 'wide', '\xff\xfe']);
    const pieces = await Array.fromAsync(tree.readFile(large as TreeItem));
    expect(Buffer.concat(pieces).equals(makeNoise())).toBe(true);
  });
});
