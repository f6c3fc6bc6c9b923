/** The messages between the supervisor and its workers. */
import type { MetricsSnapshot } from '../metrics/registry.ts';
import type { ServeConfig } from './config.ts';

export type ToWorker =
  | {
      readonly kind: 'start';
      readonly config: ServeConfig;
      readonly worker: number;
      readonly port: number;
      /** no other worker has been started yet */
      readonly isAlone: boolean;
    }
  | { readonly kind: 'read-metrics' }
  | { readonly kind: 'drain' };

export type FromWorker =
  | { readonly kind: 'ready' }
  | { readonly kind: 'listening'; readonly port: number }
  | { readonly kind: 'metrics'; readonly snapshot: MetricsSnapshot }
  /** the worker did not start; `message` is one line for the user */
  | { readonly kind: 'failed'; readonly message: string };
