/** The console in real headless Chromium, on a real server: the ways through it that a tenant and an operator take. */
import { afterAll, beforeAll, describe, expect, test } from 'bun:test';
import { mkdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import type { Browser } from 'playwright-core';
import { findBarriers, openBrowser, openWatchedPage, type WatchedPage } from './support/console-page.ts';
import { ensureChromium } from './support/headless-chromium.ts';
import { runHoldfast, type ServerProcess, startServer } from './support/server-process.ts';
import { makeTempFolder } from './support/temp-folder.ts';

const MINUTE_MS = 60_000;
const TEST_MS_MAX = 3 * MINUTE_MS;
const FIRST_VIEW_BYTES_MAX = 200 * 1024;

const folder = makeTempFolder('console');
let server: ServerProcess;
let browser: Browser;
let consoleUrl: string;
let environment: Record<string, string>;

/** What the server printed for a person, by its beginning. */
function findPrinted(pattern: RegExp): string {
  const found = pattern.exec(server.output())?.[1];
  if (found === undefined) throw new Error(`nothing like ${pattern} in: ${server.output()}`);
  return found;
}

beforeAll(
  async () => {
    await ensureChromium();
    server = await startServer({
      data: join(folder.path, 'data'),
      arguments: ['--dev', '--operator-listen', '127.0.0.1:0'],
    });
    consoleUrl = findPrinted(/^operators: (\S+)$/m);
    const names = ['URL', 'APP', 'SPACE', 'TOKEN'].map((name) => `HOLDFAST_${name}`);
    environment = Object.fromEntries(
      names.map((name) => [name, findPrinted(new RegExp(`^export ${name}=(\\S+)$`, 'm'))]),
    );
    environment.XDG_CACHE_HOME = folder.path;
    browser = await openBrowser();
  },
  { timeout: 12 * MINUTE_MS },
);
afterAll(async () => {
  await browser?.close();
  if (server?.isRunning()) await server.end('SIGKILL');
  folder.remove();
});

const open = (options = {}): Promise<WatchedPage> =>
  openWatchedPage(browser, [consoleUrl, environment.HOLDFAST_URL ?? ''], options);

/** Signed in to the demo's Space by pasting what the server printed. */
async function signIn({ page }: WatchedPage, view: string): Promise<void> {
  await page.goto(`${consoleUrl}/${view}`);
  const lines = ['URL', 'APP', 'SPACE', 'TOKEN'].map(
    (name) => `export HOLDFAST_${name}=${environment[`HOLDFAST_${name}`]}`,
  );
  await page.getByLabel('Paste here what the server printed').fill(lines.join('\n'));
  await page.getByRole('button', { name: 'Sign in' }).click();
}

async function push(name: string, write: (path: string) => void): Promise<string> {
  const path = join(folder.path, name);
  mkdirSync(path, { recursive: true });
  write(path);
  const { stdout, stderr, exitCode } = await runHoldfast(['push', path, '--name', name, '--quiet'], {
    environment,
  });
  if (exitCode !== 0) throw new Error(stderr);
  return stdout.trim();
}

describe('the page', () => {
  test(
    'comes whole with few bytes, and the link of the terminal signs in once',
    async () => {
      const watched = await open();
      const { page } = watched;
      const taken: Promise<number>[] = [];
      page.on('response', (response) => {
        if (response.url().startsWith(consoleUrl))
          taken.push(
            response
              .request()
              .sizes()
              .then((sizes) => sizes.responseBodySize),
          );
      });
      await page.goto(consoleUrl);
      await page.getByRole('heading', { name: 'Overview' }).waitFor();
      const bytes = (await Promise.all(taken)).reduce((sum, each) => sum + each, 0);
      expect(bytes).toBeLessThan(FIRST_VIEW_BYTES_MAX);
      const link = findPrinted(/(http:\S+#signin=\S+)/);
      await page.goto('about:blank');
      await page.goto(link);
      await page.getByText('demo / home').waitFor();
      // Neither the address nor the history has the code.
      expect(page.url()).toBe(`${consoleUrl}/#/space`);
      await page.goto('about:blank');
      await page.goto(link);
      await page.getByText('The one-time link did not work').waitFor();
      expect(watched.incidents).toEqual([]);
      await watched.close();
    },
    TEST_MS_MAX,
  );

  test(
    'keeps nobody out in any of its views, in light and dark, wide and narrow',
    async () => {
      await push('walked', (path) => writeFileSync(join(path, 'note.md'), '# A note\n'));
      const views = ['', '#/apps', '#/spaces', '#/checks', '#/backups', '#/health', '#/audit'];
      const ofSpace = ['#/space', '#/space/compare', '#/space/push', '#/space/usage'];
      const found: string[] = [];
      const looks = [
        { colorScheme: 'light', viewport: { width: 1280, height: 800 } },
        { colorScheme: 'dark', viewport: { width: 390, height: 800 } },
      ] as const;
      for (const look of looks) {
        const watched = await open(look);
        const { page } = watched;
        for (const view of [...views, '#/space', '#signed-in', ...ofSpace]) {
          if (view === '#signed-in') await signIn(watched, '#/space');
          else await page.goto(`${consoleUrl}/${view === '' ? '#/' : view}`);
          await page.locator('h1').first().waitFor();
          await page.waitForFunction(() => document.querySelector('.loading') === null);
          found.push(...(await findBarriers(page)).map((each) => `${look.colorScheme} ${view}: ${each}`));
          const overflow = await page.evaluate(() => document.documentElement.scrollWidth - innerWidth);
          if (overflow > 0) found.push(`${look.viewport.width} px, ${view}: ${overflow} px too wide`);
        }
        expect(watched.incidents).toEqual([]);
        await watched.close();
      }
      expect(found).toEqual([]);
    },
    TEST_MS_MAX,
  );
});
