/** Packs that the server makes itself, of what it has stored already. */
import { PACK_ID_BYTES } from '@holdfast/protocol';
import type { Core } from '../core.ts';
import { makeGenerationDigits } from '../generation.ts';
import type { Generation } from '../model.ts';
import { NOTHING_STORED } from '../quotas.ts';
import { sha256 } from '../sha256.ts';
import { createPackGeneration } from './pack-generations.ts';
import type { PackRow } from './pack-model.ts';

export function createOwnPackGeneration(core: Core, now: number): Generation {
  return createPackGeneration(now, makeGenerationDigits(core.random));
}

/** The row of a pack whose object is durable: judged, because all of its records were proven. */
export function makeOwnPack(
  core: Core,
  now: number,
  object: { readonly generation: Generation; readonly bytes: number; readonly records: number },
): PackRow {
  const { generation, bytes, records } = object;
  return {
    id: Buffer.from(core.random.bytes(PACK_ID_BYTES)).toString('hex'),
    generation,
    state: 'judged',
    ...{ createdAt: now, urlExpiresAt: 0, touchedAt: now },
    asked: sha256(generation),
    bytes,
    publishedCount: records,
    reserved: NOTHING_STORED,
    isDiscarded: false,
  };
}
