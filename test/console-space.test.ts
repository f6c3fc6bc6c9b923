/** A Space in the console, in real Chromium: a tenant finds a way through it, and content tries to run there. */
import { afterAll, beforeAll, expect, test } from 'bun:test';
import { mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { addSnapshot, buildFile, DirectoryBuilder, MemoryTree, pushTree } from '../packages/client/index.ts';
import { type ConsoleServer, startConsoleServer } from './support/console-server.ts';
import { makeIssuer } from './support/issuer.ts';
import { addApp } from './support/server-process.ts';
import { until } from './support/until.ts';

const MINUTE_MS = 60_000;
const TEST_MS_MAX = 8 * MINUTE_MS;

const RUN = (where: string): string => `console.log('ran:${where}')`;
const HOSTILE_NAME = `<img src=x onerror="${RUN('name')}">`;
const TURNED_NAME = 'invoice\u202efdp.exe';

let running: ConsoleServer;

beforeAll(
  async () => {
    const hostileIssuer = makeIssuer(`https://x.test/<script>${RUN('issuer')}</script>`);
    running = await startConsoleServer('console-space', {
      withData: (folder) => addApp(join(folder, 'data'), 'shop<b>', hostileIssuer),
    });
  },
  { timeout: 12 * MINUTE_MS },
);
afterAll(() => running?.remove());

test(
  'a folder goes in, is looked at, changes, and comes back as it was',
  async () => {
    const watched = await running.open();
    const { page } = watched;
    await running.signIn(watched, '#/space/push');
    const path = join(running.folder, 'holiday');
    mkdirSync(join(path, 'deep', 'er'), { recursive: true });
    writeFileSync(join(path, 'deep', 'er', 'note.txt'), 'sun\n');
    const large = Buffer.alloc(3 * 1024 * 1024, 'all work and no play makes a long file\n');
    writeFileSync(join(path, 'large.txt'), large);
    const send = async (): Promise<void> => {
      await page.getByLabel('Choose a folder').setInputFiles(path);
      await page.getByRole('button', { name: 'Push', exact: true }).click();
      await page.getByText('It is kept as a snapshot of holiday').waitFor();
    };
    await send();
    await page.getByRole('link', { name: 'Look at the tree' }).click();
    await page.getByRole('link', { name: 'large.txt' }).click();
    const [download] = await Promise.all([
      page.waitForEvent('download'),
      page.getByRole('button', { name: /^Download/ }).click(),
    ]);
    expect(download.suggestedFilename()).toBe('large.txt');
    expect(readFileSync(await download.path()).equals(large)).toBe(true);
    // Read by ranges, because the file is longer than one view of it.
    await page.getByText(`Bytes 0 to 262144 of ${large.length}`).waitFor();
    await page.getByRole('button', { name: 'Later' }).click();
    await page.getByText(`Bytes 262144 to 524288 of ${large.length}`).waitFor();

    writeFileSync(join(path, 'deep', 'er', 'note.txt'), 'rain\n');
    writeFileSync(join(path, 'new.txt'), 'new\n');
    await page.goto(`${running.consoleUrl}/#/space/push`);
    await send();
    await page.goto(`${running.consoleUrl}/#/space`);
    await page.getByRole('link', { name: /^What changed/ }).click();
    await page.getByText('+1 added').waitFor();
    await page.getByRole('link', { name: 'deep/er/note.txt' }).waitFor();
    await page.getByRole('link', { name: 'new.txt' }).waitFor();
    expect(watched.incidents).toEqual([]);
    await watched.close();
  },
  TEST_MS_MAX,
);

const WIDE_ENTRIES = 12_000;

test(
  'a directory of ten thousand names is walked with the keyboard, and only what is in sight is in the page',
  async () => {
    const tree = new MemoryTree();
    const file = await buildFile(tree, [new TextEncoder().encode('the same in all\n')]);
    const directory = new DirectoryBuilder(tree);
    const common = { kind: 'file', entryCount: 0, isExecutable: false, mtimeNs: undefined } as const;
    for (let index = 0; index < WIDE_ENTRIES; index += 1) {
      const name = new TextEncoder().encode(`entry-${String(index).padStart(5, '0')}`);
      await directory.add({ name, ...file, ...common });
    }
    const { hash: root, bytes } = await directory.finish();
    await pushTree(running.client, tree.supply(root));
    await addSnapshot(running.client, { name: 'wide', root, host: 'test', path: '/', bytes });
    const watched = await running.open();
    const { page } = watched;
    await running.signIn(watched, `#/space/tree/${root}`);
    const list = page.getByRole('grid');
    await page.getByText('entry-00002').waitFor();
    await list.focus();
    await page.keyboard.press('ArrowDown');
    await page.keyboard.press('ArrowDown');
    await page.keyboard.press('Enter');
    await page.getByRole('button', { name: /^Download/ }).waitFor();
    expect(page.url()).toEndWith('/entry-00002');
    await page.goBack();
    await page.getByText('entry-00002').waitFor();
    // Each End leads to the last name that is read, and reads on.
    await list.focus();
    await until(async () => {
      await page.keyboard.press('End');
      return page.getByText('entry-11999').isVisible();
    });
    expect(await page.getByRole('row').count()).toBeLessThan(100);
    expect(watched.incidents).toEqual([]);
    await watched.close();
  },
  TEST_MS_MAX,
);

test(
  'nothing that others have stored runs, wherever it is shown',
  async () => {
    const script = (where: string): string =>
      `<script>${RUN(where)}</script><img src=x onerror="${RUN(where)}">`;
    const svg = `<svg xmlns="http://www.w3.org/2000/svg" onload="${RUN('svg')}"><script>${RUN('svg')}</script></svg>`;
    const root = await running.push('hostile', (path) => {
      writeFileSync(join(path, HOSTILE_NAME), script('file'));
      writeFileSync(join(path, TURNED_NAME), 'MZ');
      writeFileSync(join(path, 'page.html'), `<!doctype html>${script('html')}`);
      writeFileSync(join(path, 'drawing.svg'), svg);
      writeFileSync(join(path, 'photo.png'), svg);
      writeFileSync(
        join(path, 'frame.xhtml'),
        `<html xmlns="http://www.w3.org/1999/xhtml">${script('xhtml')}</html>`,
      );
      writeFileSync(join(path, 'colours.txt'), '\u001b]0;title\u0007\u001b[2Jx');
    });
    const put = async (contentType: string, content: string): Promise<string> =>
      (await running.client.putNode({ contentType, content })).hash;
    const nodes = [
      await put('text/html', script('node')),
      await put('image/svg+xml', svg),
      await put(`text/html"><script>${RUN('type')}</script>`, script('node with a type')),
      await put('application/javascript', RUN('javascript')),
      await put('application/vnd.holdfast.tree.directory.v1', script('no directory')),
      await put('application/vnd.holdfast.catalog.v1+json', script('no catalog')),
    ];
    await running.client.updateRootRefs({
      requestId: 'hostile',
      changes: Object.fromEntries(nodes.map((hash) => [hash, 1])),
    });
    const watched = await running.open();
    const { page } = watched;
    await running.signIn(watched, `#/space/tree/${root}`);
    await page.getByRole('link', { name: HOSTILE_NAME }).waitFor();
    // Characters that reverse the direction of text are shown as codes.
    await page.getByRole('link', { name: 'invoice\\u202efdp.exe' }).waitFor();
    const names = [
      HOSTILE_NAME,
      TURNED_NAME,
      'page.html',
      'drawing.svg',
      'photo.png',
      'frame.xhtml',
      'colours.txt',
    ];
    const places = [
      ...names.map((name) => `#/space/tree/${root}/${encodeURIComponent(name)}`),
      ...nodes.flatMap((hash) => [`#/space/node/${hash}`, `#/space/tree/${hash}`]),
    ];
    for (const place of places) {
      await page.goto(`${running.consoleUrl}/${place}`);
      await page.locator('iframe, .notice, .empty').first().waitFor();
      await page.waitForFunction(() => document.querySelector('.loading') === null);
      for (const frame of page.frames().slice(1)) {
        await frame.waitForLoadState();
        expect(await frame.locator('pre').count()).toBe(1);
        expect(await frame.locator('script, img, svg').count()).toBe(0);
      }
    }
    for (const view of [
      '#/space',
      `#/space/compare?from=${root}&to=${nodes[4]}`,
      '#/apps',
      '#/audit',
      '#/spaces?app=<b>',
    ]) {
      await page.goto(`${running.consoleUrl}/${view}`);
      await page.locator('h1').waitFor();
      await page.waitForFunction(() => document.querySelector('.loading') === null);
    }
    expect(watched.incidents).toEqual([]);
    await watched.close();
  },
  TEST_MS_MAX,
);
