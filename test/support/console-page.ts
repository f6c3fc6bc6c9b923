/** The console in a real browser, watched: whatever runs, asks elsewhere, or breaks the page's own policy is written down. */
import { source as AXE } from 'axe-core';
import { type Browser, type BrowserContextOptions, chromium, type Page } from 'playwright-core';

const FLAGS = [
  '--no-sandbox',
  '--disable-gpu',
  '--disable-dev-shm-usage',
  '--host-resolver-rules=MAP * 127.0.0.1',
];
/** Only ends what hangs. */
const WAIT_MS_MAX = 180_000;

export interface WatchedPage {
  readonly page: Page;
  /** scripts that failed, policies that were broken, dialogs that content opened, origins that were asked besides those allowed */
  readonly incidents: readonly string[];
  close(): Promise<void>;
}

export function openBrowser(): Promise<Browser> {
  return chromium.launch({ executablePath: '/usr/bin/chromium', args: FLAGS });
}

/** `origins`: those that the page may ask. */
export async function openWatchedPage(
  browser: Browser,
  origins: readonly string[],
  options: BrowserContextOptions = {},
): Promise<WatchedPage> {
  const context = await browser.newContext({ ...options, acceptDownloads: true });
  const page = await context.newPage();
  page.setDefaultTimeout(WAIT_MS_MAX);
  const incidents: string[] = [];
  page.on('pageerror', (error) => incidents.push(`a script failed: ${error.stack}`));
  page.on('dialog', (dialog) => {
    incidents.push(`content opened a dialog: ${dialog.message()}`);
    void dialog.dismiss();
  });
  page.on('console', (message) => {
    const text = message.text();
    if (/Content Security Policy|Trusted|blocked/i.test(text))
      incidents.push(`the policy was broken: ${text}`);
    if (text.startsWith('ran:')) incidents.push(`content ran: ${text}`);
  });
  page.on('request', (request) => {
    const url = new URL(request.url());
    const isOwn = url.protocol === 'blob:' || origins.includes(url.origin);
    if (!isOwn) incidents.push(`the page asked ${url.origin}`);
  });
  await page.addInitScript(() => {
    document.addEventListener('securitypolicyviolation', ({ violatedDirective, blockedURI }) => {
      console.error(`Content Security Policy ${violatedDirective} ${blockedURI}`);
    });
  });
  return { page, incidents, close: () => context.close() };
}

/** The barriers for disabled people that axe finds; empty when there are none. */
export async function findBarriers(page: Page): Promise<readonly string[]> {
  await page.evaluate(AXE);
  return page.evaluate(async () => {
    interface Found {
      readonly id: string;
      readonly help: string;
      readonly nodes: readonly { readonly html: string; readonly failureSummary?: string }[];
    }
    const { axe } = globalThis as unknown as {
      axe: { run(of: Document, options: object): Promise<{ violations: readonly Found[] }> };
    };
    const { violations } = await axe.run(document, { iframes: false });
    return violations.flatMap(({ id, help, nodes }) =>
      nodes.map(({ html, failureSummary }) => `${id}: ${help}: ${html.slice(0, 200)} ${failureSummary}`),
    );
  });
}
