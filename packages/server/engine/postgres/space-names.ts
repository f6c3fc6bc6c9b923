/** The names of a Space. The key is their digest, so a wrong bit is found, and the names are proven once it is right. */
import type { Space, SpaceKey } from '../../core/model.ts';
import { SpaceMap, spaceKeyOf } from '../../core/space-map.ts';
import type { SqlRow } from './wire/wire-messages.ts';

/** Remembers the keys of Spaces: computing the digest costs more than everything else this process does for a renewal. */
export class SpaceKeys {
  readonly #known = new SpaceMap<SpaceKey>(10_000);

  of(space: Space): SpaceKey {
    return this.#known.find(space) ?? this.#learn(space);
  }

  #learn(space: Space): SpaceKey {
    const key = spaceKeyOf(space);
    this.#known.remember(space, key);
    return key;
  }
}

const encoder = new TextEncoder();
/** Bits that are no text are no names. */
const decoder = new TextDecoder('utf-8', { fatal: true, ignoreBOM: true });

/** PostgreSQL writes a uuid with dashes. */
export const spaceKeyFromSql = (uuid: unknown): string => (uuid as string).replaceAll('-', '');

/** undefined: no row of `spaces` has the key that was found in another row, so that one is damaged */
export function findSpaceInSql({ space: key, app_id, space_id }: SqlRow): Space | undefined {
  if (app_id === null) return undefined;
  const space = { appId: app_id as string, spaceId: space_id as string };
  const wanted = spaceKeyFromSql(key);
  return spaceKeyOf(space) === wanted ? space : (findMended(space, wanted) ?? space);
}

export function spacesFromSql(rows: readonly SqlRow[]): { readonly space: Space; readonly row: SqlRow }[] {
  return rows.flatMap((row) => {
    const space = findSpaceInSql(row);
    return space === undefined ? [] : [{ space, row }];
  });
}

/** The names that differ from these by one bit and have this key. */
function findMended({ appId, spaceId }: Space, key: string): Space | undefined {
  for (const name of flippedTexts(appId))
    if (spaceKeyOf({ appId: name, spaceId }) === key) return { appId: name, spaceId };
  for (const name of flippedTexts(spaceId))
    if (spaceKeyOf({ appId, spaceId: name }) === key) return { appId, spaceId: name };
  return undefined;
}

function* flippedTexts(text: string): Generator<string> {
  const bytes = encoder.encode(text);
  for (const [at, byte] of bytes.entries()) {
    for (let bit = 0; bit < 8; bit += 1) {
      bytes[at] = byte ^ (1 << bit);
      try {
        yield decoder.decode(bytes);
      } catch {
        // No text has these bytes.
      }
    }
    bytes[at] = byte;
  }
}
