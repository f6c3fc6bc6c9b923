/** The console for an operator, in real Chromium: an operator signs in with the operator token, and changes Apps and Spaces. */
import { afterAll, beforeAll, expect, test } from 'bun:test';
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import type { Page } from 'playwright-core';
import { findBarriers } from './support/console-page.ts';
import { type ConsoleServer, startConsoleServer } from './support/console-server.ts';
import { runHoldfast } from './support/server-process.ts';

const TEST_MS_MAX = 8 * 60_000;
const TOKEN = 'an-operator-token-that-nobody-guesses';

let running: ConsoleServer;

beforeAll(
  async () => {
    running = await startConsoleServer('console-operator', {
      withData: async (folder) =>
        writeFileSync(join(folder, 'operator-token'), `${TOKEN}\n`, { mode: 0o600 }),
      arguments: (folder) => ['--operator-token-file', join(folder, 'operator-token')],
    });
  },
  { timeout: 12 * 60_000 },
);
afterAll(() => running?.remove());

async function signInAsOperator(page: Page, token: string): Promise<void> {
  await page.getByLabel('Operator token').fill(token);
  await page.getByRole('button', { name: 'Sign in' }).click();
}

async function readApp(appId: string): Promise<Record<string, unknown>> {
  const data = join(running.folder, 'data');
  const { stdout } = await runHoldfast(['app', 'list', '--json', '--data', data]);
  const apps = JSON.parse(stdout) as Record<string, unknown>[];
  return apps.find((app) => app.appId === appId) ?? {};
}

test(
  'the console asks for a token of the listener, keeps it with the tab, and forgets it',
  async () => {
    const watched = await running.open();
    const { page } = watched;
    await page.goto(running.consoleUrl);
    await signInAsOperator(page, 'a-wrong-one');
    await page.getByText('The operator token is wrong').waitFor();
    await signInAsOperator(page, TOKEN);
    await page.getByText('check passes').waitFor();
    expect(page.url()).not.toContain('operator-token');
    expect(await page.evaluate(() => JSON.stringify(localStorage))).toBe('{}');
    await page.reload();
    await page.getByText('check passes').waitFor();
    await page.getByRole('button', { name: 'Sign out as operator' }).click();
    await page.getByRole('heading', { name: 'Sign in as operator' }).waitFor();
    expect(await page.evaluate(() => JSON.stringify(sessionStorage))).toBe('{}');
    await page.reload();
    await page.getByRole('heading', { name: 'Sign in as operator' }).waitFor();
    expect(watched.incidents).toEqual([]);
    await watched.close();
  },
  TEST_MS_MAX,
);

test(
  'a collection is planned, then deletes what nothing keeps',
  async () => {
    const { hash } = await running.client.putNode(
      { contentType: 'text/plain', content: 'soon gone' },
      { leaseDurationMs: 3_600_000 },
    );
    const watched = await running.open();
    const { page } = watched;
    await page.goto(`${running.consoleUrl}/#/spaces`);
    await signInAsOperator(page, TOKEN);
    await page.getByRole('button', { name: 'Plan a collection of demo / home' }).click();
    const dialog = page.getByRole('dialog');
    // It is leased.
    await dialog.getByText('Nothing: everything is kept.').waitFor();
    await dialog.getByRole('button', { name: 'Close' }).click();
    await page.getByRole('button', { name: 'Collect demo / home' }).click();
    await dialog.getByText('holdfast space gc demo home').waitFor();
    await dialog.getByRole('button', { name: 'Collect', exact: true }).click();
    await page.getByText('0 nodes deleted').waitFor();
    expect((await running.client.readMetadata(hash)).metadata.size).toBe(9);
    await page.goto(`${running.consoleUrl}/#/audit`);
    await page.getByRole('cell', { name: 'leaseNode' }).first().waitFor();
    expect(watched.incidents).toEqual([]);
    await watched.close();
  },
  TEST_MS_MAX,
);

