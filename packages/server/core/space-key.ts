/** The name of a Space in engines and object keys: of fixed length, evenly spread, without a trace of the ids. Pure. */
import { bytesToHash } from '@holdfast/protocol';
import type { Space, SpaceKey } from './model.ts';
import { sha256 } from './sha256.ts';

/** The length before the first id tells apart pairs of ids that would join to the same text. */
export function spaceKeyOf({ appId, spaceId }: Space): SpaceKey {
  return bytesToHash(sha256(`${appId.length}:${appId}${spaceId}`)).slice(0, 32);
}
