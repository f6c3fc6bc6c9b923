/**
 * Snapshots and folders in the console, in real Chromium: names, pins, forgotten snapshots, comparisons, and a folder as one
 * file.
 */
import { afterAll, beforeAll, expect, test } from 'bun:test';
import { mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { readNames } from '../packages/client/index.ts';
import { findBarriers } from './support/console-page.ts';
import { type ConsoleServer, startConsoleServer } from './support/console-server.ts';
import { makeIssuer } from './support/issuer.ts';
import { runHoldfast } from './support/server-process.ts';

const TEST_MS_MAX = 8 * 60_000;
const ENTRIES = 40;

let running: ConsoleServer;
let root: string;

beforeAll(
  async () => {
    running = await startConsoleServer('console-snapshots');
    root = await running.push('album', (path) => {
      mkdirSync(join(path, 'sub'));
      for (let index = 0; index < ENTRIES - 1; index += 1)
        writeFileSync(join(path, `photo ${String(index).padStart(2, '0')}`), `picture ${index}\n`);
      writeFileSync(join(path, 'sub', 'note'), 'sun\n');
    });
    await running.push('album', (path) => writeFileSync(join(path, 'photo 00'), 'another\n'));
  },
  { timeout: 12 * 60_000 },
);
afterAll(() => running?.remove());

const listSnapshots = async () => (await readNames(running.client)).snapshots;

for (const viewport of [
  { width: 1280, height: 800 },
  { width: 390, height: 800 },
]) {
  test(
    `a folder fills its list before anyone scrolls, has its name, and comes as one file: ${viewport.width} px`,
    async () => {
      const watched = await running.open({ viewport });
      const { page } = watched;
      await running.signIn(watched, `#/space/tree/${root}`);
      const list = page.getByRole('grid');
      await page.getByText(`${ENTRIES} names here`).waitFor();
      // As many rows as the list is high, and no white below them.
      await page.waitForFunction(() => {
        const grid = document.querySelector('[role="grid"]');
        const bottom = grid?.getBoundingClientRect().bottom ?? 0;
        const rows = [...document.querySelectorAll('[role="row"]')].map((row) => row.getBoundingClientRect());
        return (
          (grid?.clientHeight ?? 0) > 300 && rows.some((row) => row.top < bottom && row.bottom >= bottom - 2)
        );
      });
      expect(await list.evaluate((grid) => grid.scrollTop)).toBe(0);
      await page.getByText(/^album, \d{4}-\d{2}-\d{2}$/).waitFor();
      expect(await page.locator('main').textContent()).not.toMatch(/[0-9a-f]{64}/);
      const [download] = await Promise.all([
        page.waitForEvent('download'),
        page.getByRole('button', { name: 'Download as .tar' }).click(),
      ]);
      expect(download.suggestedFilename()).toBe('album.tar');
      const made = join(running.folder, `unpacked-${viewport.width}`);
      mkdirSync(made);
      const unpacked = Bun.spawnSync(['tar', '-xf', await download.path(), '-C', made]);
      expect([unpacked.exitCode, unpacked.stderr.toString()]).toEqual([0, '']);
      expect(readFileSync(join(made, 'album', 'sub', 'note'), 'utf8')).toBe('sun\n');
      expect(readFileSync(join(made, 'album', 'photo 38'), 'utf8')).toBe('picture 38\n');
      expect(watched.incidents).toEqual([]);
      await watched.close();
    },
    TEST_MS_MAX,
  );
}

test(
  'two snapshots are compared by choice, and the command beside it works anywhere',
  async () => {
    const watched = await running.open();
    const { page } = watched;
    await running.signIn(watched, '#/space/compare');
    const [newer = '', older = ''] = (await listSnapshots())
      .toSorted((a, b) => b.time - a.time)
      .map(({ name, id }) => `${name}@${id}`);
    // A field to type in stands there until the list has come.
    await page.locator('select[name="from"]').selectOption(older);
    await page.locator('select[name="to"]').selectOption(newer);
    await page.getByRole('button', { name: 'Compare' }).click();
    await page.getByRole('link', { name: 'photo 00' }).waitFor();
    const command = page.getByText(`holdfast diff ${older} ${newer} --url`);
    const [program, ...words] = ((await command.textContent()) ?? '').split(' ');
    expect(program).toBe('holdfast');
    const environment = { HOLDFAST_TOKEN: running.token };
    const { stdout, exitCode } = await runHoldfast(words, { environment, cwd: '/' });
    expect([exitCode, stdout]).toEqual([0, expect.stringContaining('photo 00')]);
    expect(await findBarriers(page)).toEqual([]);
    expect(watched.incidents).toEqual([]);
    await watched.close();
  },
  TEST_MS_MAX,
);

test(
  'a snapshot is pinned, unpinned and forgotten',
  async () => {
    const watched = await running.open();
    const { page } = watched;
    await running.signIn(watched, '#/space');
    const dialog = page.getByRole('dialog');
    const confirm = async (label: string, verb: string): Promise<void> => {
      await page
        .getByRole('button', { name: new RegExp(`^${label}`) })
        .first()
        .click();
      await dialog.getByRole('button', { name: verb, exact: true }).click();
      await dialog.waitFor({ state: 'detached' });
    };
    await confirm('Pin', 'Pin');
    await page.getByText('pinned', { exact: true }).waitFor();
    expect((await listSnapshots()).filter(({ pinned }) => pinned)).toHaveLength(1);
    await confirm('Unpin', 'Unpin');
    await page.getByText('pinned', { exact: true }).waitFor({ state: 'detached' });
    await confirm('Forget', 'Forget');
    await page.getByText('1 snapshot.').waitFor();
    expect(await listSnapshots()).toHaveLength(1);
    expect(watched.incidents).toEqual([]);
    await watched.close();
  },
  TEST_MS_MAX,
);

test(
  'an App is added, and a check says how far it is',
  async () => {
    const watched = await running.open();
    const { page } = watched;
    await running.signInAsOperator(watched);
    await page.getByText('No backup yet').waitFor();
    await page.getByText('Collecting since').first().waitFor();
    await page.goto(`${running.consoleUrl}/#/apps`);
    await page.getByRole('button', { name: 'Add an App …' }).click();
    const dialog = page.getByRole('dialog');
    await dialog.getByLabel('App', { exact: true }).fill('added');
    await dialog.getByLabel('Issuer, the iss of its tokens').fill('https://added.test');
    const keys = join(running.folder, 'added.json');
    makeIssuer('https://added.test').writeKeySet(keys);
    await dialog.getByLabel(/^Public keys/).fill(readFileSync(keys, 'utf8'));
    expect(await findBarriers(page)).toEqual([]);
    await dialog.getByRole('button', { name: 'Add', exact: true }).click();
    await page.getByRole('heading', { name: 'added active' }).waitFor();
    const data = join(running.folder, 'data');
    await page.goto(`${running.consoleUrl}/#/checks`);
    await page.getByText(`holdfast check --data ${data}`).waitFor();
    await page.getByRole('button', { name: 'Check now' }).click();
    await page.getByText('Everything is as it should be').waitFor();
    expect(watched.incidents).toEqual([]);
    await watched.close();
  },
  TEST_MS_MAX,
);
