/** A group of a pack's records as one list for each field: an object with buffers for each record costs five times as much. */
import { concatBytes, HASH_BYTES } from '@holdfast/protocol';
import type { Generation, PackCodec } from '../../../core/model.ts';
import type { JudgedRecord } from '../../../core/pack-ports.ts';
import type { PackGroup } from '../../../core/packs/publish-group.ts';

export const HASH_DIGITS = 2 * HASH_BYTES;
const NO_REFS = new Uint8Array(0);

export type GroupMessage = Omit<PackGroup, 'records'> & { readonly lists: RecordLists };

interface RecordLists {
  /** the object that all of them lie in */
  readonly pack: Generation;
  /** joined: all are of one length */
  readonly hashes: string;
  /** distinct */
  readonly contentTypes: readonly string[];
  /** NUMBERS for each record */
  readonly numbers: Float64Array;
  /** of all records, joined */
  readonly refs: Uint8Array;
  readonly integrities: Uint8Array;
}

/** index, size, canonicalSize, offset, storedLength, codec, index in `contentTypes`, bytes of refs, bytes of integrity */
const NUMBERS = 9;

export function toGroupMessage({ records, ...group }: PackGroup): GroupMessage {
  const numbers = new Float64Array(records.length * NUMBERS);
  const contentTypes: string[] = [];
  let hashes = '';
  for (const [
    at,
    { index, hash, size, canonicalSize, contentType, refs, place, integrity },
  ] of records.entries()) {
    const { offset, storedLength, codec } = place;
    let type = contentTypes.indexOf(contentType);
    if (type < 0) type = contentTypes.push(contentType) - 1;
    const sizes = [index, size, canonicalSize, offset, storedLength, codec];
    numbers.set([...sizes, type, refs.length, integrity.length], at * NUMBERS);
    hashes += hash;
  }
  const pack = records[0]?.place.pack ?? group.generation;
  const refs = concatBytes(records.map((record) => record.refs));
  const integrities = concatBytes(records.map((record) => record.integrity));
  return { ...group, lists: { pack, hashes, contentTypes, numbers, refs, integrities } };
}

export function fromGroupMessage({ lists, ...group }: GroupMessage): PackGroup {
  const { pack, hashes, contentTypes, numbers, refs, integrities } = lists;
  const records: JudgedRecord[] = [];
  let refsAt = 0;
  let integrityAt = 0;
  for (let at = 0; at < numbers.length; at += NUMBERS) {
    const [index, size, canonicalSize, offset, storedLength, codec, type, refsLength, integrityLength] =
      numbers.subarray(at, at + NUMBERS) as unknown as NineNumbers;
    const hashAt = records.length * HASH_DIGITS;
    records.push({
      index,
      hash: hashes.slice(hashAt, hashAt + HASH_DIGITS),
      size,
      canonicalSize,
      contentType: contentTypes[type] as string,
      // A copy: the row stays in memory, and a view would keep those of the whole group there.
      refs: refsLength === 0 ? NO_REFS : refs.slice(refsAt, refsAt + refsLength),
      place: { pack, offset, storedLength, codec: codec as PackCodec },
      integrity: integrities.subarray(integrityAt, integrityAt + integrityLength),
    });
    refsAt += refsLength;
    integrityAt += integrityLength;
  }
  return { ...group, records };
}

type NineNumbers = readonly [number, number, number, number, number, number, number, number, number];
