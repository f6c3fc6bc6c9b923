/** A real browser without a window, for one page. tools/debian-programs.mjs installs it where it is missing. */
import { join } from 'node:path';
import { runEngineCommand } from './engine-process.ts';
import { ROOT } from './server-process.ts';
import { makeTempFolder } from './temp-folder.ts';

const FLAGS = [
  '--headless',
  // Only our own pages on loopback are opened, and there is no sandbox for root.
  '--no-sandbox',
  '--disable-gpu',
  '--disable-dev-shm-usage',
  '--disable-quic',
  '--no-first-run',
  '--disable-background-networking',
  '--disable-component-update',
  '--disable-sync',
];
const END_MS_MAX = 5_000;

export interface OpenPage {
  /** Resolves, with what it printed, when the browser ends by itself. */
  readonly ended: Promise<string>;
  /** ends the browser and removes all it wrote */
  close(): Promise<void>;
}

/** Installs the browser where it is missing. Rejects with what to do when that is not possible. */
export async function ensureChromium(): Promise<void> {
  await runEngineCommand(['node', join(ROOT, 'tools', 'debian-programs.mjs'), 'chromium']);
}

/** Opens `url`; every other name than the loopback addresses also leads to loopback, so no page can leave the machine. */
export function openPage(url: string): OpenPage {
  const folder = makeTempFolder('chromium');
  const mapping = '--host-resolver-rules=MAP * 127.0.0.1';
  const child = Bun.spawn(['chromium', ...FLAGS, mapping, `--user-data-dir=${folder.path}`, url], {
    cwd: folder.path,
    // Nothing from the home folder of the user.
    env: { ...process.env, HOME: folder.path },
    stdin: 'ignore',
    stdout: 'ignore',
    stderr: 'pipe',
  });
  const output = new Response(child.stderr).text();
  return {
    ended: child.exited.then(() => output),
    async close() {
      child.kill('SIGTERM');
      const timer = setTimeout(() => child.kill('SIGKILL'), END_MS_MAX);
      await child.exited;
      clearTimeout(timer);
      folder.remove();
    },
  };
}
