/** A real server with its console, and the ways into its demo Space that a test takes. */
import { mkdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import type { Browser, BrowserContextOptions } from 'playwright-core';
import { type Client, createClient } from '../../packages/client/index.ts';
import { openBrowser, openWatchedPage, type WatchedPage } from './console-page.ts';
import { ensureChromium } from './headless-chromium.ts';
import { operatorTokenFile } from './operator-token.ts';
import { readPrinted, runHoldfast, type ServerProcess, startServer } from './server-process.ts';
import { makeTempFolder } from './temp-folder.ts';

const NAMES = ['URL', 'APP', 'SPACE', 'TOKEN'] as const;

export interface ConsoleServer {
  readonly folder: string;
  readonly server: ServerProcess;
  readonly consoleUrl: string;
  /** the one-time link */
  readonly link: string;
  /** of the demo's Space */
  readonly token: string;
  readonly client: Client;
  open(options?: BrowserContextOptions): Promise<WatchedPage>;
  /** another one-time link */
  makeLink(): Promise<string>;
  /** opens the overview and gives the token that the server has made */
  signInAsOperator(watched: WatchedPage): Promise<void>;
  /** opens `view` and pastes there what the server printed */
  signIn(watched: WatchedPage, view: string): Promise<void>;
  /** a folder `name`, filled by `write`, and the root of the tree it was pushed as */
  push(name: string, write: (path: string) => void): Promise<string>;
  remove(): Promise<void>;
}

interface ConsoleServerOptions {
  /** runs before the server starts; `folder` is that of the test */
  readonly withData?: (folder: string) => Promise<void>;
  /** further ones */
  readonly arguments?: (folder: string) => readonly string[];
}

/** The data are in the folder `data` of the test's own. */
export async function startConsoleServer(
  purpose: string,
  { withData, arguments: more }: ConsoleServerOptions = {},
): Promise<ConsoleServer> {
  await ensureChromium();
  const folder = makeTempFolder(purpose);
  const data = join(folder.path, 'data');
  await withData?.(folder.path);
  const server = await startServer({
    data,
    arguments: [
      ...['--dev', '--operator-listen', '127.0.0.1:0'],
      ...['--audit-log', join(folder.path, 'audit.log')],
      ...(more?.(folder.path) ?? []),
    ],
  });
  const browser: Browser = await openBrowser();
  const find = (pattern: RegExp): Promise<string> => readPrinted(server, pattern);
  const printed: [string, string][] = [];
  for (const name of NAMES)
    printed.push([`HOLDFAST_${name}`, await find(new RegExp(`^export HOLDFAST_${name}=(\\S+)\n`, 'm'))]);
  const environment = {
    ...(Object.fromEntries(printed) as Record<string, string>),
    XDG_CACHE_HOME: folder.path,
  };
  const consoleUrl = await find(/^operators: (\S+)\n/m);
  const [baseUrl = '', appId = '', spaceId = '', token = ''] = printed.map(([, value]) => value);
  return {
    ...{ folder: folder.path, server, consoleUrl, link: await find(/(http:\S+#signin=\S+)\n/) },
    token,
    client: createClient({ baseUrl, appId, spaceId, token }),
    open: (options = {}) => openWatchedPage(browser, [consoleUrl, baseUrl], options),
    makeLink: async () => (await runHoldfast(['console', '--data', data])).stdout.trim(),
    async signInAsOperator({ page }) {
      await page.goto(consoleUrl);
      await page.getByLabel('Operator token').fill(readFileSync(operatorTokenFile(data), 'utf8').trim());
      await page.getByRole('button', { name: 'Sign in' }).click();
      await page.getByLabel('Operator token').waitFor({ state: 'detached' });
    },
    async signIn({ page }, view) {
      await page.goto(`${consoleUrl}/${view}`);
      const lines = printed.map(([name, value]) => `export ${name}=${value}`).join('\n');
      await page.getByLabel('Paste here what the server printed').fill(lines);
      await page.getByRole('button', { name: 'Sign in' }).click();
      await page
        .getByRole('button', { name: 'Leave the Space' })
        .or(page.getByRole('button', { name: 'Menu' }))
        .first()
        .waitFor();
    },
    async push(name, write) {
      const path = join(folder.path, name);
      mkdirSync(path, { recursive: true });
      write(path);
      const pushed = await runHoldfast(['push', path, '--name', name, '--quiet'], { environment });
      if (pushed.exitCode !== 0) throw new Error(pushed.stderr);
      return pushed.stdout.trim();
    },
    async remove() {
      await browser.close();
      if (server.isRunning()) await server.end('SIGKILL');
      folder.remove();
    },
  };
}
