/** The console in real headless Chromium on a real server: it loads, and everyone can use it. */
import { afterAll, beforeAll, expect, test } from 'bun:test';
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { findBarriers } from './support/console-page.ts';
import { type ConsoleServer, startConsoleServer } from './support/console-server.ts';

const MINUTE_MS = 60_000;
const TEST_MS_MAX = 8 * MINUTE_MS;
const FIRST_VIEW_BYTES_MAX = 200 * 1024;

let running: ConsoleServer;

beforeAll(
  async () => {
    running = await startConsoleServer('console');
  },
  { timeout: 12 * MINUTE_MS },
);
afterAll(() => running?.remove());

test(
  'the first view takes few bytes, compressed or not',
  async () => {
    const watched = await running.open();
    const paths: string[] = [];
    watched.page.on('response', (response) => paths.push(new URL(response.url()).pathname));
    await running.signInAsOperator(watched);
    await watched.page.getByText('check passes').waitFor();
    const files = [...new Set(paths)].filter((path) => path === '/' || path.startsWith('/console/'));
    expect(files.length).toBeGreaterThan(2);
    const bodies = await Promise.all(
      files.map(async (path) => (await fetch(`${running.consoleUrl}${path}`)).arrayBuffer()),
    );
    expect(bodies.reduce((sum, body) => sum + body.byteLength, 0)).toBeLessThan(FIRST_VIEW_BYTES_MAX);
    expect(watched.incidents).toEqual([]);
    await watched.close();
  },
  TEST_MS_MAX,
);

test(
  'the link of the terminal signs in once, and leaves the address and the history',
  async () => {
    const watched = await running.open();
    const { page } = watched;
    await page.goto(running.link);
    await page.getByText('demo / home').waitFor();
    expect(page.url()).toBe(`${running.consoleUrl}/#/space`);
    expect(await page.evaluate(() => JSON.stringify([localStorage, document.cookie]))).toBe('[{},""]');
    // A reload keeps both, for as long as the tab is open.
    await page.reload();
    await page.getByText('demo / home').waitFor();
    await page.goto('about:blank');
    await page.goBack();
    await page.getByText('demo / home').waitFor();
    expect(page.url()).toBe(`${running.consoleUrl}/#/space`);
    await page.goto(`${running.consoleUrl}/#/apps`);
    await page.getByRole('button', { name: 'Suspend …' }).waitFor();
    const other = await running.open();
    await other.page.goto(running.link);
    await other.page.getByText('The one-time link did not work').waitFor();
    await other.page.goto(await running.makeLink());
    await other.page.getByText('demo / home').waitFor();
    await other.close();
    expect(watched.incidents).toEqual([]);
    await watched.close();
  },
  TEST_MS_MAX,
);

const VIEWS = [
  '',
  '#/apps',
  '#/spaces',
  '#/checks',
  '#/backups',
  '#/health',
  '#/audit',
  '#/nowhere',
  '#/space',
];
const SPACE_VIEWS = [
  '#/space',
  '#/space/compare',
  '#/space/push',
  '#/space/usage',
  '#/space/tree/ROOT',
  '#/space/tree/ROOT/note.md',
  '#/space/node/ROOT',
  '#/space/compare?from=ROOT&to=ROOT',
];

test.each([
  { colorScheme: 'light', viewport: { width: 1280, height: 800 } },
  { colorScheme: 'dark', viewport: { width: 390, height: 800 } },
] as const)(
  'every view passes the checks of accessibility and fits the page: %j',
  async (look) => {
    const root = await running.push('walked', (path) => writeFileSync(join(path, 'note.md'), '# A note\n'));
    const watched = await running.open({ ...look, reducedMotion: 'reduce' });
    const { page } = watched;
    const found: string[] = [];
    const judge = async (view: string): Promise<void> => {
      await page.locator('h1').first().waitFor();
      await page.waitForFunction(() => document.querySelector('.loading') === null);
      found.push(...(await findBarriers(page)).map((each) => `${view}: ${each}`));
      const overflow = await page.evaluate(() => document.documentElement.scrollWidth - innerWidth);
      if (overflow > 0) found.push(`${view}: ${overflow} px too wide`);
    };
    await page.goto(running.consoleUrl);
    await judge('signed out');
    await running.signInAsOperator(watched);
    for (const view of VIEWS) {
      await page.goto(`${running.consoleUrl}/${view}`);
      await judge(view);
    }
    await running.signIn(watched, '#/space');
    for (const view of SPACE_VIEWS) {
      await page.goto(`${running.consoleUrl}/${view.replaceAll('ROOT', root)}`);
      await judge(view);
    }
    expect(found).toEqual([]);
    expect(watched.incidents).toEqual([]);
    await watched.close();
  },
  TEST_MS_MAX,
);
