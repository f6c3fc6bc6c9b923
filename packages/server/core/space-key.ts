/** How engines and object keys name a Space: fixed length, spread evenly, and telling nothing of the ids. Pure. */
import { bytesToHash } from '@holdfast/protocol';
import type { Space, SpaceKey } from './model.ts';
import { sha256 } from './sha256.ts';

const SPACE_KEY_DIGITS = 32;

/** The length before the first id keeps ids that run together apart. */
export function spaceKeyOf({ appId, spaceId }: Space): SpaceKey {
  return bytesToHash(sha256(`${appId.length}:${appId}${spaceId}`)).slice(0, SPACE_KEY_DIGITS);
}