test(
  'an App is suspended and resumed, and each question shows its command',
  async () => {
    const watched = await running.open();
    const { page } = watched;
    await page.goto(`${running.consoleUrl}/#/apps`);
    await signInAsOperator(page, TOKEN);
    for (const [verb, label, status] of [
      ['suspend', 'Suspend', 'suspended'],
      ['resume', 'Resume', 'active'],
    ] as const) {
      await page.getByRole('button', { name: `${label} …` }).click();
      const dialog = page.getByRole('dialog');
      await dialog.getByText(`holdfast app ${verb} demo`).waitFor();
      expect(await findBarriers(page)).toEqual([]);
      await page.keyboard.press('Escape');
      await dialog.waitFor({ state: 'detached' });
      await page.getByRole('button', { name: `${label} …` }).click();
      await dialog.getByRole('button', { name: label, exact: true }).click();
      await page.getByText(status, { exact: true }).waitFor();
      expect((await readApp('demo')).status).toBe(status);
    }
    expect(watched.incidents).toEqual([]);
    await watched.close();
  },
  TEST_MS_MAX,
);

test(
  'quotas are set and lifted, and a subject is revoked',
  async () => {
    const watched = await running.open();
    const { page } = watched;
    await page.goto(`${running.consoleUrl}/#/apps`);
    await signInAsOperator(page, TOKEN);
    const dialog = page.getByRole('dialog');
    const setQuotas = async (bytes: string, nodes: string): Promise<void> => {
      await page.getByRole('button', { name: 'Set quotas …' }).click();
      await dialog.getByRole('textbox', { name: 'Bytes' }).fill(bytes);
      await dialog.getByRole('textbox', { name: 'Nodes' }).fill(nodes);
      await dialog.getByRole('button', { name: 'Set quotas' }).click();
      await dialog.waitFor({ state: 'detached' });
    };
    await setQuotas('10GiB', '1000');
    await page.getByText('of 10 GiB').waitFor();
    expect((await readApp('demo')).quotas).toEqual({
      maxBytes: 10 * 1024 ** 3,
      maxNodes: 1000,
      maxCommits: null,
    });
    await setQuotas('', '');
    await page.getByText('of 10 GiB').waitFor({ state: 'detached' });
    expect((await readApp('demo')).quotas).toEqual({ maxBytes: null, maxNodes: null, maxCommits: null });
    await page.getByRole('button', { name: 'Revoke tokens …' }).click();
    await dialog.getByLabel('What is refused').selectOption('sub');
    await dialog.getByRole('textbox', { name: 'sub' }).fill('mallory<b>');
    await dialog.getByText("holdfast app revoke demo --sub 'mallory<b>'").waitFor();
    await dialog.getByRole('button', { name: 'Revoke', exact: true }).click();
    await page.getByText('1 revoked of demo').click();
    await page.getByText('mallory<b>').waitFor();
    expect((await readApp('demo')).revocations).toEqual([
      { sub: 'mallory<b>', until: expect.anything() },
    ] as never);
    expect(watched.incidents).toEqual([]);
    await watched.close();
  },
  TEST_MS_MAX,
);

test(
  'a check says what it looked at',
  async () => {
    const watched = await running.open();
    const { page } = watched;
    await page.goto(`${running.consoleUrl}/#/checks`);
    await signInAsOperator(page, TOKEN);
    await page.getByText('The server knows of no damaged node').waitFor();
    await page.getByRole('button', { name: 'Check now' }).click();
    await page.getByText('Everything is as it should be').waitFor();
    expect(watched.incidents).toEqual([]);
    await watched.close();
  },
  TEST_MS_MAX,
);

test(
  'a backup is made from the page, and a refusal says why',
  async () => {
    const made = join(running.folder, 'made by the page');
    const watched = await running.open();
    const { page } = watched;
    await page.goto(`${running.consoleUrl}/#/backups`);
    await signInAsOperator(page, TOKEN);
    await page.getByText('No backup of this data folder was ever made').waitFor();
    const folder = page.getByLabel('Folder for the backup');
    await folder.fill(join(running.folder, 'data', 'inside'));
    await page.getByRole('button', { name: 'Back up now' }).click();
    await page.getByRole('alert').getByText('is inside the data folder').waitFor();
    await folder.fill(made);
    await page.getByText(`holdfast backup check '${made}'`).waitFor();
    await page.getByRole('button', { name: 'Back up now' }).click();
    await page.getByText('of it copied now').waitFor();
    await page.getByText('The last backup ended').waitFor();
    expect(await findBarriers(page)).toEqual([]);
    expect((await runHoldfast(['backup', 'check', made])).exitCode).toBe(0);
    // The refusal is an answer of the server, which a browser notes.
    expect(watched.incidents.filter((each) => !each.includes('409'))).toEqual([]);
    await watched.close();
  },
  TEST_MS_MAX,
);
