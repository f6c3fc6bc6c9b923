/** The state of a push as the command line keeps it. It is a hint that may be lost, except where a commit needs it. */
import {
  defaultCacheFolder,
  type FolderState,
  MemoryState,
  openTemporaryState,
  openTreeState,
  TreeStateBusyError,
  type TreeStateLostError,
} from '@holdfast/files/push';
import { CliError } from '../cli-error.ts';
import { describeFileError } from '../files.ts';
import { resolvePath } from './given-path.ts';

export interface PushStateOptions {
  /** absolute, of what is pushed */
  readonly path: string;
  readonly recordsMtime: boolean;
  /** Scope of the commit of the push, a root ref or a snapshot: the id of a commit must outlive the process. */
  readonly commitScope: string | undefined;
  /** a folder that was named; false: nothing of last time counts; undefined: the folder of the user */
  readonly cache: string | false | undefined;
  readonly warn: (message: string) => void;
}

const ADVICE = 'free space on its disk, or choose another with --cache DIR';

export class PushState {
  readonly #options: PushStateOptions;
  /** undefined: the user has no place for one */
  readonly #cacheFolder: string | undefined;
  #state: FolderState;
  #losses = 0;

  /** Throws CliError where it must be kept and cannot. */
  constructor(options: PushStateOptions) {
    this.#options = options;
    this.#cacheFolder =
      typeof options.cache === 'string'
        ? resolvePath(options.cache, { isMadeFolder: true })
        : defaultCacheFolder(process.env);
    this.#state = this.#open();
  }

  /** The current state only: `replace` puts another in its place. */
  get state(): FolderState {
    return this.#state;
  }

  /** Another takes the place of one that was lost; the push begins anew with it. Throws CliError when that is no use. */
  replace(error: TreeStateLostError): void {
    this.#losses += 1;
    // If a state is lost again right after it was made anew, a third attempt would not help.
    if (this.#losses > 2) {
      throw new CliError(
        `the state remembered of this path is lost again and again (${error.message}); choose another folder for it with --cache DIR`,
        { cause: error },
      );
    }
    if (error.reason === 'damaged') this.#beginAnew(error);
    else this.#goWithout(error);
  }

  close(): void {
    try {
      this.#state.close();
    } catch (error) {
      this.#options.warn(
        `not all of this push is remembered: the cache folder ${this.#cacheFolder} cannot be written (${describeFileError(error)}); ${ADVICE}`,
      );
    }
  }

  #beginAnew(error: TreeStateLostError): void {
    const commits = this.#state.discard();
    this.#options.warn(
      `the state remembered of this path is damaged (${error.message}) and is thrown away: the push begins anew`,
    );
    this.#state = this.#open();
    if (commits === undefined) this.#warnOfCommit();
    for (const [scope, commit] of commits ?? []) this.#state.keepCommit(scope, commit);
  }

  #goWithout(error: TreeStateLostError): void {
    const what = `the cache folder ${this.#cacheFolder} cannot be written any more (${error.message})`;
    if (this.#options.commitScope !== undefined) {
      throw new CliError(
        `${what}, and the id of a root ref or snapshot must be kept before it is sent: none was committed; ${ADVICE}`,
        { cause: error },
      );
    }
    this.#state.close();
    this.#options.warn(`nothing more is remembered of this push: ${what}; ${ADVICE}`);
    this.#state = this.#losses === 1 ? openTemporaryState() : new MemoryState();
  }

  #open(): FolderState {
    const { cache, commitScope, path, recordsMtime } = this.#options;
    const cacheFolder = this.#cacheFolder;
    if (cacheFolder === undefined) {
      return this.#openUnremembered('there is no home folder for it; set HOME, or give --cache DIR');
    }
    try {
      const state = openTreeState({ cacheFolder, path, recordsMtime, commitScope });
      if (state.isReplacement) this.#warnOfCommit();
      return state;
    } catch (error) {
      const isNoFolder = error instanceof Error && 'code' in error && error.code === 'EEXIST';
      const reason = isNoFolder ? 'something else than a folder stands there' : describeFileError(error);
      const what = `the cache folder ${cacheFolder} cannot be used: ${reason}`;
      if (typeof cache === 'string' || error instanceof TreeStateBusyError) {
        throw new CliError(`${what}; choose another with --cache DIR`, { cause: error });
      }
      return this.#openUnremembered(what);
    }
  }

  /** In a container there may be no folder that this user can write. */
  #openUnremembered(why: string): FolderState {
    const { commitScope, warn } = this.#options;
    const twice = '. If it is interrupted while it commits, its root ref or snapshot may be there twice';
    warn(`nothing will be remembered of this push: ${why}${commitScope === undefined ? '' : twice}`);
    return openTemporaryState();
  }

  #warnOfCommit(): void {
    if (this.#options.commitScope === undefined) return;
    this.#options.warn(
      'the state remembered of this path could not be read: if a push of it with --root-ref or --name was interrupted, its root ref or snapshot may be there twice now; look with: holdfast refs list, or holdfast snapshots',
    );
  }
}
