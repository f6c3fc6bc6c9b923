/** Messages between the pull and the thread that makes small files. */

/** With which the thread is started. */
export interface WriterData {
  readonly pages: readonly SharedArrayBuffer[];
}

/** To the thread: the files of this page are to be written. */
export interface FilledPage {
  /** position in `pages` */
  readonly page: number;
  readonly count: number;
}

export type FailedFile = {
  /** position in the page */
  readonly index: number;
} & (
  | { readonly placed: 'appeared' | 'unproven' }
  | { readonly placed?: undefined; readonly message: string; readonly code: string | undefined }
);

/** From the thread, once: it has loaded all that it needs. Before that it touches no page. */
export const THREAD_READY = 'ready';

/** From the thread: all files of the page are written but for these. */
export interface WrittenPage {
  readonly page: number;
  /** each was placed in one step with the look at what stands there */
  readonly isExclusive: boolean;
  readonly failed: readonly FailedFile[];
}
