/** Timing as a decorator of the ports: the rules run unchanged over ports that record their calls. */
import type { Core } from '../core/core.ts';
import type { RequestTiming } from './request-timing.ts';
import { TimedContentStore } from './timed-content-store.ts';
import { TimedMetadataStore } from './timed-metadata-store.ts';

/** The same core for one request, its ports timed. */
export function withTiming(core: Core, timing: RequestTiming): Core {
  return {
    metadata: new TimedMetadataStore(core.metadata, timing),
    content: new TimedContentStore(core.content, timing),
    random: core.random,
    signer: core.signer,
    rottenNodes: core.rottenNodes,
    settings: core.settings,
  };
}
