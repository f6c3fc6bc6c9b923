/** Shared by the tests of pushing: a server behind a counting proxy, folders to push, states that are closed. */
import { join } from 'node:path';
import { type Client, createClient, SILENT_PROGRESS } from '../../packages/client/internal.ts';
import { findZstd } from '../../packages/files/index.ts';
import {
  type FolderState,
  MemoryState,
  type PushedFolder,
  type PushFolderOptions,
  pushFolder,
  TreeState,
} from '../../packages/files/push.ts';
import { type CountingProxy, startCountingProxy } from './counting-proxy.ts';
import { APP, type RunningServer, startFreshServer } from './running-server.ts';
import { makeTempFolder } from './temp-folder.ts';

export class PushWorld {
  readonly proxy: CountingProxy;
  readonly #running: RunningServer;
  readonly #folder = makeTempFolder('push');
  readonly #states: FolderState[] = [];
  #count = 0;

  static async start(options: { readonly offersBulk?: boolean } = {}): Promise<PushWorld> {
    return new PushWorld(await startFreshServer('push-server'), options);
  }

  private constructor(running: RunningServer, options: { readonly offersBulk?: boolean }) {
    this.#running = running;
    this.proxy = startCountingProxy(running.server.url, options);
  }

  async end(): Promise<void> {
    await this.proxy.close();
    await this.#running.remove();
    this.#folder.remove();
  }

  /** A path where nothing is yet. */
  fresh(name: string): string {
    this.#count += 1;
    return join(this.#folder.path, `${name}-${this.#count}`);
  }

  connect(spaceId: string): Client {
    const token = this.#running.issuer.token(spaceId);
    return createClient({
      baseUrl: this.proxy.url,
      appId: APP,
      spaceId,
      token,
      retry: { attemptsMax: 1 },
      zstd: findZstd(),
    });
  }

  openState(path?: string): FolderState {
    const state = path === undefined ? new MemoryState() : TreeState.open(path);
    this.#states.push(state);
    return state;
  }

  closeStates(): void {
    for (const state of this.#states.splice(0)) state.close();
  }

  options(path: string, changes: Partial<PushFolderOptions> = {}): PushFolderOptions {
    return {
      client: this.connect('space'),
      path,
      state: changes.state ?? this.openState(),
      ignorePatterns: [],
      ignoreFileNames: ['.holdfastignore'],
      recordsMtime: false,
      skipsSpecial: false,
      isStrict: true,
      leaseDurationMs: 600_000,
      check: false,
      parallelMax: 16,
      progress: SILENT_PROGRESS,
      ...changes,
    };
  }

  /** A push with its own Space and state unless told otherwise, and the requests it took. */
  async push(path: string, options: Partial<PushFolderOptions> & { readonly space?: string } = {}) {
    const { space = `space-${++this.#count}`, ...rest } = options;
    this.proxy.forget();
    const result: PushedFolder = await pushFolder(
      this.options(path, { client: this.connect(space), ...rest }),
    );
    // A server on a busy machine may ask for a request to be sent once more.
    const requests = this.proxy.passed.filter(({ status }) => status !== 429 && status !== 503);
    return { ...result, space, requests };
  }
}
